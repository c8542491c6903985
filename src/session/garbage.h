/* What is left behind: roots that were being computed when something was killed, and layers that no state needs. */
#pragma once

#include "session/node.h"

struct garbage { /* what a run did */
    uint64_t layers_kept, layers_removed, objects_kept, objects_removed, removed_bytes, used_bytes;
    uint64_t states_dropped;
};
typedef void on_collected(void *arg, const struct garbage *g, const struct err *e);

/* Removes what is reachable neither from a recorded state nor from a living box. If states take more than state.budget,
 * those without a name of ended boxes go: of the box that ended first before others, and its latest state first, because
 * a later state stands on the layers of the earlier ones. dry: only counts, and drops no state. */
void garbage_collect(struct node *n, bool dry, on_collected *cb, void *arg);
void garbage_sweep(struct node *n); /* now and then: starts what is due */

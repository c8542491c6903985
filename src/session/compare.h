/* The difference of two states, as one piece of JSON. */
#pragma once

#include "session/state.h"

typedef void on_compared(void *arg, struct str members, const struct err *e); /* {"added":...,"rows":[...]} */

/* a NULL: the image of b. */
void states_compare(struct node *n, const struct state *a, const struct state *b, bool text, on_compared *cb,
                    void *arg);

/* What a box is made from beside its image: a repository at a commit, commands that set it up, and the words of the
 * task (its tests, its language, its work directory, how long a call may take).
 *
 * The clone is made in a helper, a box of its own that has the network and is gone afterwards; what it leaves is a
 * state, and the agent's box, whose network is its own business, begins with that state. Reset goes back to it, and
 * runs the set-up again. All of it is one JSON object, box.origin, which is recorded, printed, and carried by forks. */
#pragma once

#include "session/node.h"
#include "session/state.h"

bool origin_is_key(struct str name);
/* The keys of config that are ours. Fills ask->origin_of if there is any. */
int origin_check(const struct json *config, struct box_ask *ask, struct err *e);
/* Has its URL a name and a secret in it? */
bool origin_has_secret(const struct json *config);
/* Is the box as the key of a session's config asks? */
int origin_fits(const struct box *b, const struct json *key, struct err *e);

/* The box of this config, whose seat is asked for once its state is there; `ready` then goes on with b->spec. */
int origin_begin(struct box *b, const struct json *config, void (*ready)(struct box *b, const struct err *e),
                 struct err *e);
void origin_take(struct box *b, struct str json); /* of a fork, or of an earlier serve */

/* What reset goes back to: the commit, with the set-up run again. */
bool origin_has_state(const struct box *b);
void origin_again(struct box *b, on_state *cb, void *arg);

/* The script with which a shell begins that no state tells where to begin. */
struct str origin_shell(struct box *b);
/* What the box was made with stands for what a call leaves out. */
void origin_fill(const struct box *b, const struct tool *t, struct arena *a, void *params);

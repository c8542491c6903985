/* Putting a box back into a state, and making more boxes from one. Create, fork, restore and reset are one path: a seat
 * and layers. */
#pragma once

#include "session/state.h"

/* Which state: by id or name, or that after a step of a trajectory; or none, for the box as it is or its image. */
struct time_ask {
    struct str state, trajectory;
    int64_t step;        /* FIELD_ABSENT: none */
    const char *only_of; /* nullable: the box that it must have been taken of */
    uint64_t call;       /* that asks for it: the log says of a box by which it was made or put back; 0: none */
};

struct rewound {
    char state_id[40], root[STATE_ROOT_MAX]; /* "": the bare image; not known */
    bool proved;
    const char *fidelity;
    struct str sessions; /* JSON: what of its interpreters came along; absent: there were none */
};
void rewound_print(const struct rewound *r, struct jw *w);                                       /* members */
typedef void on_rewound(void *arg, struct box *b, const struct rewound *r, const struct err *e); /* e NULL: fine */

/* The same box, its id and its sessions, with the files of a state (none asked for: of the bare image). Its processes
 * end, calls that run in it are killed; it is as it was if a new seat cannot be had. With proof, the root is first
 * computed again from what is on disk; a difference quarantines the state: nothing is restored from it, and the box:
 * see quarantine.h. A box in quarantine goes nowhere without proof. */
void box_rewind(struct box *b, const struct time_ask *ask, bool proof, on_rewound *cb, void *arg);
void box_rewind_state(struct box *b, const struct state *s, bool proof, on_rewound *cb, void *arg); /* to a known one */

/* More boxes. */
struct forked_copy {
    struct forks *all;
    char id[BOX_ID_MAX];
    int64_t setup_us;
    bool failed;
    struct err error;
};
struct forks {
    char state_id[40];
    bool proved;
    const char *fidelity;
    struct str sessions; /* as in struct rewound */
    uint64_t call;
    size_t total, done, made;
    struct forked_copy *copies;
};
typedef void on_forked(void *arg, const struct forks *f, const struct err *e); /* e: none was tried */
/* From a state, or from b as it is now. Without b they have the settings of the box that the state was taken of. */
void box_fork(struct node *n, struct tenant *t, struct box *b, const struct time_ask *ask, size_t copies, on_forked *cb,
              void *arg);
void forks_print(const struct forks *f, struct jw *w); /* members */

struct trajectory *box_trajectory(struct box *b); /* of whoever calls it, NULL: nobody has yet */

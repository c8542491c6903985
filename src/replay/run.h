/* Replaying: every step is run again, what comes out is compared, and what differs is run once more to tell what is
 * random from what has changed. How a step is run is the caller's (the command line does it over HTTP, tests do not).
 */
#pragma once

#include "replay/compare.h"

enum replay_world {
    WORLD_MAIN,    /* where the trajectory is replayed */
    WORLD_SCRATCH, /* a second one from the same beginning: steps are run again there, nothing in MAIN notices */
};

struct replay_step {
    const struct traj_step *want;
    struct traj_step got;
    bool ran;
    struct verdict verdict;
    struct str diff, cause;
    bool files_differ; /* the state is another one, of this step or of an earlier one */
    const char *again; /* nullable: what running it again said, or why it was not */
};

struct replay_ops {
    void *arg;
    /* Fills got by traj_result(). < 0 ends the replay: no server, no box. */
    int (*call)(void *arg, enum replay_world w, const struct traj_step *s, struct arena *a, struct traj_step *got,
                struct err *e);
    /* Nullable: what differs between two states, as rows of GET /sg/v1/diff. < 0: it cannot be told. */
    int (*diff)(void *arg, struct str a, struct str b, struct arena *arena, const struct json **ret_rows);
    bool has_scratch; /* else only steps that merely read are run again, in MAIN */
    bool once;        /* run nothing again */
    void (*on_step)(void *arg, const struct replay_step *s, size_t i, size_t n); /* nullable */
};

struct replay_result {
    struct replay_step *steps;
    size_t total, completed;
    size_t counts[CLASS_COUNT];
    int64_t divergence_step; /* index of the first step that matters, from 0; -1: none */
    int64_t first_different; /* the same, but also steps that are only nondeterministic */
    double match;            /* identical and benign among all that were compared; 1 if none were */
    bool success;            /* all completed, and no step that matters */
};

/* On failure *ret still holds the steps so far. */
int replay_run(const struct trajectory *t, struct canon *c, const struct replay_ops *ops, struct arena *a,
               struct replay_result *ret, struct err *e);
bool replay_matters(const struct replay_step *s);
/* Members of the result, without braces: knowlyr's (success, total_steps, completed_steps, divergence_step, details)
 * and ours. */
void replay_print(struct jw *w, struct arena *a, const struct replay_result *r);

/* A program that runs in the background, with pipes of its own: bash:start and its kin. */
#pragma once

#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "init/spool.h"

struct init;
struct job;
struct task;

typedef void on_job(void *arg, struct job *j); /* something happened: output, end, or the wait is over */

enum { JOB_PACE = 1 << 20, JOB_PACE_MS = 5000, JOB_EXPECT_MS = 500 };

struct job_state {
    const char *id, *command;
    bool running;
    int exit_code, sig; /* once it ended; sig 0: it exited by itself */
    int64_t pid, started_us, ended_us;
    struct spool *out, *err;
};

struct job *job_start(struct init *in, struct str command, const char *cwd, const struct pairs *env, struct err *e);
struct job *job_find(struct init *in, struct str id, struct err *e);
struct job *job_next(struct init *in, struct job *j); /* NULL: the newest */
struct job_state job_describe(struct job *j);
/* cb is called once, later: when the pid is known. */
void job_on_started(struct job *j, on_job *cb, void *arg);
/* cb is called once: at the end or, unless only that is wanted, the next output; or after wait_ms. */
void job_wait(struct job *j, int64_t wait_ms, bool only_end, on_job *cb, void *arg);
void job_unwait(struct init *in, void *arg); /* arg's wait is not wanted any more */
/* arg has read so far, and is waited for: the program stands still before what it has not read is given up, as long as it
 * takes JOB_PACE bytes in each JOB_PACE_MS. Called again when it has read more; and once it is gone, job_unfollow. */
void job_follow(struct job *j, void *arg, int64_t out, int64_t err);
void job_unfollow(struct init *in, void *arg);
void job_expect(struct job *j); /* somebody may come to follow it: it waits for him, too, but for JOB_EXPECT_MS only */
/* The task's result has output of the job up to these places; and what was not passed on of it. */
void job_piece(struct job *j, struct task *t, int64_t to, int64_t err_to);
void job_held(struct task *t, int64_t out, int64_t err);
/* How long to wait for something behind these places, at most max_ms; 0: it is there, or the job ended. */
int64_t job_patience(struct job *j, int64_t from, int64_t err_from, int64_t max_ms);
int job_input(struct job *j, struct str data, bool eof, struct err *e);
void job_signal(struct job *j, int sig); /* the whole tree, or what an ended one left; SIGKILL leaves none */

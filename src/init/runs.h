/* Commands that each have a process of their own, in sessions that only remember where they begin (what the AIO surface
 * calls bash). The processes are jobs: job.h. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "init/job.h"

struct init;
struct loop_timer;

enum run_status { RUN_RUNNING, RUN_COMPLETED, RUN_TIMED_OUT, RUN_KILLED };

struct run {
    struct run *next; /* older */
    struct run_session *session;
    char id[24]; /* the job's */
    char *command;
    enum run_status status;
    int exit_code; /* of a signal: its negative number; timed out: -1 */
    bool killed;   /* somebody sent a signal that ends programs */
    struct loop_timer *hard;
};

struct run_session {
    struct run_session *next;
    struct init *init;
    char *id, *cwd;
    char *snapshot;              /* nullable: sourced before each command */
    int64_t created_us, last_us; /* wall */
    int64_t count;
    struct run *runs; /* newest first */
    unsigned holds;   /* calls that wait for one of them */
    bool closed;
};

struct run_session *run_session_find(struct init *in, struct str id);
/* The one of that id, or a new one; an empty id is a new one. */
struct run_session *run_session_open(struct init *in, struct str id, struct err *e);
void run_session_close(struct run_session *s); /* ends what runs */
void run_hold(struct run *r);                  /* a call waits: it stays, even if its session is closed */
void run_drop(struct run *r);
void run_session_set(char **to, struct str value);

struct run *run_start(struct run_session *s, struct str command, const struct pairs *env, int64_t hard_ms,
                      struct err *e);
struct run *run_find(struct run_session *s, struct str id); /* empty id: the newest; NULL: none */
void run_look(struct run *r);                               /* brings status and exit code up to date */
struct job *run_job(struct run *r);                         /* NULL: its output is not kept any more */
int run_signal(struct run *r, int sig, struct err *e);

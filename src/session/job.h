/* Heavy work (a replay, an export, an import) is done by a process of our own program, beside the loop: it speaks to
 * this server as any client does, with a ticket of the tenant that asked. At most LIMIT_JOBS run at a time; each is nice,
 * bounded in memory, and ends with serve. What they said is kept for a while (LIMIT_JOBS_KEPT of them). */
#pragma once

#include "base/limits.h"
#include "session/node.h"

enum { LIMIT_JOBS = 4, LIMIT_JOBS_KEPT = 64, JOB_ARGS = 48 };
#define LIMIT_JOB_OUTPUT (64 * MiB)
#define LIMIT_JOB_MEMORY (6144 * MiB)

enum job_state { JOB_RUNNING, JOB_DONE, JOB_FAILED };

struct job {
    struct job *next;
    struct node *node;
    struct tenant *tenant;
    char id[24], kind[16];
    enum job_state state;
    int exit_code; /* of the command line: docs/cli.md */
    int64_t started_us, ended_us, done, total;
    struct buf out;    /* all that it wrote, unless somebody takes it */
    char message[256]; /* the last line that it complained */
    void *machinery;
};

struct job_ask {
    struct tenant *tenant;
    const char *kind;           /* "replay" */
    const char *argv[JOB_ARGS]; /* words behind the program's name; NULL-terminated */
    struct str input;           /* on its standard input; copied */
    /* Nullable: whoever takes the output as it comes. false: no more for now, job_more() goes on. */
    bool (*on_output)(void *arg, struct job *j, struct str data);
    void (*on_end)(void *arg, struct job *j); /* nullable; all output was given */
    void *arg;
};

struct job *job_start(struct node *n, const struct job_ask *ask, struct err *e);
void job_more(struct job *j);
void job_forget(struct job *j); /* no callback comes any more; the process is ended */
void job_kill(struct job *j);   /* it ends as failed */
struct job *job_find(struct node *n, const struct tenant *t, struct str id);
struct job *job_next(struct node *n, const struct tenant *t, const struct job *after); /* the newest first */
void job_print(const struct job *j, struct jw *w);                                     /* members */

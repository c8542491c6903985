/* Backends that live in another process: extensions that users write (extension.c) and MCP servers of others
 * (upstream.c). They come and go while the server runs; their tools stand in the same table, so that every surface has
 * them, and their calls are steps like all others.
 *
 *   call --INTENT--> job --send()--> the process --answer--> remote_answer() --RESULT--> whoever waits
 *                      \--deadline--> timeout; the process is told to cancel, a late answer is dropped
 *                      \--the process goes--> infra_error
 *
 * A backend stays in the table when its process is gone, and says so until it is back. */
#pragma once

#include "session/call.h"

#define LIMIT_REMOTES        64   /* processes */
#define LIMIT_REMOTE_TOOLS   512  /* of one */
#define LIMIT_REMOTE_JOBS    1024 /* under way at one process */
#define LIMIT_REMOTE_ANSWER  (32 * MiB)
#define LIMIT_REMOTE_MESSAGE 4096 /* of what went wrong; a result says all of it */

#define REMOTE_ANY "{\"type\":\"object\"}" /* the schema of what nobody described */

struct remote;

struct remote_job {
    struct remote_job *next;
    struct remote *remote;
    uint64_t id;
    struct call *call;                                                             /* a call, or */
    struct session *session;                                                       /* the opening of a session */
    int64_t deadline_ms;                                                           /* 0: none */
    void (*asked)(struct remote_job *j, const struct json *ok, const char *error); /* the owner's own question, or */
    void *arg;
};

struct remote_ops {
    void (*call)(struct remote *r, struct remote_job *j, const struct call *c);
    void (*cancel)(struct remote *r, struct remote_job *j);
    void (*open)(struct remote *r, struct remote_job *j,
                 const struct session *s);                    /* nullable: sessions need no opening */
    void (*close)(struct remote *r, const struct session *s); /* nullable */
};

struct remote {
    struct node *node;
    const struct remote_ops *ops;
    char name[64];
    bool up;
    void *owner;
    struct remote_job *jobs;
    size_t job_count;
    uint64_t last_job;
    struct remote *next;
};

struct remote *remote_new(struct node *n, const char *name, const struct remote_ops *ops, void *owner, struct err *e);
/* What the process offers: an array of {name, kind, help, tools: [{name, title, help, parameters, result, read_only}]}.
 * Replaces what it offered before. A name that somebody else has is an error. */
int remote_offer(struct remote *r, const struct json *backends, struct err *e);
void remote_down(struct remote *r, const char *why); /* its jobs fail; it may come up again */
struct remote_job *remote_ask(struct remote *r, int64_t timeout_ms,
                              void (*asked)(struct remote_job *j, const struct json *ok, const char *error), void *arg);
struct remote_job *remote_find(struct remote *r, uint64_t id);
/* ok: the result, an object; code NULL. Else error: a message; code says whose fault: "invalid" the caller's, "infra"
 * ours, else the tool failed, and may have a result all the same. The job is gone after it. */
void remote_answer(struct remote_job *j, const struct json *ok, const char *code, const char *error);

/* For call.c, session.c, restore.c */
int remote_check(const struct tool *t, const struct json *params, struct err *e); /* do they fit the schema? */
void remote_call(struct call *c);
void remote_send(struct call *c); /* its INTENT is written */
void remote_cancel(struct node *n, uint64_t call);
void remote_open(struct session *s, struct err *e); /* ends with session_up() or session_lost() */
void remote_close(struct session *s);
/* A tool that was in the table of an earlier server, for the calls that it left open. */
const struct tool *remote_gone(struct str name, const struct backend **ret_backend);

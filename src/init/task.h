/* A call that init works on: it begins, is watched by events, and finishes later, once. Its result is kept, and sent
 * again on each new connection, until serve acknowledges it. */
#pragma once

#include "base/arena.h"
#include "base/loop.h"
#include "wire/frame.h"

struct tool;
struct init; /* the whole of pid 1: init/init.h */

struct task {
    struct init *init;
    const struct tool *tool;
    uint64_t id;
    struct wire_call call; /* strings live in arena */
    struct arena arena;    /* until the task is finished */
    int64_t begun_us;
    int64_t cpu_us;                 /* set by the backend, if known */
    int64_t disk_used_bytes;        /* when it began; FIELD_ABSENT: nobody asks */
    void (*cancel)(struct task *t); /* set by the backend in begin(): CANCEL, or the box is ending */
    void *state;                    /* the backend's own */
    void (*done)(struct task *t);   /* init's own call: takes the reply, and nobody else gets it. NULL: serve's */
    struct task *next;
    bool finished;
    struct buf reply;    /* the RESULT frame, kept until ACK */
    int64_t flows;       /* as in wire_result */
    char job[24];        /* whose output the result has, */
    int64_t to[2];       /* up to here: until ACK, HELD may follow */
    struct shell *shell; /* or whose, and of which report; NULL: of none */
    uint64_t report;
    int reply_fds[2]; /* memfds with whole outputs, or -1 */
    int stream;       /* TOOL_STREAM: our end of it, until a hand has it; else -1 */

    struct task *next_wait; /* in the queue for a hand */
    struct task *next_out;  /* in the link's output queue */
    bool queued, acked;
    size_t sent;
    void *arg; /* of done */
};

/* Packs result by the tool's table and sends the RESULT; the task lives on until it is acknowledged.
 * e: what to say about an outcome that is not ok; NULL: nothing. result NULL: none.
 * take_fds: up to two memfds (-1: none), owned by the callee; NULL: none. */
void task_finish(struct task *t, enum outcome o, const struct err *e, const void *result, int64_t dropped_bytes,
                 const int take_fds[2]);
void task_fail(struct task *t, enum outcome o, const struct err *e);
void task_reply_ready(struct task *t); /* the whole frame is in t->reply already: a hand wrote it */

enum outcome outcome_of_err(const struct err *e);

/* A call that init makes to itself, on behalf of another: done is called once with the frame in reply, then the task is
 * freed. state is the caller's only until somebody works on it: arg is for done. */
struct task *task_own(struct init *in, const struct tool *tool, const void *params, void (*done)(struct task *t),
                      void *arg);
/* What its reply says; ret is described by the tool's table and points into the arena. < 0: no result, e says why. */
int task_read_reply(const struct task *t, struct arena *a, void *ret, struct err *e);

/* For the link */
struct task *task_find(struct init *in, uint64_t id);
void task_begin(struct init *in, uint64_t id, const struct wire_call *call); /* borrows call */
void task_cancel(struct task *t);
void task_ack(struct task *t);
void task_free(struct task *t);

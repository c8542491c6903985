/* The life of one tool call, from a surface's request to the recorded answer. */
#pragma once

#include "base/arena.h"
#include "base/json.h"
#include "session/node.h"
#include "wire/frame.h"

struct state;

#define CALL_FOR_THE_SERVER "mcp-hub" /* the surface of calls that nobody asked for: they end with the server */

struct call_request {      /* borrowed until the answer */
    struct tenant *tenant; /* NULL: the default one */
    struct str surface;    /* "agentflow" */
    struct str worker;
    struct str action;         /* tool name, in any accepted spelling */
    const struct json *params; /* NULL: {} */
    int64_t timeout_ms;        /* 0: default */
    struct str key;            /* idempotency key, or absent */
    struct str trace;          /* the client's own id for it, or absent */
    struct str request_id;     /* of the HTTP request that it came by; the audit log has it, too */
    struct str parent;         /* W3C traceparent, or absent */
    struct str trajectory;     /* the client's name for the episode, or absent */
    struct box *box;           /* run in this box, or NULL: the worker's session decides */
    bool person;               /* somebody who sits in front of the screen: may call what is TOOL_PERSON */
    bool by_hand;              /* a verb of the API, not a call of a tool: no doing of the agent's */
    bool only_box;             /* whoever asks may see this box and nothing else */
    bool makes_no_box;         /* whoever asks may not make any */
    bool box_gone;             /* it should run in a box that is not there any more */
    enum call_forward { FORWARD_NO, FORWARD_ON, FORWARD_BEGIN } forward; /* answer from the log: call_forward.c */
    bool forward_branch; /* a call that differs ends it, and goes on under a new name; else it is refused */
    /* Nullable: has whoever waits for the answer hung up? Called with the arg of the callback. */
    bool (*abandoned)(void *arg);
    /* For a TOOL_STREAM: the call's byte stream, a socket for recv and send with MSG_DONTWAIT; at most once, before the
     * answer. shutdown(SHUT_WR) says that all was sent; a close before that, that the rest will not come. */
    void (*on_stream)(void *arg, int take_fd);
};

enum { CALL_BLOBS_MAX = 8 };
enum call_state { CALL_NEW, CALL_LOOKUP, CALL_QUEUED, CALL_RUNNING, CALL_STORING, CALL_DONE };

struct call { /* also the answer: surfaces read it in their callback */
    /* who and what */
    struct node *node;
    struct tenant *tenant;
    struct worker *worker;   /* NULL only if the worker id was refused */
    struct session *session; /* nullable */
    struct box *box;         /* nullable; valid while running */
    char chosen
        [BOX_ID_MAX]; /* the box that its surface chose; "": none. It may end while recorder is asked: call_chosen */
    const struct tool *tool; /* NULL: not found */
    const struct backend *backend;
    struct str surface, worker_id, action, params, key, trace; /* params: verbatim JSON */
    struct str map_key;                                        /* of key, in node->keys */
    struct str request_id, parent;
    char key_hash[33];
    struct trajectory *trajectory;
    char session_id[160], box_id[BOX_ID_MAX];
    uint64_t id;
    int64_t step; /* 0: none, the call was refused before it had a worker */
    bool temporary;
    bool silent; /* prepares a session; is not recorded and is no step */
    /* how it went */
    enum outcome outcome;
    bool retry_safe, trainable, replayed;
    bool
        blameless; /* no doing of the agent's: its box stood still meanwhile, or its client gave it the key of another */
    bool unrecorded; /* refused without a trace */
    enum err_code error;
    int sys;                  /* errno, if the tool said one */
    int code;                 /* AgentFlow's wire code, which is also recorded */
    struct str message, data; /* data: JSON text, or absent */
    struct str candidates;    /* JSON strings, for an ambiguous name */
    struct str logged;        /* data as the log has it: without what is in blobs; absent: the same */
    struct str blobs;         /* JSON object of {hash, bytes, type} by name, or absent */
    char state_id[40];        /* the state after it, if the box keeps one after every step */
    int64_t timeout_ms, queued_us, run_us, total_us, cpu_us, peak_bytes, dropped_bytes;
    int64_t pids_peak, disk_used_bytes; /* of the box, as docs/operations.md says; -1: not known */
    uint32_t unenforced;
    /* machinery */
    struct call_request request;
    enum call_state state;
    struct arena arena;
    struct call *next;
    int64_t arrived_us, sent_us, started_wall_us; /* monotonic, monotonic, wall */
    int64_t deadline_ms;                          /* backstop; 0: none */
    bool cancelled, known;
    bool unwanted;                /* cancelled by its caller */
    bool resumed;                 /* begun by an earlier serve: the log knows more of it than we do */
    void *bound;                  /* params struct */
    struct str remote_params;     /* instead, for a tool of another process: JSON, with the values of secrets */
    struct err bind_error;        /* code 0: none */
    void *stream_arg;             /* for request.on_stream; NULL: it was called */
    const struct state *compared; /* tools about the box: the older of two states */
    int64_t cpu_before;
    struct buf out;
    struct call_blob { /* on its way to recorder: call_blob.c */
        char name[24];
        const char *type; /* of a picture, else NULL */
        int fd;           /* -1: it is stored */
    } keep[CALL_BLOBS_MAX];
    size_t keep_count, kept;
    void (*stored)(struct call *c);
    struct call_waiter {
        struct call_waiter *next;
        void (*cb)(void *arg, const struct call *c);
        bool (*abandoned)(void *arg); /* nullable */
        void *arg;
    } * waiters;
    struct call *next_of_worker;
    /* what is done as soon as its newest record is in the log */
    enum call_commit { COMMIT_NOTHING, COMMIT_SEND, COMMIT_ANSWER } commit;
    struct call *next_commit;
    struct buf packed; /* parameters for init */
};

static inline struct str call_logged(const struct call *c)
{
    return c->logged.p ? c->logged : c->data.p ? c->data : STR("null");
}

typedef void on_call_done(void *arg, const struct call *c);

/* At the end of each turn: writes the records of all calls at once, then lets them act: into the box, or to the client.
 */
void call_commit(void *node);

/* Always ends with exactly one callback, perhaps before it returns. Returns the call's id. */
uint64_t call_start(struct node *n, const struct call_request *r, on_call_done *cb, void *arg);
int call_warm_up(struct node *n, const struct backend *b, struct err *e); /* once per backend */
/* Calls whose answer somebody waits for, whatever carries it; but not those that last as long as the server does. */
size_t calls_awaited(const struct node *n);
void call_cancel(struct node *n, uint64_t id); /* its caller does not want it any more; no such call: nothing */
void call_cancel_backstop(struct node *n, int64_t now); /* from the sweep */

/* For session.c, box.c, restore.c */
/* A call before all others of its session that is no step: it prepares the session or asks it about itself. */
void call_silent(struct session *s, const struct tool *t, void *bound, on_call_done *cb, void *arg);
/* The same with parameters as JSON; timeout_ms 0: the default. False: they do not fit the tool. */
bool call_silent_json(struct session *s, const struct tool *t, struct str params, int64_t timeout_ms, on_call_done *cb,
                      void *arg);
/* The same with a shell's command; false: the backend has no such tool, or the session is busy. */
/* Has a session of a box that was made from a state begin where the other one was; false: there is nothing to do. */
bool call_shell_begin(struct session *s, on_call_done *cb, void *arg);
bool call_shell_state(struct box *b, on_call_done *cb, void *arg); /* asks the first idle session that can say it */
void call_send(struct call *c);                                    /* it is the call's turn */
void call_leave_session(struct call *c);                           /* its next call may run */
void call_fail(struct call *c, enum outcome o, const struct err *e, bool retry_safe);
void call_stream(struct call *c, int take_fd);
void call_result(struct call *c, const struct wire_result *r, const int *take_fds);
struct call *call_find(struct node *n, uint64_t id);
struct call *call_resume(struct node *n, const struct json *intent, struct box *b); /* left open by an earlier serve */
void box_tool_resume(struct call *c); /* the same for a tool about the box itself: the log tells what became of it */

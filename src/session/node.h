/* All that serve knows: boxes, workers, their sessions, and the calls under way.
 *
 *   worker ─┬─ trajectory (steps are numbered here)
 *           └─ session (worker, resource) ── box ── link to its init
 *   call ──── session, or none for tools without a box
 *
 * Invariants (node_check() asserts them in debug builds):
 *  1. An INTENT is in the journal before its CALL is sent; a RESULT before anyone is answered, and before the ACK.
 *  2. A call is in exactly one list: its session's queue, its box's running list, or none while it waits for the
 *     recorder (key look-up, blob, sync).
 *  3. A box lives while a session or its own creator holds it; the last one to let go destroys it. */
#pragma once

#include <time.h>

#include "base/loop.h"
#include "base/map.h"
#include "session/seats.h"
#include "session/secret.h"
#include "session/tenant.h"
#include "store/journal.h"
#include "tool/tool.h"
#include "wire/outcome.h"

struct link;
struct recorder_client;
struct box;
struct session;
struct call;
struct forward;

enum durability { DURABILITY_NONE, DURABILITY_BATCH, DURABILITY_STEP };

struct node_opts {
    const char *home;
    struct box_spec spec; /* default of every box */
    int64_t box_ttl_ms;   /* 0: until destroyed */
    int64_t state_budget; /* bytes of states on disk; 0: no limit */
    int64_t gc_interval_ms, gc_grace_ms;
    int64_t retention_age_ms, retention_count; /* 0: no limit */
    const char *retention_keep_tags;           /* "a,b" */
    int64_t box_max;
    const char *box_workspace; /* where relative paths begin */
    const char *box_proxy;     /* of the default box; "": none */
    const char *box_mounts;    /* the default box has these directories of the host: "/a:/b"; "": none */
    const char *ready_ports;   /* of the default box: "80,8080"; "": none */
    int64_t session_ttl_ms;
    int64_t call_timeout_ms, call_timeout_max_ms;
    int64_t repo_timeout_ms; /* of a clone, and of each set-up command */
    int64_t output_head, output_tail, output_kept;
    enum durability durability;
    bool test_backends;
    const char *quota_file;           /* "": nobody has quotas */
    const char *secret_key_file;      /* "": one in the home */
    const char *agentflow_config_dir; /* "": init/from-config reads nothing */
    int mcp_profile;                  /* which tools a client of MCP sees that asks for no profile */
    bool browser_headed;              /* in all boxes, unless one was told otherwise */
    bool mcp_bare;                    /* POST /mcp without jsonrpc and id is answered with plain JSON */
};

struct node {
    struct loop *loop;
    struct node_opts opts;
    struct journal *journal;
    struct recorder_client *recorder;
    struct seats *seats;
    struct map tenants;        /* name -> struct tenant */
    struct tenant *tenant;     /* the default one */
    struct tenant_quota quota; /* of a tenant that quota.file does not name */
    struct timespec quota_seen;
    struct secrets *secrets;
    struct map boxes;        /* id -> struct box */
    struct map seated;       /* seat -> struct box */
    struct map box_keys;     /* tenant's key of the idempotency key -> struct box */
    struct map workers;      /* tenant's key of the id -> struct worker */
    struct map trajectories; /* the same -> struct trajectory, those in use */
    struct call *commits;    /* calls that wait for their newest record to be written */
    struct call **commits_last;
    struct map calls;   /* call id (8 bytes) -> struct call, those in or on their way to a box */
    struct map keys;    /* tenant's key of the idempotency key -> struct call, while it runs */
    struct map warm;    /* backend name -> backend, once warmed */
    struct buf scratch; /* for building one record */
    struct loop_timer *sweep;
    bool roots_missing; /* there may be states whose hashing was cut short */
    bool hashing_late, collecting;
    int64_t collected_ms; /* when garbage was last removed */
    uint64_t last_call;
    int64_t started_us;
    size_t session_count;
    size_t box_count;                                 /* with those that are being made, which have no id yet */
    bool ready;                                       /* what an earlier serve left has been taken over */
    bool full;                                        /* the log takes no new calls, and that was said */
    void (*on_step)(void *arg, const struct call *c); /* a step was recorded: event streams */
    void (*on_tools)(void *arg);                      /* tools came or changed */
    void (*on_ready)(void *arg);
    void (*on_shutdown)(void *arg); /* an administrator asked for it */
    int64_t pruned_ms;              /* retention.c */
    char self_url[160];             /* where our own jobs reach us */
    /* Nullable: what a job of this tenant shows at the door; empty: nothing is asked for. */
    struct str (*job_ticket)(void *arg, const char *tenant, struct arena *a);
    void *arg;
};

enum box_state { BOX_CREATING, BOX_RUNNING, BOX_PAUSED, BOX_QUARANTINED, BOX_CLOSING };

struct dial; /* dial.c */

struct box_waiter { /* a call or a surface that waits for CREATING or CLOSING to end */
    struct box_waiter *next;
    void (*cb)(void *arg, struct box *b, const struct err *e); /* e NULL: fine */
    void *arg;
};

struct box {
    struct node *node;
    struct tenant *tenant;
    struct tenant_use charge; /* given back at its end; boxes 0: nothing is */
    char id[BOX_ID_MAX];      /* its name for ever; "" while it is being created */
    char seat[BOX_ID_MAX];    /* what supervise and init know it by; a restored box has a new one */
    enum box_state state;
    struct box_spec spec;
    struct link *link;
    bool adopted; /* from an earlier serve: calls wait until init has said what it holds */
    bool up;      /* calls may be sent */
    int breaks;   /* of its link, since breaks_from_ms */
    int64_t breaks_from_ms;
    int gauges[SEAT_GAUGES];
    int written;                  /* directory of all that it writes, for call_look.c; -1: not there (yet) */
    uid_t user;                   /* of its tools, as the host numbers it; known if written is there */
    bool written_asked;           /* of supervise, for this seat */
    int64_t peak_bytes;           /* of memory, as last read; the kernel counts anew for each call */
    int64_t peak_max_bytes;       /* of all calls so far */
    int64_t pids_peak;            /* of processes, in all its calls and since; -1: not known */
    int64_t disk_used_bytes;      /* as its last call saw it; -1: not known */
    uint64_t oom_seen, pids_seen; /* events before the calls that run now, or charged to one */
    int64_t looked_us;            /* when they were read after a call */
    struct {
        bool known, sandboxed;
        char why[LIMIT_WIRE_WHY];
    } browser;                      /* as the box says: FRAME_ABOUT */
    bool warm, temporary, standing; /* standing: made by itself, not for a session */
    bool shell_given;               /* a session has, or had, its first shell */
    uint32_t unenforced;
    int64_t setup_us, created_us; /* wall */
    int64_t ttl_ms, expires_us;   /* 0: never */
    struct str labels;            /* JSON object */
    struct str secrets;           /* JSON object, or absent: variable -> name of a secret */
    struct str key, map_key;      /* idempotency key, and its name in node->box_keys; absent: none */
    char key_hash[33];            /* of what was asked for with it */
    struct session *sessions;     /* by next_in_box */
    struct call *running;
    size_t running_count;
    int64_t last_run_us; /* of the call that ended last */
    int64_t still_us;    /* monotonic: when a pause of it last began or ended; 0: never */
    struct box_waiter *opening, *closing;
    struct dial *dials; /* connections that are being made */
    size_t dialed;      /* those and the ones that are open */
    struct arena arena;
    const char *close_reason;
    /* its files through time: see state.h */
    unsigned holds; /* states being taken: calls wait */
    bool rewinding; /* on its way into another state */
    struct {
        int64_t since_us;      /* wall; 0: it is not */
        char state[40];        /* by which; "": its image */
    } quarantine;              /* see quarantine.h */
    bool hooked;               /* init may have commands that are to run before the end */
    bool ending;               /* they run now */
    int headed;                /* its browser has a window on the desktop: 1, or not: -1; 0: as configured */
    bool step_states;          /* a state after every step that may have changed something */
    char state_id[40];         /* the newest; "" */
    char began_with[40];       /* a fork: the one that it was made from */
    struct str forked_at;      /* JSON, or absent: of which step, if that has no state of its own */
    uint64_t call;             /* the tool's that made it, or put it back last; 0: none */
    struct str done;           /* what that did, as JSON: whoever finds the call without a result says this */
    char root[STATE_ROOT_MAX]; /* of the newest state, once known */
    /* where it comes from: see origin.h */
    bool helper;                       /* makes a state for another box; nobody else sees it */
    struct str origin;                 /* JSON object, or absent */
    struct str work_dir, test_command; /* views of it */
    struct pairs env;                  /* of every program that a call starts */
    int64_t call_timeout_ms;           /* of calls that do not say their own; 0: the server's */
    char base_state[40];               /* what reset goes back to; "": the image */
    /* what it has of the box that it was forked from, or of its own past: see carry.h */
    struct carried {
        char *shell;        /* nullable; the script with which its first shell begins */
        char *variables;    /* nullable; what a state has of its interpreters, as JSON */
        bool shell_pending; /* no session has begun with it yet */
        bool pending;       /* the interpreters have not been given theirs yet */
        bool perhaps;       /* an earlier serve may have done either; init knows, and takes nothing twice */
        bool interpreted;   /* code has run since variables was told */
    } carried;
};

struct session {
    struct session *next; /* of its worker */
    struct session *next_in_box;
    struct worker *worker;
    const struct backend *backend;
    struct box *box; /* NULL: kind needs none */
    char id[160], name[128];
    char custom[40];
    bool temporary, own_box;
    bool own_shell; /* named by its id; else the box's first one, which is warm */
    bool lost;      /* its box ended under it: says so until it is destroyed, never restarts silently */
    enum outcome lost_outcome;
    struct err error;
    bool pump_pending;
    bool over;    /* temporary: its call has ended */
    bool up;      /* its box and its config are ready; until then, some wait */
    bool in_open; /* session_open has not returned */
    struct session_waiter {
        struct session_waiter *next;
        void (*cb)(void *arg, struct session *s, const struct err *e);
        void *arg;
    } * opening;
    int64_t created_us, last_us, expires_us, ttl_ms;
    struct call *queue, **queue_last;
    struct call *storing;                  /* have their results and wait for recorder; the next call waits for them */
    size_t queued, running, running_alone; /* alone: calls that are not TOOL_PARALLEL */
    void *state;                           /* KIND_HYBRID */
    struct str config;
    struct arena arena;
};

struct trajectory {
    struct tenant *tenant;
    struct str key; /* in node->trajectories */
    char id[LIMIT_TRAJECTORY_ID + 1];
    int64_t steps;  /* number of the last one */
    unsigned users; /* workers and calls */
};

struct worker {
    struct node *node;
    struct tenant *tenant;
    char *id;
    struct str key; /* in node->workers */
    struct trajectory *trajectory;
    int64_t last_us;
    size_t calls;            /* under way */
    struct forward *forward; /* nullable: it repeats what is in the log */
    struct call *live;       /* those of them that are in or on their way to a box, by next_of_worker */
    struct session *sessions;
    struct counter {
        struct counter *next;
        const struct backend *backend;
        unsigned n;
    } * counters; /* for session names */
};

/* node.c */
struct node *node_new(struct loop *l, const struct node_opts *o, struct err *e);
void node_free(struct node *n);
int node_append(struct node *n, enum record_type type, const struct str *parts, size_t count, struct err *e);
uint64_t node_call_id(struct node *n);

/* box.c: struct box_ask is what a surface asks for */
struct box_ask {
    struct str secrets;    /* as in struct box; absent: none */
    struct tenant *tenant; /* NULL: the default one */
    struct box_spec spec;
    int64_t ttl_ms;
    struct str labels; /* JSON object or absent */
    struct str key;    /* idempotency key; absent: none */
    struct str wish;   /* with a key: the whole of what is asked for */
    bool temporary, standing;
    bool step_states;
    int headed;
    struct str shell, carried;
    struct str forked_at;
    uint64_t call; /* as in struct box, and what it did */
    struct str done;
    bool helper;
    const struct json *origin_of; /* nullable: the config whose keys say what it is made from; borrowed until box_new */
    struct str origin;            /* of a fork: what its original had */
};
struct box *box_new(struct node *n, const struct box_ask *ask, struct err *e); /* or the one that has the key */
void box_when_up(struct box *b, void (*cb)(void *arg, struct box *b, const struct err *e), void *arg);
void box_close(struct box *b, const char *reason, void (*cb)(void *arg, struct box *b, const struct err *e), void *arg);
void box_let_go(struct box *b, struct session *s, const char *reason);
struct box *box_find(struct node *n, struct str id);
int box_env(const struct box *b, struct arena *a, struct pairs *ret, struct err *e); /* its secrets' variables */
struct box *box_of_seat(struct node *n, const char *seat);
/* The box goes on in the seat of r, made for spec; the old seat is destroyed. */
int box_move(struct box *b, const struct seat_reply *r, const int *take_gauges, const struct box_spec *spec,
             struct err *e);
int box_freeze(struct box *b, bool frozen, void (*cb)(void *arg, struct box *b, const struct err *e), void *arg,
               struct err *e);
bool box_headed(const struct box *b);
void box_restarted_browser(struct box *b, struct str params); /* of the call; from now on it may have a window */
int box_record(struct box *b, struct err *e);                 /* what the log is to know of it now */
const char *box_state_name(const struct box *b);
void box_print(const struct box *b, struct jw *w); /* members of the API's object */
/* dial.c: a connection to something inside the box, by init. Ends with exactly one cb, not before it returns: a socket
 * for recv and send with MSG_DONTWAIT, to be given back by box_hang_up; or e. Fails at once if the box cannot. */
struct wire_dial;
struct wire_dialed;
typedef void on_dialed(void *arg, int take_fd, const struct err *e);
int box_reachable(const struct box *b, struct err *e); /* what speaks with it may go on, or begin */
int box_dial(struct box *b, const struct wire_dial *d, on_dialed *cb, void *arg, struct err *e);
void box_hang_up(struct node *n, const char *box_id, int take_fd); /* the box may be gone; fd < 0: none */
void box_undial(struct box *b, void *arg);                         /* arg's cb is not called any more */
void box_dialed(struct box *b, uint64_t id, const struct wire_dialed *d, int take_fd); /* from the link */
void box_dials_fail(struct box *b, const char *why);                                   /* the link broke */
/* Fills ask from the keys of a JSON object that describe a box; others are left alone. */
int box_ask_bind(const struct node *n, const struct json *config, struct box_ask *ask, struct err *e);
bool box_is_ask_key(struct str name);
/* Members of a request for another one like it, from its record in the log. */
void box_settings_print(const struct json *record, struct jw *w);
/* Is the box as config asks, in all that config names? Else e names the key. */
int box_ask_fits(const struct box *b, const struct json *config, struct err *e);
struct box *box_adopt(struct node *n, const struct seat_reply *r, const int *take_gauges, const struct json *record);
void box_link(struct box *b); /* after its calls are known again: what init names and we do not know is acknowledged */
void on_box_dead(void *arg, const struct seat_reply *r); /* from supervise */
void box_look_end(struct box *b);                        /* call_look.c: it has another seat, or soon has none */

/* worker.c */
/* id absent: a new one */
struct trajectory *trajectory_use(struct node *n, struct tenant *t, struct str id, int64_t steps_if_new);
struct trajectory *trajectory_find(struct node *n, const struct tenant *t, struct str id); /* in use now, or NULL */
void trajectory_drop(struct node *n, struct trajectory *t);
void worker_end_episode(struct worker *w); /* its next call begins another trajectory, also after a restart */
void worker_set_trajectory(struct worker *w, struct trajectory *take_t);
struct worker *worker_get(struct node *n, struct tenant *t, struct str id, struct err *e); /* makes it */
struct worker *worker_find(struct node *n, const struct tenant *t, struct str id);
struct worker *worker_of_box(const struct box *b);    /* a standing box's own, or NULL */
void worker_expire(struct worker *w, int64_t now_us); /* ends its expired sessions */
void worker_sweep(struct worker *w, int64_t now_us);  /* the same; frees an idle worker */
/* call_forward.c: the worker's calls are answered from the log, from its beginning, until they are behind its end */
int forward_arm(struct worker *w, struct str trajectory, struct err *e);
struct str forward_name(const struct worker *w, struct str name); /* of the trajectory that a call belongs to */
void forward_free(struct worker *w);
void worker_disconnect(struct worker *w, const char *reason, size_t *ret_sessions);

/* session.c */
struct session_ask {
    const struct backend *backend;
    const struct json *config; /* nullable */
    struct str custom_name;
    int64_t ttl_ms; /* 0: default */
    bool temporary;
    struct box *box; /* nullable: live in this one */
    /* Nullable. Once, perhaps before session_open returns 0: the session is up, or e says why not and it ends. */
    void (*on_open)(void *arg, struct session *s, const struct err *e);
    void *arg;
};
struct session *session_find(struct worker *w, const struct backend *b); /* not one whose time is over */
bool session_expired(const struct session *s, int64_t now_us);
void session_when_open(struct session *s, void (*cb)(void *arg, struct session *s, const struct err *e), void *arg);
int session_open(struct worker *w, const struct session_ask *ask, struct session **ret, struct err *e);
void session_list_add(struct session *s);                  /* its worker's list is in the order of creation */
void session_close(struct session *s, const char *reason); /* waiting calls fail; the box is let go */
void session_touch(struct session *s);
void session_next(struct session *s);  /* sends what may be sent */
void session_pump(struct session *s);  /* session_next at the end of this turn of the loop */
void session_up(struct session *s);    /* its box came up */
void session_again(struct session *s); /* its box came back in another state: what it had there is gone */
void session_lost(struct session *s, enum outcome o, const struct err *e);
void session_print(const struct session *s, struct jw *w);
const char *session_status(const struct session *s);

int64_t gauge_cpu_us(const struct box *b);                     /* -1: not known */
int64_t gauge_peak(const struct box *b);                       /* of its memory, in all its calls and since */
int64_t gauge_pids_peak(struct box *b);                        /* of its processes, the same; -1: not known */
void jw_kgauge(struct jw *w, const char *name, int64_t value); /* a number, or null if it is below 0 */
int64_t gauge_read(int fd, const char *key);                   /* the number after key, or the first number; -1: none */
void iso_time(int64_t wall_us, char out[32]);                  /* 2026-01-02T03:04:05.000006, as AgentFlow writes it */
void utc_time(int64_t wall_us, char out[32]);                  /* the same with its zone, Z: RFC 3339 */
void random_hex(char *out, size_t digits);

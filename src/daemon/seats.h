/* All boxes of this machine, and how each comes and goes.
 *
 *             asked for                 ready
 *   BLANK --------------> MAKING ------------------> OUT
 *     |                     |  for the pool: ready    ^
 *     |                     +-----------> PARKED -----+ CREATE
 *     |                     |               |         |
 *     +---------------------+---------------+---------+---> ENDING ---> nothing left
 *         failed, timed out     DESTROY, init ended
 *
 * A BLANK is a first process in its namespaces and cgroups that waits to hear what box it shall be. A few are kept,
 * made while nothing else is to be done; each is used once.
 *
 *  1. A seat in the table owns its uid slot, cgroups, socket and state file; all four are gone before it is. What then
 *     is left of its files has no name and no process, and the sweeper gives it back to the kernel.
 *  2. Whoever asked is answered exactly once: CREATE at OUT or after ENDING with the failure, DESTROY after ENDING.
 *  3. A process is ended by its pidfd only.
 */
#pragma once

#include "base/err.h"
#include "daemon/supervise.h"
#include "daemon/sweeper.h"
#include "daemon/watch.h"
#include "daemon/clerk.h"
#include "image/host.h"
#include "isolate/cgroup.h"
#include "isolate/idmap.h"
#include "isolate/network.h"
#include "isolate/spawn.h"
#include "isolate/spawner.h"
#include "wire/seat.h"

struct loop;
struct loop_fd;
struct loop_timer;

enum seat_state { SEAT_BLANK, SEAT_MAKING, SEAT_PARKED, SEAT_OUT, SEAT_ENDING };
enum { HOST_ROOT, HOST_SUDO, HOST_USR, HOST_DIRS };
enum { SEAT_WAITERS = 4, SEAT_BUCKETS = 1024, SEAT_BLANKS = 2 };

/* A reply that is owed. The connection may be gone by then: it is named by number. */
struct seat_waiter {
    uint64_t conn, seq;
    uint32_t verb; /* 0: empty */
};

struct seat {
    struct seat *next;
    struct seats *all;
    char id[BOX_ID_MAX];
    enum seat_state state;
    struct box_spec spec;
    struct spawned proc;
    int slot;          /* of ids */
    bool nests;        /* its user namespace may have others in it */
    uint32_t address;  /* index in the network; 0: none */
    int64_t starttime; /* of init, as /proc tells it: a pid alone may be reused */
    bool for_pool, warm, adopted;
    bool paused;             /* somebody asked for it: it stays frozen, also over a snapshot or a restart */
    bool sealing;            /* a snapshot holds it frozen */
    int hold;                /* PARKED: a connection to its init, so that it does not count as left alone; else -1 */
    int lost_scratch;        /* its files, if guard has not kept them; -1; only while recovering */
    int mounts;              /* ENDING: its mount namespace, dissolved behind the answer; -1 */
    int gauges[SEAT_GAUGES]; /* opened while it is being made, until they are handed over; -1 */
    struct seat_waiter waiters[SEAT_WAITERS];
    struct err failure; /* code != ERR_NONE: why it is ENDING */
    int status;
    bool oom;
    bool kept; /* seat_keep() was done */
    int64_t asked_us;
    int tries; /* of removing its cgroups */
    struct loop_fd *on_exit, *on_ready;
    struct loop_fd *on_half_built; /* while limits, state and gauges are still to be made */
    struct loop_timer *timer;
    /* layers made of what this box wrote, oldest first: with spec.layers its newest state */
    uint32_t sealed_count;
    char sealed[LIMIT_LAYERS][LAYER_ID_MAX];
    uint8_t sizes[LIMIT_LAYERS]; /* of each: how often layers were merged into it */
    bool sealed_is_all;          /* they stand for spec.layers, too */
    bool merging;
    struct watched watched;     /* what changed since then */
    struct snapshot *snapshots; /* that wait for the one under way */
    char root[STATE_ROOT_MAX];  /* of that state; "" if it is not known (yet) */
};

typedef void on_reply(void *arg, uint64_t conn, const struct seat_reply *r); /* conn 0: everybody */

struct seats {
    const struct supervise_opts *opts;
    struct loop *loop;
    const char *group; /* the directory of its boxes' cgroups; the options' own */
    struct cgroups groups;
    struct host_image host;
    struct image_proof { /* image_proof.h; stamps as last proved, NULL: not yet */
        struct stamps *root, *sudo;
        char bare[STATE_ROOT_MAX];
    } proof;
    int host_dirs[HOST_DIRS]; /* chain.c: what it is made of */
    struct idmap ids;
    struct spawn_paths paths;
    char layers[HOST_PATH]; /* directory of layers */
    struct network network;
    struct spawner spawner;
    struct sweeper sweeper;
    struct watch watch;
    struct clerks clerks, behind; /* snapshot.c: for what somebody waits for, and for the rest */
    struct snapshot *unhashed;    /* oldest first */
    struct loop_timer *hash_timer;
    unsigned hashing;
    int relay; /* pidfd of the DNS relay */
    struct loop_fd *on_relay;
    int init, box_dir; /* sealed program; run/box */
    struct seat *buckets[SEAT_BUCKETS];
    unsigned count, blanks, parked, making_asked, making_pool;
    int64_t last_create_us, pool_not_before_us, blank_not_before_us;
    int pool_failures;
    struct loop_timer *pool_timer, *blank_timer;
    bool closing;
    bool recovering; /* not all ids in use are known yet: nothing new is made */
    on_reply *reply;
    void *reply_arg;
};

int seats_open(struct seats *s, const struct supervise_opts *o, struct loop *l, struct err *e);
void seats_close(struct seats *s); /* descriptors and memory; boxes stay */

void seats_create(struct seats *s, const struct seat_waiter *w, const struct box_spec *spec, bool clean);
void seats_destroy(struct seats *s, const struct seat_waiter *w, const char *id);
void seats_freeze(struct seats *s, const struct seat_waiter *w, const char *id, bool on);
void seats_list(struct seats *s, const struct seat_waiter *w);
void seats_look(struct seats *s, const struct seat_waiter *w, const char *id);
void seats_forget_conn(struct seats *s, uint64_t conn); /* what it asked for and did not get is taken away again */
void seats_drain(struct seats *s);                      /* ends all that is not handed out; no more are made */

/* snapshot.c */
void snapshots_open(struct seats *s);
void snapshots_close(struct seats *s);
void snapshots_pump(void *seats); /* roots that are to be computed */
void seats_snapshot(struct seats *s, const struct seat_waiter *w, const char *id);
void seat_drop_snapshots(struct seat *seat); /* those that wait are answered */
/* compute: the root is not known; it is worked out and its objects are kept */
void seats_verify(struct seats *s, const struct seat_waiter *w, const struct box_spec *spec, bool compute);
/* gc.c; list is borrowed */
void seats_gc(struct seats *s, const struct seat_waiter *w, const struct seat_request *q, int list);
/* files.c: DIFF and CHECKOUT; out is borrowed */
void seats_files(struct seats *s, const struct seat_waiter *w, struct seat_request *q, int out);

struct seat *seats_find(struct seats *s, const char *id);
struct seat *seats_add(struct seats *s, const char *id);

/* One seat */
void seat_watch(struct seat *seat);                      /* its process */
void seat_end(struct seat *seat, const struct err *why); /* why may be NULL */
void seat_set_state(struct seat *seat, enum seat_state to);
int seat_limit(const struct seat *seat, const struct box_spec *spec, struct err *e);
void seat_resave(const struct seat *seat);                   /* its state file; a failure is logged */
void seat_keep(struct seat *seat);                           /* guard has its scratch from now on */
int seats_gauge(struct seats *s, const char *id, int gauge); /* a descriptor for the caller, or -1 */
int seats_written(struct seats *s, const char *id);          /* the same, of all that a handed-out box writes */
void seat_answer(struct seats *s, const struct seat_waiter *w, const struct seat_reply *r);

/* uplink.c */
int uplink_open(struct seats *s, struct err *e);
int uplink_take(struct seats *s, uint32_t *ret_address, struct err *e); /* sets the host up at first use */
void uplink_resume(struct seats *s);                                    /* boxes of a former life have a network */
void uplink_close(struct seats *s);

/* blank.c, pool.c */
/* nests: as the box's user_namespaces. *ret is set also on failure, to be ended. */
int blank_begin(struct seats *s, bool nests, struct seat **ret, struct err *e); /* from nothing */
int blank_take(struct seats *s, bool nests, struct seat **ret, struct err *e);  /* the oldest, or one begun now */
int blank_finish(struct seat *seat, struct err *e); /* after both; it may have been told to go */
void blank_pump(void *seats);
void blank_failed(struct seats *s, const struct err *why);
void pool_pump(struct seats *s);
void pool_failed(struct seats *s, const struct err *why);
void pool_hold(struct seat *seat);
/* clean: only one in which nothing was written */
bool pool_take(struct seats *s, const struct seat_waiter *w, const struct box_spec *spec, bool clean);
int seats_make(struct seats *s, const struct box_spec *spec, bool for_pool, struct seat **ret, struct err *e);

/* recover.c */
int state_save(const struct seat *seat, struct err *e);     /* new, or in place of the old one */
void state_note_scratch(const struct seat *seat);           /* where its files are, once it is ready */
int state_hand_out(const struct seat *seat, struct err *e); /* marks it as belonging to somebody */
void state_remove(const struct seats *s, const char *id);   /* with the socket */
int64_t state_starttime(pid_t pid);                         /* -1: no such process */
void seats_recover(struct seats *s);

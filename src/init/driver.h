/* A driver: a process of the box's user, forked from init, that speaks a rich protocol with a program of the box (a
 * Jupyter kernel, an interpreter, a browser). It is like a hand, but it has a name, lives from call to call, and keeps
 * what it drives. So nothing outside the box ever parses what a hostile program says, and a driver outlives serve as
 * init does.
 *
 *   init's record:  DOWN --call--> UP (its process) --exit--> DOWN, told at the next call
 *   a call:         waiting in the driver's queue --> the driver's --> RESULT
 *   cancel, interrupt: the driver is told, and ends the call in its own way; if it has not after GRACE_MS, it is killed
 *                   with all that it drives
 *   deadline:       the driver looks at it itself; GRACE_MS later it is killed as above
 *   a spare:        warmed up, without a name; with the first call of a new name it is that name's */
#pragma once

#include <poll.h>
#include <sys/types.h>

#include "init/hand.h"

struct task;
struct tool;
struct driver_kind;
struct driver; /* init's record */

/* --- in the driver's process --- */

enum wish { WISH_NONE, WISH_INTERRUPT, WISH_CANCEL };

struct self {
    const struct driver_kind *kind;
    const char *name;
    int ctl;            /* to init */
    enum wish wish;     /* since the call began */
    int restarts;       /* how often this driver died before; a new process knows nothing of the former one's state */
    bool first_call;    /* of this process */
    int64_t created_us; /* when its name was first used; restarts do not change it */
    int64_t idle_ms;    /* without a call it ends after so long; 0: never */
    bool warming;       /* init may have a call already, which is left alone until this is over */
    const char *seed;   /* file with what its first program is to begin with (see carry.h); NULL: nothing */
    void *state;        /* the kind's own */
};

struct driver_kind {
    const char *name;
    /* Both nullable: descriptors to watch between calls, and what to do when one is ready or a second went by. */
    size_t (*watch)(struct hand *h, struct pollfd *fds, size_t max);
    void (*idle)(struct hand *h);
    void (*warm)(struct hand *h); /* nullable: once, before the first call, if driver_warm() asked for it */
    int64_t start_ms;             /* of a spare: after so long one is likely up; what is next made ready waits for it */
    void (*ahead)(struct init *in); /* nullable, in init: what a spare needs when it is started */
    /* Nullable: around each call, to add what the log is to have of it (hand.pictures). result: of run_hand(). */
    void (*before)(struct hand *h, const struct tool *t);
    void (*after)(struct hand *h, const struct tool *t, int result);
    const char *carry_with; /* nullable: the tool that writes to a file what a fork of the box should have of it */
};

/* Polls fds and init. Sets self->wish if init said something. Exits if init has gone or let go of this driver. */
int driver_poll(struct hand *h, struct pollfd *fds, size_t n, int64_t timeout_ms);
/* Tells init which process it drives, if it is no child of its own: init kills that tree too. 0: none any more. */
void driver_drives(struct hand *h, pid_t pid);
/* Tells init, and through it serve, what it found out: wire_about. */
void driver_about(struct hand *h, const struct wire_about *a);

/* --- in init --- */

struct driver_ask {
    const struct driver_kind *kind;
    struct str name, label, note; /* label, note: of a new one, for lists */
    bool must_exist;
    bool noted;       /* note replaces what it has */
    bool once;        /* it ends after this call */
    bool spare;       /* of a new one: it may be the one that waits already; then another is made ready */
    int64_t idle_ms;  /* > 0: it ends when it had no call for so long; 0: as it was */
    bool idle_of_new; /* one that is there keeps its own */
    const char *seed; /* nullable; of a new one */
};

/* Gives the call to the driver of that name, which runs the tool's run_hand(). */
void driver_submit(struct task *t, const struct driver_ask *ask);
/* Starts it ahead of the first call, and has it warm itself up. */
void driver_warm(struct init *in, const struct driver_ask *ask);
/* Has one of that kind wait, warmed up and without a name, to become the next new one. It is in no list. */
void driver_spare(struct init *in, const struct driver_kind *k);
void driver_spare_renew(struct init *in); /* those that wait were started with what is no longer so */
struct driver *driver_find(struct init *in, const struct driver_kind *k, struct str name);
bool driver_interrupt(struct driver *d); /* false: no call is under way */
void driver_end(struct driver *d);       /* with all that it drives; calls in its queue fail */
/* The one after d (NULL: the first), of that kind (NULL: of any). */
struct driver *driver_next(struct init *in, const struct driver_kind *k, struct driver *d);
/* One that is there by name, and starts with its first call. False: there is one, or no room for another. */
bool driver_put(struct init *in, const struct driver_ask *ask);
struct driver_info {
    const struct driver_kind *kind;
    const char *name, *label, *note, *seed;
    bool up, busy, once;
    int64_t created_us, used_us; /* wall */
    int64_t idle_ms;
    int restarts;
    size_t waiting;
} driver_describe(const struct driver *d);

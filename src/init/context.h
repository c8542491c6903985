/* A context: an interpreter of Python or JavaScript that lives from call to call in its driver's process tree, and the
 * variables in it. It is one of our own scripts (init/script/), which answers requests on a socket; what code prints
 * comes through pipes. A new Python context is the spare that waits (driver.h), which has imported the modules to preload.
 * It was born by itself, so that its hash seed is its own, or, with python.fork, is a fork of the box's fork server. */
#pragma once

#include "init/driver.h"
#include "init/peer.h"
#include "init/stream.h"

extern const struct driver_kind context_kind;

enum context_status {
    CONTEXT_OK,
    CONTEXT_ERROR,
    CONTEXT_TIMEOUT,
    CONTEXT_INTERRUPTED,
    CONTEXT_DIED,
    CONTEXT_STALE, /* never told: a spare whose packages have changed is replaced */
};

struct context_ask {
    const char *op; /* NULL: run */
    struct str language, code, input, cwd, path;
    const char *program; /* nullable; of JavaScript: node */
    const char *branch;  /* nullable; of a new one: it is the copy of another that waits at this socket */
    bool alone;          /* of a new one: no fork of the warm interpreter, also when it is started again */
    double timeout;      /* seconds; 0: the call's own */
    int64_t memory_bytes;
    bool unused; /* it waited as a spare until now */
};

struct context_end {
    enum context_status status;
    struct str out, err, result, cwd, ename, evalue;
    struct strs traceback, figures, lost; /* lost: what could not be saved, or was not carried over */
    int64_t out_bytes, err_bytes, dropped_bytes, memory_bytes, count;
    int exit_code;
    int64_t run_us;
    double limit_s;
    bool fresh;   /* the former one is gone, and its variables with it */
    bool carried; /* it is new, and began with the variables of the one that a state was taken of */
    bool lost_it; /* it did not react to the interrupt, and was ended */
};

/* op "save": its variables to a file; "branch": a copy of its process that waits at a socket. ERR_INVALID: its language
 * has no such thing, ERR_NOT_FOUND: it has not begun. */
int context_put(struct hand *h, const char *op, struct str path, struct context_end *ret, struct err *e);
bool context_is_up(struct hand *h); /* the call's context lives */
int context_run(struct hand *h, const struct context_ask *ask, struct context_end *ret, struct err *e);

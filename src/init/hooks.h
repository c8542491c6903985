/* Commands that a box runs before it ends. They are kept here and not in serve, so that they outlive serve. */
#pragma once

#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"

struct init;

struct hook {
    struct hook *next; /* by priority, then in the order in which they came */
    char *name, *command;
    double timeout;
    int64_t priority;
};

/* Replaces one of the same name. */
struct hook *hook_add(struct init *in, struct str name, struct str command, double timeout, int64_t priority,
                      struct err *e);
struct hook *hook_find(struct init *in, struct str name);
void hook_remove(struct init *in, struct hook *h);

/* Runs all, those of one priority at once; cb is called once, when the last has ended or its time is over. */
typedef void on_hooks_done(void *arg, int64_t ran, int64_t failed);
void hooks_run(struct init *in, int64_t total_ms, on_hooks_done *cb, void *arg);

/* Servers with pages for people (VS Code, Jupyter), each kept by a driver of its own in the box. They listen on unix
 * sockets that only the box's user can reach, so that they need no passwords, and no page of the box's browser can
 * talk to them; whoever may come in from outside is serve's business. */
#pragma once

#include "init/driver.h"
#include "init/script.h"

extern const struct driver_kind app_kind;

struct app_program {
    const char *name;
    const char *file;    /* it is installed if this is there */
    const char *missing; /* how to get it */
    const char *socket;
    const char *const *argv;
    const char *begins_in; /* how the directory is told it, before its path */
    const char *health;    /* what it answers with 200 when it is up */
};

const struct app_program *app_find(struct str name); /* NULL: no such */
/* In its driver: it answers on its socket when this returns. */
int app_start(struct hand *h, const struct app_program *a, bool *ret_started, pid_t *ret_pid, struct err *e);

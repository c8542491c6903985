/* What went wrong, in a form that a user, a log and another process can all read.
 *
 * A struct err has a fixed size and owns nothing, so it can live on the stack, be filled between
 * clone() and exec() where malloc is forbidden, and be sent over a socket as it is. */
#pragma once

enum err_code {
    ERR_NONE,
    ERR_INVALID,   /* the request is wrong; the message names the field */
    ERR_MISSING,   /* a required field is absent */
    ERR_TYPE,      /* a field has the wrong type */
    ERR_NOT_FOUND, /* no such tool, box, session, file ... */
    ERR_LIMIT,     /* a cap was reached; the message names it and its value */
    ERR_BUSY,      /* try again later */
    ERR_DENIED,
    ERR_EXISTS,
    ERR_SYSTEM, /* the machine said no; sys holds errno */
};

struct err {
    enum err_code code; /* stable name in the HTTP API */
    int sys;            /* errno, or 0 */
    char msg[248];      /* outermost context first: "create box: mount /x: ..." */
};

/* Each returns a negative errno, so `return err_sys(e, ...)` ends a function. e may be NULL. */
int err_set(struct err *e, enum err_code code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
int err_sys(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int err_wrap(struct err *e, int r, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

const char *err_name(enum err_code code);

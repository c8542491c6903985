#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    int sys;
} codes[] = {
    [ERR_NONE] = { "none", 0 },       [ERR_INVALID] = { "invalid", EINVAL },     [ERR_MISSING] = { "missing", EINVAL },
    [ERR_TYPE] = { "type", EINVAL },  [ERR_NOT_FOUND] = { "not_found", ENOENT }, [ERR_LIMIT] = { "limit", ENOBUFS },
    [ERR_BUSY] = { "busy", EAGAIN },  [ERR_DENIED] = { "denied", EACCES },       [ERR_EXISTS] = { "exists", EEXIST },
    [ERR_SYSTEM] = { "system", EIO },
};

const char *err_name(enum err_code code)
{
    return code <= ERR_SYSTEM ? codes[code].name : "system";
}

int err_set(struct err *e, enum err_code code, const char *fmt, ...)
{
    if (e) {
        va_list ap;
        *e = (struct err){ .code = code };
        va_start(ap, fmt);
        vsnprintf(e->msg, sizeof e->msg, fmt, ap);
        va_end(ap);
    }
    return -codes[code].sys;
}

int err_sys(struct err *e, const char *fmt, ...)
{
    int sys = errno ? errno : EIO;

    if (e) {
        va_list ap;
        *e = (struct err){ .code = ERR_SYSTEM, .sys = sys };
        va_start(ap, fmt);
        int n = vsnprintf(e->msg, sizeof e->msg, fmt, ap);
        va_end(ap);
        if (n >= 0 && (size_t)n < sizeof e->msg)
            snprintf(e->msg + n, sizeof e->msg - (size_t)n, ": %s", strerror(sys));
    }
    return -sys;
}

/* A message that does not fit loses its innermost words, never its terminator. */
int err_wrap(struct err *e, int r, const char *fmt, ...)
{
    if (!e)
        return r;

    char outer[sizeof e->msg], whole[2 * sizeof e->msg + 2];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(outer, sizeof outer, fmt, ap);
    va_end(ap);
    snprintf(whole, sizeof whole, "%s: %s", outer, e->msg);
    memcpy(e->msg, whole, sizeof e->msg);
    e->msg[sizeof e->msg - 1] = 0;
    return r;
}

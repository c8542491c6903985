/* A Chromium that a driver (driver.h) holds, driven over its debugging pipe: JSON messages ended by NUL, commands with
 * an id, events without. When the pipe closes the browser ends, so none is left behind. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/json.h"

struct hand;
struct cdp;

typedef void on_cdp_event(void *arg, struct str session, struct str method, const struct json *params);

struct cdp_opts {
    const char *const *argv; /* the program and its flags */
    on_cdp_event *event;
    bool (*dead)(void *arg, struct str session); /* nullable: nobody will answer in that session any more */
    void *arg;
};

/* In the driver's process. NULL: e says why. */
struct cdp *cdp_start(struct hand *h, const struct cdp_opts *o, struct err *e);
void cdp_end(struct hand *h, struct cdp *c); /* accepts NULL */
bool cdp_alive(struct cdp *c);
void cdp_take(struct cdp *c); /* the events that are there; for between calls, when init may have another one */
int cdp_fd(const struct cdp *c);
/* params: JSON, or absent. session: of a page, or absent. The result lives in the hand's arena; ret may be NULL.
 * -ETIMEDOUT: the hand's deadline; -ENOENT: the session is dead; -ECANCELED: init does not want it any more; -EPIPE:
 * the browser is gone. */
int cdp_call(struct hand *h, struct cdp *c, struct str session, const char *method, struct str params,
             const struct json **ret, struct err *e);
/* The same without waiting for its answer; from an event's callback too. */
void cdp_post(struct cdp *c, struct str session, const char *method, struct str params);
/* Takes events until done(arg) says so, or deadline_ms (monotonic) comes. 1: done, 0: the time is over, < 0: as above.
 */
int cdp_wait(struct hand *h, struct cdp *c, bool (*done)(void *arg), void *arg, int64_t deadline_ms, struct err *e);

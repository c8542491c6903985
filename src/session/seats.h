/* The client side of supervise: asks for boxes and hears of their end. Asynchronous; reconnects by itself. */
#pragma once

#include "base/loop.h"
#include "wire/seat.h"

struct seats;

/* fds: SEAT_GAUGES descriptors (-1: absent), owned by the callee. */
typedef void on_seat_reply(void *arg, const struct seat_reply *r, const int *take_gauges);
typedef void on_seat_event(void *arg, const struct seat_reply *r); /* SEAT_DEAD */
typedef void on_seats_up(void *arg);                               /* connected (again) */

struct seats_opts {
    const char *home;
    on_seat_event *dead;
    on_seats_up *up;
    void *arg;
};
struct seats *seats_new(struct loop *l, const struct seats_opts *o);
void seats_free(struct seats *s);

/* The callback comes exactly once for CREATE and the verbs on one box (an error if supervise went away: CREATE may
 * then have left a box, which the next LIST shows); for LIST once per box, then with id "". */
void seats_ask(struct seats *s, enum seat_verb verb, const char *id, const struct box_spec *spec, on_seat_reply *cb,
               void *arg);
/* DIFF and CHECKOUT: q's verb, spec and other, and what the answer is written to. */
void seats_ask_files(struct seats *s, const struct seat_request *q, int take_fd, on_seat_reply *cb, void *arg);

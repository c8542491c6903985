/* Straight-line work inside the box: a process forked from init, running as the box's user, that takes one
 * call at a time. It may block or crash; init kills it at the call's deadline and starts another (hands.h). */
#pragma once

#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "wire/frame.h"

struct init;
struct tool;

struct hand {
    struct arena *arena; /* emptied after each call; results may point into it */
    struct str cwd;      /* default directory: /home/gem */
    int64_t deadline_ms; /* monotonic; 0: none */
    struct init *init;   /* as it was when the hand was forked */
    bool quick; /* this is init itself: whatever may block or take long returns -EAGAIN, and a real hand does it */
    int64_t head_bytes, tail_bytes; /* caps for each output stream that a result has */
    int stream;                     /* TOOL_STREAM: a connected socket; its other end is with whoever asked. Else -1 */
    struct self *self;              /* this is a driver: driver.h. Else NULL */

    /* A tool whose run_hand() succeeds, so that there is a result, may say more about it; zero before each call. */
    enum outcome outcome;
    struct str message; /* if outcome is not OUTCOME_OK */
    int64_t cpu_us, dropped_bytes;
    struct wire_picture pictures[WIRE_PICTURES_MAX]; /* for the log, not for the answer; however the call ended */
    size_t picture_count;
};

/* What init writes to a hand; the packed parameters follow. The answer is a whole RESULT frame. A pointer may travel
 * because a hand is a fork of init, with everything at the same address. */
struct hand_request {
    const struct tool *tool;
    uint64_t id;
    int64_t begun_us, deadline_ms;
    int64_t head_bytes, tail_bytes;
    uint64_t size;   /* of the parameters */
    int64_t idle_ms; /* of a driver: without a call it ends after so long; 0: never */
    bool stream;     /* a descriptor travels with the first byte */
};

struct buf;
bool hand_read(int fd, struct buf *b, size_t n); /* until it has n bytes; false: end of file */
bool hand_write(int fd, const char *p, size_t n);
void hand_become(struct init *in, int fd); /* fd becomes 3, all others are closed; the box's user from here on */
/* Runs the tool and writes its whole RESULT frame to reply. False: a quick one gave up, and wrote nothing. */
bool hand_work(struct hand *h, const struct hand_request *req, struct str params, struct buf *reply);
_Noreturn void hand_main(struct init *in);
/* When a driver ends what it runs for this call: by timeout_s (0: none), or a little before init would end the driver, so
 * that what was put out is not lost. INT64_MAX: never. */
int64_t hand_until(const struct hand *h, double timeout_s, double *ret_limit_s);

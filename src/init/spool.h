/* All output of a background program that is worth keeping: its beginning and its end, in a memfd, addressed by offset
 * in the whole stream, so that several readers can each go on where they were. */
#pragma once

#include <stdint.h>

#include "base/arena.h"

struct spool {
    int memfd; /* -1: nothing yet */
    int64_t total;
    int64_t read_to;            /* where a reader without an offset goes on */
    int64_t last_us;            /* when something came */
    int64_t held_from, held_to; /* what a reader got and did not pass on: he waits for what follows it */
};

enum { SPOOL_SETTLE_MS = 1000 }; /* after so long without more, what came last is passed on if it is short */

void spool_init(struct spool *s);
void spool_done(struct spool *s);
int spool_drain(struct spool *s, int fd);                          /* as stream_drain */
bool spool_flows(const struct spool *s, int64_t to, bool running); /* more follows what ends at to, or may */
bool spool_settled(const struct spool *s, int64_t to);             /* but nothing came for a while */
void spool_hold(struct spool *s, int64_t to,
                int64_t n); /* of what was read up to there, n bytes are to be read again */
int64_t spool_wait_ms(const struct spool *s,
                      int64_t from); /* until there is something new behind from: 0: there is; < 0: who knows */
/* Can so much more be kept without giving up what a reader at `from` has not seen? */
bool spool_has_room(const struct spool *s, int64_t from, int64_t more);
/* Up to max bytes from *offset on, or from what is still there behind it; *offset moves behind them. */
struct str spool_read_on(const struct spool *s, int64_t *offset, size_t max, struct arena *a);
/* The same; what is gone is replaced by a line that says so. */
struct str spool_read(const struct spool *s, int64_t *offset, size_t max, struct arena *a);

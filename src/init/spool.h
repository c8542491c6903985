/* All output of a background program that is worth keeping: its beginning and its end, in a memfd, addressed by offset
 * in the whole stream, so that several readers can each go on where they were. */
#pragma once

#include <stdint.h>

#include "base/arena.h"

struct spool {
    int memfd; /* -1: nothing yet */
    int64_t total;
    int64_t read_to; /* where a reader without an offset goes on */
};

void spool_init(struct spool *s);
void spool_done(struct spool *s);
int spool_drain(struct spool *s, int fd); /* as stream_drain */
/* Up to max bytes from *offset on, which moves behind them. What is gone is replaced by a line that says so. */
struct str spool_read(const struct spool *s, int64_t *offset, size_t max, struct arena *a);

/* The newest samples of an observation, each whole. */
#pragma once

#include <stdint.h>

#include "base/buf.h"

enum { SAMPLES_MAX = 3600 };

struct samples {
    struct buf text; /* JSON, each behind a comma */
    uint32_t sizes[SAMPLES_MAX];
    int64_t count, dropped;
};

void samples_reset(struct samples *s); /* also makes an empty one of zeroes */
void samples_done(struct samples *s);
/* A session may last longer than there is room: its end is what somebody will ask for. False: json is longer than
 * LIMIT_OBSERVE_SAMPLE, and is not kept. */
bool samples_add(struct samples *s, struct str json);
void samples_print(const struct samples *s, struct buf *to); /* the elements of an array */

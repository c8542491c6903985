/* What is added to a trajectory after the fact: tags, a reward, notes, metadata; and steps that come from elsewhere.
 * Both are records of their own in the log, so they are as safe as the steps. */
#pragma once

#include "session/node.h"

enum {
    LIMIT_TAGS = 64,
    LIMIT_TAG = 128,
    LIMIT_NOTE = 64 * 1024,
    LIMIT_METADATA = 256 * 1024,
    LIMIT_IMPORT_STEPS = 1000
};

/* An object with some of tags, reward, note, metadata, pinned; null takes one away. */
int note_check(const struct json *patch, struct err *e);
/* step 0: the whole trajectory. Whether there is such a one is the caller's question. */
int note_append(struct node *n, const struct tenant *t, struct str trajectory, int64_t step, const struct json *patch,
                struct err *e);

/* It is gone from the index. */
int note_drop(struct node *n, const struct tenant *t, struct str trajectory, struct err *e);

struct imported {
    const struct tenant *tenant;
    struct str trajectory, worker;
    int64_t step; /* the number that it gets */
};
/* One step as `sandglass export --format sandglass` has it. */
int import_append(struct node *n, const struct imported *i, const struct json *step, struct err *e);

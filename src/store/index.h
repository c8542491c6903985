/* What the log says, in a form that can be asked: one SQLite file, $home/index.sqlite. It holds no truth of its own.
 * The position up to which the log was read is stored in the same transaction as what was read, so a killed recorder
 * goes on where it was; a damaged, older or doubtful file is thrown away and read again from the log. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "wire/query.h"

struct index;
struct index_counts {
    int64_t duplicates; /* a call id that was there already: ignored */
    int64_t orphans;    /* a result whose intent is missing or has its result: ignored */
    int64_t unreadable; /* records that are no JSON object, or of an unknown type: skipped */
};

int index_open(const char *home, struct index **ret, struct err *e); /* home/log, home/index.sqlite */
void index_close(struct index *x);

/* One slice of the log, one transaction (at most INDEX_SLICE records or about 20 ms).
 * 1: there may be more, 0: all was read, < 0: the log is damaged or SQLite failed; nothing of the slice is kept. */
enum { INDEX_SLICE = 2048, INDEX_SLICE_US = 20000 };
int index_ingest(struct index *x, struct err *e);
uint64_t index_position(const struct index *x);
struct index_counts index_counts(const struct index *x);

/* Of what was forgotten: erases a batch of its records in the log, then removes blobs that nobody names any more, unless
 * they were written in the last grace_ms (their record may be on its way). The log must have been read to its end.
 * 1: more remains, 0: nothing, or not yet, < 0: it failed and is tried again later. */
int index_tidy(struct index *x, int64_t grace_ms, struct err *e);
bool index_is_tidy(const struct index *x);

/* Every op of struct query but "sync" and "blob". The JSON is appended to out, which must be empty. */
int index_query(struct index *x, const struct query *q, struct buf *out, struct err *e);

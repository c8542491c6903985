/* Files of Apache Parquet, as much of them as a table of texts and numbers needs: one page per column and row group,
 * plain encoding, no compression, every column nullable. */
#pragma once

#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"

enum parquet_type { PARQUET_BOOL = 0, PARQUET_INT = 2, PARQUET_DOUBLE = 5, PARQUET_TEXT = 6 };

struct parquet_column {
    const char *name;
    enum parquet_type type;
};
struct parquet_value {
    bool there;
    struct str text;
    int64_t i; /* INT, BOOL */
    double d;
};

struct parquet;
struct parquet *parquet_new(struct arena *a, const struct parquet_column *columns, size_t n, struct buf *out);
void parquet_row(struct parquet *p, const struct parquet_value *values); /* one per column; texts are copied */
void parquet_end(struct parquet *p);                                     /* the rest, and the footer */

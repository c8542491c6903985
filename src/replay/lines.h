/* Texts as lists of lines, raw and canonical. */
#pragma once

#include "replay/canon.h"

struct line {
    struct str raw, canon;
    unsigned rules; /* that changed it */
};
struct lines {
    struct line *v;
    size_t n;
};

/* Canonical forms are made later, by lines_canon(). An empty text has no lines. */
struct lines lines_split(struct arena *a, struct str text);
/* Of lines [from, n - behind); lines that the user's expressions remove whole are dropped. */
void lines_canon(struct lines *l, const struct canon *c, struct arena *a, size_t from, size_t behind);
/* How many lines both begin and end with, byte for byte. */
void lines_common(const struct lines *a, const struct lines *b, size_t *ret_before, size_t *ret_behind);
/* The same lines in another order? By their canonical forms. */
bool lines_same_sorted(struct arena *a, const struct lines *x, const struct lines *y);

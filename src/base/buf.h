/* A growable run of bytes with a mandatory cap. Going past the cap sets `full` and drops the write
 * whole; the owner checks `full` once, at the end, instead of after each append. */
#pragma once

#include "base/str.h"

struct buf {
    char *p;
    size_t n, size, cap;
    bool full;
};

void buf_init(struct buf *b, size_t cap);
void buf_done(struct buf *b);  /* accepts a zeroed buf */
void buf_reset(struct buf *b); /* empty again; keeps the memory */

bool buf_add(struct buf *b, const void *p, size_t n);
bool buf_z(struct buf *b, const char *z);
bool buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void *buf_more(struct buf *b, size_t n); /* buf_room() where the memory does not suffice, yet */
void buf_eat(struct buf *b, size_t n);   /* removes n bytes from the front */

/* n writable bytes at the end, or NULL; then buf_grew() */
static inline void *buf_room(struct buf *b, size_t n)
{
    return n <= b->size - b->n && b->n + n <= b->cap && b->p ? b->p + b->n : buf_more(b, n);
}

static inline void buf_grew(struct buf *b, size_t n)
{
    b->n += n;
}

static inline bool buf_str(struct buf *b, struct str s)
{
    return buf_add(b, s.p, s.n);
}

static inline bool buf_char(struct buf *b, char c)
{
    if (b->full || b->n >= b->size || b->n >= b->cap)
        return buf_add(b, &c, 1);
    b->p[b->n++] = c;
    return true;
}

static inline struct str buf_view(const struct buf *b)
{
    return (struct str){ b->p ? b->p : "", b->n };
}

#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void buf_init(struct buf *b, size_t cap)
{
    *b = (struct buf){ .cap = cap };
}

void buf_done(struct buf *b)
{
    free(b->p);
    *b = (struct buf){ 0 };
}

void buf_reset(struct buf *b)
{
    b->n = 0;
    b->full = false;
}

void *buf_more(struct buf *b, size_t n)
{
    if (n > b->cap || b->n > b->cap - n) {
        b->full = true;
        return NULL;
    }
    if (b->size - b->n < n) {
        size_t size = b->size ? b->size : 256;

        while (size < b->n + n)
            size *= 2;
        char *p = realloc(b->p, size);
        if (!p) {
            b->full = true;
            return NULL;
        }
        b->p = p;
        b->size = size;
    }
    return b->p + b->n;
}

bool buf_add(struct buf *b, const void *p, size_t n)
{
    if (n == 0)
        return !b->full;
    void *to = b->full ? NULL : buf_room(b, n);
    if (!to)
        return false;
    memcpy(to, p, n);
    b->n += n;
    return true;
}

bool buf_z(struct buf *b, const char *z)
{
    return buf_add(b, z, strlen(z));
}

bool buf_printf(struct buf *b, const char *fmt, ...)
{
    va_list ap, again;

    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    char *to = n < 0 || b->full ? NULL : buf_room(b, (size_t)n + 1);
    if (to) {
        vsnprintf(to, (size_t)n + 1, fmt, again);
        b->n += (size_t)n;
    }
    va_end(again);
    return to != NULL;
}

void buf_eat(struct buf *b, size_t n)
{
    if (n < b->n)
        memmove(b->p, b->p + n, b->n - n);
    b->n = n < b->n ? b->n - n : 0;
}

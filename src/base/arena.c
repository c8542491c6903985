#include "base/arena.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { ARENA_BLOCK = 4096, SPARE_MAX = 32 };

struct arena_block {
    struct arena_block *next;
    size_t used, size;
    _Alignas(16) char data[];
};

/* Blocks of the usual size that nobody has at present. An arena lives as long as a call does: the next one gets the
 * block that is still in the cache, and malloc, which is slow with sizes like this, has no part in it. */
static struct arena_block *spare;
static size_t spare_count;

void arena_init(struct arena *a)
{
    *a = (struct arena){ 0 };
}

static struct arena_block *block_new(size_t size)
{
    struct arena_block *b = size == ARENA_BLOCK ? spare : NULL;

    if (b) {
        spare = b->next;
        spare_count--;
    } else {
        b = malloc(sizeof *b + size);
    }
    if (!b)
        abort();
    b->used = 0;
    b->size = size;
    return b;
}

static void block_free(struct arena_block *b)
{
#ifndef __SANITIZE_ADDRESS__ /* which is to see what is used too late */
    if (b->size == ARENA_BLOCK && spare_count < SPARE_MAX) {
        b->next = spare;
        spare = b;
        spare_count++;
        return;
    }
#endif
    free(b);
}

void arena_done(struct arena *a)
{
    for (struct arena_block *b = a->head, *next; b; b = next) {
        next = b->next;
        block_free(b);
    }
    *a = (struct arena){ 0 };
}

void arena_reset(struct arena *a)
{
    struct arena_block *keep = NULL;

    for (struct arena_block *b = a->head, *next; b; b = next) {
        next = b->next;
        if (!keep && b->size == ARENA_BLOCK)
            keep = b;
        else
            block_free(b);
    }
    if (keep) {
        keep->next = NULL;
        keep->used = 0;
    }
    *a = (struct arena){ .head = keep };
}

void *arena_alloc(struct arena *a, size_t n)
{
    if (n > SIZE_MAX / 2)
        abort();
    n = (n + 15) & ~(size_t)15;

    struct arena_block *b = a->head;
    if (!b || b->size - b->used < n) {
        size_t size = n > ARENA_BLOCK ? n : ARENA_BLOCK;

        b = block_new(size);
        if (a->head && size > ARENA_BLOCK) {
            /* A big block goes behind the current one, which still has room. */
            b->next = a->head->next;
            a->head->next = b;
        } else {
            b->next = a->head;
            a->head = b;
        }
    }
    void *p = b->data + b->used;
    b->used += n;
    a->total += n;
    memset(p, 0, n);
    return p;
}

struct str arena_copy(struct arena *a, struct str s)
{
    if (!s.p)
        return s;

    char *p = arena_alloc(a, s.n + 1);
    memcpy(p, s.p, s.n);
    return (struct str){ p, s.n };
}

char *arena_z(struct arena *a, struct str s)
{
    return (char *)arena_copy(a, s.p ? s : STR("")).p;
}

char *arena_printf(struct arena *a, const char *fmt, ...)
{
    va_list ap, again;

    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0)
        abort();
    char *p = arena_alloc(a, (size_t)n + 1);
    vsnprintf(p, (size_t)n + 1, fmt, again);
    va_end(again);
    return p;
}

#include "replay/lines.h"

#include <stdlib.h>

struct lines lines_split(struct arena *a, struct str text)
{
    struct lines l = { 0 };
    size_t n = 1, at = 0;

    for (size_t i = 0; i < text.n; i++)
        n += text.p[i] == '\n';
    l.v = arena_alloc(a, n * sizeof *l.v);
    if (!text.n)
        return l;
    while (at <= text.n && l.n < n) {
        const char *end = at < text.n ? memchr(text.p + at, '\n', text.n - at) : NULL;
        size_t size = end ? (size_t)(end - text.p) - at : text.n - at;
        l.v[l.n].raw = l.v[l.n].canon = (struct str){ text.p + at, size };
        l.n++;
        at += size + 1;
    }
    return l;
}

void lines_canon(struct lines *l, const struct canon *c, struct arena *a, size_t from, size_t behind)
{
    size_t kept = from, end = l->n - behind;

    for (size_t i = from; i < l->n; i++) {
        bool gone = false;
        if (i < end)
            l->v[i].canon = canon_line(c, a, l->v[i].raw, &l->v[i].rules, &gone);
        if (!gone)
            l->v[kept++] = l->v[i];
    }
    l->n = kept;
}

void lines_common(const struct lines *a, const struct lines *b, size_t *ret_before, size_t *ret_behind)
{
    size_t least = a->n < b->n ? a->n : b->n, before = 0, behind = 0;

    while (before < least && str_eq(a->v[before].raw, b->v[before].raw))
        before++;
    while (behind < least - before && str_eq(a->v[a->n - 1 - behind].raw, b->v[b->n - 1 - behind].raw))
        behind++;
    *ret_before = before;
    *ret_behind = behind;
}

static int by_canon(const void *a, const void *b)
{
    const struct str x = ((const struct line *)a)->canon, y = ((const struct line *)b)->canon;
    int c = memcmp(x.p, y.p, x.n < y.n ? x.n : y.n);

    return c ? c : (x.n > y.n) - (x.n < y.n);
}

static struct line *sorted(struct arena *a, const struct lines *l)
{
    struct line *copy = arena_alloc(a, (l->n + 1) * sizeof *copy);

    if (l->n)
        memcpy(copy, l->v, l->n * sizeof *copy);
    qsort(copy, l->n, sizeof *copy, by_canon);
    return copy;
}

bool lines_same_sorted(struct arena *a, const struct lines *x, const struct lines *y)
{
    if (x->n != y->n)
        return false;
    struct line *p = sorted(a, x), *q = sorted(a, y);
    for (size_t i = 0; i < x->n; i++)
        if (!str_eq(p[i].canon, q[i].canon))
            return false;
    return true;
}

/* The longest common subsequence of lines, by a table; what both sides begin and end with is taken off first, so the
 * table is small in practice. Beyond a million cells the middle is shown as replaced. */
#include "replay/diff.h"

#include <stdint.h>
#include <stdlib.h>

#include "base/auto.h"
#include "replay/lines.h"

enum { CELLS_MAX = 1000000 };

struct edit {  /* one line of the result */
    char kind; /* ' ', '-', '+' */
    struct str text;
    size_t a, b; /* lines before it on each side */
};
struct edits {
    struct edit *v;
    size_t n;
};

static bool same(const struct line *x, const struct line *y)
{
    return str_eq(x->canon, y->canon);
}

static void push(struct edits *e, char kind, struct str text, size_t a, size_t b)
{
    e->v[e->n++] = (struct edit){ kind, text, a, b };
}

/* table[i][j]: length of the longest common subsequence of x[i..] and y[j..] */
static uint32_t *make_table(const struct line *x, size_t n, const struct line *y, size_t m)
{
    uint32_t *t = calloc((n + 1) * (m + 1), sizeof *t);

    if (!t)
        abort();
    for (size_t i = n; i-- > 0;)
        for (size_t j = m; j-- > 0;) {
            uint32_t down = t[(i + 1) * (m + 1) + j], right = t[i * (m + 1) + j + 1];
            t[i * (m + 1) + j] = same(&x[i], &y[j]) ? t[(i + 1) * (m + 1) + j + 1] + 1 : down > right ? down : right;
        }
    return t;
}

static void edit_middle(struct edits *e, const struct lines *x, const struct lines *y, size_t before, size_t behind)
{
    size_t n = x->n - before - behind, m = y->n - before - behind, i = 0, j = 0;
    const struct line *p = x->v + before, *q = y->v + before;
    auto_free uint32_t *t = (n + 1) * (m + 1) <= CELLS_MAX ? make_table(p, n, q, m) : NULL;

    while (i < n || j < m) {
        if (t && i < n && j < m && same(&p[i], &q[j])) {
            push(e, ' ', q[j].raw, before + i, before + j);
            i++;
            j++;
        } else if (i < n && (j == m || !t || t[(i + 1) * (m + 1) + j] >= t[i * (m + 1) + j + 1])) {
            push(e, '-', p[i].raw, before + i, before + j);
            i++;
        } else {
            push(e, '+', q[j].raw, before + i, before + j);
            j++;
        }
    }
}

static bool near_change(const struct edits *e, size_t i)
{
    size_t from = i > DIFF_CONTEXT ? i - DIFF_CONTEXT : 0;

    for (size_t k = from; k <= i + DIFF_CONTEXT && k < e->n; k++)
        if (e->v[k].kind != ' ')
            return true;
    return false;
}

/* "@@ -3,2 +3,1 @@" for the lines from here to the next gap */
static void print_head(const struct edits *e, size_t i, struct buf *out)
{
    size_t a = 0, b = 0, at_a = e->v[i].a, at_b = e->v[i].b;

    for (size_t k = i; k < e->n && near_change(e, k); k++) {
        a += e->v[k].kind != '+';
        b += e->v[k].kind != '-';
    }
    buf_printf(out, "@@ -%zu,%zu +%zu,%zu @@\n", at_a + (a > 0), a, at_b + (b > 0), b);
}

static void print_edits(const struct edits *e, struct buf *out)
{
    size_t shown = 0, left = 0;
    bool inside = false;

    for (size_t i = 0; i < e->n; i++) {
        if (!near_change(e, i)) {
            inside = false;
            continue;
        }
        if (shown == DIFF_LINES) {
            left++;
            continue;
        }
        if (!inside)
            print_head(e, i, out);
        inside = true;
        buf_char(out, e->v[i].kind);
        buf_str(out, e->v[i].text);
        buf_char(out, '\n');
        shown++;
    }
    if (left)
        buf_printf(out, "... %zu more lines\n", left);
}

void diff_unified(const struct canon *c, struct arena *a, struct str want, struct str got, struct buf *out)
{
    bool both_end = want.n && got.n && want.p[want.n - 1] == '\n' && got.p[got.n - 1] == '\n';

    want.n -= both_end; /* else an empty line would stand at the end */
    got.n -= both_end;
    struct lines x = lines_split(a, want), y = lines_split(a, got);
    size_t before, behind;
    bool differs = false;

    lines_common(&x, &y, &before, &behind);
    lines_canon(&x, c, a, before, behind);
    lines_canon(&y, c, a, before, behind);
    struct edits e = { .v = arena_alloc(a, (x.n + y.n + 1) * sizeof *e.v) };
    for (size_t i = 0; i < before; i++)
        push(&e, ' ', x.v[i].raw, i, i);
    edit_middle(&e, &x, &y, before, behind);
    for (size_t i = 0; i < behind; i++)
        push(&e, ' ', x.v[x.n - behind + i].raw, x.n - behind + i, y.n - behind + i);
    for (size_t i = 0; i < e.n; i++)
        differs |= e.v[i].kind != ' ';
    if (!differs)
        return;
    buf_z(out, "--- recorded\n+++ replayed\n");
    print_edits(&e, out);
}

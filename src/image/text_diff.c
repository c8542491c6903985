#include "image/text_diff.h"

#include <stdint.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/json.h"
#include "base/map.h"

struct line {
    struct str s; /* with its newline */
    intptr_t id;  /* equal lines have equal ids */
};
struct text {
    struct line *v;
    int n;
};
struct edit { /* lines old[a..a+del) become new[b..b+ins) */
    int a, b, del, ins;
};
struct work {
    struct text old, new;
    struct edit *v;
    int n, size;
    struct arena arena;
    struct map ids;
    intptr_t next_id;
};

bool text_is(struct str s)
{
    return !(s.n && memchr(s.p, 0, s.n)) && utf8_ok(s);
}

static void split(struct work *w, struct str s, struct text *t)
{
    size_t count = 1;

    for (size_t i = 0; i < s.n; i++)
        count += s.p[i] == '\n';
    t->v = malloc(count * sizeof *t->v);
    if (!t->v)
        abort();
    while (s.n > 0) {
        const char *end = memchr(s.p, '\n', s.n);
        size_t n = end ? (size_t)(end - s.p) + 1 : s.n;
        struct line *l = &t->v[t->n++];
        l->s = (struct str){ s.p, n };
        l->id = (intptr_t)map_get(&w->ids, l->s);
        if (!l->id) {
            l->id = ++w->next_id;
            map_put(&w->ids, l->s, (void *)l->id);
        }
        s = (struct str){ s.p + n, s.n - n };
    }
}

static void add_edit(struct work *w, struct edit x)
{
    struct edit *last = w->n ? &w->v[w->n - 1] : NULL;

    if (last && last->a + last->del == x.a && last->b + last->ins == x.b) {
        last->del += x.del;
        last->ins += x.ins;
        return;
    }
    if (w->n == w->size) {
        w->size = w->size ? 2 * w->size : 64;
        w->v = realloc(w->v, (size_t)w->size * sizeof *w->v);
        if (!w->v)
            abort();
    }
    w->v[w->n++] = x;
}

/* Walks back along the stored furthest points; steps come out last first. */
static void back(struct work *w, int *const *trace, int d, int x, int y, int from)
{
    auto_free struct edit *steps = malloc((size_t)(d + 1) * sizeof *steps);
    int n = 0;

    if (!steps)
        abort();
    for (; d > 0; d--) {
        const int *v = trace[d - 1] + d; /* v[k] of round d - 1, k in -(d-1)..d-1 */
        int k = x - y;
        bool down = k == -d || (k != d && v[k - 1] < v[k + 1]);
        int pk = down ? k + 1 : k - 1, px = v[pk], py = px - pk;
        steps[n++] = down ? (struct edit){ px, py, 0, 1 } : (struct edit){ px, py, 1, 0 };
        x = px;
        y = py;
    }
    while (n-- > 0)
        add_edit(w, (struct edit){ steps[n].a + from, steps[n].b + from, steps[n].del, steps[n].ins });
}

/* Lines from..n_old and from..n_new; true if a path within the cap was found. */
static bool myers(struct work *w, int from, int n_old, int n_new)
{
    const struct line *a = w->old.v + from, *b = w->new.v + from;
    int n = n_old - from, m = n_new - from, max = n + m < TEXT_DIFF_EDITS ? n + m : TEXT_DIFF_EDITS;
    auto_free int **trace = calloc((size_t)max + 1, sizeof *trace);
    bool found = false;
    int d;

    if (!trace)
        abort();
    for (d = 0; d <= max && !found; d++) {
        int *row = malloc((size_t)(2 * d + 3) * sizeof *row); /* index d + 1 is k = 0 */
        if (!row)
            abort();
        trace[d] = row;
        const int *was = d ? trace[d - 1] + d : NULL;
        for (int k = -d; k <= d && !found; k += 2) {
            int x = !d ? 0 : k == -d || (k != d && was[k - 1] < was[k + 1]) ? was[k + 1] : was[k - 1] + 1;
            while (x < n && x - k < m && a[x].id == b[x - k].id)
                x++;
            row[d + 1 + k] = x;
            found = x >= n && x - k >= m;
        }
    }
    if (found)
        back(w, trace, d - 1, n, m, from);
    for (int i = 0; i < d; i++)
        free(trace[i]);
    return found;
}

static void print_lines(struct buf *out, char sign, const struct text *t, int from, int to)
{
    for (int i = from; i < to; i++) {
        buf_char(out, sign);
        buf_str(out, t->v[i].s);
        if (t->v[i].s.p[t->v[i].s.n - 1] != '\n')
            buf_z(out, "\n\\ No newline at end of file\n");
    }
}

/* Edits first..last-1, which lie closer together than two contexts. */
static void print_hunk(const struct work *w, int first, int last, struct buf *out)
{
    const struct edit *x = &w->v[first], *z = &w->v[last - 1];
    int lead = x->a < TEXT_DIFF_CONTEXT ? x->a : TEXT_DIFF_CONTEXT;
    int rest = w->old.n - (z->a + z->del), tail = rest < TEXT_DIFF_CONTEXT ? rest : TEXT_DIFF_CONTEXT;
    int a = x->a - lead, b = x->b - lead, olds = z->a + z->del + tail - a, news = z->b + z->ins + tail - b;

    buf_printf(out, "@@ -%d,%d +%d,%d @@\n", olds ? a + 1 : a, olds, news ? b + 1 : b, news);
    for (int i = first; i < last; i++) {
        print_lines(out, ' ', &w->old, a, w->v[i].a);
        print_lines(out, '-', &w->old, w->v[i].a, w->v[i].a + w->v[i].del);
        print_lines(out, '+', &w->new, w->v[i].b, w->v[i].b + w->v[i].ins);
        a = w->v[i].a + w->v[i].del;
    }
    print_lines(out, ' ', &w->old, a, a + tail);
}

void text_diff(struct str old, struct str new, struct buf *out)
{
    struct work w = { 0 };
    int head = 0;

    split(&w, old, &w.old);
    split(&w, new, &w.new);
    int n = w.old.n, m = w.new.n;
    while (head < n && head < m && w.old.v[head].id == w.new.v[head].id)
        head++;
    while (n > head && m > head && w.old.v[n - 1].id == w.new.v[m - 1].id) {
        n--;
        m--;
    }
    if ((n > head || m > head) && !myers(&w, head, n, m))
        add_edit(&w, (struct edit){ head, head, n - head, m - head });
    for (int i = 0, k; i < w.n; i = k) {
        for (k = i + 1; k < w.n && w.v[k].a - (w.v[k - 1].a + w.v[k - 1].del) <= 2 * TEXT_DIFF_CONTEXT;)
            k++;
        print_hunk(&w, i, k, out);
    }
    free(w.old.v);
    free(w.new.v);
    free(w.v);
    map_done(&w.ids);
}

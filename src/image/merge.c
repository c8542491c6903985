/* layer_merge: neighbours in a chain become one layer that says the same over whatever lies below. Unlike
 * layer_flatten it knows nothing of what is below: deletions and opaque marks stay. The cost is that of the layers, so
 * long chains of small ones are kept short without touching a large one. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/err.h"
#include "image/copy.h"
#include "image/layer.h"
#include "image/layer_dir.h"

struct merge {
    struct layer_new new;
    struct layer_sealed ret;
    int depth;
};

struct parts { /* of one directory, newest first */
    int *fds;
    size_t n;
};

static void parts_done(struct parts *p)
{
    for (size_t i = 0; i < p->n; i++)
        close(p->fds[i]);
    free(p->fds);
}

static struct parts parts_new(size_t max)
{
    struct parts p = { .fds = calloc(max, sizeof *p.fds) };

    if (!p.fds)
        abort();
    return p;
}

static int merge_dir(struct merge *m, int out, const struct parts *p, struct err *e);

/* --- the names of all parts, sorted, each once --- */

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

struct all_names {
    struct names *of; /* one per part */
    size_t of_n;
    const char **v;
    size_t n;
};

static void all_names_done(struct all_names *a)
{
    for (size_t i = 0; i < a->of_n; i++)
        names_done(&a->of[i]);
    free(a->of);
    free(a->v);
}

static int all_names_read(const struct parts *p, struct all_names *a, struct err *e)
{
    size_t total = 0, n = 0;
    int r = 0;

    *a = (struct all_names){ .of = calloc(p->n + 1, sizeof *a->of) };
    for (size_t i = 0; a->of && i < p->n && r >= 0; i++) {
        r = names_read(p->fds[i], &a->of[a->of_n++], e);
        total += a->of[i].n;
    }
    a->v = calloc(total + 1, sizeof *a->v);
    if (!a->v || !a->of)
        abort();
    for (size_t i = 0; i < a->of_n; i++)
        for (size_t k = 0; k < a->of[i].n && r >= 0; k++)
            a->v[n++] = a->of[i].v[k];
    qsort(a->v, n, sizeof *a->v, by_name);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || strcmp(a->v[i], a->v[i - 1]) != 0)
            a->v[a->n++] = a->v[i];
    return r;
}

/* --- one directory of the new layer --- */

/* The directories that overlay would merge at this name, beginning with part `from`. *closed: what is below the merged
 * layers must not show through. redirect: where it goes on below. */
static int collect(const struct parts *p, const char *name, size_t from, struct parts *ret, bool *closed,
                   struct arena *a, struct str *redirect, struct err *e)
{
    for (size_t i = from; i < p->n; i++) {
        struct node_marks marks;
        struct node n;
        int r = node_stat(p->fds[i], name, &n, e);
        if (r == -ENOENT)
            continue;
        if (r < 0)
            return r;
        if (n.type != NODE_DIR) {
            *closed = true;
            return 0;
        }
        int fd = node_open_dir(p->fds[i], name, e);
        if (fd < 0)
            return fd;
        ret->fds[ret->n++] = fd;
        r = node_marks(fd, 0, a, &marks, e);
        if (r < 0)
            return r;
        if (marks.flags & NODE_REDIRECT)
            *redirect = marks.redirect;
        *closed = marks.flags & NODE_OPAQUE;
        if (marks.flags)
            return 0;
    }
    return 0;
}

static int fill_dir(struct merge *m, int out, const struct parts *p, bool closed, struct str redirect, struct err *e)
{
    struct node n;
    char path[4096];

    int r = ++m->depth > LIMIT_TREE_DEPTH
                ? err_set(e, ERR_LIMIT, "nested deeper than LIMIT_TREE_DEPTH (%d)", LIMIT_TREE_DEPTH)
                : merge_dir(m, out, p, e);
    m->depth--;
    if (r >= 0 && closed)
        r = node_set_opaque(out, e);
    if (r >= 0 && redirect.p) {
        snprintf(path, sizeof path, "%.*s", STR_ARG(redirect));
        r = node_set_redirect(out, path, e);
    }
    if (r >= 0)
        r = node_stat(p->fds[0], "", &n, e);
    return r < 0 ? r : copy_dir_attrs(p->fds[0], out, &n, 0, 0, e);
}

static int make_dir(struct merge *m, int out, const char *name, const struct parts *p, size_t from, struct err *e)
{
    struct arena a = { 0 };
    struct parts inner = parts_new(p->n);
    struct str redirect = { 0 };
    bool closed = false;

    int r = collect(p, name, from, &inner, &closed, &a, &redirect, e);
    if (r >= 0 && mkdirat(out, name, 0700) < 0)
        r = err_sys(e, "make '%s'", name);
    auto_close int fd = r < 0 ? -1 : openat(out, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (r >= 0 && fd < 0)
        r = err_sys(e, "open '%s'", name);
    m->ret.entries++;
    if (r >= 0)
        r = fill_dir(m, fd, &inner, closed, redirect, e);
    parts_done(&inner);
    arena_done(&a);
    return r;
}

static int merge_name(struct merge *m, int out, const char *name, const struct parts *p, struct err *e)
{
    struct node n;

    for (size_t i = 0; i < p->n; i++) {
        int r = node_stat(p->fds[i], name, &n, e);
        if (r == -ENOENT)
            continue;
        if (r < 0)
            return r;
        if (n.type == NODE_DIR)
            return make_dir(m, out, name, p, i, e);
        const struct copy_opts c = {
            .from = p->fds[i], .name = name, .as = name, .node = &n, .to = out, .layer = &m->new
        };
        m->ret.entries++;
        return copy_node(&c, &m->ret.bytes, e);
    }
    return 0;
}

static int merge_dir(struct merge *m, int out, const struct parts *p, struct err *e)
{
    struct all_names names;

    int r = all_names_read(p, &names, e);
    for (size_t i = 0; i < names.n && r >= 0; i++)
        r = merge_name(m, out, names.v[i], p, e);
    all_names_done(&names);
    return r;
}

static int merge_tree(struct merge *m, const struct layer_chain *c, enum layer_tree t, struct err *e)
{
    struct parts p = parts_new(c->n + 1);

    int r = layer_lowers(c, t, p.fds, e);
    p.n = r > 0 ? (size_t)r : 0;
    int top = r > 0 ? layer_new_top(&m->new, e) : r;
    if (r > 0 && top >= 0 && mkdirat(top, layer_tree_names[t], 0700) < 0)
        r = err_sys(e, "make '%s'", layer_tree_names[t]);
    auto_close int out =
        r > 0 && top >= 0 ? openat(top, layer_tree_names[t], O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
    if (r > 0)
        r = top < 0   ? top
            : out < 0 ? err_sys(e, "open '%s'", layer_tree_names[t])
                      : fill_dir(m, out, &p, false, (struct str){ 0 }, e);
    parts_done(&p);
    return r < 0 ? r : 0;
}

int layer_merge(const char *home, const char *const *ids, size_t n, const char *id, struct layer_sealed *ret,
                struct err *e)
{
    struct layer_image none = { 0 };
    const struct layer_chain c = { .home = home, .image = &none, .ids = ids, .n = n };
    struct merge m = { .ret = { .changed = true } };
    mode_t mask = umask(0);

    int r = layer_new_begin(home, id, &m.new, e);
    if (r >= 0) {
        for (enum layer_tree t = 0; t < LAYER_TREES && r >= 0; t++)
            r = merge_tree(&m, &c, t, e);
        if (r >= 0)
            r = layer_new_top(&m.new, e);
        if (r >= 0)
            r = layer_take_index(&m.new, &c, e);
        if (r >= 0)
            r = layer_new_seal(&m.new, false, e);
        layer_new_done(&m.new);
    }
    umask(mask);
    if (r < 0)
        return err_wrap(e, r, "merge into layer %s", id);
    *ret = m.ret;
    return 0;
}

#include "image/stack.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/err.h"

/* One lookup on its way down through the layers; the names are those of struct ovl_lookup_data. */
struct look {
    char *name; /* what to look for in the next layer: a name, or an absolute path after a redirect */
    bool stop, is_dir;
    struct stack_hit hit;
};

static void add_part(struct stack_dir *d, int take_fd, int layer)
{
    d->v = realloc(d->v, (size_t)(d->n + 1) * sizeof *d->v);
    if (!d->v)
        abort();
    d->v[d->n++] = (struct stack_part){ take_fd, layer };
}

void stack_dir_done(struct stack_dir *d)
{
    while (d->n > 0)
        close(d->v[--d->n].fd);
    free(d->v);
    *d = (struct stack_dir){ 0 };
}

void stack_hit_done(struct stack_hit *h)
{
    stack_dir_done(&h->dir);
}

void stack_top(const struct stack *s, struct stack_dir *ret)
{
    *ret = (struct stack_dir){ .stack = s };
    for (int i = 0; i < s->n; i++) {
        int fd = fcntl(s->fds[i], F_DUPFD_CLOEXEC, 3);
        if (fd >= 0)
            add_part(ret, fd, i);
    }
}

/* A redirect replaces the looked-for name from its start up to `pre + component`, and what follows (post) stays. */
static void follow(struct look *l, struct str redirect, size_t pre, const char *post)
{
    char *name = NULL;

    if (redirect.p[0] == '/')
        pre = 0;
    if (asprintf(&name, "%.*s%.*s%s", (int)pre, l->name, STR_ARG(redirect), post) < 0)
        abort();
    free(l->name);
    l->name = name;
}

static int read_marks(int fd, struct look *l, size_t pre, const char *post, struct err *e)
{
    struct arena a = { 0 };
    struct node_marks m;

    int r = node_marks(fd, 0, &a, &m, e);
    if (r >= 0 && (m.flags & NODE_OPAQUE))
        l->stop = true;
    else if (r >= 0 && (m.flags & NODE_REDIRECT))
        follow(l, m.redirect, pre, post);
    arena_done(&a);
    return r;
}

/* One component in one real directory. Returns a directory's descriptor, or -ENOENT for everything else; a file ends up
 * in l->hit. */
static int look_single(int base, struct look *l, const char *component, size_t pre, const char *post, struct err *e)
{
    struct node n;
    bool last = !post[0];

    int r = node_stat(base, component, &n, e);
    if (r < 0)
        return r == -ENAMETOOLONG ? -ENOENT : r;
    if (n.type != NODE_DIR) {
        l->stop = true;
        if (n.type != NODE_WHITEOUT && !l->is_dir && last)
            l->hit.node = n;
        return -ENOENT;
    }
    auto_close int fd = node_open_dir(base, component, e);
    if (fd < 0)
        return fd;
    if (last && !l->is_dir) {
        l->is_dir = true;
        l->hit.node = n;
    }
    r = read_marks(fd, l, pre, post, e);
    return r < 0 ? r : TAKE_FD(fd);
}

/* All of l->name in one layer. Redirects on the way change l->name in front of the point we are at: count from the end.
 */
static int look_layer(int base, struct look *l, struct err *e)
{
    char part[256];

    if (l->name[0] != '/') {
        snprintf(part, sizeof part, "%s", l->name);
        return look_single(base, l, part, 0, "", e);
    }
    size_t rem = strlen(l->name) - 1;
    auto_close int at = fcntl(base, F_DUPFD_CLOEXEC, 3);
    for (;;) {
        size_t pre = strlen(l->name) - rem;
        auto_free char *rest = strdup(l->name + pre);
        size_t n = rest ? strcspn(rest, "/") : 0;
        if (!rest || n == 0 || n >= sizeof part)
            return -ENOENT;
        memcpy(part, rest, n);
        part[n] = 0;
        int next = look_single(at, l, part, pre, rest + n, e);
        if (next < 0)
            return next;
        close(at);
        at = next;
        if (!rest[n])
            return TAKE_FD(at);
        rem -= n + 1;
    }
}

static int next_root(const struct stack *s, int layer, struct stack_part *ret)
{
    if (layer + 1 >= s->n)
        return 0;
    *ret = (struct stack_part){ s->fds[layer + 1], layer + 1 };
    return 1;
}

static int look_all(const struct stack_dir *d, struct look *l, struct err *e)
{
    bool from_root = false;
    int i = 0;
    struct stack_part p;

    if (d->n == 0)
        return 0;
    p = d->v[0];
    for (;;) {
        int fd = look_layer(p.fd, l, e);
        if (fd < 0 && fd != -ENOENT)
            return fd;
        if (fd >= 0) {
            if (l->hit.dir.n == 0)
                l->hit.layer = p.layer;
            add_part(&l->hit.dir, fd, p.layer);
        } else if (l->stop && !l->is_dir && l->hit.node.type != NODE_WHITEOUT) {
            l->hit.at = p.fd;
            l->hit.layer = p.layer;
        }
        if (l->stop)
            return 0;
        from_root = from_root || l->name[0] == '/';
        if (from_root ? !next_root(d->stack, p.layer, &p) : ++i >= d->n)
            return 0;
        if (!from_root)
            p = d->v[i];
    }
}

int stack_find(const struct stack_dir *d, const char *name, struct stack_hit *ret, struct err *e)
{
    struct look l = { .name = strdup(name), .hit = { .node = { .type = NODE_WHITEOUT }, .at = -1 } };

    if (!l.name)
        abort();
    l.hit.dir.stack = d->stack;
    int r = look_all(d, &l, e);
    free(l.name);
    if (r < 0) {
        stack_hit_done(&l.hit);
        return r;
    }
    *ret = l.hit;
    return 0;
}

static int top_hit(const struct stack *s, struct stack_hit *h, struct err *e)
{
    *h = (struct stack_hit){ .node = { .type = NODE_WHITEOUT }, .at = -1 };
    stack_top(s, &h->dir);
    return h->dir.n ? node_stat(h->dir.v[0].fd, "", &h->node, e) : 0;
}

int stack_walk(const struct stack *s, struct str path, struct stack_hit *ret, struct err *e)
{
    char part[256];
    struct stack_hit h, up = { 0 };

    int r = top_hit(s, &h, e);
    while (r >= 0 && path.n > 0) {
        const char *slash = memchr(path.p, '/', path.n);
        size_t n = slash ? (size_t)(slash - path.p) : path.n;
        if (n == 0 || n >= sizeof part || h.node.type != NODE_DIR) {
            stack_hit_done(&h);
            h = (struct stack_hit){ .node = { .type = NODE_WHITEOUT }, .at = -1 };
            break;
        }
        memcpy(part, path.p, n);
        part[n] = 0;
        path = (struct str){ path.p + n + !!slash, path.n - n - !!slash };
        stack_hit_done(&up);
        up = h;
        h = (struct stack_hit){ 0 };
        r = stack_find(&up.dir, part, &h, e);
    }
    /* a file's `at` is a descriptor of the directory above: keep that one alive with the hit */
    if (r >= 0 && h.node.type != NODE_DIR && h.node.type != NODE_WHITEOUT) {
        stack_dir_done(&h.dir);
        h.dir = up.dir;
        up.dir = (struct stack_dir){ 0 };
    }
    stack_hit_done(&up);
    if (r < 0) {
        stack_hit_done(&h);
        return r;
    }
    *ret = h;
    return 0;
}

/* --- names --- */

static void append(struct names *to, const struct names *from)
{
    to->v = realloc(to->v, (to->n + from->n + 1) * sizeof *to->v);
    if (!to->v)
        abort();
    for (size_t i = 0; i < from->n; i++)
        to->v[to->n++] = arena_z(&to->arena, str_of(from->v[i]));
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

int stack_names(const struct stack_dir *d, int from, int to, struct names *ret, struct err *e)
{
    *ret = (struct names){ 0 };
    int parts = 0, r = 0;

    for (int i = 0; i < d->n && r >= 0; i++) {
        struct names one;
        if (d->v[i].layer < from || d->v[i].layer >= to)
            continue;
        r = names_read(d->v[i].fd, &one, e);
        if (r >= 0)
            append(ret, &one);
        names_done(&one);
        parts++;
    }
    if (r < 0 || parts < 2 || ret->n < 2)
        return r;
    qsort(ret->v, ret->n, sizeof *ret->v, by_bytes);
    size_t kept = 1;
    for (size_t i = 1; i < ret->n; i++)
        if (strcmp(ret->v[i], ret->v[kept - 1]) != 0)
            ret->v[kept++] = ret->v[i];
    ret->n = kept;
    return 0;
}

/* The parts of the image in d, counted from v[*ret]. */
static int image_parts(const struct stack_dir *d, int *ret)
{
    int i = 0;

    while (i < d->n && d->v[i].layer < d->stack->image_from)
        i++;
    *ret = i;
    return d->n - i;
}

bool stack_same_image(const struct stack_dir *a, const struct stack_dir *b)
{
    int i, j;
    int n = image_parts(a, &i);

    if (n != image_parts(b, &j))
        return false;
    for (int k = 0; k < n; k++) {
        struct stat x, y;
        if (fstat(a->v[i + k].fd, &x) < 0 || fstat(b->v[j + k].fd, &y) < 0 || x.st_dev != y.st_dev ||
            x.st_ino != y.st_ino)
            return false;
    }
    return true;
}

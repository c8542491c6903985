/* layer_flatten: many layers become one. Reads the layers as overlay would show them and writes down what differs from
 * the image. A directory of the image that was renamed becomes a redirect to its path in the image: its redirect so far
 * may mean a path in a layer that is gone afterwards. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/err.h"
#include "image/copy.h"
#include "image/layer.h"
#include "image/layer_dir.h"
#include "image/stack.h"

struct flat {
    struct layer_new new;
    struct layer_sealed ret;
    int depth;
};

static int flat_dir(struct flat *f, int out, const struct stack_dir *real, bool merged, struct err *e);

static bool only_image(const struct stack_dir *d)
{
    return d->n > 0 && d->v[0].layer >= d->stack->image_from;
}

/* The image's part of a merged directory; borrowed. */
static struct stack_dir image_part(const struct stack_dir *d)
{
    int i = 0;

    while (i < d->n && d->v[i].layer < d->stack->image_from)
        i++;
    return (struct stack_dir){ .stack = d->stack, .v = d->v + i, .n = d->n - i };
}

static ssize_t fd_path(int fd, char *out, size_t size)
{
    char name[32];

    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(name, out, size - 1);
    if (n >= 0)
        out[n] = 0;
    return n;
}

/* Where a directory of the image lies in it, "/..."; false if it cannot be told. Proved by looking there. */
static bool path_in_image(const struct stack_dir *part, char *out, size_t size)
{
    char top[4096], own[4096];
    const struct stack *s = part->stack;
    const struct stack image = { .fds = s->fds + s->image_from, .n = s->n - s->image_from };
    struct stack_hit h;
    ssize_t n = fd_path(s->fds[part->v[0].layer], top, sizeof top);

    if (n == 1)
        n = 0; /* the top is "/": a detached mount */
    if (n < 0 || fd_path(part->v[0].fd, own, sizeof own) <= n || strncmp(own, top, (size_t)n) != 0 || own[n] != '/')
        return false;
    snprintf(out, size, "%s", own + n);
    if (stack_walk(&image, str_of(out + 1), &h, NULL) < 0)
        return false;
    bool same = h.node.type == NODE_DIR && stack_same_image(part, &h.dir);
    stack_hit_done(&h);
    return same;
}

/* How a directory of the new layer stands to the image. was: what the image's part of the directory above has under
 * this name. Returns whether the image's part shows through; if not, all there is must be copied. */
static int set_marks(int out, const struct stack_dir *real, const struct stack_hit *was, struct err *e)
{
    char path[4096];
    struct stack_dir part = image_part(real);
    bool in_image = was->node.type == NODE_DIR;

    if (part.n > 0 && in_image && stack_same_image(&part, &was->dir))
        return true;
    if (part.n > 0 && path_in_image(&part, path, sizeof path)) {
        int r = node_set_redirect(out, path, e);
        return r < 0 ? r : true;
    }
    int r = in_image ? node_set_opaque(out, e) : 0;
    return r < 0 ? r : false;
}

static int make_dir(struct flat *f, int out, const char *name, struct stack_hit *is, const struct stack_hit *was,
                    struct err *e)
{
    if (was->node.type == NODE_DIR && only_image(&is->dir) && stack_same_image(&is->dir, &was->dir))
        return 0;
    if (mkdirat(out, name, 0700) < 0)
        return err_sys(e, "make '%s'", name);
    auto_close int fd = openat(out, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return err_sys(e, "open '%s'", name);
    f->ret.entries++;
    if (++f->depth > LIMIT_TREE_DEPTH)
        return err_set(e, ERR_LIMIT, "nested deeper than LIMIT_TREE_DEPTH (%d)", LIMIT_TREE_DEPTH);
    int r = set_marks(fd, &is->dir, was, e);
    if (r >= 0)
        r = flat_dir(f, fd, &is->dir, r, e);
    f->depth--;
    return r < 0 ? r : copy_dir_attrs(is->dir.v[0].fd, fd, &is->node, 0, 0, e);
}

static int flat_name(struct flat *f, int out, const char *name, const struct stack_dir *real, bool merged,
                     struct err *e)
{
    struct stack_hit is = { 0 }, was = { .node = { .type = NODE_WHITEOUT } };
    struct stack_dir image = image_part(real);

    int r = stack_find(real, name, &is, e);
    if (r >= 0 && merged && image.n > 0)
        r = stack_find(&image, name, &was, e);
    if (r < 0) {
        stack_hit_done(&is);
        return r;
    }
    if (is.node.type == NODE_WHITEOUT) {
        if (was.node.type != NODE_WHITEOUT && mknodat(out, name, S_IFCHR, 0) < 0)
            r = err_sys(e, "mark '%s' deleted", name);
    } else if (is.node.type == NODE_DIR) {
        r = make_dir(f, out, name, &is, &was, e);
    } else if (!merged || is.layer < real->stack->image_from) {
        const struct copy_opts c = {
            .from = is.at, .name = name, .as = name, .node = &is.node, .to = out, .layer = &f->new
        };
        r = copy_node(&c, &f->ret.bytes, e);
        f->ret.entries++;
    }
    stack_hit_done(&is);
    stack_hit_done(&was);
    return r;
}

/* merged: what the image has here shows through, so only the layers' names count. */
static int flat_dir(struct flat *f, int out, const struct stack_dir *real, bool merged, struct err *e)
{
    struct names names;

    int r = stack_names(real, 0, merged ? real->stack->image_from : INT32_MAX, &names, e);
    for (size_t i = 0; i < names.n && r >= 0; i++)
        r = flat_name(f, out, names.v[i], real, merged, e);
    names_done(&names);
    return r;
}

static int flat_tree(struct flat *f, const struct layer_chain *c, enum layer_tree t, struct err *e)
{
    struct stack all;
    struct stack_dir real;
    struct node n;

    int r = layer_stack(c, t, -1, &all, e);
    if (r < 0)
        return r;
    if (all.image_from == 0) { /* no layer has it */
        layer_stack_done(&all, -1);
        return 0;
    }
    stack_top(&all, &real);
    int top = layer_new_top(&f->new, e);
    r = top < 0 ? top : mkdirat(top, layer_tree_names[t], 0700) < 0 ? err_sys(e, "make '%s'", layer_tree_names[t]) : 0;
    auto_close int out = r < 0 ? -1 : openat(top, layer_tree_names[t], O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (r >= 0)
        r = flat_dir(f, out, &real, all.n > all.image_from, e);
    if (r >= 0)
        r = node_stat(real.v[0].fd, "", &n, e);
    if (r >= 0)
        r = copy_dir_attrs(real.v[0].fd, out, &n, 0, 0, e);
    stack_dir_done(&real);
    layer_stack_done(&all, -1);
    return r;
}

int layer_flatten(const struct layer_chain *c, const char *id, bool sync, struct layer_sealed *ret, struct err *e)
{
    struct flat f = { .ret = { .changed = true, .full = true } };
    mode_t mask = umask(0);

    int r = layer_new_begin(c->home, id, &f.new, e);
    if (r >= 0) {
        for (enum layer_tree t = 0; t < LAYER_TREES && r >= 0; t++)
            if (t != LAYER_USR || c->image->usr_n > 0)
                r = flat_tree(&f, c, t, e);
        if (r >= 0)
            r = layer_new_top(&f.new, e);
        if (r >= 0)
            r = layer_take_index(&f.new, c, e);
        if (r >= 0)
            r = layer_new_seal(&f.new, sync, e);
        layer_new_done(&f.new);
    }
    umask(mask);
    if (r < 0)
        return err_wrap(e, r, "flatten into layer %s", id);
    *ret = f.ret;
    return 0;
}

/* Is a file as in the image, and if not, what is it? */
#include <errno.h>

#include "base/auto.h"
#include "base/err.h"
#include "image/manifest_build.h"

static void fill(struct object_entry *x, const struct node *n, const struct node_marks *m)
{
    *x = (struct object_entry){ .type = n->type,
                                .mode = n->mode,
                                .uid = n->uid,
                                .gid = n->gid,
                                .major = n->major,
                                .minor = n->minor,
                                .size = n->size };
    if (m && m->has_xattrs) {
        x->has_xattrs = true;
        x->xattrs = m->xattrs;
    }
}

static bool same_xattrs(const struct node_marks *a, const struct node_marks *b)
{
    return a->has_xattrs == b->has_xattrs && (!a->has_xattrs || sha_eq(&a->xattrs, &b->xattrs));
}

/* Attributes and bytes of two regular files. */
static int as_in_image(int fd, const struct node_marks *m, uint64_t size, const struct stack_hit *image,
                       const char *name, struct err *e)
{
    struct arena a = { 0 };
    struct node_marks of_image;
    auto_close int was = node_open_file(image->at, name, e);

    if (was < 0)
        return was;
    int r = node_marks(was, 0, &a, &of_image, e);
    arena_done(&a);
    if (r < 0 || !same_xattrs(m, &of_image))
        return r < 0 ? r : 0;
    return node_same_content(fd, was, size, e);
}

static int regular(struct build *b, const struct stack_hit *real, const char *name, const struct stack_hit *image,
                   struct object_entry *ret, struct err *e)
{
    struct arena a = { 0 };
    struct node_marks m;
    auto_close int fd = node_open_file(real->at, name, e);

    if (fd < 0)
        return fd;
    int r = node_marks(fd, 0, &a, &m, e);
    arena_done(&a);
    if (r < 0)
        return r;
    if (image && node_same_attrs(&real->node, &image->node) && real->node.size == image->node.size) {
        r = as_in_image(fd, &m, real->node.size, image, name, e);
        if (r != 0)
            return r < 0 ? r : 0;
    }
    fill(ret, &real->node, &m);
    r = sha_fd(fd, real->node.size, &ret->hash, e);
    if (r < 0)
        return r;
    ret->has_hash = true;
    b->stats.files++;
    b->stats.bytes += real->node.size;
    return 1;
}

static int symbolic(const struct stack_hit *real, const char *name, const struct stack_hit *image,
                    struct object_entry *ret, struct err *e)
{
    struct arena a = { 0 };
    struct str is = node_readlink(real->at, name, &a, e);
    struct str was = { 0 };

    if (is.p && image && node_same_attrs(&real->node, &image->node))
        was = node_readlink(image->at, name, &a, e);
    int r = !is.p ? -EIO : was.p && str_eq(is, was) ? 0 : 1;
    if (r == 1) {
        fill(ret, &real->node, NULL);
        ret->size = is.n;
        ret->hash = sha_of(is);
        ret->has_hash = true;
    }
    arena_done(&a);
    return r;
}

int build_file(struct build *b, const struct stack_hit *real, const char *name, const struct stack_hit *image,
               struct object_entry *ret, struct err *e)
{
    int r = 0;

    if (image && (image->node.type == NODE_WHITEOUT || image->node.type == NODE_DIR))
        image = NULL;
    if (image && image->node.dev == real->node.dev && image->node.ino == real->node.ino)
        return 0; /* it is the image's own file */
    if (real->node.type == NODE_FILE)
        r = regular(b, real, name, image, ret, e);
    else if (real->node.type == NODE_LINK)
        r = symbolic(real, name, image, ret, e);
    else if (!image || !node_same_attrs(&real->node, &image->node))
        r = 1;
    if (r < 0)
        return err_wrap(e, r, "'%.*s/%s'", STR_ARG(buf_view(&b->path)), name);
    if (r == 0)
        return 0;
    if (real->node.type != NODE_FILE && real->node.type != NODE_LINK)
        fill(ret, &real->node, NULL);
    if (real->node.nlink > 1) {
        /* Its other names may lie where a delta does not look. */
        if (b->delta && real->layer > 0)
            b->need_scratch = true;
        links_note(b, &real->node, name);
    }
    return 1;
}

int build_dir(struct build *b, int fd, const struct node *n, const struct stack_hit *image, const struct object_tree *t,
              struct object_entry *ret, struct err *e)
{
    struct arena a = { 0 };
    struct node_marks is, was = { 0 };
    bool in_image = image && image->node.type == NODE_DIR;

    int r = node_marks(fd, 0, &a, &is, e);
    if (r >= 0 && in_image && image->dir.n > 0)
        r = node_marks(image->dir.v[0].fd, 0, &a, &was, e);
    arena_done(&a);
    if (r < 0)
        return r;
    if (t->n == 0 && in_image && node_same_attrs(n, &image->node) && same_xattrs(&is, &was))
        return 0;
    fill(ret, n, &is);
    ret->has_hash = true;
    r = object_tree_put(&b->objects, t, &ret->hash, e);
    return r < 0 ? r : 1;
}

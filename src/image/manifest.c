#include "image/manifest.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "base/auto.h"
#include "base/err.h"
#include "image/layer_dir.h"
#include "image/manifest_build.h"

void build_push(struct build *b, const char *name, size_t *ret_was)
{
    *ret_was = b->path.n;
    b->depth++;
    if (b->path.n)
        buf_char(&b->path, '/');
    buf_z(&b->path, name);
}

void build_pop(struct build *b, size_t was)
{
    b->path.n = was;
    b->depth--;
}

bool build_skips(const struct build *b, const char *name)
{
    return b->depth == 0 && (strcmp(name, "tmp") == 0 || (b->chain->image->usr_n > 0 && strcmp(name, "usr") == 0));
}

static int too_deep(const struct build *b, struct err *e)
{
    if (b->depth > LIMIT_TREE_DEPTH)
        return err_set(e, ERR_LIMIT, "directories are nested deeper than LIMIT_TREE_DEPTH (%d)", LIMIT_TREE_DEPTH);
    return 0;
}

static void add_deleted(struct object_tree *out, const char *name)
{
    object_tree_add(out, &(struct object_entry){ .type = NODE_WHITEOUT, .name = name });
}

/* --- from what is there --- */

static bool only_image(const struct stack_dir *d)
{
    return d->n > 0 && d->v[0].layer >= d->stack->image_from;
}

static int scratch_dir(struct build *b, const char *name, const struct stack_hit *real, const struct stack_hit *image,
                       struct object_entry *ret, struct err *e)
{
    static const struct stack_dir none = { 0 };
    struct object_tree t = { 0 };
    size_t was;
    bool in_image = image->node.type == NODE_DIR;

    if (in_image && only_image(&real->dir) && stack_same_image(&real->dir, &image->dir))
        return 0; /* it is the image's own */
    build_push(b, name, &was);
    int r = build_scratch(b, &real->dir, in_image ? &image->dir : &none, &t, e);
    build_pop(b, was);
    if (r >= 0)
        r = build_dir(b, real->dir.v[0].fd, &real->node, image, &t, ret, e);
    object_tree_done(&t);
    return r;
}

static int scratch_name(struct build *b, const char *name, const struct stack_dir *real, const struct stack_dir *image,
                        struct object_tree *out, struct err *e)
{
    struct stack_hit is = { 0 }, was = { .node = { .type = NODE_WHITEOUT } };
    struct object_entry x = { 0 };

    int r = stack_find(real, name, &is, e);
    if (r >= 0 && image->n > 0)
        r = stack_find(image, name, &was, e);
    if (r >= 0 && is.node.type == NODE_WHITEOUT) {
        if (was.node.type != NODE_WHITEOUT)
            add_deleted(out, name);
    } else if (r >= 0) {
        r = is.node.type == NODE_DIR ? scratch_dir(b, name, &is, &was, &x, e) : build_file(b, &is, name, &was, &x, e);
        x.name = name;
        if (r > 0)
            object_tree_add(out, &x);
    }
    stack_hit_done(&is);
    stack_hit_done(&was);
    return r < 0 ? r : 0;
}

int build_scratch(struct build *b, const struct stack_dir *real, const struct stack_dir *image, struct object_tree *out,
                  struct err *e)
{
    struct names names, of_image = { 0 };
    /* If the image's part is the image's directory at this very path, only what layers name can differ. */
    bool same = stack_same_image(real, image);
    int limit = same && real->stack ? real->stack->image_from : INT32_MAX;

    int r = too_deep(b, e);
    if (r < 0)
        return r;
    r = stack_names(real, 0, limit, &names, e);
    if (r >= 0 && !same)
        r = stack_names(image, 0, INT32_MAX, &of_image, e);
    for (size_t i = 0, k = 0; r >= 0 && (i < names.n || k < of_image.n);) {
        int order = i == names.n ? 1 : k == of_image.n ? -1 : strcmp(names.v[i], of_image.v[k]);
        const char *name = order <= 0 ? names.v[i] : of_image.v[k];
        i += order <= 0;
        k += order >= 0;
        if (!build_skips(b, name))
            r = scratch_name(b, name, real, image, out, e);
    }
    names_done(&names);
    names_done(&of_image);
    return r;
}

/* --- from what the newest layer changes --- */

static int need_real(struct build *b, enum layer_tree t, struct err *e)
{
    if (b->real_open[t])
        return 0;
    int r = layer_stack(b->chain, t, -1, &b->real[t], e);
    b->real_open[t] = r >= 0;
    return r;
}

/* A directory that hides or moves what was there: its tree is made anew, from the layers that it consists of. */
static int delta_anew(struct build *b, enum layer_tree t, const struct stack_hit *image, struct object_tree *out,
                      struct err *e)
{
    static const struct stack_dir none = { 0 };
    struct stack_hit real;
    struct str path = buf_view(&b->path);

    if (t != LAYER_ROOT) /* the name of the tree itself */
        path = path.n > 4 ? (struct str){ path.p + 4, path.n - 4 } : (struct str){ "", 0 };
    int r = need_real(b, t, e);
    if (r >= 0)
        r = stack_walk(&b->real[t], path, &real, e);
    if (r < 0)
        return r;
    r = build_scratch(b, &real.dir, image->node.type == NODE_DIR ? &image->dir : &none, out, e);
    stack_hit_done(&real);
    return r;
}

static int delta_known(struct build *b, enum layer_tree t, int fd, const struct object_entry *was,
                       const struct stack_hit *image, struct object_tree *out, struct err *e)
{
    static const struct stack_dir none = { 0 };
    struct object_tree old = { 0 };

    int r = was && was->has_hash ? object_tree_get(&b->objects, &was->hash, &old, e) : 0;
    if (r >= 0)
        r = build_delta(b, t, fd, &old, image->node.type == NODE_DIR ? &image->dir : &none, out, e);
    object_tree_done(&old);
    return r;
}

static int delta_dir(struct build *b, enum layer_tree t, int up, const struct node *n, const struct object_entry *was,
                     const struct stack_hit *image, struct object_entry *ret, struct err *e)
{
    struct arena a = { 0 };
    struct node_marks m;
    struct object_tree tree = { 0 };
    size_t path;
    const char *name = ret->name;
    auto_close int fd = node_open_dir(up, name, e);

    if (fd < 0)
        return fd;
    int r = node_marks(fd, 0, &a, &m, e);
    arena_done(&a);
    if (r < 0)
        return r;
    bool merged = was ? was->type == NODE_DIR : image->node.type == NODE_DIR;
    build_push(b, name, &path);
    r = m.flags || !merged ? delta_anew(b, t, image, &tree, e) : delta_known(b, t, fd, was, image, &tree, e);
    build_pop(b, path);
    if (r >= 0)
        r = build_dir(b, fd, n, image, &tree, ret, e);
    ret->name = name;
    object_tree_done(&tree);
    return r;
}

static int delta_name(struct build *b, enum layer_tree t, int newest, const char *name, const struct object_entry *was,
                      const struct stack_dir *image, struct object_tree *out, struct err *e)
{
    struct stack_hit real = { .at = newest }, of_image = { .node = { .type = NODE_WHITEOUT } };
    struct object_entry x = { .name = name };

    int r = node_stat(newest, name, &real.node, e);
    if (r >= 0 && image->n > 0)
        r = stack_find(image, name, &of_image, e);
    if (r >= 0 && real.node.type == NODE_WHITEOUT) {
        if (of_image.node.type != NODE_WHITEOUT)
            add_deleted(out, name);
    } else if (r >= 0) {
        r = real.node.type == NODE_DIR ? delta_dir(b, t, newest, &real.node, was, &of_image, &x, e)
                                       : build_file(b, &real, name, &of_image, &x, e);
        x.name = name;
        if (r > 0)
            object_tree_add(out, &x);
    }
    stack_hit_done(&of_image);
    return r < 0 ? r : 0;
}

int build_delta(struct build *b, enum layer_tree t, int newest, const struct object_tree *was,
                const struct stack_dir *image, struct object_tree *out, struct err *e)
{
    struct names names;
    size_t k = 0;

    int r = too_deep(b, e);
    if (r < 0)
        return r;
    r = names_read(newest, &names, e);
    for (size_t i = 0; r >= 0 && (i < names.n || k < was->n);) {
        int order = i == names.n ? 1 : k == was->n ? -1 : strcmp(names.v[i], was->v[k].name);
        const struct object_entry *old = order >= 0 ? &was->v[k++] : NULL;
        if (order > 0) {
            if (old->name[0] && !build_skips(b, old->name))
                object_tree_add(out, old);
            continue;
        }
        const char *name = names.v[i++];
        if (!build_skips(b, name))
            r = delta_name(b, t, newest, name, old, image, out, e);
    }
    names_done(&names);
    return r;
}

/* --- the top --- */

/* The image's side of a tree's top. */
static int image_top(struct build *b, enum layer_tree t, struct stack_hit *ret, struct err *e)
{
    *ret = (struct stack_hit){ .node = { .type = NODE_DIR, .mode = 01777 }, .at = -1 };
    ret->dir.stack = &b->image[t];
    if (t == LAYER_TMP)
        return 0;
    stack_top(&b->image[t], &ret->dir);
    return node_stat(ret->dir.n ? ret->dir.v[0].fd : -1, "", &ret->node, e);
}

/* What a tree is made of, and which directory has its top's attributes (borrowed; -1: no layer has the tree). */
static int top_tree(struct build *b, enum layer_tree t, const struct object_tree *was, const struct stack_dir *image,
                    struct object_tree *out, int *ret_fd, struct err *e)
{
    struct stack_dir real;

    if (b->delta) {
        *ret_fd = b->newest[t];
        return build_delta(b, t, b->newest[t], was, image, out, e);
    }
    int r = need_real(b, t, e);
    if (r < 0)
        return r;
    *ret_fd = b->real[t].n ? b->real[t].fds[0] : -1;
    stack_top(&b->real[t], &real);
    r = real.n ? build_scratch(b, &real, image, out, e) : 0;
    stack_dir_done(&real);
    return r;
}

/* The entry of a whole tree. was: the parent's tree of it; 1: *ret is filled, 0: it is as in the image. For the root
 * its entries go into `out` and *ret is about the directory itself. */
static int top_entry(struct build *b, enum layer_tree t, const struct object_tree *was, struct object_tree *out,
                     struct object_entry *ret, struct err *e)
{
    const struct object_tree empty = { 0 };
    struct stack_hit image = { 0 };
    struct node n = { 0 };
    size_t path = 0;
    int fd = -1;

    int r = image_top(b, t, &image, e);
    if (t != LAYER_ROOT)
        build_push(b, layer_tree_names[t], &path);
    if (r >= 0)
        r = top_tree(b, t, was, &image.dir, out, &fd, e);
    if (t != LAYER_ROOT)
        build_pop(b, path);
    if (r >= 0 && fd >= 0)
        r = node_stat(fd, "", &n, e);
    if (r >= 0)
        r = fd < 0 ? 0 : build_dir(b, fd, &n, &image, t == LAYER_ROOT ? &empty : out, ret, e);
    ret->name = t == LAYER_ROOT ? "" : layer_tree_names[t];
    stack_hit_done(&image);
    return r;
}

/* /usr or /tmp, as an entry of the root's tree. */
static int subtree(struct build *b, enum layer_tree t, const struct object_tree *top_was, struct object_entry *ret,
                   struct err *e)
{
    struct object_tree old = { 0 }, out = { 0 };
    const struct object_entry *was = object_tree_find(top_was, layer_tree_names[t]);

    if (b->delta && b->newest[t] < 0) {
        if (was)
            *ret = *was;
        return was != NULL;
    }
    int r = b->delta && was && was->has_hash ? object_tree_get(&b->objects, &was->hash, &old, e) : 0;
    if (r >= 0)
        r = top_entry(b, t, &old, &out, ret, e);
    object_tree_done(&old);
    object_tree_done(&out);
    return r;
}

static int root_entries(struct build *b, const struct object_tree *was, struct object_tree *out,
                        struct object_entry *self, struct err *e)
{
    if (!b->delta || b->newest[LAYER_ROOT] >= 0)
        return top_entry(b, LAYER_ROOT, was, out, self, e);
    for (size_t i = 0; i < was->n; i++)
        if (was->v[i].name[0] && !build_skips(b, was->v[i].name))
            object_tree_add(out, &was->v[i]);
    const struct object_entry *old = object_tree_find(was, "");
    if (old)
        *self = *old;
    return old != NULL;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct object_entry *)a)->name, ((const struct object_entry *)b)->name);
}

static int build_top(struct build *b, const struct object_tree *was, struct object_tree *out, struct err *e)
{
    struct object_entry x = { 0 };

    int r = root_entries(b, was, out, &x, e);
    for (enum layer_tree t = LAYER_ROOT; r >= 0 && t < LAYER_TREES; t++) {
        if (t == LAYER_USR && b->chain->image->usr_n == 0)
            continue;
        if (t != LAYER_ROOT)
            r = subtree(b, t, was, &x, e);
        if (r > 0)
            object_tree_add(out, &x);
    }
    if (out->n > 1)
        qsort(out->v, out->n, sizeof *out->v, by_name);
    if (r >= 0)
        r = links_put(b, b->delta ? was : NULL, out, e);
    return r;
}

/* --- opening and closing --- */

static void build_done(struct build *b)
{
    for (enum layer_tree t = 0; t < LAYER_TREES; t++) {
        layer_stack_done(&b->real[t], -1);
        if (b->newest[t] >= 0)
            close(b->newest[t]);
    }
    links_done(b);
    objects_close(&b->objects);
    arena_done(&b->arena);
    buf_done(&b->path);
}

static int build_init(struct build *b, const struct layer_chain *c, bool dry, struct err *e)
{
    *b = (struct build){ .chain = c, .newest = { -1, -1, -1 }, .objects.dir = -1 };
    buf_init(&b->path, (LIMIT_TREE_DEPTH + 2) * 256);
    int r = objects_open(c->home, dry, &b->objects, e);
    for (enum layer_tree t = 0; r >= 0 && t < LAYER_TREES; t++) {
        layer_image_stack(c->image, t, &b->image[t]);
        if (c->n == 0)
            continue;
        auto_close int layer = layer_open(c->home, c->ids[0], e);
        r = layer < 0 ? layer : 0;
        if (layer >= 0)
            b->newest[t] = openat(layer, layer_tree_names[t], O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    }
    return r;
}

static int parent_tree(struct build *b, const struct state_root *parent, struct object_tree *ret, struct err *e)
{
    struct sha root, top;
    struct buf image;

    if (!sha_parse(str_of(parent->hex), &root))
        return err_set(e, ERR_INVALID, "'%.64s' is no state root", parent->hex);
    buf_init(&image, 4096);
    int r = object_state_get(&b->objects, &root, &image, &top, e);
    if (r >= 0 && !str_is(buf_view(&image), b->chain->image->digest))
        r = err_set(e, ERR_INVALID, "state %.12s is of another image", parent->hex);
    buf_done(&image);
    return r < 0 ? r : object_tree_get(&b->objects, &top, ret, e);
}

static int build_root(struct build *b, const struct state_root *parent, struct state_root *ret, struct err *e)
{
    struct object_tree was = { 0 }, top = { 0 };
    struct sha hash, root;

    int r = b->delta && parent ? parent_tree(b, parent, &was, e) : 0;
    if (r >= 0)
        r = build_top(b, &was, &top, e);
    if (r >= 0)
        r = object_tree_put(&b->objects, &top, &hash, e);
    if (r >= 0)
        r = object_state_put(&b->objects, b->chain->image->digest, &hash, &root, e);
    if (r >= 0)
        sha_print(&root, ret->hex);
    object_tree_done(&was);
    object_tree_done(&top);
    return r;
}

/* b is to be done by the caller in any case. */
static int hash_chain(const struct layer_chain *c, const struct state_root *parent, bool dry, struct state_root *ret,
                      struct build *b, struct err *e)
{
    int r = build_init(b, c, dry, e);
    if (r < 0)
        return r;
    b->delta = c->n > 0 && (parent || c->n == 1) && !dry;
    r = build_root(b, parent, ret, e);
    if (r >= 0 && b->need_scratch) { /* rare: a directory was moved with files in it that have names elsewhere */
        links_done(b);
        b->delta = false;
        r = build_root(b, NULL, ret, e);
    }
    return r;
}

int layer_hash(const struct layer_chain *c, const struct state_root *parent, bool sync, struct state_root *ret,
               struct manifest_stats *stats, struct err *e)
{
    struct build b;
    struct state_root root;

    int r = hash_chain(c, parent, false, &root, &b, e);
    if (r >= 0 && sync && syncfs(b.objects.dir) < 0)
        r = err_sys(e, "sync the objects");
    if (r >= 0) {
        b.stats.objects = b.objects.written;
        if (stats)
            *stats = b.stats;
        *ret = root;
    }
    build_done(&b);
    return r < 0 ? err_wrap(e, r, "hash a state") : 0;
}

/* The root itself says of which image it is, and is its own proof of that. */
static int same_image(const struct layer_chain *c, const struct state_root *expected, struct err *e)
{
    struct objects objects = { .dir = -1 };
    struct sha root, top;
    struct buf image;

    if (!sha_parse(str_of(expected->hex), &root))
        return 0; /* not known */
    buf_init(&image, 4096);
    int r = objects_open(c->home, true, &objects, e);
    if (r >= 0 && object_state_get(&objects, &root, &image, &top, NULL) >= 0 &&
        !str_is(buf_view(&image), c->image->digest)) {
        (void)err_set(e, ERR_DENIED, "it is of the image's generation %.*s, which is %s now", STR_ARG(buf_view(&image)),
                      c->image->digest);
        r = -ESTALE;
    }
    objects_close(&objects);
    buf_done(&image);
    return r;
}

static int layers_there(const struct layer_chain *c, struct err *e)
{
    for (size_t i = 0; i < c->n; i++) {
        auto_close int layer = layer_open(c->home, c->ids[i], e);
        if (layer < 0)
            return layer == -ENOENT ? -ENODATA : layer;
    }
    return 0;
}

int layer_verify(const struct layer_chain *c, const struct state_root *expected, struct state_root *ret_found,
                 struct err *e)
{
    struct build b;

    int r = same_image(c, expected, e);
    if (r >= 0)
        r = layers_there(c, e);
    if (r >= 0) {
        r = hash_chain(c, NULL, true, ret_found, &b, e);
        build_done(&b);
    }
    if (r < 0)
        return err_wrap(e, r, "verify state %.12s", expected->hex);
    return strcmp(ret_found->hex, expected->hex) == 0;
}

#include "image/checkout.h"

#include <stdio.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/map.h"
#include "image/layer_dir.h"
#include "image/stack.h"
#include "image/tar.h"
#include "image/tree_diff.h"

struct checkout {
    const struct layer_chain *chain;
    struct stack trees[LAYER_TREES];
    struct tar tar;
    struct buf deleted;
    struct arena arena;
    struct map files; /* "dev.ino" -> first path */
    struct checkout_counts counts;
};

static struct str in_tree(const struct checkout *c, const char *path, enum layer_tree *ret)
{
    bool usr = strncmp(path, "usr", 3) == 0 && c->chain->image->usr_n > 0, tmp = strncmp(path, "tmp", 3) == 0;

    *ret = LAYER_ROOT;
    if ((!usr && !tmp) || (path[3] && path[3] != '/'))
        return str_of(path);
    *ret = usr ? LAYER_USR : LAYER_TMP;
    return str_of(path[3] ? path + 4 : "");
}

/* The earlier path of the same file, or NULL: it is noted. */
static const char *earlier(struct checkout *c, const struct node *n, const char *path)
{
    if (n->nlink < 2 || n->type == NODE_DIR)
        return NULL;
    char *key = arena_printf(&c->arena, "%llx.%llx", (unsigned long long)n->dev, (unsigned long long)n->ino);
    const char *old = map_get(&c->files, str_of(key));
    if (!old)
        map_put(&c->files, str_of(key), arena_z(&c->arena, str_of(path)));
    return old;
}

static int add(struct checkout *c, const char *path, const struct stack_hit *h, const char *name, struct err *e)
{
    struct arena a = { 0 };
    struct tar_entry x = { .path = path, .node = &h->node, .content = -1, .hardlink = earlier(c, &h->node, path) };
    int r = 0;

    auto_close int fd = h->node.type == NODE_FILE ? node_open_file(h->at, name, e) : -1;
    if (h->node.type == NODE_FILE && fd < 0)
        return fd;
    x.content = h->node.type == NODE_DIR ? h->dir.v[0].fd : fd;
    if (h->node.type == NODE_LINK) {
        x.target = node_readlink(h->at, name, &a, e);
        r = x.target.p ? 0 : -5;
    }
    if (r >= 0)
        r = tar_add(&c->tar, &x, e);
    c->counts.entries++;
    arena_done(&a);
    return r;
}

/* Against the empty manifest every listed entry is a row. */
static int on_row(void *arg, const struct tree_row *row, struct err *e)
{
    struct checkout *c = arg;
    struct stack_hit h;
    enum layer_tree t;
    const char *name = strrchr(row->path, '/');

    if (row->new->type == NODE_WHITEOUT) {
        c->counts.deleted++;
        buf_add(&c->deleted, row->path, strlen(row->path) + 1);
        return 0;
    }
    struct str path = in_tree(c, row->path, &t);
    int r = stack_walk(&c->trees[t], path, &h, e);
    if (r < 0)
        return r;
    if (h.node.type != row->new->type)
        r = err_set(e, ERR_SYSTEM, "'%.100s' in the layers is not what the state says", row->path);
    else
        r = add(c, row->path[0] ? row->path : ".", &h, name ? name + 1 : row->path, e);
    stack_hit_done(&h);
    return r;
}

int checkout_tar(const struct layer_chain *chain, const struct state_root *root, int out, struct checkout_counts *ret,
                 struct err *e)
{
    struct checkout c = { .chain = chain };
    int r = 0;

    buf_init(&c.deleted, LIMIT_OBJECT);
    tar_init(&c.tar, out);
    for (enum layer_tree t = 0; t < LAYER_TREES && r >= 0; t++)
        r = layer_stack(chain, t, -1, &c.trees[t], e);
    if (r >= 0)
        r = tree_diff(chain->home, NULL, root, on_row, &c, e);
    if (r >= 0)
        r = c.deleted.full ? err_set(e, ERR_LIMIT, "too many deleted paths")
                           : tar_text(&c.tar, ".sandglass/deleted", buf_view(&c.deleted), e);
    if (r >= 0)
        r = tar_end(&c.tar, e);
    c.counts.bytes = c.tar.bytes;
    for (enum layer_tree t = 0; t < LAYER_TREES; t++)
        layer_stack_done(&c.trees[t], -1);
    tar_done(&c.tar);
    buf_done(&c.deleted);
    map_done(&c.files);
    arena_done(&c.arena);
    if (r >= 0)
        *ret = c.counts;
    return r < 0 ? err_wrap(e, r, "check out state %.12s", root->hex) : 0;
}

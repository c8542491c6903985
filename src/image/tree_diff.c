#include "image/tree_diff.h"

#include "base/auto.h"
#include "base/err.h"

struct walk {
    struct objects objects;
    struct buf path;
    on_tree_row *cb;
    void *arg;
    int depth;
};

const char *tree_change_name(enum tree_change c)
{
    static const char *const names[] = { "added", "changed", "removed", "reverted" };
    return names[c];
}

static bool is_dir(const struct object_entry *x)
{
    return x && x->type == NODE_DIR;
}

/* Everything about an entry but the tree below it. */
static bool same_self(const struct object_entry *a, const struct object_entry *b)
{
    if (!is_dir(a) || !is_dir(b))
        return object_same_entry(a, b);
    struct object_entry x = *a;
    x.hash = b->hash;
    return object_same_entry(&x, b);
}

static int tell(struct walk *w, const struct object_entry *old, const struct object_entry *new, struct err *e)
{
    bool was = old && old->type != NODE_WHITEOUT, is = new &&new->type != NODE_WHITEOUT;
    enum tree_change c = TREE_CHANGED;

    if (!new)
        c = TREE_REVERTED;
    else if (old)
        c = was && is ? TREE_CHANGED : is ? TREE_ADDED : TREE_REMOVED;
    else
        c = is ? TREE_CHANGED : TREE_REMOVED; /* the image may or may not have had it: see diff_print */
    buf_char(&w->path, 0);
    const struct tree_row row = { .change = c, .path = w->path.p, .old = old, .new = new };
    w->path.n--;
    return w->cb(w->arg, &row, e);
}

static int walk_trees(struct walk *w, const struct object_tree *a, const struct object_tree *b, struct err *e);

static int below(struct walk *w, const struct object_entry *a, const struct object_entry *b, struct err *e)
{
    struct object_tree x = { 0 }, y = { 0 };
    int r = 0;

    if (is_dir(a) && is_dir(b) && sha_eq(&a->hash, &b->hash))
        return 0;
    if (++w->depth > LIMIT_TREE_DEPTH + 1)
        return err_set(e, ERR_LIMIT, "objects are nested deeper than LIMIT_TREE_DEPTH (%d)", LIMIT_TREE_DEPTH);
    if (is_dir(a) && a->has_hash)
        r = object_tree_get(&w->objects, &a->hash, &x, e);
    if (r >= 0 && is_dir(b) && b->has_hash)
        r = object_tree_get(&w->objects, &b->hash, &y, e);
    if (r >= 0)
        r = walk_trees(w, &x, &y, e);
    w->depth--;
    object_tree_done(&x);
    object_tree_done(&y);
    return r;
}

static int walk_name(struct walk *w, const struct object_entry *a, const struct object_entry *b, struct err *e)
{
    size_t was = w->path.n;
    const char *name = a ? a->name : b->name;
    int r = 0;

    buf_printf(&w->path, "%s%s", was && name[0] ? "/" : "", name);
    if (!a || !b || !same_self(a, b))
        r = tell(w, a, b, e);
    if (r >= 0 && (is_dir(a) || is_dir(b)))
        r = below(w, is_dir(a) ? a : NULL, is_dir(b) ? b : NULL, e);
    w->path.n = was;
    return r;
}

static int walk_trees(struct walk *w, const struct object_tree *a, const struct object_tree *b, struct err *e)
{
    int r = 0;

    for (size_t i = 0, k = 0; r >= 0 && (i < a->n || k < b->n);) {
        int order = i == a->n ? 1 : k == b->n ? -1 : strcmp(a->v[i].name, b->v[k].name);
        r = walk_name(w, order <= 0 ? &a->v[i] : NULL, order >= 0 ? &b->v[k] : NULL, e);
        i += order <= 0;
        k += order >= 0;
    }
    return r;
}

static int open_state(const struct walk *w, const struct state_root *s, struct object_tree *ret, struct buf *image,
                      struct err *e)
{
    struct sha root, top;

    if (!s)
        return 0;
    if (!sha_parse(str_of(s->hex), &root))
        return err_set(e, ERR_INVALID, "'%.64s' is no state root", s->hex);
    int r = object_state_get(&w->objects, &root, image, &top, e);
    return r < 0 ? r : object_tree_get(&w->objects, &top, ret, e);
}

int tree_diff(const char *home, const struct state_root *a, const struct state_root *b, on_tree_row *cb, void *arg,
              struct err *e)
{
    struct walk w = { .cb = cb, .arg = arg, .objects.dir = -1 };
    struct object_tree x = { 0 }, y = { 0 };
    struct buf of_a, of_b;

    buf_init(&of_a, 4096);
    buf_init(&of_b, 4096);
    buf_init(&w.path, (LIMIT_TREE_DEPTH + 4) * 256);
    int r = objects_open(home, true, &w.objects, e);
    if (r >= 0)
        r = open_state(&w, a, &x, &of_a, e);
    if (r >= 0)
        r = open_state(&w, b, &y, &of_b, e);
    if (r >= 0 && a && b && !str_eq(buf_view(&of_a), buf_view(&of_b)))
        r = err_set(e, ERR_INVALID, "the two states are of different images");
    if (r >= 0)
        r = walk_trees(&w, &x, &y, e);
    objects_close(&w.objects);
    object_tree_done(&x);
    object_tree_done(&y);
    buf_done(&w.path);
    buf_done(&of_a);
    buf_done(&of_b);
    return r < 0 ? r : 0;
}

/* A difference between two states, as JSON rows. Objects say what differs; the image and the layers say the rest. */
#include <stdio.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/json.h"
#include "image/layer_dir.h"
#include "image/stack.h"
#include "image/text_diff.h"
#include "image/tree_diff.h"

/* One side of a row, resolved. */
struct side {
    bool there, has_hash;
    struct object_entry x;
};

struct print {
    const struct diff_opts *o;
    struct stack a[LAYER_TREES], b[LAYER_TREES], image[LAYER_TREES];
    struct jw json;
    struct diff_counts counts;
    size_t rows, max;
};

static enum layer_tree tree_of(const struct print *p, const char **path)
{
    static const struct {
        const char *name;
        enum layer_tree tree;
    } tops[] = { { "usr", LAYER_USR }, { "tmp", LAYER_TMP } };

    for (size_t i = 0; i < ARRAY_LEN(tops); i++) {
        if (strncmp(*path, tops[i].name, 3) != 0 || ((*path)[3] && (*path)[3] != '/'))
            continue;
        if (tops[i].tree == LAYER_USR && p->o->a->image->usr_n == 0)
            break;
        *path += (*path)[3] ? 4 : 3;
        return tops[i].tree;
    }
    return LAYER_ROOT;
}

/* What the image has at a path. */
static int from_image(struct print *p, const char *path, struct side *ret, struct err *e)
{
    struct stack_hit h;
    const char *name = strrchr(path, '/');
    enum layer_tree t = tree_of(p, &path);

    name = name ? name + 1 : path;
    *ret = (struct side){ 0 };
    if (t == LAYER_TMP) {
        ret->there = !*path;
        ret->x = (struct object_entry){ .type = NODE_DIR, .mode = 01777 };
        return 0;
    }
    int r = stack_walk(&p->image[t], str_of(path), &h, e);
    if (r < 0)
        return r;
    if (h.node.type != NODE_WHITEOUT) {
        ret->there = true;
        ret->x = (struct object_entry){ .type = h.node.type,
                                        .mode = h.node.mode,
                                        .uid = h.node.uid,
                                        .gid = h.node.gid,
                                        .major = h.node.major,
                                        .minor = h.node.minor,
                                        .size = h.node.size };
        auto_close int fd = h.node.type == NODE_FILE ? node_open_file(h.at, name, e) : -1;
        if (h.node.type == NODE_FILE)
            r = fd < 0 ? fd : sha_fd(fd, h.node.size, &ret->x.hash, e);
        ret->x.has_hash = h.node.type == NODE_FILE && r >= 0;
    }
    stack_hit_done(&h);
    return r;
}

static int resolve(struct print *p, const char *path, const struct object_entry *x, struct side *ret, struct err *e)
{
    if (!x)
        return from_image(p, path, ret, e);
    *ret = (struct side){ .there = x->type != NODE_WHITEOUT, .x = *x };
    return 0;
}

/* --- text --- */

static int read_side(struct print *p, const struct stack *trees, const char *path, struct buf *out, struct err *e)
{
    struct stack_hit h;
    const char *name = strrchr(path, '/');
    enum layer_tree t = tree_of(p, &path);

    name = name ? name + 1 : path;
    int r = stack_walk(&trees[t], str_of(path), &h, e);
    if (r < 0)
        return r;
    auto_close int fd = h.node.type == NODE_FILE ? node_open_file(h.at, name, e) : -1;
    while (fd >= 0) {
        void *room = buf_room(out, 65536);
        ssize_t n = room ? read(fd, room, 65536) : 0;
        if (n <= 0)
            break;
        buf_grew(out, (size_t)n);
    }
    stack_hit_done(&h);
    return 0;
}

static bool wants_text(const struct print *p, const struct side *s)
{
    return !s->there || (s->x.type == NODE_FILE && s->x.size <= p->o->text_bytes && s->x.size <= LIMIT_DIFF_TEXT);
}

static int print_text(struct print *p, const char *path, const struct side *was, const struct side *is, struct err *e)
{
    struct buf a, b, text;

    if (p->o->text_bytes == 0 || !wants_text(p, was) || !wants_text(p, is) ||
        (was->there && is->there && was->x.has_hash && is->x.has_hash && sha_eq(&was->x.hash, &is->x.hash)))
        return 0;
    buf_init(&a, LIMIT_DIFF_TEXT + 65536);
    buf_init(&b, LIMIT_DIFF_TEXT + 65536);
    buf_init(&text, 4 * LIMIT_DIFF_TEXT);
    int r = was->there ? read_side(p, p->a, path, &a, e) : 0;
    if (r >= 0 && is->there)
        r = read_side(p, p->b, path, &b, e);
    if (r >= 0 && text_is(buf_view(&a)) && text_is(buf_view(&b))) {
        text_diff(buf_view(&a), buf_view(&b), &text);
        if (text.n && !text.full)
            jw_kstr(&p->json, "text", buf_view(&text));
    }
    buf_done(&a);
    buf_done(&b);
    buf_done(&text);
    return r;
}

/* --- rows --- */

static const char *type_name(enum node_type t)
{
    switch (t) {
    case NODE_FILE: return "file";
    case NODE_DIR: return "directory";
    case NODE_LINK: return "symlink";
    case NODE_FIFO: return "fifo";
    case NODE_SOCK: return "socket";
    case NODE_CHAR: return "char_device";
    case NODE_BLOCK: return "block_device";
    case NODE_WHITEOUT: break;
    }
    return "none";
}

static void print_side(struct jw *w, const struct side *s, bool new)
{
    char hex[SHA_HEX], mode[16];

    if (!s->there)
        return;
    if (s->x.type == NODE_FILE || s->x.type == NODE_LINK)
        jw_kint(w, new ? "new_size" : "old_size", (int64_t)s->x.size);
    if (s->x.has_hash && s->x.type != NODE_DIR) {
        sha_print(&s->x.hash, hex);
        jw_kz(w, new ? "new_hash" : "old_hash", hex);
    }
    snprintf(mode, sizeof mode, "%04o", s->x.mode);
    jw_kz(w, new ? "new_mode" : "old_mode", mode);
    jw_kint(w, new ? "new_uid" : "old_uid", s->x.uid);
    jw_kint(w, new ? "new_gid" : "old_gid", s->x.gid);
}

/* Directories: not what is in them, that has rows of its own. The image's xattrs are not compared here. */
static bool same_sides(const struct side *a, const struct side *b, bool from_objects)
{
    struct object_entry x = a->x, y = b->x;

    if (!a->there || !b->there)
        return a->there == b->there;
    if (x.type == NODE_DIR && y.type == NODE_DIR)
        x.has_hash = y.has_hash = false;
    if (!from_objects && x.type != NODE_FILE)
        x.has_xattrs = y.has_xattrs = x.has_hash = y.has_hash = false;
    return object_same_entry(&x, &y);
}

static int on_row(void *arg, const struct tree_row *row, struct err *e)
{
    struct print *p = arg;
    struct side was, is;

    int r = resolve(p, row->path, row->old, &was, e);
    if (r >= 0)
        r = resolve(p, row->path, row->new, &is, e);
    if (r < 0)
        return r;
    if (same_sides(&was, &is, row->old && row->new))
        return 0;
    enum tree_change c = !was.there ? TREE_ADDED : !is.there ? TREE_REMOVED : TREE_CHANGED;
    *(c == TREE_ADDED ? &p->counts.added : c == TREE_REMOVED ? &p->counts.removed : &p->counts.changed) += 1;
    if (p->rows == p->max) {
        p->counts.truncated = true;
        return 0;
    }
    p->rows++;
    struct str path = str_of(row->path);
    jw_obj(&p->json);
    jw_kstr(&p->json, "path", path);
    if (!utf8_ok(path)) {
        jw_key(&p->json, "path_base64");
        jw_base64(&p->json, path);
    }
    jw_kz(&p->json, "change", tree_change_name(c));
    jw_kz(&p->json, "type", type_name(is.there ? is.x.type : was.x.type));
    if (is.there && was.there && is.x.type != was.x.type)
        jw_kz(&p->json, "old_type", type_name(was.x.type));
    print_side(&p->json, &was, false);
    print_side(&p->json, &is, true);
    r = print_text(p, row->path, &was, &is, e);
    jw_obj_end(&p->json);
    return r;
}

int diff_print(const struct diff_opts *o, struct buf *out, struct diff_counts *ret, struct err *e)
{
    struct print p = { .o = o,
                       .json = { .out = out },
                       .max = o->rows && o->rows < LIMIT_DIFF_ROWS ? o->rows : LIMIT_DIFF_ROWS };
    int r = 0;

    for (enum layer_tree t = 0; t < LAYER_TREES && r >= 0; t++) {
        layer_image_stack(o->a->image, t, &p.image[t]);
        r = layer_stack(o->a, t, -1, &p.a[t], e);
        if (r >= 0)
            r = layer_stack(o->b, t, -1, &p.b[t], e);
    }
    jw_arr(&p.json);
    if (r >= 0)
        r = tree_diff(o->a->home, o->root_a, o->root_b, on_row, &p, e);
    jw_arr_end(&p.json);
    for (enum layer_tree t = 0; t < LAYER_TREES; t++) {
        layer_stack_done(&p.a[t], -1);
        layer_stack_done(&p.b[t], -1);
    }
    if (r >= 0 && out->full)
        r = err_set(e, ERR_LIMIT, "the difference is larger than %zu bytes", out->cap);
    if (r >= 0)
        *ret = p.counts;
    return r;
}

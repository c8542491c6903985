/* layer_seal: one walk over the live trees of a frozen box, copying what is not as the last walk saw it.
 *
 * Two modes. `full`: the trees are copied as they are; with the same lowers they mean the same. `delta`: against the
 * index of the last layer; names that went away become whiteouts, a directory that is not the same directory any more
 * is copied whole and made opaque. What a delta cannot say (see RETRY_FULL) is said by a full layer. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#include "base/auto.h"
#include "base/err.h"
#include "image/copy.h"
#include "image/layer.h"
#include "image/layer_alias.h"
#include "image/layer_dir.h"
#include "image/layer_index.h"
#include "image/stack.h"

enum { RETRY_FULL = -ESTALE };

struct seal {
    const struct layer_opts *o;
    struct layer_new new;
    struct layer_index old; /* p NULL: full */
    struct buf index, aliases;
    enum layer_tree tree;
    bool plain; /* this tree is no upper of an overlay */
    struct arena arena;
    uint64_t *suspects; /* inodes, sorted */
    size_t suspects_n;
    bool prune;      /* what is not dirty is as the last walk saw it */
    uint64_t *dirty; /* offsets of suspects in the old index, sorted */
    size_t dirty_n;
    int64_t newest_ns; /* ctime */
    struct layer_sealed ret;
};

/* One directory on the way down. */
struct level {
    struct level *up; /* NULL: the top of a tree */
    const char *name; /* of a top: the tree's */
    int live, out;    /* out -1: nothing was written here yet */
    int depth;
    struct node node;
    unsigned flags;              /* of the live directory */
    bool fresh;                  /* not the directory that the last walk saw here */
    bool names_known;            /* its names are those that the last walk saw */
    bool hide;                   /* make it opaque: the last layer has something else here */
    const struct index_rec *old; /* what the last walk saw, unless fresh */
};

/* --- writing into the layer --- */

static int out_dir(struct seal *s, struct level *l, struct err *e)
{
    if (l->out >= 0)
        return l->out;
    int up = l->up ? out_dir(s, l->up, e) : layer_new_top(&s->new, e);
    if (up < 0)
        return up;
    if (mkdirat(up, l->name, 0700) < 0)
        return err_sys(e, "make '%s' in the layer", l->name);
    l->out = openat(up, l->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    s->ret.entries++;
    return l->out < 0 ? err_sys(e, "open '%s' in the layer", l->name) : l->out;
}

static int write_node(struct seal *s, struct level *l, const char *name, const struct node *n, struct err *e)
{
    int out = out_dir(s, l, e);
    if (out < 0)
        return out;
    s->ret.entries++;
    const struct copy_opts c = {
        .from = l->live, .name = name, .as = name, .node = n, .base = s->o->base, .to = out, .layer = &s->new
    };
    return copy_node(&c, &s->ret.bytes, e);
}

static int write_whiteout(struct seal *s, struct level *l, const char *name, struct err *e)
{
    int out = out_dir(s, l, e);
    if (out < 0)
        return out;
    s->ret.entries++;
    return mknodat(out, name, S_IFCHR, 0) < 0 ? err_sys(e, "mark '%s' deleted", name) : 0;
}

static int finish_dir(struct seal *s, struct level *l, struct err *e)
{
    if (l->out < 0)
        return 0;
    if (l->hide) {
        int r = node_set_opaque(l->out, e);
        if (r < 0)
            return r;
    }
    /* The directory that the last layer has at this path carries its redirect and opaque mark already. */
    return copy_dir_attrs(l->live, l->out, &l->node, s->o->base, l->fresh ? l->flags : 0, e);
}

/* --- what changed --- */

static int by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static bool is_suspect(const struct seal *s, const struct node *n)
{
    if (n->type != NODE_FILE)
        return false;
    return s->o->suspect_all ||
           (s->suspects_n && bsearch(&n->ino, s->suspects, s->suspects_n, sizeof *s->suspects, by_number));
}

static bool same_attrs(const struct index_rec *r, const struct node *n)
{
    return r->type == (uint32_t)n->type && r->mode == n->mode && r->uid == n->uid && r->gid == n->gid;
}

static bool same_stamps(const struct index_rec *r, const struct node *n)
{
    if (r->type == NODE_WHITEOUT && n->type == NODE_WHITEOUT)
        return true; /* all whiteouts of a mount are names of one inode, whose stamps say nothing */
    return same_attrs(r, n) && r->ino == n->ino && r->birth_ns == n->birth_ns && r->size == n->size &&
           r->mtime_ns == n->mtime_ns && r->ctime_ns == n->ctime_ns && r->rdev == ((uint64_t)n->major << 32 | n->minor);
}

/* The path of a name below the tree's top, for looking into older layers. */
static void print_path(const struct level *l, const char *name, struct buf *out)
{
    if (l->up) {
        print_path(l->up, l->name, out);
        buf_char(out, '/');
    }
    buf_z(out, name);
}

/* 1: the bytes are those of the sealed copy. Whatever goes wrong on the way is a "no": then the file is copied. */
static int compare(struct seal *s, const struct level *l, const char *name, const struct node *n)
{
    struct buf path;

    buf_init(&path, 4096);
    print_path(l, name, &path);
    buf_char(&path, 0);
    auto_close int is = path.full ? -1 : node_open_file(l->live, name, NULL);
    int r = is < 0 ? 0 : layer_same_as_sealed(s->o, s->tree, path.p, is, n->size);
    buf_done(&path);
    return r;
}

/* --- what is not looked at --- */

/* In the order of the index, so the offsets are sorted. */
static void find_dirty(struct seal *s)
{
    const struct index_rec *r;
    size_t size = 0;

    s->prune = s->o->known && s->old.p && !s->o->suspect_all;
    for (uint64_t at = index_first(); s->prune && s->suspects_n && (r = index_at(&s->old, at, s->old.n));
         at = index_inside(&s->old, r)) {
        if (!bsearch(&r->ino, s->suspects, s->suspects_n, sizeof *s->suspects, by_number))
            continue;
        if (s->dirty_n == size) {
            size = size ? 2 * size : 64;
            s->dirty = realloc(s->dirty, size * sizeof *s->dirty);
            if (!s->dirty)
                abort();
        }
        s->dirty[s->dirty_n++] = at;
    }
}

/* Nothing happened to it, nor to anything in it. */
static bool is_clean(const struct seal *s, const struct index_rec *r)
{
    uint64_t from = index_offset(&s->old, r), to = index_after(&s->old, r);
    size_t low = 0, high = s->dirty_n;

    while (low < high) {
        size_t mid = (low + high) / 2;
        if (s->dirty[mid] < from)
            low = mid + 1;
        else
            high = mid;
    }
    return low == s->dirty_n || s->dirty[low] >= to;
}

/* --- the walk --- */

static int walk(struct seal *s, struct level *l, struct err *e);

/* Attributes are read only if something can have changed them. */
static int dir_marks(struct seal *s, int fd, const struct index_rec *old, const struct node *n, uint64_t *ret_marks,
                     unsigned *ret_flags, struct err *e)
{
    struct arena a = { 0 };
    struct node_marks m;

    if (old && old->ino == n->ino && old->birth_ns == n->birth_ns && old->ctime_ns == n->ctime_ns) {
        *ret_marks = old->marks;
        *ret_flags = old->flags;
        return 0;
    }
    int r = node_marks(fd, s->o->base, &a, &m, e);
    if (r >= 0) {
        *ret_marks = index_marks(&m);
        *ret_flags = m.flags;
    }
    arena_done(&a);
    return r;
}

/* The top directory of a box that has no layer yet is worth one only if it is not as the lowers show it. */
static int top_differs(struct seal *s, const struct node *n, uint64_t marks, struct err *e)
{
    struct arena a = { 0 };
    struct stack lowers;
    struct node was = { .type = NODE_DIR, .mode = 01777 };
    struct node_marks m = { 0 };

    int r = layer_stack(s->o->below, s->tree, -1, &lowers, e);
    if (r < 0)
        return r;
    if (lowers.n > 0)
        r = node_stat(lowers.fds[0], "", &was, e);
    if (r >= 0 && lowers.n > 0)
        r = node_marks(lowers.fds[0], 0, &a, &m, e);
    layer_stack_done(&lowers, -1);
    arena_done(&a);
    return r < 0 ? r : !node_same_attrs(&was, n) || index_marks(&m) != marks;
}

static int visit_dir(struct seal *s, struct level *up, const char *name, const struct node *n,
                     const struct index_rec *old, struct err *e)
{
    struct level l = { .up = up, .name = name, .out = -1, .node = *n, .depth = up ? up->depth + 1 : 0 };
    uint64_t marks = 0;

    if (l.depth > LIMIT_TREE_DEPTH)
        return err_set(e, ERR_LIMIT, "directories are nested deeper than LIMIT_TREE_DEPTH (%d)", LIMIT_TREE_DEPTH);
    auto_close int live = node_open_dir(up ? up->live : s->o->scratch, name, e);
    if (live < 0)
        return live;
    l.live = live;
    int r = dir_marks(s, live, old, n, &marks, &l.flags, e);
    if (r < 0)
        return r;
    bool same = old && old->type == NODE_DIR && old->ino == n->ino && old->birth_ns == n->birth_ns &&
                old->flags == l.flags && (!(l.flags & NODE_REDIRECT) || old->marks == marks);
    if (s->old.p && !same && (l.flags & NODE_REDIRECT))
        return RETRY_FULL;
    l.old = same ? old : NULL;
    l.fresh = !same;
    l.hide = !same && old;
    bool write = !same || !same_attrs(old, n) || old->marks != marks;
    if (!up && s->o->sealed_n == 0) {
        r = top_differs(s, n, marks, e);
        write = r > 0;
    }
    if (r >= 0 && write)
        r = out_dir(s, &l, e);
    uint64_t at = index_add(&s->index, name, n, marks, l.flags);
    if (r >= 0)
        r = walk(s, &l, e);
    if (r >= 0)
        r = finish_dir(s, &l, e);
    index_end(&s->index, at);
    if (l.out >= 0)
        close(l.out);
    return r < 0 ? r : 0;
}

static int visit(struct seal *s, struct level *l, const char *name, const struct index_rec *old, struct err *e)
{
    struct node n;

    if (s->prune && old && l->names_known && is_clean(s, old)) {
        index_copy(&s->index, old);
        return 0;
    }
    int r = node_stat(l->live, name, &n, e);
    if (r < 0)
        return r == -ENOENT ? err_set(e, ERR_BUSY, "'%s' went away: the box is not frozen", name) : r;
    node_shift(&n, s->o->base);
    s->ret.seen++;
    if (n.ctime_ns > s->newest_ns)
        s->newest_ns = n.ctime_ns;
    if (n.type == NODE_DIR && s->prune && old && old->type == NODE_DIR && old->ino == n.ino &&
        old->birth_ns == n.birth_ns && is_clean(s, old)) {
        index_copy(&s->index, old);
        return 0;
    }
    if (n.type == NODE_DIR)
        return visit_dir(s, l, name, &n, old, e);
    /* Outside of an overlay anybody may make a device 0/0. It is no file that could be opened, and in a layer it would
     * delete something: it is not recorded. */
    if (n.type == NODE_WHITEOUT && s->plain)
        return old ? write_whiteout(s, l, name, e) : 0;

    bool same = old && same_stamps(old, &n);
    if (same && is_suspect(s, &n))
        same = compare(s, l, name, &n);
    if (!same)
        r = write_node(s, l, name, &n, e);
    index_add(&s->index, name, &n, 0, 0);
    return r < 0 ? r : 0;
}

/* A name that the last walk saw is gone. */
static int gone(struct seal *s, struct level *l, const struct index_rec *old, struct err *e)
{
    /* A whiteout that is lifted without a replacement would show what lies below again; the last layer still hides it.
     */
    return old->type == NODE_WHITEOUT ? RETRY_FULL : write_whiteout(s, l, old->name, e);
}

/* A directory with the old stamps has the old names: they need not be read again. */
static int walk_known(struct seal *s, struct level *l, struct err *e)
{
    uint64_t at = index_inside(&s->old, l->old), end = index_after(&s->old, l->old);
    const struct index_rec *old;
    int r = 0;

    l->names_known = true;
    for (; r >= 0 && (old = index_at(&s->old, at, end)); at = index_after(&s->old, old))
        r = visit(s, l, old->name, old, e);
    return r;
}

/* Both lists are sorted by name: they are read side by side. */
static int walk(struct seal *s, struct level *l, struct err *e)
{
    struct names names;
    uint64_t at = l->old ? index_inside(&s->old, l->old) : 0, end = l->old ? index_after(&s->old, l->old) : 0;
    const struct index_rec *old = l->old ? index_at(&s->old, at, end) : NULL;

    if (l->old && l->old->ctime_ns == l->node.ctime_ns && l->old->mtime_ns == l->node.mtime_ns)
        return walk_known(s, l, e);
    int r = names_read(l->live, &names, e);
    for (size_t i = 0; r >= 0 && (i < names.n || old);) {
        int order = !old ? -1 : i == names.n ? 1 : strcmp(names.v[i], old->name);
        if (order > 0)
            r = gone(s, l, old, e);
        else
            r = visit(s, l, names.v[i++], order == 0 ? old : NULL, e);
        if (order >= 0) {
            at = index_after(&s->old, old);
            old = index_at(&s->old, at, end);
        }
    }
    names_done(&names);
    return r;
}

/* --- suspects --- */

/* Where a path of the box lies in scratch. */
static struct str in_scratch(const struct layer_opts *o, struct str path, enum layer_tree *ret)
{
    enum layer_tree t = LAYER_ROOT;
    while (path.n > 0 && path.p[0] == '/')
        path = (struct str){ path.p + 1, path.n - 1 };
    if (path.n > 4 && memcmp(path.p, "tmp/", 4) == 0)
        t = LAYER_TMP;
    else if (path.n > 4 && memcmp(path.p, "usr/", 4) == 0 && o->below->image->usr_n > 0)
        t = LAYER_USR;
    if (t != LAYER_ROOT)
        path = (struct str){ path.p + 4, path.n - 4 };
    *ret = t;
    return path;
}

static int find_suspects(struct seal *s)
{
    s->suspects = calloc(s->o->suspects_n + s->o->changed_n + 1, sizeof *s->suspects);
    if (!s->suspects)
        abort();
    for (size_t i = 0; i < s->o->suspects_n; i++) {
        enum layer_tree t;
        struct str path = in_scratch(s->o, s->o->suspects[i], &t);
        char *full = arena_printf(&s->arena, "%s/%.*s", layer_tree_names[t], STR_ARG(path));
        struct node n;
        auto_close int fd = memchr(path.p, 0, path.n) ? -1 : node_open_file(s->o->scratch, full, NULL);
        if (fd >= 0 && node_stat(fd, "", &n, NULL) >= 0)
            s->suspects[s->suspects_n++] = n.ino;
    }
    for (size_t i = 0; i < s->o->changed_n; i++)
        s->suspects[s->suspects_n++] = s->o->changed[i];
    qsort(s->suspects, s->suspects_n, sizeof *s->suspects, by_number);
    return 0;
}

/* --- stamps, see layer.h --- */

/* Does a change after a stat always get another ctime? Asked of a memfd, which is a file on tmpfs. */
static bool stamps_are_fine(void)
{
    static int fine = -1;
    struct stat before, after;

    if (fine >= 0)
        return fine;
    auto_close int fd = memfd_create("stamps", MFD_CLOEXEC);
    fine = fd >= 0;
    for (int i = 0; i < 4 && fine; i++) {
        if (write(fd, "x", 1) != 1 || fstat(fd, &before) < 0 || write(fd, "x", 1) != 1 || fstat(fd, &after) < 0)
            fine = 0;
        else if (before.st_ctim.tv_nsec == after.st_ctim.tv_nsec)
            fine = 0;
    }
    return fine;
}

static void wait_past(int64_t ns)
{
    struct timespec t;

    if (stamps_are_fine())
        return;
    for (int i = 0; i < 100; i++) {
        clock_gettime(CLOCK_REALTIME_COARSE, &t);
        if (t.tv_sec * 1000000000LL + t.tv_nsec > ns)
            return;
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    }
}

/* --- the whole --- */

/* The index belongs to this scratch if the tops are the same directories. */
static const struct index_rec *old_top(const struct seal *s, uint64_t *at, const char *name)
{
    const struct index_rec *r = s->old.p ? index_at(&s->old, *at, s->old.n) : NULL;

    if (!r || strcmp(r->name, name) != 0)
        return NULL;
    *at = index_after(&s->old, r);
    return r;
}

static int seal_trees(struct seal *s, struct err *e)
{
    uint64_t at = index_first();

    index_begin(&s->index);
    for (enum layer_tree t = 0; t < LAYER_TREES; t++) {
        const char *name = layer_tree_names[t];
        struct node n;
        if (t == LAYER_USR && s->o->below->image->usr_n == 0)
            continue;
        int r = node_stat(s->o->scratch, name, &n, e);
        if (r < 0)
            return err_wrap(e, r, "scratch has no '%s'", name);
        node_shift(&n, s->o->base);
        const struct index_rec *old = old_top(s, &at, name);
        if (s->old.p && (!old || old->ino != n.ino || old->birth_ns != n.birth_ns))
            return RETRY_FULL;
        s->tree = t;
        s->plain = t == LAYER_TMP && !s->o->tmp_is_overlay;
        if (s->prune && old && is_clean(s, old))
            index_copy(&s->index, old);
        else
            r = visit_dir(s, NULL, name, &n, old, e);
        if (r < 0)
            return r == RETRY_FULL ? r : err_wrap(e, r, "tree %s", name);
        const struct alias_opts a = { .seal = s->o,
                                      .tree = t,
                                      .plain = s->plain,
                                      .new = &s->new,
                                      .suspects = s->suspects,
                                      .suspects_n = s->suspects_n,
                                      .delta = s->old.p != NULL,
                                      .counts = &s->ret,
                                      .records = &s->aliases };
        r = alias_seal(&a, e);
        if (r < 0)
            return r == RETRY_FULL ? r : err_wrap(e, r, "hard links of tree %s", name);
    }
    return s->index.full ? err_set(e, ERR_LIMIT, "the index exceeds LIMIT_INDEX (%ld bytes)", LIMIT_INDEX) : 0;
}

static int write_file(struct seal *s, const char *name, struct str text, struct err *e)
{
    auto_close int fd = openat(s->new.top, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    if (fd < 0)
        return err_sys(e, "make the layer's '%s'", name);
    while (text.n > 0) {
        ssize_t n = write(fd, text.p, text.n);
        if (n <= 0)
            return err_sys(e, "write the layer's '%s'", name);
        text = (struct str){ text.p + n, text.n - (size_t)n };
    }
    return 0;
}

static int seal_once(struct seal *s, struct err *e)
{
    buf_init(&s->index, LIMIT_INDEX);
    buf_init(&s->aliases, LIMIT_INDEX);
    int r = seal_trees(s, e);
    s->ret.full = !s->old.p;
    s->ret.changed = s->new.top >= 0;
    if (r >= 0 && s->ret.changed)
        r = write_file(s, "index", buf_view(&s->index), e);
    if (r >= 0 && s->ret.changed && s->aliases.n > 0)
        r = write_file(s, "aliases", buf_view(&s->aliases), e);
    if (r >= 0)
        wait_past(s->newest_ns);
    if (r >= 0 && s->ret.changed)
        r = layer_new_seal(&s->new, s->o->sync, e);
    layer_new_done(&s->new);
    buf_done(&s->index);
    buf_done(&s->aliases);
    return r;
}

static int open_old(struct seal *s, struct err *e)
{
    if (s->o->sealed_n == 0)
        return 0;
    auto_close int layer = layer_open(s->o->below->home, s->o->sealed[0], e);
    if (layer < 0)
        return layer;
    (void)layer_index_open(layer, &s->old, NULL); /* lost or damaged: a full layer is as good */
    return 0;
}

/* Files in overlay's index may change without being in the walk's. */
static bool nothing_happened(const struct seal *s)
{
    struct stat st;

    if (!s->prune || s->dirty_n > 0)
        return false;
    auto_close int layer = layer_open(s->o->below->home, s->o->sealed[0], NULL);
    return layer >= 0 && fstatat(layer, "aliases", &st, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT;
}

int layer_seal(const struct layer_opts *o, struct layer_sealed *ret, struct err *e)
{
    struct seal s = { .o = o };
    mode_t mask = umask(0);

    int r = layer_new_begin(o->below->home, o->id, &s.new, e);
    if (r >= 0) {
        find_suspects(&s);
        r = open_old(&s, e);
        find_dirty(&s);
        if (r >= 0 && nothing_happened(&s))
            layer_new_done(&s.new);
        else if (r >= 0)
            r = seal_once(&s, e);
        else
            layer_new_done(&s.new);
    }
    if (r == RETRY_FULL && s.old.p) {
        layer_index_close(&s.old);
        s.prune = false;
        s.ret = (struct layer_sealed){ 0 };
        r = layer_new_begin(o->below->home, o->id, &s.new, e);
        if (r >= 0)
            r = seal_once(&s, e);
    }
    layer_index_close(&s.old);
    arena_done(&s.arena);
    free(s.suspects);
    free(s.dirty);
    umask(mask);
    if (r < 0)
        return err_wrap(e, r, "seal layer %s", o->id);
    *ret = s.ret;
    return 0;
}

#include "image/layer_alias.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/map.h"
#include "image/copy.h"
#include "image/stack.h"

enum { FH_HEAD = 21, FH_MAGIC = 0xfb, FH_TYPE_AT = 4 }; /* struct ovl_fb: version, magic, len, flags, type, uuid[16] */

/* One file of overlay's index directory. Its name is the handle of the lower file, in hex. */
struct indexed {
    const char *key;
    struct str handle; /* type byte, then the handle's bytes */
    struct node node;  /* of the copy, owners shifted */
};

/* One name that shows it and lies below scratch. path NULL: none was found. */
struct alias {
    struct indexed *file;
    const char *path; /* below the tree's top */
    bool known;       /* the last seal had it ... */
    bool written;     /* ... and wrote it into a layer */
    bool same;        /* the file's stamps are as then */
};

struct work {
    const struct alias_opts *o;
    struct stack all; /* scratch, layers, image */
    int index, upper;
    struct arena arena;
    struct map by_key, by_handle;
    struct alias *v;
    size_t n, size;
};

static void add(struct work *w, struct alias a)
{
    if (w->n == w->size) {
        w->size = w->size ? 2 * w->size : 16;
        w->v = realloc(w->v, w->size * sizeof *w->v);
        if (!w->v)
            abort();
    }
    w->v[w->n++] = a;
}

/* --- overlay's index --- */

static struct str parse_handle(struct arena *a, const char *hex)
{
    size_t n = strlen(hex) / 2;
    char *b = arena_alloc(a, n + 1);
    unsigned byte;

    for (size_t i = 0; i < n; i++) {
        if (sscanf(hex + 2 * i, "%2x", &byte) != 1)
            return (struct str){ 0 };
        b[i] = (char)byte;
    }
    if (n <= FH_HEAD || (unsigned char)b[1] != FH_MAGIC)
        return (struct str){ 0 };
    b[FH_HEAD - 1] = b[FH_TYPE_AT];
    return (struct str){ b + FH_HEAD - 1, n - FH_HEAD + 1 };
}

static int read_index(struct work *w, struct err *e)
{
    struct names names;

    int r = names_read(w->index, &names, e);
    for (size_t i = 0; i < names.n && r >= 0; i++) {
        struct node n;
        if (names.v[i][0] == '#') /* overlay's spare whiteout */
            continue;
        r = node_stat(w->index, names.v[i], &n, e);
        if (r < 0 || n.type == NODE_DIR || n.type == NODE_WHITEOUT)
            continue;
        struct indexed *f = arena_alloc(&w->arena, sizeof *f);
        node_shift(&n, w->o->seal->base);
        *f = (struct indexed){ .key = arena_z(&w->arena, str_of(names.v[i])), .node = n };
        f->handle = parse_handle(&w->arena, f->key);
        if (!f->handle.p)
            r = err_set(e, ERR_SYSTEM, "overlay's index has a name that is no handle: '%.60s'", f->key);
        map_put(&w->by_key, str_of(f->key), f);
        map_put(&w->by_handle, f->handle, f);
    }
    names_done(&names);
    return r == -ENOENT ? 0 : r;
}

static struct indexed *by_handle(const struct work *w, int dir, const char *name)
{
    union {
        struct file_handle h;
        char room[sizeof(struct file_handle) + MAX_HANDLE_SZ];
    } u = { .h.handle_bytes = MAX_HANDLE_SZ };
    char key[1 + MAX_HANDLE_SZ];
    int mount;

    if (name_to_handle_at(dir, name, &u.h, &mount, 0) < 0)
        return NULL;
    key[0] = (char)u.h.handle_type;
    memcpy(key + 1, u.h.f_handle, u.h.handle_bytes);
    return map_get(&w->by_handle, (struct str){ key, 1 + u.h.handle_bytes });
}

/* --- the names, from the last seal or from a walk --- */

enum { KEY_MAX = 256 };

/* "<tree> <key> <written> <inode> <ctime> <mtime> <size> <length>:<path>\n", NUL-terminated at the end of all. */
static bool next_line(struct str *s, char key[KEY_MAX], unsigned *tree, struct alias *a, unsigned long long v[4],
                      struct str *path)
{
    int head = 0;
    unsigned written;
    size_t len;

    int n = sscanf(s->p, "%u %255s %u %llu %llu %llu %llu %zu:%n", tree, key, &written, &v[0], &v[1], &v[2], &v[3],
                   &len, &head);
    if (n != 8 || head == 0 || (size_t)head > s->n || s->n - (size_t)head < len + 1)
        return false;
    a->written = written;
    *path = (struct str){ s->p + head, len };
    *s = (struct str){ s->p + head + len + 1, s->n - (size_t)head - len - 1 };
    return true;
}

static struct str read_records(struct work *w)
{
    struct stat st;
    auto_close int layer = layer_open(w->o->seal->below->home, w->o->seal->sealed[0], NULL);
    auto_close int fd = layer < 0 ? -1 : openat(layer, "aliases", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0 || fstat(fd, &st) < 0)
        return (struct str){ "", 0 };
    char *p = arena_alloc(&w->arena, (size_t)st.st_size + 1);
    ssize_t n = read(fd, p, (size_t)st.st_size);
    return (struct str){ p, n < 0 ? 0 : (size_t)n };
}

/* Files of the index that the records know keep their names. Returns how many. */
static size_t recall(struct work *w)
{
    struct str s = read_records(w);
    struct map seen = { 0 };
    char key[KEY_MAX];
    unsigned tree;
    unsigned long long v[4];
    struct str path;
    struct alias a = { .known = true };

    while (s.n > 0 && next_line(&s, key, &tree, &a, v, &path)) {
        a.file = tree == w->o->tree ? map_get(&w->by_key, str_of(key)) : NULL;
        if (!a.file)
            continue;
        const struct node *n = &a.file->node;
        a.same = v[0] == n->ino && (int64_t)v[1] == n->ctime_ns && (int64_t)v[2] == n->mtime_ns && v[3] == n->size;
        a.path = path.n ? arena_z(&w->arena, path) : NULL;
        map_put(&seen, str_of(a.file->key), a.file);
        add(w, a);
    }
    size_t n = seen.count;
    map_done(&seen);
    return n;
}

static int scan(struct work *w, const struct stack_dir *d, struct buf *path, int depth, struct err *e)
{
    struct names names;

    if (depth > LIMIT_TREE_DEPTH)
        return err_set(e, ERR_LIMIT, "directories are nested deeper than LIMIT_TREE_DEPTH (%d)", LIMIT_TREE_DEPTH);
    int r = stack_names(d, 0, INT32_MAX, &names, e);
    for (size_t i = 0; i < names.n && r >= 0; i++) {
        struct stack_hit h;
        size_t was = path->n;
        r = stack_find(d, names.v[i], &h, e);
        if (r < 0)
            break;
        buf_printf(path, "%s%s", was ? "/" : "", names.v[i]);
        if (h.node.type == NODE_DIR) {
            r = scan(w, &h.dir, path, depth + 1, e);
        } else if (h.node.type != NODE_WHITEOUT && h.layer > 0 && h.node.nlink > 1) {
            struct indexed *f = by_handle(w, h.at, names.v[i]);
            if (f)
                add(w, (struct alias){ .file = f, .path = arena_z(&w->arena, buf_view(path)) });
        }
        path->n = was;
        stack_hit_done(&h);
    }
    names_done(&names);
    return r;
}

/* A new file in the index: all names are looked for, and what was known of the others is added to what is found. */
static int look_everywhere(struct work *w, struct err *e)
{
    struct stack_dir top;
    struct buf path;
    size_t known = w->n;
    struct map paths = { 0 };

    buf_init(&path, (LIMIT_TREE_DEPTH + 2) * 256);
    stack_top(&w->all, &top);
    int r = scan(w, &top, &path, 0, e);
    stack_dir_done(&top);
    buf_done(&path);
    for (size_t i = 0; i < known; i++)
        if (w->v[i].path)
            map_put(&paths, str_of(w->v[i].path), &w->v[i]);
    for (size_t i = known; i < w->n; i++) {
        struct alias *old = map_del(&paths, str_of(w->v[i].path));
        if (old && old->file == w->v[i].file) {
            w->v[i] = *old;
            old->path = NULL;
        }
    }
    map_done(&paths);
    return r;
}

/* --- writing --- */

/* Opens or makes one directory of the way to a name in the new layer. */
static int step_into(struct work *w, int out, const char *name, struct str path, struct err *e)
{
    struct stack_hit h;
    int fd = openat(out, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd >= 0 || errno != ENOENT)
        return fd < 0 ? err_sys(e, "open '%s' in the layer", name) : fd;
    int r = stack_walk(&w->all, path, &h, e);
    if (r < 0)
        return r;
    if (h.node.type != NODE_DIR)
        r = err_set(e, ERR_SYSTEM, "'%s' is no directory any more", name);
    else if (mkdirat(out, name, 0700) < 0 || (fd = openat(out, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
        r = err_sys(e, "make '%s' in the layer", name);
    if (r >= 0) {
        uint32_t base = h.layer == 0 ? w->o->seal->base : 0;
        node_shift(&h.node, base);
        r = copy_dir_attrs(h.dir.v[0].fd, fd, &h.node, base, 0, e);
        w->o->counts->entries++;
    }
    stack_hit_done(&h);
    if (r < 0 && fd >= 0)
        close(fd);
    return r < 0 ? r : fd;
}

static int open_parent(struct work *w, const char *path, const char **ret_name, struct err *e)
{
    char part[256];
    const char *slash;
    int top = layer_new_top(w->o->new, e);
    if (top < 0)
        return top;
    auto_close int at = step_into(w, top, layer_tree_names[w->o->tree], (struct str){ "", 0 }, e);

    for (const char *p = path; at >= 0; p = slash + 1) {
        slash = strchr(p, '/');
        if (!slash) {
            *ret_name = p;
            return TAKE_FD(at);
        }
        snprintf(part, sizeof part, "%.*s", (int)(slash - p), p);
        int next = step_into(w, at, part, (struct str){ path, (size_t)(slash - path) }, e);
        close(at);
        at = next;
    }
    return at;
}

static int write_alias(struct work *w, const struct alias *a, struct err *e)
{
    const char *name = NULL;
    struct stat st;
    auto_close int out = open_parent(w, a->path, &name, e);

    if (out < 0)
        return out;
    (void)fstat(out, &st);
    const struct copy_opts c = { .from = w->index,
                                 .name = a->file->key,
                                 .as = name,
                                 .node = &a->file->node,
                                 .base = w->o->seal->base,
                                 .to = out,
                                 .layer = w->o->new,
                                 .linked = true };
    int r = copy_node(&c, &w->o->counts->bytes, e);
    w->o->counts->entries++;
    (void)futimens(out, (struct timespec[]){ st.st_mtim, st.st_mtim });
    return r;
}

/* Is the copy in the index as the lower file still is, and has no name in scratch that it would have to be linked with?
 * Then the name needs nothing. (Unlinking one of several names of a lower file leaves such a copy.) */
static int as_below(struct work *w, const struct alias *a, const struct stack_hit *h, const char *name, struct err *e)
{
    const struct node *n = &a->file->node;
    struct node_marks x, y;
    struct arena arena = { 0 };

    if (n->nlink > 1 || !node_same_attrs(n, &h->node) || n->size != h->node.size || n->mtime_ns != h->node.mtime_ns)
        return 0;
    if (n->type != NODE_FILE)
        return 1; /* their content cannot change */
    auto_close int is = node_open_file(w->index, a->file->key, e);
    auto_close int was = is < 0 ? -1 : node_open_file(h->at, name, e);
    if (was < 0)
        return is < 0 ? is : was;
    int r = node_marks(is, w->o->seal->base, &arena, &x, e);
    if (r >= 0)
        r = node_marks(was, 0, &arena, &y, e);
    if (r >= 0)
        r = x.has_xattrs != y.has_xattrs || (x.has_xattrs && !sha_eq(&x.xattrs, &y.xattrs))
                ? 0
                : node_same_content(is, was, n->size, e);
    arena_done(&arena);
    return r;
}

static int by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* A suspect that did not change must not be written: its names in scratch, which are not written either, would part
 * from it. */
static bool suspect_changed(struct work *w, const struct alias *a)
{
    const struct alias_opts *o = w->o;
    uint64_t ino = a->file->node.ino;
    bool suspect = o->seal->suspect_all ||
                   (o->suspects_n && bsearch(&ino, o->suspects, o->suspects_n, sizeof *o->suspects, by_number));

    if (!suspect || a->file->node.type != NODE_FILE)
        return false;
    auto_close int fd = a->written ? node_open_file(w->index, a->file->key, NULL) : -1;
    return fd < 0 || !layer_same_as_sealed(o->seal, o->tree, a->path, fd, a->file->node.size);
}

/* Decides on one name; it may have been removed or replaced meanwhile, which the walk has seen. */
static int settle(struct work *w, struct alias *a, struct err *e)
{
    struct stack_hit h;
    const char *name = strrchr(a->path, '/');

    name = name ? name + 1 : a->path;
    int r = stack_walk(&w->all, str_of(a->path), &h, e);
    if (r < 0)
        return r;
    bool there =
        h.layer > 0 && h.node.type != NODE_DIR && h.node.type != NODE_WHITEOUT && by_handle(w, h.at, name) == a->file;
    bool changed = there && (!a->known || !a->same || suspect_changed(w, a));
    r = 0;
    if (!there) {
        a->path = NULL;
    } else if (changed && !a->written) {
        r = as_below(w, a, &h, name, e);
        a->written = r == 0;
        r = r == 0 ? write_alias(w, a, e) : r;
    } else if (changed) {
        r = write_alias(w, a, e);
    }
    stack_hit_done(&h);
    return r < 0 ? r : 0;
}

static void record(struct work *w, const struct indexed *f, const struct alias *a)
{
    const char *path = a && a->path ? a->path : "";

    buf_printf(w->o->records, "%u %s %u %llu %llu %llu %llu %zu:%s\n", w->o->tree, f->key, a && a->written,
               (unsigned long long)f->node.ino, (unsigned long long)f->node.ctime_ns,
               (unsigned long long)f->node.mtime_ns, (unsigned long long)f->node.size, strlen(path), path);
}

static int seal_names(struct work *w, struct err *e)
{
    struct indexed *f;
    int r = 0;
    size_t known = w->o->delta ? recall(w) : 0;

    if (known < w->by_key.count)
        r = look_everywhere(w, e);
    for (size_t i = 0; i < w->n && r >= 0; i++) {
        if (w->v[i].path)
            r = settle(w, &w->v[i], e);
        if (w->v[i].path)
            record(w, w->v[i].file, &w->v[i]);
    }
    for (size_t i = 0; (f = map_next(&w->by_key, &i));)
        record(w, f, NULL); /* it is known, whether or not a name was found */
    return r;
}

int alias_seal(const struct alias_opts *o, struct err *e)
{
    struct work w = { .o = o };
    char path[32];

    if (o->plain)
        return 0;
    snprintf(path, sizeof path, "%s.work/index", layer_tree_names[o->tree]);
    auto_close int index = node_open_dir(o->seal->scratch, path, NULL);
    if (index < 0)
        return 0; /* mounted without an index */
    w.index = index;
    int r = read_index(&w, e);
    auto_close int upper =
        r < 0 || w.by_key.count == 0 ? -1 : node_open_dir(o->seal->scratch, layer_tree_names[o->tree], e);
    if (upper >= 0)
        r = layer_stack(o->seal->below, o->tree, upper, &w.all, e);
    if (upper >= 0 && r >= 0) {
        r = seal_names(&w, e);
        layer_stack_done(&w.all, upper);
    }
    map_done(&w.by_key);
    map_done(&w.by_handle);
    arena_done(&w.arena);
    free(w.v);
    return r;
}

#include "image/object.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/err.h"

static const char tree_head[] = "sandglass tree v1\n";
static const char state_head[] = "sandglass state v1";

int objects_open(const char *home, bool dry, struct objects *ret, struct err *e)
{
    char path[4200];

    snprintf(path, sizeof path, "%s/objects", home);
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return err_sys(e, "make '%s'", path);
    auto_close int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || flock(fd, LOCK_SH) < 0)
        return err_sys(e, "open '%s'", path);
    *ret = (struct objects){ .dir = TAKE_FD(fd), .dry = dry };
    return 0;
}

void objects_close(struct objects *o)
{
    if (o->dir >= 0)
        close(o->dir);
    o->dir = -1;
}

static void object_path(const struct sha *h, char out[SHA_HEX + 4])
{
    char hex[SHA_HEX];

    sha_print(h, hex);
    snprintf(out, SHA_HEX + 4, "%.2s/%s", hex, hex);
}

static int write_all(int fd, struct str s)
{
    while (s.n > 0) {
        ssize_t n = write(fd, s.p, s.n);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return -1;
        s = (struct str){ s.p + n, s.n - (size_t)n };
    }
    return 0;
}

int object_put(struct objects *o, struct str bytes, struct sha *ret, struct err *e)
{
    static unsigned serial;
    char path[SHA_HEX + 4], temp[48];
    struct sha h = sha_of(bytes);

    *ret = h;
    object_path(&h, path);
    /* An object that is used again is young again: removal of garbage spares the young. */
    if (o->dry || utimensat(o->dir, path, NULL, AT_SYMLINK_NOFOLLOW) == 0)
        return 0;
    snprintf(temp, sizeof temp, "%.2s", path);
    if (mkdirat(o->dir, temp, 0700) < 0 && errno != EEXIST)
        return err_sys(e, "make the objects' directory '%s'", temp);
    snprintf(temp, sizeof temp, "%.2s/new.%d.%u", path, (int)getpid(), serial++);
    auto_close int fd = openat(o->dir, temp, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    int r = fd < 0 || write_all(fd, bytes) < 0 ? err_sys(e, "write an object") : 0;
    if (r >= 0 && renameat(o->dir, temp, o->dir, path) < 0)
        r = err_sys(e, "name an object");
    if (r < 0)
        (void)unlinkat(o->dir, temp, 0);
    else
        o->written++;
    return r;
}

int object_get(const struct objects *o, const struct sha *hash, struct buf *ret, struct err *e)
{
    char path[SHA_HEX + 4];
    struct stat st;

    object_path(hash, path);
    auto_close int fd = openat(o->dir, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? err_set(e, ERR_NOT_FOUND, "no object %.64s", path + 3) : err_sys(e, "open an object");
    if (fstat(fd, &st) < 0)
        return err_sys(e, "stat an object");
    buf_reset(ret);
    for (;;) {
        void *to = buf_room(ret, (size_t)st.st_size - ret->n + 1);
        ssize_t n = to ? read(fd, to, (size_t)st.st_size - ret->n + 1) : -1;
        if (!to)
            return err_set(e, ERR_LIMIT, "object %.64s exceeds its limit of %zu bytes", path + 3, ret->cap);
        if (n < 0)
            return err_sys(e, "read an object");
        if (n == 0)
            break;
        buf_grew(ret, (size_t)n);
        if (ret->n > (size_t)st.st_size)
            break;
    }
    struct sha h = sha_of(buf_view(ret));
    if (!sha_eq(&h, hash))
        return err_set(e, ERR_INVALID, "object %.64s is damaged", path + 3);
    return 0;
}

/* --- trees --- */

void object_tree_done(struct object_tree *t)
{
    arena_done(&t->arena);
    free(t->v);
    *t = (struct object_tree){ 0 };
}

void object_tree_add(struct object_tree *t, const struct object_entry *x)
{
    if (t->n == t->size) {
        t->size = t->size ? 2 * t->size : 16;
        t->v = realloc(t->v, t->size * sizeof *t->v);
        if (!t->v)
            abort();
    }
    t->v[t->n] = *x;
    t->v[t->n++].name = arena_z(&t->arena, str_of(x->name));
}

static int by_name(const void *key, const void *entry)
{
    return strcmp(key, ((const struct object_entry *)entry)->name);
}

const struct object_entry *object_tree_find(const struct object_tree *t, const char *name)
{
    return t->n ? bsearch(name, t->v, t->n, sizeof *t->v, by_name) : NULL;
}

bool object_same_entry(const struct object_entry *a, const struct object_entry *b)
{
    return a->type == b->type && a->mode == b->mode && a->uid == b->uid && a->gid == b->gid && a->major == b->major &&
           a->minor == b->minor && a->size == b->size && a->has_hash == b->has_hash && a->has_xattrs == b->has_xattrs &&
           (!a->has_hash || sha_eq(&a->hash, &b->hash)) && (!a->has_xattrs || sha_eq(&a->xattrs, &b->xattrs));
}

static void print_entry(struct buf *b, const struct object_entry *x)
{
    char hash[SHA_HEX] = "-", xattrs[SHA_HEX] = "-", device[32] = "-";

    if (x->has_hash)
        sha_print(&x->hash, hash);
    if (x->has_xattrs)
        sha_print(&x->xattrs, xattrs);
    if (x->type == NODE_CHAR || x->type == NODE_BLOCK)
        snprintf(device, sizeof device, "%u:%u", x->major, x->minor);
    buf_printf(b, "%c %o %u %u %llu %s %s %s %zu:%s\n", (char)x->type, x->mode, x->uid, x->gid,
               (unsigned long long)x->size, device, hash, xattrs, strlen(x->name), x->name);
}

int object_tree_put(struct objects *o, const struct object_tree *t, struct sha *ret, struct err *e)
{
    struct buf b;
    char hex[SHA_HEX];

    buf_init(&b, LIMIT_OBJECT);
    buf_z(&b, tree_head);
    if (t->has_links) {
        sha_print(&t->links, hex);
        buf_printf(&b, "links %s\n", hex);
    }
    for (size_t i = 0; i < t->n; i++)
        print_entry(&b, &t->v[i]);
    int r = b.full ? err_set(e, ERR_LIMIT, "a directory's object exceeds LIMIT_OBJECT (%ld bytes)", LIMIT_OBJECT)
                   : object_put(o, buf_view(&b), ret, e);
    buf_done(&b);
    return r;
}

/* The next word of s, which ends with a blank. */
static struct str word(struct str *s)
{
    const char *blank = memchr(s->p, ' ', s->n);
    if (!blank)
        return (struct str){ 0 };
    struct str w = { s->p, (size_t)(blank - s->p) };
    *s = (struct str){ blank + 1, s->n - w.n - 1 };
    return w;
}

static bool number(struct str w, unsigned radix, uint64_t *ret)
{
    uint64_t v = 0;

    if (w.n == 0 || w.n > 20)
        return false;
    for (size_t i = 0; i < w.n; i++) {
        unsigned d = (unsigned)(unsigned char)w.p[i] - '0';
        if (d >= radix || __builtin_mul_overflow(v, radix, &v) || __builtin_add_overflow(v, d, &v))
            return false;
    }
    *ret = v;
    return true;
}

static bool parse_device(struct str w, struct object_entry *x)
{
    uint64_t major, minor;

    if (str_is(w, "-"))
        return true;
    const char *colon = w.p ? memchr(w.p, ':', w.n) : NULL;
    if (!colon || !number((struct str){ w.p, (size_t)(colon - w.p) }, 10, &major) ||
        !number((struct str){ colon + 1, w.n - (size_t)(colon - w.p) - 1 }, 10, &minor))
        return false;
    x->major = (uint32_t)major;
    x->minor = (uint32_t)minor;
    return true;
}

static bool parse_hash(struct str w, bool *has, struct sha *ret)
{
    *has = !str_is(w, "-");
    return !*has || sha_parse(w, ret);
}

/* Advances s past one entry. */
static bool parse_entry(struct str *s, struct object_entry *x, struct arena *a)
{
    uint64_t mode, uid, gid, len;
    struct str type = word(s);

    *x = (struct object_entry){ 0 };
    if (type.n != 1 || !strchr("fdlpscbw", type.p[0]))
        return false;
    x->type = (enum node_type)type.p[0];
    if (!number(word(s), 8, &mode) || !number(word(s), 10, &uid) || !number(word(s), 10, &gid) ||
        !number(word(s), 10, &x->size) || !parse_device(word(s), x) || !parse_hash(word(s), &x->has_hash, &x->hash) ||
        !parse_hash(word(s), &x->has_xattrs, &x->xattrs))
        return false;
    x->mode = (uint32_t)mode & 07777;
    x->uid = (uint32_t)uid;
    x->gid = (uint32_t)gid;
    const char *colon = memchr(s->p, ':', s->n);
    if (!colon || !number((struct str){ s->p, (size_t)(colon - s->p) }, 10, &len))
        return false;
    size_t rest = s->n - (size_t)(colon + 1 - s->p);
    if (len > 255 || rest < len + 1 || colon[1 + len] != '\n' || memchr(colon + 1, 0, len) ||
        memchr(colon + 1, '/', len))
        return false;
    x->name = arena_z(a, (struct str){ colon + 1, len });
    *s = (struct str){ colon + 2 + len, rest - len - 1 };
    return true;
}

static bool parse_tree(struct str s, struct object_tree *t)
{
    size_t head = sizeof tree_head - 1;

    if (s.n < head || memcmp(s.p, tree_head, head) != 0)
        return false;
    s = (struct str){ s.p + head, s.n - head };
    if (s.n > 6 + 64 && memcmp(s.p, "links ", 6) == 0) {
        t->has_links = true;
        if (!sha_parse((struct str){ s.p + 6, 64 }, &t->links) || s.p[70] != '\n')
            return false;
        s = (struct str){ s.p + 71, s.n - 71 };
    }
    while (s.n > 0) {
        struct object_entry x;
        if (!parse_entry(&s, &x, &t->arena) || (t->n && strcmp(t->v[t->n - 1].name, x.name) >= 0))
            return false;
        object_tree_add(t, &x);
    }
    return true;
}

int object_tree_get(const struct objects *o, const struct sha *hash, struct object_tree *ret, struct err *e)
{
    struct object_tree t = { 0 };
    struct buf b;

    buf_init(&b, LIMIT_OBJECT + 1);
    int r = object_get(o, hash, &b, e);
    if (r >= 0 && !parse_tree(buf_view(&b), &t))
        r = err_set(e, ERR_INVALID, "an object is no tree");
    buf_done(&b);
    if (r < 0)
        object_tree_done(&t);
    else
        *ret = t;
    return r;
}

/* --- states --- */

int object_state_put(struct objects *o, const char *image, const struct sha *top, struct sha *ret, struct err *e)
{
    struct buf b;
    char hex[SHA_HEX];

    buf_init(&b, 4096);
    sha_print(top, hex);
    buf_add(&b, state_head, sizeof state_head);
    buf_z(&b, image);
    buf_char(&b, 0);
    buf_z(&b, hex);
    int r = b.full ? err_set(e, ERR_LIMIT, "the image's digest is too long") : object_put(o, buf_view(&b), ret, e);
    buf_done(&b);
    return r;
}

int object_state_get(const struct objects *o, const struct sha *root, struct buf *image, struct sha *top, struct err *e)
{
    struct buf b;

    buf_init(&b, 8192);
    int r = object_get(o, root, &b, e);
    size_t head = sizeof state_head;
    if (r >= 0 && (b.n < head + 65 || memcmp(b.p, state_head, head) != 0 || b.p[b.n - 65] != 0 ||
                   !sha_parse((struct str){ b.p + b.n - 64, 64 }, top)))
        r = err_set(e, ERR_INVALID, "an object is no state");
    if (r >= 0 && image)
        buf_add(image, b.p + head, b.n - head - 65);
    buf_done(&b);
    return r;
}

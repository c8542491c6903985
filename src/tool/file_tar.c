/* A directory as a tar over a byte stream, both ways. Runs in a hand, in the box.
 *
 * Unpacking trusts nothing: names are relative and stay below the directory, whatever links are there or come with the
 * tar (openat2 with RESOLVE_BENEATH resolves them); links that lead out, devices and the like are refused with the
 * entry's name. What was unpacked before the error stays, and the error says how much that is. */
#include "tool/file_stream.h"

#ifdef IN_BOX

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/limits.h"
#include "base/map.h"
#include "init/hand.h"

enum { BLOCK = 512, PAX_MAX = 64 * 1024 };

struct header { /* ustar */
    char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], sum[8], type, link[100], magic[6], version[2],
        uname[32], gname[32], major[8], minor[8], prefix[155], pad[12];
};
_Static_assert(sizeof(struct header) == BLOCK, "a tar's header is one block");

/* --- unpacking --- */

struct entry {
    char path[LIMIT_PATH + 1], link[LIMIT_PATH + 1];
    int64_t size;
    struct timespec mtime;
    mode_t mode;
    char type;
};

struct unpack {
    struct hand *hand;
    struct file_stream in;
    struct file_tar_result *result;
    int root;
    bool any_links;
    int64_t entries;
    char *long_path, *long_link; /* said by the entry before, for the next one */
    int64_t long_size;           /* < 0: not said */
};

static int read_exactly(struct unpack *u, char *to, size_t n, struct err *e)
{
    while (n) {
        ssize_t r = file_stream_read(&u->in, to, n, e);
        if (r < 0)
            return (int)r;
        if (r == 0)
            return err_set(e, ERR_INVALID, "the tar ends in the middle of an entry");
        to += r;
        n -= (size_t)r;
    }
    return 0;
}

static int skip(struct unpack *u, int64_t n, struct err *e)
{
    char sink[BLOCK];
    int r = 0;

    for (; n > 0 && r >= 0; n -= BLOCK)
        r = read_exactly(u, sink, BLOCK, e);
    return r;
}

static int64_t number(const char *p, size_t n)
{
    int64_t v = 0;

    if ((unsigned char)p[0] & 0x80) { /* GNU's way to say large ones: big endian */
        for (size_t i = 1; i < n; i++)
            v = v > (INT64_MAX >> 9) ? INT64_MAX >> 1 : v << 8 | (unsigned char)p[i];
        return v;
    }
    for (size_t i = 0; i < n && p[i]; i++)
        if (p[i] >= '0' && p[i] <= '7')
            v = v > (INT64_MAX >> 4) ? INT64_MAX >> 1 : v * 8 + (p[i] - '0');
    return v;
}

static bool sum_ok(const struct header *h)
{
    const unsigned char *p = (const void *)h;
    int64_t sum = 0;

    for (size_t i = 0; i < BLOCK; i++)
        sum += i >= 148 && i < 156 ? ' ' : p[i];
    return sum == number(h->sum, sizeof h->sum);
}

static char *copy_text(struct unpack *u, const char *p, size_t n)
{
    return arena_z(u->hand->arena, (struct str){ p, strnlen(p, n) });
}

/* "LENGTH KEY=VALUE\n", again and again. */
static int read_pax(struct unpack *u, const char *p, size_t n, struct err *e)
{
    const char *end = p + n;

    while (p < end) {
        char *stop;
        long length = strtol(p, &stop, 10);
        if (length <= 0 || length > end - p || *stop != ' ' || p[length - 1] != '\n')
            return err_set(e, ERR_INVALID, "the tar has a malformed extended header");
        const char *key = stop + 1, *line_end = p + length - 1;
        const char *eq = memchr(key, '=', (size_t)(line_end - key));
        if (!eq)
            return err_set(e, ERR_INVALID, "the tar has a malformed extended header");
        struct str name = { key, (size_t)(eq - key) };
        size_t value = (size_t)(line_end - eq - 1);
        if (str_is(name, "path"))
            u->long_path = copy_text(u, eq + 1, value);
        else if (str_is(name, "linkpath"))
            u->long_link = copy_text(u, eq + 1, value);
        else if (str_is(name, "size"))
            u->long_size = strtoll(eq + 1, NULL, 10);
        p += length;
    }
    return 0;
}

static int read_extension(struct unpack *u, char type, int64_t size, struct err *e)
{
    if (size < 0 || size > PAX_MAX)
        return err_set(e, ERR_LIMIT, "the tar has an extended header of %lld bytes; at most %d are read",
                       (long long)size, PAX_MAX);
    size_t room = ((size_t)size + BLOCK - 1) / BLOCK * BLOCK;
    char *text = arena_alloc(u->hand->arena, room + 1);
    int r = read_exactly(u, text, room, e);
    if (r < 0)
        return r;
    text[size] = 0;
    if (type == 'x')
        return read_pax(u, text, (size_t)size, e);
    if (type == 'L')
        u->long_path = copy_text(u, text, (size_t)size);
    else if (type == 'K')
        u->long_link = copy_text(u, text, (size_t)size);
    return 0; /* 'g': nothing that we would use */
}

/* Relative, without ".." and without "." parts; "" is the directory itself. */
static int clean(char *to, const char *from, struct err *e)
{
    size_t n = 0;

    if (from[0] == '/')
        return err_set(e, ERR_DENIED, "the tar has an absolute name: %.150s", from);
    for (const char *p = from; *p;) {
        size_t part = strcspn(p, "/");
        if (part == 2 && p[0] == '.' && p[1] == '.')
            return err_set(e, ERR_DENIED, "the tar has a name with ..: %.150s", from);
        if (part && !(part == 1 && p[0] == '.')) {
            if (n + part + 2 > LIMIT_PATH)
                return err_set(e, ERR_LIMIT, "the tar has a name longer than LIMIT_PATH (%d): %.100s", LIMIT_PATH,
                               from);
            if (n)
                to[n++] = '/';
            memcpy(to + n, p, part);
            n += part;
        }
        p += part;
        p += *p == '/';
    }
    to[n] = 0;
    return 0;
}

/* Does a link at path, which is clean, stay below the top? */
static bool stays_inside(const char *path, const char *target)
{
    long depth = 0;

    for (const char *p = path; (p = strchr(p, '/')); p++)
        depth++;
    if (target[0] == '/')
        return false;
    for (const char *p = target; *p;) {
        size_t part = strcspn(p, "/");
        if (part == 2 && p[0] == '.' && p[1] == '.')
            depth--;
        else if (part && !(part == 1 && p[0] == '.'))
            depth++;
        if (depth < 0)
            return false;
        p += part;
        p += *p == '/';
    }
    return true;
}

static int open_below(int root, const char *path, int flags)
{
    struct open_how how = { .flags = (uint64_t)(flags | O_CLOEXEC),
                            .mode = flags & O_CREAT ? 0600 : 0,
                            .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS };

    return (int)syscall(SYS_openat2, root, path[0] ? path : ".", &how, sizeof how);
}

/* The directory in which path lies, made if it is missing. *ret_name: the last part. */
static int open_parent(struct unpack *u, char *path, const char **ret_name, struct err *e)
{
    char *slash = strrchr(path, '/');

    *ret_name = slash ? slash + 1 : path;
    if (!slash)
        return open_below(u->root, "", O_PATH | O_DIRECTORY);
    *slash = 0;
    int fd = open_below(u->root, path, O_PATH | O_DIRECTORY);
    if (fd < 0 && errno == ENOENT) {
        const char *name;
        int up = open_parent(u, path, &name, e);
        if (up >= 0 && (mkdirat(up, name, 0777) == 0 || errno == EEXIST))
            fd = open_below(u->root, path, O_PATH | O_DIRECTORY);
        if (up >= 0)
            close(up);
    }
    if (fd < 0)
        (void)(errno == EXDEV
                   ? err_set(e, ERR_DENIED, "the tar has an entry behind a link that leads out: %.150s", path)
                   : err_sys(e, "unpack %.150s", path));
    *slash = '/';
    return fd;
}

static int content(struct unpack *u, int fd, const char *path, int64_t size, struct err *e)
{
    int64_t left = size;

    while (left > 0) {
        struct str data;
        int r = file_stream_take(&u->in, &data, e);
        if (r < 0)
            return r;
        if (!data.n)
            return err_set(e, ERR_INVALID, "the tar ends in the middle of %.150s", path);
        if ((int64_t)data.n > left) {
            u->in.at -= data.n - (size_t)left; /* the rest is the next entry's */
            data.n = (size_t)left;
        }
        r = file_write_all(fd, path, data, e);
        if (r < 0)
            return r;
        left -= (int64_t)data.n;
    }
    return size % BLOCK ? read_exactly(u, (char[BLOCK]){ 0 }, (size_t)(BLOCK - size % BLOCK), e) : 0;
}

static int unpack_file(struct unpack *u, int dir, const char *name, const struct entry *x, struct err *e)
{
    (void)unlinkat(dir, name, 0); /* never written through a link, and other names of an old file keep their content */
    auto_close int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

    if (fd < 0)
        return err_sys(e, "unpack %.150s", x->path);
    int r = content(u, fd, x->path, x->size, e);
    if (r < 0)
        return r;
    (void)fchmod(fd, x->mode & 0777);
    (void)futimens(fd, (struct timespec[]){ x->mtime, x->mtime });
    u->result->files++;
    return 0;
}

static int unpack_directory(struct unpack *u, int dir, const char *name, const struct entry *x, struct err *e)
{
    struct stat st;

    if (mkdirat(dir, name, 0777) < 0 && errno != EEXIST)
        return err_sys(e, "unpack %.150s", x->path);
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(st.st_mode))
        return err_set(e, ERR_EXISTS, "unpack %.150s: there is something else of that name", x->path);
    (void)fchmodat(dir, name, (x->mode & 0777) | 0700,
                   0); /* so that its entries can be made; it is ours alone to lock */
    u->result->directories++;
    return 0;
}

static int unpack_symlink(struct unpack *u, int dir, const char *name, const struct entry *x, struct err *e)
{
    if (!u->any_links && !stays_inside(x->path, x->link))
        return err_set(e, ERR_DENIED, "the tar has a link out of its tree: %.80s -> %.80s", x->path, x->link);
    (void)unlinkat(dir, name, 0);
    if (symlinkat(x->link, dir, name) < 0)
        return err_sys(e, "unpack %.150s", x->path);
    (void)utimensat(dir, name, (struct timespec[]){ x->mtime, x->mtime }, AT_SYMLINK_NOFOLLOW);
    u->result->symlinks++;
    return 0;
}

static int unpack_hardlink(struct unpack *u, int dir, const char *name, const struct entry *x, struct err *e)
{
    char target[LIMIT_PATH + 1];
    const char *last;

    int r = clean(target, x->link, e);
    if (r < 0)
        return r;
    auto_close int from = open_parent(u, target, &last, e);
    if (from < 0)
        return from;
    (void)unlinkat(dir, name, 0);
    if (linkat(from, last, dir, name, 0) < 0)
        return err_sys(e, "unpack %.80s as another name of %.80s", x->path, x->link);
    u->result->files++;
    return 0;
}

static int unpack_entry(struct unpack *u, struct entry *x, struct err *e)
{
    const char *name;

    if (!x->path[0]) /* the directory itself */
        return skip(u, x->size, e);
    if (x->type >= '3' && x->type <= '6' && x->type != '5')
        return err_set(e, ERR_DENIED, "the tar has a device or fifo, which is not made: %.150s", x->path);
    auto_close int dir = open_parent(u, x->path, &name, e);
    if (dir < 0)
        return dir;
    switch (x->type) {
    case 0:
    case '7':
    case '0': return unpack_file(u, dir, name, x, e);
    case '1': return unpack_hardlink(u, dir, name, x, e);
    case '2': return unpack_symlink(u, dir, name, x, e);
    case '5': return unpack_directory(u, dir, name, x, e);
    default: return err_set(e, ERR_INVALID, "the tar has an entry of unknown type '%c': %.150s", x->type, x->path);
    }
}

/* 1: an entry, 0: the end. */
static int next_entry(struct unpack *u, struct entry *x, struct err *e)
{
    struct header h;
    char raw[LIMIT_PATH + 1];

    u->long_path = u->long_link = NULL;
    u->long_size = -1;
    for (;;) {
        ssize_t first = file_stream_read(&u->in, (char *)&h, BLOCK, e);
        if (first < 0)
            return (int)first;
        if (first == 0)
            return 0; /* without the two empty blocks: some writers leave them out */
        int r = read_exactly(u, (char *)&h + first, BLOCK - (size_t)first, e);
        if (r < 0)
            return r;
        static const struct header empty;
        if (memcmp(&h, &empty, BLOCK) == 0)
            return 0;
        if (!sum_ok(&h))
            return err_set(e, ERR_INVALID, "this is no tar: the checksum of header %lld is wrong",
                           (long long)u->entries + 1);
        if (!strchr("xgLK", h.type) || !h.type)
            break;
        r = read_extension(u, h.type, number(h.size, sizeof h.size), e);
        if (r < 0)
            return r;
    }
    bool ustar = memcmp(h.magic, "ustar", 5) == 0 && h.prefix[0] && h.magic[5] == 0;
    snprintf(raw, sizeof raw, "%.*s%s%.*s", ustar ? (int)strnlen(h.prefix, sizeof h.prefix) : 0, h.prefix,
             ustar ? "/" : "", (int)strnlen(h.name, sizeof h.name), h.name);
    x->type = h.type;
    if (!h.type && raw[0] && raw[strlen(raw) - 1] == '/')
        x->type = '5'; /* as tar did before there was a type */
    x->size = u->long_size >= 0 ? u->long_size : number(h.size, sizeof h.size);
    if (x->type == '1' || x->type == '2' || x->type == '5')
        x->size = 0;
    x->mode = (mode_t)number(h.mode, sizeof h.mode);
    x->mtime = (struct timespec){ .tv_sec = number(h.mtime, sizeof h.mtime) };
    if (u->long_link)
        snprintf(x->link, sizeof x->link, "%s", u->long_link);
    else
        snprintf(x->link, sizeof x->link, "%.*s", (int)strnlen(h.link, sizeof h.link), h.link);
    int r = clean(x->path, u->long_path ? u->long_path : raw, e);
    return r < 0 ? r : 1;
}

/* Whatever follows the end is read and thrown away, so that the sender can finish. */
static int drain(struct unpack *u, struct err *e)
{
    struct str data;
    int r;

    do
        r = file_stream_take(&u->in, &data, e);
    while (r >= 0 && data.n);
    return r;
}

int file_upload_tar_run(struct hand *h, const void *params, void *result, struct err *e)
{
    const struct file_tar_params *p = params;
    struct unpack u = { .hand = h, .result = result, .any_links = str_is(p->links, "any") };
    struct entry *x = arena_alloc(h->arena, sizeof *x);
    char *path = NULL;

    int r = file_path(h, p->path, &path, e);
    if (r < 0)
        return r;
    file_trim(path);
    if (p->mkdir) {
        r = file_make_parents(path, e);
        if (r >= 0 && mkdir(path, 0777) < 0 && errno != EEXIST)
            r = file_fail(e, "make directory", path);
        if (r < 0)
            return r;
    }
    auto_close int root = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        return file_fail(e, "unpack into", path);
    u.root = root;
    file_stream_init(&u.in, h);
    while ((r = next_entry(&u, x, e)) > 0 && (r = unpack_entry(&u, x, e)) >= 0)
        if (++u.entries > LIMIT_TAR_ENTRIES) {
            r = err_set(e, ERR_LIMIT, "the tar has more than LIMIT_TAR_ENTRIES (%d) entries", LIMIT_TAR_ENTRIES);
            break;
        }
    if (r >= 0)
        r = drain(&u, e);
    if (r < 0)
        return err_wrap(e, r, "after %lld entries", (long long)u.entries);
    u.result->path = str_of(path);
    u.result->bytes = u.in.bytes;
    u.result->sha256 = file_stream_sum(&u.in, h->arena);
    return 0;
}

/* --- packing --- */

struct pack {
    struct hand *hand;
    struct file_stream out;
    struct file_tar_result *result;
    struct buf pax;
    struct map links; /* dev, inode -> first path */
    int64_t entries;
};

static void put_number(char *to, size_t n, int64_t v)
{
    char text[32];

    snprintf(text, sizeof text, "%0*llo", (int)n - 1, (unsigned long long)v);
    memcpy(to, text, n - 1);
}

/* The length counts its own digits. */
static void add_pax(struct buf *b, const char *key, const char *value)
{
    size_t base = strlen(key) + strlen(value) + 3, n = base + 1;

    while (n != base + (size_t)snprintf(NULL, 0, "%zu", n))
        n = base + (size_t)snprintf(NULL, 0, "%zu", n);
    buf_printf(b, "%zu %s=%s\n", n, key, value);
}

static int put_header(struct pack *k, struct header *h, struct err *e)
{
    const unsigned char *p = (const void *)h;
    unsigned sum = 0;

    memcpy(h->magic, "ustar", 6);
    memcpy(h->version, "00", 2);
    memset(h->sum, ' ', sizeof h->sum);
    for (size_t i = 0; i < BLOCK; i++)
        sum += p[i];
    snprintf(h->sum, sizeof h->sum, "%06o", sum);
    return file_stream_write(&k->out, h, BLOCK, e);
}

static int pad(struct pack *k, int64_t size, struct err *e)
{
    static const char zeros[BLOCK];

    return size % BLOCK ? file_stream_write(&k->out, zeros, (size_t)(BLOCK - size % BLOCK), e) : 0;
}

static int put_pax(struct pack *k, struct err *e)
{
    struct header h = { .name = "pax", .type = 'x' };

    if (!k->pax.n)
        return 0;
    put_number(h.mode, sizeof h.mode, 0644);
    put_number(h.size, sizeof h.size, (int64_t)k->pax.n);
    int r = put_header(k, &h, e);
    if (r >= 0)
        r = file_stream_write(&k->out, k->pax.p, k->pax.n, e);
    return r < 0 ? r : pad(k, (int64_t)k->pax.n, e);
}

struct packed {
    const char *path, *link;
    const struct stat *st;
    char type;
};

static int put_entry(struct pack *k, const struct packed *x, struct err *e)
{
    struct header h = { .type = x->type };
    int64_t size = x->type == '0' ? x->st->st_size : 0;
    char text[32];

    if (++k->entries > LIMIT_TAR_ENTRIES)
        return err_set(e, ERR_LIMIT, "the directory has more than LIMIT_TAR_ENTRIES (%d) entries", LIMIT_TAR_ENTRIES);
    buf_reset(&k->pax);
    if (strlen(x->path) > sizeof h.name)
        add_pax(&k->pax, "path", x->path);
    if (x->link && strlen(x->link) > sizeof h.link)
        add_pax(&k->pax, "linkpath", x->link);
    if (size >= 1LL << 33) {
        snprintf(text, sizeof text, "%lld", (long long)size);
        add_pax(&k->pax, "size", text);
    }
    int r = put_pax(k, e);
    if (r < 0)
        return r;
    memcpy(h.name, x->path, strnlen(x->path, sizeof h.name));
    if (x->link)
        memcpy(h.link, x->link, strnlen(x->link, sizeof h.link));
    put_number(h.mode, sizeof h.mode, x->st->st_mode & 07777);
    put_number(h.uid, sizeof h.uid, x->st->st_uid & 07777777);
    put_number(h.gid, sizeof h.gid, x->st->st_gid & 07777777);
    put_number(h.size, sizeof h.size, size < 1LL << 33 ? size : 0);
    put_number(h.mtime, sizeof h.mtime, x->st->st_mtim.tv_sec > 0 ? x->st->st_mtim.tv_sec : 0);
    return put_header(k, &h, e);
}

/* A file that became shorter is filled up with zeros: its size was said already. */
static int put_content(struct pack *k, int fd, int64_t size, struct err *e)
{
    int64_t left = size;

    while (left > 0) {
        static char chunk[64 * 1024];
        size_t want = left < (int64_t)sizeof chunk ? (size_t)left : sizeof chunk;
        ssize_t n = read(fd, chunk, want);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            memset(chunk, 0, want);
            n = (ssize_t)want;
        }
        int r = file_stream_write(&k->out, chunk, (size_t)n, e);
        if (r < 0)
            return r;
        left -= n;
    }
    return pad(k, size, e);
}

static int pack_file(struct pack *k, int dir, const char *name, struct packed *x, struct err *e)
{
    struct stat st;
    auto_close int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        k->result->skipped++;
        return 0;
    }
    x->st = &st;
    x->type = '0';
    if (st.st_nlink > 1) {
        uint64_t id[2] = { st.st_dev, st.st_ino };
        struct str key = arena_copy(k->hand->arena, (struct str){ (char *)id, sizeof id });
        const char *first = map_get(&k->links, key);
        if (first) {
            x->type = '1';
            x->link = first;
        } else {
            map_put(&k->links, key, arena_z(k->hand->arena, str_of(x->path)));
        }
    }
    k->result->files++;
    int r = put_entry(k, x, e);
    return r < 0 || x->type == '1' ? r : put_content(k, fd, st.st_size, e);
}

static int pack_directory(struct pack *k, int take_fd, const char *path, int depth, struct err *e);

static int pack_one(struct pack *k, int dir, const char *name, const char *path, int depth, struct err *e)
{
    char target[LIMIT_PATH + 1];
    struct stat st;
    struct packed x = { .path = path, .st = &st };

    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        k->result->skipped++;
        return 0;
    }
    if (S_ISREG(st.st_mode))
        return pack_file(k, dir, name, &x, e);
    if (S_ISLNK(st.st_mode)) {
        ssize_t n = readlinkat(dir, name, target, sizeof target - 1);
        if (n > 0) {
            target[n] = 0;
            x.link = target;
            x.type = '2';
            k->result->symlinks++;
            return put_entry(k, &x, e);
        }
    } else if (S_ISDIR(st.st_mode)) {
        int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd >= 0) {
            auto_free char *slash = NULL;
            if (asprintf(&slash, "%s/", path) < 0)
                abort();
            x.path = slash;
            x.type = '5';
            k->result->directories++;
            int r = put_entry(k, &x, e);
            if (r < 0) {
                close(fd);
                return r;
            }
            return pack_directory(k, fd, path, depth + 1, e);
        }
    }
    k->result->skipped++;
    return 0;
}

static void auto_closedir(DIR **d)
{
    if (*d)
        closedir(*d);
}

static int pack_directory(struct pack *k, int take_fd, const char *path, int depth, struct err *e)
{
    AUTO(auto_closedir) DIR *d = fdopendir(take_fd);
    struct dirent *x;
    int r = 0;

    if (!d) {
        close(take_fd);
        return err_sys(e, "read directory %s", path);
    }
    if (depth > LIMIT_TREE_DEPTH)
        return err_set(e, ERR_LIMIT, "directories are nested deeper than LIMIT_TREE_DEPTH (%d) at %.100s",
                       LIMIT_TREE_DEPTH, path);
    while (r >= 0 && (x = readdir(d))) {
        if (strcmp(x->d_name, ".") == 0 || strcmp(x->d_name, "..") == 0)
            continue;
        auto_free char *below = NULL;
        if (asprintf(&below, "%s%s%s", path, *path ? "/" : "", x->d_name) < 0)
            abort();
        r = pack_one(k, dirfd(d), x->d_name, below, depth, e);
    }
    return r;
}

int file_download_tar_run(struct hand *h, const void *params, void *result, struct err *e)
{
    static const char end[2 * BLOCK];
    const struct file_tar_params *p = params;
    struct pack k = { .hand = h, .result = result };
    struct stat st;
    char *path = NULL;

    int r = file_path(h, p->path, &path, e);
    if (r < 0)
        return r;
    file_trim(path);
    if (stat(path, &st) < 0)
        return file_fail(e, "read", path);
    if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
        return err_set(e, ERR_INVALID, "read %s: neither a directory nor a regular file", path);
    buf_init(&k.pax, PAX_MAX);
    file_stream_init(&k.out, h);
    if (S_ISDIR(st.st_mode)) {
        int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        r = fd < 0 ? file_fail(e, "read", path) : pack_directory(&k, fd, "", 0, e);
    } else {
        struct packed x = { .path = strrchr(path, '/') + 1 };
        r = pack_file(&k, AT_FDCWD, path, &x, e);
    }
    if (r >= 0)
        r = file_stream_write(&k.out, end, sizeof end, e);
    if (r >= 0)
        r = file_stream_flush(&k.out, e);
    buf_done(&k.pax);
    map_done(&k.links);
    if (r < 0)
        return r;
    k.result->path = str_of(path);
    k.result->bytes = k.out.bytes;
    k.result->sha256 = file_stream_sum(&k.out, h->arena);
    return 0;
}

#endif

#include "image/node.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/auto.h"
#include "base/err.h"

enum { BOX_IDS = 65536, NOBODY = 65534, LINK_MAX_BYTES = 4096, CHUNK = 128 * 1024 };

static int64_t stamp(struct statx_timestamp t)
{
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static enum node_type type_of(unsigned mode, unsigned major, unsigned minor)
{
    switch (mode & S_IFMT) {
    case S_IFREG: return NODE_FILE;
    case S_IFDIR: return NODE_DIR;
    case S_IFLNK: return NODE_LINK;
    case S_IFIFO: return NODE_FIFO;
    case S_IFSOCK: return NODE_SOCK;
    case S_IFBLK: return NODE_BLOCK;
    default: return major == 0 && minor == 0 ? NODE_WHITEOUT : NODE_CHAR;
    }
}

int node_stat(int dir, const char *name, struct node *ret, struct err *e)
{
    struct statx x;
    int flags = AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | (name[0] ? 0 : AT_EMPTY_PATH);

    if (statx(dir, name, flags, STATX_BASIC_STATS | STATX_BTIME, &x) < 0)
        return errno == ENOENT ? -ENOENT : err_sys(e, "stat '%s'", name);
    *ret = (struct node){
        .type = type_of(x.stx_mode, x.stx_rdev_major, x.stx_rdev_minor),
        .mode = x.stx_mode & 07777,
        .uid = x.stx_uid,
        .gid = x.stx_gid,
        .nlink = x.stx_nlink,
        .blocks = x.stx_blocks,
        .dev = (uint64_t)x.stx_dev_major << 32 | x.stx_dev_minor,
        .ino = x.stx_ino,
        .mtime_ns = stamp(x.stx_mtime),
        .ctime_ns = stamp(x.stx_ctime),
        .birth_ns = x.stx_mask & STATX_BTIME ? stamp(x.stx_btime) : 0,
    };
    if (ret->type == NODE_FILE || ret->type == NODE_LINK)
        ret->size = x.stx_size;
    if (ret->type == NODE_CHAR || ret->type == NODE_BLOCK) {
        ret->major = x.stx_rdev_major;
        ret->minor = x.stx_rdev_minor;
    }
    return 0;
}

static uint32_t shift(uint32_t id, uint32_t base)
{
    return base == 0 ? id : id >= base && id - base < BOX_IDS ? id - base : NOBODY;
}

void node_shift(struct node *n, uint32_t base)
{
    n->uid = shift(n->uid, base);
    n->gid = shift(n->gid, base);
}

bool node_same_attrs(const struct node *a, const struct node *b)
{
    return a->type == b->type && a->mode == b->mode && a->uid == b->uid && a->gid == b->gid && a->major == b->major &&
           a->minor == b->minor;
}

static int open_at(int dir, const char *name, int flags)
{
    struct open_how how = {
        .flags = (uint64_t)(flags | O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NOATIME),
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV,
    };
    int fd = (int)syscall(SYS_openat2, dir, name, &how, sizeof how);
    if (fd < 0 && errno == EPERM) { /* O_NOATIME is for owners */
        how.flags &= ~(uint64_t)O_NOATIME;
        fd = (int)syscall(SYS_openat2, dir, name, &how, sizeof how);
    }
    return fd;
}

int node_open_dir(int dir, const char *name, struct err *e)
{
    int fd = open_at(dir, name, O_DIRECTORY);
    return fd < 0 ? err_sys(e, "open directory '%s'", name) : fd;
}

int node_open_file(int dir, const char *name, struct err *e)
{
    struct stat st;
    auto_close int fd = open_at(dir, name, O_NONBLOCK); /* a fifo in its place must not stop us */

    if (fd < 0 || fstat(fd, &st) < 0)
        return err_sys(e, "open '%s'", name);
    if (!S_ISREG(st.st_mode))
        return err_set(e, ERR_INVALID, "'%s' is no regular file any more", name);
    return TAKE_FD(fd);
}

struct str node_readlink(int dir, const char *name, struct arena *a, struct err *e)
{
    char *target = arena_alloc(a, LINK_MAX_BYTES + 1);
    ssize_t n = readlinkat(dir, name, target, LINK_MAX_BYTES);

    if (n < 0) {
        err_sys(e, "readlink '%s'", name);
        return (struct str){ 0 };
    }
    return (struct str){ target, (size_t)n };
}

/* --- names --- */

struct dirent_head { /* linux_dirent64 */
    uint64_t ino;
    int64_t off;
    uint16_t len;
    uint8_t type;
    char name[];
};

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void add_name(struct names *n, size_t *size, const char *name)
{
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return;
    if (n->n == *size) {
        *size = *size ? 2 * *size : 64;
        n->v = realloc(n->v, *size * sizeof *n->v);
        if (!n->v)
            abort();
    }
    n->v[n->n++] = arena_z(&n->arena, str_of(name));
}

int names_read(int dir, struct names *ret, struct err *e)
{
    enum { BLOCK = 64 * 1024 };
    auto_free char *block = malloc(BLOCK);
    size_t size = 0;

    if (!block)
        abort();
    *ret = (struct names){ 0 };
    if (lseek(dir, 0, SEEK_SET) < 0)
        return err_sys(e, "read a directory");
    for (;;) {
        long n = syscall(SYS_getdents64, dir, block, BLOCK);
        if (n < 0)
            return err_sys(e, "read a directory");
        if (n == 0)
            break;
        for (long at = 0; at < n;) {
            const struct dirent_head *d = (const struct dirent_head *)(block + at);
            add_name(ret, &size, d->name);
            at += d->len;
        }
    }
    if (ret->n > 1)
        qsort(ret->v, ret->n, sizeof *ret->v, by_bytes);
    return 0;
}

void names_done(struct names *n)
{
    arena_done(&n->arena);
    free(n->v);
    *n = (struct names){ 0 };
}

int node_same_content(int a, int b, uint64_t size, struct err *e)
{
    auto_free char *block = malloc(2 * CHUNK);

    if (!block)
        abort();
    for (uint64_t at = 0; at < size;) {
        ssize_t n = pread(a, block, CHUNK, (off_t)at);
        if (n < 0)
            return err_sys(e, "read a file to compare it");
        if (n == 0)
            return 0;
        for (ssize_t got = 0; got < n;) {
            ssize_t m = pread(b, block + CHUNK + got, (size_t)(n - got), (off_t)at + got);
            if (m < 0)
                return err_sys(e, "read a file to compare it");
            if (m == 0)
                return 0;
            got += m;
        }
        if (memcmp(block, block + CHUNK, (size_t)n) != 0)
            return 0;
        at += (uint64_t)n;
    }
    return 1;
}

/* Earlier versions of edited files. They are files of the box's user in UNDO_DIR, one per version, named by a number
 * that only grows and by a hash of the path; the path itself stands at the beginning, so that two paths with one hash
 * are not confused. Whoever empties the directory only loses the history.
 *
 *   0000000017-9f86d081884c7d65:   'F' or 'A' (there was a file, or it was absent), SHA-256 of what the edit left, in
 *                                  hexadecimal, path, NUL, content
 *
 * The hash tells whether somebody else has written the file since: undo must not take that back. */
#include "tool/file_internal.h"

#ifdef IN_BOX

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/limits.h"
#include "base/sha256.h"
#include "init/hand.h"

#define UNDO_DIR "/tmp/.sandglass-undo"

enum { TRIES = 20, SUM = 64 };

struct version {
    char name[64];
    unsigned long number;
    uint64_t hash;
    int64_t size;
};

struct history {
    struct version *v; /* sorted by number */
    size_t n;
    int64_t bytes;
};

static uint64_t hash_of(const char *path)
{
    uint64_t h = 0xcbf29ce484222325ULL;

    for (; *path; path++)
        h = (h ^ (unsigned char)*path) * 0x100000001b3ULL;
    return h;
}

/* Nobody else's directory: what we read from it is written into the agent's files. */
static int open_dir(bool make)
{
    struct stat st;

    if (make && mkdir(UNDO_DIR, 0700) < 0 && errno != EEXIST)
        return -errno;
    auto_close int fd = open(UNDO_DIR, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    return st.st_uid == getuid() ? TAKE_FD(fd) : -EPERM;
}

static int by_number(const void *a, const void *b)
{
    unsigned long x = ((const struct version *)a)->number, y = ((const struct version *)b)->number;

    return x < y ? -1 : x > y;
}

static void history_read(struct arena *a, int dir, struct history *h)
{
    int fd = dup(dir);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    size_t size = 0;

    *h = (struct history){ 0 };
    if (!d)
        return;
    rewinddir(d);
    for (struct dirent *ent; (ent = readdir(d));) {
        struct version v = { 0 };
        unsigned long long hash;
        struct stat st;
        if (strlen(ent->d_name) >= sizeof v.name || sscanf(ent->d_name, "%lu-%llx", &v.number, &hash) != 2 ||
            fstatat(dir, ent->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
            continue;
        if (h->n == size) {
            size = size ? size * 2 : 64;
            struct version *more = arena_alloc(a, size * sizeof *more);
            if (h->n)
                memcpy(more, h->v, h->n * sizeof *more);
            h->v = more;
        }
        v.hash = hash;
        v.size = st.st_size;
        memcpy(v.name, ent->d_name, strlen(ent->d_name));
        h->v[h->n++] = v;
        h->bytes += v.size;
    }
    closedir(d);
    if (h->n)
        qsort(h->v, h->n, sizeof *h->v, by_number);
}

static int64_t count_of(const struct history *h, uint64_t hash)
{
    int64_t n = 0;

    for (size_t i = 0; i < h->n; i++)
        n += h->v[i].number && h->v[i].hash == hash;
    return n;
}

static void forget(struct history *h, int dir, struct version *v)
{
    (void)unlinkat(dir, v->name, 0);
    h->bytes -= v->size;
    v->number = 0; /* gone */
}

/* Oldest first, until there is room for one more of this file and for so many bytes. */
static void prune(struct history *h, int dir, uint64_t hash, int64_t bytes)
{
    int64_t mine = count_of(h, hash);

    for (size_t i = 0; i < h->n; i++) {
        struct version *v = &h->v[i];
        bool too_many = v->hash == hash && mine >= LIMIT_UNDO_VERSIONS;
        if (!too_many && h->bytes + bytes <= LIMIT_UNDO_BYTES)
            continue;
        mine -= v->hash == hash;
        forget(h, dir, v);
    }
}

static void sum_of(struct str content, char ret[SUM + 1])
{
    struct sha256 sum;

    sha256_init(&sum);
    sha256_add(&sum, content.p, content.n);
    sha256_hex(&sum, ret);
}

static bool write_version(int dir, const struct undo *u, const char *path)
{
    auto_close int fd = openat(dir, u->name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

    if (fd < 0)
        return false;
    if (file_write_all(fd, u->name, u->existed ? STR("F") : STR("A"), NULL) < 0 ||
        file_write_all(fd, u->name, (struct str){ u->after, SUM }, NULL) < 0 ||
        file_write_all(fd, u->name, (struct str){ path, strlen(path) + 1 }, NULL) < 0 ||
        file_write_all(fd, u->name, u->content, NULL) < 0) {
        (void)unlinkat(dir, u->name, 0);
        errno = ENOSPC;
        return false;
    }
    return true;
}

struct undo undo_push(struct hand *h, const char *path, struct str old, struct str new)
{
    struct undo u = { .existed = old.p != NULL, .content = old };
    int64_t bytes = (int64_t)(old.n + SUM + strlen(path) + 2);
    uint64_t hash = hash_of(path);
    auto_close int dir = open_dir(true);
    struct history all;

    if (dir < 0)
        return u;
    sum_of(new, u.after);
    history_read(h->arena, dir, &all);
    prune(&all, dir, hash, bytes);
    unsigned long next = 1;
    for (size_t i = 0; i < all.n; i++)
        next = all.v[i].number >= next ? all.v[i].number + 1 : next;
    bool fits = bytes <= LIMIT_UNDO_BYTES;
    for (int i = 0; fits && i < TRIES; i++, next++) { /* two calls at once may want the same number */
        snprintf(u.name, sizeof u.name, "%010lu-%016llx", next, (unsigned long long)hash);
        if (write_version(dir, &u, path)) {
            u.left = count_of(&all, hash);
            return u;
        }
        if (errno != EEXIST)
            break;
    }
    /* A gap in the history would let undo skip this change and take back the one before it. */
    for (size_t i = 0; i < all.n; i++)
        if (all.v[i].number && all.v[i].hash == hash)
            forget(&all, dir, &all.v[i]);
    u.name[0] = 0;
    return u;
}

/* The content, if the version is one of path. */
static bool read_version(struct hand *h, int dir, const char *name, const char *path, struct undo *ret)
{
    auto_close int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat st;
    size_t n = 0, head = 1 + SUM + strlen(path) + 1;

    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > LIMIT_UNDO_BYTES)
        return false;
    char *all = arena_alloc(h->arena, (size_t)st.st_size + 1);
    while (n < (size_t)st.st_size) {
        ssize_t r = read(fd, all + n, (size_t)st.st_size - n);
        if (r <= 0)
            break;
        n += (size_t)r;
    }
    if (n < head || memcmp(all + 1 + SUM, path, strlen(path) + 1) != 0)
        return false;
    ret->existed = all[0] == 'F';
    memcpy(ret->after, all + 1, SUM);
    ret->content = (struct str){ all + head, n - head };
    return true;
}

int undo_last(struct hand *h, const char *path, struct undo *ret, struct err *e)
{
    uint64_t hash = hash_of(path);
    auto_close int dir = open_dir(false);
    struct history all = { 0 };

    if (dir >= 0)
        history_read(h->arena, dir, &all);
    for (size_t i = all.n; i-- > 0;)
        if (all.v[i].hash == hash && read_version(h, dir, all.v[i].name, path, ret)) {
            memcpy(ret->name, all.v[i].name, sizeof ret->name);
            ret->left = count_of(&all, hash) - 1;
            return 0;
        }
    return err_set(e, ERR_NOT_FOUND, "undo_edit: No edit history found: there is no earlier version of %s", path);
}

bool undo_fits(const struct undo *u, struct str now)
{
    char sum[SUM + 1];

    if (!now.p)
        return false;
    sum_of(now, sum);
    return memcmp(sum, u->after, SUM) == 0;
}

void undo_drop(const struct undo *u)
{
    auto_close int dir = open_dir(false);

    if (dir >= 0)
        (void)unlinkat(dir, u->name, 0);
}

void undo_failed(struct hand *h, const char *path, const struct undo *u)
{
    struct stat st;
    struct str now;
    char sum[SUM + 1];

    if (!u->name[0] || file_read_all(h, path, &now, &st, NULL) < 0)
        return;
    if (u->existed && str_eq(now, u->content)) { /* nothing was changed: the edit before is the last one */
        undo_drop(u);
        return;
    }
    auto_close int dir = open_dir(false);
    auto_close int fd = dir < 0 ? -1 : openat(dir, u->name, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return;
    sum_of(now, sum);
    (void)!pwrite(fd, sum, SUM, 1);
}

#endif

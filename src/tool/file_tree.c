/* Changing the tree: mkdir, move, copy, delete. Below the path that a call names, everything is reached through
 * directory descriptors without following symlinks, so that nothing outside the tree is copied or deleted by way of a
 * link inside it. */
#include "tool/file_internal.h"

#ifdef IN_BOX

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/limits.h"
#include "base/map.h"
#include "init/hand.h"

static void auto_closedir(DIR **d)
{
    if (*d)
        closedir(*d);
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash && slash[1] ? slash + 1 : path;
}

static bool is_dots(const char *name)
{
    return !strcmp(name, ".") || !strcmp(name, "..");
}

/* --- mkdir --- */

int file_mkdir_run(struct hand *h, const void *params, void *result, struct err *e)
{
    const struct file_mkdir_params *p = params;
    struct file_mkdir_result *r = result;
    unsigned mode = 0;
    struct stat st;
    char *path = NULL;

    int n = p->mode.n ? file_mode(h, p->mode, &mode, e) : 0;
    if (n >= 0)
        n = file_path(h, p->path, &path, e);
    if (n < 0)
        return n;
    file_trim(path);
    n = p->parents ? file_make_parents(path, e) : 0;
    if (n < 0)
        return n;
    r->path = str_of(path);
    r->created = mkdir(path, 0777) == 0;
    if (!r->created && !(errno == EEXIST && p->parents && stat(path, &st) == 0 && S_ISDIR(st.st_mode)))
        return file_fail(e, "make directory", path);
    if (p->mode.n && r->created && chmod(path, mode) < 0)
        return err_sys(e, "change mode of %s", path);
    return 0;
}

/* --- where does it go? --- */

/* As mv and cp understand a destination: an existing directory, or one that is written with a slash at the end, is
 * where the source is put under its own name. */
static int aim(struct hand *h, const struct file_move_params *p, char **ret_from, char **ret_to, struct err *e)
{
    char *from = NULL, *to = NULL;
    struct stat src, dst;

    int r = file_path(h, p->source, &from, e);
    if (r >= 0)
        r = file_path(h, p->destination, &to, e);
    if (r < 0)
        return r;
    file_trim(from);
    if (lstat(from, &src) < 0)
        return file_fail(e, "read", from);
    if (is_dots(base_name(from)) || !strcmp(from, "/"))
        return err_set(e, ERR_INVALID, "source: %s has no name of its own", from);
    bool into = to[strlen(to) - 1] == '/' || (stat(to, &dst) == 0 && S_ISDIR(dst.st_mode));
    file_trim(to);
    if (p->name.n && !file_is_name(p->name))
        return err_set(e, ERR_INVALID, "name: it must be one part of a path");
    if (into)
        to = arena_printf(h->arena, "%s/%s", strcmp(to, "/") ? to : "",
                          p->name.n ? arena_z(h->arena, p->name) : base_name(from));
    if (p->mkdir) {
        r = file_make_parents(to, e);
        if (r < 0)
            return r;
    }
    if (lstat(to, &dst) == 0) {
        if (dst.st_dev == src.st_dev && dst.st_ino == src.st_ino)
            return err_set(e, ERR_INVALID, "%s and %s are the same file", from, to);
        if (!p->overwrite)
            return err_set(e, ERR_EXISTS, "%s exists already; set overwrite to replace it", to);
    }
    *ret_from = from;
    *ret_to = to;
    return 0;
}

/* --- copy --- */

struct copying {
    struct hand *h;
    struct file_move_result *r;
    bool overwrite, recursive;
    struct map links; /* device and inode of a source with several names: path of its first copy */
    struct err *e;
};

struct place { /* one name on each side; paths are for messages and hard links */
    int from_fd, to_fd;
    const char *from_name, *to_name, *from, *to;
    int depth;
};

static int copy_entry(struct copying *c, const struct place *p);

static bool make_room(struct copying *c, const struct place *p)
{
    return c->overwrite && unlinkat(p->to_fd, p->to_name, 0) == 0;
}

static int copy_link(struct copying *c, const struct place *p)
{
    char target[LIMIT_PATH];
    ssize_t n = readlinkat(p->from_fd, p->from_name, target, sizeof target - 1);

    if (n < 0)
        return err_sys(c->e, "read link %s", p->from);
    target[n] = 0;
    if (symlinkat(target, p->to_fd, p->to_name) < 0 &&
        !(errno == EEXIST && make_room(c, p) && symlinkat(target, p->to_fd, p->to_name) == 0))
        return err_sys(c->e, "make link %s", p->to);
    c->r->files++;
    return 0;
}

/* The kernel copies if it can; it cannot between some file systems, and sees nothing in files of /proc. */
static int copy_data(struct copying *c, const struct place *p, int from, int to)
{
    int64_t bytes = 0;
    char block[16 * 1024];
    ssize_t n;

    while ((n = copy_file_range(from, NULL, to, NULL, 64 * MiB, 0)) > 0)
        bytes += n;
    if (n < 0 && (errno == ENOSPC || errno == EDQUOT || errno == EIO))
        return err_sys(c->e, "write %s", p->to);
    while ((n = read(from, block, sizeof block)) != 0) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_sys(c->e, "read %s", p->from);
        int r = file_write_all(to, p->to, (struct str){ block, (size_t)n }, c->e);
        if (r < 0)
            return r;
        bytes += n;
    }
    c->r->bytes += bytes;
    return 0;
}

/* True: the file is another name of one that was copied before, and now has its second name there, too. */
static bool copy_hard_link(struct copying *c, const struct place *p, const struct stat *st)
{
    uint64_t id[2] = { st->st_dev, st->st_ino };
    struct str key = { (const char *)id, sizeof id };

    if (st->st_nlink < 2)
        return false;
    const char *first = map_get(&c->links, key);
    if (!first) {
        map_put(&c->links, arena_copy(c->h->arena, key), (void *)p->to);
        return false;
    }
    if (linkat(AT_FDCWD, first, p->to_fd, p->to_name, 0) < 0 &&
        !(errno == EEXIST && make_room(c, p) && linkat(AT_FDCWD, first, p->to_fd, p->to_name, 0) == 0))
        return false;
    c->r->files++;
    return true;
}

static int copy_file(struct copying *c, const struct place *p)
{
    const int make = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    auto_close int from = openat(p->from_fd, p->from_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    struct stat st;

    if (from < 0 || fstat(from, &st) < 0)
        return file_fail(c->e, "read", p->from);
    if (!S_ISREG(st.st_mode)) /* replaced since we looked */
        return err_set(c->e, ERR_INVALID, "read %s: not a regular file", p->from);
    if (copy_hard_link(c, p, &st))
        return 0;
    auto_close int to = openat(p->to_fd, p->to_name, make, 0600);
    if (to < 0 && errno == EEXIST && make_room(c, p))
        to = openat(p->to_fd, p->to_name, make, 0600);
    if (to < 0)
        return file_fail(c->e, "write", p->to);
    int r = copy_data(c, p, from, to);
    if (r < 0)
        return r;
    if (fchmod(to, st.st_mode & 07777) < 0)
        return err_sys(c->e, "change mode of %s", p->to);
    (void)futimens(to, (struct timespec[2]){ st.st_atim, st.st_mtim });
    c->r->files++;
    return 0;
}

static int copy_entries(struct copying *c, const struct place *p, DIR *d, int to)
{
    for (struct dirent *ent; (ent = readdir(d));) {
        if (is_dots(ent->d_name))
            continue;
        int r = copy_entry(c, &(struct place){
                                  .from_fd = dirfd(d),
                                  .to_fd = to,
                                  .from_name = ent->d_name,
                                  .to_name = ent->d_name,
                                  .depth = p->depth + 1,
                                  .from = arena_printf(c->h->arena, "%s/%s", p->from, ent->d_name),
                                  .to = arena_printf(c->h->arena, "%s/%s", p->to, ent->d_name),
                              });
        if (r < 0)
            return r;
    }
    return 0;
}

static int copy_dir(struct copying *c, const struct place *p)
{
    const int how = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    struct stat st;

    if (!c->recursive)
        return err_set(c->e, ERR_INVALID, "%s is a directory; set recursive", p->from);
    if (p->depth > LIMIT_TREE_DEPTH)
        return err_set(c->e, ERR_LIMIT, "deeper than LIMIT_TREE_DEPTH (%d): %s", LIMIT_TREE_DEPTH, p->from);
    int from = openat(p->from_fd, p->from_name, how);
    AUTO(auto_closedir) DIR *d = from < 0 ? NULL : fdopendir(from);
    if (!d || fstat(dirfd(d), &st) < 0)
        return file_fail(c->e, "read", p->from);
    if (mkdirat(p->to_fd, p->to_name, 0700) < 0 && !(errno == EEXIST && c->overwrite))
        return err_sys(c->e, "make directory %s", p->to);
    auto_close int to = openat(p->to_fd, p->to_name, how);
    if (to < 0)
        return err_sys(c->e, "write %s", p->to);
    c->r->directories++;
    int r = copy_entries(c, p, d, to);
    if (r < 0)
        return r;
    if (fchmod(to, st.st_mode & 07777) < 0) /* last: it may take away our own right to write */
        return err_sys(c->e, "change mode of %s", p->to);
    (void)futimens(to, (struct timespec[2]){ st.st_atim, st.st_mtim });
    return 0;
}

static int copy_entry(struct copying *c, const struct place *p)
{
    struct stat st;

    if (fstatat(p->from_fd, p->from_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return file_fail(c->e, "read", p->from);
    switch (st.st_mode & S_IFMT) {
    case S_IFREG: return copy_file(c, p);
    case S_IFDIR: return copy_dir(c, p);
    case S_IFLNK: return copy_link(c, p);
    case S_IFIFO:
        if (mkfifoat(p->to_fd, p->to_name, st.st_mode & 07777) < 0 &&
            !(errno == EEXIST && make_room(c, p) && mkfifoat(p->to_fd, p->to_name, st.st_mode & 07777) == 0))
            return err_sys(c->e, "make fifo %s", p->to);
        c->r->files++;
        return 0;
    }
    c->r->skipped++;
    return 0;
}

/* A directory that is copied into itself would never end. */
static int check_inside(const char *from, const char *to, struct err *e)
{
    char real_from[PATH_MAX], real_to[PATH_MAX], parent[PATH_MAX];

    snprintf(parent, sizeof parent, "%.*s", (int)(strrchr(to, '/') - to), to);
    if (!realpath(from, real_from) || !realpath(parent[0] ? parent : "/", real_to))
        return 0; /* a link to nothing; or there is no such place, and the copy says so */
    size_t n = strlen(real_from);
    if (!strncmp(real_to, real_from, n) && (real_to[n] == '/' || real_to[n] == 0))
        return err_set(e, ERR_INVALID, "%s is inside %s", to, from);
    return 0;
}

static int copy_tree(struct hand *h, const char *from, const char *to, const struct file_move_params *p,
                     struct file_move_result *r, struct err *e)
{
    struct copying c = { .h = h, .r = r, .overwrite = p->overwrite, .recursive = p->recursive, .e = e };
    struct stat st;

    if (lstat(from, &st) == 0 && S_ISDIR(st.st_mode)) {
        int n = check_inside(from, to, e);
        if (n < 0)
            return n;
    }
    int n = copy_entry(&c, &(struct place){ .from_fd = AT_FDCWD,
                                            .to_fd = AT_FDCWD,
                                            .from_name = from,
                                            .to_name = to,
                                            .from = from,
                                            .to = to,
                                            .depth = 1 });
    map_done(&c.links);
    return n;
}

int file_copy_run(struct hand *h, const void *params, void *result, struct err *e)
{
    const struct file_move_params *p = params;
    struct file_move_result *r = result;
    char *from = NULL, *to = NULL;

    int n = aim(h, p, &from, &to, e);
    if (n < 0)
        return n;
    r->source = str_of(from);
    r->destination = str_of(to);
    return copy_tree(h, from, to, p, r, e);
}

/* --- delete --- */

struct deletion {
    int top; /* where directories that are too deep are moved, to be found again in the next round */
    int64_t deleted, moved;
    const char *path;
    struct err *e;
};

static int wipe(struct deletion *d, int dir_fd, const char *name, int depth);

static int wipe_entry(struct deletion *d, int fd, const char *name, int depth)
{
    char aside[48];

    if (unlinkat(fd, name, 0) == 0) {
        d->deleted++;
        return 0;
    }
    if (errno == ENOENT)
        return 0;
    if (errno != EISDIR && errno != EPERM)
        return err_sys(d->e, "delete %s in %s", name, d->path);
    if (depth < LIMIT_TREE_DEPTH)
        return wipe(d, fd, name, depth + 1);
    snprintf(aside, sizeof aside, ".sandglass-delete-%d-%lld", getpid(), (long long)d->moved++);
    if (renameat(fd, name, d->top, aside) < 0)
        return err_sys(d->e, "delete %s in %s", name, d->path);
    return 0;
}

/* Rounds, because a directory may get new entries meanwhile: from us (too deep) or from others. Each round that deletes
 * nothing is the last. */
static int wipe(struct deletion *d, int dir_fd, const char *name, int depth)
{
    int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    AUTO(auto_closedir) DIR *dir = fd < 0 ? NULL : fdopendir(fd);

    if (!dir)
        return file_fail(d->e, "delete", depth == 1 ? d->path : name);
    if (depth == 1)
        d->top = fd;
    for (;;) {
        int64_t before = d->deleted;
        for (struct dirent *ent; (ent = readdir(dir));) {
            int r = is_dots(ent->d_name) ? 0 : wipe_entry(d, fd, ent->d_name, depth);
            if (r < 0)
                return r;
        }
        if (unlinkat(dir_fd, name, AT_REMOVEDIR) == 0)
            break;
        if ((errno != ENOTEMPTY && errno != EEXIST) || d->deleted == before)
            return err_sys(d->e, "delete %s", depth == 1 ? d->path : name);
        rewinddir(dir);
    }
    d->deleted++;
    return 0;
}

static int delete_tree(const char *path, int64_t *ret_deleted, struct err *e)
{
    struct deletion d = { .path = path, .e = e };
    int r = wipe(&d, AT_FDCWD, path, 1);

    *ret_deleted = d.deleted;
    return r;
}

int file_delete_run(struct hand *h, const void *params, void *result, struct err *e)
{
    const struct file_delete_params *p = params;
    struct file_delete_result *r = result;
    struct stat st;
    char *path = NULL;

    int n = file_path(h, p->path, &path, e);
    if (n < 0)
        return n;
    file_trim(path);
    r->path = str_of(path);
    if (!strcmp(path, "/"))
        return err_set(e, ERR_DENIED, "delete /: refused");
    if (lstat(path, &st) < 0)
        return errno == ENOENT && p->missing_ok ? 0 : file_fail(e, "delete", path);
    if (S_ISDIR(st.st_mode) && p->recursive)
        return delete_tree(path, &r->deleted, e);
    if (unlinkat(AT_FDCWD, path, S_ISDIR(st.st_mode) ? AT_REMOVEDIR : 0) < 0) {
        if (errno != ENOTEMPTY && errno != EEXIST)
            return file_fail(e, "delete", path);
        err_sys(e, "delete %s (set recursive to delete all that is in it)", path);
        return -ENOTEMPTY;
    }
    r->deleted = 1;
    return 0;
}

/* --- move --- */

/* A directory of the image cannot be renamed in the box's overlay: EXDEV, as between two file systems. */
static int move_by_copy(struct hand *h, const char *from, const char *to, const struct file_move_params *p,
                        struct err *e)
{
    struct file_move_params all = *p;
    struct file_move_result counts = { 0 };
    struct stat st;
    int64_t deleted;

    all.recursive = true;
    int r = copy_tree(h, from, to, &all, &counts, e);
    if (r < 0)
        return err_wrap(e, r, "move %s by copying (the source is still there)", from);
    if (counts.skipped)
        return err_set(e, ERR_DENIED, "move %s: its sockets or devices cannot be copied; the rest is in %s now, too",
                       from, to);
    if (lstat(from, &st) == 0 && S_ISDIR(st.st_mode))
        return delete_tree(from, &deleted, e);
    return unlink(from) < 0 ? err_sys(e, "delete %s after copying it to %s", from, to) : 0;
}

int file_move_run(struct hand *h, const void *params, void *result, struct err *e)
{
    const struct file_move_params *p = params;
    struct file_move_result *r = result;
    char *from = NULL, *aimed = NULL;
    struct stat st;

    int n = aim(h, p, &from, &aimed, e);
    if (n < 0)
        return n;
    r->source = str_of(from);
    r->destination = str_of(aimed);
    const char *to = p->into ? file_follow(h, aimed) : aimed;
    if (!to)
        return file_fail(e, "write", aimed);
    if (p->into && stat(to, &st) == 0)
        (void)chmod(from, st.st_mode & 07777);
    n = renameat2(AT_FDCWD, from, AT_FDCWD, to, p->overwrite ? 0 : RENAME_NOREPLACE);
    if (n < 0 && !p->overwrite && errno == EINVAL) /* also what a file system says that does not know the flag */
        n = rename(from, to);
    if (n < 0 && errno == EXDEV)
        return move_by_copy(h, from, to, p, e);
    if (n < 0 && errno == EEXIST)
        return err_set(e, ERR_EXISTS, "%s exists already; set overwrite to replace it", to);
    if (n < 0)
        return err_sys(e, "move %s to %s", from, to);
    return 0;
}

#endif

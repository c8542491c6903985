#include "image/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/limits.h"

#define COPY_MAX (8 * MiB) /* larger files are not configuration */
enum { DEPTH_MAX = 12 };

int tree_write(int dir, const char *path, const char *text, mode_t mode, struct err *e)
{
    auto_close int fd = openat(dir, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    size_t n = strlen(text);
    if (fd < 0 || write(fd, text, n) != (ssize_t)n || fchmod(fd, mode) < 0)
        return err_sys(e, "write '%s'", path);
    return 0;
}

int tree_mkdir(int dir, const char *path, mode_t mode, uid_t owner, struct err *e)
{
    if (mkdirat(dir, path, mode) < 0 && errno != EEXIST)
        return err_sys(e, "mkdir '%s'", path);
    if (fchmodat(dir, path, mode, 0) < 0 || fchownat(dir, path, owner, owner, AT_SYMLINK_NOFOLLOW) < 0)
        return err_sys(e, "own '%s'", path);
    return 0;
}

static int copy_open(int in, int to, const char *as, mode_t mode, struct err *e)
{
    struct stat st;

    if (fstat(in, &st) < 0)
        return err_sys(e, "stat '%s'", as);
    if (!S_ISREG(st.st_mode) || !(st.st_mode & S_IROTH) || st.st_size > COPY_MAX)
        return 0;
    auto_close int out = openat(to, as, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (out < 0)
        return errno == EEXIST ? 0 : err_sys(e, "create '%s'", as);
    for (off_t at = 0; at < st.st_size;)
        if (sendfile(out, in, &at, (size_t)(st.st_size - at)) <= 0)
            return err_sys(e, "copy '%s'", as);
    if (fchmod(out, mode ? mode : st.st_mode & 0755) < 0)
        return err_sys(e, "chmod '%s'", as);
    return 0;
}

int tree_copy_file(int from, const char *name, int to, const char *as, mode_t mode, struct err *e)
{
    auto_close int in = openat(from, name, O_RDONLY | O_CLOEXEC);
    return in < 0 ? err_sys(e, "open '%s'", name) : copy_open(in, to, as, mode, e);
}

static int copy_link(int from, const char *name, int to, struct err *e)
{
    char target[4096];
    ssize_t n = readlinkat(from, name, target, sizeof target - 1);
    if (n < 0)
        return err_sys(e, "readlink '%s'", name);
    target[n] = 0;
    if (target[0] != '/' || strncmp(target, "/usr/", 5) == 0 || strncmp(target, "/etc/", 5) == 0) {
        if (symlinkat(target, to, name) < 0 && errno != EEXIST)
            return err_sys(e, "link '%s'", name);
        return 0;
    }
    auto_close int in = openat(from, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    return in < 0 ? 0 : copy_open(in, to, name, 0, e);
}

static int copy_any(int from, const char *name, int to, int depth, struct err *e);

static int copy_dir(int from, const char *name, int to, int depth, struct err *e)
{
    auto_close int in = openat(from, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (in < 0 || depth == 0)
        return 0;
    int r = tree_mkdir(to, name, 0755, 0, e);
    if (r < 0)
        return r;
    auto_close int out = openat(to, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *d = fdopendir(dup(in));
    for (struct dirent *x; d && r >= 0 && (x = readdir(d));)
        if (strcmp(x->d_name, ".") != 0 && strcmp(x->d_name, "..") != 0)
            r = copy_any(in, x->d_name, out, depth - 1, e);
    if (d)
        closedir(d);
    return r;
}

static int copy_any(int from, const char *name, int to, int depth, struct err *e)
{
    struct stat st;

    if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return 0;
    if (S_ISLNK(st.st_mode))
        return copy_link(from, name, to, e);
    if (S_ISDIR(st.st_mode))
        return st.st_mode & S_IROTH ? copy_dir(from, name, to, depth, e) : 0;
    if (!S_ISREG(st.st_mode) || !(st.st_mode & S_IROTH))
        return 0;
    return tree_copy_file(from, name, to, name, 0, e);
}

int tree_copy(int from, const char *name, int to, struct err *e)
{
    return copy_any(from, name, to, DEPTH_MAX, e);
}

void tree_remove(int dir, const char *name)
{
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        (void)unlinkat(dir, name, 0);
        return;
    }
    DIR *d = fdopendir(fd);
    for (struct dirent *x; d && (x = readdir(d));)
        if (strcmp(x->d_name, ".") != 0 && strcmp(x->d_name, "..") != 0)
            tree_remove(dirfd(d), x->d_name);
    if (d)
        closedir(d);
    (void)unlinkat(dir, name, AT_REMOVEDIR);
}

void tree_spread(const char *path)
{
    auto_close int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int flags = 0;

    if (fd < 0 || ioctl(fd, FS_IOC_GETFLAGS, &flags) < 0 || flags & FS_TOPDIR_FL)
        return;
    flags |= FS_TOPDIR_FL;
    (void)ioctl(fd, FS_IOC_SETFLAGS, &flags); /* other file systems do not know it, nor need it */
}

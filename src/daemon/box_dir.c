#include "daemon/box_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/log.h"

#define MEMORY "/dev/shm/"
#define PREFIX "sandglass-"
#define OWNER  "trusted.sandglass" /* of a directory there: which link leads to it */

enum { NAME = sizeof MEMORY PREFIX "XXXXXX", PATH = 512 };

/* Where the link leads, if it is one of ours: serve's user could have put another in its place. */
static bool read_link(const char *path, char out[NAME])
{
    char text[PATH];
    ssize_t n = readlink(path, text, sizeof text);

    if (n != NAME - 1 || memcmp(text, MEMORY PREFIX, strlen(MEMORY PREFIX)) != 0 ||
        memchr(text + strlen(MEMORY), '/', (size_t)n - strlen(MEMORY)))
        return false;
    memcpy(out, text, (size_t)n);
    out[n] = 0;
    return true;
}

/* Anybody may make names in /dev/shm. */
static int open_own(const char *name)
{
    struct stat st;
    auto_close int fd = open(name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0 || fstat(fd, &st) < 0 || st.st_uid != geteuid() || st.st_mode & 022)
        return -1;
    return TAKE_FD(fd);
}

static bool in_memory(const char *path)
{
    struct statfs fs;
    return statfs(path, &fs) == 0 && fs.f_type == TMPFS_MAGIC;
}

static void empty(int dir)
{
    int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);

    for (struct dirent *x; d && (x = readdir(d));)
        if (x->d_name[0] != '.')
            (void)unlinkat(dir, x->d_name, 0);
    if (d)
        closedir(d);
}

/* A server that was killed, and whose home was then removed, has left its directory. */
static void remove_strays(void)
{
    DIR *d = opendir(MEMORY);

    for (struct dirent *x; d && (x = readdir(d));) {
        char name[NAME], link[PATH], now[NAME];
        if (strncmp(x->d_name, PREFIX, strlen(PREFIX)) != 0 ||
            snprintf(name, sizeof name, MEMORY "%.*s", NAME, x->d_name) != NAME - 1)
            continue;
        auto_close int fd = open_own(name);
        ssize_t n = fd < 0 ? -1 : fgetxattr(fd, OWNER, link, sizeof link - 1);
        if (n <= 0)
            continue;
        link[n] = 0;
        if (read_link(link, now) && strcmp(now, name) == 0)
            continue;
        empty(fd);
        if (rmdir(name) == 0)
            log_info("directory of a server that is gone removed", "path=%s home=%s", name, link);
    }
    if (d)
        closedir(d);
}

/* -1: there is no memory to be had, or it is not worth it. */
static int make_in_memory(const char *path)
{
    char name[NAME] = MEMORY PREFIX "XXXXXX";

    if (!in_memory(MEMORY) || !mkdtemp(name))
        return -1;
    if (chmod(name, 0755) == 0 && symlink(name, path) == 0) {
        (void)setxattr(name, OWNER, path, strlen(path), 0);
        return open_own(name);
    }
    (void)rmdir(name);
    return -1;
}

int box_dir_open(const char *home, struct err *e)
{
    char path[PATH], name[NAME];

    if ((size_t)snprintf(path, sizeof path, "%s/run/box", home) >= sizeof path)
        return err_set(e, ERR_INVALID, "the path of '%s' is too long", home);
    remove_strays();
    int fd = read_link(path, name) ? open_own(name) : -1;
    if (fd >= 0)
        return fd;
    (void)unlink(path); /* a link that leads nowhere, or elsewhere */
    if (rmdir(path) == 0 || errno == ENOENT)
        fd = make_in_memory(path);
    if (fd >= 0)
        return fd;
    if (mkdir(path, 0755) < 0 && errno != EEXIST)
        return err_sys(e, "mkdir '%s'", path);
    fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? err_sys(e, "open '%s'", path) : fd;
}

void box_dir_close(const char *home, int take_fd)
{
    char path[PATH], name[NAME];

    if (take_fd < 0)
        return;
    close(take_fd);
    snprintf(path, sizeof path, "%s/run/box", home);
    if (read_link(path, name) && rmdir(name) == 0 && unlink(path) == 0)
        (void)mkdir(path, 0755); /* as in a new home */
}

#include "daemon/open_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"

enum { FILES_MAX = 100000 };

static bool begins(const char *s, const char *with)
{
    return strncmp(s, with, strlen(with)) == 0;
}

/* at, name: the link in /proc that leads to it. A file without a name is in no tree and gets into none unseen: to give
 * one that never had a name its first (linkat) is an event. Files in memory (memfd_create) are such, too. */
static void add(struct open_files *o, int at, const char *name, const char *path, size_t n)
{
    static const char gone[] = " (deleted)";
    struct stat st;

    if (n > sizeof gone && strcmp(path + n - (sizeof gone - 1), gone) == 0) {
        if (fstatat(at, name, &st, 0) == 0 && st.st_nlink == 0)
            return;
        o->all = true; /* it has another, which nothing here tells */
        return;
    }
    if (o->n == o->size) {
        o->size = o->size ? 2 * o->size : 64;
        o->paths = realloc(o->paths, o->size * sizeof *o->paths);
        if (!o->paths)
            abort();
    }
    o->paths[o->n++] = arena_copy(&o->arena, (struct str){ path, n });
    o->all |= o->n > FILES_MAX;
}

/* Descriptors that were sent and not yet received belong to no process. */
static bool has_descriptors(int proc, const char *fd)
{
    char path[64], text[1024];

    snprintf(path, sizeof path, "fdinfo/%.20s", fd);
    ssize_t n = cgroup_read(proc, path, text, sizeof text);
    const char *at = n > 0 ? strstr(text, "scm_fds:") : NULL;
    return at && strtol(at + 8, NULL, 10) != 0;
}

static void find_descriptor(struct open_files *o, int proc, int dir, const char *name)
{
    char path[4096];
    struct stat st;

    ssize_t n = readlinkat(dir, name, path, sizeof path - 1);
    if (n < 0) {
        o->all |= errno != ENOENT;
        return;
    }
    path[n] = 0;
    if (begins(path, "socket:"))
        o->all |= has_descriptors(proc, name);
    /* the link's mode tells how the file was opened */
    if (path[0] == '/' && !begins(path, "/dev/") && !begins(path, "/proc/") &&
        (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || st.st_mode & S_IWUSR))
        add(o, dir, name, path, (size_t)n);
    o->all |= (size_t)n == sizeof path - 1;
}

static void find_descriptors(struct open_files *o, int proc)
{
    int fd = openat(proc, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);

    if (!d) {
        o->all |= errno != ENOENT;
        return;
    }
    for (struct dirent *x; !o->all && (x = readdir(d));)
        if (x->d_name[0] != '.')
            find_descriptor(o, proc, dirfd(d), x->d_name);
    closedir(d);
}

/* "7f10-7f20 rw-s 00000000 00:5d 12 /path": the fourth flag says that stores reach the file. What is not writable now
 * may have been a moment ago. The name is taken from map_files, where nothing is escaped. */
static void find_mappings(struct open_files *o, int proc)
{
    int fd = openat(proc, "maps", O_RDONLY | O_CLOEXEC);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
    auto_free char *line = NULL;
    size_t size = 0;

    if (!f) {
        o->all |= errno != ENOENT;
        return;
    }
    while (!o->all && getline(&line, &size, f) > 0) {
        char *space = strchr(line, ' '), name[64], path[4096];
        if (!space || strlen(space) < 5 || space[4] != 's' || !strchr(space, '/') || space - line > 40)
            continue;
        snprintf(name, sizeof name, "map_files/%.*s", (int)(space - line), line);
        ssize_t n = readlinkat(proc, name, path, sizeof path - 1);
        o->all |= n < 0 || (size_t)n == sizeof path - 1;
        if (n > 0 && path[0] == '/') {
            path[n] = 0;
            add(o, proc, name, path, (size_t)n);
        }
    }
    fclose(f);
}

/* A thread may have descriptors of its own. */
static void find_threads(struct open_files *o, int proc, int pid)
{
    int fd = openat(proc, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);

    for (struct dirent *x; d && !o->all && (x = readdir(d));) {
        int tid = atoi(x->d_name);
        if (tid <= 0 || tid == pid || syscall(SYS_kcmp, pid, tid, KCMP_FILES, 0, 0) == 0)
            continue;
        auto_close int thread = openat(dirfd(d), x->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (thread >= 0)
            find_descriptors(o, thread);
    }
    if (d)
        closedir(d);
}

static void on_pid(void *arg, int pid)
{
    struct open_files *o = arg;
    char path[32];

    snprintf(path, sizeof path, "/proc/%d", pid);
    auto_close int proc = o->all ? -1 : open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (proc < 0)
        return;
    find_descriptors(o, proc);
    find_threads(o, proc, pid);
    find_mappings(o, proc);
}

void open_files_find(const struct cgroups *g, const char *box, struct open_files *ret)
{
    *ret = (struct open_files){ 0 };
    if (cgroup_each_pid(g, box, on_pid, ret) < 0)
        ret->all = true;
}

void open_files_done(struct open_files *o)
{
    free(o->paths);
    arena_done(&o->arena);
}

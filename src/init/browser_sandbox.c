/* Chromium's own sandbox: can it be had here, and is it on? Neither is concluded from a setting. The first is tried; for
 * the second the kernel tells what is around the renderers: a sandboxed one lives in a user and a pid namespace that are
 * not ours, and has a filter of system calls more than we have. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/loop.h"
#include "init/browser_parts.h"

enum { LOOK_MS = 100, SETTLED_MS = 3000 };

struct fence {
    int namespaces;     /* pid namespaces around it that we can see */
    int filters;        /* of system calls */
    char uid_map[1024]; /* whose: another user namespace has another */
};

static ssize_t read_file(const char *pid, const char *name, char *to, size_t size)
{
    char path[64];

    snprintf(path, sizeof path, "/proc/%.20s/%.20s", pid, name);
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, to, size - 1);
    to[n > 0 ? n : 0] = 0;
    return n;
}

static bool fence_of(const char *pid, struct fence *ret)
{
    char text[8192];

    *ret = (struct fence){ 0 };
    if (read_file(pid, "uid_map", ret->uid_map, sizeof ret->uid_map) <= 0 ||
        read_file(pid, "status", text, sizeof text) <= 0)
        return false;
    char *names = strstr(text, "\nNSpid:"), *filters = strstr(text, "\nSeccomp_filters:");
    for (char *p = names ? names + 7 : ""; *p && *p != '\n'; p++)
        ret->namespaces += *p == '\t';
    ret->filters = filters ? atoi(filters + 17) : 0;
    return true;
}

static bool is_renderer(const char *pid)
{
    char line[16384];
    ssize_t n = pid[0] >= '1' && pid[0] <= '9' ? read_file(pid, "cmdline", line, sizeof line) : 0;

    return n > 0 && memmem(line, (size_t)n, "--type=renderer", 15);
}

/* NULL: every renderer has all of it. */
static const char *missing(void)
{
    struct fence ours, theirs;
    DIR *dir = opendir("/proc");
    const char *what = "there is no renderer to look at";

    if (!dir || !fence_of("self", &ours)) {
        if (dir)
            closedir(dir);
        return "/proc cannot be read";
    }
    for (const struct dirent *d; (d = readdir(dir));) {
        if (!is_renderer(d->d_name) || !fence_of(d->d_name, &theirs))
            continue;
        what = strcmp(theirs.uid_map, ours.uid_map) == 0 ? "a renderer is in the box's own user namespace"
               : theirs.namespaces <= ours.namespaces    ? "a renderer is in the box's own pid namespace"
               : theirs.filters <= ours.filters          ? "a renderer has no filter of system calls of its own"
                                                         : NULL;
        if (what)
            break;
    }
    closedir(dir);
    return what;
}

/* In a process that ends with it. The second needs rights that the first gives; some hosts give the one without them. */
int sandbox_try(void)
{
    int status = 0;
    pid_t pid = fork();

    if (pid == 0)
        _exit(unshare(CLONE_NEWUSER) < 0 || unshare(CLONE_NEWPID | CLONE_NEWNET) < 0 ? errno : 0);
    if (pid < 0)
        return errno;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : EIO;
}

void sandbox_look(struct hand *h, struct browser *b)
{
    struct err ignored;
    const char *what = missing();

    /* One that has just been started puts its filter on when it has loaded what it needs. */
    for (int64_t end = now_ms() + SETTLED_MS; what && !b->no_sandbox && now_ms() < end; what = missing())
        if (browser_pause(h, b, now_ms() + LOOK_MS, &ignored) < 0)
            break;
    b->sandboxed = !what;
    if (b->no_sandbox)
        snprintf(
            b->sandbox_why, sizeof b->sandbox_why,
            "Chromium's sandbox needs namespaces of its own, which this box may not make (%s): see the box's setting "
            "user_namespaces",
            strerror(b->no_sandbox));
    else
        snprintf(b->sandbox_why, sizeof b->sandbox_why, "%s", what ? what : "");
    driver_about(h, &(struct wire_about){ b->sandboxed, str_of(b->sandbox_why) });
}

bool browser_sandboxed(struct hand *h, struct browser *b, struct str *ret_why)
{
    sandbox_look(h, b);
    *ret_why = str_of(b->sandbox_why);
    return b->sandboxed;
}

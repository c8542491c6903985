#include "isolate/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/fdpass.h"
#include "isolate/cgroup.h"
#include "isolate/child.h"
#include "isolate/spawner.h"
#include "isolate/step.h"
#include "wire/seat.h"

#ifndef PIDFD_GET_MNT_NAMESPACE
#define PIDFD_GET_MNT_NAMESPACE _IO(0xFF, 3)
#endif
#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U
#endif

int spawn_copy_init(const char *path, struct err *e)
{
    struct stat st;
    auto_close int from = open(path, O_RDONLY | O_CLOEXEC);
    if (from < 0 || fstat(from, &st) < 0)
        return err_sys(e, "open '%s'", path);
    auto_close int fd = memfd_create("sandglass-init", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_EXEC);
    if (fd < 0 && errno == EINVAL) /* before 6.3 every memfd was executable */
        fd = memfd_create("sandglass-init", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return err_sys(e, "memfd for '%s'", path);
    for (off_t at = 0; at < st.st_size;)
        if (sendfile(fd, from, &at, (size_t)(st.st_size - at)) <= 0)
            return err_sys(e, "copy '%s'", path);
    /* readable for all: a program that its own process may not read makes that process undumpable */
    if (fchmod(fd, 0555) < 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0)
        return err_sys(e, "seal the copy of '%s'", path);
    return TAKE_FD(fd);
}

/* Bound through the directory's descriptor: sun_path holds 108 bytes, a home directory may be longer. */
static int listen_on(const struct spawn_opts *o, struct err *e)
{
    struct sockaddr_un a = { .sun_family = AF_UNIX };
    char name[BOX_ID_MAX + 8];

    snprintf(name, sizeof name, "%.31s.sock", o->id);
    snprintf(a.sun_path, sizeof a.sun_path, "/proc/self/fd/%d/%s", o->sockets, name);
    auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return err_sys(e, "socket");
    mode_t old = umask(0177);
    int r = bind(fd, (struct sockaddr *)&a, sizeof a);
    umask(old);
    if (r < 0 || listen(fd, 16) < 0)
        return err_sys(e, "listen on %s", name);
    if (fchownat(o->sockets, name, o->serve_uid, o->serve_gid, AT_SYMLINK_NOFOLLOW) < 0)
        return err_sys(e, "chown %s", name);
    return TAKE_FD(fd);
}

/* --- the first process --- */

static int ask(const struct spawn_opts *o, struct spawned *s, struct err *e)
{
    int pair[2], pipes[2], dir;

    int r = step_reach(STEP_CHANNEL, e);
    if (r < 0)
        return r;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return err_sys(e, "socketpair");
    s->channel = pair[0];
    auto_close int channel = pair[1];
    if (pipe2(pipes, O_CLOEXEC) < 0)
        return err_sys(e, "pipe");
    s->ready = pipes[0];
    auto_close int ready = pipes[1];
    r = cgroup_make_v2(o->groups, o->id, &dir, e);
    if (r < 0)
        return r;
    auto_close int group = dir;
    r = step_reach(STEP_CLONE, e);
    if (r < 0)
        return r;
    const struct spawner_fds fds = {
        .channel = channel, .ready = ready, .userns = o->userns, .host_ns = o->network->host_ns, .group = group
    };
    r = spawner_ask(o->spawner, &fds, e);
    s->asked = r >= 0;
    return r;
}

/* --- what it needs, made while it starts --- */

static bool put(char *to, size_t size, const char *text)
{
    return (size_t)snprintf(to, size, "%s", text ? text : "") < size;
}

static int send_stage(const struct spawn_opts *o, const struct spawned *s, const int *fds, int n, struct err *e)
{
    static struct child_stage m; /* large, one at a time */
    const struct spawn_paths *p = o->paths;

    m.slot = o->slot;
    m.fail_step = step_failing();
    m.network = *o->network;
    if (!put(m.id, sizeof m.id, o->id) || !put(m.host_root, sizeof m.host_root, p->host_root) ||
        !put(m.host_sudo, sizeof m.host_sudo, p->host_sudo) || !put(m.layers, sizeof m.layers, p->layers) ||
        !put(m.image_roots, sizeof m.image_roots, p->image_roots) ||
        !put(m.mount_roots, sizeof m.mount_roots, p->mount_roots))
        return err_set(e, ERR_LIMIT,
                       "a path of this server is longer than %d bytes, or its image.roots or mount.roots than %d",
                       CHILD_PATH - 1, PATH_MAX - 1);
    errno = -fdpass_send(s->channel, &m, sizeof m, fds, n, MSG_DONTWAIT);
    return errno ? err_sys(e, "tell the box's first process") : 0;
}

static int equip(const struct spawn_opts *o, const struct spawned *s, struct err *e)
{
    int fds[CHILD_FDS], n;

    int r = step_reach(STEP_GROUP, e);
    if (r < 0)
        return r;
    r = cgroup_make(o->groups, o->id, e);
    if (r < 0)
        return r;
    r = step_reach(STEP_SOCKET, e);
    if (r < 0)
        return r;
    auto_close int listen_fd = listen_on(o, e);
    if (listen_fd < 0)
        return listen_fd;
    fds[0] = listen_fd;
    r = cgroup_procs(o->groups, o->id, fds + 1, e);
    if (r < 0)
        return r;
    n = r;
    r = step_reach(STEP_STAGE, e);
    if (r >= 0)
        r = send_stage(o, s, fds, n + 1, e);
    while (n > 0)
        close(fds[n--]);
    return r;
}

int spawn_begin(const struct spawn_opts *o, struct spawned *s, struct err *e)
{
    *s = (struct spawned){ .pidfd = -1, .channel = -1, .ready = -1, .scratch = -1 };
    int r = ask(o, s, e);
    return r < 0 ? r : equip(o, s, e);
}

int spawn_finish(struct spawner *spawner, struct spawned *s, struct err *e)
{
    if (!s->asked)
        return 0;
    s->asked = false;
    return spawner_answer(spawner, &s->pid, &s->pidfd, e);
}

int spawn_go(const struct spawned *s, const struct child_go *go, struct err *e)
{
    int r = step_reach(STEP_GO, e);
    if (r < 0)
        return r;
    if (send(s->channel, go, sizeof *go, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)sizeof *go)
        return err_sys(e, "start the box's first process");
    return 0;
}

/* One packet of the child; a descriptor that comes with it is its scratch. */
static ssize_t hear(struct spawned *s, struct err *ret)
{
    int fd = -1, count = 1;
    ssize_t n = fdpass_recv(s->channel, ret, sizeof *ret, &fd, &count, MSG_DONTWAIT);

    if (count == 1) {
        if (s->scratch >= 0)
            close(s->scratch);
        s->scratch = fd;
    }
    return n;
}

bool spawn_story(struct spawned *s, struct err *ret)
{
    struct err e;
    ssize_t n;

    if (s->channel < 0)
        return false;
    do {
        n = hear(s, &e);
        if (n == -ECONNRESET) /* it ended with our packet unread; its own comes after that news */
            n = hear(s, &e);
    } while (n == (ssize_t)sizeof e && e.code == ERR_NONE);
    if (n != (ssize_t)sizeof e)
        return false;
    e.msg[sizeof e.msg - 1] = 0;
    *ret = e;
    return true;
}

int spawn_mounts(const struct spawned *s)
{
    char path[32];

    int fd = ioctl(s->pidfd, PIDFD_GET_MNT_NAMESPACE, 0);
    if (fd >= 0) /* since 6.11 */
        return fd;
    if (s->pid <= 0)
        return -1;
    snprintf(path, sizeof path, "/proc/%d/ns/mnt", (int)s->pid); /* not reaped: the number is its own */
    return open(path, O_RDONLY | O_CLOEXEC);
}

void spawn_close(struct spawned *s)
{
    int *fds[] = { &s->pidfd, &s->channel, &s->ready, &s->scratch };

    for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
        if (*fds[i] >= 0)
            close(*fds[i]);
        *fds[i] = -1;
    }
}

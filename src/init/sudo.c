/* Init's side of sudo: one connection per client, one program per connection. */
#include "init/sudo.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/auto.h"
#include "base/loop.h"
#include "init/child.h"
#include "init/init.h"
#include "init/proc.h"
#include "init/sudo_wire.h"

struct sudo {
    struct init *init;
    struct sudo *next;
    int fd;
    struct loop_fd *watch;
    pid_t client, pid; /* pid 0: not started, or over */
};

pid_t sudo_client_of(struct init *in, pid_t pid)
{
    for (struct sudo *s = in->sudos; s; s = s->next)
        if (s->pid == pid)
            return s->client;
    return 0;
}

static void sudo_free(struct sudo *s)
{
    for (struct sudo **at = &s->init->sudos; *at; at = &(*at)->next)
        if (*at == s) {
            *at = s->next;
            break;
        }
    loop_unwatch(s->watch);
    close(s->fd);
    free(s);
}

static void on_program_exit(void *arg, pid_t pid, int status)
{
    struct sudo *s = arg;

    (void)pid;
    (void)send(s->fd, &status, sizeof status, MSG_NOSIGNAL | MSG_DONTWAIT);
    sudo_free(s);
}

static void client_gone(struct sudo *s)
{
    if (s->pid) {
        struct tree t = { .root = s->pid };
        kill(s->pid, SIGSTOP);
        (void)tree_kill(s->init, &t);
        kill(s->pid, SIGKILL);
        child_forget(s->init, s->pid);
    }
    sudo_free(s);
}

/* The next of n strings, each ended by NUL; NULL: there is none. */
static char *next_string(char **at, char *end)
{
    char *p = *at;
    char *nul = p < end ? memchr(p, 0, (size_t)(end - p)) : NULL;

    if (!nul)
        return NULL;
    *at = nul + 1;
    return p;
}

static int start_program(struct sudo *s, char *text, size_t n, const int fds[4])
{
    AUTO(arena_done) struct arena a = { 0 };
    struct sudo_request req;
    char *at = text + sizeof req;
    char *end = text + n;

    if (n < sizeof req)
        return -EINVAL;
    memcpy(&req, text, sizeof req);
    if (req.argc == 0 || req.argc > n || req.envc > n)
        return -EINVAL;
    const char **argv = arena_alloc(&a, (req.argc + 1) * sizeof *argv);
    struct pairs env = { arena_alloc(&a, (req.envc + 1) * sizeof *env.v), 0 };
    for (uint32_t i = 0; i < req.argc; i++)
        if (!(argv[i] = next_string(&at, end)))
            return -EINVAL;
    for (uint32_t i = 0; i < req.envc; i++) {
        char *entry = next_string(&at, end);
        char *eq = entry ? strchr(entry, '=') : NULL;
        if (!eq)
            return -EINVAL;
        env.v[env.n++] = (struct pair){ { entry, (size_t)(eq - entry) }, str_of(eq + 1) };
    }
    struct child_opts o = {
        .argv = argv,
        .env = child_env(&a, !req.as_user, "/", &env),
        .fds = { fds[0], fds[1], fds[2] },
        .cwd = "/",
        .cwd_fd = fds[3],
        .root = !req.as_user,
        .umask = req.umask & 0777,
    };
    s->pid = child_start(s->init, &o, on_program_exit, s, NULL);
    return s->pid < 0 ? s->pid : 0;
}

static void on_request(struct sudo *s)
{
    auto_free char *text = malloc(SUDO_REQUEST_MAX);
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(4 * sizeof(int))];
    } control;
    struct iovec iov = { text, SUDO_REQUEST_MAX };
    struct msghdr msg = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control
    };
    int fds[4] = { -1, -1, -1, -1 };
    size_t count = 0;

    if (!text)
        abort();
    ssize_t n = recvmsg(s->fd, &msg, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN)
        return;
    struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&msg) : NULL;
    if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
        count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        memcpy(fds, CMSG_DATA(c), count * sizeof(int));
    }
    int r =
        count == 4 && !(msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) ? start_program(s, text, (size_t)n, fds) : -EINVAL;
    for (size_t i = 0; i < count; i++)
        close(fds[i]);
    if (r < 0) {
        s->pid = 0;
        client_gone(s);
    }
}

static void on_client(void *arg, uint32_t events)
{
    struct sudo *s = arg;
    unsigned char sig;

    (void)events;
    if (!s->pid) {
        on_request(s);
        return;
    }
    ssize_t n = recv(s->fd, &sig, 1, MSG_DONTWAIT);
    if (n == 1 && (sig == SIGINT || sig == SIGTERM || sig == SIGHUP || sig == SIGQUIT))
        kill(-s->pid, sig); /* its process group; not reaped yet, so the number is still its own */
    else if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        client_gone(s);
}

static int listen_fd = -1;

static void on_sudo_connect(void *arg, uint32_t events)
{
    struct init *in = arg;
    int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC);
    struct ucred who;
    socklen_t size = sizeof who;

    (void)events;
    if (fd < 0)
        return;
    struct sudo *s = calloc(1, sizeof *s);
    if (!s)
        abort();
    *s = (struct sudo){ .init = in, .fd = fd, .next = in->sudos };
    in->sudos = s;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) == 0)
        s->client = who.pid;
    s->watch = loop_watch(in->loop, fd, EPOLLIN, on_client, s);
}

int sudo_listen(struct init *in, struct err *e)
{
    struct sockaddr_un to = { .sun_family = AF_UNIX, .sun_path = SUDO_SOCKET };

    listen_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    (void)unlink(SUDO_SOCKET);
    if (listen_fd < 0 || bind(listen_fd, (struct sockaddr *)&to, sizeof to) < 0 || chmod(SUDO_SOCKET, 0666) < 0 ||
        listen(listen_fd, 64) < 0)
        return err_sys(e, "listen on %s", SUDO_SOCKET);
    if (!loop_watch(in->loop, listen_fd, EPOLLIN, on_sudo_connect, in))
        return err_sys(e, "watch %s", SUDO_SOCKET);
    return 0;
}

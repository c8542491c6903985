#include "init/peer.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/loop.h"
#include "init/child.h"
#include "init/driver.h"
#include "init/proc.h"
#include "wire/boot.h"

/* SERVER_MS: a server that has just been started imports first. STATUS_MS: how long its word about an end may take. */
enum { SERVER_MS = 30000, STATUS_MS = 3000, CTL_FD = 3 };

struct ends { /* theirs */
    int in, out, err, ctl;
};

static void ends_done(struct ends *t)
{
    int all[] = { t->in, t->out, t->err, t->ctl };

    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        if (all[i] >= 0)
            close(all[i]);
}

static int make_ends(struct peer *p, struct ends *t, bool control, struct err *e)
{
    int fds[2];

    t->in = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (t->in < 0 || pipe2(fds, O_CLOEXEC) < 0)
        return err_sys(e, "make pipes");
    p->out = fds[0];
    t->out = fds[1];
    if (pipe2(fds, O_CLOEXEC) < 0)
        return err_sys(e, "make pipes");
    p->err = fds[0];
    t->err = fds[1];
    (void)fcntl(p->out, F_SETFL, O_NONBLOCK);
    (void)fcntl(p->err, F_SETFL, O_NONBLOCK);
    if (control) {
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
            return err_sys(e, "make a socket");
        p->ctl = fds[0];
        t->ctl = fds[1];
        (void)fcntl(p->ctl, F_SETFL, O_NONBLOCK);
    }
    return 0;
}

static void place(int from, int to)
{
    if (from != to)
        (void)dup2(from, to);
    else
        (void)fcntl(to, F_SETFD, 0);
}

static _Noreturn void become(const struct ends *t, const struct peer_ask *ask, char *const *env)
{
    int at[4] = { t->in, t->out, t->err, t->ctl };

    (void)setsid();
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    signal(SIGPIPE, SIG_DFL);
    for (int i = 0; i < 4; i++)
        if (at[i] >= 0)
            at[i] = fcntl(at[i], F_DUPFD_CLOEXEC, 10);
    for (int i = 0; i < 4; i++)
        if (at[i] >= 0)
            place(at[i], i);
    (void)syscall(SYS_close_range, t->ctl >= 0 ? CTL_FD + 1u : 3u, ~0u, 0u);
    if (chdir(ask->cwd) < 0)
        (void)!chdir("/");
    environ = (char **)env;
    execvpe(ask->argv[0], (char *const *)ask->argv, env);
    dprintf(2, "%s: %s\n", ask->argv[0], strerror(errno));
    _exit(errno == ENOENT ? 127 : 126);
}

static void request_text(struct buf *b, const struct peer_ask *ask, char *const *env)
{
    struct jw w = { .out = b };

    jw_obj(&w);
    jw_kz(&w, "what", ask->connection_file ? "kernel" : "context");
    jw_kz(&w, "cwd", ask->cwd);
    jw_kz(&w, "connection_file", ask->connection_file);
    jw_key(&w, "env");
    jw_obj(&w);
    for (; *env; env++) {
        const char *eq = strchr(*env, '=');
        jw_key_str(&w, (struct str){ *env, (size_t)(eq - *env) });
        jw_z(&w, eq + 1);
    }
    jw_obj_end(&w);
    jw_obj_end(&w);
}

static bool send_with_fds(int fd, struct str text, const struct ends *t)
{
    int fds[4] = { t->in, t->out, t->err, t->ctl };
    size_t n = t->ctl >= 0 ? 4 : 3;
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(sizeof fds)];
    } control = { 0 };
    struct iovec iov = { (void *)text.p, text.n };
    struct msghdr msg = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.room, .msg_controllen = CMSG_SPACE(n * sizeof(int))
    };
    struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

    *c = (struct cmsghdr){ .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(n * sizeof(int)) };
    memcpy(CMSG_DATA(c), fds, n * sizeof(int));
    return sendmsg(fd, &msg, MSG_NOSIGNAL) == (ssize_t)text.n;
}

/* False: the server does not answer. */
static bool ask_server(struct hand *h, struct peer *p, const struct peer_ask *ask, const struct ends *t, char **env)
{
    struct sockaddr_un to = { .sun_family = AF_UNIX };
    auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    AUTO(buf_done) struct buf text = { .cap = 60 * KiB };
    char line[64];
    size_t n = 0;

    snprintf(to.sun_path, sizeof to.sun_path, "%s", ask->server);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to) < 0)
        return false;
    request_text(&text, ask, env);
    if (text.full || !send_with_fds(fd, buf_view(&text), t))
        return false;
    for (int64_t until = now_ms() + SERVER_MS; n + 1 < sizeof line && (n == 0 || line[n - 1] != '\n');) {
        struct pollfd pfd = { fd, POLLIN, 0 };
        if (now_ms() > until || h->self->wish == WISH_CANCEL)
            return false;
        if (driver_poll(h, &pfd, 1, until - now_ms()) <= 0 || !pfd.revents)
            continue;
        ssize_t got = read(fd, line + n, 1);
        if (got <= 0)
            return false;
        n++;
    }
    line[n] = 0;
    int pid = 0;
    if (sscanf(line, "pid %d", &pid) != 1 || pid <= 1)
        return false;
    p->pid = pid;
    p->server = TAKE_FD(fd);
    (void)fcntl(p->server, F_SETFL, O_NONBLOCK);
    driver_drives(h, pid);
    return true;
}

int peer_start(struct hand *h, struct peer *p, const struct peer_ask *ask, struct err *e)
{
    AUTO(ends_done) struct ends theirs = { -1, -1, -1, -1 };
    char **env = child_env(h->arena, false, ask->cwd, ask->env);

    *p = (struct peer){ .pidfd = -1, .server = -1, .ctl = -1, .out = -1, .err = -1, .status = -1 };
    int r = make_ends(p, &theirs, ask->control, e);
    if (r < 0) {
        peer_end(h, p);
        return r;
    }
    bool served = ask->server && ask_server(h, p, ask, &theirs, env);
    if (!served && ask->only_server) {
        peer_end(h, p);
        return err_set(e, ERR_SYSTEM, "nobody answers at %s", ask->server);
    }
    if (!served) {
        p->pid = fork();
        if (p->pid == 0)
            become(&theirs, ask, env);
        if (p->pid < 0) {
            r = err_sys(e, "start %s", ask->argv[0]);
            p->pid = 0;
            peer_end(h, p);
            return r;
        }
    }
    p->pidfd = (int)syscall(SYS_pidfd_open, p->pid, 0);
    return 0;
}

/* What a fork server says about its child: "exit STATUS". */
static void ask_status(struct peer *p)
{
    char text[64];

    for (int64_t until = now_ms() + STATUS_MS; now_ms() < until;) {
        struct pollfd pfd = { p->server, POLLIN, 0 };
        if (poll(&pfd, 1, (int)(until - now_ms())) <= 0)
            return;
        ssize_t n = read(p->server, text, sizeof text - 1);
        if (n <= 0)
            return;
        text[n] = 0;
        if (sscanf(text, "exit %d", &p->status) == 1)
            return;
    }
}

bool peer_ended(struct peer *p)
{
    struct pollfd pfd = { p->pidfd, POLLIN, 0 };
    int status;

    if (!p->pid)
        return true;
    if (p->server < 0) {
        if (p->status == -1 && waitpid(p->pid, &status, WNOHANG) == p->pid)
            p->status = status;
        return p->status != -1;
    }
    bool dead = p->pidfd >= 0 ? poll(&pfd, 1, 0) > 0 : kill(p->pid, 0) < 0;
    if (dead && p->status == -1)
        ask_status(p);
    return dead;
}

bool peer_wait(const struct peer *p, int ms)
{
    struct pollfd pfd = { p->pidfd, POLLIN, 0 };

    return p->pidfd < 0 || poll(&pfd, 1, ms) > 0;
}

void peer_signal(const struct peer *p, int sig)
{
    if (p->pid > 1)
        (void)kill(-p->pid, sig);
}

void peer_end(struct hand *h, struct peer *p)
{
    int *fds[] = { &p->server, &p->ctl, &p->out, &p->err, &p->pidfd };
    int status;

    if (p->pid > 1 && !peer_ended(p)) {
        (void)kill(p->pid, SIGSTOP);
        (void)tree_kill(h->init, &(struct tree){ .root = p->pid });
        (void)kill(-p->pid, SIGKILL);
        (void)kill(p->pid, SIGKILL);
        if (p->server < 0)
            (void)waitpid(p->pid, &status, 0);
    }
    for (size_t i = 0; i < ARRAY_LEN(fds); i++)
        if (*fds[i] >= 0)
            close(TAKE_FD(*fds[i]));
    if (p->pid)
        driver_drives(h, 0);
    p->pid = 0;
}

void peer_drain(struct peer *p)
{
    int *fds[] = { &p->out, &p->err };
    char block[4096];
    ssize_t n;

    for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
        if (*fds[i] < 0)
            continue;
        while ((n = read(*fds[i], block, sizeof block)) > 0) {
            size_t take = (size_t)n < sizeof p->tail ? (size_t)n : sizeof p->tail;
            size_t keep = p->tail_n + take > sizeof p->tail ? sizeof p->tail - take : p->tail_n;
            if (i == 0)
                continue;
            memmove(p->tail, p->tail + p->tail_n - keep, keep);
            memcpy(p->tail + keep, block + n - take, take);
            p->tail_n = keep + take;
        }
        if (n == 0) /* at its end it would be ready for ever */
            close(TAKE_FD(*fds[i]));
    }
}

struct str peer_story(const struct peer *p, struct arena *a)
{
    size_t end = p->tail_n, from;

    while (end && p->tail[end - 1] == '\n')
        end--;
    for (from = end; from && p->tail[from - 1] != '\n';)
        from--;
    struct str last = { p->tail + from, end - from < 160 ? end - from : 160 };
    if (p->status != -1 && WIFSIGNALED(p->status)) {
        const char *name = sigabbrev_np(WTERMSIG(p->status));
        return str_of(arena_printf(a, "ended by SIG%s", name ? name : "?"));
    }
    if (p->status == -1)
        return STR("it is gone");
    return str_of(arena_printf(a, "exit status %d%s%.*s", WEXITSTATUS(p->status), last.n ? ": " : "", STR_ARG(last)));
}

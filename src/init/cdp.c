#include "init/cdp.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/limits.h"
#include "base/loop.h"
#include "init/child.h"
#include "init/driver.h"
#include "wire/boot.h"

#define LIMIT_CDP_MESSAGE (48 * MiB)

enum { SLICE_MS = 1000, TURN_BYTES = 16 * 1024 * 1024 };

struct cdp {
    pid_t pid;
    int to, from;
    struct buf in;
    size_t scanned;
    struct cdp_opts opts;
    int64_t last_id;
    int64_t waiting; /* for the answer to this id; 0: none */
    struct arena *into;
    const struct json *answer; /* the whole message */
    bool gone;
    bool skipping, skipped; /* the rest of a message that is too large; there was one since the command was sent */
};

static void run_browser(const struct cdp_opts *o, int read_end, int write_end)
{
    struct arena a = { 0 };
    char **env = child_env(&a, false, BOX_HOME, NULL);
    int in = fcntl(read_end, F_DUPFD, 10), out = fcntl(write_end, F_DUPFD, 10); /* out of the way of 3 and 4 */

    setsid();
    if (in < 0 || out < 0 || dup2(in, 3) < 0 || dup2(out, 4) < 0)
        _exit(126);
    int null = open("/dev/null", O_RDWR);
    for (int fd = 0; fd < 3; fd++)
        dup2(null, fd);
    for (int fd = 5; fd < 256; fd++)
        close(fd);
    (void)!chdir(BOX_HOME);
    execve(o->argv[0], (char *const *)o->argv, env);
    _exit(127);
}

struct cdp *cdp_start(struct hand *h, const struct cdp_opts *o, struct err *e)
{
    int down[2], up[2];

    if (access(o->argv[0], X_OK) < 0) {
        err_set(e, ERR_NOT_FOUND, "there is no browser in this box: %s is missing (Debian package chromium)",
                o->argv[0]);
        return NULL;
    }
    /* Sockets, not pipes: another program of the same user could open a pipe in /proc/PID/fd, and speak on it. */
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, down) < 0 ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, up) < 0) {
        err_sys(e, "make a socket");
        return NULL;
    }
    pid_t pid = fork();
    if (pid == 0)
        run_browser(o, down[0], up[1]);
    close(down[0]);
    close(up[1]);
    if (pid < 0) {
        err_sys(e, "start the browser");
        close(down[1]);
        close(up[0]);
        return NULL;
    }
    struct cdp *c = calloc(1, sizeof *c);
    if (!c)
        abort();
    *c = (struct cdp){ .pid = pid, .to = down[1], .from = up[0], .opts = *o };
    buf_init(&c->in, LIMIT_CDP_MESSAGE);
    (void)fcntl(c->from, F_SETFL, O_NONBLOCK);
    (void)fcntl(c->to, F_SETFL, O_NONBLOCK);
    signal(SIGPIPE, SIG_IGN);
    driver_drives(h, pid);
    return c;
}

void cdp_end(struct hand *h, struct cdp *c)
{
    if (!c)
        return;
    kill(-c->pid, SIGKILL);
    kill(c->pid, SIGKILL);
    waitpid(c->pid, NULL, 0);
    driver_drives(h, 0);
    close(c->to);
    close(c->from);
    buf_done(&c->in);
    free(c);
}

bool cdp_alive(struct cdp *c)
{
    int status;

    if (!c->gone && waitpid(c->pid, &status, WNOHANG) == c->pid)
        c->gone = true;
    return !c->gone;
}

int cdp_fd(const struct cdp *c)
{
    return c->from;
}

/* --- messages --- */

static void take_message(struct cdp *c, struct str text)
{
    struct arena a = { 0 };
    struct json *m = NULL;
    struct err e;
    bool ours = false;

    if (json_parse(&a, text, &m, &e) == 0) {
        const struct json *id = json_get(m, "id");
        ours = id && c->waiting && id->is_int && id->i == c->waiting;
        if (!id && c->opts.event)
            c->opts.event(c->opts.arg, json_get_str(m, "sessionId"), json_get_str(m, "method"), json_get(m, "params"));
    }
    arena_done(&a);
    struct json *kept = NULL;
    if (ours && json_parse(c->into, arena_copy(c->into, text), &kept, &e) == 0) {
        c->answer = kept;
        c->waiting = 0;
    }
}

/* A message larger than the cap is read to its end and forgotten; who waits for an answer is told. */
static void begin_skipping(struct cdp *c)
{
    buf_done(&c->in);
    buf_init(&c->in, LIMIT_CDP_MESSAGE);
    c->scanned = 0;
    c->skipping = c->skipped = true;
}

static void skip(struct cdp *c)
{
    char *nul = memchr(c->in.p, 0, c->in.n);

    buf_eat(&c->in, nul ? (size_t)(nul - c->in.p) + 1 : c->in.n);
    c->skipping = !nul;
}

/* What the pipe holds now, up to TURN_BYTES: one that never stops talking must not keep us from looking at the clock.
 * False: the browser is gone. */
static bool read_some(struct cdp *c)
{
    for (size_t got = 0; got < TURN_BYTES;) {
        void *room = buf_room(&c->in, 256 * KiB);
        if (!room) {
            begin_skipping(c);
            continue;
        }
        ssize_t n = read(c->from, room, 256 * KiB);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return true;
        if (n <= 0) {
            c->gone = true;
            return false;
        }
        got += (size_t)n;
        buf_grew(&c->in, (size_t)n);
        if (c->skipping)
            skip(c);
        size_t from = 0;
        char *nul;
        while ((nul = memchr(c->in.p + c->scanned, 0, c->in.n - c->scanned))) {
            struct str text = { c->in.p + from, (size_t)(nul - c->in.p) - from };
            c->scanned = from = (size_t)(nul - c->in.p) + 1;
            take_message(c, text);
        }
        buf_eat(&c->in, from);
        c->scanned = c->in.n;
    }
    return true;
}

void cdp_take(struct cdp *c)
{
    if (!c->gone)
        (void)read_some(c);
}

static int lost(struct cdp *c, struct err *e)
{
    c->gone = true;
    err_set(e, ERR_SYSTEM, "the browser is gone; the next call starts a new one");
    return -EPIPE;
}

/* Waits for something from the browser. 0: look again. */
static int turn(struct hand *h, struct cdp *c, int64_t deadline_ms, struct err *e)
{
    struct pollfd p = { c->from, POLLIN, 0 };
    int64_t now = now_ms();

    if (h->self->wish == WISH_CANCEL) {
        err_set(e, ERR_NONE, "cancelled");
        return -ECANCELED;
    }
    if (deadline_ms && now >= deadline_ms) {
        err_set(e, ERR_NONE, "the browser did not do it in time");
        return -ETIMEDOUT;
    }
    int64_t wait = deadline_ms && deadline_ms - now < SLICE_MS ? deadline_ms - now : SLICE_MS;
    (void)driver_poll(h, &p, 1, wait);
    if (p.revents && !read_some(c))
        return lost(c, e);
    if (!cdp_alive(c))
        return lost(c, e);
    return 0;
}

static int write_all(struct hand *h, struct cdp *c, struct str s, struct err *e)
{
    while (s.n) {
        ssize_t n = write(c->to, s.p, s.n);
        if (n > 0) {
            s.p += n;
            s.n -= (size_t)n;
            continue;
        }
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return lost(c, e);
        struct pollfd p[2] = { { c->to, POLLOUT, 0 }, { c->from, POLLIN, 0 } };
        (void)driver_poll(h, p, 2, SLICE_MS);
        if (p[1].revents && !read_some(c)) /* it may wait for us to read before it reads */
            return lost(c, e);
        if (h->deadline_ms && now_ms() >= h->deadline_ms) {
            err_set(e, ERR_NONE, "the browser does not listen");
            return -ETIMEDOUT;
        }
    }
    return 0;
}

static void print_command(struct cdp *c, struct buf *b, struct str session, const char *method, struct str params)
{
    struct jw j = { .out = b };

    buf_init(b, LIMIT_CDP_MESSAGE);
    jw_obj(&j);
    jw_kint(&j, "id", ++c->last_id);
    jw_kz(&j, "method", method);
    if (session.n)
        jw_kstr(&j, "sessionId", session);
    jw_kraw(&j, "params", params.n ? params : STR("{}"));
    jw_obj_end(&j);
    buf_char(b, 0);
}

void cdp_post(struct cdp *c, struct str session, const char *method, struct str params)
{
    struct buf b;

    print_command(c, &b, session, method, params);
    for (size_t at = 0; at < b.n;) { /* a short message; a browser that takes none of it is hung, and found so later */
        ssize_t n = write(c->to, b.p + at, b.n - at);
        struct pollfd p = { c->to, POLLOUT, 0 };
        if (n > 0)
            at += (size_t)n;
        else if (errno != EAGAIN || poll(&p, 1, SLICE_MS) <= 0)
            break;
    }
    buf_done(&b);
}

int cdp_call(struct hand *h, struct cdp *c, struct str session, const char *method, struct str params,
             const struct json **ret, struct err *e)
{
    struct buf b;

    if (c->gone)
        return lost(c, e);
    print_command(c, &b, session, method, params);
    c->waiting = c->last_id;
    c->answer = NULL;
    c->into = h->arena;
    c->skipped = c->skipping;
    int r = b.full ? err_set(e, ERR_LIMIT, "a message to the browser exceeds %ld bytes", (long)LIMIT_CDP_MESSAGE)
                   : write_all(h, c, buf_view(&b), e);
    buf_done(&b);
    while (r == 0 && !c->answer) {
        if (c->opts.dead && c->opts.dead(c->opts.arg, session))
            r = err_set(e, ERR_NOT_FOUND, "the page crashed, or is gone");
        else if (c->skipped && !c->skipping)
            r = err_set(e, ERR_LIMIT, "%s: the browser's answer exceeds LIMIT_CDP_MESSAGE (%ld bytes)", method,
                        (long)LIMIT_CDP_MESSAGE);
        else
            r = turn(h, c, h->deadline_ms, e);
    }
    c->waiting = 0;
    if (r < 0)
        return r;
    const struct json *error = json_get(c->answer, "error");
    if (error) {
        struct str text = json_get_str(error, "message");
        return err_set(e, ERR_INVALID, "%s: %.*s", method, (int)(text.n < 180 ? text.n : 180),
                       text.p ? text.p : "failed");
    }
    if (ret)
        *ret = json_get(c->answer, "result");
    return 0;
}

int cdp_wait(struct hand *h, struct cdp *c, bool (*done)(void *arg), void *arg, int64_t deadline_ms, struct err *e)
{
    for (;;) {
        if (done && done(arg))
            return 1;
        int r = turn(h, c, deadline_ms, e);
        if (r == -ETIMEDOUT)
            return 0;
        if (r < 0)
            return r;
    }
}

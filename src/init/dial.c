#include "init/dial.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/limits.h"
#include "base/loop.h"
#include "init/app.h"
#include "init/browser.h"
#include "init/init.h"
#include "init/link.h"
#include "init/tail.h"
#include "init/view.h"

struct dial { /* a connect() that did not succeed at once */
    struct init *init;
    struct dial *next;
    uint64_t id;
    int fd, port;
    bool six; /* tried over IPv6 already */
    struct loop_fd *watch;
    struct loop_timer *deadline;
};

static void dial_free(struct dial *d)
{
    for (struct dial **at = &d->init->dials; *at; at = &(*at)->next)
        if (*at == d) {
            *at = d->next;
            break;
        }
    loop_unwatch(d->watch);
    loop_timer_free(d->deadline);
    if (d->fd >= 0)
        close(d->fd);
    free(d);
}

static void refused(struct dial *d, int sys)
{
    struct err e;

    if (sys == ECONNREFUSED)
        err_set(&e, ERR_NOT_FOUND, "nothing listens on port %d of the box", d->port);
    else
        err_set(&e, ERR_SYSTEM, "connect to port %d of the box: %s", d->port, strerror(sys));
    link_dialed(d->init, d->id, -1, &e);
    dial_free(d);
}

/* 0: connected, 1: will be known later, < 0: an error. */
static int try_connect(struct dial *d)
{
    struct sockaddr_in four = { .sin_family = AF_INET,
                                .sin_port = htons((uint16_t)d->port),
                                .sin_addr = { htonl(INADDR_LOOPBACK) } };
    struct sockaddr_in6 six = { .sin6_family = AF_INET6,
                                .sin6_port = htons((uint16_t)d->port),
                                .sin6_addr = IN6ADDR_LOOPBACK_INIT };

    if (d->fd >= 0)
        close(d->fd);
    d->fd = socket(d->six ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (d->fd < 0)
        return -errno;
    if (connect(d->fd, d->six ? (void *)&six : (void *)&four, d->six ? sizeof six : sizeof four) == 0)
        return 0;
    return errno == EINPROGRESS ? 1 : -errno;
}

static void on_connected(void *arg, uint32_t events);

static void go_on(struct dial *d, int r)
{
    if (r < 0 && !d->six) { /* a server may listen on only one of the two */
        d->six = true;
        int again = try_connect(d);
        r = again >= 0 ? again : r;
    }
    if (r < 0) {
        refused(d, -r);
    } else if (r == 0) {
        link_dialed(d->init, d->id, TAKE_FD(d->fd), NULL);
        dial_free(d);
    } else {
        d->watch = loop_watch(d->init->loop, d->fd, EPOLLOUT, on_connected, d);
        if (!d->watch)
            refused(d, ENOSPC);
    }
}

static void on_connected(void *arg, uint32_t events)
{
    struct dial *d = arg;
    int sys = 0;
    socklen_t n = sizeof sys;

    (void)events;
    (void)getsockopt(d->fd, SOL_SOCKET, SO_ERROR, &sys, &n);
    loop_unwatch(TAKE_PTR(d->watch));
    go_on(d, -sys);
}

static void on_deadline(void *arg)
{
    refused(arg, ETIMEDOUT);
}

static void dial_tcp(struct init *in, uint64_t id, struct str port)
{
    struct err e;
    long n = 0;

    for (size_t i = 0; i < port.n && n <= 65535; i++)
        n = port.p[i] >= '0' && port.p[i] <= '9' ? n * 10 + port.p[i] - '0' : 65536;
    if (n < 1 || n > 65535) {
        err_set(&e, ERR_INVALID, "port: '%.*s' is not 1 to 65535", (int)(port.n < 40 ? port.n : 40), port.p);
        link_dialed(in, id, -1, &e);
        return;
    }
    struct dial *d = calloc(1, sizeof *d);
    if (!d)
        abort();
    *d = (struct dial){ .init = in, .id = id, .fd = -1, .port = (int)n, .next = in->dials };
    in->dials = d;
    d->deadline = loop_timer_new(in->loop, on_deadline, d);
    loop_timer_set(d->deadline, LIMIT_DIAL_MS);
    go_on(d, try_connect(d));
}

/* With the effective user of the box neither a path nor a socket's owner sees root. */
static void become_user(void)
{
    if (setegid(BOX_GID) < 0 || seteuid(BOX_UID) < 0)
        abort();
}

static void become_root(void)
{
    if (seteuid(0) < 0 || setegid(0) < 0)
        abort();
}

static int connect_as_user(int fd, const struct sockaddr_un *un)
{
    become_user();
    int r = connect(fd, (const struct sockaddr *)un, sizeof *un) < 0 ? -errno : 0;
    become_root();
    return r;
}

static int dial_unix(struct str path, struct err *e)
{
    struct sockaddr_un un = { .sun_family = AF_UNIX };
    auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (path.n == 0 || path.n >= sizeof un.sun_path || memchr(path.p, 0, path.n) || path.p[0] != '/')
        return err_set(e, ERR_INVALID, "path: must be absolute and at most %zu bytes", sizeof un.sun_path - 1);
    memcpy(un.sun_path, path.p, path.n);
    if (fd < 0)
        return err_sys(e, "make a socket");
    int r = connect_as_user(fd, &un);
    if (r < 0) {
        errno = -r;
        return r == -ENOENT || r == -ECONNREFUSED
                   ? err_set(e, ERR_NOT_FOUND, "nothing listens on %s in the box", un.sun_path)
                   : err_sys(e, "connect to %s in the box", un.sun_path);
    }
    return TAKE_FD(fd);
}

/* The port on which the box's browser listens for other tools, from the file in which it says so. */
static int browser_port(char *out, size_t size)
{
    become_user();
    auto_close int fd = open(BROWSER_PORT_FILE, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    become_root();
    ssize_t n = fd < 0 ? -1 : read(fd, out, size - 1);
    if (n <= 0)
        return -1;
    out[n] = 0;
    out[strcspn(out, "\n")] = 0;
    return 0;
}

static void dial_browser(struct init *in, uint64_t id)
{
    char port[16];
    struct err e;

    if (browser_port(port, sizeof port) == 0) {
        dial_tcp(in, id, str_of(port));
        return;
    }
    err_set(&e, ERR_NOT_FOUND, "no browser runs in the box");
    link_dialed(in, id, -1, &e);
}

static bool begins(struct str s, const char *with, struct str *ret_rest)
{
    size_t n = strlen(with);

    if (s.n < n || memcmp(s.p, with, n) != 0)
        return false;
    *ret_rest = (struct str){ s.p + n, s.n - n };
    return true;
}

void dial_begin(struct init *in, uint64_t id, const struct wire_dial *w)
{
    struct err e = { 0 };
    struct str rest;
    size_t n = 0;

    for (const struct dial *d = in->dials; d; d = d->next)
        n++;
    if (n >= LIMIT_DIALS_PER_BOX) {
        err_set(&e, ERR_BUSY, "LIMIT_DIALS_PER_BOX (%d) connections are being made", LIMIT_DIALS_PER_BOX);
        link_dialed(in, id, -1, &e);
    } else if (begins(w->target, "tcp:", &rest)) {
        dial_tcp(in, id, rest);
    } else if (begins(w->target, "unix:", &rest)) {
        link_dialed(in, id, dial_unix(rest, &e), &e);
    } else if (begins(w->target, "app:", &rest) && app_find(rest)) {
        link_dialed(in, id, dial_unix(str_of(app_find(rest)->socket), &e), &e);
    } else if (begins(w->target, "browser:", &rest)) {
        dial_browser(in, id);
    } else if (begins(w->target, "run:", &rest)) {
        link_dialed(in, id, tail_run(in, rest, w, &e), &e);
    } else if (begins(w->target, "command:", &rest)) {
        link_dialed(in, id, tail_command(in, rest, w, &e), &e);
    } else if (str_is(w->target, "views")) {
        link_dialed(in, id, views_open(in, &e), &e);
    } else {
        err_set(&e, ERR_INVALID, "init cannot connect to '%.*s'", (int)(w->target.n < 80 ? w->target.n : 80),
                w->target.p);
        link_dialed(in, id, -1, &e);
    }
}

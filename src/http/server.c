/* The server: accepts, keeps the list of connections, ticks for their timeouts, and cleans up at the end of a
 * turn. What happens on one connection is in conn.c. */
#include "http/internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"

enum { ACCEPTS_PER_TURN = 64 };

static void server_later(void *arg)
{
    struct http_server *s = arg;

    s->later = false;
    if (s->freed) {
        free(s);
        return;
    }
    for (struct http_conn *c = s->soon; c; c = s->soon) {
        s->soon = c->next_soon;
        c->queued = false;
        conn_later(c);
    }
}

void server_soon(struct http_conn *c)
{
    struct http_server *s = c->server;

    if (c->queued || s->freed)
        return;
    c->queued = true;
    c->next_soon = s->soon;
    s->soon = c;
    if (!s->later)
        loop_later(s->loop, server_later, s);
    s->later = true;
}

static void start_ticking(struct http_server *s)
{
    if (!s->ticking)
        loop_timer_set(s->timer, TICK_MS);
    s->ticking = true;
}

static size_t weight(const struct http_conn *c)
{
    return c->in.n - c->start + c->out.n - c->out_pos + c->body.n - c->body_pos;
}

static bool close_slowest(struct http_server *s)
{
    struct http_conn *slowest = NULL;

    s->held = s->grown = 0;
    for (struct http_conn *c = s->conns; c; c = c->next) {
        bool waits = c->state == CONN_HEAD || c->state == CONN_BODY || conn_has_output(c);
        if (c->state == CONN_GONE)
            continue;
        s->held += weight(c);
        if (waits && weight(c) > (size_t)KEEP_BYTES &&
            (!slowest || c->since < slowest->since || (c->since == slowest->since && weight(c) > weight(slowest))))
            slowest = c;
    }
    if (s->held <= (size_t)LIMIT_HTTP_HELD || !slowest)
        return false;
    log_warn("connections hold more than LIMIT_HTTP_HELD", "bytes=%zu, closed the slowest one, of %s with %zu", s->held,
             slowest->peer, weight(slowest));
    s->held -= weight(slowest);
    conn_close(slowest);
    return true;
}

/* Ten thousand clients may each send half a request or leave an answer unread: below LIMIT_HTTP_HELD they may take
 * their time; above it, those go that moved longest ago. Nobody counts with every byte: the sum is made when it may
 * have passed the limit. */
void server_relieve(struct http_server *s)
{
    while (s->held + s->grown > (size_t)LIMIT_HTTP_HELD && close_slowest(s))
        ;
}

void server_tick(struct http_server *s)
{
    s->tick++;
    if (s->opts.tls)
        http_tls_look(s->opts.tls, false);
    if (s->listen_paused) {
        s->listen_paused = false;
        loop_change(s->listen, EPOLLIN);
    }
    for (struct http_conn *c = s->conns; c; c = c->next)
        conn_tick(c);
    server_relieve(s); /* answers grow while nobody sends anything */
}

static void on_tick(void *arg)
{
    struct http_server *s = arg;

    server_tick(s);
    s->ticking = false;
    if (s->open) /* a server without connections sleeps */
        start_ticking(s);
}

static void pause_listening(struct http_server *s)
{
    loop_change(s->listen, 0);
    s->listen_paused = true;
    start_ticking(s);
}

/* Without a descriptor the connection could not even be turned away and epoll would report it without end. */
static void shed(struct http_server *s)
{
    if (s->spare_fd >= 0) {
        close(s->spare_fd);
        int fd = accept4(s->opts.listen_fd, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0)
            close(fd);
        s->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    }
    log_debug("http out of descriptors", "open=%zu, turned one away", s->open);
    pause_listening(s);
}

static void turn_away(int take_fd)
{
    char text[256], head[512];
    int n = snprintf(text, sizeof text,
                     "{\"error\":{\"code\":\"limit\",\"message\":\"too many connections: LIMIT_HTTP_CONNECTIONS "
                     "(%d)\"}}",
                     LIMIT_HTTP_CONNECTIONS);
    n = snprintf(head, sizeof head,
                 "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"
                 "Connection: close\r\n\r\n%s",
                 n, text);
    (void)send(take_fd, head, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)shutdown(take_fd, SHUT_WR);
    close(take_fd);
}

/* Whoever says nothing has to go for whoever has something to say: the one that was silent longest. */
static bool make_room(struct http_server *s)
{
    struct http_conn *oldest = NULL;

    for (struct http_conn *c = s->conns; c; c = c->next)
        if (c->state == CONN_HEAD && c->in.n == c->start && !conn_has_output(c) &&
            (!oldest || c->since <= oldest->since))
            oldest = c;
    if (oldest)
        conn_close(oldest);
    return oldest != NULL;
}

static void peer_name(const struct sockaddr_storage *a, char *to, socklen_t size)
{
    const struct sockaddr_in6 *six = (const void *)a;
    const struct sockaddr_in *four = (const void *)a;

    snprintf(to, size, "unix");
    if (a->ss_family == AF_INET)
        (void)inet_ntop(AF_INET, &four->sin_addr, to, size);
    else if (a->ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&six->sin6_addr))
        (void)inet_ntop(AF_INET, six->sin6_addr.s6_addr + 12, to, size);
    else if (a->ss_family == AF_INET6)
        (void)inet_ntop(AF_INET6, &six->sin6_addr, to, size);
}

static int serve(struct http_server *s, int take_fd, const struct sockaddr_storage *from)
{
    char peer[INET6_ADDRSTRLEN];

    if (s->open >= LIMIT_HTTP_CONNECTIONS && !make_room(s)) {
        turn_away(take_fd);
        return -ENOBUFS;
    }
    if (from->ss_family != AF_UNIX) {
        int one = 1;
        (void)setsockopt(take_fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    }
    peer_name(from, peer, sizeof peer);
    struct http_conn *c = conn_new(s, take_fd, peer);
    if (!c)
        return -ENOSPC;
    if (s->opts.tls && from->ss_family != AF_UNIX)
        tls_begin(c, s->opts.tls);
    struct ucred cred;
    socklen_t size = sizeof cred;
    if (from->ss_family == AF_UNIX && getsockopt(take_fd, SOL_SOCKET, SO_PEERCRED, &cred, &size) == 0)
        c->peer_uid = (int64_t)cred.uid;
    start_ticking(s);
    return 0;
}

int http_server_adopt(struct http_server *s, int take_fd)
{
    struct sockaddr_storage from = { .ss_family = AF_UNIX };
    socklen_t len = sizeof from;

    (void)getpeername(take_fd, (struct sockaddr *)&from, &len);
    if (fcntl(take_fd, F_SETFL, fcntl(take_fd, F_GETFL) | O_NONBLOCK) < 0) {
        int r = -errno;
        close(take_fd);
        return r;
    }
    return serve(s, take_fd, &from);
}

static void on_accept(void *arg, uint32_t events)
{
    struct http_server *s = arg;

    (void)events;
    for (int i = 0; i < ACCEPTS_PER_TURN && !s->listen_paused; i++) {
        struct sockaddr_storage from = { .ss_family = AF_UNIX };
        socklen_t len = sizeof from;
        int fd = accept4(s->opts.listen_fd, (struct sockaddr *)&from, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd >= 0) {
            (void)serve(s, fd, &from);
            continue;
        }
        switch (errno) {
        case EAGAIN: return;
        case EMFILE:
        case ENFILE: shed(s); return;
        case ENOMEM:
        case ENOBUFS:
        case EBADF:
        case EINVAL: pause_listening(s); return;
        default: break; /* the error of one connection that is gone already */
        }
    }
}

struct http_server *http_server_new(struct loop *l, const struct http_opts *o, struct err *e)
{
    struct http_server *s = calloc(1, sizeof *s);
    if (!s)
        abort();
    s->loop = l;
    s->opts = *o;
    s->spare_fd = -1;
    s->timer = loop_timer_new(l, on_tick, s);
    if (o->listen_fd < 0)
        return s;

    s->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (s->spare_fd < 0) {
        (void)err_sys(e, "open /dev/null");
        goto fail;
    }
    if (fcntl(o->listen_fd, F_SETFL, fcntl(o->listen_fd, F_GETFL) | O_NONBLOCK) < 0) {
        (void)err_sys(e, "make the listening socket non-blocking");
        goto fail;
    }
    s->listen = loop_watch(l, o->listen_fd, EPOLLIN, on_accept, s);
    if (!s->listen) {
        (void)err_sys(e, "watch the listening socket");
        goto fail;
    }
    return s;
fail:
    http_server_free(s);
    return NULL;
}

void http_server_free(struct http_server *s)
{
    if (!s)
        return;
    s->freed = true;
    loop_unwatch(s->listen);
    loop_timer_free(s->timer);
    if (s->spare_fd >= 0)
        close(s->spare_fd);

    for (struct http_conn *c = s->conns, *next; c; c = next) {
        next = c->next;
        conn_close(c);
        c->queued = false; /* the queue goes with the server */
        body_lost(c);
        c->queued = false;
        if (c->stream.open) {
            c->stream.open = false;
            c->stream.closed(c->stream.arg);
        }
        if (c->held)
            c->server = NULL; /* its handler frees it by answering */
        else
            conn_free(c);
    }
    if (!s->later)
        free(s);
}

void http_server_drain(struct http_server *s)
{
    if (s->listen)
        on_accept(s, EPOLLIN); /* whoever knocked before is still let in */
    s->draining = true;
    loop_unwatch(s->listen);
    s->listen = NULL;
    s->listen_paused = false;
    for (struct http_conn *c = s->conns; c; c = c->next) {
        int unread = 0;

        if (c->state != CONN_HEAD || c->in.n > c->start)
            continue;
        /* A request that is on this machine already is still answered. */
        if (ioctl(c->fd, FIONREAD, &unread) < 0 || unread == 0)
            conn_close(c);
    }
}

size_t http_server_busy(const struct http_server *s)
{
    return s->busy;
}

bool http_server_unsent(const struct http_server *s)
{
    for (const struct http_conn *c = s->conns; c; c = c->next)
        if (c->state != CONN_GONE && conn_has_output(c))
            return true;
    return false;
}

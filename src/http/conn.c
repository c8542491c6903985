/* One connection: bytes in, bytes out, its states and timeouts. internal.h has the state diagram and invariants.
 *
 * In the steady state a request costs one recv and one sendmsg: epoll stays armed for input, a short read is taken
 * to mean that there is no more, and an answer is sent at once, without waiting for EPOLLOUT. */
#include "http/internal.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
    READ_ROOM = 4096,      /* at least this much room for a read; the first size of the buffer */
    READ_MAX = 128 * 1024, /* what one connection brings at once, the others wait for */
    READS_PER_TURN = 4,    /* then the other connections have their turn */
    IN_CAP = LIMIT_HTTP_HEAD + LIMIT_HTTP_BODY + LIMIT_HTTP_HEAD,
    OUT_CAP = LIMIT_HTTP_REPLY + LIMIT_HTTP_HEAD,
};

static void on_conn(void *arg, uint32_t events);
static void on_readable(struct http_conn *c, uint32_t events);

struct http_conn *conn_new(struct http_server *s, int take_fd, const char *peer)
{
    struct http_conn *c = calloc(1, sizeof *c);
    if (!c)
        abort();
    c->watch = loop_watch(s->loop, take_fd, EPOLLIN, on_conn, c);
    if (!c->watch) {
        close(take_fd);
        free(c);
        return NULL;
    }
    c->server = s;
    c->loop = s->loop;
    c->fd = take_fd;
    c->armed = EPOLLIN;
    c->since = s->tick;
    snprintf(c->peer, sizeof c->peer, "%s", peer);
    c->peer_uid = -1;
    buf_init(&c->in, IN_CAP);
    buf_init(&c->out, OUT_CAP);
    arena_init(&c->arena);
    c->next = s->conns;
    if (c->next)
        c->next->prev = c;
    s->conns = c;
    s->open++;
    return c;
}

void conn_free(struct http_conn *c)
{
    assert(c->state == CONN_GONE && !c->held && !c->queued);
    if (c->server) {
        *(c->prev ? &c->prev->next : &c->server->conns) = c->next;
        if (c->next)
            c->next->prev = c->prev;
    }
    buf_done(&c->in);
    buf_done(&c->out);
    buf_done(&c->body);
    buf_done(&c->upload.buf);
    arena_done(&c->arena);
    free(c);
}

void conn_uncount(struct http_conn *c)
{
    if (c->counted && c->server)
        c->server->busy--;
    c->counted = false;
}

void conn_close(struct http_conn *c)
{
    if (c->state == CONN_GONE)
        return;
    loop_unwatch(c->watch);
    c->watch = NULL;
    if (c->tls)
        tls_end(c);
    if (c->fd >= 0)
        close(c->fd);
    c->fd = -1;
    c->state = CONN_GONE;
    c->server->open--;
    if (!c->held)
        conn_uncount(c);
    server_soon(c);
}

void conn_release(struct http_conn *c)
{
    assert(c->state == CONN_GONE && c->held);
    c->held = false;
    conn_uncount(c);
    if (c->server)
        server_soon(c);
    else
        conn_free(c);
}

bool conn_has_output(const struct http_conn *c)
{
    return c->out_pos < c->out.n || c->body_pos < c->body.n;
}

static bool is_reading(const struct http_conn *c)
{
    return c->state == CONN_HEAD || c->state == CONN_BODY;
}

void conn_arm(struct http_conn *c)
{
    if (c->state == CONN_GONE)
        return;

    uint32_t want = conn_has_output(c) || c->tls_writes ? EPOLLOUT : 0;
    bool room = body_reads(c) ? body_wants(c) : !c->paused;
    if (!c->eof && room)
        want |= EPOLLIN;
    if (c->tls && want & EPOLLIN && tls_has_more(c))
        server_soon(c); /* reads it at the end of this turn */
    else if (!c->eof && !c->hup)
        want |= EPOLLRDHUP; /* bytes wait unread, so only this tells that the client left */
    if (want != c->armed)
        loop_change(c->watch, want);
    c->armed = want;
}

static void sent(struct http_conn *c, size_t n)
{
    size_t part = c->out.n - c->out_pos < n ? c->out.n - c->out_pos : n;

    c->out_pos += part;
    c->body_pos += n - part;
    if (c->out_pos == c->out.n) {
        c->out_pos = 0;
        buf_reset(&c->out);
    }
    if (c->body_pos == c->body.n && c->body.p) {
        c->body_pos = 0;
        buf_done(&c->body);
    }
}

ssize_t conn_recv(struct http_conn *c, void *to, size_t n)
{
    return c->tls ? tls_recv(c, to, n) : recv(c->fd, to, n, MSG_DONTWAIT);
}

bool conn_send(struct http_conn *c, struct str tail)
{
    size_t queued = c->out.n - c->out_pos + c->body.n - c->body_pos;
    struct iovec iov[3];
    int parts = 0;
    if (c->out.n > c->out_pos)
        iov[parts++] = (struct iovec){ c->out.p + c->out_pos, c->out.n - c->out_pos };
    if (c->body.n > c->body_pos)
        iov[parts++] = (struct iovec){ c->body.p + c->body_pos, c->body.n - c->body_pos };
    if (tail.n)
        iov[parts++] = (struct iovec){ (char *)tail.p, tail.n };
    if (parts == 0)
        return true;

    struct msghdr m = { .msg_iov = iov, .msg_iovlen = (size_t)parts };
    ssize_t n;
    do
        n = c->tls ? tls_send(c, iov, parts) : sendmsg(c->fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n < 0 && errno != EAGAIN && errno != ENOBUFS) {
        conn_close(c);
        return false;
    }
    if (n > 0)
        c->since = c->server->tick;

    size_t done = n < 0 ? 0 : (size_t)n;
    size_t of_tail = done > queued ? done - queued : 0;
    sent(c, done - of_tail);
    if (of_tail < tail.n && !buf_add(&c->out, tail.p + of_tail, tail.n - of_tail)) {
        conn_close(c); /* no memory for the rest, and half an answer is worse than none */
        return false;
    }
    c->server->grown += tail.n - of_tail;
    return true;
}

/* After the last answer. Closing with input unread or on its way would reset the connection, and a reset can
 * overtake the answer; so say "no more" and wait a little for the client to close. */
static void finish(struct http_conn *c)
{
    bool more = c->linger || c->server->draining || c->in.n > c->start;

    if (c->tls)
        tls_say_goodbye(c);
    if (!more || c->eof || shutdown(c->fd, SHUT_WR) < 0) {
        conn_close(c);
        return;
    }
    c->state = CONN_LINGER;
    c->since = c->server->tick;
    c->paused = false;
    conn_arm(c);
}

static void next_request(struct http_conn *c)
{
    c->start += c->request_n;
    c->request_n = 0;
    body_next(c);
    if (c->start == c->in.n) {
        c->start = 0;
        buf_reset(&c->in);
        if (c->in.size > KEEP_BYTES) {
            buf_done(&c->in);
            buf_init(&c->in, IN_CAP);
        }
    }
    if (c->out.size > KEEP_BYTES) {
        buf_done(&c->out);
        buf_init(&c->out, OUT_CAP);
    }
    c->req.also = (struct pairs){ 0 }; /* it is in the arena */
    arena_reset(&c->arena);
    c->scan = (struct head_scan){ 0 };
    c->state = CONN_HEAD;
    c->since = c->server->tick;
    c->paused = false;
}

void conn_answered(struct http_conn *c)
{
    if (c->state == CONN_GONE)
        return;
    if (conn_has_output(c)) {
        if (c->state != CONN_ANSWER)
            c->since = c->server->tick;
        c->state = CONN_ANSWER;
        conn_arm(c);
        return;
    }
    conn_uncount(c);
    next_request(c);
    if (c->close_after || c->server->draining) {
        finish(c);
        return;
    }
    if (c->running)
        return;
    /* Not from here: the caller answers from the middle of its own work and expects no handler call. */
    if (c->in.n > c->start || c->eof)
        server_soon(c);
    conn_arm(c);
}

static void dispatch(struct http_conn *c)
{
    c->state = CONN_HANDLER;
    c->held = true;
    c->counted = true;
    c->close_after = !c->head.keep_alive;
    c->server->busy++;
    c->server->opts.handler(c->server->opts.arg, &c->req);
}

void conn_run(struct http_conn *c)
{
    struct err e;

    if (c->running)
        return;
    c->running = true;
    while (is_reading(c)) {
        int status = request_read(c, &e);
        if (status == 0)
            break;
        if (status == 1)
            dispatch(c);
        else
            reply_refuse(c, status, &e);
    }
    c->running = false;
    if (is_reading(c) && c->eof)
        conn_close(c);
    else
        conn_arm(c);
}

void conn_later(struct http_conn *c)
{
    if (c->state != CONN_GONE) {
        if (c->stream.open && c->stream.failed) {
            conn_close(c); /* comes back here, GONE */
            return;
        }
        body_later(c);
        conn_run(c);
        if (c->tls && c->state != CONN_GONE && c->armed & EPOLLIN && tls_has_more(c)) {
            on_readable(c, EPOLLIN);
            conn_arm(c);
        }
        return;
    }
    body_lost(c);
    if (c->queued) /* its handler answered: once more, when that was put in order */
        return;
    if (c->held)
        return;
    if (c->stream.open) {
        c->stream.open = false;
        c->stream.closed(c->stream.arg);
    }
    conn_free(c);
}

/* Makes room and reads once. *ret_more: there may be more to read at once. */
static ssize_t fill(struct http_conn *c, bool *ret_more)
{
    if (is_reading(c)) { /* else invariant 1: only the room that is there */
        if (c->start) {
            buf_eat(&c->in, c->start);
            c->start = 0;
        }
        if (c->in.size - c->in.n < READ_ROOM / 2 && !buf_room(&c->in, READ_ROOM)) {
            errno = ENOMEM;
            return -1;
        }
    }
    size_t room = (c->in.size < c->in.cap ? c->in.size : c->in.cap) - c->in.n;
    if (room > READ_MAX)
        room = READ_MAX;
    ssize_t n = conn_recv(c, c->in.p + c->in.n, room);
    if (n <= 0)
        return n;
    if (c->state == CONN_HEAD && c->in.n == 0)
        c->since = c->server->tick; /* the head's time begins with its first byte */
    buf_grew(&c->in, (size_t)n);
    c->server->grown += (size_t)n;
    *ret_more = (size_t)n == room;
    return n;
}

static void read_requests(struct http_conn *c)
{
    bool more = true;

    for (int i = 0; i < READS_PER_TURN && more && is_reading(c); i++) {
        ssize_t n = fill(c, &more);
        if (n < 0) {
            if (errno == EAGAIN || errno == EINTR)
                return;
            conn_close(c);
            return;
        }
        if (n == 0) {
            c->eof = true; /* perhaps only half closed: what it sent is still answered */
            more = false;
        }
        conn_run(c);
    }
}

/* While a request is being answered: learn of a hang-up, and take what fits of the next requests. */
static void read_ahead(struct http_conn *c)
{
    bool more;

    if (c->in.n == c->in.size || c->in.n >= c->in.cap) {
        c->paused = true;
        conn_arm(c);
        return;
    }
    ssize_t n = fill(c, &more);
    if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)))
        return;
    if (n < 0 || c->state == CONN_STREAM) {
        conn_close(c);
        return;
    }
    c->eof = true; /* the handler's answer may still reach a client that closed only its sending side */
    conn_arm(c);
}

static void discard(struct http_conn *c)
{
    static char sink[64 * KiB];
    ssize_t n = conn_recv(c, sink, sizeof sink);

    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        conn_close(c);
}

static void on_readable(struct http_conn *c, uint32_t events)
{
    switch (c->state) {
    case CONN_HEAD:
    case CONN_BODY: read_requests(c); break;
    case CONN_HANDLER:
    case CONN_STREAM:
    case CONN_ANSWER:
        if (body_reads(c)) {
            if (body_wants(c)) {
                body_read(c);
            } else if (events & (EPOLLRDHUP | EPOLLHUP)) {
                c->hup = true; /* after bytes that nobody has asked for yet */
                conn_arm(c);
            }
        } else if (c->paused && (events & EPOLLRDHUP)) {
            c->hup = true;
            if (c->state == CONN_STREAM)
                conn_close(c);
            else
                conn_arm(c);
        } else if (!c->paused) {
            read_ahead(c);
        }
        break;
    case CONN_LINGER: discard(c); break;
    case CONN_GONE: break;
    }
}

static void on_writable(struct http_conn *c)
{
    if (c->tls_writes && !conn_has_output(c)) { /* the handshake goes on by reading */
        on_readable(c, 0);
        return;
    }
    if (!conn_send(c, STR("")))
        return;
    if (c->state == CONN_ANSWER) {
        conn_answered(c);
        return;
    }
    conn_arm(c);
    if (c->state == CONN_STREAM && c->stream.open && c->stream.drained && !conn_has_output(c))
        c->stream.drained(c->stream.arg);
}

static void on_conn(void *arg, uint32_t events)
{
    struct http_conn *c = arg;

    server_relieve(c->server);
    if (c->state == CONN_GONE)
        return;
    /* HUP, ERR: both directions are closed, or were reset; nobody can receive an answer. While reading, there may be
     * requests before it that still want to be carried out. */
    if ((events & (EPOLLERR | EPOLLHUP)) && !is_reading(c)) {
        conn_close(c);
        return;
    }
    if (events & EPOLLOUT)
        on_writable(c);
    if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR))
        on_readable(c, events);
}

static void time_out(struct http_conn *c)
{
    struct err e;

    if (c->state == CONN_HEAD)
        err_set(&e, ERR_LIMIT, "the head did not arrive within LIMIT_HTTP_HEAD_MS (%d)", LIMIT_HTTP_HEAD_MS);
    else
        err_set(&e, ERR_LIMIT, "the body arrives at less than %d bytes per second", BODY_TICK_BYTES);
    reply_refuse(c, 408, &e);
}

static void trim(struct http_conn *c)
{
    buf_done(&c->in);
    buf_init(&c->in, IN_CAP);
    buf_done(&c->out);
    buf_init(&c->out, OUT_CAP);
    arena_done(&c->arena);
    c->start = 0;
}

void conn_tick(struct http_conn *c)
{
    int64_t ticks = c->server->tick - c->since;

    switch (c->state) {
    case CONN_HEAD:
        if (c->in.n > c->start && ticks > HEAD_TICKS)
            time_out(c);
        else if (c->in.n == c->start && ticks > IDLE_TICKS)
            conn_close(c);
        else if (c->in.n == c->start && ticks > TRIM_TICKS && c->in.p && !conn_has_output(c))
            trim(c);
        break;
    case CONN_BODY:
        if (ticks > BODY_TICKS + (int64_t)(c->in.n - c->start) / BODY_TICK_BYTES)
            time_out(c);
        break;
    case CONN_STREAM:
    case CONN_ANSWER:
        if (conn_has_output(c) && ticks > IDLE_TICKS)
            conn_close(c);
        else
            body_tick(c);
        break;
    case CONN_LINGER:
        if (ticks > LINGER_TICKS)
            conn_close(c);
        break;
    case CONN_HANDLER: body_tick(c); break;
    case CONN_GONE: break;
    }
}

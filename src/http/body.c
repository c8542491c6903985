/* The body of a request as a stream, and what follows an upgrade. The request's head stays where it is (invariant 1);
 * the body has a buffer of its own, from which the handler takes as it can. When it is full, nothing is read, so that
 * the client waits, too. */
#include "http/internal.h"

#include <assert.h>
#include <errno.h>

enum {
    READ_BYTES = 64 * KiB,
    READS_PER_TURN = 4,
    BUF_CAP = 2 * MiB,   /* what came with the head may be more than HTTP_BODY_ROOM */
    IDLE_BODY_TICKS = 60 /* without a byte, though somebody waits for it */
};
#define CHUNKED_MAX ((size_t)1 << 59) /* sixteen times this does not overflow: see chunked.c */

bool body_reads(const struct http_conn *c)
{
    const struct http_body *b = &c->upload;

    return b->active && !b->ended && (c->state == CONN_HANDLER || c->state == CONN_STREAM);
}

bool body_wants(const struct http_conn *c)
{
    const struct http_body *b = &c->upload;

    return b->open && !b->paused && b->buf.n < b->room;
}

/* New bytes are at the end of buf, behind b->ready. -EBADMSG: the chunks are malformed. */
static int decode(struct http_body *b)
{
    struct http_conn *c = b->conn;

    if (b->raw || !c->head.chunked) {
        b->ready = b->buf.n;
        b->ended = !b->raw && b->left == 0;
        return 0;
    }
    size_t pos = b->ready, out = b->ready;
    int r = chunked_decode(&c->chunked, b->buf.p, &pos, b->buf.n, &out, CHUNKED_MAX);
    if (r < 0)
        return -EBADMSG;
    if (b->buf.n > pos)                                          /* else there may be no buffer yet */
        memmove(b->buf.p + out, b->buf.p + pos, b->buf.n - pos); /* behind the last chunk: the next request */
    b->buf.n -= pos - out;
    b->ready = out;
    b->ended = r == 1;
    return 0;
}

void body_start(struct http_conn *c)
{
    struct http_body *b = &c->upload;
    bool raw = b->raw;
    size_t at = c->start + (raw ? c->request_n : c->head_n);
    size_t have = c->in.n - at;

    *b = (struct http_body){
        .conn = c, .active = true, .raw = raw, .room = HTTP_BODY_ROOM, .left = c->head.length, .since = c->server->tick
    };
    buf_init(&b->buf, BUF_CAP);
    if (!raw && !c->head.chunked && have > b->left)
        have = (size_t)b->left;
    buf_add(&b->buf, c->in.p + at, have);
    memmove(c->in.p + at, c->in.p + at + have, c->in.n - at - have);
    c->in.n -= have;
    b->ready = raw ? have : 0;
    if (!raw) {
        b->left -= c->head.chunked ? 0 : have;
        c->request_n = c->head_n;
    }
}

static void fail(struct http_body *b)
{
    if (!b->open)
        return;
    b->open = false;
    b->conn->close_after = true;
    if (!b->raw)
        b->handler->failed(b->arg);
}

/* Offers what there is until the handler has enough. */
static void deliver(struct http_body *b)
{
    struct http_conn *c = b->conn;

    b->due = false;
    if (b->taking)
        return;
    b->taking = true;
    while (b->open && !b->paused && (b->ready || b->ended)) {
        size_t before = b->ready;
        bool last = b->ended;
        size_t n = b->handler->take(b->arg, (struct str){ b->buf.p ? b->buf.p : "", b->ready }, last);
        if (!b->active) /* it answered, and perhaps the next request has begun */
            return;
        assert(n <= before);
        buf_eat(&b->buf, n);
        b->ready -= n;
        if (last && b->ready == 0) {
            b->open = false;
        } else if (n == 0 && !b->paused && b->open) {
            if (b->buf.n >= b->room || last)
                fail(b); /* it will never take it */
            break;
        }
    }
    b->taking = false;
    if (c->state != CONN_GONE)
        conn_arm(c);
}

void body_read(struct http_conn *c)
{
    struct http_body *b = &c->upload;

    for (int i = 0; i < READS_PER_TURN && body_reads(c) && body_wants(c); i++) {
        size_t want = READ_BYTES;
        if (!b->raw && !c->head.chunked && want > b->left)
            want = (size_t)b->left;
        char *to = buf_room(&b->buf, want);
        ssize_t n = to ? conn_recv(c, to, want) : -1;
        if (n < 0 && to && (errno == EAGAIN || errno == EINTR))
            break;
        if (n < 0) {
            conn_close(c);
            return;
        }
        b->since = c->server->tick;
        if (n == 0) {
            c->eof = true;
            b->ended = b->raw;
            if (!b->raw) {
                fail(b);
                return;
            }
        }
        buf_grew(&b->buf, (size_t)n);
        if (!b->raw && !c->head.chunked)
            b->left -= (uint64_t)n;
        if (decode(b) < 0) {
            c->linger = true;
            fail(b);
            return;
        }
        if (n == 0)
            b->ended = true;
        deliver(b);
        if ((size_t)n < want)
            break;
    }
}

void body_later(struct http_conn *c)
{
    if (c->upload.due)
        deliver(&c->upload);
}

void body_lost(struct http_conn *c)
{
    struct http_body *b = &c->upload;

    if (b->open) {
        b->open = false;
        if (!b->raw)
            b->handler->failed(b->arg);
    }
}

void body_tick(struct http_conn *c)
{
    struct http_body *b = &c->upload;

    if (body_reads(c) && body_wants(c) && !b->raw && c->server->tick - b->since > IDLE_BODY_TICKS)
        fail(b);
}

void body_next(struct http_conn *c)
{
    struct http_body *b = &c->upload;

    if (!b->active)
        return;
    if (b->buf.n > b->ready && b->ended)
        buf_add(&c->in, b->buf.p + b->ready, b->buf.n - b->ready);
    buf_done(&b->buf);
    *b = (struct http_body){ 0 };
}

struct http_body *http_body_begin(struct http_request *r, const struct http_body_handler *h, void *arg)
{
    struct http_conn *c = r->conn;
    struct http_body *b = &c->upload;

    assert(r->streaming && b->active);
    b->handler = h;
    b->arg = arg;
    b->open = true;
    b->since = c->server ? c->server->tick : 0;
    if (c->state == CONN_GONE) {
        if (c->server)
            server_soon(c); /* body_lost tells it */
        return b;
    }
    if (c->head.expect && b->buf.n == 0) /* the client waits for this before it sends the body */
        (void)conn_send(c, STR("HTTP/1.1 100 Continue\r\n\r\n"));
    if (decode(b) < 0) {
        conn_close(c); /* which tells the handler */
        return b;
    }
    b->due = true;
    server_soon(c);
    conn_arm(c);
    return b;
}

void http_body_room(struct http_body *b, size_t bytes)
{
    b->room = bytes;
}

void http_body_pause(struct http_body *b)
{
    b->paused = true;
    if (b->conn->state != CONN_GONE && !b->taking)
        conn_arm(b->conn);
}

void http_body_resume(struct http_body *b)
{
    if (!b->open || !b->paused)
        return;
    b->paused = false;
    b->since = b->conn->server ? b->conn->server->tick : 0;
    if (b->conn->state == CONN_GONE || b->taking)
        return;
    b->due = true;
    server_soon(b->conn);
    conn_arm(b->conn);
}

void http_body_drop(struct http_body *b)
{
    b->open = false;
    if (b->conn->state != CONN_GONE)
        conn_arm(b->conn);
}

int64_t http_body_length(const struct http_request *r)
{
    return r->conn->head.chunked ? -1 : (int64_t)r->conn->head.length;
}

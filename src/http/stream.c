/* An answer without an end in sight: chunks, each sent at once. A client that does not keep up finds its
 * connection closed once LIMIT_HTTP_STREAM bytes wait for it; it can come back and say where it stopped. */
#include "http/internal.h"

#include <assert.h>
#include <stdio.h>

/* The server was freed before the handler answered: there is no queue any more. */
static void on_orphan_closed(void *arg)
{
    struct http_stream *s = arg;

    if (s->open) {
        s->open = false;
        s->closed(s->arg);
    }
    conn_free(s->conn);
}

/* The client hung up before the stream began; the caller learns it as if it had happened right after. */
static void begin_closed(struct http_conn *c)
{
    c->held = false;
    conn_uncount(c);
    if (c->server)
        server_soon(c);
    else
        loop_later(c->loop, on_orphan_closed, &c->stream);
}

/* A raw one is an upgrade. */
static struct http_stream *stream_begin(struct http_request *r, const struct http_stream_opts *o, bool raw)
{
    struct http_conn *c = r->conn;
    struct http_stream *s = &c->stream;

    assert(c->held);
    *s = (struct http_stream){
        .conn = c, .closed = o->closed, .drained = o->drained, .arg = o->arg, .open = true, .raw = raw
    };
    if (c->state == CONN_GONE) {
        begin_closed(c);
        return s;
    }

    c->held = false;
    conn_uncount(c);
    c->state = CONN_STREAM;
    s->fixed = !raw && o->length >= 0;
    s->left = s->fixed ? (uint64_t)o->length : 0;
    s->chunked = !raw && !s->fixed && !c->head.http10;
    s->mute = str_eq(r->method, STR("HEAD"));
    if (!s->chunked && !s->fixed && !raw)
        c->close_after = true;
    reply_told(c, o->status, -1);
    reply_head(c, o->status, o->content_type, (struct pairs){ (struct pair *)o->headers, o->header_count }, -1);
    if (raw) {
        buf_str(&c->out, STR("Connection: Upgrade\r\n"));
        c->close_after = true;
    } else if (!o->headers) {
        buf_str(&c->out, STR("Cache-Control: no-cache\r\n"));
    }
    if (s->fixed && (raw || !reply_is_bare(o->status)))
        buf_printf(&c->out, "Content-Length: %llu\r\n", (unsigned long long)s->left);
    if (s->chunked)
        buf_str(&c->out, STR("Transfer-Encoding: chunked\r\n"));
    buf_str(&c->out, STR("\r\n"));
    c->since = c->server->tick;
    if (conn_send(c, STR("")))
        conn_arm(c);
    if (c->eof && !body_reads(c))
        conn_close(c); /* as on a hang-up later on: nobody half-closes a stream */
    return s;
}

struct http_stream *http_stream_open(struct http_request *r, const struct http_stream_opts *o)
{
    return stream_begin(r, o, false);
}

struct http_stream *http_stream_begin(struct http_request *r, int status, const char *content_type,
                                      on_stream_closed *closed, void *arg)
{
    struct http_stream_opts o = {
        .status = status, .content_type = content_type, .length = -1, .closed = closed, .arg = arg
    };
    return stream_begin(r, &o, false);
}

struct http_stream *http_upgrade(struct http_request *r, const struct http_stream_opts *o,
                                 const struct http_body_handler *body, struct http_body **ret_body)
{
    struct http_conn *c = r->conn;
    struct http_body *b = &c->upload;

    if (c->state != CONN_GONE) {
        *b = (struct http_body){ .raw = true }; /* the request had no body, or was read whole */
        body_start(c);
        b->conn = c;
        b->handler = body;
        b->arg = o->arg;
        b->open = b->due = true;
        server_soon(c);
    }
    *ret_body = b;
    return stream_begin(r, o, true);
}

/* Queues one chunk behind what waits already. */
static bool add_chunk(struct http_stream *s, struct str data)
{
    struct buf *b = &s->conn->out;
    char size[24];

    if (s->conn->out_pos > b->n / 2) { /* rarely, so that the moving stays cheap */
        buf_eat(b, s->conn->out_pos);
        s->conn->out_pos = 0;
    }
    if (!s->chunked) {
        s->left -= s->fixed ? data.n : 0;
        return buf_str(b, data);
    }
    int n = snprintf(size, sizeof size, "%zx\r\n", data.n);
    return buf_add(b, size, (size_t)n) && buf_str(b, data) && buf_str(b, STR("\r\n"));
}

size_t http_stream_waiting(const struct http_stream *s)
{
    return s->conn->out.n - s->conn->out_pos;
}

bool http_stream_write(struct http_stream *s, struct str data)
{
    struct http_conn *c = s->conn;

    assert(s->open);
    if (s->failed || c->state == CONN_GONE)
        return false;
    if (data.n == 0 || s->mute) /* an empty chunk would end the stream */
        return true;
    if (s->fixed && data.n > s->left)
        data.n = (size_t)s->left; /* more than was announced would be taken for the next answer */

    size_t waiting = c->out.n - c->out_pos;
    if (waiting == 0)
        c->since = c->server->tick;
    bool fits = waiting == 0 || (data.n <= (size_t)LIMIT_HTTP_STREAM && waiting <= (size_t)LIMIT_HTTP_STREAM - data.n);
    if (!fits || !add_chunk(s, data)) {
        s->failed = true;
        server_soon(c);
        return false;
    }
    if (waiting) /* epoll is armed for the rest already */
        return true;
    if (!conn_send(c, STR("")))
        return false;
    conn_arm(c);
    return true;
}

void http_stream_end(struct http_stream *s)
{
    struct http_conn *c = s->conn;

    assert(s->open);
    s->open = false;
    c->upload.open = false;
    if (c->state == CONN_GONE)
        return; /* it is in the queue; without `open` that frees it quietly */
    if (s->failed || (s->fixed && s->left && !s->mute)) {
        conn_close(c);
        return;
    }
    if (c->upload.active && !c->upload.ended) /* nobody will read the rest of the request */
        c->close_after = c->linger = true;
    if (s->chunked && !s->mute)
        buf_str(&c->out, STR("0\r\n\r\n"));
    if (conn_send(c, STR("")))
        conn_answered(c);
}

void http_stream_abort(struct http_stream *s)
{
    s->failed = true;
    http_stream_end(s);
}

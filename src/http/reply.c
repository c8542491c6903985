/* Answers: the head is written into the connection's output buffer, and goes out together with the body in one
 * call. The server alone decides on the framing headers; a handler cannot split an answer in two with a CR LF. */
#include "http/internal.h"

#include <assert.h>
#include <errno.h>
#include <http_parser.h>
#include <stdio.h>
#include <strings.h>

static void add_number(struct buf *b, uint64_t v)
{
    char digits[20];
    size_t n = sizeof digits;

    do
        digits[--n] = (char)('0' + v % 10);
    while (v /= 10);
    buf_add(b, digits + n, sizeof digits - n);
}

static bool is_framing(struct str name)
{
    static const char *const ours[] = { "content-length", "transfer-encoding", "connection" };

    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        if (name.n == strlen(ours[i]) && strncasecmp(name.p, ours[i], name.n) == 0)
            return true;
    return false;
}

static void add_text(struct buf *b, struct str s)
{
    size_t from = b->n;

    if (!buf_str(b, s))
        return;
    for (char *p = b->p + from; p < b->p + b->n; p++)
        if ((unsigned char)*p < ' ' || *p == 0x7f)
            *p = ' ';
}

bool reply_is_bare(int status)
{
    return status == 204 || status == 304 || status < 200;
}

static void add_headers(struct buf *b, struct pairs headers)
{
    for (size_t i = 0; i < headers.n; i++) {
        if (is_framing(headers.v[i].name))
            continue;
        add_text(b, headers.v[i].name);
        buf_str(b, STR(": "));
        add_text(b, headers.v[i].value);
        buf_str(b, STR("\r\n"));
    }
}

void reply_told(struct http_conn *c, int status, int64_t bytes)
{
    if (c->server->opts.answered)
        c->server->opts.answered(c->server->opts.arg, &c->req, status, bytes);
}

void reply_head(struct http_conn *c, int status, const char *content_type, struct pairs headers, int64_t body_n)
{
    struct buf *b = &c->out;

    if (c->upload.active && !c->upload.ended && !c->upload.open) /* nobody will read the rest */
        c->close_after = c->linger = true;
    if (c->server->draining)
        c->close_after = true;
    if (status == 200) {
        buf_str(b, STR("HTTP/1.1 200 OK\r\n"));
    } else {
        buf_str(b, STR("HTTP/1.1 "));
        add_number(b, (uint64_t)status);
        buf_char(b, ' ');
        buf_z(b, http_status_str((enum http_status)status));
        buf_str(b, STR("\r\n"));
    }
    if (content_type) {
        buf_str(b, STR("Content-Type: "));
        buf_z(b, content_type);
        buf_str(b, STR("\r\n"));
    }
    add_headers(b, headers);
    add_headers(b, c->req.also);
    if (body_n >= 0 && !reply_is_bare(status)) {
        buf_str(b, STR("Content-Length: "));
        add_number(b, (uint64_t)body_n);
        buf_str(b, STR("\r\n"));
    }
    if (c->close_after)
        buf_str(b, STR("Connection: close\r\n"));
    else if (c->head.http10)
        buf_str(b, STR("Connection: keep-alive\r\n"));
    if (body_n >= 0)
        buf_str(b, STR("\r\n")); /* a stream adds its own lines */
}

/* Messages are ours, but parts of them may come from a client. */
void reply_error_text(struct buf *b, const struct err *e)
{
    buf_printf(b, "{\"error\":{\"code\":\"%s\",\"message\":\"", err_name(e->code));
    for (const char *p = e->msg; *p; p++) {
        if (*p == '"' || *p == '\\')
            buf_char(b, '\\');
        buf_char(b, (unsigned char)*p < ' ' || (unsigned char)*p > '~' ? '?' : *p);
    }
    buf_str(b, STR("\"}}"));
}

static bool wants_body(const struct http_conn *c, int status)
{
    return !reply_is_bare(status) && !str_eq(c->req.method, STR("HEAD"));
}

void reply_refuse(struct http_conn *c, int status, const struct err *e)
{
    struct buf text;

    buf_init(&text, 1024);
    reply_error_text(&text, e);
    c->close_after = true;
    c->linger = true;
    reply_head(c, status, "application/json", (struct pairs){ 0 }, (int64_t)text.n);
    if (conn_send(c, c->state == CONN_BODY && !wants_body(c, status) ? STR("") : buf_view(&text)))
        conn_answered(c);
    buf_done(&text);
}

/* The request comes back from the handler. NULL: nobody waits for its answer, and it is freed. */
static struct http_conn *take_back(struct http_request *r)
{
    struct http_conn *c = r->conn;

    assert(c->held);
    if (c->state == CONN_GONE) {
        c->upload.open = false;
        conn_release(c);
        return NULL;
    }
    assert(c->state == CONN_HANDLER);
    c->held = false;
    c->upload.open = false;
    return c;
}

static void reply(struct http_conn *c, int status, const char *content_type, struct pairs headers, struct str body)
{
    char text[160];

    if (body.n > (size_t)LIMIT_HTTP_REPLY) {
        snprintf(text, sizeof text,
                 "{\"error\":{\"code\":\"limit\",\"message\":\"the answer is larger than LIMIT_HTTP_REPLY (%ld "
                 "bytes)\"}}",
                 LIMIT_HTTP_REPLY);
        status = 500;
        content_type = "application/json";
        headers.n = 0;
        body = str_of(text);
    }
    reply_told(c, status, (int64_t)body.n);
    reply_head(c, status, content_type, headers, (int64_t)body.n);
    if (conn_send(c, wants_body(c, status) ? body : STR("")))
        conn_answered(c);
}

void http_reply(struct http_request *r, int status, const char *content_type, struct str body)
{
    struct http_conn *c = take_back(r);
    if (c)
        reply(c, status, content_type, (struct pairs){ 0 }, body);
}

void http_reply_headers(struct http_request *r, int status, const struct pair *headers, size_t n, struct str body)
{
    struct http_conn *c = take_back(r);
    if (c)
        reply(c, status, NULL, (struct pairs){ (struct pair *)headers, n }, body);
}

void http_reply_buf(struct http_request *r, int status, const char *content_type, struct buf *take_body)
{
    struct buf body = *take_body;
    buf_init(take_body, body.cap);

    struct http_conn *c = take_back(r);
    if (c && body.n <= (size_t)LIMIT_HTTP_REPLY && wants_body(c, status)) {
        reply_told(c, status, (int64_t)body.n);
        reply_head(c, status, content_type, (struct pairs){ 0 }, (int64_t)body.n);
        c->body = body; /* the connection frees it when the last byte was sent */
        c->server->grown += body.n;
        body = (struct buf){ 0 };
        if (conn_send(c, STR("")))
            conn_answered(c);
    } else if (c) {
        reply(c, status, content_type, (struct pairs){ 0 }, buf_view(&body));
    }
    buf_done(&body);
}

struct loop *http_loop(const struct http_request *r)
{
    return r->conn->loop;
}

bool http_client_gone(const struct http_request *r)
{
    return r->conn->state == CONN_GONE || r->conn->eof || r->conn->hup;
}

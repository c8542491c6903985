/* One request out of a connection's bytes, and what a handler asks of it.
 *
 * A request usually arrives whole and is then parsed once, where it lies. If its body is late the head is parsed
 * twice: first for the framing, then again when all is there, because the buffer may have moved in between. */
#include "http/internal.h"

#include <errno.h>

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool http_decode(struct arena *a, struct str raw, bool form, struct str *ret)
{
    if (!raw.n || (!memchr(raw.p, '%', raw.n) && !(form && memchr(raw.p, '+', raw.n)))) {
        *ret = raw;
        return true;
    }

    char *to = arena_alloc(a, raw.n + 1);
    size_t n = 0;
    for (size_t i = 0; i < raw.n; i++) {
        char c = raw.p[i];
        if (c == '+' && form) {
            c = ' ';
        } else if (c == '%') {
            int high = i + 2 < raw.n ? hex(raw.p[i + 1]) : -1;
            int low = high >= 0 ? hex(raw.p[i + 2]) : -1;
            if (low < 0)
                return false;
            c = (char)(high << 4 | low);
            i += 2;
        }
        to[n++] = c;
    }
    *ret = (struct str){ to, n };
    return true;
}

struct str http_header(const struct http_request *r, const char *lower_name)
{
    struct str name = str_of(lower_name);

    for (size_t i = 0; i < r->headers.n; i++)
        if (str_eq(r->headers.v[i].name, name))
            return r->headers.v[i].value;
    return (struct str){ 0 };
}

bool http_query_next(const struct http_request *r, size_t *at, struct pair *ret)
{
    while (*at < r->query.n) {
        const char *p = r->query.p + *at;
        const char *amp = memchr(p, '&', r->query.n - *at);
        size_t n = amp ? (size_t)(amp - p) : r->query.n - *at;
        const char *eq = memchr(p, '=', n);

        *at += n + 1;
        ret->name = (struct str){ p, eq ? (size_t)(eq - p) : n };
        ret->value = eq ? (struct str){ eq + 1, n - (size_t)(eq + 1 - p) } : STR("");
        if (n && http_decode(r->arena, ret->name, true, &ret->name) &&
            http_decode(r->arena, ret->value, true, &ret->value))
            return true;
    }
    return false;
}

struct str http_query(const struct http_request *r, const char *name)
{
    struct pair p;

    for (size_t at = 0; http_query_next(r, &at, &p);)
        if (str_is(p.name, name))
            return p.value;
    return (struct str){ 0 };
}

static int too_big(struct err *e)
{
    err_set(e, ERR_LIMIT, "the body is larger than LIMIT_HTTP_BODY (%ld bytes)", LIMIT_HTTP_BODY);
    return 413;
}

static int parse_head(struct http_conn *c, struct err *e)
{
    arena_reset(&c->arena);
    c->req = (struct http_request){ .arena = &c->arena,
                                    .body = STR(""),
                                    .query = STR(""),
                                    .peer = str_of(c->peer),
                                    .peer_uid = c->peer_uid,
                                    .conn = c };
    return head_parse(c->in.p + c->start, c->head_n, c->scan.lines - 1, &c->req, &c->head, e);
}

/* 1: the head is complete and acceptable. */
static int read_head(struct http_conn *c, struct err *e)
{
    if (c->scan.at == 0) { /* empty lines before a request: some clients end bodies with one */
        while (c->in.n - c->start >= 2 && memcmp(c->in.p + c->start, "\r\n", 2) == 0)
            c->start += 2;
        if (c->in.n == c->start || (c->in.n - c->start == 1 && c->in.p[c->start] == '\r'))
            return 0;
    }

    size_t have = c->in.n - c->start;
    ssize_t n = head_scan(&c->scan, c->in.p + c->start, have, e);
    if (n < 0)
        return 400;
    if ((n ? n : (ssize_t)have) > LIMIT_HTTP_HEAD) {
        err_set(e, ERR_LIMIT, "the request's head is larger than LIMIT_HTTP_HEAD (%ld bytes)", LIMIT_HTTP_HEAD);
        return 431;
    }
    if (n == 0)
        return 0;

    c->head_n = (size_t)n;
    int status = parse_head(c, e);
    if (status)
        return status;
    const struct http_opts *o = &c->server->opts;
    if (o->host_ok && !o->host_ok(o->arg, c->head.host.p ? c->head.host : STR(""))) {
        err_set(e, ERR_DENIED,
                "this server is not known by the name that Host says; the setting host.names lists its names");
        return 421;
    }
    bool body = c->head.length || c->head.chunked;
    bool here = !c->head.chunked && c->head.length <= have - c->head_n;
    c->req.streaming = body && ((o->wants_stream && o->wants_stream(o->arg, &c->req)) ||
                                (!here && o->refuses && o->refuses(o->arg, &c->req)));
    if (!c->req.streaming && c->head.length > (uint64_t)LIMIT_HTTP_BODY)
        return too_big(e);
    c->waited = false;
    c->state = CONN_BODY;
    c->since = c->server->tick;
    c->chunked = (struct chunked){ 0 };
    c->pos = c->head_n;
    c->body_n = 0;
    return 1;
}

static int read_chunks(struct http_conn *c, struct err *e)
{
    size_t out = c->head_n + c->body_n;
    int r = chunked_decode(&c->chunked, c->in.p + c->start, &c->pos, c->in.n - c->start, &out,
                           c->head_n + (size_t)LIMIT_HTTP_BODY);

    c->body_n = out - c->head_n;
    if (r == -EMSGSIZE)
        return too_big(e);
    if (r < 0) {
        err_set(e, ERR_INVALID, "invalid request: the chunks of the body are malformed");
        return 400;
    }
    if (r == 0) { /* the framing was consumed; the next bytes go right behind what was decoded */
        c->pos = out;
        c->in.n = c->start + out;
        return 0;
    }
    c->request_n = c->pos;
    return 1;
}

static int read_body(struct http_conn *c, struct err *e)
{
    if (c->head.chunked)
        return read_chunks(c, e);

    c->body_n = (size_t)c->head.length;
    if (c->in.n - c->start < c->head_n + c->body_n)
        return 0;
    c->request_n = c->head_n + c->body_n;
    return 1;
}

int request_read(struct http_conn *c, struct err *e)
{
    if (c->state == CONN_HEAD) {
        int r = read_head(c, e);
        if (r != 1)
            return r;
        if (c->req.streaming) {
            body_start(c);
            return 1;
        }
    }
    int r = read_body(c, e);
    if (r == 0) {
        if (c->head.expect && !c->waited) /* the client waits for this before it sends the body */
            (void)conn_send(c, STR("HTTP/1.1 100 Continue\r\n\r\n")); /* a failure is seen in c->state */
        c->waited = true;
    }
    if (r != 1)
        return r;

    if (c->waited) {
        int status = parse_head(c, e);
        if (status)
            return status;
    }
    if (c->body_n)
        c->req.body = (struct str){ c->in.p + c->start + c->head_n, c->body_n };
    return 1;
}

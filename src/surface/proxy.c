/* One proxied request: a connection into the box by dial, the request on it with its body as it comes, the answer back
 * as it comes, each as fast as the other side takes it. After a 101 both are plain bytes.
 *
 * What a box serves is hostile to our own pages. By path it has our origin, so that its pages are sandboxed (a null
 * origin, which can read nothing of ours), its cookies do not get out and ours do not get in. By host it has an origin
 * of its own, on which nothing of our API answers. Credentials for us never reach a box in any form. */
#include "surface/proxy.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "base/auto.h"
#include "base/limits.h"
#include "http/answer.h"
#include "surface/door.h"
#include "surface/page.h"
#include "surface/place.h"
#include "surface/plug.h"
#include "wire/frame.h"

enum { WAITING_MAX = 256 * KiB, KEPT_MAX = 512 * KiB };

#define SANDBOX "sandbox allow-scripts allow-forms allow-popups allow-modals allow-downloads"

struct proxy {
    struct node *node;
    struct web *web; /* NULL: the answer has begun */
    char box[BOX_ID_MAX];
    int fd;
    enum form form;
    const struct app *app; /* NULL: a port */
    bool upgrade, chunked;
    bool started; /* the app was, for this request */
    struct plug *plug;
    struct buf send; /* for the server: head, framing of chunks, and what it has not taken */
    struct buf got;  /* from the server, not understood yet */
    struct http_body *body;
    bool body_over, ended, tunnel;
    struct http_stream *out;
    struct answer_reader reader;
    struct arena arena;
    bool whole; /* the answer is sent when all of it is here: its addresses are ours to name */
    int status;
    struct buf text;
};

bool proxy_is(struct web *w)
{
    struct place p;

    if (!place_find(w, &p))
        return false;
    if (p.form == BY_HOST) /* whatever path or header say: a page there chooses both */
        w->box_name = p.box;
    return true;
}

/* --- the end --- */

static void proxy_free(struct proxy *p)
{
    plug_free(p->plug);
    box_hang_up(p->node, p->box, p->fd);
    buf_done(&p->send);
    buf_done(&p->got);
    buf_done(&p->text);
    arena_done(&p->arena);
    free(p);
}

static void fail(struct proxy *p, int status, enum err_code code, const char *text)
{
    if (p->body)
        http_body_drop(TAKE_PTR(p->body));
    if (p->web && p->app && p->app->pages && page_wanted(p->web))
        app_say(TAKE_PTR(p->web), status, p->app, text);
    else if (p->web)
        web_error(TAKE_PTR(p->web), status, code, "%s", text);
    else if (p->out)
        http_stream_abort(p->out);
    proxy_free(p);
}

static void finish(struct proxy *p)
{
    if (p->body)
        http_body_drop(TAKE_PTR(p->body));
    if (p->out)
        http_stream_end(p->out);
    proxy_free(p);
}

/* --- to the server --- */

static void flush(struct proxy *p)
{
    if (!p->plug)
        return;
    size_t n = plug_write(p->plug, buf_view(&p->send));
    buf_eat(&p->send, n);
    if (p->send.n > WAITING_MAX || !p->body)
        goto end;
    http_body_resume(p->body);
end:
    if (!p->send.n && p->body_over && p->tunnel && !p->ended) {
        p->ended = true;
        plug_end(p->plug); /* half of a tunnel may end before the other */
    }
}

static size_t on_body(void *arg, struct str data, bool last)
{
    struct proxy *p = arg;
    size_t n = data.n < WAITING_MAX ? data.n : WAITING_MAX;

    if (p->chunked && n)
        buf_printf(&p->send, "%zx\r\n", n);
    buf_add(&p->send, data.p, n);
    if (p->chunked && n)
        buf_str(&p->send, STR("\r\n"));
    if (last && n == data.n) {
        if (p->chunked)
            buf_str(&p->send, STR("0\r\n\r\n"));
        p->body = NULL;
        p->body_over = true;
    }
    flush(p);
    if (p->body && p->send.n > WAITING_MAX)
        http_body_pause(p->body);
    return n;
}

static void on_body_failed(void *arg)
{
    struct proxy *p = arg;

    p->body = NULL;
    fail(p, 400, ERR_INVALID, "the body did not arrive whole");
}
static const struct http_body_handler body_handler = { .take = on_body, .failed = on_body_failed };

static bool in_words(struct str list, struct str name)
{
    while (list.n) {
        const char *comma = memchr(list.p, ',', list.n);
        struct str word = { list.p, comma ? (size_t)(comma - list.p) : list.n };
        list = (struct str){ word.p + word.n + (comma != NULL), list.n - word.n - (comma != NULL) };
        while (word.n && *word.p == ' ')
            word = (struct str){ word.p + 1, word.n - 1 };
        while (word.n && word.p[word.n - 1] == ' ')
            word.n--;
        if (word.n == name.n && strncasecmp(word.p, name.p, name.n) == 0)
            return true;
    }
    return false;
}

static bool listed(struct str name, const char *const *list)
{
    for (; *list; list++)
        if (str_is(name, *list))
            return true;
    return false;
}

static const char *const hops[] = { "connection",
                                    "keep-alive",
                                    "proxy-authenticate",
                                    "proxy-authorization",
                                    "proxy-connection",
                                    "te",
                                    "trailer",
                                    "transfer-encoding",
                                    "upgrade",
                                    "content-length",
                                    NULL };
/* Said to us, not to what runs in a box. */
static const char *const ours[] = { "host",
                                    "authorization",
                                    "x-aio-api-key",
                                    "x-api-key",
                                    "x-aio-proxy-port",
                                    "x-sandglass-box",
                                    "x-forwarded-host",
                                    "x-forwarded-for",
                                    "x-forwarded-proto",
                                    "expect",
                                    NULL };

static void add_target(struct buf *b, struct str target)
{
    const char *query = target.n ? memchr(target.p, '?', target.n) : NULL;
    size_t path = query ? (size_t)(query - target.p) : target.n;

    if (!path || target.p[0] != '/')
        buf_char(b, '/');
    buf_add(b, target.p, path);
    place_add_query(b, target);
}

static void write_request(struct proxy *p, const struct web *w, const struct place *at)
{
    const struct http_request *r = w->http;
    struct buf *b = &p->send;
    struct str host = http_header(r, "host"), connection = http_header(r, "connection");
    int64_t length = r->streaming ? http_body_length(r) : 0;

    buf_str(b, r->method);
    buf_char(b, ' ');
    add_target(b, at->target);
    buf_printf(b, " HTTP/1.1\r\nHost: localhost%s%.*s\r\n", at->port.n ? ":" : "", STR_ARG(at->port));
    for (size_t i = 0; i < r->headers.n; i++) {
        struct pair h = r->headers.v[i];
        if (str_is(h.name, "cookie"))
            h.value = at->form == BY_HOST ? door_without_ticket(w, h.value) : (struct str){ 0 };
        bool cookie = str_is(h.name, "cookie") && !h.value.n;
        bool origin = str_is(h.name, "origin") && (at->form != BY_HOST || at->app); /* the door looked at it */
        if (listed(h.name, hops) || listed(h.name, ours) || cookie || origin || in_words(connection, h.name))
            continue;
        buf_printf(b, "%.*s: %.*s\r\n", STR_ARG(h.name), STR_ARG(h.value));
    }
    buf_printf(b, "X-Forwarded-Host: %.*s\r\nX-Forwarded-For: %.*s\r\nX-Forwarded-Proto: %s\r\n", STR_ARG(host),
               STR_ARG(r->peer), door_is_tls(w) ? "https" : "http");
    if (at->form == BY_PATH)
        buf_printf(b, "X-Forwarded-Prefix: %.*s%.*s\r\n", STR_ARG(w->base), STR_ARG(at->prefix));
    p->chunked = r->streaming && length < 0;
    if (p->chunked)
        buf_z(b, "Transfer-Encoding: chunked\r\n");
    else if (length > 0 || str_is(r->method, "POST") || str_is(r->method, "PUT"))
        buf_printf(b, "Content-Length: %lld\r\n", (long long)length);
    struct str upgrade = http_header(r, "upgrade");
    p->upgrade = upgrade.n && in_words(connection, STR("upgrade"));
    if (p->upgrade)
        buf_printf(b, "Connection: Upgrade\r\nUpgrade: %.*s\r\n\r\n", STR_ARG(upgrade));
    else
        buf_z(b, "Connection: close\r\n\r\n");
}

/* --- from the server --- */

static void on_out_closed(void *arg)
{
    struct proxy *p = arg;

    p->out = NULL;
    p->body = NULL; /* gone with it */
    proxy_free(p);
}

static void on_out_drained(void *arg)
{
    struct proxy *p = arg;

    if (p->plug)
        plug_hold(p->plug, false);
}

/* A cookie that is for more than its own host would reach other boxes, or us. */
static bool cookie_ok(const struct proxy *p, struct str value)
{
    if (p->form != BY_HOST)
        return false;
    for (size_t i = 0; i + 6 < value.n; i++)
        if (strncasecmp(value.p + i, "domain", 6) == 0)
            return false;
    return true;
}

static bool begins(struct str s, struct str with)
{
    return s.n >= with.n && memcmp(s.p, with.p, with.n) == 0;
}

/* A redirect within the server, also one that spells out the host that we called it by, stays behind our prefix; one
 * that was put there by the server itself is left as it is. */
static struct str location(struct proxy *p, struct str value, struct str base, const struct place *at)
{
    struct str own = str_of(arena_printf(&p->arena, "http://localhost:%.*s/", STR_ARG(at->port)));
    bool keeps = at->form != BY_PATH || (at->app && at->app->keeps_prefix);
    struct str prefix = str_of(
        arena_printf(&p->arena, "%.*s%.*s", STR_ARG(base), keeps ? 0 : (int)at->prefix.n, keeps ? "" : at->prefix.p));

    if (at->port.n && begins(value, own))
        value = (struct str){ value.p + own.n - 1, value.n - own.n + 1 };
    if (at->form == BY_HOST || !begins(value, STR("/")) || begins(value, STR("//")) || begins(value, prefix))
        return value;
    return str_of(arena_printf(&p->arena, "%.*s%.*s", STR_ARG(prefix), STR_ARG(value)));
}

static void begin_answer(struct proxy *p, const struct answer *x)
{
    static const char *const dropped[] = {
        "alt-svc", "clear-site-data", "service-worker-allowed", "strict-transport-security", "public-key-pins", NULL
    };
    struct web *w = TAKE_PTR(p->web);
    struct place at;
    struct pairs out = { arena_alloc(&p->arena, (x->headers.n + 4) * sizeof *out.v), 0 };

    (void)place_find(w, &at);
    for (size_t i = 0; i < x->headers.n; i++) {
        struct pair h = x->headers.v[i];
        bool cors = h.name.n > 15 && memcmp(h.name.p, "access-control-", 15) == 0 && p->form != BY_HOST;
        if ((listed(h.name, hops) && !(x->status == 101 && str_is(h.name, "upgrade"))) || listed(h.name, dropped) ||
            cors || (str_is(h.name, "set-cookie") && !cookie_ok(p, h.value)))
            continue;
        if (str_is(h.name, "location"))
            h.value = location(p, h.value, w->base, &at);
        out.v[out.n++] = h;
    }
    if (p->form != BY_HOST && x->status != 101)
        out.v[out.n++] = (struct pair){ STR("Content-Security-Policy"), STR(SANDBOX) };
    struct http_stream_opts o = { .status = x->status,
                                  .headers = out.v,
                                  .header_count = out.n,
                                  .length = x->length,
                                  .drained = on_out_drained,
                                  .closed = on_out_closed,
                                  .arg = p };
    w->http->also.n = 0; /* our own pages' headers are not the box's */
    if (x->status != 101) {
        p->out = http_stream_open(w->http, &o);
        return;
    }
    p->tunnel = true;
    p->out = http_upgrade(w->http, &o, &body_handler, &p->body);
}

#define TELLS_TOO_MUCH "the server in the box tells more than LIMIT_CDP_LIST"

/* Names addresses as the client must, in an answer that is complete. */
static void send_whole(struct proxy *p)
{
    struct buf b;

    buf_init(&b, LIMIT_CDP_LIST * 2);
    cdp_urls(p->web, buf_view(&p->text), &b);
    if (b.full) {
        buf_done(&b);
        fail(p, 502, ERR_LIMIT, TELLS_TOO_MUCH);
        return;
    }
    http_reply_buf(TAKE_PTR(p->web)->http, p->status, "application/json; charset=UTF-8", &b);
    buf_done(&b);
    finish(p);
}

static bool is_answer(const struct proxy *p, const struct answer *x)
{
    return p->whole ? x->status >= 200 && (x->status < 300 || x->status >= 400) : x->status != 101 || p->upgrade;
}

/* Understands what has come so far. False: p is gone. */
static bool take_answer(struct proxy *p)
{
    struct answer x;
    struct err e;
    size_t at = 0;

    for (;;) {
        struct str data;
        size_t used = 0;
        int r = answer_next(&p->reader, &p->arena, p->got.p + at, p->got.n - at, &x, &data, &used, &e);
        if (r < 0 || (r == ANSWER_HEAD && !is_answer(p, &x))) {
            fail(p, 502, ERR_SYSTEM, r < 0 ? e.msg : "the server in the box switched protocols, or sent us elsewhere");
            return false;
        }
        at += used;
        if (r == ANSWER_HEAD && p->whole)
            p->status = x.status;
        else if (r == ANSWER_HEAD)
            begin_answer(p, &x);
        if (r == ANSWER_DATA && p->whole && !buf_str(&p->text, data)) {
            fail(p, 502, ERR_LIMIT, TELLS_TOO_MUCH);
            return false;
        }
        if (r == ANSWER_DATA && p->out)
            (void)http_stream_write(p->out, data);
        if (r == ANSWER_END) {
            p->whole ? send_whole(p) : finish(p);
            return false;
        }
        if (r == ANSWER_MORE && !used)
            break;
    }
    buf_eat(&p->got, at);
    return true;
}

static void on_plug_data(void *arg, struct str data)
{
    struct proxy *p = arg;

    if (!buf_str(&p->got, data)) {
        fail(p, 502, ERR_LIMIT, "the server in the box sends a head without an end");
        return;
    }
    if (!take_answer(p))
        return;
    if (p->out && http_stream_waiting(p->out) > WAITING_MAX)
        plug_hold(p->plug, true);
}

static void on_plug_eof(void *arg)
{
    struct proxy *p = arg;

    if (p->whole && p->status && answer_may_end(&p->reader))
        send_whole(p);
    else if (p->out && answer_may_end(&p->reader))
        finish(p);
    else
        fail(p, 502, ERR_SYSTEM, "the server in the box closed the connection before its answer was complete");
}

static void on_plug_broken(void *arg)
{
    struct proxy *p = arg;

    if (p->out && p->tunnel)
        finish(p);
    else
        fail(p, 502, ERR_SYSTEM, "the connection to the server in the box broke");
}

static void on_plug_room(void *arg)
{
    flush(arg);
}
static const struct plug_handler plug_handler = {
    .data = on_plug_data, .eof = on_plug_eof, .room = on_plug_room, .broken = on_plug_broken
};

/* --- the beginning --- */

static void dial(struct proxy *p);

static void on_app_started(void *arg, const struct call *c)
{
    struct proxy *p = arg;

    if (c->outcome == OUTCOME_OK)
        dial(p);
    else
        fail(p, 503, c->error ? c->error : ERR_SYSTEM, arena_z(&p->arena, c->message));
}

static void start_app(struct proxy *p, struct box *b)
{
    struct web *w = p->web;
    struct json *params = NULL;
    struct err e;
    struct call_request r = { .surface = STR("aio"),
                              .worker = str_of(b->id),
                              .action = str_of(p->app->tool),
                              .trace = str_of(w->request_id),
                              .box = b };

    p->started = true;
    if (json_parse(&p->arena, str_of(p->app->params), &params, &e) < 0)
        abort();
    r.params = params;
    (void)web_call(w, &r, on_app_started, p);
}

static void on_dialed_port(void *arg, int take_fd, const struct err *e)
{
    struct proxy *p = arg;
    struct box *b = box_find(p->node, str_of(p->box));

    if (take_fd < 0 && e->code == ERR_NOT_FOUND && p->app && !p->started && b) {
        start_app(p, b);
        return;
    }
    if (take_fd < 0) {
        fail(p, e->code == ERR_NOT_FOUND ? 502 : e->code == ERR_INVALID ? 400 : 503, e->code, e->msg);
        return;
    }
    p->fd = take_fd;
    p->plug = plug_new(p->node->loop, take_fd, &plug_handler, p);
    plug_hold(p->plug, false);
    if (p->web->http->streaming)
        p->body = http_body_begin(p->web->http, &body_handler, p);
    flush(p);
}

static void dial(struct proxy *p)
{
    struct box *b = box_find(p->node, str_of(p->box));
    struct place at;
    struct err e;

    (void)place_find(p->web, &at);
    struct wire_dial d = { .target =
                               str_of(p->app ? p->app->dial : arena_printf(&p->arena, "tcp:%.*s", STR_ARG(at.port))) };
    if (!b)
        err_set(&e, ERR_NOT_FOUND, "box %s is gone", p->box);
    if (!b || box_dial(b, &d, on_dialed_port, p, &e) < 0)
        fail(p, e.code == ERR_BUSY ? 429 : 503, e.code, e.msg);
}

/* The links of a page are relative to the last slash of its path: without one behind the port they lead elsewhere. */
static bool adds_slash(struct web *w, const struct place *at)
{
    const struct http_request *r = w->http;
    bool looks = str_is(r->method, "GET") || str_is(r->method, "HEAD");

    if (at->form != BY_PATH || !at->port.n || !looks || http_header(r, "upgrade").n || begins(at->target, STR("/")))
        return false;
    const char *to = arena_printf(r->arena, "%.*s/%.*s", STR_ARG(at->port), STR_ARG(at->target));
    struct pair headers[] = { { STR("Location"), str_of(to) } };
    http_reply_headers(w->http, 308, headers, ARRAY_LEN(headers), STR(""));
    return true;
}

static void with_box(struct web *w, struct box *b)
{
    struct place at;

    (void)place_find(w, &at);
    if (app_leads_on(w, b, &at) || adds_slash(w, &at))
        return;
    struct proxy *p = calloc(1, sizeof *p);
    if (!p)
        abort();
    *p = (struct proxy){ .node = w->node, .web = w, .fd = -1 };
    memcpy(p->box, b->id, sizeof p->box);
    buf_init(&p->send, LIMIT_HTTP_HEAD * 2 + KEPT_MAX * 2);
    buf_init(&p->got, KEPT_MAX);
    buf_init(&p->text, LIMIT_CDP_LIST);
    p->form = at.form;
    p->app = at.app;
    p->reader.no_body = str_is(w->http->method, "HEAD");
    write_request(p, w, &at);
    p->whole = p->app && p->app->urls && !p->upgrade && !p->reader.no_body;
    dial(p);
}

static void proxy_begin(struct web *w)
{
    web_box(w, with_box);
}

const struct route proxy_route = { "*", "/proxy/{port}/{rest*}", proxy_begin,
                                   ROUTE_RAW | ROUTE_STREAM | ROUTE_EXECUTE };

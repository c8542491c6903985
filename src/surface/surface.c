#include "surface/surface.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/random.h>

#include "base/auto.h"
#include "base/limits.h"
#include "surface/aio.h"
#include "surface/door.h"
#include "surface/ops.h"
#include "surface/page.h"
#include "surface/place.h"
#include "surface/proxy.h"
#include "surface/terminal.h"
#include "surface/transfer.h"

struct surfaces {
    struct node *node;
    const struct door_opts *door;
    void *owner;
    struct ops *ops;
    struct streams *streams;
    struct default_box *default_boxes;
    struct views *views;
    struct mcp_hub *mcp;
};

static const struct route *const tables[] = { agentflow_routes,
                                              agentflow_batch_routes,
                                              agentflow_session_routes,
                                              agentflow_admin_routes,
                                              own_note_routes,
                                              own_log_routes, /* before own_routes: .../export is no id */
                                              own_routes,
                                              own_blob_routes,
                                              own_state_routes,
                                              transfer_routes,
                                              terminal_routes,
                                              screen_routes,
                                              door_routes,
                                              key_routes,
                                              ops_routes,
                                              secret_routes,
                                              mcp_routes,
                                              page_routes };

/* Historic bare paths and prefixes are one table: a pattern that begins with "/api/v1" is also served without it and
 * under /agentflow. */
static const char *const alias_prefixes[] = { "/agentflow/api/v1", "/agentflow", "" };
#define API_PREFIX "/api/v1"

struct surfaces *surfaces_new(struct node *n, struct loop *l, const struct door_opts *door, struct ops *ops,
                              void *owner)
{
    struct surfaces *s = calloc(1, sizeof *s);
    if (!s)
        abort();
    s->node = n;
    s->door = door;
    s->owner = owner;
    s->ops = ops;
    s->streams = streams_new(n, l);
    s->mcp = mcp_hub_new(s, n, l);
    return s;
}

struct mcp_hub *surfaces_mcp(struct surfaces *s)
{
    return s->mcp;
}

struct default_box **surfaces_default_boxes(struct surfaces *s)
{
    return &s->default_boxes;
}

struct views **surfaces_views(struct surfaces *s)
{
    return &s->views;
}

struct ops *surfaces_ops(struct surfaces *s)
{
    return s->ops;
}

void surfaces_answered(void *arg, const struct http_request *r, int status, int64_t bytes)
{
    struct surfaces *s = arg;
    if (r->user)
        ops_answered(s->ops, r->user, status, bytes);
}

void *surfaces_owner(const struct surfaces *s)
{
    return s->owner;
}

const struct door_opts *surfaces_door(struct surfaces *s)
{
    return s->door;
}

struct streams *surfaces_streams(struct surfaces *s)
{
    return s->streams;
}

void surfaces_step(void *arg, const struct call *c)
{
    struct surfaces *s = arg;
    ops_step(s->ops, c);
    streams_step(s->streams, c);
    mcp_step(s->mcp, c);
}

void surfaces_tools(struct surfaces *s)
{
    mcp_tools_changed(s->mcp);
}

/* "{id}" takes one segment, "{rest*}" all that is left. */
bool route_fits_pattern(const char *pattern, struct str path, struct route_match *m)
{
    const char *p = path.p, *end = path.p + path.n;

    m->args = 0;
    while (*pattern) {
        if (*pattern == '{') {
            const char *close = strchr(pattern, '}');
            const char *from = p;
            bool rest = close[-1] == '*';
            while (p < end && (rest || *p != '/'))
                p++;
            if (p == from && !rest)
                return false;
            struct str value = { from, (size_t)(p - from) };
            struct str key = { pattern + 1, (size_t)(close - pattern - 1 - rest) };
            if (str_is(key, "id"))
                m->id = value;
            else
                m->name = value;
            if (m->args < ROUTE_ARGS) {
                m->key[m->args] = key;
                m->arg[m->args++] = value;
            }
            pattern = close + 1;
            continue;
        }
        if (p == end || *p != *pattern)
            return false;
        p++;
        pattern++;
    }
    return p == end;
}

static bool route_fits(const struct route *r, struct str path, struct route_match *m)
{
    if (route_fits_pattern(r->pattern, path, m))
        return true;
    if (strncmp(r->pattern, API_PREFIX, strlen(API_PREFIX)) != 0)
        return false;
    for (size_t i = 0; i < sizeof alias_prefixes / sizeof *alias_prefixes; i++) {
        size_t n = strlen(alias_prefixes[i]);
        if (path.n > n && memcmp(path.p, alias_prefixes[i], n) == 0 &&
            route_fits_pattern(r->pattern + strlen(API_PREFIX), (struct str){ path.p + n, path.n - n }, m))
            return true;
    }
    return false;
}

const char *surfaces_clash(void)
{
    struct route_match m;

    const char *clash = aio_clash();
    if (clash)
        return clash;
    for (size_t a = 0; a < ARRAY_LEN(tables); a++)
        for (const struct route *r = tables[a]; r->pattern; r++)
            for (size_t b = a; b < ARRAY_LEN(tables); b++)
                for (const struct route *q = b == a ? r + 1 : tables[b]; q->pattern; q++)
                    if (strcmp(q->method, r->method) == 0 && route_fits(r, str_of(q->pattern), &m))
                        return q->pattern;
    return NULL;
}

static const char *access_name(const struct route *r)
{
    if (r->flags & ROUTE_PUBLIC)
        return "public";
    if (r->flags & ROUTE_ADMIN)
        return r->flags & ROUTE_SERVER ? "admin of the server" : "admin";
    if (r->flags & ROUTE_MANAGE)
        return "manage";
    if (r->flags & ROUTE_SERVER)
        return "read of the server";
    if (r->flags & ROUTE_EXECUTE)
        return "execute";
    bool reads = r->flags & ROUTE_READ || strcmp(r->method, "GET") == 0 || strcmp(r->method, "HEAD") == 0;
    return reads ? "read" : "execute";
}

struct relays {
    void (*cb)(void *arg, const char *method, const char *pattern, const char *access);
    void *arg;
};

static void on_relay(void *arg, const char *pattern)
{
    static const char *const methods[] = { "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE" };
    const struct relays *r = arg;

    for (size_t i = 0; i < ARRAY_LEN(methods); i++)
        r->cb(r->arg, methods[i], pattern, access_name(&proxy_route));
}

void surfaces_each_route(void (*cb)(void *arg, const char *method, const char *pattern, const char *access), void *arg)
{
    for (size_t a = 0; a < ARRAY_LEN(tables); a++)
        for (const struct route *r = tables[a]; r->pattern; r++)
            cb(arg, r->method, r->pattern, access_name(r));
    for (size_t g = 0; aio_groups[g]; g++)
        for (const struct aio_op *o = aio_groups[g]->ops; o->method; o++)
            cb(arg, o->method, o->path, access_name(&(struct route){ .method = o->method }));
    place_each(on_relay, &(struct relays){ cb, arg });
}

void web_plain(struct web *w, int status, enum err_code code, const char *text)
{
    struct buf b;
    struct jw j = { .out = &b };

    buf_init(&b, 4096);
    jw_obj(&j);
    jw_kz(&j, "detail", text);
    jw_key(&j, "error");
    jw_obj(&j);
    jw_kz(&j, "code", err_name(code));
    jw_kz(&j, "message", text);
    jw_obj_end(&j);
    jw_obj_end(&j);
    web_send(w, status, &b);
}

static void no_route(struct web *w)
{
    const char *text = w->allow ? "Method Not Allowed" : "Not Found";
    int status = w->allow ? 405 : 404;

    if (page_wanted(w))
        page_say(w, status, text, "Nothing of this server has this address.");
    else
        web_plain(w, status, w->allow ? ERR_INVALID : ERR_NOT_FOUND, text);
}

static void bad_json(struct web *w, const struct err *e)
{
    struct buf b;
    struct jw j = { .out = &b };

    if (w->op) {
        aio_invalid(w, "body", "", "json_invalid", "the body is not JSON: %s", e->msg);
        return;
    }
    if (strncmp(w->route->pattern, API_PREFIX, strlen(API_PREFIX)) != 0) { /* not AgentFlow's */
        web_error(w, 400, ERR_INVALID, "the body is not JSON: %s", e->msg);
        return;
    }
    buf_init(&b, 8192);
    jw_obj(&j);
    jw_key(&j, "detail");
    jw_arr(&j);
    jw_obj(&j);
    jw_kz(&j, "type", "json_invalid");
    jw_key(&j, "loc");
    jw_arr(&j);
    jw_z(&j, "body");
    jw_arr_end(&j);
    jw_kz(&j, "msg", "JSON decode error");
    jw_kraw(&j, "input", STR("{}"));
    jw_key(&j, "ctx");
    jw_obj(&j);
    jw_kz(&j, "error", e->msg);
    jw_obj_end(&j);
    jw_obj_end(&j);
    jw_arr_end(&j);
    jw_obj_end(&j);
    web_send(w, 422, &b);
}

static int depth_of(const struct json *j)
{
    int deepest = 0;

    for (const struct json *k = j->first; k; k = k->next) {
        int d = k->first ? depth_of(k) : 0;
        deepest = d > deepest ? d : deepest;
    }
    return deepest + 1;
}

static bool takes_stream(const struct web *w)
{
    return w->route && (w->route->flags & ROUTE_STREAM || (w->op && w->op->flags & AIO_RAW));
}

static void dispatch(struct web *w)
{
    const struct route *r = w->route;
    struct http_request *h = w->http;
    struct err e;

    if (!(r->flags & ROUTE_RAW) && h->body.n) {
        if (json_parse(h->arena, h->body, &w->body, &e) < 0) {
            bad_json(w, &e);
            return;
        }
        if (depth_of(w->body) > LIMIT_BODY_DEPTH) {
            err_set(&e, ERR_LIMIT, "nested deeper than LIMIT_BODY_DEPTH (%d)", LIMIT_BODY_DEPTH);
            bad_json(w, &e);
            return;
        }
    }
    if (!w->node->ready) {
        static const char text[] = "the server is starting; try again in a moment";
        w->op ? aio_error(w, 503, "%s", text) : web_error(w, 503, ERR_BUSY, "%s", text);
        return;
    }
    if (own_query_fits(w))
        r->handler(w);
}

/* "/box/{id}" in front of any path names the box; a box's id needs no escapes, so that the target begins alike. */
static void find_base(struct web *w)
{
    struct str path = w->http->path;

    w->box_name = http_header(w->http, "x-sandglass-box");
    if (path.n > 5 && memcmp(path.p, "/box/", 5) == 0) {
        const char *end = memchr(path.p + 5, '/', path.n - 5);
        size_t n = end ? (size_t)(end - path.p) : path.n;
        w->base = (struct str){ path.p, n };
        w->box_name = (struct str){ path.p + 5, n - 5 };
        path = end ? (struct str){ end, path.n - n } : STR("/");
    }
    if (path.n > 4 && memcmp(path.p, "/aio/", 5) == 0)
        path = (struct str){ path.p + 4, path.n - 4 };
    w->slash = path.n > 1 && path.p[path.n - 1] == '/';
    path.n -= w->slash;
    w->path = path;
}

void web_allows(struct web *w, const char *method)
{
    if (!w->allow)
        w->allow = method;
    else if (!strstr(w->allow, method))
        w->allow = arena_printf(w->http->arena, "%s, %s", w->allow, method);
}

/* Whoever only watches over the server may ask with HEAD; what else is public is small, too, and no stream. */
static bool method_fits(const struct web *w, const struct route *r)
{
    return str_is(w->http->method, r->method) ||
           (r->flags & ROUTE_PUBLIC && str_is(w->http->method, "HEAD") && strcmp(r->method, "GET") == 0);
}

/* Fills in w->route and what goes with it. */
static void find_route(struct web *w)
{
    static const struct route aio_route = { .handler = aio_handle },
                              aio_raw = { .handler = aio_handle, .flags = ROUTE_RAW };

    if (proxy_is(w)) {
        w->route = &proxy_route;
        return;
    }
    if (w->http->empty_part)
        return;
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        for (const struct route *t = tables[i]; t->pattern; t++) {
            struct route_match m = { 0 };
            if (!route_fits(t, w->path, &m))
                continue;
            if (!method_fits(w, t)) {
                web_allows(w, t->method);
                continue;
            }
            w->match = m;
            w->route = t;
            return;
        }
    w->op = aio_find(w);
    if (w->op)
        w->route = w->op->flags & (AIO_RAW | AIO_FORM) ? &aio_raw : &aio_route;
}

/* Made when it is first asked for: at the head of a request with a body, else when all of it is there. */
static struct web *web_of(struct surfaces *s, struct http_request *r)
{
    struct web *w = r->user;

    if (w)
        return w;
    w = r->user = arena_alloc(r->arena, sizeof *w);
    *w = (struct web){ .all = s, .node = s->node, .tenant = s->node->tenant, .http = r, .begun_us = now_us() };
    find_base(w);
    find_route(w);
    return w;
}

bool surfaces_wants_stream(void *arg, struct http_request *r)
{
    return takes_stream(web_of(arg, r));
}

bool surfaces_refuses(void *arg, struct http_request *r)
{
    return door_is_shut(web_of(arg, r));
}

static void add_header(struct web *w, struct str name, struct str value)
{
    struct pairs *p = &w->http->also;
    struct pair *v = arena_alloc(w->http->arena, (p->n + 1) * sizeof *v);

    if (p->n)
        memcpy(v, p->v, p->n * sizeof *v);
    v[p->n++] = (struct pair){ name, value };
    p->v = v;
}

void surfaces_handle(void *arg, struct http_request *r)
{
    struct web *w = web_of(arg, r);

    door_greet(w);
    if (door_turned_away(w))
        return;
    if (!w->route && w->allow)
        add_header(w, STR("Allow"), str_of(w->allow));
    if (w->route)
        dispatch(w);
    else if (r->empty_part)
        web_error(w, 400, ERR_INVALID, "invalid request: the path contains \"//\"");
    else if (aio_is_path(w->path))
        aio_not_found(w);
    else
        no_route(w);
}

/* Whoever is refused for now hears when to come back. */
static void say_when(struct web *w)
{
    int64_t ms = w->tenant->come_back_ms;

    add_header(w, STR("Retry-After"),
               str_of(arena_printf(w->http->arena, "%lld", (long long)(ms > 1000 ? (ms + 999) / 1000 : 1))));
    w->tenant->come_back_ms = 0;
}

void web_send(struct web *w, int status, struct buf *take_json)
{
    if (status == 429 || status == 503)
        say_when(w);
    if (take_json->full) {
        buf_done(take_json);
        http_reply(w->http, 500, "application/json",
                   STR("{\"error\":{\"code\":\"limit\",\"message\":\"the answer exceeds LIMIT_HTTP_REPLY\"}}"));
        return;
    }
    http_reply_buf(w->http, status, "application/json", take_json);
}

int web_status_of(enum err_code code)
{
    switch (code) {
    case ERR_NONE: return 200;
    case ERR_INVALID:
    case ERR_MISSING:
    case ERR_TYPE: return 400;
    case ERR_NOT_FOUND: return 404;
    case ERR_LIMIT: return 400;
    case ERR_BUSY: return 429;
    case ERR_DENIED: return 403;
    case ERR_EXISTS: return 409;
    case ERR_SYSTEM: return 500;
    }
    return 500;
}

void web_error(struct web *w, int status, enum err_code code, const char *fmt, ...)
{
    struct buf b;
    struct jw j = { .out = &b };
    char text[512];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (page_wanted(w)) {
        if (status == 429 || status == 503)
            say_when(w);
        page_say(w, status, status == 404 ? "Not found" : status == 503 ? "Not now" : "This did not work", text);
        return;
    }
    buf_init(&b, 8192);
    jw_obj(&j);
    jw_key(&j, "error");
    jw_obj(&j);
    jw_kz(&j, "code", err_name(code));
    jw_kz(&j, "message", text);
    jw_obj_end(&j);
    jw_obj_end(&j);
    web_send(w, status, &b);
}

bool web_abandoned(void *web)
{
    return http_client_gone(((struct web *)web)->http);
}

struct str web_key(const struct web *w)
{
    struct str key = http_header(w->http, "idempotency-key");
    return key.p ? key : json_get_str(w->body, "idempotency_key");
}

static int forward_mode(struct str text, enum call_forward *ret)
{
    static const struct {
        const char *word;
        enum call_forward mode;
    } words[] = { { "true", FORWARD_ON },
                  { "false", FORWARD_NO },
                  { "null", FORWARD_NO },
                  { "\"begin\"", FORWARD_BEGIN },
                  { "begin", FORWARD_BEGIN } };

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (str_is(text, words[i].word)) {
            *ret = words[i].mode;
            return 0;
        }
    return -1;
}

int web_forward(const struct web *w, struct call_request *r, struct err *e)
{
    struct str header = http_header(w->http, "x-fast-forward"), id = http_header(w->http, "x-trajectory-id");
    const struct json *v = json_get(w->body, "fast_forward"), *what = json_get(w->body, "on_difference");

    if (id.n && !r->trajectory.n)
        r->trajectory = id;
    if (header.n && forward_mode(header, &r->forward) < 0)
        return err_set(e, ERR_INVALID, "X-Fast-Forward: '%.*s' is neither true nor begin",
                       (int)(header.n < 40 ? header.n : 40), header.p);
    if (v && forward_mode(v->raw, &r->forward) < 0)
        return err_set(e, ERR_INVALID, "fast_forward: expected true, false or \"begin\", got %.*s",
                       (int)(v->raw.n < 40 ? v->raw.n : 40), v->raw.p);
    if (!what || what->type == JSON_NULL || (what->type == JSON_STR && str_is(what->s, "refuse")))
        return 0;
    if (what->type != JSON_STR || !str_is(what->s, "branch"))
        return err_set(e, ERR_INVALID, "on_difference: expected \"refuse\" or \"branch\", got %.*s",
                       (int)(what->raw.n < 40 ? what->raw.n : 40), what->raw.p);
    r->forward_branch = true;
    return 0;
}

void web_uuid(char out[37])
{
    /* One system call for many: trace ids are on the path of every call. */
    static unsigned char pool[16 * 64];
    static size_t at = sizeof pool;

    if (at == sizeof pool) {
        if (getrandom(pool, sizeof pool, 0) != (ssize_t)sizeof pool)
            abort();
        at = 0;
    }
    unsigned char *b = pool + at;
    at += 16;
    b[6] = (unsigned char)((b[6] & 15) | 64);
    b[8] = (unsigned char)((b[8] & 63) | 128);
    static const char hex[] = "0123456789abcdef";
    for (int i = 0, o = 0; i < 16; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            out[o++] = '-';
        out[o++] = hex[b[i] >> 4];
        out[o++] = hex[b[i] & 15];
    }
    out[36] = 0;
}

/* What is done to requests before they leave: routes that answer in place of the network, headers, sites that are closed.
 * Patterns of routes are globs. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/limits.h"
#include "init/browser_parts.h"

struct rule {
    struct rule *next;
    struct arena arena;
    struct route route;
};

struct scope { /* headers of one origin */
    struct scope *next;
    struct arena arena;
    struct str origin;
    struct pairs headers;
};

struct routes {
    struct rule *rules; /* newest first */
    struct scope *scopes;
    struct str headers; /* JSON object, owned; for every request */
    struct strs blocked, allowed;
    struct arena sites;
};

struct routes *routes_new(void)
{
    struct routes *r = calloc(1, sizeof *r);

    if (!r)
        abort();
    return r;
}

/* Requests stop for us only where there is something to do: it costs a round trip each. */
void routes_attach(struct browser *b, const struct view *v)
{
    const struct routes *n = b->routes;
    bool stop = n->rules || n->scopes || n->blocked.n || v->blank;

    view_post(b, v, stop ? "Fetch.enable" : "Fetch.disable", (struct str){ 0 });
    AUTO(buf_done) struct buf o = { .cap = 2 * LIMIT_BROWSER_HEADERS };
    struct jw j = { .out = &o };
    jw_obj(&j);
    jw_kraw(&j, "headers", n->headers.n ? n->headers : STR("{}"));
    jw_obj_end(&j);
    view_post(b, v, "Network.setExtraHTTPHeaders", buf_view(&o));
}

static void attach_all(struct browser *b)
{
    for (struct view *v = b->views; v; v = v->next)
        routes_attach(b, v);
}

void routes_clear(struct browser *b)
{
    struct routes *n = b->routes;

    for (struct rule *r; (r = n->rules);) {
        n->rules = r->next;
        arena_done(&r->arena);
        free(r);
    }
    for (struct scope *s; (s = n->scopes);) {
        n->scopes = s->next;
        arena_done(&s->arena);
        free(s);
    }
    free((char *)n->headers.p);
    n->headers = (struct str){ 0 };
    attach_all(b);
}

/* --- patterns --- */

static bool glob(const char *p, const char *pe, const char *t, const char *te, int depth);

/* p is behind an opening brace */
static bool glob_choice(const char *p, const char *pe, const char *t, const char *te, int depth)
{
    const char *close = memchr(p, '}', (size_t)(pe - p));

    if (!close)
        return false;
    while (p <= close) {
        const char *comma = memchr(p, ',', (size_t)(close - p)), *end = comma ? comma : close;
        size_t n = (size_t)(end - p);
        if ((size_t)(te - t) >= n && memcmp(p, t, n) == 0 && glob(close + 1, pe, t + n, te, depth + 1))
            return true;
        p = end + 1;
    }
    return false;
}

static bool glob(const char *p, const char *pe, const char *t, const char *te, int depth)
{
    if (depth > 64)
        return false;
    for (; p < pe; p++, t++) {
        if (*p == '*') {
            bool deep = p + 1 < pe && p[1] == '*';
            p += deep ? 2 : 1;
            if (deep && p < pe && *p == '/' &&
                glob(p + 1, pe, t, te, depth + 1)) /* "**" before a slash may be nothing */
                return true;
            for (;; t++) {
                if (glob(p, pe, t, te, depth + 1))
                    return true;
                if (t == te || (!deep && *t == '/'))
                    return false;
            }
        }
        if (*p == '{')
            return glob_choice(p + 1, pe, t, te, depth);
        if (t == te || *p != *t)
            return false;
    }
    return t == te;
}

bool browser_glob(struct str pattern, struct str text)
{
    return glob(pattern.p, pattern.p + pattern.n, text.p, text.p + text.n, 0);
}

/* --- what is done to requests --- */

static void print_header(struct jw *j, struct str name, struct str value)
{
    jw_obj(j);
    jw_kstr(j, "name", name);
    jw_kstr(j, "value", value);
    jw_obj_end(j);
}

static bool has_header(const struct pairs *list, struct str name)
{
    for (size_t i = 0; i < list->n; i++)
        if (list->v[i].name.n == name.n && strncasecmp(list->v[i].name.p, name.p, name.n) == 0)
            return true;
    return false;
}

static struct str header_of(const struct json *headers, const char *name)
{
    for (const struct json *k = headers ? headers->first : NULL; k; k = k->next)
        if (k->name.n == strlen(name) && strncasecmp(k->name.p, name, k->name.n) == 0)
            return k->s;
    return (struct str){ 0 };
}

static void fulfil(struct browser *b, const struct view *v, const struct json *p, const struct route *r)
{
    const struct json *asked = json_get(json_get(p, "request"), "headers");
    struct str origin = header_of(asked, "origin"), wants = header_of(asked, "access-control-request-method");
    AUTO(buf_done) struct buf o = { .cap = 2 * LIMIT_BROWSER_MOCK };
    struct jw j = { .out = &o };

    jw_obj(&j);
    jw_kstr(&j, "requestId", json_get_str(p, "requestId"));
    jw_kint(&j, "responseCode", wants.n ? 204 : r->status);
    jw_key(&j, "responseHeaders");
    jw_arr(&j);
    for (size_t i = 0; i < r->headers.n; i++)
        print_header(&j, r->headers.v[i].name, r->headers.v[i].value);
    if (!has_header(&r->headers, STR("content-type")) && r->content_type.n)
        print_header(&j, STR("Content-Type"), r->content_type);
    if (origin.n &&
        !has_header(&r->headers, STR("access-control-allow-origin"))) { /* a page of another origin may read it */
        print_header(&j, STR("Access-Control-Allow-Origin"), origin);
        print_header(&j, STR("Access-Control-Allow-Credentials"), STR("true"));
    }
    if (wants.n) {
        print_header(&j, STR("Access-Control-Allow-Methods"), wants);
        print_header(&j, STR("Access-Control-Allow-Headers"), header_of(asked, "access-control-request-headers"));
    }
    jw_arr_end(&j);
    jw_key(&j, "body");
    jw_base64(&j, wants.n ? STR("") : r->body.p ? r->body : STR(""));
    jw_obj_end(&j);
    view_post(b, v, "Fetch.fulfillRequest", buf_view(&o));
}

static void refuse(struct browser *b, const struct view *v, const struct json *p, const char *reason)
{
    AUTO(buf_done) struct buf o = { .cap = 4096 };
    struct jw j = { .out = &o };

    jw_obj(&j);
    jw_kstr(&j, "requestId", json_get_str(p, "requestId"));
    jw_kz(&j, "errorReason", reason);
    jw_obj_end(&j);
    view_post(b, v, "Fetch.failRequest", buf_view(&o));
}

static void let_go(struct browser *b, const struct view *v, const struct json *p, const struct scope *with)
{
    const struct json *asked = json_get(json_get(p, "request"), "headers");
    AUTO(buf_done) struct buf o = { .cap = 8 * LIMIT_BROWSER_HEADERS };
    struct jw j = { .out = &o };

    jw_obj(&j);
    jw_kstr(&j, "requestId", json_get_str(p, "requestId"));
    if (with) {
        jw_key(&j, "headers");
        jw_arr(&j);
        for (const struct json *k = asked ? asked->first : NULL; k; k = k->next)
            if (!has_header(&with->headers, k->name))
                print_header(&j, k->name, k->s);
        for (size_t i = 0; i < with->headers.n; i++)
            print_header(&j, with->headers.v[i].name, with->headers.v[i].value);
        jw_arr_end(&j);
    }
    jw_obj_end(&j);
    view_post(b, v, "Fetch.continueRequest", buf_view(&o));
}

static struct str origin_of(struct str url)
{
    const char *host = memmem(url.p, url.n, "://", 3);
    const char *slash = host ? memchr(host + 3, '/', url.n - (size_t)(host + 3 - url.p)) : NULL;

    return slash ? (struct str){ url.p, (size_t)(slash - url.p) } : url;
}

/* As the policies of browsers are written: [scheme://][.]host[:port][/path], or * for all. A host means what is below
 * it, too, unless a dot stands in front. */
static bool site_fits(struct str rule, struct str url)
{
    const char *sep = memmem(rule.p, rule.n, "://", 3), *at = memmem(url.p, url.n, "://", 3);

    if (str_is(rule, "*"))
        return true;
    if (!at)
        return false;
    if (sep) {
        size_t n = (size_t)(sep - rule.p);
        if (!(n == 1 && rule.p[0] == '*') && ((size_t)(at - url.p) != n || memcmp(url.p, rule.p, n) != 0))
            return false;
        rule = (struct str){ sep + 3, rule.n - n - 3 };
    }
    struct str rest = { at + 3, url.n - (size_t)(at + 3 - url.p) };
    size_t host = 0, want = 0;
    while (host < rest.n && !strchr("/:?#", rest.p[host]))
        host++;
    while (want < rule.n && !strchr("/:?#", rule.p[want]))
        want++;
    struct str name = { rule.p, want }, tail = { rule.p + want, rule.n - want };
    bool exact = name.n && name.p[0] == '.';
    name = exact ? (struct str){ name.p + 1, name.n - 1 } : name;
    if (!str_is(name, "*")) {
        if (name.n > host || memcmp(rest.p + host - name.n, name.p, name.n) != 0)
            return false;
        if (host > name.n && (exact || rest.p[host - name.n - 1] != '.'))
            return false;
    }
    struct str behind = { rest.p + host, rest.n - host };
    if (tail.n && tail.p[0] == ':') { /* the port, then the path */
        size_t n = 1;
        while (n < tail.n && tail.p[n] != '/')
            n++;
        if (behind.n < n || memcmp(behind.p, tail.p, n) != 0 || (behind.n > n && behind.p[n] != '/'))
            return false;
        tail = (struct str){ tail.p + n, tail.n - n };
        behind = (struct str){ behind.p + n, behind.n - n };
    } else if (behind.n && behind.p[0] == ':') {
        const char *slash = memchr(behind.p, '/', behind.n);
        behind = slash ? (struct str){ slash, behind.n - (size_t)(slash - behind.p) } : (struct str){ behind.p, 0 };
    }
    return behind.n >= tail.n && (!tail.n || memcmp(behind.p, tail.p, tail.n) == 0);
}

static bool is_closed(const struct routes *n, struct str url)
{
    bool closed = false;

    for (size_t i = 0; i < n->blocked.n; i++)
        closed |= site_fits(n->blocked.v[i], url);
    for (size_t i = 0; closed && i < n->allowed.n; i++)
        closed = !site_fits(n->allowed.v[i], url);
    return closed;
}

void route_event(struct browser *b, const struct view *v, const struct json *p)
{
    static const struct route empty = { .status = 200, .content_type = { "text/html", 9 } };
    struct routes *n = b->routes;
    struct str url = json_get_str(json_get(p, "request"), "url");

    if (!url.p)
        return;
    if (v->blank) {
        fulfil(b, v, p, &empty);
        return;
    }
    if (str_is(json_get_str(p, "resourceType"), "Document") && is_closed(n, url)) {
        refuse(b, v, p, "BlockedByClient");
        return;
    }
    for (const struct rule *r = n->rules; r; r = r->next)
        if (browser_glob(r->route.pattern, url)) {
            network_mocked(b, json_get_str(p, "networkId"));
            if (r->route.abort)
                refuse(b, v, p, "Failed");
            else
                fulfil(b, v, p, &r->route);
            return;
        }
    for (const struct scope *s = n->scopes; s; s = s->next)
        if (str_eq(s->origin, origin_of(url))) {
            let_go(b, v, p, s);
            return;
        }
    let_go(b, v, p, NULL);
}

/* --- rules --- */

static struct pairs copy_pairs(struct arena *a, const struct pairs *p)
{
    struct pairs c = { arena_alloc(a, p->n * sizeof *p->v + 1), p->n };

    for (size_t i = 0; i < p->n; i++)
        c.v[i] = (struct pair){ arena_copy(a, p->v[i].name), arena_copy(a, p->v[i].value) };
    return c;
}

static int check_headers(const struct pairs *h, struct err *e)
{
    size_t bytes = 0;

    for (size_t i = 0; i < h->n; i++) {
        struct pair p = h->v[i];
        bytes += p.name.n + p.value.n;
        for (size_t k = 0; k < p.name.n; k++)
            if (p.name.p[k] <= ' ' || p.name.p[k] == ':' || p.name.p[k] == 0x7f)
                return err_set(e, ERR_INVALID, "headers: '%.*s' is no name of a header",
                               (int)(p.name.n < 60 ? p.name.n : 60), p.name.p);
        if (!p.name.n || memchr(p.value.p ? p.value.p : "", '\n', p.value.n) ||
            memchr(p.value.p ? p.value.p : "", '\r', p.value.n))
            return err_set(e, ERR_INVALID, "headers: a name is empty, or a value has more than one line");
    }
    if (bytes > LIMIT_BROWSER_HEADERS)
        return err_set(e, ERR_LIMIT, "headers: more than LIMIT_BROWSER_HEADERS (%ld bytes)", LIMIT_BROWSER_HEADERS);
    return 0;
}

size_t browser_routes(const struct browser *b)
{
    size_t n = 0;

    for (const struct rule *r = b->routes->rules; r; r = r->next)
        n++;
    return n;
}

int browser_route(struct browser *b, const struct route *r, struct err *e)
{
    int bad = check_headers(&r->headers, e);

    if (bad < 0)
        return bad;
    if (browser_routes(b) >= LIMIT_BROWSER_ROUTES)
        return err_set(e, ERR_LIMIT, "there are LIMIT_BROWSER_ROUTES (%d) routes", LIMIT_BROWSER_ROUTES);
    struct rule *x = calloc(1, sizeof *x);
    if (!x)
        abort();
    x->route = (struct route){ .pattern = arena_copy(&x->arena, r->pattern),
                               .body = arena_copy(&x->arena, r->body),
                               .content_type = arena_copy(&x->arena, r->content_type),
                               .headers = copy_pairs(&x->arena, &r->headers),
                               .status = r->status,
                               .abort = r->abort };
    x->next = b->routes->rules;
    b->routes->rules = x;
    attach_all(b);
    return 0;
}

size_t browser_unroute(struct browser *b, struct str pattern)
{
    size_t n = 0;

    for (struct rule **at = &b->routes->rules; *at;) {
        struct rule *r = *at;
        if (pattern.p && !str_eq(r->route.pattern, pattern)) {
            at = &r->next;
            continue;
        }
        *at = r->next;
        arena_done(&r->arena);
        free(r);
        n++;
    }
    attach_all(b);
    return n;
}

static void set_for_all(struct routes *n, const struct pairs *headers)
{
    AUTO(buf_done) struct buf o = { .cap = 2 * LIMIT_BROWSER_HEADERS };
    struct jw j = { .out = &o };

    jw_obj(&j);
    for (size_t i = 0; i < headers->n; i++) {
        jw_key_str(&j, headers->v[i].name);
        jw_str(&j, headers->v[i].value.p ? headers->v[i].value : STR(""));
    }
    jw_obj_end(&j);
    free((char *)n->headers.p);
    char *copy = strndup(o.p, o.n);
    n->headers = str_of(copy);
}

int browser_headers(struct browser *b, struct str origin, const struct pairs *headers, struct err *e)
{
    struct routes *n = b->routes;
    size_t count = 0;
    int bad = check_headers(headers, e);

    if (bad < 0)
        return bad;
    if (!origin.n) {
        set_for_all(n, headers);
        attach_all(b);
        return 0;
    }
    if (!memmem(origin.p, origin.n, "://", 3))
        return err_set(e, ERR_INVALID, "origin: '%.*s' is none, such as https://example.org",
                       (int)(origin.n < 100 ? origin.n : 100), origin.p);
    origin = origin_of(origin);
    for (struct scope **at = &n->scopes; *at;) {
        struct scope *s = *at;
        count++;
        if (!str_eq(s->origin, origin)) {
            at = &s->next;
            continue;
        }
        *at = s->next;
        arena_done(&s->arena);
        free(s);
    }
    if (headers->n && count >= LIMIT_BROWSER_ROUTES)
        return err_set(e, ERR_LIMIT, "LIMIT_BROWSER_ROUTES (%d) origins have headers of their own",
                       LIMIT_BROWSER_ROUTES);
    if (headers->n) {
        struct scope *s = calloc(1, sizeof *s);
        if (!s)
            abort();
        s->origin = arena_copy(&s->arena, origin);
        s->headers = copy_pairs(&s->arena, headers);
        s->next = n->scopes;
        n->scopes = s;
    }
    attach_all(b);
    return 0;
}

static struct strs copy_strs(struct arena *a, const struct strs *s)
{
    struct strs c = { arena_alloc(a, s->n * sizeof *s->v + 1), s->n };

    for (size_t i = 0; i < s->n; i++)
        c.v[i] = arena_copy(a, s->v[i]);
    return c;
}

int browser_sites(struct browser *b, const struct strs *blocked, const struct strs *allowed, struct err *e)
{
    struct routes *n = b->routes;

    for (size_t i = 0; i < blocked->n + allowed->n; i++) {
        struct str s = i < blocked->n ? blocked->v[i] : allowed->v[i - blocked->n];
        if (!s.n || s.n > 2048)
            return err_set(e, ERR_INVALID, "%s: a site is empty or longer than 2048 bytes",
                           i < blocked->n ? "url_blocklist" : "url_allowlist");
    }
    arena_done(&n->sites);
    n->sites = (struct arena){ 0 };
    n->blocked = copy_strs(&n->sites, blocked);
    n->allowed = copy_strs(&n->sites, allowed);
    attach_all(b);
    return 0;
}

int browser_visit(struct hand *h, struct browser *b, struct str origin, struct err *e)
{
    int64_t status;

    if (!b->at)
        return err_set(e, ERR_SYSTEM, "the tab is gone");
    b->at->blank = true;
    routes_attach(b, b->at);
    int n = browser_goto(h, b, str_of(arena_printf(h->arena, "%.*s/", STR_ARG(origin))), "load", h->deadline_ms,
                         &status, e);
    if (b->at) {
        b->at->blank = false;
        routes_attach(b, b->at);
    }
    return n;
}

#include "surface/door.h"

#include <ctype.h>
#include <stdio.h>
#include <strings.h>

#include "base/limits.h"
#include "surface/aio.h"
#include "surface/mcp.h"
#include "surface/page.h"
#include "surface/place.h"
#include "surface/proxy.h"

/* Browsers take the second only over TLS and from its very host: a page on a sibling's name can set the first for the
 * domain that both share. */
#define COOKIE      "sandglass_ticket"
#define HOST_COOKIE "__Host-" COOKIE

enum { ALSO_MAX = 12 };

/* --- what every answer carries --- */

static void also(struct web *w, const char *name, const char *value)
{
    struct pairs *p = &w->http->also;

    if (!p->v)
        p->v = arena_alloc(w->http->arena, ALSO_MAX * sizeof *p->v);
    if (p->n < ALSO_MAX)
        p->v[p->n++] = (struct pair){ str_of(name), str_of(value) };
}

static bool is_request_id(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (!isalnum((unsigned char)s.p[i]) && s.p[i] != '-' && s.p[i] != '_' && s.p[i] != '.')
            return false;
    return s.n > 0 && s.n < sizeof((struct web *)0)->request_id;
}

/* The Referrer-Policy matters: a ticket stands in the URL of the page that it opened. */
void door_greet(struct web *w)
{
    struct str given = http_header(w->http, "x-request-id");
    const struct door_opts *o = surfaces_door(w->all);

    if (is_request_id(given)) {
        memcpy(w->request_id, given.p, given.n);
    } else {
        char uuid[37];
        web_uuid(uuid);
        memcpy(w->request_id, uuid, sizeof uuid);
    }
    also(w, "X-Request-Id", w->request_id);
    w->parent = http_header(w->http, "traceparent");
    also(w, "X-Content-Type-Options", "nosniff");
    also(w, "X-Frame-Options", "SAMEORIGIN");
    also(w, "Referrer-Policy", "no-referrer");
    if (o->tls)
        also(w, "Strict-Transport-Security", "max-age=31536000");
}

/* --- other sites --- */

static bool in_list(const char *list, struct str word)
{
    while (*list) {
        size_t n = strcspn(list, " ,");
        if (n == word.n && strncasecmp(list, word.p, n) == 0)
            return true;
        list += n + strspn(list + n, " ,");
    }
    return false;
}

static struct str without(struct str s, const char *tail)
{
    size_t n = strlen(tail);

    if (s.n > n && memcmp(s.p + s.n - n, tail, n) == 0)
        s.n -= n;
    return s;
}

static bool is_own_origin(const struct http_request *r, struct str origin)
{
    struct str host = http_header(r, "host");
    bool tls = origin.n > 8 && strncasecmp(origin.p, "https://", 8) == 0;

    if (!tls && !(origin.n > 7 && strncasecmp(origin.p, "http://", 7) == 0)) /* "null", extensions, files */
        return false;
    const char *port = tls ? ":443" : ":80";
    size_t scheme = tls ? 8 : 7;
    origin = without((struct str){ origin.p + scheme, origin.n - scheme }, port);
    host = without(host, port);
    return origin.n == host.n && strncasecmp(origin.p, host.p, host.n) == 0;
}

static bool changes_something(const struct http_request *r)
{
    bool reads = str_is(r->method, "GET") || str_is(r->method, "HEAD") || str_is(r->method, "OPTIONS");
    return !reads || http_header(r, "upgrade").n; /* a WebSocket begins with a GET */
}

/* What pages of a box read of their own server is that server's business. By path they are sandboxed, so that their
 * scripts, fonts and fetches come from "null"; by host they have names, one for each port. */
static bool is_of_the_box(const struct web *w, struct str origin)
{
    struct place at;

    if (w->route != &proxy_route || changes_something(w->http) || !place_find(w, &at))
        return false;
    /* Any site can make frames of "null". To come in by host they must know a box's name, which no outsider does; by
     * path the server's CORS headers are dropped, so that such a frame cannot read what it gets. */
    if (str_is(origin, "null"))
        return at.form == BY_HOST ? at.box.n > 0 : !at.app;
    const char *slashes = at.form == BY_HOST ? memmem(origin.p, origin.n, "://", 3) : NULL;
    if (!slashes)
        return false;
    struct str host = { slashes + 3, origin.n - (size_t)(slashes + 3 - origin.p) };
    return place_is_same_box(w, &at, host);
}

static void allow(struct web *w, struct str origin, bool any)
{
    also(w, "Access-Control-Allow-Origin", any ? "*" : arena_z(w->http->arena, origin));
    also(w, "Vary", "Origin");
    if (!any)
        also(w, "Access-Control-Allow-Credentials", "true");
    also(w, "Access-Control-Expose-Headers", "X-Request-Id, Retry-After, Mcp-Session-Id, Mcp-Protocol-Version");
}

static void answer_preflight(struct web *w)
{
    struct str asked = http_header(w->http, "access-control-request-headers");

    also(w, "Access-Control-Allow-Methods", "GET, HEAD, POST, PUT, PATCH, DELETE");
    if (asked.n && asked.n < 1024)
        also(w, "Access-Control-Allow-Headers", arena_z(w->http->arena, asked));
    also(w, "Access-Control-Max-Age", "600");
    http_reply(w->http, 204, NULL, STR(""));
}

/* What stands against a request; status 0: nothing. */
struct verdict {
    int status;
    const char *text;
};

/* A browser says where a page came from that sends a request, or that wants to read its answer. Only our own pages, and
 * those of cors.origins, may: any other site could else use a browser on this machine to drive a server that listens
 * on loopback. Who is no browser sends no Origin. */
static struct verdict of_origin(const struct web *w, bool *ret_allowed, bool *ret_any)
{
    const struct http_request *r = w->http;
    const char *list = surfaces_door(w->all)->cors_origins;
    struct str origin = http_header(r, "origin");

    *ret_allowed = *ret_any = false;
    if (!origin.p || is_own_origin(r, origin))
        return (struct verdict){ 0 };
    *ret_any = strcmp(list, "*") == 0;
    *ret_allowed = *ret_any || in_list(list, origin);
    if (*ret_allowed || is_of_the_box(w, origin))
        return (struct verdict){ 0 };
    return (struct verdict){ 403, arena_printf(r->arena,
                                               "a page of '%.*s' may not use this server: its Origin is not this "
                                               "server's Host, and the setting cors.origins does not list it",
                                               (int)(origin.n < 200 ? origin.n : 200), origin.p) };
}

/* --- credentials --- */

static struct str bearer(const struct http_request *r)
{
    struct str v = http_header(r, "authorization");

    if (v.n < 8 || strncasecmp(v.p, "bearer ", 7) != 0)
        return (struct str){ 0 };
    v = (struct str){ v.p + 7, v.n - 7 };
    while (v.n && v.p[0] == ' ')
        v = (struct str){ v.p + 1, v.n - 1 };
    return v;
}

bool door_is_tls(const struct web *w)
{
    return surfaces_door(w->all)->tls || str_is(http_header(w->http, "x-forwarded-proto"), "https");
}

static bool cookie_is(struct str one, const char *name)
{
    size_t n = strlen(name);

    return one.n > n && memcmp(one.p, name, n) == 0 && one.p[n] == '=';
}

/* The next of a Cookie header's value; empty: between two semicolons. */
static struct str cut_cookie(struct str *all)
{
    const char *end = memchr(all->p, ';', all->n);
    struct str one = { all->p, end ? (size_t)(end - all->p) : all->n };

    all->p += one.n + (end != NULL);
    all->n -= one.n + (end != NULL);
    while (one.n && (one.p[0] == ' ' || one.p[0] == '\t'))
        one = (struct str){ one.p + 1, one.n - 1 };
    return one;
}

static struct str cookie(const struct web *w, const char *name)
{
    struct str all = http_header(w->http, "cookie");
    size_t n = strlen(name) + 1;

    while (all.n) {
        struct str one = cut_cookie(&all);
        if (cookie_is(one, name))
            return (struct str){ one.p + n, one.n - n };
    }
    return (struct str){ 0 };
}

static struct str our_cookie(const struct web *w)
{
    struct str safe = cookie(w, HOST_COOKIE);

    return safe.p || door_is_tls(w) ? safe : cookie(w, COOKIE);
}

struct str door_ticket_of(const struct web *w)
{
    struct str in_url = http_query(w->http, "ticket");
    return in_url.n ? in_url : our_cookie(w);
}

struct str door_without_ticket(const struct web *w, struct str cookies)
{
    char *left = arena_alloc(w->http->arena, cookies.n * 2 + 2); /* a blank behind each semicolon */
    size_t used = 0;

    while (cookies.n) {
        struct str one = cut_cookie(&cookies);
        if (!one.n || cookie_is(one, COOKIE) || cookie_is(one, HOST_COOKIE))
            continue;
        if (used) {
            memcpy(left + used, "; ", 2);
            used += 2;
        }
        memcpy(left + used, one.p, one.n);
        used += one.n;
    }
    return (struct str){ left, used };
}

/* Where a proxy asks whether it may let a request through, the request's own URL is in a header. */
static struct str ticket_of_original(const struct http_request *r)
{
    struct str uri = http_header(r, "x-original-uri");
    const char *q = uri.n ? memchr(uri.p, '?', uri.n) : NULL;
    struct http_request as = *r;

    if (!q)
        return (struct str){ 0 };
    as.query = (struct str){ q + 1, uri.n - (size_t)(q + 1 - uri.p) };
    return http_query(&as, "ticket");
}

static struct credentials credentials(const struct web *w)
{
    const struct http_request *r = w->http;
    struct credentials c = { .bearer = bearer(r), .peer_uid = r->peer_uid };
    struct str origin = http_header(r, "origin");

    c.api_key = http_header(r, "x-aio-api-key");
    if (!c.api_key.n)
        c.api_key = http_header(r, "x-api-key");
    if (r->query.n) {
        c.ticket = http_query(r, "ticket");
        if (!c.api_key.n)
            c.api_key = http_query(r, "api_key");
    }
    if (!c.ticket.n && str_is(w->path, "/auth"))
        c.ticket = ticket_of_original(r);
    /* A browser sends it by itself, also for a page of another port of this host: such a page shows its Origin. */
    if (!origin.p || is_own_origin(r, origin))
        c.cookie = our_cookie(w);
    return c;
}

bool door_came_by_ticket(const struct web *w)
{
    return strcmp(w->who.how, "ticket") == 0 || strcmp(w->who.how, "page") == 0;
}

static void set_cookie(struct web *w, struct str ticket)
{
    bool tls = door_is_tls(w);

    also(w, "Set-Cookie",
         arena_printf(w->http->arena, "%s=%.*s; Path=/; HttpOnly; SameSite=Strict%s", tls ? HOST_COOKIE : COOKIE,
                      STR_ARG(ticket), tls ? "; Secure" : ""));
}

void door_keep_page(struct web *w, const char *box)
{
    struct pairs *p = &w->http->also;
    size_t n = 0;
    bool is_page = strcmp(w->who.how, "page") == 0;

    for (size_t i = 0; i < p->n; i++) /* what the door remembered is good for more than this box */
        if (!str_is(p->v[i].name, "Set-Cookie"))
            p->v[n++] = p->v[i];
    p->n = n;
    set_cookie(w, is_page ? door_ticket_of(w)
                          : access_page_ticket(surfaces_door(w->all)->access, &w->who, box, w->http->arena));
}

/* A page that was opened with a ticket loads its scripts and sockets without it: from now on the browser remembers. */
static void remember(struct web *w, const struct credentials *c)
{
    if (!c->ticket.n || !door_came_by_ticket(w) || !str_is(w->http->method, "GET") ||
        http_header(w->http, "upgrade").n || str_is(w->path, "/auth"))
        return;
    set_cookie(w, c->ticket);
}

static void refuse(struct web *w, int status, const char *text)
{
    if (page_wanted(w) && status == 401 && page_is_ours(w))
        page_login(w, text);
    else if (page_wanted(w))
        page_say(w, status, status == 401 ? "Who are you?" : "Not allowed", text);
    else if (mcp_is_route(w->route))
        mcp_refuse(w, status, MCP_REQUEST, text);
    else if (w->op || aio_is_path(w->path))
        aio_error(w, status, "%s", status == 401 ? "Unauthorized" : text);
    else
        web_plain(w, status, ERR_DENIED, text);
}

/* Finds who it is. */
static struct verdict of_sender(struct web *w, struct credentials *c)
{
    const struct route *route = w->route;
    struct err e;

    *c = credentials(w);
    if (access_check(surfaces_door(w->all)->access, c, &w->who, &e) == ACCESS_FINE) {
        struct tenant *t = tenant_get(w->node, str_of(w->who.tenant), &e);
        if (!t)
            return (struct verdict){ 403, arena_printf(w->http->arena, "%s", e.msg) };
        w->tenant = t;
        memcpy(w->who.tenant, t->name, sizeof w->who.tenant);
        return (struct verdict){ 0 };
    }
    w->who = (struct who){ .how = "none" };
    if (route && route->flags & ROUTE_PUBLIC)
        return (struct verdict){ 0 };
    return (struct verdict){ 401, arena_printf(w->http->arena, "%s", e.msg) };
}

/* --- what one may --- */

static unsigned wanted(const struct web *w, const struct route *r)
{
    if (r->flags & ROUTE_PUBLIC)
        return 0;
    if (r->flags & ROUTE_ADMIN)
        return MAY_ADMIN;
    if (r->flags & ROUTE_MANAGE)
        return MAY_MANAGE;
    if (r->flags & ROUTE_EXECUTE)
        return MAY_EXECUTE;
    if (r->flags & ROUTE_READ || str_is(w->http->method, "GET") || str_is(w->http->method, "HEAD"))
        return MAY_READ;
    return MAY_EXECUTE;
}

static struct verdict of_role(const struct web *w)
{
    static const char *const names[] = {
        [MAY_READ] = "read", [MAY_EXECUTE] = "execute", [MAY_MANAGE] = "manage", [MAY_ADMIN] = "admin"
    };
    const struct route *r = w->route;
    unsigned want = r ? wanted(w, r) : 0;

    if (want & ~w->who.may)
        return (struct verdict){ 403, arena_printf(w->http->arena,
                                                   "the role '%s' may not do this: it asks for the scope '%s'",
                                                   role_name(w->who.role), names[want]) };
    if (r && r->flags & (ROUTE_TENANT | ROUTE_SERVER) && w->who.box[0])
        return (struct verdict){ 403,
                                 arena_printf(w->http->arena, "this is not for a token of one box (%s)", w->who.box) };
    if (r && r->flags & ROUTE_SERVER && !w->tenant->is_default)
        return (struct verdict){ 403, "this is the server's own business: only the tenant 'default' may do it" };
    return (struct verdict){ 0 };
}

/* --- all of it --- */

bool door_is_shut(struct web *w)
{
    struct credentials c;
    bool allowed, any;

    w->shut = of_origin(w, &allowed, &any).status || of_sender(w, &c).status || of_role(w).status;
    return w->shut;
}

bool door_turned_away(struct web *w)
{
    struct str origin = http_header(w->http, "origin");
    struct credentials c;
    bool allowed, any;
    struct verdict v = of_origin(w, &allowed, &any);

    if (v.status) {
        refuse(w, v.status, v.text);
        return true;
    }
    if (allowed)
        allow(w, origin, any);
    if (allowed && str_is(w->http->method, "OPTIONS") && http_header(w->http, "access-control-request-method").n) {
        answer_preflight(w);
        return true;
    }
    v = of_sender(w, &c);
    if (!v.status) {
        remember(w, &c);
        v = of_role(w);
    }
    if (!v.status && w->shut) /* it was when the head came, so that there is no body to go on with */
        v = (struct verdict){ 401, "the credentials were not valid yet; try again" };
    if (v.status == 401)
        also(w, "WWW-Authenticate", "Bearer");
    if (v.status)
        refuse(w, v.status, v.text);
    return v.status != 0;
}

/* --- tickets --- */

static void ticket_create(struct web *w)
{
    struct str ticket;
    int64_t ttl;
    struct err e;
    struct buf b;
    struct jw j = { .out = &b };

    if (access_ticket(surfaces_door(w->all)->access, &w->who, w->http->arena, &ticket, &ttl, &e) < 0) {
        refuse(w, 403, e.msg);
        return;
    }
    buf_init(&b, 8192);
    jw_obj(&j);
    jw_kstr(&j, "ticket", ticket);
    jw_kint(&j, "expires_in", ttl);
    jw_obj_end(&j);
    also(w, "Cache-Control", "no-store");
    web_send(w, 200, &b);
}

/* For a proxy before us: the door has looked at the credentials already. */
static void auth(struct web *w)
{
    struct buf b;
    struct jw j = { .out = &b };

    buf_init(&b, 4096);
    jw_obj(&j);
    jw_kz(&j, "status", "ok");
    jw_kz(&j, "tenant", w->who.tenant);
    jw_kz(&j, "role", role_name(w->who.role));
    jw_kz(&j, "subject", w->who.subject);
    jw_kz(&j, "how", w->who.how);
    if (w->who.box[0])
        jw_kz(&j, "box", w->who.box);
    jw_obj_end(&j);
    web_send(w, 200, &b);
}

const struct route door_routes[] = {
    { "POST", "/tickets", ticket_create, ROUTE_READ },
    { "GET", "/auth", auth, 0 },
    { 0 },
};

#include "surface/place.h"

#include <stdio.h>
#include <strings.h>

#include "surface/door.h"

static const struct app apps[] = {
    { "cdp", "browser:", "browser:info", "{}", .urls = true },
    { "json", "browser:", "browser:info", "{}", .urls = true, .keeps_prefix = true }, /* what some clients ask for */
    { "code-server", "app:code-server", "app:start", "{\"name\":\"code-server\"}", .pages = true },
    { "jupyter", "app:jupyter", "app:start", "{\"name\":\"jupyter\"}", .pages = true, .keeps_prefix = true },
    { 0 },
};

static bool all_digits(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] < '0' || s.p[i] > '9')
            return false;
    return s.n > 0 && s.n <= 5;
}

/* The target as it was sent, with its escapes, behind the prefix. A prefix that is written with escapes is not ours. */
static bool behind(const struct web *w, struct place *ret)
{
    const char *at = memmem(w->http->target.p, w->http->target.n, ret->prefix.p, ret->prefix.n);

    if (!at)
        return false;
    at += ret->form == BY_ABS_PATH || (ret->app && ret->app->keeps_prefix) ? 0 : ret->prefix.n;
    ret->target = (struct str){ at, (size_t)(w->http->target.p + w->http->target.n - at) };
    return true;
}

static bool by_path(const struct web *w, const char *prefix, struct place *ret)
{
    size_t n = strlen(prefix);

    if (w->path.n <= n || memcmp(w->path.p, prefix, n) != 0)
        return false;
    const char *from = w->path.p + n, *end = w->path.p + w->path.n;
    const char *slash = memchr(from, '/', (size_t)(end - from));
    ret->port = (struct str){ from, (size_t)((slash ? slash : end) - from) };
    ret->prefix = (struct str){ w->path.p, n + ret->port.n };
    return all_digits(ret->port) && behind(w, ret);
}

static bool app_by_path(const struct web *w, struct place *ret)
{
    for (const struct app *a = apps; a->name; a++) {
        size_t n = strlen(a->name) + 1;
        if (w->path.n < n || memcmp(w->path.p + 1, a->name, n - 1) != 0 || (w->path.n > n && w->path.p[n] != '/'))
            continue;
        *ret = (struct place){ .form = BY_PATH, .app = a, .prefix = { w->path.p, n } };
        return behind(w, ret);
    }
    return false;
}

bool place_is_below(struct str host, const char *domain)
{
    size_t n = strlen(domain);

    return n && host.n > n + 1 && host.p[host.n - n - 1] == '.' && strncasecmp(host.p + host.n - n, domain, n) == 0;
}

static struct str without_port(struct str host)
{
    const char *colon = host.n ? memrchr(host.p, ':', host.n) : NULL;

    if (colon && !memchr(colon, ']', host.n - (size_t)(colon - host.p)))
        host.n = (size_t)(colon - host.p);
    return host;
}

bool place_is_named(struct str host, const char *names)
{
    while (*names) {
        size_t n = strcspn(names, " ,");
        if (n && n == host.n && strncasecmp(names, host.p, n) == 0)
            return true;
        names += n + strspn(names + n, " ,");
    }
    return false;
}

bool place_is_port_of(struct str host, const char *names, struct place *ret)
{
    struct str name = without_port(host);
    const char *dash = name.n ? memchr(name.p, '-', name.n) : NULL;

    if (!dash || place_is_named(name, names))
        return false;
    struct str port = { name.p, (size_t)(dash - name.p) }, domain = { dash + 1, name.n - port.n - 1 };
    if (!all_digits(port) || (!place_is_named(domain, "localhost") && !place_is_named(domain, names)))
        return false;
    *ret = (struct place){ .form = BY_HOST, .port = port, .domain = { domain.p, host.n - port.n - 1 } };
    return true;
}

/* "8000-b-abc.localhost:8080", "jupyter-b-abc.localhost:8080" */
static bool named_by(const struct web *w, struct str host, struct place *ret)
{
    const char *domain = surfaces_door(w->all)->box_domain;
    size_t n;

    host = without_port(host);
    if (place_is_below(host, "localhost"))
        host.n -= strlen(".localhost");
    else if (place_is_below(host, domain))
        host.n -= strlen(domain) + 1;
    else
        return false;
    *ret = (struct place){ .form = BY_HOST, .target = w->http->target };
    for (const struct app *a = apps; a->name; a++) {
        n = strlen(a->name);
        if (a->pages && host.n > n + 1 && host.p[n] == '-' && strncasecmp(host.p, a->name, n) == 0) {
            ret->app = a;
            ret->box = (struct str){ host.p + n + 1, host.n - n - 1 };
            return true;
        }
    }
    const char *dash = memchr(host.p, '-', host.n);
    if (!dash)
        return false;
    ret->port = (struct str){ host.p, (size_t)(dash - host.p) };
    ret->box = (struct str){ dash + 1, host.n - ret->port.n - 1 };
    return all_digits(ret->port) && ret->box.n;
}

static bool by_host(const struct web *w, struct str host, struct place *ret)
{
    if (named_by(w, host, ret))
        return true;
    if (!place_is_port_of(host, surfaces_door(w->all)->host_names, ret))
        return false;
    ret->target = w->http->target;
    return true;
}

bool place_is_same_box(const struct web *w, const struct place *at, struct str host)
{
    struct place of;
    struct str want = at->box.n ? at->box : at->domain;

    if (!want.n || !by_host(w, host, &of))
        return false;
    struct str is = at->box.n ? of.box : of.domain;
    return is.n == want.n && strncasecmp(is.p, want.p, is.n) == 0;
}

bool place_find(const struct web *w, struct place *ret)
{
    if (by_host(w, http_header(w->http, "host"), ret))
        return true;
    *ret = (struct place){ .form = BY_HEADER, .port = http_header(w->http, "x-aio-proxy-port") };
    ret->target =
        (struct str){ w->http->target.p + w->base.n, w->http->target.n - w->base.n }; /* "/box/{id}" is ours */
    if (ret->port.n && all_digits(ret->port))
        return true;
    *ret = (struct place){ .form = BY_PATH };
    if (by_path(w, "/proxy/", ret))
        return true;
    *ret = (struct place){ .form = BY_ABS_PATH };
    return by_path(w, "/absproxy/", ret) || app_by_path(w, ret);
}

void place_each(void (*cb)(void *arg, const char *pattern), void *arg)
{
    char pattern[64];

    cb(arg, "/proxy/{port}/{rest*}");
    cb(arg, "/absproxy/{port}/{rest*}");
    for (const struct app *a = apps; a->name; a++) {
        snprintf(pattern, sizeof pattern, "/%s/{rest*}", a->name);
        cb(arg, pattern);
    }
}

static bool is_loopback(struct str host)
{
    return (host.n == 9 && strncasecmp(host.p, "localhost", 9) == 0) || str_is(host, "[::1]") ||
           (host.n > 4 && memcmp(host.p, "127.", 4) == 0) || place_is_below(host, "localhost");
}

/* A browser finds names below localhost on its own machine; others are found if the administrator says so. */
struct str place_own_origin(const struct web *w, const struct app *a, const char *box)
{
    const struct door_opts *door = surfaces_door(w->all);
    struct str all = http_header(w->http, "host"), host = without_port(all);
    const char *domain = host.n && is_loopback(host) ? "localhost" : door->box_domain;

    if (!host.n || !domain[0])
        return (struct str){ 0 };
    return str_of(arena_printf(w->http->arena, "%s://%s-%s.%s%.*s", door_is_tls(w) ? "https" : "http", a->name, box,
                               domain, (int)(all.n - host.n), all.p + host.n));
}

static bool begins(struct str s, const char *with)
{
    return s.n >= strlen(with) && memcmp(s.p, with, strlen(with)) == 0;
}

void place_add_query(struct buf *b, struct str target)
{
    const char *query = target.n ? memchr(target.p, '?', target.n) : NULL;
    struct str rest = query ? (struct str){ query + 1, target.n - (size_t)(query + 1 - target.p) } : STR("");
    char mark = '?';

    while (rest.n) {
        const char *amp = memchr(rest.p, '&', rest.n);
        struct str pair = { rest.p, amp ? (size_t)(amp - rest.p) : rest.n };
        rest = (struct str){ pair.p + pair.n + (amp != NULL), rest.n - pair.n - (amp != NULL) };
        if (!pair.n || begins(pair, "ticket=") || begins(pair, "api_key="))
            continue;
        buf_char(b, mark);
        buf_str(b, pair);
        mark = '&';
    }
}

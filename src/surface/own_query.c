/* What our own routes take in a URL: as in a body, what nobody knows or what is of another type is an error that names
 * it. A route lists its parameters as words, "after:n limit:n tag", with the type behind a colon: n a number from 0 on,
 * x any number, b yes or no. What proves who asks is taken by every route; door.c has looked at it. */
#include <errno.h>
#include <stdlib.h>

#include "surface/surface.h"

#define OWN_PREFIX "/sg/v1/"

/* The letter of its type, '-' for a text, 0: the route has no such parameter. */
static char type_of(const char *list, struct str name)
{
    while (list && *list) {
        size_t n = strcspn(list, ": "), whole = strcspn(list, " ");
        if (n == name.n && memcmp(list, name.p, n) == 0)
            return n < whole ? list[n + 1] : '-';
        list += whole + strspn(list + whole, " ");
    }
    return 0;
}

bool own_query_flag(struct str s)
{
    return str_is(s, "1") || str_is(s, "true");
}

static const char *not_a(char type, struct str value, const char *z)
{
    char *end;

    errno = 0;
    switch (type) {
    case 'n':
        if (!value.n || strspn(z, "0123456789") != value.n || strtoll(z, &end, 10) < 0 || errno)
            return "a number from 0 on";
        return NULL;
    case 'x':
        if (!value.n || strspn(z, "0123456789+-.eE") != value.n || (strtod(z, &end), *end) || errno)
            return "a number";
        return NULL;
    case 'b': return own_query_flag(value) || str_is(value, "0") || str_is(value, "false") ? NULL : "0 or 1";
    }
    return memchr(z, 0, value.n) ? "a text without NUL bytes" : NULL;
}

static const char *names(const struct web *w)
{
    struct buf b;

    if (!w->route->query)
        return "is none";
    buf_init(&b, 4096);
    buf_printf(&b, "are ");
    for (const char *p = w->route->query; *p; p++) {
        if (*p == ':')
            p += 2;
        if (*p == ' ')
            buf_char(&b, ',');
        if (*p)
            buf_char(&b, *p);
        else
            break;
    }
    const char *text = arena_z(w->http->arena, buf_view(&b));
    buf_done(&b);
    return text;
}

bool own_query_fits(struct web *w)
{
    const struct http_request *r = w->http;
    struct pair p, other;

    if (strncmp(w->route->pattern ? w->route->pattern : "", OWN_PREFIX, strlen(OWN_PREFIX)) != 0)
        return true;
    for (size_t at = 0; http_query_next(r, &at, &p);) {
        if (str_is(p.name, "ticket") || str_is(p.name, "api_key"))
            continue;
        char type = type_of(w->route->query, p.name);
        const char *z = arena_z(r->arena, p.value), *wrong = type ? not_a(type, p.value, z) : NULL;
        int n = (int)(p.name.n < 64 ? p.name.n : 64);
        if (!type) {
            web_error(w, 400, ERR_INVALID, "unknown parameter '%.*s' in the URL; there %s", n, p.name.p, names(w));
            return false;
        }
        if (wrong) {
            web_error(w, 400, ERR_TYPE, "%.*s: '%.64s' in the URL is not %s", n, p.name.p, z, wrong);
            return false;
        }
        for (size_t next = at; http_query_next(r, &next, &other);)
            if (str_eq(other.name, p.name)) {
                web_error(w, 400, ERR_INVALID, "%.*s: twice in the URL", n, p.name.p);
                return false;
            }
    }
    return true;
}

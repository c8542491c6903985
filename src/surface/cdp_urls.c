/* A browser that is asked under the name "localhost" builds every address with it. These, and nothing else, are
 * replaced as text: what comes from a box is not parsed here. */
#include "surface/door.h"
#include "surface/place.h"

/* A box that a header or a token named is named by its path here: a tool that connects may send neither. */
static struct str cdp_base(const struct web *w)
{
    struct str host = http_header(w->http, "host"), box = w->base;

    if (!box.n && w->box_name.n)
        box = str_of(arena_printf(w->http->arena, "/box/%.*s", STR_ARG(w->box_name)));
    return str_of(
        arena_printf(w->http->arena, "%s://%.*s%.*s/cdp", door_is_tls(w) ? "wss" : "ws", STR_ARG(host), STR_ARG(box)));
}

/* Whoever came with a ticket in the URL connects with it, too: such a client can often set no header. */
static struct str credentials(const struct web *w)
{
    struct str ticket = http_query(w->http, "ticket"), key = http_query(w->http, "api_key");

    if (ticket.n)
        return str_of(arena_printf(w->http->arena, "?ticket=%.*s", STR_ARG(ticket)));
    if (key.n)
        return str_of(arena_printf(w->http->arena, "?api_key=%.*s", STR_ARG(key)));
    return STR("");
}

struct str cdp_address(const struct web *w, struct str path)
{
    return str_of(
        arena_printf(w->http->arena, "%.*s%.*s%.*s", STR_ARG(cdp_base(w)), STR_ARG(path), STR_ARG(credentials(w))));
}

/* Is it plain enough to stand in a JSON text as it is? */
static bool is_plain(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] <= ' ' || s.p[i] == '"' || s.p[i] == '\\' || s.p[i] == 0x7f)
            return false;
    return true;
}

void cdp_urls(const struct web *w, struct str text, struct buf *out)
{
    static const char host[] = "localhost/devtools/", socket[] = "ws://", param[] = "?ws=";
    struct str base = cdp_base(w), proof = credentials(w);
    size_t scheme = door_is_tls(w) ? 6 : 5; /* of "wss://HOST": in a parameter its letters are the name */
    const char *end = text.p + text.n, *found = NULL;

    if (!is_plain(base) || !is_plain(proof))
        text.n = 0; /* the caller fooled itself with its Host */
    while (text.n && (found = memmem(text.p, text.n, host, sizeof host - 1))) {
        bool is_socket = found - text.p >= 5 && memcmp(found - 5, socket, 5) == 0;
        bool is_param = found - text.p >= 4 && memcmp(found - 4, param, 4) == 0;
        buf_add(out, text.p, (size_t)(found - text.p) - (is_socket ? 5 : is_param ? 4 : 0));
        found += sizeof host - 1;
        const char *quote = is_socket ? memchr(found, '"', (size_t)(end - found)) : NULL;
        size_t rest = is_socket ? (size_t)((quote ? quote : end) - found) : 0;
        if (is_socket)
            buf_printf(out, "%.*s/devtools/%.*s%.*s", STR_ARG(base), (int)rest, found, STR_ARG(proof));
        else if (is_param)
            buf_printf(out, "?%.*s=%.*s/devtools/", (int)scheme - 3, base.p, (int)(base.n - scheme), base.p + scheme);
        else
            buf_z(out, host);
        found += rest;
        text = (struct str){ found, (size_t)(end - found) };
    }
    buf_str(out, text);
}

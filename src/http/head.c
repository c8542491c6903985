/* The head of a request: where it ends, what it says, and what makes it unacceptable.
 *
 * libhttp-parser reads the request line and the fields. The system's library is usually built without its strict
 * mode and then lets pass what other programs read differently (bare LF, names with spaces, tabs in targets), and
 * a proxy that reads a head differently from us is how requests are smuggled. So everything that decides where a
 * request ends is checked here again, and refused, never repaired. */
#include "http/internal.h"

#include <errno.h>
#include <http_parser.h>
#include <strings.h>

/* The lower-case form of characters that may be in a field's name, 0 for all others. */
static const char name_chars[256] = {
    ['!'] = '!', ['#'] = '#', ['$'] = '$', ['%'] = '%', ['&'] = '&', ['\''] = '\'', ['*'] = '*', ['+'] = '+',
    ['-'] = '-', ['.'] = '.', ['^'] = '^', ['_'] = '_', ['`'] = '`', ['|'] = '|',   ['~'] = '~', ['0'] = '0',
    ['1'] = '1', ['2'] = '2', ['3'] = '3', ['4'] = '4', ['5'] = '5', ['6'] = '6',   ['7'] = '7', ['8'] = '8',
    ['9'] = '9', ['a'] = 'a', ['b'] = 'b', ['c'] = 'c', ['d'] = 'd', ['e'] = 'e',   ['f'] = 'f', ['g'] = 'g',
    ['h'] = 'h', ['i'] = 'i', ['j'] = 'j', ['k'] = 'k', ['l'] = 'l', ['m'] = 'm',   ['n'] = 'n', ['o'] = 'o',
    ['p'] = 'p', ['q'] = 'q', ['r'] = 'r', ['s'] = 's', ['t'] = 't', ['u'] = 'u',   ['v'] = 'v', ['w'] = 'w',
    ['x'] = 'x', ['y'] = 'y', ['z'] = 'z', ['A'] = 'a', ['B'] = 'b', ['C'] = 'c',   ['D'] = 'd', ['E'] = 'e',
    ['F'] = 'f', ['G'] = 'g', ['H'] = 'h', ['I'] = 'i', ['J'] = 'j', ['K'] = 'k',   ['L'] = 'l', ['M'] = 'm',
    ['N'] = 'n', ['O'] = 'o', ['P'] = 'p', ['Q'] = 'q', ['R'] = 'r', ['S'] = 's',   ['T'] = 't', ['U'] = 'u',
    ['V'] = 'v', ['W'] = 'w', ['X'] = 'x', ['Y'] = 'y', ['Z'] = 'z',
};

static ssize_t bad_head(struct err *e, const char *what)
{
    err_set(e, ERR_INVALID, "invalid request: %s", what);
    return -EBADMSG;
}

ssize_t head_scan(struct head_scan *s, const char *p, size_t n, struct err *e)
{
    if (n && (p[0] < 'A' || p[0] > 'Z')) /* TLS on the wrong port would otherwise wait for its timeout */
        return bad_head(e, "it does not begin with a method");

    while (s->at < n) {
        const char *lf = memchr(p + s->at, '\n', n - s->at);
        if (!lf) {
            s->at = n;
            break;
        }
        size_t end = (size_t)(lf - p);
        if (end == s->line || p[end - 1] != '\r')
            return bad_head(e, "a line of the head ends in LF without CR");
        if (end - 1 == s->line)
            return (ssize_t)end + 1;
        if (p[s->line] == ' ' || p[s->line] == '\t')
            return bad_head(e, "a header is folded over several lines");
        s->lines++;
        s->line = s->at = end + 1;
    }
    return 0;
}

struct parse {
    struct http_request *r;
    struct head *h;
    size_t max; /* room in r->headers */
    bool complete;
};

static int on_url(http_parser *p, const char *at, size_t n)
{
    struct parse *ps = p->data;
    ps->r->target = (struct str){ at, n };
    return 0;
}

static int on_field(http_parser *p, const char *at, size_t n)
{
    struct parse *ps = p->data;
    char *name = (char *)at; /* the input buffer is ours; the parser is past these bytes */

    if (ps->r->headers.n >= ps->max || n == 0)
        return -1;
    for (size_t i = 0; i < n; i++) {
        name[i] = name_chars[(unsigned char)name[i]];
        if (!name[i])
            return -1;
    }
    ps->r->headers.v[ps->r->headers.n].name = (struct str){ at, n };
    return 0;
}

static int on_value(http_parser *p, const char *at, size_t n)
{
    struct parse *ps = p->data;

    while (n && (at[n - 1] == ' ' || at[n - 1] == '\t'))
        n--;
    ps->r->headers.v[ps->r->headers.n++].value = (struct str){ at, n };
    return 0;
}

static int on_head_complete(http_parser *p)
{
    struct parse *ps = p->data;

    ps->complete = true;
    ps->r->method = str_of(http_method_str((enum http_method)p->method));
    ps->h->keep_alive = http_should_keep_alive(p);
    ps->h->http10 = p->http_minor == 0;
    return 0;
}

static int refuse(struct err *e, int status, const char *what)
{
    err_set(e, ERR_INVALID, "invalid request: %s", what);
    return status;
}

static int parse_length(struct str v, uint64_t *ret, struct err *e)
{
    uint64_t n = 0;

    if (v.n == 0 || v.n > 18) /* 18 digits cannot overflow, and are far beyond every limit */
        return refuse(e, 400, "Content-Length is not a number");
    for (size_t i = 0; i < v.n; i++) {
        if (v.p[i] < '0' || v.p[i] > '9')
            return refuse(e, 400, "Content-Length is not a number");
        n = n * 10 + (uint64_t)(v.p[i] - '0');
    }
    *ret = n;
    return 0;
}

static bool same_word(struct str a, struct str b)
{
    return a.n == b.n && strncasecmp(a.p, b.p, a.n) == 0;
}

static int check_host(struct str v, struct head *h, struct err *e)
{
    if (h->host.p)
        return refuse(e, 400, "more than one Host");
    for (size_t i = 0; i < v.n; i++)
        if ((unsigned char)v.p[i] <= ' ' || strchr("/\\?#@,<>\"", v.p[i]))
            return refuse(e, 400, "Host has a character that no host has");
    h->host = v;
    return 0;
}

/* Everything that says where the request ends and whom it is for. */
static int check_fields(const struct http_request *r, struct head *h, struct err *e)
{
    bool length = false;
    int status = 0;

    for (size_t i = 0; i < r->headers.n && !status; i++) {
        struct str name = r->headers.v[i].name;
        struct str v = r->headers.v[i].value;

        if (str_eq(name, STR("host"))) {
            status = check_host(v, h, e);
        } else if (str_eq(name, STR("content-length"))) {
            if (length)
                return refuse(e, 400, "more than one Content-Length");
            length = true;
            status = parse_length(v, &h->length, e);
        } else if (str_eq(name, STR("transfer-encoding"))) {
            if (h->chunked || h->http10 || !same_word(v, STR("chunked")))
                return refuse(e, 400, "Transfer-Encoding may only be chunked, once, in HTTP/1.1");
            h->chunked = true;
        } else if (str_eq(name, STR("expect"))) {
            if (!same_word(v, STR("100-continue")))
                return refuse(e, 417, "Expect may only be 100-continue");
            h->expect = !h->http10;
        }
    }
    if (status)
        return status;
    if (length && h->chunked)
        return refuse(e, 400, "both Content-Length and Transfer-Encoding");
    if (!h->host.p && !h->http10)
        return refuse(e, 400, "no Host");
    return 0;
}

/* http://host/path: what a client sends to a proxy. Leaves "/path". */
static int strip_authority(struct str *t, const struct head *h, struct err *e)
{
    size_t scheme = 7;

    if (t->n > 8 && strncasecmp(t->p, "https://", 8) == 0)
        scheme = 8;
    else if (t->n <= 7 || strncasecmp(t->p, "http://", 7) != 0)
        return refuse(e, 400, "the target is neither a path nor a URL");

    struct str host = { t->p + scheme, 0 };
    while (scheme + host.n < t->n && host.p[host.n] != '/' && host.p[host.n] != '?')
        host.n++;
    if (!h->host.p || !same_word(host, h->host))
        return refuse(e, 400, "the host of the target differs from Host");
    t->p += scheme + host.n;
    t->n -= scheme + host.n;
    return 0;
}

static int check_path(struct http_request *r, struct err *e)
{
    struct str path = r->path;

    for (size_t i = 0; i < path.n; i++) {
        struct str rest = { path.p + i, path.n - i };

        if (path.p[i] == 0)
            return refuse(e, 400, "the path contains %00");
        if (rest.n >= 3 && memcmp(rest.p, "/..", 3) == 0 && (rest.n == 3 || rest.p[3] == '/'))
            return refuse(e, 400, "the path contains \"..\"");
        if (rest.n >= 2 && memcmp(rest.p, "//", 2) == 0) {
            if (i == 0)
                return refuse(e, 400, "the path begins with \"//\"");
            r->empty_part |= path.p[i - 1] != ':'; /* a URL may be part of a path */
        }
    }
    return 0;
}

static int split_target(struct http_request *r, const struct head *h, struct err *e)
{
    struct str t = r->target;

    for (size_t i = 0; i < t.n; i++)
        if ((unsigned char)t.p[i] <= ' ' || t.p[i] == 0x7f || t.p[i] == '#')
            return refuse(e, 400, "the target has a character that must be escaped");
    if (str_eq(t, STR("*")) && str_is(r->method, "OPTIONS")) {
        r->path = t;
        return 0;
    }
    if (t.n == 0 || t.p[0] != '/') {
        int status = strip_authority(&t, h, e);
        if (status)
            return status;
    }

    const char *mark = t.n ? memchr(t.p, '?', t.n) : NULL;
    size_t path_n = mark ? (size_t)(mark - t.p) : t.n;
    struct str path = path_n ? (struct str){ t.p, path_n } : STR("/");
    if (mark)
        r->query = (struct str){ mark + 1, t.n - path_n - 1 };

    struct str unused; /* checked now, so that http_query cannot fail */
    if (!http_decode(r->arena, path, false, &r->path) || !http_decode(r->arena, r->query, true, &unused))
        return refuse(e, 400, "the target has a % that is not followed by two hexadecimal digits");
    return check_path(r, e);
}

int head_parse(char *p, size_t n, size_t fields, struct http_request *r, struct head *h, struct err *e)
{
    static const http_parser_settings settings = {
        .on_url = on_url,
        .on_header_field = on_field,
        .on_header_value = on_value,
        .on_headers_complete = on_head_complete,
    };

    *h = (struct head){ 0 };
    if (fields > LIMIT_HTTP_HEADERS) {
        err_set(e, ERR_LIMIT, "more headers than LIMIT_HTTP_HEADERS (%d)", LIMIT_HTTP_HEADERS);
        return 431;
    }
    r->headers = (struct pairs){ arena_alloc(r->arena, fields * sizeof(struct pair)), 0 };

    struct parse ps = { .r = r, .h = h, .max = fields };
    http_parser hp;
    http_parser_init(&hp, HTTP_REQUEST);
    hp.data = &ps;
    size_t done = http_parser_execute(&hp, &settings, p, n);
    enum http_errno bad = HTTP_PARSER_ERRNO(&hp);
    if (bad == HPE_CB_header_field)
        return refuse(e, 400, "the name of a header has an invalid character");
    if (bad == HPE_INVALID_VERSION)
        return refuse(e, 505, "only HTTP/1.1 and HTTP/1.0 are spoken here");
    if (bad != HPE_OK)
        return refuse(e, 400, http_errno_description(bad));
    if (!ps.complete || done != n)
        return refuse(e, 400, "the head is malformed");
    /* Exactly one space between the words, where the parser takes any number. */
    const char *eol = memchr(p, '\n', n);
    if (r->target.p != p + r->method.n + 1 || eol + 1 != r->target.p + r->target.n + strlen(" HTTP/1.1\r\n"))
        return refuse(e, 400, "the first line has extra spaces");
    if (hp.http_major != 1 || hp.http_minor > 1)
        return refuse(e, 505, "only HTTP/1.1 and HTTP/1.0 are spoken here");
    if (hp.method == HTTP_CONNECT)
        return refuse(e, 405, "CONNECT is for proxies");

    int status = check_fields(r, h, e);
    return status ? status : split_target(r, h, e);
}

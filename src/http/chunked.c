/* The body of a request in chunks. libhttp-parser could decode these too, but when it is built without strict mode
 * it takes any two bytes for the CRLF after a chunk, and a LF within an extension: both are known ways to smuggle
 * requests. This accepts exactly the grammar, drops extensions and trailers, and decodes in place. */
#include "http/internal.h"

#include <errno.h>

enum { SIZE, EXTENSION, SIZE_LF, DATA, DATA_CR, DATA_LF, LINE, TRAILER, TRAILER_LF, END_LF };
enum { DIGITS_MAX = 16, EXTENSION_MAX = 256, TRAILERS_MAX = 8192 };

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool is_text(char c)
{
    return (unsigned char)c >= ' ' ? c != 0x7f : c == '\t';
}

static int size_char(struct chunked *d, char c, size_t max)
{
    int v = hex(c);

    if (v >= 0) {
        if (d->count++ == DIGITS_MAX)
            return -EBADMSG;
        d->left = d->left * 16 + (size_t)v;
        return d->left > max ? -EMSGSIZE : 0; /* max is small: this cannot overflow first */
    }
    if (d->count == 0)
        return -EBADMSG;
    d->count = 0;
    d->state = c == '\r' ? SIZE_LF : EXTENSION;
    return c == '\r' || c == ';' ? 0 : -EBADMSG;
}

/* Text up to CR, at most max bytes of it. */
static int text_char(struct chunked *d, char c, size_t max, int next)
{
    if (c == '\r') {
        d->state = next;
        return 0;
    }
    return is_text(c) && d->count++ < max ? 0 : -EBADMSG;
}

static int expect_char(struct chunked *d, char c, char want, int next)
{
    d->state = next;
    return c == want ? 0 : -EBADMSG;
}

/* One byte of framing. 1: the body is complete. */
static int step(struct chunked *d, char c, size_t max)
{
    switch (d->state) {
    case SIZE: return size_char(d, c, max);
    case EXTENSION: return text_char(d, c, EXTENSION_MAX, SIZE_LF);
    case SIZE_LF: d->count = 0; return expect_char(d, c, '\n', d->left ? DATA : LINE);
    case DATA_CR: return expect_char(d, c, '\r', DATA_LF);
    case DATA_LF: return expect_char(d, c, '\n', SIZE);
    case LINE:
        d->state = TRAILER;
        if (c != '\r')
            return text_char(d, c, TRAILERS_MAX, TRAILER_LF);
        d->state = END_LF;
        return 0;
    case TRAILER: return text_char(d, c, TRAILERS_MAX, TRAILER_LF);
    case TRAILER_LF: return expect_char(d, c, '\n', LINE);
    case END_LF: return c == '\n' ? 1 : -EBADMSG;
    }
    return -EBADMSG;
}

int chunked_decode(struct chunked *d, char *p, size_t *pos, size_t n, size_t *out, size_t max)
{
    while (*pos < n) {
        if (d->state != DATA) {
            int r = step(d, p[(*pos)++], max - *out);
            if (r)
                return r;
            continue;
        }
        size_t take = n - *pos < d->left ? n - *pos : d->left;
        memmove(p + *out, p + *pos, take);
        *out += take;
        *pos += take;
        d->left -= take;
        if (d->left == 0)
            d->state = DATA_CR;
    }
    return 0;
}

#include "http/answer.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "http/internal.h"

enum { HEAD, LENGTH, CHUNKS, TO_END, OVER };

static int bad(struct err *e, const char *what)
{
    return err_set(e, ERR_SYSTEM, "the server in the box answered nonsense: %s", what);
}

static bool is_name(struct str s)
{
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        if (c <= ' ' || c >= 0x7f || strchr("()<>@,;:\\\"/[]?={}", c))
            return false;
    }
    return s.n > 0;
}

static bool number(struct str s, uint64_t *ret)
{
    uint64_t v = 0;

    if (!s.n || s.n > 18)
        return false;
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] < '0' || s.p[i] > '9')
            return false;
        v = v * 10 + (uint64_t)(s.p[i] - '0');
    }
    *ret = v;
    return true;
}

static struct str trim(struct str s)
{
    while (s.n && (s.p[0] == ' ' || s.p[0] == '\t'))
        s = (struct str){ s.p + 1, s.n - 1 };
    while (s.n && (s.p[s.n - 1] == ' ' || s.p[s.n - 1] == '\t'))
        s.n--;
    return s;
}

static int read_line(struct arena *a, struct str line, struct answer *x, struct err *e)
{
    const char *colon = line.n ? memchr(line.p, ':', line.n) : NULL;

    if (!colon)
        return bad(e, "a line of its head has no name");
    struct str name = { line.p, (size_t)(colon - line.p) };
    struct str value = trim((struct str){ colon + 1, line.n - name.n - 1 });
    if (!is_name(name) || x->headers.n == LIMIT_HTTP_HEADERS)
        return bad(e, "its head has a bad name or too many lines");
    for (size_t i = 0; i < value.n; i++)
        if (((unsigned char)value.p[i] < ' ' && value.p[i] != '\t') || value.p[i] == 0x7f)
            return bad(e, "its head has control characters");
    char *lower = arena_z(a, name);
    for (char *p = lower; *p; p++)
        *p = (char)(*p >= 'A' && *p <= 'Z' ? *p + 32 : *p);
    x->headers.v[x->headers.n++] = (struct pair){ { lower, name.n }, arena_copy(a, value) };
    return 0;
}

/* Where the body ends. Two ways to say it that differ could be read two ways: refused. */
static int frame(struct answer_reader *r, struct answer *x, struct err *e)
{
    bool length = false, chunked = false;
    uint64_t n = 0;

    for (size_t i = 0; i < x->headers.n; i++) {
        struct pair h = x->headers.v[i];
        if (str_is(h.name, "content-length")) {
            uint64_t v;
            if (!number(h.value, &v) || (length && v != n))
                return bad(e, "its Content-Length is none");
            length = true;
            n = v;
        } else if (str_is(h.name, "transfer-encoding")) {
            if (h.value.n != 7 || strncasecmp(h.value.p, "chunked", 7) != 0 || chunked)
                return bad(e, "its Transfer-Encoding is not known here");
            chunked = true;
        }
    }
    if (length && chunked)
        return bad(e, "it says two lengths");
    bool none = r->no_body || x->status == 204 || x->status == 304;
    x->length = none ? 0 : chunked ? -1 : length ? (int64_t)n : -1;
    r->left = n;
    r->state = x->status == 101             ? TO_END
               : none || (length && n == 0) ? OVER
               : chunked                    ? CHUNKS
               : length                     ? LENGTH
                                            : TO_END;
    if (r->no_body && length)
        x->length = (int64_t)n; /* what a GET would have */
    return 0;
}

static int read_head(struct answer_reader *r, struct arena *a, struct str data, struct answer *x, size_t *used,
                     struct err *e)
{
    const char *end = memmem(data.p, data.n, "\r\n\r\n", 4);
    const char *line_end = data.n ? memmem(data.p, data.n, "\r\n", 2) : NULL;

    if (!end && data.n > (size_t)LIMIT_HTTP_HEAD)
        return bad(e, "its head is too large");
    if (data.n >= 5 && memcmp(data.p, "HTTP/", 5) != 0)
        return bad(e, "it does not speak HTTP/1.1");
    if (!end || (size_t)(end - data.p) > (size_t)LIMIT_HTTP_HEAD)
        return end ? bad(e, "its head is too large") : ANSWER_MORE;
    if (line_end - data.p < 12 || memcmp(data.p, "HTTP/1.", 7) != 0 || data.p[8] != ' ' ||
        (line_end - data.p > 12 && data.p[12] != ' '))
        return bad(e, "it does not speak HTTP/1.1");
    uint64_t status;
    if (!number((struct str){ data.p + 9, 3 }, &status) || status < 100 || status > 599)
        return bad(e, "its status is none");
    *x = (struct answer){ .status = (int)status };
    x->headers.v = arena_alloc(a, LIMIT_HTTP_HEADERS * sizeof *x->headers.v);
    for (const char *p = line_end + 2; p < end + 2;) {
        const char *nl = memmem(p, (size_t)(end + 2 - p), "\r\n", 2);
        int res = read_line(a, (struct str){ p, (size_t)(nl - p) }, x, e);
        if (res < 0)
            return res;
        p = nl + 2;
    }
    *used = (size_t)(end - data.p) + 4;
    if (status < 200 && status != 101)
        return ANSWER_MORE; /* skipped: the real one follows */
    int res = frame(r, x, e);
    return res < 0 ? res : ANSWER_HEAD;
}

static int read_chunks(struct answer_reader *r, char *data, size_t n, struct str *ret, size_t *used, struct err *e)
{
    struct chunked d = { r->chunk_state, r->chunk_left, r->chunk_count };
    size_t pos = 0, out = 0;

    int res = chunked_decode(&d, data, &pos, n, &out, (size_t)1 << 59);
    r->chunk_state = d.state;
    r->chunk_left = d.left;
    r->chunk_count = d.count;
    if (res < 0)
        return bad(e, "its chunks are malformed");
    *used = pos;
    *ret = (struct str){ data, out };
    if (res == 1)
        r->state = OVER;
    return out ? ANSWER_DATA : res == 1 ? ANSWER_END : ANSWER_MORE;
}

int answer_next(struct answer_reader *r, struct arena *a, char *data, size_t n, struct answer *x, struct str *ret_data,
                size_t *ret_used, struct err *e)
{
    *ret_used = 0;
    switch (r->state) {
    case HEAD: return read_head(r, a, (struct str){ data, n }, x, ret_used, e);
    case OVER: return ANSWER_END;
    default: break;
    }
    if (n == 0)
        return ANSWER_MORE;
    if (r->state == CHUNKS)
        return read_chunks(r, data, n, ret_data, ret_used, e);
    if (r->state == LENGTH && n > r->left)
        n = (size_t)r->left;
    *ret_data = (struct str){ data, n };
    *ret_used = n;
    if (r->state == LENGTH) {
        r->left -= n;
        if (r->left == 0)
            r->state = OVER;
    }
    return ANSWER_DATA;
}

bool answer_may_end(const struct answer_reader *r)
{
    return r->state == TO_END || r->state == OVER;
}

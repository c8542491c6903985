/* JSON reader and writer. Both move over runs of plain ASCII eight or sixteen bytes at a time and look at single bytes only
 * where something happens: a quote, an escape, a control character, the start of a UTF-8 sequence. */
#include "base/json.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif
#include <float.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/auto.h"
#include "base/limits.h"

/* Objects up to this size are checked for duplicate keys pair by pair, which is cheaper than sorting. */
enum { PAIRWISE_MAX = 64 };

#define ONES 0x0101010101010101ull
#define HIGH 0x8080808080808080ull

static bool is_plain(unsigned char c)
{
    return c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
}

/* Of eight bytes, does each mean itself? */
static bool is_plain_word(uint64_t w)
{
    uint64_t quote = w ^ (ONES * '"');
    uint64_t slash = w ^ (ONES * '\\');
    /* (x - ONES) & ~x & HIGH is non-zero exactly if some byte of x is zero; likewise for "below 0x20". */
    uint64_t special = ((quote - ONES) & ~quote) | ((slash - ONES) & ~slash) | ((w - ONES * 0x20) & ~w) | w;

    return !(special & HIGH);
}

#ifdef __SSE2__
/* Of sixteen bytes, a bit for each that does not mean itself. */
static unsigned odd_bytes(const char *p)
{
    __m128i w = _mm_loadu_si128((const void *)p);
    __m128i mark = _mm_or_si128(_mm_cmpeq_epi8(w, _mm_set1_epi8('"')), _mm_cmpeq_epi8(w, _mm_set1_epi8('\\')));

    /* as signed bytes, all of 0x80 to 0xFF are below the space, too */
    return (unsigned)_mm_movemask_epi8(_mm_or_si128(mark, _mm_cmplt_epi8(w, _mm_set1_epi8(' '))));
}
#endif

/* How many bytes at p mean themselves, in and out of JSON. The last bytes are looked at together with some before them
 * that were seen already, rather than one by one: most strings are short. */
static size_t plain_run(const char *p, size_t n)
{
    size_t i = 0;
    uint64_t w;
    uint32_t head, tail;

#ifdef __SSE2__
    unsigned odd = 0;
    for (; n - i >= 16 && !(odd = odd_bytes(p + i)); i += 16)
        ;
    if (odd)
        return i + (size_t)__builtin_ctz(odd);
    if (i && i < n) {
        odd = odd_bytes(p + n - 16);
        return odd ? n - 16 + (size_t)__builtin_ctz(odd) : n;
    }
#endif
    for (; n - i >= 8; i += 8) {
        memcpy(&w, p + i, 8);
        if (!is_plain_word(w))
            break;
    }
    if (i && n - i < 8) { /* all before were plain */
        memcpy(&w, p + n - 8, 8);
        if (is_plain_word(w))
            return n;
    } else if (n >= 4 && n < 8) {
        memcpy(&head, p, 4);
        memcpy(&tail, p + n - 4, 4);
        if (is_plain_word((uint64_t)tail << 32 | head))
            return n;
    }
    while (i < n && is_plain((unsigned char)p[i]))
        i++;
    return i;
}

int utf8_step(const char *text, size_t n)
{
    const unsigned char *p = (const unsigned char *)text;

    if (p[0] < 0x80)
        return 1;
    if (p[0] < 0xC2 || p[0] > 0xF4)
        return -1;

    int need = p[0] < 0xE0 ? 2 : p[0] < 0xF0 ? 3 : 4;
    /* The second byte's range keeps out overlong forms, surrogates and what is above U+10FFFF. */
    unsigned char lo = p[0] == 0xE0 ? 0xA0 : p[0] == 0xF0 ? 0x90 : 0x80;
    unsigned char hi = p[0] == 0xED ? 0x9F : p[0] == 0xF4 ? 0x8F : 0xBF;
    for (int i = 1; i < need; i++) {
        if ((size_t)i >= n || p[i] < lo || p[i] > hi)
            return -i;
        lo = 0x80;
        hi = 0xBF;
    }
    return need;
}

bool utf8_ok(struct str s)
{
    for (size_t i = 0; i < s.n;) {
        i += plain_run(s.p + i, s.n - i);
        if (i == s.n)
            break;
        int step = utf8_step(s.p + i, s.n - i);
        if (step < 0)
            return false;
        i += (size_t)step;
    }
    return true;
}

/* Reader */

struct reader {
    struct arena *a;
    const char *start, *p, *end;
    unsigned depth;
    size_t values;
    bool outline; /* json_outline */
    struct err *e;
};

static int read_value(struct reader *r, struct json *v);

static int bad(struct reader *r, const char *at, const char *what)
{
    return err_set(r->e, ERR_INVALID, "JSON: %s at byte %zu", what, (size_t)(at - r->start));
}

static void skip_space(struct reader *r)
{
    while (r->p < r->end && (*r->p == ' ' || *r->p == '\n' || *r->p == '\r' || *r->p == '\t'))
        r->p++;
}

static bool next_is(const struct reader *r, char c)
{
    return r->p < r->end && *r->p == c;
}

static int new_value(struct reader *r, struct json **ret)
{
    if (r->values == JSON_VALUES_MAX)
        return err_set(r->e, ERR_LIMIT, "JSON: more than %d values (JSON_VALUES_MAX) at byte %zu", JSON_VALUES_MAX,
                       (size_t)(r->p - r->start));
    r->values++;
    *ret = arena_alloc(r->a, sizeof **ret);
    return 0;
}

static int hex4(const char *p, const char *end)
{
    int v = 0;

    if (end - p < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        char c = p[i];
        int digit = c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
        if (digit < 0)
            return -1;
        v = v * 16 + digit;
    }
    return v;
}

static char *put_utf8(char *to, unsigned c)
{
    if (c < 0x80) {
        *to++ = (char)c;
    } else if (c < 0x800) {
        *to++ = (char)(0xC0 | c >> 6);
        *to++ = (char)(0x80 | (c & 0x3F));
    } else if (c < 0x10000) {
        *to++ = (char)(0xE0 | c >> 12);
        *to++ = (char)(0x80 | (c >> 6 & 0x3F));
        *to++ = (char)(0x80 | (c & 0x3F));
    } else {
        *to++ = (char)(0xF0 | c >> 18);
        *to++ = (char)(0x80 | (c >> 12 & 0x3F));
        *to++ = (char)(0x80 | (c >> 6 & 0x3F));
        *to++ = (char)(0x80 | (c & 0x3F));
    }
    return to;
}

/* *pp stands on the 'u'. Two escapes may make one character. */
static int decode_u(struct reader *r, const char **pp, const char *end, char **to)
{
    const char *p = *pp;
    int c = hex4(p + 1, end);

    if (c < 0)
        return bad(r, p - 1, "\\u without four hex digits");
    p += 5;
    if (c >= 0xD800 && c < 0xE000) {
        int low = c < 0xDC00 && end - p >= 6 && p[0] == '\\' && p[1] == 'u' ? hex4(p + 2, end) : -1;
        if (low < 0xDC00 || low > 0xDFFF)
            return bad(r, *pp - 1, "lone surrogate");
        c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
        p += 6;
    }
    *to = put_utf8(*to, (unsigned)c);
    *pp = p;
    return 0;
}

/* The text between the quotes is valid UTF-8 and has at least one escape; decoding never makes it longer. */
static int decode(struct reader *r, const char *p, const char *end, struct str *ret)
{
    static const char from[] = "\"\\/bfnrt";
    static const char into[] = "\"\\/\b\f\n\r\t";
    char *text = arena_alloc(r->a, (size_t)(end - p) + 1);
    char *to = text;

    while (p < end) {
        const char *stop = memchr(p, '\\', (size_t)(end - p));
        size_t run = (size_t)((stop ? stop : end) - p);
        memcpy(to, p, run);
        to += run;
        p += run;
        if (p == end)
            break;

        p++; /* the backslash; a string cannot end in one, or its quote would have been skipped */
        if (*p == 'u') {
            int rc = decode_u(r, &p, end, &to);
            if (rc < 0)
                return rc;
            continue;
        }
        const char *known = *p ? strchr(from, *p) : NULL;
        if (!known)
            return bad(r, p - 1, "unknown escape");
        *to++ = into[known - from];
        p++;
    }
    *ret = (struct str){ text, (size_t)(to - text) };
    return 0;
}

/* r->p stands on the opening quote. ret NULL: what it says is of no interest. */
static int read_string(struct reader *r, struct str *ret)
{
    const char *open = r->p++;
    bool escaped = false;

    for (;;) {
        r->p += plain_run(r->p, (size_t)(r->end - r->p));
        if (r->p == r->end)
            return bad(r, open, "string without an end");
        if (*r->p == '"')
            break;
        if (*r->p == '\\') {
            if (r->end - r->p < 2)
                return bad(r, open, "string without an end");
            escaped = true;
            r->p += 2;
            continue;
        }
        if ((unsigned char)*r->p < 0x20)
            return bad(r, r->p, "control character in a string");
        int step = utf8_step(r->p, (size_t)(r->end - r->p));
        if (step < 0)
            return bad(r, r->p, "invalid UTF-8");
        r->p += step;
    }
    const char *close = r->p++;
    if (!ret)
        return 0;
    if (escaped)
        return decode(r, open + 1, close, ret);
    *ret = (struct str){ open + 1, (size_t)(close - open - 1) };
    return 0;
}

/* strtod() wants a terminator, and obeys the locale, which this program never sets. */
static double slow_number(struct reader *r, const char *p, size_t n)
{
    char small[64];

    if (n >= sizeof small)
        return strtod(arena_z(r->a, (struct str){ p, n }), NULL);
    memcpy(small, p, n);
    small[n] = 0;
    return strtod(small, NULL);
}

static bool is_digit(const struct reader *r)
{
    return r->p < r->end && *r->p >= '0' && *r->p <= '9';
}

/* Moves over ".5e-3", either part optional. *whole becomes false if that may change the value of the integer. */
static int skip_fraction(struct reader *r, bool *whole)
{
    if (next_is(r, '.')) {
        r->p++;
        if (!is_digit(r))
            return bad(r, r->p, "expected a digit after '.'");
        for (; is_digit(r); r->p++)
            if (*r->p != '0')
                *whole = false;
    }
    if (next_is(r, 'e') || next_is(r, 'E')) {
        *whole = false;
        r->p++;
        if (next_is(r, '+') || next_is(r, '-'))
            r->p++;
        if (!is_digit(r))
            return bad(r, r->p, "expected a digit in the exponent");
        while (is_digit(r))
            r->p++;
    }
    return 0;
}

static int read_number(struct reader *r, struct json *v)
{
    const char *from = r->p;
    bool minus = next_is(r, '-');
    bool whole = true;
    uint64_t n = 0;

    r->p += minus;
    if (!is_digit(r))
        return bad(r, r->p, "expected a digit");
    if (*r->p == '0') {
        r->p++;
        if (is_digit(r))
            return bad(r, r->p, "number with a leading zero");
    }
    for (; is_digit(r); r->p++)
        if (__builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, (uint64_t)(*r->p - '0'), &n)) {
            whole = false;
            n = 0;
        }
    int rc = skip_fraction(r, &whole);
    if (rc < 0)
        return rc;

    v->type = JSON_NUM;
    v->is_int = whole && n <= (uint64_t)INT64_MAX + minus;
    if (v->is_int) {
        v->i = minus ? (int64_t)(0 - n) : (int64_t)n;
        v->num = minus && n == 0 ? -0.0 : (double)v->i;
        return 0;
    }
    v->num = slow_number(r, from, (size_t)(r->p - from));
    if (v->num > DBL_MAX || v->num < -DBL_MAX)
        return bad(r, from, "number out of range");
    return 0;
}

static int read_word(struct reader *r, struct json *v)
{
    static const struct {
        struct str word;
        enum json_type type;
        bool b;
    } words[] = { { STR("null"), JSON_NULL, false },
                  { STR("true"), JSON_BOOL, true },
                  { STR("false"), JSON_BOOL, false } };

    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        size_t n = words[i].word.n;
        if ((size_t)(r->end - r->p) >= n && memcmp(r->p, words[i].word.p, n) == 0) {
            v->type = words[i].type;
            v->b = words[i].b;
            r->p += n;
            return 0;
        }
    }
    return bad(r, r->p, "expected a value");
}

static int by_name(const void *a, const void *b)
{
    const struct json *x = *(struct json *const *)a, *y = *(struct json *const *)b;

    if (x->name.n != y->name.n)
        return x->name.n < y->name.n ? -1 : 1;
    return memcmp(x->name.p, y->name.p, x->name.n);
}

/* A big object is sorted, not hashed: no choice of keys by a client makes that slow. */
static int check_unique(struct reader *r, const struct json *obj)
{
    auto_free const struct json **sorted = NULL;
    size_t n = 0;

    if (obj->count <= PAIRWISE_MAX) {
        for (const struct json *m = obj->first; m; m = m->next)
            for (const struct json *o = obj->first; o != m; o = o->next)
                if (str_eq(m->name, o->name))
                    return bad(r, m->raw.p, "duplicate key of the value");
        return 0;
    }
    sorted = malloc(obj->count * sizeof *sorted);
    if (!sorted)
        return err_set(r->e, ERR_LIMIT, "JSON: no memory for an object of %zu members", obj->count);
    for (const struct json *m = obj->first; m; m = m->next)
        sorted[n++] = m;
    qsort(sorted, n, sizeof *sorted, by_name);
    for (size_t i = 1; i < n; i++)
        if (str_eq(sorted[i - 1]->name, sorted[i]->name))
            return bad(r, sorted[i]->raw.p, "duplicate key of the value");
    return 0;
}

static int read_key(struct reader *r, struct str *ret)
{
    if (!next_is(r, '"'))
        return bad(r, r->p, "expected a key in quotes");
    int rc = read_string(r, ret);
    if (rc < 0)
        return rc;

    skip_space(r);
    if (!next_is(r, ':'))
        return bad(r, r->p, "expected ':'");
    r->p++;
    return 0;
}

/* Moves over an array or an object; r->p stands on the opening bracket. */
static int skip_nested(struct reader *r)
{
    const char *open = r->p;
    size_t depth = 0;

    do {
        if (r->p == r->end)
            return bad(r, open, "no end of the value");
        if (*r->p == '"') {
            int rc = read_string(r, NULL);
            if (rc < 0)
                return rc;
            continue;
        }
        depth += *r->p == '{' || *r->p == '[';
        depth -= *r->p == '}' || *r->p == ']';
        r->p++;
    } while (depth);
    return 0;
}

/* The members of an array or an object; r->p stands on the opening bracket. Recursion is as deep as the text's
 * nesting, which is capped. */
static int read_members(struct reader *r, struct json *v)
{
    bool obj = *r->p == '{';
    struct json **tail = &v->first;

    if (++r->depth > LIMIT_JSON_DEPTH)
        return err_set(r->e, ERR_LIMIT, "JSON: nested deeper than %d (LIMIT_JSON_DEPTH) at byte %zu", LIMIT_JSON_DEPTH,
                       (size_t)(r->p - r->start));
    v->type = obj ? JSON_OBJ : JSON_ARR;
    if (r->outline && r->depth > 1) {
        r->depth--;
        return skip_nested(r);
    }
    r->p++;
    skip_space(r);
    bool more = !next_is(r, obj ? '}' : ']');
    while (more) {
        struct json *m = NULL;
        int rc = new_value(r, &m);

        skip_space(r);
        if (rc >= 0 && obj)
            rc = read_key(r, &m->name);
        if (rc >= 0)
            rc = read_value(r, m);
        if (rc < 0)
            return rc;

        *tail = m;
        tail = &m->next;
        v->count++;
        skip_space(r);
        more = next_is(r, ',');
        if (more)
            r->p++;
        else if (!next_is(r, obj ? '}' : ']'))
            return bad(r, r->p, obj ? "expected ',' or '}'" : "expected ',' or ']'");
    }
    r->p++;
    r->depth--;
    return obj && !r->outline ? check_unique(r, v) : 0;
}

static int read_value(struct reader *r, struct json *v)
{
    int rc;

    skip_space(r);
    const char *from = r->p;
    if (r->p == r->end)
        return bad(r, r->p, "expected a value, found the end");
    if (*r->p == '{' || *r->p == '[') {
        rc = read_members(r, v);
    } else if (*r->p == '"') {
        v->type = JSON_STR;
        rc = read_string(r, &v->s);
    } else if (*r->p == '-' || is_digit(r)) {
        rc = read_number(r, v);
    } else {
        rc = read_word(r, v);
    }
    v->raw = (struct str){ from, (size_t)(r->p - from) };
    return rc;
}

static int parse(struct arena *a, struct str text, bool outline, struct json **ret, struct err *e)
{
    struct reader r = { .a = a, .start = text.p ? text.p : "", .outline = outline, .e = e };
    struct json *v;

    r.p = r.start;
    r.end = r.start + text.n;
    int rc = new_value(&r, &v);
    if (rc >= 0)
        rc = read_value(&r, v);
    if (rc < 0)
        return rc;

    skip_space(&r);
    if (r.p != r.end)
        return bad(&r, r.p, "unexpected text after the value");
    *ret = v;
    return 0;
}

int json_parse(struct arena *a, struct str text, struct json **ret, struct err *e)
{
    return parse(a, text, false, ret, e);
}

int json_outline(struct arena *a, struct str text, struct json **ret, struct err *e)
{
    return parse(a, text, true, ret, e);
}

const struct json *json_get(const struct json *obj, const char *name)
{
    if (!obj || obj->type != JSON_OBJ)
        return NULL;

    struct str want = str_of(name);
    for (const struct json *m = obj->first; m; m = m->next)
        if (str_eq(m->name, want))
            return m;
    return NULL;
}

struct str json_get_str(const struct json *obj, const char *name)
{
    const struct json *v = json_get(obj, name);

    return v && v->type == JSON_STR ? v->s : (struct str){ 0 };
}

int64_t json_get_int(const struct json *obj, const char *name, int64_t otherwise)
{
    const struct json *v = json_get(obj, name);

    return v && v->type == JSON_NUM && v->is_int ? v->i : otherwise;
}

bool json_get_bool(const struct json *obj, const char *name, bool otherwise)
{
    const struct json *v = json_get(obj, name);

    return v && v->type == JSON_BOOL ? v->b : otherwise;
}

const char *json_type_name(enum json_type t)
{
    switch (t) {
    case JSON_NULL: return "null";
    case JSON_BOOL: return "boolean";
    case JSON_NUM: return "number";
    case JSON_STR: return "string";
    case JSON_ARR: return "array";
    case JSON_OBJ: return "object";
    }
    return "unknown";
}

/* Writer */

/* Before each value and each key; afterwards a comma is due. */
static void separate(struct jw *w)
{
    if (w->comma)
        buf_char(w->out, ',');
    w->comma = true;
}

static void open_with(struct jw *w, char c)
{
    separate(w);
    buf_char(w->out, c);
    w->comma = false;
}

static void close_with(struct jw *w, char c)
{
    buf_char(w->out, c);
    w->comma = true;
}

void jw_obj(struct jw *w)
{
    open_with(w, '{');
}

void jw_obj_end(struct jw *w)
{
    close_with(w, '}');
}

void jw_arr(struct jw *w)
{
    open_with(w, '[');
}

void jw_arr_end(struct jw *w)
{
    close_with(w, ']');
}

/* Writes what cannot stand for itself at p; how many bytes of the input that was. */
static size_t put_escape(struct buf *out, const char *p, size_t n)
{
    static const char from[] = "\"\\\b\f\n\r\t";
    static const char into[] = "\"\\bfnrt";
    unsigned char c = (unsigned char)*p;

    if (c >= 0x80) {
        buf_add(out, "\xEF\xBF\xBD", 3);
        return (size_t)-utf8_step(p, n);
    }
    const char *known = c ? strchr(from, c) : NULL;
    if (known) {
        buf_add(out, (char[2]){ '\\', into[known - from] }, 2);
    } else {
        const char *hex = "0123456789abcdef";
        buf_add(out, (char[6]){ '\\', 'u', '0', '0', hex[c >> 4], hex[c & 15] }, 6);
    }
    return 1;
}

static void put_string(struct buf *out, struct str s)
{
    buf_char(out, '"');
    for (size_t at = 0; at < s.n && !out->full;) {
        size_t run = at;
        int step = 1;

        while (run < s.n && step > 0) {
            run += plain_run(s.p + run, s.n - run);
            step = run < s.n && (unsigned char)s.p[run] >= 0x80 ? utf8_step(s.p + run, s.n - run) : 0;
            run += step > 0 ? (size_t)step : 0;
        }
        buf_add(out, s.p + at, run - at);
        at = run;
        if (at < s.n)
            at += put_escape(out, s.p + at, s.n - at);
    }
    buf_char(out, '"');
}

/* A string of plain bytes, as most are, with what stands around it: one look, one copy. False: it is none. */
static bool put_plain(struct jw *w, struct str s, bool is_key)
{
    if (plain_run(s.p, s.n) < s.n)
        return false;
    size_t n = s.n + 2 + w->comma + is_key;
    char *p = w->out->full ? NULL : buf_room(w->out, n);
    if (p) {
        if (w->comma)
            *p++ = ',';
        *p++ = '"';
        if (s.n)
            memcpy(p, s.p, s.n);
        p[s.n] = '"';
        if (is_key)
            p[s.n + 1] = ':';
        buf_grew(w->out, n);
    }
    w->comma = !is_key;
    return true;
}

void jw_key_str(struct jw *w, struct str name)
{
    if (put_plain(w, name, true))
        return;
    separate(w);
    put_string(w->out, name);
    buf_char(w->out, ':');
    w->comma = false;
}

void jw_name(struct jw *w, const char *name, size_t n)
{
    size_t all = n + 3 + w->comma;
    char *p = w->out->full ? NULL : buf_room(w->out, all);

    if (p) {
        if (w->comma)
            *p++ = ',';
        *p++ = '"';
        memcpy(p, name, n);
        memcpy(p + n, "\":", 2);
        buf_grew(w->out, all);
    }
    w->comma = false;
}

void jw_raw(struct jw *w, struct str json)
{
    separate(w);
    size_t from = w->out->n;
    buf_str(w->out, json.n ? json : STR("null"));
    for (size_t i = from; w->one_line && i < w->out->n; i++)
        if (w->out->p[i] == '\n' || w->out->p[i] == '\r')
            w->out->p[i] = ' ';
}

void jw_null(struct jw *w)
{
    jw_raw(w, STR("null"));
}

void jw_bool(struct jw *w, bool b)
{
    jw_raw(w, b ? STR("true") : STR("false"));
}

void jw_str(struct jw *w, struct str s)
{
    if (!s.p) {
        jw_null(w);
        return;
    }
    if (put_plain(w, s, false))
        return;
    separate(w);
    put_string(w->out, s);
}

void jw_z(struct jw *w, const char *z)
{
    jw_str(w, str_of(z));
}

static void put_thousandths(struct jw *w, int64_t n)
{
    char text[32];
    char *end = text + sizeof text, *p = end;
    int digits = 0;

    for (; digits < 3 && n % 10 == 0; digits++)
        n /= 10;
    for (; digits < 3; digits++, n /= 10)
        *--p = (char)('0' + n % 10);
    if (p < end)
        *--p = '.';
    do
        *--p = (char)('0' + n % 10);
    while (n /= 10);
    jw_raw(w, (struct str){ p, (size_t)(end - p) });
}

void jw_int(struct jw *w, int64_t i)
{
    char digits[24];
    char *p = digits + sizeof digits;
    uint64_t n = i < 0 ? 0 - (uint64_t)i : (uint64_t)i;

    do
        *--p = (char)('0' + n % 10);
    while (n /= 10);
    if (i < 0)
        *--p = '-';
    jw_raw(w, (struct str){ p, (size_t)(digits + sizeof digits - p) });
}

void jw_num(struct jw *w, double d)
{
    char text[40];

    if (!(d >= -DBL_MAX && d <= DBL_MAX)) {
        jw_null(w);
        return;
    }
    /* Most are times with three decimals: the same number, and the same text, as what the loop below would find. */
    int64_t thousandths = d > -1e12 && d < 1e12 ? (int64_t)(d * 1000 + (d < 0 ? -.5 : .5)) : 0;
    if (thousandths > 0 && (double)thousandths / 1000 == d) {
        put_thousandths(w, thousandths);
        return;
    }
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, d);
        if (strtod(text, NULL) == d)
            break;
    }
    jw_raw(w, str_of(text));
}

static const char base64_digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void jw_base64(struct jw *w, struct str bytes)
{
    const unsigned char *p = (const unsigned char *)bytes.p;
    size_t size = (bytes.n + 2) / 3 * 4 + 2;

    if (!p) {
        jw_null(w);
        return;
    }
    separate(w);
    char *to = w->out->full ? NULL : buf_room(w->out, size);
    if (!to)
        return;
    *to++ = '"';
    for (size_t i = 0; i < bytes.n; i += 3) {
        size_t left = bytes.n - i;
        unsigned v = (unsigned)p[i] << 16 | (left > 1 ? (unsigned)p[i + 1] << 8 : 0) | (left > 2 ? p[i + 2] : 0u);
        *to++ = base64_digits[v >> 18];
        *to++ = base64_digits[v >> 12 & 63];
        *to++ = left > 1 ? base64_digits[v >> 6 & 63] : '=';
        *to++ = left > 2 ? base64_digits[v & 63] : '=';
    }
    *to = '"';
    buf_grew(w->out, size);
}

static int base64_value(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

struct str base64_decode(struct arena *a, struct str text)
{
    char *bytes = arena_alloc(a, text.n / 4 * 3 + 4);
    size_t digits = 0, pads = 0, n = 0;
    unsigned v = 0;

    for (size_t i = 0; i < text.n; i++) {
        char c = text.p[i];
        if (c == ' ' || c == '\n' || c == '\r' || c == '\t')
            continue;
        if (c == '=') {
            pads++;
            continue;
        }
        int digit = base64_value(c);
        if (digit < 0 || pads)
            return (struct str){ 0 };
        v = v << 6 | (unsigned)digit;
        if (++digits % 4 != 1) /* the first digit of four completes no byte */
            bytes[n++] = (char)(v >> (8 - digits % 4 * 2) % 8);
    }
    /* Four digits are three bytes; one digit alone is none; padding, if any, must fill the last four. */
    if (digits % 4 == 1 || (pads && (pads > 2 || (digits + pads) % 4 != 0)))
        return (struct str){ 0 };
    return (struct str){ bytes, n };
}

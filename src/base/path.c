#include "base/path.h"

#include <string.h>

#include "base/arena.h"
#include "base/auto.h"

enum { STAND_IN_BYTES = 3 }; /* in UTF-8: ee be 80 to ee bf bf */

static bool is_stand_in(const char *p, size_t n)
{
    return n >= STAND_IN_BYTES && (unsigned char)p[0] == 0xEE && ((unsigned char)p[1] & 0xFE) == 0xBE &&
           ((unsigned char)p[2] & 0xC0) == 0x80;
}

static bool has_stand_in(struct str s)
{
    for (const char *p = s.p, *end = s.p + s.n; s.n && (p = memchr(p, 0xEE, (size_t)(end - p))); p++)
        if (is_stand_in(p, (size_t)(end - p)))
            return true;
    return false;
}

static void put_stand_ins(struct buf *b, const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)p[i];
        char out[STAND_IN_BYTES] = { (char)0xEE, (char)(0xBE | (c >> 6 & 1)), (char)(0x80 | (c & 0x3F)) };
        buf_add(b, out, sizeof out);
    }
}

void jw_path(struct jw *w, struct str bytes)
{
    AUTO(buf_done) struct buf b = { .cap = STAND_IN_BYTES * bytes.n + 1 };

    if (!bytes.p || (utf8_ok(bytes) && !has_stand_in(bytes))) {
        jw_str(w, bytes);
        return;
    }
    for (size_t i = 0; i < bytes.n;) {
        const char *p = bytes.p + i;
        int step = utf8_step(p, bytes.n - i);
        size_t n = (size_t)(step < 0 ? -step : step);
        if (step < 0 || is_stand_in(p, bytes.n - i))
            put_stand_ins(&b, p, n);
        else
            buf_add(&b, p, n);
        i += n;
    }
    jw_str(w, buf_view(&b));
}

struct str path_bytes(struct arena *a, struct str text)
{
    if (!has_stand_in(text))
        return text;
    char *out = arena_alloc(a, text.n + 1);
    size_t n = 0;
    for (size_t i = 0; i < text.n;) {
        const char *p = text.p + i;
        bool one = is_stand_in(p, text.n - i);
        out[n++] = one ? (char)(0x80 | (p[1] & 1) << 6 | (p[2] & 0x3F)) : *p;
        i += one ? STAND_IN_BYTES : 1;
    }
    out[n] = 0;
    return (struct str){ out, n };
}

void jw_given_path(struct jw *w, struct str either)
{
    AUTO(arena_done) struct arena a = { 0 };

    jw_path(w, path_bytes(&a, either));
}

#include "tool/ends.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"

enum { CHAR_MAX_BYTES = 4 };

size_t ends_first(struct str s, size_t chars)
{
    size_t i = 0;

    for (; chars && i < s.n; chars--) {
        int step = utf8_step(s.p + i, s.n - i);
        i += step > 0 ? (size_t)step : 1;
    }
    return i;
}

static size_t last_char(struct str s)
{
    for (size_t n = 1; n <= CHAR_MAX_BYTES && n <= s.n; n++)
        if (utf8_step(s.p + s.n - n, n) == (int)n)
            return n;
    return 1;
}

size_t ends_last(struct str s, size_t chars)
{
    struct str rest = s;

    for (; chars && rest.n; chars--)
        rest.n -= last_char(rest);
    return s.n - rest.n;
}

struct str ends_join(struct arena *a, struct str head, int64_t omitted, struct str tail)
{
    char *text = arena_alloc(a, head.n + tail.n + 64);

    memcpy(text, head.p ? head.p : "", head.n);
    size_t n = head.n + (size_t)snprintf(text + head.n, 64, "\n[... %lld bytes omitted ...]\n", (long long)omitted);
    memcpy(text + n, tail.p ? tail.p : "", tail.n);
    return (struct str){ text, n + tail.n };
}

struct str ends_of(struct arena *a, struct str s, size_t chars, int64_t *omitted)
{
    size_t head = ends_first(s, chars - chars / 2), tail = ends_last(s, chars / 2);

    if (head + tail >= s.n)
        return s;
    *omitted += (int64_t)(s.n - head - tail);
    return ends_join(a, (struct str){ s.p, head }, (int64_t)(s.n - head - tail),
                     (struct str){ s.p + s.n - tail, tail });
}

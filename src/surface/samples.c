#include "surface/samples.h"

#include <string.h>

#include "base/limits.h"

void samples_reset(struct samples *s)
{
    s->text.cap = LIMIT_OBSERVE_SAMPLES;
    buf_reset(&s->text);
    s->count = s->dropped = 0;
}

void samples_done(struct samples *s)
{
    buf_done(&s->text);
}

/* Many at once: those that stay are moved. */
static void drop_oldest(struct samples *s)
{
    int64_t n = s->count / 4 + 1;
    size_t bytes = 0;

    for (int64_t i = 0; i < n; i++)
        bytes += s->sizes[i];
    buf_eat(&s->text, bytes);
    s->count -= n;
    s->dropped += n;
    memmove(s->sizes, s->sizes + n, (size_t)s->count * sizeof *s->sizes);
}

bool samples_add(struct samples *s, struct str json)
{
    if (json.n > LIMIT_OBSERVE_SAMPLE)
        return false;
    while (s->count && (s->count == SAMPLES_MAX || s->text.n + json.n + 1 > LIMIT_OBSERVE_SAMPLES))
        drop_oldest(s);
    if (!buf_char(&s->text, ',') || !buf_str(&s->text, json))
        return false;
    s->sizes[s->count++] = (uint32_t)json.n + 1;
    return true;
}

void samples_print(const struct samples *s, struct buf *to)
{
    if (s->count)
        buf_add(to, s->text.p + 1, s->text.n - 1);
}

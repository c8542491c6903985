#include "test.h"

#include <stdlib.h>

#include "base/json.h"
#include "base/limits.h"
#include "surface/samples.h"

/* A sample of n bytes that says its number. */
static struct str sample(struct arena *a, int number, size_t n)
{
    char *p = arena_alloc(a, n + 1);

    memset(p, ' ', n);
    int head = snprintf(p, n, "[%d", number);
    p[head] = ' ';
    p[n - 1] = ']';
    return (struct str){ p, n };
}

/* What a report would have: whole samples, in order, up to the newest. */
static void expect_newest(const struct samples *s, int newest)
{
    struct arena a = { 0 };
    struct json *all = NULL;
    struct err e = { 0 };
    struct buf b;
    int64_t n = 0;

    buf_init(&b, LIMIT_OBSERVE_SAMPLES + 2);
    buf_char(&b, '[');
    samples_print(s, &b);
    buf_char(&b, ']');
    EXPECT_INT(json_parse(&a, buf_view(&b), &all, &e), 0);
    for (const struct json *j = all ? all->first : NULL; j; j = j->next)
        EXPECT_INT(strtoll(j->raw.p + 1, NULL, 10), newest - s->count + 1 + n++);
    EXPECT_INT(n, s->count);
    buf_done(&b);
    arena_done(&a);
}

TEST(samples_of_any_size_are_kept_whole_and_the_oldest_go)
{
    static const size_t sizes[] = { 8, 1000, 200 * KiB, 10, LIMIT_OBSERVE_SAMPLE, 50 * KiB, 7 };
    static struct samples s;

    samples_reset(&s);
    for (int i = 0; i < 500; i++) {
        struct arena a = { 0 };
        EXPECT_TRUE(samples_add(&s, sample(&a, i, i < 100 ? 10 : sizes[(size_t)i % (sizeof sizes / sizeof *sizes)])));
        arena_done(&a);
        EXPECT_INT(s.count + s.dropped, i + 1);
        EXPECT_TRUE(s.text.n <= LIMIT_OBSERVE_SAMPLES && s.count > 0);
        if (i % 25 == 0)
            expect_newest(&s, i);
    }
    expect_newest(&s, 499);
    samples_done(&s);
}

TEST(many_small_samples_are_bounded_by_their_number)
{
    static struct samples s;
    struct arena a = { 0 };

    samples_reset(&s);
    for (int i = 0; i < 2 * SAMPLES_MAX; i++)
        EXPECT_TRUE(samples_add(&s, sample(&a, i, 8)));
    EXPECT_TRUE(s.count <= SAMPLES_MAX && s.count + s.dropped == 2 * SAMPLES_MAX);
    expect_newest(&s, 2 * SAMPLES_MAX - 1);
    samples_done(&s);
    arena_done(&a);
}

TEST(a_sample_beyond_the_limit_is_refused_and_leaves_the_others)
{
    static struct samples s;
    struct arena a = { 0 };

    samples_reset(&s);
    EXPECT_TRUE(samples_add(&s, sample(&a, 0, 100)));
    EXPECT_TRUE(!samples_add(&s, sample(&a, 1, LIMIT_OBSERVE_SAMPLE + 1)));
    expect_newest(&s, 0);
    samples_done(&s);
    arena_done(&a);
}

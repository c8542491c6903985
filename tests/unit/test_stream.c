/* Streams and spools are init's; the unit program has no init, so their sources are part of this file. */
#include "test.h"

#include "../../src/init/stream.c"
#undef HEAD
#include "../../src/init/spool.c"

static struct str text_of(struct stream *s, struct arena *a)
{
    return stream_text(s, a);
}

TEST(stream_keeps_head_and_tail_of_any_chunking)
{
    char all[5000];
    for (size_t i = 0; i < sizeof all; i++)
        all[i] = (char)('a' + i % 23);

    static const size_t caps[][2] = { { 0, 0 }, { 10, 0 }, { 0, 10 }, { 7, 13 }, { 100, 1 }, { 1000, 1000 } };
    for (size_t c = 0; c < ARRAY_LEN(caps); c++)
        for (size_t chunk = 1; chunk < 3000; chunk = chunk * 3 + 1)
            for (size_t total = 0; total < sizeof all; total = total * 2 + 1) {
                struct arena a = { 0 };
                struct stream s;
                char want[6000];
                size_t head = caps[c][0], tail = caps[c][1], n = 0;

                stream_init(&s, (int64_t)head, (int64_t)tail, 64);
                for (size_t at = 0; at < total; at += chunk)
                    stream_add(&s, all + at, total - at < chunk ? total - at : chunk);
                if (total <= head + tail) {
                    memcpy(want, all, total);
                    n = total;
                } else {
                    memcpy(want, all, head);
                    n = head + (size_t)sprintf(want + head, "%s[... %zu bytes omitted ...]\n", head ? "\n" : "",
                                               total - head - tail);
                    memcpy(want + n, all + total - tail, tail);
                    n += tail;
                }
                want[n] = 0;
                EXPECT_STR(text_of(&s, &a), want);
                EXPECT_INT(s.total, total);
                EXPECT_INT(s.memfd >= 0, total > head + tail);
                EXPECT_INT(s.kept, total > head + tail ? (total < 64 ? total : 64) : 0);
                int64_t front = total > head + tail ? (int64_t)s.kept : (int64_t)head;
                int64_t lost = (int64_t)total - (int64_t)(tail < total ? tail : total) - front;
                EXPECT_INT(stream_dropped(&s), total > head + tail && lost > 0 ? lost : 0);
                stream_done(&s);
                arena_done(&a);
            }
}

TEST(stream_does_not_cut_characters)
{
    struct arena a = { 0 };
    struct stream s;

    stream_init(&s, 4, 4, 0);
    stream_add(&s, "\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac", 12);
    EXPECT_STR(stream_text(&s, &a), "\xe2\x82\xac\n[... 6 bytes omitted ...]\n\xe2\x82\xac");
    stream_done(&s);
    arena_done(&a);
}

TEST(stream_knows_the_last_line)
{
    static const char *const cases[][2] = { { "", "" }, { "a", "a" }, { "a\n", "" }, { "a\nb? ", "b? " } };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct arena a = { 0 };
        struct stream s;
        stream_init(&s, 2, 100, 0);
        stream_add(&s, cases[i][0], strlen(cases[i][0]));
        EXPECT_STR(stream_last_line(&s, &a), cases[i][1]);
        stream_done(&s);
        arena_done(&a);
    }
}

TEST(spool_keeps_its_beginning_and_end_by_offset)
{
    struct arena a = { 0 };
    struct spool s;
    int64_t total = 2 * LIMIT_OUTPUT_KEPT + 12345;
    char chunk[8192];

    spool_init(&s);
    for (int64_t at = 0; at < total; at += (int64_t)sizeof chunk) {
        for (size_t i = 0; i < sizeof chunk; i++)
            chunk[i] = (char)('a' + (at + (int64_t)i) / 1000 % 26);
        add(&s, chunk, total - at < (int64_t)sizeof chunk ? total - at : (int64_t)sizeof chunk);
    }
    EXPECT_INT(s.total, total);
    static const int64_t probes[] = { 0, 999, HEAD - 1 };
    for (size_t i = 0; i < ARRAY_LEN(probes); i++) {
        int64_t offset = probes[i];
        struct str got = spool_read(&s, &offset, 1, &a);
        EXPECT_INT(got.n == 1 ? got.p[0] : -1, 'a' + probes[i] / 1000 % 26);
        EXPECT_INT(offset, probes[i] + 1);
    }
    int64_t offset = HEAD + 5;
    struct str got = spool_read(&s, &offset, 10, &a);
    EXPECT_TRUE(memmem(got.p, got.n, "bytes omitted", 13) != NULL);
    EXPECT_INT(offset, total - RING + 10);
    offset = HEAD + 5;
    got = spool_read_on(&s, &offset, 10, &a); /* nothing but what is there */
    EXPECT_INT(got.n, 10);
    EXPECT_INT(got.p[0], 'a' + (total - RING) / 1000 % 26);
    EXPECT_INT(offset, total - RING + 10);
    EXPECT_TRUE(spool_has_room(&s, total, RING));
    EXPECT_TRUE(!spool_has_room(&s, total, RING + 1));
    EXPECT_TRUE(!spool_has_room(&s, 0, 1));
    EXPECT_TRUE(spool_has_room(&(struct spool){ .total = HEAD }, 0, RING));
    EXPECT_TRUE(!spool_has_room(&(struct spool){ .total = HEAD }, 0, RING + 1));
    offset = total - 3;
    got = spool_read(&s, &offset, 100, &a);
    EXPECT_INT(got.n, 3);
    EXPECT_INT(got.p[2], 'a' + (total - 1) / 1000 % 26);
    offset = total + 100;
    EXPECT_INT(spool_read(&s, &offset, 100, &a).n, 0);
    EXPECT_INT(offset, total);
    spool_done(&s);
    arena_done(&a);
}

#include "test.h"

#include <stdlib.h>

#include "base/auto.h"
#include "base/limits.h"
#include "wire/zmtp.h"

static const char greeting[64] = "\xff\0\0\0\0\0\0\0\1\x7f\3\1NULL";
static const char ready[] = "\4\34\5READY\13Socket-Type\0\0\0\6ROUTER";

static void feed(struct zmtp *z, const void *p, size_t n)
{
    buf_add(&z->in, p, n);
}

static void greet(struct zmtp *z)
{
    struct zmtp_message m;
    struct err e;

    feed(z, greeting, sizeof greeting);
    feed(z, ready, sizeof ready - 1);
    EXPECT_INT(zmtp_next(z, &m, &e), 0);
    EXPECT_TRUE(z->up);
}

TEST(zmtp_says_nothing_but_its_greeting_before_the_peer_is_ready)
{
    struct zmtp z;
    struct str hi = STR("hi");

    zmtp_init(&z, ZMTP_SUB, "me");
    size_t first = z.out.n;
    EXPECT_TRUE(zmtp_send(&z, &hi, 1));
    EXPECT_INT(z.out.n, first);
    greet(&z);
    EXPECT_INT(z.out.n, first + 3 + 4); /* the subscription, then the message */
    EXPECT_INT(memcmp(z.out.p + first, "\0\1\1\0\2hi", 7), 0);
    zmtp_done(&z);
}

TEST(zmtp_joins_parts_from_any_chunks)
{
    static const char wire[] = "\1\1a\1\0\0\3xyz\0\2ok";

    for (size_t chunk = 1; chunk < sizeof wire; chunk++) {
        struct zmtp z;
        struct zmtp_message m = { 0 };
        struct err e;
        int got = 0;

        zmtp_init(&z, ZMTP_DEALER, "me");
        greet(&z);
        for (size_t at = 0; at < sizeof wire - 1; at += chunk) {
            feed(&z, wire + at, sizeof wire - 1 - at < chunk ? sizeof wire - 1 - at : chunk);
            for (int r; (r = zmtp_next(&z, &m, &e)) != 0; got++) {
                EXPECT_INT(r, 1);
                if (got == 0) {
                    EXPECT_INT(m.n, 3);
                    EXPECT_STR(m.parts[0], "a");
                    EXPECT_INT(m.parts[1].n, 0);
                    EXPECT_STR(m.parts[2], "xyz");
                } else {
                    EXPECT_INT(m.n, 1);
                    EXPECT_STR(m.parts[0], "ok");
                }
            }
        }
        EXPECT_INT(got, 2);
        zmtp_done(&z);
    }
}

TEST(zmtp_of_a_frame_that_is_too_large_keeps_both_ends_and_the_next_is_whole)
{
    size_t size = LIMIT_KERNEL_MESSAGE + 1000;
    auto_free char *body = malloc(size);
    unsigned char head[9] = { 2 };
    struct zmtp_message m;
    struct zmtp z;
    struct err e;
    int got = 0;

    memset(body, 'm', size);
    body[0] = 'A';
    body[size - 1] = 'Z';
    for (int i = 0; i < 8; i++)
        head[1 + i] = (unsigned char)((uint64_t)size >> (56 - 8 * i));
    zmtp_init(&z, ZMTP_DEALER, "me");
    greet(&z);
    feed(&z, "\1\3one", 5);
    feed(&z, head, sizeof head);
    for (size_t at = 0; at < size; at += 100000) {
        feed(&z, body + at, size - at < 100000 ? size - at : 100000);
        for (int r; (r = zmtp_next(&z, &m, &e)) != 0; got++) {
            EXPECT_INT(r, 1);
            EXPECT_INT(m.n, 2);
            EXPECT_STR(m.parts[0], "one");
            EXPECT_INT(m.parts[1].n, ZMTP_KEEP);
            EXPECT_INT(m.parts[1].p[0], 'A');
            EXPECT_INT(m.tail.p[m.tail.n - 1], 'Z');
            EXPECT_INT(m.skipped, size - 2 * ZMTP_KEEP);
        }
    }
    EXPECT_INT(got, 1);
    feed(&z, "\0\2ok", 4);
    EXPECT_INT(zmtp_next(&z, &m, &e), 1);
    EXPECT_STR(m.parts[0], "ok");
    EXPECT_INT(m.skipped, 0);
    zmtp_done(&z);
}

TEST(zmtp_refuses_what_it_is_not)
{
    static const char old[64] = "\xff\0\0\0\0\0\0\0\1\x7f\1";
    static const struct {
        const char *bytes;
        size_t n;
        bool greeted;
    } cases[] = {
        { "HTTP/1.1", 8, false },
        { old, sizeof old, false },
        { "\x10\1a", 3, true },              /* flags that nobody knows */
        { "\2\xff\0\0\0\0\0\0\0", 9, true }, /* a negative size */
        { "\6\0\0\0\0\0\1\0\0x", 10, true }, /* a command of 64 KiB */
        { "\5\1a", 3, true },                /* a command in two parts */
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct zmtp_message m;
        struct zmtp z;
        struct err e;

        zmtp_init(&z, ZMTP_DEALER, "me");
        if (cases[i].greeted)
            greet(&z);
        feed(&z, cases[i].bytes, cases[i].n);
        EXPECT_TRUE(zmtp_next(&z, &m, &e) < 0);
        zmtp_done(&z);
    }
}

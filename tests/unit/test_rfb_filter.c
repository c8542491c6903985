#include "surface/rfb_filter.h"
#include "test.h"

#define GREETING "RFB 003.008\n\1\1"

static bool feed(struct rfb_filter *f, struct str s, size_t step, struct buf *out)
{
    bool ok = true;

    for (size_t at = 0; ok && at < s.n; at += step)
        ok = rfb_filter_feed(f, (struct str){ s.p + at, s.n - at < step ? s.n - at : step }, out);
    return ok;
}

TEST(rfb_filter_lets_wishes_for_pixels_pass_and_nothing_else_however_they_are_cut)
{
    static const char said[] = GREETING "\2\0\0\2\0\0\0\0\0\0\0\1"              /* encodings */
                                        "\4\1\0\0\0\0\0a"                       /* a key */
                                        "\3\0\0\0\0\0\0\1\0\1"                  /* a frame */
                                        "\5\1\0\1\0\1"                          /* the pointer */
                                        "\6\0\0\0\0\0\0\5paste"                 /* the clipboard */
                                        "\6\0\0\0\xff\xff\xff\xfc\0\0\0\1"      /* its extended form */
                                        "\xfb\0\2\0\1\0\1\0" "0123456789abcdef" /* a new size */
                                        "\xff\0\0\1\0\0\0a\0\0\0a"              /* a key, as QEMU has it */
                                        "\xf8\0\0\0\x80\0\0\0\2ab"              /* a fence */
                                        "\0\0\0\0" "0123456789abcdef"           /* pixels */
                                        "\3\1\0\0\0\0\0\2\0\2";
    static const char passed[] = GREETING "\2\0\0\2\0\0\0\0\0\0\0\1"
                                          "\3\0\0\0\0\0\0\1\0\1"
                                          "\xf8\0\0\0\x80\0\0\0\2ab"
                                          "\0\0\0\0" "0123456789abcdef"
                                          "\3\1\0\0\0\0\0\2\0\2";

    for (size_t step = 1; step < sizeof said; step++) {
        struct rfb_filter f = { 0 };
        struct buf out;
        buf_init(&out, 4096);
        EXPECT_TRUE(feed(&f, (struct str){ said, sizeof said - 1 }, step, &out));
        EXPECT_TRUE(str_eq(buf_view(&out), (struct str){ passed, sizeof passed - 1 }));
        buf_done(&out);
    }
}

TEST(rfb_filter_refuses_what_it_does_not_know)
{
    static const char *const said[] = { GREETING "\x63", GREETING "\6\0\0\0\x7f\xff\xff\xff", GREETING "\6\0\0\0\x80\0\0\0" };

    for (size_t i = 0; i < 3; i++) {
        struct rfb_filter f = { 0 };
        struct buf out;
        buf_init(&out, 4096);
        EXPECT_TRUE(!feed(&f, (struct str){ said[i], i ? 22 : 15 }, 100, &out));
        buf_done(&out);
    }
}

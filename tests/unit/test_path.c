/* Paths as text: any bytes go there and come back. */
#include "base/path.h"

#include "base/arena.h"
#include "base/auto.h"
#include "test.h"

static struct str text_of(struct arena *a, struct str bytes)
{
    struct buf b;
    struct jw w = { .out = &b };

    buf_init(&b, 65536);
    jw_path(&w, bytes);
    struct str quoted = arena_copy(a, buf_view(&b));
    buf_done(&b);
    return (struct str){ quoted.p + 1, quoted.n - 2 };
}

TEST(path_text)
{
    AUTO(arena_done) struct arena a = { 0 };
    static const struct {
        const char *bytes, *text;
    } cases[] = {
        { "/home/gem/a b", "/home/gem/a b" },
        { "\303\244\360\237\230\200", "\303\244\360\237\230\200" },
        { "a\377b", "a\356\277\277b" },
        { "\200", "\356\276\200" },
        { "\303", "\356\277\203" },                                 /* half a character */
        { "\355\240\200", "\356\277\255\356\276\240\356\276\200" }, /* a surrogate */
        { "\356\276\200", "\356\277\256\356\276\276\356\276\200" }, /* one that stands for a byte */
        { "\356\275\277\356\200\200\357\276\200", "\356\275\277\356\200\200\357\276\200" }, /* beside them */
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct str text = text_of(&a, str_of(cases[i].bytes));
        EXPECT_STR(text, cases[i].text);
        EXPECT_STR(path_bytes(&a, text), cases[i].bytes);
    }
}

TEST(path_every_pair_of_bytes)
{
    for (int i = 1; i < 65536; i++) {
        AUTO(arena_done) struct arena a = { 0 };
        char pair[2] = { (char)(i >> 8), (char)i };
        struct str s = { pair, 2 };
        if (pair[0] == '"' || pair[1] == '"' || pair[0] == '\\' || pair[1] == '\\' || (unsigned char)pair[0] < ' ' ||
            (unsigned char)pair[1] < ' ')
            continue; /* JSON's own */
        struct str text = text_of(&a, s);
        EXPECT_TRUE(utf8_ok(text));
        EXPECT_TRUE(str_eq(path_bytes(&a, text), s));
    }
}

/* What is left of a text that is too long. */
#include "tool/ends.h"

#include "base/auto.h"
#include "test.h"

TEST(ends)
{
    static const struct {
        const char *text;
        size_t chars;
        const char *want;
    } cases[] = {
        { "", 0, "" },
        { "abc", 3, "abc" },
        { "abcd", 3, "ab\n[... 1 bytes omitted ...]\nd" },
        { "abcd", 0, "\n[... 4 bytes omitted ...]\n" },
        { "\303\244\303\266\303\274", 3, "\303\244\303\266\303\274" },
        { "\303\244\303\266\303\274", 2, "\303\244\n[... 2 bytes omitted ...]\n\303\274" },
        { "\360\237\230\200x\360\237\230\200", 2, "\360\237\230\200\n[... 1 bytes omitted ...]\n\360\237\230\200" },
        { "\200\200\200\200", 2, "\200\n[... 2 bytes omitted ...]\n\200" },
        { "\303x\303", 2, "\303\n[... 1 bytes omitted ...]\n\303" },
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        AUTO(arena_done) struct arena a = { 0 };
        int64_t omitted = 0;
        EXPECT_STR(ends_of(&a, str_of(cases[i].text), cases[i].chars, &omitted), cases[i].want);
    }
}

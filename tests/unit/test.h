/* TEST(name) { ... } registers itself; EXPECT_* prints both sides and goes on. */
#pragma once

#include <stdio.h>
#include <string.h>

#include "base/str.h"

struct test {
    const char *name;
    void (*run)(void);
};
extern int test_failures;

#define TEST(id)                                                                                                       \
    static void test_##id(void);                                                                                       \
    static const struct test entry_##id = { #id, test_##id };                                                          \
    static const struct test *const ptr_##id __attribute__((used, section("tests"))) = &entry_##id;                    \
    static void test_##id(void)

#define EXPECT_INT(got, want)                                                                                          \
    do {                                                                                                               \
        long long got_ = (long long)(got), want_ = (long long)(want);                                                  \
        if (got_ != want_) {                                                                                           \
            test_failures++;                                                                                           \
            printf("%s:%d: %s is %lld, want %lld\n", __FILE__, __LINE__, #got, got_, want_);                           \
        }                                                                                                              \
    } while (0)

#define EXPECT_TRUE(what) EXPECT_INT(!!(what), 1)

#define EXPECT_STR(got, want)                                                                                          \
    do {                                                                                                               \
        struct str got_ = (got), want_ = str_of(want);                                                                 \
        if (!str_eq(got_, want_)) {                                                                                    \
            test_failures++;                                                                                           \
            printf("%s:%d: %s is \"%.*s\", want \"%.*s\"\n", __FILE__, __LINE__, #got, STR_ARG(got_), STR_ARG(want_)); \
        }                                                                                                              \
    } while (0)

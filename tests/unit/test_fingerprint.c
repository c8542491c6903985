/* Fingerprints see every change of a small tree; stamps see that there was one. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "image/fingerprint.h"
#include "image/stamps.h"
#include "test.h"

static char top[64];

static void make_top(void)
{
    snprintf(top, sizeof top, "/tmp/sg-fingerprint-XXXXXX");
    EXPECT_TRUE(mkdtemp(top) != NULL);
}

static void shell(const char *command)
{
    char line[512];

    snprintf(line, sizeof line, "cd %s && %s", top, command);
    EXPECT_INT(system(line), 0);
}

static void take(char hex[SHA_HEX])
{
    struct sha h;
    struct err e = { 0 };

    EXPECT_INT(fingerprint_of(top, &h, &e), 0);
    sha_print(&h, hex);
}

TEST(fingerprint_tells_every_change_and_no_other)
{
    static const struct {
        const char *change, *back;
    } cases[] = {
        { "echo evil > d/f", "echo good > d/f" },
        { "printf good > d/f", "echo good > d/f" },
        { "chmod 666 d/f", "chmod 644 d/f" },
        { "chmod 1777 d", "chmod 755 d" },
        { "touch d/new", "rm d/new" },
        { "mkdir e", "rmdir e" },
        { "mv d/f d/g", "mv d/g d/f" },
        { "rm d/l && ln -s g d/l", "rm d/l && ln -s f d/l" },
        { "rm d/l && cp d/f d/l", "rm d/l && ln -s f d/l" },
        { "rm d/f && mkfifo d/f", "rm d/f && echo good > d/f" },
        { "rm -r d/sub", "mkdir d/sub" },
        { "chmod 700 .", "chmod 755 ." },
        { "mkdir d/f2 && mv d/sub d/f2/", "mv d/f2/sub d/ && rmdir d/f2" },
    };
    char was[SHA_HEX], is[SHA_HEX];

    make_top();
    shell("umask 022; chmod 755 . && mkdir d d/sub && echo good > d/f && ln -s f d/l && chmod 644 d/f");
    take(was);
    shell("touch -d 2001-01-01 d/f d && cat d/f > /dev/null && ln d/f ../$(basename $PWD).link");
    take(is);
    EXPECT_STR(str_of(is), was); /* times and names elsewhere are nobody's business */
    shell("rm ../$(basename $PWD).link");
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        shell(cases[i].change);
        take(is);
        EXPECT_TRUE(strcmp(is, was) != 0);
        shell(cases[i].back);
        take(is);
        EXPECT_STR(str_of(is), was);
    }
    if (setxattr(top, "user.sg", "1", 1, 0) == 0) {
        take(is);
        EXPECT_TRUE(strcmp(is, was) != 0);
    }
    shell("rm -r ./*");
    EXPECT_INT(rmdir(top), 0);
}

TEST(stamps_hold_until_something_is_touched)
{
    static const char *const touches[] = { "echo good > f",       "chmod 644 f", "touch -d 2001-01-01 f",
                                           "touch n/x && rm n/x", "ln -sf f l",  "mv f g && mv g f" };
    char path[128], line[128];
    struct stamps *s[ARRAY_LEN(touches)];
    struct err e = { 0 };

    make_top();
    for (size_t i = 0; i < ARRAY_LEN(touches); i++) {
        snprintf(line, sizeof line, "mkdir -p %zu/n && cd %zu && echo good > f && ln -s f l", i, i);
        shell(line);
    }
    struct stamps *fresh = stamps_take(top, &e);
    EXPECT_TRUE(fresh != NULL);
    usleep(2100000);
    EXPECT_TRUE(!stamps_hold(fresh)); /* taken so early that the next change might have had the same time */
    stamps_free(fresh);
    for (size_t i = 0; i < ARRAY_LEN(touches); i++) {
        snprintf(path, sizeof path, "%s/%zu", top, i);
        s[i] = stamps_take(path, &e);
        EXPECT_TRUE(s[i] != NULL && stamps_hold(s[i]) && stamps_hold(s[i]));
        snprintf(line, sizeof line, "cd %zu && %s", i, touches[i]);
        shell(line);
        EXPECT_TRUE(!stamps_hold(s[i]));
        stamps_free(s[i]);
    }
    EXPECT_TRUE(stamps_take("/nowhere/at/all", &e) == NULL);
    shell("rm -r ./*");
    EXPECT_INT(rmdir(top), 0);
}

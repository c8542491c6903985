#include "test.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "store/blob.h"

static void put(const char *home, struct str content, bool sync, const char *want)
{
    auto_close int fd = memfd_create("test", MFD_CLOEXEC);
    struct blob_name name = { { 0 } };
    struct err e = { 0 };
    uint64_t bytes = 0;

    EXPECT_INT(write(fd, content.p, content.n), (long)content.n);
    EXPECT_INT(blob_put(home, fd, sync, &name, &bytes, &e), 0);
    EXPECT_STR(str_of(name.z), want);
    EXPECT_INT(bytes, content.n);

    int got = -1;
    char back[64] = { 0 };
    EXPECT_INT(blob_open(home, str_of(name.z), &got, &bytes, &e), 0);
    EXPECT_INT(bytes, content.n);
    EXPECT_INT(read(got, back, sizeof back), (long)content.n);
    EXPECT_TRUE(memcmp(back, content.p, content.n) == 0);
    close(got);
}

TEST(blob_put_and_open)
{
    static const char abc[] = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    static const char empty[] = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    char home[] = "/tmp/sandglass-blob-XXXXXX", command[160];
    struct err e = { 0 };
    uint64_t bytes;
    int fd;

    if (!mkdtemp(home))
        abort();
    put(home, STR("abc"), false, abc);
    put(home, STR("abc"), true, abc); /* again: the same blob */
    put(home, STR(""), true, empty);

    static const char *const bad[] = {
        "",
        "sha256:",
        "sha256:../../../../etc/passwd",
        "md5:ba7816bf",
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        "sha256:BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AD",
        "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad0",
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        EXPECT_INT(blob_open(home, str_of(bad[i]), &fd, &bytes, &e) < 0, 1);
        EXPECT_INT(e.code, ERR_INVALID);
    }
    EXPECT_INT(blob_open(home, STR("sha256:0000000000000000000000000000000000000000000000000000000000000000"), &fd,
                         &bytes, &e) < 0,
               1);
    EXPECT_INT(e.code, ERR_NOT_FOUND);

    int pipes[2];
    struct blob_name name;
    EXPECT_INT(pipe2(pipes, O_CLOEXEC), 0);
    EXPECT_INT(blob_put(home, pipes[0], false, &name, &bytes, &e) < 0, 1); /* must not wait for it */
    close(pipes[0]);
    close(pipes[1]);
    snprintf(command, sizeof command, "test -z \"$(ls '%s'/blobs | grep new)\" && rm -rf '%s'", home, home);
    EXPECT_INT(system(command), 0); /* no half-written file is left */
}

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "daemon/fdstore.h"
#include "test.h"

static ino_t inode(int fd)
{
    struct stat st = { 0 };
    (void)fstat(fd, &st);
    return st.st_ino;
}

static int open_dir(const char *path)
{
    return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* supervise's side of GIVE waits for guard, so guard is a child here; it ends with the other end of the socket. */
static size_t ask(struct fdstore *s, int store, struct kept_fd **ret)
{
    struct err e;
    size_t n = 0;

    fdstore_turn(s);
    pid_t guard = fork();
    if (guard == 0) {
        close(store);
        for (int i = 0; i < 2000 && s->socket >= 0; i++) {
            fdstore_turn(s);
            usleep(1000);
        }
        _exit(0);
    }
    EXPECT_INT(fdstore_give(store, ret, &n, &e), 0);
    return n;
}

static void done(struct fdstore *s, int store, struct kept_fd *kept, size_t n)
{
    for (size_t i = 0; i < n; i++)
        close(kept[i].fd);
    free(kept);
    close(store);
    for (size_t i = 0; i < s->count; i++)
        close(s->kept[i].fd);
    if (s->socket >= 0)
        close(s->socket);
    free(s->kept);
}

TEST(fdstore_gives_back_what_it_kept)
{
    struct fdstore s;
    struct err e;
    struct kept_fd *kept;
    int a = open_dir("/proc"), b = open_dir("/");

    fdstore_init(&s);
    int store = fdstore_renew(&s, &e);
    EXPECT_INT(fdstore_inherited(store), store);
    EXPECT_INT(fdstore_inherited(a), -1);
    EXPECT_INT(fdstore_keep(store, "b-one", a, &e), 0);
    EXPECT_INT(fdstore_keep(store, "b-two", a, &e), 0);
    EXPECT_INT(fdstore_keep(store, "b-one", b, &e), 0); /* instead of the first */
    EXPECT_INT(fdstore_keep(store, "b-three", b, &e), 0);
    fdstore_drop(store, "b-two");
    fdstore_drop(store, "b-never");
    size_t n = ask(&s, store, &kept);
    EXPECT_INT(n, 2);
    for (size_t i = 0; i < n; i++)
        EXPECT_INT(inode(kept[i].fd), inode(b));
    done(&s, store, kept, n);
    close(a);
    close(b);
}

TEST(fdstore_hears_what_was_said_before_a_death)
{
    struct fdstore s;
    struct err e;
    struct kept_fd *kept;
    int a = open_dir("/proc");

    fdstore_init(&s);
    int store = fdstore_renew(&s, &e);
    EXPECT_INT(fdstore_keep(store, "b-one", a, &e), 0);
    close(store);
    store = fdstore_renew(&s, &e);
    size_t n = ask(&s, store, &kept);
    EXPECT_INT(n, 1);
    EXPECT_STR(str_of(kept[0].id), "b-one");
    done(&s, store, kept, n);
    close(a);
}

TEST(fdstore_has_a_limit)
{
    struct rlimit was, more;
    struct fdstore s;
    struct err e;
    char id[BOX_ID_MAX];
    int a = open_dir("/proc");

    getrlimit(RLIMIT_NOFILE, &was);
    more = was;
    more.rlim_cur = more.rlim_max;
    setrlimit(RLIMIT_NOFILE, &more);
    fdstore_init(&s);
    int store = fdstore_renew(&s, &e);
    for (int i = 0; i < LIMIT_KEPT_FDS + 3; i++) {
        snprintf(id, sizeof id, "b-%d", i);
        EXPECT_INT(fdstore_keep(store, id, a, &e), 0);
        if (i % 1000 == 0)
            fdstore_turn(&s);
    }
    fdstore_turn(&s);
    EXPECT_INT(s.count, more.rlim_max > LIMIT_KEPT_FDS + 100 ? LIMIT_KEPT_FDS : s.count);
    done(&s, store, NULL, 0);
    setrlimit(RLIMIT_NOFILE, &was);
    close(a);
}

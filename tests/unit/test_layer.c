#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>

#include "layer_world.h"
#include "tree_compare.h"

/* Mounts what was sealed and compares it with the living box; the root from scratch must be that of the deltas; the
 * walker, another program, must agree. */
static void check(struct world *w, bool walker)
{
    const char *ids[2 * WORLD_CHAIN];
    struct layer_chain c = world_chain(w, ids);
    struct state_root found;

    int r = layer_verify(&c, &w->root, &found, &w->e);
    WORLD_OK(r);
    EXPECT_STR(str_of(found.hex), w->root.hex);
    world_mount(w, &c, "v");
    EXPECT_INT(compare_trees(at(w, "m"), at(w, "v")), 0);
    world_umount(w, "v");
    if (!walker || access("tests/state/walker.py", R_OK) < 0)
        return;
    char cmd[1024], line[128] = "";
    snprintf(
        cmd, sizeof cmd,
        "python3 tests/state/walker.py root --digest test:1 --root %s/img --usr %s/usr1 --usr %s/usr2 --state %s/m",
        w->dir, w->dir, w->dir, w->dir);
    FILE *p = popen(cmd, "r");
    if (p && fgets(line, sizeof line, p))
        line[strcspn(line, "\n")] = 0;
    if (p)
        pclose(p);
    EXPECT_STR(str_of(line), w->root.hex);
}

static void simple(struct world *w)
{
    /* A new box is its image. */
    struct layer_chain image = world_below(w);
    struct layer_sealed s = world_seal(w);
    EXPECT_TRUE(!s.changed);
    WORLD_OK(layer_hash(&image, NULL, false, &w->root, NULL, &w->e));
    check(w, true);
    struct state_root fresh = w->root;

    put_file(at(w, "m/b/first"), "1");
    s = world_seal(w);
    EXPECT_TRUE(s.changed && s.full);
    check(w, true);
    unlink(at(w, "m/b/first"));
    s = world_seal(w);
    EXPECT_TRUE(s.changed && !s.full);
    EXPECT_STR(str_of(w->root.hex), fresh.hex);
    s = world_seal(w);
    EXPECT_TRUE(!s.changed);

    put_file(at(w, "m/a/new"), "hello");
    put_file(at(w, "m/a/f0"), "changed");
    unlink(at(w, "m/b/f2"));
    s = world_seal(w);
    EXPECT_TRUE(s.changed && !s.full);
    check(w, true);
    EXPECT_TRUE(strcmp(fresh.hex, w->root.hex) != 0);

    /* Back to how it was: the same root, whatever led there. */
    unlink(at(w, "m/a/new"));
    put_file(at(w, "m/a/f0"), "img/a/f0");
    put_file(at(w, "m/b/f2"), "img/b/f2");
    s = world_seal(w);
    EXPECT_TRUE(s.changed);
    check(w, true);
    EXPECT_STR(str_of(w->root.hex), fresh.hex);
}
TEST(layer_simple)
{
    in_world(simple);
}

static void directories(struct world *w)
{
    put_file(at(w, "m/first"), "1");
    world_seal(w);
    /* A directory of the image moved, twice; another removed and made again; a name reused for another type. */
    (void)!rename(at(w, "m/d"), at(w, "m/moved"));
    (void)!rename(at(w, "m/moved/e"), at(w, "m/inner"));
    struct layer_sealed s = world_seal(w);
    EXPECT_TRUE(s.full);
    check(w, true);
    put_file(at(w, "m/moved/later"), "x");
    mkdir(at(w, "m/d"), 0700);
    put_file(at(w, "m/d/f3"), "not the old one");
    s = world_seal(w);
    EXPECT_TRUE(!s.full);
    check(w, true);
    world_fork(w);
    (void)!rename(at(w, "m/inner/deep"), at(w, "m/d/deep"));
    unlink(at(w, "m/moved/f3"));
    world_seal(w);
    check(w, true);
    unlink(at(w, "m/d/f3"));
    (void)!rename(at(w, "m/d"), at(w, "m/usr/d")); /* EXDEV */
    (void)!rename(at(w, "m/moved"), at(w, "m/d/moved"));
    world_seal(w);
    check(w, true);
    world_fork(w);
    struct state_root before = w->root;
    world_flatten(w);
    world_seal(w);
    check(w, true);
    EXPECT_STR(str_of(w->root.hex), before.hex);
}
TEST(layer_directories)
{
    in_world(directories);
}

static void aliases(struct world *w)
{
    put_file(at(w, "m/first"), "1");
    /* One name of three in the image is written; the others change with it, though scratch has only one. */
    world_seal(w);
    put_file(at(w, "m/a/h1"), "soft");
    world_seal(w);
    check(w, true);
    unlink(at(w, "m/a/h1"));
    world_seal(w);
    check(w, true);
    unlink(at(w, "m/usr/bin/perl")); /* copied up into overlay's index, its content as below */
    put_file(at(w, "m/x1"), "one file");
    (void)!link(at(w, "m/x1"), at(w, "m/b/x2"));
    world_seal(w);
    check(w, true);
    world_fork(w);
    put_file(at(w, "m/x1"), "two file");
    put_file(at(w, "m/b/h2"), "again");
    world_seal(w);
    check(w, true);
    put_file(at(w, "m/x1"), "six file");
    world_seal(w);
    check(w, true);
    unlink(at(w, "m/b/x2"));
    world_seal(w);
    check(w, true);
}
TEST(layer_aliases)
{
    in_world(aliases);
}

static void mapped(struct world *w)
{
    put_file(at(w, "m/map"), "0123456789");
    (void)!link(at(w, "m/map"), at(w, "m/b/other"));
    int fd = open(at(w, "m/map"), O_RDWR | O_CLOEXEC);
    char *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    p[0] = 'x';
    world_seal(w);
    check(w, true);
    p[1] = 'y'; /* no stamp changes */
    const struct str suspect = STR("/map");
    struct layer_sealed s = world_seal_with(w, &suspect, 1, false);
    EXPECT_TRUE(s.changed);
    check(w, true); /* /b/other, too */
    s = world_seal_with(w, &suspect, 1, false);
    EXPECT_TRUE(!s.changed);
    p[2] = 'z';
    s = world_seal_with(w, NULL, 0, true);
    EXPECT_TRUE(s.changed);
    check(w, true);
    s = world_seal_with(w, NULL, 0, true);
    EXPECT_TRUE(!s.changed);
    munmap(p, 4096);
    close(fd);
}
TEST(layer_mapped)
{
    in_world(mapped);
}

static void quick_changes(struct world *w)
{
    /* Same size, same inode, within one tick of the clock. */
    put_file(at(w, "m/q"), "00");
    auto_close int fd = open(at(w, "m/q"), O_RDWR | O_CLOEXEC);
    world_seal(w);
    for (int i = 0; i < 20; i++) {
        char text[12];
        snprintf(text, sizeof text, "%02d", i);
        (void)!pwrite(fd, text, 2, 0);
        struct layer_sealed s = world_seal(w);
        EXPECT_TRUE(s.changed);
    }
    check(w, false);
}
TEST(layer_quick_changes)
{
    in_world(quick_changes);
}

static void tampered(struct world *w)
{
    put_file(at(w, "m/secret"), "right");
    world_seal(w);
    const char *ids[2 * WORLD_CHAIN];
    struct layer_chain c = world_chain(w, ids);
    struct state_root found;
    EXPECT_INT(layer_verify(&c, &w->root, &found, &w->e), 1);
    auto_close int fd = open(at(w, "home/layers/l0/root/secret"), O_WRONLY | O_CLOEXEC);
    (void)!pwrite(fd, "wrong", 5, 0);
    EXPECT_INT(layer_verify(&c, &w->root, &found, &w->e), 0);
}
TEST(layer_tampered)
{
    in_world(tampered);
}

static void hostile(struct world *w)
{
    /* Deep beyond the cap: an error with a name, no crash, no half layer. */
    char path[128];
    auto_close int dir = open(at(w, "m"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; i < LIMIT_TREE_DEPTH + 2; i++) {
        (void)!mkdirat(dir, "deep", 0755);
        int next = openat(dir, "deep", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        close(dir);
        dir = next;
    }
    struct layer_chain below = world_below(w);
    struct layer_opts o = { .below = &below, .id = "deep", .scratch = w->scratch };
    struct layer_sealed s;
    EXPECT_INT(layer_seal(&o, &s, &w->e), -ENOBUFS);
    EXPECT_INT(w->e.code, ERR_LIMIT);
    EXPECT_INT(access(at(w, "home/layers/deep"), F_OK), -1);
    EXPECT_INT(access(at(w, "home/layers/deep.tmp"), F_OK), -1);
    close(dir);
    dir = -1;
    snprintf(path, sizeof path, "rm -rf %s/m/deep", w->dir);
    EXPECT_INT(system(path), 0);
    dir = open(at(w, "m"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; i < LIMIT_TREE_DEPTH - 1; i++) { /* as deep as allowed */
        (void)!mkdirat(dir, "deep", 0755);
        int next = openat(dir, "deep", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        close(dir);
        dir = next;
    }
    close(dir);
    dir = -1;
    world_seal(w);
    check(w, true);
    EXPECT_INT(system(path), 0);
    /* A whiteout of an agent's own making in a /tmp that is no overlay deletes nothing and is not recorded. */
    EXPECT_INT(mknod(at(w, "m/tmp/white"), S_IFCHR, 0), 0);
    put_file(at(w, "m/tmp/x"), "1");
    world_seal(w);
    EXPECT_INT(access(at(w, "home/layers/l1/tmp/white"), F_OK), -1);
    unlink(at(w, "m/tmp/white"));
    check(w, true);
    static const char *const bad[] = { "", "..", "a/b", "A", "x.tmp" };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        EXPECT_TRUE(!layer_id_ok(bad[i]));
}
TEST(layer_hostile)
{
    in_world(hostile);
}

/* A worker that is killed leaves a whole layer or none. */
static void killed(struct world *w)
{
    char path[64], text[400];

    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = 0;
    for (int i = 0; i < 300; i++) {
        snprintf(path, sizeof path, "m/a/k%d", i);
        put_file(at(w, path), text);
    }
    int whole = 0;
    for (int round = 0; round < 40; round++) {
        fflush(stdout);
        pid_t pid = fork();
        if (pid == 0) {
            world_seal(w);
            _exit(0);
        }
        usleep((useconds_t)(round * 700));
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        const char *id = "l0";
        if (access(at(w, "home/layers/l0"), F_OK) == 0) {
            const struct layer_chain c = { .home = w->home, .image = &w->image, .ids = &id, .n = 1 };
            struct state_root root;
            WORLD_OK(layer_hash(&c, NULL, false, &root, NULL, &w->e));
            world_mount(w, &c, "v");
            EXPECT_INT(compare_trees(at(w, "m"), at(w, "v")), 0);
            world_umount(w, "v");
            layer_remove(w->home, id);
            whole++;
        }
    }
    printf("killed: %d of 40 had sealed\n", whole);
    world_seal(w); /* over what is left */
    check(w, true);
}
TEST(layer_killed)
{
    in_world(killed);
}

/* --- a scratch that is an id-mapped mount, as real boxes have it --- */

static int user_namespace(void)
{
    int pipes[2];
    char path[64];

    (void)!pipe2(pipes, O_CLOEXEC);
    pid_t pid = fork();
    if (pid == 0) {
        char c;
        if (unshare(CLONE_NEWUSER) < 0)
            _exit(1);
        (void)!write(pipes[1], "x", 1);
        pause();
        (void)!read(pipes[0], &c, 1);
        _exit(0);
    }
    char c;
    (void)!read(pipes[0], &c, 1);
    static const char *const maps[] = { "uid_map", "gid_map" };
    for (size_t i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, maps[i]);
        auto_close int fd = open(path, O_WRONLY | O_CLOEXEC);
        (void)!write(fd, "0 100000 65536", 14);
    }
    snprintf(path, sizeof path, "/proc/%d/ns/user", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    close(pipes[0]);
    close(pipes[1]);
    return fd;
}

static void mapped_owners(struct world *w)
{
    static const unsigned char acl[] = { 2, 0,    0,   0,   1,   0,   6,    0, 255, 255, 255, 255, 2,   0,    4,
                                         0, 0xe8, 3,   0,   0,   4,   0,    4, 0,   255, 255, 255, 255, 0x10, 0,
                                         4, 0,    255, 255, 255, 255, 0x20, 0, 0,   0,   255, 255, 255, 255 };
    put_file(at(w, "m/mine"), "x");
    (void)!chown(at(w, "m/mine"), 1000, 1000);
    EXPECT_INT(setxattr(at(w, "m/mine"), "system.posix_acl_access", acl, sizeof acl, 0), 0);
    put_file(at(w, "m/a/h1"), "joined"); /* overlay's index is read through the mapping, too */
    (void)!rename(at(w, "m/d"), at(w, "m/moved"));
    world_seal(w);
    check(w, true);
    struct state_root plain = w->root;

    auto_close int ns = user_namespace();
    int tree = open_tree(w->scratch, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);
    struct mount_attr a = { .attr_set = MOUNT_ATTR_IDMAP, .userns_fd = (uint64_t)ns };
    if (tree < 0 || mount_setattr(tree, "", AT_EMPTY_PATH, &a, sizeof a) < 0) {
        printf("SKIP: no id-mapped mounts here: %s\n", strerror(errno));
        return;
    }
    struct stat st;
    EXPECT_INT(fstatat(tree, "root/mine", &st, 0), 0);
    EXPECT_INT(st.st_uid, 101000);
    int unmapped = w->scratch;
    w->scratch = tree;
    w->base = 100000;
    while (w->sealed_n > 0)
        free(w->sealed[--w->sealed_n]);
    struct layer_sealed s = world_seal(w);
    EXPECT_TRUE(s.changed && s.full);
    EXPECT_STR(str_of(w->root.hex), plain.hex);
    check(w, true);
    s = world_seal(w);
    EXPECT_TRUE(!s.changed);
    w->scratch = unmapped;
    close(tree);
}
TEST(layer_mapped_owners)
{
    in_world(mapped_owners);
}

/* --- random operations --- */

static uint64_t rng;
static unsigned rnd(unsigned n)
{
    rng ^= rng << 13;
    rng ^= rng >> 7;
    rng ^= rng << 17;
    return (unsigned)(rng >> 11) % n;
}

static const char *some_dir(void)
{
    static const char *const dirs[] = { "",      "a",       "b",       "a/c",        "d",      "d/e",   "d/e/deep",
                                        "usr",   "usr/bin", "usr/lib", "usr/lib/py", "tmp",    "tmp/t", "n1",
                                        "n1/n2", "n2",      "etc",     "moved",      "moved/e" };
    return dirs[rnd(ARRAY_LEN(dirs))];
}

static char *some_path(struct world *w)
{
    static const char *const names[] = { "f0",
                                         "f1",
                                         "f2",
                                         "f3",
                                         "h1",
                                         "h2",
                                         "h3",
                                         "n1",
                                         "n2",
                                         "t",
                                         "e",
                                         "deep",
                                         "py",
                                         "perl",
                                         "perl5",
                                         "moved",
                                         "d",
                                         "new\nline",
                                         "\xff\xfe bytes",
                                         "sp ace",
                                         "c",
                                         "a" };
    static char bufs[4][600];
    static int i;
    i = (i + 1) % 4;
    snprintf(bufs[i], sizeof bufs[i], "%s/m/%s/%s", w->dir, some_dir(), names[rnd(ARRAY_LEN(names))]);
    return bufs[i];
}

static void some_write(const char *path, int flags)
{
    char block[3000];
    auto_close int fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | flags, 0644);
    memset(block, 'a' + (int)rnd(26), sizeof block);
    if (fd >= 0)
        (void)!pwrite(fd, block, rnd(sizeof block), flags & O_TRUNC ? 0 : rnd(5000));
}

static void remove_all(const char *path)
{
    char *slash = strrchr(path, '/');
    char dir[700];
    snprintf(dir, sizeof dir, "%.*s", (int)(slash - path), path);
    auto_close int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    extern void tree_remove(int, const char *);
    if (fd >= 0)
        tree_remove(fd, slash + 1);
}

struct mapping {
    int fd;
    char *p;
};

static void some_operation(struct world *w, struct mapping *maps)
{
    char *p = some_path(w), *q = some_path(w);
    struct timespec t[2] = { { .tv_sec = (time_t)rnd(1000000) },
                             { .tv_sec = (time_t)rnd(1000000), .tv_nsec = rnd(999999999) } };

    unsigned what = rnd(24);
    if (getenv("LAYER_TRACE"))
        printf("%u '%s' '%s'\n", what, p + strlen(w->dir) + 2, q + strlen(w->dir) + 2);
    switch (what) {
    case 0:
    case 1:
    case 2: some_write(p, O_TRUNC); break;
    case 3:
    case 4: some_write(p, 0); break;
    case 5: chmod(p, rnd(2) ? 0600 + rnd(64) : 0755); break;
    case 6: (void)!lchown(p, rnd(3), 1000 + rnd(2)); break;
    case 7: unlink(p); break;
    case 8: mkdir(p, 0755); break;
    case 9: rmdir(p); break;
    case 10:
        if (rnd(2) == 0)
            remove_all(p);
        break;
    case 11:
    case 12: (void)!rename(p, q); break;
    case 13: (void)!renameat2(AT_FDCWD, p, AT_FDCWD, q, RENAME_EXCHANGE); break;
    case 14:
    case 15: (void)!link(p, q); break;
    case 16: (void)!symlink(rnd(2) ? "f0" : "../x", p); break;
    case 17: setxattr(p, rnd(2) ? "user.one" : "user.two", "value", rnd(6), 0); break;
    case 18: removexattr(p, "user.one"); break;
    case 19: (void)!truncate(p, rnd(2) ? 1000000 : rnd(100)); break;
    case 20: mkfifo(p, 0640); break;
    case 21: utimensat(AT_FDCWD, p, t, AT_SYMLINK_NOFOLLOW); break;
    case 22:
        remove_all(p);
        mkdir(p, 0711);
        break;
    case 23: {
        struct mapping *m = &maps[rnd(3)];
        if (m->fd >= 0)
            break;
        struct stat st;
        m->fd = open(p, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (m->fd >= 0 && (fstat(m->fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size == 0)) {
            close(m->fd);
            m->fd = -1;
        }
        m->p = m->fd < 0 ? NULL : mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, m->fd, 0);
        break;
    }
    }
}

/* Stores through mappings, now and then; the suspects are what /proc says, as the real caller finds them. */
static size_t use_maps(struct world *w, struct mapping *maps, struct str *suspects, char names[3][4096], bool *all)
{
    size_t n = 0, skip = strlen(w->dir) + 2;

    for (int i = 0; i < 3; i++) {
        char link[64];
        struct stat st;
        if (maps[i].fd < 0)
            continue;
        if (fstat(maps[i].fd, &st) == 0 && st.st_size > 0 && rnd(2))
            maps[i].p[0] = (char)('A' + rnd(26));
        snprintf(link, sizeof link, "/proc/self/fd/%d", maps[i].fd);
        ssize_t len = readlink(link, names[i], 4095);
        if (len > 10 && memcmp(names[i] + len - 10, " (deleted)", 10) == 0)
            *all |= st.st_nlink > 0;
        else if (len > (ssize_t)skip)
            suspects[n++] = (struct str){ names[i] + skip, (size_t)len - skip };
    }
    return n;
}

static void close_maps(struct mapping *maps)
{
    for (int i = 0; i < 3; i++)
        if (maps[i].fd >= 0) {
            munmap(maps[i].p, 4096);
            close(maps[i].fd);
            maps[i].fd = -1;
        }
}

static int open_fds(void)
{
    struct names names;
    auto_close int fd = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    (void)names_read(fd, &names, NULL);
    int n = (int)names.n;
    names_done(&names);
    return n;
}

static void random_run(struct world *w)
{
    int fds = open_fds();
    const char *seed = getenv("LAYER_SEED"), *rounds = getenv("LAYER_ROUNDS");
    static char names[3][4096];
    struct mapping maps[3] = { { -1, NULL }, { -1, NULL }, { -1, NULL } };
    struct str suspects[3];

    rng = seed ? strtoull(seed, NULL, 10) * 2654435761u + 88172645463325252ULL : 88172645463325252ULL;
    for (int round = 0; round < (rounds ? atoi(rounds) : 40) && !test_failures; round++) {
        for (unsigned i = rnd(14); i > 0; i--)
            some_operation(w, maps);
        if (getenv("LAYER_TRACE"))
            printf("-- seal %d, %zu + %zu layers\n", round, w->sealed_n, w->below_n);
        bool all = false;
        size_t n = use_maps(w, maps, suspects, names, &all);
        world_seal_with(w, suspects, n, all);
        if (w->root.hex[0])
            check(w, round % 4 == 0);
        if (test_failures)
            printf("in round %d of LAYER_SEED=%s\n", round, seed ? seed : "(none)");
        if (rnd(5) == 0 && w->sealed_n > 0) {
            world_flatten_live(w);
            check(w, false);
        }
        if (rnd(3) == 0) {
            world_merge(w, 2 + rnd(5));
            check(w, false);
        }
        if (rnd(4) == 0 || w->sealed_n > 12) {
            close_maps(maps);
            world_fork(w);
            if (w->below_n > 10) {
                struct state_root before = w->root;
                world_flatten(w);
                world_seal(w);
                check(w, false);
                EXPECT_STR(str_of(w->root.hex), before.hex);
            }
        }
    }
    close_maps(maps);
    EXPECT_INT(open_fds(), fds);
}
TEST(layer_random)
{
    in_world(random_run);
}

/* The same with a watcher: what it does not name is not looked at, and nothing is missed. */
static void watched_run(struct world *w)
{
    struct loop *l = loop_new();
    struct watch watch;

    watch_open(&watch, l);
    if (watch.fan < 0) {
        printf("(changes cannot be watched here)\n");
    } else {
        w->watch = &watch;
        random_run(w);
        watch_end(&watch, &w->watched);
    }
    watch_close(&watch);
    loop_free(l);
}
TEST(layer_random_watched)
{
    in_world(watched_run);
}

static void watched_cost(struct world *w)
{
    struct loop *l = loop_new();
    struct watch watch;
    char name[64];

    watch_open(&watch, l);
    w->watch = watch.fan < 0 ? NULL : &watch;
    mkdir(at(w, "m/many"), 0755);
    for (int i = 0; i < 500; i++) {
        snprintf(name, sizeof name, "m/many/d%d", i);
        mkdir(at(w, name), 0755);
        snprintf(name, sizeof name, "m/many/d%d/f", i);
        put_file(at(w, name), "x");
    }
    world_seal(w);
    struct layer_sealed s = world_seal(w);
    EXPECT_TRUE(!s.changed && (s.seen == 0 || !w->watch)); /* nothing happened, nothing was looked at */
    put_file(at(w, "m/many/d7/f"), "y");
    put_file(at(w, "m/many/d8/g"), "y");
    s = world_seal(w);
    EXPECT_TRUE(s.changed && !s.full && (s.seen < 20 || !w->watch));
    check(w, true);
    world_merge(w, 2);
    check(w, true);
    put_file(at(w, "m/many/d9/f"), "z");
    unlink(at(w, "m/many/d8/g"));
    s = world_seal(w);
    EXPECT_TRUE(s.changed && !s.full && (s.seen < 20 || !w->watch)); /* the merged layer has the index */
    check(w, true);
    watch_close(&watch);
    w->watch = NULL;
    loop_free(l);
}
TEST(layer_watched_cost)
{
    in_world(watched_cost);
}

/* --- figures: LAYER_BENCH=<directory on a real disk> --- */

static double ms_since(struct timespec t)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - t.tv_sec) * 1e3 + (double)(now.tv_nsec - t.tv_nsec) / 1e6;
}
static double cpu_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}
static struct timespec tick(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t;
}

static void bench_step(struct world *w, int files)
{
    double seal = 1e9, hash = 1e9, cpu = 1e9;

    for (int round = 0; round < 10; round++) {
        char path[64], text[128], id[32];
        for (int i = 0; i < files; i++) {
            snprintf(path, sizeof path, "m/tree/d%d/f%d", i % 100, i / 100);
            snprintf(text, sizeof text, "changed in round %d of %d", round, files);
            put_file(at(w, path), text);
        }
        struct layer_chain below = world_below(w);
        snprintf(id, sizeof id, "b%d", w->serial++);
        struct layer_opts o = { .below = &below,
                                .id = id,
                                .sealed = (const char *const *)w->sealed,
                                .sealed_n = w->sealed_n,
                                .scratch = w->scratch };
        struct layer_sealed s;
        struct timespec t = tick();
        double used = cpu_ms();
        WORLD_OK(layer_seal(&o, &s, &w->e));
        used = cpu_ms() - used;
        double took = ms_since(t);
        seal = took < seal ? took : seal;
        cpu = used < cpu ? used : cpu;
        if (!s.changed) {
            hash = 0;
            continue;
        }
        push_id(w->sealed, &w->sealed_n, id);
        const char *ids[2 * WORLD_CHAIN];
        struct layer_chain c = world_chain(w, ids);
        struct state_root parent = w->root;
        t = tick();
        WORLD_OK(layer_hash(&c, parent.hex[0] ? &parent : NULL, false, &w->root, NULL, &w->e));
        took = ms_since(t);
        hash = took < hash ? took : hash;
    }
    printf("bench: %5d changed of 10000: seal %8.2f ms (cpu %.2f), hash (after thaw) %8.2f ms\n", files, seal, cpu,
           hash);
}

static void bench(struct world *w)
{
    char cmd[600];
    snprintf(w->home, sizeof w->home, "%s/sg-bench-home", getenv("LAYER_BENCH"));
    snprintf(cmd, sizeof cmd,
             "rm -rf %s && mkdir -p %s && mkdir %s/m/tree && cd %s/m/tree && for d in $(seq 0 99); do mkdir d$d; for f "
             "in $(seq 0 99); do "
             "head -c 4000 /dev/urandom > d$d/f$f; done; done",
             w->home, w->home, w->dir, w->dir);
    EXPECT_INT(system(cmd), 0);
    struct layer_chain below = world_below(w);
    struct layer_opts o = { .below = &below, .id = "first", .scratch = w->scratch };
    struct layer_sealed sealed;
    struct timespec t = tick();
    double used = cpu_ms();
    WORLD_OK(layer_seal(&o, &sealed, &w->e));
    printf("bench: first, all 10000 files of 4 KB: seal %.1f ms (cpu %.1f)", ms_since(t), cpu_ms() - used);
    push_id(w->sealed, &w->sealed_n, "first");
    const char *ids[2 * WORLD_CHAIN];
    struct layer_chain c = world_chain(w, ids);
    t = tick();
    used = cpu_ms();
    WORLD_OK(layer_hash(&c, NULL, false, &w->root, NULL, &w->e));
    printf(", hash %.1f ms (cpu %.1f)\n", ms_since(t), cpu_ms() - used);
    bench_step(w, 0);
    bench_step(w, 1);
    bench_step(w, 100);
    snprintf(cmd, sizeof cmd, "cp -a %s/m.s/root %s/copy", w->dir, w->home);
    t = tick();
    EXPECT_INT(system(cmd), 0);
    printf("bench: cp -a of the same tree to the same disk: %.1f ms\n", ms_since(t));
    snprintf(cmd, sizeof cmd, "mkdir %s/tmpfs && mount -t tmpfs t %s/tmpfs && cp -a %s/m.s/root %s/tmpfs/copy", w->dir,
             w->dir, w->dir, w->dir);
    t = tick();
    EXPECT_INT(system(cmd), 0);
    printf("bench: cp -a of the same tree to a tmpfs: %.1f ms\n", ms_since(t));
    snprintf(cmd, sizeof cmd, "rm -rf %s", w->home);
    EXPECT_INT(system(cmd), 0);
}
TEST(layer_bench)
{
    if (getenv("LAYER_BENCH"))
        in_world(bench);
}

/* A small box without processes for the tests of layers: an image, a scratch tmpfs, overlays with the options that real
 * boxes have. Everything happens in a child process with a mount namespace of its own. */
#pragma once

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/loop.h"
#include "daemon/watch.h"
#include "image/layer.h"
#include "image/layer_dir.h"
#include "image/manifest.h"
#include "test.h"

enum { WORLD_CHAIN = 64 };

struct world {
    char dir[64], home[96];
    struct layer_image image;
    char *below[WORLD_CHAIN], *sealed[WORLD_CHAIN]; /* newest first */
    size_t below_n, sealed_n;
    struct watch *watch; /* nullable: seals are told what changed */
    struct watched watched;
    uint64_t seen;                      /* by the last seal */
    bool sealed_is_all;                 /* the last of sealed is flattened and holds what is below, too */
    struct state_root below_root, root; /* hex "" : none yet */
    int scratch;
    bool tmp_overlay;
    int serial, mounts;
    uint32_t base;
    struct err e;
};

#define WORLD_OK(what)                                                                                                 \
    do {                                                                                                               \
        int r_ = (what);                                                                                               \
        if (r_ < 0) {                                                                                                  \
            test_failures++;                                                                                           \
            printf("%s:%d: %s: %s (%d, errno %s)\n", __FILE__, __LINE__, #what, w->e.msg, r_, strerror(errno));        \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

static inline char *at(const struct world *w, const char *path)
{
    static char bufs[8][5000];
    static int i;
    i = (i + 1) % 8;
    snprintf(bufs[i], sizeof bufs[i], "%s/%s", w->dir, path);
    return bufs[i];
}

static inline void put_file(const char *path, const char *text)
{
    auto_close int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0 || write(fd, text, strlen(text)) < 0)
        printf("write %s: %s\n", path, strerror(errno));
}

static inline void world_image(struct world *w)
{
    static const char *const dirs[] = { "img",          "img/a",    "img/a/c",  "img/b",      "img/d", "img/d/e",
                                        "img/d/e/deep", "img/usr",  "img/tmp",  "img/etc",    "usr1",  "usr1/bin",
                                        "usr2",         "usr2/bin", "usr2/lib", "usr2/lib/py" };
    static const char *const files[] = { "img/a/f0",      "img/a/f1",      "img/a/c/f0",      "img/b/f2",
                                         "img/d/f3",      "img/d/e/f1",    "img/d/e/deep/f0", "img/etc/passwd",
                                         "usr1/bin/sudo", "usr2/bin/sudo", "usr2/bin/f0",     "usr2/lib/f1",
                                         "usr2/lib/py/f0" };
    for (size_t i = 0; i < ARRAY_LEN(dirs); i++)
        mkdir(at(w, dirs[i]), 0755);
    for (size_t i = 0; i < ARRAY_LEN(files); i++)
        put_file(at(w, files[i]), files[i]);
    put_file(at(w, "img/a/h1"), "hard");
    (void)!link(at(w, "img/a/h1"), at(w, "img/b/h2"));
    (void)!link(at(w, "img/a/h1"), at(w, "img/d/e/h3"));
    put_file(at(w, "usr2/bin/perl"), "perl");
    (void)!link(at(w, "usr2/bin/perl"), at(w, "usr2/lib/perl5"));
    (void)!symlink("a/f0", at(w, "img/link"));
    chmod(at(w, "img/tmp"), 01777);
    w->image = (struct layer_image){ .digest = "test:1", .root_n = 1, .usr_n = 2 };
    w->image.root[0] = open(at(w, "img"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    w->image.usr[0] = open(at(w, "usr1"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    w->image.usr[1] = open(at(w, "usr2"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static inline struct layer_chain world_chain(struct world *w, const char **ids)
{
    size_t n = 0;
    for (size_t i = 0; i < w->sealed_n; i++)
        ids[n++] = w->sealed[i];
    for (size_t i = 0; i < w->below_n && !w->sealed_is_all; i++)
        ids[n++] = w->below[i];
    return (struct layer_chain){ .home = w->home, .image = &w->image, .ids = ids, .n = n };
}
static inline struct layer_chain world_below(struct world *w)
{
    return (struct layer_chain){
        .home = w->home, .image = &w->image, .ids = (const char *const *)w->below, .n = w->below_n
    };
}

static inline void copy_top(int from, const char *to)
{
    struct stat st;
    fstat(from, &st);
    (void)!chown(to, st.st_uid, st.st_gid);
    chmod(to, st.st_mode & 07777);
    char v[256];
    ssize_t n = fgetxattr(from, "user.top", v, sizeof v);
    if (n >= 0)
        setxattr(to, "user.top", v, (size_t)n, 0);
}

/* One overlay on `where`; returns whether any layer has the tree. */
static inline bool world_overlay(struct world *w, const struct layer_chain *c, enum layer_tree t, const char *scratch,
                                 const char *where)
{
    int fds[WORLD_CHAIN];
    char opts[16384], *p = opts;
    const char *name = layer_tree_names[t];
    int n = layer_lowers(c, t, fds, &w->e);

    WORLD_OK(n);
    if (t == LAYER_TMP && n == 0)
        return false;
    p += sprintf(p, "lowerdir=");
    for (int i = 0; i < n; i++)
        p += sprintf(p, "/proc/self/fd/%d:", fds[i]);
    const int *lower = t == LAYER_ROOT ? w->image.root : w->image.usr;
    size_t m = t == LAYER_ROOT ? w->image.root_n : t == LAYER_USR ? w->image.usr_n : 0;
    for (size_t i = 0; i < m; i++)
        p += sprintf(p, "/proc/self/fd/%d:", lower[i]);
    p--;
    sprintf(p, ",upperdir=%s/%s,workdir=%s/%s.work,index=on,redirect_dir=on,metacopy=off,xino=auto,volatile", scratch,
            name, scratch, name);
    char up[256];
    snprintf(up, sizeof up, "%s/%s", scratch, name);
    if (n > 0)
        copy_top(fds[0], up);
    if (mount("overlay", where, "overlay", 0, opts) < 0) {
        printf("mount %s on %s: %s\n", opts, where, strerror(errno));
        exit(1);
    }
    for (int i = 0; i < n; i++)
        close(fds[i]);
    return true;
}

/* The files of a chain under an empty scratch, at <dir>/<name>; scratch at <dir>/<name>.s */
static inline bool world_mount(struct world *w, const struct layer_chain *c, const char *name)
{
    char scratch[256], where[256], sub[300];
    static const char *const dirs[] = { "root", "root.work", "usr", "usr.work", "tmp", "tmp.work" };

    snprintf(where, sizeof where, "%s/%s", w->dir, name);
    snprintf(scratch, sizeof scratch, "%s/%s.s", w->dir, name);
    mkdir(where, 0755);
    mkdir(scratch, 0755);
    WORLD_OK(mount("box", scratch, "tmpfs", 0, "mode=0755"));
    for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
        snprintf(sub, sizeof sub, "%s/%s", scratch, dirs[i]);
        mkdir(sub, 0755);
        if (i == 4)
            chmod(sub, 01777);
    }
    world_overlay(w, c, LAYER_ROOT, scratch, where);
    snprintf(sub, sizeof sub, "%s/usr", where);
    if (w->image.usr_n)
        world_overlay(w, c, LAYER_USR, scratch, sub);
    snprintf(sub, sizeof sub, "%s/tmp", where);
    if (world_overlay(w, c, LAYER_TMP, scratch, sub))
        return true;
    char tmp[300];
    snprintf(tmp, sizeof tmp, "%s/tmp", scratch);
    WORLD_OK(mount(tmp, sub, NULL, MS_BIND, NULL));
    return false;
}

static inline void world_umount(struct world *w, const char *name)
{
    char path[300];
    static const char *const subs[] = { "/tmp", "/usr", "", ".s" };

    for (size_t i = 0; i < ARRAY_LEN(subs); i++) {
        snprintf(path, sizeof path, "%s/%s%s", w->dir, name, subs[i]);
        if (umount2(path, 0) < 0 && errno != EINVAL) {
            test_failures++;
            printf("umount %s: %s\n", path, strerror(errno));
            umount2(path, MNT_DETACH);
        }
    }
}

static inline void world_live(struct world *w)
{
    struct layer_chain c = world_below(w);

    if (w->watch)
        watch_end(w->watch, &w->watched);
    if (w->scratch >= 0) {
        close(w->scratch);
        world_umount(w, "m");
    }
    w->tmp_overlay = world_mount(w, &c, "m");
    w->scratch = open(at(w, "m.s"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static inline void world_init(struct world *w)
{
    *w = (struct world){ .scratch = -1 };
    umask(022);
    snprintf(w->dir, sizeof w->dir, "/tmp/sg-layer-XXXXXX");
    if (!mkdtemp(w->dir) || unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("world", w->dir, "tmpfs", 0, "mode=0755") < 0) {
        printf("cannot make a world: %s\n", strerror(errno));
        exit(1);
    }
    /* LAYER_DISK: a directory on a real disk for the layers, else they are on tmpfs like the rest. */
    const char *disk = getenv("LAYER_DISK");
    snprintf(w->home, sizeof w->home, disk ? "%s/sg-home-%d" : "%s/home", disk ? disk : w->dir, (int)getpid());
    mkdir(w->home, 0755);
    world_image(w);
    world_live(w);
}

static inline void world_done(struct world *w)
{
    close(w->scratch);
    world_umount(w, "m");
    for (size_t i = 0; i < w->image.root_n; i++)
        close(w->image.root[i]);
    for (size_t i = 0; i < w->image.usr_n; i++)
        close(w->image.usr[i]);
    for (size_t i = 0; i < w->below_n; i++)
        free(w->below[i]);
    for (size_t i = 0; i < w->sealed_n; i++)
        free(w->sealed[i]);
    if (getenv("LAYER_DISK")) {
        char cmd[200];
        snprintf(cmd, sizeof cmd, "rm -rf '%s'", w->home);
        (void)!system(cmd);
    }
    umount2(w->dir, MNT_DETACH);
    rmdir(w->dir);
}

static inline void push_id(char **v, size_t *n, const char *id)
{
    memmove(v + 1, v, *n * sizeof *v);
    v[0] = strdup(id);
    ++*n;
}

/* Seals and hashes; the chain is as it should be afterwards. */
static inline struct layer_sealed world_seal_with(struct world *w, const struct str *suspects, size_t n, bool all)
{
    char id[32];
    struct layer_sealed s;
    struct layer_chain below = world_below(w);

    snprintf(id, sizeof id, "l%d", w->serial++);
    struct layer_opts o = { .below = &below,
                            .id = id,
                            .sealed = (const char *const *)w->sealed,
                            .sealed_n = w->sealed_n,
                            .scratch = w->scratch,
                            .base = w->base,
                            .tmp_is_overlay = w->tmp_overlay,
                            .suspects = suspects,
                            .suspects_n = n,
                            .suspect_all = all };
    struct watched changes = { 0 };
    if (w->watch) {
        watch_begin(w->watch, &w->watched, w->scratch);
        watch_take(w->watch, &w->watched, &changes);
        o.known = !changes.lost;
        o.suspect_all |= changes.lost;
        o.changed = changes.inodes;
        o.changed_n = changes.n;
    }
    WORLD_OK(layer_seal(&o, &s, &w->e));
    free(changes.inodes);
    w->seen = s.seen;
    if (!s.changed)
        return s;
    struct state_root parent = s.full ? w->below_root : w->root;
    if (s.full) {
        w->sealed_is_all = false;
        while (w->sealed_n > 0)
            free(w->sealed[--w->sealed_n]);
    }
    push_id(w->sealed, &w->sealed_n, id);
    const char *ids[2 * WORLD_CHAIN];
    struct layer_chain c = world_chain(w, ids);
    WORLD_OK(layer_hash(&c, parent.hex[0] ? &parent : NULL, false, &w->root, NULL, &w->e));
    return s;
}
static inline struct layer_sealed world_seal(struct world *w)
{
    return world_seal_with(w, NULL, 0, false);
}

/* The box is thrown away; another one is mounted on what was sealed. */
static inline void world_fork(struct world *w)
{
    char *all[2 * WORLD_CHAIN];

    while (w->sealed_is_all && w->below_n > 0)
        free(w->below[--w->below_n]);
    w->sealed_is_all = false;
    size_t n = w->below_n + w->sealed_n;

    memcpy(all, w->sealed, w->sealed_n * sizeof *all);
    memcpy(all + w->sealed_n, w->below, w->below_n * sizeof *all);
    memcpy(w->below, all, n * sizeof *all);
    w->below_n = n;
    w->sealed_n = 0;
    w->below_root = w->root;
    world_live(w);
}

/* What was mounted on is made one layer, and mounted again. Only right after world_fork. */
static inline void world_flatten(struct world *w)
{
    char id[32];
    struct layer_chain c = world_below(w);
    struct layer_sealed s;

    snprintf(id, sizeof id, "flat%d", w->serial++);
    WORLD_OK(layer_flatten(&c, id, false, &s, &w->e));
    while (w->below_n > 0)
        free(w->below[--w->below_n]);
    push_id(w->below, &w->below_n, id);
    world_live(w);
}

/* The recorded state is made one layer while the box lives on. */
static inline void world_flatten_live(struct world *w)
{
    char id[32];
    const char *ids[2 * WORLD_CHAIN];
    struct layer_chain c = world_chain(w, ids);
    struct layer_sealed s;

    snprintf(id, sizeof id, "flat%d", w->serial++);
    WORLD_OK(layer_flatten(&c, id, false, &s, &w->e));
    while (w->sealed_n > 0)
        free(w->sealed[--w->sealed_n]);
    push_id(w->sealed, &w->sealed_n, id);
    w->sealed_is_all = true;
}

/* The newest n layers of the living box, or all of them, become one. */
static inline void world_merge(struct world *w, size_t n)
{
    char id[32];
    struct layer_sealed s;

    n = n < w->sealed_n ? n : w->sealed_n;
    if (n < 2)
        return;
    snprintf(id, sizeof id, "merged%d", w->serial++);
    WORLD_OK(layer_merge(w->home, (const char *const *)w->sealed, n, id, &s, &w->e));
    for (size_t i = 0; i < n; i++)
        free(w->sealed[i]);
    memmove(w->sealed, w->sealed + n, (w->sealed_n - n) * sizeof *w->sealed);
    w->sealed_n -= n;
    push_id(w->sealed, &w->sealed_n, id);
}

/* Runs f in a child with a world; false: not root, skipped. */
static inline void in_world(void (*f)(struct world *w))
{
    if (geteuid() != 0) {
        printf("SKIP: needs root (mounts)\n");
        return;
    }
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        struct world w;
        int before = test_failures;
        world_init(&w);
        f(&w);
        world_done(&w);
        exit(test_failures != before);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    EXPECT_INT(status, 0);
}

#include <sys/stat.h>

#include "image/checkout.h"
#include "image/layer_gc.h"
#include "image/object.h"
#include "image/text_diff.h"
#include "image/tree_diff.h"
#include "layer_world.h"

TEST(text_diff_cases)
{
    static const struct {
        const char *old, *new, *want;
    } cases[] = {
        { "", "", "" },
        { "a\n", "a\n", "" },
        { "", "a\nb\n", "@@ -0,0 +1,2 @@\n+a\n+b\n" },
        { "a\n", "", "@@ -1,1 +0,0 @@\n-a\n" },
        { "a\nb\nc\n", "a\nx\nc\n", "@@ -1,3 +1,3 @@\n a\n-b\n+x\n c\n" },
        { "a\nb", "a\nb\n", "@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+b\n" },
        { "1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n2\n3\n4\nx\n6\n7\n8\n9\n",
          "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+x\n 6\n 7\n 8\n" },
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct buf b;
        buf_init(&b, 65536);
        text_diff(str_of(cases[i].old), str_of(cases[i].new), &b);
        EXPECT_STR(buf_view(&b), cases[i].want);
        buf_done(&b);
    }
}

/* patch(1) must turn one into the other. */
TEST(text_diff_applies)
{
    char dir[] = "/tmp/sg-diff-XXXXXX";
    unsigned seed = 7;

    if (!mkdtemp(dir) || system("command -v patch > /dev/null") != 0) {
        printf("SKIP: no patch(1)\n");
        rmdir(dir);
        return;
    }
    for (int round = 0; round < 30; round++) {
        char path[64], cmd[256];
        struct buf a, b, d;
        buf_init(&a, 1 << 20);
        buf_init(&b, 1 << 20);
        buf_init(&d, 1 << 20);
        for (int i = 0; i < (round == 29 ? 6000 : 60); i++) {
            seed = seed * 1103515245 + 12345;
            buf_printf(&a, "line %d\n", (seed >> 16) % 10);
            seed = seed * 1103515245 + 12345;
            if ((seed >> 16) % 8 != 0)
                buf_str(&b, (struct str){ a.p + a.n - 7, 7 });
            if ((seed >> 16) % 9 == 0)
                buf_printf(&b, "new %d\n", i);
        }
        text_diff(buf_view(&a), buf_view(&b), &d);
        EXPECT_TRUE(!d.full);
        snprintf(path, sizeof path, "%s/a", dir);
        buf_char(&a, 0);
        put_file(path, a.p);
        snprintf(path, sizeof path, "%s/b", dir);
        buf_char(&b, 0);
        put_file(path, b.p);
        snprintf(path, sizeof path, "%s/d", dir);
        buf_char(&d, 0);
        auto_close int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        if (d.n > 1)
            (void)!write(fd, "--- a\n+++ b\n", 12);
        (void)!write(fd, d.p, d.n - 1);
        snprintf(cmd, sizeof cmd, "cd %s && patch -s a < d && cmp a b", dir);
        EXPECT_INT(system(cmd), 0);
        buf_done(&a);
        buf_done(&b);
        buf_done(&d);
    }
    char cmd[128];
    snprintf(cmd, sizeof cmd, "rm -r %s", dir);
    (void)!system(cmd);
}

static void bad_objects(struct world *w)
{
    static const char *const texts[] = {
        "",
        "sandglass tree v2\n",
        "sandglass tree v1\nf 644 0 0 1 - - - 1:a",
        "sandglass tree v1\nf 644 0 0 1 - - - 9:a\n",
        "sandglass tree v1\nz 644 0 0 1 - - - 1:a\n",
        "sandglass tree v1\nf 644 0 0 1 - - - 1:b\nf 644 0 0 1 - - - 1:a\n",
        "sandglass tree v1\nf 644 0 0 1 - - - 3:a/b\n",
        "sandglass tree v1\nf 6x4 0 0 1 - - - 1:a\n",
        "sandglass tree v1\nf 644 0 0 99999999999999999999999 - - - 1:a\n",
        "sandglass tree v1\nf 644 0 0 1 - xy - 1:a\n",
    };
    struct objects o;
    WORLD_OK(objects_open(w->home, false, &o, &w->e));
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct object_tree t = { 0 };
        struct sha h;
        WORLD_OK(object_put(&o, str_of(texts[i]), &h, &w->e));
        EXPECT_TRUE(object_tree_get(&o, &h, &t, &w->e) < 0);
        object_tree_done(&t);
    }
    struct object_tree t = { 0 }, back = { 0 };
    struct sha h;
    object_tree_add(
        &t, &(struct object_entry){ .type = NODE_CHAR, .mode = 0644, .major = 1, .minor = 3, .name = "new\nline" });
    object_tree_add(&t, &(struct object_entry){ .type = NODE_FILE,
                                                .mode = 04755,
                                                .uid = 7,
                                                .gid = 8,
                                                .size = 1ULL << 40,
                                                .has_hash = true,
                                                .name = "\xff" });
    WORLD_OK(object_tree_put(&o, &t, &h, &w->e));
    WORLD_OK(object_tree_get(&o, &h, &back, &w->e));
    EXPECT_INT(back.n, 2);
    for (size_t i = 0; i < 2 && i < back.n; i++)
        EXPECT_TRUE(object_same_entry(&t.v[i], &back.v[i]) && strcmp(t.v[i].name, back.v[i].name) == 0);
    /* A damaged object is noticed. */
    char hex[SHA_HEX], path[300];
    sha_print(&h, hex);
    snprintf(path, sizeof path, "%s/objects/%.2s/%s", w->home, hex, hex);
    put_file(path, "sandglass tree v1\n");
    struct object_tree again = { 0 };
    EXPECT_TRUE(object_tree_get(&o, &h, &again, &w->e) < 0);
    object_tree_done(&t);
    object_tree_done(&back);
    objects_close(&o);
}
TEST(manifest_bad_objects)
{
    in_world(bad_objects);
}

static void shifted(struct world *w)
{
    /* Owners seen through a mapped mount: base is taken off. */
    w->base = 100000;
    (void)!system("true");
    static const char *const tops[] = { "m.s/root", "m.s/usr", "m.s/tmp" };
    for (size_t i = 0; i < ARRAY_LEN(tops); i++)
        (void)!chown(at(w, tops[i]), 100000, 100000);
    put_file(at(w, "m/mine"), "x");
    (void)!chown(at(w, "m/mine"), 101000, 101000);
    put_file(at(w, "m/strange"), "x");
    (void)!chown(at(w, "m/strange"), 5, 5);
    world_seal(w);
    struct stat st;
    EXPECT_INT(stat(at(w, "home/layers/l0/root/mine"), &st), 0);
    EXPECT_INT(st.st_uid, 1000);
    EXPECT_INT(st.st_gid, 1000);
    EXPECT_INT(stat(at(w, "home/layers/l0/root/strange"), &st), 0);
    EXPECT_INT(st.st_uid, 65534);
    EXPECT_INT(stat(at(w, "home/layers/l0/root"), &st), 0);
    EXPECT_INT(st.st_uid, 0);
}
TEST(manifest_shifted)
{
    in_world(shifted);
}

static void diffs(struct world *w)
{
    put_file(at(w, "m/first"), "1");
    world_seal(w);
    put_file(at(w, "m/a/f0"), "one\ntwo\n");
    world_seal(w);
    const char *ids_a[2 * WORLD_CHAIN], *ids_b[2 * WORLD_CHAIN];
    struct layer_chain a = world_chain(w, ids_a);
    struct state_root root_a = w->root;

    put_file(at(w, "m/a/f0"), "one\n2\n");
    put_file(at(w, "m/b/f2"), "replaced");
    unlink(at(w, "m/etc/passwd"));
    mkdir(at(w, "m/new"), 0700);
    put_file(at(w, "m/new/\xff"), "bytes");
    put_file(at(w, "m/tmp/t"), "t");
    chmod(at(w, "m/usr/bin/f0"), 0700);
    char *kept[WORLD_CHAIN]; /* a's ids must outlive the seal */
    for (size_t i = 0; i < a.n; i++)
        ids_a[i] = kept[i] = strdup(ids_a[i]);
    world_seal(w);
    struct layer_chain b = world_chain(w, ids_b);
    struct buf out;
    struct diff_counts n;
    buf_init(&out, 1 << 20);
    struct diff_opts o = { .a = &a, .b = &b, .root_a = &root_a, .root_b = &w->root, .text_bytes = 4096 };
    WORLD_OK(diff_print(&o, &out, &n, &w->e));
    EXPECT_INT(n.added, 3);   /* new, new/\xff, tmp/t */
    EXPECT_INT(n.changed, 3); /* a/f0, b/f2, usr/bin/f0 */
    EXPECT_INT(n.removed, 1);
    static const char *const parts[] = {
        "\"path\":\"a/f0\",\"change\":\"changed\",\"type\":\"file\",\"old_size\":8",
        "@@ -1,2 +1,2 @@\\n one\\n-two\\n+2\\n",
        "\"path\":\"etc/passwd\",\"change\":\"removed\"",
        "\"path_base64\":\"bmV3L/8=\"",
        "\"path\":\"usr/bin/f0\",\"change\":\"changed\"",
    };
    buf_char(&out, 0);
    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        if (!strstr(out.p, parts[i])) {
            test_failures++;
            printf("not in the diff: %s\n%s\n", parts[i], out.p);
        }
    buf_reset(&out);
    struct diff_opts back = { .a = &b, .b = &a, .root_a = &w->root, .root_b = &root_a, .text_bytes = 4096 };
    WORLD_OK(diff_print(&back, &out, &n, &w->e));
    EXPECT_INT(n.added, 1);
    EXPECT_INT(n.changed, 3);
    EXPECT_INT(n.removed, 3);
    buf_done(&out);
    for (size_t i = 0; i < a.n; i++)
        free(kept[i]);
}
TEST(manifest_diff)
{
    in_world(diffs);
}

static void checkouts(struct world *w)
{
    char name[260];
    memset(name, 'n', 200);
    name[200] = 0;
    put_file(at(w, "m/a/f0"), "changed");
    put_file(at(w, "m/x"), "linked");
    (void)!link(at(w, "m/x"), at(w, "m/b/y"));
    (void)!symlink("/etc/passwd", at(w, "m/sym"));
    mkdir(at(w, "m/dir"), 0755);
    chmod(at(w, "m/dir"), 01770);
    char path[600];
    snprintf(path, sizeof path, "%s/m/dir/%s", w->dir, name);
    put_file(path, "long");
    snprintf(path, sizeof path, "%s/m/dir/new\nline \xff", w->dir);
    put_file(path, "odd");
    mkfifo(at(w, "m/tmp/fifo"), 0600);
    unlink(at(w, "m/etc/passwd"));
    setxattr(at(w, "m/x"), "user.k", "v", 1, 0);
    world_seal(w);
    const char *ids[2 * WORLD_CHAIN];
    struct layer_chain c = world_chain(w, ids);
    struct checkout_counts n;
    auto_close int out = open(at(w, "out.tar"), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    WORLD_OK(checkout_tar(&c, &w->root, out, &n, &w->e));
    EXPECT_INT(n.deleted, 1);
    mkdir(at(w, "x"), 0755);
    char cmd[1500];
    snprintf(cmd, sizeof cmd,
             "cd %s/x && tar xf ../out.tar --xattrs --warning=no-timestamp && cmp a/f0 ../m/a/f0 && test x -ef b/y && "
             "cmp dir/%s ../m/dir/%s && "
             "cmp \"$(printf 'dir/new\\nline \\377')\" \"$(printf '../m/dir/new\\nline \\377')\" && test -p tmp/fifo "
             "&& test \"$(readlink sym)\" = /etc/passwd && "
             "test \"$(tr -d '\\0' < .sandglass/deleted)\" = etc/passwd && test \"$(stat -c %%a dir)\" = 1770 && test "
             "\"$(stat -c %%y x)\" = \"$(stat -c %%y ../m/x)\"",
             w->dir, name, name);
    EXPECT_INT(system(cmd), 0);
    char v[8];
    EXPECT_INT(getxattr(at(w, "x/x"), "user.k", v, sizeof v), 1);
}
TEST(manifest_checkout)
{
    in_world(checkouts);
}

static int count_layers(struct world *w)
{
    struct names names;
    auto_close int fd = open(at(w, "home/layers"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    (void)names_read(fd, &names, NULL);
    int n = (int)names.n;
    names_done(&names);
    return n;
}

static void garbage(struct world *w)
{
    put_file(at(w, "m/a/one"), "1");
    world_seal(w);
    put_file(at(w, "m/b/two"), "2");
    world_seal(w);
    struct state_root kept = w->root;
    char *ids[] = { strdup(w->sealed[0]), strdup(w->sealed[1]) };
    put_file(at(w, "m/etc/three"), "3");
    world_seal(w);
    mkdir(at(w, "home/layers/dead.tmp"), 0700);
    put_file(at(w, "home/layers/dead.tmp/x"), "left by a killed writer");
    EXPECT_INT(count_layers(w), 4);

    struct gc_counts n;
    struct gc_opts o = { .home = w->home,
                         .roots = &kept,
                         .roots_n = 1,
                         .layers = (const char *const *)ids,
                         .layers_n = 2,
                         .grace_ms = 60000 };
    WORLD_OK(layer_gc(&o, &n, &w->e));
    EXPECT_INT(n.layers_removed + n.objects_removed, 0); /* all is young */
    EXPECT_INT(count_layers(w), 4);
    o.grace_ms = 0;
    WORLD_OK(layer_gc(&o, &n, &w->e));
    EXPECT_INT(n.layers_removed, 2);
    EXPECT_TRUE(n.objects_removed >= 3); /* state, top, etc */
    EXPECT_INT(count_layers(w), 2);

    const struct layer_chain c = { .home = w->home, .image = &w->image, .ids = (const char *const *)ids, .n = 2 };
    struct state_root found;
    EXPECT_INT(layer_verify(&c, &kept, &found, &w->e), 1);
    WORLD_OK(layer_hash(&c, NULL, false, &found, NULL, &w->e));
    EXPECT_STR(str_of(found.hex), kept.hex);
    /* A root that is not there stops everything. */
    o.roots = &w->root;
    o.layers_n = 0;
    EXPECT_TRUE(layer_gc(&o, &n, &w->e) < 0);
    EXPECT_INT(count_layers(w), 2);
    free(ids[0]);
    free(ids[1]);
}
TEST(manifest_garbage)
{
    in_world(garbage);
}

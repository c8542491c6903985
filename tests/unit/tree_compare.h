/* Are two mounted trees the same, as a program in a box could tell? */
#pragma once

#include "base/map.h"
#include "image/node.h"
#include "layer_world.h"

struct compare {
    struct map a, b; /* "dev.ino" -> first path */
    struct arena arena;
    int differences;
};

static inline void differ(struct compare *c, const char *path, const char *what)
{
    if (c->differences++ < 10)
        printf("differs: '%s': %s\n", path, what);
}

static inline const char *first_path(struct compare *c, struct map *m, const struct node *n, const char *path)
{
    char *key = arena_printf(&c->arena, "%llx.%llx", (unsigned long long)n->dev, (unsigned long long)n->ino);
    char *old = map_get(m, str_of(key));
    if (!old)
        map_put(m, str_of(key), old = arena_z(&c->arena, str_of(path)));
    return old;
}

static inline void compare_name(struct compare *c, int a, int b, const char *name, const char *path);

static inline void compare_dir(struct compare *c, int a, int b, const char *path)
{
    struct names x, y;

    if (names_read(a, &x, NULL) < 0 || names_read(b, &y, NULL) < 0)
        differ(c, path, "unreadable");
    for (size_t i = 0, k = 0; i < x.n || k < y.n;) {
        int order = i == x.n ? 1 : k == y.n ? -1 : strcmp(x.v[i], y.v[k]);
        const char *name = order <= 0 ? x.v[i] : y.v[k];
        char *sub = arena_printf(&c->arena, "%s/%s", path, name);
        if (order != 0)
            differ(c, sub, order < 0 ? "only in the first" : "only in the second");
        else
            compare_name(c, a, b, name, sub);
        i += order <= 0;
        k += order >= 0;
    }
    names_done(&x);
    names_done(&y);
}

static inline void compare_marks(struct compare *c, int a, int b, const char *path)
{
    struct node_marks x = { 0 }, y = { 0 };
    if (node_marks(a, 0, &c->arena, &x, NULL) < 0 || node_marks(b, 0, &c->arena, &y, NULL) < 0)
        differ(c, path, "unreadable attributes");
    if (x.has_xattrs != y.has_xattrs || (x.has_xattrs && !sha_eq(&x.xattrs, &y.xattrs)))
        differ(c, path, "extended attributes");
}

static inline void compare_name(struct compare *c, int a, int b, const char *name, const char *path)
{
    struct node x, y;

    if (node_stat(a, name, &x, NULL) < 0 || node_stat(b, name, &y, NULL) < 0) {
        differ(c, path, "cannot be read");
        return;
    }
    if (!node_same_attrs(&x, &y) || x.size != y.size)
        differ(c, path, "type, mode, owner or size");
    else if (x.type == NODE_DIR) {
        auto_close int p = openat(a, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC),
                       q = openat(b, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        compare_marks(c, p, q, path);
        compare_dir(c, p, q, path);
    } else if (x.type == NODE_FILE) {
        auto_close int p = node_open_file(a, name, NULL), q = node_open_file(b, name, NULL);
        if (node_same_content(p, q, x.size, NULL) != 1)
            differ(c, path, "content");
        compare_marks(c, p, q, path);
    } else if (x.type == NODE_LINK) {
        if (!str_eq(node_readlink(a, name, &c->arena, NULL), node_readlink(b, name, &c->arena, NULL)))
            differ(c, path, "target");
    }
    if (x.type != NODE_DIR) {
        if (x.mtime_ns != y.mtime_ns)
            differ(c, path, "mtime");
        const char *of_a = first_path(c, &c->a, &x, path), *of_b = first_path(c, &c->b, &y, path);
        if (strcmp(of_a, of_b) != 0)
            differ(c, path, arena_printf(&c->arena, "hard links: is '%s' here, '%s' there", of_a, of_b));
    }
}

static inline int compare_trees(const char *a, const char *b)
{
    struct compare c = { 0 };
    auto_close int p = open(a, O_RDONLY | O_DIRECTORY | O_CLOEXEC), q = open(b, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    compare_marks(&c, p, q, "/");
    compare_dir(&c, p, q, "");
    map_done(&c.a);
    map_done(&c.b);
    arena_done(&c.arena);
    return c.differences;
}

/* Which listed names are one file. */
#include <stdio.h>

#include "base/auto.h"
#include "base/err.h"
#include "image/manifest_build.h"

static const char head[] = "sandglass links v1\n";

static void add_path(struct link_group *g, const char *path)
{
    if (g->n == g->size) {
        g->size = g->size ? 2 * g->size : 4;
        g->v = realloc(g->v, g->size * sizeof *g->v);
        if (!g->v)
            abort();
    }
    g->v[g->n++] = path;
}

static struct link_group *group_of(struct build *b, uint64_t dev, uint64_t ino)
{
    uint64_t key[2] = { dev, ino };
    struct link_group *g = map_get(&b->groups, (struct str){ (const char *)key, sizeof key });

    if (!g) {
        g = arena_alloc(&b->arena, sizeof *g);
        memcpy(g->key, key, sizeof key);
        map_put(&b->groups, (struct str){ (const char *)g->key, sizeof g->key }, g);
    }
    return g;
}

void links_note(struct build *b, const struct node *n, const char *name)
{
    char *path = arena_printf(&b->arena, "%.*s%s%s", STR_ARG(buf_view(&b->path)), b->path.n ? "/" : "", name);
    add_path(group_of(b, n->dev, n->ino), path);
}

void links_done(struct build *b)
{
    struct link_group *g;

    for (size_t i = 0; (g = map_next(&b->groups, &i));)
        free(g->v);
    map_done(&b->groups);
    b->groups = (struct map){ 0 };
}

static enum layer_tree tree_of(const struct build *b, const char **path)
{
    if (strncmp(*path, "tmp/", 4) == 0) {
        *path += 4;
        return LAYER_TMP;
    }
    if (b->chain->image->usr_n > 0 && strncmp(*path, "usr/", 4) == 0) {
        *path += 4;
        return LAYER_USR;
    }
    return LAYER_ROOT;
}

/* Does the newest layer say anything about this path: itself, or by hiding a directory above it? 1 or 0. */
static int covered(const struct build *b, const char *path, struct err *e)
{
    char part[256];
    enum layer_tree t = tree_of(b, &path);
    auto_close int at = b->newest[t] < 0 ? -1 : dup(b->newest[t]);

    while (at >= 0 && *path) {
        struct arena a = { 0 };
        struct node_marks m;
        struct node n;
        size_t len = strcspn(path, "/");
        snprintf(part, sizeof part, "%.*s", (int)len, path);
        path += len + (path[len] == '/');
        int r = node_stat(at, part, &n, e);
        if (r < 0)
            return r == -2 ? 0 : r;
        if (n.type != NODE_DIR || !*path)
            return 1;
        int next = node_open_dir(at, part, e);
        if (next < 0)
            return next;
        close(at);
        at = next;
        r = node_marks(at, 0, &a, &m, e);
        arena_done(&a);
        if (r < 0 || m.flags)
            return r < 0 ? r : 1;
    }
    return 0;
}

static bool take_number(struct str *s, char end, size_t *ret)
{
    size_t v = 0, i = 0;

    while (i < s->n && i < 12 && s->p[i] >= '0' && s->p[i] <= '9')
        v = 10 * v + (size_t)(s->p[i++] - '0');
    if (i == 0 || i >= s->n || s->p[i] != end)
        return false;
    *s = (struct str){ s->p + i + 1, s->n - i - 1 };
    *ret = v;
    return true;
}

/* Keeps the groups of the parent, less what the newest layer covers. Their keys are no inodes. */
static int keep_old(struct build *b, struct str s, struct err *e)
{
    size_t count, len;

    if (s.n < sizeof head - 1 || memcmp(s.p, head, sizeof head - 1) != 0)
        return err_set(e, ERR_INVALID, "an object is no list of links");
    s = (struct str){ s.p + sizeof head - 1, s.n - (sizeof head - 1) };
    for (uint64_t serial = 0; s.n > 0; serial++) {
        if (!take_number(&s, '\n', &count))
            return err_set(e, ERR_INVALID, "a list of links is damaged");
        for (size_t i = 0; i < count; i++) {
            if (!take_number(&s, ':', &len) || len >= s.n || s.p[len] != '\n')
                return err_set(e, ERR_INVALID, "a list of links is damaged");
            char *path = arena_z(&b->arena, (struct str){ s.p, len });
            s = (struct str){ s.p + len + 1, s.n - len - 1 };
            int r = covered(b, path, e);
            if (r < 0)
                return r;
            if (!r)
                add_path(group_of(b, UINT64_MAX, serial), path);
        }
    }
    return 0;
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int by_first(const void *a, const void *b)
{
    return strcmp((*(struct link_group *const *)a)->v[0], (*(struct link_group *const *)b)->v[0]);
}

static int print_groups(struct build *b, struct buf *out, struct err *e)
{
    auto_free struct link_group **all = calloc(b->groups.count + 1, sizeof *all);
    struct link_group *g;
    size_t n = 0;

    if (!all)
        abort();
    for (size_t i = 0; (g = map_next(&b->groups, &i));)
        if (g->n > 1) {
            qsort(g->v, g->n, sizeof *g->v, by_bytes);
            all[n++] = g;
        }
    if (n == 0)
        return 0;
    qsort(all, n, sizeof *all, by_first);
    buf_z(out, head);
    for (size_t i = 0; i < n; i++) {
        buf_printf(out, "%zu\n", all[i]->n);
        for (size_t k = 0; k < all[i]->n; k++)
            buf_printf(out, "%zu:%s\n", strlen(all[i]->v[k]), all[i]->v[k]);
    }
    return out->full ? err_set(e, ERR_LIMIT, "the list of hard links exceeds LIMIT_OBJECT (%ld bytes)", LIMIT_OBJECT)
                     : 1;
}

int links_put(struct build *b, const struct object_tree *was, struct object_tree *top, struct err *e)
{
    struct buf text;
    int r = 0;

    buf_init(&text, LIMIT_OBJECT + 1);
    if (was && was->has_links) {
        r = object_get(&b->objects, &was->links, &text, e);
        if (r >= 0)
            r = keep_old(b, buf_view(&text), e);
        buf_reset(&text);
    }
    if (r >= 0)
        r = print_groups(b, &text, e);
    top->has_links = r > 0;
    if (r > 0)
        r = object_put(&b->objects, buf_view(&text), &top->links, e);
    buf_done(&text);
    return r < 0 ? r : 0;
}

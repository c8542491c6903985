#include "image/layer_gc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/map.h"
#include "image/layer_dir.h"
#include "image/object.h"
#include "image/tree.h"

struct gc {
    const struct gc_opts *o;
    struct objects objects;
    struct arena arena;
    struct map live; /* objects: 32 bytes; layers: their ids */
    struct gc_counts counts;
    int depth;
};

/* --- mark --- */

static bool mark(struct gc *g, const struct sha *h)
{
    if (map_get(&g->live, (struct str){ (const char *)h->b, SHA_BYTES }))
        return false;
    struct str key = arena_copy(&g->arena, (struct str){ (const char *)h->b, SHA_BYTES });
    map_put(&g->live, key, g);
    return true;
}

static int mark_tree(struct gc *g, const struct sha *h, struct err *e)
{
    struct object_tree t;

    if (!mark(g, h))
        return 0;
    if (g->depth > LIMIT_TREE_DEPTH + 1)
        return err_set(e, ERR_LIMIT, "objects are nested deeper than LIMIT_TREE_DEPTH (%d)", LIMIT_TREE_DEPTH);
    int r = object_tree_get(&g->objects, h, &t, e);
    if (r < 0)
        return r;
    if (t.has_links)
        mark(g, &t.links);
    g->depth++;
    for (size_t i = 0; i < t.n && r >= 0; i++)
        if (t.v[i].type == NODE_DIR && t.v[i].has_hash)
            r = mark_tree(g, &t.v[i].hash, e);
    g->depth--;
    object_tree_done(&t);
    return r;
}

static int mark_all(struct gc *g, struct err *e)
{
    int r = 0;

    for (size_t i = 0; i < g->o->roots_n && r >= 0; i++) {
        struct sha root, top;
        if (!sha_parse(str_of(g->o->roots[i].hex), &root))
            return err_set(e, ERR_INVALID, "'%.64s' is no state root", g->o->roots[i].hex);
        if (!mark(g, &root))
            continue;
        r = object_state_get(&g->objects, &root, NULL, &top, e);
        if (r >= 0)
            r = mark_tree(g, &top, e);
        if (r < 0)
            return err_wrap(e, r, "state %.12s", g->o->roots[i].hex);
    }
    for (size_t i = 0; i < g->o->layers_n; i++)
        map_put(&g->live, str_of(g->o->layers[i]), g);
    return r;
}

/* --- sweep --- */

static bool is_old(const struct gc *g, const struct stat *st)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    const struct timespec *t = st->st_ctim.tv_sec > st->st_mtim.tv_sec ? &st->st_ctim : &st->st_mtim;
    int64_t age_ms = (now.tv_sec - t->tv_sec) * 1000 + (now.tv_nsec - t->tv_nsec) / 1000000;
    return age_ms >= g->o->grace_ms;
}

static void sweep_object(struct gc *g, int dir, const char *name)
{
    struct stat st;
    struct sha h;
    bool temp = strncmp(name, "new.", 4) == 0;

    if (!temp && (!sha_parse(str_of(name), &h) || map_get(&g->live, (struct str){ (const char *)h.b, SHA_BYTES }))) {
        g->counts.objects_kept++;
        return;
    }
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
        return;
    if (!is_old(g, &st)) {
        g->counts.objects_kept++;
        return;
    }
    g->counts.objects_removed++;
    g->counts.bytes += (uint64_t)st.st_blocks * 512;
    if (!g->o->dry)
        (void)unlinkat(dir, name, 0);
}

/* The lock belongs to an open file description: this one is the sweep's own. */
static int sweep_dir(struct gc *g, const char *name, bool temps, struct err *e)
{
    struct names names;
    auto_close int dir = node_open_dir(g->objects.dir, name, e);

    if (dir < 0)
        return dir;
    if (flock(g->objects.dir, LOCK_EX) < 0)
        return err_sys(e, "lock the objects");
    int r = names_read(dir, &names, e);
    for (size_t i = 0; i < names.n && r >= 0; i++)
        if (!temps || strncmp(names.v[i], "new.", 4) == 0)
            sweep_object(g, dir, names.v[i]);
    names_done(&names);
    (void)flock(g->objects.dir, LOCK_UN);
    return r;
}

static int sweep_objects(struct gc *g, struct err *e)
{
    struct names names;

    int r = sweep_dir(g, ".", true, e);
    if (r < 0)
        return r;
    r = names_read(g->objects.dir, &names, e);
    for (size_t i = 0; i < names.n && r >= 0; i++)
        if (strlen(names.v[i]) == 2)
            r = sweep_dir(g, names.v[i], false, e);
    names_done(&names);
    return r;
}

static uint64_t disk_use(int dir, const char *name)
{
    struct names names;
    struct stat st;
    uint64_t sum = 0;

    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return 0;
    sum = (uint64_t)st.st_blocks * 512 / (S_ISDIR(st.st_mode) ? 1 : st.st_nlink);
    auto_close int fd = S_ISDIR(st.st_mode) ? node_open_dir(dir, name, NULL) : -1;
    if (fd < 0)
        return sum;
    if (names_read(fd, &names, NULL) >= 0)
        for (size_t i = 0; i < names.n; i++)
            sum += disk_use(fd, names.v[i]);
    names_done(&names);
    return sum;
}

static void sweep_layer(struct gc *g, int layers, const char *name)
{
    struct stat st;
    char temp[LIMIT_LAYER_ID + 16];

    if (map_get(&g->live, str_of(name))) {
        g->counts.layers_kept++;
        return;
    }
    auto_close int dir = node_open_dir(layers, name, NULL);
    if (dir < 0 || fstat(dir, &st) < 0)
        return;
    /* Somebody writes it: the lock goes with the process, so what is left of a killed one is not locked. */
    if (!is_old(g, &st) || flock(dir, LOCK_EX | LOCK_NB) < 0) {
        g->counts.layers_kept++;
        return;
    }
    g->counts.layers_removed++;
    g->counts.bytes += disk_use(layers, name);
    if (g->o->dry)
        return;
    snprintf(temp, sizeof temp, "%.*s.gone", LIMIT_LAYER_ID, name);
    if (renameat(layers, name, layers, temp) == 0)
        tree_remove(layers, temp);
}

static int sweep_layers(struct gc *g, struct err *e)
{
    struct names names;
    auto_close int layers = layer_open_all(g->o->home, e);

    if (layers < 0)
        return layers;
    int r = names_read(layers, &names, e);
    for (size_t i = 0; i < names.n && r >= 0; i++)
        sweep_layer(g, layers, names.v[i]);
    names_done(&names);
    return r;
}

int layer_gc(const struct gc_opts *o, struct gc_counts *ret, struct err *e)
{
    struct gc g = { .o = o, .objects.dir = -1 };

    int r = objects_open(o->home, true, &g.objects, e);
    if (r >= 0)
        r = mark_all(&g, e);
    if (r >= 0)
        r = sweep_objects(&g, e);
    if (r >= 0)
        r = sweep_layers(&g, e);
    objects_close(&g.objects);
    map_done(&g.live);
    arena_done(&g.arena);
    if (r < 0)
        return err_wrap(e, r, "remove garbage");
    *ret = g.counts;
    return 0;
}

uint64_t layer_disk_use(const char *home)
{
    auto_close int dir = open(home, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    return dir < 0 ? 0 : disk_use(dir, "layers") + disk_use(dir, "objects");
}

#include "image/layer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/err.h"
#include "image/layer_dir.h"
#include "image/stack.h"
#include "image/tree.h"

const char *const layer_tree_names[LAYER_TREES] = { "root", "usr", "tmp" };

bool layer_id_ok(const char *id)
{
    size_t n = strspn(id, "abcdefghijklmnopqrstuvwxyz0123456789-");
    return n > 0 && n <= LIMIT_LAYER_ID && id[n] == 0;
}

static int bad_id(const char *id, struct err *e)
{
    return err_set(e, ERR_INVALID, "'%.80s' is no id of a layer", id);
}

int layer_open_all(const char *home, struct err *e)
{
    char path[4200];

    snprintf(path, sizeof path, "%s/layers", home);
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return err_sys(e, "make '%s'", path);
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? err_sys(e, "open '%s'", path) : fd;
}

int layer_open(const char *home, const char *id, struct err *e)
{
    if (!layer_id_ok(id))
        return bad_id(id, e);
    auto_close int layers = layer_open_all(home, e);
    if (layers < 0)
        return layers;
    int fd = openat(layers, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? err_set(e, ERR_NOT_FOUND, "no layer %s", id) : err_sys(e, "open layer %s", id);
    return fd;
}

/* --- a new layer --- */

int layer_new_begin(const char *home, const char *id, struct layer_new *ret, struct err *e)
{
    struct stat st;

    if (!layer_id_ok(id))
        return bad_id(id, e);
    auto_close int layers = layer_open_all(home, e);
    if (layers < 0)
        return layers;
    if (fstatat(layers, id, &st, AT_SYMLINK_NOFOLLOW) == 0)
        return err_set(e, ERR_EXISTS, "layer %s is there already", id);
    *ret = (struct layer_new){ .layers = TAKE_FD(layers), .top = -1, .links = -1 };
    snprintf(ret->id, sizeof ret->id, "%s", id);
    return 0;
}

int layer_new_top(struct layer_new *n, struct err *e)
{
    char name[LIMIT_LAYER_ID + 8];

    if (n->top >= 0)
        return n->top;
    snprintf(name, sizeof name, "%s.tmp", n->id);
    tree_remove(n->layers, name); /* of an earlier life that was cut short */
    if (mkdirat(n->layers, name, 0700) < 0)
        return err_sys(e, "make layer %s", n->id);
    n->top = openat(n->layers, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    /* The lock says that somebody is at work here; see layer_gc.h. */
    if (n->top < 0 || flock(n->top, LOCK_SH | LOCK_NB) < 0)
        return err_sys(e, "make layer %s", n->id);
    return n->top;
}

int layer_new_links(struct layer_new *n, struct err *e)
{
    if (n->links >= 0)
        return n->links;
    int top = layer_new_top(n, e);
    if (top < 0)
        return top;
    if (mkdirat(top, "links", 0700) == 0)
        n->links = openat(top, "links", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return n->links < 0 ? err_sys(e, "make layer %s", n->id) : n->links;
}

/* One syncfs instead of an fsync per file: on ext4 a thousand small fsyncs take seconds. */
int layer_new_seal(struct layer_new *n, bool sync, struct err *e)
{
    char name[LIMIT_LAYER_ID + 8];

    int r = layer_new_top(n, e);
    if (r < 0)
        return r;
    if (n->links >= 0)
        tree_remove(n->top, "links");
    if (sync && syncfs(n->top) < 0)
        return err_sys(e, "sync layer %s", n->id);
    snprintf(name, sizeof name, "%s.tmp", n->id);
    if (renameat(n->layers, name, n->layers, n->id) < 0)
        return err_sys(e, "seal layer %s", n->id);
    close(n->top);
    n->top = -1;
    return sync && fsync(n->layers) < 0 ? err_sys(e, "sync the layers' directory") : 0;
}

void layer_new_done(struct layer_new *n)
{
    char name[LIMIT_LAYER_ID + 8];

    if (n->top >= 0) {
        snprintf(name, sizeof name, "%s.tmp", n->id);
        close(n->top);
        tree_remove(n->layers, name);
    }
    if (n->links >= 0)
        close(n->links);
    if (n->layers >= 0)
        close(n->layers);
    *n = (struct layer_new){ .layers = -1, .top = -1, .links = -1 };
}

/* A layer with an index is found by the next seal: what the last walk saw goes along. */
int layer_take_index(struct layer_new *n, const struct layer_chain *c, struct err *e)
{
    static const char *const names[] = { "index", "aliases" };
    auto_close int newest = c->n ? layer_open(c->home, c->ids[0], e) : -1;

    if (newest < 0)
        return c->n ? newest : 0;
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (linkat(newest, names[i], n->top, names[i], 0) < 0 && errno != ENOENT)
            return err_sys(e, "keep the index");
    return 0;
}

/* --- sealed ones --- */

int layer_lowers(const struct layer_chain *c, enum layer_tree t, int *ret_fds, struct err *e)
{
    int n = 0, r = c->n > LIMIT_LAYER_CHAIN
                       ? err_set(e, ERR_LIMIT, "a chain of more than LIMIT_LAYER_CHAIN (%d) layers", LIMIT_LAYER_CHAIN)
                       : 0;

    for (size_t i = 0; i < c->n && r >= 0; i++) {
        auto_close int layer = layer_open(c->home, c->ids[i], e);
        if (layer < 0) {
            r = layer;
            break;
        }
        int fd = openat(layer, layer_tree_names[t], O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd >= 0)
            ret_fds[n++] = fd;
        else if (errno != ENOENT)
            r = err_sys(e, "open layer %s", c->ids[i]);
    }
    while (r < 0 && n > 0)
        close(ret_fds[--n]);
    return r < 0 ? r : n;
}

/* A layer that has the path at all has its newest state. */
static int open_sealed(const struct layer_opts *o, enum layer_tree t, const char *path)
{
    for (size_t i = 0; i < o->sealed_n; i++) {
        auto_close int layer = layer_open(o->below->home, o->sealed[i], NULL);
        auto_close int top = layer < 0 ? -1 : openat(layer, layer_tree_names[t], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        int fd = top < 0 ? -1 : node_open_file(top, path, NULL);
        if (fd >= 0)
            return fd;
    }
    return -ENOENT;
}

bool layer_same_as_sealed(const struct layer_opts *o, enum layer_tree t, const char *path, int fd, uint64_t size)
{
    struct stat st;
    auto_close int was = open_sealed(o, t, path);

    return was >= 0 && fstat(was, &st) == 0 && (uint64_t)st.st_size == size &&
           node_same_content(was, fd, size, NULL) == 1;
}

void layer_image_stack(const struct layer_image *i, enum layer_tree t, struct stack *ret)
{
    *ret = (struct stack){ 0 };
    if (t == LAYER_ROOT)
        *ret = (struct stack){ .fds = i->root, .n = (int)i->root_n };
    else if (t == LAYER_USR)
        *ret = (struct stack){ .fds = i->usr, .n = (int)i->usr_n };
}

int layer_stack(const struct layer_chain *c, enum layer_tree t, int top, struct stack *ret, struct err *e)
{
    struct stack image;
    int n = 0;

    layer_image_stack(c->image, t, &image);
    auto_free int *fds = calloc(c->n + (size_t)image.n + 1, sizeof *fds);
    if (!fds)
        abort();
    if (top >= 0)
        fds[n++] = top;
    int r = layer_lowers(c, t, fds + n, e);
    if (r < 0)
        return r;
    n += r;
    *ret = (struct stack){ .image_from = n };
    for (int i = 0; i < image.n; i++) {
        fds[n] = fcntl(image.fds[i], F_DUPFD_CLOEXEC, 3);
        if (fds[n] < 0)
            r = err_sys(e, "open the image");
        else
            n++;
    }
    ret->fds = TAKE_PTR(fds);
    ret->n = n;
    if (r < 0)
        layer_stack_done(ret, top);
    return r < 0 ? r : 0;
}

void layer_stack_done(struct stack *s, int top)
{
    for (int i = 0; i < s->n; i++)
        if (s->fds[i] != top)
            close(s->fds[i]);
    free((void *)s->fds);
    *s = (struct stack){ 0 };
}

void layer_drop_index(const char *home, const char *id)
{
    auto_close int layer = layer_open(home, id, NULL);
    if (layer >= 0)
        (void)unlinkat(layer, "index", 0);
}

/* Renamed first: a layer whose name is there is whole. */
void layer_remove(const char *home, const char *id)
{
    char name[LIMIT_LAYER_ID + 8];
    auto_close int layers = layer_id_ok(id) ? layer_open_all(home, NULL) : -1;

    if (layers < 0)
        return;
    snprintf(name, sizeof name, "%s.tmp", id);
    tree_remove(layers, name);
    if (renameat(layers, id, layers, name) == 0)
        tree_remove(layers, name);
}

#include "image/stamps.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "image/node.h"

enum { TICK_S = 2 }; /* more than a file system's clock is coarse */

/* Links have none: what one says never changes, it can only be replaced. */
struct stamp {
    const char *path; /* below the top; "." */
    struct node is;
};

struct stamps {
    int top;
    bool fresh; /* something was changed just before */
    int64_t now_ns;
    struct arena arena;
    struct stamp *v;
    size_t n, size;
};

static void keep(struct stamps *s, const char *path, const struct node *is)
{
    if (s->n == s->size) {
        s->size = s->size ? 2 * s->size : 64;
        s->v = realloc(s->v, s->size * sizeof *s->v);
        if (!s->v)
            abort();
    }
    s->v[s->n++] = (struct stamp){ path, *is };
    s->fresh = s->fresh || is->ctime_ns > s->now_ns - TICK_S * 1000000000LL;
}

static int walk(struct stamps *s, int dir, const char *path, int depth, struct err *e)
{
    struct names names;
    struct node is;

    if (depth > LIMIT_TREE_DEPTH)
        return err_set(e, ERR_LIMIT, "LIMIT_TREE_DEPTH (%d) directories in each other", LIMIT_TREE_DEPTH);
    int r = node_stat(dir, "", &is, e); /* before its names are read */
    if (r < 0)
        return r;
    keep(s, path, &is);
    r = names_read(dir, &names, e);
    for (size_t i = 0; r >= 0 && i < names.n; i++) {
        r = node_stat(dir, names.v[i], &is, e);
        if (r < 0 || is.type == NODE_LINK)
            continue;
        const char *below = arena_printf(&s->arena, "%s/%s", path, names.v[i]);
        if (is.type == NODE_DIR) {
            auto_close int sub = node_open_dir(dir, names.v[i], e);
            r = sub < 0 ? sub : walk(s, sub, below, depth + 1, e);
        } else {
            keep(s, below, &is);
        }
    }
    names_done(&names);
    return r;
}

struct stamps *stamps_take(const char *path, struct err *e)
{
    struct stamps *s = calloc(1, sizeof *s);
    struct timespec now;

    if (!s)
        abort();
    clock_gettime(CLOCK_REALTIME, &now);
    s->now_ns = now.tv_sec * 1000000000LL + now.tv_nsec;
    s->top = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if ((s->top < 0 && err_sys(e, "open '%s'", path) < 0) || walk(s, s->top, ".", 0, e) < 0) {
        stamps_free(s);
        return NULL;
    }
    return s;
}

bool stamps_hold(const struct stamps *s)
{
    if (s->fresh)
        return false;
    for (size_t i = 0; i < s->n; i++) {
        const struct node *was = &s->v[i].is;
        struct node is;
        if (node_stat(s->top, s->v[i].path, &is, NULL) < 0 || !node_same_attrs(was, &is) || is.ino != was->ino ||
            is.dev != was->dev || is.size != was->size || is.mtime_ns != was->mtime_ns || is.ctime_ns != was->ctime_ns)
            return false;
    }
    return true;
}

void stamps_free(struct stamps *s)
{
    if (!s)
        return;
    if (s->top >= 0)
        close(s->top);
    arena_done(&s->arena);
    free(s->v);
    free(s);
}

#include "image/fingerprint.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "image/node.h"

enum { LINES_MAX = 64 << 20 };

static int add_dir(struct buf *lines, struct arena *a, int dir, int depth, struct err *e);

static void add_hash(struct buf *lines, const struct sha *h)
{
    char hex[SHA_HEX];

    sha_print(h, hex);
    buf_printf(lines, " %s", hex);
}

static int add_marks(struct buf *lines, struct arena *a, int fd, struct err *e)
{
    struct node_marks marks;

    int r = node_marks(fd, 0, a, &marks, e);
    if (r < 0)
        return r;
    if (marks.has_xattrs)
        add_hash(lines, &marks.xattrs);
    buf_printf(lines, " %u %.*s", marks.flags, STR_ARG(marks.redirect));
    return 0;
}

static int add_file(struct buf *lines, struct arena *a, int fd, const struct node *n, struct err *e)
{
    struct sha content;

    int r = sha_fd(fd, n->size, &content, e);
    if (r < 0)
        return r;
    add_hash(lines, &content);
    return add_marks(lines, a, fd, e);
}

/* A line for each name; names end with a NUL, so that none can look like two. */
static int add_name(struct buf *lines, int dir, const char *name, int depth, struct node *ret, struct err *e)
{
    int r = node_stat(dir, name, ret, e);
    if (r < 0)
        return r == -ENOENT ? err_set(e, ERR_BUSY, "'%s' went while it was looked at", name) : r;
    buf_printf(lines, "%d %s%c%c %o %u %u %u %u", depth, name, 0, ret->type, ret->mode, ret->uid, ret->gid, ret->major,
               ret->minor);
    return 0;
}

static int add(struct buf *lines, struct arena *a, int dir, const char *name, int depth, struct err *e)
{
    struct node n;

    int r = add_name(lines, dir, name, depth, &n, e);
    if (r < 0)
        return r;
    if (n.type == NODE_FILE || n.type == NODE_DIR) {
        auto_close int fd = n.type == NODE_FILE ? node_open_file(dir, name, e) : node_open_dir(dir, name, e);
        r = fd < 0 ? fd : n.type == NODE_FILE ? add_file(lines, a, fd, &n, e) : add_marks(lines, a, fd, e);
        buf_char(lines, '\n');
        return r < 0 || n.type == NODE_FILE ? r : add_dir(lines, a, fd, depth + 1, e);
    }
    if (n.type == NODE_LINK) {
        struct str to = node_readlink(dir, name, a, e);
        if (!to.p)
            return -EIO;
        buf_printf(lines, " %.*s%c", STR_ARG(to), 0);
    }
    buf_char(lines, '\n');
    return 0;
}

static int add_dir(struct buf *lines, struct arena *a, int dir, int depth, struct err *e)
{
    struct names names;

    if (depth > LIMIT_TREE_DEPTH)
        return err_set(e, ERR_LIMIT, "LIMIT_TREE_DEPTH (%d) directories in each other", LIMIT_TREE_DEPTH);
    int r = names_read(dir, &names, e);
    for (size_t i = 0; r >= 0 && i < names.n; i++)
        r = add(lines, a, dir, names.v[i], depth, e);
    names_done(&names);
    return r;
}

int fingerprint_of(const char *path, struct sha *ret, struct err *e)
{
    struct arena a = { 0 };
    struct buf lines;
    struct node top;
    auto_close int dir = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (dir < 0)
        return err_sys(e, "open '%s'", path);
    buf_init(&lines, LINES_MAX);
    int r = add_name(&lines, dir, "", 0, &top, e);
    if (r >= 0)
        r = add_marks(&lines, &a, dir, e);
    if (r >= 0)
        r = add_dir(&lines, &a, dir, 1, e);
    if (r >= 0 && lines.full)
        r = err_set(e, ERR_LIMIT, "'%s' has too many files for a fingerprint", path);
    if (r >= 0)
        *ret = sha_of(buf_view(&lines));
    buf_done(&lines);
    arena_done(&a);
    return r < 0 ? r : 0;
}

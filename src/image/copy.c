#include "image/copy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/auto.h"
#include "base/err.h"
#include "image/layer_dir.h"

enum { CHUNK = 256 * 1024 };

static void times_of(const struct node *n, struct timespec t[2])
{
    t[1] = (struct timespec){ n->mtime_ns / 1000000000, n->mtime_ns % 1000000000 };
    if (t[1].tv_nsec < 0) {
        t[1].tv_nsec += 1000000000;
        t[1].tv_sec--;
    }
    t[0] = t[1]; /* no access times: reading is no change */
}

static int write_at(int fd, const char *p, size_t n, off_t at)
{
    while (n > 0) {
        ssize_t done = pwrite(fd, p, n, at);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return -1;
        p += done;
        at += done;
        n -= (size_t)done;
    }
    return 0;
}

/* copy_file_range shares blocks or stays in the kernel if both ends are of one file system; tmpfs to ext4 is not. */
static int copy_range(int from, int to, off_t at, off_t end, struct err *e)
{
    static char *block; /* one per process: no threads */

    if (end - at > CHUNK)
        while (at < end) {
            off_t in = at, out = at;
            ssize_t n = copy_file_range(from, &in, to, &out, (size_t)(end - at), 0);
            if (n <= 0)
                break;
            at += n;
        }
    if (!block && !(block = malloc(CHUNK)))
        abort();
    while (at < end) {
        ssize_t n = pread(from, block, end - at < CHUNK ? (size_t)(end - at) : CHUNK, at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_sys(e, "read");
        if (n == 0)
            break;
        if (write_at(to, block, (size_t)n, at) < 0)
            return err_sys(e, "write");
        at += n;
    }
    return 0;
}

static int copy_data(int from, int to, const struct node *n, struct err *e)
{
    off_t size = (off_t)n->size;

    if (size == 0)
        return 0;
    if (n->blocks * 512 >= n->size)
        return copy_range(from, to, 0, size, e);

    for (off_t at = 0; at < size;) {
        off_t data = lseek(from, at, SEEK_DATA);
        if (data < 0 && errno == ENXIO)
            break; /* the rest is a hole */
        off_t hole = data < 0 ? -1 : lseek(from, data, SEEK_HOLE);
        if (hole < 0)
            return err_sys(e, "find holes");
        hole = hole < size ? hole : size;
        int r = copy_range(from, to, data, hole, e);
        if (r < 0)
            return r;
        at = hole;
    }
    return ftruncate(to, size) < 0 ? err_sys(e, "set the size") : 0;
}

static int copy_file(const struct copy_opts *o, struct err *e)
{
    struct timespec t[2];
    auto_close int in = node_open_file(o->from, o->name, e);
    if (in < 0)
        return in;
    auto_close int out = openat(o->to, o->as, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (out < 0)
        return err_sys(e, "create");

    int r = copy_data(in, out, o->node, e);
    if (r < 0)
        return r;
    r = node_copy_xattrs(in, out, o->base, 0, e);
    if (r < 0)
        return r;
    if ((o->node->uid || o->node->gid) && fchown(out, o->node->uid, o->node->gid) < 0)
        return err_sys(e, "set the owner");
    if (fchmod(out, o->node->mode) < 0) /* after the owner: chown drops setuid bits */
        return err_sys(e, "set the mode");
    times_of(o->node, t);
    return futimens(out, t) < 0 ? err_sys(e, "set the times") : 0;
}

static int copy_symlink(const struct copy_opts *o, struct err *e)
{
    struct arena a = { 0 };
    struct str target = node_readlink(o->from, o->name, &a, e);

    int r = target.p ? 0 : -EIO;
    if (r >= 0 && symlinkat(target.p, o->to, o->as) < 0)
        r = err_sys(e, "symlink");
    arena_done(&a);
    return r;
}

static int copy_special(const struct copy_opts *o, struct err *e)
{
    mode_t type = 0;

    switch (o->node->type) {
    case NODE_FIFO: type = S_IFIFO; break;
    case NODE_SOCK: type = S_IFSOCK; break;
    case NODE_BLOCK: type = S_IFBLK; break;
    case NODE_CHAR:
    case NODE_WHITEOUT: type = S_IFCHR; break;
    case NODE_LINK: return copy_symlink(o, e);
    case NODE_FILE:
    case NODE_DIR: return err_set(e, ERR_SYSTEM, "not a special file");
    }
    if (mknodat(o->to, o->as, type | o->node->mode, makedev(o->node->major, o->node->minor)) < 0)
        return err_sys(e, "mknod");
    if (o->node->type != NODE_WHITEOUT && fchmodat(o->to, o->as, o->node->mode, 0) < 0)
        return err_sys(e, "set the mode"); /* no link can be there: the directory is new and ours */
    return 0;
}

static int copy_alone(const struct copy_opts *o, struct err *e)
{
    struct timespec t[2];

    if (o->node->type == NODE_FILE)
        return copy_file(o, e);
    int r = copy_special(o, e);
    if (r < 0 || o->node->type == NODE_WHITEOUT)
        return r;
    if (fchownat(o->to, o->as, o->node->uid, o->node->gid, AT_SYMLINK_NOFOLLOW) < 0)
        return err_sys(e, "set the owner");
    times_of(o->node, t);
    return utimensat(o->to, o->as, t, AT_SYMLINK_NOFOLLOW) < 0 ? err_sys(e, "set the times") : 0;
}

int copy_node(const struct copy_opts *o, uint64_t *bytes, struct err *e)
{
    char key[48];
    bool linked = (o->linked || o->node->nlink > 1) && o->node->type != NODE_WHITEOUT;
    int links = linked ? layer_new_links(o->layer, e) : -1;

    if (linked && links < 0)
        return links;
    snprintf(key, sizeof key, "%llx.%llx", (unsigned long long)o->node->dev, (unsigned long long)o->node->ino);
    if (linked && linkat(links, key, o->to, o->as, 0) == 0)
        return 0;
    if (linked && errno != ENOENT)
        return err_sys(e, "link '%s'", o->name);
    int r = copy_alone(o, e);
    if (r < 0)
        return err_wrap(e, r, "copy '%s'", o->name);
    *bytes += o->node->type == NODE_FILE ? o->node->size : 0;
    if (linked && linkat(o->to, o->as, links, key, 0) < 0)
        return err_sys(e, "link '%s'", o->name);
    return 0;
}

int copy_dir_attrs(int from, int to, const struct node *n, uint32_t base, unsigned flags, struct err *e)
{
    struct timespec t[2];

    int r = node_copy_xattrs(from, to, base, flags, e);
    if (r < 0)
        return r;
    if (fchown(to, n->uid, n->gid) < 0 || fchmod(to, n->mode) < 0)
        return err_sys(e, "set owner and mode of a directory");
    times_of(n, t);
    return futimens(to, t) < 0 ? err_sys(e, "set the times of a directory") : 0;
}

/* Extended attributes of recorded files: user.* and the POSIX ACLs are the box's, of trusted.overlay.* only what makes
 * a layer work as a lower directory. The rest of overlay's notes (origin, impure, nlink, uuid) tells about one mount
 * that will be gone. */
#include <endian.h>
#include <errno.h>
#include <sys/xattr.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "image/node.h"

#define OVERLAY_OPAQUE   "trusted.overlay.opaque"
#define OVERLAY_REDIRECT "trusted.overlay.redirect"

enum {
    ACL_HEAD = 4,
    ACL_ENTRY = 8,
    ACL_USER = 0x02,
    ACL_GROUP = 0x08,
    BOX_IDS = 65536,
    NOBODY = 65534,
    NAMES_MAX = 4096
};

static bool is_acl(const char *name)
{
    return strcmp(name, "system.posix_acl_access") == 0 || strcmp(name, "system.posix_acl_default") == 0;
}

static bool is_kept(const char *name)
{
    return strncmp(name, "user.", 5) == 0 || is_acl(name);
}

/* An ACL is a version and entries of (tag, permissions, id), little endian. Through a mapped mount the kernel shows the
 * ids of the host. */
static void shift_acl(char *p, size_t n, uint32_t base)
{
    for (size_t at = ACL_HEAD; base != 0 && at + ACL_ENTRY <= n; at += ACL_ENTRY) {
        uint16_t tag;
        uint32_t id;
        memcpy(&tag, p + at, sizeof tag);
        memcpy(&id, p + at + 4, sizeof id);
        if (le16toh(tag) != ACL_USER && le16toh(tag) != ACL_GROUP)
            continue;
        id = le32toh(id);
        id = htole32(id >= base && id - base < BOX_IDS ? id - base : NOBODY);
        memcpy(p + at + 4, &id, sizeof id);
    }
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Sorted names; *ret_block owns them. */
static int list(int fd, char **ret_block, const char **names, struct err *e)
{
    ssize_t size = flistxattr(fd, NULL, 0);
    if (size <= 0)
        return size < 0 && errno != EOPNOTSUPP ? err_sys(e, "list extended attributes") : 0;
    if (size > LIMIT_XATTRS)
        return err_set(e, ERR_LIMIT, "names of extended attributes exceed LIMIT_XATTRS (%d bytes)", LIMIT_XATTRS);
    auto_free char *block = malloc((size_t)size);
    if (!block)
        abort();
    size = flistxattr(fd, block, (size_t)size);
    if (size < 0)
        return err_sys(e, "list extended attributes");
    int n = 0;
    for (ssize_t at = 0; at < size; at += (ssize_t)strlen(block + at) + 1) {
        if (n == NAMES_MAX)
            return err_set(e, ERR_LIMIT, "a file has more than %d extended attributes", NAMES_MAX);
        names[n++] = block + at;
    }
    qsort(names, (size_t)n, sizeof *names, by_bytes);
    *ret_block = TAKE_PTR(block);
    return n;
}

static ssize_t get(int fd, const char *name, uint32_t base, char *value, struct err *e)
{
    ssize_t n = fgetxattr(fd, name, value, LIMIT_XATTRS);
    if (n < 0)
        return err_sys(e, "read extended attribute '%.80s'", name);
    if (is_acl(name))
        shift_acl(value, (size_t)n, base);
    return n;
}

static int mark(struct node_marks *m, const char *name, const char *value, size_t n, struct arena *a)
{
    if (strcmp(name, OVERLAY_OPAQUE) == 0 && n == 1 && value[0] == 'y')
        m->flags |= NODE_OPAQUE;
    if (strcmp(name, OVERLAY_REDIRECT) == 0 && n > 0) {
        m->flags |= NODE_REDIRECT;
        m->redirect = arena_copy(a, (struct str){ value, n });
    }
    return 0;
}

int node_marks(int fd, uint32_t base, struct arena *a, struct node_marks *ret, struct err *e)
{
    const char *names[NAMES_MAX];
    auto_free char *block = NULL;
    struct node_marks m = { 0 };
    struct buf text;

    int n = list(fd, &block, names, e);
    if (n <= 0) {
        if (n == 0)
            *ret = m;
        return n;
    }
    auto_free char *value = malloc(LIMIT_XATTRS);
    if (!value)
        abort();
    buf_init(&text, (size_t)NAMES_MAX * 2 * LIMIT_XATTRS);
    int r = 0;
    for (int i = 0; i < n && r >= 0; i++) {
        bool overlay = strcmp(names[i], OVERLAY_OPAQUE) == 0 || strcmp(names[i], OVERLAY_REDIRECT) == 0;
        if (!overlay && !is_kept(names[i]))
            continue;
        ssize_t size = get(fd, names[i], base, value, e);
        if (size < 0) {
            r = (int)size;
        } else if (overlay) {
            r = mark(&m, names[i], value, (size_t)size, a);
        } else {
            m.has_xattrs = true;
            buf_printf(&text, "%zu:%s%zd:", strlen(names[i]), names[i], size);
            buf_add(&text, value, (size_t)size);
        }
    }
    if (text.full && r >= 0)
        r = err_set(e, ERR_LIMIT, "extended attributes of one file are too large");
    if (r >= 0) {
        if (m.has_xattrs)
            m.xattrs = sha_of(buf_view(&text));
        *ret = m;
    }
    buf_done(&text);
    return r;
}

int node_copy_xattrs(int from, int to, uint32_t base, unsigned flags, struct err *e)
{
    const char *names[NAMES_MAX];
    auto_free char *block = NULL;

    int n = list(from, &block, names, e);
    if (n <= 0)
        return n;
    auto_free char *value = malloc(LIMIT_XATTRS);
    if (!value)
        abort();
    for (int i = 0; i < n; i++) {
        bool wanted = is_kept(names[i]) || ((flags & NODE_OPAQUE) && strcmp(names[i], OVERLAY_OPAQUE) == 0) ||
                      ((flags & NODE_REDIRECT) && strcmp(names[i], OVERLAY_REDIRECT) == 0);
        if (!wanted)
            continue;
        ssize_t size = get(from, names[i], base, value, e);
        if (size < 0)
            return (int)size;
        if (fsetxattr(to, names[i], value, (size_t)size, 0) < 0)
            return err_sys(e, "write extended attribute '%.80s'", names[i]);
    }
    return 0;
}

int node_set_opaque(int dir, struct err *e)
{
    return fsetxattr(dir, OVERLAY_OPAQUE, "y", 1, 0) < 0 ? err_sys(e, "mark a directory opaque") : 0;
}

int node_set_redirect(int dir, const char *path, struct err *e)
{
    return fsetxattr(dir, OVERLAY_REDIRECT, path, strlen(path), 0) < 0 ? err_sys(e, "redirect a directory") : 0;
}

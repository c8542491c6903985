#include "isolate/mountfd.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <linux/securebits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/auto.h"
#include "base/err.h"

enum { PATH_CAP = 4096 };

static int config(int fs, unsigned cmd, const char *key, const void *value, int aux)
{
    return (int)syscall(SYS_fsconfig, fs, cmd, key, value, aux);
}

static int set_option(int fs, const char *opt)
{
    char key[64];
    const char *eq = strchr(opt, '=');

    if (!eq)
        return config(fs, FSCONFIG_SET_FLAG, opt, NULL, 0);
    snprintf(key, sizeof key, "%.*s", (int)(eq - opt), opt);
    return config(fs, FSCONFIG_SET_STRING, key, eq + 1, 0);
}

static int finish(int fs, const char *name, unsigned attrs, struct err *e)
{
    if (config(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        return err_sys(e, "create %s", name);
    int fd = (int)syscall(SYS_fsmount, fs, FSMOUNT_CLOEXEC, attrs);
    return fd < 0 ? err_sys(e, "fsmount %s", name) : fd;
}

int mountfd_new(const char *fs, const char *const *opts, unsigned attrs, struct err *e)
{
    auto_close int ctx = (int)syscall(SYS_fsopen, fs, FSOPEN_CLOEXEC);
    if (ctx < 0)
        return err_sys(e, "fsopen %s", fs);

    for (; opts && *opts; opts++)
        if (set_option(ctx, *opts) < 0)
            return err_sys(e, "%s option %s", fs, *opts);
    return finish(ctx, fs, attrs, e);
}

/* Kernels before 6.13 take layers only by name; /proc/self/fd/N is a name that no image can redirect. */
static int set_layer(int fs, const char *key, int fd, struct err *e)
{
    char path[32];

    if (config(fs, FSCONFIG_SET_FD, key, NULL, fd) == 0)
        return 0;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (config(fs, FSCONFIG_SET_STRING, key, path, 0) < 0)
        return err_sys(e, "overlay %s", key);
    return 0;
}

/* Found on 6.18 with idmapped ext4 lowers and an idmapped tmpfs upper:
 *   index=on, redirect_dir=on, metacopy=off, xino=auto and volatile all combine. index keeps hard links whole over
 *   copy-up; redirect_dir lets rename(2) move a directory of the image (EXDEV otherwise, and `mv` copies).
 *   volatile skips every sync of the upper, which dies with the box anyway.
 *   xino=auto needs free high bits in the lower's inode numbers: ext4 has them; 64-bit tmpfs inodes make overlay
 *   fall back by itself.
 * A kernel that refuses one of the optional ones gets a mount without it; none of them is a promise. */
int mountfd_overlay(const struct overlay_opts *o, struct err *e)
{
    static const char *const wanted[] = { "volatile", "index=on", "redirect_dir=on", "metacopy=off", "xino=auto" };
    int r;

    auto_close int ctx = (int)syscall(SYS_fsopen, "overlay", FSOPEN_CLOEXEC);
    if (ctx < 0)
        return err_sys(e, "fsopen overlay");
    (void)config(ctx, FSCONFIG_SET_STRING, "source", "box", 0);

    for (int i = 0; i < o->lower_count; i++) {
        r = set_layer(ctx, "lowerdir+", o->lower[i], e);
        if (r < 0)
            return r;
    }
    r = set_layer(ctx, "upperdir", o->upper, e);
    if (r < 0)
        return r;
    r = set_layer(ctx, "workdir", o->work, e);
    if (r < 0)
        return r;
    for (size_t i = 0; i < ARRAY_LEN(wanted); i++)
        (void)set_option(ctx, wanted[i]);
    return finish(ctx, "overlay", o->attrs, e);
}

int mountfd_set(int mount, unsigned attrs, int userns, struct err *e)
{
    struct mount_attr a = { .attr_set = attrs };

    if (userns >= 0) {
        a.attr_set |= MOUNT_ATTR_IDMAP;
        a.userns_fd = (uint64_t)userns;
    }
    if (a.attr_set == 0)
        return 0;
    if (syscall(SYS_mount_setattr, mount, "", AT_EMPTY_PATH, &a, sizeof a) < 0)
        return err_sys(e, userns >= 0 ? "map owners of a mount" : "set mount flags");
    return 0;
}

int mountfd_clone(int dirfd, const char *path, unsigned attrs, int userns, struct err *e)
{
    unsigned flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW | (path[0] ? 0 : AT_EMPTY_PATH);
    auto_close int fd = (int)syscall(SYS_open_tree, dirfd, path, flags);
    if (fd < 0)
        return err_sys(e, "open_tree '%s'", path);

    int r = mountfd_set(fd, attrs, userns, e);
    if (r < 0)
        return r;
    return TAKE_FD(fd);
}

int mountfd_attach(int mount, int target, struct err *e)
{
    if (syscall(SYS_move_mount, mount, "", target, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0)
        return err_sys(e, "move_mount");
    return 0;
}

int mountfd_attach_at(int mount, int dir, const char *name, struct err *e)
{
    if (syscall(SYS_move_mount, mount, "", dir, name, MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return err_sys(e, "move_mount to '%s'", name);
    return 0;
}

/* An overlay keeps the credentials of whoever makes it for all its later work on the upper. Through the mapped
 * upper only ids of the box exist, so these must be the box's root (EOVERFLOW otherwise). The securebit keeps the
 * capabilities that a non-zero fsuid would drop; entering the user namespace resets it. */
int mountfd_become(uid_t base, struct err *e)
{
    if (prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP, 0, 0, 0) < 0)
        return err_sys(e, "set securebits");
    setfsuid(base);
    setfsgid(base);
    if ((uid_t)setfsuid((uid_t)-1) != base || (gid_t)setfsgid((gid_t)-1) != base) {
        errno = EPERM;
        return err_sys(e, "setfsuid");
    }
    return 0;
}

static int open_beneath(int root, const char *path, int flags)
{
    struct open_how how = {
        .flags = (uint64_t)(flags | O_PATH | O_CLOEXEC),
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
    };
    return (int)syscall(SYS_openat2, root, path, &how, sizeof how);
}

int mountfd_target(int root, const char *path, struct err *e)
{
    int fd = open_beneath(root, path, 0);
    return fd < 0 ? err_sys(e, "open '%s' in the box", path) : fd;
}

int mountfd_mkdirs(int root, const char *path, uid_t uid, gid_t gid, struct err *e)
{
    char part[256];
    auto_close int at = open_beneath(root, ".", O_DIRECTORY);
    if (at < 0)
        return err_sys(e, "open the box's root");

    for (const char *p = path; *p;) {
        size_t n = strcspn(p, "/");
        if (n >= sizeof part)
            return err_set(e, ERR_INVALID, "path '%s': a component is longer than 255 bytes", path);
        memcpy(part, p, n);
        part[n] = 0;
        p += n + strspn(p + n, "/");
        if (n == 0)
            continue;
        if (strcmp(part, "..") == 0)
            return err_set(e, ERR_INVALID, "path '%s' contains '..'", path);

        if (mkdirat(at, part, 0755) == 0) {
            if (fchownat(at, part, uid, gid, AT_SYMLINK_NOFOLLOW) < 0)
                return err_sys(e, "chown '%s' in the box", path);
        } else if (errno != EEXIST) {
            return err_sys(e, "mkdir '%s' in the box", path);
        }
        int next = open_beneath(at, part, O_DIRECTORY);
        if (next < 0)
            return err_sys(e, "open '%s' in the box", path); /* ELOOP, ENOTDIR: the image put a link or a file there */
        close(at);
        at = next;
    }
    return TAKE_FD(at);
}

/* The rest of path below root ("." if equal), or NULL. */
static const char *below(const char *root, size_t n, const char *path)
{
    while (n > 1 && root[n - 1] == '/')
        n--;
    if (n == 1 && root[0] == '/')
        return path[1] ? path + 1 : ".";
    if (strncmp(path, root, n) != 0 || (path[n] != '/' && path[n] != 0))
        return NULL;
    path += n;
    path += strspn(path, "/");
    return *path ? path : ".";
}

int mountfd_allowed(const char *setting, const char *roots, const char *path, struct err *e)
{
    char dir[PATH_CAP];

    if (path[0] != '/')
        return err_set(e, ERR_INVALID, "'%s' is not an absolute path", path);
    for (const char *r = roots ? roots : ""; *r;) {
        size_t n = strcspn(r, ":");
        const char *rest = n > 0 && n < sizeof dir ? below(r, n, path) : NULL;
        if (rest) {
            snprintf(dir, sizeof dir, "%.*s", (int)n, r);
            auto_close int root = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
            int fd = root < 0 ? -1 : open_beneath(root, rest, O_DIRECTORY);
            if (fd < 0) { /* the path is a client's: what is wrong with it is no failure of ours */
                int bad = err_sys(e, "open '%s' (symlinks are not followed)", path);
                if (e && (bad == -ENOENT || bad == -ENOTDIR))
                    e->code = ERR_INVALID;
                else if (e && (bad == -EXDEV || bad == -ELOOP))
                    e->code = ERR_DENIED;
                return bad;
            }
            return fd;
        }
        r += n + (r[n] == ':');
    }
    err_set(e, ERR_DENIED, "'%s' is not below a directory that the setting %s allows", path, setting);
    return -EACCES;
}

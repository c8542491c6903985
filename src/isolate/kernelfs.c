#include "isolate/kernelfs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/limits.h"
#include "isolate/mountfd.h"
#include "isolate/step.h"
#include "wire/boot.h"

enum { TTY_GID = 5 };

/* Attaches a detached mount to a directory directly below root, which the image may lack but must not redirect. */
static int attach_dir(int root, const char *name, int mount, const struct kernelfs_opts *o, struct err *e)
{
    if (o->pristine && mountfd_attach_at(mount, root, name, NULL) >= 0)
        return 0;
    auto_close int target = mountfd_mkdirs(root, name, o->base, o->base, e);
    if (target < 0)
        return target;
    int r = mountfd_attach(mount, target, e);
    return r < 0 ? err_wrap(e, r, "mount /%s", name) : 0;
}

/* Nodes are made, not bound from the host: a lock or a watch on a shared inode would be a channel between boxes.
 * Root of a box cannot make nodes: mknod asks for the right in the initial user namespace. */
int kernelfs_fill_dev(int dir, struct err *e)
{
    static const struct {
        const char *name;
        unsigned major, minor;
    } nodes[] = { { "null", 1, 3 },   { "zero", 1, 5 },    { "full", 1, 7 },
                  { "random", 1, 8 }, { "urandom", 1, 9 }, { "tty", 5, 0 } };
    static const char *const links[][2] = { { "pts/ptmx", "ptmx" },
                                            { "/proc/self/fd", "fd" },
                                            { "/proc/self/fd/0", "stdin" },
                                            { "/proc/self/fd/1", "stdout" },
                                            { "/proc/self/fd/2", "stderr" } };

    for (size_t i = 0; i < ARRAY_LEN(nodes); i++)
        if (mknodat(dir, nodes[i].name, S_IFCHR | 0666, makedev(nodes[i].major, nodes[i].minor)) < 0)
            return err_sys(e, "make /dev/%s", nodes[i].name);
    for (size_t i = 0; i < ARRAY_LEN(links); i++)
        if (symlinkat(links[i][0], dir, links[i][1]) < 0)
            return err_sys(e, "make /dev/%s", links[i][1]);
    if (mkdirat(dir, "pts", 0755) < 0 || mkdirat(dir, "shm", 01777) < 0)
        return err_sys(e, "make directories in /dev");
    return 0;
}

static int attach_pts(int dev, const struct kernelfs_opts *o, struct err *e)
{
    char gid[32], max[32];
    const char *const opts[] = { "newinstance", "ptmxmode=0666", "mode=0620", gid, max, NULL };

    snprintf(max, sizeof max, "max=%d", LIMIT_PTYS_PER_BOX);
    snprintf(gid, sizeof gid, "gid=%u", o->base + TTY_GID);
    auto_close int pts = mountfd_new("devpts", opts, MOUNT_NOSUID | MOUNT_NOEXEC, e);
    if (pts < 0)
        return pts;
    return mountfd_attach_at(pts, dev, "pts", e);
}

static int attach_shm(int dev, const struct kernelfs_opts *o, struct err *e)
{
    char size[48], uid[32], gid[32];
    const char *const opts[] = { size, uid, gid, "mode=1777", "source=shm", NULL };

    snprintf(size, sizeof size, "size=%lld", (long long)o->shm_bytes);
    snprintf(uid, sizeof uid, "uid=%u", o->base);
    snprintf(gid, sizeof gid, "gid=%u", o->base);
    auto_close int shm = mountfd_new("tmpfs", opts, MOUNT_NOSUID | MOUNT_NODEV, e);
    if (shm < 0)
        return shm;
    return mountfd_attach_at(shm, dev, "shm", e);
}

int kernelfs_attach_dev(const struct kernelfs_opts *o, struct err *e)
{
    auto_close int dev = mountfd_clone(o->scratch, "dev", MOUNT_NOSUID | MOUNT_NOEXEC, -1, e);
    if (dev < 0)
        return dev;
    int r = attach_dir(o->root, "dev", dev, o, e);
    if (r < 0)
        return r;
    r = attach_pts(dev, o, e);
    if (r < 0)
        return err_wrap(e, r, "mount /dev/pts");
    r = attach_shm(dev, o, e);
    if (r < 0)
        return err_wrap(e, r, "mount /dev/shm");
    return 0;
}

/* Hides one place of /proc behind a mount of ours; the cover comes from our own tmpfs, never from a path that an
 * image could have replaced (CVE-2025-31133). */
static int cover(int proc, const char *name, int scratch, struct err *e)
{
    struct stat st;

    if (fstatat(proc, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return 0; /* this kernel has no such file */
    bool dir = S_ISDIR(st.st_mode);
    auto_close int mount = mountfd_clone(scratch, dir ? "empty" : "dev/null",
                                         MOUNT_RO | MOUNT_NOSUID | MOUNT_NOEXEC | (dir ? MOUNT_NODEV : 0), -1, e);
    if (mount < 0)
        return mount;
    int r = mountfd_attach_at(mount, proc, name, e);
    return r < 0 ? err_wrap(e, r, "cover /proc/%s", name) : 0;
}

static int make_readonly(int proc, const char *name, struct err *e)
{
    auto_close int mount = mountfd_clone(proc, name, MOUNT_RO | MOUNT_NOSUID | MOUNT_NODEV | MOUNT_NOEXEC, -1, e);
    if (mount < 0)
        return mount == -ENOENT ? 0 : mount;
    int r = mountfd_attach_at(mount, proc, name, e);
    return r < 0 ? err_wrap(e, r, "protect /proc/%s", name) : 0;
}

int kernelfs_make_proc(struct err *e)
{
    int r = step_reach(STEP_PROC, e);
    if (r < 0)
        return r;
    r = mountfd_new("proc", NULL, MOUNT_NOSUID | MOUNT_NODEV | MOUNT_NOEXEC, e);
    return r < 0 ? err_wrap(e, r, "mount /proc") : r;
}

/* Most of these are closed to a box by ownership already: they belong to host root, whom the box's user namespace
 * does not know. The covers are the second fence. kallsyms tells kernel addresses where kptr_restrict is 0. */
int kernelfs_attach_proc(const struct kernelfs_opts *o, struct err *e)
{
    static const char *const covered[] = { "kcore",         "keys",     "timer_list", "sched_debug",
                                           "sysrq-trigger", "kallsyms", "scsi",       "acpi" };
    static const char *const readonly[] = { "sys", "bus", "fs", "irq" };

    int r = attach_dir(o->root, "proc", o->proc, o, e);
    if (r < 0)
        return r;
    for (size_t i = 0; i < ARRAY_LEN(covered); i++) {
        r = cover(o->proc, covered[i], o->scratch, e);
        if (r < 0)
            return r;
    }
    for (size_t i = 0; i < ARRAY_LEN(readonly); i++) {
        r = make_readonly(o->proc, readonly[i], e);
        if (r < 0)
            return r;
    }
    auto_close int sys =
        mountfd_clone(o->scratch, "empty", MOUNT_RO | MOUNT_NOSUID | MOUNT_NODEV | MOUNT_NOEXEC, -1, e);
    if (sys < 0)
        return sys;
    return attach_dir(o->root, "sys", sys, o, e);
}

/* Files of /etc that differ from box to box are mounted, not written: the box's own changes stay comparable with those
 * of other boxes. An image that has no such file, or a link in its place, keeps what it has. */
static int attach_name(const struct kernelfs_opts *o, int run, const char *name, const char *text, struct err *e)
{
    char inner[64], outer[32];
    size_t n = strlen(text);

    snprintf(outer, sizeof outer, "etc/%s", name);
    auto_close int target = mountfd_target(o->root, outer, NULL);
    if (target < 0)
        return 0;
    snprintf(inner, sizeof inner, "%s/%s", BOX_RUN_DIR + sizeof "/run", name);
    auto_close int fd = openat(run, inner, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0 || write(fd, text, n) != (ssize_t)n || fchown(fd, o->base, o->base) < 0)
        return err_sys(e, "write /etc/%s", name);
    auto_close int mount = mountfd_clone(run, inner, MOUNT_NOSUID | MOUNT_NODEV, -1, e);
    if (mount < 0)
        return mount;
    int r = mountfd_attach(mount, target, e);
    return r < 0 ? err_wrap(e, r, "mount /etc/%s", name) : 0;
}

static int attach_names(const struct kernelfs_opts *o, int run, struct err *e)
{
    char text[256];

    snprintf(text, sizeof text, "127.0.0.1\tlocalhost\n127.0.1.1\t%s\n::1\tlocalhost ip6-localhost ip6-loopback\n",
             o->id);
    int r = attach_name(o, run, "hosts", text, e);
    if (r < 0 || !o->dns)
        return r;
    snprintf(text, sizeof text, "nameserver %s\noptions timeout:3\n", o->dns);
    return attach_name(o, run, "resolv.conf", text, e);
}

int kernelfs_attach_run(const struct kernelfs_opts *o, struct err *e)
{
    char uid[32], gid[32];
    const char *const opts[] = { "size=64m", "nr_inodes=4096", "mode=0755", uid, gid, "source=run", NULL };
    const char *inner = BOX_RUN_DIR + sizeof "/run"; /* "sandglass" */

    snprintf(uid, sizeof uid, "uid=%u", o->base);
    snprintf(gid, sizeof gid, "gid=%u", o->base);
    auto_close int run = mountfd_new("tmpfs", opts, MOUNT_NOSUID | MOUNT_NODEV, e);
    if (run < 0)
        return err_wrap(e, run, "mount /run");
    if (mkdirat(run, inner, 0755) < 0 || fchownat(run, inner, o->base, o->base, AT_SYMLINK_NOFOLLOW) < 0 ||
        mkdirat(run, "lock", 01777) < 0)
        return err_sys(e, "make %s", BOX_RUN_DIR);
    if (fchmodat(run, "lock", 01777, 0) < 0)
        return err_sys(e, "make /run/lock");
    int r = attach_dir(o->root, "run", run, o, e);
    return r < 0 ? r : attach_names(o, run, e);
}

#include "isolate/root.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/limits.h"
#include "isolate/binds.h"
#include "isolate/kernelfs.h"
#include "isolate/mountfd.h"
#include "isolate/nowhere.h"
#include "isolate/step.h"
#include "wire/boot.h"
#include "wire/seat.h"

enum { BYTES_PER_INODE = 4096, INODES_MIN = 16384, INODES_MAX = 4 * 1024 * 1024 };

/* --- the scratch tmpfs: everything that the box writes --- */

static const char *const tree_names[ROOT_TREES] = { "root", "usr", "tmp" };

static void layer_path(const struct root_opts *o, uint32_t i, enum root_tree t, char *out, size_t size)
{
    snprintf(out, size, "%s/%s/%s", o->layers, o->spec->layers[i], tree_names[t]);
}

/* An overlay shows the top directory of its upper: it must be as the state has it. */
static int copy_top(const struct root_opts *o, int scratch, enum root_tree t, struct err *e)
{
    char path[512];
    struct stat st;

    for (uint32_t i = o->spec->layer_count; i-- > 0;) {
        layer_path(o, i, t, path, sizeof path);
        if (lstat(path, &st) < 0)
            continue;
        if (fchownat(scratch, tree_names[t], st.st_uid, st.st_gid, AT_SYMLINK_NOFOLLOW) < 0 ||
            fchmodat(scratch, tree_names[t], st.st_mode & 07777, 0) < 0)
            return err_sys(e, "owner of the top directory");
        return 0;
    }
    return 0;
}

static int fill_scratch(const struct root_opts *o, int scratch, struct err *e)
{
    static const struct {
        const char *name;
        mode_t mode;
    } dirs[] = { { "root", 0755 },     { "root.work", 0700 }, { "usr", 0755 },   { "usr.work", 0700 }, { "tmp", 01777 },
                 { "tmp.work", 0700 }, { "dev", 0755 },       { "empty", 0555 }, { "lower", 0700 } };

    for (size_t i = 0; i < ARRAY_LEN(dirs); i++)
        if (mkdirat(scratch, dirs[i].name, dirs[i].mode) < 0)
            return err_sys(e, "mkdir %s", dirs[i].name);
    for (int t = 0; t < ROOT_TREES; t++) {
        int r = copy_top(o, scratch, (enum root_tree)t, e);
        if (r < 0)
            return r;
    }
    auto_close int dev = openat(scratch, "dev", O_PATH | O_DIRECTORY | O_CLOEXEC);
    return kernelfs_fill_dev(dev, e);
}

/* Directories are made before the mapping is set: through the mapped mount, host root is nobody and may create
 * nothing (EOVERFLOW). */
static int make_scratch(const struct root_opts *o, struct err *e)
{
    char size[48], inodes[48];
    const char *const opts[] = { size, inodes, "mode=0755", "source=box", NULL };
    int64_t n = o->spec->disk_bytes / BYTES_PER_INODE;

    n = n < INODES_MIN ? INODES_MIN : n > INODES_MAX ? INODES_MAX : n;
    snprintf(size, sizeof size, "size=%lld", (long long)o->spec->disk_bytes);
    snprintf(inodes, sizeof inodes, "nr_inodes=%lld", (long long)n);
    int r = step_reach(STEP_SCRATCH, e);
    if (r < 0)
        return r;
    auto_close int fd = mountfd_new("tmpfs", opts, 0, e);
    if (fd < 0)
        return fd;
    r = fill_scratch(o, fd, e);
    if (r < 0)
        return r;
    r = mountfd_set(fd, 0, o->userns, e);
    if (r < 0)
        return r;
    return TAKE_FD(fd);
}

/* --- overlays --- */

static int overlay(int scratch, const char *name, const int *lower, int count, struct err *e)
{
    char work[16];
    snprintf(work, sizeof work, "%s.work", name);
    auto_close int upper = openat(scratch, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
    auto_close int workdir = openat(scratch, work, O_PATH | O_DIRECTORY | O_CLOEXEC);
    const struct overlay_opts o = {
        .lower = lower,
        .lower_count = count,
        .upper = upper,
        .work = workdir,
        .attrs = MOUNT_NOSUID | MOUNT_NODEV,
    };
    return mountfd_overlay(&o, e);
}

/* What the root is put together from. Nobody closes these: on success the process becomes init, on failure it ends. */
struct parts {
    int scratch, root, usr, tmp, proc;
    int binds[LIMIT_MOUNTS];
    int lower[ROOT_TREES * LIMIT_LAYERS + 1 + ROOT_LOWERS + 1];
    int lower_count;
};

/* The layers of one tree, newest first, appended to the parts' lowers. Returns how many. */
static int open_layers(const struct root_opts *o, struct parts *p, enum root_tree t, struct err *e)
{
    int n = 0;

    for (uint32_t i = o->spec->layer_count; i-- > 0;) {
        char path[512];
        layer_path(o, i, t, path, sizeof path);
        if (access(path, F_OK) < 0 && errno == ENOENT) { /* nothing changed there; but the layer itself must be */
            snprintf(path, sizeof path, "%s/%s", o->layers, o->spec->layers[i]);
            if (access(path, F_OK) == 0)
                continue;
        }
        int r = mountfd_clone(AT_FDCWD, path, MOUNT_RO, o->userns, e);
        if (r < 0)
            return err_wrap(e, r, "layer %s", o->spec->layers[i]);
        p->lower[p->lower_count++] = r;
        n++;
    }
    return n;
}

static int open_lower(const struct root_opts *o, struct err *e)
{
    if (o->root_checked)
        return mountfd_clone(AT_FDCWD, o->root, MOUNT_RO, o->userns, e);
    auto_close int dir = mountfd_allowed("image.roots", o->image_roots, o->root, e);
    if (dir < 0)
        return dir;
    return mountfd_clone(dir, "", MOUNT_RO, o->userns, e);
}

static int make_root(const struct root_opts *o, struct parts *p, struct err *e)
{
    int r = step_reach(STEP_LOWER, e);
    if (r < 0)
        return r;
    int first = p->lower_count;
    r = open_layers(o, p, ROOT_TREE, e);
    if (r < 0)
        return r;
    int lower = open_lower(o, e);
    if (lower < 0)
        return err_wrap(e, lower, "image '%s'", o->spec->image);
    p->lower[p->lower_count++] = lower;
    r = step_reach(STEP_OVERLAY, e);
    if (r < 0)
        return r;
    r = p->root = overlay(p->scratch, "root", p->lower + first, p->lower_count - first, e);
    return r < 0 ? err_wrap(e, r, "mount overlay on /") : 0;
}

static int make_usr(const struct root_opts *o, struct parts *p, struct err *e)
{
    int first = p->lower_count;

    int r = step_reach(STEP_OVERLAY_USR, e);
    if (r < 0 || !o->usr[0])
        return r;
    r = open_layers(o, p, USR_TREE, e);
    for (int n = 0; r >= 0 && n < ROOT_LOWERS && o->usr[n]; n++) {
        r = mountfd_clone(AT_FDCWD, o->usr[n], MOUNT_RO, o->userns, e);
        if (r >= 0)
            p->lower[p->lower_count++] = r;
    }
    if (r < 0)
        return err_wrap(e, r, "mount overlay on /usr");
    r = p->usr = overlay(p->scratch, "usr", p->lower + first, p->lower_count - first, e);
    return r < 0 ? err_wrap(e, r, "mount overlay on /usr") : 0;
}

/* /tmp of a state that has something there: an overlay, too, over nothing. */
static int make_tmp(const struct root_opts *o, struct parts *p, struct err *e)
{
    int first = p->lower_count;

    if (!o->spec->layer_count)
        return 0;
    int r = open_layers(o, p, TMP_TREE, e);
    if (r <= 0) /* none of them has anything there: a plain directory, as in a new box */
        return r;
    r = p->tmp = overlay(p->scratch, "tmp", p->lower + first, p->lower_count - first, e);
    return r < 0 ? err_wrap(e, r, "mount overlay on /tmp") : 0;
}

/* --- leaving the host --- */

/* The overlays have their own copies of the lowers. Ours could be closed, but to dissolve a mount nobody can see takes
 * a grace period of the kernel each (up to milliseconds on a busy machine). Attached below the box's root, one upon the
 * other, they go with its namespace. */
static int park_lowers(const struct parts *p, struct err *e)
{
    for (int i = 0; i < p->lower_count; i++) {
        int r = mountfd_attach_at(p->lower[i], p->scratch, "lower", e);
        if (r < 0)
            return r;
    }
    return 0;
}

/* The scratch tmpfs becomes the root of the new namespace, so that its directories can be cloned and mounted upon, which
 * kernels before 6.15 refuse for detached mounts; the box's root comes to lie upon it. What is below a root cannot be
 * seen or reached from it, not even by who breaks out of a chroot: ".." of the topmost root is itself. Only now, when the
 * overlays are made: they tell the names of their layers to the box, and a detached mount has none. */
static int join(const struct root_opts *o, const struct parts *p, struct err *e)
{
    int r = step_reach(STEP_LEAVE, e);
    if (r < 0)
        return r;
    r = nowhere_enter(o->nowhere, e);
    if (r < 0)
        return r;
    r = mountfd_attach_at(p->scratch, AT_FDCWD, "/", e);
    if (r < 0)
        return r;
    r = park_lowers(p, e);
    if (r < 0)
        return r;
    r = mountfd_attach(p->root, p->scratch, e);
    if (r < 0)
        return err_wrap(e, r, "mount /");
    if (fchdir(p->root) < 0 || chroot(".") < 0)
        return err_sys(e, "enter the box's root");
    if (p->usr < 0)
        return 0;
    auto_close int target = mountfd_target(p->root, "usr", e);
    if (target < 0)
        return target;
    r = mountfd_attach(p->usr, target, e);
    return r < 0 ? err_wrap(e, r, "mount /usr") : 0;
}

/* No box has written to any of its layers yet: names are what the host image's skeleton says. */
static bool pristine(const struct root_opts *o)
{
    return o->root_checked && o->spec->layer_count == 0;
}

static int attach_tmp(const struct root_opts *o, const struct parts *p, struct err *e)
{
    auto_close int tmp =
        p->tmp >= 0 ? dup(p->tmp) : mountfd_clone(p->scratch, "tmp", MOUNT_NOSUID | MOUNT_NODEV, -1, e);
    if (tmp < 0)
        return tmp;
    if (pristine(o) && mountfd_attach_at(tmp, p->root, "tmp", NULL) >= 0)
        return 0;
    auto_close int target = mountfd_mkdirs(p->root, "tmp", o->base, o->base, e);
    if (target < 0)
        return target;
    int r = mountfd_attach(tmp, target, e);
    return r < 0 ? err_wrap(e, r, "mount /tmp") : 0;
}

/* Images that are not ours may lack the box's user's home. */
static int make_home(const struct root_opts *o, int root, struct err *e)
{
    struct stat st;

    if (o->root_checked)
        return 0;
    auto_close int home = mountfd_mkdirs(root, "home", o->base, o->base, e);
    if (home < 0)
        return home;
    if (fstatat(home, "gem", &st, AT_SYMLINK_NOFOLLOW) == 0)
        return 0;
    auto_close int gem = mountfd_mkdirs(home, "gem", o->base + BOX_UID, o->base + BOX_GID, e);
    return gem < 0 ? gem : 0;
}

static int attach_kernel(const struct root_opts *o, const struct parts *p, struct err *e)
{
    const struct kernelfs_opts k = { .root = p->root,
                                     .scratch = p->scratch,
                                     .proc = p->proc,
                                     .base = o->base,
                                     .shm_bytes = o->spec->shm_bytes,
                                     .id = o->id,
                                     .dns = o->dns,
                                     .pristine = pristine(o) };

    int r = step_reach(STEP_DEV, e);
    if (r < 0)
        return r;
    r = kernelfs_attach_dev(&k, e);
    if (r < 0)
        return r;
    r = kernelfs_attach_proc(&k, e);
    if (r < 0)
        return r;
    return kernelfs_attach_run(&k, e);
}

/* All that needs the host's names. */
static int make_parts(const struct root_opts *o, struct parts *p, struct err *e)
{
    int r = p->scratch = make_scratch(o, e);
    if (r < 0)
        return err_wrap(e, r, "make the writable layer");
    r = p->proc = kernelfs_make_proc(e);
    if (r < 0)
        return r;
    r = mountfd_become(o->base, e);
    if (r < 0)
        return r;
    r = make_root(o, p, e);
    if (r < 0)
        return r;
    r = make_usr(o, p, e);
    if (r < 0)
        return r;
    r = make_tmp(o, p, e);
    return r < 0 ? r : binds_open(o, p->proc, p->binds, e);
}

static int attach_parts(const struct root_opts *o, const struct parts *p, struct err *e)
{
    int r = join(o, p, e);
    if (r < 0)
        return r;
    r = attach_kernel(o, p, e);
    if (r < 0)
        return r;
    r = attach_tmp(o, p, e);
    if (r < 0)
        return r;
    r = make_home(o, p->root, e);
    return r < 0 ? r : binds_attach(o, p->root, p->binds, e);
}

int root_build(const struct root_opts *o, int *ret_scratch, struct err *e)
{
    static struct parts p; /* of one process, once */

    p = (struct parts){ .scratch = -1, .root = -1, .usr = -1, .tmp = -1, .proc = -1 };
    umask(0);
    int r = make_parts(o, &p, e);
    if (r < 0)
        return r;
    *ret_scratch = openat(p.scratch, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*ret_scratch < 0)
        return err_sys(e, "open the writable layer");
    r = attach_parts(o, &p, e);
    umask(022); /* what init goes on with */
    return r;
}

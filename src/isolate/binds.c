#include "isolate/binds.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/err.h"
#include "isolate/idmap.h"
#include "isolate/mountfd.h"
#include "isolate/root.h"
#include "isolate/step.h"
#include "wire/boot.h"
#include "wire/seat.h"

/* Who owns what: a read-only directory is seen as a layer is (host root is the box's root). In a writable one the
 * box's user stands for the owner of the host directory and nobody else exists: what the agent writes belongs to
 * whoever offered the directory, and root of the box cannot leave root's files (EOVERFLOW), which it could make setuid.
 * File systems that cannot be mapped (NFS, some FUSE) are bound plainly: host ids then show as nobody, and a
 * writable one is only as writable as its mode lets strangers be. */
static int owner_map(const struct root_opts *o, int proc, int dir, struct err *e)
{
    struct stat st;

    if (fstat(dir, &st) < 0)
        return err_sys(e, "stat");
    const struct idmap_owner owner = {
        .disk_uid = st.st_uid, .uid = o->base + BOX_UID, .disk_gid = st.st_gid, .gid = o->base + BOX_GID
    };
    return idmap_userns_owner(proc, &owner, e);
}

static int open_bind(const struct root_opts *o, int proc, const struct box_mount *m, struct err *e)
{
    unsigned attrs = MOUNT_NOSUID | MOUNT_NODEV | (m->writable ? 0 : MOUNT_RO);
    auto_close int dir = mountfd_allowed("mount.roots", o->mount_roots, m->from, e);
    if (dir < 0)
        return dir;
    auto_close int map = m->writable ? owner_map(o, proc, dir, e) : fcntl(o->userns, F_DUPFD_CLOEXEC, 3);
    if (map < 0)
        return map;
    int fd = mountfd_clone(dir, "", attrs, map, NULL);
    return fd >= 0 ? fd : mountfd_clone(dir, "", attrs, -1, e);
}

int binds_open(const struct root_opts *o, int proc, int *ret_fds, struct err *e)
{
    int r = step_reach(STEP_BINDS, e);
    if (r < 0)
        return r;
    for (uint32_t i = 0; i < o->spec->mount_count; i++) {
        ret_fds[i] = open_bind(o, proc, &o->spec->mounts[i], e);
        if (ret_fds[i] < 0)
            return err_wrap(e, ret_fds[i], "mounts[%u].from", i);
    }
    return 0;
}

int binds_attach(const struct root_opts *o, int root, const int *fds, struct err *e)
{
    for (uint32_t i = 0; i < o->spec->mount_count; i++) {
        const struct box_mount *m = &o->spec->mounts[i];
        auto_close int target = mountfd_mkdirs(root, m->to, o->base, o->base, e);
        if (target == -EROFS) /* it lies in a read-only one that has no such directory */
            e->code = ERR_INVALID;
        if (target < 0)
            return err_wrap(e, target, "mounts[%u].to", i);
        int r = mountfd_attach(fds[i], target, e);
        if (r < 0)
            return err_wrap(e, r, "mounts[%u].to '%s'", i, m->to);
    }
    return 0;
}

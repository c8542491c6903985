/* Mounts as descriptors: made detached, given their flags while nobody can see them, then attached to a
 * target that was itself opened without following a symlink. No function here takes a path that an image
 * or an agent could have written, except mountfd_target, which refuses to follow one.
 *
 * Needs Linux 5.12 (mount_setattr); overlay layers by descriptor need 6.13, and are given as
 * /proc/self/fd/N on older kernels. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

struct err;

/* The kernel's MOUNT_ATTR_* bits; <linux/mount.h> and <sys/mount.h> cannot be included together. */
enum { MOUNT_RO = 1, MOUNT_NOSUID = 2, MOUNT_NODEV = 4, MOUNT_NOEXEC = 8 };

/* A new file system. opts is a NULL-terminated list of "key=value" or "flag". Returns a mount descriptor. */
int mountfd_new(const char *fs, const char *const *opts, unsigned attrs, struct err *e);

struct overlay_opts {
    const int *lower; /* detached or attached mounts, topmost first */
    int lower_count;
    int upper, work; /* directories of one mount */
    unsigned attrs;
};
int mountfd_overlay(const struct overlay_opts *o, struct err *e);

/* From here on this process makes files as base, with all its capabilities: needed before mountfd_overlay if the
 * upper's ids are mapped. */
int mountfd_become(uid_t base, struct err *e);

/* A detached copy of the mount at path below dirfd (not of mounts below it). userns >= 0: seen through its mapping. */
int mountfd_clone(int dirfd, const char *path, unsigned attrs, int userns, struct err *e);
int mountfd_set(int mount, unsigned attrs, int userns, struct err *e);
int mountfd_attach(int mount, int target, struct err *e);
/* The same by the name of an entry of a directory that only we or the kernel have written. */
int mountfd_attach_at(int mount, int dir, const char *name, struct err *e);

/* O_PATH descriptor of a place below root: no symlink is followed, on any component. */
int mountfd_target(int root, const char *path, struct err *e);
/* The same for a directory; missing parts are made, mode 0755. */
int mountfd_mkdirs(int root, const char *path, uid_t uid, gid_t gid, struct err *e);
/* A host directory that must lie at or below one of the colon-separated roots, the value of a setting; no symlinks.
 * -EACCES if it does not. */
int mountfd_allowed(const char *setting, const char *roots, const char *path, struct err *e);

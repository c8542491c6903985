/* The file system of a box, built by the box's first process as real root. It makes the parts while it still sees the
 * host's files, each a mount that nobody else can see, then leaves the host for a mount namespace that never had any of
 * its mounts (nowhere.h), and puts the parts together there. The user namespace comes after all this, so root of the box
 * has no right over any of these mounts.
 *
 *   /              overlay: image (read-only, ids translated), above it the scratch tmpfs
 *   /usr           host image only: a second overlay over the host's /usr. Overlay lowers do not cross mounts, and
 *                  the host's / with its secrets is no lower for anybody.
 *   /tmp /dev      directories of the same tmpfs: one size limit covers all that the box writes
 *   /run           a small tmpfs of its own: init must work in a box whose disk is full
 *   /dev/shm /dev/pts /proc   their own kinds;   /sys   empty and read-only
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

struct err;
struct box_spec;

enum { ROOT_LOWERS = 8 };

enum root_tree { ROOT_TREE, USR_TREE, TMP_TREE, ROOT_TREES }; /* as a layer has them: root/, usr/, tmp/ */

struct root_opts {
    const char *id;
    const struct box_spec *spec;
    const char *dns;                       /* address of the nameserver; NULL: none */
    uid_t base;                            /* first host uid of the box */
    int userns;                            /* the mapping 0.. -> base.. */
    const char *root;                      /* host path of the lower of / ... */
    bool root_checked;                     /* ... which is ours; else it must lie below image_roots */
    const char *usr[ROOT_LOWERS];          /* lowers of /usr, topmost first; none: /usr belongs to the root image */
    const char *image_roots, *mount_roots; /* colon-separated */
    int nowhere;                           /* nowhere.h */
    const char *layers;                    /* host directory that has spec->layers */
};

/* On success the calling process lives in the new root, and the host's files are out of sight. ret_scratch: a directory
 * descriptor of all that the box will write, for whoever wants to look at it from outside. */
int root_build(const struct root_opts *o, int *ret_scratch, struct err *e);

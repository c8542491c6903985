/* Layers: immutable differences between two states of a box's files, on disk, ready to be mounted.
 *
 *   $home/layers/<id>/root|usr|tmp   trees as overlayfs wants a lower directory: owners from 0 on, deleted names as
 *                                    character devices 0/0, trusted.overlay.opaque and .redirect. A tree that has no
 *                                    change is absent.
 *   $home/layers/<id>/index          what the walk saw of the live trees (layer_index.h); only the newest layer of a
 *                                    living box needs it
 *   $home/layers/<id>.tmp            being written; rename(2) seals it
 *
 * A box is [scratch, layers newest .. oldest, image]. What is below scratch never changes while the box lives. Sealing
 * makes a layer L1 of scratch, later L2 of what changed since, and so on; [L2, L1, below.., image] has the same files
 * as the box had. A fork or a restore mounts these as lowers under an empty scratch: the cost does not depend on the
 * number of files. Layers that are given as lowers: layer_lowers().
 *
 * How changes are found, and why none is missed. The box is frozen while layer_seal runs. A file of scratch is
 * unchanged since the last walk if its path has the same inode (number and birth time), type, size, mode, owners,
 * device and the same mtime and ctime, and it is no suspect:
 *   1. Every system call that changes a file's bytes, attributes or names sets its ctime to the kernel's clock, and no
 *      call sets ctime to a chosen value.
 *   2. Two changes cannot share one ctime if a walk lies between them. Kernels from 6.13 on give a file whose stamp was
 *      read since its last change a fresh, finer stamp ("multigrain"). On older ones a stamp is the time of the last
 *      tick; there layer_seal does not return before the clock has ticked past the newest stamp it saw, and the box is
 *      still frozen. (layer_seal tries it out on a memfd; it trusts no version number.)
 *   3. Stores through a shared mapping set no stamp on tmpfs. To make them, a process must have the file mapped, and to
 *      map it, it must have it open for writing. The caller watches scratch's file system (daemon/watch.h) and names
 *        a. `changed`: the inodes about which an event came since the last walk. FAN_CLOSE_WRITE on the tmpfs comes
 *           when the last user of the open file is gone, and a mapping is one, also through overlay, which maps the
 *           upper's file (tried out once, before anything is believed);
 *        b. `suspects`: the files that are open for writing or mapped shared now (/proc/<pid>/fd, map_files).
 *      A store since the last walk went through an open file that was closed since, or is open now. A suspect is matched
 *      by its inode: the other names of the same file are suspects with it. One without any name
 *      ("(deleted)" in /proc, and st_nlink is 0) is in no tree.
 *      With `known`, the same events say where names and attributes changed, so directories in which nothing happened
 *      are not looked at: the walk costs as much as there are changes.
 *   4. When the caller cannot tell, suspect_all compares every file: an overflown queue, a watcher that was restarted, an
 *      open file whose name is gone but which has others (by which, nothing tells),
 *      a unix socket with descriptors in flight (scm_fds in its fdinfo: they are open, but in no process).
 *   5. Names: making, removing and renaming sets the directory's mtime and ctime; if these differ, its names are read.
 *   6. Names of one lower file that overlay's index joins (`index=on`): a write through one name changes what the
 *      others show, and those may be in no upper directory. They are found through overlay's own index
 *      (layer_alias.h).
 * A directory whose time alone changed (a file made and removed again) is no change.
 *
 * The functions run in a worker process: they block, and their memory grows with the number of files. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "image/node.h"

struct err;

#define LIMIT_LAYER_CHAIN 400 /* the kernel takes 500 lowers; flatten long before */
#define LIMIT_LAYER_ID    64
enum { LAYER_LOWERS = 16 }; /* of an image */

enum layer_tree { LAYER_ROOT, LAYER_USR, LAYER_TMP, LAYER_TREES };
extern const char *const layer_tree_names[LAYER_TREES]; /* "root", "usr", "tmp" */

/* The image as its files lie on disk, ids unshifted. Descriptors of directories, topmost first, best of non-recursive
 * clones of mounts (open_tree), because a box does not see what is mounted below them. */
struct layer_image {
    const char *digest;
    int root[LAYER_LOWERS];
    size_t root_n;
    int usr[LAYER_LOWERS]; /* usr_n 0: /usr belongs to the root */
    size_t usr_n;
};

/* A recorded state: layers, newest first, over an image. n 0: the image itself. */
struct layer_chain {
    const char *home;
    const struct layer_image *image;
    const char *const *ids;
    size_t n;
};

struct layer_opts {
    const struct layer_chain *below; /* what the box was mounted on; home is taken from here */
    const char *id;                  /* of the new layer: [a-z0-9-], not in use */
    const char *const *sealed;  /* layers made of this same scratch so far that make up its last state, newest first */
    size_t sealed_n;            /* 0: none, the whole scratch is taken */
    int scratch;                /* directory with root/, root.work/, usr/, usr.work/, tmp/; read only through it */
    uint32_t base;              /* first host id of the box if scratch is an id-mapped mount, else 0 */
    bool tmp_is_overlay;        /* /tmp was mounted on layers, with tmp/ and tmp.work/; else tmp/ is bound there */
    const struct str *suspects; /* paths in the box, absolute; those that are not (or no more) in scratch are ignored */
    size_t suspects_n;
    const uint64_t *changed; /* inodes of scratch's file system, sorted */
    size_t changed_n;
    bool known; /* nothing else changed since the last walk, but for suspects */
    bool suspect_all;
    bool sync; /* durable against power failure when layer_seal returns */
};

struct layer_sealed {
    bool changed; /* false: no layer was made, the state is that of sealed[0], or of below if there is none */
    bool full; /* the layer holds all of scratch: the new state is [id, below..]. Else [id, sealed.., below..]. Without
                * sealed layers it is always full; else if a directory that lies below was renamed (its redirect
                * means a path below scratch, not below the last layer) */
    uint64_t entries, bytes; /* written */
    uint64_t seen;           /* files looked at */
};

int layer_seal(const struct layer_opts *o, struct layer_sealed *ret, struct err *e);

bool layer_id_ok(const char *id);
/* Descriptors of one tree of a chain, newest first, without the image's; layers that do not have it are skipped.
 * fds has room for c->n; returns their number. The first one's owner, mode and xattrs are those of the mount's top
 * directory: whoever mounts puts them on the empty upper directory, because overlay shows the upper's. */
int layer_lowers(const struct layer_chain *c, enum layer_tree t, int *ret_fds, struct err *e);
/* The index is of use to the next layer_seal of the same scratch only. */
void layer_drop_index(const char *home, const char *id);
/* Also of what is half written. Only for layers that no box is mounted on and that no other chain names. */
void layer_remove(const char *home, const char *id);

/* One layer that stands for all of c's: the same files over the same image, the same state root. If c is the recorded
 * state of a living box, [sealed.., below..], the new layer may take its place: give it to the next layer_seal as the
 * only one of `sealed`, with `below` unchanged (that is what the box is mounted on); the state is then [id, flattened],
 * or [id, below..] after a `full` one. */
int layer_flatten(const struct layer_chain *c, const char *id, bool sync, struct layer_sealed *ret, struct err *e);
/* One layer in the place of neighbours in a chain, newest first, whatever lies below: the same files, the same root. A
 * living box's next seal may be given it in their place in `sealed`. */
int layer_merge(const char *home, const char *const *ids, size_t n, const char *id, struct layer_sealed *ret,
                struct err *e);

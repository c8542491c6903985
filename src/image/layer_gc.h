/* Removing what no state needs any more, while others write.
 *
 * Marked is what the caller names and what is reachable from it; the rest goes if it is older than the grace time:
 *   - a writer of objects holds a shared lock on $home/objects for the whole of layer_hash; the sweep takes it
 *     exclusively, one sub-directory at a time, and looks at the age under the lock; a writer that finds an object
 *     there makes it young again. Between the end of layer_hash and the moment the caller's own record names the
 *     root, the grace time protects it.
 *   - whoever writes a layer holds a lock on its <id>.tmp; a sealed one is protected by its age.
 * The grace time must be longer than a caller takes from sealing or hashing to recording. At start, when nothing else
 * runs, it may be 0. A root whose objects are not all there is an error, and nothing is removed then. */
#pragma once

#include "image/layer.h"
#include "image/manifest.h"

struct err;

struct gc_opts {
    const char *home;
    const struct state_root *roots;
    size_t roots_n;
    const char *const *layers; /* all of every chain that is to stay, and ids that are about to be written */
    size_t layers_n;
    int64_t grace_ms;
    bool dry; /* count only */
};
struct gc_counts {
    uint64_t objects_kept, objects_removed, layers_kept, layers_removed, bytes; /* bytes: removed, as on disk */
};
int layer_gc(const struct gc_opts *o, struct gc_counts *ret, struct err *e);
uint64_t layer_disk_use(const char *home); /* of all layers and objects, in bytes */

/* Names of a lower file that overlay's inode index joins with a changed copy in scratch, without being in scratch
 * themselves.
 *
 * With `index=on`, when a lower file with several names is opened for writing through one of them (or one is unlinked),
 * its copy goes into <work>/index, and every name shows it from then on: those that were not touched, too. As plain
 * layers, these names would show the old file again. So they are written out: hard links in the layer. */
#pragma once

#include "base/buf.h"
#include "image/layer.h"
#include "image/layer_dir.h"

struct alias_opts {
    const struct layer_opts *seal;
    enum layer_tree tree;
    bool plain; /* no overlay, nothing to do */
    bool delta;
    struct layer_new *new;
    const uint64_t *suspects; /* inodes, sorted */
    size_t suspects_n;
    struct layer_sealed *counts;
    struct buf *records; /* what the next seal needs to know; becomes the layer's file `aliases` */
};

/* After the walk of the tree. Looks for the names once per file that is new in overlay's index, which takes a walk over
 * all that is below scratch; later seals look only at the names that were found. */
int alias_seal(const struct alias_opts *o, struct err *e);

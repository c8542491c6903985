/* State roots: a hash for the files of a state, the same for the same files whatever led there.
 *
 * A manifest is the difference between the files as the box sees them and its image: trees of object.h. It is
 * canonical: no times; names that are as in the image (type, mode, owners, bytes, xattrs) are left out, directories in
 * which nothing is left too; a deleted name is listed if the image has it; how layers say it (opaque, redirect,
 * whiteouts over nothing, in how many layers) does not matter. /usr and /tmp are directories like any other; the
 * image's /tmp counts as empty, of root, mode 1777. Hard links are recorded between listed names.
 *
 * Cost of layer_hash with a parent: the changed files' bytes and the objects of their directories. A state root that is
 * known is an object, too, so all that follows from it can be found from it alone. */
#pragma once

#include "image/layer.h"
#include "image/sha.h"

struct state_root {
    char hex[SHA_HEX];
};

struct manifest_stats {
    uint64_t files, bytes; /* hashed */
    uint64_t objects;      /* newly written */
};

/* The root of a chain whose layers are sealed. parent: the root of the chain without ids[0] (after a `full` seal: of
 * what is below), whose objects are there; NULL: everything is read. stats may be NULL. */
int layer_hash(const struct layer_chain *c, const struct state_root *parent, bool sync, struct state_root *ret,
               struct manifest_stats *stats, struct err *e);
/* Works the root out again from all that is really on disk, trusting no object. 1: as expected, 0: not, and *ret_found
 * is what it is. -ESTALE: the expected state is one of another image, so nothing can be compared. -ENODATA: a layer is not there. */
int layer_verify(const struct layer_chain *c, const struct state_root *expected, struct state_root *ret_found,
                 struct err *e);

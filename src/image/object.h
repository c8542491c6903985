/* Objects: what a state consists of, content-addressed: $home/objects/ab/<sha256 of the bytes>. Text, so that another
 * program can make and check them (tests/state/walker.py does).
 *
 *   tree    one directory's difference to the image's directory at the same path. Names sorted by their bytes:
 *             sandglass tree v1\n
 *             [links <hash>\n]              in the top directory only, if any names share a file
 *             <type> <mode> <uid> <gid> <size> <device> <hash> <xattrs> <length>:<name>\n
 *           type     f file, d directory, l link, p fifo, s socket, c, b device, w deleted
 *           mode     permission bits, octal
 *           size     of files and links, else 0
 *           device   major:minor of devices, else -
 *           hash     of the file's bytes, of the link's target, of the directory's tree; else -
 *           xattrs   - or the hash of "<length>:<name><length>:<value>" of all user.* and POSIX ACL attributes, sorted
 *                    by name
 *           A deleted name is "w 0 0 0 0 - - - 1:x". The entry of the empty name, in the top directory only, is that
 *           directory itself, if its owner, mode or xattrs are not the image's.
 *   links   which of the listed names are one file ("hard links"); groups sorted by their first path, paths sorted:
 *             sandglass links v1\n
 *             <count>\n                     for each group, and then count times
 *             <length>:<path from />\n
 *   state   sandglass state v1 NUL <image digest> NUL <hash of the top tree in hex>
 *           Its hash is the state root. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "image/node.h"
#include "image/sha.h"

struct err;

#define LIMIT_OBJECT (512L * 1024 * 1024) /* bytes; a directory of some four million names */

struct objects {
    int dir;  /* $home/objects, locked shared against object removal (layer_gc) while open */
    bool dry; /* hash, but write nothing */
    uint64_t written;
};
int objects_open(const char *home, bool dry, struct objects *ret, struct err *e);
void objects_close(struct objects *o); /* accepts dir -1 */

int object_put(struct objects *o, struct str bytes, struct sha *ret, struct err *e);
/* Whoever reads an object learns if its bytes are not those of its name. */
int object_get(const struct objects *o, const struct sha *hash, struct buf *ret, struct err *e);

struct object_entry {
    enum node_type type;
    uint32_t mode, uid, gid, major, minor;
    uint64_t size;
    bool has_hash, has_xattrs;
    struct sha hash, xattrs;
    const char *name; /* in the tree's arena, or borrowed while a tree is made */
};
bool object_same_entry(const struct object_entry *a, const struct object_entry *b);

struct object_tree {
    struct arena arena;
    struct object_entry *v;
    size_t n, size;
    bool has_links;
    struct sha links;
};
void object_tree_done(struct object_tree *t);                              /* accepts a zeroed one */
void object_tree_add(struct object_tree *t, const struct object_entry *x); /* in order; the name is copied */
const struct object_entry *object_tree_find(const struct object_tree *t, const char *name);
int object_tree_put(struct objects *o, const struct object_tree *t, struct sha *ret, struct err *e);
int object_tree_get(const struct objects *o, const struct sha *hash, struct object_tree *ret, struct err *e);

int object_state_put(struct objects *o, const char *image, const struct sha *top, struct sha *ret, struct err *e);
int object_state_get(const struct objects *o, const struct sha *root, struct buf *image, struct sha *top,
                     struct err *e);

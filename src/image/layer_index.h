/* What the last walk saw of a live writable tree, so that the next one finds what changed by comparing stamps.
 *
 * The file `index` of a layer is a head and, for each tree, records in the order of the walk: a directory, then what is
 * in it sorted by name, depth first. A directory's record knows how far its last descendant is, so siblings are found
 * without reading what lies between, and what did not change is copied as one piece. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "image/node.h"

#define LIMIT_INDEX (1024L * 1024 * 1024) /* bytes; some 8 million files */

struct err;

struct index_rec {
    uint64_t span; /* bytes from here to the end of the last descendant */
    uint64_t ino, size, rdev;
    int64_t birth_ns, mtime_ns, ctime_ns;
    uint64_t marks; /* 0: no attributes; else a short hash of xattrs, opaque and redirect */
    uint32_t type, mode, uid, gid;
    uint32_t flags; /* NODE_OPAQUE, NODE_REDIRECT */
    uint32_t name_n;
    char name[]; /* then NUL, then padding to 8 */
};

/* --- writing: records are appended to a buf --- */
void index_begin(struct buf *b);
/* Returns the record's offset, for index_end of a directory when all that is in it was added. */
uint64_t index_add(struct buf *b, const char *name, const struct node *n, uint64_t marks, unsigned flags);
void index_end(struct buf *b, uint64_t at);
void index_copy(struct buf *b, const struct index_rec *r); /* with all that is in it */
uint64_t index_marks(const struct node_marks *m);

/* --- reading --- */
struct layer_index {
    const char *p;
    size_t n;
};
int layer_index_open(int layer, struct layer_index *ret, struct err *e); /* -ENOENT plain: there is none */
void layer_index_close(struct layer_index *x);
/* The record at an offset, NULL at or after limit, or if it is damaged. */
const struct index_rec *index_at(const struct layer_index *x, uint64_t at, uint64_t limit);
uint64_t index_first(void); /* offset of the first tree's top */
uint64_t index_offset(const struct layer_index *x, const struct index_rec *r);
uint64_t index_after(const struct layer_index *x, const struct index_rec *r); /* offset of its next sibling */
/* offset of a directory's first child; of another, of what follows it */
uint64_t index_inside(const struct layer_index *x, const struct index_rec *dir);

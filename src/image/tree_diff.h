/* The difference between two states, from their objects alone: what was added, changed, removed. */
#pragma once

#include <stdint.h>

#include "base/buf.h"
#include "image/layer.h"
#include "image/manifest.h"
#include "image/object.h"

struct err;

enum tree_change { TREE_ADDED, TREE_CHANGED, TREE_REMOVED, TREE_REVERTED };
const char *tree_change_name(enum tree_change c); /* "added" ... */

/* One path that is not the same in B as in A. Both manifests speak of differences to the image, so a side that does not
 * mention the path has there what the image has:
 *   TREE_ADDED     was not there (or deleted) in A, is in B
 *   TREE_REMOVED   the other way round
 *   TREE_CHANGED   is in both; what is NULL is as in the image
 *   TREE_REVERTED  B is as the image again: to be resolved by who has the image (diff_print does)
 * old, new: entries, NULL where the manifest does not mention the path. path from /, without one at its start. */
struct tree_row {
    enum tree_change change;
    const char *path;
    const struct object_entry *old, *new;
};
/* Returns < 0 to stop. */
typedef int on_tree_row(void *arg, const struct tree_row *row, struct err *e);

/* NULL as a root: the image. Directories appear if they themselves came, went or have other attributes. What lies in a
 * directory that came or went appears, too. */
int tree_diff(const char *home, const struct state_root *a, const struct state_root *b, on_tree_row *cb, void *arg,
              struct err *e);

#define LIMIT_DIFF_ROWS  100000
#define LIMIT_DIFF_TEXT  (1024 * 1024) /* bytes of a file that gets a text diff */
#define LIMIT_DIFF_LINES 20000

struct diff_opts {
    const struct layer_chain *a, *b; /* where contents are found, of the same image */
    const struct state_root *root_a, *root_b;
    size_t text_bytes; /* text diffs of files up to this size each (at most LIMIT_DIFF_TEXT); 0: none */
    size_t rows;       /* at most so many; 0: LIMIT_DIFF_ROWS */
};
struct diff_counts {
    uint64_t added, changed, removed;
    bool truncated; /* there were more rows */
};
/* Appends a JSON array of {path, change, type, old_type, old_size, new_size, old_hash, new_hash, old_mode, new_mode,
 * text?}. A path that is not UTF-8 has its exact bytes in path_base64. A row `reverted` is looked up in the image and
 * printed as added, changed or removed. */
int diff_print(const struct diff_opts *o, struct buf *out, struct diff_counts *ret, struct err *e);

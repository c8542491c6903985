/* Large outputs, stored once per content: $home/blobs/ab/<sha256 in hex>. A stored blob never changes. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/limits.h"
#include "base/str.h"

#define LIMIT_BLOB (256 * MiB)
struct blob_name {
    char z[7 + 64 + 1]; /* "sha256:" and the hex digits */
};

/* Stores what fd holds, from its first byte on; the file may change meanwhile: what was hashed is what is stored.
 * sync: it survives a power cut when this returns. */
int blob_put(const char *home, int fd, bool sync, struct blob_name *ret_name, uint64_t *ret_bytes, struct err *e);
/* Every blob that is there. What a killed recorder left half stored is removed on the way: there is one recorder. */
typedef int (*blob_fn)(void *arg, struct str name, struct err *e);
int blob_each(const char *home, blob_fn on_blob, void *arg, struct err *e);
/* -EAGAIN: it was written less than grace_ms ago, and stays. -ENOENT: there is none. */
int blob_remove(const char *home, struct str name, int64_t grace_ms, struct err *e);
/* name comes from anywhere: anything but "sha256:" and 64 lower-case hex digits is ERR_INVALID. */
int blob_open(const char *home, struct str name, int *ret_fd, uint64_t *ret_bytes, struct err *e);

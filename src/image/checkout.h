/* The files of a state as a tar stream: what differs from the image. */
#pragma once

#include "image/layer.h"
#include "image/manifest.h"

struct err;

struct checkout_counts {
    uint64_t entries, deleted, bytes;
};

/* A pax tar of all listed entries, with paths relative to /, mode, owners (those of the box), times, user.* attributes,
 * hard links; holes are written as zeros, sockets are left out. Deleted paths are in the last member,
 * .sandglass/deleted, each ended by NUL. out may be a pipe; EPIPE is an error like any other (ignore SIGPIPE). */
int checkout_tar(const struct layer_chain *c, const struct state_root *root, int out, struct checkout_counts *ret,
                 struct err *e);

/* Copying one file of a recorded tree: contents (shared where the file system can, holes stay holes), owners, mode,
 * attributes and times. */
#pragma once

#include <stdint.h>

#include "image/node.h"

struct err;
struct layer_new;

struct copy_opts {
    int from;                /* directory */
    const char *name, *as;   /* there and here */
    const struct node *node; /* of the source; owners already shifted */
    uint32_t base;           /* of the source's ids, for ACLs */
    int to;                  /* directory; the name must not be there */
    bool linked;             /* it has other names, whatever nlink says */
    struct layer_new *layer; /* that it is copied into: finds the first copy of a file with several names */
};

/* All but directories. */
int copy_node(const struct copy_opts *o, uint64_t *bytes, struct err *e);
/* The last thing that is done to a copied directory: anything written into it later changes its time. flags: which of
 * overlay's attributes go along. */
int copy_dir_attrs(int from, int to, const struct node *n, uint32_t base, unsigned flags, struct err *e);

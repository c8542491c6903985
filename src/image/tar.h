/* Writing a pax tar. Only what does not fit into the old header goes into extended ones. */
#pragma once

#include "base/buf.h"
#include "image/node.h"

struct err;

struct tar {
    int out;
    struct buf pax;
    uint64_t bytes; /* written so far */
};

struct tar_entry {
    const char *path;     /* relative */
    const char *hardlink; /* an earlier path of the same file, or NULL */
    struct str target;    /* of a symlink */
    const struct node *node;
    int content; /* of a file that has size: open for reading; its user.* attributes are taken, too. -1: none */
};

void tar_init(struct tar *t, int out);
void tar_done(struct tar *t);
int tar_add(struct tar *t, const struct tar_entry *x, struct err *e);
int tar_text(struct tar *t, const char *path, struct str text, struct err *e); /* a small file */
int tar_end(struct tar *t, struct err *e);

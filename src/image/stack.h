/* What overlayfs shows for a pile of directories, worked out without mounting: whiteouts, opaque directories,
 * redirects, merged directories. It follows ovl_lookup() of the kernel step by step. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "image/node.h"

struct err;

struct stack {
    const int *fds; /* directories, topmost first; borrowed */
    int n;
    int image_from; /* fds[image_from..] are the image's */
};

/* A merged directory: the real directories that it consists of. */
struct stack_part {
    int fd;
    int layer; /* index into the stack's fds */
};
struct stack_dir {
    const struct stack *stack;
    struct stack_part *v;
    int n;
};

/* What is at a name. */
struct stack_hit {
    struct node node;     /* of the topmost; type NODE_WHITEOUT stands for "nothing there" */
    int at;               /* not a directory: descriptor of the real directory that holds it (borrowed) ... */
    int layer;            /* ... and which layer that is; of directories, the topmost's */
    struct stack_dir dir; /* a directory: owned by the hit */
};

void stack_top(const struct stack *s, struct stack_dir *ret); /* descriptors are duplicated */
void stack_dir_done(struct stack_dir *d);                     /* accepts a zeroed one */
int stack_find(const struct stack_dir *d, const char *name, struct stack_hit *ret, struct err *e);
void stack_hit_done(struct stack_hit *h);
/* path: relative, without "." and ".."; "" is the top. */
int stack_walk(const struct stack *s, struct str path, struct stack_hit *ret, struct err *e);

/* Names in the parts of layers from..to-1, sorted, each once; some of them may be deleted ones. */
int stack_names(const struct stack_dir *d, int from, int to, struct names *ret, struct err *e);
/* Do both consist of the same real directories of the image? */
bool stack_same_image(const struct stack_dir *a, const struct stack_dir *b);

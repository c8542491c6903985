/* The directory of layers, for those who write into it. */
#pragma once

#include "image/layer.h"

/* A layer that is being written: $home/layers/<id>.tmp, made with the first thing that is put into it. */
struct layer_new {
    int layers; /* $home/layers */
    int top;    /* <id>.tmp, or -1: nothing yet */
    int links;  /* <id>.tmp/links: first copies of files with several names, by inode; or -1: none yet */
    char id[LIMIT_LAYER_ID + 1];
};

int layer_new_begin(const char *home, const char *id, struct layer_new *ret, struct err *e);
int layer_new_top(struct layer_new *n, struct err *e);   /* makes it; borrowed */
int layer_new_links(struct layer_new *n, struct err *e); /* likewise */
int layer_new_seal(struct layer_new *n, bool sync, struct err *e);
int layer_take_index(struct layer_new *n, const struct layer_chain *c, struct err *e); /* of c's newest */
void layer_new_done(struct layer_new *n); /* throws away what was not sealed */

/* Is what fd holds what the newest of o->sealed has at this path? An error is a no. */
bool layer_same_as_sealed(const struct layer_opts *o, enum layer_tree t, const char *path, int fd, uint64_t size);

int layer_open_all(const char *home, struct err *e);             /* $home/layers, made if missing */
int layer_open(const char *home, const char *id, struct err *e); /* -ENOENT: no such layer */
/* The stack of one tree: top (if >= 0), the chain's layers, the image. fds is malloc'd, each descriptor owned, but top.
 */
struct stack;
int layer_stack(const struct layer_chain *c, enum layer_tree t, int top, struct stack *ret, struct err *e);
void layer_stack_done(struct stack *s, int top);
void layer_image_stack(const struct layer_image *i, enum layer_tree t, struct stack *ret); /* borrows everything */

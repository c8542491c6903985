/* What the files that make a manifest share. */
#pragma once

#include "base/map.h"
#include "image/manifest.h"
#include "image/object.h"
#include "image/stack.h"

struct link_group {
    uint64_t key[2]; /* device and inode */
    const char **v;
    size_t n, size;
};

struct build {
    const struct layer_chain *chain;
    struct objects objects;
    struct stack real[LAYER_TREES], image[LAYER_TREES];
    bool real_open[LAYER_TREES]; /* opened when needed: a delta on a long chain needs none */
    int newest[LAYER_TREES];     /* the newest layer's trees, -1: it has none */
    struct arena arena;
    struct buf path; /* from /, of what is looked at */
    int depth;
    struct map groups;
    bool delta;        /* on the parent's objects */
    bool need_scratch; /* it turned out that a delta does not do */
    struct manifest_stats stats;
};

/* What a name that is no directory is in the manifest. 1: *ret is filled but for the name; 0: it is as in the image. */
int build_file(struct build *b, const struct stack_hit *real, const char *name, const struct stack_hit *image,
               struct object_entry *ret, struct err *e);
/* The same of a directory whose tree is known. marks_fd: descriptor of the directory that has its attributes. */
int build_dir(struct build *b, int fd, const struct node *n, const struct stack_hit *image, const struct object_tree *t,
              struct object_entry *ret, struct err *e);

/* The tree of a directory, from what it consists of. image: has no parts if the image has no such directory. */
int build_scratch(struct build *b, const struct stack_dir *real, const struct stack_dir *image, struct object_tree *out,
                  struct err *e);
/* The same, from what the newest layer changes of a known tree. */
int build_delta(struct build *b, enum layer_tree t, int newest, const struct object_tree *was,
                const struct stack_dir *image, struct object_tree *out, struct err *e);
/* Top names that belong to another tree. */
bool build_skips(const struct build *b, const char *name);

void build_push(struct build *b, const char *name, size_t *ret_was);
void build_pop(struct build *b, size_t was);

/* --- hard links --- */
void links_note(struct build *b, const struct node *n, const char *name); /* a listed name of a file with several */
/* Puts the object of all groups: those of was that no newer name covers, and the noted ones. */
int links_put(struct build *b, const struct object_tree *was, struct object_tree *top, struct err *e);
void links_done(struct build *b);

/* One file of a tree that somebody else wrote: what it is, what overlayfs notes about it, how it is opened. Everything
 * goes by a directory's descriptor and one name; no symlink is followed and no mount is crossed, because the trees are
 * the boxes' and hostile. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "image/sha.h"

struct err;

/* Nesting of directories in a recorded tree. Walks hold one to three descriptors per level, within the usual 1024. */
#define LIMIT_TREE_DEPTH 256
#define LIMIT_XATTRS     (64 * 1024) /* bytes of names, and of one value; the kernel's own limits */

enum node_type {
    NODE_FILE = 'f',
    NODE_DIR = 'd',
    NODE_LINK = 'l',
    NODE_FIFO = 'p',
    NODE_SOCK = 's',
    NODE_CHAR = 'c',
    NODE_BLOCK = 'b',
    NODE_WHITEOUT = 'w', /* character device 0/0: the name is deleted */
};

struct node {
    enum node_type type;
    uint32_t mode; /* permission bits only */
    uint32_t uid, gid, nlink;
    uint32_t major, minor;                /* of devices, else 0 */
    uint64_t size, blocks, dev, ino;      /* blocks of 512 bytes; size is 0 for all but files and links */
    int64_t mtime_ns, ctime_ns, birth_ns; /* birth 0: the file system does not know */
};

enum { NODE_OPAQUE = 1, NODE_REDIRECT = 2 };

/* What is kept of a file's extended attributes. */
struct node_marks {
    bool has_xattrs;
    struct sha xattrs;   /* of user.* and POSIX ACLs in canonical form; valid if has_xattrs */
    unsigned flags;      /* NODE_OPAQUE, NODE_REDIRECT; directories only */
    struct str redirect; /* in the arena */
};

/* name "" is dir itself. -ENOENT is returned plain; e is filled for other errors. */
int node_stat(int dir, const char *name, struct node *ret, struct err *e);
/* Owners as the box sees them: base is subtracted; what lies outside of the box's range becomes nobody. */
void node_shift(struct node *n, uint32_t base);
bool node_same_attrs(const struct node *a, const struct node *b); /* type, mode, owners, device */

int node_open_dir(int dir, const char *name, struct err *e);
int node_open_file(int dir, const char *name, struct err *e);                        /* regular files only */
struct str node_readlink(int dir, const char *name, struct arena *a, struct err *e); /* p NULL: error */

/* All names but . and .., sorted by their bytes. */
struct names {
    struct arena arena;
    const char **v;
    size_t n;
};
int names_read(int dir, struct names *ret,
               struct err *e); /* dir is read from its start; names_done also after errors */
void names_done(struct names *n);

/* fd: a file or directory open for reading. base as for node_shift: ACLs name users, too. */
int node_marks(int fd, uint32_t base, struct arena *a, struct node_marks *ret, struct err *e);
/* The same attributes, copied. Overlay's own are taken along only as asked (flags). */
int node_copy_xattrs(int from, int to, uint32_t base, unsigned flags, struct err *e);
int node_set_opaque(int dir, struct err *e);
int node_set_redirect(int dir, const char *path, struct err *e);
/* 1: equal bytes, 0: not. */
int node_same_content(int a, int b, uint64_t size, struct err *e);

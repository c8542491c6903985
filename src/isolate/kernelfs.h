/* The parts of a box's root that the kernel makes up: /dev, /proc, /sys, /run. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct err;

/* Fills a directory of the scratch tmpfs with nodes and links, before ids are translated. */
int kernelfs_fill_dev(int dir, struct err *e);

struct kernelfs_opts {
    int root;    /* the box's root, attached */
    int scratch; /* the scratch tmpfs, attached; has "dev", "empty" */
    uid_t base;
    int64_t shm_bytes;
    const char *id;
    const char *dns; /* the nameserver's address; NULL: none */
    bool pristine;   /* only we have written to root */
};
struct kernelfs { /* mounts, for kernelfs_finish() */
    int dev, proc;
};
/* What init itself needs: /dev with its nodes, /proc, /run, names in /etc. */
int kernelfs_attach(const struct kernelfs_opts *o, struct kernelfs *ret, struct err *e);
/* What only programs need: the covers of /proc, /sys, /dev/pts, /dev/shm. */
int kernelfs_finish(const struct kernelfs_opts *o, const struct kernelfs *k, struct err *e);

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
    int proc;    /* of kernelfs_make_proc() */
    uid_t base;
    int64_t shm_bytes;
    const char *id;
    const char *dns; /* the nameserver's address; NULL: none */
    bool pristine;   /* only we have written to root */
};
int kernelfs_make_proc(struct err *e); /* by a process of the box */
int kernelfs_attach_dev(const struct kernelfs_opts *o, struct err *e);
int kernelfs_attach_proc(const struct kernelfs_opts *o, struct err *e);
int kernelfs_attach_run(const struct kernelfs_opts *o, struct err *e);

/* The privileged role: makes boxes and takes them away again, on request over run/supervise.sock (wire/seat.h).
 * It parses no JSON, touches no network and never waits for a box. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "wire/boot.h"
#include "wire/seat.h"

struct supervise_opts {
    const char *home;        /* SANDGLASS_HOME */
    const char *init_path;   /* the program sandglass-init */
    const char *cgroup_root; /* directory in each hierarchy; NULL: "sandglass" */
    const char *mount_roots; /* colon-separated host directories that box_spec.mounts may lie in; may be NULL */
    const char *image_roots; /* the same for image directories */
    const char *subnet;      /* of boxes with a network; NULL: one of 100.64.0.0/10 */
    int pool_size;
    const char *python_preload;
    bool python_fork;
    int python_warm; /* 1: contexts, 2: kernels */
    bool browser_warm;
    uid_t serve_uid; /* who may connect, and owns the sockets of boxes */
    gid_t serve_gid;
    struct boot_habits habits; /* of every box */
    int64_t orphan_ms;         /* a box ends itself if nobody was connected for so long */
    struct box_spec pool_spec;
    bool may_nest; /* boxes may have user_namespaces */
    int store;     /* guard's, for descriptors (fdstore.h); -1: none */
    bool faults;   /* honour SANDGLASS_FAIL_STEP */
};

int supervise_main(const struct supervise_opts *o); /* the process's exit status */

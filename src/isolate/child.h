/* What the first process of a box does before it is init. It is sandglass-init already, forked by the spawner as host
 * root, so nothing is executed between the building of a box and its life. */
#pragma once

#include <limits.h>

#include "isolate/cgroup.h"
#include "isolate/network.h"
#include "wire/boot.h"
#include "wire/seat.h"

enum { CHILD_PATH = 512, CHILD_FDS = 1 + CGROUP_PROCS };

/* The first packet on its channel. With it come descriptors: the listening socket, then cgroup.procs of v1. */
struct child_stage {
    char id[BOX_ID_MAX];
    int32_t slot;           /* of its ids and addresses */
    int32_t fail_step;      /* step.h */
    struct network network; /* where it could be linked to */
    /* as struct spawn_paths; "" is none */
    char host_root[CHILD_PATH], host_sudo[CHILD_PATH], layers[CHILD_PATH];
    char image_roots[PATH_MAX], mount_roots[PATH_MAX];
};

struct child_go { /* the second one */
    struct boot boot;
    struct box_spec spec;
    uint32_t address; /* index of its address; 0: no network */
};

struct child_fds {
    int channel, ready, userns, host_ns;
    int nowhere; /* nowhere.h */
    int network; /* socket from which one packet comes: its network namespace, or a struct err that says why not */
};

void child_reset_signals(void);
/* Returns as root of the box, with nothing of the host in sight and the descriptors of wire/boot.h but the first. What
 * goes wrong is told over the channel, and the process ends. */
void child_become_init(const struct child_fds *take_fds, struct boot *ret);
/* What is left to do then, and need not be waited for: before the first program of the box is started. */
void child_settle(void);

/* What root of a box may do inside its own user namespace: about Docker's default set, without MKNOD and
 * NET_RAW, with SYS_PTRACE. None of it reaches a resource of the host, since mounts, network, ipc and
 * uts namespaces of a box belong to the initial user namespace. */
#pragma once

#include <stdint.h>

struct err;

uint64_t caps_kept(void);
/* Drops everything else from all sets but the bounding set, for good, and sets no_new_privs. */
int caps_drop(struct err *e);
/* The same for the bounding set: the second fence, since no_new_privs lets no program gain any. */
int caps_bound(struct err *e);

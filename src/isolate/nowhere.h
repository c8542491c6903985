/* A mount namespace with nothing in it but one empty, read-only directory. Boxes begin with a copy of it: what never was
 * in a namespace need not be taken out of it, which would cost a walk through all tasks of the machine (pivot_root) and a
 * grace period of the kernel (umount) for each box. */
#pragma once

struct err;

int nowhere_open(struct err *e); /* a descriptor of it, which keeps it */
/* The calling process leaves the host's mounts for a copy of its own. */
int nowhere_enter(int nowhere, struct err *e);

/* A process that closes descriptors. The last one of a mount namespace dissolves it, with all that a box wrote: half a
 * millisecond for an empty box, more for a full one. Supervise has others to serve meanwhile, and whoever destroyed the
 * box has no part in it: its processes, cgroups and files in run/ are gone before.
 *
 * Nothing can leak: the descriptors belong to supervise, then to the sweeper, and end with them. */
#pragma once

#include <sys/types.h>

struct err;

struct sweeper {
    int fd; /* -1: none; then descriptors are closed here */
    pid_t pid;
};

int sweeper_open(struct sweeper *s, struct err *e);
void sweeper_take(struct sweeper *s, int take_fd); /* accepts -1 */
void sweeper_close(struct sweeper *s);

/* The process that first processes of boxes are forked from. It is sandglass-init, waiting: small, so that a fork costs
 * far less than an exec, and what it forks can become init as it is. Each is a child of supervise, not of the spawner.
 * While the new process works on, the spawner makes its network namespace, which takes half a millisecond, and ten
 * times that on a bad day. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

struct boot;
struct err;

#define SPAWNER_VARIABLE "SANDGLASS_SPAWNER" /* in its environment: the number of its socket */

struct spawner {
    int fd; /* -1: it is not there, and is started when needed */
    int program;
    pid_t pid;
};

struct spawner_fds { /* borrowed for the call */
    int channel, ready, userns, host_ns;
    int group; /* v2 directory, or -1 */
};

void spawner_init(struct spawner *s, int program); /* descriptor of sandglass-init, borrowed */
void spawner_close(struct spawner *s);
int spawner_start(struct spawner *s, struct err *e);
int spawner_ask(struct spawner *s, const struct spawner_fds *fds, struct err *e);
/* After each spawner_ask, when nothing else is to be done: waits for the fork, and has the network made on our processor. */
int spawner_answer(struct spawner *s, pid_t *ret_pid, int *ret_pidfd, struct err *e);

/* In the spawner: returns in each process that it forks, when that has become a box's init. */
void spawner_serve(int sock, struct boot *ret);

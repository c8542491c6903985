/* sudo: a client in the box asks init, over a socket, to start a program as uid 0 of the box's own user namespace.
 * The program lives as long as its client: if the client dies, the program's tree is killed. */
#pragma once

#include <sys/types.h>

#include "base/err.h"

struct init;

int sudo_listen(struct init *in, struct err *e);
pid_t sudo_client_of(struct init *in, pid_t pid); /* 0: pid was not started for a sudo client */
int sudo_main(int argc, char **argv);             /* the client: init started under the name sudo */

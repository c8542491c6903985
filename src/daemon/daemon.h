/* The roles of the program, as the command line starts them. */
#pragma once

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

struct config;

/* `sandglass serve`: starts and restarts the other roles until SIGTERM or SIGINT. config_argv() gives the words with
 * which a role is started. Returns the exit code. */
int guard_main(const struct config *c, bool json); /* json: says on stdout where it listens, one line */

/* `sandglass role NAME PARENT`: one of supervise, serve, recorder; started by guard or doctor, never by hand. PARENT is the
 * process that started it, without which it ends. */
int role_main(const char *role, pid_t parent, const struct config *c);

void routes_print(FILE *out); /* a JSON object a line: method, path, access */

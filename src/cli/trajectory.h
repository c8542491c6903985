/* A trajectory for a command: from a file of any format that is known, or from the server. */
#pragma once

#include "cli/cli.h"
#include "replay/format.h"

struct loaded {
    struct arena arena;
    struct buf text; /* of the file */
    struct traj_set set;
    bool from_server;
};
void loaded_done(struct loaded *l); /* accepts a zeroed one */

/* what: a file, "-", or else the id of a trajectory, a box or a worker. format: NULL finds out. 0 or an exit code. */
int load_trajectories(struct api *api, const char *what, const char *format, struct loaded *l);
int load_file(const char *path, const char *format, struct loaded *l);

/* A bar on standard error if that is a terminal; done == total removes it. */
void progress(const char *what, int64_t done, int64_t total);

/* May a step be run once more in the same box without changing what later steps see? */
#pragma once

#include "replay/trajectory.h"

/* A tool that only reads, or a shell command made only of programs that do. When in doubt: false. */
bool step_only_reads(struct arena *a, const struct traj_step *s);
bool command_only_reads(struct str command);

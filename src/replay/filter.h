/* Which steps of a trajectory are wanted. */
#pragma once

#include "replay/trajectory.h"

struct traj_filter {
    const char *outcome, *tool; /* NULL: any */
    bool trainable;             /* only these */
    int64_t since_us, until_us; /* 0: no limit; until is exclusive */
    /* of the whole trajectory */
    const char *tag;
    bool has_min, has_max;
    double min_reward, max_reward;
};
bool traj_wanted(const struct trajectory *t, const struct traj_filter *f);
void traj_filter(struct trajectory *t, const struct traj_filter *f);

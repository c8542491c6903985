/* Trajectories go by age and number, as the configuration says: `sandglass prune` as a job, now and then. */
#pragma once

struct node;
void retention_sweep(struct node *n);

/* What kind of result a call had. A failure of the sandbox never looks like a failure of the agent. */
#pragma once

#include <stdbool.h>

enum outcome {
    OUTCOME_OK,
    OUTCOME_TASK_ERROR,      /* the agent's own doing: non-zero exit, no such file */
    OUTCOME_INVALID_REQUEST, /* never ran */
    OUTCOME_TIMEOUT,
    OUTCOME_OOM,
    OUTCOME_DISK_FULL,
    OUTCOME_PID_LIMIT,
    OUTCOME_EGRESS_DENIED,
    OUTCOME_KILLED,   /* ended by request: interrupt, kill, destroy */
    OUTCOME_BOX_LOST, /* the box ended under the call */
    OUTCOME_INFRA_ERROR,
    OUTCOME_COUNT
};

const char *outcome_name(enum outcome o);
bool outcome_trainable(enum outcome o);              /* may a learner take this step as the agent's own result? */
int outcome_find(const char *name, unsigned long n); /* -1: no such outcome */

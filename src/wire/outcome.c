#include "wire/outcome.h"

#include <string.h>

static const struct {
    const char *name;
    bool trainable;
} outcomes[OUTCOME_COUNT] = {
    [OUTCOME_OK] = { "ok", true },
    [OUTCOME_TASK_ERROR] = { "task_error", true },
    [OUTCOME_INVALID_REQUEST] = { "invalid_request", true },
    [OUTCOME_TIMEOUT] = { "timeout", true },
    [OUTCOME_OOM] = { "oom", true },
    [OUTCOME_DISK_FULL] = { "disk_full", true },
    [OUTCOME_PID_LIMIT] = { "pid_limit", true },
    [OUTCOME_EGRESS_DENIED] = { "egress_denied", true },
    [OUTCOME_KILLED] = { "killed", false },
    [OUTCOME_BOX_LOST] = { "box_lost", false },
    [OUTCOME_INFRA_ERROR] = { "infra_error", false },
};

const char *outcome_name(enum outcome o)
{
    return o < OUTCOME_COUNT ? outcomes[o].name : "infra_error";
}

bool outcome_trainable(enum outcome o)
{
    return o < OUTCOME_COUNT && outcomes[o].trainable;
}

int outcome_find(const char *name, unsigned long n)
{
    for (int i = 0; i < OUTCOME_COUNT; i++)
        if (strlen(outcomes[i].name) == n && memcmp(outcomes[i].name, name, n) == 0)
            return i;
    return -1;
}

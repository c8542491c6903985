/* The role `recorder`: makes the log durable, keeps the index, answers what was recorded, stores blobs.
 *
 * It holds no truth: killed at any moment, it goes on from the log and the index's stored position. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

struct recorder_opts {
    const char *home;
    int64_t sync_ms;  /* fdatasync of the log at the latest so many ms after a record; 0: only when asked */
    int64_t grace_ms; /* blobs that are younger are never removed */
    uid_t uid;        /* owner of the socket, so that serve may connect; (uid_t)-1: leave it */
    gid_t gid;
};

int recorder_main(const struct recorder_opts *o); /* until SIGTERM or SIGINT; an exit status */

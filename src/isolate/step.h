/* The steps of making a box, numbered, so that a test can make each one fail in turn and look for what
 * was left behind. Parent and child steps are one sequence; both sides run concurrently, so the numbers name
 * places, not times. Without step_fail_at() a step costs one comparison. */
#pragma once

struct err;

enum step {
    STEP_NONE,
    /* supervise, before the clone */
    STEP_SLOT,
    STEP_USERNS,
    STEP_CHANNEL,
    STEP_CLONE,
    /* supervise, while the child starts */
    STEP_GROUP,
    STEP_SOCKET,
    STEP_STAGE,
    /* supervise, with a blank child at hand */
    STEP_GO,
    STEP_LIMITS,
    STEP_STATE,
    /* the child */
    STEP_UNSHARE,
    STEP_ATTACH,
    STEP_LOOPBACK,
    STEP_LINK,
    STEP_SCRATCH,
    STEP_LOWER,
    STEP_OVERLAY,
    STEP_OVERLAY_USR,
    STEP_BINDS,
    STEP_LEAVE,
    STEP_DEV,
    STEP_PROC,
    STEP_ENTER,
    STEP_CAPS,
    STEP_SECCOMP,
    STEP_INIT,
    /* supervise again */
    STEP_READY,
    STEP_COUNT
};

void step_fail_at(int n);                   /* 0: none */
int step_failing(void);                     /* what was set */
int step_reach(enum step s, struct err *e); /* 0, or an injected failure */

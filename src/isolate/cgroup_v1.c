/* cgroup v1: one hierarchy per controller, as on older distributions and on this kind of hybrid machine. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "isolate/cgroup.h"

/* memsw counts memory and swap together and must never be below memory alone: when the limit is being raised it has
 * to go first, when lowered last. Where it does not exist, at least do not swap this box out. */
static int limit_memory(int dir, int64_t bytes, struct err *e)
{
    int r = cgroup_set(dir, "memory.limit_in_bytes", e, "%lld", (long long)bytes);
    int sw = cgroup_write(dir, "memory.memsw.limit_in_bytes", "%lld", (long long)bytes);
    if (r < 0)
        r = cgroup_set(dir, "memory.limit_in_bytes", e, "%lld", (long long)bytes);
    if (sw == -ENOENT)
        (void)cgroup_write(dir, "memory.swappiness", "0");
    return r;
}

static int limit_cpu(int dir, int64_t quota_us, struct err *e)
{
    return cgroup_set(dir, "cpu.cfs_quota_us", e, "%lld", (long long)quota_us);
}

static int freeze(int dir, bool on, struct err *e)
{
    return cgroup_set(dir, "freezer.state", e, "%s", on ? "FROZEN" : "THAWED");
}

static bool frozen(int dir)
{
    char text[32];
    return cgroup_read(dir, "freezer.state", text, sizeof text) > 0 && strncmp(text, "FROZEN", 6) == 0;
}

/* Only used on directories that nobody owns any more. The list is read and used at once; a box cannot add to it
 * from outside, and what forks meanwhile is found when the caller tries again. */
static int kill_all(int dir)
{
    char text[16384];

    ssize_t n = cgroup_read(dir, "cgroup.procs", text, sizeof text);
    if (n < 0)
        return (int)n;
    for (char *p = text, *end; *p; p = end) {
        long pid = strtol(p, &end, 10);
        if (end == p)
            break;
        if (pid > 1)
            (void)kill((pid_t)pid, SIGKILL);
    }
    (void)freeze(dir, false, NULL);
    return 0;
}

const struct cgroup_version cgroup_v1 = {
    .gauges = { "cpuacct.usage", "memory.max_usage_in_bytes", "memory.oom_control", "pids.events",
                "memory.usage_in_bytes", "memory.stat", "pids.peak" },
    .gauge_job = { CGROUP_USAGE, CGROUP_MEMORY, CGROUP_MEMORY, CGROUP_PIDS, CGROUP_MEMORY, CGROUP_MEMORY, CGROUP_PIDS },
    .limit_memory = limit_memory,
    .limit_cpu = limit_cpu,
    .freeze = freeze,
    .frozen = frozen,
    .kill = kill_all,
};

/* cgroup v2: the unified hierarchy. On a hybrid machine it may have no controller at all and still freezes, kills
 * and measures. */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "isolate/cgroup.h"

static int limit_memory(int dir, int64_t bytes, struct err *e)
{
    (void)cgroup_write(dir, "memory.swap.max", "0"); /* absent without swap accounting */
    /* memory.oom.group stays 0: init must survive to tell which of its calls was killed */
    return cgroup_set(dir, "memory.max", e, "%lld", (long long)bytes);
}

static int limit_cpu(int dir, int64_t quota_us, struct err *e)
{
    return cgroup_set(dir, "cpu.max", e, "%lld %d", (long long)quota_us, (int)CGROUP_PERIOD_US);
}

static int freeze(int dir, bool on, struct err *e)
{
    return cgroup_set(dir, "cgroup.freeze", e, "%d", on);
}

static bool frozen(int dir)
{
    char text[128];
    return cgroup_read(dir, "cgroup.events", text, sizeof text) > 0 && cgroup_parse_key(text, "frozen") == 1;
}

static int kill_all(int dir)
{
    int r = cgroup_write(dir, "cgroup.kill", "1");
    return r == -ENOENT ? cgroup_v1.kill(dir) : r; /* before 5.14; cgroup.procs reads the same */
}

const struct cgroup_version cgroup_v2 = {
    .gauges = { "cpu.stat", "memory.peak", "memory.events", "pids.events", "memory.current", "memory.stat",
                "pids.peak" },
    .gauge_job = { CGROUP_USAGE, CGROUP_MEMORY, CGROUP_MEMORY, CGROUP_PIDS, CGROUP_MEMORY, CGROUP_MEMORY, CGROUP_PIDS },
    .limit_memory = limit_memory,
    .limit_cpu = limit_cpu,
    .freeze = freeze,
    .frozen = frozen,
    .kill = kill_all,
};

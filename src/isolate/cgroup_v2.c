/* cgroup v2: the unified hierarchy. On a hybrid machine it may have no controller at all and still freezes, kills
 * and measures. */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "isolate/cgroup.h"

enum { PERIOD_US = 100000, QUOTA_MIN_US = 1000 };

static int check(int r, const char *what, struct err *e)
{
    if (r >= 0)
        return 0;
    errno = -r;
    return err_sys(e, "set %s", what);
}

static int limit_memory(int dir, int64_t bytes, struct err *e)
{
    (void)cgroup_write(dir, "memory.swap.max", "0"); /* absent without swap accounting */
    /* memory.oom.group stays 0: init must survive to tell which of its calls was killed */
    return check(cgroup_write(dir, "memory.max", "%lld", (long long)bytes), "memory.max", e);
}

static int limit_cpu(int dir, int64_t milli, struct err *e)
{
    long long quota = (long long)(milli * PERIOD_US / 1000);

    if (quota < QUOTA_MIN_US)
        quota = QUOTA_MIN_US;
    return check(cgroup_write(dir, "cpu.max", "%lld %d", quota, (int)PERIOD_US), "cpu.max", e);
}

static int limit(int dir, enum cgroup_job job, const struct cgroup_limits *l, struct err *e)
{
    switch (job) {
    case CGROUP_MEMORY: return limit_memory(dir, l->memory_bytes, e);
    case CGROUP_PIDS: return check(cgroup_write(dir, "pids.max", "%lld", (long long)l->pids), "pids.max", e);
    case CGROUP_CPU: return limit_cpu(dir, l->cpu_milli, e);
    case CGROUP_USAGE:
    case CGROUP_FREEZE:
    case CGROUP_JOBS: return 0;
    }
    return 0;
}

static int freeze(int dir, bool on, struct err *e)
{
    return check(cgroup_write(dir, "cgroup.freeze", on ? "1" : "0"), "cgroup.freeze", e);
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
    .gauges = { "cpu.stat", "memory.peak", "memory.events", "pids.events", "memory.current", "memory.stat" },
    .gauge_job = { CGROUP_USAGE, CGROUP_MEMORY, CGROUP_MEMORY, CGROUP_PIDS, CGROUP_MEMORY, CGROUP_MEMORY },
    .limit = limit,
    .freeze = freeze,
    .frozen = frozen,
    .kill = kill_all,
};

#include "isolate/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <linux/mount.h>
#include <sys/syscall.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/log.h"
#include "wire/seat.h"

enum { FILE_MAX = 64 * 1024, QUOTA_MIN_US = 1000 };

/* --- text --- */

unsigned cgroup_parse_jobs(const char *controllers)
{
    static const struct {
        const char *name;
        unsigned jobs;
    } known[] = {
        { "memory", 1u << CGROUP_MEMORY }, { "pids", 1u << CGROUP_PIDS },      { "cpu", 1u << CGROUP_CPU },
        { "cpuacct", 1u << CGROUP_USAGE }, { "freezer", 1u << CGROUP_FREEZE },
    };
    unsigned jobs = 0;

    for (const char *p = controllers; *p;) {
        size_t n = strcspn(p, ", \n");
        for (size_t i = 0; i < ARRAY_LEN(known); i++)
            if (strlen(known[i].name) == n && strncmp(p, known[i].name, n) == 0)
                jobs |= known[i].jobs;
        p += n + strspn(p + n, ", \n");
    }
    return jobs;
}

int64_t cgroup_parse_key(const char *text, const char *key)
{
    size_t n = strlen(key);

    for (const char *p = text; p && *p; p = strchr(p, '\n'), p = p ? p + 1 : NULL) {
        long long value;
        if (strncmp(p, key, n) == 0 && p[n] == ' ' && sscanf(p + n, "%lld", &value) == 1)
            return value;
    }
    return -1;
}

/* "36 35 0:30 / /sys/fs/cgroup/pids rw,nosuid shared:9 - cgroup cgroup rw,pids" */
int cgroup_parse_mounts(const char *mountinfo, struct cgroup_mount *out, int max)
{
    int n = 0;

    for (const char *line = mountinfo; line && *line && n < max;) {
        const char *end = strchrnul(line, '\n');
        const char *dash = memmem(line, (size_t)(end - line), " - ", 3);
        char path[256], type[32], super[512];

        if (dash && sscanf(line, "%*s %*s %*s %*s %255s", path) == 1 &&
            sscanf(dash + 3, "%31s %*s %511s", type, super) == 2) {
            struct cgroup_mount m = { .v2 = strcmp(type, "cgroup2") == 0 };
            if (!m.v2 && strcmp(type, "cgroup") == 0)
                m.jobs = cgroup_parse_jobs(super);
            if (m.v2 || m.jobs) {
                snprintf(m.path, sizeof m.path, "%s", path);
                snprintf(m.options, sizeof m.options, "%.*s", (int)sizeof m.options - 1, super);
                out[n++] = m;
            }
        }
        line = *end ? end + 1 : end;
    }
    return n;
}

static int write_text(int dir, const char *file, const char *fmt, va_list ap)
{
    char text[128];
    int n = vsnprintf(text, sizeof text, fmt, ap);
    auto_close int fd = openat(dir, file, O_WRONLY | O_CLOEXEC);

    return fd < 0 || write(fd, text, (size_t)n) < 0 ? -errno : 0;
}

int cgroup_write(int dir, const char *file, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    int r = write_text(dir, file, fmt, ap);
    va_end(ap);
    return r;
}

int cgroup_set(int dir, const char *file, struct err *e, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    int r = write_text(dir, file, fmt, ap);
    va_end(ap);
    errno = -r;
    return r < 0 ? err_sys(e, "set %s", file) : 0;
}

ssize_t cgroup_read(int dir, const char *file, char *out, size_t size)
{
    auto_close int fd = openat(dir, file, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    ssize_t n = read(fd, out, size - 1);
    if (n < 0)
        return -errno;
    out[n] = 0;
    return n;
}

/* --- finding the hierarchies --- */

static int open_named(const char *mount, const char *name)
{
    auto_close int top = open(mount, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (top < 0)
        return -1;
    if (mkdirat(top, name, 0755) < 0 && errno != EEXIST)
        return -1;
    return openat(top, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
}

/* Controllers must be passed down from the mount's root to <name> and from there to the boxes. In a container whose
 * own processes sit in that root the kernel refuses (EBUSY: no inner processes); those jobs are then missing. */
static unsigned enable_v2(const char *mount, int dir)
{
    static const char *const wanted[] = { "+memory", "+pids", "+cpu" };
    char text[512];

    auto_close int top = open(mount, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (size_t i = 0; i < ARRAY_LEN(wanted); i++) {
        (void)cgroup_write(top, "cgroup.subtree_control", "%s", wanted[i]);
        (void)cgroup_write(dir, "cgroup.subtree_control", "%s", wanted[i]);
    }
    unsigned jobs = 1u << CGROUP_USAGE | 1u << CGROUP_FREEZE; /* core files, no controller needed */
    if (cgroup_read(dir, "cgroup.subtree_control", text, sizeof text) >= 0)
        jobs |= cgroup_parse_jobs(text);
    return jobs;
}

/* All boxes together weigh as much as one process on each processor; the kernel's default, as much as a single one, lets
 * the server's own work leave too little for them. */
static void give_weight(int dir)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);

    n = n < 1 ? 1 : n > 100 ? 100 : n;
    if (cgroup_write(dir, "cpu.shares", "%ld", n * 1024) < 0)
        (void)cgroup_write(dir, "cpu.weight", "%ld", n * 100);
}

static void add_tree(struct cgroups *g, const struct cgroup_mount *m, const char *name)
{
    unsigned free_jobs = m->v2 ? ~0u : m->jobs & ~g->can;
    if (g->count == CGROUP_TREES || free_jobs == 0)
        return;
    int dir = open_named(m->path, name);
    if (dir < 0)
        return;
    unsigned jobs = m->v2 ? enable_v2(m->path, dir) : free_jobs;
    if (jobs & ~g->can & 1u << CGROUP_CPU)
        give_weight(dir);
    g->trees[g->count++] =
        (struct cgroup_tree){ .dir = dir, .version = m->v2 ? &cgroup_v2 : &cgroup_v1, .jobs = jobs & ~g->can };
    g->can |= jobs;
}

/* Moving a process into a cgroup takes a lock whose writer waits for a grace period of the kernel, some ten
 * milliseconds; a hierarchy that favours changes keeps it ready, and a move takes microseconds. It costs every fork of
 * the machine a little, is the same lock for all hierarchies, and is off by default. Older kernels (before 6.0) do not
 * know it. */
static void favor_changes(const struct cgroup_mount *m)
{
    char options[sizeof m->options + 16], *rest = options;
    auto_close int fs = (int)syscall(SYS_fspick, AT_FDCWD, m->path, FSPICK_CLOEXEC);
    int r = fs;

    if (strstr(m->options, "favordynmods"))
        return;
    /* What is not said again would be switched off. */
    snprintf(options, sizeof options, "%.*s,favordynmods", (int)sizeof m->options - 1, m->options);
    for (char *o; r >= 0 && (o = strsep(&rest, ","));)
        if (strcmp(o, "rw") != 0 && *o)
            r = (int)syscall(SYS_fsconfig, fs, FSCONFIG_SET_FLAG, o, NULL, 0);
    if (r < 0 || syscall(SYS_fsconfig, fs, FSCONFIG_CMD_RECONFIGURE, NULL, NULL, 0) < 0)
        log_debug("no favordynmods", "mount=%s errno=%d, making boxes takes longer", m->path, errno);
}

int cgroups_open(const char *name, struct cgroups *ret, struct err *e)
{
    struct cgroup_mount mounts[32];
    auto_free char *text = malloc(FILE_MAX);
    if (!text)
        abort();
    ssize_t n = cgroup_read(AT_FDCWD, "/proc/self/mountinfo", text, FILE_MAX);
    if (n < 0) {
        errno = (int)-n;
        return err_sys(e, "read mountinfo");
    }
    int count = cgroup_parse_mounts(text, mounts, (int)ARRAY_LEN(mounts));

    *ret = (struct cgroups){ 0 };
    for (int v2 = 1; v2 >= 0; v2--) /* v2 first: what it can do, v1 need not */
        for (int i = 0; i < count; i++)
            if (mounts[i].v2 == v2)
                add_tree(ret, &mounts[i], name);
    for (int i = 0; i < count; i++)
        if (mounts[i].v2)
            favor_changes(&mounts[i]);
    if (ret->count == 0)
        return err_set(e, ERR_SYSTEM, "no cgroup hierarchy can be written: boxes would have no limits");
    return 0;
}

void cgroups_close(struct cgroups *g)
{
    for (int i = 0; i < g->count; i++)
        close(g->trees[i].dir);
    g->count = 0;
}

void cgroups_remove(struct cgroups *g, const char *name)
{
    char path[300];

    snprintf(path, sizeof path, "../%.256s", name);
    for (int i = 0; i < g->count; i++)
        (void)unlinkat(g->trees[i].dir, path, AT_REMOVEDIR);
    cgroups_close(g);
}

unsigned cgroups_unenforced(const struct cgroups *g)
{
    unsigned missing = 0;

    if (!(g->can & 1u << CGROUP_MEMORY))
        missing |= BOX_CAN_MEMORY;
    if (!(g->can & 1u << CGROUP_CPU))
        missing |= BOX_CAN_CPU;
    if (!(g->can & 1u << CGROUP_PIDS))
        missing |= BOX_CAN_PIDS;
    return missing;
}

/* --- one box --- */

static int open_box(const struct cgroup_tree *t, const char *id)
{
    return openat(t->dir, id, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
}

static int open_job(const struct cgroups *g, const char *id, enum cgroup_job job, const struct cgroup_version **ret)
{
    for (int i = 0; i < g->count; i++)
        if (g->trees[i].jobs & 1u << job) {
            *ret = g->trees[i].version;
            return open_box(&g->trees[i], id);
        }
    errno = EOPNOTSUPP;
    return -1;
}

int cgroup_make(const struct cgroups *g, const char *id, struct err *e)
{
    for (int i = 0; i < g->count; i++)
        if (mkdirat(g->trees[i].dir, id, 0755) < 0 && errno != EEXIST)
            return err_sys(e, "make cgroup %s", id);
    return 0;
}

int cgroup_make_v2(const struct cgroups *g, const char *id, int *ret_dir, struct err *e)
{
    *ret_dir = -1;
    for (int i = 0; i < g->count; i++)
        if (g->trees[i].version == &cgroup_v2) {
            if (mkdirat(g->trees[i].dir, id, 0755) < 0 && errno != EEXIST)
                return err_sys(e, "make cgroup %s", id);
            *ret_dir = open_box(&g->trees[i], id);
            return *ret_dir < 0 ? err_sys(e, "open cgroup %s", id) : 0;
        }
    return 0;
}

static int limit(const struct cgroup_version *v, int dir, enum cgroup_job job, const struct cgroup_limits *l,
                 struct err *e)
{
    int64_t quota = l->cpu_milli * CGROUP_PERIOD_US / 1000;

    switch (job) {
    case CGROUP_MEMORY: return v->limit_memory(dir, l->memory_bytes, e);
    case CGROUP_PIDS: return cgroup_set(dir, "pids.max", e, "%lld", (long long)l->pids);
    case CGROUP_CPU: return v->limit_cpu(dir, quota < QUOTA_MIN_US ? QUOTA_MIN_US : quota, e);
    case CGROUP_USAGE:
    case CGROUP_FREEZE:
    case CGROUP_JOBS: break;
    }
    return 0;
}

int cgroup_limit(const struct cgroups *g, const char *id, const struct cgroup_limits *l, struct err *e)
{
    static const enum cgroup_job limits[] = { CGROUP_MEMORY, CGROUP_PIDS, CGROUP_CPU };

    for (int i = 0; i < g->count; i++) {
        auto_close int dir = -1;
        for (size_t j = 0; j < ARRAY_LEN(limits); j++) {
            if (!(g->trees[i].jobs & 1u << limits[j]))
                continue;
            if (dir < 0)
                dir = open_box(&g->trees[i], id);
            if (dir < 0)
                return err_sys(e, "open cgroup %s", id);
            int r = limit(g->trees[i].version, dir, limits[j], l, e);
            if (r < 0)
                return r;
        }
    }
    return 0;
}

int cgroup_procs(const struct cgroups *g, const char *id, int fds[CGROUP_PROCS], struct err *e)
{
    char path[BOX_ID_MAX + 16];
    int n = 0;

    snprintf(path, sizeof path, "%.31s/cgroup.procs", id);
    for (int i = 0; i < g->count; i++) {
        if (g->trees[i].version == &cgroup_v2)
            continue;
        int fd = openat(g->trees[i].dir, path, O_WRONLY | O_CLOEXEC);
        if (fd < 0) {
            int r = err_sys(e, "open %s", path);
            while (n > 0)
                close(fds[--n]);
            return r;
        }
        fds[n++] = fd;
    }
    return n;
}

int cgroup_freeze(const struct cgroups *g, const char *id, bool on, struct err *e)
{
    const struct cgroup_version *v;
    auto_close int dir = open_job(g, id, CGROUP_FREEZE, &v);
    if (dir < 0)
        return err_sys(e, "%s box %s", on ? "freeze" : "thaw", id);
    return v->freeze(dir, on, e);
}

int cgroup_each_pid(const struct cgroups *g, const char *id, void (*found)(void *arg, int pid), void *arg)
{
    const struct cgroup_version *v;
    auto_close int dir = open_job(g, id, CGROUP_FREEZE, &v);
    int fd = dir < 0 ? -1 : openat(dir, "cgroup.procs", O_RDONLY | O_CLOEXEC);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
    int pid;

    if (!f)
        return -errno;
    while (fscanf(f, "%d", &pid) == 1)
        found(arg, pid);
    fclose(f);
    return 0;
}

bool cgroup_frozen(const struct cgroups *g, const char *id)
{
    const struct cgroup_version *v;
    auto_close int dir = open_job(g, id, CGROUP_FREEZE, &v);
    return dir >= 0 && v->frozen(dir);
}

void cgroup_kill(const struct cgroups *g, const char *id)
{
    for (int i = 0; i < g->count; i++) {
        auto_close int dir = open_box(&g->trees[i], id);
        if (dir >= 0 && g->trees[i].version->kill(dir) == 0 && g->trees[i].version == &cgroup_v2)
            return; /* every process of a box is in the v2 directory, if there is one */
    }
}

int cgroup_gauge(const struct cgroups *g, const char *id, int gauge)
{
    char path[BOX_ID_MAX + 64];

    for (int i = 0; i < g->count; i++) {
        const struct cgroup_version *v = g->trees[i].version;
        if (!v->gauges[gauge] || !(g->trees[i].jobs & 1u << v->gauge_job[gauge]))
            continue;
        snprintf(path, sizeof path, "%.31s/%s", id, v->gauges[gauge]);
        /* the peak can be reset by writing, if the kernel lets it */
        int fd = gauge == GAUGE_MEMORY_PEAK ? openat(g->trees[i].dir, path, O_RDWR | O_CLOEXEC) : -1;
        return fd >= 0 ? fd : openat(g->trees[i].dir, path, O_RDONLY | O_CLOEXEC);
    }
    return -1;
}

int64_t cgroup_oom_kills(const struct cgroups *g, const char *id)
{
    char text[1024];
    auto_close int fd = cgroup_gauge(g, id, GAUGE_MEMORY_EVENTS);
    if (fd < 0)
        return 0;
    ssize_t n = pread(fd, text, sizeof text - 1, 0);
    if (n <= 0)
        return 0;
    text[n] = 0;
    int64_t kills = cgroup_parse_key(text, "oom_kill");
    return kills < 0 ? 0 : kills;
}

int cgroup_remove(const struct cgroups *g, const char *id)
{
    int r = 0;

    for (int i = 0; i < g->count; i++)
        if (unlinkat(g->trees[i].dir, id, AT_REMOVEDIR) < 0 && errno != ENOENT)
            r = -EBUSY;
    return r;
}

void cgroup_each(const struct cgroups *g, void (*found)(void *arg, const char *id), void *arg)
{
    for (int i = 0; i < g->count; i++) {
        int fd = openat(g->trees[i].dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *d = fd < 0 ? NULL : fdopendir(fd);
        for (struct dirent *x; d && (x = readdir(d));)
            if (x->d_type == DT_DIR && x->d_name[0] != '.')
                found(arg, x->d_name);
        if (d)
            closedir(d);
    }
}

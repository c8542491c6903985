/* Limits, freezing and measuring of boxes: one directory per box and hierarchy, <mount>/<name>/<box id>.
 *
 * A machine may have cgroup v2, v1, or both with the controllers split between them. Each job (memory, pids,
 * cpu, measuring, freezing) is given to the hierarchy that can do it, v2 first; a job that nobody can do is missing
 * from .can. A box never has a process in the way here: killing is by its init's pidfd, since a pid namespace dies with
 * its first process; cgroup_kill is for what is found after a crash. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct err;

enum cgroup_job { CGROUP_MEMORY, CGROUP_PIDS, CGROUP_CPU, CGROUP_USAGE, CGROUP_FREEZE, CGROUP_JOBS };

enum { CGROUP_PERIOD_US = 100000 };

struct cgroup_limits {
    int64_t memory_bytes, pids, cpu_milli;
};

/* How one version of cgroups does the jobs; in cgroup_v1.c and cgroup_v2.c. dir is the box's own directory. */
struct cgroup_version {
    const char *gauges[7]; /* file names in the order of wire/seat.h's GAUGE_* */
    enum cgroup_job gauge_job[7];
    int (*limit_memory)(int dir, int64_t bytes, struct err *e);
    int (*limit_cpu)(int dir, int64_t quota_us, struct err *e); /* of each CGROUP_PERIOD_US */
    int (*freeze)(int dir, bool on, struct err *e);
    bool (*frozen)(int dir);
    int (*kill)(int dir);
};
extern const struct cgroup_version cgroup_v1, cgroup_v2;

struct cgroup_tree {
    int dir; /* <mount>/<name> */
    const struct cgroup_version *version;
    unsigned jobs; /* bits 1 << enum cgroup_job */
};

enum { CGROUP_TREES = 8, CGROUP_PROCS = CGROUP_TREES };

struct cgroups {
    struct cgroup_tree trees[CGROUP_TREES];
    int count;
    unsigned can; /* union of all jobs */
};

/* Finds and prepares the hierarchies. Fails only if not one can be used. */
int cgroups_open(const char *name, struct cgroups *ret, struct err *e);
void cgroups_close(struct cgroups *g);
void cgroups_remove(struct cgroups *g, const char *name); /* its directories, if they are empty, and closes */
unsigned cgroups_unenforced(const struct cgroups *g);     /* BOX_CAN_* bits that are missing */

int cgroup_make(const struct cgroups *g, const char *id, struct err *e);
/* Only the v2 directory, for CLONE_INTO_CGROUP; *ret_dir is -1 where there is none. cgroup_make makes the others. */
int cgroup_make_v2(const struct cgroups *g, const char *id, int *ret_dir, struct err *e);
int cgroup_limit(const struct cgroups *g, const char *id, const struct cgroup_limits *l, struct err *e);
/* cgroup.procs of each v1 directory; writing "0" attaches the writer. Returns how many. */
int cgroup_procs(const struct cgroups *g, const char *id, int fds[CGROUP_PROCS], struct err *e);
int cgroup_freeze(const struct cgroups *g, const char *id, bool on, struct err *e);
/* Its processes, as this one sees them. */
int cgroup_each_pid(const struct cgroups *g, const char *id, void (*found)(void *arg, int pid), void *arg);
bool cgroup_frozen(const struct cgroups *g, const char *id);
void cgroup_kill(const struct cgroups *g, const char *id);
int cgroup_gauge(const struct cgroups *g, const char *id, int gauge); /* a descriptor, or -1 */
int64_t cgroup_oom_kills(const struct cgroups *g, const char *id);
int cgroup_remove(const struct cgroups *g, const char *id); /* 0: nothing is left, -EBUSY: try again */
void cgroup_each(const struct cgroups *g, void (*found)(void *arg, const char *id), void *arg);

/* For the back ends */
int cgroup_write(int dir, const char *file, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* As cgroup_write, with an error that names the file. */
int cgroup_set(int dir, const char *file, struct err *e, const char *fmt, ...) __attribute__((format(printf, 4, 5)));
ssize_t cgroup_read(int dir, const char *file, char *out, size_t size); /* NUL-terminated */

/* For tests: the pure parts */
struct cgroup_mount {
    char options[256]; /* of the file system: "rw,nsdelegate" */
    char path[256];
    bool v2;
    unsigned jobs; /* v1: by its controllers */
};
int cgroup_parse_mounts(const char *mountinfo, struct cgroup_mount *out, int max);
unsigned cgroup_parse_jobs(const char *controllers);         /* "cpuset,cpu,memory" or "cpuset cpu memory" */
int64_t cgroup_parse_key(const char *text, const char *key); /* "key value" lines; -1: absent */

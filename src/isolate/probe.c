#include "isolate/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "isolate/cgroup.h"
#include "isolate/idmap.h"
#include "isolate/mountfd.h"
#include "isolate/seccomp.h"

enum { DETAIL = 256 };

typedef int trial(struct err *e); /* 0 or a negative errno, with the story in e */

/* Runs a trial where its mounts, ids and filters end with it. */
static int in_child(trial *t, struct err *e)
{
    int pipes[2], status = 0;

    if (pipe2(pipes, O_CLOEXEC) < 0)
        return err_sys(e, "pipe");
    pid_t pid = fork();
    if (pid == 0) {
        struct err story = { 0 };
        int r = t(&story);
        if (r < 0)
            (void)!write(pipes[1], &story, sizeof story);
        _exit(r < 0);
    }
    close(pipes[1]);
    struct err story = { 0 };
    ssize_t n = pid < 0 ? -1 : read(pipes[0], &story, sizeof story);
    close(pipes[0]);
    if (pid < 0)
        return err_sys(e, "fork");
    (void)waitpid(pid, &status, 0);
    if (status == 0)
        return 0;
    if (n == (ssize_t)sizeof story)
        *e = story;
    else
        err_set(e, ERR_SYSTEM, "the trial ended with status %d", status);
    return -EIO;
}

static int new_mounts(struct err *e)
{
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return err_sys(e, "a mount namespace");
    return 0;
}

static int try_mnt(struct err *e)
{
    return new_mounts(e);
}
static int try_unshare(int flag, const char *what, struct err *e)
{
    return unshare(flag) < 0 ? err_sys(e, "%s", what) : 0;
}
static int try_pid(struct err *e)
{
    return try_unshare(CLONE_NEWPID, "a pid namespace", e);
}
static int try_net(struct err *e)
{
    return try_unshare(CLONE_NEWNET, "a network namespace", e);
}
static int try_ipc_uts(struct err *e)
{
    return try_unshare(CLONE_NEWIPC | CLONE_NEWUTS, "an ipc and a uts namespace", e);
}
static int try_cgroup_ns(struct err *e)
{
    return try_unshare(CLONE_NEWCGROUP, "a cgroup namespace", e);
}

static int try_userns(struct err *e)
{
    static struct idmap ids;
    int r = idmap_userns(&ids, IDMAP_SLOTS - 1, false, e); /* far from any box's */
    return r < 0 ? r : 0;
}

/* As a program of a box with user_namespaces does it: a user without rights, in a box's namespace. */
static int try_nested(struct err *e)
{
    static struct idmap ids;
    int r = idmap_userns(&ids, IDMAP_SLOTS - 1, true, e);

    if (r < 0)
        return r;
    if (setns(r, CLONE_NEWUSER) < 0 || syscall(SYS_setresgid, 1000, 1000, 1000) < 0 ||
        syscall(SYS_setresuid, 1000, 1000, 1000) < 0)
        return err_sys(e, "become a box's user");
    r = try_unshare(CLONE_NEWUSER, "a user namespace in a box's", e);
    return r < 0 ? r : try_unshare(CLONE_NEWPID | CLONE_NEWNET, "a pid and a network namespace in that", e);
}

static int make_tmpfs(struct err *e)
{
    const char *const opts[] = { "size=1m", "mode=0755", NULL };
    return mountfd_new("tmpfs", opts, 0, e);
}

static int try_tmpfs(struct err *e)
{
    int fd = make_tmpfs(e);
    return fd < 0 ? fd : 0;
}

/* As boxes do it: both sides seen through a mapping. mapped false: plain, to tell which part fails. */
static int overlay_trial(bool mapped, struct err *e)
{
    static struct idmap ids;

    int r = new_mounts(e);
    if (r < 0)
        return r;
    int map = mapped ? idmap_userns(&ids, IDMAP_SLOTS - 1, false, e) : -1;
    if (mapped && map < 0)
        return map;
    int scratch = make_tmpfs(e);
    if (scratch < 0)
        return scratch;
    if (mkdirat(scratch, "u", 0755) < 0 || mkdirat(scratch, "w", 0755) < 0)
        return err_sys(e, "mkdir in tmpfs");
    r = mountfd_set(scratch, 0, map, e);
    if (r < 0)
        return err_wrap(e, r, "tmpfs");
    int lower = mountfd_clone(AT_FDCWD, "/usr", 0, map, e);
    if (lower < 0)
        return err_wrap(e, lower, "/usr");
    if (mapped && mountfd_become(idmap_base(IDMAP_SLOTS - 1), e) < 0)
        return -EPERM;
    const struct overlay_opts o = { .lower = &lower,
                                    .lower_count = 1,
                                    .upper = openat(scratch, "u", O_PATH | O_CLOEXEC),
                                    .work = openat(scratch, "w", O_PATH | O_CLOEXEC) };
    int root = mountfd_overlay(&o, e);
    if (root < 0)
        return root;
    int file = openat(root, "probe", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    return file < 0 ? err_sys(e, "create a file in the overlay") : 0;
}
static int try_overlay(struct err *e)
{
    return overlay_trial(false, e);
}
static int try_idmap(struct err *e)
{
    return overlay_trial(true, e);
}

static int try_seccomp(struct err *e)
{
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return err_sys(e, "no_new_privs");
    int r = seccomp_load(NULL, NULL, e);
    if (r < 0)
        return r;
    if (unshare(CLONE_NEWUTS) == 0 || errno != EPERM)
        return err_set(e, ERR_SYSTEM, "the filter is loaded but does not bite");
    return 0;
}

static int try_pidfd(struct err *e)
{
    auto_close int fd = (int)syscall(SYS_pidfd_open, getpid(), 0);
    if (fd < 0 || syscall(SYS_pidfd_send_signal, fd, 0, NULL, 0) < 0)
        return err_sys(e, "pidfd_open, pidfd_send_signal");
    return 0;
}

static int try_openat2(struct err *e)
{
    struct open_how how = { .flags = O_PATH, .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS };
    auto_close int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    auto_close int fd = (int)syscall(SYS_openat2, root, "usr", &how, sizeof how);
    return fd < 0 ? err_sys(e, "openat2") : 0;
}

static int try_nft(struct err *e)
{
    if (unshare(CLONE_NEWNET) < 0)
        return err_sys(e, "a network namespace");
    int status =
        system("PATH=/usr/sbin:/usr/bin:/sbin:/bin nft 'table ip probe { chain c { type filter hook prerouting "
               "priority raw; fib saddr . iif oif missing drop; }; chain n { type nat hook postrouting priority "
               "srcnat; masquerade; }; chain r { reject; }; }' >/dev/null 2>&1");
    return status == 0 ? 0 : err_set(e, ERR_SYSTEM, "nft cannot load fib, masquerade and reject");
}

static const struct {
    const char *name;
    trial *run;
    bool child;
    const char *switches_off, *remedy;
} trials[] = {
    { "openat2", try_openat2, false, "boxes", "run Linux 5.6 or newer" },
    { "pidfd", try_pidfd, false, "boxes", "run Linux 5.4 or newer" },
    { "namespace mnt", try_mnt, true, "boxes", "run as root with CAP_SYS_ADMIN" },
    { "namespace pid", try_pid, true, "boxes", "run as root with CAP_SYS_ADMIN" },
    { "namespace net", try_net, true, "boxes", "run as root with CAP_SYS_ADMIN" },
    { "namespace ipc, uts", try_ipc_uts, true, "boxes", "run as root with CAP_SYS_ADMIN" },
    { "namespace cgroup", try_cgroup_ns, true, "boxes", "run as root with CAP_SYS_ADMIN" },
    { "namespace user", try_userns, true, "boxes", "set user.max_user_namespaces above 0" },
    { "namespaces, nested", try_nested, true, "box.user_namespaces: Chromium's own sandbox",
      "let users make user namespaces: kernel.unprivileged_userns_clone=1, "
      "kernel.apparmor_restrict_unprivileged_userns=0" },
    { "tmpfs by descriptor", try_tmpfs, true, "boxes", "run Linux 5.12 or newer with the new mount calls allowed" },
    { "overlay", try_overlay, true, "boxes", "load the module overlay; in a container, give it a volume for its home" },
    { "overlay, ids mapped", try_idmap, true, "boxes", "run Linux 6.6 or newer with /usr on ext4, xfs or btrfs" },
    { "seccomp, no_new_privs", try_seccomp, true, "boxes", "build the kernel with CONFIG_SECCOMP_FILTER" },
    { "nft", try_nft, true, "network full", "install nftables; load nft_fib_ipv4, nft_masq, nft_reject" },
};

/* --- cgroups: a real group, a real limit, a real member --- */

static const char *const job_names[CGROUP_JOBS] = { "memory", "pids", "cpu", "usage", "freeze" };

static int join_group(const struct cgroups *g, const char *id, struct err *e)
{
    int procs[CGROUP_PROCS], status = 0;

    int n = cgroup_procs(g, id, procs, e);
    if (n < 0)
        return n;
    pid_t pid = fork();
    if (pid == 0) {
        for (int i = 0; i < n; i++)
            if (write(procs[i], "0", 1) != 1)
                _exit(1);
        _exit(0);
    }
    for (int i = 0; i < n; i++)
        close(procs[i]);
    if (pid < 0 || waitpid(pid, &status, 0) < 0 || status != 0)
        return err_set(e, ERR_SYSTEM, "a process cannot be attached");
    return 0;
}

static int probe_cgroups(const char *name, on_probe *report, void *arg)
{
    struct cgroups g;
    struct err e = { 0 };
    const struct cgroup_limits limits = { .memory_bytes = 64L << 20, .pids = 64, .cpu_milli = 500 };
    char id[32], detail[DETAIL];
    int failed = 0;

    if (cgroups_open(name, &g, &e) < 0) {
        report(arg, "cgroups", false, e.msg, "limits", "mount cgroup2 on /sys/fs/cgroup, writable");
        return 1;
    }
    snprintf(id, sizeof id, "p-%d", (int)getpid());
    int r = cgroup_make(&g, id, &e);
    if (r >= 0)
        r = cgroup_limit(&g, id, &limits, &e);
    if (r >= 0)
        r = join_group(&g, id, &e);
    for (int job = 0; job < CGROUP_JOBS; job++) {
        bool can = r >= 0 && (g.can & 1u << job);
        int version = 0;
        for (int i = 0; i < g.count; i++)
            if (g.trees[i].jobs & 1u << job)
                version = g.trees[i].version == &cgroup_v2 ? 2 : 1;
        char row[32];
        snprintf(row, sizeof row, "cgroup %s", job_names[job]);
        snprintf(detail, sizeof detail, "by cgroup v%d", version);
        if (!can)
            snprintf(detail, sizeof detail, "%s", r < 0 ? e.msg : "no such controller");
        report(arg, row, can, detail, can ? "" : "that limit (box.allow_unenforced)",
               can ? "" : "enable the controller");
        failed += !can;
    }
    (void)cgroup_remove(&g, id);
    cgroups_remove(&g, name);
    return failed;
}

int probe_all(const struct probe_opts *o, on_probe *report, void *arg)
{
    int failed = 0;

    for (size_t i = 0; i < ARRAY_LEN(trials); i++) {
        struct err e = { 0 };
        bool ok = (trials[i].child ? in_child(trials[i].run, &e) : trials[i].run(&e)) >= 0;
        report(arg, trials[i].name, ok, ok ? "works" : e.msg, ok ? "" : trials[i].switches_off,
               ok ? "" : trials[i].remedy);
        failed += !ok;
    }
    return failed + probe_cgroups(o && o->cgroup_name ? o->cgroup_name : "sandglass-probe", report, arg);
}

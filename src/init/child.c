#include "init/child.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/auto.h"
#include "base/limits.h"
#include "init/init.h"
#include "isolate/caps.h"

struct child {
    pid_t pid;
    on_exit_of *cb;
    void *arg;
    struct child *next;
};

pid_t child_fork(struct init *in, on_exit_of *cb, void *arg, struct err *e)
{
    pid_t pid = fork();

    if (pid < 0)
        return err_sys(e, "fork");
    if (pid == 0) {
        sigset_t none;
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        signal(SIGPIPE, SIG_DFL);
        return 0;
    }
    struct child *c = malloc(sizeof *c);
    if (!c)
        abort();
    *c = (struct child){ .pid = pid, .cb = cb, .arg = arg, .next = in->children };
    in->children = c;
    return pid;
}

void child_hold(struct child_place *p)
{
    cpu_set_t here;
    unsigned at;

    p->held = false;
    if (sched_getaffinity(0, sizeof p->processors, &p->processors) < 0 || CPU_COUNT(&p->processors) < 2 ||
        getcpu(&at, NULL) < 0 || at >= CPU_SETSIZE)
        return;
    CPU_ZERO(&here);
    CPU_SET(at, &here);
    p->held = sched_setaffinity(0, sizeof here, &here) == 0;
}

void child_release(const struct child_place *p)
{
    if (p->held)
        (void)sched_setaffinity(0, sizeof p->processors, &p->processors);
}

static struct child *child_take(struct init *in, pid_t pid)
{
    for (struct child **at = &in->children; *at; at = &(*at)->next)
        if ((*at)->pid == pid) {
            struct child *c = *at;
            *at = c->next;
            return c;
        }
    return NULL;
}

void child_forget(struct init *in, pid_t pid)
{
    free(child_take(in, pid));
}

void child_reap(struct init *in)
{
    int status;

    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
        auto_free struct child *c = child_take(in, pid);
        if (c && c->cb)
            c->cb(c->arg, pid, status);
    }
}

void child_limit(const struct init *in)
{
    rlim_t files = in->boot.open_files > 0 ? (rlim_t)in->boot.open_files : 1024;
    struct rlimit no_core = { LIMIT_CORE, LIMIT_CORE };
    struct rlimit rl = { files, files };

    /* The OOM killer must take a program before it takes init. While a process is not dumpable, which a forked init
     * is not, the file belongs to the root of whoever executed init: the host. */
    (void)prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
        (void)!write(fd, "1000", 4);
        close(fd);
    }
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    (void)setrlimit(RLIMIT_CORE, &no_core);
    if (setrlimit(RLIMIT_NOFILE, &rl) < 0 && getrlimit(RLIMIT_NOFILE, &rl) == 0) {
        rl.rlim_cur = rl.rlim_max < files ? rl.rlim_max : files;
        (void)setrlimit(RLIMIT_NOFILE, &rl);
    }
}

void child_become_user(const struct init *in)
{
    struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct none[2] = { 0 };
    uid_t r, e, s;
    gid_t gr, ge, gs;

    (void)in;
    for (unsigned long cap = 0; cap < 64; cap++) /* the others went when the box was made */
        if (caps_kept() >> cap & 1)
            (void)prctl(PR_CAPBSET_DROP, cap, 0, 0, 0);
    (void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    if (setgroups(0, NULL) < 0 || setresgid(BOX_GID, BOX_GID, BOX_GID) < 0 ||
        setresuid(BOX_UID, BOX_UID, BOX_UID) < 0 || syscall(SYS_capset, &head, none) < 0)
        _exit(126);
    if (getresuid(&r, &e, &s) < 0 || r != BOX_UID || e != BOX_UID || s != BOX_UID || getresgid(&gr, &ge, &gs) < 0 ||
        gr != BOX_GID || ge != BOX_GID || gs != BOX_GID || setuid(0) == 0)
        _exit(126);
}

static void place_fds(const int fds[3])
{
    int at[3];

    /* First out of the way of 0..2, so that no dup2 overwrites a source that is still needed. */
    for (int i = 0; i < 3; i++) {
        int from = fds[i] >= 0 ? fds[i] : open("/dev/null", O_RDWR | O_CLOEXEC);
        at[i] = fcntl(from, F_DUPFD_CLOEXEC, 10);
    }
    for (int i = 0; i < 3; i++)
        if (dup2(at[i], i) < 0)
            close(i);
    (void)syscall(SYS_close_range, 3u, ~0u, 0u);
}

void child_exec(const struct child_opts *o)
{
    if (o->subreaper)
        (void)prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    umask(o->umask ? o->umask : 022);
    if (o->cwd_fd > 0 ? fchdir(o->cwd_fd) < 0 : chdir(o->cwd) < 0)
        (void)!chdir("/");
    place_fds(o->fds);
    environ = (char **)o->env;
    if (o->file) /* saves a failed exec for each directory of PATH before the right one */
        execve(o->file, (char *const *)o->argv, o->env);
    execvpe(o->argv[0], (char *const *)o->argv, o->env);
    _exit(errno == ENOENT ? 127 : 126);
}

pid_t child_start(struct init *in, const struct child_opts *o, on_exit_of *cb, void *arg, struct err *e)
{
    pid_t pid = child_fork(in, cb, arg, e);

    if (pid != 0)
        return pid < 0 ? err_wrap(e, pid, "start %s", o->argv[0]) : pid;
    if (o->session)
        (void)setsid();
    else
        (void)setpgid(0, 0);
    if (o->tty)
        (void)ioctl(o->fds[0], TIOCSCTTY, 0);
    child_limit(in);
    if (!o->root)
        child_become_user(in);
    child_exec(o);
}

enum { PROFILE_MAX = 8 };
static char profile[PROFILE_MAX][160];
static size_t profile_n;

static void profile_add(const char *name, const char *value)
{
    snprintf(profile[profile_n++], sizeof profile[0], "%s=%s", name, value);
}

/* The wall clock has no namespace: a library between the programs and the C library shifts it (docs/replay.md says for
 * whom it does not). Serve has looked whether it is there. */
static void profile_clock(int64_t offset_us)
{
    static const char *const places[] = { BOX_FAKETIME };
    char text[64];

    for (size_t i = 0; i < ARRAY_LEN(places); i++)
        if (access(places[i], R_OK) == 0) {
            profile_add("LD_PRELOAD", places[i]);
            snprintf(text, sizeof text, "%+.6f", (double)offset_us / 1e6);
            profile_add("FAKETIME", text);
            profile_add("FAKETIME_DONT_FAKE_MONOTONIC", "1");
            return;
        }
}

void child_profile(const struct boot *b)
{
    if (b->locale[0])
        profile_add("LC_ALL", b->locale);
    if (b->timezone[0] || b->habits.timezone[0])
        profile_add("TZ", b->timezone[0] ? b->timezone : b->habits.timezone);
    if (b->hash_seed[0])
        profile_add("PYTHONHASHSEED", b->hash_seed);
    if (b->fake_clock)
        profile_clock(b->clock_offset_us);
}

/* What serve gave the box: named secrets. */
static struct arena given_arena;
static struct pairs given;

static bool same(const struct pairs *a, const struct pairs *b)
{
    for (size_t i = 0; a->n == b->n && i < a->n; i++)
        if (!str_eq(a->v[i].name, b->v[i].name) || !str_eq(a->v[i].value, b->v[i].value))
            return false;
    return a->n == b->n;
}

bool child_given(const struct pairs *env)
{
    if (same(env, &given))
        return false;
    arena_done(&given_arena);
    given_arena = (struct arena){ 0 };
    given.n = 0;
    given.v = arena_alloc(&given_arena, (env->n + 1) * sizeof *given.v);
    for (size_t i = 0; i < env->n; i++)
        given.v[given.n++] =
            (struct pair){ arena_copy(&given_arena, env->v[i].name), arena_copy(&given_arena, env->v[i].value) };
    return true;
}

char **child_env(struct arena *a, bool root, const char *cwd, const struct pairs *more)
{
    size_t extra = more ? more->n : 0;
    char **env = arena_alloc(a, (extra + 12 + PROFILE_MAX + given.n) * sizeof *env);
    size_t n = 0;

    env[n++] = root ? "HOME=/root" : "HOME=" BOX_HOME;
    env[n++] = root ? "USER=root" : "USER=gem";
    env[n++] = root ? "LOGNAME=root" : "LOGNAME=gem";
    env[n++] = "SHELL=/bin/bash";
    env[n++] = "PATH=" BOX_PATH;
    env[n++] = "LC_CTYPE=C.UTF-8"; /* not LANG: every program would open a dozen files of the other categories */
    env[n++] = "TERM=dumb";
    env[n++] = "DISPLAY=:0"; /* the desktop, once there is one: desktop.h */
    env[n++] = "DBUS_SESSION_BUS_ADDRESS=unix:path=" BOX_RUN_DIR "/user/bus";
    env[n++] = "PIP_BREAK_SYSTEM_PACKAGES=1"; /* Debian protects a system from pip; a box is there to be changed */
    env[n++] = arena_printf(a, "PWD=%s", cwd);
    for (size_t i = 0; i < profile_n; i++)
        env[n++] = profile[i];
    for (size_t i = 0; i < given.n + extra; i++) {
        const struct pair *one = i < given.n ? &given.v[i] : &more->v[i - given.n];
        struct str name = one->name;
        size_t at = 0;
        while (at < n && !(strncmp(env[at], name.p, name.n) == 0 && env[at][name.n] == '='))
            at++;
        env[at] = arena_printf(a, "%.*s=%.*s", STR_ARG(name), STR_ARG(one->value));
        n = at == n ? n + 1 : n;
    }
    env[n] = NULL;
    return env;
}

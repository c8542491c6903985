#include "isolate/child.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/fdpass.h"
#include "base/limits.h"
#include "isolate/caps.h"
#include "isolate/idmap.h"
#include "isolate/network.h"
#include "isolate/root.h"
#include "isolate/seccomp.h"
#include "isolate/step.h"
#include "wire/seat.h"

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x00000080
#endif

/* Survives supervise's death and is nobody's terminal job. What was ignored stays so at exec. */
void child_reset_signals(void)
{
    static const int ignored[] = {
        SIGPIPE, SIGHUP, SIGINT, SIGQUIT, SIGCHLD, SIGTERM
    }; /* by us, or by who started us */
    sigset_t none;

    for (size_t i = 0; i < ARRAY_LEN(ignored); i++)
        (void)signal(ignored[i], SIG_DFL);
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)setsid();
}

/* --- what supervise says --- */

struct child {
    struct child_fds in; /* network -1: entered */
    int fds[CHILD_FDS];  /* the listening socket, cgroup.procs */
    int fd_count;
    int asked; /* seccomp_load() */
    struct child_stage stage;
    struct child_go go;
};

/* The spawner makes it while we do something else. */
static int enter_network(struct child *c, struct err *e)
{
    auto_close int sock = TAKE_FD(c->in.network), ns = -1;
    int count = 1;

    if (sock < 0)
        return 0;
    ssize_t n = fdpass_recv(sock, e, sizeof *e, &ns, &count, 0);
    if (n != (ssize_t)sizeof *e)
        return err_set(e, ERR_SYSTEM, "the spawner of boxes ended");
    if (count != 1)
        return e->sys ? -e->sys : -EIO;
    return setns(ns, CLONE_NEWNET) < 0 ? err_sys(e, "enter the network namespace") : 0;
}

static int await_stage(struct child *c, struct err *e)
{
    c->fd_count = CHILD_FDS;
    ssize_t n = fdpass_recv(c->in.channel, &c->stage, sizeof c->stage, c->fds, &c->fd_count, 0);

    if (n == 0)
        _exit(1); /* supervise is gone; what exists of this box is found by its next life */
    if (n != (ssize_t)sizeof c->stage || c->fd_count < 1)
        return err_set(e, ERR_SYSTEM, "supervise sent something else");
    step_fail_at(c->stage.fail_step);
    c->stage.network.host_ns = c->in.host_ns;
    return 0;
}

/* It may be long in coming: who waits then has done all that needs no word about the box. */
static int await_go(struct child *c, struct err *e)
{
    ssize_t n = recv(c->in.channel, &c->go, sizeof c->go, MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN) {
        int r = enter_network(c, e);
        if (r < 0)
            return r;
        n = recv(c->in.channel, &c->go, sizeof c->go, 0);
    }
    if (n == 0)
        _exit(1);
    return n == (ssize_t)sizeof c->go ? 0 : err_sys(e, "wait for supervise");
}

/* v1 can be joined only by writing; the write waits for a grace period of the kernel now and then (10 ms). v2 was
 * joined by clone3. The cgroup namespace comes after, so that its root is the box's own directory in all of them. */
static int attach(const struct child *c, struct err *e)
{
    int r = step_reach(STEP_ATTACH, e);
    if (r < 0)
        return r;
    for (int i = 1; i < c->fd_count; i++)
        if (write(c->fds[i], "0", 1) != 1)
            return err_sys(e, "attach to cgroup");
    return unshare(CLONE_NEWCGROUP) < 0 ? err_sys(e, "unshare cgroup namespace") : 0;
}

static int limit_self(const struct box_spec *spec, struct err *e)
{
    struct rlimit files, core = { LIMIT_CORE, LIMIT_CORE };

    if (getrlimit(RLIMIT_NOFILE, &files) < 0)
        return err_sys(e, "getrlimit");
    if ((rlim_t)spec->open_files < files.rlim_max)
        files.rlim_max = (rlim_t)spec->open_files;
    files.rlim_cur = files.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &files) < 0 || setrlimit(RLIMIT_CORE, &core) < 0)
        return err_sys(e, "setrlimit");
    return 0;
}

/* Monotonic time and time since boot begin with zero, in a namespace of its own. */
static int begin_time(struct err *e)
{
    struct timespec mono, boot;
    char text[128];

    if (unshare(CLONE_NEWTIME) < 0)
        return err_sys(e, "unshare the time namespace");
    clock_gettime(CLOCK_MONOTONIC, &mono);
    clock_gettime(CLOCK_BOOTTIME, &boot);
    int n = snprintf(text, sizeof text, "monotonic -%lld 0\nboottime -%lld 0\n", (long long)mono.tv_sec,
                     (long long)boot.tv_sec);
    auto_close int offsets = open("/proc/self/timens_offsets", O_WRONLY | O_CLOEXEC);
    auto_close int ns = -1;
    if (offsets < 0 || write(offsets, text, (size_t)n) != n)
        return err_sys(e, "set the clocks of the time namespace");
    ns = open("/proc/self/ns/time_for_children", O_RDONLY | O_CLOEXEC);
    return ns < 0 || setns(ns, CLONE_NEWTIME) < 0 ? err_sys(e, "enter the time namespace") : 0;
}

/* The first cpus of those that we may use. */
static int pin(const struct box_profile *p, struct err *e)
{
    uint32_t cpus = p->on ? p->cpus : 0;
    cpu_set_t may, take;

    if (!cpus)
        return 0;
    if (sched_getaffinity(0, sizeof may, &may) < 0)
        return err_sys(e, "read the processors");
    CPU_ZERO(&take);
    for (int i = 0; i < CPU_SETSIZE && cpus; i++)
        if (CPU_ISSET(i, &may)) {
            CPU_SET(i, &take);
            cpus--;
        }
    return sched_setaffinity(0, sizeof take, &take) < 0 ? err_sys(e, "bind to processors") : 0;
}

/* What the box is made to see of its machine; all that runs in it inherits it from init. */
static int hold_still(const struct box_profile *p, struct err *e)
{
    if (!p->on)
        return 0;
    if (p->hostname[0] && sethostname(p->hostname, strlen(p->hostname)) < 0)
        return err_sys(e, "set host name");
    if (!p->aslr && personality(ADDR_NO_RANDOMIZE) < 0)
        return err_sys(e, "switch address randomisation off");
    return begin_time(e);
}

/* Last of all, since from here on nothing can be mounted: the mount namespace belongs to the initial user namespace. */
static int enter_userns(int userns, struct err *e)
{
    uid_t r0, e0, s0;
    gid_t rg, eg, sg;

    int r = step_reach(STEP_ENTER, e);
    if (r < 0)
        return r;
    if (setns(userns, CLONE_NEWUSER) < 0)
        return err_sys(e, "enter the user namespace");
    if (setresgid(0, 0, 0) < 0 || setgroups(0, NULL) < 0 || setresuid(0, 0, 0) < 0)
        return err_sys(e, "become root of the box");
    if (getresuid(&r0, &e0, &s0) < 0 || getresgid(&rg, &eg, &sg) < 0 || r0 | e0 | s0 | rg | eg | sg) {
        errno = EPERM;
        return err_sys(e, "become root of the box");
    }
    return 0;
}

static int drop_rights(struct child *c, struct err *e)
{
    int r = limit_self(&c->go.spec, e);
    if (r < 0)
        return r;
    r = enter_userns(c->in.userns, e);
    if (r < 0)
        return r;
    r = step_reach(STEP_CAPS, e);
    if (r < 0)
        return r;
    r = caps_drop(e); /* all but the bounding set: child_settle() */
    if (r < 0)
        return r;
    r = step_reach(STEP_SECCOMP, e);
    if (r < 0)
        return r;
    struct boot *b = &c->go.boot;
    if (!c->go.spec.user_namespaces)
        return seccomp_load(NULL, NULL, e);
    if (getrandom(&b->pass, sizeof b->pass, 0) != sizeof b->pass)
        return err_sys(e, "read random bytes");
    r = seccomp_load(&b->pass, &c->asked, e);
    b->asked = c->asked >= 0;
    return r;
}

/* Descriptors as wire/boot.h says, the channel behind them, and nothing else: a host descriptor in a box is a way out
 * of it (CVE-2024-21626). Until the end the channel must be able to tell a failure. */
static int arrange(struct child *c, struct err *e)
{
    enum { FIRST = BOOT_FD_LISTEN, MOST = 4 };
    const int count = c->asked < 0 ? MOST - 1 : MOST;
    const int take[MOST] = { c->fds[0], c->in.ready, c->asked < 0 ? c->in.channel : c->asked, c->in.channel };
    int from[MOST];
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    if (null < 0)
        return err_sys(e, "open /dev/null");
    for (int i = 0; i < count; i++) {
        from[i] = fcntl(take[i], F_DUPFD_CLOEXEC, 16); /* out of the way first */
        if (from[i] < 0)
            return err_sys(e, "move a descriptor");
    }
    for (int i = 0; i < BOOT_FD_CONFIG; i++)
        if (dup2(null, i) < 0)
            return err_sys(e, "dup2");
    for (int i = 0; i < count; i++)
        if (dup3(from[i], FIRST + i, O_CLOEXEC) < 0)
            return err_sys(e, "dup3");
    c->in.channel = FIRST + count - 1;
    if (syscall(SYS_close_range, BOOT_FD_CONFIG, BOOT_FD_CONFIG, 0) < 0 ||
        syscall(SYS_close_range, FIRST + count, ~0U, 0) < 0)
        return err_sys(e, "close_range");
    return 0;
}

/* supervise keeps a view of what the box writes: states are made of it. */
static int send_scratch(int channel, int take_scratch, struct err *e)
{
    const struct err fine = { .code = ERR_NONE };
    auto_close int fd = take_scratch;

    errno = -fdpass_send(channel, &fine, sizeof fine, &fd, 1, 0);
    return errno ? err_sys(e, "tell supervise where the box writes") : 0;
}

static const char *or_null(const char *text)
{
    return *text ? text : NULL;
}

static int build_root(struct child *c, struct err *e)
{
    const struct child_stage *s = &c->stage;
    const struct box_spec *spec = &c->go.spec;
    bool host = strcmp(spec->image, "host") == 0;
    char dns[NETWORK_NAME];
    struct root_opts r = {
        .id = s->id,
        .spec = spec,
        .dns = spec->network == BOX_NETWORK_FULL ? dns : NULL,
        .base = idmap_base(s->slot),
        .userns = c->in.userns,
        .root = host ? s->host_root : spec->image,
        .root_checked = host,
        .image_roots = or_null(s->image_roots),
        .mount_roots = or_null(s->mount_roots),
        .nowhere = c->in.nowhere,
        .layers = s->layers,
    };
    int n = 0, scratch = -1;

    network_text(network_gateway(&s->network), dns);
    if (host && spec->sudo)
        r.usr[n++] = s->host_sudo;
    if (host)
        r.usr[n] = "/usr";
    n = root_build(&r, &scratch, e);
    if (n < 0)
        return n;
    n = send_scratch(c->in.channel, scratch, e);
    if (n < 0)
        return n;
    return enter_network(c, e);
}

/* All that needs no spec: after it the process may wait for a long time. */
static int prepare(struct child *c, struct err *e)
{
    /* Here rather than in clone3, where supervise would stand still for them. */
    if (unshare(CLONE_NEWIPC | CLONE_NEWUTS) < 0)
        return err_sys(e, "unshare namespaces");
    int r = await_stage(c, e);
    if (r < 0)
        return r;
    r = step_reach(STEP_UNSHARE, e);
    if (r < 0)
        return r;
    if (sethostname(c->stage.id, strlen(c->stage.id)) < 0)
        return err_sys(e, "set host name");
    return attach(c, e);
}

static int link_up(struct child *c, struct err *e)
{
    int r = step_reach(STEP_LINK, e);
    if (r < 0 || !c->go.address)
        return r;
    r = enter_network(c, e);
    return r < 0 ? r : network_link(&c->stage.network, c->go.address, e);
}

static int become_init(struct child *c, struct err *e)
{
    int r = prepare(c, e);
    if (r < 0)
        return r;
    r = await_go(c, e);
    if (r < 0)
        return r;
    r = link_up(c, e);
    if (r < 0)
        return r;
    r = hold_still(&c->go.spec.profile, e);
    if (r < 0)
        return r;
    r = build_root(c, e);
    if (r < 0)
        return r;
    r = pin(&c->go.spec.profile, e);
    if (r < 0)
        return r;
    r = drop_rights(c, e);
    if (r < 0)
        return r;
    r = step_reach(STEP_INIT, e);
    return r < 0 ? r : arrange(c, e);
}

static struct child *built; /* given back to the kernel when it was read: there may be a thousand inits */

void child_become_init(const struct child_fds *take_fds, struct boot *ret)
{
    struct err e = { 0 };
    struct child *c = mmap(NULL, sizeof *c, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

    if (c == MAP_FAILED)
        _exit(1);
    built = c;
    c->in = *take_fds;
    c->asked = -1;
    (void)setsid();
    if (become_init(c, &e) < 0) {
        (void)!write(c->in.channel, &e, sizeof e);
        _exit(1);
    }
    close(c->in.channel);
    *ret = c->go.boot;
}

void child_settle(void)
{
    struct err e;

    if (!built)
        return;
    if (caps_bound(&e) < 0)
        _exit(1); /* no program may have more than the box is to have */
    munmap(built, sizeof *built);
    built = NULL;
}

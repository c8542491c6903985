#include "isolate/spawner.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/fdpass.h"
#include "base/log.h"
#include "isolate/child.h"
#include "isolate/mountfd.h"
#include "isolate/network.h"
#include "isolate/nowhere.h"
#include "isolate/seccomp.h"
#include "isolate/step.h"

enum { PROC_USES = 64 };
enum { CHANNEL, READY, USERNS, HOST_NS, GROUP, FDS };

struct ask {
    int32_t fail_step;
    cpu_set_t processors; /* all that a box may use */
};

struct answer {
    int32_t pid; /* 0: err says why not; else its pidfd comes along */
    struct err err;
};

/* --- processors --- */

/* Three processes work on a new box at a time: supervise, the spawner (its network namespace) and the box's first, for
 * which the others wait. Left alone, the kernel queues the one that is woken behind the one that wakes it, and finds out
 * half a millisecond later that another processor is idle. So the spawner forks away from supervise's, where the new
 * process has a processor to itself until the kernel knows better; and makes the network on that of supervise, when that
 * has done its own part. It is moved while it sleeps: a process that runs is moved by another, which takes 50 us. */
static void send_away(pid_t pid, const cpu_set_t *all)
{
    cpu_set_t others = *all;
    unsigned here;

    if (getcpu(&here, NULL) < 0 || here >= CPU_SETSIZE)
        return;
    CPU_CLR(here, &others);
    if (CPU_COUNT(&others) > 0)
        (void)sched_setaffinity(pid, sizeof others, &others);
}

static void bring_here(pid_t pid)
{
    cpu_set_t here;
    unsigned at;

    if (getcpu(&at, NULL) < 0 || at >= CPU_SETSIZE)
        return;
    CPU_ZERO(&here);
    CPU_SET(at, &here);
    (void)sched_setaffinity(pid, sizeof here, &here);
}

/* --- supervise's side --- */

void spawner_init(struct spawner *s, int program)
{
    *s = (struct spawner){ .fd = -1, .program = program };
}

void spawner_close(struct spawner *s)
{
    if (s->fd < 0)
        return;
    close(TAKE_FD(s->fd));
    (void)waitpid(s->pid, NULL, 0); /* it ends when its socket does */
}

int spawner_start(struct spawner *s, struct err *e)
{
    int pair[2];
    char text[64];
    char *argv[] = { (char *)"sandglass-init", NULL }, *envp[] = { text, NULL };

    if (s->fd >= 0)
        return 0;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return err_sys(e, "socketpair");
    auto_close int mine = pair[0], theirs = pair[1];
    snprintf(text, sizeof text, SPAWNER_VARIABLE "=%d", theirs);
    pid_t parent = getpid(), pid = fork();
    if (pid < 0)
        return err_sys(e, "fork the spawner");
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent || fcntl(theirs, F_SETFD, 0) < 0)
            _exit(1);
        syscall(SYS_execveat, s->program, "", argv, envp, AT_EMPTY_PATH);
        _exit(1);
    }
    s->pid = pid;
    s->fd = TAKE_FD(mine);
    return 0;
}

static int lost(struct spawner *s, int error, struct err *e)
{
    log_warn("spawner ended", "errno=%d, the next box starts another", -error);
    spawner_close(s);
    errno = error < 0 ? -error : EPIPE;
    return err_sys(e, "the spawner of boxes ended");
}

int spawner_ask(struct spawner *s, const struct spawner_fds *f, struct err *e)
{
    const int fds[FDS] = { f->channel, f->ready, f->userns, f->host_ns, f->group };
    struct ask a = { .fail_step = step_failing() };
    int r = 0;

    (void)sched_getaffinity(0, sizeof a.processors, &a.processors); /* none: nobody is sent away */
    for (int tries = 0; tries < 2; tries++) {                       /* one that has ended is noticed only now */
        r = spawner_start(s, e);
        if (r < 0)
            return r;
        send_away(s->pid, &a.processors);
        r = fdpass_send(s->fd, &a, sizeof a, fds, f->group >= 0 ? FDS : FDS - 1, 0);
        if (r >= 0)
            return 0;
        r = lost(s, r, e);
    }
    return r;
}

int spawner_answer(struct spawner *s, pid_t *ret_pid, int *ret_pidfd, struct err *e)
{
    struct answer a;
    int pidfd = -1, count = 1;

    ssize_t n = fdpass_recv(s->fd, &a, sizeof a, &pidfd, &count, 0);
    if (n != (ssize_t)sizeof a)
        return lost(s, n < 0 ? (int)n : 0, e);
    if (a.pid > 0) {
        bring_here(s->pid);
        (void)send(s->fd, "n", 1, MSG_NOSIGNAL); /* if it is gone, the box's first process tells */
    }
    if (a.pid <= 0 || count != 1) {
        *e = a.err;
        return a.err.sys ? -a.err.sys : -EIO;
    }
    *ret_pid = a.pid;
    *ret_pidfd = pidfd;
    return 0;
}

/* --- its own side --- */

/* From the request to the answer, as far as we may: the new process would run first, for as long as it likes, while
 * supervise waits for the answer and the network is not begun. A box does not inherit it. */
static void hurry(bool on)
{
    struct sched_param p = { .sched_priority = on };

    (void)sched_setscheduler(0, on ? SCHED_FIFO | SCHED_RESET_ON_FORK : SCHED_OTHER, &p);
}

/* Each network namespace leaves names of its own below /proc/sys/net, all in one list of the kernel's: with a thousand
 * boxes it takes a millisecond to walk through it. A /proc that is ours alone has only those made through it; another
 * takes its place now and then, when nobody waits. */
static int own_proc = -1, own_proc_uses;

static void renew_proc(void)
{
    if (own_proc >= 0 && own_proc_uses < PROC_USES)
        return;
    if (own_proc >= 0)
        close(own_proc);
    own_proc_uses = 0;
    own_proc = mountfd_new("proc", NULL, 0, NULL);
}

static int make_network(int host_ns, int32_t fail_step, int *ret_fd, struct err *e)
{
    step_fail_at(fail_step);
    int r = step_reach(STEP_LOOPBACK, e);
    if (r < 0)
        return r;
    if (unshare(CLONE_NEWNET) < 0)
        return err_sys(e, "unshare the network namespace");
    r = network_loopback(e);
    if (r >= 0) {
        own_proc_uses++;
        network_open_up(own_proc);
        *ret_fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
        r = *ret_fd < 0 ? err_sys(e, "open the network namespace") : 0;
    }
    if (setns(host_ns, CLONE_NEWNET) < 0)
        _exit(1); /* no box may begin in another's */
    return r;
}

static int nowhere = -1;

/* A child of our parent: supervise waits for it, and outlives us. */
static pid_t fork_box(int group, int *ret_pidfd, struct err *e)
{
    struct clone_args args = {
        .flags = CLONE_NEWPID | CLONE_PIDFD | CLONE_PARENT | (group >= 0 ? CLONE_INTO_CGROUP : 0),
        .pidfd = (uint64_t)(uintptr_t)ret_pidfd,
        .cgroup = group >= 0 ? (uint64_t)group : 0,
    };
    if (nowhere < 0)
        nowhere = nowhere_open(e);
    if (nowhere < 0)
        return -1;
    pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof args);
    return pid < 0 ? err_sys(e, "clone") : pid;
}

/* True in the new process. */
static bool serve_one(int sock, const struct ask *q, const int fds[FDS], struct child_fds *ret)
{
    struct answer a = { 0 };
    int pair[2], network = -1;
    auto_close int pidfd = -1;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        _exit(1);
    auto_close int mine = pair[0], theirs = pair[1];
    pid_t pid = fork_box(fds[GROUP], &pidfd, &a.err);
    if (pid == 0) {
        (void)sched_setaffinity(0, sizeof q->processors, &q->processors); /* it has what was left to the spawner */
        close(sock);
        *ret = (struct child_fds){ .channel = fds[CHANNEL],
                                   .ready = fds[READY],
                                   .userns = fds[USERNS],
                                   .host_ns = fds[HOST_NS],
                                   .nowhere = nowhere,
                                   .network = TAKE_FD(theirs) };
        pidfd = -1;
        return true;
    }
    a.pid = pid < 0 ? 0 : pid;
    if (fdpass_send(sock, &a, sizeof a, &pidfd, pid > 0, 0) < 0)
        _exit(0);
    close(TAKE_FD(theirs));
    if (pid > 0) {
        struct err e = { 0 };
        char byte;
        hurry(false);
        if (recv(sock, &byte, 1, 0) != 1) /* when supervise has its own part done, and we are where it is */
            _exit(0);
        int r = make_network(fds[HOST_NS], q->fail_step, &network, &e);
        (void)fdpass_send(mine, &e, sizeof e, &network, r >= 0, 0);
        if (network >= 0)
            close(network);
    }
    return false;
}

/* If the whole machine runs out of memory, boxes go before the daemon. They inherit it from us, who are easily replaced. */
static void go_first(void)
{
    auto_close int oom = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

    if (oom >= 0)
        (void)!write(oom, "500", 3);
}

void spawner_serve(int sock, struct boot *ret)
{
    child_reset_signals();
    nowhere = nowhere_open(NULL); /* if it cannot be now, the first box tells why */
    go_first();
    (void)fcntl(sock, F_SETFD, FD_CLOEXEC);
    (void)seccomp_program(false); /* once, for all that are forked */
    (void)seccomp_program(true);
    for (;;) {
        renew_proc();
        hurry(true);
        int fds[FDS] = { -1, -1, -1, -1, -1 }, count = FDS;
        struct child_fds f;
        struct ask q;

        ssize_t n = fdpass_recv(sock, &q, sizeof q, fds, &count, 0);
        if (n != (ssize_t)sizeof q || count < FDS - 1)
            _exit(0); /* supervise is gone */
        if (serve_one(sock, &q, fds, &f)) {
            if (fds[GROUP] >= 0)
                close(fds[GROUP]);
            child_become_init(&f, ret);
            return;
        }
        for (int i = 0; i < count; i++)
            close(fds[i]);
    }
}

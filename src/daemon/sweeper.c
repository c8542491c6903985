#include "daemon/sweeper.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdnoreturn.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/fdpass.h"
#include "base/log.h"

/* Where the kernel shares processors between sessions first (autogroup), being nice counts only within one's own: alone in
 * supervise's, on its processor, the sweeper would have as much of that as a box. */
static void be_nice(void)
{
    (void)setsid();
    auto_close int group = open("/proc/self/autogroup", O_WRONLY | O_CLOEXEC);
    if (group >= 0)
        (void)!write(group, "19", 2);
    (void)setpriority(PRIO_PROCESS, 0, PRIO_MAX);
    (void)sched_setscheduler(0, SCHED_BATCH, &(struct sched_param){ 0 });
}

static noreturn void sweep(int fd)
{
    sigset_t none;

    (void)prctl(PR_SET_NAME, "sandglass-sweep");
    /* Nobody waits for it; nor may it stand in the way of who wakes it, as the nicest of normal processes would. */
    be_nice();
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGINT, SIG_IGN); /* of a terminal, for all of the group: supervise says when it is over */
    signal(SIGTERM, SIG_IGN);
    if (dup2(fd, 3) < 0)
        _exit(1);
    (void)syscall(SYS_close_range, 4, ~0U, 0);
    for (;;) {
        int got = -1, count = 1;
        char byte;
        if (fdpass_recv(3, &byte, 1, &got, &count, 0) <= 0)
            _exit(0); /* supervise is gone */
        if (count == 1)
            close(got);
    }
}

int sweeper_open(struct sweeper *s, struct err *e)
{
    int pair[2];

    *s = (struct sweeper){ .fd = -1 };
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return err_sys(e, "socketpair");
    auto_close int mine = pair[0], theirs = pair[1];
    pid_t parent = getpid(), pid = fork();
    if (pid < 0)
        return err_sys(e, "fork the sweeper");
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(1);
        sweep(theirs);
    }
    s->pid = pid;
    s->fd = TAKE_FD(mine);
    return 0;
}

void sweeper_close(struct sweeper *s)
{
    if (s->fd < 0)
        return;
    close(TAKE_FD(s->fd));
    (void)waitpid(s->pid, NULL, 0); /* it finishes what it has, then ends by itself */
}

void sweeper_take(struct sweeper *s, int take_fd)
{
    auto_close int fd = take_fd;
    struct err e;

    if (fd < 0 || s->fd < 0)
        return;
    int r = fdpass_send(s->fd, "x", 1, &fd, 1, MSG_DONTWAIT);
    if (r >= 0 || r == -EAGAIN)
        return; /* it is late: closed here, so that no heap of them grows */
    log_warn("sweeper ended", "errno=%d, starting another", -r);
    sweeper_close(s);
    if (sweeper_open(s, &e) < 0)
        log_warn("no sweeper", "error=\"%s\", destroying boxes takes longer", e.msg);
}

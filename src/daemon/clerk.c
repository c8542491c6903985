#include "daemon/clerk.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/fdpass.h"

enum { IDLE_MAX = 4, ORDERS_MAX = 512 };

/* --- its own side --- */

static int by_number(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

/* Else a descriptor of a box would keep its files for as long as we wait, and one of a socket its other end. */
static void let_go(const struct clerks *w, int sock)
{
    int keep[CLERK_KEEPS + 1], n = w->keep_n;

    for (int i = 0; i < n; i++)
        keep[i] = w->keep[i];
    keep[n++] = sock;
    qsort(keep, (size_t)n, sizeof keep[0], by_number);
    unsigned from = 3;
    for (int i = 0; i < n; i++) {
        if (keep[i] > (int)from)
            (void)close_range(from, (unsigned)keep[i] - 1, 0);
        if (keep[i] >= (int)from)
            from = (unsigned)keep[i] + 1;
    }
    (void)close_range(from, ~0U, 0);
}

_Noreturn static void serve(const struct clerks *w, void *order, int sock)
{
    char byte;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)signal(SIGTERM, SIG_DFL);
    if (w->nice)
        (void)setpriority(PRIO_PROCESS, 0, w->nice);
    let_go(w, sock);
    for (;;) {
        int fd = -1, count = 1;
        if (fdpass_recv(sock, &byte, 1, &fd, &count, 0) != 1)
            _exit(0);
        if (count != 1)
            fd = -1;
        w->work(w->arg, order, fd, sock);
        if (fd >= 0)
            close(fd);
    }
}

/* --- supervise's --- */

static struct clerk *start(struct clerks *w, struct err *e)
{
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
        err_sys(e, "socketpair");
        return NULL;
    }
    auto_close int mine = pair[0], theirs = pair[1];
    void *order = mmap(NULL, w->order_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t pid = order == MAP_FAILED ? -1 : fork();
    if (pid == 0)
        serve(w, order, theirs);
    if (pid < 0) {
        err_sys(e, "start a clerk");
        if (order != MAP_FAILED)
            (void)munmap(order, w->order_size);
        return NULL;
    }
    struct clerk *x = calloc(1, sizeof *x);
    if (!x)
        abort();
    *x = (struct clerk){ .pid = pid, .sock = TAKE_FD(mine), .order = order, .all = w };
    return x;
}

struct clerk *clerk_get(struct clerks *w, struct err *e)
{
    struct clerk *x = w->idle;

    if (!x)
        return start(w, e);
    w->idle = x->next;
    w->idle_n--;
    return x;
}

int clerk_go(struct clerk *x, int fd, struct err *e)
{
    int r = fdpass_send(x->sock, "", 1, &fd, fd >= 0, MSG_DONTWAIT);

    x->orders++;
    errno = -r;
    return r < 0 ? err_sys(e, "tell a clerk") : 0;
}

void clerk_put(struct clerk *x)
{
    struct clerks *w = x->all;

    if (w->idle_n == IDLE_MAX || x->orders >= ORDERS_MAX) {
        clerk_end(x);
        return;
    }
    x->next = w->idle;
    w->idle = x;
    w->idle_n++;
}

void clerk_end(struct clerk *x)
{
    (void)kill(x->pid, SIGKILL);
    (void)waitpid(x->pid, NULL, 0);
    close(x->sock);
    (void)munmap(x->order, x->all->order_size);
    free(x);
}

void clerks_close(struct clerks *w)
{
    for (struct clerk *x = w->idle, *next; x; x = next) {
        next = x->next;
        clerk_end(x);
    }
    w->idle = NULL;
    w->idle_n = 0;
}

/* Reading states: their difference as JSON, their files as a tar. A forked worker writes into a descriptor that the
 * asker made, for as long as the asker reads; it is limited in time, processor and memory, and its reply comes when all
 * is written. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/json.h"
#include "base/limits.h"
#include "base/loop.h"
#include "daemon/chain.h"
#include "image/checkout.h"
#include "image/tree_diff.h"
#include "isolate/spec.h"

enum { WORKERS_MAX = 8, WORKER_SECONDS = 900, WORKER_CPU_SECONDS = 300, TEXT_BYTES = 256 * KiB };
#define WORKER_MEMORY (4096 * MiB) /* of addresses */

struct job {
    struct seats *all;
    struct seat_waiter waiter;
    pid_t pid;
    int pipe;
    struct loop_fd *watch;
};

struct ending { /* what the worker says, once */
    int32_t result;
    struct err err;
};

static unsigned running;

/* --- the worker --- */

/* A root that is not known yet is computed: the difference is told from objects. */
static int root_for(const struct chain *c, const char *text, struct state_root *ret, struct err *e)
{
    return chain_root(text, ret) ? 0 : layer_hash(&c->c, NULL, false, ret, NULL, e);
}

static int write_all(int fd, struct str s, struct err *e)
{
    while (s.n) {
        ssize_t n = write(fd, s.p, s.n);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_sys(e, "write the answer");
        s.p += n;
        s.n -= (size_t)n;
    }
    return 0;
}

/* Members of an object: what was counted, then the rows. */
static int write_diff(const struct diff_opts *o, int out, struct err *e)
{
    struct diff_counts n;
    struct buf rows, all;
    struct jw w = { .out = &all };

    buf_init(&rows, LIMIT_DIFF_BYTES);
    buf_init(&all, LIMIT_DIFF_BYTES + 4096);
    int r = diff_print(o, &rows, &n, e);
    if (r >= 0) {
        jw_obj(&w);
        jw_kint(&w, "added", (int64_t)n.added);
        jw_kint(&w, "changed", (int64_t)n.changed);
        jw_kint(&w, "removed", (int64_t)n.removed);
        jw_kbool(&w, "truncated", n.truncated);
        jw_kraw(&w, "rows", buf_view(&rows));
        jw_obj_end(&w);
        r = write_all(out, buf_view(&all), e);
    }
    buf_done(&rows);
    buf_done(&all);
    return r;
}

static int diff(const struct seats *s, struct seat_request *q, int out, struct err *e)
{
    static struct chain a, b;
    struct state_root root_a, root_b;
    struct diff_opts o = { .a = &a.c, .b = &b.c, .root_a = &root_a, .root_b = &root_b };

    o.text_bytes = q->other.text ? TEXT_BYTES : 0;
    int r = chain_open(s, &q->spec, q->spec.layer_count, q->spec.layers, &a, e);
    if (r >= 0)
        r = chain_open(s, &q->spec, q->other.layer_count, q->other.layers, &b, e);
    if (r >= 0)
        r = root_for(&a, q->spec.parent_root, &root_a, e);
    if (r >= 0)
        r = root_for(&b, q->other.root, &root_b, e);
    return r < 0 ? r : write_diff(&o, out, e);
}

static int checkout(const struct seats *s, struct seat_request *q, int out, struct err *e)
{
    static struct chain c;
    struct state_root root;
    struct checkout_counts n;

    int r = chain_open(s, &q->spec, q->spec.layer_count, q->spec.layers, &c, e);
    if (r >= 0)
        r = root_for(&c, q->spec.parent_root, &root, e);
    return r < 0 ? r : checkout_tar(&c.c, &root, out, &n, e);
}

static void limit(int what, rlim_t to)
{
    (void)setrlimit(what, &(struct rlimit){ to, to });
}

static _Noreturn void work(const struct seats *s, struct seat_request *q, int out, int pipe)
{
    struct ending end = { 0 };
    sigset_t none;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    sigemptyset(&none);
    (void)signal(SIGTERM, SIG_DFL);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
#ifndef __SANITIZE_ADDRESS__ /* whose shadow alone is terabytes of addresses */
    limit(RLIMIT_AS, WORKER_MEMORY);
#endif
    limit(RLIMIT_CPU, WORKER_CPU_SECONDS);
    (void)alarm(WORKER_SECONDS);
    end.result = q->verb == SEAT_DIFF ? diff(s, q, out, &end.err) : checkout(s, q, out, &end.err);
    (void)!write(pipe, &end, sizeof end);
    _exit(0);
}

/* --- supervise's side --- */

static void answer(struct seats *s, const struct seat_waiter *w, const struct ending *end)
{
    struct seat_reply r = { .result = end->result < 0 ? end->result : 0, .err = end->err };

    seat_answer(s, w, &r);
}

static void on_end(void *arg, uint32_t events)
{
    struct job *j = arg;
    struct ending end = { 0 };

    (void)events;
    if (read(j->pipe, &end, sizeof end) != (ssize_t)sizeof end)
        end.result = err_set(&end.err, ERR_LIMIT, "reading the state took too much time or memory");
    end.err.msg[sizeof end.err.msg - 1] = 0;
    answer(j->all, &j->waiter, &end);
    loop_unwatch(j->watch);
    close(j->pipe);
    (void)waitpid(j->pid, NULL, 0);
    running--;
    free(j);
}

static int start(struct seats *s, const struct seat_waiter *w, struct seat_request *q, int out, struct err *e)
{
    int pipes[2];

    if (pipe2(pipes, O_CLOEXEC) < 0)
        return err_sys(e, "pipe");
    pid_t pid = fork();
    if (pid == 0)
        work(s, q, out, pipes[1]);
    close(pipes[1]);
    if (pid < 0) {
        close(pipes[0]);
        return err_sys(e, "fork");
    }
    struct job *j = calloc(1, sizeof *j);
    if (!j)
        abort();
    *j = (struct job){ .all = s, .waiter = *w, .pid = pid, .pipe = pipes[0] };
    j->watch = loop_watch(s->loop, j->pipe, EPOLLIN, on_end, j);
    running++;
    return 0;
}

static int check(const struct seat_request *q, struct err *e)
{
    static struct box_spec other;

    other = q->spec;
    other.layer_count = q->other.layer_count;
    memcpy(other.layers, q->other.layers, sizeof other.layers);
    memcpy(other.parent_root, q->other.root, sizeof other.parent_root);
    int r = spec_check(&q->spec, e);
    return r < 0 ? r : spec_check(&other, e);
}

void seats_files(struct seats *s, const struct seat_waiter *w, struct seat_request *q, int out)
{
    struct ending end = { 0 };

    if (out < 0)
        end.result = err_set(&end.err, ERR_INVALID, "seat request: no descriptor to write to");
    else if (running >= WORKERS_MAX)
        end.result = err_set(&end.err, ERR_BUSY, "%u states are being read already", running);
    else
        end.result = check(q, &end.err);
    if (end.result >= 0)
        end.result = start(s, w, q, out, &end.err);
    if (end.result < 0)
        answer(s, w, &end);
}

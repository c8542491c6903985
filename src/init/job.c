/* Between init and the program stands a keeper: a fork of init that is the reaper of the program's tree, so that its
 * daemons stay below it and can be killed with it. The keeper tells the program's pid and, later, its status; it stays
 * as long as the program's children do, so that they can be told from others when the program itself has ended. */
#include "init/job.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/limits.h"
#include "base/loop.h"
#include "init/child.h"
#include "init/init.h"
#include "init/proc.h"
#include "init/task.h"

enum { STATUS_NOT_STARTED = 126 << 8 }; /* exit code 126, as shells call what could not be started */

struct waiter {
    struct job *job;
    bool only_end;
    on_job *cb;
    void *arg;
    struct loop_timer *timer;
    struct waiter *next;
};

struct pipe_end {
    int fd;
    struct loop_fd *watch; /* NULL of out, err: a follower is waited for */
};

struct follower {
    void *arg;
    int64_t at[2]; /* of stdout, stderr: it has read so far */
    int64_t paced; /* bytes since its pace was looked at */
    bool slow;     /* not waited for any more */
    struct follower *next;
};

/* What one event may add, and what a pipe may still have when the program ends. */
static const int64_t DRAINED_MAX = 2 * MiB;

struct job {
    struct init *init;
    struct job *next; /* older */
    char id[24];
    char *command;
    pid_t keeper, pid;
    bool running;
    int status;
    int64_t started_us, ended_us;
    struct pipe_end in, out, err, news;
    struct spool out_spool, err_spool;
    struct buf feed;
    bool feed_eof;
    on_job *started_cb;
    void *started_arg;
    struct waiter *waiters;
    struct follower *followers;
    struct loop_timer *pace; /* runs while the program stands still for one */
};

static void end_close(struct pipe_end *p)
{
    loop_unwatch(TAKE_PTR(p->watch));
    if (p->fd >= 0)
        close(TAKE_FD(p->fd));
}

static void job_free(struct job *j)
{
    for (struct job **at = &j->init->jobs; *at; at = &(*at)->next)
        if (*at == j) {
            *at = j->next;
            break;
        }
    if (j->keeper > 0) { /* a child that is not reaped yet: the number is its own. What it kept becomes init's */
        child_forget(j->init, j->keeper);
        (void)kill(j->keeper, SIGKILL);
    }
    end_close(&j->in);
    end_close(&j->out);
    end_close(&j->err);
    end_close(&j->news);
    loop_timer_free(j->pace);
    for (struct follower *f = j->followers, *next; f; f = next) {
        next = f->next;
        free(f);
    }
    spool_done(&j->out_spool);
    spool_done(&j->err_spool);
    buf_done(&j->feed);
    free(j->command);
    free(j);
}

/* Waiters */

static void waiter_fire(struct waiter *w)
{
    struct job *j = w->job;

    for (struct waiter **at = &j->waiters; *at; at = &(*at)->next)
        if (*at == w) {
            *at = w->next;
            break;
        }
    loop_timer_free(w->timer);
    if (w->cb)
        w->cb(w->arg, j);
    free(w);
}

static void on_waited(void *arg)
{
    waiter_fire(arg);
}

static void wake(struct job *j)
{
    for (struct waiter *w = j->waiters, *next; w; w = next) {
        next = w->next;
        if (!j->running || !w->only_end)
            waiter_fire(w);
    }
}

void job_wait(struct job *j, int64_t wait_ms, bool only_end, on_job *cb, void *arg)
{
    struct waiter *w = calloc(1, sizeof *w);
    if (!w)
        abort();
    *w = (struct waiter){ .job = j, .only_end = only_end, .cb = cb, .arg = arg, .next = j->waiters };
    w->timer = loop_timer_new(j->init->loop, on_waited, w);
    loop_timer_set(w->timer, wait_ms);
    j->waiters = w;
}

void job_unwait(struct init *in, void *arg)
{
    for (struct job *j = in->jobs; j; j = j->next) {
        if (j->started_arg == arg)
            j->started_cb = NULL;
        for (struct waiter *w = j->waiters, *next; w; w = next) {
            next = w->next;
            if (w->arg == arg) {
                w->cb = NULL;
                waiter_fire(w);
            }
        }
    }
}

void job_on_started(struct job *j, on_job *cb, void *arg)
{
    j->started_cb = cb;
    j->started_arg = arg;
}

/* Events */

static bool has_room(const struct job *j, int which)
{
    const struct spool *s = which ? &j->err_spool : &j->out_spool;

    for (const struct follower *f = j->followers; f; f = f->next)
        if (!f->slow && !spool_has_room(s, f->at[which], DRAINED_MAX))
            return false;
    return true;
}

/* A pipe that nobody reads holds up the program; one whose writers are gone would wake us all the time if it were only
 * masked. */
static bool held_up(struct job *j, struct pipe_end *p, int which)
{
    bool expects = j->followers && j->followers->arg == j; /* he is the only one */

    if (has_room(j, which))
        return false;
    loop_unwatch(TAKE_PTR(p->watch));
    for (struct follower *f = j->followers; f; f = f->next)
        f->paced = 0;
    loop_timer_set(j->pace, expects ? JOB_EXPECT_MS : JOB_PACE_MS);
    return true;
}

static void on_job_out(void *arg, uint32_t events)
{
    struct job *j = arg;
    int64_t before = j->out_spool.total;

    (void)events;
    if (held_up(j, &j->out, 0))
        return;
    if (spool_drain(&j->out_spool, j->out.fd) <= 0)
        end_close(&j->out);
    if (j->out_spool.total != before)
        wake(j);
}

static void on_job_err(void *arg, uint32_t events)
{
    struct job *j = arg;
    int64_t before = j->err_spool.total;

    (void)events;
    if (held_up(j, &j->err, 1))
        return;
    if (spool_drain(&j->err_spool, j->err.fd) <= 0)
        end_close(&j->err);
    if (j->err_spool.total != before)
        wake(j);
}

static void go_on(struct job *j)
{
    if (j->out.fd >= 0 && !j->out.watch && has_room(j, 0))
        j->out.watch = loop_watch(j->init->loop, j->out.fd, EPOLLIN, on_job_out, j);
    if (j->err.fd >= 0 && !j->err.watch && has_room(j, 1))
        j->err.watch = loop_watch(j->init->loop, j->err.fd, EPOLLIN, on_job_err, j);
}

static void on_pace(void *arg)
{
    struct job *j = arg;

    for (struct follower *f = j->followers; f; f = f->next) {
        bool lags = !spool_has_room(&j->out_spool, f->at[0], DRAINED_MAX) ||
                    !spool_has_room(&j->err_spool, f->at[1], DRAINED_MAX);
        f->slow |= lags && f->paced < JOB_PACE;
        f->paced = 0;
    }
    go_on(j);
    if ((j->out.fd >= 0 && !j->out.watch) || (j->err.fd >= 0 && !j->err.watch))
        loop_timer_set(j->pace, JOB_PACE_MS);
}

void job_expect(struct job *j)
{
    job_follow(j, j, 0, 0);
}

void job_follow(struct job *j, void *arg, int64_t out, int64_t err)
{
    struct follower *f = j->followers;

    while (f && f->arg != arg)
        f = f->next;
    if (!f) {
        job_unfollow(j->init, j); /* here is who was expected */
        f = calloc(1, sizeof *f);
        if (!f)
            abort();
        *f = (struct follower){ .arg = arg, .at = { out, err }, .next = j->followers };
        j->followers = f;
    }
    f->paced += out - f->at[0] + err - f->at[1];
    f->at[0] = out;
    f->at[1] = err;
    go_on(j);
}

void job_unfollow(struct init *in, void *arg)
{
    for (struct job *j = in->jobs; j; j = j->next)
        for (struct follower **at = &j->followers, *f; (f = *at);)
            if (f->arg == arg) {
                *at = f->next;
                free(f);
                go_on(j);
            } else {
                at = &f->next;
            }
}

static void say_started(struct job *j)
{
    on_job *cb = TAKE_PTR(j->started_cb);

    if (cb)
        cb(j->started_arg, j);
}

static void job_end(struct job *j, int status)
{
    if (!j->running)
        return;
    j->running = false;
    j->status = status;
    j->ended_us = now_us();
    end_close(&j->in);
    end_close(&j->news);
    if (j->out.fd >= 0 && spool_drain(&j->out_spool, j->out.fd) <= 0)
        end_close(&j->out);
    if (j->err.fd >= 0 && spool_drain(&j->err_spool, j->err.fd) <= 0)
        end_close(&j->err);
    say_started(j);
    wake(j);
}

static void on_job_news(void *arg, uint32_t events)
{
    struct job *j = arg;
    int news[2];
    ssize_t n = read(j->news.fd, news, sizeof news);

    (void)events;
    if (n < (ssize_t)sizeof news[0]) {
        if (n == 0 || errno != EAGAIN)
            end_close(&j->news); /* the keeper died; its exit ends the job */
        return;
    }
    size_t have = (size_t)n / sizeof news[0];
    size_t at = 0;
    bool first = !j->pid;
    if (first)
        j->pid = news[at++];
    if (j->pid < 0) /* whoever hears that it could not be started must not find it running */
        job_end(j, STATUS_NOT_STARTED);
    else if (first)
        say_started(j);
    if (at < have)
        job_end(j, news[at]);
}

static void on_keeper_exit(void *arg, pid_t pid, int status)
{
    struct job *j = arg;

    (void)pid;
    if (j->news.fd >= 0)
        on_job_news(j, 0);
    job_end(j, WIFSIGNALED(status) ? status : SIGKILL);
    j->keeper = 0;
}

/* Starting */

static _Noreturn void keeper_main(struct init *in, const struct child_opts *o, int news_fd)
{
    int status = STATUS_NOT_STARTED;

    child_limit(in);
    child_become_user(in);
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    (void)prctl(PR_SET_NAME, "job", 0, 0, 0);
    pid_t pid = fork();
    if (pid == 0) {
        (void)setsid();
        child_exec(o);
    }
    for (int i = 0; i < 3; i++)
        close(o->fds[i]);
    if (dup2(news_fd, 3) < 0)
        _exit(1);
    (void)syscall(SYS_close_range, 4u, ~0u, 0u);
    (void)!write(3, &pid, sizeof pid); /* -1: there is none */
    for (pid_t gone; pid > 0 && (gone = waitpid(-1, &status, 0)) != pid;)
        if (gone < 0 && errno != EINTR)
            break;
    (void)!write(3, &status, sizeof status);
    close(3);
    while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
        continue;
    _exit(0);
}

static bool make_room(struct init *in)
{
    struct job *oldest = NULL;
    size_t n = 0;

    for (struct job *j = in->jobs; j; j = j->next) {
        n++;
        if (!j->running && !j->waiters)
            oldest = j;
    }
    if (n < LIMIT_JOBS_PER_BOX)
        return true;
    if (!oldest)
        return false;
    job_free(oldest);
    return true;
}

static int open_pipes(struct job *j, int theirs[4], struct err *e)
{
    struct pipe_end *ours[4] = { &j->in, &j->out, &j->err, &j->news };

    for (int i = 0; i < 4; i++) {
        int p[2];
        if (pipe2(p, O_CLOEXEC) < 0)
            return err_sys(e, "start a background program");
        theirs[i] = p[i == 0 ? 0 : 1];
        ours[i]->fd = p[i == 0 ? 1 : 0];
        (void)fcntl(ours[i]->fd, F_SETFL, O_NONBLOCK);
    }
    return 0;
}

struct job *job_start(struct init *in, struct str command, const char *cwd, const struct pairs *env, struct err *e)
{
    AUTO(arena_done) struct arena a = { 0 };
    int theirs[4] = { -1, -1, -1, -1 };

    if (!make_room(in)) {
        err_set(e, ERR_LIMIT, "LIMIT_JOBS_PER_BOX (%d) background programs are running", LIMIT_JOBS_PER_BOX);
        return NULL;
    }
    struct job *j = calloc(1, sizeof *j);
    if (!j)
        abort();
    *j = (struct job){ .init = in,
                       .running = true,
                       .started_us = now_us(),
                       .in.fd = -1,
                       .out.fd = -1,
                       .err.fd = -1,
                       .news.fd = -1,
                       .next = in->jobs };
    in->jobs = j;
    snprintf(j->id, sizeof j->id, "j%llu", (unsigned long long)++in->last_job);
    j->command = strndup(command.p, command.n);
    j->pace = loop_timer_new(in->loop, on_pace, j);
    spool_init(&j->out_spool);
    spool_init(&j->err_spool);
    buf_init(&j->feed, LIMIT_FILE_IO);

    int r = open_pipes(j, theirs, e);
    if (r == 0) {
        const char *const argv[] = { "bash", "-c", j->command, NULL };
        struct child_opts o = {
            .argv = argv, .env = child_env(&a, false, cwd, env), .fds = { theirs[0], theirs[1], theirs[2] }, .cwd = cwd
        };
        j->keeper = child_fork(in, on_keeper_exit, j, e);
        if (j->keeper == 0)
            keeper_main(in, &o, theirs[3]);
        r = j->keeper < 0 ? j->keeper : 0;
    }
    for (int i = 0; i < 4; i++)
        if (theirs[i] >= 0)
            close(theirs[i]);
    if (r < 0) {
        job_free(j);
        return NULL;
    }
    j->out.watch = loop_watch(in->loop, j->out.fd, EPOLLIN, on_job_out, j);
    j->err.watch = loop_watch(in->loop, j->err.fd, EPOLLIN, on_job_err, j);
    j->news.watch = loop_watch(in->loop, j->news.fd, EPOLLIN, on_job_news, j);
    return j;
}

struct job *job_find(struct init *in, struct str id, struct err *e)
{
    for (struct job *j = in->jobs; j; j = j->next)
        if (str_is(id, j->id))
            return j;
    err_set(e, ERR_NOT_FOUND, "no background program '%.*s'", STR_ARG(id));
    return NULL;
}

struct job *job_next(struct init *in, struct job *j)
{
    return j ? j->next : in->jobs;
}

struct job_state job_describe(struct job *j)
{
    struct job_state s = { .id = j->id,
                           .command = j->command,
                           .running = j->running,
                           .pid = j->pid,
                           .started_us = j->started_us,
                           .ended_us = j->ended_us,
                           .out = &j->out_spool,
                           .err = &j->err_spool };
    if (!j->running) {
        s.sig = WIFSIGNALED(j->status) ? WTERMSIG(j->status) : 0;
        s.exit_code = s.sig ? 128 + s.sig : WEXITSTATUS(j->status);
    }
    return s;
}

void job_piece(struct job *j, struct task *t, int64_t to, int64_t err_to)
{
    memcpy(t->job, j->id, sizeof t->job);
    t->to[0] = to;
    t->to[1] = err_to;
    t->flows = (spool_flows(&j->out_spool, to, j->running) ? WIRE_FLOWS_OUT : 0) |
               (spool_flows(&j->err_spool, err_to, j->running) ? WIRE_FLOWS_ERR : 0) |
               (spool_settled(&j->out_spool, to) ? WIRE_SETTLED_OUT : 0) |
               (spool_settled(&j->err_spool, err_to) ? WIRE_SETTLED_ERR : 0);
}

void job_held(struct task *t, int64_t out, int64_t err)
{
    struct job *j = t->job[0] ? job_find(t->init, str_of(t->job), NULL) : NULL;

    if (!j)
        return;
    spool_hold(&j->out_spool, t->to[0], out);
    spool_hold(&j->err_spool, t->to[1], err);
}

int64_t job_patience(struct job *j, int64_t from, int64_t err_from, int64_t max_ms)
{
    int64_t out = spool_wait_ms(&j->out_spool, from), err = spool_wait_ms(&j->err_spool, err_from);

    if (!j->running || out == 0 || err == 0)
        return 0;
    if (out > 0 && out < max_ms)
        max_ms = out;
    return err > 0 && err < max_ms ? err : max_ms;
}

static void feed(struct job *j);

static void on_job_feedable(void *arg, uint32_t events)
{
    (void)events;
    feed(arg);
}

static void feed(struct job *j)
{
    while (j->feed.n) {
        ssize_t n = write(j->in.fd, j->feed.p, j->feed.n);
        if (n < 0 && errno == EPIPE)
            buf_reset(&j->feed);
        if (n <= 0)
            break;
        buf_eat(&j->feed, (size_t)n);
    }
    if (j->feed.n && !j->in.watch)
        j->in.watch = loop_watch(j->init->loop, j->in.fd, EPOLLOUT, on_job_feedable, j);
    if (j->feed.n)
        return;
    loop_unwatch(TAKE_PTR(j->in.watch));
    if (j->feed_eof)
        end_close(&j->in);
}

int job_input(struct job *j, struct str data, bool eof, struct err *e)
{
    if (!j->running)
        return err_set(e, ERR_NOT_FOUND, "background program %s has ended", j->id);
    if (j->in.fd < 0)
        return err_set(e, ERR_INVALID, "stdin of %s is already at its end", j->id);
    if (!buf_str(&j->feed, data))
        return err_set(e, ERR_LIMIT, "stdin of %s: more than LIMIT_FILE_IO (%ld bytes) unread", j->id, LIMIT_FILE_IO);
    j->feed_eof = eof;
    feed(j);
    return 0;
}

void job_signal(struct job *j, int sig)
{
    struct tree t = { .root = j->keeper };

    if (!j->keeper)
        return;
    if (sig == SIGKILL)
        (void)tree_kill(j->init, &t);
    else
        (void)tree_signal(j->init, &t, sig);
}

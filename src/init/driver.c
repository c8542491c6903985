#include "init/driver.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/loop.h"
#include "init/child.h"
#include "init/init.h"
#include "init/link.h"
#include "init/proc.h"
#include "init/task.h"
#include "tool/tool.h"

/* SPARE_MS: the next spare is made when the call that took the last one is likely to be over. */
enum { GRACE_MS = 5000, SWEEP_MS = 15000, TICK_MS = 1000, WATCH_MAX = 16, SPARE_MS = 10 };

struct spare { /* of one kind */
    struct init *init;
    struct spare *next;
    const struct driver_kind *kind;
    struct driver *driver; /* NULL: none waits */
    struct loop_timer *due;
};

struct driver {
    struct init *init;
    struct driver *next;
    const struct driver_kind *kind;
    char *name, *label, *note, *seed;
    pid_t pid; /* 0: down */
    int fd;
    struct loop_fd *watch;
    struct loop_timer *deadline;
    pid_t drives;
    struct buf in, out;
    struct task *task, *wait;
    bool once, ending, warm;
    enum outcome end; /* why it was killed; OUTCOME_OK: it was not */
    int restarts;
    int64_t created_us, used_us, used_ms, idle_ms;
};

/* --- the driver's process --- */

/* Never more than asked for: the next message may be behind it already. */
static bool read_exactly(int fd, void *to, size_t n)
{
    for (size_t at = 0; at < n;) {
        ssize_t r = read(fd, (char *)to + at, n - at);
        if (r < 0 && errno == EINTR)
            continue;
        if (r <= 0)
            return false;
        at += (size_t)r;
    }
    return true;
}

int driver_poll(struct hand *h, struct pollfd *fds, size_t n, int64_t timeout_ms)
{
    struct pollfd all[WATCH_MAX + 1];
    struct hand_request req;

    if (n > WATCH_MAX)
        n = WATCH_MAX;
    if (n)
        memcpy(all, fds, n * sizeof *fds);
    all[n] = (struct pollfd){ h->self->warming ? -1 : h->self->ctl, POLLIN, 0 };
    int r = poll(all, n + 1, (int)(timeout_ms < 0 ? 0 : timeout_ms > 60000 ? 60000 : timeout_ms));
    if (r <= 0) {
        for (size_t i = 0; i < n; i++)
            fds[i].revents = 0;
        return 0;
    }
    for (size_t i = 0; i < n; i++)
        fds[i].revents = all[i].revents;
    if (all[n].revents) {
        if (!read_exactly(h->self->ctl, &req, sizeof req)) /* during a call init says nothing else */
            _exit(0);
        if (!req.tool && (enum wish)req.id > h->self->wish)
            h->self->wish = (enum wish)req.id;
    }
    return r;
}

void driver_drives(struct hand *h, pid_t pid)
{
    struct buf b = { .cap = 256 };

    frame_add(&b, FRAME_KNOWN, (uint64_t)pid, 0, NULL, NULL);
    if (!hand_write(h->self->ctl, b.p, b.n))
        _exit(0);
    buf_done(&b);
}

void driver_about(struct hand *h, const struct wire_about *a)
{
    struct buf b = { .cap = 4096 };

    frame_add(&b, FRAME_ABOUT, 0, 0, wire_about_fields, a);
    if (!hand_write(h->self->ctl, b.p, b.n))
        _exit(0);
    buf_done(&b);
}

static void between_calls(struct hand *h, const struct driver_kind *k)
{
    struct pollfd fds[WATCH_MAX + 1];

    for (;;) {
        size_t n = k->watch ? k->watch(h, fds + 1, WATCH_MAX) : 0;
        fds[0] = (struct pollfd){ h->self->ctl, POLLIN, 0 };
        int r = poll(fds, n + 1, k->idle ? TICK_MS : -1);
        if (r > 0 && fds[0].revents)
            return;
        if (k->idle)
            k->idle(h);
    }
}

static void take_call(struct hand *h, struct buf *request, struct buf *reply)
{
    struct hand_request req;

    if (!read_exactly(h->self->ctl, &req, sizeof req))
        _exit(0);
    char *params = buf_room(request, req.size + 1);
    if (!params || !read_exactly(h->self->ctl, params, req.size))
        _exit(1);
    if (!req.tool) { /* a spare got its name, or an interrupt came too late */
        if (req.begun_us) {
            h->self->created_us = req.begun_us;
            h->self->name = strndup(params, req.size);
            if (!h->self->name)
                abort();
        }
        return;
    }
    h->self->wish = WISH_NONE;
    h->self->idle_ms = req.idle_ms;
    (void)hand_work(h, &req, (struct str){ params, req.size }, reply);
    if (!hand_write(h->self->ctl, reply->p, reply->n))
        _exit(0);
    h->self->first_call = false;
    arena_reset(h->arena);
    buf_done(request); /* the next may be long in coming */
    buf_done(reply);
    buf_init(request, LIMIT_FRAME + (long)sizeof req + 4096);
    buf_init(reply, LIMIT_FRAME);
}

static _Noreturn void driver_main(struct driver *d, int fd)
{
    struct self self = { .kind = d->kind,
                         .name = d->name,
                         .ctl = 3,
                         .restarts = d->restarts,
                         .first_call = true,
                         .created_us = d->created_us,
                         .seed = d->seed };
    struct arena arena;
    struct hand h = {
        .arena = &arena, .cwd = str_of(init_workspace(d->init)), .init = d->init, .stream = -1, .self = &self
    };
    struct buf request, reply;

    (void)setsid();
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    hand_become(d->init, fd);
    signal(SIGPIPE, SIG_IGN);
    arena_init(&arena);
    buf_init(&request, LIMIT_FRAME + (long)sizeof(struct hand_request) + 4096);
    buf_init(&reply, LIMIT_FRAME);
    if (d->warm && d->kind->warm) {
        self.warming = true;
        d->kind->warm(&h);
        self.warming = false;
        h.deadline_ms = 0;
        arena_reset(&arena);
    }
    for (;;) {
        between_calls(&h, d->kind);
        take_call(&h, &request, &reply);
    }
}

/* --- init's side --- */

static void next_call(struct driver *d);

/* Nobody takes it any more. */
static void spare_forget(const struct driver *d)
{
    for (struct spare *s = d->init->spares; s; s = s->next)
        if (s->driver == d)
            s->driver = NULL;
}

static void driver_free(struct driver *d)
{
    for (struct driver **at = &d->init->drivers; *at; at = &(*at)->next)
        if (*at == d) {
            *at = d->next;
            break;
        }
    spare_forget(d);
    loop_unwatch(d->watch);
    loop_timer_free(d->deadline);
    if (d->fd >= 0)
        close(d->fd);
    buf_done(&d->in);
    buf_done(&d->out);
    free(d->name);
    free(d->label);
    free(d->note);
    if (d->seed)
        (void)unlink(d->seed);
    free(d->seed);
    free(d);
}

/* What the driver named may be a lie: only what the box's user runs is killed for it. */
static void end_driven(struct driver *d)
{
    char path[32];
    struct stat st;

    if (d->drives <= 1)
        return;
    snprintf(path, sizeof path, "/proc/%d", (int)d->drives);
    if (stat(path, &st) == 0 && st.st_uid == BOX_UID) {
        kill(d->drives, SIGSTOP);
        (void)tree_kill(d->init, &(struct tree){ .root = d->drives });
        kill(d->drives, SIGKILL);
    }
    d->drives = 0;
}

static void kill_driver(struct driver *d, enum outcome why)
{
    if (!d->pid)
        return;
    if (d->end == OUTCOME_OK)
        d->end = why;
    spare_forget(d);
    loop_unwatch(d->watch);
    d->watch = NULL;
    kill(d->pid, SIGSTOP); /* it starts nothing more, and dies last: until then its children are below it */
    (void)tree_kill(d->init, &(struct tree){ .root = d->pid });
    end_driven(d);
    kill(d->pid, SIGKILL);
}

static void fail_call(struct driver *d, struct task *t, int status)
{
    struct err e;
    enum outcome o = d->end == OUTCOME_OK ? OUTCOME_INFRA_ERROR : d->end;

    if (d->end == OUTCOME_TIMEOUT)
        err_set(&e, ERR_NONE, "timed out after %lld ms; %s did not react and was ended", (long long)t->call.timeout_ms,
                d->kind->name);
    else if (d->end == OUTCOME_KILLED)
        err_set(&e, ERR_NONE, "cancelled; %s '%s' was ended", d->kind->name, d->label);
    else
        err_set(&e, ERR_SYSTEM, "the driver of %s ended by %s %d", d->kind->name,
                WIFSIGNALED(status) ? "signal" : "status",
                WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    task_fail(t, o, &e);
}

static void on_driver_exit(void *arg, pid_t pid, int status)
{
    struct driver *d = arg;

    (void)pid;
    loop_unwatch(TAKE_PTR(d->watch));
    close(TAKE_FD(d->fd));
    end_driven(d);
    d->pid = 0;
    buf_done(&d->in);
    buf_done(&d->out);
    loop_timer_set(d->deadline, -1);
    struct task *t = TAKE_PTR(d->task);
    if (t)
        fail_call(d, t, status);
    d->end = OUTCOME_OK;
    d->restarts++;
    d->used_ms = now_ms();
    if (!d->ending) {
        next_call(d);
        return;
    }
    for (struct task *w = d->wait, *after; w; w = after) {
        struct err e;
        after = w->next_wait;
        err_set(&e, ERR_NOT_FOUND, "%s '%s' was ended", d->kind->name, d->label);
        task_fail(w, OUTCOME_KILLED, &e);
    }
    driver_free(d);
}

void driver_end(struct driver *d)
{
    d->ending = true;
    if (d->pid) {
        kill_driver(d, OUTCOME_KILLED);
        return;
    }
    d->pid = 0;
    driver_free(d); /* one that is down has no queue: a call starts it */
}

static void on_deadline(void *arg)
{
    struct driver *d = arg;

    kill_driver(d, d->end ? d->end : OUTCOME_TIMEOUT);
}

static void pump_out(struct driver *d)
{
    while (d->out.n) {
        ssize_t n = send(d->fd, d->out.p, d->out.n, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        buf_eat(&d->out, (size_t)n);
    }
    if (d->watch)
        loop_change(d->watch, EPOLLIN | (d->out.n ? EPOLLOUT : 0));
}

static void tell(struct driver *d, enum wish w)
{
    struct hand_request req = { .id = (uint64_t)w };

    buf_add(&d->out, &req, sizeof req);
    pump_out(d);
}

static void finish_call(struct driver *d, struct str frame)
{
    struct task *t = TAKE_PTR(d->task);

    loop_timer_set(d->deadline, -1);
    d->used_us = wall_us();
    d->used_ms = now_ms();
    if (t) {
        buf_init(&t->reply, LIMIT_FRAME + (long)sizeof(struct frame_head));
        buf_str(&t->reply, frame);
        task_reply_ready(t);
    }
    if (d->once)
        driver_end(d);
    else
        next_call(d);
}

static void take_about(struct driver *d, struct str payload)
{
    AUTO(arena_done) struct arena a = { 0 };
    struct wire_about about;

    if (field_unpack(wire_about_fields, payload, &a, &about, sizeof about, NULL) >= 0)
        link_about(d->init, &about);
}

static void read_driver(struct driver *d)
{
    struct frame_head head;
    struct str payload;

    void *to = buf_room(&d->in, 64 * KiB);
    ssize_t n = to ? recv(d->fd, to, 64 * KiB, MSG_DONTWAIT) : 0;
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) { /* dead already, or talking nonsense; its exit tells the story */
        kill_driver(d, OUTCOME_OK);
        return;
    }
    buf_grew(&d->in, (size_t)n);
    for (int r; (r = frame_peek(&d->in, &head, &payload, NULL)) != 0;) {
        if (r < 0) {
            kill_driver(d, OUTCOME_OK);
            return;
        }
        size_t size = sizeof head + head.size;
        if (head.type == FRAME_KNOWN) {
            d->drives = head.id < INT32_MAX ? (pid_t)head.id : 0;
            buf_eat(&d->in, size);
            continue;
        }
        if (head.type == FRAME_ABOUT) {
            take_about(d, payload);
            buf_eat(&d->in, size);
            continue;
        }
        if (head.type != FRAME_RESULT || !d->task || head.id != d->task->id || d->in.n != size) {
            kill_driver(d, OUTCOME_OK);
            return;
        }
        struct buf whole = d->in; /* finish_call may free d */
        buf_init(&d->in, LIMIT_FRAME + (long)sizeof head);
        finish_call(d, buf_view(&whole));
        buf_done(&whole);
        return;
    }
}

static void on_driver_ready(void *arg, uint32_t events)
{
    struct driver *d = arg;

    if (events & EPOLLOUT)
        pump_out(d);
    if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
        read_driver(d);
}

static void cancel(struct task *t)
{
    struct driver *d = t->state;
    struct err e;

    if (d->task == t) {
        d->end = OUTCOME_KILLED;
        tell(d, WISH_CANCEL);
        loop_timer_set(d->deadline, GRACE_MS);
        return;
    }
    for (struct task **at = &d->wait; *at; at = &(*at)->next_wait)
        if (*at == t) {
            *at = t->next_wait;
            break;
        }
    err_set(&e, ERR_NONE, "cancelled before it began");
    task_fail(t, OUTCOME_KILLED, &e);
}

static int start(struct driver *d, struct err *e)
{
    int fds[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
        return err_sys(e, "start a driver of %s", d->kind->name);
    d->pid = child_fork(d->init, on_driver_exit, d, e);
    if (d->pid == 0)
        driver_main(d, fds[1]);
    close(fds[1]);
    if (d->pid < 0) {
        int r = d->pid;
        close(fds[0]);
        d->pid = 0;
        return r;
    }
    d->fd = fds[0];
    free(TAKE_PTR(d->seed)); /* the process has it now */
    buf_init(&d->in, LIMIT_FRAME + (long)sizeof(struct frame_head));
    buf_init(&d->out, LIMIT_FRAME + 64 * KiB);
    d->watch = loop_watch(d->init->loop, d->fd, EPOLLIN, on_driver_ready, d);
    return 0;
}

static void give(struct driver *d, struct task *t)
{
    bool plain = t->call.head_bytes == 0 && t->call.tail_bytes == 0;
    int64_t end = t->call.timeout_ms > 0 ? t->begun_us / 1000 + t->call.timeout_ms : 0;
    struct hand_request req = {
        .tool = t->tool,
        .id = t->id,
        .begun_us = t->begun_us,
        .deadline_ms = end,
        .head_bytes = plain ? LIMIT_OUTPUT_HEAD : t->call.head_bytes,
        .tail_bytes = plain ? LIMIT_OUTPUT_TAIL : t->call.tail_bytes,
        .size = t->call.params.n,
        .idle_ms = d->idle_ms,
    };

    d->task = t;
    d->end = OUTCOME_OK;
    d->used_us = wall_us();
    if (end)
        loop_timer_set(d->deadline, end - now_ms() > 0 ? end - now_ms() + GRACE_MS : GRACE_MS);
    buf_add(&d->out, &req, sizeof req);
    buf_str(&d->out, t->call.params);
    pump_out(d);
}

static void next_call(struct driver *d)
{
    struct err e = { 0 };

    if (d->task || !d->wait || d->ending)
        return;
    struct task *t = d->wait;
    d->wait = t->next_wait;
    if (!d->pid && start(d, &e) < 0) {
        task_fail(t, e.sys == EAGAIN ? OUTCOME_PID_LIMIT : OUTCOME_INFRA_ERROR, &e);
        next_call(d);
        return;
    }
    give(d, t);
}

static void on_sweep(void *arg)
{
    struct init *in = arg;

    for (struct driver *d = in->drivers, *after; d; d = after) {
        after = d->next;
        if (d->idle_ms > 0 && !d->task && !d->wait && !d->ending && now_ms() - d->used_ms > d->idle_ms)
            driver_end(d);
    }
    loop_timer_set(in->driver_sweep, in->drivers ? SWEEP_MS : -1);
}

static struct driver *driver_alloc(struct init *in, const struct driver_kind *k)
{
    struct driver *d = calloc(1, sizeof *d);

    if (!d)
        abort();
    *d = (struct driver){ .init = in, .kind = k, .fd = -1 };
    d->deadline = loop_timer_new(in->loop, on_deadline, d);
    return d;
}

/* A spare is made behind a call, when programs may need the memory: it could cost a kernel its variables. Files lie in
 * memory, too. */
static bool half_full(const struct init *in)
{
    struct statfs fs = { 0 };
    int64_t files = statfs("/", &fs) == 0 ? (int64_t)(fs.f_blocks - fs.f_bfree) * fs.f_bsize : 0;

    if (in->boot.fork_python || !in->boot.memory_bytes) /* what is forked takes little, and would be counted as much */
        return false;
    return procs_memory() + files > in->boot.memory_bytes / 2;
}

static void spare_make(struct spare *s)
{
    struct err e = { 0 };

    if (s->driver || half_full(s->init))
        return;
    if (s->kind->ahead)
        s->kind->ahead(s->init);
    struct driver *d = driver_alloc(s->init, s->kind);
    d->ending = true; /* if it ends before it has a name, that is all */
    d->warm = true;
    if (start(d, &e) < 0) {
        driver_free(d); /* memory or processes are short: the next new one is started when it is asked for */
        return;
    }
    d->warm = false;
    s->driver = d;
}

static void on_spare_due(void *arg)
{
    spare_make(arg);
}

static struct spare *spare_of(struct init *in, const struct driver_kind *k)
{
    struct spare *s = in->spares;

    while (s && s->kind != k)
        s = s->next;
    if (s)
        return s;
    s = calloc(1, sizeof *s);
    if (!s)
        abort();
    *s = (struct spare){ .init = in, .next = in->spares, .kind = k };
    s->due = loop_timer_new(in->loop, on_spare_due, s);
    in->spares = s;
    return s;
}

void driver_spare(struct init *in, const struct driver_kind *k)
{
    spare_make(spare_of(in, k));
}

void driver_spare_renew(struct init *in)
{
    for (struct spare *s = in->spares; s; s = s->next)
        if (s->driver) {
            kill_driver(s->driver, OUTCOME_KILLED);
            loop_timer_set(s->due, SPARE_MS);
        }
}

/* Its process is told its name, and when that was first used; both go out with the first call. */
static struct driver *spare_take(struct spare *s, struct str name)
{
    struct driver *d = TAKE_PTR(s->driver);
    struct hand_request named = { .id = WISH_NONE, .begun_us = wall_us(), .size = name.n };

    d->ending = false;
    buf_add(&d->out, &named, sizeof named);
    buf_str(&d->out, name);
    return d;
}

static struct driver *driver_new(struct init *in, const struct driver_ask *ask, struct err *e)
{
    size_t n = 0;

    for (struct driver *o = in->drivers; o; o = o->next)
        n++;
    if (n >= LIMIT_DRIVERS_PER_BOX) {
        err_set(e, ERR_LIMIT, "%s: LIMIT_DRIVERS_PER_BOX (%d) interpreters live in this box already", ask->kind->name,
                LIMIT_DRIVERS_PER_BOX);
        return NULL;
    }
    struct spare *s = ask->spare ? spare_of(in, ask->kind) : NULL;
    bool ready = s && s->driver && !ask->seed;
    struct driver *d = ready ? spare_take(s, ask->name) : driver_alloc(in, ask->kind);
    d->name = strndup(ask->name.p ? ask->name.p : "", ask->name.n);
    d->label = strndup(ask->label.p ? ask->label.p : "", ask->label.n);
    d->note = strndup(ask->note.p ? ask->note.p : "", ask->note.n);
    d->seed = ask->seed ? strdup(ask->seed) : NULL;
    if (!d->name || !d->label || !d->note)
        abort();
    d->idle_ms = ask->idle_ms;
    d->created_us = d->used_us = wall_us();
    d->used_ms = now_ms();
    d->next = in->drivers;
    in->drivers = d;
    if (s)
        loop_timer_set(s->due, ready ? SPARE_MS : ask->kind->start_ms);
    if (!in->driver_sweep)
        in->driver_sweep = loop_timer_new(in->loop, on_sweep, in);
    loop_timer_set(in->driver_sweep, SWEEP_MS);
    return d;
}

struct driver *driver_find(struct init *in, const struct driver_kind *k, struct str name)
{
    for (struct driver *d = in->drivers; d; d = d->next)
        if (d->kind == k && !d->ending && str_is(name, d->name))
            return d;
    return NULL;
}

bool driver_put(struct init *in, const struct driver_ask *ask)
{
    struct err e;

    return !driver_find(in, ask->kind, ask->name) && driver_new(in, ask, &e);
}

void driver_submit(struct task *t, const struct driver_ask *ask)
{
    struct driver *d = driver_find(t->init, ask->kind, ask->name);
    struct err e = { 0 };

    if (!d && ask->must_exist)
        err_set(&e, ERR_NOT_FOUND, "%s: no session '%.*s'", ask->kind->name, STR_ARG(ask->label));
    else if (!d)
        d = driver_new(t->init, ask, &e);
    if (!d) {
        task_fail(t, OUTCOME_TASK_ERROR, &e);
        return;
    }
    if (ask->idle_ms > 0 && !ask->idle_of_new)
        d->idle_ms = ask->idle_ms;
    if (ask->noted) {
        free(d->note);
        d->note = strndup(ask->note.p, ask->note.n);
        if (!d->note)
            abort();
    }
    d->once |= ask->once;
    t->state = d;
    t->cancel = cancel;
    t->next_wait = NULL;
    struct task **at = &d->wait;
    while (*at)
        at = &(*at)->next_wait;
    *at = t;
    next_call(d);
}

void driver_warm(struct init *in, const struct driver_ask *ask)
{
    struct err e = { 0 };
    struct driver *d = driver_find(in, ask->kind, ask->name);

    if (!d)
        d = driver_new(in, ask, &e);
    if (!d || d->pid)
        return;
    d->warm = true;
    if (start(d, &e) < 0)
        log_warn("not warmed", "kind=%s error='%s', the first call starts it", ask->kind->name, e.msg);
    d->warm = false; /* one that takes its place has a call to do */
}

bool driver_interrupt(struct driver *d)
{
    if (d->task)
        tell(d, WISH_INTERRUPT);
    return d->task != NULL;
}

struct driver *driver_next(struct init *in, const struct driver_kind *k, struct driver *d)
{
    d = d ? d->next : in->drivers;
    while (d && ((k && d->kind != k) || d->ending))
        d = d->next;
    return d;
}

struct driver_info driver_describe(const struct driver *d)
{
    struct driver_info i = { .kind = d->kind,
                             .name = d->name,
                             .label = d->label,
                             .note = d->note,
                             .seed = d->seed,
                             .once = d->once,
                             .up = d->pid != 0,
                             .busy = d->task != NULL,
                             .created_us = d->created_us,
                             .used_us = d->used_us,
                             .idle_ms = d->idle_ms,
                             .restarts = d->restarts };

    for (const struct task *t = d->wait; t; t = t->next_wait)
        i.waiting++;
    return i;
}

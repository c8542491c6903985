#include "init/watches.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/limits.h"
#include "base/loop.h"
#include "init/child.h"
#include "init/init.h"
#include "init/watch_process.h"

const char *const watch_type_names[WATCH_TYPES] = { "create", "write", "remove", "rename", "chmod" };

struct watch_wait {
    struct watch_wait *next;
    struct watcher *watcher;
    int64_t after;
    on_watch *cb;
    void *arg;
    struct loop_timer *timer;
};

struct watcher {
    struct watcher *next;
    struct init *init;
    char id[24];
    char *path, *config; /* config: what makes it the same as another */
    bool recursive, hidden, ready, lost, busy;
    unsigned users;
    bool waking; /* and so one user more */
    int64_t created_us;
    pid_t pid;
    int fd;
    struct loop_fd *watch;
    struct buf in;
    struct watch_event *ring; /* of LIMIT_WATCH_EVENTS, by seq */
    int64_t seq, first;
    char *trouble;
    struct watch_wait *waits;
};

static void event_done(struct watch_event *e)
{
    free(e->path);
    free(e->old_path);
    *e = (struct watch_event){ 0 };
}

static void wait_fire(struct watch_wait *w)
{
    struct watcher *of = w->watcher;
    on_watch *cb = w->cb;
    void *arg = w->arg;

    for (struct watch_wait **at = &of->waits; *at; at = &(*at)->next)
        if (*at == w) {
            *at = w->next;
            break;
        }
    loop_timer_free(w->timer);
    free(w);
    if (cb)
        cb(arg, of);
}

static void on_waited(void *arg)
{
    wait_fire(arg);
}

static void wake(struct watcher *w)
{
    w->users++; /* whoever is told may close it */
    w->waking = true;
    for (struct watch_wait *wait = w->waits, *next; wait; wait = next) {
        next = wait->next;
        if (w->lost || (w->ready && w->seq > wait->after))
            wait_fire(wait);
    }
    w->waking = false;
    watch_close(w);
}

static void watcher_free(struct watcher *w)
{
    for (struct watcher **at = &w->init->watchers; *at; at = &(*at)->next)
        if (*at == w) {
            *at = w->next;
            break;
        }
    loop_unwatch(w->watch);
    if (w->fd >= 0)
        close(w->fd);
    for (size_t i = 0; w->ring && i < LIMIT_WATCH_EVENTS; i++)
        event_done(&w->ring[i]);
    free(w->ring);
    free(w->path);
    free(w->config);
    free(w->trouble);
    buf_done(&w->in);
    free(w);
}

void watch_close(struct watcher *w)
{
    if (--w->users > 0)
        return;
    while (w->waits) {
        w->users = 1; /* so that nobody frees it under us */
        wait_fire(w->waits);
    }
    if (w->pid) {
        child_forget(w->init, w->pid);
        kill(w->pid, SIGKILL);
    }
    watcher_free(w);
}

static void take_record(struct watcher *w, const struct watch_record *r, const char *text)
{
    if (r->kind == 'R' || r->kind == 'E' || r->kind == 'B' || r->kind == 'O') {
        if (r->path_n && !w->trouble)
            w->trouble = strndup(text, r->path_n);
        if (r->kind == 'O')
            w->first = w->seq + 2; /* a number is left out: whoever reads on sees that something is missing */
        if (r->kind == 'O')
            w->seq++;
        w->ready = true;
        w->busy = r->kind == 'B';
        w->lost = w->lost || w->busy || r->kind == 'E';
        return;
    }
    if (r->kind >= WATCH_TYPES)
        return;
    if (!w->ring && !(w->ring = calloc(LIMIT_WATCH_EVENTS, sizeof *w->ring)))
        abort();
    struct watch_event *e = &w->ring[++w->seq % LIMIT_WATCH_EVENTS];
    event_done(e);
    *e = (struct watch_event){ .seq = w->seq,
                               .time_us = wall_us(),
                               .mtime_us = r->mtime_us,
                               .size = r->size,
                               .inode = r->inode,
                               .type = (enum watch_type)r->kind,
                               .is_dir = r->is_dir,
                               .path = strndup(text, r->path_n),
                               .old_path = r->old_n ? strndup(text + r->path_n, r->old_n) : NULL };
    if (w->seq - w->first >= LIMIT_WATCH_EVENTS)
        w->first = w->seq - LIMIT_WATCH_EVENTS + 1;
}

static void on_records(void *arg, uint32_t events)
{
    struct watcher *w = arg;
    char text[16384];
    ssize_t n = 0;

    (void)events;
    for (int i = 0; i < 16 && (n = read(w->fd, text, sizeof text)) > 0; i++) {
        buf_add(&w->in, text, (size_t)n);
        for (;;) {
            struct watch_record r;
            if (w->in.n < sizeof r)
                break;
            memcpy(&r, w->in.p, sizeof r);
            if (w->in.n < sizeof r + r.path_n + r.old_n)
                break;
            take_record(w, &r, w->in.p + sizeof r);
            buf_eat(&w->in, sizeof r + r.path_n + r.old_n);
        }
    }
    if (n == 0 || w->in.full) {
        loop_unwatch(TAKE_PTR(w->watch));
        w->lost = w->ready = true;
    }
    wake(w);
}

static void on_process_end(void *arg, pid_t pid, int status)
{
    struct watcher *w = arg;

    (void)pid, (void)status;
    w->pid = 0;
}

static char *config_of(const struct watch_opts *o)
{
    AUTO(buf_done) struct buf b = { .cap = 1 * MiB };

    buf_printf(&b, "%s\n%d %lld\n", o->path, o->recursive, (long long)o->debounce_ms);
    for (size_t i = 0; i < o->exclude.n; i++)
        buf_printf(&b, "-%.*s\n", STR_ARG(o->exclude.v[i]));
    for (size_t i = 0; i < o->include.n; i++)
        buf_printf(&b, "+%.*s\n", STR_ARG(o->include.v[i]));
    return strndup(b.p, b.n);
}

static int start(struct watcher *w, const struct watch_opts *o, struct err *e)
{
    int p[2];

    if (pipe2(p, O_CLOEXEC) < 0)
        return err_sys(e, "watch %s", o->path);
    w->fd = p[0];
    (void)fcntl(w->fd, F_SETFL, O_NONBLOCK);
    w->watch = loop_watch(w->init->loop, w->fd, EPOLLIN, on_records, w);
    w->pid = w->watch ? child_fork(w->init, on_process_end, w, e) : err_sys(e, "watch %s", o->path);
    if (w->pid == 0) {
        child_limit(w->init);
        child_become_user(w->init);
        (void)prctl(PR_SET_NAME, "watcher", 0, 0, 0);
        signal(SIGPIPE, SIG_IGN);
        if (dup2(p[1], 3) < 0)
            _exit(1);
        (void)syscall(SYS_close_range, 4u, ~0u, 0u);
        watch_process(o, 3);
    }
    close(p[1]);
    if (w->pid < 0) {
        int r = w->pid;
        w->pid = 0;
        return r;
    }
    return 0;
}

struct watcher *watch_open(struct init *in, const struct watch_opts *o, bool *ret_reused, struct err *e)
{
    char *config = config_of(o);
    size_t n = 0;

    *ret_reused = false;
    for (struct watcher *w = in->watchers; w; w = w->next) {
        n++;
        if (!o->hidden && !w->hidden && !w->lost && strcmp(w->config, config) == 0) {
            free(config);
            w->users++;
            *ret_reused = true;
            return w;
        }
    }
    struct watcher *w = n < LIMIT_WATCHERS ? calloc(1, sizeof *w) : NULL;
    if (!w) {
        free(config);
        err_set(e, ERR_BUSY, "a box has at most LIMIT_WATCHERS (%d) watchers; stop one", LIMIT_WATCHERS);
        return NULL;
    }
    *w = (struct watcher){ .init = in,
                           .next = in->watchers,
                           .path = strdup(o->path),
                           .config = config,
                           .recursive = o->recursive,
                           .hidden = o->hidden,
                           .users = 1,
                           .created_us = wall_us(),
                           .fd = -1,
                           .first = 1 };
    snprintf(w->id, sizeof w->id, "w%llu", (unsigned long long)++in->last_watcher);
    buf_init(&w->in, 1 * MiB);
    in->watchers = w;
    if (start(w, o, e) < 0) {
        watch_close(w);
        return NULL;
    }
    return w;
}

struct watcher *watch_find(struct init *in, struct str id)
{
    struct watcher *w = in->watchers;

    while (w && (w->hidden || !str_is(id, w->id)))
        w = w->next;
    return w;
}

struct watcher *watch_next(struct init *in, struct watcher *w)
{
    w = w ? w->next : in->watchers;
    while (w && w->hidden)
        w = w->next;
    return w;
}

struct watch_state watch_describe(const struct watcher *w)
{
    return (struct watch_state){ .id = w->id,
                                 .path = w->path,
                                 .recursive = w->recursive,
                                 .lost = w->lost,
                                 .busy = w->busy,
                                 .created_us = w->created_us,
                                 .last_seq = w->seq,
                                 .first_seq = w->first,
                                 .users = w->users - w->waking,
                                 .trouble = w->trouble };
}

const struct watch_event *watch_event(const struct watcher *w, int64_t after)
{
    int64_t seq = after + 1 > w->first ? after + 1 : w->first;

    return w->ring && seq <= w->seq ? &w->ring[seq % LIMIT_WATCH_EVENTS] : NULL;
}

void watch_wait(struct watcher *w, int64_t after, int64_t ms, on_watch *cb, void *arg)
{
    struct watch_wait *wait = calloc(1, sizeof *wait);

    if (!wait)
        abort();
    *wait = (struct watch_wait){ .watcher = w, .after = after, .cb = cb, .arg = arg, .next = w->waits };
    wait->timer = loop_timer_new(w->init->loop, on_waited, wait);
    loop_timer_set(wait->timer, ms);
    w->waits = wait;
}

void watch_unwait(struct init *in, void *arg)
{
    for (struct watcher *w = in->watchers; w; w = w->next)
        for (struct watch_wait *wait = w->waits, *next; wait; wait = next) {
            next = wait->next;
            if (wait->arg == arg) {
                wait->cb = NULL;
                wait_fire(wait);
            }
        }
}

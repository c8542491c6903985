/* Like a viewer, a follower of a terminal is never waited for; one of a program with pipes of its own is, while it reads
 * (job_follow). It has no pointer to what it follows: that is looked up each time, and
 * what is not there any more has ended. */
#include "init/tail.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/limits.h"
#include "base/loop.h"
#include "init/init.h"
#include "init/job.h"
#include "init/runs.h"
#include "init/stream.h"
#include "init/terminal.h"
#include "wire/view.h"

enum { CHUNK = 32 * 1024 };
#define FOR_EVER_MS (365 * 24 * 3600 * 1000L)

struct tail {
    struct init *init;
    char name[160], id[24]; /* of the session; of a run */
    unsigned seq;           /* of a command */
    int fd;
    struct loop_fd *watch;
    uint32_t armed;
    int64_t out, err;
    bool told, due, waiting;
    struct buf queue;
    struct arena arena;
};

struct look { /* at what is followed, now */
    bool running;
    int exit_code;
    const char *status;
    struct job *job;
    struct command *command;
};

static struct command *find_command(struct init *in, struct str name, unsigned seq)
{
    struct terminal *t = terminal_find(in, name);
    struct command *found = NULL;

    for (struct command *c = t ? terminal_first(t) : NULL; c; c = c->next)
        if (!seq || c->seq == seq)
            found = c;
    return found;
}

static struct look look_at(const struct tail *t)
{
    struct look l = { .status = t->id[0] ? "killed" : "terminated", .exit_code = -1 };

    if (t->id[0]) {
        struct run_session *s = run_session_find(t->init, str_of(t->name));
        struct run *r = s ? run_find(s, str_of(t->id)) : NULL;
        if (!r)
            return l;
        run_look(r);
        l.job = run_job(r);
        l.running = l.job && job_describe(l.job).running; /* one that timed out may still have to say something */
        l.exit_code = r->exit_code;
        l.status = r->status == RUN_TIMED_OUT ? "timed_out" : r->status == RUN_KILLED ? "killed" : "completed";
        return l;
    }
    l.command = find_command(t->init, str_of(t->name), t->seq);
    if (!l.command)
        return l;
    l.running = l.command->status == COMMAND_WAITING || l.command->status == COMMAND_RUNNING;
    l.exit_code = l.command->exit_code;
    l.status = l.command->status == COMMAND_COMPLETED      ? "completed"
               : l.command->status == COMMAND_HARD_TIMEOUT ? "hard_timeout"
                                                           : "terminated";
    return l;
}

static void say(struct tail *t, enum view_type type, int64_t at, struct str s)
{
    struct view_head head = { .size = (uint32_t)s.n, .type = type, .at = at };

    buf_add(&t->queue, &head, sizeof head);
    buf_str(&t->queue, s);
}

/* Of a stream, its head and its tail are kept: what was between them is skipped. */
static struct str stream_from(const struct stream *s, int64_t *at, struct arena *a)
{
    struct str all = { 0 };
    int64_t tail_from = s->total - (int64_t)s->tail_n;
    int64_t from = *at > s->total ? s->total : *at;

    if (from >= (int64_t)s->head_n && from < tail_from)
        from = tail_from;
    if (from < (int64_t)s->head_n) {
        all = (struct str){ s->head + from, s->head_n - (size_t)from };
    } else if (from < s->total) {
        struct stream only = *s; /* the tail alone, in order */
        only.head_n = 0;
        only.total = (int64_t)s->tail_n;
        all = stream_text(&only, a);
        all = (struct str){ all.p + (from - tail_from), all.n - (size_t)(from - tail_from) };
    }
    *at = from;
    all.n = all.n > CHUNK ? CHUNK : all.n;
    return all;
}

static void fill(struct tail *t, const struct look *l)
{
    if (l->job) {
        struct job_state s = job_describe(l->job);
        if (t->out < s.out->total) {
            struct str text = spool_read_on(s.out, &t->out, CHUNK, &t->arena);
            say(t, VIEW_OUTPUT, t->out - (int64_t)text.n, text);
        }
        if (t->err < s.err->total) {
            struct str text = spool_read_on(s.err, &t->err, CHUNK, &t->arena);
            say(t, VIEW_ERRORS, t->err - (int64_t)text.n, text);
        }
        job_follow(l->job, t, t->out, t->err);
    } else if (l->command && t->out < l->command->out.total) {
        struct str text = stream_from(&l->command->out, &t->out, &t->arena);
        say(t, VIEW_OUTPUT, t->out, text);
        t->out += (int64_t)text.n;
    }
    arena_reset(&t->arena);
    if (!t->queue.n && !l->running && !t->told) {
        t->told = true;
        say(t, VIEW_EXIT, l->exit_code, str_of(l->status));
    }
}

static void free_later(void *arg)
{
    struct tail *t = arg;

    buf_done(&t->queue);
    arena_done(&t->arena);
    free(t);
}

static void tail_end(struct tail *t)
{
    if (t->due)
        return;
    t->due = true;
    if (t->id[0]) {
        job_unwait(t->init, t);
        job_unfollow(t->init, t);
    } else {
        command_unwait(t->init, t);
    }
    loop_unwatch(t->watch);
    close(t->fd);
    loop_later(t->init->loop, free_later, t);
}

static void pump(struct tail *t);

static void on_job_news(void *arg, struct job *j)
{
    struct tail *t = arg;

    (void)j;
    t->waiting = false;
    pump(t);
}

static void on_command_news(void *arg, struct command *c, enum command_news why)
{
    struct tail *t = arg;

    (void)c, (void)why;
    t->waiting = false;
    pump(t);
}

static void wait_for(struct tail *t, const struct look *l)
{
    if (t->waiting || !l->running)
        return;
    t->waiting = true;
    if (l->job)
        job_wait(l->job, FOR_EVER_MS, false, on_job_news, t);
    else
        command_wait(l->command,
                     &(struct command_wait_opts){ .ms = -1, .output = true, .cb = on_command_news, .arg = t });
}

static void pump(struct tail *t)
{
    struct look l = look_at(t);

    while (!t->due) {
        if (!t->queue.n)
            fill(t, &l);
        if (!t->queue.n)
            break;
        ssize_t n = send(t->fd, t->queue.p, t->queue.n, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            break;
        if (n < 0) {
            tail_end(t);
            return;
        }
        buf_eat(&t->queue, (size_t)n);
    }
    if (t->told && !t->queue.n) {
        tail_end(t);
        return;
    }
    uint32_t want = EPOLLIN | (t->queue.n ? EPOLLOUT : 0);
    if (want != t->armed)
        loop_change(t->watch, want);
    t->armed = want;
    wait_for(t, &l);
}

static void on_tail(void *arg, uint32_t events)
{
    struct tail *t = arg;
    char sink[64];

    if (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
        ssize_t n = recv(t->fd, sink, sizeof sink, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
            tail_end(t);
            return;
        }
    }
    pump(t);
}

/* Nobody has seen what is not written yet. */
static int64_t within(int64_t after, int64_t total)
{
    return after < 0 ? 0 : after < total ? after : total;
}

static int begin(const struct tail *like, const struct wire_dial *w, struct err *e)
{
    struct view_hello hello = { .pid = (int64_t)like->seq };
    int ends[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        return err_sys(e, "make a stream");
    struct tail *t = calloc(1, sizeof *t);
    if (!t)
        abort();
    *t = *like;
    t->fd = ends[0];
    t->armed = EPOLLIN;
    struct look l = look_at(t);
    t->out = within(w->after, l.job ? job_describe(l.job).out->total : l.command ? l.command->out.total : 0);
    t->err = within(w->after_err, l.job ? job_describe(l.job).err->total : 0);
    hello.end = t->err;
    buf_init(&t->queue, 4 * VIEW_MAX);
    t->watch = loop_watch(t->init->loop, t->fd, EPOLLIN, on_tail, t);
    if (!t->watch) {
        close(ends[0]);
        close(ends[1]);
        free(t);
        return err_set(e, ERR_BUSY, "init can watch no more descriptors");
    }
    say(t, VIEW_HELLO, t->out, (struct str){ (char *)&hello, sizeof hello });
    pump(t);
    return ends[1];
}

/* "SESSION#ID": what is behind the last '#', which a session's name may have, too. */
static struct str cut_id(struct str *name)
{
    const char *hash = memrchr(name->p, '#', name->n);
    struct str id = { hash ? hash + 1 : "", hash ? (size_t)(name->p + name->n - hash - 1) : 0 };

    name->n = hash ? (size_t)(hash - name->p) : name->n;
    return id;
}

int tail_run(struct init *in, struct str name, const struct wire_dial *w, struct err *e)
{
    struct tail t = { .init = in };
    struct str id = cut_id(&name);
    struct run_session *s = run_session_find(in, name);
    struct run *r = s && id.n ? run_find(s, id) : NULL;

    if (!r)
        return err_set(e, ERR_NOT_FOUND, "session %.*s has no command %.*s", STR_ARG(name), STR_ARG(id));
    snprintf(t.id, sizeof t.id, "%s", r->id);
    snprintf(t.name, sizeof t.name, "%.*s", STR_ARG(name));
    return begin(&t, w, e);
}

int tail_command(struct init *in, struct str name, const struct wire_dial *w, struct err *e)
{
    struct tail t = { .init = in };
    struct str id = cut_id(&name);
    unsigned seq = 0;

    for (size_t i = 0; i < id.n && id.p[i] >= '0' && id.p[i] <= '9'; i++)
        seq = seq * 10 + (unsigned)(id.p[i] - '0');
    struct command *c = id.n && !seq ? NULL : find_command(in, name, seq);
    if (!c && id.n)
        return err_set(e, ERR_NOT_FOUND, "session %.*s has no command %.*s, or not any more", STR_ARG(name),
                       STR_ARG(id));
    if (!c)
        return err_set(e, ERR_NOT_FOUND, "Session not found, or it has run no command");
    t.seq = c->seq;
    snprintf(t.name, sizeof t.name, "%.*s", STR_ARG(name));
    return begin(&t, w, e);
}

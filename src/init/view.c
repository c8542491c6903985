/* A viewer is never waited for: what it has not taken is in the terminal's ring, and if it is too late even for that,
 * it sees a gap in the offsets. */
#include "init/view.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/limits.h"
#include "base/loop.h"
#include "init/init.h"
#include "init/terminal.h"
#include "wire/view.h"

enum { CHUNK = 32 * 1024, CELLS_MAX = 1000 };

struct view {
    struct terminal_listener listener; /* first */
    struct init *init;
    struct terminal *terminal; /* NULL: closed */
    int fd;
    struct loop_fd *watch;
    uint32_t armed;
    int64_t pos;
    int cols, rows; /* as last told */
    bool told;      /* that it was closed */
    bool due;       /* freed at the end of the turn */
    struct buf in, out;
    struct arena arena;
};

static void free_later(void *arg)
{
    struct view *v = arg;

    buf_done(&v->in);
    buf_done(&v->out);
    arena_done(&v->arena);
    free(v);
}

static void view_end(struct view *v)
{
    if (v->due)
        return;
    v->due = true;
    if (v->terminal)
        terminal_unlisten(v->terminal, &v->listener);
    loop_unwatch(v->watch);
    v->watch = NULL;
    close(v->fd);
    loop_later(v->init->loop, free_later, v);
}

static void say(struct view *v, enum view_type type, int64_t at, const void *p, size_t n)
{
    struct view_head head = { .size = (uint32_t)n, .type = type, .at = at };

    buf_add(&v->out, &head, sizeof head);
    if (n)
        buf_add(&v->out, p, n);
}

/* The next thing to say, if there is one. */
static void fill(struct view *v)
{
    if (v->terminal) {
        struct terminal_info i = terminal_describe(v->terminal);
        if (i.cols != v->cols || i.rows != v->rows) {
            struct view_size size = { i.cols, i.rows };
            v->cols = i.cols;
            v->rows = i.rows;
            say(v, VIEW_SIZE, 0, &size, sizeof size);
        }
        if (v->pos < i.total) {
            int64_t end = v->pos;
            struct str s = terminal_read(v->terminal, &end, CHUNK, &v->arena);
            say(v, VIEW_OUTPUT, end - (int64_t)s.n, s.p, s.n);
            v->pos = end;
            arena_reset(&v->arena);
        }
    } else if (!v->told) {
        v->told = true;
        say(v, VIEW_EXIT, 0, NULL, 0);
    }
}

static void pump(struct view *v)
{
    while (!v->due) {
        if (!v->out.n)
            fill(v);
        if (!v->out.n)
            break;
        ssize_t n = send(v->fd, v->out.p, v->out.n, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            break;
        if (n < 0) {
            view_end(v);
            return;
        }
        buf_eat(&v->out, (size_t)n);
    }
    if (v->due)
        return;
    if (v->told && !v->out.n) {
        view_end(v);
        return;
    }
    uint32_t want = EPOLLIN | (v->out.n ? EPOLLOUT : 0);
    if (want != v->armed)
        loop_change(v->watch, want);
    v->armed = want;
}

static void on_bytes(struct terminal_listener *l, const char *p, size_t n)
{
    struct view *v = (struct view *)l;

    (void)p;
    if (n == 0)
        v->terminal = NULL; /* it was closed, and forgot us */
    pump(v);
}

static bool one_message(struct view *v, const struct view_head *head, const char *p)
{
    struct view_size size;
    struct err e;

    if (!v->terminal)
        return true;
    switch ((enum view_type)head->type) {
    case VIEW_INPUT: return terminal_type(v->terminal, (struct str){ p, head->size }, &e) >= 0 || e.code == ERR_LIMIT;
    case VIEW_RESIZE:
        if (head->size != sizeof size)
            return false;
        memcpy(&size, p, sizeof size);
        if (size.cols > 0 && size.cols <= CELLS_MAX && size.rows > 0 && size.rows <= CELLS_MAX)
            terminal_resize(v->terminal, (int)size.cols, (int)size.rows);
        return true;
    case VIEW_HELLO:
    case VIEW_OUTPUT:
    case VIEW_SIZE:
    case VIEW_EXIT:
    case VIEW_ERRORS: break;
    }
    return false;
}

static bool take_messages(struct view *v)
{
    struct view_head head;
    size_t at = 0;
    bool ok = true;

    while (ok && v->in.n - at >= sizeof head) {
        memcpy(&head, v->in.p + at, sizeof head);
        if (head.size > VIEW_MAX)
            return false;
        if (v->in.n - at - sizeof head < head.size)
            break;
        ok = one_message(v, &head, v->in.p + at + sizeof head);
        at += sizeof head + head.size;
    }
    buf_eat(&v->in, at);
    return ok;
}

static void on_view(void *arg, uint32_t events)
{
    struct view *v = arg;

    if (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
        char *to = buf_room(&v->in, 8192);
        ssize_t n = to ? recv(v->fd, to, 8192, MSG_DONTWAIT) : 0;
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
            view_end(v);
            return;
        }
        if (n > 0)
            buf_grew(&v->in, (size_t)n);
        if (!take_messages(v)) {
            view_end(v);
            return;
        }
    }
    pump(v);
}

int view_open(struct init *in, struct str name, const struct wire_dial *w, struct err *e)
{
    struct terminal *t = terminal_find(in, name);
    int ends[2];

    if (!t)
        return err_set(e, ERR_NOT_FOUND, "Session not found");
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        return err_sys(e, "make a stream");
    struct view *v = calloc(1, sizeof *v);
    if (!v)
        abort();
    *v = (struct view){
        .listener = { .on_bytes = on_bytes }, .init = in, .terminal = t, .fd = ends[0], .armed = EPOLLIN
    };
    v->watch = loop_watch(in->loop, v->fd, EPOLLIN, on_view, v);
    if (!v->watch) {
        close(ends[0]);
        close(ends[1]);
        free(v);
        return err_set(e, ERR_BUSY, "init can watch no more descriptors");
    }
    if (w->cols > 0 && w->cols <= CELLS_MAX && w->rows > 0 && w->rows <= CELLS_MAX)
        terminal_resize(t, (int)w->cols, (int)w->rows);
    (void)terminal_type(t, STR(""), NULL); /* whoever looks sees a shell */
    struct terminal_info i = terminal_describe(t);
    int64_t first = i.total > LIMIT_TERMINAL_KEPT ? i.total - LIMIT_TERMINAL_KEPT : 0;
    int64_t from = w->after < 0 ? i.total + w->after : w->after;
    v->pos = from < first ? first : from > i.total ? i.total : from;
    v->cols = i.cols;
    v->rows = i.rows;
    buf_init(&v->in, 2 * VIEW_MAX);
    buf_init(&v->out, 2 * VIEW_MAX);
    struct view_hello hello = { .size = { i.cols, i.rows }, .pid = i.pid, .first = first, .end = i.total };
    say(v, VIEW_HELLO, v->pos, &hello, sizeof hello);
    terminal_listen(t, &v->listener);
    pump(v);
    return ends[1];
}

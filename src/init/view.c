/* A viewer is never waited for: what it has not taken is in the terminal's ring, and if it is too late even for that,
 * it sees a gap in the offsets. What is to be said waits for the end of the turn, and goes out together. */
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

enum { CHUNK = 32 * 1024, SEND_MAX = 128 * 1024, CELLS_MAX = 1000, READ_BYTES = 16 * 1024 };

struct view {
    struct terminal_listener listener; /* first */
    struct views *all;
    struct view *next_ready;
    uint64_t id;
    struct terminal *terminal; /* NULL: closed */
    int64_t pos;
    size_t untaken;  /* bytes of messages */
    int cols, rows;  /* as last told */
    int64_t dropped; /* of what was typed, and not told yet */
    bool ready;      /* it may have something to say */
};

struct views {
    struct init *init;
    int fd;
    struct loop_fd *watch;
    uint32_t armed;
    struct view *slots[LIMIT_DIALS_PER_BOX];
    struct view *ready, **ready_end; /* in the order in which they got so */
    bool due;                        /* says it at the end of the turn */
    bool gone;                       /* freed at the end of the turn */
    struct buf in, out;
    struct arena arena;
};

/* --- the end --- */

static void view_free(struct view *v)
{
    struct views *all = v->all;

    all->slots[v->id & ((1 << VIEW_SLOT_BITS) - 1)] = NULL;
    if (v->terminal)
        terminal_unlisten(v->terminal, &v->listener);
    for (struct view **at = &all->ready; v->ready && *at; at = &(*at)->next_ready)
        if (*at == v) {
            *at = v->next_ready;
            if (all->ready_end == &v->next_ready)
                all->ready_end = at;
            break;
        }
    free(v);
}

static void free_later(void *arg)
{
    struct views *all = arg;

    buf_done(&all->in);
    buf_done(&all->out);
    arena_done(&all->arena);
    free(all);
}

static void views_end(struct views *all)
{
    if (all->gone)
        return;
    all->gone = true;
    for (size_t i = 0; i < LIMIT_DIALS_PER_BOX; i++)
        if (all->slots[i])
            view_free(all->slots[i]);
    loop_unwatch(all->watch);
    all->watch = NULL;
    close(all->fd);
    loop_later(all->init->loop, free_later, all);
}

/* --- to serve --- */

static void say(struct views *all, const struct view_head *head, const void *p)
{
    buf_add(&all->out, head, sizeof *head);
    if (head->size)
        buf_add(&all->out, p, head->size);
}

static void tell(struct view *v, enum view_type type, int64_t at, struct str data)
{
    struct view_head head = { .size = (uint32_t)data.n, .type = type, .view = v->id, .at = at };

    say(v->all, &head, data.p);
    v->untaken += sizeof head + data.n;
}

/* How many bytes the next message may have. */
static size_t room_of(const struct view *v)
{
    size_t after = v->untaken + sizeof(struct view_head);

    return after < VIEW_WINDOW ? VIEW_WINDOW - after : 0;
}

/* The next thing that it has to say. False: it was the last. */
static bool fill(struct view *v)
{
    if (!v->terminal) {
        tell(v, VIEW_EXIT, 0, STR(""));
        return false;
    }
    struct terminal_info i = terminal_describe(v->terminal);
    struct view_size size = { i.cols, i.rows };
    if ((i.cols != v->cols || i.rows != v->rows) && room_of(v) >= sizeof size) {
        v->cols = i.cols;
        v->rows = i.rows;
        tell(v, VIEW_SIZE, 0, (struct str){ (char *)&size, sizeof size });
    }
    if (v->dropped && room_of(v)) {
        tell(v, VIEW_DROPPED, v->dropped, STR(""));
        v->dropped = 0;
    }
    size_t room = room_of(v);
    if (v->pos < i.total && room) {
        struct str s = terminal_read(v->terminal, &v->pos, room < CHUNK ? room : CHUNK, &v->all->arena);
        tell(v, VIEW_OUTPUT, v->pos - (int64_t)s.n, s);
        arena_reset(&v->all->arena);
    }
    return true;
}

static bool has_more(const struct view *v)
{
    return v->pos < terminal_describe(v->terminal).total && room_of(v);
}

static void put_last(struct view *v)
{
    v->next_ready = NULL;
    v->ready = true;
    *v->all->ready_end = v;
    v->all->ready_end = &v->next_ready;
}

/* One thing of each, in turns: who writes much does not keep the others waiting. */
static void gather(struct views *all)
{
    while (all->ready && all->out.n < SEND_MAX) {
        struct view *v = all->ready;
        all->ready = v->next_ready;
        if (!all->ready)
            all->ready_end = &all->ready;
        v->ready = false;
        if (!fill(v))
            view_free(v);
        else if (has_more(v))
            put_last(v);
    }
}

static void pump(struct views *all)
{
    for (;;) {
        gather(all);
        if (!all->out.n)
            break;
        ssize_t n = send(all->fd, all->out.p, all->out.n, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            break;
        if (n < 0) {
            views_end(all);
            return;
        }
        buf_eat(&all->out, (size_t)n);
    }
    uint32_t want = (all->out.n < SEND_MAX ? EPOLLIN : 0) | (all->out.n ? EPOLLOUT : 0); /* what is asked is answered */
    if (want != all->armed)
        loop_change(all->watch, want);
    all->armed = want;
}

static void on_turn_end(void *arg)
{
    struct views *all = arg;

    all->due = false;
    if (!all->gone)
        pump(all);
}

static void is_due(struct views *all)
{
    if (!all->due)
        loop_later(all->init->loop, on_turn_end, all);
    all->due = true;
}

static void is_ready(struct view *v)
{
    if (!v->ready)
        put_last(v);
    is_due(v->all);
}

static void on_bytes(struct terminal_listener *l, const char *p, size_t n)
{
    struct view *v = (struct view *)l;

    (void)p;
    if (n == 0)
        v->terminal = NULL; /* it was closed, and forgot us */
    is_ready(v);
}

/* --- from serve --- */

static void refuse(struct views *all, uint64_t id, const struct err *e)
{
    struct view_head head = { .size = (uint32_t)strlen(e->msg), .type = VIEW_REFUSED, .view = id, .at = e->code };

    say(all, &head, e->msg);
    is_due(all);
}

static bool fits_screen(const struct view_size *s)
{
    return s->cols > 0 && s->cols <= CELLS_MAX && s->rows > 0 && s->rows <= CELLS_MAX;
}

/* All who look at it are told, though its program may have nothing to say. */
static void resize(struct views *all, struct terminal *t, const struct view_size *s)
{
    if (!fits_screen(s))
        return;
    terminal_resize(t, (int)s->cols, (int)s->rows);
    for (size_t i = 0; i < LIMIT_DIALS_PER_BOX; i++)
        if (all->slots[i] && all->slots[i]->terminal == t)
            is_ready(all->slots[i]);
}

static bool open_view(struct views *all, const struct view_head *ask, const char *p)
{
    size_t slot = ask->view & ((1 << VIEW_SLOT_BITS) - 1);
    struct view_size size;
    struct err e;

    if (ask->size < sizeof size || slot >= LIMIT_DIALS_PER_BOX || all->slots[slot])
        return false;
    memcpy(&size, p, sizeof size);
    struct terminal *t = terminal_find(all->init, (struct str){ p + sizeof size, ask->size - sizeof size });
    if (!t) {
        err_set(&e, ERR_NOT_FOUND, "Session not found");
        refuse(all, ask->view, &e);
        return true;
    }
    resize(all, t, &size);
    (void)terminal_type(t, STR(""), NULL); /* whoever looks sees a shell */
    struct terminal_info i = terminal_describe(t);
    int64_t first = i.total > LIMIT_TERMINAL_KEPT ? i.total - LIMIT_TERMINAL_KEPT : 0;
    int64_t from = ask->at < 0 ? i.total + ask->at : ask->at;
    struct view *v = calloc(1, sizeof *v);
    if (!v)
        abort();
    *v = (struct view){ .listener = { .on_bytes = on_bytes },
                        .all = all,
                        .id = ask->view,
                        .terminal = t,
                        .pos = from < first     ? first
                               : from > i.total ? i.total
                                                : from,
                        .cols = i.cols,
                        .rows = i.rows };
    all->slots[slot] = v;
    struct view_hello hello = { .size = { i.cols, i.rows }, .pid = i.pid, .first = first, .end = i.total };
    tell(v, VIEW_HELLO, v->pos, (struct str){ (char *)&hello, sizeof hello });
    terminal_listen(t, &v->listener);
    is_ready(v);
    return true;
}

static void type(struct view *v, struct str keys)
{
    struct err e;

    if (terminal_type(v->terminal, keys, &e) >= 0)
        return;
    if (e.code == ERR_LIMIT) {
        v->dropped += (int64_t)keys.n;
        is_ready(v);
    } else {
        refuse(v->all, v->id, &e); /* there is no shell */
        view_free(v);
    }
}

/* False: serve would not say that. */
static bool one_message(struct views *all, const struct view_head *head, const char *p)
{
    size_t slot = head->view & ((1 << VIEW_SLOT_BITS) - 1);
    struct view *v = slot < LIMIT_DIALS_PER_BOX ? all->slots[slot] : NULL;
    struct view_size size;

    if (head->type == VIEW_OPEN)
        return open_view(all, head, p);
    if (!v || v->id != head->view)
        return true;
    if (head->type == VIEW_CLOSE) { /* of one whose terminal was closed, too: its place may be given away at once */
        view_free(v);
        return true;
    }
    if (!v->terminal)
        return true;
    switch ((enum view_type)head->type) {
    case VIEW_INPUT: type(v, (struct str){ p, head->size }); return true;
    case VIEW_RESIZE:
        if (head->size != sizeof size)
            return false;
        memcpy(&size, p, sizeof size);
        resize(all, v->terminal, &size);
        return true;
    case VIEW_TAKEN:
        if (head->at < 0 || (size_t)head->at > v->untaken)
            return false;
        v->untaken -= (size_t)head->at;
        is_ready(v);
        return true;
    case VIEW_OPEN:
    case VIEW_CLOSE:
    case VIEW_HELLO:
    case VIEW_OUTPUT:
    case VIEW_SIZE:
    case VIEW_EXIT:
    case VIEW_ERRORS:
    case VIEW_REFUSED:
    case VIEW_DROPPED: break;
    }
    return false;
}

static bool take_messages(struct views *all)
{
    struct view_head head;
    size_t at = 0;
    bool ok = true;

    while (ok && all->in.n - at >= sizeof head) {
        memcpy(&head, all->in.p + at, sizeof head);
        if (head.size > VIEW_MAX)
            return false;
        if (all->in.n - at - sizeof head < head.size)
            break;
        ok = one_message(all, &head, all->in.p + at + sizeof head);
        at += sizeof head + head.size;
    }
    buf_eat(&all->in, at);
    return ok;
}

static void on_views(void *arg, uint32_t events)
{
    struct views *all = arg;

    if (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
        char *to = buf_room(&all->in, READ_BYTES);
        ssize_t n = to ? recv(all->fd, to, READ_BYTES, MSG_DONTWAIT) : 0;
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
            views_end(all);
            return;
        }
        if (n > 0)
            buf_grew(&all->in, (size_t)n);
        if (!take_messages(all)) {
            views_end(all);
            return;
        }
    }
    if (events & EPOLLOUT)
        is_due(all);
}

int views_open(struct init *in, struct err *e)
{
    int ends[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        return err_sys(e, "make a stream");
    struct views *all = calloc(1, sizeof *all);
    if (!all)
        abort();
    *all = (struct views){ .init = in, .fd = ends[0], .armed = EPOLLIN };
    all->ready_end = &all->ready;
    all->watch = loop_watch(in->loop, all->fd, EPOLLIN, on_views, all);
    if (!all->watch) {
        close(ends[0]);
        close(ends[1]);
        free(all);
        return err_set(e, ERR_BUSY, "init can watch no more descriptors");
    }
    buf_init(&all->in, 2 * VIEW_MAX + READ_BYTES);
    buf_init(&all->out, 4 * SEND_MAX);
    return ends[1];
}

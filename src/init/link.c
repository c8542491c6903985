#include "init/link.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/limits.h"
#include "base/loop.h"
#include "init/browser.h"
#include "init/child.h"
#include "init/dial.h"
#include "init/driver.h"
#include "init/init.h"
#include "init/job.h"
#include "init/shell.h"
#include "init/task.h"

enum { READ_ROOM = 4096, KEEP_ROOM = 64 * 1024, EXPECT_MAX_US = 500 };

struct handover { /* a frame that carries a descriptor */
    struct handover *next;
    struct buf frame;
    int fd;
};

struct link {
    struct init *init;
    int listen_fd;
    int fd; /* -1: nobody is connected */
    struct loop_fd *watch;
    bool greeted, wants_out;
    struct buf in;
    struct buf small;                /* frames without descriptors that go before the next RESULT */
    struct handover *fds, **fds_end; /* go before the results: a STREAM before its RESULT */
    struct task *out;                /* results to send, in order */
    struct task **out_end;
    struct loop_timer *orphan;
    struct arena scratch;
};

static void handover_pop(struct link *l)
{
    struct handover *h = l->fds;

    l->fds = h->next;
    if (!l->fds)
        l->fds_end = &l->fds;
    close(h->fd);
    buf_done(&h->frame);
    free(h);
}

static void out_clear(struct link *l)
{
    struct task *next;

    while (l->fds)
        handover_pop(l);

    for (struct task *t = l->out; t; t = next) {
        next = t->next_out;
        t->next_out = NULL;
        t->queued = false;
        t->sent = 0;
        if (t->acked)
            task_free(t);
    }
    l->out = NULL;
    l->out_end = &l->out;
    buf_done(&l->small);
    buf_init(&l->small, LIMIT_FRAME);
}

static void hang_up(struct link *l)
{
    if (l->fd < 0)
        return;
    loop_unwatch(l->watch);
    l->watch = NULL;
    close(TAKE_FD(l->fd));
    l->greeted = l->wants_out = false;
    buf_done(&l->in);
    buf_init(&l->in, LIMIT_FRAME + (long)sizeof(struct frame_head));
    out_clear(l);
    if (l->init->boot.orphan_ms > 0)
        loop_timer_set(l->orphan, l->init->boot.orphan_ms);
}

/* The descriptors travel with the first byte of their frame, so a frame that has some is a message of its own. */
static ssize_t send_with(struct link *l, struct str bytes, const int *fds, size_t n)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(2 * sizeof(int))];
    } control = { 0 };
    struct iovec iov = { (char *)bytes.p, bytes.n };
    struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

    if (n) {
        msg.msg_control = control.bytes;
        msg.msg_controllen = CMSG_SPACE(n * sizeof(int));
        struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(n * sizeof(int));
        memcpy(CMSG_DATA(c), fds, n * sizeof(int));
    }
    return sendmsg(l->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static ssize_t send_task(struct link *l, struct task *t)
{
    size_t fds = t->reply_fds[0] < 0 ? 0 : t->reply_fds[1] < 0 ? 1 : 2;

    return send_with(l, (struct str){ t->reply.p + t->sent, t->reply.n - t->sent }, t->reply_fds, t->sent ? 0 : fds);
}

static void out_pop(struct link *l)
{
    struct task *t = l->out;

    l->out = t->next_out;
    if (!l->out)
        l->out_end = &l->out;
    t->next_out = NULL;
    t->queued = false;
    t->sent = 0;
    if (t->acked)
        task_free(t);
}

static void pump(struct link *l)
{
    while (l->fd >= 0 && (l->out || l->small.n || l->fds)) {
        bool begun = l->out && l->out->sent; /* then nothing may come in between */
        bool small = l->small.n && !begun;
        bool hand_over = l->fds && !small && !begun;
        ssize_t n = small       ? send(l->fd, l->small.p, l->small.n, MSG_NOSIGNAL | MSG_DONTWAIT)
                    : hand_over ? send_with(l, buf_view(&l->fds->frame), &l->fds->fd, 1)
                                : send_task(l, l->out);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            break;
        if (n < 0 || (hand_over && (size_t)n < l->fds->frame.n)) { /* so short a message is never split */
            hang_up(l);
            return;
        }
        if (hand_over) {
            handover_pop(l);
            continue;
        }
        if (small) {
            buf_eat(&l->small, (size_t)n);
            continue;
        }
        l->out->sent += (size_t)n;
        if (l->out->sent == l->out->reply.n)
            out_pop(l);
    }
    bool wants = l->fd >= 0 && (l->out || l->small.n || l->fds);
    if (wants != l->wants_out && l->watch) {
        l->wants_out = wants;
        loop_change(l->watch, EPOLLIN | (wants ? EPOLLOUT : 0));
    }
}

static void out_add(struct link *l, struct task *t)
{
    if (t->queued)
        return;
    t->queued = true;
    t->sent = 0;
    *l->out_end = t;
    l->out_end = &t->next_out;
}

void link_send_result(struct task *t)
{
    struct link *l = t->init->link;

    if (!l->greeted)
        return;
    out_add(l, t);
    pump(l);
}

void link_send_fd(struct init *in, enum frame_type type, uint64_t id, int take_fd)
{
    struct link *l = in->link;

    if (!l->greeted) {
        close(take_fd);
        return;
    }
    struct handover *h = calloc(1, sizeof *h);
    if (!h)
        abort();
    *h = (struct handover){ .fd = take_fd };
    buf_init(&h->frame, 4096);
    frame_add(&h->frame, type, id, 1, type == FRAME_DIALED ? wire_dialed_fields : NULL, &(struct wire_dialed){ 0 });
    *l->fds_end = h;
    l->fds_end = &h->next;
    pump(l);
}

void link_dialed(struct init *in, uint64_t id, int take_fd, const struct err *e)
{
    if (take_fd >= 0) {
        link_send_fd(in, FRAME_DIALED, id, take_fd);
        return;
    }
    struct wire_dialed d = { .error = e->code ? e->code : ERR_SYSTEM, .message = str_of(e->msg) };
    if (!in->link->greeted)
        return;
    frame_add(&in->link->small, FRAME_DIALED, id, 0, wire_dialed_fields, &d);
    pump(in->link);
}

void link_refuse(struct init *in, uint64_t id, const struct err *e)
{
    struct wire_result r = {
        .outcome = OUTCOME_INFRA_ERROR, .message = str_of(e->msg), .error = e->code, .disk_used_bytes = FIELD_ABSENT
    };

    frame_add(&in->link->small, FRAME_RESULT, id, 0, wire_result_fields, &r);
    pump(in->link);
}

static void tell_about(struct link *l)
{
    const struct init *in = l->init;
    struct wire_about a = { .sandboxed = in->about.sandboxed, .why = str_of(in->about.why) };

    if (in->about.known && l->greeted)
        frame_add(&l->small, FRAME_ABOUT, 0, 0, wire_about_fields, &a);
}

void link_about(struct init *in, const struct wire_about *a)
{
    in->about.known = true;
    in->about.sandboxed = a->sandboxed;
    snprintf(in->about.why, sizeof in->about.why, "%.*s", STR_ARG(a->why));
    tell_about(in->link);
    pump(in->link);
}

static void on_hello(struct link *l)
{
    struct wire_hello hello = { .version = WIRE_VERSION, .build = STR(SANDGLASS_REV) };

    if (l->greeted)
        return;
    l->greeted = true;
    frame_add(&l->small, FRAME_HELLO, 0, 0, wire_hello_fields, &hello);
    for (struct task *t = l->init->tasks; t; t = t->next) {
        struct wire_known known = { .finished = t->finished };
        frame_add(&l->small, FRAME_KNOWN, t->id, 0, wire_known_fields, &known);
        if (t->finished)
            out_add(l, t);
    }
    tell_about(l);
    frame_add(&l->small, FRAME_READY, 0, 0, NULL, NULL);
    pump(l);
}

static int on_call(struct link *l, uint64_t id, struct str payload, struct err *e)
{
    struct task *known = task_find(l->init, id);
    struct wire_call call;

    if (known) {
        struct wire_known say = { .finished = known->finished };
        frame_add(&l->small, FRAME_KNOWN, id, 0, wire_known_fields, &say);
        if (known->finished)
            out_add(l, known);
        pump(l);
        return 0;
    }
    int r = field_unpack(wire_call_fields, payload, &l->scratch, &call, sizeof call, e);
    if (r < 0)
        return r;
    task_begin(l->init, id, &call);
    known = call.expect_us > 0 ? task_find(l->init, id) : NULL;
    if (known && !known->finished)
        loop_expect(l->init->loop, call.expect_us < EXPECT_MAX_US ? (int)call.expect_us : EXPECT_MAX_US);
    return 0;
}

static int on_env(struct link *l, struct str payload, struct err *e)
{
    struct wire_env w;

    int r = field_unpack(wire_env_fields, payload, &l->scratch, &w, sizeof w, e);
    if (r < 0)
        return r;
    if (child_given(&w.env))
        driver_spare_renew(l->init);
    if (w.display.n)
        browser_display(l->init, str_is(w.display, "headed"));
    return 0;
}

static int on_end_shell(struct link *l, struct str payload, struct err *e)
{
    struct wire_shell w;

    int r = field_unpack(wire_shell_fields, payload, &l->scratch, &w, sizeof w, e);
    if (r >= 0)
        shell_close(l->init, w.session);
    return r;
}

static int on_dial(struct link *l, uint64_t id, struct str payload, struct err *e)
{
    struct wire_dial w;

    int r = field_unpack(wire_dial_fields, payload, &l->scratch, &w, sizeof w, e);
    if (r >= 0)
        dial_begin(l->init, id, &w);
    return r;
}

static int on_held(struct link *l, uint64_t id, struct str payload, struct err *e)
{
    struct task *t = task_find(l->init, id);
    struct wire_held w;

    int r = field_unpack(wire_held_fields, payload, &l->scratch, &w, sizeof w, e);
    if (r >= 0 && t && t->shell)
        shell_put_back(t->shell, t->report, w.out, w.err);
    else if (r >= 0 && t)
        job_held(t, w.out, w.err);
    return r;
}

static int on_frame(struct link *l, const struct frame_head *head, struct str payload, struct err *e)
{
    struct task *t = NULL;

    if (!l->greeted && head->type != FRAME_HELLO)
        return err_set(e, ERR_INVALID, "first frame is of type %u, not HELLO", head->type);
    if (head->type != FRAME_CALL && head->type != FRAME_ACK) /* a call says itself what it needs */
        init_as_root(l->init);
    switch ((enum frame_type)head->type) {
    case FRAME_HELLO: on_hello(l); return 0;
    case FRAME_CALL: return on_call(l, head->id, payload, e);
    case FRAME_ACK:
        t = task_find(l->init, head->id);
        if (t)
            task_ack(t);
        return 0;
    case FRAME_HELD: return on_held(l, head->id, payload, e);
    case FRAME_CANCEL:
        t = task_find(l->init, head->id);
        if (t)
            task_cancel(t);
        return 0;
    case FRAME_END_SHELL: return on_end_shell(l, payload, e);
    case FRAME_ENV: return on_env(l, payload, e);
    case FRAME_DIAL: return on_dial(l, head->id, payload, e);
    case FRAME_READY:
    case FRAME_KNOWN:
    case FRAME_RESULT:
    case FRAME_STREAM:
    case FRAME_DIALED:
    case FRAME_ABOUT:
    case FRAME_TYPES: break;
    }
    return err_set(e, ERR_INVALID, "frame of type %u is not for init", head->type);
}

/* Handles every whole frame in the buffer. False: the connection was given up. */
static bool take_frames(struct link *l)
{
    size_t at = 0;
    struct frame_head head;
    struct str payload;
    struct err e;

    for (;;) {
        struct buf rest = { .p = l->in.p + at, .n = l->in.n - at, .cap = l->in.cap };
        int r = frame_peek(&rest, &head, &payload, &e);
        if (r == 0)
            break;
        if (r > 0) {
            int fd = l->fd;
            r = on_frame(l, &head, payload, &e);
            if (l->fd != fd)
                return false; /* hung up inside, the buffer is gone */
        }
        if (r < 0) {
            hang_up(l);
            return false;
        }
        at += sizeof head + head.size;
    }
    arena_reset(&l->scratch);
    buf_eat(&l->in, at);
    if (l->in.n == 0 && l->in.size > KEEP_ROOM) {
        buf_done(&l->in);
        buf_init(&l->in, LIMIT_FRAME + (long)sizeof head);
        malloc_trim(0);
    }
    return true;
}

/* How much to read: what is missing of the frame under way, so that a big one is read without growing step by step. */
static size_t room_wanted(const struct buf *in)
{
    struct frame_head head;

    if (in->n < sizeof head)
        return READ_ROOM;
    memcpy(&head, in->p, sizeof head);
    size_t missing = head.size <= LIMIT_FRAME && sizeof head + head.size > in->n ? sizeof head + head.size - in->n : 0;
    return missing > READ_ROOM ? missing : READ_ROOM;
}

static void on_ready_link(void *arg, uint32_t events)
{
    struct link *l = arg;

    if (events & EPOLLOUT)
        pump(l);
    if (l->fd < 0 || !(events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
        return;

    size_t want = room_wanted(&l->in);
    if (want > l->in.cap - l->in.n)
        want = l->in.cap - l->in.n;
    void *to = buf_room(&l->in, want);
    ssize_t n = to ? recv(l->fd, to, want, MSG_DONTWAIT) : 0;
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        hang_up(l);
        return;
    }
    buf_grew(&l->in, (size_t)n);
    (void)take_frames(l);
}

static void on_connect(void *arg, uint32_t events)
{
    struct link *l = arg;
    int fd = accept4(l->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

    (void)events;
    if (fd < 0)
        return;
    hang_up(l);
    l->fd = fd;
    l->watch = loop_watch(l->init->loop, fd, EPOLLIN, on_ready_link, l);
    if (!l->watch) {
        hang_up(l);
        return;
    }
    loop_skip_before(l->watch);
    loop_timer_set(l->orphan, -1);
}

static void on_orphan(void *arg)
{
    struct link *l = arg;
    loop_stop(l->init->loop);
}

int link_open(struct init *in, int listen_fd, struct err *e)
{
    struct link *l = calloc(1, sizeof *l);
    if (!l)
        abort();
    *l = (struct link){ .init = in, .listen_fd = listen_fd, .fd = -1 };
    l->out_end = &l->out;
    l->fds_end = &l->fds;
    buf_init(&l->in, LIMIT_FRAME + (long)sizeof(struct frame_head));
    buf_init(&l->small, LIMIT_FRAME);
    in->link = l;
    l->orphan = loop_timer_new(in->loop, on_orphan, l);
    if (!loop_watch(in->loop, listen_fd, EPOLLIN, on_connect, l))
        return err_sys(e, "watch the listening socket");
    if (in->boot.orphan_ms > 0)
        loop_timer_set(l->orphan, in->boot.orphan_ms);
    return 0;
}

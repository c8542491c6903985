#include "store/recorder_client.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/limits.h"
#include "base/log.h"
#include "wire/frame.h"

enum { READ_SIZE = 64 * 1024, KEEP_SIZE = 1024 * 1024 };

struct question {
    struct question *prev, *next;
    uint64_t id;
    struct buf frame;
    int fd;
    on_answer *cb;
    void *arg;
};

struct recorder_client {
    struct loop *loop;
    char *home;
    int fd; /* -1: not connected */
    struct loop_fd *watch;
    struct loop_timer *retry;
    struct question *first, *last; /* in the order asked, until answered */
    struct question *sending;      /* the first that is not sent whole; NULL: all are */
    size_t sent;                   /* of its frame */
    size_t pending;
    uint64_t last_id;
    struct buf in;
    bool waiting_out;
};

int recorder_connect(const char *home, struct err *e)
{
    char dir[4200];
    struct sockaddr_un to = { .sun_family = AF_UNIX };

    /* Through a descriptor, because a socket's own path must be shorter than 108 bytes. */
    snprintf(dir, sizeof dir, "%s/run", home);
    auto_close int dirfd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (dirfd < 0)
        return err_sys(e, "open '%s'", dir);
    auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return err_sys(e, "socket");
    snprintf(to.sun_path, sizeof to.sun_path, "/proc/self/fd/%d/recorder.sock", dirfd);
    if (connect(fd, (struct sockaddr *)&to, sizeof to) < 0)
        return err_sys(e, "connect to recorder at '%s/recorder.sock'", dir);
    return TAKE_FD(fd);
}

/* The descriptor travels with the frame's first byte. Returns bytes sent, 0: not now, < 0: broken. */
static ssize_t send_part(int fd, const struct buf *frame, size_t from, int pass)
{
    struct iovec iov = { frame->p + from, frame->n - from };
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control = { 0 };
    struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

    if (from == 0 && pass >= 0) {
        control.head =
            (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS };
        memcpy(CMSG_DATA(&control.head), &pass, sizeof pass);
        msg.msg_control = &control;
        msg.msg_controllen = sizeof control.room;
    }
    ssize_t n = sendmsg(fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -errno;
    return n;
}

static void on_socket(void *arg, uint32_t events);

static void disconnect(struct recorder_client *c)
{
    if (c->fd >= 0) {
        loop_unwatch(c->watch);
        close(c->fd);
    }
    c->fd = -1;
    c->watch = NULL;
    c->sending = c->first;
    c->sent = 0;
    c->waiting_out = false;
    buf_reset(&c->in);
    loop_timer_set(c->retry, RECORDER_RETRY_MS);
}

static void flush(struct recorder_client *c)
{
    while (c->fd >= 0 && c->sending) {
        ssize_t n = send_part(c->fd, &c->sending->frame, c->sent, c->sending->fd);
        if (n < 0) {
            disconnect(c);
            return;
        }
        if (n == 0)
            break;
        c->sent += (size_t)n;
        if (c->sent == c->sending->frame.n) {
            c->sending = c->sending->next;
            c->sent = 0;
        }
    }
    bool want = c->fd >= 0 && c->sending;
    if (c->fd >= 0 && want != c->waiting_out)
        loop_change(c->watch, want ? EPOLLIN | EPOLLOUT : EPOLLIN);
    c->waiting_out = want;
}

static void try_connect(void *arg)
{
    struct recorder_client *c = arg;

    c->fd = recorder_connect(c->home, NULL);
    c->watch = c->fd < 0 ? NULL : loop_watch(c->loop, c->fd, EPOLLIN, on_socket, c);
    if (!c->watch) {
        if (c->fd >= 0)
            close(c->fd);
        c->fd = -1;
        loop_timer_set(c->retry, RECORDER_RETRY_MS);
        return;
    }
    c->sending = c->first;
    c->sent = 0;
    flush(c);
}

static void unlink_question(struct recorder_client *c, struct question *q)
{
    *(q->prev ? &q->prev->next : &c->first) = q->next;
    *(q->next ? &q->next->prev : &c->last) = q->prev;
    if (c->sending == q) {
        c->sending = q->next;
        c->sent = 0;
    }
    c->pending--;
}

static void question_free(struct question *q)
{
    buf_done(&q->frame);
    if (q->fd >= 0)
        close(q->fd);
    free(q);
}

static int take_answer(struct recorder_client *c, const struct frame_head *head, struct str payload, struct err *e)
{
    struct question *q = c->first;
    struct arena arena = { 0 };
    struct answer a = { 0 };

    if (head->type != FRAME_RESULT || head->fds != 0)
        return err_set(e, ERR_INVALID, "a frame of type %u is no answer", head->type);
    while (q && q->id != head->id)
        q = q->next;
    if (!q || (q == c->sending && c->sent < q->frame.n))
        return err_set(e, ERR_INVALID, "an answer to a question that was not asked");
    int r = field_unpack(answer_fields, payload, &arena, &a, sizeof a, e);
    if (r >= 0) {
        unlink_question(c, q);
        q->cb(q->arg, &a);
        question_free(q);
    }
    arena_done(&arena);
    return r;
}

/* A callback may ask more; that may find the connection broken, which empties c->in under us. */
static int take_answers(struct recorder_client *c, struct err *e)
{
    size_t done = 0;
    int r;

    for (;;) {
        struct buf rest = { .p = c->in.p + done, .n = c->in.n - done };
        struct frame_head head;
        struct str payload;

        r = frame_peek(&rest, &head, &payload, e);
        if (r <= 0)
            break;
        r = take_answer(c, &head, payload, e);
        if (r < 0 || c->fd < 0)
            break;
        done += sizeof head + head.size;
    }
    if (c->fd >= 0 && done)
        buf_eat(&c->in, done);
    if (c->in.n == 0 && c->in.size > KEEP_SIZE) { /* one big answer must not cost its memory for ever */
        size_t cap = c->in.cap;
        buf_done(&c->in);
        buf_init(&c->in, cap);
    }
    return r;
}

static void on_socket(void *arg, uint32_t events)
{
    struct recorder_client *c = arg;
    struct err e = { 0 };

    if (events & EPOLLOUT)
        flush(c);
    for (int i = 0; i < 16 && c->fd >= 0 && events & (EPOLLIN | EPOLLHUP | EPOLLERR); i++) {
        void *to = buf_room(&c->in, READ_SIZE);
        ssize_t n = to ? recv(c->fd, to, READ_SIZE, MSG_DONTWAIT) : -1;
        if (n < 0 && to && (errno == EAGAIN || errno == EINTR))
            break;
        if (n <= 0) {
            disconnect(c);
            return;
        }
        buf_grew(&c->in, (size_t)n);
        if (take_answers(c, &e) < 0) {
            log_error("recorder's answer is no answer", "%s, connecting again", e.msg);
            disconnect(c);
            return;
        }
        if (n < READ_SIZE)
            break;
    }
}

struct recorder_client *recorder_client_new(struct loop *l, const char *home)
{
    struct recorder_client *c = calloc(1, sizeof *c);
    char *copy = strdup(home);

    if (!c || !copy)
        abort();
    *c = (struct recorder_client){ .loop = l, .home = copy, .fd = -1 };
    c->retry = loop_timer_new(l, try_connect, c);
    buf_init(&c->in, (size_t)LIMIT_FRAME + 2 * READ_SIZE);
    loop_timer_set(c->retry, 0);
    return c;
}

void recorder_client_free(struct recorder_client *c)
{
    if (!c)
        return;
    if (c->fd >= 0) {
        loop_unwatch(c->watch);
        close(c->fd);
    }
    for (struct question *q = c->first, *next; q; q = next) {
        next = q->next;
        question_free(q);
    }
    loop_timer_free(c->retry);
    buf_done(&c->in);
    free(c->home);
    free(c);
}

void recorder_ask(struct recorder_client *c, const struct query *query, int take_fd, on_answer *cb, void *arg)
{
    struct question *q = calloc(1, sizeof *q);

    if (!q)
        abort();
    *q = (struct question){ .prev = c->last, .id = ++c->last_id, .fd = take_fd, .cb = cb, .arg = arg };
    buf_init(&q->frame, LIMIT_FRAME);
    frame_add(&q->frame, FRAME_CALL, q->id, take_fd >= 0, query_fields, query);
    if (q->frame.full) { /* recorder refuses it by its empty op, so the caller still gets an answer */
        buf_reset(&q->frame);
        frame_add(&q->frame, FRAME_CALL, q->id, take_fd >= 0, query_fields, &(struct query){ 0 });
    }
    *(c->last ? &c->last->next : &c->first) = q;
    c->last = q;
    c->pending++;
    if (!c->sending) {
        c->sending = q;
        c->sent = 0;
    }
    if (c->fd >= 0 && !c->waiting_out)
        flush(c);
}

size_t recorder_client_pending(const struct recorder_client *c)
{
    return c->pending;
}

/* One try. 1: *in holds the whole answer. 0: the connection broke. */
static int exchange(int fd, const struct buf *frame, struct buf *in, int64_t until_ms, struct err *e)
{
    size_t sent = 0;
    struct frame_head head;
    struct str payload;

    buf_reset(in);
    for (;;) {
        int r = frame_peek(in, &head, &payload, e);
        if (r != 0)
            return r;
        struct pollfd p = { .fd = fd, .events = sent < frame->n ? POLLIN | POLLOUT : POLLIN };
        int64_t left = until_ms - now_ms();
        if (left <= 0 || poll(&p, 1, (int)left) == 0)
            return err_set(e, ERR_BUSY, "recorder did not answer in time");
        if (p.revents & POLLOUT) {
            ssize_t n = send_part(fd, frame, sent, -1);
            if (n < 0)
                return 0;
            sent += (size_t)n;
        }
        if (!(p.revents & (POLLIN | POLLHUP | POLLERR)))
            continue;
        void *to = buf_room(in, READ_SIZE);
        ssize_t n = to ? recv(fd, to, READ_SIZE, MSG_DONTWAIT) : -1;
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR) || !to)
            return 0;
        if (n > 0)
            buf_grew(in, (size_t)n);
    }
}

int recorder_ask_wait(const char *home, const struct query *q, struct arena *a, struct answer *ret, struct err *e)
{
    AUTO(buf_done) struct buf frame, in;
    int64_t connect_until = now_ms() + RECORDER_WAIT_MS;
    int r;

    buf_init(&frame, LIMIT_FRAME);
    buf_init(&in, (size_t)LIMIT_FRAME + 2 * READ_SIZE);
    frame_add(&frame, FRAME_CALL, 1, 0, query_fields, q);
    if (frame.full)
        return err_set(e, ERR_LIMIT, "the question exceeds LIMIT_FRAME (%ld)", (long)LIMIT_FRAME);
    do {
        auto_close int fd = recorder_connect(home, e);
        if (fd < 0)
            r = fd;
        else
            r = exchange(fd, &frame, &in, now_ms() + RECORDER_ANSWER_MS, e);
        if (r > 0)
            break;
        if (fd >= 0 && r < 0)
            return r;
        if (now_ms() >= connect_until)
            return r < 0 ? r : err_set(e, ERR_BUSY, "recorder ends each connection without an answer");
        usleep(RECORDER_RETRY_MS * 1000);
    } while (true);
    struct str payload =
        arena_copy(a, (struct str){ in.p + sizeof(struct frame_head), in.n - sizeof(struct frame_head) });
    return field_unpack(answer_fields, payload, a, ret, sizeof *ret, e);
}

#include "session/seats.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/auto.h"
#include "base/log.h"

enum { RECONNECT_MS = 20 };

struct asked {
    struct asked *next;
    struct seat_request request;
    int fd; /* goes with it; -1: none */
    bool sent;
    on_seat_reply *cb;
    void *arg;
};

struct seats {
    struct loop *loop;
    struct seats_opts opts;
    int fd;
    struct loop_fd *watch;
    struct loop_timer *retry;
    struct asked *first, **last;
    uint64_t seq;
    bool connected_before;
};

static void flush(struct seats *s);
static void on_packet(void *arg, uint32_t events);

static void asked_free(struct asked *a)
{
    if (a->fd >= 0)
        close(a->fd);
    free(a);
}

static void answer(struct asked *a, const struct seat_reply *r, const int *gauges)
{
    int none[SEAT_GAUGES];

    memset(none, -1, sizeof none);
    a->cb(a->arg, r, gauges ? gauges : none);
    asked_free(a);
}

/* What was sent and not answered may or may not have happened; the caller is told, and never asked again. */
static void lost(struct seats *s)
{
    loop_unwatch(s->watch);
    s->watch = NULL;
    close(s->fd);
    s->fd = -1;
    log_warn("supervise is gone", "reconnecting each %d ms", RECONNECT_MS);

    struct asked *sent = NULL, **sent_last = &sent;
    for (struct asked **p = &s->first; *p;) {
        struct asked *a = *p;
        if (!a->sent) {
            p = &a->next;
            continue;
        }
        *p = a->next;
        a->next = NULL;
        *sent_last = a;
        sent_last = &a->next;
    }
    for (s->last = &s->first; *s->last;)
        s->last = &(*s->last)->next;
    loop_timer_set(s->retry, RECONNECT_MS);
    for (struct asked *a = sent, *next; a; a = next) {
        struct seat_reply r = { .verb = a->request.verb, .result = -ECONNRESET };
        next = a->next;
        memcpy(r.id, a->request.id, sizeof r.id);
        err_set(&r.err, ERR_SYSTEM, "supervise ended during the request");
        answer(a, &r, NULL);
    }
}

static void reconnect(void *arg)
{
    struct seats *s = arg;
    struct sockaddr_un un = { .sun_family = AF_UNIX };
    auto_close int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    snprintf(un.sun_path, sizeof un.sun_path, "%s/run/supervise.sock", s->opts.home);
    if (fd < 0 || connect(fd, (struct sockaddr *)&un, sizeof un) < 0) {
        loop_timer_set(s->retry, RECONNECT_MS);
        return;
    }
    s->fd = TAKE_FD(fd);
    s->watch = loop_watch(s->loop, s->fd, EPOLLIN, on_packet, s);
    s->opts.up(s->opts.arg);
    flush(s);
}

static size_t size_of(const struct seat_request *q)
{
    switch ((enum seat_verb)q->verb) {
    case SEAT_CREATE:
    case SEAT_CREATE_CLEAN:
    case SEAT_HASH:
    case SEAT_VERIFY: return offsetof(struct seat_request, other);
    case SEAT_DIFF:
    case SEAT_CHECKOUT: return offsetof(struct seat_request, gc);
    case SEAT_GC: return sizeof *q;
    case SEAT_DESTROY:
    case SEAT_FREEZE:
    case SEAT_THAW:
    case SEAT_LIST:
    case SEAT_POOL:
    case SEAT_DEAD:
    case SEAT_LOOK:
    case SEAT_SNAPSHOT: break;
    }
    return offsetof(struct seat_request, spec);
}

static bool send_request(struct seats *s, struct asked *a)
{
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control = { 0 };
    struct iovec iov = { &a->request, size_of(&a->request) };
    struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };

    if (a->fd >= 0) {
        control.head =
            (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS };
        memcpy(CMSG_DATA(&control.head), &a->fd, sizeof(int));
        m.msg_control = &control;
        m.msg_controllen = sizeof control;
    }
    if (sendmsg(s->fd, &m, MSG_NOSIGNAL) < 0)
        return false;
    if (a->fd >= 0)
        close(a->fd); /* it is supervise's now: its end must be seen */
    a->fd = -1;
    return true;
}

static void flush(struct seats *s)
{
    bool full = false;

    for (struct asked *a = s->first; a && s->fd >= 0; a = a->next) {
        if (a->sent)
            continue;
        if (!send_request(s, a)) {
            full = errno == EAGAIN;
            break; /* a broken connection is noticed by on_packet */
        }
        a->sent = true;
    }
    if (s->watch)
        loop_change(s->watch, EPOLLIN | (full ? EPOLLOUT : 0));
}

static void take_reply(struct seats *s, const struct seat_reply *r, const int *gauges)
{
    if (r->verb == SEAT_DEAD) {
        s->opts.dead(s->opts.arg, r);
        return;
    }
    for (struct asked **p = &s->first; *p; p = &(*p)->next) {
        struct asked *a = *p;
        if (a->request.seq != r->seq)
            continue;
        if ((r->more || (r->verb == SEAT_LIST && r->id[0])) && r->result == 0) { /* more to come */
            a->cb(a->arg, r, gauges);
            return;
        }
        *p = a->next;
        if (!a->next)
            s->last = p;
        answer(a, r, gauges);
        return;
    }
    for (int i = 0; i < SEAT_GAUGES; i++)
        if (gauges[i] >= 0)
            close(gauges[i]);
}

/* Returns false when nothing more can be read now. */
static bool receive(struct seats *s)
{
    struct seat_reply r;
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(SEAT_GAUGES * sizeof(int))];
    } control;
    struct iovec iov = { &r, sizeof r };
    struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control };
    int fds[SEAT_GAUGES], gauges[SEAT_GAUGES];
    size_t n = 0;

    memset(gauges, -1, sizeof gauges);
    ssize_t got = recvmsg(s->fd, &m, MSG_CMSG_CLOEXEC);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (got <= 0) {
        lost(s);
        return false;
    }
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c))
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
            n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
            memcpy(fds, CMSG_DATA(c), n * sizeof(int));
        }
    if (got != sizeof r || r.version != SEAT_VERSION)
        r = (struct seat_reply){ .seq = r.seq, .verb = r.verb, .result = -EPROTO, .err = { ERR_SYSTEM, 0, "version" } };
    for (size_t i = 0, k = 0; i < SEAT_GAUGES && k < n; i++)
        if (r.gauges & 1u << i)
            gauges[i] = fds[k++];
    take_reply(s, &r, gauges);
    return s->fd >= 0;
}

static void on_packet(void *arg, uint32_t events)
{
    struct seats *s = arg;

    if (events & EPOLLOUT)
        flush(s);
    if (events & ~(uint32_t)EPOLLOUT)
        while (receive(s))
            ;
}

struct seats *seats_new(struct loop *l, const struct seats_opts *o)
{
    struct seats *s = calloc(1, sizeof *s);
    if (!s)
        abort();
    *s = (struct seats){ .loop = l, .opts = *o, .fd = -1 };
    s->last = &s->first;
    s->retry = loop_timer_new(l, reconnect, s);
    loop_timer_set(s->retry, 0);
    return s;
}

void seats_free(struct seats *s)
{
    if (!s)
        return;
    loop_unwatch(s->watch);
    loop_timer_free(s->retry);
    if (s->fd >= 0)
        close(s->fd);
    for (struct asked *a = s->first, *next; a; a = next) {
        next = a->next;
        asked_free(a);
    }
    free(s);
}

static struct asked *asked_new(on_seat_reply *cb, void *arg)
{
    struct asked *a = calloc(1, sizeof *a);
    if (!a)
        abort();
    a->fd = -1;
    a->cb = cb;
    a->arg = arg;
    return a;
}

static void enqueue(struct seats *s, struct asked *a)
{
    a->request.version = SEAT_VERSION;
    a->request.seq = ++s->seq;
    *s->last = a;
    s->last = &a->next;
    if (s->fd >= 0)
        flush(s);
}

void seats_ask_files(struct seats *s, const struct seat_request *q, int take_fd, on_seat_reply *cb, void *arg)
{
    struct asked *a = asked_new(cb, arg);

    a->request = *q;
    a->fd = take_fd;
    enqueue(s, a);
}

void seats_ask(struct seats *s, enum seat_verb verb, const char *id, const struct box_spec *spec, on_seat_reply *cb,
               void *arg)
{
    struct asked *a = asked_new(cb, arg);

    a->request.verb = verb;
    if (id)
        snprintf(a->request.id, sizeof a->request.id, "%s", id);
    if (spec)
        a->request.spec = *spec;
    enqueue(s, a);
}

#include "session/link.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/auto.h"
#include "base/limits.h"

enum { READ_CHUNK = 64 * 1024, FDS_MAX = 8, ACKS_MAX = 8 };

struct link {
    struct loop *loop;
    const struct link_handler *handler;
    void *arg;
    int fd;
    struct loop_fd *watch;
    bool want_write;
    bool foreign; /* this init is of another build than we are */
    int acks;     /* in out, not sent yet */
    struct buf in, out;
    int fds[FDS_MAX]; /* received and not yet claimed by a frame */
    size_t fd_count;
    struct arena arena;
};

static void on_socket(void *arg, uint32_t events);
static void flush(struct link *k);

struct link *link_new(struct loop *l, const struct link_handler *h, void *arg)
{
    struct link *k = calloc(1, sizeof *k);
    if (!k)
        abort();
    *k = (struct link){ .loop = l, .handler = h, .arg = arg, .fd = -1 };
    buf_init(&k->in, LIMIT_FRAME + READ_CHUNK);
    buf_init(&k->out, LIMIT_FRAME);
    return k;
}

static void drop_fds(struct link *k)
{
    for (size_t i = 0; i < k->fd_count; i++)
        close(k->fds[i]);
    k->fd_count = 0;
}

static void shut(struct link *k)
{
    loop_unwatch(k->watch);
    k->watch = NULL;
    if (k->fd >= 0)
        close(k->fd);
    k->fd = -1;
    drop_fds(k);
    buf_done(&k->in);
    buf_done(&k->out);
    buf_init(&k->in, LIMIT_FRAME + READ_CHUNK);
    buf_init(&k->out, LIMIT_FRAME);
    k->want_write = false;
}

static void fail(struct link *k, const char *why)
{
    if (k->fd < 0)
        return;
    shut(k);
    k->handler->down(k->arg, why);
}

void link_free(struct link *k)
{
    if (!k)
        return;
    shut(k);
    buf_done(&k->in);
    buf_done(&k->out);
    arena_done(&k->arena);
    free(k);
}

bool link_is_open(const struct link *k)
{
    return k->fd >= 0;
}

int link_open(struct link *k, const char *home, const char *box_id, struct err *e)
{
    struct sockaddr_un un = { .sun_family = AF_UNIX };
    auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return err_sys(e, "socket");
    int n = snprintf(un.sun_path, sizeof un.sun_path, "%s/run/box/%s.sock", home, box_id);
    if (n < 0 || (size_t)n >= sizeof un.sun_path)
        return err_set(e, ERR_LIMIT, "home directory '%s' is too long for a socket path (max 107 bytes in all)", home);
    if (connect(fd, (struct sockaddr *)&un, sizeof un) < 0)
        return err_sys(e, "connect to the init of %s", box_id);
    shut(k);
    k->fd = TAKE_FD(fd);
    k->watch = loop_watch(k->loop, k->fd, EPOLLIN, on_socket, k);
    if (!k->watch) {
        shut(k);
        return err_sys(e, "watch the init of %s", box_id);
    }
    struct wire_hello hello = { .version = WIRE_VERSION, .build = STR(SANDGLASS_REV) };
    frame_add(&k->out, FRAME_HELLO, 0, 0, wire_hello_fields, &hello);
    flush(k);
    return link_is_open(k) ? 0 : err_set(e, ERR_SYSTEM, "the init of %s hung up", box_id);
}

static void flush(struct link *k)
{
    k->acks = 0;
    while (k->fd >= 0 && k->out.n) {
        ssize_t n = send(k->fd, k->out.p, k->out.n, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN) {
            if (!k->want_write)
                loop_change(k->watch, EPOLLIN | EPOLLOUT);
            k->want_write = true;
            return;
        }
        if (n < 0) {
            fail(k, "init closed the connection");
            return;
        }
        buf_eat(&k->out, (size_t)n);
    }
    if (k->want_write && k->fd >= 0) {
        loop_change(k->watch, EPOLLIN);
        k->want_write = false;
    }
}

void link_call(struct link *k, uint64_t call, const struct wire_call *c)
{
    frame_add(&k->out, FRAME_CALL, call, 0, wire_call_fields, c);
    if (k->out.full)
        fail(k, "more was queued for init than LIMIT_FRAME");
    else
        flush(k);
}

void link_held(struct link *k, uint64_t call, const struct wire_held *h)
{
    if (k->fd < 0)
        return;
    frame_add(&k->out, FRAME_HELD, call, 0, wire_held_fields, h);
    /* At once, so that init has it before the step is recorded: nobody would tell it later. What is sent late or fails
     * is for the next flush: the link must not go down under the result that is being read. */
    ssize_t n = send(k->fd, k->out.p, k->out.n, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0)
        buf_eat(&k->out, (size_t)n);
}

void link_ack(struct link *k, uint64_t call)
{
    if (k->fd < 0)
        return;
    frame_add(&k->out, FRAME_ACK, call, 0, NULL, NULL);
    /* It travels with the next call: waking init for nothing but this would double its share of a short call. */
    if (++k->acks >= ACKS_MAX)
        flush(k);
}

void link_flush(struct link *k)
{
    if (k->acks)
        flush(k);
}

void link_cancel(struct link *k, uint64_t call)
{
    if (k->fd < 0)
        return;
    frame_add(&k->out, FRAME_CANCEL, call, 0, NULL, NULL);
    flush(k);
}

void link_dial(struct link *k, uint64_t id, const struct wire_dial *d)
{
    frame_add(&k->out, FRAME_DIAL, id, 0, wire_dial_fields, d);
    if (k->out.full)
        fail(k, "more was queued for init than LIMIT_FRAME");
    else
        flush(k);
}

/* Not said again on another connection: no later session has this shell's name. */
void link_env(struct link *k, const struct wire_env *w)
{
    if (k->fd < 0)
        return;
    frame_add(&k->out, FRAME_ENV, 0, 0, wire_env_fields, w);
    flush(k);
}

void link_end_shell(struct link *k, struct str session)
{
    struct wire_shell w = { .session = session };

    if (k->fd < 0)
        return;
    frame_add(&k->out, FRAME_END_SHELL, 0, 0, wire_shell_fields, &w);
    flush(k);
}

/* A box can send any descriptor. On a stream socket, recv and send with MSG_DONTWAIT never block, whatever the other
 * end does to its flags; anything else might. -1: there is none, or it is not fit. */
static int take_socket(struct link *k)
{
    int type = 0, domain = 0;
    socklen_t n = sizeof type, m = sizeof domain;

    if (!k->fd_count)
        return -1;
    int fd = k->fds[0];
    k->fd_count--;
    memmove(k->fds, k->fds + 1, k->fd_count * sizeof *k->fds);
    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &n) < 0 || type != SOCK_STREAM ||
        getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &m) < 0 ||
        (domain != AF_UNIX && domain != AF_INET && domain != AF_INET6)) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Boxes outlive the server that made them, and their init knows what was known then. It refuses the rest in these words,
 * which mean nothing to whoever asked. */
static struct str refusal(struct link *k, struct str said)
{
    static const struct str words[] = { { "init cannot connect to '", 24 }, { "init has no tool '", 18 } };

    for (size_t i = 0; k->foreign && i < sizeof words / sizeof *words; i++)
        if (said.n > words[i].n && memcmp(said.p, words[i].p, words[i].n) == 0)
            return STR("this box was made by another build of sandglass, whose init does not know this: reset the box, "
                       "or use a new one");
    return said;
}

static const char *take_dialed(struct link *k, const struct frame_head *h, struct str payload)
{
    struct wire_dialed d;
    struct err e;

    int fd = h->fds == 1 ? take_socket(k) : -1;
    if (h->fds > 1 || (h->fds == 1 && fd < 0))
        return "a connection came without its socket";
    if (field_unpack(wire_dialed_fields, payload, &k->arena, &d, sizeof d, &e) < 0 || (fd < 0 && !d.error)) {
        if (fd >= 0)
            close(fd);
        return "an answer to a dial could not be read";
    }
    d.message = refusal(k, d.message);
    k->handler->dialed(k->arg, h->id, &d, fd);
    arena_reset(&k->arena);
    return NULL;
}

static const char *take_stream(struct link *k, const struct frame_head *h)
{
    int fd = h->fds == 1 ? take_socket(k) : -1;

    if (fd < 0)
        return "a stream came without its socket";
    k->handler->stream(k->arg, h->id, fd);
    return NULL;
}

static const char *take_result(struct link *k, const struct frame_head *h, struct str payload)
{
    struct wire_result r;
    struct err e;
    int fds[2] = { -1, -1 };

    if (h->fds > k->fd_count)
        return "a result announced descriptors that did not come";
    for (unsigned i = 0; i < h->fds; i++)
        fds[i] = k->fds[i];
    k->fd_count -= h->fds;
    memmove(k->fds, k->fds + h->fds, k->fd_count * sizeof *k->fds);
    if (field_unpack(wire_result_fields, payload, &k->arena, &r, sizeof r, &e) < 0) {
        for (unsigned i = 0; i < h->fds; i++)
            close(fds[i]);
        return "a result could not be read";
    }
    r.message = refusal(k, r.message);
    k->handler->result(k->arg, h->id, &r, &k->arena, fds);
    arena_reset(&k->arena);
    return NULL;
}

/* NULL, or what is wrong with the frame. */
static const char *take_frame(struct link *k, const struct frame_head *h, struct str payload)
{
    struct err e;

    switch (h->type) {
    case FRAME_HELLO: {
        struct wire_hello hello;
        if (field_unpack(wire_hello_fields, payload, &k->arena, &hello, sizeof hello, &e) < 0)
            return "its greeting could not be read";
        k->foreign = !str_is(hello.build, SANDGLASS_REV);
        return hello.version == WIRE_VERSION ? NULL : "it speaks another version";
    }
    case FRAME_KNOWN: {
        struct wire_known known;
        if (field_unpack(wire_known_fields, payload, &k->arena, &known, sizeof known, &e) < 0)
            return "a known call could not be read";
        k->handler->known(k->arg, h->id, known.finished);
        return NULL;
    }
    case FRAME_READY: k->handler->ready(k->arg); return NULL;
    case FRAME_RESULT: return take_result(k, h, payload);
    case FRAME_STREAM: return take_stream(k, h);
    case FRAME_DIALED: return take_dialed(k, h, payload);
    case FRAME_ABOUT: {
        struct wire_about about;
        if (field_unpack(wire_about_fields, payload, &k->arena, &about, sizeof about, &e) < 0)
            return "what it says about itself could not be read";
        k->handler->about(k->arg, &about);
        arena_reset(&k->arena);
        return NULL;
    }
    default: return "it sent what only serve may send";
    }
}

static void take_frames(struct link *k)
{
    struct frame_head head;
    struct str payload;
    struct err e;
    size_t eaten = 0;

    while (k->fd >= 0) {
        struct buf rest = { .p = k->in.p + eaten, .n = k->in.n - eaten };
        int r = frame_peek(&rest, &head, &payload, &e);
        if (r < 0) {
            fail(k, e.msg);
            return;
        }
        if (r == 0)
            break;
        const char *wrong = take_frame(k, &head, payload);
        if (wrong) {
            fail(k, wrong);
            return;
        }
        eaten += sizeof head + payload.n;
    }
    if (k->fd >= 0)
        buf_eat(&k->in, eaten);
    if (k->in.n == 0 && k->in.size > 1024 * 1024) { /* do not keep the memory of one big result */
        buf_done(&k->in);
        buf_init(&k->in, LIMIT_FRAME + READ_CHUNK);
    }
}

static bool fill(struct link *k)
{
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(2 * sizeof(int))];
    } control;
    char *room = buf_room(&k->in, k->in.n ? READ_CHUNK : 4096);
    struct iovec iov = { room, room ? k->in.size - k->in.n : 0 };
    struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control };

    if (!room) {
        fail(k, "a frame is larger than LIMIT_FRAME");
        return false;
    }
    ssize_t n = recvmsg(k->fd, &m, MSG_CMSG_CLOEXEC);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (n <= 0) {
        fail(k, "init closed the connection");
        return false;
    }
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        int fds[2];
        size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        memcpy(fds, CMSG_DATA(c), count * sizeof(int));
        for (size_t i = 0; i < count; i++) {
            if (k->fd_count < FDS_MAX)
                k->fds[k->fd_count++] = fds[i];
            else
                close(fds[i]);
        }
    }
    buf_grew(&k->in, (size_t)n);
    return (size_t)n == iov.iov_len; /* a short read emptied the socket */
}

static void on_socket(void *arg, uint32_t events)
{
    struct link *k = arg;

    if (events & EPOLLOUT)
        flush(k);
    if (!(events & ~(uint32_t)EPOLLOUT))
        return;
    bool more = true;
    while (k->fd >= 0 && more) {
        more = fill(k);
        if (k->fd >= 0)
            take_frames(k);
    }
}

/* Connections and verbs. How boxes come and go is in seats.c. */
#include "daemon/supervise.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/auto.h"
#include "base/log.h"
#include "base/loop.h"
#include "daemon/seats.h"
#include "isolate/step.h"

enum { QUEUE_MAX = 65536, DRAIN_MS = 3000 };

struct out { /* one reply that waits for room in the socket; its gauges are opened when it goes */
    struct out *next;
    struct seat_reply reply;
};

struct conn {
    struct conn *next;
    struct supervise *sv;
    uint64_t number;
    int fd;
    struct loop_fd *watch;
    struct out *first, **last;
    unsigned queued;
    bool closed;
};

struct supervise {
    const struct supervise_opts *opts;
    struct loop *loop;
    struct seats seats;
    int listen, signals;
    struct loop_fd *on_listen, *on_signal;
    struct conn *conns;
    uint64_t numbers;
    struct loop_timer *drain;
};

/* --- replies --- */

static void conn_close(struct conn *c)
{
    if (c->closed)
        return;
    c->closed = true;
    loop_unwatch(c->watch);
    close(c->fd);
    for (struct out *o = c->first, *next; o; o = next) {
        next = o->next;
        free(o);
    }
    c->first = NULL;
    struct conn **p = &c->sv->conns;
    while (*p != c)
        p = &(*p)->next;
    *p = c->next;
    uint64_t number = c->number;
    struct supervise *sv = c->sv;
    free(c);
    seats_forget_conn(&sv->seats, number);
}

/* Replies that hand over a box carry its gauges, and that to LOOK a descriptor of its files. -1: none. */
static int open_for(struct seats *s, const struct seat_reply *r, int place)
{
    if (r->result != 0 || !r->id[0])
        return -1;
    if (r->verb == SEAT_LOOK)
        return place == 0 ? seats_written(s, r->id) : -1;
    return r->verb == SEAT_CREATE || r->verb == SEAT_LIST ? seats_gauge(s, r->id, place) : -1;
}

/* 0: sent, -EAGAIN: no room, else the connection is of no use any more */
static int send_reply(struct conn *c, struct seat_reply *r)
{
    int fds[SEAT_GAUGES], n = 0;
    union {
        struct cmsghdr head;
        char space[CMSG_SPACE(sizeof fds)];
    } control = { 0 };
    struct iovec iov = { r, sizeof *r };
    struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };

    r->gauges = 0;
    for (int i = 0; i < SEAT_GAUGES; i++) {
        int fd = open_for(&c->sv->seats, r, i);
        if (fd >= 0) {
            fds[n++] = fd;
            r->gauges |= 1u << i;
        }
    }
    if (n > 0) {
        size_t bytes = sizeof(int) * (size_t)n;
        control.head =
            (struct cmsghdr){ .cmsg_len = CMSG_LEN(bytes), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS };
        memcpy(CMSG_DATA(&control.head), fds, bytes);
        m.msg_control = &control;
        m.msg_controllen = CMSG_SPACE(bytes);
    }
    ssize_t sent = sendmsg(c->fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
    int r2 = sent < 0 ? -errno : 0;
    while (n > 0)
        close(fds[--n]);
    return r2;
}

static void conn_flush(struct conn *c)
{
    while (c->first) {
        struct out *o = c->first;
        if (send_reply(c, &o->reply) == -EAGAIN)
            break; /* other errors: the hang-up follows, and closes */
        c->first = o->next;
        if (!c->first)
            c->last = &c->first;
        c->queued--;
        free(o);
    }
    loop_change(c->watch, c->first ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

static void conn_send(struct conn *c, const struct seat_reply *r)
{
    struct seat_reply copy = *r;

    if (!c->first && send_reply(c, &copy) != -EAGAIN)
        return;
    if (c->queued == QUEUE_MAX) {
        log_warn("client does not read", "conn=%llu, reply dropped", (unsigned long long)c->number);
        return;
    }
    struct out *o = calloc(1, sizeof *o);
    if (!o)
        abort();
    o->reply = *r;
    *c->last = o;
    c->last = &o->next;
    c->queued++;
    loop_change(c->watch, EPOLLIN | EPOLLOUT);
}

static void on_seat_reply(void *arg, uint64_t number, const struct seat_reply *r)
{
    struct supervise *sv = arg;

    for (struct conn *c = sv->conns; c; c = c->next)
        if (number == 0 || c->number == number)
            conn_send(c, r);
}

/* --- requests --- */

static void answer_pool(struct supervise *sv, const struct seat_waiter *w)
{
    const struct seats *s = &sv->seats;
    struct seat_reply r = { .pool = { .ready = s->parked, .wanted = (uint32_t)sv->opts->pool_size } };

    r.pool.boxes = s->count - s->parked - s->making_pool - s->blanks;
    seat_answer(&sv->seats, w, &r);
}

static void answer_bad(struct supervise *sv, const struct seat_waiter *w, const char *what)
{
    struct seat_reply r = { 0 };

    r.result = err_set(&r.err, ERR_INVALID, "%s", what);
    seat_answer(&sv->seats, w, &r);
}

/* fd: what came with the request, or -1; borrowed */
static void handle(struct conn *c, struct seat_request *q, size_t size, int fd)
{
    struct supervise *sv = c->sv;
    struct seat_waiter w = { .conn = c->number, .seq = q->seq, .verb = q->verb };

    if (q->version != SEAT_VERSION) {
        answer_bad(sv, &w, "seat request: another version of the protocol");
        return;
    }
    q->id[sizeof q->id - 1] = 0;
    switch ((enum seat_verb)q->verb) {
    case SEAT_CREATE:
    case SEAT_CREATE_CLEAN:
        w.verb = SEAT_CREATE; /* from here on they are one */
        if (size >= offsetof(struct seat_request, other))
            seats_create(&sv->seats, &w, &q->spec, q->verb == SEAT_CREATE_CLEAN);
        else
            answer_bad(sv, &w, "seat request: CREATE without its spec");
        return;
    case SEAT_DESTROY: seats_destroy(&sv->seats, &w, q->id); return;
    case SEAT_FREEZE: seats_freeze(&sv->seats, &w, q->id, true); return;
    case SEAT_THAW: seats_freeze(&sv->seats, &w, q->id, false); return;
    case SEAT_LIST: seats_list(&sv->seats, &w); return;
    case SEAT_POOL: answer_pool(sv, &w); return;
    case SEAT_SNAPSHOT: seats_snapshot(&sv->seats, &w, q->id); return;
    case SEAT_LOOK: seats_look(&sv->seats, &w, q->id); return;
    case SEAT_VERIFY:
    case SEAT_HASH:
        if (size >= offsetof(struct seat_request, other))
            seats_verify(&sv->seats, &w, &q->spec, q->verb == SEAT_HASH);
        else
            answer_bad(sv, &w, "seat request: VERIFY without its spec");
        return;
    case SEAT_GC:
        if (size == sizeof *q)
            seats_gc(&sv->seats, &w, q, fd);
        else
            answer_bad(sv, &w, "seat request: GC without its grace time");
        return;
    case SEAT_DIFF:
    case SEAT_CHECKOUT:
        if (size >= offsetof(struct seat_request, gc))
            seats_files(&sv->seats, &w, q, fd);
        else
            answer_bad(sv, &w, "seat request: a state is missing");
        return;
    case SEAT_DEAD: break;
    }
    answer_bad(sv, &w, "seat request: no such verb");
}

/* One request, and the descriptor that came with it. More than one does not fit, and the kernel closes it. */
static ssize_t receive(int conn, struct seat_request *q, int *ret_fd)
{
    union {
        struct cmsghdr head;
        char space[CMSG_SPACE(sizeof(int))];
    } control = { 0 };
    struct iovec iov = { q, sizeof *q };
    struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control };
    m.msg_controllen = CMSG_LEN(sizeof(int)); /* without the padding, which has room for another one */
    ssize_t n = recvmsg(conn, &m, MSG_DONTWAIT | MSG_TRUNC | MSG_CMSG_CLOEXEC);

    for (struct cmsghdr *h = n < 0 ? NULL : CMSG_FIRSTHDR(&m); h; h = CMSG_NXTHDR(&m, h))
        if (h->cmsg_level == SOL_SOCKET && h->cmsg_type == SCM_RIGHTS && h->cmsg_len == CMSG_LEN(sizeof(int)))
            memcpy(ret_fd, CMSG_DATA(h), sizeof(int));
    return n;
}

static void on_conn(void *arg, uint32_t events)
{
    struct conn *c = arg;
    static struct seat_request q; /* 13 KiB, one at a time */

    if (events & EPOLLOUT)
        conn_flush(c);
    if (!(events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
        return;
    memset(&q, 0, sizeof q);
    auto_close int fd = -1;
    ssize_t n = receive(c->fd, &q, &fd);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n < (ssize_t)offsetof(struct seat_request, spec) || n > (ssize_t)sizeof q) {
        if (n > 0)
            log_warn("garbled seat request", "bytes=%zd, closing the connection", n);
        conn_close(c);
        return;
    }
    handle(c, &q, (size_t)n, fd);
}

static void on_accept(void *arg, uint32_t events)
{
    struct supervise *sv = arg;
    struct ucred peer;
    socklen_t len = sizeof peer;

    (void)events;
    auto_close int fd = accept4(sv->listen, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
        return;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0 ||
        (peer.uid != sv->opts->serve_uid && peer.uid != 0)) {
        log_warn("stranger refused", "uid=%d", (int)peer.uid);
        return;
    }
    struct conn *c = calloc(1, sizeof *c);
    if (!c)
        abort();
    *c = (struct conn){ .next = sv->conns, .sv = sv, .number = ++sv->numbers, .fd = TAKE_FD(fd) };
    c->last = &c->first;
    sv->conns = c;
    c->watch = loop_watch(sv->loop, c->fd, EPOLLIN, on_conn, c);
    if (!c->watch)
        conn_close(c);
}

/* --- life --- */

static int open_listen(struct supervise *sv, struct err *e)
{
    struct sockaddr_un a = { .sun_family = AF_UNIX };
    char dir[512];

    snprintf(dir, sizeof dir, "%s/run", sv->opts->home);
    auto_close int run = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    auto_close int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (run < 0 || fd < 0)
        return err_sys(e, "open '%s'", dir);
    (void)unlinkat(run, "supervise.sock", 0);
    snprintf(a.sun_path, sizeof a.sun_path, "/proc/self/fd/%d/supervise.sock", run);
    mode_t old = umask(0177);
    int r = bind(fd, (struct sockaddr *)&a, sizeof a);
    umask(old);
    if (r < 0 || fchownat(run, "supervise.sock", sv->opts->serve_uid, sv->opts->serve_gid, 0) < 0 || listen(fd, 64) < 0)
        return err_sys(e, "listen on run/supervise.sock");
    sv->listen = TAKE_FD(fd);
    return 0;
}

static void check_drained(void *arg)
{
    struct supervise *sv = arg;
    const struct seats *s = &sv->seats;

    for (int b = 0; b < SEAT_BUCKETS; b++)
        for (const struct seat *x = s->buckets[b]; x; x = x->next)
            if (x->state != SEAT_OUT)
                return;
    loop_stop(sv->loop);
}

static void on_drain_late(void *arg)
{
    struct supervise *sv = arg;

    log_warn("some boxes are still ending", "boxes=%u, the next start takes them away", sv->seats.count);
    loop_stop(sv->loop);
}

static void on_signal(void *arg, uint32_t events)
{
    struct supervise *sv = arg;
    struct signalfd_siginfo si;

    (void)events;
    if (read(sv->signals, &si, sizeof si) != sizeof si || sv->seats.closing)
        return;
    log_info("stopping", "boxes=%u", sv->seats.count - sv->seats.parked - sv->seats.blanks);
    loop_unwatch(sv->on_listen);
    sv->on_listen = NULL;
    seats_drain(&sv->seats);
    loop_each_turn(sv->loop, check_drained, sv);
    sv->drain = loop_timer_new(sv->loop, on_drain_late, sv);
    loop_timer_set(sv->drain, DRAIN_MS);
}

static int watch_signals(struct supervise *sv, struct err *e)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
        return err_sys(e, "sigprocmask");
    (void)signal(SIGPIPE, SIG_IGN);
    sv->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (sv->signals < 0)
        return err_sys(e, "signalfd");
    sv->on_signal = loop_watch(sv->loop, sv->signals, EPOLLIN, on_signal, sv);
    return 0;
}

/* Its own mount namespace, which learns of the host's mounts but tells it nothing: boxes are cloned from here. */
static int own_mounts(struct err *e)
{
    if (unshare(CLONE_NEWNS) < 0)
        return err_sys(e, "unshare the mount namespace");
    if (mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0)
        return err_sys(e, "make mounts private");
    return 0;
}

/* 32768 pids are used up by a thousand boxes with thirty processes each. Of inotify instances, 128 are one user's by
 * default, and a box is one user to the kernel, with its watchers, its browser and its editors. Open files are counted
 * for the whole machine, a tenth of its memory's worth: two boxes with 512 processes of 4096 files each have them all,
 * and then serve, which is not root, accepts nobody. Within a box, its memory limits them. */
static void raise_limits(void)
{
    static const struct {
        const char *path;
        long least;
    } limits[] = { { "/proc/sys/kernel/pid_max", 4194304 },
                   { "/proc/sys/fs/inotify/max_user_instances", 1024 },
                   { "/proc/sys/fs/file-max", LONG_MAX } };
    char text[32];

    for (size_t i = 0; i < ARRAY_LEN(limits); i++) {
        if (cgroup_read(AT_FDCWD, limits[i].path, text, sizeof text) <= 0 || atol(text) >= limits[i].least)
            continue;
        (void)cgroup_write(AT_FDCWD, limits[i].path, "%ld", limits[i].least);
    }
}

static int run(struct supervise *sv, struct err *e)
{
    int r = own_mounts(e);
    if (r < 0)
        return r;
    r = watch_signals(sv, e);
    if (r < 0)
        return r;
    sv->seats.reply = on_seat_reply;
    sv->seats.reply_arg = sv;
    r = seats_open(&sv->seats, sv->opts, sv->loop, e);
    if (r < 0)
        return r;
    r = open_listen(sv, e);
    if (r < 0)
        return r;
    sv->on_listen = loop_watch(sv->loop, sv->listen, EPOLLIN, on_accept, sv);
    log_info("supervise ready", "image=host-%s pool=%d unenforced=%u", sv->seats.host.generation, sv->opts->pool_size,
             cgroups_unenforced(&sv->seats.groups));
    r = loop_run(sv->loop);
    return r < 0 ? err_set(e, ERR_SYSTEM, "epoll: errno %d", -r) : 0;
}

int supervise_main(const struct supervise_opts *o)
{
    struct supervise sv = { .opts = o, .listen = -1, .signals = -1 };
    struct err e = { 0 };

    log_role("supervise");
    umask(022);
    raise_limits();
    const char *fail = o->faults ? getenv("SANDGLASS_FAIL_STEP") : NULL;
    step_fail_at(fail ? atoi(fail) : 0);
    sv.loop = loop_new();
    int r = sv.loop ? run(&sv, &e) : err_sys(&e, "epoll");
    if (r < 0)
        log_error("supervise ends", "error=\"%s\"", e.msg);

    while (sv.conns)
        conn_close(sv.conns);
    seats_close(&sv.seats);
    loop_unwatch(sv.on_listen);
    loop_unwatch(sv.on_signal);
    loop_timer_free(sv.drain);
    loop_free(sv.loop);
    if (sv.listen >= 0)
        close(sv.listen);
    if (sv.signals >= 0)
        close(sv.signals);
    return r < 0 ? 1 : 0;
}

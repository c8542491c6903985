/* One turn of the loop: take in what clients sent; one fdatasync for all who asked for one (group commit); one slice
 * of the log into the index; a slice of the questions whose position is reached. While there is more, turns follow
 * each other without waiting, so a sync waits no longer than two slices: who reads a lot does not hold up who writes.
 *
 * The log is looked at by a timer, not by inotify: a watch would cost the writer a microsecond with each append, a
 * look at an idle log costs us a few of them ten times a second. */
#include "daemon/recorder.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/loop.h"
#include "store/blob.h"
#include "store/index.h"
#include "store/journal.h"
#include "wire/frame.h"
#include "wire/query.h"

enum {
    READ_SIZE = 64 * 1024,
    FDS_MAX = 32, /* descriptors that came and whose frame did not, yet */
    CONNECTIONS_MAX = 256,
    LOOK_MIN_MS = 40,
    LOOK_MAX_MS = 100,
    POSITION_WAIT_MS = 10000, /* for a position that the log does not reach */
    FAILED_PAUSE_MS = 1000,
    TIDY_MS = 100, /* between two batches of what is erased */
    TIDY_LATER_MS = 60000,
    STOP_MS = 2000,
    ANSWER_MS = 20, /* of one turn; one question is answered in any case */
};
#define OUT_SOFT (8 * MiB) /* unsent answers above this: the client's further questions wait in its socket */

struct asked {
    struct asked *next;
    struct peer *peer;
    uint64_t id;
    struct arena arena; /* owns the strings of q */
    struct query q;
    int64_t since_ms;
};

struct peer {
    struct peer *next, **prev_next;
    struct recorder *r;
    int fd;
    struct loop_fd *watch;
    uint32_t events;
    struct buf in, out;
    size_t sent;
    int fds[FDS_MAX];
    size_t fd_count;
    bool broken;
    bool held; /* questions wait in `in` until answers are sent */
};

struct recorder {
    const struct recorder_opts *opts;
    char *log_dir;
    struct loop *loop;
    struct index *index;
    int listener, lock, signals;
    struct loop_fd *listen_watch, *signal_watch;
    struct loop_timer *look, *sync;
    int64_t look_ms;
    bool more;          /* the log has more, or may have */
    int64_t stop_ms;    /* asked to end: once the log is read, or at this time; 0: not */
    int64_t paused_ms;  /* ingest failed: not again before this */
    int64_t tidy_ms;    /* the next time to erase what was forgotten */
    struct err failure; /* why; code 0: it works */
    uint64_t sync_seen; /* index position when the sync timer was armed last */
    bool sync_armed;
    struct peer *peers;
    size_t peer_count;
    struct asked *syncs, **syncs_end; /* in the order they came */
    struct asked *waits, **waits_end; /* other questions */
    bool waits_more;                  /* one could be answered, but the turn was over */
};

static void peer_events(struct peer *p)
{
    uint32_t want = (p->out.n - p->sent > (size_t)OUT_SOFT ? 0 : EPOLLIN) | (p->out.n > p->sent ? EPOLLOUT : 0);

    if (!p->broken && want != p->events)
        loop_change(p->watch, want);
    p->events = want;
}

static void drop_asked(struct asked **list, struct asked ***end, const struct peer *p)
{
    struct asked **at = list;

    while (*at) {
        struct asked *a = *at;
        if (a->peer != p) {
            at = &a->next;
            continue;
        }
        *at = a->next;
        arena_done(&a->arena);
        free(a);
    }
    *end = at;
}

static void peer_free(void *arg)
{
    struct peer *p = arg;

    *p->prev_next = p->next;
    if (p->next)
        p->next->prev_next = p->prev_next;
    p->r->peer_count--;
    drop_asked(&p->r->syncs, &p->r->syncs_end, p);
    drop_asked(&p->r->waits, &p->r->waits_end, p);
    for (size_t i = 0; i < p->fd_count; i++)
        close(p->fds[i]);
    buf_done(&p->in);
    buf_done(&p->out);
    close(p->fd);
    free(p);
}

/* Now unwatched, freed at the end of the turn: whoever is in the middle of it still holds a valid pointer. */
static void peer_break(struct peer *p)
{
    if (p->broken)
        return;
    p->broken = true;
    loop_unwatch(p->watch);
    p->watch = NULL;
    loop_later(p->r->loop, peer_free, p);
}

static void peer_send(struct peer *p)
{
    while (!p->broken && p->sent < p->out.n) {
        ssize_t n = send(p->fd, p->out.p + p->sent, p->out.n - p->sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno != EAGAIN) {
            peer_break(p);
            return;
        }
        if (n < 0)
            break;
        p->sent += (size_t)n;
    }
    if (p->sent == p->out.n) {
        p->sent = 0;
        if (p->out.size > (size_t)OUT_SOFT) {
            size_t cap = p->out.cap;
            buf_done(&p->out);
            buf_init(&p->out, cap);
        }
        buf_reset(&p->out);
    }
    peer_events(p);
}

static void answer(struct peer *p, uint64_t id, const struct answer *a)
{
    if (p->broken)
        return;
    frame_add(&p->out, FRAME_RESULT, id, 0, answer_fields, a);
    if (p->out.full) /* it asked for more than it reads; it will come back and ask again */
        peer_break(p);
}

static void answer_error(struct peer *p, uint64_t id, const struct err *e)
{
    struct answer a = { .error = e->code ? e->code : ERR_SYSTEM, .message = str_of(e->msg) };
    answer(p, id, &a);
}

static void answer_query(struct recorder *r, struct peer *p, uint64_t id, const struct query *q)
{
    AUTO(buf_done) struct buf out;
    struct err e = { 0 };

    buf_init(&out, (size_t)LIMIT_FRAME - 4 * KiB);
    if (index_query(r->index, q, &out, &e) < 0)
        answer_error(p, id, &e);
    else
        answer(p, id, &(struct answer){ .json = buf_view(&out) });
}

static void answer_blob(struct recorder *r, struct peer *p, uint64_t id, int fd)
{
    struct blob_name name;
    uint64_t bytes;
    struct err e = { 0 };
    char json[160];

    /* Only memory files have seals: nothing else may be read here, since a file system could make us wait. */
    int ok = fd >= 0 && fcntl(fd, F_GET_SEALS) >= 0
                 ? blob_put(r->opts->home, fd, r->opts->sync_ms > 0, &name, &bytes, &e)
                 : err_set(&e, ERR_INVALID, "a blob must come with one memfd");
    if (ok < 0) {
        answer_error(p, id, &e);
        return;
    }
    int n = snprintf(json, sizeof json, "{\"hash\":\"%s\",\"bytes\":%llu}", name.z, (unsigned long long)bytes);
    answer(p, id, &(struct answer){ .json = { json, (size_t)n } });
}

/* Serve has put it aside. */
static void drop_audit(struct recorder *r, struct peer *p, uint64_t id)
{
    char path[4200];
    struct err e;

    snprintf(path, sizeof path, "%s/audit.log.2", r->opts->home);
    if (unlink(path) < 0 && errno != ENOENT) {
        err_sys(&e, "remove '%s'", path);
        answer_error(p, id, &e);
    } else {
        answer(p, id, &(struct answer){ 0 });
    }
}

static void put_off(struct asked ***end, struct peer *p, uint64_t id, struct str payload)
{
    struct asked *a = calloc(1, sizeof *a);
    struct err e;

    if (!a)
        abort();
    *a = (struct asked){ .peer = p, .id = id, .since_ms = now_ms() };
    struct str copy = arena_copy(&a->arena, payload);
    (void)field_unpack(query_fields, copy, &a->arena, &a->q, sizeof a->q, &e); /* it was unpacked once before */
    **end = a;
    *end = &a->next;
}

static int take_question(struct peer *p, const struct frame_head *head, struct str payload, struct err *e)
{
    struct recorder *r = p->r;
    AUTO(arena_done) struct arena arena = { 0 };
    auto_close int fd = -1;
    struct query q;

    if (head->type != FRAME_CALL || head->fds > 1 || head->fds > p->fd_count)
        return err_set(e, ERR_INVALID, "a frame of type %u with %u of %zu descriptors is no question", head->type,
                       head->fds, p->fd_count);
    if (head->fds) {
        fd = p->fds[0];
        memmove(p->fds, p->fds + 1, --p->fd_count * sizeof p->fds[0]);
    }
    int ok = field_unpack(query_fields, payload, &arena, &q, sizeof q, e);
    if (ok < 0)
        return ok;
    r->more = true; /* whoever asks has written something */
    if (str_is(q.op, "sync"))
        put_off(&r->syncs_end, p, head->id, payload);
    else if (str_is(q.op, "blob"))
        answer_blob(r, p, head->id, fd);
    else if (str_is(q.op, "drop_audit"))
        drop_audit(r, p, head->id);
    else
        put_off(&r->waits_end, p, head->id, payload);
    return 0;
}

static void take_questions(struct peer *p)
{
    size_t done = 0;
    struct err e = { 0 };
    int ok = 0;

    while (!p->broken && p->out.n - p->sent <= (size_t)OUT_SOFT) {
        struct buf rest = { .p = p->in.p + done, .n = p->in.n - done };
        struct frame_head head;
        struct str payload;

        ok = frame_peek(&rest, &head, &payload, &e);
        if (ok > 0)
            ok = take_question(p, &head, payload, &e) < 0 ? -1 : 1;
        if (ok <= 0)
            break;
        done += sizeof head + head.size;
    }
    buf_eat(&p->in, done);
    p->held = p->out.n - p->sent > (size_t)OUT_SOFT;
    if (ok < 0) {
        log_warn("question not understood", "%s, connection ended", e.msg);
        peer_break(p);
    }
}

/* > 0: bytes came. 0: none now. < 0: the connection is over. */
static ssize_t receive(struct peer *p)
{
    void *to = buf_room(&p->in, READ_SIZE);
    struct iovec iov = { to, READ_SIZE };
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int) * 4)];
    } control;
    struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control };

    if (!to)
        return -1;
    ssize_t n = recvmsg(p->fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -1;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
            if (p->fd_count < FDS_MAX)
                p->fds[p->fd_count++] = fd;
            else
                close(fd); /* its frame will then find none and end the connection */
        }
    }
    if (n == 0 || msg.msg_flags & MSG_CTRUNC)
        return -1;
    buf_grew(&p->in, (size_t)n);
    return n;
}

static void on_peer(void *arg, uint32_t events)
{
    struct peer *p = arg;

    if (events & EPOLLOUT)
        peer_send(p);
    for (int i = 0; i < 16 && !p->broken && p->events & EPOLLIN && events & (EPOLLIN | EPOLLHUP | EPOLLERR); i++) {
        ssize_t n = receive(p);
        if (n < 0) {
            peer_break(p);
            return;
        }
        if (n == 0)
            break;
        take_questions(p);
        peer_events(p);
    }
    if (events & (EPOLLHUP | EPOLLERR) && !(p->events & EPOLLIN))
        peer_break(p);
}

static void on_connect(void *arg, uint32_t events)
{
    struct recorder *r = arg;

    (void)events;
    int fd = accept4(r->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
        return;
    struct peer *p = calloc(1, sizeof *p);
    if (!p)
        abort();
    *p = (struct peer){ .r = r, .fd = fd, .events = EPOLLIN };
    p->watch = r->peer_count < CONNECTIONS_MAX ? loop_watch(r->loop, fd, EPOLLIN, on_peer, p) : NULL;
    if (!p->watch) {
        log_warn("connection refused", "open=%zu limit=CONNECTIONS_MAX (%d)", r->peer_count, CONNECTIONS_MAX);
        close(fd);
        free(p);
        return;
    }
    buf_init(&p->in, (size_t)LIMIT_FRAME + 2 * READ_SIZE);
    buf_init(&p->out, 4 * (size_t)LIMIT_FRAME);
    p->next = r->peers;
    p->prev_next = &r->peers;
    if (p->next)
        p->next->prev_next = &p->next;
    r->peers = p;
    r->peer_count++;
}

/* One fdatasync for all. What it covers was in the kernel when they asked. */
static void serve_syncs(struct recorder *r)
{
    struct asked *list = r->syncs;
    uint64_t upto = 0;
    struct err e = { 0 };

    if (!list)
        return;
    for (struct asked *a = list; a; a = a->next)
        if (a->q.upto > 0 && (uint64_t)a->q.upto > upto)
            upto = (uint64_t)a->q.upto;
    int ok = journal_sync(r->log_dir, upto ? upto : UINT64_MAX, &e);
    if (ok < 0)
        log_error("log not synced", "%s", e.msg);
    r->syncs = NULL;
    r->syncs_end = &r->syncs;
    for (struct asked *a = list, *next; a; a = next) {
        next = a->next;
        if (ok < 0)
            answer_error(a->peer, a->id, &e);
        else
            answer(a->peer, a->id, &(struct answer){ .json = STR("{}") });
        arena_done(&a->arena);
        free(a);
    }
}

static void serve_waits(struct recorder *r)
{
    struct asked **at = &r->waits;
    int64_t until = now_ms() + ANSWER_MS;

    r->waits_more = false;
    while (*at) {
        struct asked *a = *at;
        bool reached = a->q.upto <= 0 || (uint64_t)a->q.upto <= index_position(r->index);
        bool late = now_ms() - a->since_ms > POSITION_WAIT_MS && !r->more;
        bool unread = a->peer->out.n - a->peer->sent > (size_t)OUT_SOFT;
        bool enough = reached && (unread || now_ms() > until);

        r->waits_more |= enough && !unread;
        if (enough || (!reached && !late && !r->failure.code)) {
            at = &a->next;
            continue;
        }
        *at = a->next;
        if (reached) {
            answer_query(r, a->peer, a->id, &a->q);
        } else if (r->failure.code) {
            answer_error(a->peer, a->id, &r->failure);
        } else {
            struct err e;
            (void)err_set(&e, ERR_BUSY, "the log does not reach position %lld (the index is at %llu)",
                          (long long)a->q.upto, (unsigned long long)index_position(r->index));
            answer_error(a->peer, a->id, &e);
        }
        arena_done(&a->arena);
        free(a);
    }
    r->waits_end = at;
}

static void arm_sync(struct recorder *r)
{
    if (r->opts->sync_ms <= 0 || r->sync_armed || (r->sync_seen == index_position(r->index) && !r->failure.code))
        return;
    r->sync_armed = true;
    loop_timer_set(r->sync, r->opts->sync_ms / 2); /* the first byte may be as old as the last look: the other half */
}

static void on_sync_time(void *arg)
{
    struct recorder *r = arg;
    struct err e;

    r->sync_armed = false;
    r->sync_seen = index_position(r->index);
    if (journal_sync(r->log_dir, UINT64_MAX, &e) < 0)
        log_error("log not synced", "%s", e.msg);
}

static void ingest(struct recorder *r)
{
    struct err e = { 0 };

    if (!r->more || now_ms() < r->paused_ms)
        return;
    uint64_t before = index_position(r->index);
    int ok = index_ingest(r->index, &e);
    r->more = ok > 0;
    if (ok < 0) {
        if (strcmp(r->failure.msg, e.msg) != 0)
            log_error("log not indexed", "%s, trying again each second", e.msg);
        r->paused_ms = now_ms() + FAILED_PAUSE_MS;
    }
    r->failure = ok < 0 ? e : (struct err){ 0 };
    if (index_position(r->index) != before)
        r->look_ms = LOOK_MIN_MS;
    arm_sync(r);
}

/* What was forgotten is erased when there is nothing else to do. */
static void tidy(struct recorder *r)
{
    struct err e = { 0 };

    if (r->more || r->failure.code || index_is_tidy(r->index) || now_ms() < r->tidy_ms)
        return;
    int ok = index_tidy(r->index, r->opts->grace_ms, &e);
    if (ok < 0)
        log_warn("forgotten records not erased", "%s, trying again in a minute", e.msg);
    int64_t young = r->opts->grace_ms < TIDY_LATER_MS ? r->opts->grace_ms : TIDY_LATER_MS;
    r->tidy_ms = now_ms() + (ok > 0 ? TIDY_MS : ok < 0 ? TIDY_LATER_MS : TIDY_MS + young);
}

static void send_all(struct recorder *r)
{
    for (struct peer *p = r->peers; p; p = p->next) {
        peer_send(p);
        while (p->held && !p->broken && p->out.n - p->sent <= (size_t)OUT_SOFT) {
            take_questions(p);
            peer_send(p);
        }
    }
}

static void each_turn(void *arg)
{
    struct recorder *r = arg;

    serve_syncs(r);
    send_all(r); /* before the index's slice: syncs are on a caller's path */
    ingest(r);
    serve_waits(r);
    send_all(r);
    tidy(r);
    bool busy = r->more && now_ms() >= r->paused_ms;
    if (r->stop_ms && (!busy || now_ms() > r->stop_ms))
        loop_stop(r->loop);
    else if (busy || r->syncs || r->waits_more)
        loop_timer_set(r->look, 0);
}

static void on_look_time(void *arg)
{
    struct recorder *r = arg;
    int64_t most = r->opts->sync_ms > 0 && r->opts->sync_ms / 2 < LOOK_MAX_MS ? r->opts->sync_ms / 2 : LOOK_MAX_MS;

    r->more = true;
    loop_timer_set(r->look, r->look_ms);
    r->look_ms *= 2;
    if (r->look_ms > most)
        r->look_ms = most > 1 ? most : 1;
}

static void on_signal(void *arg, uint32_t events)
{
    struct recorder *r = arg;

    (void)events;
    if (!r->stop_ms)
        r->stop_ms = now_ms() + STOP_MS;
    r->more = true;
}

/* The lock lives as long as the process; a socket file of a dead recorder is replaced. */
static int listen_at(struct recorder *r, struct err *e)
{
    char dir[4200];
    struct sockaddr_un at = { .sun_family = AF_UNIX };

    snprintf(dir, sizeof dir, "%s/run", r->opts->home);
    if (mkdir(dir, 0755) < 0 && errno != EEXIST)
        return err_sys(e, "make '%s'", dir);
    auto_close int dirfd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dirfd < 0)
        return err_sys(e, "open '%s'", dir);
    r->lock = openat(dirfd, "recorder.lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (r->lock < 0 || flock(r->lock, LOCK_EX | LOCK_NB) < 0)
        return err_sys(e, "lock '%s/recorder.lock' (another recorder runs?)", dir);
    r->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (r->listener < 0)
        return err_sys(e, "socket");
    (void)unlinkat(dirfd, "recorder.sock", 0);
    snprintf(at.sun_path, sizeof at.sun_path, "/proc/self/fd/%d/recorder.sock", dirfd);
    /* fchmod before bind sets the mode that the file is made with: there is no moment at which others may connect. */
    (void)fchmod(r->listener, 0600);
    if (bind(r->listener, (struct sockaddr *)&at, sizeof at) < 0)
        return err_sys(e, "bind '%s/recorder.sock'", dir);
    if (r->opts->uid != (uid_t)-1 &&
        fchownat(dirfd, "recorder.sock", r->opts->uid, r->opts->gid, AT_SYMLINK_NOFOLLOW) < 0)
        return err_sys(e, "give '%s/recorder.sock' to uid %u", dir, (unsigned)r->opts->uid);
    if (listen(r->listener, 128) < 0)
        return err_sys(e, "listen at '%s/recorder.sock'", dir);
    return 0;
}

static int start(struct recorder *r, struct err *e)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigprocmask(SIG_BLOCK, &set, NULL);
    r->loop = loop_new();
    r->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (!r->loop || r->signals < 0)
        return err_sys(e, "epoll and signalfd");
    int ok = listen_at(r, e);
    if (ok < 0)
        return ok;
    ok = index_open(r->opts->home, &r->index, e);
    if (ok < 0)
        return ok;
    r->sync_seen = UINT64_MAX; /* what a former recorder left unsynced is not known */
    r->look = loop_timer_new(r->loop, on_look_time, r);
    r->sync = loop_timer_new(r->loop, on_sync_time, r);
    loop_each_turn(r->loop, each_turn, r);
    loop_timer_set(r->look, 0);
    r->signal_watch = loop_watch(r->loop, r->signals, EPOLLIN, on_signal, r);
    r->listen_watch = loop_watch(r->loop, r->listener, EPOLLIN, on_connect, r);
    if (!r->signal_watch || !r->listen_watch)
        return err_sys(e, "watch the socket");
    return 0;
}

static void finish(struct recorder *r)
{
    const int fds[] = { r->listener, r->lock, r->signals };

    while (r->peers) {
        loop_unwatch(r->peers->watch);
        peer_free(r->peers);
    }
    index_close(r->index);
    loop_unwatch(r->signal_watch);
    loop_unwatch(r->listen_watch);
    loop_timer_free(r->look);
    loop_timer_free(r->sync);
    loop_free(r->loop);
    for (size_t i = 0; i < ARRAY_LEN(fds); i++)
        if (fds[i] >= 0)
            close(fds[i]);
    free(r->log_dir);
}

int recorder_main(const struct recorder_opts *o)
{
    struct recorder r = { .opts = o, .listener = -1, .lock = -1, .signals = -1, .look_ms = LOOK_MIN_MS, .more = true };
    struct err e = { 0 };

    log_role("recorder");
    r.syncs_end = &r.syncs;
    r.waits_end = &r.waits;
    if (asprintf(&r.log_dir, "%s/log", o->home) < 0)
        abort();
    int ok = start(&r, &e);
    if (ok >= 0) {
        log_info("recorder ready", "home=%s position=%llu", o->home, (unsigned long long)index_position(r.index));
        ok = loop_run(r.loop);
        if (ok < 0)
            log_error("recorder ends", "epoll: errno=%d", -ok);
        if (o->sync_ms > 0 && journal_sync(r.log_dir, UINT64_MAX, &e) < 0)
            log_error("log not synced", "%s", e.msg);
    } else {
        log_error("recorder cannot start", "%s", e.msg);
    }
    finish(&r);
    return ok < 0;
}

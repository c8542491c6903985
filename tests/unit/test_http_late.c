/* HTTP: answers that come late or never, streams, timeouts, drain. */
#include "http_world.h"

#include <sys/resource.h>

/* ---- answers that take their time ---- */

static bool turn_hangup(struct world *w)
{
    switch (w->step++) {
    case 0: puts_(w, "POST /later HTTP/1.1\r\n" H "Content-Length: 3\r\n\r\nabc"); return false;
    case 3: {
        EXPECT_INT(w->calls, 1);
        struct linger hard = { .l_onoff = 1 }; /* TCP: a reset */
        setsockopt(w->fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
        close(w->fd);
        w->fd = -1;
        return false;
    }
    case 8:
        EXPECT_INT(w->server->open, 0); /* it noticed */
        EXPECT_INT(http_server_busy(w->server), 1);
        EXPECT_STR(w->pending->body, "abc"); /* and the request is still there */
        answer_pending(w);
        return false;
    case 9:
        EXPECT_INT(http_server_busy(w->server), 0);
        EXPECT_TRUE(!w->server->conns);
        return true;
    default: return false;
    }
}
TEST(http_hangup)
{
    for (int tcp = 0; tcp < 2; tcp++) {
        struct world w;
        world_init(&w, tcp);
        world_run(&w, turn_hangup);
        world_done(&w);
    }
}

/* A client that closes only its sending side, or pipelines more than fits: no spinning, and it is answered. */
static int64_t cpu_us(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000 + u.ru_utime.tv_usec + u.ru_stime.tv_usec;
}
static int64_t turns_at;
static bool turn_quiet(struct world *w)
{
    static char filler[20000];

    switch (w->step++) {
    case 0:
        puts_(w, "GET /later HTTP/1.1\r\n" H "\r\nPOST /size HTTP/1.1\r\n" H "Content-Length: 20000\r\n\r\n");
        put(w, (struct str){ filler, sizeof filler });
        shutdown(w->fd, SHUT_WR);
        return false;
    case 5:
        turns_at = cpu_us();
        loop_timer_set(w->pulse, 100);
        return false;
    case 6: /* if epoll reported the same thing over and over, this turn would come at once */
        EXPECT_TRUE(cpu_us() - turns_at < 50000);
        turns_at = now_ms() - turns_at;
        answer_pending(w);
        return false;
    default: return w->got_eof;
    }
}
TEST(http_pending_is_quiet)
{
    for (int tcp = 0; tcp < 2; tcp++) {
        struct world w;
        world_init(&w, tcp);
        int64_t begin = now_ms();
        world_run(&w, turn_quiet);
        EXPECT_TRUE(now_ms() - begin >= 100);
        EXPECT_INT(w.calls, 2);
        EXPECT_TRUE(has(&w, "\r\n\r\n20000"));
        world_done(&w);
    }
}

static bool turn_orphan(struct world *w)
{
    if (w->step++ == 0)
        puts_(w, "GET /later HTTP/1.1\r\n" H "\r\n");
    return w->pending;
}
TEST(http_server_gone_before_answer)
{
    struct world w;
    world_init(&w, false);
    world_run(&w, turn_orphan);
    http_server_free(w.server);
    w.server = NULL;
    EXPECT_STR(w.pending->path, "/later");
    answer_pending(&w);
    world_done(&w);
}

static void on_answer_timer(void *arg)
{
    answer_pending(arg);
}
static bool turn_timer(struct world *w)
{
    static struct loop_timer *t;

    if (w->step++ == 0) {
        puts_(w, "GET /later HTTP/1.1\r\n" H "\r\n");
        t = loop_timer_new(w->loop, on_answer_timer, w);
        loop_timer_set(t, 20);
    }
    if (!has(w, "later"))
        return false;
    loop_timer_free(t);
    return true;
}
TEST(http_answer_by_timer)
{
    struct world w;
    world_init(&w, true);
    world_run(&w, turn_timer);
    EXPECT_STR(buf_view(&w.got), "HTTP/1.1 202 Accepted\r\nContent-Length: 5\r\n\r\nlater");
    world_done(&w);
}

/* ---- streams ---- */

static bool turn_stream(struct world *w)
{
    if (w->step == 0)
        puts_(w, "GET /stream HTTP/1.1\r\n" H "\r\nGET /after HTTP/1.1\r\n" H "Connection: close\r\n\r\n");
    w->step++;
    if (w->stream && w->step == 4) {
        EXPECT_TRUE(http_stream_write(w->stream, STR("data: one\n\n")));
        EXPECT_TRUE(http_stream_write(w->stream, STR("")));
        EXPECT_TRUE(http_stream_write(w->stream, STR("data: two\n\n")));
    }
    if (w->stream && has(w, "two")) {
        EXPECT_INT(w->calls, 1); /* the next request waits for the end */
        EXPECT_INT(http_server_busy(w->server), 0);
        http_stream_end(w->stream);
        w->stream = NULL;
    }
    return w->got_eof;
}
TEST(http_stream)
{
    struct world w;
    world_init(&w, true);
    world_run(&w, turn_stream);
    EXPECT_STR(buf_view(&w.got),
               "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\n"
               "Transfer-Encoding: chunked\r\n\r\nb\r\ndata: one\n\n\r\nb\r\ndata: two\n\n\r\n0\r\n\r\n"
               "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi");
    EXPECT_INT(w.stream_closed, 0);
    world_done(&w);
}

static bool turn_stream_left(struct world *w)
{
    if (w->step == 0)
        puts_(w, "GET /stream HTTP/1.1\r\n" H "\r\n");
    if (++w->step == 4) {
        EXPECT_TRUE(http_stream_write(w->stream, STR("x")));
        close(w->fd);
        w->fd = -1;
    }
    return w->stream_closed;
}
TEST(http_stream_client_leaves)
{
    for (int tcp = 0; tcp < 2; tcp++) {
        struct world w;
        world_init(&w, tcp);
        world_run(&w, turn_stream_left);
        EXPECT_INT(w.stream_closed, 1);
        EXPECT_INT(w.server->open, 0);
        world_done(&w);
        EXPECT_INT(w.stream_closed, 1);
    }
}

static int end_after_failure;
static bool turn_overflow(struct world *w)
{
    static char block[65536];

    w->no_read = true;
    if (w->step == 0)
        puts_(w, "GET /stream HTTP/1.1\r\n" H "\r\n");
    if (++w->step == 4) {
        int writes = 0;
        while (http_stream_write(w->stream, (struct str){ block, sizeof block }))
            EXPECT_TRUE(++writes < 1000);
        EXPECT_TRUE(writes >= 4 * MiB / (long)sizeof block - 1);
        EXPECT_INT(w->stream_closed, 0); /* not from inside */
        EXPECT_TRUE(!http_stream_write(w->stream, STR("x")));
        if (end_after_failure) {
            http_stream_end(w->stream);
            w->stream = NULL;
        }
    }
    return w->step > 4 && w->server->open == 0;
}
TEST(http_stream_overflow)
{
    for (end_after_failure = 0; end_after_failure < 2; end_after_failure++) {
        struct world w;
        world_init(&w, true);
        world_run(&w, turn_overflow);
        EXPECT_INT(w.stream_closed, !end_after_failure);
        world_done(&w);
    }
}

/* The client left while the handler thought; then the handler begins a stream. */
static bool turn_stream_late(struct world *w)
{
    switch (w->step++) {
    case 0: puts_(w, "GET /later HTTP/1.1\r\n" H "\r\n"); return false;
    case 3:
        close(w->fd);
        w->fd = -1;
        return false;
    case 6:
        w->stream = http_stream_begin(TAKE_PTR(w->pending), 200, "text/plain", on_stream_gone, w);
        (void)http_stream_write(w->stream, STR("x"));
        EXPECT_INT(w->stream_closed, 0);
        return false;
    default: return w->stream_closed;
    }
}
TEST(http_stream_begins_too_late)
{
    for (int tcp = 0; tcp < 2; tcp++) {
        struct world w;
        world_init(&w, tcp);
        world_run(&w, turn_stream_late);
        EXPECT_INT(w.stream_closed, 1);
        world_done(&w);
    }
}

static bool turn_stream10(struct world *w)
{
    if (w->step == 0)
        puts_(w, "GET /stream HTTP/1.0\r\n\r\n");
    if (++w->step == 4) {
        http_stream_write(w->stream, STR("one"));
        http_stream_end(w->stream);
    }
    return w->got_eof;
}
TEST(http_stream_http10)
{
    struct world w;
    world_init(&w, false);
    world_run(&w, turn_stream10);
    EXPECT_TRUE(has(&w, "Connection: close\r\nCache-Control: no-cache\r\n\r\none"));
    world_done(&w);
}

TEST(http_server_free_closes_streams)
{
    struct world w;
    world_init(&w, false);
    w.step = 0;
    world_run(&w, turn_orphan); /* a pending request ... */
    w.stream = http_stream_begin(TAKE_PTR(w.pending), 200, "text/plain", on_stream_gone, &w);
    http_server_free(w.server);
    w.server = NULL;
    EXPECT_INT(w.stream_closed, 1);
    world_done(&w);
}

/* ---- time, drain, take-over ---- */

static void ticks(struct world *w, int n)
{
    while (n--)
        server_tick(w->server);
}
static bool turn_slow(struct world *w)
{
    switch (w->step++) {
    case 0: puts_(w, "GET / HTTP/1.1\r\n"); return false;
    case 4:
        ticks(w, HEAD_TICKS);
        puts_(w, "A: b\r\n"); /* more bytes do not buy more time */
        return false;
    case 8:
        EXPECT_INT(w->got.n, 0);
        ticks(w, 1);
        return false;
    default: return w->got_eof;
    }
}
static bool turn_slow_body(struct world *w)
{
    switch (w->step++) {
    case 0: puts_(w, "POST / HTTP/1.1\r\n" H "Content-Length: 100\r\n\r\n"); return false;
    case 4: ticks(w, BODY_TICKS + 1); return false;
    default: return w->got_eof;
    }
}
static bool turn_idle(struct world *w)
{
    switch (w->step++) {
    case 0: puts_(w, "GET /1 HTTP/1.1\r\n" H "\r\n"); return false;
    case 4:
        ticks(w, IDLE_TICKS); /* gives its buffers back, but lives */
        EXPECT_TRUE(!w->server->conns->in.p);
        puts_(w, "GET /2 HTTP/1.1\r\n" H "\r\n");
        return false;
    case 8: ticks(w, IDLE_TICKS + 1); return false;
    default: return w->got_eof;
    }
}
static bool turn_patient(struct world *w)
{
    switch (w->step++) {
    case 0: puts_(w, "GET /later HTTP/1.1\r\n" H "\r\n"); return false;
    case 4:
        ticks(w, 10000); /* a handler may take all day */
        answer_pending(w);
        return false;
    default: return has(w, "later");
    }
}
TEST(http_timeouts)
{
    struct world w;
    world_init(&w, true);
    world_run(&w, turn_slow);
    EXPECT_TRUE(has(&w, "408 Request Timeout") && has(&w, "LIMIT_HTTP_HEAD_MS (30000)"));
    world_done(&w);
    world_init(&w, true);
    world_run(&w, turn_slow_body);
    EXPECT_TRUE(has(&w, "408 Request Timeout"));
    world_done(&w);
    world_init(&w, true);
    world_run(&w, turn_idle);
    EXPECT_INT(w.calls, 2);
    EXPECT_INT(count(&w, "HTTP/1.1"), 2);
    world_done(&w);
    world_init(&w, true);
    world_run(&w, turn_patient);
    world_done(&w);
}

static bool turn_drain(struct world *w)
{
    switch (w->step++) {
    case 0: puts_(w, "GET /later HTTP/1.1\r\n" H "\r\n"); return false;
    case 4:
        http_server_drain(w->server);
        EXPECT_INT(http_server_busy(w->server), 1);
        return false;
    case 8:
        EXPECT_TRUE(!w->got_eof);
        answer_pending(w);
        EXPECT_INT(http_server_busy(w->server), 0);
        return false;
    default: return w->got_eof;
    }
}
static bool turn_drain_idle(struct world *w)
{
    if (w->step++ == 4)
        http_server_drain(w->server);
    return w->got_eof;
}
static bool turn_drain_unread(struct world *w)
{
    if (w->step++ == 4) {
        puts_(w, "GET /1 HTTP/1.1\r\n" H "\r\n");
        http_server_drain(w->server);
    }
    return w->got_eof;
}
TEST(http_drain)
{
    struct world w;
    world_init(&w, true);
    world_run(&w, turn_drain);
    EXPECT_STR(buf_view(&w.got), "HTTP/1.1 202 Accepted\r\nContent-Length: 5\r\nConnection: close\r\n\r\nlater");
    world_done(&w);
    world_init(&w, true);
    world_run(&w, turn_drain_idle);
    EXPECT_INT(w.server->open, 0);
    world_done(&w);
    world_init(&w, true);
    world_run(&w, turn_drain_unread);
    EXPECT_TRUE(has(&w, "Connection: close\r\n\r\nhi"));
    world_done(&w);
}

static bool turn_eof(struct world *w)
{
    return w->got_eof;
}

/* Out of descriptors: the server turns the client away instead of spinning, and recovers. */
TEST(http_no_descriptors)
{
    struct world w;
    world_init(&w, true);

    struct rlimit before, few;
    getrlimit(RLIMIT_NOFILE, &before);
    few = before;
    int next = dup(0); /* the limit is on the number of a descriptor */
    close(next);
    few.rlim_cur = (rlim_t)next;
    setrlimit(RLIMIT_NOFILE, &few);
    world_run(&w, turn_eof);
    setrlimit(RLIMIT_NOFILE, &before);

    EXPECT_TRUE(w.got_eof);
    EXPECT_INT(w.server->open, 0);
    EXPECT_TRUE(w.server->listen_paused);
    EXPECT_TRUE(w.server->spare_fd >= 0);
    server_tick(w.server);
    EXPECT_TRUE(!w.server->listen_paused);
    world_done(&w);
}

TEST(http_too_many_connections)
{
    struct world w;
    world_init(&w, true);
    w.server->open = LIMIT_HTTP_CONNECTIONS;
    world_run(&w, turn_eof);
    EXPECT_TRUE(has(&w, "503 Service Unavailable") && has(&w, "LIMIT_HTTP_CONNECTIONS (10000)"));
    EXPECT_INT(w.server->open, LIMIT_HTTP_CONNECTIONS);
    w.server->open = 0;
    world_done(&w);
}

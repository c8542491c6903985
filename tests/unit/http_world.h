/* For tests of the HTTP server: it and a client in the same loop, over a socket pair that the server adopts or over
 * loopback TCP. A test is a function that is called each turn until it says that it is done; w->step is its own
 * counter. */
#pragma once

#include "test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "http/internal.h"

struct world {
    struct loop *loop;
    struct http_server *server;
    struct loop_timer *pulse;
    int64_t end_ms;
    int listen_fd;
    int fd;         /* the client's side */
    struct buf got; /* what the client received */
    bool got_eof, no_read;
    int step;
    bool (*on_turn)(struct world *w);

    int calls; /* of the handler */
    struct http_request *pending;
    struct http_stream *stream;
    int stream_closed;
    struct str big;  /* body of /big */
    char seen[4096]; /* "METHOD path query body\n" of each call, cut short */
};

static inline void on_stream_gone(void *arg)
{
    struct world *w = arg;
    w->stream_closed++;
    w->stream = NULL;
}

static inline void handle(void *arg, struct http_request *r)
{
    struct world *w = arg;
    size_t n = strlen(w->seen);
    struct str b = r->body;

    w->calls++;
    snprintf(w->seen + n, sizeof w->seen - n, "%.*s %.*s [%.*s] %.*s\n", STR_ARG(r->method), STR_ARG(r->path),
             STR_ARG(r->query), (int)(b.n < 40 ? b.n : 40), b.n ? b.p : "");
    if (str_is(r->path, "/later")) {
        w->pending = r;
    } else if (str_is(r->path, "/stream")) {
        w->stream = http_stream_begin(r, 200, "text/event-stream", on_stream_gone, w);
    } else if (str_is(r->path, "/big")) {
        http_reply(r, 200, "text/plain", w->big);
    } else if (str_is(r->path, "/bigbuf")) {
        struct buf b2;
        buf_init(&b2, LIMIT_HTTP_REPLY);
        buf_str(&b2, w->big);
        http_reply_buf(r, 200, "text/plain", &b2);
        buf_done(&b2);
    } else if (str_is(r->path, "/size")) {
        http_reply(r, 200, NULL, str_of(arena_printf(r->arena, "%zu", r->body.n)));
    } else if (str_is(r->path, "/query")) {
        struct str q = http_query(r, "a b");
        http_reply(r, q.p ? 200 : 404, NULL, q);
    } else if (str_is(r->path, "/headers")) {
        const struct pair h[] = { { STR("X-One"), STR("1\r\nX-Evil: 2") }, { STR("Content-Length"), STR("99") } };
        http_reply_headers(r, 201, h, 2, http_header(r, "x-in"));
    } else if (str_is(r->path, "/none")) {
        http_reply(r, 204, NULL, STR("ignored"));
    } else {
        http_reply(r, 200, "text/plain", r->body.n ? r->body : STR("hi"));
    }
}

static inline bool host_ok(void *arg, struct str host)
{
    (void)arg;
    return !str_is(host, "evil.example");
}

static inline void client_read(struct world *w)
{
    while (w->fd >= 0 && !w->got_eof && !w->no_read) {
        char *to = buf_room(&w->got, 65536);
        ssize_t n = recv(w->fd, to, 65536, MSG_DONTWAIT);
        if (n > 0)
            buf_grew(&w->got, (size_t)n);
        else if (n == 0 || errno != EAGAIN)
            w->got_eof = true;
        else
            break;
    }
}

static inline void on_each_turn(void *arg)
{
    struct world *w = arg;

    client_read(w);
    bool late = now_ms() > w->end_ms;
    if (late) {
        test_failures++;
        printf("timed out in step %d; got \"%.*s\"\n", w->step, (int)(w->got.n < 2000 ? w->got.n : 2000),
               w->got.n ? w->got.p : "");
    }
    if (late || w->on_turn(w))
        loop_stop(w->loop);
}

static inline void on_pulse(void *arg)
{
    struct world *w = arg;
    loop_timer_set(w->pulse, 1);
}

static inline void world_init(struct world *w, bool tcp)
{
    *w = (struct world){ .loop = loop_new(), .listen_fd = -1 };
    int pair[2] = { -1, -1 };
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof a;

    if (tcp) {
        w->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        EXPECT_INT(bind(w->listen_fd, (struct sockaddr *)&a, len), 0);
        EXPECT_INT(listen(w->listen_fd, 16), 0);
        (void)getsockname(w->listen_fd, (struct sockaddr *)&a, &len);
    }
    struct http_opts o = { .listen_fd = w->listen_fd, .handler = handle, .arg = w, .host_ok = host_ok };
    struct err e;
    w->server = http_server_new(w->loop, &o, &e);
    if (tcp) {
        w->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        EXPECT_INT(connect(w->fd, (struct sockaddr *)&a, len), 0);
    } else {
        EXPECT_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
        w->fd = pair[0];
        EXPECT_INT(http_server_adopt(w->server, pair[1]), 0);
    }
    buf_init(&w->got, 512 * MiB);
    w->pulse = loop_timer_new(w->loop, on_pulse, w);
    loop_timer_set(w->pulse, 1);
    loop_each_turn(w->loop, on_each_turn, w);
}

static inline void world_run(struct world *w, bool (*on_turn)(struct world *w))
{
    w->on_turn = on_turn;
    w->end_ms = now_ms() + 10000;
    (void)loop_run(w->loop);
}

static inline void world_done(struct world *w)
{
    http_server_free(w->server);
    loop_timer_free(w->pulse);
    loop_free(w->loop);
    if (w->fd >= 0)
        close(w->fd);
    if (w->listen_fd >= 0)
        close(w->listen_fd);
    buf_done(&w->got);
}

static inline void put(struct world *w, struct str s)
{
    ssize_t n = send(w->fd, s.p, s.n, MSG_NOSIGNAL | MSG_DONTWAIT);
    EXPECT_INT(n, s.n);
}
static inline void puts_(struct world *w, const char *z)
{
    put(w, str_of(z));
}

static inline bool has(const struct world *w, const char *z)
{
    return w->got.n && memmem(w->got.p, w->got.n, z, strlen(z));
}

static inline int count(const struct world *w, const char *z)
{
    int n = 0;
    size_t len = strlen(z);
    const char *p = w->got.p, *end = p + w->got.n;

    while (p && (p = memmem(p, (size_t)(end - p), z, len)) != NULL) {
        n++;
        p += len;
    }
    return n;
}

static inline bool answer_pending(struct world *w)
{
    if (!w->pending)
        return false;
    struct http_request *r = TAKE_PTR(w->pending);
    int calls = w->calls;
    http_reply(r, 202, NULL, STR("later"));
    EXPECT_INT(w->calls, calls); /* the next handler is not called from inside http_reply */
    return true;
}

#define H "Host: a\r\n"

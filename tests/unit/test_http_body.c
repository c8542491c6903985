#include "http_world.h"

/* A handler of streaming bodies: takes at most `bite` bytes at a time, and stops after each if it is told to. */
struct eater {
    struct world *world;
    struct http_request *request;
    struct http_body *body;
    size_t bite;
    bool pausing;
    uint64_t total;
    unsigned sum;
    int lasts, fails;
};
static struct eater eater;

static size_t eat(void *arg, struct str data, bool last)
{
    struct eater *x = arg;
    size_t n = data.n < x->bite ? data.n : x->bite;

    for (size_t i = 0; i < n; i++)
        x->sum = x->sum * 31 + (unsigned char)data.p[i];
    x->total += n;
    if (last && n == data.n) {
        x->lasts++;
        http_reply(TAKE_PTR(x->request), 200, NULL,
                   str_of(arena_printf(x->request->arena, "%llu:%u", (unsigned long long)x->total, x->sum)));
        return n;
    }
    if (x->pausing)
        http_body_pause(x->body);
    return n;
}
static void on_fail(void *arg)
{
    struct eater *x = arg;
    x->fails++;
    http_reply(TAKE_PTR(x->request), 400, NULL, STR("cut"));
}
static const struct http_body_handler eater_handler = { .take = eat, .failed = on_fail };

static void handle_body(void *arg, struct http_request *r)
{
    struct world *w = arg;

    if (!r->streaming) {
        handle(arg, r);
        return;
    }
    w->calls++;
    if (str_is(r->path, "/up/refused")) {
        http_reply(r, 403, NULL, STR("no"));
        return;
    }
    eater.request = r;
    eater.total = 0;
    eater.sum = 0;
    eater.body = http_body_begin(r, &eater_handler, &eater);
}

static bool wants(void *arg, struct http_request *r)
{
    (void)arg;
    return r->path.n >= 3 && memcmp(r->path.p, "/up", 3) == 0;
}

static void body_world(struct world *w, size_t bite, bool pausing)
{
    world_init(w, false);
    w->server->opts.handler = handle_body;
    w->server->opts.wants_stream = wants;
    eater = (struct eater){ .world = w, .bite = bite, .pausing = pausing };
}

static unsigned sum_of(const char *p, size_t n)
{
    unsigned sum = 0;
    for (size_t i = 0; i < n; i++)
        sum = sum * 31 + (unsigned char)p[i];
    return sum;
}

static bool small_ones(struct world *w)
{
    if (eater.body && eater.body->paused)
        http_body_resume(eater.body);
    if (w->step == 0) { /* three requests at once: by length, in chunks, and one that is no stream */
        puts_(w, "POST /up HTTP/1.1\r\n" H "Content-Length: 10\r\n\r\n0123456789"
                 "POST /up HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n4\r\nabcd\r\n3;x=y\r\nefg\r\n0\r\n\r\n"
                 "POST /x HTTP/1.1\r\n" H "Content-Length: 3\r\n\r\nend");
        w->step++;
    }
    return has(w, "end");
}

TEST(http_body_streams_are_pipelined_like_others)
{
    for (int i = 0; i < 4; i++) {
        struct world w;
        char want[64];

        body_world(&w, i & 1 ? 3 : 1000, i & 2);
        world_run(&w, small_ones);
        EXPECT_INT(w.calls, 3);
        EXPECT_INT(eater.lasts, 2);
        snprintf(want, sizeof want, "10:%u", sum_of("0123456789", 10));
        EXPECT_INT(has(&w, want), 1);
        snprintf(want, sizeof want, "7:%u", sum_of("abcdefg", 7));
        EXPECT_INT(has(&w, want), 1);
        world_done(&w);
    }
}

enum { BIG = 5 * 1024 * 1024 };

static bool big_one(struct world *w)
{
    static char chunk[40000];

    if (w->step == 0) {
        memset(chunk, 'x', sizeof chunk);
        puts_(w, "POST /up HTTP/1.1\r\n" H "Content-Length: 5242880\r\n\r\n");
        w->step++;
    }
    while (w->step > 0 && w->step <= BIG) {
        size_t n = (size_t)(BIG - (w->step - 1)) < sizeof chunk ? (size_t)(BIG - (w->step - 1)) : sizeof chunk;
        if (n == 0)
            break;
        ssize_t sent_n = send(w->fd, chunk, n, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent_n <= 0)
            break;
        w->step += (int)sent_n;
    }
    if (eater.body && eater.request && eater.body->buf.n > HTTP_BODY_ROOM + 64 * 1024) {
        EXPECT_INT(eater.body->buf.n, 0); /* too much is kept */
        return true;
    }
    if (eater.body && eater.body->paused)
        http_body_resume(eater.body);
    return has(w, "5242880:");
}

TEST(http_body_stops_a_client_that_is_too_fast)
{
    struct world w;

    body_world(&w, 60000, true);
    world_run(&w, big_one);
    EXPECT_INT(eater.lasts, 1);
    world_done(&w);
}

static bool cut_off(struct world *w)
{
    if (w->step == 0) {
        puts_(w, "POST /up HTTP/1.1\r\n" H "Content-Length: 10\r\n\r\n012");
        w->step++;
    } else if (w->step == 1 && eater.total == 3) {
        shutdown(w->fd, SHUT_WR);
        w->step++;
    }
    return w->got_eof;
}

TEST(http_body_that_ends_too_early_is_told)
{
    struct world w;

    body_world(&w, 1000, false);
    world_run(&w, cut_off);
    EXPECT_INT(eater.fails, 1);
    EXPECT_INT(eater.lasts, 0);
    EXPECT_INT(has(&w, "HTTP/1.1 400"), 1);
    world_done(&w);
}

static bool bad_chunks(struct world *w)
{
    if (w->step == 0) {
        puts_(w, "POST /up HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n4\r\nabcd\r\n");
        w->step++;
    } else if (w->step == 1 && eater.total == 4) {
        puts_(w, "zz\r\n");
        w->step++;
    }
    return has(w, "cut");
}

TEST(http_body_with_malformed_chunks_is_told)
{
    struct world w;

    body_world(&w, 1000, false);
    world_run(&w, bad_chunks);
    EXPECT_INT(eater.fails, 1);
    world_done(&w);
}

static bool unread(struct world *w)
{
    if (w->step == 0) {
        puts_(w, "POST /up/refused HTTP/1.1\r\n" H "Content-Length: 100\r\n\r\nabc");
        w->step++;
    }
    return w->got_eof;
}

TEST(http_body_that_nobody_reads_ends_the_connection)
{
    struct world w;

    body_world(&w, 1000, false);
    world_run(&w, unread);
    EXPECT_INT(has(&w, "HTTP/1.1 403"), 1);
    EXPECT_INT(has(&w, "Connection: close"), 1);
    world_done(&w);
}

static bool expects(struct world *w)
{
    if (w->step == 0) {
        puts_(w, "POST /up HTTP/1.1\r\n" H "Content-Length: 3\r\nExpect: 100-continue\r\n\r\n");
        w->step++;
    } else if (w->step == 1 && has(w, "100 Continue")) {
        puts_(w, "abc");
        w->step++;
    }
    return has(w, "3:");
}

TEST(http_body_is_asked_for_when_the_client_waits)
{
    struct world w;

    body_world(&w, 1000, false);
    world_run(&w, expects);
    EXPECT_INT(eater.lasts, 1);
    world_done(&w);
}

/* --- streams of known length --- */

static int drains;
static void on_drain(void *arg)
{
    (void)arg;
    drains++;
}

static bool fixed(struct world *w)
{
    static char big[3 * 1024 * 1024];

    if (w->step == 0) {
        puts_(w, "GET /later HTTP/1.1\r\n" H "\r\nGET /x HTTP/1.1\r\n" H "\r\n");
        w->step++;
    } else if (w->step == 1 && w->pending) {
        w->no_read = true;
        memset(big, 'y', sizeof big);
        struct http_stream_opts o = { .status = 206,
                                      .content_type = "text/plain",
                                      .length = sizeof big + 2,
                                      .drained = on_drain,
                                      .closed = on_stream_gone,
                                      .arg = w };
        w->stream = http_stream_open(TAKE_PTR(w->pending), &o);
        EXPECT_INT(http_stream_write(w->stream, (struct str){ big, sizeof big }), 1);
        EXPECT_INT(http_stream_waiting(w->stream) > 0, 1);
        w->no_read = false;
        w->step++;
    } else if (w->step == 2 && drains) {
        EXPECT_INT(http_stream_waiting(w->stream), 0);
        http_stream_write(w->stream, STR("zzzz")); /* two of them are too many */
        http_stream_end(TAKE_PTR(w->stream));
        w->step++;
    }
    return w->step == 3 && has(w, "yzzHTTP/1.1 200 OK");
}

TEST(http_stream_of_known_length_drains_and_goes_on)
{
    struct world w;

    drains = 0;
    world_init(&w, false);
    world_run(&w, fixed);
    EXPECT_INT(has(&w, "Content-Length: 3145730"), 1);
    world_done(&w);
}

static bool short_one(struct world *w)
{
    if (w->step == 0) {
        puts_(w, "GET /later HTTP/1.1\r\n" H "\r\n");
        w->step++;
    } else if (w->step == 1 && w->pending) {
        struct http_stream_opts o = { .status = 200, .length = 10, .closed = on_stream_gone, .arg = w };
        w->stream = http_stream_open(TAKE_PTR(w->pending), &o);
        http_stream_write(w->stream, STR("abc"));
        http_stream_end(TAKE_PTR(w->stream));
        w->step++;
    }
    return w->got_eof;
}

TEST(http_stream_shorter_than_announced_is_cut_off)
{
    struct world w;

    world_init(&w, false);
    world_run(&w, short_one);
    EXPECT_INT(has(&w, "abc"), 1);
    world_done(&w);
}

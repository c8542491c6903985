/* HTTP: requests, whole and in pieces, what is refused, bodies. */
#include "http_world.h"

/* ---- plain requests ---- */

static bool turn_simple(struct world *w)
{
    if (w->step == 0) {
        puts_(w, "POST /echo?x=1 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello");
        w->step = 1;
    }
    return has(w, "hello");
}
TEST(http_simple)
{
    for (int tcp = 0; tcp < 2; tcp++) {
        struct world w;
        world_init(&w, tcp);
        world_run(&w, turn_simple);
        EXPECT_STR(buf_view(&w.got), "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello");
        EXPECT_STR(str_of(w.seen), "POST /echo [x=1] hello\n");
        EXPECT_INT(http_server_busy(w.server), 0);
        world_done(&w);
    }
}

static const char pipeline[] = "\r\nGET /1 HTTP/1.1\r\nHost: a\r\n\r\n"
                               "POST /2 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"
                               "POST /3 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                               "4\r\nWiki\r\n005;ext=\"v\"\r\npedia\r\n0\r\nTrailer: x\r\n\r\n"
                               "HEAD /4 HTTP/1.1\r\nHost: a\r\n\r\n"
                               "GET /later HTTP/1.1\r\nHost: a\r\n\r\n"
                               "GET /6 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
static const char pipeline_seen[] = "GET /1 [] \nPOST /2 [] abc\nPOST /3 [] Wikipedia\nHEAD /4 [] \nGET /later [] \n"
                                    "GET /6 [] \n";
static const char pipeline_got[] =
    "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nhi"
    "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 3\r\n\r\nabc"
    "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 9\r\n\r\nWikipedia"
    "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\n"
    "HTTP/1.1 202 Accepted\r\nContent-Length: 5\r\n\r\nlater"
    "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi";

static bool turn_pipeline(struct world *w)
{
    if (w->step++ == 0)
        put(w, STR(pipeline));
    else
        answer_pending(w);
    return w->got_eof;
}
static bool turn_bytes(struct world *w)
{
    if (w->step < (int)sizeof pipeline - 1)
        put(w, (struct str){ pipeline + w->step++, 1 });
    answer_pending(w);
    loop_timer_set(w->pulse, 0);
    return w->got_eof;
}
TEST(http_pipelining)
{
    for (int i = 0; i < 4; i++) {
        struct world w;
        world_init(&w, i & 1);
        world_run(&w, i & 2 ? turn_bytes : turn_pipeline);
        EXPECT_STR(str_of(w.seen), pipeline_seen);
        EXPECT_STR(buf_view(&w.got), pipeline_got);
        EXPECT_INT(w.server->open, 0);
        world_done(&w);
    }
}

/* Every way to cut the pipeline in two. */
static int cut;
static bool turn_cut(struct world *w)
{
    if (w->step == 0)
        put(w, (struct str){ pipeline, (size_t)cut });
    if (w->step++ == 1)
        put(w, (struct str){ pipeline + cut, sizeof pipeline - 1 - (size_t)cut });
    answer_pending(w);
    loop_timer_set(w->pulse, 0);
    return w->got_eof;
}
TEST(http_two_pieces)
{
    for (cut = 1; cut < (int)sizeof pipeline - 1; cut++) {
        struct world w;
        world_init(&w, false);
        world_run(&w, turn_cut);
        EXPECT_STR(str_of(w.seen), pipeline_seen);
        EXPECT_STR(buf_view(&w.got), pipeline_got);
        world_done(&w);
    }
}

/* ---- tables: one request, its status ---- */

static struct str table_in;
static bool turn_table(struct world *w)
{
    if (w->step++ == 0) {
        put(w, table_in);
        shutdown(w->fd, SHUT_WR);
    }
    return w->got_eof;
}
static int status_of(struct str in, struct world *w)
{
    table_in = in;
    world_init(w, false);
    world_run(w, turn_table);
    return w->got.n > 12 ? atoi(w->got.p + 9) : 0;
}

static const struct {
    int status;
    struct str in;
} table[] = {
    { 200, STR("GET / HTTP/1.1\r\n" H "\r\n") },
    { 200, STR("GET / HTTP/1.0\r\n\r\n") },
    { 200, STR("GET http://a/x?y HTTP/1.1\r\n" H "\r\n") },
    { 200, STR("GET http://A HTTP/1.1\r\n" H "\r\n") },
    { 200, STR("OPTIONS * HTTP/1.1\r\n" H "\r\n") },
    { 200, STR("GET / HTTP/1.1\r\nhost:\ta \t\r\n\r\n") },
    { 200, STR("POST / HTTP/1.1\r\n" H "Transfer-Encoding: Chunked\r\n\r\n0\r\n\r\n") },
    { 200, STR("POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nA: b\r\nC: d\r\n\r\n") },
    { 200, STR("GET /%41%2f?%41+b HTTP/1.1\r\n" H "\r\n") },
    { 200, STR("GET /a/http://b/c HTTP/1.1\r\n" H "\r\n") },
    { 200, STR("GET /a/http%3A%2F%2Fb HTTP/1.1\r\n" H "\r\n") },
    { 200, STR("GET /ws HTTP/1.1\r\n" H "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n") },
    { 200, STR("POST /ws HTTP/1.1\r\n" H "Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 1\r\n\r\nx") },
    /* lengths */
    { 400, STR("POST / HTTP/1.1\r\n" H "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n") },
    { 400, STR("POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n") },
    { 400, STR("POST / HTTP/1.1\r\n" H "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd") },
    { 400, STR("POST / HTTP/1.1\r\n" H "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc") },
    { 400, STR("POST / HTTP/1.1\r\n" H "Content-Length: 3, 3\r\n\r\nabc") },
    { 400, STR("POST / HTTP/1.1\r\n" H "Content-Length: +3\r\n\r\nabc") },
    { 400, STR("POST / HTTP/1.1\r\n" H "Content-Length: -1\r\n\r\nabc") },
    { 400, STR("POST / HTTP/1.1\r\n" H "Content-Length: 0x3\r\n\r\nabc") },
    { 400, STR("POST / HTTP/1.1\r\n" H "Content-Length: 3 4\r\n\r\nabc") },
    { 400, STR("POST / HTTP/1.1\r\n" H "Content-Length:\r\n\r\n") },
    { 400, STR("POST / HTTP/1.1\r\n" H "Content-Length: 99999999999999999999999\r\n\r\n") },
    { 413, STR("POST / HTTP/1.1\r\n" H "Content-Length: 67108865\r\n\r\n") },
    { 413, STR("POST / HTTP/1.1\r\n" H "Content-Length: 67108865\r\nExpect: 100-continue\r\n\r\n") },
    { 413, STR("POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n4000001\r\n") },
    { 413, STR("POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n4000000\r\n") },
    { 413, STR("POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n") },
    /* transfer encodings */
    { 400, STR("POST / HTTP/1.1\r\n" H "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n") },
    { 400, STR("POST / HTTP/1.1\r\n" H "Transfer-Encoding: identity\r\n\r\n") },
    { 400, STR("POST / HTTP/1.1\r\n" H "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n") },
    { 400, STR("POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n") },
    { 400, STR("POST / HTTP/1.1\r\n" H "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n") },
    { 400, STR("POST / HTTP/1.1\r\n" H "Transfer-Encoding:\x0b"
               "chunked\r\n\r\n0\r\n\r\n") },
    { 400, STR("POST / HTTP/1.0\r\n" H "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n") },
    /* chunks */
    { 400, STR("POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n3\r\nabcXX0\r\n\r\n") },
    { 400, STR("POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n3\nabc\r\n0\r\n\r\n") },
    { 400, STR("POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n3;a\nb\r\nabc\r\n0\r\n\r\n") },
    { 400, STR("POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n3\rXabc\r\n0\r\n\r\n") },
    { 400, STR("POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n-3\r\nabc\r\n0\r\n\r\n") },
    { 400, STR("POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n0x3\r\nabc\r\n0\r\n\r\n") },
    { 400, STR("POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n3 \r\nabc\r\n0\r\n\r\n") },
    { 400, STR("POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n\r\nabc\r\n0\r\n\r\n") },
    { 400, STR("POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n0\r\nA: b\n\r\n") },
    { 400, STR("POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n00000000000000000000001\r\na") },
    /* lines */
    { 400, STR("GET / HTTP/1.1\n" H "\r\n") },
    { 400, STR("GET / HTTP/1.1\r\nHost: a\n\r\n") },
    { 400, STR("GET / HTTP/1.1\r\n" H "\n") },
    { 400, STR("GET / HTTP/1.1\r\n" H "A: b\rC: d\r\n\r\n") },
    { 400, STR("GET / HTTP/1.1\r\n" H "A: b\r\n c\r\n\r\n") },
    { 400, STR("GET / HTTP/1.1\r\n" H "A: b\r\n\tc\r\n\r\n") },
    { 400, STR("GET / HTTP/1.1\r\n A: b\r\n" H "\r\n") },
    { 400, STR("GET / HTTP/1.1\r\n" H "A : b\r\n\r\n") },
    { 400, STR("GET / HTTP/1.1\r\n" H "A b: c\r\n\r\n") },
    { 400, STR("GET / HTTP/1.1\r\n" H ": b\r\n\r\n") },
    { 400, STR("GET / HTTP/1.1\r\n" H "nonsense\r\n\r\n") },
    { 400, STR("GET / HTTP/1.1\r\n" H "A: b\0c\r\n\r\n") },
    { 400, STR("GET / HTTP/1.1\r\n" H "A\0: b\r\n\r\n") },
    { 400, STR("GET / HTTP/1.1\r\n" H "\xc3\xa4: b\r\n\r\n") },
    { 400, STR("GET  / HTTP/1.1\r\n" H "\r\n") },
    { 400, STR("GET /\tx HTTP/1.1\r\n" H "\r\n") },
    { 400, STR("GET / x HTTP/1.1\r\n" H "\r\n") },
    { 400, STR("GET /  HTTP/1.1\r\n" H "\r\n") },
    { 505, STR("GET / HTTP/1.1 \r\n" H "\r\n") },
    { 400, STR("GET /\r\n" H "\r\n") },
    { 400, STR("get / HTTP/1.1\r\n" H "\r\n") },
    { 400, STR("BLUB / HTTP/1.1\r\n" H "\r\n") },
    { 400, STR("\x16\x03\x01\x02") },
    { 400, STR("\nGET / HTTP/1.1\r\n" H "\r\n") },
    { 505, STR("GET / HTTP/2.0\r\n" H "\r\n") },
    { 505, STR("GET / HTTP/0.9\r\n" H "\r\n") },
    { 405, STR("CONNECT a:80 HTTP/1.1\r\n" H "\r\n") },
    { 417, STR("GET / HTTP/1.1\r\n" H "Expect: tea\r\n\r\n") },
    /* hosts */
    { 400, STR("GET / HTTP/1.1\r\n\r\n") },
    { 400, STR("GET / HTTP/1.1\r\n" H H "\r\n") },
    { 400, STR("GET / HTTP/1.1\r\nHost: a, b\r\n\r\n") },
    { 400, STR("GET / HTTP/1.1\r\nHost: a/b\r\n\r\n") },
    { 400, STR("GET http://b/ HTTP/1.1\r\n" H "\r\n") },
    { 400, STR("GET http://a@b/ HTTP/1.1\r\n" H "\r\n") },
    { 421, STR("GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n") },
    /* paths */
    { 400, STR("GET /a%00b HTTP/1.1\r\n" H "\r\n") },
    { 400, STR("GET /a%zz HTTP/1.1\r\n" H "\r\n") },
    { 400, STR("GET /a%4 HTTP/1.1\r\n" H "\r\n") },
    { 400, STR("GET /a% HTTP/1.1\r\n" H "\r\n") },
    { 400, STR("GET /a/../b HTTP/1.1\r\n" H "\r\n") },
    { 400, STR("GET /a/%2e%2E/b HTTP/1.1\r\n" H "\r\n") },
    { 400, STR("GET //a HTTP/1.1\r\n" H "\r\n") },
    { 400, STR("GET /a/.. HTTP/1.1\r\n" H "\r\n") },
    { 400, STR("GET /.. HTTP/1.1\r\n" H "\r\n") },
    { 400, STR("GET /a#b HTTP/1.1\r\n" H "\r\n") },
    { 400, STR("GET /?a=%g HTTP/1.1\r\n" H "\r\n") },
    { 400, STR("GET * HTTP/1.1\r\n" H "\r\n") },
    { 400, STR("GET a HTTP/1.1\r\n" H "\r\n") },
};

TEST(http_refusals)
{
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        struct world w;
        int status = status_of(table[i].in, &w);
        if (status != table[i].status) {
            printf("%.*s\ngot: %.*s\n", STR_ARG(table[i].in), STR_ARG(buf_view(&w.got)));
            EXPECT_INT(status, table[i].status);
        }
        EXPECT_INT(w.calls, status == 200);
        EXPECT_INT(count(&w, "Content-Length: "), 1); /* nothing after a refusal is taken for a request */
        EXPECT_INT(has(&w, "{\"error\":{\"code\":\""), status != 200);
        world_done(&w);
    }
}

TEST(http_limit_texts)
{
    struct world w;
    EXPECT_INT(status_of(STR("POST / HTTP/1.1\r\n" H "Content-Length: 67108865\r\n\r\n"), &w), 413);
    EXPECT_TRUE(has(&w, "{\"error\":{\"code\":\"limit\",\"message\":\"the body is larger than LIMIT_HTTP_BODY "
                        "(67108864 bytes)\"}}"));
    EXPECT_TRUE(has(&w, "Connection: close\r\n"));
    world_done(&w);

    struct buf b;
    buf_init(&b, 1 * MiB);
    buf_z(&b, "GET / HTTP/1.1\r\n" H);
    for (int i = 0; i < LIMIT_HTTP_HEADERS; i++)
        buf_printf(&b, "a%d: b\r\n", i);
    buf_z(&b, "\r\n");
    EXPECT_INT(status_of(buf_view(&b), &w), 431);
    EXPECT_TRUE(has(&w, "LIMIT_HTTP_HEADERS (128)"));
    world_done(&w);

    for (int over = 0; over < 2; over++) {
        buf_reset(&b);
        buf_z(&b, "GET / HTTP/1.1\r\n" H "a: ");
        while (b.n < (size_t)LIMIT_HTTP_HEAD - 4 + (size_t)over)
            buf_char(&b, 'x');
        buf_z(&b, "\r\n\r\n");
        EXPECT_INT(status_of(buf_view(&b), &w), over ? 431 : 200);
        EXPECT_INT(has(&w, "LIMIT_HTTP_HEAD (65536 bytes)"), over);
        world_done(&w);
    }
    buf_done(&b);
}

TEST(http_details)
{
    struct world w;
    EXPECT_INT(status_of(STR("GET /query?x&a+b=%c3%a4+%2B&y=1 HTTP/1.1\r\n" H "\r\n"), &w), 200);
    EXPECT_TRUE(has(&w, "\r\n\r\n\xc3\xa4 +"));
    world_done(&w);
    EXPECT_INT(status_of(STR("GET /query?x HTTP/1.1\r\n" H "\r\n"), &w), 404);
    world_done(&w);
    EXPECT_INT(status_of(STR("GET /a%20b%41 HTTP/1.1\r\n" H "\r\n"), &w), 200);
    EXPECT_STR(str_of(w.seen), "GET /a bA [] \n");
    world_done(&w);
    EXPECT_INT(status_of(STR("GET /headers HTTP/1.1\r\n" H "X-IN:  v w  \r\n\r\n"), &w), 201);
    EXPECT_STR(buf_view(&w.got), "HTTP/1.1 201 Created\r\nX-One: 1  X-Evil: 2\r\nContent-Length: 3\r\n\r\nv w");
    world_done(&w);
    EXPECT_INT(status_of(STR("GET /none HTTP/1.1\r\n" H "\r\n"), &w), 204);
    EXPECT_STR(buf_view(&w.got), "HTTP/1.1 204 No Content\r\n\r\n");
    world_done(&w);
    EXPECT_INT(status_of(STR("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET / HTTP/1.0\r\n\r\n"), &w), 200);
    EXPECT_INT(count(&w, "Connection: keep-alive\r\n"), 1);
    EXPECT_INT(count(&w, "Connection: close\r\n"), 1);
    world_done(&w);
    /* A half-closed client is answered; a request cut off is not carried out. */
    EXPECT_INT(status_of(STR("GET /1 HTTP/1.1\r\n" H "\r\nPOST /2 HTTP/1.1\r\n" H "Content-Length: 9\r\n\r\nabc"), &w),
               200);
    EXPECT_STR(str_of(w.seen), "GET /1 [] \n");
    world_done(&w);
}

/* ---- bodies ---- */

static bool turn_continue(struct world *w)
{
    switch (w->step) {
    case 0:
        puts_(w, "POST / HTTP/1.1\r\n" H "Expect: 100-continue\r\nContent-Length: 5\r\n\r\n");
        w->step = 1;
        return false;
    case 1:
        if (!has(w, "HTTP/1.1 100 Continue\r\n\r\n"))
            return false;
        EXPECT_INT(w->calls, 0);
        puts_(w, "hello");
        w->step = 2;
        return false;
    case 2:
        if (!has(w, "hello"))
            return false; /* now with the body at once: 100 is not needed */
        puts_(w, "POST / HTTP/1.1\r\n" H "Expect: 100-continue\r\nContent-Length: 5\r\n\r\nthere");
        w->step = 3;
        return false;
    default: return has(w, "there");
    }
}
TEST(http_continue)
{
    struct world w;
    world_init(&w, true);
    world_run(&w, turn_continue);
    EXPECT_INT(count(&w, "100 Continue"), 1);
    EXPECT_INT(w.calls, 2);
    world_done(&w);
}

/* Sends w->big from step on, as much as the socket takes. True: all was sent. */
static bool pour(struct world *w)
{
    while ((size_t)w->step < w->big.n) {
        ssize_t n = send(w->fd, w->big.p + w->step, w->big.n - (size_t)w->step, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n <= 0)
            return false;
        w->step += (int)n;
    }
    return true;
}
static bool turn_pour(struct world *w)
{
    pour(w);
    loop_timer_set(w->pulse, 0);
    return has(w, "\r\n\r\n") && (has(w, "413") ? w->got_eof : true);
}
TEST(http_big_bodies)
{
    char *zeros = calloc(1, 70 * MiB);
    for (int i = 0; i < 4; i++) {
        bool chunked = i & 1, over = i & 2;
        size_t n = (size_t)LIMIT_HTTP_BODY + over;
        struct buf b;
        buf_init(&b, 80 * MiB);
        if (chunked) {
            buf_z(&b, "POST /size HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n");
            for (size_t done = 0, part; done < n; done += part) {
                part = n - done < 100000 ? n - done : 100000;
                buf_printf(&b, "%zx\r\n", part);
                buf_add(&b, zeros, part);
                buf_z(&b, "\r\n");
            }
            buf_z(&b, "0\r\n\r\n");
        } else {
            buf_printf(&b, "POST /size HTTP/1.1\r\n" H "Content-Length: %zu\r\n\r\n", n);
            buf_add(&b, zeros, n);
        }
        struct world w;
        world_init(&w, true);
        w.big = buf_view(&b);
        world_run(&w, turn_pour);
        EXPECT_TRUE(has(&w, over ? "413" : "\r\n\r\n67108864")); /* the refusal survives the client's pouring */
        EXPECT_INT(w.calls, !over);
        world_done(&w);
        buf_done(&b);
    }
    free(zeros);
}

static bool turn_big(struct world *w)
{
    if (w->step == 0)
        puts_(w, "GET /big HTTP/1.1\r\n" H "\r\nGET /bigbuf HTTP/1.1\r\n" H "\r\nHEAD /bigbuf HTTP/1.1\r\n" H "\r\n"
                 "GET /end HTTP/1.1\r\n" H "Connection: close\r\n\r\n");
    w->step++;
    w->no_read = w->step < 5; /* the server must wait for the socket */
    if (w->step == 4)
        EXPECT_INT(http_server_busy(w->server), 1);
    loop_timer_set(w->pulse, 0);
    return w->got_eof;
}
TEST(http_big_answers)
{
    for (int tcp = 0; tcp < 2; tcp++) {
        struct world w;
        world_init(&w, tcp);
        struct buf big;
        buf_init(&big, 40 * MiB);
        for (int i = 0; i < 4000000; i++)
            buf_add(&big, &i, sizeof i);
        w.big = buf_view(&big);
        world_run(&w, turn_big);
        EXPECT_INT(count(&w, "Content-Length: 16000000\r\n"), 3);
        EXPECT_INT(w.calls, 4);
        const char *body = w.got.n ? memmem(w.got.p, w.got.n, "\r\n\r\n", 4) : NULL;
        EXPECT_TRUE(body && memcmp(body + 4, big.p, big.n) == 0);
        if (body)
            body = memmem(body + 4 + big.n, w.got.n - big.n - 100, "\r\n\r\n", 4);
        EXPECT_TRUE(body && memcmp(body + 4, big.p, big.n) == 0);
        world_done(&w);
        buf_done(&big);
    }
}

TEST(http_decode)
{
    static const struct {
        const char *raw, *want;
        bool form;
    } cases[] = {
        { "", "", false },         { "abc", "abc", true },      { "a+b", "a+b", false }, { "a+b", "a b", true },
        { "%41%62", "Ab", false }, { "%4", NULL, false },       { "%", NULL, true },     { "%g1", NULL, false },
        { "%1g", NULL, false },    { "100%25", "100%", false },
    };
    struct arena a;
    arena_init(&a);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct str got = { 0 };
        EXPECT_INT(http_decode(&a, str_of(cases[i].raw), cases[i].form, &got), cases[i].want != NULL);
        if (cases[i].want)
            EXPECT_STR(got, cases[i].want);
    }
    arena_done(&a);
}

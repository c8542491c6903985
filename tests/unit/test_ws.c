#include "http_world.h"

#include "http/ws.h"

/* A client's frame: masked with 1 2 3 4. */
static size_t client_frame(char *to, int first, size_t n, const char *data)
{
    size_t at = 0;

    to[at++] = (char)first;
    if (n < 126) {
        to[at++] = (char)(0x80 | n);
    } else {
        to[at++] = (char)(0x80 | 126);
        to[at++] = (char)(n >> 8);
        to[at++] = (char)n;
    }
    memcpy(to + at, "\1\2\3\4", 4);
    at += 4;
    for (size_t i = 0; i < n; i++)
        to[at++] = (char)(data[i] ^ (int)((i & 3) + 1));
    return at;
}

TEST(ws_frames_are_read_or_refused_by_the_rules)
{
    static const struct {
        const char *what;
        int first;
        const char *data;
        size_t n;
        int want;
    } cases[] = {
        { "text", 0x81, "hello", 5, WS_TEXT },
        { "binary", 0x82, "\xff\0", 2, WS_BINARY },
        { "not UTF-8", 0x81, "\xff", 1, -WS_BAD_TEXT },
        { "surrogate", 0x81, "\xed\xa0\x80", 3, -WS_BAD_TEXT },
        { "reserved bit", 0xc1, "x", 1, -WS_PROTOCOL },
        { "unknown opcode", 0x83, "x", 1, -WS_PROTOCOL },
        { "continues nothing", 0x80, "x", 1, -WS_PROTOCOL },
        { "first fragment", 0x01, "x", 1, WS_FRAGMENT },
        { "ping", 0x89, "x", 1, WS_PING },
        { "fragmented ping", 0x09, "x", 1, -WS_PROTOCOL },
        { "close", 0x88, "\x03\xe8", 2, WS_CLOSE },
        { "close without code", 0x88, "", 0, WS_CLOSE },
        { "half a code", 0x88, "\x03", 1, -WS_PROTOCOL },
        { "code that nobody may send", 0x88, "\x03\xed", 2, -WS_PROTOCOL },
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ws_reader r;
        char frame[256];
        struct str got;
        size_t used = 0;
        size_t n = client_frame(frame, cases[i].first, cases[i].n, cases[i].data);

        ws_reader_init(&r, 1000);
        for (size_t part = 0; part < n && cases[i].want > 0; part++)
            EXPECT_INT(ws_read(&r, frame, part, &got, &used), WS_MORE);
        int kind = ws_read(&r, frame, n, &got, &used);
        if (kind != cases[i].want)
            printf("%s\n", cases[i].what);
        EXPECT_INT(kind, cases[i].want);
        ws_reader_done(&r);
    }
}

TEST(ws_joins_fragments_with_a_ping_between_them)
{
    struct ws_reader r;
    char b[256];
    struct str got;
    size_t used;

    ws_reader_init(&r, 10);
    size_t n = client_frame(b, 0x01, 3, "abc");
    EXPECT_INT(ws_read(&r, b, n, &got, &used), WS_FRAGMENT);
    n = client_frame(b, 0x89, 1, "p");
    EXPECT_INT(ws_read(&r, b, n, &got, &used), WS_PING);
    n = client_frame(b, 0x80, 2, "de");
    EXPECT_INT(ws_read(&r, b, n, &got, &used), WS_TEXT);
    EXPECT_STR(got, "abcde");
    n = client_frame(b, 0x01, 8, "12345678");
    EXPECT_INT(ws_read(&r, b, n, &got, &used), WS_FRAGMENT);
    n = client_frame(b, 0x80, 3, "abc"); /* eleven bytes in all */
    EXPECT_INT(ws_read(&r, b, n, &got, &used), -WS_TOO_BIG);
    ws_reader_done(&r);
}

TEST(ws_refuses_frames_without_a_mask_and_lengths_that_lie)
{
    struct ws_reader r;
    struct str got;
    size_t used;
    char bare[] = "\x81\x01x";
    char wide[] = "\x81\xfe\x00\x05\1\2\3\4xxxxx"; /* 5 bytes need no wide length */
    char huge[] = "\x81\xff\x80\0\0\0\0\0\0\0\1\2\3\4";

    ws_reader_init(&r, 1000);
    EXPECT_INT(ws_read(&r, bare, 3, &got, &used), -WS_PROTOCOL);
    EXPECT_INT(ws_read(&r, wide, 13, &got, &used), -WS_PROTOCOL);
    EXPECT_INT(ws_read(&r, huge, 14, &got, &used), -WS_PROTOCOL);
    ws_reader_done(&r);
}

/* --- a whole connection --- */

struct echo {
    struct world *world;
    struct ws *ws;
    int closed;
};
static struct echo echo;

static void on_message(void *arg, struct str data, bool binary)
{
    struct echo *x = arg;
    (void)(binary ? ws_binary(x->ws, data) : ws_text(x->ws, data));
}
static void on_ws_closed(void *arg)
{
    struct echo *x = arg;
    x->closed++;
    x->ws = NULL;
}
static const struct ws_handler echo_handler = { .message = on_message, .closed = on_ws_closed };

#define UPGRADE                                                                                                        \
    "GET /later HTTP/1.1\r\n" H "Connection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\nSec-WebSocket-Version: "     \
    "13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"

static bool talk(struct world *w)
{
    char b[70000];

    if (w->step == 0) {
        puts_(w, UPGRADE);
        put(w, (struct str){ b, client_frame(b, 0x81, 5, "early") }); /* right behind the handshake */
        w->step++;
    } else if (w->step == 1 && w->pending) {
        echo.ws = ws_accept(TAKE_PTR(w->pending), NULL, &echo_handler, &echo);
        w->step++;
    } else if (w->step == 2 && has(w, "early")) {
        EXPECT_INT(has(w, "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), 1);
        EXPECT_INT(has(w, "HTTP/1.1 101"), 1);
        put(w, (struct str){ b, client_frame(b, 0x89, 4, "ping") });
        w->step++;
    } else if (w->step == 3 && has(w, "\x8a\x04ping")) {
        put(w, (struct str){ b, client_frame(b, 0x88, 2, "\x03\xe8") });
        w->step++;
    } else if (w->step == 4 && w->got_eof) {
        EXPECT_INT(has(w, "\x88\x02\x03\xe8"), 1);
        EXPECT_INT(echo.closed, 1);
        return true;
    }
    return false;
}

TEST(ws_echoes_pongs_and_closes)
{
    struct world w;

    world_init(&w, false);
    echo = (struct echo){ .world = &w };
    world_run(&w, talk);
    EXPECT_INT(w.step, 4);
    world_done(&w);
}

static bool refused(struct world *w)
{
    if (w->step == 0) {
        puts_(w, "GET /later HTTP/1.1\r\n" H "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 8\r\n"
                 "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n");
        w->step++;
    } else if (w->step == 1 && w->pending) {
        EXPECT_INT(ws_accept(TAKE_PTR(w->pending), NULL, &echo_handler, &echo) == NULL, 1);
        w->step++;
    }
    return w->step == 2 && has(w, "426") && has(w, "Sec-WebSocket-Version: 13");
}

TEST(ws_of_another_version_is_told_which_one)
{
    struct world w;

    world_init(&w, false);
    world_run(&w, refused);
    world_done(&w);
}

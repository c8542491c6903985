/* One WebSocket connection: the handshake, the answers that nobody above needs to know of, and its end.
 *
 *   OPEN --ws_close, a broken rule--> CLOSING (our close was sent) --theirs, or 2 s--> gone
 *   OPEN --theirs--> answered, gone */
#include "http/ws.h"

#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "base/limits.h"

enum { CLOSE_MS = 2000, PING_MS = 30000, FRAME_MAX = LIMIT_WS_MESSAGE + 64 * KiB };

struct ws {
    const struct ws_handler *handler;
    void *arg;
    struct http_stream *out;
    struct http_body *in;
    struct loop_timer *timer; /* pings; after our close, how long theirs may take */
    struct ws_reader reader;
    struct buf frame;
    bool closing, held, silent; /* silent: nothing came since the last ping */
};

/* --- the handshake --- */

static bool has_word(struct str list, const char *word)
{
    size_t want = strlen(word);

    while (list.n) {
        const char *comma = memchr(list.p, ',', list.n);
        struct str w = { list.p, comma ? (size_t)(comma - list.p) : list.n };
        list = (struct str){ w.p + w.n + (comma != NULL), list.n - w.n - (comma != NULL) };
        while (w.n && (*w.p == ' ' || *w.p == '\t'))
            w = (struct str){ w.p + 1, w.n - 1 };
        while (w.n && (w.p[w.n - 1] == ' ' || w.p[w.n - 1] == '\t'))
            w.n--;
        if (w.n == want && strncasecmp(w.p, word, want) == 0)
            return true;
    }
    return false;
}

bool ws_asked(const struct http_request *r)
{
    return has_word(http_header(r, "upgrade"), "websocket") && has_word(http_header(r, "connection"), "upgrade");
}

bool ws_offers(const struct http_request *r, const char *protocol)
{
    return has_word(http_header(r, "sec-websocket-protocol"), protocol);
}

static void base64(const unsigned char *p, size_t n, char *to)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    for (size_t i = 0; i < n; i += 3) {
        unsigned v = (unsigned)p[i] << 16 | (i + 1 < n ? (unsigned)p[i + 1] << 8 : 0) | (i + 2 < n ? p[i + 2] : 0u);
        *to++ = digits[v >> 18];
        *to++ = digits[v >> 12 & 63];
        *to++ = i + 1 < n ? digits[v >> 6 & 63] : '=';
        *to++ = i + 2 < n ? digits[v & 63] : '=';
    }
    *to = 0;
}

static bool key_ok(struct str key)
{
    return key.n == 24 && key.p[22] == '=' && key.p[23] == '=';
}

static void refuse(struct http_request *r, int status, const char *why)
{
    struct pair headers[] = { { STR("Content-Type"), STR("application/json") },
                              { STR("Sec-WebSocket-Version"), STR("13") } };
    const char *text = arena_printf(r->arena, "{\"error\":{\"code\":\"invalid\",\"message\":\"%s\"}}", why);

    http_reply_headers(r, status, headers, 2, str_of(text));
}

/* --- sending --- */

static bool send_frame(struct ws *w, int opcode, struct str data)
{
    buf_reset(&w->frame);
    ws_frame(&w->frame, opcode, data);
    bool ok = http_stream_write(w->out, buf_view(&w->frame));
    if (w->frame.size > 64 * KiB) {
        buf_done(&w->frame);
        buf_init(&w->frame, LIMIT_HTTP_REPLY);
    }
    return ok;
}

bool ws_text(struct ws *w, struct str s)
{
    return !w->closing && send_frame(w, 1, s);
}

bool ws_binary(struct ws *w, struct str s)
{
    return !w->closing && send_frame(w, 2, s);
}

size_t ws_waiting(const struct ws *w)
{
    return http_stream_waiting(w->out);
}

void ws_close(struct ws *w, enum ws_code code, const char *reason)
{
    char text[125] = { (char)(code >> 8), (char)code };

    if (w->closing)
        return;
    int n = snprintf(text + 2, sizeof text - 2, "%s", reason ? reason : "");
    n = n > (int)sizeof text - 3 ? (int)sizeof text - 3 : n;
    (void)send_frame(w, 8, (struct str){ text, (size_t)n + 2 });
    w->closing = true;
    loop_timer_set(w->timer, CLOSE_MS);
}

/* --- the end --- */

static void ws_free(struct ws *w)
{
    loop_timer_free(w->timer);
    ws_reader_done(&w->reader);
    buf_done(&w->frame);
    free(w);
}

static void on_closed(void *arg)
{
    struct ws *w = arg;

    w->handler->closed(w->arg);
    ws_free(w);
}

static void end(struct ws *w)
{
    http_stream_end(w->out);
    on_closed(w);
}

static void on_time_ws(void *arg)
{
    struct ws *w = arg;

    if (w->closing || (w->silent && !w->held)) { /* it did not answer */
        end(w);
        return;
    }
    w->silent = true;
    if (ws_waiting(w) == 0)
        (void)send_frame(w, 9, STR(""));
    loop_timer_set(w->timer, PING_MS);
}

/* --- receiving --- */

/* False: w is gone. */
static bool handle(struct ws *w, int kind, struct str data)
{
    switch (kind) {
    case WS_TEXT:
    case WS_BINARY:
        if (!w->closing)
            w->handler->message(w->arg, data, kind == WS_BINARY);
        return true;
    case WS_PING:
        if (!w->closing)
            (void)send_frame(w, 10, data);
        return true;
    case WS_CLOSE:
        if (!w->closing)
            (void)send_frame(w, 8, data.n > 2 ? (struct str){ data.p, 2 } : data);
        end(w);
        return false;
    default: break;
    }
    if (kind < 0)
        ws_close(w, (enum ws_code) - kind, NULL);
    return true;
}

static size_t on_bytes(void *arg, struct str data, bool last)
{
    struct ws *w = arg;
    size_t used = 0;

    w->silent = false;
    while (!w->held || w->closing) {
        struct str content;
        size_t n = 0;
        int kind = ws_read(&w->reader, (char *)data.p + used, data.n - used, &content, &n);
        if (kind == WS_MORE)
            break;
        used = kind < 0 ? data.n : used + n;
        if (!handle(w, kind, content))
            return data.n;
    }
    if (last) {
        end(w);
        return data.n;
    }
    return used;
}

static const struct http_body_handler body_handler = { .take = on_bytes };

static void on_drained_ws(void *arg)
{
    struct ws *w = arg;

    if (w->handler->drained && !w->closing)
        w->handler->drained(w->arg);
}

void ws_hold(struct ws *w, bool hold)
{
    if (w->held == hold)
        return;
    w->held = hold;
    if (hold)
        http_body_pause(w->in);
    else
        http_body_resume(w->in);
}

struct ws *ws_accept(struct http_request *r, const char *protocol, const struct ws_handler *h, void *arg)
{
    static const char magic[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
    struct str key = http_header(r, "sec-websocket-key");
    unsigned char digest[20];
    char text[64], accept[32];

    if (!ws_asked(r) || !str_is(r->method, "GET") || !key_ok(key)) {
        refuse(r, 400, "this is a WebSocket: GET with Upgrade: websocket and a Sec-WebSocket-Key is needed");
        return NULL;
    }
    if (!str_is(http_header(r, "sec-websocket-version"), "13")) {
        refuse(r, 426, "only version 13 of WebSocket is spoken");
        return NULL;
    }
    memcpy(text, key.p, 24);
    memcpy(text + 24, magic, 36);
    SHA1((const unsigned char *)text, 60, digest);
    base64(digest, 20, accept);
    struct ws *w = calloc(1, sizeof *w);
    if (!w)
        abort();
    *w = (struct ws){ .handler = h, .arg = arg };
    ws_reader_init(&w->reader, LIMIT_WS_MESSAGE);
    buf_init(&w->frame, LIMIT_HTTP_REPLY);
    w->timer = loop_timer_new(http_loop(r), on_time_ws, w);
    loop_timer_set(w->timer, PING_MS);
    struct pair headers[] = { { STR("Upgrade"), STR("websocket") },
                              { STR("Sec-WebSocket-Accept"), str_of(accept) },
                              { STR("Sec-WebSocket-Protocol"), str_of(protocol) } };
    struct http_stream_opts o = { .status = 101,
                                  .headers = headers,
                                  .header_count = protocol ? 3 : 2,
                                  .length = -1,
                                  .drained = on_drained_ws,
                                  .closed = on_closed,
                                  .arg = w };
    w->out = http_upgrade(r, &o, &body_handler, &w->in);
    http_body_room(w->in, FRAME_MAX);
    return w;
}

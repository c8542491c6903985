/* WebSocket (RFC 6455), the server's side: over an upgraded connection, without extensions. Fragments are joined, pings
 * answered, what breaks the rules closed with the code that the RFC has for it. */
#pragma once

#include "http/http.h"

#define LIMIT_WS_MESSAGE (1024 * 1024L) /* that a client may send, all fragments together */

enum ws_code { /* why a connection was closed */
               WS_NORMAL = 1000,
               WS_GOING = 1001,
               WS_PROTOCOL = 1002,
               WS_NO_CODE = 1005,
               WS_BAD_TEXT = 1007,
               WS_POLICY = 1008,
               WS_TOO_BIG = 1009,
               WS_ERROR = 1011,
               WS_TRY_LATER = 1013,
};

struct ws;
struct ws_handler {
    void (*message)(void *arg, struct str data, bool binary); /* text is UTF-8 */
    void (*drained)(void *arg);                               /* nullable: the client has taken all that waited */
    void (*closed)(void *arg); /* by the client, by an error, or after ws_close; ws is gone after it */
};

bool ws_asked(const struct http_request *r); /* does it want to upgrade to a WebSocket? */
/* Answers the request: 101, or 400 / 426 and NULL. protocol: one of those that the client offers, or NULL. */
struct ws *ws_accept(struct http_request *r, const char *protocol, const struct ws_handler *h, void *arg);
bool ws_offers(const struct http_request *r, const char *protocol);
/* False: closed, or the client is too far behind and will be. */
bool ws_text(struct ws *w, struct str s);
bool ws_binary(struct ws *w, struct str s);
size_t ws_waiting(const struct ws *w);
void ws_hold(struct ws *w, bool hold); /* no messages until it is let go: the client has to wait */
/* Says why, waits for the client's answer for a moment, then closed() is called. */
void ws_close(struct ws *w, enum ws_code code, const char *reason);

/* --- frames, for ws.c, its unit tests and its fuzz target --- */

struct ws_reader {
    struct buf message; /* fragments so far */
    int opcode;         /* of the first; 0: none under way */
    size_t max;
};
enum { WS_MORE, WS_FRAGMENT, WS_TEXT, WS_BINARY, WS_CLOSE, WS_PING, WS_PONG };

void ws_reader_init(struct ws_reader *r, size_t max);
void ws_reader_done(struct ws_reader *r);
/* The frame at the front of data, unmasked in place: which kind it completes, its content in *ret (of a message: all of
 * it, until the next call), and its size in *ret_n. MORE: it is not all there. < 0: -(enum ws_code). */
int ws_read(struct ws_reader *r, char *data, size_t n, struct str *ret, size_t *ret_n);
void ws_frame(struct buf *out, int opcode, struct str data); /* opcode as on the wire: 1 text, 2 binary, 8, 9, 10 */
bool ws_is_utf8(struct str s);

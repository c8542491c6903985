/* What the files of this layer share; nobody else includes it (its unit test and fuzz target do).
 *
 * A connection's life:
 *
 *     HEAD --> BODY --> HANDLER --> ANSWER --> HEAD ...    ANSWER --> LINGER --> GONE
 *       \________________/ \------> STREAM --> ANSWER
 *
 * HEAD, BODY: bytes of the next request arrive. HANDLER: the handler holds the request. ANSWER: the rest of an
 * answer waits for the socket. LINGER: answered and shut down; input is thrown away so that the kernel does not
 * answer it with a reset, which could destroy the answer on its way. GONE: the descriptor is closed.
 *
 * Invariants:
 *  1. `in` is neither moved nor compacted in HANDLER, STREAM and ANSWER: the request points into it.
 *  2. A connection is freed only at the end of a turn (server_later), so every callback may touch it until it
 *     returns. Exception: the server is gone; then nothing of it can be on the stack.
 *  3. A GONE connection with `held` waits for the handler's answer, one with stream.open for its `closed` call.
 *  4. The next request is parsed only in HEAD, thus after the current answer was written: answers are in order. */
#pragma once

#include <sys/types.h>

#include "base/limits.h"
#include "http/http.h"

#define LIMIT_HTTP_HEADERS 128       /* fields of one request */
#define LIMIT_HTTP_STREAM  (4 * MiB) /* bytes that wait for one stream's client */
#define LIMIT_HTTP_HEAD_MS 30000     /* from the first byte of a head to its last */

enum {
    TICK_MS = 1000, /* all timeouts are counted in ticks of one timer */
    HEAD_TICKS = LIMIT_HTTP_HEAD_MS / TICK_MS,
    IDLE_TICKS = LIMIT_HTTP_IDLE_MS / TICK_MS,
    BODY_TICKS = 60, /* a body has this, plus one tick for each BODY_TICK_BYTES of it */
    BODY_TICK_BYTES = 1024,
    LINGER_TICKS = 3,
    TRIM_TICKS = 10,       /* an idle connection gives its buffers back */
    KEEP_BYTES = 64 * KiB, /* buffers larger than this are not kept between requests */
};

/* head.c */
struct head_scan {
    size_t at;    /* looked at up to here */
    size_t line;  /* start of the current line */
    size_t lines; /* complete ones */
};
struct head { /* what the server itself needs to know of a head */
    struct str host;
    uint64_t length; /* Content-Length, else 0 */
    bool chunked, keep_alive, http10, expect;
};
/* The head's length with its empty line; 0: not complete; -EBADMSG. Goes on where the last call stopped. */
ssize_t head_scan(struct head_scan *s, const char *p, size_t n, struct err *e);
/* p[0..n) is a complete head with at most `fields` fields. Lower-cases names in place; r points into it. 0, or the
 * status to refuse with. */
int head_parse(char *p, size_t n, size_t fields, struct http_request *r, struct head *h, struct err *e);

/* chunked.c */
struct chunked {
    int state;
    size_t left;  /* of this chunk */
    size_t count; /* digits of the size; bytes of an extension or of the trailers */
};
/* Decodes p[*pos..n) in place to p + *out, *out <= *pos. 1: that was the last chunk; 0: wants more, *pos is n;
 * -EBADMSG: invalid; -EMSGSIZE: more than max bytes. */
int chunked_decode(struct chunked *d, char *p, size_t *pos, size_t n, size_t *out, size_t max);

/* conn.c */
enum conn_state { CONN_HEAD, CONN_BODY, CONN_HANDLER, CONN_STREAM, CONN_ANSWER, CONN_LINGER, CONN_GONE };

struct http_stream {
    struct http_conn *conn;
    on_stream_closed *closed;
    void (*drained)(void *arg);
    void *arg;
    bool raw;      /* after an upgrade: not framed */
    bool fixed;    /* Content-Length was said */
    uint64_t left; /* of it */
    bool open;     /* the caller holds it */
    bool failed;   /* to be closed at the end of the turn */
    bool mute;     /* HEAD: no body */
    bool chunked;  /* else the end of the connection is the end of the stream (HTTP/1.0) */
};

struct http_body { /* of a request that is streaming, or what comes after an upgrade */
    struct http_conn *conn;
    const struct http_body_handler *handler;
    void *arg;
    bool active;              /* this request has one, and the handler may still ask for it */
    bool open;                /* the handler holds it */
    bool raw;                 /* after an upgrade: everything up to the end of file */
    bool ended;               /* its last byte is in buf */
    bool paused, taking, due; /* due: take() is to be called at the end of the turn */
    size_t room;
    uint64_t left;  /* of a known length: not read yet */
    int64_t since;  /* tick of the last byte */
    struct buf buf; /* decoded and not taken; behind the end of a chunked body, the next request */
    size_t ready;   /* decoded bytes in buf */
};

struct http_conn {
    struct http_server *server; /* NULL: freed while a handler held the request */
    struct loop *loop;
    struct http_conn *prev, *next; /* all of the server's connections */
    struct http_conn *next_soon;
    struct loop_fd *watch;
    int fd;
    uint32_t armed; /* what epoll was told; changed only when it differs */
    enum conn_state state;
    int64_t since; /* tick of the last event that the state's timeout counts from */

    bool eof;         /* the client sends no more */
    bool hup;         /* the same, seen while bytes before it were not read yet */
    bool paused;      /* `in` is full and must not move (invariant 1) */
    bool running;     /* conn_run is on the stack; it will go on with the next request */
    bool queued;      /* in server->soon */
    bool held;        /* the handler owes an answer */
    bool counted;     /* in server->busy */
    bool close_after; /* this answer is the last one */
    bool linger;      /* and input may still be on its way */

    struct buf in;
    size_t start;     /* where the current request begins in `in`; the next four count from there */
    size_t head_n;    /* length of its head */
    size_t body_n;    /* of its body, decoded */
    size_t pos;       /* chunked body: decoded up to here */
    size_t request_n; /* all of it, once complete */
    bool waited;      /* `in` may have moved since the head was parsed */
    struct head_scan scan;
    struct head head;
    struct chunked chunked;

    struct buf out; /* head of the answer, and copies of what the socket did not take */
    size_t out_pos;
    struct buf body; /* taken over from the handler; goes after `out` */
    size_t body_pos;

    struct arena arena;
    struct http_request req;
    struct http_stream stream;
    struct http_body upload;
    struct ssl_st *tls; /* OpenSSL's SSL; NULL: plain */
    bool tls_writes;    /* it has to write before it can go on reading */
    char peer[48];
    int64_t peer_uid;
};

/* tls.c */
struct iovec;
void tls_begin(struct http_conn *c, struct http_tls *t);
void tls_end(struct http_conn *c);
void tls_say_goodbye(struct http_conn *c);
bool tls_has_more(const struct http_conn *c);              /* decrypted already: epoll will not tell of it */
ssize_t tls_recv(struct http_conn *c, void *to, size_t n); /* as recv */
ssize_t tls_send(struct http_conn *c, const struct iovec *iov, int parts); /* as sendmsg */

struct http_conn *conn_new(struct http_server *s, int take_fd, const char *peer); /* NULL: out of watches */
void conn_free(struct http_conn *c);
void conn_close(struct http_conn *c); /* now; freed at the end of the turn */
void conn_run(struct http_conn *c);   /* handles the requests that `in` holds */
void conn_later(struct http_conn *c); /* its turn in server->soon */
void conn_tick(struct http_conn *c);  /* timeouts */
void conn_arm(struct http_conn *c);
/* Sends `out`, `body` and then tail; queues what the socket does not take. False: the connection is closed. */
bool conn_send(struct http_conn *c, struct str tail);
bool conn_has_output(const struct http_conn *c);
void conn_answered(struct http_conn *c); /* the answer was queued: next request, or wait for the socket */
void conn_release(struct http_conn *c);  /* the handler gave up its request; c is GONE */
void conn_uncount(struct http_conn *c);

/* request.c */
/* Advances the request in `in`. 1: it is complete, c->req is filled; 0: needs more bytes; else the status to
 * refuse it with. */
int request_read(struct http_conn *c, struct err *e);

ssize_t conn_recv(struct http_conn *c, void *to, size_t n); /* the only place that reads from the client */

/* body.c */
void body_start(struct http_conn *c); /* the head was read: what is in `in` of the body moves over */
void body_read(struct http_conn *c);  /* the socket is readable */
bool body_wants(const struct http_conn *c);
bool body_reads(const struct http_conn *c); /* input belongs to it, wanted or not */
void body_later(struct http_conn *c);       /* end of the turn */
void body_lost(struct http_conn *c);        /* the connection is gone: tells the handler */
void body_tick(struct http_conn *c);
void body_next(struct http_conn *c); /* the request is over; what was read too far goes back to `in` */

/* reply.c */
void reply_refuse(struct http_conn *c, int status, const struct err *e); /* answers and closes */
/* Queues a head. body_n < 0: a stream, whose length nobody knows. */
bool reply_is_bare(int status); /* has neither a body nor the length of one */
void reply_head(struct http_conn *c, int status, const char *content_type, struct pairs headers, int64_t body_n);
void reply_told(struct http_conn *c, int status, int64_t bytes); /* whoever keeps count of answers */
void reply_error_text(struct buf *b, const struct err *e);       /* {"error":{"code":...,"message":...}} */

/* server.c */
struct http_server {
    struct loop *loop;
    struct http_opts opts;
    struct loop_fd *listen;
    bool listen_paused; /* out of descriptors or memory: looks again at the next tick */
    int spare_fd;       /* given up to be able to accept, and so turn away, when there are no more */
    struct loop_timer *timer;
    bool ticking;
    int64_t tick;
    struct http_conn *conns; /* also GONE ones until they are freed */
    size_t open;
    size_t busy;
    size_t held, grown; /* bytes in the connections when they were last counted, and at most what came since */
    struct http_conn *soon;
    bool later; /* server_later is due; the server must live until then */
    bool draining, freed;
};
void server_soon(struct http_conn *c); /* conn_later(c) at the end of the turn */
void server_tick(struct http_server *s);
void server_relieve(struct http_server *s); /* keeps LIMIT_HTTP_HELD */

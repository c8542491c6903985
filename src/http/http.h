/* The HTTP/1.1 server: one loop, no threads. Parsing is libhttp-parser's; this refuses what could be read two
 * ways (both lengths, folded or repeated framing headers), caps every size, keeps connections alive, pipelines
 * in order, and lets a handler answer at once or later. */
#pragma once

#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/loop.h"

struct http_server;
struct http_conn;

struct http_request {
    struct str method; /* "POST" */
    struct str target; /* as sent */
    struct str path;   /* decoded, without query; no part of it is "..", no byte NUL; "*" only for OPTIONS */
    struct str query;  /* raw, without '?' */
    struct str body;
    struct pairs headers; /* names in lower case */
    struct arena *arena;  /* lives until the answer has been written */
    struct str peer;      /* "127.0.0.1"; "unix" for a local socket */
    int64_t peer_uid;     /* of a local socket's other end; -1: not known */
    struct pairs also;    /* the handler's: headers that its answer gets besides those that it is given with */
    void *user;           /* the handler's own */
    struct http_conn *conn;
    bool streaming;  /* the body is not in `body` but comes by http_body_begin */
    bool empty_part; /* the path has "//" behind its beginning, but for that of a URL: nothing of ours is there */
};

typedef void on_request(void *arg, struct http_request *r);

struct http_tls; /* a certificate and its key */
int http_tls_new(const char *cert, const char *key, struct http_tls **ret, struct err *e); /* PEM files */
void http_tls_free(struct http_tls *t);                                                    /* accepts NULL */
void http_tls_look(struct http_tls *t, bool always); /* reads them again if they changed; a bad pair changes nothing */

struct http_opts {
    int listen_fd;        /* bound and listening; borrowed, made non-blocking. < 0: only adopted connections */
    struct http_tls *tls; /* borrowed; NULL: plain */
    on_request *handler;
    void *arg;
    /* The guard against DNS rebinding: is this Host (with port, as sent) ours? No: 421. NULL: any host is.
     * HTTP/1.0 may have none: host is then empty. */
    bool (*host_ok)(void *arg, struct str host);
    /* Nullable: a handler's answer is on its way. bytes: of the body; -1: a stream. r is still whole. */
    void (*answered)(void *arg, const struct http_request *r, int status, int64_t bytes);
    /* Asked when the head of a request with a body is there: does its handler want the body as a stream, of any size?
     * NULL: never. */
    bool (*wants_stream)(void *arg, struct http_request *r);
    /* Asked when the head is there and not all of the body: will the handler refuse the request whatever its body says?
     * Then it gets it at once, as if it had wanted a stream, and nobody reads the rest. NULL: never. */
    bool (*refuses)(void *arg, struct http_request *r);
};
struct http_server *http_server_new(struct loop *l, const struct http_opts *o, struct err *e);
/* Not from inside a handler. Closes everything; requests that were not answered yet stay valid until they are.
 * What was put off to the end of the current turn needs that the loop finishes it, or a few bytes leak. */
void http_server_free(struct http_server *s);
void http_server_drain(struct http_server *s); /* accept nothing new; close each connection after its answer */
/* Requests whose answer was not handed to the kernel yet, without those that became streams. */
size_t http_server_busy(const struct http_server *s);
bool http_server_unsent(const struct http_server *s); /* bytes wait for some client */
/* Serves HTTP on a connected stream socket as if it had been accepted. */
int http_server_adopt(struct http_server *s, int take_fd);

struct str http_header(const struct http_request *r, const char *lower_name); /* p NULL: absent */
struct str http_query(const struct http_request *r, const char *name);        /* decoded; p NULL: absent */
/* One after the other, decoded; *at is 0 at first. False: there are no more. */
bool http_query_next(const struct http_request *r, size_t *at, struct pair *ret);
/* Undoes %XX, and '+' for a space if form. False: an escape is invalid. The result may be raw itself. */
bool http_decode(struct arena *a, struct str raw, bool form, struct str *ret);

/* Exactly one answer per request, now or later. A client that hung up makes it a no-op; r is gone after it.
 * Framing headers (Content-Length, Connection, Transfer-Encoding) are the server's own. */
void http_reply(struct http_request *r, int status, const char *content_type, struct str body);
void http_reply_headers(struct http_request *r, int status, const struct pair *headers, size_t n, struct str body);
/* Takes the memory of the buffer instead of copying it; leaves it empty, with its cap. */
void http_reply_buf(struct http_request *r, int status, const char *content_type, struct buf *take_body);

struct loop *http_loop(const struct http_request *r);

/* The client closed its end: nobody waits for the answer any more. */
bool http_client_gone(const struct http_request *r);

/* The body as a stream, for a request that is `streaming`. A handler that answers without reading all of it ends the
 * connection with its answer. */
struct http_body;
struct http_body_handler {
    /* Takes some of data and says how many bytes. What it leaves is offered again, with more behind it; so a handler
     * that takes nothing because it cannot go on must pause. last: nothing follows data; the body is gone once all of
     * it was taken. */
    size_t (*take)(void *arg, struct str data, bool last);
    void (*failed)(void *arg); /* the rest will never come; the body is gone, the request still wants its answer */
};
enum { HTTP_BODY_ROOM = 256 * 1024 }; /* a handler may leave less than this much */
struct http_body *http_body_begin(struct http_request *r, const struct http_body_handler *h, void *arg);
void http_body_room(struct http_body *b, size_t bytes); /* instead; at most 2 MiB */
void http_body_pause(struct http_body *b);
void http_body_resume(struct http_body *b);             /* take() is called soon, not from here */
void http_body_drop(struct http_body *b);               /* no more calls; the body is gone */
int64_t http_body_length(const struct http_request *r); /* as announced; -1: unknown */

/* A stream (SSE): begin instead of reply, then any number of writes, then end. */
struct http_stream;
typedef void on_stream_closed(void *arg); /* the client left or fell too far behind; the stream is gone after it */
struct http_stream *http_stream_begin(struct http_request *r, int status, const char *content_type,
                                      on_stream_closed *closed, void *arg);
/* The same with all that can be said about it. */
struct http_stream_opts {
    int status;
    const char *content_type; /* nullable */
    const struct pair *headers;
    size_t header_count;
    int64_t length;             /* bytes that will be written, exactly; < 0: unknown */
    void (*drained)(void *arg); /* nullable: the client has taken all that waited */
    on_stream_closed *closed;
    void *arg;
};
struct http_stream *http_stream_open(struct http_request *r, const struct http_stream_opts *o);
/* 101 with these headers, then plain bytes both ways: the stream writes, body reads; end of file is its `last`. As with
 * http_stream_begin, closed is the end of both, and body's failed() is not called. */
struct http_stream *http_upgrade(struct http_request *r, const struct http_stream_opts *o,
                                 const struct http_body_handler *body, struct http_body **ret_body);
/* false: queue full, the stream will be closed. Whatever its size, data is taken if nothing waits. */
bool http_stream_write(struct http_stream *s, struct str data);
size_t http_stream_waiting(const struct http_stream *s); /* bytes that the client has not taken yet */
void http_stream_end(struct http_stream *s);             /* closed is not called any more */
void http_stream_abort(struct http_stream *s);           /* as end, but the client sees that something is missing */

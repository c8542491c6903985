/* Any bytes in any pieces: the server answers or refuses, hands every handler a request that keeps http.h's
 * promises, and leaks nothing. The first two bytes choose the pieces and how handlers answer. */
/* needs: src/http/server.c src/http/conn.c src/http/head.c src/http/request.c */
/* needs: src/http/chunked.c src/http/reply.c src/http/stream.c src/http/body.c src/http/tls.c */
/* libs: -lhttp_parser -lssl -lcrypto */
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/limits.h"
#include "http/http.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

struct run {
    struct loop *loop;
    struct http_server *server;
    int fd;
    const uint8_t *data;
    size_t n, at;
    uint32_t random;
    uint8_t style;
    int idle;
    struct http_request *pending;
    struct http_stream *stream;
    size_t sum; /* of all bytes a handler was given, so that the sanitizer looks at each */
};

static void check(bool ok)
{
    if (!ok)
        abort();
}

static void look(struct run *f, struct str s)
{
    check(s.p != NULL);
    for (size_t i = 0; i < s.n; i++)
        f->sum += (unsigned char)s.p[i];
}

static void on_stream_gone(void *arg)
{
    ((struct run *)arg)->stream = NULL;
}

/* Two slashes, but for those of a URL that is part of the path. */
static bool has_empty_part(struct str path)
{
    for (size_t i = 0; i + 1 < path.n; i++)
        if (path.p[i] == '/' && path.p[i + 1] == '/' && (i == 0 || path.p[i - 1] != ':'))
            return true;
    return false;
}

static void check_request(struct run *f, struct http_request *r)
{
    look(f, r->method);
    look(f, r->target);
    look(f, r->path);
    look(f, r->query);
    look(f, r->body);
    look(f, r->peer);
    check(r->path.n > 0 && !memmem(r->path.p, r->path.n, "/../", 4) && has_empty_part(r->path) == r->empty_part &&
          !memchr(r->path.p, 0, r->path.n));
    check(r->body.n <= (size_t)LIMIT_HTTP_BODY);
    for (size_t i = 0; i < r->headers.n; i++) {
        struct pair h = r->headers.v[i];
        look(f, h.name);
        look(f, h.value);
        for (size_t k = 0; k < h.name.n; k++)
            check(h.name.p[k] > ' ' && h.name.p[k] != ':' && !(h.name.p[k] >= 'A' && h.name.p[k] <= 'Z'));
        check(!memchr(h.value.p, '\n', h.value.n) && !memchr(h.value.p, '\r', h.value.n));
    }
    (void)http_query(r, "a");
}

static void handle(void *arg, struct http_request *r)
{
    struct run *f = arg;

    check(!f->pending && !f->stream); /* one request at a time */
    check_request(f, r);
    switch ((f->style + r->path.n) % 4) {
    case 0: f->pending = r; break;
    case 1: f->stream = http_stream_begin(r, 200, "text/plain", on_stream_gone, f); break;
    default: http_reply(r, 200, "text/plain", r->body); break;
    }
}

static bool refuses(void *arg, struct http_request *r) /* then its handler answers before the body has come */
{
    struct run *f = arg;

    (void)http_query(r, "a");
    return f->style & 0x20;
}

static uint32_t next_random(struct run *f)
{
    f->random = f->random * 1664525 + 1013904223;
    return f->random >> 16;
}

static void settle(struct run *f)
{
    if (f->pending && next_random(f) % 3 == 0) {
        struct http_request *r = f->pending;
        f->pending = NULL;
        check_request(f, r); /* still whole, whatever came in since */
        http_reply(r, 200, NULL, r->body);
    }
    if (f->stream && next_random(f) % 3 == 0) {
        struct http_stream *s = f->stream;
        (void)http_stream_write(s, STR("data"));
        f->stream = NULL;
        http_stream_end(s);
    }
}

static void nothing(void *arg)
{
    (void)arg;
}

static void on_turn(void *arg)
{
    struct run *f = arg;
    char sink[4096];

    loop_later(f->loop, nothing, NULL); /* the next wait returns at once */
    if (f->idle < 6)
        settle(f);
    while (recv(f->fd, sink, sizeof sink, MSG_DONTWAIT) > 0)
        ;
    if (f->at < f->n) {
        size_t part = f->style & 0x80 ? f->n : 1 + next_random(f) % 64;
        if (part > f->n - f->at)
            part = f->n - f->at;
        ssize_t sent = send(f->fd, f->data + f->at, part, MSG_DONTWAIT | MSG_NOSIGNAL);
        f->at = sent > 0 ? f->at + (size_t)sent : f->n;
        if (f->at == f->n && (f->style & 0x40))
            shutdown(f->fd, SHUT_WR);
    } else if (++f->idle == 6) {
        check(http_server_busy(f->server) == (f->pending != NULL));
        http_server_free(f->server);
        check(!f->stream);
    } else if (f->idle > 6) { /* a turn later: what the server had put off to the end of its last one is done */
        loop_stop(f->loop);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n < 2)
        return 0;

    struct run f = { .loop = loop_new(), .data = data + 2, .n = n - 2, .random = data[0], .style = data[1] };
    struct http_opts o = { .listen_fd = -1, .handler = handle, .arg = &f, .refuses = refuses };
    int pair[2];
    check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    f.fd = pair[0];
    f.server = http_server_new(f.loop, &o, NULL);
    check(http_server_adopt(f.server, pair[1]) == 0);
    loop_each_turn(f.loop, on_turn, &f);
    loop_later(f.loop, nothing, NULL);
    (void)loop_run(f.loop);

    close(f.fd);
    if (f.pending)
        http_reply(f.pending, 200, NULL, f.pending->body);
    loop_free(f.loop);
    return 0;
}

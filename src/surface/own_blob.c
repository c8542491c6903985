/* Our own API: what a step keeps outside of its record (session/call_blob.c), named by the step: whoever may read the
 * step may read it. A hash alone opens nothing, so that no tenant can try those of another. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/limits.h"
#include "store/blob.h"
#include "store/recorder_client.h"
#include "surface/surface.h"

enum { PIECES = 8 };

struct sending {
    struct http_stream *out;
    int fd;
    uint64_t left;
    struct loop_timer *soon;
};

static void sending_free(struct sending *s)
{
    close(s->fd);
    loop_timer_free(s->soon);
    free(s);
}

static void on_gone(void *arg)
{
    sending_free(arg);
}

/* As much as the client takes; the rest when it has that, or in the next turn: others wait, too. */
static void send_more(void *arg)
{
    struct sending *s = arg;
    char piece[256 * 1024];

    for (int i = 0; i < PIECES && s->left; i++) {
        ssize_t n = read(s->fd, piece, s->left < sizeof piece ? s->left : sizeof piece);
        if (n <= 0)
            break;
        s->left -= (uint64_t)n;
        if (!http_stream_write(s->out, (struct str){ piece, (size_t)n }))
            return; /* it is closed, which is told */
        if (http_stream_waiting(s->out))
            return;
        if (i + 1 == PIECES && s->left) {
            loop_timer_set(s->soon, 0);
            return;
        }
    }
    if (s->left)
        http_stream_abort(s->out);
    else
        http_stream_end(s->out);
    sending_free(s);
}

static void send_blob(struct web *w, struct str hash, struct str type)
{
    auto_close int fd = -1;
    uint64_t bytes;
    struct err e;

    if (blob_open(w->node->opts.home, hash, &fd, &bytes, &e) < 0) {
        web_error(w, 404, ERR_NOT_FOUND, "%s", e.msg);
        return;
    }
    struct pair headers[] = { { STR("Content-Security-Policy"), STR("sandbox; default-src 'none'") },
                              { STR("Cache-Control"), STR("private, max-age=31536000, immutable") },
                              { STR("ETag"), str_of(arena_printf(w->http->arena, "\"%.*s\"", STR_ARG(hash))) } };
    struct sending *s = calloc(1, sizeof *s);
    if (!s)
        abort();
    *s = (struct sending){ .fd = TAKE_FD(fd), .left = bytes };
    s->soon = loop_timer_new(w->node->loop, send_more, s);
    s->out =
        http_stream_open(w->http, &(struct http_stream_opts){ .status = 200,
                                                              .content_type = type.n ? arena_z(w->http->arena, type)
                                                                                     : "application/octet-stream",
                                                              .headers = headers,
                                                              .header_count = sizeof headers / sizeof *headers,
                                                              .length = (int64_t)bytes,
                                                              .drained = send_more,
                                                              .closed = on_gone,
                                                              .arg = s });
    if (s->out)
        send_more(s);
    else
        sending_free(s);
}

static void on_step(void *arg, const struct answer *a)
{
    struct web *w = arg;
    struct json *answer = NULL;
    struct err e;

    if (a->error || json_parse(w->http->arena, a->json, &answer, &e) < 0) {
        web_error(w, a->error ? web_status_of((enum err_code)a->error) : 500,
                  a->error ? (enum err_code)a->error : e.code, "%.*s", STR_ARG(a->message));
        return;
    }
    const struct json *list = json_get(answer, "steps"), *step = list ? list->first : NULL;
    long long wanted = strtoll(arena_z(w->http->arena, w->match.arg[1]), NULL, 10);
    /* What was imported only says that it has them: they are where it was recorded. */
    bool here = step && json_get_int(step, "step", 0) == wanted && !str_is(json_get_str(step, "surface"), "import");
    const struct json *blob = here ? json_get(json_get(step, "blobs"), arena_z(w->http->arena, w->match.arg[2])) : NULL;
    struct str hash = json_get_str(blob, "hash");
    if (hash.n)
        send_blob(w, hash, json_get_str(blob, "type"));
    else
        web_error(w, 404, ERR_NOT_FOUND, "step %lld keeps no blob '%.*s'", wanted,
                  (int)(w->match.arg[2].n < 40 ? w->match.arg[2].n : 40), w->match.arg[2].p);
}

static void blob(struct web *w)
{
    char *end;
    long long step = strtoll(arena_z(w->http->arena, w->match.arg[1]), &end, 10);

    if (*end || step < 1) {
        web_error(w, 404, ERR_NOT_FOUND, "steps are numbered from 1");
        return;
    }
    struct query q = { .op = STR("steps"), .id = w->match.id, .after = step - 1, .limit = 1 };
    web_query(w, &q, on_step, w);
}

const struct route own_blob_routes[] = {
    { "GET", "/sg/v1/trajectories/{id}/steps/{step}/blobs/{name}", blob, 0 },
    { 0 },
};

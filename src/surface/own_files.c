/* Our own API, looking into states: the difference of two, and the files of one as a tar. Both are made by a worker of
 * supervise, which writes into a pipe; here it is read as fast as the client takes it.
 *
 * A job ends when supervise's reply is there and the pipe is closed, in whatever order. The request is answered once:
 * by the difference, by an error, or by a stream, which begins with the tar's first bytes and is cut off if the rest
 * cannot be had. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/limits.h"
#include "session/state.h"
#include "surface/surface.h"

enum { CHUNK = 256 * KiB, WAITING_MAX = 1 * MiB, PIPE_BYTES = 1 * MiB, LOOK_MS = 4 };

struct job {
    struct web *web; /* NULL: answered, or the stream has begun */
    struct node *node;
    const struct tenant *tenant;
    struct http_stream *out;
    struct seat_request ask;
    char a[40], b[40];
    struct str other; /* in the request's arena: which state is b */
    int pipe;
    struct loop_fd *watch;
    struct loop_timer *look; /* has the client taken something? */
    struct buf text;
    bool replied, tar;
    int result;
    struct err err;
};

static void on_readable(void *arg, uint32_t events);

static void pipe_close(struct job *j)
{
    loop_unwatch(j->watch);
    j->watch = NULL;
    loop_timer_set(j->look, -1);
    if (j->pipe >= 0)
        close(j->pipe);
    j->pipe = -1;
}

static void job_free(struct job *j)
{
    pipe_close(j);
    loop_timer_free(j->look);
    buf_done(&j->text);
    free(j);
}

static void send_diff(struct job *j)
{
    struct buf o;
    struct str rest = buf_view(&j->text);

    buf_init(&o, LIMIT_HTTP_REPLY);
    buf_printf(&o, "{\"a\":\"%s\",\"b\":\"%s\",", j->a, j->b);
    buf_add(&o, rest.p + 1, rest.n - 1); /* the worker's object goes on */
    web_send(j->web, 200, &o);
}

static void finish(struct job *j)
{
    if (j->result >= 0 && j->web && j->text.n < 2)
        j->result = err_set(&j->err, ERR_SYSTEM, "the answer is empty");
    if (j->out && j->result < 0)
        http_stream_abort(j->out);
    else if (j->out)
        http_stream_end(j->out);
    else if (j->web && j->result < 0)
        web_error(j->web, web_status_of(j->err.code), j->err.code, "%s", j->err.msg);
    else if (j->web)
        send_diff(j);
    job_free(j);
}

static void check_done(struct job *j)
{
    if (j->replied && j->pipe < 0)
        finish(j);
}

static void on_reply(void *arg, const struct seat_reply *r, const int *take_gauges)
{
    struct job *j = arg;

    (void)take_gauges;
    j->replied = true;
    if (r->result < 0 && j->result >= 0) {
        j->result = r->result;
        j->err = r->err;
    }
    if (j->result < 0)
        pipe_close(j);
    check_done(j);
}

static void on_closed(void *arg)
{
    struct job *j = arg;

    j->out = NULL;
    pipe_close(j); /* the worker hears of it when it writes */
    check_done(j);
}

static void on_look(void *arg)
{
    struct job *j = arg;

    if (http_stream_waiting(j->out) > WAITING_MAX)
        loop_timer_set(j->look, LOOK_MS);
    else
        j->watch = loop_watch(j->node->loop, j->pipe, EPOLLIN, on_readable, j);
}

static void stream(struct job *j, struct str data)
{
    if (!j->out) {
        j->out = http_stream_begin(j->web->http, 200, "application/x-tar", on_closed, j);
        j->web = NULL;
    }
    if (!http_stream_write(j->out, data) || http_stream_waiting(j->out) <= WAITING_MAX)
        return;             /* a stream that failed is closed, which is told */
    loop_unwatch(j->watch); /* the pipe fills, the worker waits */
    j->watch = NULL;
    loop_timer_set(j->look, LOOK_MS);
}

static void on_readable(void *arg, uint32_t events)
{
    static char chunk[CHUNK];
    struct job *j = arg;

    (void)events;
    ssize_t n = read(j->pipe, chunk, sizeof chunk);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n > 0 && j->tar) {
        stream(j, (struct str){ chunk, (size_t)n });
        return;
    }
    if (n > 0 && buf_add(&j->text, chunk, (size_t)n))
        return;
    if (n != 0)
        j->result = err_set(&j->err, ERR_LIMIT, "the difference is too large");
    pipe_close(j);
    check_done(j);
}

static void fail(struct job *j, const struct err *e)
{
    j->result = -EIO;
    j->err = *e;
    finish(j);
}

static void start(struct job *j)
{
    struct err e;
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) < 0) {
        err_sys(&e, "pipe");
        fail(j, &e);
        return;
    }
    (void)fcntl(ends[0], F_SETFL, O_NONBLOCK);
    (void)fcntl(ends[0], F_SETPIPE_SZ, PIPE_BYTES);
    j->pipe = ends[0];
    j->watch = loop_watch(j->node->loop, j->pipe, EPOLLIN, on_readable, j);
    seats_ask_files(j->node->seats, &j->ask, ends[1], on_reply, j);
}

static struct job *job_new(struct web *w, enum seat_verb verb)
{
    struct job *j = calloc(1, sizeof *j);

    if (!j)
        abort();
    *j = (struct job){ .web = w, .node = w->node, .tenant = w->tenant, .pipe = -1, .tar = verb == SEAT_CHECKOUT };
    j->ask.verb = verb;
    j->ask.spec = w->node->opts.spec;
    j->look = loop_timer_new(j->node->loop, on_look, j);
    buf_init(&j->text, LIMIT_DIFF_BYTES + 4096);
    return j;
}

static void on_other(void *arg, const struct state *s, const struct err *e)
{
    struct job *j = arg;
    struct err why;

    if (!e && strcmp(s->image, j->ask.spec.image) != 0) {
        err_set(&why, ERR_INVALID, "the two states are of different images: %.80s and %.80s", j->ask.spec.image,
                s->image);
        e = &why;
    }
    if (e) {
        fail(j, e);
        return;
    }
    memcpy(j->b, s->id, sizeof j->b);
    j->ask.other.layer_count = s->layer_count;
    memcpy(j->ask.other.layers, s->layers, sizeof j->ask.other.layers);
    memcpy(j->ask.other.root, s->root, sizeof j->ask.other.root);
    start(j);
}

static void on_state_found(void *arg, const struct state *s, const struct err *e)
{
    struct job *j = arg;

    if (e) {
        fail(j, e);
        return;
    }
    memcpy(j->a, s->id, sizeof j->a);
    state_apply(s, &j->ask.spec);
    if (j->tar)
        start(j);
    else
        state_find(j->node, j->tenant, j->other, on_other, j);
}

void own_diff(struct web *w)
{
    struct str a = http_query(w->http, "a"), b = http_query(w->http, "b");

    if (!a.n || !b.n) {
        web_error(w, 400, ERR_MISSING, "a and b: which states to compare");
        return;
    }
    struct job *j = job_new(w, SEAT_DIFF);
    j->other = b;
    j->ask.other.text = own_query_flag(http_query(w->http, "text"));
    state_find(w->node, w->tenant, a, on_state_found, j);
}

void own_checkout(struct web *w)
{
    state_find(w->node, w->tenant, w->match.id, on_state_found, job_new(w, SEAT_CHECKOUT));
}

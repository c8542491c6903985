#include "session/compare.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/limits.h"

/* Over when supervise's reply is there and the pipe is closed, in whatever order. */
struct compare {
    struct node *node;
    int pipe;
    struct loop_fd *watch;
    struct buf text;
    bool replied;
    int result;
    struct err err;
    on_compared *cb;
    void *arg;
};

static void check_done(struct compare *c)
{
    if (!c->replied || c->pipe >= 0)
        return;
    if (c->result >= 0 && c->text.n < 2)
        c->result = err_set(&c->err, ERR_SYSTEM, "the answer is empty");
    c->cb(c->arg, buf_view(&c->text), c->result < 0 ? &c->err : NULL);
    buf_done(&c->text);
    free(c);
}

static void pipe_close(struct compare *c)
{
    loop_unwatch(c->watch);
    c->watch = NULL;
    if (c->pipe >= 0)
        close(TAKE_FD(c->pipe));
}

static void on_reply(void *arg, const struct seat_reply *r, const int *take_gauges)
{
    struct compare *c = arg;

    (void)take_gauges;
    c->replied = true;
    if (r->result < 0 && c->result >= 0) {
        c->result = r->result;
        c->err = r->err;
    }
    if (c->result < 0)
        pipe_close(c);
    check_done(c);
}

static void on_readable(void *arg, uint32_t events)
{
    static char chunk[256 * KiB];
    struct compare *c = arg;

    (void)events;
    ssize_t n = read(c->pipe, chunk, sizeof chunk);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n > 0 && buf_add(&c->text, chunk, (size_t)n))
        return;
    if (n != 0)
        c->result = err_set(&c->err, ERR_LIMIT, "the difference is too large");
    pipe_close(c);
    check_done(c);
}

void states_compare(struct node *n, const struct state *a, const struct state *b, bool text, on_compared *cb, void *arg)
{
    struct seat_request q = { .verb = SEAT_DIFF, .spec = n->opts.spec };
    struct err e;
    int ends[2];

    state_apply(b, &q.spec);
    q.other.text = text;
    q.other.layer_count = b->layer_count;
    memcpy(q.other.layers, b->layers, sizeof q.other.layers);
    memcpy(q.other.root, b->root, sizeof q.other.root);
    if (a) {
        state_apply(a, &q.spec);
    } else {
        q.spec.layer_count = 0;
        q.spec.parent_root[0] = 0;
    }
    if (a && strcmp(a->image, b->image) != 0) {
        err_set(&e, ERR_INVALID, "the two states are of different images: %.80s and %.80s", a->image, b->image);
        cb(arg, (struct str){ 0 }, &e);
        return;
    }
    if (pipe2(ends, O_CLOEXEC) < 0) {
        err_sys(&e, "pipe");
        cb(arg, (struct str){ 0 }, &e);
        return;
    }
    struct compare *c = calloc(1, sizeof *c);
    if (!c)
        abort();
    *c = (struct compare){ .node = n, .pipe = ends[0], .cb = cb, .arg = arg };
    (void)fcntl(c->pipe, F_SETFL, O_NONBLOCK);
    buf_init(&c->text, LIMIT_DIFF_BYTES + 4096);
    c->watch = loop_watch(n->loop, c->pipe, EPOLLIN, on_readable, c);
    seats_ask_files(n->seats, &q, ends[1], on_reply, c);
}

#include "init/context.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/loop.h"
#include "init/script.h"
#include "wire/boot.h"

enum { REACT_MS = 3000, DEATH_MS = 1000, LIST_MAX = 256, BLOCK = 64 * 1024, WARM_S = 30 };

struct context {
    struct peer peer;
    struct stream out, err;
    struct buf request, reply;
    char language[16], program[40];
    bool up, fresh, alone, unused;
    char block[BLOCK];
};

static struct context *context_get(struct hand *h)
{
    struct context *c = h->self->state;

    if (c)
        return c;
    c = calloc(1, sizeof *c);
    if (!c)
        abort();
    c->peer = (struct peer){ .pidfd = -1, .server = -1, .ctl = -1, .out = -1, .err = -1, .status = -1 };
    c->out.memfd = c->err.memfd = -1;
    c->fresh = h->self->restarts > 0;
    h->self->state = c;
    return c;
}

static void down(struct hand *h, struct context *c)
{
    peer_end(h, &c->peer);
    c->up = false;
    c->fresh = !c->unused; /* nothing is lost with one that never had a call */
    c->unused = false;
}

static int start(struct hand *h, struct context *c, const struct context_ask *ask, struct err *e)
{
    const char *python[PYSERVER_MODULES + 4] = { "python3", SCRIPT_PYTHON, "context" };
    const char *const node[] = { ask->program ? ask->program : "node", SCRIPT_NODE, NULL };
    bool is_python = str_is(ask->language, "python");
    struct pair more[] = {
        { STR("PYTHONUNBUFFERED"), STR("1") },
        { STR("MPLBACKEND"), STR("agg") },
        { STR("NODE_PATH"), STR(BOX_HOME "/node_modules") },
    };
    struct pairs env = { more, ARRAY_LEN(more) };

    c->alone |= ask->alone;
    if (h->self->warming) /* one that is asked for already imports what its code names */
        pyserver_modules(h->init, h->arena, python + 3, PYSERVER_MODULES);
    int r =
        peer_start(h, &c->peer,
                   &(struct peer_ask){ .argv = is_python ? python : node,
                                       .cwd = arena_z(h->arena, ask->cwd.n ? ask->cwd : h->cwd),
                                       .env = &env,
                                       .control = true,
                                       .server = ask->branch              ? ask->branch
                                                 : is_python && !c->alone ? pyserver_socket(h->init, PYSERVER_CONTEXT)
                                                                          : NULL,
                                       .only_server = ask->branch != NULL },
                   e);
    if (r < 0)
        return r;
    snprintf(c->program, sizeof c->program, "%s", node[0]);
    memcpy(c->language, ask->language.p, ask->language.n);
    c->language[ask->language.n] = 0;
    c->up = true;
    return 0;
}

static void write_request(struct context *c, const struct context_ask *ask)
{
    AUTO(buf_done) struct buf b = { .cap = LIMIT_FRAME };
    struct jw w = { .out = &b };

    jw_obj(&w);
    jw_kz(&w, "op", ask->op ? ask->op : "run");
    jw_kstr(&w, "code", ask->code.p ? ask->code : STR(""));
    if (ask->input.p)
        jw_kstr(&w, "stdin", ask->input);
    if (ask->cwd.n)
        jw_kstr(&w, "cwd", ask->cwd);
    if (ask->path.n)
        jw_kstr(&w, "path", ask->path);
    if (ask->memory_bytes)
        jw_kint(&w, "memory_bytes", ask->memory_bytes);
    if (ask->unused)
        jw_kbool(&w, "unused", true);
    jw_obj_end(&w);
    buf_init(&c->request, LIMIT_FRAME);
    buf_printf(&c->request, "%zu\n", b.n);
    buf_str(&c->request, buf_view(&b));
}

/* True: more may come at once. */
static bool read_stream(struct context *c, int *fd, struct stream *to)
{
    ssize_t n = *fd >= 0 ? read(*fd, c->block, BLOCK) : -1;

    if (n > 0)
        stream_add(to, c->block, (size_t)n);
    else if (n == 0)
        close(TAKE_FD(*fd));
    return n > 0;
}

/* 1: the whole answer is there; 0: not yet; < 0: it is none. */
static int read_reply(struct context *c, struct str *ret)
{
    char *to = buf_room(&c->reply, BLOCK);
    ssize_t n = to ? recv(c->peer.ctl, to, BLOCK, MSG_DONTWAIT) : 0;

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n <= 0)
        return -EPIPE;
    buf_grew(&c->reply, (size_t)n);
    const char *line = memchr(c->reply.p, '\n', c->reply.n < 24 ? c->reply.n : 24);
    if (!line)
        return c->reply.n < 24 ? 0 : -EBADMSG;
    char *end = NULL;
    unsigned long size = strtoul(c->reply.p, &end, 10);
    if (end != line || size > LIMIT_FRAME)
        return -EBADMSG;
    size_t head = (size_t)(line + 1 - c->reply.p);
    if (c->reply.n < head + size)
        return 0;
    *ret = (struct str){ line + 1, size };
    return 1;
}

static bool flush(struct context *c)
{
    while (c->request.n) {
        ssize_t n = send(c->peer.ctl, c->request.p, c->request.n, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EAGAIN;
        buf_eat(&c->request, (size_t)n);
    }
    return true;
}

static struct strs list_of(struct arena *a, const struct json *list)
{
    struct strs all = { arena_alloc(a, LIST_MAX * sizeof(struct str)), 0 };

    for (const struct json *v = list ? list->first : NULL; v && all.n < LIST_MAX; v = v->next)
        if (v->type == JSON_STR)
            all.v[all.n++] = v->s;
    return all;
}

static int take_reply(struct hand *h, struct str text, struct context_end *ret)
{
    struct json *j = NULL;

    if (json_parse(h->arena, arena_copy(h->arena, text), &j, NULL) < 0)
        return -EBADMSG;
    struct str status = json_get_str(j, "status");
    if (ret->status == CONTEXT_OK)
        ret->status = str_is(status, "ok")            ? CONTEXT_OK
                      : str_is(status, "interrupted") ? CONTEXT_INTERRUPTED
                      : str_is(status, "stale")       ? CONTEXT_STALE
                                                      : CONTEXT_ERROR;
    ret->exit_code = (int)json_get_int(j, "exit_code", ret->status == CONTEXT_OK ? 0 : 1);
    ret->result = json_get_str(j, "result");
    ret->cwd = json_get_str(j, "cwd");
    ret->ename = json_get_str(j, "ename");
    ret->evalue = json_get_str(j, "evalue");
    ret->traceback = list_of(h->arena, json_get(j, "traceback"));
    ret->figures = list_of(h->arena, json_get(j, "figures"));
    ret->lost = list_of(h->arena, json_get(j, "lost"));
    ret->memory_bytes = json_get_int(j, "memory_bytes", 0);
    ret->count = json_get_int(j, "count", 0);
    return 0;
}

static void died(struct hand *h, struct context *c, struct context_end *ret)
{
    (void)peer_wait(&c->peer, DEATH_MS);
    bool ended = peer_ended(&c->peer);
    while (read_stream(c, &c->peer.out, &c->out) || read_stream(c, &c->peer.err, &c->err))
        ;
    ret->status = CONTEXT_DIED;
    ret->evalue = ended ? peer_story(&c->peer, h->arena) : STR("it sent what is no answer");
    ret->exit_code = ended && c->peer.status != -1
                         ? (WIFSIGNALED(c->peer.status) ? 128 + WTERMSIG(c->peer.status) : WEXITSTATUS(c->peer.status))
                         : 1;
    down(h, c);
}

/* Until it has answered, or its time is over. */
static void watch_run(struct hand *h, struct context *c, const struct context_ask *ask, struct context_end *ret)
{
    int64_t until = hand_until(h, ask->timeout, &ret->limit_s), react = 0;
    struct str text;

    for (;;) {
        int64_t now = now_ms();
        if (!react && (now >= until || h->self->wish != WISH_NONE)) {
            ret->status = now >= until ? CONTEXT_TIMEOUT : CONTEXT_INTERRUPTED;
            react = now + REACT_MS;
            peer_signal(&c->peer, SIGINT);
        }
        if (react && now >= react) {
            ret->lost_it = true;
            down(h, c);
            return;
        }
        if (!flush(c)) {
            died(h, c, ret);
            return;
        }
        struct pollfd p[] = { { c->peer.ctl, (short)(POLLIN | (c->request.n ? POLLOUT : 0)), 0 },
                              { c->peer.out, POLLIN, 0 },
                              { c->peer.err, POLLIN, 0 },
                              { c->peer.pidfd, POLLIN, 0 } };
        int64_t wait = (react ? react : until) - now;
        (void)driver_poll(h, p, ARRAY_LEN(p), wait < 1000 ? wait : 1000);
        if (p[1].revents)
            (void)read_stream(c, &c->peer.out, &c->out);
        if (p[2].revents)
            (void)read_stream(c, &c->peer.err, &c->err);
        int r = p[0].revents & (POLLIN | POLLHUP) ? read_reply(c, &text) : 0;
        if (r > 0)
            r = take_reply(h, text, ret) < 0 ? -1 : 1;
        if (r > 0)
            break;
        if (r < 0 || (p[3].revents && peer_ended(&c->peer))) {
            died(h, c, ret);
            return;
        }
    }
    while (read_stream(c, &c->peer.out, &c->out) || read_stream(c, &c->peer.err, &c->err)) /* it flushed before */
        ;
}

static void converse(struct hand *h, struct context *c, const struct context_ask *ask, struct context_end *ret)
{
    int64_t begun = now_us();

    stream_init(&c->out, h->head_bytes, h->tail_bytes, 0);
    stream_init(&c->err, h->head_bytes, h->tail_bytes, 0);
    buf_init(&c->reply, LIMIT_FRAME + 64);
    write_request(c, ask);
    watch_run(h, c, ask, ret);
    ret->out = stream_text(&c->out, h->arena);
    ret->err = stream_text(&c->err, h->arena);
    ret->out_bytes = c->out.total;
    ret->err_bytes = c->err.total;
    ret->dropped_bytes = stream_dropped(&c->out) + stream_dropped(&c->err);
    ret->run_us = now_us() - begun;
    stream_done(&c->out);
    stream_done(&c->err);
    buf_done(&c->request);
    buf_done(&c->reply);
}

/* Once: another that replaces this one after its death begins with nothing, and says so. */
static void sow(struct hand *h, struct context *c, struct context_end *ret)
{
    const char *seed = TAKE_PTR(h->self->seed);
    struct context_end end = { 0 };

    if (strcmp(c->language, "python") == 0)
        converse(h, c, &(struct context_ask){ .op = "load", .path = str_of(seed) }, &end);
    (void)unlink(seed);
    ret->carried = end.status == CONTEXT_OK && c->up;
    ret->lost = end.lost;
    if (!ret->carried)
        ret->fresh = true;
}

bool context_is_up(struct hand *h)
{
    struct context *c = context_get(h);

    return c->up && !peer_ended(&c->peer);
}

int context_run(struct hand *h, const struct context_ask *ask, struct context_end *ret, struct err *e)
{
    struct context *c = context_get(h);

    *ret = (struct context_end){ 0 };
    if (c->up && !str_is(ask->language, c->language))
        return err_set(e, ERR_INVALID, "language: this session runs %s, not %.*s", c->language, STR_ARG(ask->language));
    if (c->up && ask->program && strcmp(ask->program, c->program) != 0)
        return err_set(e, ERR_INVALID, "version: this session runs %s, not %s", c->program, ask->program);
    if (c->up && peer_ended(&c->peer))
        down(h, c);
    ret->fresh = c->fresh && !c->up;
    if (!c->up) {
        int r = start(h, c, ask, e);
        if (r >= 0 && h->self->seed)
            sow(h, c, ret);
        if (r >= 0 && !c->up) /* that ended it */
            r = start(h, c, ask, e);
        if (r < 0)
            return r;
    }
    c->fresh = false;
    struct strs lost = ret->lost;
    struct context_ask own = *ask;
    own.unused = c->unused;
    c->unused = false;
    converse(h, c, &own, ret);
    if (ret->status == CONTEXT_STALE) { /* it has run nothing, so nothing is lost with it */
        down(h, c);
        c->fresh = false;
        return context_run(h, ask, ret, e);
    }
    if (!ret->lost.n)
        ret->lost = lost;
    return 0;
}

static void warm(struct hand *h)
{
    struct context_ask ask = { .op = "warm", .language = STR("python"), .timeout = WARM_S };
    struct context *c = context_get(h);
    struct context_end end;
    struct err e;

    (void)context_run(h, &ask, &end, &e); /* if that failed, the first call tries again, and tells */
    c->unused = c->up;
    c->fresh = false;
}

int context_put(struct hand *h, const char *op, struct str path, struct context_end *ret, struct err *e)
{
    const struct context *c = context_get(h);

    if (!c->up)
        return err_set(e, ERR_NOT_FOUND, "its interpreter is not running");
    if (strcmp(c->language, "python") != 0)
        return err_set(e, ERR_INVALID, "a context of %s begins anew", c->language);
    (void)prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0); /* a copy becomes init's child: it outlives this driver's end */
    int r = context_run(h, &(struct context_ask){ .op = op, .language = STR("python"), .path = path }, ret, e);
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    return r;
}

static void ahead(struct init *in)
{
    pyserver_need(in, PYSERVER_CONTEXT);
}

const struct driver_kind context_kind = {
    .name = "code", .warm = warm, .start_ms = 10, .ahead = ahead, .carry_with = "carry:context"
};

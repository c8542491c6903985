#include "init/task.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "base/limits.h"
#include "init/hand.h"
#include "init/hands.h"
#include "init/init.h"
#include "init/link.h"
#include "init/program.h"
#include "tool/tool.h"
#include "wire/boot.h"

struct task *task_find(struct init *in, uint64_t id)
{
    for (struct task *t = in->tasks; t; t = t->next)
        if (t->id == id)
            return t;
    return NULL;
}

void task_free(struct task *t)
{
    for (struct task **at = &t->init->tasks; *at; at = &(*at)->next)
        if (*at == t) {
            *at = t->next;
            break;
        }
    for (int i = 0; i < 2; i++)
        if (t->reply_fds[i] >= 0)
            close(t->reply_fds[i]);
    if (t->stream >= 0)
        close(t->stream);
    arena_done(&t->arena);
    buf_done(&t->reply);
    free(t);
}

enum outcome outcome_of_err(const struct err *e)
{
    switch (e->code) {
    case ERR_INVALID:
    case ERR_MISSING:
    case ERR_TYPE: return OUTCOME_INVALID_REQUEST;
    case ERR_NONE:
    case ERR_NOT_FOUND:
    case ERR_LIMIT:
    case ERR_BUSY:
    case ERR_DENIED:
    case ERR_EXISTS:
    case ERR_SYSTEM: break;
    }
    return e->sys == ENOSPC || e->sys == EDQUOT ? OUTCOME_DISK_FULL : OUTCOME_TASK_ERROR;
}

void task_reply_ready(struct task *t)
{
    t->finished = true;
    t->cancel = NULL;
    if (t->done) {
        t->done(t);
        task_free(t);
        return;
    }
    if (t->stream >= 0)
        close(TAKE_FD(t->stream));
    arena_done(&t->arena);
    link_send_result(t);
}

void task_finish(struct task *t, enum outcome o, const struct err *e, const void *result, int64_t dropped_bytes,
                 const int take_fds[2])
{
    AUTO(buf_done) struct buf packed = { .cap = LIMIT_FRAME };
    struct wire_result r = {
        .outcome = o,
        .message = e ? str_of(e->msg) : (struct str){ 0 },
        .error = e ? (int64_t)e->code : 0,
        .sys = e ? e->sys : 0,
        .run_us = now_us() - t->begun_us,
        .cpu_us = t->cpu_us,
        .dropped_bytes = dropped_bytes,
        .disk_used_bytes = t->disk_used_bytes == FIELD_ABSENT ? FIELD_ABSENT : program_disk_used(t->disk_used_bytes),
        .flows = t->flows,
    };
    unsigned fds = 0;

    if (take_fds && (take_fds[0] >= 0 || take_fds[1] >= 0)) /* always both, so that their order says what they are */
        for (; fds < 2; fds++)
            t->reply_fds[fds] = take_fds[fds] >= 0 ? take_fds[fds] : memfd_create("none", MFD_CLOEXEC);
    if (result) {
        field_pack(t->tool->result, result, &packed);
        r.result = buf_view(&packed);
    }
    buf_init(&t->reply, LIMIT_FRAME);
    frame_add(&t->reply, FRAME_RESULT, t->id, fds, wire_result_fields, &r);
    task_reply_ready(t);
}

void task_fail(struct task *t, enum outcome o, const struct err *e)
{
    task_finish(t, o, e, NULL, 0, NULL);
}

static void copy_call(struct task *t, const struct wire_call *call)
{
    t->call = *call;
    t->call.tool = arena_copy(&t->arena, call->tool);
    t->call.session = arena_copy(&t->arena, call->session);
    t->call.params = arena_copy(&t->arena, call->params);
}

struct task *task_own(struct init *in, const struct tool *tool, const void *params, void (*done)(struct task *t),
                      void *arg)
{
    static uint64_t last = UINT64_C(1) << 63; /* serve's numbers are far from here */
    struct task *t = calloc(1, sizeof *t);
    AUTO(buf_done) struct buf packed = { .cap = LIMIT_FRAME };

    if (!t)
        abort();
    *t = (struct task){ .init = in,
                        .tool = tool,
                        .id = ++last,
                        .begun_us = now_us(),
                        .disk_used_bytes = FIELD_ABSENT,
                        .reply_fds = { -1, -1 },
                        .stream = -1,
                        .done = done,
                        .arg = arg };
    field_pack(tool->params, params, &packed);
    t->call = (struct wire_call){ .tool = str_of(tool->name), .params = arena_copy(&t->arena, buf_view(&packed)) };
    return t;
}

int task_read_reply(const struct task *t, struct arena *a, void *ret, struct err *e)
{
    struct frame_head head;
    struct str payload;
    struct wire_result r;

    if (frame_peek(&t->reply, &head, &payload, e) <= 0)
        return err_set(e, ERR_SYSTEM, "no answer");
    payload = arena_copy(a, payload);
    int n = field_unpack(wire_result_fields, payload, a, &r, sizeof r, e);
    if (n < 0)
        return n;
    if (r.outcome != OUTCOME_OK)
        return err_set(e, ERR_SYSTEM, "%.*s", STR_ARG(r.message));
    return field_unpack(t->tool->result, r.result, a, ret, t->tool->result_size, e);
}

static void begin_in_loop(struct task *t)
{
    void *params = arena_alloc(&t->arena, t->tool->params_size ? t->tool->params_size : 1);
    struct err e;

    if (field_unpack(t->tool->params, t->call.params, &t->arena, params, t->tool->params_size, &e) < 0)
        task_fail(t, OUTCOME_INVALID_REQUEST, &e);
    else
        t->tool->begin(t, params);
}

/* A short look at a file is not worth waking another process: init does it itself. False: a hand must do it. */
static bool try_quick(struct task *t, const struct wire_call *call)
{
    struct hand h = {
        .arena = &t->arena, .cwd = str_of(init_workspace(t->init)), .init = t->init, .quick = true, .stream = -1
    };
    struct hand_request req = { .tool = t->tool, .id = t->id, .begun_us = t->begun_us };

    buf_init(&t->reply, LIMIT_FRAME);
    init_as_user(t->init);
    bool done = hand_work(&h, &req, call->params, &t->reply);
    if (done)
        task_reply_ready(t);
    else
        arena_reset(&t->arena);
    return done;
}

static int open_stream(struct task *t, struct err *e)
{
    size_t streams = 0;
    int ends[2];

    for (struct task *o = t->init->tasks; o; o = o->next)
        streams += !o->finished && o->tool && o->tool->flags & TOOL_STREAM;
    if (streams > LIMIT_STREAMS_PER_BOX)
        return err_set(e, ERR_BUSY, "LIMIT_STREAMS_PER_BOX (%d) uploads and downloads are under way in this box",
                       LIMIT_STREAMS_PER_BOX);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        return err_sys(e, "make a stream");
    t->stream = ends[0];
    link_send_fd(t->init, FRAME_STREAM, t->id, ends[1]);
    return 0;
}

void task_begin(struct init *in, uint64_t id, const struct wire_call *call)
{
    size_t held = 0;
    struct err e;

    for (struct task *t = in->tasks; t; t = t->next)
        held++;
    if (held >= LIMIT_CALLS_PER_BOX) {
        err_set(&e, ERR_BUSY, "box already holds LIMIT_CALLS_PER_BOX (%d) calls", LIMIT_CALLS_PER_BOX);
        link_refuse(in, id, &e);
        return;
    }

    struct task *t = calloc(1, sizeof *t);
    if (!t)
        abort();
    *t = (struct task){ .init = in,
                        .id = id,
                        .begun_us = now_us(),
                        .disk_used_bytes = FIELD_ABSENT,
                        .reply_fds = { -1, -1 },
                        .stream = -1,
                        .next = in->tasks };
    in->tasks = t;
    t->tool = tool_find(call->tool, NULL);
    if (t->tool && !tool_only_looks(t->tool))
        t->disk_used_bytes = program_disk_used(FIELD_ABSENT);
    bool quick = t->tool && t->tool->flags & TOOL_QUICK && !t->tool->begin;
    if (!quick)
        init_as_root(in);
    if (!t->tool || (!t->tool->begin && !t->tool->run_hand)) {
        err_set(&e, ERR_NOT_FOUND, "init has no tool '%.*s'", STR_ARG(call->tool));
        task_fail(t, OUTCOME_INFRA_ERROR, &e);
        return;
    }
    if (t->tool->flags & TOOL_STREAM && open_stream(t, &e) < 0) {
        task_fail(t, OUTCOME_INFRA_ERROR, &e);
        return;
    }
    if (t->tool->begin) {
        copy_call(t, call);
        begin_in_loop(t);
        return;
    }
    if (quick && try_quick(t, call))
        return;
    init_as_root(in);
    t->call = *call;
    if (!hands_submit(in, t)) /* nobody took the parameters at once: they must outlive the input buffer */
        copy_call(t, call);
}

void task_cancel(struct task *t)
{
    if (!t->finished && t->cancel)
        t->cancel(t);
}

void task_ack(struct task *t)
{
    if (!t->finished)
        return;
    if (t->queued)
        t->acked = true; /* its bytes are still being written; the link frees it then */
    else
        task_free(t);
}

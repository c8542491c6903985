/* The life of one tool call.
 *
 *   NEW ──refused──────────────────────────────────────────────┐
 *    │ key given: LOOKUP (recorder: was it answered before?)    │
 *    ├─ no box: run here ───────────────────────────────────────┤
 *    ├─ about a box, or another process's: call_promise: INTENT, then its work ───────────┤
 *    └─ QUEUED in its session ─┬─ a look that serve can take itself (call_look.c) ──────────┤
 *                              └─ call_send: INTENT, CALL ── RUNNING ── RESULT from init ── STORING (blobs) ──┤
 *                                                                                        finish: RESULT or STEP
 *                                                                                        in the journal (sync)
 *                                                                                                  │
 *                                                                                        DONE: answers leave
 *
 * Answers always leave from the loop's end of turn, never from inside a state change: whoever is told may start
 * further calls, and finds everything in order. */
#include "session/call.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/limits.h"
#include "base/log.h"
#include "session/call_parts.h"
#include "session/link.h"
#include "session/origin.h"
#include "session/record.h"
#include "session/remote.h"
#include "session/secret_stream.h"
#include "session/state.h"
#include "store/recorder_client.h"

enum {
    BACKSTOP_MS = 10000, /* how long init may be late with a timed-out result */
    EXPECT_US = 400,     /* a shell's builtin takes about half of it */
    DISK_UNIT = 4096,    /* sizes of disks are rounded up to pages */
    LOOK_US = 20000,     /* what the kernel counted is looked at again when a call begins, unless that was just done */
};

struct call *call_find(struct node *n, uint64_t id)
{
    return map_get(&n->calls, call_id_key(&id));
}

struct box *call_chosen(const struct call *c)
{
    struct box *b = c->chosen[0] ? box_find(c->node, str_of(c->chosen)) : NULL;

    return b && b->state != BOX_CLOSING ? b : NULL;
}

/* --- the way back from the box --- */

static void print_fields(const struct call *c, const void *result, struct buf *out)
{
    struct jw w = { .out = out };

    buf_init(out, LIMIT_RECORD);
    jw_obj(&w);
    field_print(c->tool->result, result, &w);
    jw_obj_end(&w);
}

bool call_print_result(struct call *c, const void *result)
{
    print_fields(c, result, &c->out);
    if (c->out.full) {
        c->outcome = OUTCOME_INFRA_ERROR;
        c->error = ERR_LIMIT;
        c->message = STR("the result exceeds LIMIT_RECORD");
        return false;
    }
    c->data = buf_view(&c->out);
    return true;
}

static const struct field *field_named(const struct field *f, const char *name, enum field_type type)
{
    for (; f && f->name; f++)
        if (f->type == type && strcmp(f->name, name) == 0)
            return f;
    return NULL;
}

static void *member(const struct field *fields, void *result, const char *name, enum field_type type)
{
    const struct field *f = field_named(fields, name, type);

    return f ? (char *)result + f->offset : NULL;
}

/* What may be the beginning of a value waits until that is decided, or its program is over; but for the last letters of
 * what may be a prompt. */
static size_t held_of(const struct call *c, struct str s, bool settled)
{
    size_t n = secrets_begun(c->node->secrets, c->tenant, s);

    return settled && n <= WIRE_HELD_SHORT ? 0 : n;
}

/* A piece of an output that goes on ends before what may be the beginning of a secret's value: that comes whole with
 * the next piece. */
static int64_t hold_back_of(struct call *c, void *result, const char *const names[3], bool settled)
{
    struct str *s = member(c->tool->result, result, names[0], FIELD_STR);
    int64_t *end = member(c->tool->result, result, names[1], FIELD_INT);
    struct str *prompt = member(c->tool->result, result, "prompt", FIELD_STR);

    if (!end)
        end = member(c->tool->result, result, names[2], FIELD_INT);
    size_t n = s && end ? held_of(c, *s, settled) : 0;
    if (!n)
        return 0;
    if (prompt && prompt->n && prompt->n <= s->n && memcmp(prompt->p, s->p + s->n - prompt->n, prompt->n) == 0)
        prompt->n -= n < prompt->n ? n : prompt->n;
    s->n -= n;
    *end -= (int64_t)n;
    return (int64_t)n;
}

/* The same of what is told from its beginning each time. A newline at its end may be of whoever printed it. */
static void hold_back_text(const struct call *c, struct str *s, bool settled)
{
    size_t n = s ? held_of(c, *s, settled) : 0;

    if (!n && s && s->n && s->p[s->n - 1] == '\n') {
        n = held_of(c, (struct str){ s->p, s->n - 1 }, settled);
        n += n > 0;
    }
    if (n)
        s->n -= n;
}

static void hold_back_whole(const struct call *c, void *result, bool settled)
{
    const struct field *f = field_named(c->tool->result, "console", FIELD_ROWS);
    struct rows *rows = f ? (void *)((char *)result + f->offset) : NULL;

    hold_back_text(c, member(c->tool->result, result, "output", FIELD_STR), settled);
    if (rows && rows->n)
        hold_back_text(c, member(f->rows, (char *)rows->v + (rows->n - 1) * f->row_size, "output", FIELD_STR), settled);
}

static void hold_back(struct call *c, int64_t flows, void *result)
{
    static const char *const out[] = { "stdout", "offset", "stdout_bytes" }, *const err[] = { "stderr", "stderr_offset",
                                                                                              "stderr_bytes" };
    struct wire_held held = {
        .out = flows & WIRE_FLOWS_OUT ? hold_back_of(c, result, out, flows & WIRE_SETTLED_OUT) : 0,
        .err = flows & WIRE_FLOWS_ERR ? hold_back_of(c, result, err, flows & WIRE_SETTLED_ERR) : 0,
    };

    if (flows & WIRE_FLOWS_WHOLE)
        hold_back_whole(c, result, flows & WIRE_SETTLED_WHOLE);
    if ((held.out || held.err) && c->box)
        link_held(c->box->link, c->id, &held);
}

static void print_data(struct call *c, const struct wire_result *r)
{
    void *result = arena_alloc(&c->arena, c->tool->result_size + 1);
    struct err e;

    if (r->result.n == 0 && c->outcome != OUTCOME_OK) /* of a success, it says that every list is empty */
        return;
    if (field_unpack(c->tool->result, r->result, &c->arena, result, c->tool->result_size, &e) < 0) {
        c->outcome = OUTCOME_INFRA_ERROR;
        c->error = ERR_SYSTEM;
        c->message = str_of(arena_printf(&c->arena, "the box answered garbage: %s", e.msg));
        return;
    }
    for (const struct field *f = c->tool->result; f && f->name; f++)
        if (f->session)
            *(struct str *)((char *)result + f->offset) = c->session ? str_of(c->session->name) : (struct str){ 0 };
    hold_back(c, r->flows, result);
    if (!call_print_result(c, result))
        return;
    if (call_keep_fields(c, result)) {
        struct buf short_one;
        print_fields(c, result, &short_one);
        c->logged = arena_copy(&c->arena, buf_view(&short_one));
        buf_done(&short_one);
    }
}

static uint64_t events_of(const struct box *b, int gauge, const char *key)
{
    int64_t n = gauge_read(b->gauges[gauge], key);

    return n > 0 ? (uint64_t)n : 0;
}

void call_known_gauges(struct call *c)
{
    const struct box *b = c->box;

    c->unenforced = b->unenforced;
    c->peak_bytes = b->peak_bytes;
    c->pids_peak = b->pids_peak;
    c->disk_used_bytes = b->disk_used_bytes;
}

/* The kernel's counters tell what init cannot: a kill by the memory limit, a fork refused by the pids limit. */
static void read_gauges(struct call *c)
{
    struct box *b = c->box;

    if (tool_only_looks(c->tool)) {
        call_known_gauges(c);
        return;
    }
    c->unenforced = b->unenforced;
    int64_t cpu = gauge_cpu_us(b);
    if (cpu >= 0 && c->cpu_before >= 0)
        c->cpu_us = cpu - c->cpu_before;
    b->peak_bytes = c->peak_bytes = gauge_read(b->gauges[GAUGE_MEMORY_PEAK], "");
    if (b->peak_bytes > b->peak_max_bytes)
        b->peak_max_bytes = b->peak_bytes;
    c->pids_peak = gauge_pids_peak(b);
    b->disk_used_bytes = c->disk_used_bytes;
    uint64_t oom = events_of(b, GAUGE_MEMORY_EVENTS, "oom_kill "), pids = events_of(b, GAUGE_PIDS_EVENTS, "max ");
    const char *why = NULL;
    if (oom > b->oom_seen && c->outcome != OUTCOME_OK) {
        c->outcome = OUTCOME_OOM;
        why =
            arena_printf(&c->arena,
                         "the kernel killed a process: programs and files of the box together reached %lld bytes, its "
                         "limits of memory (%lld) and disk (%lld)",
                         (long long)(b->spec.memory_bytes + b->spec.disk_bytes), (long long)b->spec.memory_bytes,
                         (long long)b->spec.disk_bytes);
    } else if (pids > b->pids_seen &&
               (c->outcome == OUTCOME_OK || c->outcome == OUTCOME_TASK_ERROR || c->outcome == OUTCOME_TIMEOUT)) {
        c->outcome = OUTCOME_PID_LIMIT;
        why = arena_printf(
            &c->arena,
            "while this call ran a process could not be started: the box reached its limit (%lld processes, "
            "those of other calls and in the background among them)",
            (long long)b->spec.pids);
    } else if (c->outcome == OUTCOME_DISK_FULL) {
        why = arena_printf(&c->arena, "no space is left: the box may write %lld bytes, and %lld into /dev/shm",
                           (long long)b->spec.disk_bytes, (long long)b->spec.shm_bytes);
    }
    if (why)
        c->message = str_of(c->message.n ? arena_printf(&c->arena, "%s; %.*s", why, STR_ARG(c->message)) : why);
    b->oom_seen = oom;
    b->pids_seen = pids;
    b->looked_us = now_us();
}

static void on_step_state(void *arg, const struct state *s, const struct err *e)
{
    struct call *c = arg;

    if (s)
        snprintf(c->state_id, sizeof c->state_id, "%s", s->id);
    else
        log_warn("state of a step not kept", "box=%s step=%lld error='%s'", c->box_id, (long long)c->step, e->msg);
    call_finish(c);
}

/* The answer waits for the sealed difference: whoever reads it can fork from this very step. */
static void keep_state(struct call *c)
{
    struct box *b = c->box_id[0] ? box_find(c->node, str_of(c->box_id)) : NULL;

    if (!b || !b->step_states || c->silent || c->temporary || c->tool->flags & TOOL_READ_ONLY ||
        b->state != BOX_RUNNING) {
        call_finish(c);
        return;
    }
    call_leave_session(c); /* so that its shell can be asked; what waits is held back until the state is sealed */
    state_take(b, (struct str){ 0 }, &(struct moment){ c->trajectory->id, c->step, 0 }, on_step_state, c);
}

void call_stream(struct call *c, int take_fd)
{
    if (c->state == CALL_RUNNING && c->stream_arg && c->request.on_stream)
        c->request.on_stream(TAKE_PTR(c->stream_arg), take_fd);
    else
        close(take_fd);
}

/* A box's word for it is taken within its limit only; where that is not enforced, its disk is somebody else's, too. */
static bool disk_can_be(const struct box *b, int64_t used_bytes)
{
    return used_bytes >= 0 && used_bytes < b->spec.disk_bytes + DISK_UNIT && !(b->unenforced & BOX_CAN_DISK);
}

void call_result(struct call *c, const struct wire_result *r, const int *take_fds)
{
    c->outcome = r->outcome >= 0 && r->outcome < OUTCOME_COUNT ? (enum outcome)r->outcome : OUTCOME_INFRA_ERROR;
    c->error = r->error >= 0 && r->error <= ERR_SYSTEM ? (enum err_code)r->error : ERR_SYSTEM;
    c->sys = r->sys > 0 && r->sys < 4096 ? (int)r->sys : 0;
    if (r->message.n)
        c->message = arena_copy(&c->arena, (struct str){ r->message.p, r->message.n < 1024 ? r->message.n : 1024 });
    c->run_us = c->box->last_run_us = now_us() - c->sent_us;
    c->cpu_us = r->cpu_us;
    c->dropped_bytes = r->dropped_bytes > 0 ? r->dropped_bytes : 0;
    if (disk_can_be(c->box, r->disk_used_bytes))
        c->disk_used_bytes = r->disk_used_bytes;
    call_keep(c, STR("stdout"), NULL, secrets_redact_fd(c->node->secrets, c->tenant, take_fds[0]));
    call_keep(c, STR("stderr"), NULL, secrets_redact_fd(c->node->secrets, c->tenant, take_fds[1]));
    if (c->cancelled && c->outcome != OUTCOME_OK)
        c->outcome = c->unwanted ? OUTCOME_KILLED : OUTCOME_TIMEOUT;
    c->blameless = c->outcome == OUTCOME_TIMEOUT && c->box->still_us >= c->sent_us;
    print_data(c, r);
    call_keep_pictures(c, r);
    if (c->outcome == OUTCOME_OK && strcmp(c->tool->name, "system:hook") == 0)
        c->box->hooked = true;
    if (c->outcome == OUTCOME_OK && strcmp(c->tool->name, "browser:restart") == 0)
        box_restarted_browser(c->box, c->params);
    read_gauges(c);
    call_await_store(c);
    call_store(c, keep_state);
}

/* --- the way into the box --- */

static void charge(struct call *c)
{
    struct box *b = c->box;

    if (tool_only_looks(c->tool))
        return;
    c->cpu_before = gauge_cpu_us(b);
    if (b->running_count > 1)
        return;
    if (b->gauges[GAUGE_MEMORY_PEAK] >= 0)
        (void)!pwrite(b->gauges[GAUGE_MEMORY_PEAK], "0", 1, 0); /* the peak of this call, not of the box's life */
    /* What came between two calls was done by neither, but by something in the background. Between two that follow each
     * other closely there is no time for much, and calls of a shell's builtins come so. */
    if (now_us() - b->looked_us < LOOK_US)
        return;
    b->oom_seen = events_of(b, GAUGE_MEMORY_EVENTS, "oom_kill ");
    b->pids_seen = events_of(b, GAUGE_PIDS_EVENTS, "max ");
}

void call_send(struct call *c)
{
    struct node *n = c->node;
    struct session *s = c->session;
    struct err e;

    c->box = s->box;
    snprintf(c->box_id, sizeof c->box_id, "%s", c->box->id);
    c->state = CALL_RUNNING;
    c->queued_us = now_us() - c->arrived_us;
    if (!c->silent)
        c->step = ++c->trajectory->steps;
    origin_fill(c->box, c->tool, &c->arena, c->bound);
    if (call_look(c))
        return;
    if (c->backend->interprets && !c->silent && !(c->tool->flags & TOOL_READ_ONLY))
        c->box->carried.interpreted = true;
    buf_init(&c->packed, LIMIT_FRAME);
    field_pack(c->tool->params, c->bound, &c->packed);
    if (c->packed.full)
        err_set(&e, ERR_LIMIT, "the parameters exceed LIMIT_FRAME (%ld bytes)", LIMIT_FRAME);
    if (c->packed.full ||
        (!c->silent && record_intent(c, &e) < 0)) {  /* invariant 1: what is not in the log does not run */
        call_fail(c, OUTCOME_INFRA_ERROR, &e, true); /* now: who ends its session does not find it anywhere */
        return;
    }
    c->sent_us = now_us();
    c->deadline_ms = c->timeout_ms ? now_ms() + c->timeout_ms + BACKSTOP_MS : 0;
    c->next = c->box->running;
    c->box->running = c;
    c->box->running_count++;
    map_put(&n->calls, call_id_key(&c->id), c);
    charge(c);
    call_commit_later(c, COMMIT_SEND);
}

void call_send_recorded(struct call *c)
{
    if (c->tool->flags & TOOL_REMOTE) {
        remote_send(c);
        return;
    }
    if (c->tool->flags & TOOL_ON_BOX) {
        box_tool_run(c);
        return;
    }
    struct node *n = c->node;
    /* one client; a wake would take as long as the call */
    int expect_us = n->calls.count == 1 && c->box->last_run_us < EXPECT_US ? EXPECT_US : 0;
    struct wire_call wire = {
        .tool = str_of(c->tool->name),
        .session = c->session && c->session->own_shell ? str_of(c->session->id) : STR(""),
        .timeout_ms = c->timeout_ms,
        .head_bytes =
            c->silent ? LIMIT_SHELL_STATE : n->opts.output_head, /* what a shell says of itself is taken whole */
        .tail_bytes = n->opts.output_tail,
        .kept_bytes = n->opts.output_kept,
        .expect_us = c->box->last_run_us ? expect_us : 0, /* of a first call nothing is known */
        .params = buf_view(&c->packed),
    };
    if (c->box->up) /* else the link broke in this turn: init, asked again, will not know the call, and it fails */
        link_call(c->box->link, c->id, &wire);
    if (c->unwanted) /* in the turn in which it began: init did not know it yet */
        link_cancel(c->box->link, c->id);
    if (expect_us)
        loop_expect(n->loop, expect_us);
    buf_done(&c->packed);
    buf_init(&c->packed, LIMIT_FRAME);
}

static struct call *find_waiting(struct node *n, uint64_t id)
{
    struct worker *w;

    for (size_t i = 0; (w = map_next(&n->workers, &i));)
        for (struct call *c = w->live; c; c = c->next_of_worker)
            if (c->id == id && c->state == CALL_QUEUED)
                return c;
    return NULL;
}

size_t calls_awaited(const struct node *n)
{
    struct worker *w;
    size_t count = 0;

    for (size_t i = 0; (w = map_next(&n->workers, &i));)
        for (struct call *c = w->live; c; c = c->next_of_worker)
            count += c->waiters && !c->silent && !str_is(c->request.surface, CALL_FOR_THE_SERVER);
    return count;
}

void call_cancel(struct node *n, uint64_t id)
{
    struct call *c = call_find(n, id);
    struct err e;

    if (c && c->state == CALL_RUNNING && c->box && !c->cancelled) {
        c->cancelled = c->unwanted = true;
        c->deadline_ms = now_ms() + BACKSTOP_MS;
        link_cancel(c->box->link, c->id);
        return;
    }
    remote_cancel(n, id);
    c = find_waiting(n, id);
    if (c) {
        err_set(&e, ERR_NONE, "cancelled by its caller before it ran");
        call_fail(c, OUTCOME_KILLED, &e, true);
    }
}

/* Init kills at the deadline. If it does not answer in time, it is asked once more, then the box is given up. */
void call_cancel_backstop(struct node *n, int64_t now)
{
    struct call *c;

    for (size_t i = 0; (c = map_next(&n->calls, &i));) {
        if (c->state != CALL_RUNNING || !c->deadline_ms || c->deadline_ms > now || c->box->state == BOX_PAUSED)
            continue;
        if (!c->cancelled) {
            c->cancelled = true;
            c->deadline_ms = now + BACKSTOP_MS;
            link_cancel(c->box->link, c->id);
        } else {
            log_warn("box does not answer", "box=%s call=%lu, destroying it", c->box_id, (unsigned long)c->id);
            box_close(c->box, "unresponsive", NULL, NULL);
            return; /* the list has changed; the rest is for the next sweep */
        }
    }
}

/* --- beginning --- */

static void run_here(struct call *c)
{
    void *result = arena_alloc(&c->arena, c->tool->result_size + 1);
    struct session *s = c->worker ? session_find(c->worker, c->backend) : NULL;
    struct tool_env env = { .arena = &c->arena, .worker = c->worker_id };
    struct err e = { 0 };

    if (s) {
        env.session_id = str_of(s->id);
        env.session_state = s->state;
        snprintf(c->session_id, sizeof c->session_id, "%s", s->id);
        session_touch(s);
    }
    field_defaults(c->tool->result, result, c->tool->result_size);
    int64_t begin = now_us();
    c->queued_us = begin - c->arrived_us;
    int r = c->tool->run(&env, c->bound, result, &e);
    c->run_us = now_us() - begin;
    if (r < 0) {
        bool theirs = e.code == ERR_INVALID || e.code == ERR_MISSING || e.code == ERR_TYPE || e.code == ERR_LIMIT;
        call_fail(c, theirs ? OUTCOME_INVALID_REQUEST : OUTCOME_TASK_ERROR, &e, false);
        return;
    }
    if (call_print_result(c, result))
        c->outcome = OUTCOME_OK;
    call_finish(c);
}

static int enqueue(struct call *c, struct box *box, struct err *e)
{
    struct session *s = session_find(c->worker, c->backend);
    int r = 0;

    if (!s) {
        c->temporary = !box;
        r = session_open(c->worker, &(struct session_ask){ .backend = c->backend, .temporary = !box, .box = box }, &s,
                         e);
        if (r < 0)
            return r;
    }
    if (s->queued >= LIMIT_CALLS_QUEUED)
        return err_set(e, ERR_BUSY, "session %s: LIMIT_CALLS_QUEUED (%d) calls are waiting", s->id, LIMIT_CALLS_QUEUED);
    c->session = s;
    snprintf(c->session_id, sizeof c->session_id, "%s", s->id);
    c->state = CALL_QUEUED;
    s->queued++;
    *s->queue_last = c;
    s->queue_last = &c->next;
    session_next(s);
    return 0;
}

int call_warm_up(struct node *n, const struct backend *b, struct err *e)
{
    if (!b->warm || map_get(&n->warm, str_of(b->name)))
        return 0;
    int r = b->warm(e);
    if (r < 0)
        return err_wrap(e, r, "warm-up of %s", b->name);
    map_put(&n->warm, str_of(b->name), (void *)b);
    return 0;
}

/* A client that lost patience sends the same call again without a key, while the first one still runs and nobody
 * waits for it any more: it is that call's answer that it wants. Two callers who both wait are two calls. */
static struct call *find_abandoned(const struct call *c)
{
    for (struct call *o = c->worker->live; o; o = o->next_of_worker) {
        bool same = o->tool == c->tool && !o->key.p && o->state != CALL_DONE && str_eq(o->params, c->params);
        for (const struct call_waiter *w = o->waiters; w && same; w = w->next)
            same = w->abandoned && w->abandoned(w->arg);
        if (same)
            return o;
    }
    return NULL;
}

void call_proceed(struct call *c)
{
    struct box *box = call_chosen(c);
    struct err e;

    c->state = CALL_NEW;
    c->worker->last_us = c->started_wall_us;
    if (c->chosen[0] && !box) {
        err_set(&e, ERR_NOT_FOUND, "box %s does not exist (any more)", c->chosen);
        call_fail(c, OUTCOME_INVALID_REQUEST, &e, false);
        return;
    }
    if (call_warm_up(c->node, c->backend, &e) < 0) {
        call_fail(c, OUTCOME_INFRA_ERROR, &e, true);
        return;
    }
    if (c->tool->flags & TOOL_ON_BOX) {
        box_tool_start(c);
        return;
    }
    if (c->tool->flags & TOOL_ON_LOG) {
        log_tool_start(c);
        return;
    }
    if (c->tool->flags & TOOL_REMOTE) {
        remote_call(c);
        return;
    }
    if (!(c->tool->flags & TOOL_NEEDS_BOX)) {
        run_here(c);
        return;
    }
    struct call *twin = c->key.p || c->tool->flags & TOOL_STREAM ? NULL : find_abandoned(c);
    if (twin) {
        call_join(c, twin);
        return;
    }
    c->next_of_worker = c->worker->live;
    c->worker->live = c;
    if (enqueue(c, box, &e) < 0) {
        bool ours = e.code == ERR_SYSTEM || e.code == ERR_BUSY;
        call_fail(c, ours ? OUTCOME_INFRA_ERROR : OUTCOME_INVALID_REQUEST, &e, true);
    }
}

static int check_trajectory(struct str id, struct err *e)
{
    for (size_t i = 0; i < id.n; i++)
        if (!id.p[i] || !strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:-", id.p[i]))
            return err_set(e, ERR_INVALID, "trajectory_id: only letters, digits and . _ : - are allowed");
    if (id.n > LIMIT_TRAJECTORY_ID)
        return err_set(e, ERR_LIMIT, "trajectory_id: %zu bytes exceed LIMIT_TRAJECTORY_ID (%d)", id.n,
                       LIMIT_TRAJECTORY_ID);
    return 0;
}

/* The call belongs to a trajectory from here on: whatever becomes of it is a step. */
static void enter(struct call *c, int64_t steps_before)
{
    struct worker *w = c->worker;
    struct str name = c->request.trajectory.n ? c->request.trajectory : (struct str){ 0 };
    struct err e;

    bool fresh = (!w->trajectory || (name.p && !str_is(name, w->trajectory->id))) && steps_before == 0 &&
                 !trajectory_find(w->node, w->tenant, name);
    if (fresh && tenant_take_trajectory(c->tenant, &e) < 0) {
        call_fail(c, OUTCOME_INFRA_ERROR, &e, true);
        return;
    }
    if (!w->trajectory)
        w->trajectory = trajectory_use(w->node, w->tenant, name, steps_before);
    else if (name.p && !str_is(name, w->trajectory->id))
        worker_set_trajectory(w, trajectory_use(w->node, w->tenant, name, steps_before));
    c->trajectory = w->trajectory;
    c->trajectory->users++;
    if (call_bind(c, &c->request, &e) < 0)
        c->bind_error = e;
    c->key = c->request.key.n ? c->request.key : (struct str){ 0 };
    c->map_key = tenant_key(c->tenant, c->key, &c->arena);
    if ((c->request.forward || w->forward) && call_forward(c))
        return;
    if (c->bind_error.code) {
        c->key = (struct str){ 0 };
        call_fail(c, OUTCOME_INVALID_REQUEST, &e, false);
        return;
    }
    if (c->key.p && call_use_key(c))
        return;
    call_proceed(c);
}

static void on_trajectory(void *arg, const struct answer *a)
{
    struct call *c = arg;
    struct json *row = NULL;
    struct err e;

    if (a->error == 0 && json_parse(&c->arena, a->json, &row, &e) < 0)
        row = NULL;
    enter(c, json_get_int(row, "last_step", 0));
}

struct call *call_new(struct node *n)
{
    struct call *c = calloc(1, sizeof *c);

    if (!c)
        abort();
    c->node = n;
    c->arrived_us = now_us();
    c->started_wall_us = wall_us();
    c->id = node_call_id(n);
    c->pids_peak = c->disk_used_bytes = -1;
    return c;
}

uint64_t call_start(struct node *n, const struct call_request *r, on_call_done *cb, void *arg)
{
    struct call *c = call_new(n);
    uint64_t id = c->id; /* it may be over, and gone, when we return */
    struct err e;

    c->request = *r;
    c->tenant = r->tenant ? r->tenant : n->tenant;
    c->surface = r->surface;
    c->worker_id = r->worker;
    c->action = r->action;
    c->trace = r->trace;
    c->request_id = r->request_id;
    c->parent = r->parent;
    c->params = r->params ? secrets_redact(n->secrets, c->tenant, r->params->raw, SECRET_JSON, &c->arena) : STR("{}");
    if (r->box)
        memcpy(c->chosen, r->box->id, sizeof c->chosen);
    c->stream_arg = arg;
    call_wait(c, cb, arg);
    c->worker = worker_get(n, c->tenant, r->worker, &e);
    if (!c->worker) {
        call_fail(c, OUTCOME_INVALID_REQUEST, &e, false);
        return id;
    }
    c->worker->calls++;
    if (r->worker.p) /* which may be the name of a box, as the box has it */
        c->worker_id = c->request.worker = str_of(c->worker->id);
    if (tenant_take_call(c->tenant, c->arrived_us, &e) < 0) {
        call_fail(c, OUTCOME_INFRA_ERROR, &e, true);
        return id;
    }
    if (r->box_gone) {
        err_set(&e, ERR_NOT_FOUND, "box %.*s does not exist (any more)", STR_ARG(c->worker_id));
        call_fail(c, OUTCOME_INVALID_REQUEST, &e, false);
        return id;
    }
    c->request.trajectory = forward_name(c->worker, r->trajectory);
    r = &c->request;
    if (check_trajectory(r->trajectory, &e) < 0) {
        call_fail(c, OUTCOME_INVALID_REQUEST, &e, false);
        return id;
    }
    if (r->trajectory.n && !trajectory_find(n, c->tenant, r->trajectory)) { /* it may be in the log already */
        struct query q = { .op = STR("trajectory"),
                           .id = r->trajectory,
                           .tenant = str_of(c->tenant->name),
                           .upto = (int64_t)journal_end(n->journal) };
        c->state = CALL_LOOKUP;
        recorder_ask(n->recorder, &q, -1, on_trajectory, c);
        return id;
    }
    enter(c, 0);
    return id;
}

struct call *call_resume(struct node *n, const struct json *intent, struct box *b)
{
    struct call *c = call_new(n);
    struct str text = json_get_str(intent, "tool");
    struct err e;

    c->tool = tool_find(text, &c->backend);
    if (!c->tool && text.n)
        c->tool = remote_gone(text, &c->backend);
    c->worker_id = arena_copy(&c->arena, json_get_str(intent, "worker"));
    c->tenant = tenant_get(n, json_get_str(intent, "tenant"), &e);
    c->worker = c->tenant ? worker_get(n, c->tenant, c->worker_id, &e) : NULL;
    text = json_get_str(intent, "trajectory");
    if (!c->tool || !c->worker || !text.p) {
        call_free(c);
        return NULL;
    }
    c->worker->calls++;
    c->trajectory = trajectory_use(n, c->tenant, text, json_get_int(intent, "step", 1));
    c->id = (uint64_t)json_get_int(intent, "call", 0);
    c->step = json_get_int(intent, "step", 0);
    const struct json *params = json_get(intent, "params");
    c->params = params ? arena_copy(&c->arena, params->raw) : STR("{}");
    c->next_of_worker = c->worker->live;
    c->worker->live = c;
    c->resumed = true;
    c->surface = arena_copy(&c->arena, json_get_str(intent, "surface"));
    c->trace = arena_copy(&c->arena, json_get_str(intent, "trace"));
    c->request_id = arena_copy(&c->arena, json_get_str(intent, "request"));
    c->started_wall_us = json_get_int(intent, "time", c->started_wall_us);
    int64_t age = wall_us() - c->started_wall_us; /* times count from the beginning, not from our own */
    c->arrived_us -= age > 0 ? age : 0;
    c->sent_us = c->arrived_us;
    c->state = CALL_RUNNING;
    c->cpu_before = -1;
    c->temporary = json_get_bool(intent, "temporary", false);
    text = json_get_str(intent, "session");
    snprintf(c->session_id, sizeof c->session_id, "%.*s", STR_ARG(text));
    text = json_get_str(intent, "box");
    snprintf(c->box_id, sizeof c->box_id, "%.*s", STR_ARG(text));
    text = json_get_str(intent, "key");
    if (text.p) {
        c->key = arena_copy(&c->arena, text);
        text = json_get_str(intent, "key_hash");
        snprintf(c->key_hash, sizeof c->key_hash, "%.*s", STR_ARG(text));
        c->map_key = tenant_key(c->tenant, c->key, &c->arena);
        map_put(&n->keys, c->map_key, c);
    }
    map_put(&n->calls, call_id_key(&c->id), c);
    if (b && c->tool->flags & TOOL_NEEDS_BOX) {
        c->box = b;
        c->next = b->running;
        b->running = c;
        b->running_count++;
    }
    c->session = session_find(c->worker, c->backend);
    if (c->session) { /* later calls wait for it, as before */
        c->session->running++;
        c->session->running_alone += !(c->tool->flags & TOOL_PARALLEL);
    }
    return c;
}

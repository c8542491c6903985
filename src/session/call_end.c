/* How a call ends: it leaves whom it kept waiting, what came of it is recorded, and then who waits for it is told. Records are
 * written once for all calls of a turn of the loop. */
#include <stdlib.h>

#include "base/auto.h"
#include "session/call_parts.h"
#include "session/link.h"
#include "session/record.h"
#include "store/recorder_client.h"

/* AgentFlow's wire codes. A command that ran and failed is a success of the call: code 0. */
static int code_of(const struct call *c)
{
    switch (c->outcome) {
    case OUTCOME_OK:
    case OUTCOME_EGRESS_DENIED: return 0;
    case OUTCOME_TASK_ERROR:
        if (c->tool && (c->tool->flags & TOOL_STRICT))
            return 5000;
        return c->data.p ? 0 : 4001;
    case OUTCOME_OOM:
    case OUTCOME_DISK_FULL:
    case OUTCOME_PID_LIMIT: return c->data.p ? 0 : 4001;
    case OUTCOME_KILLED: return c->data.p ? 0 : 4007;
    case OUTCOME_TIMEOUT: return 5006;
    case OUTCOME_BOX_LOST: return 4007;
    case OUTCOME_INFRA_ERROR:
        if (c->error == ERR_BUSY)
            return 5011;
        return c->session_id[0] && !c->box_id[0] ? 4007 : 5013; /* 4007: its session never came up */
    case OUTCOME_INVALID_REQUEST:
        if (c->error == ERR_INVALID && c->sent_us) /* it is not the request that is wrong, the tool refused a value */
            return 4000;
        return c->error == ERR_MISSING ? 4003 : c->error == ERR_TYPE ? 4004 : c->error == ERR_LIMIT ? 4000 : 4002;
    case OUTCOME_COUNT: break;
    }
    return 5013;
}

void call_free(struct call *c)
{
    call_keep_nothing(c);
    for (struct call_waiter *w = c->waiters, *next; w; w = next) {
        next = w->next;
        free(w);
    }
    buf_done(&c->out);
    buf_done(&c->packed);
    trajectory_drop(c->node, c->trajectory);
    arena_done(&c->arena);
    free(c);
}

static void deliver(void *arg)
{
    struct call *c = arg;

    c->state = CALL_DONE;
    if (c->node->on_step && c->step && !c->replayed)
        c->node->on_step(c->node->arg, c);
    struct call_waiter *w = c->waiters;
    c->waiters = NULL;
    for (struct call_waiter *next; w; w = next) {
        next = w->next;
        w->cb(w->arg, c);
        free(w);
    }
    if (c->key.p && map_get(&c->node->keys, c->map_key) == c)
        map_del(&c->node->keys, c->map_key);
    if (c->worker)
        c->worker->calls--;
    call_free(c);
}

void call_wait(struct call *c, on_call_done *cb, void *arg)
{
    struct call_waiter *w = malloc(sizeof *w);

    if (!w)
        abort();
    *w = (struct call_waiter){ .next = c->waiters, .cb = cb, .arg = arg, .abandoned = c->request.abandoned };
    c->waiters = w;
}

/* The call ends here; those who wait for its answer get the other's. */
void call_join(struct call *c, struct call *other)
{
    struct call_waiter *w = c->waiters;

    c->waiters = NULL;
    w->next = other->waiters;
    other->waiters = w;
    c->worker->calls--;
    call_free(c);
}

/* --- ending --- */

static void acknowledge(struct call *c)
{
    struct box *b = c->box_id[0] ? box_find(c->node, str_of(c->box_id)) : NULL;

    if (b && c->sent_us && c->tool->flags & TOOL_NEEDS_BOX)
        link_ack(b->link, c->id);
}

static void on_synced(void *arg, const struct answer *a)
{
    struct call *c = arg;

    (void)a; /* the client asks again until recorder answers: there is no failure to handle here */
    acknowledge(c);
    deliver(c);
}

/* A call is in one of these lists at a time, so they share its next. */
static bool leave_list(struct call **list, struct call *c)
{
    while (*list && *list != c)
        list = &(*list)->next;
    if (!*list)
        return false;
    *list = c->next;
    c->next = NULL;
    return true;
}

static void leave_box(struct call *c)
{
    struct box *b = c->box;

    if (b && leave_list(&b->running, c))
        b->running_count--;
    c->box = NULL;
}

void call_await_store(struct call *c)
{
    struct session *s = c->session;

    leave_box(c); /* from here on the box may go: the result is ours */
    c->state = CALL_STORING;
    if (!s)
        return;
    c->next = s->storing;
    s->storing = c;
}

static void leave_worker(struct call *c)
{
    for (struct call **p = c->worker ? &c->worker->live : NULL; p && *p; p = &(*p)->next_of_worker)
        if (*p == c) {
            *p = c->next_of_worker;
            break;
        }
    c->next_of_worker = NULL;
}

void call_leave_session(struct call *c)
{
    struct session *s = c->session;

    if (!s)
        return;
    if (c->state == CALL_QUEUED) {
        struct call **p = &s->queue;
        while (*p != c)
            p = &(*p)->next;
        *p = c->next;
        if (!*p)
            s->queue_last = p;
        c->next = NULL;
        s->queued--;
    } else {
        (void)leave_list(&s->storing, c);
        s->running--;
        s->running_alone -= !(c->tool->flags & TOOL_PARALLEL);
    }
    c->session = NULL;
    session_touch(s);
    s->over = true;
    session_pump(s); /* its next call */
}

/* Not recorded means not answered as done: init keeps the result, and the next serve records it. */
static void not_recorded(struct call *c, const struct err *e)
{
    c->outcome = OUTCOME_INFRA_ERROR;
    c->retry_safe = c->sent_us == 0;
    c->error = e->code;
    c->message = str_of(arena_printf(&c->arena, "the step could not be recorded: %s", e->msg));
    c->data = c->logged = (struct str){ 0 };
    c->trainable = false;
    c->code = code_of(c);
}

/* One that was to be sent and ended before it was keeps its place. */
void call_commit_later(struct call *c, enum call_commit what)
{
    struct node *n = c->node;

    if (c->commit == COMMIT_NOTHING) {
        *(n->commits ? n->commits_last : &n->commits) = c;
        n->commits_last = &c->next_commit;
    }
    c->commit = what;
}

static void answer_recorded(struct call *c)
{
    if (c->node->opts.durability == DURABILITY_STEP) {
        struct query q = { .op = STR("sync"), .upto = (int64_t)journal_end(c->node->journal) };
        recorder_ask(c->node->recorder, &q, -1, on_synced, c);
        return;
    }
    acknowledge(c);
    deliver(c);
}

int call_promise(struct call *c, struct err *e)
{
    c->state = CALL_RUNNING;
    c->queued_us = now_us() - c->arrived_us;
    c->step = ++c->trajectory->steps;
    int r = record_intent(c, e);
    if (r < 0)
        return r;
    c->sent_us = now_us();
    call_commit_later(c, COMMIT_SEND);
    return 0;
}

void call_commit(void *node)
{
    struct node *n = node;
    struct err e;

    while (n->commits) { /* who is answered may start further calls */
        struct call *list = n->commits;
        n->commits = NULL;
        bool written = journal_flush(n->journal, &e) >= 0;
        for (struct call *c = list, *next; c; c = next) {
            next = c->next_commit;
            c->next_commit = NULL;
            enum call_commit what = c->commit;
            c->commit = COMMIT_NOTHING;
            if (what == COMMIT_SEND && written) {
                call_send_recorded(c);
            } else if (what == COMMIT_SEND) {
                map_del(&n->calls, call_id_key(&c->id));
                c->sent_us = 0;
                call_fail(c, OUTCOME_INFRA_ERROR, &e, true); /* invariant 1: what is not in the log does not run */
            } else if (written) {
                answer_recorded(c);
            } else {
                not_recorded(c, &e);
                deliver(c);
            }
        }
    }
}

/* The outcome is known: record it, then answer. */
void call_finish(struct call *c)
{
    struct err e;
    bool had_intent = c->sent_us != 0;

    leave_worker(c);
    leave_box(c);
    call_leave_session(c);
    if (had_intent)
        map_del(&c->node->calls, call_id_key(&c->id));
    c->state = CALL_STORING;
    c->total_us = now_us() - c->arrived_us;
    c->trainable = outcome_trainable(c->outcome) && !c->request.by_hand && !c->blameless;
    if (!c->silent && !c->replayed) {
        c->data = secrets_redact(c->node->secrets, c->tenant, c->data, SECRET_JSON, &c->arena);
        if (c->logged.p)
            c->logged = secrets_redact(c->node->secrets, c->tenant, c->logged, SECRET_JSON, &c->arena);
        c->message = secrets_redact(c->node->secrets, c->tenant, c->message, SECRET_PLAIN, &c->arena);
    }
    if (!c->message.p)
        c->message = c->outcome == OUTCOME_OK ? STR("success") : str_of(outcome_name(c->outcome));
    if (!c->replayed) /* as it was recorded */
        c->code = code_of(c);
    if (c->silent)
        acknowledge(c);
    if (c->silent || c->replayed || c->unrecorded ||
        !c->trajectory) { /* no step, recorded before, or refused before it was anyone's */
        loop_later(c->node->loop, deliver, c);
        return;
    }
    if (!c->step)
        c->step = ++c->trajectory->steps;
    if ((had_intent ? record_result(c, &e) : record_step(c, &e)) < 0) {
        not_recorded(c, &e);
        loop_later(c->node->loop, deliver, c);
        return;
    }
    call_commit_later(c, COMMIT_ANSWER);
}

void call_fail(struct call *c, enum outcome o, const struct err *e, bool retry_safe)
{
    c->outcome = o;
    c->error = e->code;
    c->retry_safe = retry_safe;
    c->message = str_of(arena_printf(&c->arena, "%s", e->msg));
    call_finish(c);
}

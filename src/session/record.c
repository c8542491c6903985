#include "session/record.h"

#include "session/call.h"

static void intent_members(const struct call *c, struct jw *w)
{
    jw_kint(w, "call", (int64_t)c->id);
    jw_kz(w, "trajectory", c->trajectory->id);
    jw_kint(w, "step", c->step);
    jw_kint(w, "time", c->started_wall_us);
    if (!c->tenant->is_default)
        jw_kz(w, "tenant", c->tenant->name);
    jw_kstr(w, "worker", c->worker_id);
    jw_kstr(w, "surface", c->surface);
    if (c->tool)
        jw_kz(w, "tool", c->tool->name);
    else
        jw_kstr(w, "tool", c->action);
    jw_kz(w, "resource", c->backend ? c->backend->name : NULL);
    jw_kz(w, "session", c->session_id[0] ? c->session_id : NULL);
    jw_kz(w, "box", c->box_id[0] ? c->box_id : NULL);
    jw_kbool(w, "temporary", c->temporary);
    if (c->key.p) {
        jw_kstr(w, "key", c->key);
        jw_kz(w, "key_hash", c->key_hash);
    }
    if (c->trace.p)
        jw_kstr(w, "trace", c->trace);
    if (c->request_id.p)
        jw_kstr(w, "request", c->request_id);
    jw_kraw(w, "params", c->params);
}

/* Everything but data, which is spliced in between: it may be large and is already JSON. */
static void result_members(const struct call *c, struct jw *w)
{
    jw_kz(w, "outcome", outcome_name(c->outcome));
    jw_kbool(w, "retry_safe", c->retry_safe);
    jw_kbool(w, "trainable", c->trainable);
    jw_kint(w, "code", c->code);
    jw_kstr(w, "message", c->message);
    jw_kint(w, "queued_us", c->queued_us);
    jw_kint(w, "run_us", c->run_us);
    jw_kint(w, "total_us", c->total_us);
    jw_kint(w, "cpu_us", c->cpu_us);
    jw_kint(w, "peak_bytes", c->peak_bytes);
    if (c->pids_peak >= 0)
        jw_kint(w, "pids_peak", c->pids_peak);
    if (c->disk_used_bytes >= 0)
        jw_kint(w, "disk_used_bytes", c->disk_used_bytes);
    jw_kint(w, "dropped_bytes", c->dropped_bytes);
    if (c->blobs.p)
        jw_kraw(w, "blobs", c->blobs);
    if (c->state_id[0])
        jw_kz(w, "state", c->state_id);
    jw_key(w, "data");
}

/* Written at the end of the turn, with those of other calls: call_commit. */
static int append(const struct call *c, enum record_type type, struct err *e)
{
    struct str parts[] = { buf_view(&c->node->scratch), call_logged(c), STR("}") };

    if (c->node->scratch.full)
        return err_set(e, ERR_LIMIT, "a record exceeds LIMIT_RECORD (%ld bytes)", LIMIT_RECORD);
    return journal_add(c->node->journal, type, parts, type == RECORD_INTENT ? 1 : 3, e);
}

int record_intent(const struct call *c, struct err *e)
{
    struct jw w = { .out = &c->node->scratch };

    buf_reset(w.out);
    jw_obj(&w);
    intent_members(c, &w);
    jw_obj_end(&w);
    return append(c, RECORD_INTENT, e);
}

int record_result(const struct call *c, struct err *e)
{
    struct jw w = { .out = &c->node->scratch };

    buf_reset(w.out);
    jw_obj(&w);
    jw_kint(&w, "call", (int64_t)c->id);
    jw_kz(&w, "trajectory", c->trajectory->id);
    if (!c->tenant->is_default)
        jw_kz(&w, "tenant", c->tenant->name);
    jw_kint(&w, "step", c->step);
    jw_kint(&w, "time", wall_us());
    result_members(c, &w);
    return append(c, RECORD_RESULT, e);
}

int record_step(const struct call *c, struct err *e)
{
    struct jw w = { .out = &c->node->scratch };

    buf_reset(w.out);
    jw_obj(&w);
    intent_members(c, &w);
    result_members(c, &w);
    return append(c, RECORD_STEP, e);
}

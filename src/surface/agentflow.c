/* AgentFlow's surface: names and envelopes only. Its 19 endpoints are split over this file (tools), agentflow_batch.c,
 * agentflow_session.c (sessions, lifecycle, init) and agentflow_admin.c; agentflow_model.c reads their bodies. */
#include "surface/agentflow.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/limits.h"
#include "store/journal.h"

int envelope_status(int code)
{
    return code == 0 ? 200 : code >= 4000 && code < 5000 ? 400 : 500;
}

int envelope_code(enum err_code e)
{
    switch (e) {
    case ERR_MISSING: return 4003;
    case ERR_TYPE: return 4004;
    case ERR_LIMIT: return 4000;
    case ERR_INVALID:
    case ERR_EXISTS:
    case ERR_DENIED: return 4002;
    case ERR_NONE:
    case ERR_NOT_FOUND:
    case ERR_BUSY:
    case ERR_SYSTEM: break;
    }
    return 0;
}

/* The session that the call needs could not be started; the contract has words for it. */
static bool is_unstarted(const struct call *c)
{
    return c->outcome == OUTCOME_INFRA_ERROR && c->code == 4007;
}

static void print_meta(const struct call *c, struct jw *w)
{
    static const char *const limits[] = { "memory", "cpu", "pids", "disk" };

    jw_kstr(w, "tool", c->tool ? str_of(c->tool->name) : c->action);
    jw_knum(w, "execution_time_ms", (double)(c->run_us ? c->run_us : c->total_us) / 1000);
    jw_kz(w, "resource_type", c->backend ? c->backend->name : NULL);
    if (c->backend && c->backend->engine)
        jw_kz(w, "engine", c->backend->engine);
    jw_kz(w, "session_id", c->session_id[0] ? c->session_id : NULL);
    jw_kstr(w, "trace_id", c->trace);
    if (c->temporary)
        jw_kbool(w, "temporary_session", true);
    jw_kz(w, "outcome", outcome_name(c->outcome));
    jw_kbool(w, "retry_safe", c->retry_safe);
    jw_kbool(w, "trainable", c->trainable);
    jw_kz(w, "trajectory_id", c->trajectory ? c->trajectory->id : NULL);
    jw_kint(w, "step", c->step);
    jw_kz(w, "box_id", c->box_id[0] ? c->box_id : NULL);
    jw_kint(w, "queued_us", c->queued_us);
    jw_kint(w, "run_us", c->run_us);
    jw_kint(w, "total_us", c->total_us);
    if (c->box_id[0]) {
        jw_kint(w, "cpu_us", c->cpu_us);
        jw_kint(w, "peak_bytes", c->peak_bytes);
        jw_kgauge(w, "pids_peak", c->pids_peak);
        jw_kgauge(w, "disk_used_bytes", c->disk_used_bytes);
    }
    if (c->state_id[0])
        jw_kz(w, "state_id", c->state_id);
    if (c->dropped_bytes)
        jw_kint(w, "dropped_bytes", c->dropped_bytes);
    if (c->blobs.p)
        jw_kraw(w, "blobs", c->blobs);
    if (c->replayed)
        jw_kbool(w, "replayed", true);
    if (c->unenforced) {
        jw_key(w, "unenforced");
        jw_arr(w);
        for (unsigned i = 0; i < 4; i++)
            if (c->unenforced & 1u << i)
                jw_z(w, limits[i]);
        jw_arr_end(w);
    }
}

static void print_data(const struct call *c, struct jw *w)
{
    jw_key(w, "data");
    if (c->outcome == OUTCOME_TIMEOUT) { /* its shape is the contract's; the partial output is ours */
        jw_obj(w);
        jw_knum(w, "timeout", (double)c->timeout_ms / 1000);
        if (c->data.n > 2) { /* the members of the tool's own data */
            jw_raw(w, (struct str){ c->data.p + 1, c->data.n - 2 });
        }
        jw_obj_end(w);
    } else if (c->data.p) {
        jw_raw(w, c->data);
    } else if (is_unstarted(c)) {
        jw_obj(w);
        jw_kz(w, "resource_type", c->backend->name);
        jw_kstr(w, "details", c->message);
        jw_obj_end(w);
    } else if (!c->tool && c->candidates.p) {
        jw_obj(w);
        jw_key(w, "candidates");
        jw_arr(w);
        jw_raw(w, c->candidates);
        jw_arr_end(w);
        jw_obj_end(w);
    } else if (!c->tool && c->error == ERR_NOT_FOUND) {
        jw_obj(w);
        jw_kstr(w, "action", c->action);
        jw_obj_end(w);
    } else {
        jw_null(w);
    }
}

void envelope_print(const struct call *c, struct jw *w)
{
    char text[320];

    jw_kint(w, "code", c->code);
    if (c->outcome == OUTCOME_TIMEOUT) {
        snprintf(text, sizeof text, "Tool execution timed out after %gs", (double)c->timeout_ms / 1000);
        jw_kz(w, "message", text);
    } else if (is_unstarted(c)) {
        snprintf(text, sizeof text, "Resource initialization failed: %.*s", STR_ARG(c->message));
        jw_kz(w, "message", text);
    } else {
        jw_kstr(w, "message", c->code == 0 ? STR("success") : c->message);
    }
    print_data(c, w);
    jw_key(w, "meta");
    jw_obj(w);
    print_meta(c, w);
}

struct str envelope_trace(struct web *w)
{
    struct str theirs = json_get_str(w->body, "trace_id");
    char uuid[37];

    if (theirs.n && theirs.n <= LIMIT_KEY)
        return theirs;
    web_uuid(uuid);
    return arena_copy(w->http->arena, str_of(uuid));
}

static void send_envelope(struct web *w, int status, struct buf *take_json)
{
    struct pair headers[] = { { STR("Content-Type"), STR("application/json") }, { STR("Retry-After"), STR("1") } };

    if (status != 429) {
        web_send(w, status, take_json);
        return;
    }
    http_reply_headers(w->http, status, headers, 2, buf_view(take_json));
    buf_done(take_json);
}

void envelope_send(struct web *w, int status, const struct envelope *v)
{
    struct buf b;
    struct jw j = { .out = &b };

    buf_init(&b, LIMIT_HTTP_REPLY);
    jw_obj(&j);
    jw_kint(&j, "code", v->code);
    jw_kz(&j, "message", v->message);
    jw_kraw(&j, "data", v->data.p ? v->data : STR("null"));
    jw_key(&j, "meta");
    jw_obj(&j);
    jw_kz(&j, "tool", v->tool);
    jw_knum(&j, "execution_time_ms", (double)(now_us() - w->begun_us) / 1000);
    jw_kz(&j, "resource_type", v->resource);
    jw_kz(&j, "session_id", v->session_id);
    jw_kstr(&j, "trace_id", envelope_trace(w));
    jw_obj_end(&j);
    if (v->beside.n)
        jw_raw(&j, v->beside);
    jw_obj_end(&j);
    send_envelope(w, status, &b);
}

/* --- execute --- */

static void on_executed(void *arg, const struct call *c)
{
    struct web *w = arg;
    struct buf b;
    struct jw j = { .out = &b };
    struct str *ignored = w->state;

    buf_init(&b, LIMIT_HTTP_REPLY);
    jw_obj(&j);
    envelope_print(c, &j);
    if (ignored && ignored->n) {
        jw_key(&j, "ignored");
        jw_arr(&j);
        jw_raw(&j, *ignored);
        jw_arr_end(&j);
    }
    jw_obj_end(&j); /* meta */
    jw_obj_end(&j);
    send_envelope(w, c->error == ERR_BUSY && c->outcome == OUTCOME_INFRA_ERROR ? 429 : envelope_status(c->code), &b);
}

/* The contract ignores unknown fields of the envelope; we do, too, and say which. */
static void note_ignored(struct web *w)
{
    static const char *const known[] = { "worker_id",    "action",       "params",        "timeout",
                                         "async_mode",   "trace_id",     "trajectory_id", "idempotency_key",
                                         "message_id",   "message_type", "timestamp",     "session_id",
                                         "fast_forward", "on_difference" };
    struct buf b;
    struct jw j = { .out = &b };

    buf_init(&b, 4096);
    for (const struct json *k = w->body->first; k; k = k->next) {
        bool found = false;
        for (size_t i = 0; i < sizeof known / sizeof *known && !found; i++)
            found = str_is(k->name, known[i]);
        if (!found)
            jw_str(&j, k->name);
    }
    if (b.n) {
        struct str *s = arena_alloc(w->http->arena, sizeof *s);
        *s = arena_copy(w->http->arena, buf_view(&b));
        w->state = s;
    }
    buf_done(&b);
}

static void execute(struct web *w)
{
    struct call_request r = { .surface = STR("agentflow") };
    struct model m;
    struct err e;

    model_begin(&m, w);
    model_str(&m, "worker_id", &r.worker);
    model_str(&m, "action", &r.action);
    r.params = model_dict(&m, "params");
    r.timeout_ms = model_timeout_ms(&m);
    (void)model_bool(&m, "async_mode", false);
    if (m.body && web_forward(w, &r, &e) < 0)
        model_wrong(&m, "value_error", e.msg[0] == 'o' ? "on_difference" : "fast_forward", e.msg, m.body->raw);
    if (!model_end(&m))
        return;
    r.key = web_key(w);
    r.trace = envelope_trace(w);
    r.trajectory = json_get_str(w->body, "trajectory_id");
    r.abandoned = web_abandoned;
    note_ignored(w);
    web_call(w, &r, on_executed, w);
}

/* --- health, ready, tools --- */

static void health(struct web *w)
{
    struct buf b;
    struct jw j = { .out = &b };
    char t[32];

    iso_time(wall_us(), t);
    buf_init(&b, 4096);
    jw_obj(&j);
    jw_kz(&j, "status", "healthy");
    jw_kz(&j, "timestamp", t);
    jw_kz(&j, "version", SANDGLASS_VERSION);
    jw_obj_end(&j);
    web_send(w, 200, &b);
}

static bool shown(const struct web *w, const struct backend *b, const struct tool *t, bool hidden_too)
{
    if ((b->hidden && !w->node->opts.test_backends) || t->flags & TOOL_STREAM) /* those need a stream beside the call */
        return false;
    return hidden_too || !(t->flags & TOOL_HIDDEN);
}

static void say_ready(struct web *w)
{
    struct buf b;
    struct jw j = { .out = &b };
    int64_t tools = 0, workers = 0;
    struct worker *k;

    for (size_t i = 0; backends[i]; i++)
        for (size_t t = 0; t < backends[i]->tool_count; t++)
            tools += shown(w, backends[i], &backends[i]->tools[t], true);
    for (size_t i = 0; (k = map_next(&w->node->workers, &i));)
        workers += k->sessions != NULL && web_sees_worker(w, k);
    buf_init(&b, 4096);
    jw_obj(&j);
    jw_kz(&j, "status", "ready");
    jw_kint(&j, "tools_count", tools);
    if (w->who.role != ROLE_NONE) { /* how much is going on is nobody's business who does not say who he is */
        jw_kint(&j, "active_workers", workers);
        jw_kint(&j, "total_sessions", (int64_t)w->node->session_count);
    }
    jw_obj_end(&j);
    web_send(w, 200, &b);
}

static void ready(struct web *w)
{
    struct err e;

    if (journal_check(w->node->journal, &e) < 0) /* it would refuse every call: they should go elsewhere */
        web_error(w, 503, ERR_BUSY, "%s", w->who.role == ROLE_NONE ? "the log takes no new calls" : e.msg);
    else
        ready_ports(w, say_ready);
}

static void print_tool(const struct backend *b, const struct tool *t, struct jw *j)
{
    const char *colon = strchr(t->name, ':');

    jw_kz(j, "name", colon ? colon + 1 : t->name);
    jw_kz(j, "full_name", t->name);
    jw_kz(j, "resource_type", b->name);
    jw_kbool(j, "stateless", b->kind == KIND_STATELESS);
    jw_kz(j, "description", t->help);
    jw_kz(j, "title", t->title);
    jw_kz(j, "kind", kind_name(b->kind));
    tool_flags_print(t, j);
    tool_print_params(t, "parameters", j);
    tool_print_result(t, "result", j);
}

static void tools(struct web *w)
{
    struct buf b;
    struct jw j = { .out = &b };
    struct str hidden = http_query(w->http, "include_hidden");
    bool all = hidden.n && strchr("tT1yY", hidden.p[0]);
    int64_t n = 0;

    buf_init(&b, LIMIT_HTTP_REPLY);
    jw_obj(&j);
    jw_key(&j, "tools");
    jw_arr(&j);
    for (size_t i = 0; backends[i]; i++)
        for (size_t t = 0; t < backends[i]->tool_count; t++) {
            if (!shown(w, backends[i], &backends[i]->tools[t], all))
                continue;
            jw_obj(&j);
            print_tool(backends[i], &backends[i]->tools[t], &j);
            jw_obj_end(&j);
            n++;
        }
    jw_arr_end(&j);
    jw_kint(&j, "count", n);
    jw_obj_end(&j);
    web_send(w, 200, &b);
}

static void tool_schema(struct web *w)
{
    struct buf b;
    struct jw j = { .out = &b };
    const struct backend *backend;
    const struct tool *t = tool_find(w->match.name, &backend);

    buf_init(&b, LIMIT_HTTP_REPLY);
    jw_obj(&j);
    if (t && shown(w, backend, t, true)) {
        print_tool(backend, t, &j);
    } else {
        t = NULL;
        jw_kz(&j, "status", "error");
        jw_kz(&j, "message", arena_printf(w->http->arena, "Tool not found: %.*s", STR_ARG(w->match.name)));
    }
    jw_obj_end(&j);
    web_send(w, t ? 200 : 404, &b);
}

const struct route agentflow_routes[] = {
    { "POST", "/api/v1/execute", execute, 0 },
    { "GET", "/api/v1/health", health, ROUTE_PUBLIC },
    { "GET", "/api/v1/ready", ready, ROUTE_PUBLIC },
    { "GET", "/api/v1/tools", tools, 0 },
    { "GET", "/api/v1/tools/{name}/schema", tool_schema, 0 },
    { 0 },
};

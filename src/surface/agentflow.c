/* AgentFlow's surface: names and envelopes only. Its 19 endpoints are split over this file (tools) and
 * agentflow_session.c (sessions, lifecycle, init). */
#include "surface/agentflow.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "base/limits.h"

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

void invalid_send(struct web *w, const char *type, const char *field, const char *msg, struct str input)
{
    struct buf b;
    struct jw j = { .out = &b };

    buf_init(&b, LIMIT_HTTP_REPLY);
    jw_obj(&j);
    jw_key(&j, "detail");
    jw_arr(&j);
    jw_obj(&j);
    jw_kz(&j, "type", type);
    jw_key(&j, "loc");
    jw_arr(&j);
    jw_z(&j, "body");
    if (field)
        jw_z(&j, field);
    jw_arr_end(&j);
    jw_kz(&j, "msg", msg);
    jw_kraw(&j, "input", input.n < 65536 ? input : STR("\"(large)\""));
    jw_obj_end(&j);
    jw_arr_end(&j);
    jw_obj_end(&j);
    web_send(w, 422, &b);
}

bool model_str(struct web *w, const char *field, struct str *ret)
{
    const struct json *v = json_get(w->body, field);

    if (!w->body || w->body->type != JSON_OBJ)
        invalid_send(w, w->body ? "model_attributes_type" : "missing", NULL,
                     w->body ? "Input should be a valid dictionary or object to extract fields from" : "Field required",
                     w->body ? w->body->raw : STR("null"));
    else if (!v)
        invalid_send(w, "missing", field, "Field required", w->body->raw);
    else if (v->type != JSON_STR)
        invalid_send(w, "string_type", field, "Input should be a valid string", v->raw);
    else {
        *ret = v->s;
        return true;
    }
    return false;
}

/* What pydantic takes for a truth value. */
bool model_bool(struct web *w, const char *field, bool otherwise, bool *ret)
{
    static const char *const words[] = { "false", "0", "off", "f", "no", "n", "true", "1", "on", "t", "yes", "y" };
    const struct json *v = json_get(w->body, field);
    struct str text = !v ? STR("") : v->type == JSON_STR ? v->s : v->raw;

    *ret = otherwise;
    if (!v)
        return true;
    for (size_t i = 0; i < 12 && v->type != JSON_NULL; i++)
        if (text.n == strlen(words[i]) && strncasecmp(text.p, words[i], text.n) == 0) {
            *ret = i >= 6;
            return true;
        }
    invalid_send(w, "bool_parsing", field, "Input should be a valid boolean, unable to interpret input", v->raw);
    return false;
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

/* 30, 30.0 and "30" are integers to pydantic; 1.5 is not. */
static bool read_timeout(struct web *w, const struct json *v, int64_t *ret_ms)
{
    double s = 0;
    char text[32], *end;

    if (!v || v->type == JSON_NULL)
        return true;
    if (v->type == JSON_NUM) {
        s = v->num;
    } else if (v->type == JSON_STR && v->s.n && v->s.n < sizeof text) {
        memcpy(text, v->s.p, v->s.n);
        text[v->s.n] = 0;
        s = strtod(text, &end);
        if (*end) {
            invalid_send(w, "int_parsing", "timeout",
                         "Input should be a valid integer, unable to parse string as an integer", v->raw);
            return false;
        }
    } else {
        invalid_send(w, "int_type", "timeout", "Input should be a valid integer", v->raw);
        return false;
    }
    if (s != floor(s)) {
        invalid_send(w, "int_from_float", "timeout",
                     "Input should be a valid integer, got a number with a fractional part", v->raw);
        return false;
    }
    if (s <= 0 || s > LIMIT_TIMEOUT_MS / 1000) {
        invalid_send(w, "out_of_range", "timeout", "Input should be from 1 to 86400 seconds (LIMIT_TIMEOUT_MS)",
                     v->raw);
        return false;
    }
    *ret_ms = (int64_t)(s * 1000);
    return true;
}

static const struct json *read_params(struct web *w, const struct json *v, bool *ok)
{
    *ok = !v || v->type == JSON_OBJ || v->type == JSON_NULL;
    if (!*ok)
        invalid_send(w, "dict_type", "params", "Input should be a valid dictionary", v->raw);
    return v && v->type == JSON_OBJ ? v : NULL;
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
    struct err e;
    bool ok;

    if (!model_str(w, "worker_id", &r.worker) || !model_str(w, "action", &r.action) ||
        !read_timeout(w, json_get(w->body, "timeout"), &r.timeout_ms))
        return;
    r.params = read_params(w, json_get(w->body, "params"), &ok);
    if (!ok)
        return;
    r.key = web_key(w);
    r.trace = envelope_trace(w);
    r.trajectory = json_get_str(w->body, "trajectory_id");
    if (web_forward(w, &r, &e) < 0) {
        invalid_send(w, "value_error", str_of(e.msg).p[0] == 'o' ? "on_difference" : "fast_forward", e.msg,
                     w->body->raw);
        return;
    }
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

/* Our own API at /sg/v1: boxes, trajectories, tools, status. Strict: unknown keys are errors. */
#include <stdio.h>
#include <stdlib.h>

#include "base/limits.h"
#include "store/recorder_client.h"
#include "surface/surface.h"

/* --- boxes --- */

static void send_box(struct web *w, int status, struct box *b)
{
    struct buf o;
    struct jw j = { .out = &o };
    struct worker *k = worker_of_box(b);

    buf_init(&o, LIMIT_HTTP_REPLY);
    jw_obj(&j);
    box_print(b, &j);
    jw_kz(&j, "trajectory", k && k->trajectory ? k->trajectory->id : NULL);
    jw_key(&j, "use");
    jw_obj(&j);
    jw_kint(&j, "cpu_us", gauge_cpu_us(b));
    jw_kint(&j, "memory_peak_bytes", gauge_peak(b));
    jw_kgauge(&j, "pids_peak", gauge_pids_peak(b));
    jw_kgauge(&j, "disk_used_bytes", b->disk_used_bytes);
    jw_kint(&j, "oom_kills", gauge_read(b->gauges[GAUGE_MEMORY_EVENTS], "oom_kill "));
    jw_kint(&j, "pid_limit_hits", gauge_read(b->gauges[GAUGE_PIDS_EVENTS], "max "));
    jw_obj_end(&j);
    jw_obj_end(&j);
    web_send(w, status, &o);
}

static void on_box_made(void *arg, struct box *b, const struct err *e)
{
    struct web *w = arg;

    if (e)
        web_error(w, web_status_of(e->code), e->code, "%s", e->msg);
    else
        send_box(w, 201, b);
}

static void box_create(struct web *w)
{
    struct box_ask ask;
    struct err e;

    if (w->body && w->body->type != JSON_OBJ) {
        web_error(w, 400, ERR_TYPE, "body: expected object, got %s", json_type_name(w->body->type));
        return;
    }
    for (const struct json *k = w->body ? w->body->first : NULL; k; k = k->next)
        if ((!box_is_ask_key(k->name) || str_is(k->name, "box")) && !str_is(k->name, "idempotency_key")) {
            web_error(w, 400, ERR_INVALID,
                      "%.*s: unknown key (known: image, memory, disk, shm, cpu, pids, open_files, network, sudo, "
                      "user_namespaces, mounts, ttl, labels, state, determinism, secrets, display, repo, task, "
                      "allow_unenforced, cold, idempotency_key)",
                      STR_ARG(k->name));
            return;
        }
    const struct json *key = json_get(w->body, "idempotency_key");
    if (key && key->type != JSON_STR) {
        web_error(w, 400, ERR_TYPE, "idempotency_key: expected string, got %s", json_type_name(key->type));
        return;
    }
    if (box_ask_bind(w->node, w->body, &ask, &e) < 0) {
        web_error(w, web_status_of(e.code), e.code, "%s", e.msg);
        return;
    }
    ask.standing = true;
    ask.tenant = w->tenant;
    ask.key = web_key(w);
    ask.wish = w->body ? w->body->raw : (struct str){ 0 };
    struct box *b = box_new(w->node, &ask, &e);
    if (!b) {
        web_error(w, web_status_of(e.code), e.code, "%s", e.msg);
        return;
    }
    box_when_up(b, on_box_made, w);
}

static bool has_label(const struct web *w, const struct box *b, struct str want)
{
    struct json *labels = NULL;
    const char *eq = memchr(want.p, '=', want.n);
    struct err e;

    if (!eq || json_parse(w->http->arena, b->labels.p ? b->labels : STR("{}"), &labels, &e) < 0)
        return false;
    char *name = arena_z(w->http->arena, (struct str){ want.p, (size_t)(eq - want.p) });
    struct str value = { eq + 1, want.n - (size_t)(eq + 1 - want.p) }, got = json_get_str(labels, name);
    return got.p && str_eq(got, value);
}

static void box_list(struct web *w)
{
    struct buf o;
    struct jw j = { .out = &o };
    struct str label = http_query(w->http, "label");
    struct box *b;
    int64_t n = 0;

    if (label.p && (!label.n || !memchr(label.p + 1, '=', label.n - 1))) {
        web_error(w, 400, ERR_INVALID, "label: '%.*s' is not NAME=VALUE", (int)(label.n < 64 ? label.n : 64), label.p);
        return;
    }
    buf_init(&o, LIMIT_HTTP_REPLY);
    jw_obj(&j);
    jw_key(&j, "boxes");
    jw_arr(&j);
    for (size_t i = 0; (b = map_next(&w->node->boxes, &i));) {
        if (!web_sees_box(w, b) || (label.n && !has_label(w, b, label)))
            continue;
        jw_obj(&j);
        box_print(b, &j);
        jw_kint(&j, "cpu_us", gauge_cpu_us(b));
        jw_kint(&j, "memory_peak_bytes", gauge_peak(b));
        jw_kgauge(&j, "pids_peak", gauge_pids_peak(b));
        jw_kgauge(&j, "disk_used_bytes", b->disk_used_bytes);
        jw_obj_end(&j);
        n++;
    }
    jw_arr_end(&j);
    jw_kint(&j, "count", n);
    jw_obj_end(&j);
    web_send(w, 200, &o);
}

static struct box *the_box(struct web *w)
{
    struct box *b = web_find_box(w, w->match.id);

    if (!b)
        web_error(w, 404, ERR_NOT_FOUND, "no box '%.*s'", STR_ARG(w->match.id));
    return b;
}

static void box_get(struct web *w)
{
    struct box *b = the_box(w);
    if (b)
        send_box(w, 200, b);
}

static void on_box_gone(void *arg, struct box *b, const struct err *e)
{
    struct web *w = arg;
    struct buf o;
    struct jw j = { .out = &o };

    (void)e;
    buf_init(&o, 4096);
    jw_obj(&j);
    jw_kz(&j, "id", b->id);
    jw_kz(&j, "state", "destroyed");
    jw_obj_end(&j);
    web_send(w, 200, &o);
}

static void box_delete(struct web *w)
{
    struct box *b = the_box(w);
    if (b)
        box_close(b, "destroyed", on_box_gone, w);
}

static void on_frozen(void *arg, struct box *b, const struct err *e)
{
    struct web *w = arg;

    if (e)
        web_error(w, web_status_of(e->code), e->code, "%s", e->msg);
    else
        send_box(w, 200, b);
}

static void freeze(struct web *w, bool frozen)
{
    struct box *b = the_box(w);
    struct err e;

    if (b && box_freeze(b, frozen, on_frozen, w, &e) < 0)
        web_error(w, 409, e.code, "%s", e.msg);
}

static void box_pause(struct web *w)
{
    freeze(w, true);
}

static void box_resume(struct web *w)
{
    freeze(w, false);
}

/* --- execute in a box --- */

static void on_executed(void *arg, const struct call *c)
{
    struct web *w = arg;
    struct buf o;
    struct jw j = { .out = &o };
    int status = c->outcome == OUTCOME_INVALID_REQUEST ? web_status_of(c->error)
                 : c->outcome == OUTCOME_INFRA_ERROR   ? (c->error == ERR_BUSY ? 429 : 500)
                                                       : 200;

    buf_init(&o, LIMIT_HTTP_REPLY);
    jw_obj(&j);
    jw_kz(&j, "outcome", outcome_name(c->outcome));
    jw_kbool(&j, "retry_safe", c->retry_safe);
    jw_kbool(&j, "trainable", c->trainable);
    jw_kstr(&j, "message", c->message);
    jw_kraw(&j, "data", c->data.p ? c->data : STR("null"));
    jw_kstr(&j, "tool", c->tool ? str_of(c->tool->name) : c->action);
    jw_kz(&j, "trajectory_id", c->trajectory ? c->trajectory->id : NULL);
    jw_kint(&j, "step", c->step);
    jw_kz(&j, "box_id", c->box_id[0] ? c->box_id : NULL);
    jw_kz(&j, "session_id", c->session_id[0] ? c->session_id : NULL);
    jw_key(&j, "times");
    jw_obj(&j);
    jw_kint(&j, "queued_us", c->queued_us);
    jw_kint(&j, "run_us", c->run_us);
    jw_kint(&j, "total_us", c->total_us);
    jw_obj_end(&j);
    jw_key(&j, "use");
    jw_obj(&j);
    jw_kint(&j, "cpu_us", c->cpu_us);
    jw_kint(&j, "peak_bytes", c->peak_bytes);
    jw_kgauge(&j, "pids_peak", c->pids_peak);
    jw_kgauge(&j, "disk_used_bytes", c->disk_used_bytes);
    jw_obj_end(&j);
    jw_kint(&j, "dropped_bytes", c->dropped_bytes);
    if (c->state_id[0])
        jw_kz(&j, "state_id", c->state_id);
    if (c->blobs.p)
        jw_kraw(&j, "blobs", c->blobs);
    if (c->replayed)
        jw_kbool(&j, "replayed", true);
    if (status != 200) {
        jw_key(&j, "error");
        jw_obj(&j);
        jw_kz(&j, "code", err_name(c->error));
        jw_kstr(&j, "message", c->message);
        jw_obj_end(&j);
    }
    jw_obj_end(&j);
    web_send(w, status, &o);
}

struct execute_body {
    struct str tool, params, idempotency_key, trajectory_id, worker_id, trace_id, fast_forward, on_difference;
    double timeout;
};
static const struct field execute_fields[] = {
    FIELD(STR, struct execute_body, tool, "name of the tool", .required = true, .max = 256, .alias = "action"),
    FIELD(JSON, struct execute_body, params, "its parameters"),
    FIELD(NUM, struct execute_body, timeout, "seconds", .min = 0, .max = LIMIT_TIMEOUT_MS / 1000, .def_num = 0),
    FIELD(STR, struct execute_body, idempotency_key, "the same key and body share one answer", .max = LIMIT_KEY),
    FIELD(STR, struct execute_body, trajectory_id, "name of the episode", .max = LIMIT_TRAJECTORY_ID),
    FIELD(STR, struct execute_body, worker_id, "who calls; default: the box's own worker", .max = LIMIT_WORKER_ID),
    FIELD(JSON, struct execute_body, fast_forward,
          "true: answer from the log until it ends; \"begin\": from its first step"),
    FIELD(STR, struct execute_body, on_difference, "fast_forward: refuse a call that was another one, or branch off",
          .max = 16),
    FIELD(STR, struct execute_body, trace_id, "the caller's own id", .max = LIMIT_KEY),
    { 0 },
};

static void execute_with(struct web *w, struct box *b)
{
    struct execute_body x;
    struct err e;

    if (!w->body || w->body->type != JSON_OBJ) {
        web_error(w, 400, ERR_TYPE, "body: a JSON object is required");
        return;
    }
    if (field_bind(execute_fields, w->body, w->http->arena, &x, NULL, &e) < 0) {
        web_error(w, 400, e.code, "%s", e.msg);
        return;
    }
    const struct json *params = json_get(w->body, "params");
    if (params && params->type != JSON_OBJ && params->type != JSON_NULL) {
        web_error(w, 400, ERR_TYPE, "params: expected object, got %s", json_type_name(params->type));
        return;
    }
    struct call_request r = { .surface = STR("own"),
                              .worker = b ? str_of(b->id) : x.worker_id,
                              .action = x.tool,
                              .params = params && params->type == JSON_OBJ ? params : NULL,
                              .timeout_ms = (int64_t)(x.timeout * 1000),
                              .key = web_key(w),
                              .trace = x.trace_id,
                              .trajectory = x.trajectory_id,
                              .box = b };
    if (b && x.worker_id.p) {
        web_error(w, 400, ERR_INVALID, "worker_id: a call in a box belongs to the box's own worker; leave it out");
        return;
    }
    if (web_forward(w, &r, &e) < 0) {
        web_error(w, 400, e.code, "%s", e.msg);
        return;
    }
    web_call(w, &r, on_executed, w);
}

static void box_execute(struct web *w)
{
    struct box *b = the_box(w);

    if (!b)
        return;
    if (b->state == BOX_PAUSED) {
        web_error(w, 409, ERR_BUSY, "box %s is paused; resume it first", b->id);
        return;
    }
    if (!b->standing) {
        web_error(w, 409, ERR_DENIED, "box %s belongs to a session of worker; call it through that worker", b->id);
        return;
    }
    execute_with(w, b);
}

static void execute(struct web *w)
{
    execute_with(w, NULL);
}

/* --- trajectories: recorder's JSON as it is --- */

static void on_rows(void *arg, const struct answer *a)
{
    struct web *w = arg;

    if (a->error)
        web_error(w, web_status_of((enum err_code)a->error), (enum err_code)a->error, "%.*s", STR_ARG(a->message));
    else
        http_reply(w->http, 200, "application/json", a->json);
}

/* A request for another box like this one, which may have ended; began_with: the state that it was forked from. */
static void on_settings(void *arg, const struct answer *a)
{
    struct web *w = arg;
    struct json *record = NULL;
    struct buf o;
    struct jw j = { .out = &o };
    struct err e;

    if (a->error || json_parse(w->http->arena, a->json, &record, &e) < 0) {
        web_error(w, a->error ? web_status_of((enum err_code)a->error) : 500, (enum err_code)a->error, "%.*s",
                  STR_ARG(a->message));
        return;
    }
    struct str began = json_get_str(record, "began_with");
    buf_init(&o, LIMIT_HTTP_REPLY);
    jw_obj(&j);
    jw_key(&j, "settings");
    jw_obj(&j);
    box_settings_print(record, &j);
    jw_obj_end(&j);
    jw_kstr(&j, "began_with", began);
    jw_obj_end(&j);
    web_send(w, 200, &o);
}

static void box_settings(struct web *w)
{
    struct query q = { .op = STR("box"),
                       .box = w->match.id,
                       .tenant = str_of(w->tenant->name),
                       .upto = (int64_t)journal_end(w->node->journal) };

    recorder_ask(w->node->recorder, &q, -1, on_settings, w);
}

static bool query_int(struct web *w, const char *name, int64_t otherwise, int64_t max, int64_t *ret)
{
    struct str text = http_query(w->http, name);
    char *end;

    *ret = otherwise;
    if (!text.p)
        return true;
    const char *z = arena_z(w->http->arena, text);
    *ret = strtoll(z, &end, 10);
    if (!text.n || *end || *ret < 0 || *ret > max) {
        web_error(w, 400, ERR_INVALID, "%s: '%s' is not a number from 0 to %lld", name, z, (long long)max);
        return false;
    }
    return true;
}

static void ask(struct web *w, struct str op)
{
    struct query q = { .op = op,
                       .id = w->match.id,
                       .worker = http_query(w->http, "worker"),
                       .tool = http_query(w->http, "tool"),
                       .outcome = http_query(w->http, "outcome"),
                       .box = http_query(w->http, "box"),
                       .session = http_query(w->http, "session"),
                       .tag = http_query(w->http, "tag"),
                       .min_reward = http_query(w->http, "min_reward"),
                       .max_reward = http_query(w->http, "max_reward") };
    if (q.outcome.n && outcome_find(q.outcome.p, q.outcome.n) < 0) {
        web_error(w, 400, ERR_INVALID, "outcome: no such outcome '%.*s'", STR_ARG(q.outcome));
        return;
    }
    if (!query_int(w, "after", 0, INT64_MAX, &q.after) || !query_int(w, "limit", 100, 1000, &q.limit))
        return;
    web_query(w, &q, on_rows, w);
}

static void trajectories(struct web *w)
{
    ask(w, STR("trajectories"));
}

static void trajectory(struct web *w)
{
    ask(w, STR("trajectory"));
}

static void steps(struct web *w)
{
    ask(w, STR("steps"));
}

static void events(struct web *w)
{
    struct str last = http_header(w->http, "last-event-id");
    int64_t after = 0;

    if (w->match.id.n > LIMIT_TRAJECTORY_ID) {
        web_error(w, 404, ERR_NOT_FOUND, "no such trajectory");
        return;
    }
    if (!query_int(w, "after", 0, INT64_MAX, &after))
        return;
    if (last.n && last.n < 20)
        after = strtoll(arena_z(w->http->arena, last), NULL, 10);
    streams_open(w, surfaces_streams(w->all), w->match.id, after);
}

/* --- tools and status --- */

static void tools(struct web *w)
{
    struct buf o;
    struct jw j = { .out = &o };

    buf_init(&o, LIMIT_HTTP_REPLY);
    jw_obj(&j);
    jw_key(&j, "tools");
    jw_arr(&j);
    for (size_t i = 0; backends[i]; i++) {
        const struct backend *b = backends[i];
        if (b->hidden && !w->node->opts.test_backends)
            continue;
        for (size_t t = 0; t < b->tool_count; t++) {
            if ((b->tools[t].flags & TOOL_HIDDEN) && !w->node->opts.test_backends)
                continue;
            jw_obj(&j);
            jw_kz(&j, "name", b->tools[t].name);
            jw_kz(&j, "title", b->tools[t].title);
            jw_kz(&j, "description", b->tools[t].help);
            jw_kz(&j, "backend", b->name);
            jw_kz(&j, "kind", kind_name(b->kind));
            tool_flags_print(&b->tools[t], &j);
            tool_print_params(&b->tools[t], "parameters", &j);
            tool_print_result(&b->tools[t], "result", &j);
            jw_obj_end(&j);
        }
    }
    jw_arr_end(&j);
    jw_obj_end(&j);
    web_send(w, 200, &o);
}

static void on_pool(void *arg, const struct seat_reply *r, const int *take_gauges)
{
    struct web *w = arg;
    struct buf o;
    struct jw j = { .out = &o };

    (void)take_gauges;
    buf_init(&o, 16384);
    jw_obj(&j);
    jw_kz(&j, "version", SANDGLASS_VERSION);
    jw_kz(&j, "revision", SANDGLASS_REV);
    jw_kint(&j, "uptime_s", (wall_us() - w->node->started_us) / 1000000);
    jw_kint(&j, "boxes", (int64_t)w->node->boxes.count);
    jw_kint(&j, "boxes_max", w->node->opts.box_max);
    jw_kint(&j, "sessions", (int64_t)w->node->session_count);
    jw_kint(&j, "calls", (int64_t)w->node->calls.count);
    jw_kint(&j, "log_bytes", (int64_t)journal_end(w->node->journal));
    jw_key(&j, "pool");
    jw_obj(&j);
    jw_kint(&j, "ready", r->result < 0 ? -1 : (int64_t)r->pool.ready);
    jw_kint(&j, "wanted", r->result < 0 ? -1 : (int64_t)r->pool.wanted);
    jw_obj_end(&j);
    jw_obj_end(&j);
    web_send(w, 200, &o);
}

static void status(struct web *w)
{
    seats_ask(w->node->seats, SEAT_POOL, NULL, NULL, on_pool, w);
}

const struct route own_routes[] = {
    { "POST", "/sg/v1/boxes", box_create, ROUTE_MANAGE | ROUTE_TENANT },
    { "GET", "/sg/v1/boxes", box_list, 0, "label" },
    { "GET", "/sg/v1/boxes/{id}", box_get, 0 },
    { "GET", "/sg/v1/boxes/{id}/settings", box_settings, ROUTE_TENANT },
    { "DELETE", "/sg/v1/boxes/{id}", box_delete, ROUTE_MANAGE },
    { "POST", "/sg/v1/boxes/{id}/pause", box_pause, ROUTE_MANAGE },
    { "POST", "/sg/v1/boxes/{id}/resume", box_resume, ROUTE_MANAGE },
    { "POST", "/sg/v1/boxes/{id}/execute", box_execute, 0 },
    { "POST", "/sg/v1/execute", execute, 0 },
    { "GET", "/sg/v1/trajectories", trajectories, 0,
      "worker box tool outcome tag min_reward:x max_reward:x after:n limit:n" },
    { "GET", "/sg/v1/trajectories/{id}", trajectory, 0 },
    { "GET", "/sg/v1/trajectories/{id}/steps", steps, 0, "tool outcome box session after:n limit:n" },
    { "GET", "/sg/v1/trajectories/{id}/events", events, 0, "after:n" },
    { "GET", "/sg/v1/tools", tools, 0 },
    { "GET", "/sg/v1/status", status, ROUTE_SERVER },
    { 0 },
};

/* AgentFlow's batch: one request, many steps. Sequential items go one after another; parallel ones at most
 * LIMIT_BATCH_PARALLEL at a time, so that a long list leaves room for other workers. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/limits.h"
#include "surface/agentflow.h"

struct batch {
    struct web *web;
    struct str worker, key;
    struct call_request like; /* what all items share */
    const struct json *next;
    struct str *results; /* envelopes, in the order of the list; p NULL: not run */
    size_t total, started, done, ok, running;
    bool parallel, stop_on_error, stopped, pumping;
    size_t bytes;
};

struct item {
    struct batch *batch;
    size_t index;
};

static void pump(struct batch *b);

static void send_batch(struct batch *b)
{
    struct web *w = b->web;
    struct buf o;
    struct jw j = { .out = &o };

    buf_init(&o, LIMIT_HTTP_REPLY);
    jw_obj(&j);
    jw_key(&j, "results");
    jw_arr(&j);
    for (size_t i = 0; i < b->total; i++)
        if (b->results[i].p) {
            jw_raw(&j, b->results[i]);
            free((char *)b->results[i].p);
        }
    jw_arr_end(&j);
    jw_kint(&j, "total", (int64_t)b->total);
    jw_kint(&j, "executed", (int64_t)b->done);
    jw_kint(&j, "success_count", (int64_t)b->ok);
    jw_obj_end(&j);
    struct envelope v = { 0, "success", buf_view(&o), "batch:execute", NULL, NULL };
    int status = 200;
    if (b->ok < b->total && b->ok == 0) {
        v.code = 5009;
        v.message = "All actions failed";
        status = 500;
    } else if (b->ok < b->total) {
        v.code = 5010;
        v.message = arena_printf(w->http->arena, "%zu out of %zu actions failed", b->done - b->ok, b->done);
        status = 207;
    }
    if (o.full) {
        v = (struct envelope){ 5013,  "the results exceed LIMIT_HTTP_REPLY; they are in the trajectory",
                               { 0 }, "batch:execute",
                               NULL,  NULL };
        status = 500;
    }
    envelope_send(w, status, &v);
    buf_done(&o);
}

static void on_item(void *arg, const struct call *c)
{
    struct item *it = arg;
    struct batch *b = it->batch;
    struct buf o;
    struct jw j = { .out = &o };

    buf_init(&o, LIMIT_HTTP_REPLY);
    jw_obj(&j);
    envelope_print(c, &j);
    jw_obj_end(&j);
    jw_obj_end(&j);
    b->bytes += o.n;
    if (o.full || b->bytes > (size_t)LIMIT_HTTP_REPLY) { /* the step is recorded; only its echo here is cut */
        buf_reset(&o);
        buf_z(&o, "null");
    }
    b->results[it->index] = buf_view(&o); /* its memory is freed by send_batch */
    b->done++;
    b->running--;
    b->ok += c->code == 0;
    if (c->code != 0 && b->stop_on_error && !b->parallel)
        b->stopped = true;
    pump(b);
}

/* Before the first item runs, all of them are known to be well formed. */
static void check_item(struct model *m, size_t i, const struct json *item)
{
    static const char range[] = "Input should be a number above 0, at most 86400 seconds (LIMIT_TIMEOUT_MS)";
    const struct json *action = json_get(item, "action"), *params = json_get(item, "params");
    const struct json *t = json_get(item, "timeout");
    struct model_place at = { "actions", i, "" };

    if (item->type != JSON_OBJ)
        model_wrong_item(m, "dict_type", &at, "Input should be a valid dictionary", item->raw);
    at.inside = "action";
    if (action && action->type != JSON_STR)
        model_wrong_item(m, "string_type", &at, "Input should be a valid string", action->raw);
    at.inside = "params";
    if (params && params->type != JSON_OBJ && params->type != JSON_NULL)
        model_wrong_item(m, "dict_type", &at, "Input should be a valid dictionary", params->raw);
    at.inside = "timeout";
    if (t && t->type != JSON_NULL && !(t->type == JSON_NUM && t->num > 0 && t->num <= LIMIT_TIMEOUT_MS / 1000))
        model_wrong_item(m, "out_of_range", &at, range, t->raw);
}

static void check_items(struct model *m, const struct json *actions)
{
    size_t i = 0;

    if (actions->count > LIMIT_BATCH) {
        model_wrong(m, "too_long", "actions",
                    arena_printf(m->web->http->arena, "List should have at most %d items (LIMIT_BATCH), not %zu",
                                 LIMIT_BATCH, actions->count),
                    STR("null"));
        return;
    }
    for (const struct json *item = actions->first; item; item = item->next)
        check_item(m, i++, item);
}

static int64_t item_timeout(const struct json *item)
{
    const struct json *t = json_get(item, "timeout");
    return t && t->type == JSON_NUM ? (int64_t)ceil(t->num * 1000) : 0;
}

static void start_item(struct batch *b, const struct json *item)
{
    struct item *it = arena_alloc(b->web->http->arena, sizeof *it);
    const struct json *params = json_get(item, "params");
    struct str action = json_get_str(item, "action");
    char uuid[37];

    web_uuid(uuid);
    *it = (struct item){ b, b->started++ };
    struct call_request r = { .surface = STR("agentflow"),
                              .worker = b->worker,
                              .action = action.p ? action : STR(""),
                              .params = params && params->type == JSON_OBJ ? params : NULL,
                              .timeout_ms = item_timeout(item),
                              .trace = arena_copy(b->web->http->arena, str_of(uuid)),
                              .trajectory = b->like.trajectory,
                              .forward = b->like.forward,
                              .forward_branch = b->like.forward_branch };
    if (b->key.n)
        r.key = str_of(arena_printf(b->web->http->arena, "%.*s#%zu", STR_ARG(b->key), it->index));
    if (b->like.forward == FORWARD_BEGIN) /* the first one begins, the others go on */
        b->like.forward = FORWARD_ON;
    b->running++;
    web_call(b->web, &r, on_item, it);
}

/* Answers always come from the loop, so this never re-enters itself. */
static void pump(struct batch *b)
{
    size_t room = b->parallel ? LIMIT_BATCH_PARALLEL : 1;

    while (b->next && !b->stopped && b->running < room) {
        const struct json *item = b->next;
        b->next = item->next;
        start_item(b, item);
    }
    if (b->running == 0)
        send_batch(b);
}

static void batch_execute(struct web *w)
{
    struct batch *b = arena_alloc(w->http->arena, sizeof *b);
    struct model m;
    struct err e;

    model_begin(&m, w);
    model_str(&m, "worker_id", &b->worker);
    const struct json *actions = model_list(&m, "actions", true);
    if (actions)
        check_items(&m, actions);
    b->parallel = model_bool(&m, "parallel", false);
    b->stop_on_error = model_bool(&m, "stop_on_error", true);
    if (m.body && web_forward(w, &b->like, &e) < 0)
        model_wrong(&m, "value_error", "fast_forward", e.msg, m.body->raw);
    if (!model_end(&m))
        return;
    b->web = w;
    b->next = actions->first;
    b->total = actions->count;
    b->like.trajectory = json_get_str(w->body, "trajectory_id");
    b->key = web_key(w);
    b->results = arena_alloc(w->http->arena, (b->total + 1) * sizeof *b->results);
    pump(b);
}

const struct route agentflow_batch_routes[] = {
    { "POST", "/api/v1/execute/batch", batch_execute, 0 },
    { 0 },
};

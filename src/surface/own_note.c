/* Our own API: what is said about trajectories after the fact, and trajectories that come from elsewhere. */
#include <stdio.h>
#include <stdlib.h>

#include "base/limits.h"
#include "session/job.h"
#include "session/note.h"
#include "store/recorder_client.h"
#include "surface/surface.h"

static struct query about(const struct web *w, int64_t step)
{
    return (struct query){ .op = step ? STR("step") : STR("trajectory"),
                           .id = w->match.id,
                           .step = step,
                           .tenant = str_of(w->tenant->name),
                           .upto = (int64_t)journal_end(w->node->journal) };
}

static bool refused(struct web *w, const struct answer *a)
{
    if (a->error)
        web_error(w, web_status_of((enum err_code)a->error), (enum err_code)a->error, "%.*s", STR_ARG(a->message));
    return a->error != 0;
}

/* --- annotate --- */

static void on_noted(void *arg, const struct answer *a)
{
    struct web *w = arg;

    if (!refused(w, a))
        http_reply(w->http, 200, "application/json", a->json);
}

static void on_known(void *arg, const struct answer *a)
{
    struct web *w = arg;
    int64_t step = w->state ? *(int64_t *)w->state : 0;
    struct err e;

    if (refused(w, a))
        return;
    if (note_append(w->node, w->tenant, w->match.id, step, w->body, &e) < 0) {
        web_error(w, web_status_of(e.code), e.code, "%s", e.msg);
        return;
    }
    struct query q = about(w, step);
    recorder_ask(w->node->recorder, &q, -1, on_noted, w);
}

static void annotate_at(struct web *w, int64_t step)
{
    struct err e;

    if (note_check(w->body, &e) < 0) {
        web_error(w, 400, e.code, "%s", e.msg);
        return;
    }
    int64_t *kept = arena_alloc(w->http->arena, sizeof *kept);
    *kept = step;
    w->state = kept;
    struct query q = about(w, step);
    recorder_ask(w->node->recorder, &q, -1, on_known, w);
}

static void annotate(struct web *w)
{
    annotate_at(w, 0);
}

static void annotate_step(struct web *w)
{
    char *end;
    long long step = strtoll(arena_z(w->http->arena, w->match.name), &end, 10);

    if (*end || step < 1)
        web_error(w, 404, ERR_NOT_FOUND, "steps are numbered from 1");
    else
        annotate_at(w, step);
}

/* --- forget --- */

static void on_forget(void *arg, const struct answer *a)
{
    struct web *w = arg;
    struct json *row = NULL;
    struct err e;
    struct buf o;
    struct jw j = { .out = &o };

    if (refused(w, a))
        return;
    if (json_parse(w->http->arena, a->json, &row, &e) < 0)
        row = NULL;
    if (json_get_bool(json_get(row, "annotations"), "pinned", false)) {
        web_error(w, 409, ERR_DENIED, "trajectory '%.*s' is pinned", STR_ARG(w->match.id));
        return;
    }
    if (note_drop(w->node, w->tenant, w->match.id, &e) < 0) {
        web_error(w, web_status_of(e.code), e.code, "%s", e.msg);
        return;
    }
    tenant_give_trajectory(w->tenant);
    buf_init(&o, 4096);
    jw_obj(&j);
    jw_kstr(&j, "id", w->match.id);
    jw_kz(&j, "state", "forgotten");
    jw_obj_end(&j);
    web_send(w, 200, &o);
}

static void forget(struct web *w)
{
    if (trajectory_find(w->node, w->tenant, w->match.id)) {
        web_error(w, 409, ERR_BUSY, "trajectory '%.*s' is being written by a worker", STR_ARG(w->match.id));
        return;
    }
    struct query q = about(w, 0);
    recorder_ask(w->node->recorder, &q, -1, on_forget, w);
}

/* --- steps from elsewhere --- */

static void on_last(void *arg, const struct answer *a)
{
    struct web *w = arg;
    const struct json *steps = json_get(w->body, "steps");
    struct json *row = NULL;
    struct err e;
    struct buf o;
    struct jw j = { .out = &o };
    struct imported i = { .tenant = w->tenant, .trajectory = w->match.id, .worker = json_get_str(w->body, "worker") };

    if (a->error && a->error != ERR_NOT_FOUND && refused(w, a))
        return;
    if (!a->error && json_parse(w->http->arena, a->json, &row, &e) < 0)
        row = NULL;
    int64_t last = json_get_int(row, "last_step", 0), first = json_get_int(w->body, "first_step", 1);
    if (first != last + 1) {
        web_error(w, 409, ERR_EXISTS, "first_step: trajectory '%.*s' has %lld steps; the next one is %lld",
                  STR_ARG(w->match.id), (long long)last, (long long)last + 1);
        return;
    }
    if (a->error && tenant_take_trajectory(w->tenant, &e) < 0) {
        web_error(w, web_status_of(e.code), e.code, "%s", e.msg);
        return;
    }
    if (!i.worker.n)
        i.worker = STR("import");
    for (const struct json *s = steps->first; s; s = s->next) {
        i.step = ++last;
        if (import_append(w->node, &i, s, &e) < 0) { /* those before it stay: the client goes on behind them */
            web_error(w, web_status_of(e.code), e.code, "%s", e.msg);
            return;
        }
    }
    buf_init(&o, 4096);
    jw_obj(&j);
    jw_kstr(&j, "trajectory", w->match.id);
    jw_kint(&j, "last_step", last);
    jw_obj_end(&j);
    web_send(w, 201, &o);
}

static void add_steps(struct web *w)
{
    const struct json *steps = json_get(w->body, "steps");

    if (!steps || steps->type != JSON_ARR || steps->count > LIMIT_IMPORT_STEPS)
        web_error(w, 400, ERR_INVALID, "steps: an array of at most %d (LIMIT_IMPORT_STEPS) is required",
                  LIMIT_IMPORT_STEPS);
    else if (w->match.id.n > LIMIT_TRAJECTORY_ID)
        web_error(w, 400, ERR_LIMIT, "trajectory: longer than LIMIT_TRAJECTORY_ID (%d)", LIMIT_TRAJECTORY_ID);
    else if (trajectory_find(w->node, w->tenant, w->match.id))
        web_error(w, 409, ERR_BUSY, "trajectory '%.*s' is being written by a worker", STR_ARG(w->match.id));
    else {
        struct query q = about(w, 0);
        recorder_ask(w->node->recorder, &q, -1, on_last, w);
    }
}

/* --- a whole file --- */

static void on_imported(void *arg, struct job *j)
{
    struct web *w = arg;
    struct str text = buf_view(&j->out);

    if (j->exit_code == 0)
        http_reply(w->http, 201, "application/json", text);
    else
        web_error(w, j->exit_code == 3 ? 500 : 400, ERR_INVALID, "%s",
                  j->message[0] ? j->message : "the import failed");
}

static void import(struct web *w)
{
    struct str format = http_query(w->http, "format");
    struct job_ask ask = {
        .tenant = w->tenant, .kind = "import", .input = w->http->body, .on_end = on_imported, .arg = w
    };
    size_t n = 0;
    struct err e;

    ask.argv[n++] = "import";
    ask.argv[n++] = "--store";
    ask.argv[n++] = "--json";
    if (format.n)
        ask.argv[n++] = arena_printf(w->http->arena, "--format=%.*s", STR_ARG(format));
    ask.argv[n++] = "-";
    if (!w->http->body.n)
        web_error(w, 400, ERR_MISSING, "body: the file is missing");
    else if (!job_start(w->node, &ask, &e))
        web_error(w, web_status_of(e.code), e.code, "%s", e.msg);
}

const struct route own_note_routes[] = {
    { "POST", "/sg/v1/trajectories/import", import, ROUTE_RAW | ROUTE_MANAGE | ROUTE_TENANT, "format" },
    { "PATCH", "/sg/v1/trajectories/{id}", annotate, ROUTE_TENANT },
    { "DELETE", "/sg/v1/trajectories/{id}", forget, ROUTE_MANAGE | ROUTE_TENANT },
    { "PATCH", "/sg/v1/trajectories/{id}/steps/{name}", annotate_step, ROUTE_TENANT },
    { "POST", "/sg/v1/trajectories/{id}/steps", add_steps, ROUTE_MANAGE | ROUTE_TENANT },
    { 0 },
};

/* Our own API, through time: states, forks, rewinds. */
#include <stdio.h>
#include <stdlib.h>

#include "base/limits.h"
#include "session/origin.h"
#include "session/garbage.h"
#include "session/rewind.h"
#include "session/state.h"
#include "store/recorder_client.h"
#include "surface/surface.h"

static void fail(struct web *w, const struct err *e)
{
    web_error(w, web_status_of(e->code), e->code, "%s", e->msg);
}

static struct box *the_box(struct web *w)
{
    struct box *b = web_find_box(w, w->match.id);

    if (!b)
        web_error(w, 404, ERR_NOT_FOUND, "no box '%.*s'", STR_ARG(w->match.id));
    return b;
}

static bool bind_body(struct web *w, const struct field *fields, void *out)
{
    static struct json empty = { .type = JSON_OBJ, .raw = { "{}", 2 } };
    struct err e;

    if (field_bind(fields, w->body ? w->body : &empty, w->http->arena, out, NULL, &e) == 0)
        return true;
    fail(w, &e);
    return false;
}

/* --- snapshot --- */

struct snapshot_body {
    struct str name;
};
static const struct field snapshot_fields[] = {
    FIELD(STR, struct snapshot_body, name, "a name for the state", .max = 64),
    { 0 },
};

static void send_state(struct web *w, int status, const struct state *s, const struct err *e)
{
    struct buf o;
    struct jw j = { .out = &o };

    if (e) {
        fail(w, e);
        return;
    }
    buf_init(&o, LIMIT_HTTP_REPLY);
    jw_obj(&j);
    state_print(s, &j);
    jw_obj_end(&j);
    web_send(w, status, &o);
}

static void on_taken(void *arg, const struct state *s, const struct err *e)
{
    send_state(arg, 201, s, e);
}

static void snapshot(struct web *w)
{
    struct box *b = the_box(w);
    struct snapshot_body x;

    if (!b || !bind_body(w, snapshot_fields, &x))
        return;
    struct trajectory *t = box_trajectory(b);
    state_take(b, x.name, &(struct moment){ t ? t->id : NULL, t ? t->steps : 0, 0 }, on_taken, w);
}

/* --- reading --- */

static void on_rows(void *arg, const struct answer *a)
{
    struct web *w = arg;

    if (a->error)
        web_error(w, web_status_of((enum err_code)a->error), (enum err_code)a->error, "%.*s", STR_ARG(a->message));
    else
        http_reply(w->http, 200, "application/json", a->json);
}

static void states(struct web *w)
{
    struct query q = {
        .op = STR("states"), .box = http_query(w->http, "box"), .id = http_query(w->http, "trajectory"), .limit = 100
    };
    struct str after = http_query(w->http, "after");

    if (after.n)
        q.after = strtoll(arena_z(w->http->arena, after), NULL, 10);
    web_query(w, &q, on_rows, w);
}

static void on_one(void *arg, const struct state *s, const struct err *e)
{
    send_state(arg, 200, s, e);
}

static void state_get(struct web *w)
{
    state_find(w->node, w->tenant, w->match.id, on_one, w);
}

/* --- fork --- */

struct fork_body {
    int64_t n, step;
    struct str state, trajectory;
};
static const struct field fork_fields[] = {
    FIELD(INT, struct fork_body, n, "how many", .def = 1, .min = 1, .max = LIMIT_FORKS),
    FIELD(STR, struct fork_body, state, "a recorded state, by id or name; absent: the box as it is now", .max = 64),
    FIELD(INT, struct fork_body, step, "the state after this step of the box's trajectory", .def = FIELD_ABSENT,
          .min = 1, .max = 1e15),
    FIELD(STR, struct fork_body, trajectory, "whose step", .max = LIMIT_TRAJECTORY_ID),
    { 0 },
};

static void on_forks(void *arg, const struct forks *f, const struct err *e)
{
    struct buf o;
    struct jw j = { .out = &o };

    if (e) {
        fail(arg, e);
        return;
    }
    buf_init(&o, LIMIT_HTTP_REPLY);
    jw_obj(&j);
    forks_print(f, &j);
    jw_obj_end(&j);
    web_send(arg, f->made == f->total ? 201 : f->made ? 207 : 500, &o);
}

static void start_fork(struct web *w, struct box *b, struct str state)
{
    struct fork_body x;

    if (!bind_body(w, fork_fields, &x))
        return;
    if (state.n && x.state.n) {
        web_error(w, 400, ERR_INVALID, "state: the path says it already");
        return;
    }
    const struct time_ask ask = { .state = state.n ? state : x.state, .trajectory = x.trajectory, .step = x.step };
    box_fork(w->node, w->tenant, b, &ask, (size_t)x.n, on_forks, w);
}

static void box_fork_(struct web *w)
{
    struct box *b = the_box(w);
    if (b)
        start_fork(w, b, (struct str){ 0 });
}

static void state_fork(struct web *w)
{
    start_fork(w, NULL, w->match.id);
}

/* --- restore and reset: calls of the tools, so that they are steps of the box's trajectory --- */

static void on_rewound_call(void *arg, const struct call *c)
{
    struct web *w = arg;
    struct box *b = web_find_box(w, w->match.id);
    struct json *data = NULL;
    struct buf o;
    struct jw j = { .out = &o };
    struct err e;

    if (c->outcome != OUTCOME_OK || !b || json_parse(w->http->arena, c->data, &data, &e) < 0) {
        web_error(w, web_status_of(c->error), c->error, "%.*s", STR_ARG(c->message));
        return;
    }
    buf_init(&o, LIMIT_HTTP_REPLY);
    jw_obj(&j);
    box_print(b, &j);
    jw_kint(&j, "step", c->step);
    for (const struct json *v = data->first; v; v = v->next) {
        jw_key_str(&j, v->name);
        jw_raw(&j, v->raw);
    }
    jw_obj_end(&j);
    web_send(w, 200, &o);
}

static void start_rewind(struct web *w, const char *tool)
{
    struct box *b = the_box(w);

    if (!b)
        return;
    struct worker *k = worker_of_box(b);
    struct str worker = !k && b->sessions ? str_of(b->sessions->worker->id) : str_of(b->id);
    struct call_request r = { .surface = STR("own"),
                              .worker = arena_copy(w->http->arena, worker),
                              .action = str_of(tool),
                              .params = w->body,
                              .key = web_key(w),
                              .by_hand = true,
                              .box = b };
    struct err e;
    if (web_forward(w, &r, &e) < 0) {
        web_error(w, 400, e.code, "%s", e.msg);
        return;
    }
    web_call(w, &r, on_rewound_call, w);
}

static void restore(struct web *w)
{
    start_rewind(w, "box:restore");
}

static void reset(struct web *w)
{
    start_rewind(w, "box:reset");
}

/* --- removing --- */

struct gc_body {
    bool dry;
};
static const struct field gc_fields[] = {
    FIELD(BOOL, struct gc_body, dry, "only count"),
    { 0 },
};

static void on_gc(void *arg, const struct garbage *g, const struct err *e)
{
    struct buf o;
    struct jw j = { .out = &o };

    if (e) {
        fail(arg, e);
        return;
    }
    buf_init(&o, 4096);
    jw_obj(&j);
    jw_kint(&j, "layers_removed", (int64_t)g->layers_removed);
    jw_kint(&j, "layers_kept", (int64_t)g->layers_kept);
    jw_kint(&j, "objects_removed", (int64_t)g->objects_removed);
    jw_kint(&j, "objects_kept", (int64_t)g->objects_kept);
    jw_kint(&j, "states_dropped", (int64_t)g->states_dropped);
    jw_kint(&j, "removed_bytes", (int64_t)g->removed_bytes);
    jw_kint(&j, "used_bytes", (int64_t)g->used_bytes);
    jw_obj_end(&j);
    web_send(arg, 200, &o);
}

static void gc(struct web *w)
{
    struct gc_body x;

    if (bind_body(w, gc_fields, &x))
        garbage_collect(w->node, x.dry, on_gc, w);
}

static void on_doomed(void *arg, const struct state *s, const struct err *e)
{
    struct web *w = arg;
    struct buf o;
    struct jw j = { .out = &o };
    struct box *b;

    if (e) {
        fail(w, e);
        return;
    }
    for (size_t i = 0; (b = map_next(&w->node->boxes, &i));)
        if (strcmp(b->base_state, s->id) == 0) {
            web_error(w, 409, ERR_BUSY, "box %s goes back to state %s when it is reset", b->id, s->id);
            return;
        }
    state_drop(w->node, s->id, "asked for");
    buf_init(&o, 4096);
    jw_obj(&j);
    jw_kz(&j, "state", s->id);
    jw_kbool(&j, "removed", true);
    jw_obj_end(&j);
    web_send(w, 200, &o);
}

static void state_delete(struct web *w)
{
    state_find(w->node, w->tenant, w->match.id, on_doomed, w);
}

const struct route own_state_routes[] = {
    { "POST", "/sg/v1/gc", gc, ROUTE_ADMIN | ROUTE_SERVER },
    { "DELETE", "/sg/v1/states/{id}", state_delete, ROUTE_MANAGE },
    { "POST", "/sg/v1/boxes/{id}/snapshot", snapshot, ROUTE_MANAGE },
    { "POST", "/sg/v1/boxes/{id}/fork", box_fork_, ROUTE_MANAGE },
    { "POST", "/sg/v1/boxes/{id}/restore", restore, ROUTE_MANAGE },
    { "POST", "/sg/v1/boxes/{id}/reset", reset, ROUTE_MANAGE },
    { "GET", "/sg/v1/states", states, 0, "box trajectory after:n" },
    { "GET", "/sg/v1/states/{id}", state_get, ROUTE_TENANT },
    { "POST", "/sg/v1/states/{id}/fork", state_fork, ROUTE_MANAGE | ROUTE_TENANT },
    { "GET", "/sg/v1/states/{id}/files", own_checkout, ROUTE_TENANT },
    { "GET", "/sg/v1/diff", own_diff, ROUTE_TENANT, "a b text:b" },
    { 0 },
};

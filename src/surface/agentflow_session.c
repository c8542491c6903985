/* AgentFlow's sessions, lifecycle and init endpoints. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <stdlib.h>

#include "base/limits.h"
#include "session/quarantine.h"
#include "surface/agentflow.h"

/* The bodies of these endpoints are read field by field; what is missing is a 400 in the envelope. */
static bool need(struct web *w, const char *tool, const char *message, struct str *worker, struct str *type)
{
    struct buf b;
    struct jw j = { .out = &b };

    *worker = json_get_str(w->body, "worker_id");
    if (type)
        *type = json_get_str(w->body, "resource_type");
    if (worker->n && (!type || type->n))
        return true;
    buf_init(&b, 8192);
    jw_obj(&j);
    jw_kstr(&j, "worker_id", worker->n ? *worker : (struct str){ 0 });
    if (type)
        jw_kstr(&j, "resource_type", type->n ? *type : (struct str){ 0 });
    jw_obj_end(&j);
    envelope_send(w, 400, &(struct envelope){ 4002, message, buf_view(&b), tool, "session", NULL });
    buf_done(&b);
    return false;
}

static void no_session(struct web *w, const char *tool, struct str type)
{
    struct buf b;
    struct jw j = { .out = &b };

    buf_init(&b, 8192);
    jw_obj(&j);
    jw_kstr(&j, "resource_type", type);
    jw_obj_end(&j);
    envelope_send(w, 404,
                  &(struct envelope){ 4007, arena_printf(w->http->arena, "No session found for %.*s", STR_ARG(type)),
                                      buf_view(&b), tool, "session", NULL });
    buf_done(&b);
}

/* --- opening: session/create, init/resource, init/batch share it --- */

struct opening {
    struct web *web;
    void (*done)(struct opening *o);
    const struct json *config; /* nullable */
    struct str custom, type;
    /* how it went */
    bool failed, existed, compatible;
    char id[160], name[128];
    struct err error;
    void *arg;
    size_t index;
};

static void on_open(void *arg, struct session *s, const struct err *e)
{
    struct opening *o = arg;

    snprintf(o->id, sizeof o->id, "%s", s->id);
    snprintf(o->name, sizeof o->name, "%s", s->name);
    o->compatible = !s->box;
    if (e) {
        o->failed = true;
        o->error = *e;
    }
    o->done(o);
}

static int read_ttl(const struct web *w, const struct json *config, int64_t *ret_ms, struct err *e)
{
    const struct json *ttl = json_get(w->body, "ttl");

    if (!ttl || ttl->type == JSON_NULL)
        ttl = json_get(config, "ttl");
    if (!ttl || ttl->type == JSON_NULL)
        return 0;
    if (ttl->type != JSON_NUM)
        return err_set(e, ERR_TYPE, "ttl: expected seconds, got %s", json_type_name(ttl->type));
    if (!(ttl->num > 0 && ttl->num <= LIMIT_TTL_MS / 1000.0))
        return err_set(e, ERR_LIMIT, "ttl: %g s is outside 0 to LIMIT_TTL_MS (%ld s)", ttl->num, LIMIT_TTL_MS / 1000);
    *ret_ms = (int64_t)ceil(ttl->num * 1000);
    return 0;
}

static void unknown_type(struct opening *o)
{
    char known[184];
    size_t n = 0;
    bool more = false; /* of extensions and MCP servers there may be any number */

    known[0] = 0;
    for (size_t i = 0; backends[i]; i++) {
        if (backends[i]->hidden && !o->web->node->opts.test_backends)
            continue;
        if (n + strlen(backends[i]->name) + sizeof ", , ..." > sizeof known)
            more = true;
        else
            n += (size_t)sprintf(known + n, "%s%s", n ? ", " : "", backends[i]->name);
    }
    err_set(&o->error, ERR_INVALID, "resource_type: no backend '%.*s' (known: %s%s)",
            o->type.n < 24 ? (int)o->type.n : 24, o->type.p, known, more ? ", ..." : "");
    o->failed = true;
}

static const struct json *object_of(const struct json *v)
{
    return v && v->type == JSON_OBJ ? v : NULL;
}

/* The named member of the body, if it is an object; another type than that fails the opening. */
static void read_config(struct opening *o, const struct json *v, const char *name)
{
    o->config = object_of(v);
    if (!v || v->type == JSON_OBJ || v->type == JSON_NULL)
        return;
    err_set(&o->error, ERR_TYPE, "%s: expected object, got %s", name, json_type_name(v->type));
    o->failed = true;
}

/* A session that continues a trajectory: {"trajectory_id": "t-1", "fast_forward": true}, in its config or beside it.
 * The worker's calls, which need not say anything, are then answered from the log until it ends. */
static int arm_forward(const struct opening *o, struct worker *k, struct err *e)
{
    const struct json *from = json_get(o->config, "fast_forward") ? o->config : o->web->body;
    const struct json *wish = json_get(from, "fast_forward");
    struct str id = json_get_str(from, "trajectory_id");

    if (!wish || wish->type == JSON_NULL || (wish->type == JSON_BOOL && !wish->b))
        return 0;
    if (wish->type != JSON_BOOL && !(wish->type == JSON_STR && str_is(wish->s, "begin")))
        return err_set(e, ERR_INVALID, "fast_forward: expected true, false or \"begin\"");
    if (!id.n && k->trajectory)
        id = str_of(k->trajectory->id);
    if (id.n > LIMIT_TRAJECTORY_ID)
        return err_set(e, ERR_LIMIT, "trajectory_id: %zu bytes exceed LIMIT_TRAJECTORY_ID (%d)", id.n,
                       LIMIT_TRAJECTORY_ID);
    return id.n ? forward_arm(k, id, e) : 0;
}

static void open_session(struct opening *o, struct str worker_id)
{
    struct web *w = o->web;
    const struct backend *b = backend_find(o->type);
    struct worker *k = o->failed ? NULL : web_get_worker(w, worker_id, &o->error);
    struct session *s = NULL;

    if (!k || arm_forward(o, k, &o->error) < 0) {
        o->failed = true;
    } else if (!b || (b->hidden && !w->node->opts.test_backends)) {
        unknown_type(o);
    } else if ((s = session_find(k, b)) && s->box && box_quarantined(s->box)) {
        o->failed = box_quarantine_error(s->box, &o->error) < 0;
        o->error.code = ERR_SYSTEM; /* the session is in error, the request is not */
        snprintf(o->id, sizeof o->id, "%s", s->id);
        snprintf(o->name, sizeof o->name, "%s", s->name);
    } else if (s && !s->lost) {
        session_touch(s);
        o->existed = true;
        session_when_open(s, on_open, o); /* two who ask at once get the same one, when it is up */
        return;
    } else {
        struct session_ask ask = {
            .backend = b, .config = o->config, .custom_name = o->custom, .on_open = on_open, .arg = o
        };
        if (s) /* its box was lost: asking for it again is what ends it */
            session_close(s, "lost");
        if (read_ttl(w, o->config, &ask.ttl_ms, &o->error) == 0 && session_open(k, &ask, &s, &o->error) == 0)
            return; /* on_open goes on */
        o->failed = true;
    }
    o->done(o);
}

static void print_opened(const struct opening *o, struct jw *j, bool with_name)
{
    jw_kstr(j, "session_id", o->id[0] ? str_of(o->id) : (struct str){ 0 });
    if (with_name)
        jw_kstr(j, "session_name", o->name[0] ? str_of(o->name) : (struct str){ 0 });
    jw_kstr(j, "resource_type", o->type);
    jw_kz(j, "session_status", o->failed ? "error" : "active");
    jw_kz(j, "error", o->failed ? o->error.msg : NULL);
}

/* AgentFlow's facade and the examples of its client read these beside the envelope's members. */
static struct str beside_of(struct web *w, const char *id, const char *name)
{
    struct buf b;
    struct jw j = { .out = &b };

    buf_init(&b, 1024);
    jw_kz(&j, "session_id", id);
    jw_kz(&j, "session_name", name);
    struct str s = arena_copy(w->http->arena, buf_view(&b));
    buf_done(&b);
    return s;
}

static void send_opened(struct opening *o, const char *tool, bool create)
{
    struct web *w = o->web;
    struct buf b;
    struct jw j = { .out = &b };

    buf_init(&b, 16384);
    jw_obj(&j);
    if (o->existed && !o->failed && create)
        jw_kz(&j, "status", "exists");
    print_opened(o, &j, create);
    if (o->compatible && !o->failed && !o->existed && create) {
        jw_kbool(&j, "compatibility_mode", true);
        jw_kz(&j, "compatibility_message",
              arena_printf(w->http->arena, "Resource type '%.*s' does not require session initialization.",
                           STR_ARG(o->type)));
    }
    jw_obj_end(&j);
    struct envelope v = { 0, "success", buf_view(&b), tool, "session", o->id[0] ? o->id : NULL };
    int status = 200;
    if (create && !o->failed)
        v.beside = beside_of(w, o->id, o->name);
    if (o->failed) {
        int theirs = envelope_code(o->error.code);
        v.code = theirs ? theirs : 4007;
        v.message = theirs ? o->error.msg : create ? "Session creation failed" : "Resource initialization failed";
        status = theirs ? 400 : o->error.code == ERR_BUSY ? 429 : 500;
    }
    envelope_send(w, status, &v);
    buf_done(&b);
}

static void create_done(struct opening *o)
{
    send_opened(o, "session:create", true);
}

static void session_create(struct web *w)
{
    struct opening *o = arena_alloc(w->http->arena, sizeof *o);
    struct str worker;

    if (!need(w, "session:create", "worker_id and resource_type required", &worker, &o->type))
        return;
    o->web = w;
    o->done = create_done;
    read_config(o, json_get(w->body, "session_config"), "session_config");
    if (!o->config && !o->failed) /* as the introduction writes it */
        read_config(o, json_get(w->body, "config"), "config");
    o->custom = json_get_str(w->body, "custom_name");
    open_session(o, worker);
}

static void init_done(struct opening *o)
{
    send_opened(o, "init:resource", false);
}

static void init_resource(struct web *w)
{
    struct opening *o = arena_alloc(w->http->arena, sizeof *o);
    struct str worker;
    struct model m;

    model_begin(&m, w);
    model_str(&m, "worker_id", &worker);
    model_str(&m, "resource_type", &o->type);
    o->config = model_dict(&m, "init_config");
    if (!model_end(&m))
        return;
    o->web = w;
    o->done = init_done;
    open_session(o, worker);
}

struct init_batch {
    struct web *web;
    struct str worker;
    const struct json *next; /* the resource to be opened next */
    struct buf results;
    struct jw out;
    size_t total, ok;
};

static void init_batch_step(struct init_batch *b);

static void init_batch_done(struct opening *o)
{
    struct init_batch *b = o->arg;
    struct jw *j = &b->out;

    jw_key_str(j, o->type);
    jw_obj(j);
    jw_kz(j, "status", o->failed ? "error" : "success");
    jw_kstr(j, "session_id", o->id[0] ? str_of(o->id) : (struct str){ 0 });
    jw_kz(j, "session_status", o->failed ? "error" : "active");
    jw_kz(j, "error", o->failed ? o->error.msg : NULL);
    jw_obj_end(j);
    b->ok += !o->failed;
    init_batch_step(b);
}

static void init_batch_send(struct init_batch *b)
{
    struct web *w = b->web;
    struct buf o;
    struct jw j = { .out = &o };

    buf_init(&o, LIMIT_HTTP_REPLY);
    jw_obj(&j);
    jw_kstr(&j, "worker_id", b->worker);
    jw_key(&j, "results");
    jw_obj(&j);
    if (b->results.n)
        jw_raw(&j, buf_view(&b->results));
    jw_obj_end(&j);
    jw_kint(&j, "total", (int64_t)b->total);
    jw_kint(&j, "success_count", (int64_t)b->ok);
    jw_obj_end(&j);
    struct envelope v = { 0, "success", buf_view(&o), "init:batch", "session", NULL };
    int status = 200;
    if (b->ok < b->total && b->ok == 0) {
        v.code = 5009;
        v.message = "All resources failed to initialize";
        status = 500;
    } else if (b->ok < b->total) {
        v.code = 5010;
        v.message = arena_printf(w->http->arena, "%zu out of %zu resources failed", b->total - b->ok, b->total);
        status = 207;
    }
    envelope_send(w, status, &v);
    buf_done(&o);
    buf_done(&b->results);
}

static void init_batch_step(struct init_batch *b)
{
    const struct json *k = b->next;

    if (!k) {
        init_batch_send(b);
        return;
    }
    b->next = k->next;
    struct opening *o = arena_alloc(b->web->http->arena, sizeof *o);
    o->web = b->web;
    o->done = init_batch_done;
    o->arg = b;
    o->type = k->name;
    const struct json *content = json_get(k, "content");
    read_config(o, content ? content : k, "resource_configs");
    open_session(o, b->worker);
}

static void init_batch(struct web *w)
{
    struct init_batch *b = arena_alloc(w->http->arena, sizeof *b);
    struct model m;

    model_begin(&m, w);
    model_str(&m, "worker_id", &b->worker);
    const struct json *configs = model_dict(&m, "resource_configs");
    b->total = configs ? configs->count : 0;
    if (b->total > LIMIT_INIT_BATCH)
        model_wrong(&m, "too_long", "resource_configs",
                    arena_printf(w->http->arena, "Dictionary should have at most %d items (LIMIT_INIT_BATCH), not %zu",
                                 LIMIT_INIT_BATCH, b->total),
                    STR("null"));
    if (!model_end(&m))
        return;
    b->web = w;
    b->next = configs ? configs->first : NULL;
    buf_init(&b->results, LIMIT_HTTP_REPLY);
    b->out = (struct jw){ .out = &b->results };
    init_batch_step(b);
}

/* --- the rest of a session's life --- */

/* NULL: not known. None of its sessions is over time. */
static struct worker *known_worker(struct web *w, struct str id)
{
    struct worker *k = web_find_worker(w, id);

    if (k)
        worker_expire(k, wall_us());
    return k;
}

static struct session *named_session(struct web *w, struct str worker, struct str type)
{
    struct worker *k = known_worker(w, worker);
    const struct backend *b = backend_find(type);
    return k && b ? session_find(k, b) : NULL;
}

static void session_destroy(struct web *w)
{
    struct str worker, type;
    struct buf b;
    struct jw j = { .out = &b };

    if (!need(w, "session:destroy", "worker_id and resource_type required", &worker, &type))
        return;
    struct session *s = named_session(w, worker, type);
    if (!s) {
        no_session(w, "session:destroy", type);
        return;
    }
    char *id = arena_printf(w->http->arena, "%s", s->id);
    buf_init(&b, 8192);
    jw_obj(&j);
    jw_kz(&j, "message", arena_printf(w->http->arena, "Session destroyed for %.*s", STR_ARG(type)));
    jw_kz(&j, "session_id", s->id);
    jw_kz(&j, "session_name", s->name);
    jw_kstr(&j, "resource_type", type);
    jw_obj_end(&j);
    struct envelope v = { 0, "success", buf_view(&b), "session:destroy", "session", id, beside_of(w, id, s->name) };
    session_close(s, "destroyed");
    envelope_send(w, 200, &v);
    buf_done(&b);
}

static void session_list(struct web *w)
{
    struct str worker;
    struct buf b;
    struct jw j = { .out = &b };
    int64_t n = 0;

    if (!need(w, "session:list", "worker_id required", &worker, NULL))
        return;
    struct worker *k = known_worker(w, worker);
    buf_init(&b, LIMIT_HTTP_REPLY);
    jw_obj(&j);
    jw_kstr(&j, "worker_id", worker);
    jw_key(&j, "sessions");
    jw_arr(&j);
    for (struct session *s = k ? k->sessions : NULL; s; s = s->next, n++) {
        jw_obj(&j);
        session_print(s, &j);
        jw_obj_end(&j);
    }
    jw_arr_end(&j);
    jw_kint(&j, "count", n);
    jw_obj_end(&j);
    envelope_send(w, 200, &(struct envelope){ 0, "success", buf_view(&b), "session:list", "session", NULL });
    buf_done(&b);
}

static void refresh_one(struct web *w, struct session *s, struct str type)
{
    struct buf b;
    struct jw j = { .out = &b };
    char t[32];

    session_touch(s);
    iso_time(s->expires_us, t);
    buf_init(&b, 8192);
    jw_obj(&j);
    jw_kz(&j, "message", arena_printf(w->http->arena, "Session refreshed for %.*s", STR_ARG(type)));
    jw_kstr(&j, "resource_type", type);
    jw_kz(&j, "session_id", s->id);
    jw_kz(&j, "expires_at", t);
    jw_obj_end(&j);
    envelope_send(w, 200, &(struct envelope){ 0, "success", buf_view(&b), "session:refresh", "session", s->id });
    buf_done(&b);
}

static void session_refresh(struct web *w)
{
    struct str worker, type = json_get_str(w->body, "resource_type");
    struct buf b, details;
    struct jw j = { .out = &b }, d = { .out = &details };
    int n = 0;
    char t[32];

    if (!need(w, "session:refresh", "worker_id required", &worker, NULL))
        return;
    if (type.n) {
        struct session *s = named_session(w, worker, type);
        if (s)
            refresh_one(w, s, type);
        else
            no_session(w, "session:refresh", type);
        return;
    }
    struct worker *k = known_worker(w, worker);
    buf_init(&details, LIMIT_HTTP_REPLY);
    jw_obj(&d);
    for (struct session *s = k ? k->sessions : NULL; s; s = s->next) {
        if (s->temporary)
            continue;
        session_touch(s);
        iso_time(s->expires_us, t);
        jw_key(&d, s->backend->name);
        jw_obj(&d);
        jw_kz(&d, "status", "refreshed");
        jw_kz(&d, "expires_at", t);
        jw_obj_end(&d);
        n++;
    }
    jw_obj_end(&d);
    buf_init(&b, LIMIT_HTTP_REPLY);
    jw_obj(&j);
    jw_kz(&j, "message", arena_printf(w->http->arena, "Refreshed %d sessions", n));
    jw_kstr(&j, "worker_id", worker);
    jw_kint(&j, "refreshed_count", n);
    jw_kraw(&j, "details", buf_view(&details));
    jw_obj_end(&j);
    envelope_send(w, 200, &(struct envelope){ 0, "success", buf_view(&b), "session:refresh", "session", NULL });
    buf_done(&details);
    buf_done(&b);
}

static void print_names(const struct worker *k, const char *key, struct jw *j)
{
    jw_key(j, key);
    jw_arr(j);
    for (struct session *s = k ? k->sessions : NULL; s; s = s->next)
        if (!s->temporary)
            jw_z(j, s->backend->name);
    jw_arr_end(j);
}

static void heartbeat(struct web *w)
{
    struct str worker;
    struct buf b;
    struct jw j = { .out = &b };
    char t[32];

    if (!need(w, "session:heartbeat", "worker_id required", &worker, NULL))
        return;
    iso_time(wall_us(), t);
    buf_init(&b, LIMIT_HTTP_REPLY);
    jw_obj(&j);
    jw_kstr(&j, "worker_id", worker);
    print_names(known_worker(w, worker), "active_sessions", &j);
    jw_kz(&j, "timestamp", t);
    jw_obj_end(&j);
    envelope_send(w, 200, &(struct envelope){ 0, "success", buf_view(&b), "session:heartbeat", "session", NULL });
    buf_done(&b);
}

static void lifecycle_status(struct web *w)
{
    struct str worker;
    struct buf b;
    struct jw j = { .out = &b };
    int64_t tools = 0;
    char t[32];

    if (!need(w, "session:status", "worker_id required", &worker, NULL))
        return;
    struct worker *k = known_worker(w, worker);
    for (size_t i = 0; backends[i]; i++)
        if (!backends[i]->hidden || w->node->opts.test_backends)
            tools += (int64_t)backends[i]->tool_count;
    buf_init(&b, LIMIT_HTTP_REPLY);
    jw_obj(&j);
    jw_kstr(&j, "worker_id", worker);
    print_names(k, "active_resources", &j);
    jw_key(&j, "sessions");
    jw_obj(&j);
    for (struct session *s = k ? k->sessions : NULL; s; s = s->next) {
        if (s->temporary)
            continue;
        jw_key(&j, s->backend->name);
        jw_obj(&j);
        jw_kz(&j, "session_id", s->id);
        jw_kz(&j, "status", session_status(s));
        iso_time(s->created_us, t);
        jw_kz(&j, "created_at", t);
        iso_time(s->last_us, t);
        jw_kz(&j, "last_activity", t);
        jw_obj_end(&j);
    }
    jw_obj_end(&j);
    jw_kint(&j, "tools_available", tools);
    jw_kz(&j, "trajectory_id", k && k->trajectory ? k->trajectory->id : NULL);
    jw_obj_end(&j);
    envelope_send(w, 200, &(struct envelope){ 0, "success", buf_view(&b), "session:status", "session", NULL });
    buf_done(&b);
}

static void disconnect(struct web *w)
{
    struct str worker;
    struct buf b;
    struct jw j = { .out = &b };
    size_t n = 0;
    struct model m;

    model_begin(&m, w);
    model_str(&m, "worker_id", &worker);
    if (!model_end(&m))
        return;
    struct worker *k = known_worker(w, worker);
    if (k) {
        worker_disconnect(k, "disconnected", &n);
        worker_end_episode(k);
    }
    buf_init(&b, 8192);
    jw_obj(&j);
    jw_kstr(&j, "worker_id", worker);
    jw_kint(&j, "sessions_cleaned", (int64_t)n);
    jw_obj_end(&j);
    envelope_send(w, 200, &(struct envelope){ 0, "success", buf_view(&b), "session:disconnect", "session", NULL });
    buf_done(&b);
}

const struct route agentflow_session_routes[] = {
    { "POST", "/api/v1/session/create", session_create, ROUTE_MANAGE | ROUTE_TENANT },
    { "POST", "/api/v1/session/destroy", session_destroy, ROUTE_MANAGE | ROUTE_TENANT },
    { "POST", "/api/v1/session/list", session_list, ROUTE_READ | ROUTE_TENANT },
    { "POST", "/api/v1/session/refresh", session_refresh, ROUTE_TENANT },
    { "POST", "/api/v1/lifecycle/heartbeat", heartbeat, ROUTE_TENANT },
    { "POST", "/api/v1/lifecycle/status", lifecycle_status, ROUTE_READ | ROUTE_TENANT },
    { "POST", "/api/v1/worker/disconnect", disconnect, ROUTE_MANAGE | ROUTE_TENANT },
    { "POST", "/api/v1/init/resource", init_resource, ROUTE_MANAGE | ROUTE_TENANT },
    { "POST", "/api/v1/init/batch", init_batch, ROUTE_MANAGE | ROUTE_TENANT },
    { 0 },
};

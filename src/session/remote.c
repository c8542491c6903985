#include "session/remote.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/limits.h"
#include "session/call_parts.h"

enum { SWEEP_MS = 100 };

static struct remote *remotes;
static struct loop_timer *sweeper;

static void *zalloc(size_t n)
{
    void *p = calloc(1, n);

    if (!p)
        abort();
    return p;
}

static char *copy(struct str s)
{
    char *z = zalloc(s.n + 1);

    memcpy(z, s.p ? s.p : "", s.n);
    return z;
}

/* --- jobs --- */

static void sweep(void *arg)
{
    struct node *n = arg;
    int64_t now = now_ms();
    bool any = false;

    for (struct remote *r = remotes; r; r = r->next) {
        for (struct remote_job *j = r->jobs, *next; j; j = next) {
            next = j->next;
            if (j->deadline_ms && now >= j->deadline_ms) {
                if (r->up)
                    r->ops->cancel(r, j);
                remote_answer(j, NULL, "timeout", "it did not answer in time");
                next = r->jobs; /* the list may have changed in any way */
            }
        }
        any |= r->jobs != NULL;
    }
    (void)n;
    if (any)
        loop_timer_set(sweeper, SWEEP_MS);
}

static struct remote_job *job_new(struct remote *r, int64_t timeout_ms)
{
    struct remote_job *j = zalloc(sizeof *j);

    if (!r->jobs)
        loop_timer_set(sweeper, SWEEP_MS);
    j->remote = r;
    j->id = ++r->last_job;
    j->deadline_ms = timeout_ms ? now_ms() + timeout_ms : 0;
    j->next = r->jobs;
    r->jobs = j;
    r->job_count++;
    return j;
}

struct remote_job *remote_ask(struct remote *r, int64_t timeout_ms,
                              void (*asked)(struct remote_job *j, const struct json *ok, const char *error), void *arg)
{
    struct remote_job *j = job_new(r, timeout_ms);

    j->asked = asked;
    j->arg = arg;
    return j;
}

struct remote_job *remote_find(struct remote *r, uint64_t id)
{
    struct remote_job *j = r->jobs;

    while (j && j->id != id)
        j = j->next;
    return j;
}

static void end_call(struct call *c, const struct json *ok, const char *code, const char *error)
{
    c->run_us = now_us() - c->sent_us;
    if (ok) {
        buf_init(&c->out, LIMIT_RECORD);
        if (ok->type == JSON_OBJ) {
            buf_str(&c->out, ok->raw);
        } else { /* a result is an object */
            struct jw w = { .out = &c->out };
            jw_obj(&w);
            jw_kraw(&w, "result", ok->raw);
            jw_obj_end(&w);
        }
        c->data = buf_view(&c->out);
    }
    if (!code) {
        c->outcome = OUTCOME_OK;
        call_finish(c);
        return;
    }
    bool late = strcmp(code, "timeout") == 0, theirs = strcmp(code, "invalid") == 0, ours = strcmp(code, "infra") == 0;
    c->outcome = late                             ? OUTCOME_TIMEOUT
                 : theirs                         ? OUTCOME_INVALID_REQUEST
                 : ours                           ? OUTCOME_INFRA_ERROR
                 : strcmp(code, "cancelled") == 0 ? OUTCOME_KILLED
                                                  : OUTCOME_TASK_ERROR;
    c->error = theirs ? ERR_INVALID : ours ? ERR_SYSTEM : ERR_NONE;
    c->message = arena_copy(&c->arena, (struct str){ error, strnlen(error, LIMIT_REMOTE_MESSAGE) });
    call_finish(c);
}

void remote_answer(struct remote_job *j, const struct json *ok, const char *code, const char *error)
{
    struct remote *r = j->remote;
    struct remote_job **p = &r->jobs;
    struct err e;

    while (*p != j)
        p = &(*p)->next;
    *p = j->next;
    r->job_count--;
    if (j->asked) {
        j->asked(j, ok, error);
    } else if (j->call) {
        end_call(j->call, ok, code, error);
    } else if (j->session && ok) {
        session_up(j->session);
    } else if (j->session) {
        err_set(&e, ERR_SYSTEM, "%s could not open a session: %.200s", r->name, error);
        session_lost(j->session, OUTCOME_INFRA_ERROR, &e);
    }
    free(j);
}

void remote_down(struct remote *r, const char *why)
{
    char text[200];

    r->up = false;
    snprintf(text, sizeof text, "%s: %s", r->name, why);
    while (r->jobs)
        remote_answer(r->jobs, NULL, "infra", text);
}

/* --- the table --- */

struct remote *remote_new(struct node *n, const char *name, const struct remote_ops *ops, void *owner, struct err *e)
{
    size_t count = 0;

    for (struct remote *r = remotes; r; r = r->next)
        count++;
    if (count >= LIMIT_REMOTES) {
        err_set(e, ERR_LIMIT, "there are LIMIT_REMOTES (%d) extensions and MCP servers already", LIMIT_REMOTES);
        return NULL;
    }
    if (!sweeper)
        sweeper = loop_timer_new(n->loop, sweep, n);
    struct remote *r = zalloc(sizeof *r);
    *r = (struct remote){ .node = n, .ops = ops, .owner = owner, .next = remotes };
    snprintf(r->name, sizeof r->name, "%s", name);
    remotes = r;
    return r;
}

static bool is_name(struct str s)
{
    static const char fine[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.";

    if (!s.n || s.n > 64)
        return false;
    for (size_t i = 0; i < s.n; i++)
        if (!s.p[i] || !strchr(fine, s.p[i]))
            return false;
    return true;
}

static char *schema_text(const struct json *tool, const char *key, const char *otherwise)
{
    const struct json *s = json_get(tool, key);

    return s && s->type == JSON_OBJ ? copy(s->raw) : copy(str_of(otherwise));
}

static int read_tool(const char *backend, const struct json *j, struct tool *t, struct err *e)
{
    struct str name = json_get_str(j, "name"), help = json_get_str(j, "help"), title = json_get_str(j, "title");
    char *full;

    if (!is_name(name))
        return err_set(e, ERR_INVALID, "backends[].tools[].name: 1 to 64 letters, digits, _ - . are a name");
    full = zalloc(strlen(backend) + name.n + 2);
    sprintf(full, "%s:%.*s", backend, STR_ARG(name));
    *t = (struct tool){ .name = full,
                        .title = copy(title.n ? title : name),
                        .help = copy(help.p ? help : STR("")),
                        .flags = TOOL_REMOTE | (json_get_bool(j, "read_only", false) ? TOOL_READ_ONLY : 0) |
                                 (json_get_bool(j, "idempotent", false) ? TOOL_IDEMPOTENT : 0) |
                                 (json_get_bool(j, "mcp", false) ? TOOL_MCP : 0),
                        .params_schema = schema_text(j, "parameters", REMOTE_ANY),
                        .result_schema = schema_text(j, "result", REMOTE_ANY) };
    return 0;
}

static int kind_of(struct str s, enum backend_kind *ret)
{
    static const char *const names[] = { "session", "shared", "hybrid", "stateless" };

    *ret = KIND_STATELESS;
    if (!s.p)
        return 0;
    for (int i = 0; i < 4; i++)
        if (str_is(s, names[i])) {
            *ret = (enum backend_kind)i;
            return 0;
        }
    return -EINVAL;
}

/* Backends and tools are never freed: calls and sessions may still point to what an older version of it offered. */
static int read_backend(struct remote *r, const struct json *j, struct err *e)
{
    struct str name = json_get_str(j, "name");
    const struct json *tools = json_get(j, "tools");
    const struct backend *old;
    enum backend_kind kind;

    if (!is_name(name))
        return err_set(e, ERR_INVALID, "backends[].name: 1 to 64 letters, digits, _ - . are a name");
    if (kind_of(json_get_str(j, "kind"), &kind) < 0)
        return err_set(e, ERR_INVALID, "backends[].kind: session, shared, hybrid or stateless");
    if (!tools || tools->type != JSON_ARR || !tools->count || tools->count > LIMIT_REMOTE_TOOLS)
        return err_set(e, ERR_LIMIT, "backends[].tools: an array of 1 to LIMIT_REMOTE_TOOLS (%d) tools",
                       LIMIT_REMOTE_TOOLS);
    old = backend_find(name);
    if (old && (!old->remote || (old->remote != r && old->remote->up)))
        return err_set(e, ERR_EXISTS, "backends[].name: there is a backend '%.*s' already", STR_ARG(name));
    struct backend *b = zalloc(sizeof *b);
    struct tool *rows = zalloc(tools->count * sizeof *rows);
    struct str help = json_get_str(j, "help");
    *b = (struct backend){
        .name = copy(name), .help = copy(help.p ? help : STR("")), .kind = kind, .tools = rows, .remote = r
    };
    b->full_names = true;
    for (const struct json *t = tools->first; t; t = t->next) {
        int res = read_tool(b->name, t, &rows[b->tool_count], e);
        if (res < 0)
            return res;
        b->tool_count++;
    }
    backend_put(b);
    return 0;
}

int remote_offer(struct remote *r, const struct json *list, struct err *e)
{
    if (!list || list->type != JSON_ARR || !list->count || list->count > 64)
        return err_set(e, ERR_INVALID, "backends: an array of 1 to 64 backends");
    for (const struct json *b = list->first; b; b = b->next) {
        int res = read_backend(r, b, e);
        if (res < 0)
            return res;
    }
    r->up = true;
    if (r->node->on_tools)
        r->node->on_tools(r->node->arg);
    return 0;
}

const struct tool *remote_gone(struct str name, const struct backend **ret_backend)
{
    struct backend *b = zalloc(sizeof *b);
    struct tool *t = zalloc(sizeof *t);

    *t = (struct tool){
        .name = copy(name), .title = "", .help = "", .flags = TOOL_REMOTE, .params_schema = "{}", .result_schema = "{}"
    };
    *b = (struct backend){ .name = "gone", .help = "", .kind = KIND_STATELESS, .tools = t, .tool_count = 1 };
    *ret_backend = b;
    return t;
}

/* --- parameters: as much of a schema as tells a caller what is wrong --- */

static bool is_type(const struct json *v, struct str type)
{
    switch (v->type) {
    case JSON_NULL: return str_is(type, "null");
    case JSON_BOOL: return str_is(type, "boolean");
    case JSON_NUM: return str_is(type, "number") || (str_is(type, "integer") && v->num == (double)(int64_t)v->num);
    case JSON_STR: return str_is(type, "string");
    case JSON_ARR: return str_is(type, "array");
    case JSON_OBJ: return str_is(type, "object");
    }
    return false;
}

static bool has_type(const struct json *v, const struct json *type)
{
    if (!type)
        return true;
    if (type->type == JSON_STR)
        return is_type(v, type->s);
    for (const struct json *t = type->first; t; t = t->next)
        if (t->type == JSON_STR && is_type(v, t->s))
            return true;
    return false;
}

int remote_check(const struct tool *t, const struct json *params, struct err *e)
{
    struct arena a = { 0 };
    struct json *schema = NULL;
    struct err ignored;
    int r = 0;

    if (json_parse(&a, str_of(t->params_schema), &schema, &ignored) < 0)
        schema = NULL;
    const struct json *properties = json_get(schema, "properties"), *required = json_get(schema, "required");
    const struct json *more = json_get(schema, "additionalProperties");
    for (const struct json *k = required ? required->first : NULL; k && r == 0; k = k->next)
        if (k->type == JSON_STR && !json_get(params, arena_z(&a, k->s)))
            r = err_set(e, ERR_MISSING, "%.*s: required", STR_ARG(k->s));
    for (const struct json *v = params ? params->first : NULL; v && r == 0; v = v->next) {
        const struct json *p = json_get(properties, arena_z(&a, v->name));
        if (!p && more && more->type == JSON_BOOL && !more->b)
            r = err_set(e, ERR_INVALID, "%.*s: unknown parameter", STR_ARG(v->name));
        else if (p && !has_type(v, json_get(p, "type")))
            r = err_set(e, ERR_TYPE, "%.*s: expected %.*s, got %s", STR_ARG(v->name), STR_ARG(json_get(p, "type")->raw),
                        json_type_name(v->type));
    }
    arena_done(&a);
    return r;
}

/* --- calls --- */

static void send_call(struct call *c)
{
    struct remote *r = c->backend->remote;
    struct err e;

    if (!r || !r->up) {
        err_set(&e, ERR_BUSY, "the process behind %s is not there; try again in a moment", c->tool->name);
        call_fail(c, OUTCOME_INFRA_ERROR, &e, true);
        return;
    }
    if (r->job_count >= LIMIT_REMOTE_JOBS) {
        err_set(&e, ERR_BUSY, "%s: LIMIT_REMOTE_JOBS (%d) calls are under way", r->name, LIMIT_REMOTE_JOBS);
        call_fail(c, OUTCOME_INFRA_ERROR, &e, true);
        return;
    }
    if (call_promise(c, &e) < 0)
        call_fail(c, OUTCOME_INFRA_ERROR, &e, true);
}

void remote_send(struct call *c)
{
    struct remote *r = c->backend->remote;
    struct err e;

    if (!r->up) { /* it went in this turn */
        err_set(&e, ERR_SYSTEM, "the process behind %s is gone", c->tool->name);
        call_fail(c, OUTCOME_INFRA_ERROR, &e, false);
        return;
    }
    struct remote_job *j = job_new(r, c->timeout_ms);
    j->call = c;
    r->ops->call(r, j, c);
}

static void on_session(void *arg, struct session *s, const struct err *e)
{
    struct call *c = arg;

    (void)s;
    if (e)
        call_fail(c, OUTCOME_INFRA_ERROR, e, true);
    else
        send_call(c);
}

void remote_call(struct call *c)
{
    struct session *s = session_find(c->worker, c->backend);

    c->temporary = !s && (c->backend->kind == KIND_SESSION || c->backend->kind == KIND_HYBRID);
    if (!s) {
        send_call(c);
        return;
    }
    snprintf(c->session_id, sizeof c->session_id, "%s", s->id);
    session_touch(s);
    session_when_open(s, on_session, c);
}

void remote_cancel(struct node *n, uint64_t call)
{
    (void)n;
    for (struct remote *r = remotes; r; r = r->next)
        for (struct remote_job *j = r->jobs; j; j = j->next)
            if (j->call && j->call->id == call) {
                if (r->up)
                    r->ops->cancel(r, j);
                remote_answer(j, NULL, "cancelled", "cancelled by its caller");
                return;
            }
}

/* --- sessions --- */

void remote_open(struct session *s, struct err *e)
{
    struct remote *r = s->backend->remote;

    if (!r->ops->open) {
        session_up(s);
        return;
    }
    if (!r->up) {
        err_set(e, ERR_BUSY, "the process behind %s is not there; try again in a moment", s->backend->name);
        session_lost(s, OUTCOME_INFRA_ERROR, e);
        return;
    }
    struct remote_job *j = job_new(r, r->node->opts.call_timeout_ms);
    j->session = s;
    r->ops->open(r, j, s);
}

void remote_close(struct session *s)
{
    struct remote *r = s->backend->remote;

    for (struct remote_job *j = r->jobs; j; j = j->next)
        if (j->session == s)
            j->session = NULL; /* nobody waits for it any more */
    if (r->up && r->ops->close)
        r->ops->close(r, s);
}

/* What a request asks for: the tool that its action names, its parameters by the tool's table, its time. The log has the
 * names of secrets, the tool gets their values. */
#include "base/limits.h"
#include "session/call_parts.h"
#include "session/remote.h"
#include "session/secret.h"

/* The one that was chosen, or that the worker's session has, if there is one. */
static const struct box *box_of_call(const struct call *c)
{
    const struct box *chosen = call_chosen(c);
    const struct session *s = chosen ? NULL : session_find(c->worker, c->backend);

    return s ? s->box : chosen;
}

static int with_secrets(struct call *c, const struct json **params, struct err *e)
{
    const struct box *b = box_of_call(c);
    struct secret_use use = { c->tenant, c->tool->name, b ? b->id : NULL };
    struct json *with = NULL;
    struct str text;
    int r = secrets_expand(c->node->secrets, &use, (*params)->raw, SECRET_JSON, &c->arena, &text, e);

    if (r >= 0 && text.p != (*params)->raw.p) {
        r = json_parse(&c->arena, text, &with, e);
        *params = with;
    }
    return r;
}

static int bind_params(struct call *c, const struct json *params, struct err *e)
{
    int r = with_secrets(c, &params, e);
    return r < 0 ? r : field_bind(c->tool->params, params, &c->arena, c->bound, NULL, e);
}

static int bind_remote(struct call *c, const struct json *params, struct err *e)
{
    int r = with_secrets(c, &params, e);

    if (r < 0)
        return r;
    c->remote_params = arena_copy(&c->arena, params->raw);
    return remote_check(c->tool, params, e);
}

int call_bind(struct call *c, const struct call_request *r, struct err *e)
{
    static struct json empty = { .type = JSON_OBJ, .raw = { "{}", 2 } };
    struct buf candidates;

    buf_init(&candidates, 4096);
    struct tool_choice choice = { 0 };
    int res = tool_resolve(r->action, c->node->opts.test_backends, &choice, &candidates, e);
    c->tool = choice.tool;
    c->backend = choice.backend;
    if (candidates.n)
        c->candidates = arena_copy(&c->arena, buf_view(&candidates));
    buf_done(&candidates);
    if (res < 0)
        return res;
    if (c->tool->flags & TOOL_PERSON && !r->person)
        return err_set(e, ERR_DENIED, "%s is said by a person, on the page of the box's screen", c->tool->name);
    if (c->tool->flags & TOOL_STREAM && !r->on_stream)
        return err_set(e, ERR_INVALID, "%s carries a byte stream: use the file routes of the API, not a plain call",
                       c->tool->name);
    c->bound = arena_alloc(&c->arena, c->tool->params_size + 1);
    if (c->tool->flags & TOOL_REMOTE)
        res = bind_remote(c, r->params ? r->params : &empty, e);
    else
        res = bind_params(c, r->params ? r->params : &empty, e);
    if (res < 0)
        return res;
    if (r->key.n > LIMIT_KEY)
        return err_set(e, ERR_LIMIT, "idempotency_key: %zu bytes exceed LIMIT_KEY (%d)", r->key.n, LIMIT_KEY);
    c->timeout_ms = r->timeout_ms;
    if (!c->timeout_ms && r->params) { /* a tool's own timeout may be longer than the default */
        const struct json *own = json_get(r->params, "timeout");
        c->timeout_ms = own && own->type == JSON_NUM && own->num > 0 && own->num < 1e9 ? (int64_t)(own->num * 1000) : 0;
    }
    const struct box *b = box_of_call(c);
    if (!c->timeout_ms && c->tool->flags & TOOL_STREAM) /* as slow as its client */
        c->timeout_ms = c->node->opts.call_timeout_max_ms;
    if (!c->timeout_ms)
        c->timeout_ms = b && b->call_timeout_ms ? b->call_timeout_ms : c->node->opts.call_timeout_ms;
    if (c->timeout_ms < 0 || c->timeout_ms > c->node->opts.call_timeout_max_ms)
        return err_set(e, ERR_LIMIT, "timeout: %lld ms is outside 1 to call.timeout_max (%lld ms)",
                       (long long)c->timeout_ms, (long long)c->node->opts.call_timeout_max_ms);
    return 0;
}

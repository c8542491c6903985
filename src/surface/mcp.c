/* The methods of MCP. */
#include "surface/mcp.h"

#include <stdio.h>

#include "base/limits.h"

const char *const mcp_levels[] = {
    "debug", "info", "notice", "warning", "error", "critical", "alert", "emergency", NULL
};

/* Newest first. What differs between them is small: batches, structured results, the event that opens a stream. */
static const char *const versions[] = { MCP_LATEST, "2025-06-18", "2025-03-26", "2024-11-05", NULL };

bool mcp_version_known(struct str v)
{
    for (size_t i = 0; versions[i]; i++)
        if (str_is(v, versions[i]))
            return true;
    return false;
}

const char *mcp_version(struct str asked)
{
    for (size_t i = 0; versions[i]; i++)
        if (str_is(asked, versions[i]))
            return versions[i];
    return MCP_LATEST;
}

struct jw mcp_begin(struct buf *out)
{
    struct jw j = { .out = out };

    buf_init(out, LIMIT_HTTP_REPLY);
    jw_obj(&j);
    return j;
}

static void print_capabilities(struct jw *j)
{
    jw_key(j, "capabilities");
    jw_obj(j);
    jw_kraw(j, "tools", STR("{\"listChanged\":true}"));
    jw_kraw(j, "resources", STR("{\"subscribe\":true,\"listChanged\":true}"));
    jw_kraw(j, "prompts", STR("{}"));
    jw_kraw(j, "completions", STR("{}"));
    jw_kraw(j, "logging", STR("{}"));
    jw_obj_end(j);
}

void mcp_versions_print(struct jw *w)
{
    jw_arr(w);
    jw_z(w, MCP_MODERN);
    for (size_t i = 0; versions[i]; i++)
        jw_z(w, versions[i]);
    jw_arr_end(w);
}

void mcp_about_print(struct jw *w)
{
    jw_key(w, "serverInfo");
    jw_obj(w);
    jw_kz(w, "name", "sandglass");
    jw_kz(w, "title", "Sandglass");
    jw_kz(w, "version", SANDGLASS_VERSION);
    jw_obj_end(w);
    jw_kz(w, "instructions",
          "These tools act in one isolated Linux computer (the box); its home directory is /home/gem. The shell keeps "
          "its directory and variables between calls. Every call is recorded as a step of a trajectory; a result's "
          "_meta names the step, and `outcome` says whether a failure is the command's or the sandbox's.");
}

static void initialize(struct exchange *x)
{
    struct str asked = json_get_str(x->params, "protocolVersion"), box = { 0 };
    const struct json *can = json_get(x->params, "capabilities");
    struct mcp_session *s;
    struct buf o;
    struct err e;

    if (!asked.p) {
        exchange_error(x, MCP_PARAMS, "protocolVersion: missing; the newest is " MCP_LATEST);
        return;
    }
    if (x->web)
        box = http_query(x->web->http, "box");
    if (box.p && !str_is(box, "own") && !str_is(box, "default")) {
        exchange_error(x, MCP_PARAMS, "box: 'own' or 'default'; a certain box is at /box/{id}/mcp");
        return;
    }
    bool own = str_is(box, "own") && !x->as.who.box[0]; /* who has one box has it to itself */
    if (own && web_may_make_boxes(&x->as, &e) < 0) {
        exchange_error(x, MCP_REQUEST, "box=own: %s", e.msg);
        return;
    }
    s = mcp_session_new(x, &e);
    if (!s) {
        exchange_error(x, MCP_INTERNAL, "%s", e.msg);
        return;
    }
    s->version = mcp_version(asked);
    s->profile = x->profile;
    s->own_box = own;
    s->can_sample = json_get(can, "sampling") != NULL;
    s->can_elicit = json_get(can, "elicitation") != NULL;
    x->session = s;
    x->fresh_session = true;

    struct jw j = mcp_begin(&o);
    jw_kz(&j, "protocolVersion", s->version);
    print_capabilities(&j);
    mcp_about_print(&j);
    jw_obj_end(&j);
    exchange_result(x, &o);
}

static void empty(struct exchange *x)
{
    struct buf o;
    struct jw j = mcp_begin(&o);

    jw_obj_end(&j);
    exchange_result(x, &o);
}

static void set_level(struct exchange *x)
{
    struct str level = json_get_str(x->params, "level");

    for (int i = 0; mcp_levels[i]; i++)
        if (str_is(level, mcp_levels[i])) {
            if (x->session)
                x->session->log_level = i;
            empty(x);
            return;
        }
    exchange_error(x, MCP_PARAMS, "level: one of debug, info, notice, warning, error, critical, alert, emergency");
}

static void prompts_list(struct exchange *x)
{
    struct buf o;
    struct jw j = mcp_begin(&o);

    jw_key(&j, "prompts");
    jw_arr(&j);
    if (x->hub->node->opts.test_backends)
        mcp_probe_prompts(&j);
    jw_arr_end(&j);
    jw_obj_end(&j);
    exchange_result(x, &o);
}

static void prompts_get(struct exchange *x)
{
    struct str name = json_get_str(x->params, "name");

    if (!x->hub->node->opts.test_backends || !mcp_probe_prompt(x, name))
        exchange_error(x, MCP_PARAMS, "name: there is no prompt '%.*s'", (int)(name.n < 100 ? name.n : 100),
                       name.p ? name.p : "");
}

static const struct {
    const char *name;
    void (*run)(struct exchange *x);
} methods[] = {
    { "initialize", initialize },
    { "ping", empty },
    { "tools/list", mcp_tools_list },
    { "tools/call", mcp_tools_call },
    { "resources/list", mcp_resources_list },
    { "resources/read", mcp_resources_read },
    { "resources/templates/list", mcp_templates_list },
    { "resources/subscribe", mcp_subscribe },
    { "resources/unsubscribe", mcp_unsubscribe },
    { "prompts/list", prompts_list },
    { "prompts/get", prompts_get },
    { "completion/complete", mcp_complete },
    { "logging/setLevel", set_level },
};

void mcp_handle(struct exchange *x, struct str method)
{
    if (x->params && x->params->type != JSON_OBJ) {
        exchange_error(x, MCP_PARAMS, "params: expected object, got %s", json_type_name(x->params->type));
        return;
    }
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (str_is(method, methods[i].name)) {
            methods[i].run(x);
            return;
        }
    if (x->modern)
        x->status = 404;
    if (x->method.p)
        method = x->method;
    exchange_error(x, MCP_METHOD, "Method not found: %.*s", (int)(method.n < 100 ? method.n : 100), method.p);
}

static void cancel(struct mcp_hub *h, struct mcp_session *s, const struct json *params)
{
    const struct json *id = json_get(params, "requestId");

    for (struct exchange *x = id ? h->open : NULL; x; x = x->next)
        if (x->session == s && str_eq(x->id, id->raw) && !x->cancelled) {
            exchange_cancel(x);
            return;
        }
}

void mcp_notified(struct mcp_hub *h, struct mcp_session *s, struct str method, const struct json *params)
{
    if (!s)
        return;
    if (str_is(method, "notifications/initialized"))
        s->ready = true;
    else if (str_is(method, "notifications/cancelled"))
        cancel(h, s, params);
}

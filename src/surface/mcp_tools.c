/* The tool table as MCP tools. A name is the tool's own with '_' for ':'. A profile chooses what a client is shown; a
 * name that it knows from elsewhere works in every profile. */
#include "surface/mcp.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/limits.h"
#include "session/remote.h"
#include "surface/mcp_alias.h"

static const char *const profiles[] = { "all", "code", "browser", "desktop", "aio", "knowlyr", NULL };

const char *mcp_profile(struct str name)
{
    for (size_t i = 0; profiles[i]; i++)
        if (str_is(name, profiles[i]))
            return profiles[i];
    return NULL;
}

const char *mcp_profile_at(int i)
{
    return profiles[i];
}

/* --- which tools --- */

static bool is_one_of(const char *name, const char *const *list)
{
    for (; *list; list++)
        if (strcmp(name, *list) == 0)
            return true;
    return false;
}

static bool in_profile(const struct exchange *x, const struct backend *b)
{
    static const char *const seeing[] = { "browser", "desktop", "vm", NULL };
    static const char *const others[] = { "knowlyr", "agentscope", NULL }; /* one system's names of our tools */
    const char *p = x->profile;

    if (b->hidden && !x->hub->node->opts.test_backends)
        return false;
    if (strcmp(p, "all") == 0)
        return true;
    if (strcmp(p, "code") == 0)
        return !is_one_of(b->name, seeing) && !is_one_of(b->name, others);
    if (strcmp(p, "browser") == 0)
        return strcmp(b->name, "browser") == 0 || strcmp(b->name, "file") == 0;
    if (strcmp(p, "desktop") == 0)
        return strcmp(b->name, "desktop") == 0 || strcmp(b->name, "vm") == 0;
    return strcmp(p, "aio") == 0 && (strcmp(b->name, "file") == 0 || strcmp(b->name, "browser") == 0);
}

/* AIO's documentation has these under the same names, with the same parameters. */
static bool is_shown(const struct exchange *x, const struct tool *t)
{
    static const char *const documented[] = { "file:read", "file:write", "file:list", "file:replace", NULL };

    if ((t->flags & TOOL_STREAM) || ((t->flags & TOOL_HIDDEN) && !x->hub->node->opts.test_backends))
        return false; /* a message carries no stream of bytes */
    return strcmp(x->profile, "aio") != 0 || strncmp(t->name, "file:", 5) != 0 || is_one_of(t->name, documented);
}

static void name_of(const struct tool *t, char out[65])
{
    snprintf(out, 65, "%s", t->name);
    for (char *p = out; *p; p++)
        if (*p == ':' || *p == '.')
            *p = '_';
}

static const struct tool *find(const struct exchange *x, struct str name)
{
    char spelt[65];

    for (size_t i = 0; backends[i]; i++) {
        const struct backend *b = backends[i];
        if (b->hidden && !x->hub->node->opts.test_backends)
            continue;
        for (size_t k = 0; k < b->tool_count; k++) {
            name_of(&b->tools[k], spelt);
            if (!(b->tools[k].flags & TOOL_STREAM) && (str_is(name, spelt) || str_is(name, b->tools[k].name)))
                return &b->tools[k];
        }
    }
    return NULL;
}

/* --- tools/list --- */

static void print_annotations(const struct tool *t, struct jw *j)
{
    bool reads = t->flags & TOOL_READ_ONLY;
    bool outside = t->flags & TOOL_REMOTE || strncmp(t->name, "browser:", 8) == 0; /* others see the box only */

    jw_key(j, "annotations");
    jw_obj(j);
    jw_kz(j, "title", t->title);
    jw_kbool(j, "readOnlyHint", reads);
    if (!reads)
        jw_kbool(j, "destructiveHint", true);
    jw_kbool(j, "idempotentHint", reads || (t->flags & TOOL_IDEMPOTENT));
    jw_kbool(j, "openWorldHint", outside);
    jw_obj_end(j);
}

static void print_tool(const struct tool *t, struct jw *j)
{
    char name[65];

    name_of(t, name);
    jw_obj(j);
    jw_kz(j, "name", name);
    jw_kz(j, "title", t->title);
    jw_kz(j, "description", t->help);
    tool_print_params(t, "inputSchema", j);
    if (!(t->flags & TOOL_MCP) || strcmp(t->result_schema, REMOTE_ANY) != 0) /* it may have said none */
        tool_print_result(t, "outputSchema", j);
    print_annotations(t, j);
    jw_key(j, "_meta");
    jw_obj(j);
    jw_kz(j, "sandglass/tool", t->name);
    jw_obj_end(j);
    jw_obj_end(j);
}

void mcp_tools_list(struct exchange *x)
{
    const struct json *given = json_get(x->params, "cursor");
    struct str cursor = json_get_str(x->params, "cursor");
    char *end;
    long from = cursor.p ? strtol(arena_z(&x->arena, cursor), &end, 10) : 0, at = 0;
    long most = x->deliver ? LONG_MAX : LIMIT_MCP_PAGE; /* another surface has no pages */
    struct buf o;

    if (given && (!cursor.n || *end || from < 0)) {
        exchange_error(x, MCP_PARAMS, MCP_BAD_CURSOR);
        return;
    }
    struct jw j = mcp_begin(&o);
    jw_key(&j, "tools");
    jw_arr(&j);
    for (size_t i = 0; backends[i]; i++)
        for (size_t k = 0; in_profile(x, backends[i]) && k < backends[i]->tool_count; k++) {
            const struct tool *t = &backends[i]->tools[k];
            if (!is_shown(x, t))
                continue;
            if (at >= from && at - from < most)
                print_tool(t, &j);
            at++;
        }
    if (from == 0) {
        mcp_alias_print(x, &j);
        if (x->hub->node->opts.test_backends && strcmp(x->profile, "all") == 0)
            mcp_probe_tools(&j);
    }
    jw_arr_end(&j);
    if (at > from && at - from > most) {
        char next[24];
        snprintf(next, sizeof next, "%ld", from + most);
        jw_kz(&j, "nextCursor", next);
    }
    jw_obj_end(&j);
    exchange_result(x, &o);
}

/* --- tools/call --- */

void mcp_text_result(struct exchange *x, struct str text, bool failed)
{
    struct buf o;
    struct jw j = mcp_begin(&o);

    jw_key(&j, "content");
    jw_arr(&j);
    jw_obj(&j);
    jw_kz(&j, "type", "text");
    jw_kstr(&j, "text", text);
    jw_obj_end(&j);
    jw_arr_end(&j);
    jw_kbool(&j, "isError", failed);
    jw_obj_end(&j);
    exchange_result(x, &o);
}

static const char *const image_types[] = { "image/png", "image/jpeg", NULL };

/* A member named like a media type holds a picture in base64: what Jupyter calls a bundle. */
static void print_images(const struct json *v, struct jw *j, int deep)
{
    for (const struct json *k = v && deep < 8 ? v->first : NULL; k; k = k->next) {
        const char *const *type = image_types;
        while (*type && !(k->type == JSON_STR && str_is(k->name, *type)))
            type++;
        if (*type) {
            jw_obj(j);
            jw_kz(j, "type", "image");
            jw_kstr(j, "data", k->s);
            jw_kz(j, "mimeType", *type);
            jw_obj_end(j);
        } else if (k->first) {
            print_images(k, j, deep + 1);
        }
    }
}

/* A result that is a picture: the picture goes as one, and is left out of the rest. */
static bool is_picture(const struct json *data)
{
    struct str type = json_get_str(data, "mime_type");

    return json_get_str(data, "image").p && type.n > 6 && memcmp(type.p, "image/", 6) == 0;
}

static struct str without_picture(struct exchange *x, const struct json *data)
{
    struct buf b;
    struct jw j = { .out = &b };

    buf_init(&b, LIMIT_HTTP_REPLY);
    jw_obj(&j);
    for (const struct json *k = data->first; k; k = k->next)
        if (!str_is(k->name, "image")) {
            jw_key_str(&j, k->name);
            jw_raw(&j, k->raw);
        }
    jw_obj_end(&j);
    struct str s = arena_copy(&x->arena, buf_view(&b));
    buf_done(&b);
    return s;
}

/* What a person would read of it: the one text that the result is about. */
static struct str plain_text(const struct json *data)
{
    static const char *const names[] = { "text", "content", "output", "markdown", "stdout", NULL };

    for (size_t i = 0; names[i]; i++) {
        struct str s = json_get_str(data, names[i]);
        if (s.p)
            return s;
    }
    return (struct str){ 0 };
}

static void print_meta(const struct call *c, const struct exchange *x, struct str text, struct jw *j)
{
    jw_key(j, "_meta");
    jw_obj(j);
    jw_kz(j, "outcome", outcome_name(c->outcome));
    jw_kbool(j, "retry_safe", c->retry_safe);
    jw_kbool(j, "trainable", c->trainable);
    jw_kz(j, "trajectory_id", c->trajectory ? c->trajectory->id : NULL);
    jw_kint(j, "step", c->step);
    jw_kz(j, "box_id", c->box_id[0] ? c->box_id : NULL);
    if (c->state_id[0])
        jw_kz(j, "state_id", c->state_id);
    if (!x->id.p && text.p)
        jw_kstr(j, "text", text);
    jw_obj_end(j);
}

void mcp_print_result(struct exchange *x, const struct call *c)
{
    struct json *data = NULL;
    struct buf o;
    struct err e;
    bool failed = c->outcome != OUTCOME_OK;

    if (c->data.p && json_parse(&x->arena, c->data, &data, &e) < 0)
        data = NULL;
    struct jw j = mcp_begin(&o);
    if (data && c->tool && (c->tool->flags & TOOL_MCP)) { /* as its server said it */
        for (const struct json *k = data->first; k; k = k->next)
            if (!str_is(k->name, "_meta") && !str_is(k->name, "isError")) {
                jw_key_str(&j, k->name);
                jw_raw(&j, k->raw);
            }
        jw_kbool(&j, "isError", failed);
        print_meta(c, x, (struct str){ 0 }, &j);
        jw_obj_end(&j);
        exchange_result(x, &o);
        return;
    }
    bool picture = is_picture(data);
    struct str shown = picture ? without_picture(x, data) : c->data;
    jw_key(&j, "content");
    jw_arr(&j);
    jw_obj(&j);
    jw_kz(&j, "type", "text");
    if (data)
        jw_kstr(&j, "text", shown);
    else
        jw_kstr(&j, "text", c->message.n ? c->message : str_of(outcome_name(c->outcome)));
    jw_obj_end(&j);
    if (data && failed && c->message.n) {
        jw_obj(&j);
        jw_kz(&j, "type", "text");
        jw_kstr(&j, "text", c->message);
        jw_obj_end(&j);
    }
    if (picture) {
        jw_obj(&j);
        jw_kz(&j, "type", "image");
        jw_kstr(&j, "data", json_get_str(data, "image"));
        jw_kstr(&j, "mimeType", json_get_str(data, "mime_type"));
        jw_obj_end(&j);
    }
    print_images(data, &j, 0);
    jw_arr_end(&j);
    if (data && data->type == JSON_OBJ)
        jw_kraw(&j, "structuredContent", shown);
    jw_kbool(&j, "isError", failed);
    print_meta(c, x, plain_text(data), &j);
    jw_obj_end(&j);
    exchange_result(x, &o);
}

static void on_called(void *arg, const struct call *c)
{
    struct exchange *x = arg;

    x->call = 0;
    if (c->outcome == OUTCOME_BOX_LOST || c->outcome == OUTCOME_OOM || c->outcome == OUTCOME_INFRA_ERROR)
        exchange_log(x, "warning", "%s ended as %s: %.*s", c->tool ? c->tool->name : "the call",
                     outcome_name(c->outcome), (int)(c->message.n < 200 ? c->message.n : 200),
                     c->message.p ? c->message.p : "");
    if (x->on_call)
        x->on_call(x, c);
    else
        mcp_print_result(x, c);
}

static void start(struct exchange *x, struct box *b)
{
    struct mcp_session *s = x->session;
    struct call_request r = { .surface = STR("mcp"),
                              .worker = b   ? arena_copy(&x->arena, str_of(b->id))
                                        : s ? str_of(arena_printf(&x->arena, "mcp-%s", s->id))
                                            : STR("mcp"),
                              .action = str_of(x->tool->name),
                              .params = x->arguments,
                              .box = b };

    uint64_t *mark = &x->call;
    *mark = UINT64_MAX; /* on_called may come, and the exchange go, before call_start returns */
    struct mcp_hub *h = x->hub;
    uint64_t id = web_call(&x->as, &r, on_called, x);
    for (struct exchange *o = h->open; o; o = o->next)
        if (o == x && x->call == UINT64_MAX)
            x->call = id;
}

static void on_box(void *arg, struct box *b, const struct err *e)
{
    struct exchange *x = arg;

    if (e || x->cancelled)
        mcp_text_result(x, e ? str_of(arena_printf(&x->arena, "%s", e->msg)) : STR("cancelled before it ran"), true);
    else
        start(x, b);
}

void mcp_call_tool(struct exchange *x, const struct tool *t, const struct json *arguments)
{
    x->tool = t;
    x->arguments = arguments;
    if (x->cancelled) /* it was the next of several */
        mcp_text_result(x, STR("cancelled before it ran"), true);
    else if (t->flags & (TOOL_NEEDS_BOX | TOOL_ON_BOX))
        exchange_box(x, on_box, x);
    else
        start(x, NULL);
}

void mcp_tools_call(struct exchange *x)
{
    struct str name = json_get_str(x->params, "name");
    const struct json *arguments = json_get(x->params, "arguments");
    const struct tool *t;

    if (!name.p) {
        exchange_error(x, MCP_PARAMS, "name: which tool?");
        return;
    }
    if (arguments && arguments->type == JSON_NULL)
        arguments = NULL;
    if (arguments && arguments->type != JSON_OBJ) {
        exchange_error(x, MCP_PARAMS, "arguments: expected object, got %s", json_type_name(arguments->type));
        return;
    }
    if (x->hub->node->opts.test_backends && mcp_probe_call(x, name))
        return;
    if (mcp_alias_call(x, name, arguments, x->profile))
        return;
    t = find(x, name);
    if (!t && mcp_alias_call(x, name, arguments, NULL))
        return;
    if (!t) {
        exchange_error(x, MCP_PARAMS, "Unknown tool: %.*s", (int)(name.n < 100 ? name.n : 100), name.p);
        return;
    }
    mcp_call_tool(x, t, arguments);
}

#include "surface/mcp_alias.h"

#include "base/limits.h"

static const struct mcp_alias *const tables[] = { mcp_aio, mcp_aio_page, mcp_knowlyr };

void mcp_alias_print(struct exchange *x, struct jw *w)
{
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        for (const struct mcp_alias *a = tables[i]; a->name; a++) {
            if (strcmp(a->profile, x->profile) != 0 || (a->tool && !tool_find(str_of(a->tool), NULL)))
                continue;
            jw_obj(w);
            jw_kz(w, "name", a->name);
            jw_kz(w, "title", a->title);
            jw_kz(w, "description", a->help);
            jw_key(w, "inputSchema");
            field_schema(a->in, w);
            jw_key(w, "annotations");
            jw_obj(w);
            jw_kz(w, "title", a->title);
            jw_kbool(w, "readOnlyHint", a->reads);
            jw_obj_end(w);
            jw_obj_end(w);
        }
}

static const struct mcp_alias *find(struct str name, const char *profile)
{
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        for (const struct mcp_alias *a = tables[i]; a->name; a++)
            if (str_is(name, a->name) && (!profile || strcmp(a->profile, profile) == 0))
                return a;
    return NULL;
}

static void on_call(struct exchange *x, const struct call *c)
{
    const struct mcp_alias *a = x->own;
    struct json *data = NULL;
    struct buf text;
    struct err e;

    if (c->outcome == OUTCOME_INVALID_REQUEST || c->outcome == OUTCOME_INFRA_ERROR || !c->data.p ||
        json_parse(&x->arena, c->data, &data, &e) < 0) {
        mcp_print_result(x, c);
        return;
    }
    buf_init(&text, LIMIT_HTTP_REPLY);
    a->print(x, c, data, &text);
    mcp_text_result(x, arena_copy(&x->arena, buf_view(&text)), c->outcome != OUTCOME_OK);
    buf_done(&text);
}

bool mcp_alias_call(struct exchange *x, struct str name, const struct json *arguments, const char *profile)
{
    const struct mcp_alias *a = find(name, profile);
    const struct tool *t = a && a->tool ? tool_find(str_of(a->tool), NULL) : NULL;
    struct buf params, ignored;
    struct json *asked = NULL;
    struct err e;

    if (!a || (a->tool && !t))
        return false;
    void *in = arena_alloc(&x->arena, a->in_size + 1);
    buf_init(&ignored, 64 * KiB); /* their tools take no notice of names they do not know */
    int r = field_bind(a->in, arguments, &x->arena, in, &ignored, &e);
    buf_done(&ignored);
    if (r < 0) {
        mcp_text_result(x, str_of(arena_printf(&x->arena, "%s", e.msg)), true);
        return true;
    }
    x->own = (void *)a;
    if (a->run) {
        a->run(x, in);
        return true;
    }
    x->on_call = a->print ? on_call : NULL;
    if (!a->ask) {
        mcp_call_tool(x, t, arguments);
        return true;
    }
    buf_init(&params, LIMIT_HTTP_BODY);
    struct jw j = { .out = &params };
    jw_obj(&j);
    bool go = a->ask(x, in, &j);
    jw_obj_end(&j);
    if (go && json_parse(&x->arena, arena_copy(&x->arena, buf_view(&params)), &asked, &e) == 0)
        mcp_call_tool(x, t, asked);
    else if (go)
        exchange_error(x, MCP_INTERNAL, "%s", e.msg);
    buf_done(&params);
    return true;
}

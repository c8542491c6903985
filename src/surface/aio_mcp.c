/* AIO's management of MCP servers: which there are, what they offer, and a call without the protocol. Our own tools are
 * the server "sandglass". */
#include "surface/aio.h"
#include "surface/mcp.h"

#define OWN "sandglass"

struct servers_in {
    bool include_hidden;
};
static const struct field servers_fields[] = {
    FIELD(BOOL, struct servers_in, include_hidden, "also those that are marked hidden"),
    { 0 },
};

struct server_in {
    struct str server_name, tool_name;
};
static const struct field server_fields[] = {
    FIELD(STR, struct server_in, server_name, "the server", .required = true, .max = 64),
    { 0 },
};
static const struct field tool_fields[] = {
    FIELD(STR, struct server_in, server_name, "the server", .required = true, .max = 64),
    FIELD(STR, struct server_in, tool_name, "the tool", .required = true, .max = 128),
    { 0 },
};

static void servers(struct web *w)
{
    const struct servers_in *in = aio_bound(w);
    struct buf b;
    struct jw j;

    aio_begin(w, &b, &j);
    jw_arr(&j);
    jw_z(&j, OWN);
    mcp_upstreams_print(&j, in->include_hidden);
    jw_arr_end(&j);
    aio_end(w, &b, &j, NULL);
}

static bool known(struct web *w, struct str server)
{
    if (str_is(server, OWN) || mcp_upstream_known(server))
        return true;
    aio_error(w, 404, "MCP server not found: %.*s", STR_ARG(server));
    return false;
}

static const struct json *result_of(struct web *w, struct str message, const struct json **ret_error)
{
    struct json *m = NULL;
    struct err e;

    if (json_parse(w->http->arena, arena_copy(w->http->arena, message), &m, &e) < 0)
        return NULL;
    *ret_error = json_get(m, "error");
    return json_get(m, "result");
}

/* The tools of one server: its backend's. */
static void on_list(struct web *w, struct str message)
{
    const struct server_in *in = aio_bound(w);
    const struct json *error = NULL, *result = result_of(w, message, &error), *tools = json_get(result, "tools");
    bool own = str_is(in->server_name, OWN);
    struct buf b;
    struct jw j;

    aio_begin(w, &b, &j);
    jw_obj(&j);
    jw_key(&j, "tools");
    jw_arr(&j);
    for (const struct json *t = tools ? tools->first : NULL; t; t = t->next) {
        struct str full = json_get_str(json_get(t, "_meta"), "sandglass/tool");
        const struct backend *of = NULL;
        if (full.p)
            (void)tool_find(full, &of);
        if (own ? !of || !of->remote : of && of->remote && str_is(in->server_name, of->name))
            jw_raw(&j, t->raw);
    }
    jw_arr_end(&j);
    jw_obj_end(&j);
    aio_end(w, &b, &j, NULL);
}

static void list(struct web *w)
{
    const struct server_in *in = aio_bound(w);

    if (known(w, in->server_name))
        mcp_list_for(w, "all", on_list);
}

static void on_call(struct web *w, struct str message)
{
    const struct json *error = NULL, *result = result_of(w, message, &error);
    struct str text = json_get_str(error, "message");
    struct buf b;
    struct jw j;

    if (!result) {
        aio_error(w, json_get_int(error, "code", 0) == MCP_PARAMS ? 404 : 500, "%.*s", STR_ARG(text));
        return;
    }
    aio_begin(w, &b, &j);
    jw_raw(&j, result->raw);
    aio_end(w, &b, &j, NULL);
}

static void call(struct web *w)
{
    const struct server_in *in = aio_bound(w);
    struct str name = in->tool_name;

    if (!known(w, in->server_name))
        return;
    if (!str_is(in->server_name, OWN))
        name = str_of(arena_printf(w->http->arena, "%.*s:%.*s", STR_ARG(in->server_name), STR_ARG(in->tool_name)));
    mcp_call_for(w, name, w->body && w->body->type == JSON_OBJ ? w->body : NULL, on_call);
}

static const struct aio_op ops[] = {
    { "GET", "/v1/mcp/servers", "mcp", "list_mcp_servers", "Names of the MCP servers", .handler = servers,
      .in = servers_fields },
    { "GET", "/v1/mcp/{server_name}/tools", "mcp", "list_mcp_tools", "Tools of an MCP server", .handler = list,
      .in = server_fields, .flags = AIO_OBJECT },
    { "POST", "/v1/mcp/{server_name}/tools/{tool_name}", "mcp", "execute_mcp_tool", "Call a tool of an MCP server",
      .handler = call, .in = tool_fields, .flags = AIO_OBJECT },
    { 0 },
};
const struct aio_group aio_mcp = { "mcp", ops };

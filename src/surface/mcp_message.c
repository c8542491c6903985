#include "surface/mcp_message.h"

static bool is_id(const struct json *id)
{
    return id->type == JSON_STR || id->type == JSON_NUM || id->type == JSON_NULL;
}

static enum mcp_kind kind_of(const struct json *m, bool bare_too)
{
    const struct json *id = json_get(m, "id"), *method = json_get(m, "method");

    if (m->type != JSON_OBJ || (id && !is_id(id)) || (method && method->type != JSON_STR) || (!method && !id))
        return MCP_INVALID;
    if (bare_too && !json_get(m, "jsonrpc") && !id)
        return MCP_BARE_CALL;
    if (!str_is(json_get_str(m, "jsonrpc"), "2.0"))
        return MCP_INVALID;
    return !method ? MCP_ANSWER : id ? MCP_CALL : MCP_NOTIFICATION;
}

struct mcp_message mcp_message_read(const struct json *m, bool bare_too)
{
    const struct json *id = json_get(m, "id");

    return (struct mcp_message){ .kind = kind_of(m, bare_too),
                                 .id = id ? id->raw : (struct str){ 0 },
                                 .method = json_get_str(m, "method"),
                                 .params = json_get(m, "params"),
                                 .number = json_get_int(m, "id", 0),
                                 .result = json_get(m, "result"),
                                 .error = json_get(m, "error") };
}

struct str mcp_progress_token(const struct json *params)
{
    const struct json *token = json_get(json_get(params, "_meta"), "progressToken");

    return token && (token->type == JSON_STR || token->type == JSON_NUM) ? token->raw : (struct str){ 0 };
}

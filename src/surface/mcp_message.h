/* One JSON-RPC message, read: what it is and what is in it. Knows nothing of who sent it. */
#pragma once

#include "base/json.h"

enum mcp_kind {
    MCP_INVALID,      /* no JSON-RPC 2.0 */
    MCP_CALL,         /* wants an answer */
    MCP_BARE_CALL,    /* the same, as others document it: a method, without jsonrpc and id */
    MCP_NOTIFICATION, /* a method without an id */
    MCP_ANSWER,       /* to a question of ours */
};

struct mcp_message { /* everything is borrowed from the JSON that it was read from */
    enum mcp_kind kind;
    struct str id; /* raw JSON; p NULL: none */
    struct str method;
    const struct json *params;         /* nullable, of any type */
    int64_t number;                    /* of an answer: the question's; 0: none of ours */
    const struct json *result, *error; /* of an answer; nullable */
};

struct mcp_message mcp_message_read(const struct json *m, bool bare_too);
struct str mcp_progress_token(const struct json *params); /* raw JSON; p NULL: none */

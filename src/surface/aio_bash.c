/* bash: each command a process of its own. */
#include "surface/aio.h"
#include "surface/aio_follow.h"

static const struct field info_fields[] = {
    SAYS(STR, "session_id", "its name", .required = true),
    SAYS(STR, "status", "ready or closed", .required = true, .choices = "ready|closed"),
    SAYS(STR, "working_dir", "where commands begin", .required = true),
    SAYS(STR, "created_at", "ISO 8601", .required = true),
    SAYS(STR, "last_used_at", "ISO 8601", .required = true),
    SAYS(STR, "current_command", "under way", .nullable = true),
    SAYS(INT, "command_count", "so far"),
    { 0 },
};

static void print_row(const struct json *r, struct jw *j)
{
    jw_obj(j);
    jw_kstr(j, "session_id", json_get_str(r, "session_id"));
    jw_kstr(j, "status", json_get_str(r, "status"));
    jw_kstr(j, "working_dir", json_get_str(r, "working_dir"));
    aio_time(j, "created_at", r, "created_at");
    aio_time(j, "last_used_at", r, "last_used_at");
    jw_kstr(j, "current_command", json_get_str(r, "current_command"));
    jw_kint(j, "command_count", json_get_int(r, "command_count", 0));
    jw_obj_end(j);
}

static bool print_session(struct web *w, const struct call *c, const struct json *data, struct jw *j)
{
    (void)w, (void)c;
    print_row(data, j);
    return true;
}

static bool print_sessions(struct web *w, const struct call *c, const struct json *data, struct jw *j)
{
    const struct json *rows = json_get(data, "sessions");

    (void)w, (void)c;
    jw_arr(j);
    for (const struct json *r = rows ? rows->first : NULL; r; r = r->next)
        print_row(r, j);
    jw_arr_end(j);
    return true;
}

static const struct aio_op ops[] = {
    { "POST", "/v1/bash/exec", "bash", "exec", "Run a command in a process of its own", .tool = "command:launch",
      .stream = aio_follow, .in_name = "BashExecRequest", .out_name = "BashExecResult", .flags = AIO_LONG,
      .cut = "output is cut: max_output_length applies to each stream, and LIMIT_OUTPUT_KEPT (16 MiB) in any case; "
             "bash/output reads what is kept from any offset" },
    { "POST", "/v1/bash/output", "bash", "output", "Output from an offset on", .tool = "command:follow",
      .stream = aio_follow, .in_name = "BashOutputRequest", .out_name = "BashOutputResult", .flags = AIO_LONG,
      .cut = "output is cut: of each stream LIMIT_OUTPUT_KEPT (16 MiB) is kept, its beginning and its end" },
    { "POST", "/v1/bash/write", "bash", "write", "Write to a command's stdin", .tool = "command:feed",
      .in_name = "BashWriteRequest" },
    { "POST", "/v1/bash/kill", "bash", "kill", "Signal a command", .tool = "command:signal",
      .in_name = "BashKillRequest" },
    { "GET", "/v1/bash/sessions", "bash", "sessions", "All sessions", .tool = "command:sessions",
      .print = print_sessions, .out = info_fields, .out_name = "BashSessionInfo", .flags = AIO_LIST },
    { "POST", "/v1/bash/sessions/create", "bash", "create_session", "Make a session", .tool = "command:begin",
      .print = print_session, .in_name = "BashCreateSessionRequest", .out = info_fields,
      .out_name = "BashSessionInfo" },
    { "POST", "/v1/bash/sessions/{session_id}/close", "bash", "close_session", "Close a session", .tool = "command:end",
      .print = print_session },
    { 0 },
};
const struct aio_group aio_bash = { "bash", ops };

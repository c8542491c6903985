/* shell: named shells on terminals. The tools have AIO's own names, so most rows say everything. */
#include "surface/aio.h"
#include "surface/aio_follow.h"

static const struct field info_fields[] = {
    SAYS(STR, "working_dir", "where it is", .required = true),
    SAYS(STR, "created_at", "ISO 8601", .required = true),
    SAYS(STR, "last_used_at", "ISO 8601", .required = true),
    SAYS(INT, "age_seconds", "since it was made", .required = true),
    SAYS(STR, "status", "ready or busy", .required = true),
    SAYS(STR, "current_command", "under way", .nullable = true),
    { 0 },
};
static const struct field list_fields[] = {
    SAYS(JSON, "sessions", "by session id", .required = true, .rows = info_fields, .row_size = 1),
    { 0 },
};
static const struct field stats_fields[] = {
    SAYS(INT, "total_sessions", "all", .required = true),
    SAYS(INT, "active_sessions", "used in the last five minutes", .required = true),
    SAYS(INT, "idle_sessions", "the others", .required = true),
    SAYS(INT, "max_sessions", "how many there can be", .required = true),
    SAYS(INT, "session_timeout", "seconds; 0: they stay", .required = true),
    SAYS(NUM, "usage_ratio", "total by max", .required = true),
    { 0 },
};

static bool print_sessions(struct web *w, const struct call *c, const struct json *data, struct jw *j)
{
    const struct json *rows = json_get(data, "sessions");

    (void)w, (void)c;
    jw_obj(j);
    jw_key(j, "sessions");
    jw_obj(j);
    for (const struct json *r = rows ? rows->first : NULL; r; r = r->next) {
        jw_key_str(j, json_get_str(r, "session_id"));
        jw_obj(j);
        jw_kstr(j, "working_dir", json_get_str(r, "working_dir"));
        aio_time(j, "created_at", r, "created_at");
        aio_time(j, "last_used_at", r, "last_used_at");
        jw_kint(j, "age_seconds", json_get_int(r, "age_seconds", 0));
        jw_kstr(j, "status", json_get_str(r, "status"));
        jw_kstr(j, "current_command", json_get_str(r, "current_command"));
        jw_obj_end(j);
    }
    jw_obj_end(j);
    jw_obj_end(j);
    return true;
}

static bool print_stats(struct web *w, const struct call *c, const struct json *data, struct jw *j)
{
    const struct json *rows = json_get(data, "sessions");
    int64_t n = rows ? (int64_t)rows->count : 0, active = json_get_int(data, "active", 0),
            max = json_get_int(data, "max", 1);

    (void)w, (void)c;
    jw_obj(j);
    jw_kint(j, "total_sessions", n);
    jw_kint(j, "active_sessions", active);
    jw_kint(j, "idle_sessions", n - active);
    jw_kint(j, "max_sessions", max);
    jw_kint(j, "session_timeout", 0);
    jw_knum(j, "usage_ratio", max > 0 ? (double)n / (double)max : 0);
    jw_obj_end(j);
    return true;
}

static struct str scheme_of(const struct web *w)
{
    struct str proto = http_header(w->http, "x-forwarded-proto");
    return str_is(proto, "https") ? STR("https") : STR("http");
}

static bool print_url(struct web *w, const struct call *c, const struct json *data, struct jw *j)
{
    struct str host = http_header(w->http, "host"), id = json_get_str(data, "session_id");

    (void)c;
    jw_z(j, arena_printf(w->http->arena, "%.*s://%.*s%.*s/terminal?session_id=%.*s", STR_ARG(scheme_of(w)),
                         STR_ARG(host), STR_ARG(w->base), STR_ARG(id)));
    return true;
}

static void ask_nothing(struct web *w, const void *in, struct jw *params)
{
    (void)w, (void)in, (void)params;
}

static const struct field session_fields[] = {
    SAYS(STR, "session_id", "the session", .required = true, .max = 128),
    { 0 },
};

static const struct aio_op ops[] = {
    { "POST", "/v1/shell/exec", "shell", "exec_command", "Run a command in a shell session", .tool = "shell:exec",
      .stream = aio_follow, .in_name = "ShellExecRequest", .out_name = "ShellCommandResult", .flags = AIO_LONG,
      .cut = "output is cut: truncate leaves 30000 characters of it, and without it LIMIT_CONSOLE_OUTPUT (512 KiB) "
             "applies; output_bytes is its whole size" },
    { "POST", "/v1/shell/view", "shell", "view", "What was run in a session", .tool = "shell:view",
      .stream = aio_follow, .in_name = "ShellViewRequest", .out_name = "ShellViewResult",
      .cut = "output is cut: of each command LIMIT_CONSOLE_OUTPUT (512 KiB) is kept, its beginning and its end" },
    { "POST", "/v1/shell/wait", "shell", "wait_for_process", "Wait for the last command", .tool = "shell:wait",
      .in_name = "ShellWaitRequest", .out_name = "ShellWaitResult", .flags = AIO_LONG },
    { "POST", "/v1/shell/write", "shell", "write_to_process", "Type into a session", .tool = "shell:type",
      .in_name = "ShellWriteToProcessRequest", .out_name = "ShellWriteResult" },
    { "POST", "/v1/shell/kill", "shell", "kill_process", "End the command of a session", .tool = "shell:terminate",
      .in_name = "ShellKillProcessRequest", .out_name = "ShellKillResult" },
    { "POST", "/v1/shell/sessions/create", "shell", "create_session", "Make a session", .tool = "shell:open",
      .in_name = "ShellCreateSessionRequest", .out_name = "ShellCreateSessionResponse" },
    { "POST", "/v1/shell/sessions/update", "shell", "update_session", "Change a session", .tool = "shell:update",
      .in_name = "ShellUpdateSessionRequest" },
    { "GET", "/v1/shell/terminal-url", "shell", "get_terminal_url", "A page for a new session", .tool = "shell:open",
      .ask = ask_nothing, .print = print_url, .flags = AIO_TEXT },
    { "GET", "/v1/shell/sessions/stats", "shell", "get_session_stats", "How many sessions there are",
      .tool = "shell:sessions", .ask = ask_nothing, .print = print_stats, .out = stats_fields,
      .out_name = "ShellSessionStats" },
    { "GET", "/v1/shell/sessions", "shell", "list_sessions", "All sessions", .tool = "shell:sessions",
      .ask = ask_nothing, .print = print_sessions, .out = list_fields, .out_name = "ActiveShellSessionsResult" },
    { "DELETE", "/v1/shell/sessions", "shell", "cleanup_all_sessions", "Close all sessions", .tool = "shell:close",
      .ask = ask_nothing },
    { "DELETE", "/v1/shell/sessions/{session_id}", "shell", "cleanup_session", "Close a session", .tool = "shell:close",
      .in = session_fields },
    { 0 },
};
const struct aio_group aio_shell = { "shell", ops };

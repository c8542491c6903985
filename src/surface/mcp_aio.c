/* MCP tools as AIO Sandbox names them: those that its server has, and those that its documentation speaks of. Where
 * both the documentation's name and its parameters are those of a tool of the table (file_read, file_write, file_list),
 * that one is meant and has no row here. */
#include "surface/mcp_alias.h"

#include "base/limits.h"

#define SHARED_SHELL "mcp" /* the session that commands share unless they ask for a new one */

/* --- shell --- */

struct bash_in {
    struct str cmd, cwd, session_id;
    double timeout;
    bool new_session, preserve_symlinks, truncate;
};
#define BASH_FIELDS(alias_)                                                                                            \
    FIELD(STR, struct bash_in, cmd, "what bash executes", .required = true, .max = LIMIT_COMMAND, .alias = alias_),    \
        FIELD(STR, struct bash_in, cwd, "directory to go to first; absolute", .max = LIMIT_PATH, .alias = "exec_dir"), \
        FIELD(BOOL, struct bash_in, new_session, "in a fresh shell instead of the shared one"),                        \
        FIELD(STR, struct bash_in, session_id, "in this session", .max = 128, .alias = "id"),                          \
        FIELD(NUM, struct bash_in, timeout, "seconds to wait; then the answer is running, and it goes on",             \
              .def_num = 30, .min = 0, .max = LIMIT_TIMEOUT_MS / 1000),                                                \
        FIELD(BOOL, struct bash_in, preserve_symlinks, "cwd keeps its symbolic links in $PWD"),                        \
        FIELD(BOOL, struct bash_in, truncate, "at most 30000 characters of output", .def = true)
static const struct field bash_fields[] = { BASH_FIELDS("command"), { 0 } };
static const struct field terminal_fields[] = {
    FIELD(STR, struct bash_in, cmd, "the command; also as `command`", .required = true, .max = LIMIT_COMMAND,
          .alias = "command"),
    FIELD(STR, struct bash_in, cwd, "directory to go to first; absolute", .max = LIMIT_PATH, .alias = "exec_dir"),
    FIELD(STR, struct bash_in, session_id, "in this session", .max = 128, .alias = "id"),
    FIELD(NUM, struct bash_in, timeout, "seconds to wait", .def_num = 30, .min = 0, .max = LIMIT_TIMEOUT_MS / 1000),
    FIELD(BOOL, struct bash_in, truncate, "at most 30000 characters of output", .def = true),
    { 0 },
};

static bool ask_bash(struct exchange *x, const void *p, struct jw *w)
{
    const struct bash_in *in = p;

    (void)x;
    if (in->session_id.n)
        jw_kstr(w, "id", in->session_id);
    else if (!in->new_session)
        jw_kz(w, "id", SHARED_SHELL);
    jw_kbool(w, "create", true);
    jw_kstr(w, "command", in->cmd);
    if (in->cwd.n)
        jw_kstr(w, "exec_dir", in->cwd);
    jw_knum(w, "timeout", in->timeout);
    jw_kbool(w, "truncate", in->truncate);
    if (in->preserve_symlinks)
        jw_kbool(w, "preserve_symlinks", true);
    return true;
}

static void copy(struct jw *j, const struct json *data, const char *from, const char *to)
{
    const struct json *v = json_get(data, from);

    jw_kraw(j, to, v ? v->raw : STR("null"));
}

static void print_bash(struct exchange *x, const struct call *c, const struct json *data, struct buf *text)
{
    struct jw j = { .out = text };

    (void)x, (void)c;
    jw_obj(&j);
    copy(&j, data, "status", "status");
    copy(&j, data, "output", "output");
    copy(&j, data, "exit_code", "exit_code");
    copy(&j, data, "working_dir", "cwd");
    copy(&j, data, "session_id", "session_id");
    jw_obj_end(&j);
}

struct session_in {
    struct str session_id;
};
static const struct field session_fields[] = {
    FIELD(STR, struct session_in, session_id, "its name; one that exists is returned as it is", .max = 128,
          .alias = "id"),
    { 0 },
};

static bool ask_session(struct exchange *x, const void *p, struct jw *w)
{
    const struct session_in *in = p;

    (void)x;
    jw_kstr(w, "id", in->session_id.n ? in->session_id : STR(SHARED_SHELL));
    return true;
}

/* --- code --- */

struct code_in {
    struct str code, language;
    double timeout;
};
static const struct field code_fields[] = {
    FIELD(STR, struct code_in, code, "the program", .required = true, .max = LIMIT_CODE),
    FIELD(STR, struct code_in, language, "its language", .def_str = "python", .choices = "python|javascript|bash"),
    FIELD(NUM, struct code_in, timeout, "seconds", .def_num = 30, .min = 0, .max = LIMIT_TIMEOUT_MS / 1000),
    { 0 },
};

static void print_code(struct exchange *x, const struct call *c, const struct json *data, struct buf *text)
{
    struct jw j = { .out = text };

    (void)x;
    jw_obj(&j);
    jw_kz(&j, "status",
          c->outcome == OUTCOME_TIMEOUT        ? "timeout"
          : json_get_int(data, "exit_code", 0) ? "error"
                                               : "ok");
    copy(&j, data, "stdout", "stdout");
    copy(&j, data, "stderr", "stderr");
    copy(&j, data, "exit_code", "exit_code");
    jw_obj_end(&j);
}

/* --- files --- */

struct file_in {
    struct str action, path, content, pattern, encoding, old_str, new_str, regex, glob;
    int64_t start_line, end_line;
    bool recursive, append, show_hidden;
};
static const struct field file_fields[] = {
    FIELD(STR, struct file_in, action, "what to do", .required = true,
          .choices = "read|write|replace|search|find|list|grep|glob"),
    FIELD(STR, struct file_in, path, "file or directory", .required = true, .max = LIMIT_PATH),
    FIELD(STR, struct file_in, content, "write: the text; search, grep: the pattern", .max = LIMIT_FILE_IO),
    FIELD(STR, struct file_in, pattern, "find, glob: such as *.py; grep, search: the regular expression",
          .max = LIMIT_PATH),
    FIELD(STR, struct file_in, encoding, "utf-8 or base64", .max = 16),
    FIELD(STR, struct file_in, old_str, "replace: text to find", .max = LIMIT_FILE_IO),
    FIELD(STR, struct file_in, new_str, "replace: text to put in its place", .max = LIMIT_FILE_IO),
    FIELD(STR, struct file_in, regex, "search: the regular expression", .max = LIMIT_PATH),
    FIELD(STR, struct file_in, glob, "find: the pattern", .max = LIMIT_PATH),
    FIELD(INT, struct file_in, start_line, "read: first line, from 0", .def = FIELD_ABSENT, .min = 0, .max = 1e15),
    FIELD(INT, struct file_in, end_line, "read: behind the last line", .def = FIELD_ABSENT, .min = 0, .max = 1e15),
    FIELD(BOOL, struct file_in, recursive, "list: go into directories"),
    FIELD(BOOL, struct file_in, append, "write: at the end"),
    FIELD(BOOL, struct file_in, show_hidden, "list: also names that begin with a dot"),
    { 0 },
};

static struct str first_of(struct str a, struct str b, struct str c)
{
    return a.n ? a : b.n ? b : c;
}

static const char *ask_file(const struct file_in *in, struct jw *w)
{
    jw_kstr(w, "path", in->path);
    if (str_is(in->action, "read")) {
        if (in->start_line != FIELD_ABSENT)
            jw_kint(w, "start_line", in->start_line + 1);
        if (in->end_line != FIELD_ABSENT && in->end_line > 0)
            jw_kint(w, "end_line", in->end_line);
        if (str_is(in->encoding, "base64"))
            jw_kz(w, "encoding", "base64");
        return "file:read";
    }
    if (str_is(in->action, "write")) {
        jw_kstr(w, str_is(in->encoding, "base64") ? "data" : "content", in->content.p ? in->content : STR(""));
        jw_kbool(w, "append", in->append);
        return "file:write";
    }
    if (str_is(in->action, "replace")) {
        jw_kstr(w, "old", in->old_str);
        jw_kstr(w, "new", in->new_str.p ? in->new_str : STR(""));
        return "file:replace";
    }
    if (str_is(in->action, "list")) {
        jw_kbool(w, "recursive", in->recursive);
        jw_kbool(w, "hidden", in->show_hidden);
        return "file:list";
    }
    if (str_is(in->action, "find") || str_is(in->action, "glob")) {
        jw_kstr(w, "pattern", first_of(in->pattern, in->glob, in->content));
        return "file:glob";
    }
    jw_kstr(w, "pattern", first_of(in->pattern, in->regex, in->content));
    return "file:grep";
}

/* The result's own members behind what was done; a failure is described as their file API does. */
static void print_file(struct exchange *x, const struct call *c)
{
    const struct file_in *in = x->own;
    struct json *data = NULL;
    struct buf text;
    struct jw j = { .out = &text };
    struct err e;
    bool fine = c->outcome == OUTCOME_OK;

    if (c->data.p && json_parse(&x->arena, c->data, &data, &e) < 0)
        data = NULL;
    buf_init(&text, LIMIT_HTTP_REPLY);
    jw_obj(&j);
    jw_kstr(&j, "action", in->action);
    jw_kbool(&j, "success", fine);
    for (const struct json *k = fine && data ? data->first : NULL; k; k = k->next) {
        jw_key_str(&j, k->name);
        jw_raw(&j, k->raw);
    }
    if (fine && json_get(data, "bytes"))
        copy(&j, data, "bytes", "bytes_written");
    if (!fine) {
        jw_kstr(&j, "path", in->path);
        jw_key(&j, "error");
        jw_obj(&j);
        jw_kstr(&j, "path", in->path);
        jw_kstr(&j, "operation", in->action);
        jw_kstr(&j, "message", c->message);
        jw_kz(&j, "error_type",
              c->error == ERR_NOT_FOUND ? "not_found"
              : c->error == ERR_DENIED  ? "permission_denied"
                                        : "io_error");
        jw_kbool(&j, "retryable", c->retry_safe);
        jw_obj_end(&j);
    }
    jw_obj_end(&j);
    mcp_text_result(x, arena_copy(&x->arena, buf_view(&text)), !fine);
    buf_done(&text);
}

static void run_file(struct exchange *x, const void *p)
{
    struct json *params = NULL;
    struct buf b;
    struct err e;

    buf_init(&b, LIMIT_HTTP_BODY);
    struct jw j = { .out = &b };
    jw_obj(&j);
    const char *tool = ask_file(p, &j);
    jw_obj_end(&j);
    int r = json_parse(&x->arena, arena_copy(&x->arena, buf_view(&b)), &params, &e);
    buf_done(&b);
    if (r < 0) {
        exchange_error(x, MCP_INTERNAL, "%s", e.msg);
        return;
    }
    x->own = (void *)p;
    x->on_call = print_file;
    mcp_call_tool(x, tool_find(str_of(tool), NULL), params);
}

struct search_in {
    struct str path, pattern;
    bool fixed;
};
static const struct field search_fields[] = {
    FIELD(STR, struct search_in, path, "file or directory", .def_str = ".", .max = LIMIT_PATH),
    FIELD(STR, struct search_in, pattern, "regular expression; also as `query`", .required = true, .max = LIMIT_PATH,
          .alias = "query"),
    { 0 },
};

static bool ask_search(struct exchange *x, const void *p, struct jw *w)
{
    const struct search_in *in = p;

    (void)x;
    jw_kstr(w, "path", in->path);
    jw_kstr(w, "pattern", in->pattern);
    return true;
}

struct edit_in { /* the tool's own parameters, taken as they are */
    struct str command, path, file_text, old_str, new_str, view_range;
    int64_t insert_line;
};
static const struct field edit_fields[] = {
    FIELD(STR, struct edit_in, command, "what to do", .required = true,
          .choices = "view|create|str_replace|insert|undo_edit"),
    FIELD(STR, struct edit_in, path, "file; view also takes a directory", .required = true, .max = LIMIT_PATH),
    FIELD(STR, struct edit_in, file_text, "create: the whole content", .max = LIMIT_FILE_IO),
    FIELD(STR, struct edit_in, old_str, "str_replace: text that occurs exactly once", .max = LIMIT_FILE_IO),
    FIELD(STR, struct edit_in, new_str, "str_replace: its replacement; insert: the text to insert",
          .max = LIMIT_FILE_IO),
    FIELD(INT, struct edit_in, insert_line, "insert: after this line", .def = FIELD_ABSENT, .min = 0, .max = 1e15),
    FIELD(JSON, struct edit_in, view_range, "view: [first line, last line]", .max = 64),
    { 0 },
};

static bool ask_edit(struct exchange *x, const void *p, struct jw *w)
{
    const struct edit_in *in = p;

    (void)x;
    jw_kstr(w, "command", in->command);
    jw_kstr(w, "path", in->path);
    if (in->file_text.p)
        jw_kstr(w, "file_text", in->file_text);
    if (in->old_str.p)
        jw_kstr(w, "old_str", in->old_str);
    if (in->new_str.p)
        jw_kstr(w, "new_str", in->new_str);
    if (in->insert_line != FIELD_ABSENT)
        jw_kint(w, "insert_line", in->insert_line);
    if (in->view_range.p && in->view_range.n > 2)
        jw_kraw(w, "view_range", in->view_range);
    return true;
}

static void print_edit(struct exchange *x, const struct call *c, const struct json *data, struct buf *text)
{
    (void)x, (void)c;
    buf_str(text, json_get_str(data, "content"));
}

/* --- the box itself --- */

struct none_in {
    bool unused;
};
static const struct field none_fields[] = { { 0 } };

struct packages_in {
    struct str language;
    struct buf *text; /* of the languages that were asked for so far */
};
static const struct field packages_fields[] = {
    FIELD(STR, struct packages_in, language, "whose packages; both without it", .choices = "python|nodejs"),
    { 0 },
};

static void ask_packages(struct exchange *x, const char *language);

static void on_packages(struct exchange *x, const struct call *c)
{
    struct packages_in *in = x->own;
    bool python = str_is(json_get_str(x->arguments, "language"), "python");
    struct json *data = NULL;
    struct err e;

    if (c->outcome != OUTCOME_OK || json_parse(&x->arena, c->data, &data, &e) < 0) {
        mcp_print_result(x, c);
        buf_done(in->text);
        return;
    }
    buf_z(in->text, python ? "Python Packages:\n" : "Node.js Packages:\n");
    const struct json *list = json_get(data, "packages");
    for (const struct json *p = list ? list->first : NULL; p; p = p->next)
        buf_printf(in->text, "  - %.*s==%.*s\n", STR_ARG(json_get_str(p, "name")), STR_ARG(json_get_str(p, "version")));
    if (python && !in->language.n) {
        ask_packages(x, "nodejs");
        return;
    }
    mcp_text_result(x, arena_copy(&x->arena, buf_view(in->text)), false);
    buf_done(in->text);
}

static void ask_packages(struct exchange *x, const char *language)
{
    struct json *params = NULL;
    struct err e;
    struct str text = str_of(arena_printf(&x->arena, "{\"language\":\"%s\"}", language));

    (void)json_parse(&x->arena, text, &params, &e);
    x->on_call = on_packages;
    mcp_call_tool(x, tool_find(STR("system:packages"), NULL), params);
}

static void run_packages(struct exchange *x, const void *p)
{
    struct packages_in *in = (void *)p;

    x->own = in;
    in->text = arena_alloc(&x->arena, sizeof *in->text);
    buf_init(in->text, 4 * MiB);
    ask_packages(x, in->language.n ? arena_z(&x->arena, in->language) : "python");
}

#define IN(fields, type) .in = (fields), .in_size = sizeof(struct type)

const struct mcp_alias mcp_aio[] = {
    { "aio", "sandbox_execute_bash", "Run a command", "Runs a command in a shell that keeps its state between calls.",
      IN(bash_fields, bash_in), .tool = "shell:exec", .ask = ask_bash, .print = print_bash },
    { "aio", "sandbox_execute_code", "Run code", "Runs a Python or JavaScript program.", IN(code_fields, code_in),
      .tool = "code:execute", .print = print_code },
    { "aio", "sandbox_file_operations", "Work with files",
      "Reads, writes, replaces in, searches, finds and lists files.", IN(file_fields, file_in), .run = run_file },
    { "aio", "sandbox_str_replace_editor", "Edit a file",
      "Views, creates and edits a file; undo_edit takes back the last change.", IN(edit_fields, edit_in),
      .tool = "file:edit", .ask = ask_edit, .print = print_edit },
    { "aio", "sandbox_get_context", "About the sandbox", "System, directories, interpreters and tools of the sandbox.",
      IN(none_fields, none_in), .tool = "system:context", .reads = true },
    { "aio", "sandbox_get_packages", "Packages", "Installed Python and Node.js packages.",
      IN(packages_fields, packages_in), .reads = true, .run = run_packages },
    { "aio", "terminal_execute", "Run a command", "Runs a command in a shell that keeps its state between calls.",
      IN(terminal_fields, bash_in), .tool = "shell:exec", .ask = ask_bash, .print = print_bash },
    { "aio", "terminal_session", "Open a shell", "Makes a shell session, or finds the one of that name.",
      IN(session_fields, session_in), .tool = "shell:open", .ask = ask_session },
    { "aio", "terminal_kill", "End a command", "Ends what runs in a shell session.", IN(session_fields, session_in),
      .tool = "shell:terminate", .ask = ask_session },
    { "aio", "file_search", "Search in files", "Finds lines that match a regular expression.",
      IN(search_fields, search_in), .tool = "file:grep", .reads = true, .ask = ask_search },
    { 0 },
};

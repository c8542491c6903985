/* jupyter, nodejs, code: cells and programs. A failed cell is `success: false` with all of its data. An output always
 * has a text, also where a notebook has none: clients print outputs[i].text without looking at its type. */
#include <stdio.h>

#include "base/limits.h"
#include "surface/aio.h"

enum { TIMEOUT_S = 30, TIMEOUT_MAX_S = 300, IDLE_S = 1800, NODE_IDLE_S = 86400 };

/* --- outputs --- */

/* Without the colours of a terminal. */
static void plain(struct buf *b, struct str s)
{
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] == 0x1b && i + 1 < s.n && s.p[i + 1] == '[') {
            for (i += 2; i < s.n && !((s.p[i] >= 'A' && s.p[i] <= 'Z') || (s.p[i] >= 'a' && s.p[i] <= 'z')); i++)
                ;
            continue;
        }
        buf_char(b, s.p[i]);
    }
}

static void print_text_of(const struct json *o, struct jw *j)
{
    struct str text = json_get_str(o, "text");
    const struct json *lines = json_get(o, "traceback");
    struct buf b;

    if (!text.p)
        text = json_get_str(json_get(o, "data"), "text/plain");
    if (text.p || !lines) {
        jw_kstr(j, "text", text.p ? text : STR(""));
        return;
    }
    buf_init(&b, LIMIT_FILE_IO);
    for (const struct json *l = lines->first; l; l = l->next) {
        plain(&b, l->s);
        buf_char(&b, '\n');
    }
    jw_kstr(j, "text", buf_view(&b));
    buf_done(&b);
}

static void put_raw(struct jw *j, const char *name, const struct json *v)
{
    jw_kraw(j, name, v ? v->raw : (struct str){ 0 });
}

static void print_output(const struct json *o, struct jw *j)
{
    jw_obj(j);
    jw_kstr(j, "output_type", json_get_str(o, "output_type"));
    jw_kstr(j, "name", json_get_str(o, "name"));
    print_text_of(o, j);
    put_raw(j, "data", json_get(o, "data"));
    put_raw(j, "metadata", json_get(o, "metadata"));
    put_raw(j, "execution_count", json_get(o, "execution_count"));
    jw_kstr(j, "ename", json_get_str(o, "ename"));
    jw_kstr(j, "evalue", json_get_str(o, "evalue"));
    put_raw(j, "traceback", json_get(o, "traceback"));
    jw_obj_end(j);
}

static void print_outputs(const struct json *list, struct jw *j)
{
    jw_arr(j);
    for (const struct json *o = list ? list->first : NULL; o; o = o->next)
        print_output(o, j);
    jw_arr_end(j);
}

/* The outputs of a context, as a notebook would have them. */
static void print_context_outputs(const struct json *d, struct jw *j)
{
    static const char *const streams[] = { "stdout", "stderr" };
    struct str ename = json_get_str(d, "ename"), result = json_get_str(d, "result");

    jw_arr(j);
    for (int i = 0; i < 2; i++) {
        struct str text = json_get_str(d, streams[i]);
        if (!text.n)
            continue;
        jw_obj(j);
        jw_kz(j, "output_type", "stream");
        jw_kz(j, "name", streams[i]);
        jw_kstr(j, "text", text);
        jw_obj_end(j);
    }
    if (result.p) {
        jw_obj(j);
        jw_kz(j, "output_type", "execute_result");
        jw_kstr(j, "text", result);
        jw_key(j, "data");
        jw_obj(j);
        jw_kstr(j, "text/plain", result);
        jw_obj_end(j);
        jw_kraw(j, "metadata", STR("{}"));
        jw_obj_end(j);
    }
    if (ename.p) {
        jw_obj(j);
        jw_kz(j, "output_type", "error");
        jw_kstr(j, "text", json_get_str(d, "evalue"));
        jw_kstr(j, "ename", ename);
        jw_kstr(j, "evalue", json_get_str(d, "evalue"));
        put_raw(j, "traceback", json_get(d, "traceback"));
        jw_obj_end(j);
    }
    jw_arr_end(j);
}

/* ok, error or timeout; the rest of our words is for the message. */
static const char *status_of(const struct call *c)
{
    return c->outcome == OUTCOME_OK ? "ok" : c->outcome == OUTCOME_TIMEOUT ? "timeout" : "error";
}

/* Begins an envelope that says how the code ended. */
static void begin(const struct call *c, struct buf *b, struct jw *j)
{
    buf_init(b, LIMIT_HTTP_REPLY);
    *j = (struct jw){ .out = b };
    jw_obj(j);
    jw_kbool(j, "success", c->outcome == OUTCOME_OK);
    jw_kstr(j, "message", c->outcome == OUTCOME_OK ? STR("Code executed successfully") : c->message);
    jw_key(j, "data");
    jw_obj(j);
}

static void end(struct web *w, const struct call *c, struct buf *take, struct jw *j)
{
    bool normal = c->outcome == OUTCOME_OK || c->outcome == OUTCOME_TASK_ERROR;

    jw_obj_end(j);
    aio_end(w, take, j, normal ? NULL : outcome_name(c->outcome));
}

/* --- jupyter --- */

struct cell_in {
    struct str code, kernel_name, session_id, cwd;
    int64_t timeout;
};
static const struct field cell_fields[] = {
    FIELD(STR, struct cell_in, code, "the cell", .required = true, .max = LIMIT_CODE),
    FIELD(INT, struct cell_in, timeout, "seconds after which it is interrupted", .def = TIMEOUT_S, .min = 1,
          .max = TIMEOUT_MAX_S),
    FIELD(STR, struct cell_in, kernel_name, "python3 unless it is named", .max = LIMIT_KERNEL_NAME),
    FIELD(STR, struct cell_in, session_id, "keeps variables; made if there is none. Without it: a kernel for this cell",
          .max = LIMIT_SESSION_NAME),
    FIELD(STR, struct cell_in, cwd, "directory", .max = LIMIT_PATH),
    { 0 },
};
static const struct field output_fields[] = {
    SAYS(STR, "output_type", "stream, execute_result, display_data or error", .required = true),
    SAYS(STR, "name", "stream: stdout or stderr", .nullable = true),
    SAYS(STR, "text", "what it is as text", .nullable = true),
    SAYS(JSON, "data", "by type of content", .nullable = true),
    SAYS(JSON, "metadata", "of data", .nullable = true),
    SAYS(INT, "execution_count", "of the cell", .nullable = true),
    SAYS(STR, "ename", "error: its class", .nullable = true),
    SAYS(STR, "evalue", "error: its text", .nullable = true),
    SAYS(STRS, "traceback", "error: lines", .nullable = true),
    { 0 },
};
static const struct field cell_out[] = {
    SAYS(STR, "kernel_name", "kind of kernel", .required = true),
    SAYS(STR, "session_id", "its session", .nullable = true),
    SAYS(STR, "status", "ok, error or timeout", .required = true),
    SAYS(INT, "execution_count", "number of the cell", .nullable = true),
    SAYS(ROWS, "outputs", "as a notebook keeps them", .required = true, .rows = output_fields, .row_size = 1),
    SAYS(STR, "code", "as it was given", .required = true),
    SAYS(STR, "msg_id", "of the request to the kernel", .nullable = true),
    { 0 },
};

static void ask_python(struct jw *j, const struct cell_in *in)
{
    char name[24] = "aio-";

    random_hex(name + 4, 16);
    jw_kstr(j, "code", in->code);
    jw_kint(j, "timeout", in->timeout);
    if (in->kernel_name.n)
        jw_kstr(j, "kernel_name", in->kernel_name);
    if (in->cwd.n)
        jw_kstr(j, "cwd", in->cwd);
    jw_kstr(j, "session", in->session_id.n ? in->session_id : str_of(name));
    jw_kbool(j, "once", !in->session_id.n);
    jw_kbool(j, "allow_stdin", false); /* no operation answers */
    jw_kint(j, "max_idle", IDLE_S);
}

static void ask_cell(struct web *w, const void *in, struct jw *j)
{
    (void)w;
    ask_python(j, in);
}

static bool print_cell(struct web *w, const struct call *c, const struct json *d, struct jw *unused)
{
    const struct cell_in *in = aio_bound(w);
    struct buf b;
    struct jw j;

    (void)unused;
    begin(c, &b, &j);
    jw_kstr(&j, "kernel_name", json_get_str(d, "kernel_name"));
    jw_kstr(&j, "session_id", in->session_id.n ? in->session_id : (struct str){ 0 });
    jw_kz(&j, "status", status_of(c));
    put_raw(&j, "execution_count", json_get(d, "execution_count"));
    jw_key(&j, "outputs");
    print_outputs(json_get(d, "outputs"), &j);
    jw_kstr(&j, "code", in->code);
    jw_kstr(&j, "msg_id", json_get_str(d, "msg_id"));
    end(w, c, &b, &j);
    return false;
}

struct kernel_in {
    struct str session_id, kernel_name, cwd;
};
static const struct field kernel_fields[] = {
    FIELD(STR, struct kernel_in, session_id, "its name; made up if there is none", .max = LIMIT_SESSION_NAME),
    FIELD(STR, struct kernel_in, kernel_name, "python3 unless it is named", .max = LIMIT_KERNEL_NAME),
    FIELD(STR, struct kernel_in, cwd, "directory", .max = LIMIT_PATH),
    { 0 },
};
static const struct field kernel_out[] = {
    SAYS(STR, "session_id", "its name", .required = true),
    SAYS(STR, "kernel_name", "its kind", .required = true),
    SAYS(STR, "message", "for people", .required = true),
    { 0 },
};

static void ask_kernel(struct web *w, const void *params, struct jw *j)
{
    const struct kernel_in *in = params;
    char name[36];

    (void)w;
    random_hex(name, 32);
    jw_kstr(j, "session", in->session_id.n ? in->session_id : str_of(name));
    if (in->kernel_name.n)
        jw_kstr(j, "kernel_name", in->kernel_name);
    if (in->cwd.n)
        jw_kstr(j, "cwd", in->cwd);
    jw_kint(j, "max_idle", IDLE_S);
}

static bool print_kernel(struct web *w, const struct call *c, const struct json *d, struct jw *j)
{
    (void)w, (void)c;
    jw_obj(j);
    jw_kstr(j, "session_id", json_get_str(d, "session"));
    jw_kstr(j, "kernel_name", json_get_str(d, "kernel_name"));
    jw_kz(j, "message", "Session created");
    jw_obj_end(j);
    return true;
}

static void ask_nothing(struct web *w, const void *in, struct jw *j)
{
    (void)w, (void)in, (void)j;
}

static void ask_all(struct web *w, const void *in, struct jw *j)
{
    (void)w, (void)in;
    jw_kbool(j, "all", true);
}

static const struct field kernel_row_out[] = {
    SAYS(STR, "kernel_name", "its kind", .required = true),
    SAYS(NUM, "last_used", "seconds since 1970", .required = true),
    SAYS(INT, "age_seconds", "since it was made", .required = true),
    { 0 },
};
static const struct field kernels_out[] = {
    SAYS(JSON, "sessions", "by session id", .required = true, .rows = kernel_row_out, .row_size = 1),
    { 0 },
};

static bool print_kernels(struct web *w, const struct call *c, const struct json *d, struct jw *j)
{
    const struct json *rows = json_get(d, "sessions");

    (void)w, (void)c;
    jw_obj(j);
    jw_key(j, "sessions");
    jw_obj(j);
    for (const struct json *r = rows ? rows->first : NULL; r; r = r->next) {
        jw_key_str(j, json_get_str(r, "session"));
        jw_obj(j);
        jw_kstr(j, "kernel_name", json_get_str(r, "kernel_name"));
        put_raw(j, "last_used", json_get(r, "last_used"));
        put_raw(j, "age_seconds", json_get(r, "age_seconds"));
        jw_obj_end(j);
    }
    jw_obj_end(j);
    jw_obj_end(j);
    return true;
}

static const struct field kernel_info_out[] = {
    SAYS(STR, "default_kernel", "what a session gets that names none", .required = true),
    SAYS(STRS, "available_kernels", "found in the sandbox", .required = true),
    SAYS(INT, "active_sessions", "kernels that live", .required = true),
    SAYS(INT, "session_timeout_seconds", "without a call, after which a session ends", .required = true),
    SAYS(INT, "max_sessions", "of one sandbox", .required = true),
    SAYS(STR, "description", "for people", .required = true),
    SAYS(STR, "kernel_detection", "how they were found", .required = true),
    { 0 },
};

static bool print_kernel_info(struct web *w, const struct call *c, const struct json *d, struct jw *j)
{
    const struct json *rows = json_get(d, "kernels");

    (void)w, (void)c;
    jw_obj(j);
    jw_kstr(j, "default_kernel", json_get_str(d, "default_kernel"));
    jw_key(j, "available_kernels");
    jw_arr(j);
    for (const struct json *r = rows ? rows->first : NULL; r; r = r->next)
        jw_str(j, json_get_str(r, "name"));
    jw_arr_end(j);
    jw_kint(j, "active_sessions", json_get_int(d, "active_sessions", 0));
    jw_kint(j, "session_timeout_seconds", IDLE_S);
    jw_kint(j, "max_sessions", json_get_int(d, "max_sessions", 0));
    jw_kz(j, "description", "Jupyter kernels: variables stay within a session, outputs are those of a notebook");
    jw_kz(j, "kernel_detection", "kernel specs that are installed in the sandbox");
    jw_obj_end(j);
    return true;
}

struct session_in {
    struct str session_id;
};
static const struct field session_fields[] = {
    FIELD(STR, struct session_in, session_id, "which one", .required = true, .max = LIMIT_SESSION_NAME),
    { 0 },
};

static void ask_session(struct web *w, const void *in, struct jw *j)
{
    (void)w;
    jw_kstr(j, "session", ((const struct session_in *)in)->session_id);
}

static bool print_null(struct web *w, const struct call *c, const struct json *d, struct jw *j)
{
    (void)w, (void)c, (void)d;
    jw_null(j);
    return true;
}

/* --- nodejs --- */

#define NODE_VERSION(type) FIELD(STR, type, version, "of Node.js: node20 or 20; info has what there is", .max = 32)

struct node_in {
    struct str code, stdin, session_id, cwd, version;
    struct pairs files;
    int64_t timeout;
    bool stateful;
};
static const struct field node_fields[] = {
    FIELD(STR, struct node_in, code, "the program", .required = true, .max = LIMIT_CODE),
    FIELD(INT, struct node_in, timeout, "seconds after which it is ended", .def = TIMEOUT_S, .min = 1,
          .max = TIMEOUT_MAX_S),
    FIELD(STR, struct node_in, stdin, "what it reads", .max = LIMIT_FILE_IO),
    FIELD(PAIRS, struct node_in, files, "written before, by name in its directory", .max = 256),
    FIELD(BOOL, struct node_in, stateful, "in a context that lasts"),
    FIELD(STR, struct node_in, session_id, "the context; with it the code is stateful", .max = LIMIT_SESSION_NAME),
    FIELD(STR, struct node_in, cwd, "directory", .max = LIMIT_PATH),
    NODE_VERSION(struct node_in),
    { 0 },
};
static const struct field node_out[] = {
    SAYS(STR, "language", "javascript", .required = true),
    SAYS(STR, "status", "ok, error or timeout", .required = true),
    SAYS(INT, "execution_count", "of the context", .nullable = true),
    SAYS(ROWS, "outputs", "streams, value and error", .rows = output_fields, .row_size = 1),
    SAYS(STR, "code", "as it was given", .required = true),
    SAYS(STR, "stdout", "all of it"),
    SAYS(STR, "stderr", "all of it"),
    SAYS(INT, "exit_code", "0: fine", .required = true),
    SAYS(STR, "session_id", "the context", .nullable = true),
    { 0 },
};

static void ask_node(struct web *w, const void *params, struct jw *j)
{
    const struct node_in *in = params;

    (void)w;
    jw_kz(j, "language", "javascript");
    jw_kstr(j, "code", in->code);
    jw_kint(j, "timeout", in->timeout);
    if (in->stdin.p)
        jw_kstr(j, "stdin", in->stdin);
    if (in->version.n)
        jw_kstr(j, "version", in->version);
    if (in->cwd.n)
        jw_kstr(j, "cwd", in->cwd);
    if (in->session_id.n || in->stateful) {
        jw_kstr(j, "session", in->session_id.n ? in->session_id : STR("default"));
        jw_kint(j, "max_idle", NODE_IDLE_S);
    }
    if (in->files.n) {
        jw_key(j, "files");
        jw_obj(j);
        for (size_t i = 0; i < in->files.n; i++) {
            jw_key_str(j, in->files.v[i].name);
            jw_str(j, in->files.v[i].value);
        }
        jw_obj_end(j);
    }
}

static bool print_node(struct web *w, const struct call *c, const struct json *d, struct jw *unused)
{
    const struct node_in *in = aio_bound(w);
    struct buf b;
    struct jw j;

    (void)unused;
    begin(c, &b, &j);
    jw_kz(&j, "language", "javascript");
    jw_kz(&j, "status", status_of(c));
    put_raw(&j, "execution_count", json_get(d, "execution_count"));
    jw_key(&j, "outputs");
    print_context_outputs(d, &j);
    jw_kstr(&j, "code", in->code);
    jw_kstr(&j, "stdout", json_get_str(d, "stdout"));
    jw_kstr(&j, "stderr", json_get_str(d, "stderr"));
    jw_kint(&j, "exit_code", json_get_int(d, "exit_code", 1));
    jw_kstr(&j, "session_id", json_get_str(d, "session"));
    end(w, c, &b, &j);
    return false;
}

struct context_in {
    struct str session_id, cwd, version;
    int64_t max_idle_time;
};
static const struct field context_fields[] = {
    FIELD(STR, struct context_in, session_id, "its name; made up if there is none", .max = LIMIT_SESSION_NAME),
    FIELD(STR, struct context_in, cwd, "directory", .max = LIMIT_PATH),
    FIELD(INT, struct context_in, max_idle_time, "seconds without a call after which it ends", .def = NODE_IDLE_S,
          .min = 60, .max = NODE_IDLE_S),
    NODE_VERSION(struct context_in),
    { 0 },
};
static const struct field change_fields[] = {
    FIELD(STR, struct context_in, session_id, "which one", .required = true, .max = LIMIT_SESSION_NAME),
    FIELD(STR, struct context_in, cwd, "directory", .max = LIMIT_PATH),
    FIELD(INT, struct context_in, max_idle_time, "seconds without a call after which it ends; as it was unless given",
          .min = 60, .max = NODE_IDLE_S),
    NODE_VERSION(struct context_in),
    { 0 },
};
static const struct field context_info_out[] = {
    SAYS(STR, "session_id", "its name", .required = true),
    SAYS(STR, "cwd", "its directory", .required = true),
    SAYS(NUM, "created_at", "milliseconds since 1970", .required = true),
    SAYS(NUM, "last_used", "milliseconds since 1970", .required = true),
    SAYS(INT, "max_idle_time", "milliseconds", .required = true),
    SAYS(INT, "age_seconds", "since it was made", .required = true),
    SAYS(STR, "state", "IDLE or EXECUTING", .required = true),
    { 0 },
};
static const struct field context_created_out[] = {
    SAYS(STR, "session_id", "its name", .required = true),
    SAYS(BOOL, "created", "it was not there before", .required = true),
    SAYS(STR, "message", "for people", .nullable = true),
    SAYS(JSON, "session", "the context", .rows = context_info_out),
    { 0 },
};
static const struct field context_changed_out[] = {
    SAYS(BOOL, "updated", "always true", .required = true),
    SAYS(JSON, "session", "the context", .required = true, .rows = context_info_out),
    { 0 },
};
static const struct field contexts_out[] = {
    SAYS(JSON, "sessions", "by session id", .rows = context_info_out, .row_size = 1),
    { 0 },
};
static const struct field context_out[] = {
    SAYS(JSON, "session", "the context", .required = true, .rows = context_info_out),
    { 0 },
};
static const struct field context_deleted_out[] = {
    SAYS(BOOL, "deleted", "always true", .required = true),
    { 0 },
};

static void ask_context(struct web *w, const void *params, struct jw *j)
{
    const struct context_in *in = params;
    char name[36];

    (void)w;
    random_hex(name, 32);
    jw_kstr(j, "session", in->session_id.n ? in->session_id : str_of(name));
    jw_kz(j, "language", "javascript");
    if (in->cwd.n)
        jw_kstr(j, "cwd", in->cwd);
    if (in->version.n)
        jw_kstr(j, "version", in->version);
    if (in->max_idle_time)
        jw_kint(j, "max_idle", in->max_idle_time);
}

static void ask_change(struct web *w, const void *params, struct jw *j)
{
    ask_context(w, params, j);
    jw_kbool(j, "must_exist", true);
}

static double number(const struct json *o, const char *name)
{
    const struct json *v = json_get(o, name);

    return v && v->type == JSON_NUM ? v->num : 0;
}

static void print_context_row(const struct json *r, struct jw *j)
{
    jw_obj(j);
    jw_kstr(j, "session_id", json_get_str(r, "session"));
    jw_kstr(j, "cwd", json_get_str(r, "cwd"));
    jw_knum(j, "created_at", number(r, "created_at") * 1000);
    jw_knum(j, "last_used", number(r, "last_used") * 1000);
    jw_kint(j, "max_idle_time", json_get_int(r, "max_idle", 0) * 1000);
    jw_kint(j, "age_seconds", json_get_int(r, "age_seconds", 0));
    jw_kz(j, "state", str_is(json_get_str(r, "status"), "busy") ? "EXECUTING" : "IDLE");
    jw_obj_end(j);
}

/* What was just made or changed: it was used now. */
static void print_new_context(const struct json *d, struct jw *j)
{
    double created = number(d, "created_at") * 1000, now = (double)wall_us() / 1000;

    jw_obj(j);
    jw_kstr(j, "session_id", json_get_str(d, "session"));
    jw_kstr(j, "cwd", json_get_str(d, "cwd"));
    jw_knum(j, "created_at", created);
    jw_knum(j, "last_used", now);
    jw_kint(j, "max_idle_time", json_get_int(d, "max_idle", 0) * 1000);
    jw_kint(j, "age_seconds", (int64_t)(now - created) / 1000);
    jw_kz(j, "state", "IDLE");
    jw_obj_end(j);
}

static bool print_context_created(struct web *w, const struct call *c, const struct json *d, struct jw *j)
{
    (void)w, (void)c;
    jw_obj(j);
    jw_kstr(j, "session_id", json_get_str(d, "session"));
    jw_kbool(j, "created", json_get_bool(d, "created", false));
    jw_kz(j, "message", json_get_bool(d, "created", false) ? "Session created" : "Session exists");
    jw_key(j, "session");
    print_new_context(d, j);
    jw_obj_end(j);
    return true;
}

static bool print_context_changed(struct web *w, const struct call *c, const struct json *d, struct jw *j)
{
    (void)w, (void)c;
    jw_obj(j);
    jw_kbool(j, "updated", true);
    jw_key(j, "session");
    print_new_context(d, j);
    jw_obj_end(j);
    return true;
}

static bool is_javascript(const struct json *r)
{
    return str_is(json_get_str(r, "language"), "javascript");
}

static bool print_contexts(struct web *w, const struct call *c, const struct json *d, struct jw *j)
{
    const struct json *rows = json_get(d, "sessions");

    (void)w, (void)c;
    jw_obj(j);
    jw_key(j, "sessions");
    jw_obj(j);
    for (const struct json *r = rows ? rows->first : NULL; r; r = r->next)
        if (is_javascript(r)) {
            jw_key_str(j, json_get_str(r, "session"));
            print_context_row(r, j);
        }
    jw_obj_end(j);
    jw_obj_end(j);
    return true;
}

static const struct json *find_context(const struct json *d, struct str id)
{
    const struct json *r = json_get(d, "sessions");

    for (r = r ? r->first : NULL; r; r = r->next)
        if (is_javascript(r) && str_eq(json_get_str(r, "session"), id))
            return r;
    return NULL;
}

static bool print_context(struct web *w, const struct call *c, const struct json *d, struct jw *j)
{
    struct str id = ((const struct session_in *)aio_bound(w))->session_id;
    const struct json *r = find_context(d, id);

    (void)c;
    if (!r) {
        aio_error(w, 404, "session '%.*s' not found", STR_ARG(id));
        return false;
    }
    jw_obj(j);
    jw_key(j, "session");
    print_context_row(r, j);
    jw_obj_end(j);
    return true;
}

static bool print_deleted(struct web *w, const struct call *c, const struct json *d, struct jw *j)
{
    (void)w, (void)c, (void)d;
    jw_obj(j);
    jw_kbool(j, "deleted", true);
    jw_obj_end(j);
    return true;
}

static const struct field package_out[] = {
    SAYS(STR, "name", "package", .required = true),
    SAYS(STR, "version", "its version", .required = true),
    { 0 },
};
static const struct field node_info_out[] = {
    SAYS(STR, "node_version", "as it says itself", .required = true),
    SAYS(STR, "npm_version", "as it says itself", .required = true),
    SAYS(STRS, "supported_languages", "javascript", .required = true),
    SAYS(STR, "description", "for people", .required = true),
    SAYS(ROWS, "global_packages", "of npm", .rows = package_out, .row_size = 1),
    SAYS(STRS, "available_versions", "of node"),
    SAYS(STR, "current_version", "of node", .nullable = true),
    { 0 },
};

static void ask_node_info(struct web *w, const void *in, struct jw *j)
{
    (void)w, (void)in;
    jw_kz(j, "language", "bash");
    jw_kz(j, "code",
          "node --version && npm --version && npm ls --global --depth=0 --parseable=false --json 2>/dev/null; true");
    jw_kint(j, "timeout", TIMEOUT_S);
}

static struct str next_line(struct str *text)
{
    const char *nl = text->n ? memchr(text->p, '\n', text->n) : NULL;
    struct str line = { text->p, nl ? (size_t)(nl - text->p) : text->n };
    size_t used = nl ? line.n + 1 : line.n;

    *text = (struct str){ text->p + used, text->n - used };
    return line;
}

static bool print_node_info(struct web *w, const struct call *c, const struct json *d, struct jw *j)
{
    struct str text = json_get_str(d, "stdout");
    struct str node = next_line(&text), npm = next_line(&text);
    struct json *list = NULL;
    char name[32];

    (void)c;
    if (json_parse(w->http->arena, text, &list, NULL) < 0)
        list = NULL;
    const struct json *deps = json_get(list, "dependencies");
    snprintf(name, sizeof name, "node%.*s", node.n > 1 ? (int)strcspn(node.p + 1, ".") : 0,
             node.n > 1 ? node.p + 1 : "");
    jw_obj(j);
    jw_kstr(j, "node_version", node.n ? node : STR(""));
    jw_kstr(j, "npm_version", npm.n ? npm : STR(""));
    jw_kraw(j, "supported_languages", STR("[\"javascript\"]"));
    jw_kz(j, "description", "Node.js: programs in processes of their own, or contexts that keep their variables");
    jw_kraw(j, "runtime_packages", STR("[]"));
    jw_key(j, "global_packages");
    jw_arr(j);
    for (const struct json *p = deps ? deps->first : NULL; p; p = p->next) {
        jw_obj(j);
        jw_kstr(j, "name", p->name);
        jw_kstr(j, "version", json_get_str(p, "version").p ? json_get_str(p, "version") : STR(""));
        jw_obj_end(j);
    }
    jw_arr_end(j);
    jw_key(j, "available_versions");
    jw_arr(j);
    jw_z(j, name);
    jw_arr_end(j);
    jw_kz(j, "current_version", name);
    jw_kz(j, "error", node.n ? NULL : "node is not installed in this image");
    jw_obj_end(j);
    return true;
}

/* --- code --- */

struct code_in {
    struct str language, code, cwd, session_id;
    int64_t timeout;
    bool stateful;
};
static const struct field code_fields[] = {
    FIELD(STR, struct code_in, language, "of the code", .required = true, .choices = "python|javascript"),
    FIELD(STR, struct code_in, code, "the program", .required = true, .max = LIMIT_CODE),
    FIELD(INT, struct code_in, timeout, "seconds after which it is ended", .def = TIMEOUT_S, .min = 1,
          .max = TIMEOUT_MAX_S),
    FIELD(STR, struct code_in, cwd, "directory", .max = LIMIT_PATH),
    FIELD(BOOL, struct code_in, stateful, "in a session that keeps variables"),
    FIELD(STR, struct code_in, session_id, "the session; with it the code is stateful", .max = LIMIT_SESSION_NAME),
    { 0 },
};
static const struct field code_out[] = {
    SAYS(STR, "language", "of the code", .required = true, .choices = "python|javascript"),
    SAYS(STR, "status", "ok, error or timeout", .required = true),
    SAYS(JSON, "outputs", "as a notebook keeps them"),
    SAYS(STR, "code", "as it was given", .required = true),
    SAYS(STR, "stdout", "what it printed, and the value of the last expression", .nullable = true),
    SAYS(STR, "stderr", "what it printed there, and its traceback", .nullable = true),
    SAYS(INT, "exit_code", "0: fine", .nullable = true),
    SAYS(STRS, "traceback", "lines", .nullable = true),
    SAYS(STR, "session_id", "of stateful code", .nullable = true),
    { 0 },
};

static void print_code_end(struct web *w, const struct call *c, const struct json *d, bool python)
{
    const struct code_in *in = aio_bound(w);
    struct str result = json_get_str(d, "result"), out = json_get_str(d, "stdout");
    struct buf b;
    struct jw j;

    begin(c, &b, &j);
    jw_kstr(&j, "language", in->language);
    jw_kz(&j, "status", status_of(c));
    jw_key(&j, "outputs");
    if (python)
        print_outputs(json_get(d, "outputs"), &j);
    else
        print_context_outputs(d, &j);
    jw_kstr(&j, "code", in->code);
    jw_kstr(&j, "stdout",
            !result.p ? out : str_of(arena_printf(w->http->arena, "%.*s%.*s\n", STR_ARG(out), STR_ARG(result))));
    jw_kstr(&j, "stderr", json_get_str(d, "stderr"));
    jw_kint(&j, "exit_code", json_get_int(d, "exit_code", c->outcome != OUTCOME_OK));
    put_raw(&j, "traceback", json_get(d, "traceback"));
    put_raw(&j, "execution_count", json_get(d, "execution_count"));
    jw_kstr(&j, "session_id", in->stateful || in->session_id.n ? json_get_str(d, "session") : (struct str){ 0 });
    end(w, c, &b, &j);
}

static void on_python(void *arg, const struct call *c)
{
    const struct json *d = aio_data(arg, c);

    d ? print_code_end(arg, c, d, true) : aio_call_failed(arg, c);
}

static void on_javascript(void *arg, const struct call *c)
{
    const struct json *d = aio_data(arg, c);

    d ? print_code_end(arg, c, d, false) : aio_call_failed(arg, c);
}

static void execute_code(struct web *w)
{
    const struct code_in *in = aio_bound(w);
    bool python = str_is(in->language, "python");
    struct str session = in->session_id.n ? in->session_id : in->stateful ? STR("default") : (struct str){ 0 };
    struct buf b;
    struct jw j = { .out = &b };

    buf_init(&b, LIMIT_HTTP_BODY);
    if (python)
        ask_python(
            &j, &(struct cell_in){ .code = in->code, .timeout = in->timeout, .cwd = in->cwd, .session_id = session });
    else
        ask_node(w,
                 &(struct node_in){ .code = in->code, .timeout = in->timeout, .cwd = in->cwd, .session_id = session },
                 &j);
    struct str params = arena_copy(w->http->arena, buf_view(&b));
    buf_done(&b);
    aio_call(w, python ? "jupyter:execute" : "code:execute", params, python ? on_python : on_javascript);
}

static const struct field language_out[] = {
    SAYS(STR, "language", "its name", .required = true, .choices = "python|javascript"),
    SAYS(STR, "description", "for people", .required = true),
    SAYS(STR, "runtime_version", "as it says itself", .nullable = true),
    SAYS(INT, "default_timeout", "seconds"),
    SAYS(INT, "max_timeout", "seconds"),
    SAYS(JSON, "details", "more"),
    { 0 },
};
static const struct field code_info_out[] = {
    SAYS(ROWS, "languages", "that run", .required = true, .rows = language_out, .row_size = 1),
    { 0 },
};

/* Two languages are the contract's; the others are named in the details of the first. */
static bool print_languages(struct web *w, const struct call *c, const struct json *d, struct jw *j)
{
    const struct json *rows = json_get(d, "languages");

    (void)w, (void)c;
    jw_obj(j);
    jw_key(j, "languages");
    jw_arr(j);
    for (const struct json *r = rows ? rows->first : NULL; r; r = r->next) {
        struct str name = json_get_str(r, "language");
        if (!str_is(name, "python") && !str_is(name, "javascript"))
            continue;
        jw_obj(j);
        jw_kstr(j, "language", name);
        jw_kz(j, "description", str_is(name, "python") ? "Jupyter kernel" : "Node.js");
        jw_kstr(j, "runtime_version", json_get_str(r, "version"));
        jw_kint(j, "default_timeout", TIMEOUT_S);
        jw_kint(j, "max_timeout", TIMEOUT_MAX_S);
        jw_key(j, "details");
        jw_obj(j);
        jw_kbool(j, "stateful", true);
        put_raw(j, "installed", rows);
        jw_obj_end(j);
        jw_obj_end(j);
    }
    jw_arr_end(j);
    jw_obj_end(j);
    return true;
}

static const struct aio_op ops[] = {
    { "POST", "/v1/jupyter/execute", "jupyter", "execute_code", "Run a cell", .tool = "jupyter:execute",
      .ask = ask_cell, .print = print_cell, .in = cell_fields, .in_name = "JupyterExecuteRequest", .out = cell_out,
      .out_name = "JupyterExecuteResponse", .flags = AIO_LONG },
    { "GET", "/v1/jupyter/info", "jupyter", "get_info", "Which kernels there are", .tool = "jupyter:info",
      .ask = ask_nothing, .print = print_kernel_info, .out = kernel_info_out, .out_name = "JupyterInfoResponse" },
    { "GET", "/v1/jupyter/sessions", "jupyter", "list_sessions", "All sessions", .tool = "jupyter:list",
      .ask = ask_nothing, .print = print_kernels, .out = kernels_out, .out_name = "ActiveSessionsResult" },
    { "DELETE", "/v1/jupyter/sessions", "jupyter", "delete_sessions", "End all sessions", .tool = "jupyter:delete",
      .ask = ask_all, .print = print_null },
    { "DELETE", "/v1/jupyter/sessions/{session_id}", "jupyter", "delete_session", "End a session",
      .tool = "jupyter:delete", .ask = ask_session, .print = print_null, .in = session_fields },
    { "POST", "/v1/jupyter/sessions/create", "jupyter", "create_session", "Start a kernel", .tool = "jupyter:create",
      .ask = ask_kernel, .print = print_kernel, .in = kernel_fields, .in_name = "JupyterCreateSessionRequest",
      .out = kernel_out, .out_name = "JupyterCreateSessionResponse", .flags = AIO_LONG },
    { "POST", "/v1/nodejs/execute", "nodejs", "execute_code", "Run JavaScript", .tool = "code:execute", .ask = ask_node,
      .print = print_node, .in = node_fields, .in_name = "NodeJSExecuteRequest", .out = node_out,
      .out_name = "NodeJSExecuteResponse", .flags = AIO_LONG },
    { "GET", "/v1/nodejs/info", "nodejs", "get_info", "What Node.js there is", .tool = "code:execute",
      .ask = ask_node_info, .print = print_node_info, .out = node_info_out, .out_name = "NodeJSRuntimeInfo" },
    { "POST", "/v1/nodejs/sessions", "nodejs", "create_session", "Make a context", .tool = "code:open",
      .ask = ask_context, .print = print_context_created, .in = context_fields, .in_query = "version",
      .in_name = "NodeJSCreateSessionRequest", .out = context_created_out, .out_name = "NodeJSCreateSessionResponse" },
    { "GET", "/v1/nodejs/sessions", "nodejs", "list_sessions", "All contexts", .tool = "code:contexts",
      .ask = ask_nothing, .print = print_contexts, .out = contexts_out, .out_name = "NodeJSSessionListResponse" },
    { "GET", "/v1/nodejs/sessions/{session_id}", "nodejs", "get_session", "One context", .tool = "code:contexts",
      .ask = ask_nothing, .print = print_context, .in = session_fields, .out = context_out,
      .out_name = "NodeJSSessionResponse" },
    { "PATCH", "/v1/nodejs/sessions/{session_id}", "nodejs", "update_session", "Change a context", .tool = "code:open",
      .ask = ask_change, .print = print_context_changed, .in = change_fields, .in_query = "version",
      .in_name = "NodeJSUpdateSessionRequest", .out = context_changed_out, .out_name = "NodeJSUpdateSessionResponse" },
    { "DELETE", "/v1/nodejs/sessions/{session_id}", "nodejs", "delete_session", "End a context", .tool = "code:end",
      .ask = ask_session, .print = print_deleted, .in = session_fields, .out = context_deleted_out,
      .out_name = "NodeJSDeleteSessionResponse" },
    { "POST", "/v1/code/execute", "code", "execute_code", "Run code", .handler = execute_code, .in = code_fields,
      .in_name = "CodeExecuteRequest", .out = code_out, .out_name = "CodeExecuteResponse", .flags = AIO_LONG },
    { "GET", "/v1/code/info", "code", "get_info", "Which languages there are", .tool = "code:languages",
      .ask = ask_nothing, .print = print_languages, .out = code_info_out, .out_name = "CodeInfoResponse" },
    { 0 },
};
const struct aio_group aio_code = { "code", ops };

/* From a request to a tool and back, by the rows of aio.h. Nothing here knows an operation. */
#include "surface/aio.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/limits.h"
#include "base/path.h"

/* A line each, so that whoever adds a group touches nobody else's. */
/* clang-format off */
const struct aio_group *const aio_groups[] = {
    &aio_meta,
    &aio_sandbox,
    &aio_watch,
    &aio_observe,
    &aio_shell,
    &aio_bash,
    &aio_file,
    &aio_transfer,
    &aio_editor,
    &aio_util,
    &aio_skills,
    &aio_proxy,
    &aio_mcp,
    &aio_code,
    &aio_screen,
    &aio_page,
    &aio_browser,
    NULL,
};
/* clang-format on */

struct aio { /* w->state */
    void *bound;
    struct json *given;
    struct box *box;
    on_call_done *cb;
    const char *tool;
    struct str params;
};

const void *aio_bound(const struct web *w)
{
    return ((const struct aio *)w->state)->bound;
}

const struct json *aio_given(const struct web *w)
{
    return ((const struct aio *)w->state)->given;
}

struct box *aio_box(const struct web *w)
{
    return ((const struct aio *)w->state)->box;
}

/* --- routing --- */

bool aio_is_path(struct str path)
{
    return path.n >= 4 && memcmp(path.p, "/v1/", 4) == 0;
}

const struct aio_op *aio_find(struct web *w)
{
    for (size_t g = 0; aio_groups[g]; g++)
        for (const struct aio_op *o = aio_groups[g]->ops; o->method; o++) {
            struct route_match m = { 0 };
            if (!route_fits_pattern(o->path, w->path, &m))
                continue;
            if (str_is(w->http->method, o->method)) {
                w->match = m;
                return o;
            }
            web_allows(w, o->method);
        }
    return NULL;
}

/* A pattern that another one, earlier in the tables, takes away. */
const char *aio_clash(void)
{
    for (size_t g = 0; aio_groups[g]; g++)
        for (const struct aio_op *o = aio_groups[g]->ops; o->method; o++) {
            struct route_match m;
            bool self = false;
            for (size_t k = 0; aio_groups[k] && !self; k++)
                for (const struct aio_op *q = aio_groups[k]->ops; q->method && !self; q++) {
                    self = q == o;
                    if (!self && strcmp(q->method, o->method) == 0 && route_fits_pattern(q->path, str_of(o->path), &m))
                        return o->path;
                }
        }
    return NULL;
}

/* --- envelopes --- */

void aio_time(struct jw *j, const char *key, const struct json *row, const char *name)
{
    const struct json *v = json_get(row, name);
    char text[32];

    utc_time(v ? (int64_t)(v->num * 1e6) : 0, text);
    jw_kz(j, key, text);
}

void aio_begin(struct web *w, struct buf *b, struct jw *j)
{
    (void)w;
    buf_init(b, LIMIT_HTTP_REPLY);
    *j = (struct jw){ .out = b };
    jw_obj(j);
    jw_kbool(j, "success", true);
    jw_kz(j, "message", "Operation successful");
    jw_key(j, "data");
}

void aio_end(struct web *w, struct buf *take, struct jw *j, const char *hint)
{
    jw_kz(j, "hint", hint);
    jw_obj_end(j);
    web_send(w, 200, take);
}

void aio_ok(struct web *w, const char *message)
{
    struct buf b;
    struct jw j = { .out = &b };

    buf_init(&b, 8192);
    jw_obj(&j);
    jw_kbool(&j, "success", true);
    jw_kz(&j, "message", message);
    jw_kz(&j, "data", NULL);
    jw_kz(&j, "hint", NULL);
    jw_obj_end(&j);
    web_send(w, 200, &b);
}

void aio_error(struct web *w, int status, const char *fmt, ...)
{
    struct buf b;
    struct jw j = { .out = &b };
    char text[1024];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    buf_init(&b, 16384);
    jw_obj(&j);
    jw_kbool(&j, "success", false);
    jw_kz(&j, "message", text);
    jw_kz(&j, "data", NULL);
    jw_kz(&j, "hint", NULL);
    jw_kz(&j, "detail", text);
    jw_obj_end(&j);
    web_send(w, status, &b);
}

void aio_not_found(struct web *w)
{
    aio_error(w, w->allow ? 405 : 404, w->allow ? "Method Not Allowed" : "Not Found");
}

static void print_location(struct jw *j, const char *key, const char *where, const char *field)
{
    jw_key(j, key);
    jw_arr(j);
    jw_z(j, where);
    if (*field)
        jw_z(j, field);
    jw_arr_end(j);
}

void aio_invalid(struct web *w, const char *where, const char *field, const char *type, const char *fmt, ...)
{
    struct buf b;
    struct jw j = { .out = &b };
    char text[512];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    buf_init(&b, 16384);
    jw_obj(&j);
    jw_kbool(&j, "success", false);
    jw_kz(&j, "message", "Request data validation failed");
    jw_kz(&j, "data", NULL);
    jw_kz(&j, "hint", NULL);
    jw_key(&j, "detail");
    jw_arr(&j);
    jw_obj(&j);
    print_location(&j, "loc", where, field);
    jw_kz(&j, "msg", text);
    jw_kz(&j, "type", type);
    jw_obj_end(&j);
    jw_arr_end(&j);
    jw_key(&j, "errors");
    jw_arr(&j);
    jw_obj(&j);
    print_location(&j, "location", where, field);
    jw_kz(&j, "message", text);
    jw_key(&j, "type");
    jw_z(&j, strcmp(type, "missing") == 0 ? "value_error.missing" : type);
    jw_obj_end(&j);
    jw_arr_end(&j);
    jw_obj_end(&j);
    web_send(w, 422, &b);
}

/* --- what a request says --- */

static bool named(const char *list, const char *name)
{
    size_t n = strlen(name);

    for (const char *at = list; at && *at; at += strcspn(at, " "), at += *at == ' ')
        if (strncmp(at, name, n) == 0 && (at[n] == 0 || at[n] == ' '))
            return true;
    return false;
}

static const char *source_of(const struct web *w, const struct field *f)
{
    bool has_body =
        strcmp(w->op->method, "GET") != 0 && (strcmp(w->op->method, "DELETE") != 0 || w->op->flags & AIO_BODY);

    for (size_t i = 0; i < w->match.args; i++)
        if (str_is(w->match.key[i], f->name))
            return "path";
    return !has_body || named(w->op->in_query, f->name) ? "query" : "body";
}

static bool is_number(struct str s)
{
    size_t i = s.n && s.p[0] == '-', from = i;

    while (i < s.n && s.p[i] >= '0' && s.p[i] <= '9')
        i++;
    if (i == from || (s.p[from] == '0' && i > from + 1))
        return false;
    if (i < s.n && s.p[i] == '.')
        for (from = ++i; i < s.n && s.p[i] >= '0' && s.p[i] <= '9';)
            i++;
    return i == s.n && i > from && s.n < 30;
}

static void put_words(struct jw *j, struct str s)
{
    jw_arr(j);
    while (s.n) {
        const char *comma = memchr(s.p, ',', s.n);
        size_t n = comma ? (size_t)(comma - s.p) : s.n;
        jw_str(j, (struct str){ s.p, n });
        s = (struct str){ s.p + n + (comma != NULL), s.n - n - (comma != NULL) };
    }
    jw_arr_end(j);
}

/* A text of the path or the query as the type that the field has; what does not look like it stays a string, and is refused. */
static void put_text(struct jw *j, const struct field *f, struct str s)
{
    bool yes = str_is(s, "true") || str_is(s, "True") || str_is(s, "1"),
         no = str_is(s, "false") || str_is(s, "False") || str_is(s, "0");

    jw_key(j, f->name);
    if ((f->type == FIELD_INT || f->type == FIELD_NUM) && is_number(s))
        jw_raw(j, s);
    else if (f->type == FIELD_BOOL && (yes || no))
        jw_bool(j, yes);
    else if (f->type == FIELD_STRS)
        put_words(j, s);
    else if (f->path)
        jw_given_path(j, s);
    else
        jw_str(j, s);
}

static const struct field *in_fields(const struct aio_op *op)
{
    static const struct field none[] = { { 0 } };
    const struct tool *t = op->tool ? tool_find(str_of(op->tool), NULL) : NULL;

    return op->in ? op->in : t && !op->ask ? t->params : none;
}

static void collect(struct web *w, const struct field *fields, struct jw *j)
{
    jw_obj(j);
    for (const struct field *f = fields; f->type != FIELD_END; f++) {
        const char *from = source_of(w, f);
        if (*from == 'p') {
            for (size_t i = 0; i < w->match.args; i++)
                if (str_is(w->match.key[i], f->name))
                    put_text(j, f, w->match.arg[i]);
        } else if (*from == 'q') {
            struct str s = http_query(w->http, f->name);
            if (!s.p && f->alias)
                s = http_query(w->http, f->alias);
            if (s.p)
                put_text(j, f, s);
        } else {
            const struct json *v = json_get(w->body, f->name);
            if (!v && f->alias)
                v = json_get(w->body, f->alias);
            if (v && v->type != JSON_NULL)
                jw_kraw(j, f->name, v->raw);
        }
    }
    jw_obj_end(j);
}

static const char *type_of_error(enum err_code code)
{
    return code == ERR_MISSING ? "missing" : code == ERR_TYPE ? "type_error" : "value_error";
}

static bool bind(struct web *w, struct aio *a)
{
    const struct field *fields = in_fields(w->op);
    struct buf text;
    struct err e;

    if (w->body && w->body->type != JSON_OBJ && w->body->type != JSON_NULL) {
        aio_invalid(w, "body", "", "type_error", "body: expected object, got %s", json_type_name(w->body->type));
        return false;
    }
    buf_init(&text, LIMIT_HTTP_BODY + 64 * KiB);
    struct jw j = { .out = &text };
    collect(w, fields, &j);
    struct str copy = arena_copy(w->http->arena, buf_view(&text));
    buf_done(&text);
    a->bound = arena_alloc(w->http->arena, field_extent(fields) + 1);
    if (json_parse(w->http->arena, copy, &a->given, &e) < 0 ||
        field_bind(fields, a->given, w->http->arena, a->bound, NULL, &e) < 0) {
        size_t n = strcspn(e.msg, ":[.");
        const char *name = arena_printf(w->http->arena, "%.*s", (int)n, e.msg), *where = "body";
        for (const struct field *f = fields; f->type != FIELD_END; f++)
            if (strcmp(f->name, name) == 0)
                where = source_of(w, f);
        aio_invalid(w, where, name, type_of_error(e.code), "%s", e.msg);
        return false;
    }
    return true;
}

/* --- calls --- */

const struct json *aio_data(struct web *w, const struct call *c)
{
    struct json *data = NULL;
    struct err e;

    if (!c->data.p || json_parse(w->http->arena, c->data, &data, &e) < 0)
        return NULL;
    return data;
}

static void start(struct web *w, struct box *b)
{
    struct aio *a = w->state;
    struct json *params = NULL;
    struct err e;

    a->box = b;
    if (json_parse(w->http->arena, a->params, &params, &e) < 0) {
        aio_error(w, 500, "%s", e.msg);
        return;
    }
    struct call_request r = { .surface = STR("aio"),
                              .worker = str_of(b->id),
                              .action = str_of(a->tool),
                              .params = params,
                              .timeout_ms = w->op->flags & AIO_LONG ? w->node->opts.call_timeout_max_ms : 0,
                              .key = http_header(w->http, "idempotency-key"),
                              .trace = http_header(w->http, "x-request-id"),
                              .box = b };
    web_call(w, &r, a->cb, w);
}

void aio_call(struct web *w, const char *tool, struct str params, on_call_done *cb)
{
    struct aio *a = w->state;

    a->tool = tool;
    a->cb = cb;
    a->params = str_of(arena_printf(w->http->arena, "{%.*s}", STR_ARG(params)));
    if (a->box)
        start(w, a->box);
    else
        web_box(w, start);
}

struct error_kind {
    int sys;
    const char *type, *exception;
    bool retryable;
};
static const struct error_kind error_kinds[] = {
    { ENOENT, "not_found", "FileNotFoundError", false },
    { EACCES, "permission_denied", "PermissionError", false },
    { EPERM, "permission_denied", "PermissionError", false },
    { EISDIR, "invalid_target", "IsADirectoryError", false },
    { ENOTDIR, "invalid_target", "NotADirectoryError", false },
    { EEXIST, "already_exists", "FileExistsError", false },
    { ENAMETOOLONG, "invalid_path", "OSError", false },
    { ELOOP, "invalid_path", "OSError", false },
    { EROFS, "read_only_filesystem", "OSError", false },
    { ENOSPC, "no_space_left", "OSError", true },
    { EDQUOT, "no_space_left", "OSError", true },
    { EILSEQ, "decode_error", "UnicodeDecodeError", false },
};

const struct field aio_file_error_fields[] = {
    SAYS(STR, "path", "what was asked for", .required = true),
    SAYS(STR, "operation", "read, write, ...", .required = true),
    SAYS(STR, "message", "what happened", .required = true),
    SAYS(STR, "error_type", "its kind", .required = true),
    SAYS(BOOL, "retryable", "the same call may succeed later"),
    SAYS(INT, "errno", "the system's number", .nullable = true),
    SAYS(STR, "errno_name", "and its name", .nullable = true),
    SAYS(STR, "exception_type", "what Python calls it", .nullable = true),
    { 0 },
};

static struct error_kind kind_of(const struct call *c)
{
    for (size_t i = 0; i < sizeof error_kinds / sizeof *error_kinds; i++)
        if (error_kinds[i].sys == c->sys)
            return error_kinds[i];
    if (c->outcome == OUTCOME_DISK_FULL)
        return (struct error_kind){ ENOSPC, "no_space_left", "OSError", true };
    if (c->outcome == OUTCOME_INVALID_REQUEST)
        return (struct error_kind){ 0, "bad_request", "ValueError", false };
    if (c->error == ERR_EXISTS)
        return (struct error_kind){ EEXIST, "already_exists", "FileExistsError", false };
    /* ERR_NOT_FOUND without a number: the file is there, and something in it is not */
    if (c->error == ERR_LIMIT || c->error == ERR_INVALID || c->error == ERR_NOT_FOUND ||
        (c->error == ERR_DENIED && !c->sys))
        return (struct error_kind){ c->sys, "bad_request", "ValueError", false };
    return (struct error_kind){ c->sys, "io_error", "OSError", c->outcome == OUTCOME_TIMEOUT };
}

/* As it was asked for; of a stream, whose form or query nobody bound, as the tool was asked. */
static struct str path_of(struct web *w, const struct call *c)
{
    const struct json *given = aio_given(w);
    struct json *params = NULL;
    struct err e;
    struct str path = json_get_str(given, "file");

    if (!path.p)
        path = json_get_str(given, "path");
    if (path.p || !c->params.p || json_parse(w->http->arena, c->params, &params, &e) < 0)
        return path.p ? path : STR("");
    path = json_get_str(params, "destination");
    if (!path.p)
        path = json_get_str(params, "path");
    return path.p ? path : STR("");
}

static void file_failed(struct web *w, const struct call *c)
{
    struct error_kind k = kind_of(c);
    struct str path = path_of(w, c);
    const char *operation = strrchr(w->op->path, '/') + 1;
    struct buf b;
    struct jw j = { .out = &b };

    int sys = k.sys ? k.sys : c->sys;
    struct str message = c->message;
    if (c->sys == ENOENT && strcmp(operation, "str_replace_editor") == 0)
        message = str_of(arena_printf(w->http->arena, "Invalid `path` parameter: %.*s. The path %.*s does not exist.",
                                      STR_ARG(path), STR_ARG(path)));
    else if (c->sys && strcmp(operation, "tree") != 0) /* as Python says it, which clients look into */
        message = str_of(arena_printf(w->http->arena, "Failed to %s file: [Errno %d] %s: '%.*s'", operation, sys,
                                      strerror(sys), STR_ARG(path)));
    buf_init(&b, LIMIT_HTTP_REPLY);
    jw_obj(&j);
    jw_kbool(&j, "success", false);
    jw_kstr(&j, "message", message);
    jw_key(&j, "data");
    jw_obj(&j);
    jw_kstr(&j, "path", path);
    jw_kz(&j, "operation", operation);
    jw_kstr(&j, "message", message);
    jw_kz(&j, "error_type", k.type);
    jw_kbool(&j, "retryable", k.retryable);
    if (sys) {
        jw_kint(&j, "errno", sys);
        jw_kz(&j, "errno_name", strerrorname_np(sys));
    } else {
        jw_kz(&j, "errno", NULL);
        jw_kz(&j, "errno_name", NULL);
    }
    jw_kz(&j, "exception_type", k.exception);
    jw_obj_end(&j);
    aio_end(w, &b, &j, NULL);
}

/* Which of the given parameters a tool's message begins with ("name: ..."); "" for none. */
static const char *field_of(struct web *w, const struct call *c)
{
    const char *colon = c->message.n ? memchr(c->message.p, ':', c->message.n) : NULL;
    const char *name =
        colon ? arena_z(w->http->arena, (struct str){ c->message.p, (size_t)(colon - c->message.p) }) : "";

    return *name && json_get(aio_given(w), name) ? name : "";
}

/* A failure that may have had effects must not be a 5xx: clients repeat those by themselves. */
void aio_call_failed(struct web *w, const struct call *c)
{
    bool ran = !c->retry_safe && c->sent_us;

    if (c->outcome == OUTCOME_INVALID_REQUEST || c->outcome == OUTCOME_TASK_ERROR) {
        if (w->op->flags & AIO_FILE)
            file_failed(w, c);
        else if (c->outcome == OUTCOME_INVALID_REQUEST && (c->error == ERR_MISSING || c->error == ERR_TYPE))
            aio_invalid(w, "body", field_of(w, c), type_of_error(c->error), "%.*s", STR_ARG(c->message));
        else
            aio_error(w, c->error == ERR_SYSTEM ? 400 : web_status_of(c->error), "%.*s", STR_ARG(c->message));
        return;
    }
    if (w->op->flags & AIO_FILE && (c->outcome == OUTCOME_DISK_FULL || c->outcome == OUTCOME_TIMEOUT)) {
        file_failed(w, c);
        return;
    }
    if (c->outcome == OUTCOME_INFRA_ERROR && (!ran || c->error == ERR_BUSY)) {
        aio_error(w, c->error == ERR_BUSY ? 429 : 503, "%.*s", STR_ARG(c->message));
        return;
    }
    struct buf b;
    struct jw j = { .out = &b };
    buf_init(&b, LIMIT_HTTP_REPLY);
    jw_obj(&j);
    jw_kbool(&j, "success", false);
    jw_kstr(&j, "message", c->message);
    jw_kz(&j, "data", NULL);
    aio_end(w, &b, &j, outcome_name(c->outcome));
}

static void repeat_members(struct web *w, struct buf *b, size_t from, struct jw *j)
{
    struct str data = arena_copy(w->http->arena, (struct str){ b->p + from, b->n - from });

    if (data.n > 2 && data.p[0] == '{') { /* without its braces */
        buf_char(b, ',');
        buf_add(b, data.p + 1, data.n - 2);
    }
    (void)j;
}

/* What was left out is marked in the text; which limit did it is said beside it. */
static const char *hint_of(const struct web *w, const struct call *c, const struct json *data)
{
    static const char mark[] = " bytes omitted ...]";
    bool normal = c->outcome == OUTCOME_OK || c->outcome == OUTCOME_TASK_ERROR || c->outcome == OUTCOME_KILLED;

    if (!normal)
        return outcome_name(c->outcome);
    if (w->op->hint)
        return w->op->hint(data);
    return w->op->cut && memmem(c->data.p, c->data.n, mark, sizeof mark - 1) ? w->op->cut : NULL;
}

static void on_called(void *arg, const struct call *c)
{
    struct web *w = arg;
    const struct json *data = w->op->print ? aio_data(w, c) : NULL;
    struct buf b;
    struct jw j;

    if (!c->data.p) {
        aio_call_failed(w, c);
        return;
    }
    aio_begin(w, &b, &j);
    size_t from = b.n;
    if (!w->op->print) {
        jw_raw(&j, c->data);
    } else if (!w->op->print(w, c, data, &j)) {
        buf_done(&b);
        return;
    }
    if (w->op->flags & AIO_TOP)
        repeat_members(w, &b, from, &j);
    aio_end(w, &b, &j, hint_of(w, c, data));
}

static void call_tool(struct web *w, struct box *b)
{
    struct aio *a = w->state;

    a->box = b;
    a->tool = w->op->tool;
    a->cb = on_called;
    if (!w->op->ask) {
        a->params = a->given->raw;
    } else {
        struct buf text;
        struct jw j = { .out = &text };
        buf_init(&text, LIMIT_HTTP_BODY);
        jw_obj(&j);
        w->op->ask(w, a->bound, &j);
        jw_obj_end(&j);
        a->params = arena_copy(w->http->arena, buf_view(&text));
        buf_done(&text);
    }
    start(w, b);
}

static void on_box(struct web *w, struct box *b)
{
    struct aio *a = w->state;
    a->box = b;
    w->op->handler(w);
}

static void on_stream_box(struct web *w, struct box *b)
{
    struct aio *a = w->state;
    a->box = b;
    w->op->stream(w);
}

static bool wants_stream(const struct web *w)
{
    struct str accept = http_header(w->http, "accept");
    return w->op->stream && accept.n && memmem(accept.p, accept.n, "text/event-stream", 17);
}

void aio_handle(struct web *w)
{
    struct aio *a = arena_alloc(w->http->arena, sizeof *a);

    w->state = a;
    if (!(w->op->flags & (AIO_RAW | AIO_FORM)) && !bind(w, a))
        return;
    const struct aio_op *other = w->op->other ? w->op->other(w) : NULL;
    if (other)
        w->op = other;
    if (wants_stream(w))
        web_box(w, on_stream_box);
    else if (w->op->tool && !w->op->handler)
        web_box(w, call_tool);
    else if (w->op->flags & AIO_BOX)
        web_box(w, on_box);
    else
        w->op->handler(w);
}

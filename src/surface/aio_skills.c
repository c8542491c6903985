/* skills: what lies in the box's directory of skills. register takes a form, as the SDKs send it, or JSON. */
#include "base/limits.h"
#include "http/multipart.h"
#include "surface/aio.h"

enum { NAME_MAX_BYTES = 128 };

static const struct field command_out[] = {
    SAYS(STRS, "command", "what was run", .required = true),
    SAYS(BOOL, "success", "it ended well", .required = true),
    SAYS(STR, "stdout", "its end", .nullable = true),
    SAYS(STR, "stderr", "its end", .nullable = true),
    { 0 },
};
static const struct field skill_out[] = {
    SAYS(STR, "name", "of the skill", .required = true),
    SAYS(STR, "path", "its directory", .required = true),
    SAYS(JSON, "metadata", "the beginning of SKILL.md", .def_str = "object"),
    SAYS(ROWS, "dependency_commands", "what was installed", .rows = command_out),
    { 0 },
};
static const struct field register_out[] = {
    SAYS(INT, "count", "how many", .required = true),
    SAYS(ROWS, "registered", "which", .rows = skill_out),
    { 0 },
};
static const struct field list_out[] = {
    SAYS(ROWS, "skills", "all that were asked for", .rows = skill_out),
    { 0 },
};
static const struct field content_out[] = {
    SAYS(STR, "name", "of the skill", .required = true),
    SAYS(STR, "path", "its directory", .required = true),
    SAYS(STR, "content", "SKILL.md", .required = true),
    { 0 },
};

struct register_in {
    struct str file, path, name;
};
static const struct field register_in[] = {
    FIELD(STR, struct register_in, file, "a zip archive", .max = LIMIT_FILE_IO),
    FIELD(STR, struct register_in, path, "a directory in the box, or where to unpack the archive", .max = LIMIT_PATH),
    FIELD(STR, struct register_in, name, "of the skill", .max = NAME_MAX_BYTES),
    { 0 },
};
static const struct field names_in[] = { SAYS(STR, "names", "only these, with commas", .max = 4096), { 0 } };
static const struct field name_in[] = { SAYS(STR, "name", "of the skill", .required = true, .max = NAME_MAX_BYTES),
                                        { 0 } };

static bool print_result(struct web *w, const struct call *c, const struct json *data, struct jw *j)
{
    const struct json *r = json_get(data, "result");

    (void)w, (void)c;
    jw_raw(j, r ? r->raw : STR("null"));
    return true;
}

static void ask_list(struct web *w, const void *in, struct jw *j)
{
    (void)w;
    jw_kz(j, "action", "list");
    if (((const struct str *)in)->n)
        jw_kstr(j, "names", *(const struct str *)in);
}

static void ask_clear(struct web *w, const void *in, struct jw *j)
{
    (void)w, (void)in;
    jw_kz(j, "action", "clear");
}

static void ask_remove(struct web *w, const void *in, struct jw *j)
{
    (void)w;
    jw_kz(j, "action", "remove");
    jw_kstr(j, "name", *(const struct str *)in);
}

static void ask_content(struct web *w, const void *in, struct jw *j)
{
    (void)w;
    jw_kz(j, "action", "content");
    jw_kstr(j, "name", *(const struct str *)in);
}

static void on_registered(void *arg, const struct call *c)
{
    struct web *w = arg;
    const struct json *data = aio_data(w, c), *r = data ? json_get(data, "result") : NULL;
    struct buf b;
    struct jw j;

    if (!r) {
        aio_call_failed(w, c);
        return;
    }
    aio_begin(w, &b, &j);
    jw_raw(&j, r->raw);
    aio_end(w, &b, &j, NULL);
}

static int read_form(struct web *w, struct register_in *in, struct err *e)
{
    struct str data = w->http->body, *to = NULL;
    struct multipart m;
    struct multipart_part part;
    struct buf piece;

    int r = multipart_init(&m, http_header(w->http, "content-type"), e);
    buf_init(&piece, LIMIT_FILE_IO);
    while (r >= 0 && r != MULTIPART_END) {
        size_t n = 0;
        r = multipart_next(&m, data, &part, &n, e);
        if (r == MULTIPART_MORE && !n) {
            r = err_set(e, ERR_INVALID, "the form ends too early");
            break;
        }
        if (r == MULTIPART_PART) {
            to = str_is(part.name, "file")   ? &in->file
                 : str_is(part.name, "path") ? &in->path
                 : str_is(part.name, "name") ? &in->name
                                             : NULL;
            buf_reset(&piece);
        } else if (r == MULTIPART_DATA) {
            buf_add(&piece, data.p, n);
        } else if (r == MULTIPART_PART_END && to) {
            *to = arena_copy(w->http->arena, buf_view(&piece));
        }
        if (piece.full)
            r = err_set(e, ERR_LIMIT, "file: larger than LIMIT_FILE_IO (%ld bytes)", LIMIT_FILE_IO);
        if (r >= 0)
            data = (struct str){ data.p + n, data.n - n };
    }
    buf_done(&piece);
    return r < 0 ? r : 0;
}

/* A form without a file: path=...&name=... */
static void read_plain_form(struct web *w, struct register_in *in)
{
    for (struct str rest = w->http->body; rest.n;) {
        const char *end = memchr(rest.p, '&', rest.n);
        struct str pair = { rest.p, end ? (size_t)(end - rest.p) : rest.n };
        const char *eq = memchr(pair.p, '=', pair.n);
        struct str name = { pair.p, eq ? (size_t)(eq - pair.p) : pair.n }, value = STR("");
        if (eq)
            (void)http_decode(w->http->arena, (struct str){ eq + 1, pair.n - name.n - 1 }, true, &value);
        if (str_is(name, "path"))
            in->path = value;
        else if (str_is(name, "name"))
            in->name = value;
        rest = (struct str){ rest.p + pair.n + (end != NULL), rest.n - pair.n - (end != NULL) };
    }
}

static bool read_json(struct web *w, struct register_in *in)
{
    static const char *const names[] = { "path", "name" };
    struct str *const to[] = { &in->path, &in->name };
    struct json *body = NULL;
    struct err e;

    if (json_parse(w->http->arena, w->http->body, &body, &e) < 0) {
        aio_invalid(w, "body", "", "value_error", "%s", e.msg);
        return false;
    }
    if (body->type != JSON_OBJ || json_get(body, "file")) {
        aio_invalid(w, "body", body->type == JSON_OBJ ? "file" : "", "type_error", "%s",
                    body->type == JSON_OBJ ? "file: an archive comes in a form (multipart/form-data)"
                                           : "body: expected object");
        return false;
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const struct json *v = json_get(body, names[i]);
        if (v && v->type != JSON_NULL && v->type != JSON_STR) {
            aio_invalid(w, "body", names[i], "type_error", "%s: expected string, got %s", names[i],
                        json_type_name(v->type));
            return false;
        }
        *to[i] = json_get_str(body, names[i]);
    }
    return true;
}

static void register_op(struct web *w)
{
    struct str type = http_header(w->http, "content-type");
    struct register_in in = { 0 };
    struct err e = { 0 };
    struct buf b;
    struct jw j = { .out = &b };
    int r = 0;

    if (type.n && memmem(type.p, type.n, "multipart/", 10)) {
        r = read_form(w, &in, &e);
    } else if (type.n && memmem(type.p, type.n, "x-www-form-urlencoded", 21)) {
        read_plain_form(w, &in);
    } else if (w->http->body.n && !read_json(w, &in)) {
        return;
    }
    if (r < 0 || (!in.file.n && !in.path.n)) {
        aio_invalid(w, "body", "", "value_error", "%s", e.msg[0] ? e.msg : "give path, or a zip archive as file");
        return;
    }
    if (in.path.n > LIMIT_PATH || in.name.n > NAME_MAX_BYTES) {
        bool path = in.path.n > LIMIT_PATH;
        aio_invalid(w, "body", path ? "path" : "name", "value_error", "%s: longer than %d bytes",
                    path ? "path" : "name", path ? LIMIT_PATH : NAME_MAX_BYTES);
        return;
    }
    buf_init(&b, LIMIT_HTTP_BODY);
    jw_kz(&j, "action", "register");
    if (in.path.n)
        jw_kstr(&j, "path", in.path);
    if (in.name.n)
        jw_kstr(&j, "name", in.name);
    if (in.file.n) {
        jw_key(&j, "archive");
        jw_base64(&j, in.file);
    }
    struct str params = arena_copy(w->http->arena, buf_view(&b));
    buf_done(&b);
    aio_call(w, "skills:manage", params, on_registered);
}

static const struct aio_op ops[] = {
    { "POST", "/v1/skills/register", "skills", "register_skills", "Register skills of a directory or an archive",
      .handler = register_op, .in = register_in, .out = register_out, .out_name = "SkillRegistrationResult",
      .flags = AIO_FORM | AIO_LONG },
    { "GET", "/v1/skills/metadatas", "skills", "list_metadata", "All skills", .tool = "skills:manage", .ask = ask_list,
      .print = print_result, .in = names_in, .out = list_out, .out_name = "SkillMetadataCollection" },
    { "DELETE", "/v1/skills", "skills", "clear_skills", "Forget all skills", .tool = "skills:manage", .ask = ask_clear,
      .print = print_result, .flags = AIO_OBJECT },
    { "DELETE", "/v1/skills/{name}", "skills", "delete_skill", "Remove a skill", .tool = "skills:manage",
      .ask = ask_remove, .print = print_result, .in = name_in, .out = skill_out, .out_name = "SkillMetadata" },
    { "GET", "/v1/skills/{name}/content", "skills", "get_content", "SKILL.md of a skill", .tool = "skills:manage",
      .ask = ask_content, .print = print_result, .in = name_in, .out = content_out, .out_name = "SkillContentResult" },
    { 0 },
};
const struct aio_group aio_skills = { "skills", ops };

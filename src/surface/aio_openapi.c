/* /v1/openapi.json and /v1/docs, from the rows of all groups. */
#include <stdio.h>

#include "base/auto.h"
#include "base/limits.h"
#include "surface/aio.h"

static void describe(const struct field *f, bool nullable, struct jw *j);

static void print_properties(const struct field *fields, bool request, struct jw *j)
{
    bool any = false;

    jw_kz(j, "type", "object");
    jw_key(j, "properties");
    jw_obj(j);
    for (const struct field *f = fields; f->type != FIELD_END; f++) {
        jw_key(j, f->name);
        describe(f, request ? !f->required : f->nullable, j);
        any |= f->required;
    }
    jw_obj_end(j);
    if (!any)
        return;
    jw_key(j, "required");
    jw_arr(j);
    for (const struct field *f = fields; f->type != FIELD_END; f++)
        if (f->required)
            jw_z(j, f->name);
    jw_arr_end(j);
}

static void print_choices(const char *choices, struct jw *j)
{
    jw_key(j, "enum");
    jw_arr(j);
    for (const char *c = choices; *c;) {
        size_t n = strcspn(c, "|");
        jw_str(j, (struct str){ c, n });
        c += n + (c[n] == '|');
    }
    jw_arr_end(j);
}

static void print_range(const struct field *f, struct jw *j)
{
    if (f->max > f->min) {
        jw_knum(j, "minimum", f->min);
        jw_knum(j, "maximum", f->max);
    }
}

static void print_json(const struct field *f, struct jw *j)
{
    if (f->rows && f->row_size) {
        jw_kz(j, "type", "object");
        jw_key(j, "additionalProperties");
        jw_obj(j);
        print_properties(f->rows, false, j);
        jw_obj_end(j);
    } else if (f->rows) {
        print_properties(f->rows, false, j);
    } else if (f->def_str && f->def_str[0] == '[') {
        jw_kz(j, "type", "array");
        jw_key(j, "items");
        jw_obj(j);
        jw_kstr(j, "type", (struct str){ f->def_str + 1, strcspn(f->def_str + 1, "]") });
        jw_obj_end(j);
    } else if (f->def_str) {
        jw_kz(j, "type", f->def_str);
    }
}

static void print_type(const struct field *f, struct jw *j)
{
    switch (f->type) {
    case FIELD_STR:
    case FIELD_BYTES:
        jw_kz(j, "type", "string");
        if (f->choices)
            print_choices(f->choices, j);
        break;
    case FIELD_INT:
        jw_kz(j, "type", "integer");
        print_range(f, j);
        break;
    case FIELD_NUM:
        jw_kz(j, "type", "number");
        print_range(f, j);
        break;
    case FIELD_BOOL: jw_kz(j, "type", "boolean"); break;
    case FIELD_STRS:
    case FIELD_ROWS:
        jw_kz(j, "type", "array");
        jw_key(j, "items");
        jw_obj(j);
        if (f->type == FIELD_ROWS)
            print_properties(f->rows, false, j);
        else
            jw_kz(j, "type", "string");
        jw_obj_end(j);
        break;
    case FIELD_PAIRS:
        jw_kz(j, "type", "object");
        jw_key(j, "additionalProperties");
        jw_obj(j);
        jw_kz(j, "type", "string");
        jw_obj_end(j);
        break;
    case FIELD_JSON: print_json(f, j); break;
    case FIELD_END: break;
    }
}

static void print_default(const struct field *f, struct jw *j)
{
    if (f->type == FIELD_INT && f->def != FIELD_ABSENT)
        jw_kint(j, "default", f->def);
    else if (f->type == FIELD_BOOL && f->def != FIELD_ABSENT)
        jw_kbool(j, "default", f->def != 0);
    else if (f->type == FIELD_NUM && f->def_num != 0)
        jw_knum(j, "default", f->def_num);
    else if (f->type == FIELD_STR && f->def_str)
        jw_kz(j, "default", f->def_str);
}

static void describe(const struct field *f, bool nullable, struct jw *j)
{
    bool any = f->type == FIELD_JSON && !f->rows && !f->def_str;

    jw_obj(j);
    if (nullable && !any) {
        jw_key(j, "anyOf");
        jw_arr(j);
        jw_obj(j);
        print_type(f, j);
        jw_obj_end(j);
        jw_obj(j);
        jw_kz(j, "type", "null");
        jw_obj_end(j);
        jw_arr_end(j);
    } else {
        print_type(f, j);
    }
    if (f->help)
        jw_kz(j, "description", f->help);
    if (!f->required)
        print_default(f, j);
    jw_obj_end(j);
}

/* --- operations --- */

static const struct field none[] = { { 0 } };

static const struct field *in_of(const struct aio_op *o)
{
    const struct tool *t = o->tool ? tool_find(str_of(o->tool), NULL) : NULL;
    return o->in ? o->in : t && !o->ask ? t->params : none;
}

static const struct field *out_of(const struct aio_op *o)
{
    const struct tool *t = o->tool ? tool_find(str_of(o->tool), NULL) : NULL;
    return o->out ? o->out : t && !o->print ? t->result : NULL;
}

static bool has_body(const struct aio_op *o)
{
    return strcmp(o->method, "GET") != 0 && (strcmp(o->method, "DELETE") != 0 || o->flags & AIO_BODY);
}

static bool in_path(const struct aio_op *o, const char *name)
{
    char braced[80];
    snprintf(braced, sizeof braced, "{%s}", name);
    if (strstr(o->path, braced))
        return true;
    snprintf(braced, sizeof braced, "{%s*}", name);
    return strstr(o->path, braced) != NULL;
}

static bool in_query(const struct aio_op *o, const char *name)
{
    return !in_path(o, name) && (!has_body(o) || (o->in_query && strstr(o->in_query, name)));
}

static void print_parameter(const struct aio_op *o, const struct field *f, struct jw *j)
{
    jw_obj(j);
    jw_kz(j, "name", f->name);
    jw_kz(j, "in", in_path(o, f->name) ? "path" : "query");
    jw_kbool(j, "required", f->required || in_path(o, f->name));
    jw_key(j, "schema");
    describe(f, !f->required && !in_path(o, f->name), j);
    jw_obj_end(j);
}

static void print_body(const struct aio_op *o, const struct field *in, struct jw *j)
{
    bool any = false, needed = false;
    struct field kept[64] = { 0 };
    size_t n = 0;

    for (const struct field *f = in; f->type != FIELD_END && n < ARRAY_LEN(kept) - 1; f++)
        if (!in_path(o, f->name) && !in_query(o, f->name)) {
            kept[n++] = *f;
            any = true;
            needed |= f->required;
        }
    if (!any)
        return;
    jw_key(j, "requestBody");
    jw_obj(j);
    jw_kbool(j, "required", needed);
    jw_key(j, "content");
    jw_obj(j);
    jw_key(j, o->flags & (AIO_RAW | AIO_FORM) ? "multipart/form-data" : "application/json");
    jw_obj(j);
    jw_key(j, "schema");
    jw_obj(j);
    print_properties(kept, true, j);
    if (o->in_name)
        jw_kz(j, "title", o->in_name);
    jw_obj_end(j);
    jw_obj_end(j);
    jw_obj_end(j);
    jw_obj_end(j);
}

static void print_ref(const char *name, struct jw *j)
{
    char ref[160];

    snprintf(ref, sizeof ref, "#/components/schemas/%s", name);
    jw_obj(j);
    jw_kz(j, "$ref", ref);
    jw_obj_end(j);
}

static void print_data(const struct aio_op *o, struct jw *j)
{
    const struct field *out = out_of(o);

    if (!out && !(o->flags & (AIO_TEXT | AIO_OBJECT | AIO_LIST))) {
        jw_raw(j, STR("{}"));
        return;
    }
    jw_obj(j);
    jw_key(j, "anyOf");
    jw_arr(j);
    jw_obj(j);
    if (o->flags & AIO_LIST) {
        jw_kz(j, "type", "array");
        jw_key(j, "items");
        jw_obj(j);
    }
    if (o->flags & AIO_TEXT)
        jw_kz(j, "type", "string");
    else if (out)
        print_properties(out, false, j);
    else
        jw_kz(j, "type", "object");
    if (o->out_name)
        jw_kz(j, "title", o->out_name);
    if (o->flags & AIO_LIST)
        jw_obj_end(j);
    jw_obj_end(j);
    if (o->flags & AIO_FILE)
        print_ref("FileOperationError", j);
    jw_raw(j, STR("{\"type\":\"null\"}"));
    jw_arr_end(j);
    jw_obj_end(j);
}

static void print_envelope(const struct aio_op *o, struct jw *j)
{
    jw_obj(j);
    jw_kz(j, "type", "object");
    jw_key(j, "properties");
    jw_obj(j);
    jw_kraw(j, "success", STR("{\"type\":\"boolean\",\"default\":true}"));
    jw_kraw(j, "message",
            STR("{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"null\"}],\"default\":\"Operation successful\"}"));
    jw_key(j, "data");
    print_data(o, j);
    jw_kraw(j, "hint", STR("{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"null\"}]}"));
    if (o->flags & AIO_TOP && out_of(o))
        for (const struct field *f = out_of(o); f->type != FIELD_END; f++) {
            jw_key(j, f->name);
            describe(f, f->nullable, j);
        }
    jw_obj_end(j);
    jw_obj_end(j);
}

static void print_answers(const struct aio_op *o, struct jw *j)
{
    jw_key(j, "responses");
    jw_obj(j);
    jw_key(j, "200");
    jw_obj(j);
    jw_kz(j, "description", "Successful Response");
    jw_key(j, "content");
    jw_obj(j);
    jw_key(j, o->flags & AIO_BYTES ? o->out_name : "application/json");
    jw_obj(j);
    jw_key(j, "schema");
    if (o->flags & AIO_BYTES) {
        jw_raw(j, STR("{\"type\":\"string\",\"format\":\"binary\"}"));
    } else if (o->flags & AIO_BARE) {
        jw_obj(j);
        if (out_of(o))
            print_properties(out_of(o), false, j);
        jw_obj_end(j);
    } else {
        print_envelope(o, j);
    }
    jw_obj_end(j);
    jw_obj_end(j);
    jw_obj_end(j);
    jw_key(j, "422");
    jw_raw(j, STR("{\"description\":\"Validation Error\",\"content\":{\"application/json\":{\"schema\":"
                  "{\"$ref\":\"#/components/schemas/HTTPValidationError\"}}}}"));
    jw_obj_end(j);
}

static void print_operation(const struct aio_group *g, const struct aio_op *o, struct jw *j)
{
    const struct field *in = in_of(o);

    char method[16] = "";
    for (size_t i = 0; o->method[i] && i < sizeof method - 1; i++)
        method[i] = (char)(o->method[i] | 32);
    jw_key(j, method);
    jw_obj(j);
    jw_key(j, "tags");
    jw_arr(j);
    jw_z(j, o->tag ? o->tag : g->name);
    jw_arr_end(j);
    jw_kz(j, "summary", o->help);
    char id[128];
    snprintf(id, sizeof id, "%s_%s", o->group, o->name);
    jw_kz(j, "operationId", id);
    if (o->tool)
        jw_kz(j, "x-sandglass-tool", o->tool);
    jw_key(j, "parameters");
    jw_arr(j);
    for (const struct field *f = in; f->type != FIELD_END; f++)
        if (in_path(o, f->name) || in_query(o, f->name))
            print_parameter(o, f, j);
    jw_arr_end(j);
    if (has_body(o))
        print_body(o, in, j);
    print_answers(o, j);
    jw_kz(j, "x-fern-sdk-group-name", o->group);
    jw_kz(j, "x-fern-sdk-method-name", o->name);
    jw_obj_end(j);
}

static void print_path(const char *path, struct jw *j) /* as a key: "{rest*}" is "{rest}" there */
{
    char text[256];
    size_t n = 0;

    for (; *path && n < sizeof text - 1; path++)
        if (*path != '*')
            text[n++] = *path;
    text[n] = 0;
    jw_key(j, text);
}

static bool is_first(const struct aio_op *o)
{
    for (size_t g = 0; aio_groups[g]; g++)
        for (const struct aio_op *q = aio_groups[g]->ops; q->method; q++) {
            if (q == o)
                return true;
            if (strcmp(q->path, o->path) == 0 && !(q->flags & AIO_QUIET))
                return false;
        }
    return true;
}

/* A path's methods are one object, although their rows may be apart. */
static void print_paths(struct jw *j)
{
    for (size_t g = 0; aio_groups[g]; g++)
        for (const struct aio_op *o = aio_groups[g]->ops; o->method; o++) {
            if (o->flags & AIO_QUIET || !is_first(o))
                continue;
            print_path(o->path, j);
            jw_obj(j);
            for (size_t k = 0; aio_groups[k]; k++)
                for (const struct aio_op *q = aio_groups[k]->ops; q->method; q++)
                    if (!(q->flags & AIO_QUIET) && strcmp(q->path, o->path) == 0)
                        print_operation(aio_groups[k], q, j);
            jw_obj_end(j);
        }
}

static void openapi(struct web *w)
{
    struct buf b;
    struct jw j = { .out = &b };

    buf_init(&b, LIMIT_HTTP_REPLY);
    jw_obj(&j);
    jw_kz(&j, "openapi", "3.1.0");
    jw_key(&j, "info");
    jw_obj(&j);
    jw_kz(&j, "title", "Sandglass, AIO surface");
    jw_kz(&j, "version", AIO_VERSION);
    jw_obj_end(&j);
    if (w->base.n) {
        jw_key(&j, "servers");
        jw_arr(&j);
        jw_obj(&j);
        jw_kstr(&j, "url", w->base);
        jw_obj_end(&j);
        jw_arr_end(&j);
    }
    jw_key(&j, "paths");
    jw_obj(&j);
    print_paths(&j);
    jw_obj_end(&j);
    jw_key(&j, "components");
    jw_obj(&j);
    jw_key(&j, "schemas");
    jw_obj(&j);
    jw_key(&j, "FileOperationError");
    jw_obj(&j);
    print_properties(aio_file_error_fields, false, &j);
    jw_obj_end(&j);
    jw_key(&j, "HTTPValidationError");
    jw_raw(&j,
           STR("{\"type\":\"object\",\"properties\":{\"detail\":{\"type\":\"array\",\"items\":{\"type\":\"object\","
               "\"properties\":{\"loc\":{\"type\":\"array\",\"items\":{\"anyOf\":[{\"type\":\"string\"},{\"type\":"
               "\"integer\"}]}},\"msg\":{\"type\":\"string\"},\"type\":{\"type\":\"string\"}},\"required\":[\"loc\","
               "\"msg\",\"type\"]}}}}"));
    jw_obj_end(&j);
    jw_obj_end(&j);
    jw_obj_end(&j);
    web_send(w, 200, &b);
}

/* --- a page for people: no script, nothing from elsewhere --- */

static void html(struct buf *b, const char *text)
{
    for (; text && *text; text++)
        switch (*text) {
        case '<': buf_z(b, "&lt;"); break;
        case '>': buf_z(b, "&gt;"); break;
        case '&': buf_z(b, "&amp;"); break;
        case '"': buf_z(b, "&quot;"); break;
        default: buf_char(b, *text);
        }
}

static const char *word_of(const struct field *f)
{
    static const char *const words[] = { "",       "string",         "base64",          "integer",
                                         "number", "bool",           "list of strings", "object of strings",
                                         "JSON",   "list of objects" };
    return words[f->type];
}

/* What is taken if it is not given; nothing for what is absent or empty then. */
static void print_unless_given(struct buf *b, const struct field *f)
{
    AUTO(buf_done) struct buf text = { .cap = 256 };
    struct jw j = { .out = &text };

    jw_obj(&j);
    if (!f->required && !(f->type == FIELD_BOOL && !f->def))
        print_default(f, &j);
    jw_obj_end(&j);
    if (text.n <= strlen("{\"default\":}"))
        return;
    buf_z(b, "; unless given ");
    for (size_t i = strlen("{\"default\":"); i + 1 < text.n; i++)
        html(b, (char[]){ text.p[i], 0 });
}

static void print_rows(struct buf *b, const char *title, const struct field *fields, bool given)
{
    if (!fields || fields->type == FIELD_END)
        return;
    buf_printf(b, "<table><caption>%s</caption>", title);
    for (const struct field *f = fields; f->type != FIELD_END; f++) {
        buf_printf(b, "<tr><td><code>%s</code>%s</td><td>%s</td><td>", f->name, f->required ? " *" : "", word_of(f));
        html(b, f->help);
        if (f->choices) {
            buf_z(b, " <i>");
            html(b, f->choices);
            buf_z(b, "</i>");
        }
        if (given)
            print_unless_given(b, f);
        buf_z(b, "</td></tr>");
    }
    buf_z(b, "</table>");
}

/* Of the groups with the same name. */
static bool is_new_name(size_t g)
{
    for (size_t i = 0; i < g; i++)
        if (strcmp(aio_groups[i]->name, aio_groups[g]->name) == 0)
            return false;
    return true;
}

static void print_group(struct buf *b, const char *name)
{
    buf_printf(b, "<h2 id=%s>%s</h2>", name, name);
    for (size_t g = 0; aio_groups[g]; g++) {
        if (strcmp(aio_groups[g]->name, name) != 0)
            continue;
        for (const struct aio_op *o = aio_groups[g]->ops; o->method; o++) {
            buf_printf(b, "<details><summary><b>%s</b><code>%s</code> ", o->method, o->path);
            html(b, o->help);
            buf_printf(b, "</summary><p>SDK: <code>%s.%s</code></p>", o->group, o->name);
            print_rows(b, "takes", in_of(o), true);
            print_rows(b, o->flags & AIO_LIST ? "data: a list of" : "data", out_of(o), false);
            buf_z(b, "</details>");
        }
    }
}

static void docs(struct web *w)
{
    struct buf b;

    buf_init(&b, LIMIT_HTTP_REPLY);
    buf_z(&b,
          "<!doctype html><html lang=en><meta charset=utf-8><title>Sandglass API</title><style>"
          "body{font:15px/1.5 system-ui,sans-serif;max-width:60em;margin:2em auto;padding:0 1em}"
          "summary{cursor:pointer;padding:.3em}summary b{display:inline-block;width:5em}"
          "table{border-collapse:collapse;margin:.5em 0 1em 1em;width:95%}caption{text-align:left;font-weight:600}"
          "td{border-top:1px solid #8884;padding:.2em .6em;vertical-align:top}:root{color-scheme:light dark}</style>"
          "<h1>Sandglass, AIO surface</h1><p>Every path may have <code>/box/{id}</code> in front of it. "
          "Machine readable: <a href=openapi.json>openapi.json</a>. * is required.</p>");
    for (size_t g = 0; aio_groups[g]; g++)
        if (is_new_name(g))
            buf_printf(&b, "<a href=#%s>%s</a> ", aio_groups[g]->name, aio_groups[g]->name);
    for (size_t g = 0; aio_groups[g]; g++)
        if (is_new_name(g))
            print_group(&b, aio_groups[g]->name);
    struct pair headers[] = { { STR("Content-Type"), STR("text/html; charset=utf-8") },
                              { STR("Content-Security-Policy"),
                                STR("default-src 'none'; style-src 'unsafe-inline'") } };
    http_reply_headers(w->http, 200, headers, 2, buf_view(&b));
    buf_done(&b);
}

static void ping(struct web *w)
{
    struct buf b;
    struct jw j;

    aio_begin(w, &b, &j);
    jw_z(&j, "pong");
    aio_end(w, &b, &j, NULL);
}

static const struct aio_op ops[] = {
    { "GET", "/v1/openapi.json", "meta", "openapi", "This API, machine readable", .handler = openapi,
      .flags = AIO_BARE | AIO_QUIET },
    { "GET", "/v1/docs", "meta", "docs", "This API for people", .handler = docs, .flags = AIO_QUIET },
    { "GET", "/v1/ping", "meta", "ping", "Is anybody there?", .handler = ping, .flags = AIO_TEXT },
    { 0 },
};
const struct aio_group aio_meta = { "meta", ops };

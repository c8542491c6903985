/* The interpreter of field tables: JSON in, JSON out, JSON Schema. Every part here is one walk over a table; the switch
 * on the type is the only place that knows what a type means for that walk. The packed form is in field_pack.c. */
#include "base/field.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>

#include "base/path.h"

enum { SHOWN = 64 }; /* bytes of a client's text that a message repeats */

static size_t type_size(enum field_type t)
{
    switch (t) {
    case FIELD_STR:
    case FIELD_BYTES:
    case FIELD_JSON: return sizeof(struct str);
    case FIELD_INT: return sizeof(int64_t);
    case FIELD_NUM: return sizeof(double);
    case FIELD_BOOL: return sizeof(bool);
    case FIELD_STRS: return sizeof(struct strs);
    case FIELD_PAIRS: return sizeof(struct pairs);
    case FIELD_ROWS: return sizeof(struct rows);
    case FIELD_END: break;
    }
    return 0;
}

/* For messages: what a value of this type is called in JSON. */
static const char *type_word(enum field_type t)
{
    switch (t) {
    case FIELD_STR: return "string";
    case FIELD_BYTES: return "base64 string";
    case FIELD_JSON: return "JSON value";
    case FIELD_INT: return "integer";
    case FIELD_NUM: return "number";
    case FIELD_BOOL: return "boolean";
    case FIELD_STRS: return "array of strings";
    case FIELD_PAIRS: return "object of strings";
    case FIELD_ROWS: return "array of objects";
    case FIELD_END: break;
    }
    return "nothing";
}

static bool has_range(const struct field *f)
{
    return f->max > f->min;
}

static int64_t to_int(double d)
{
    return d >= 0x1p63 ? INT64_MAX : d <= -0x1p63 ? INT64_MIN : (int64_t)d;
}

size_t field_extent(const struct field *fields)
{
    size_t most = 0;

    for (const struct field *f = fields; f->type != FIELD_END; f++)
        if (f->offset + type_size(f->type) > most)
            most = f->offset + type_size(f->type);
    return most;
}

void field_defaults(const struct field *fields, void *out, size_t size)
{
    memset(out, 0, size);
    for (const struct field *f = fields; f->type != FIELD_END; f++) {
        void *to = (char *)out + f->offset;
        assert(f->offset + type_size(f->type) <= size);
        switch (f->type) {
        case FIELD_INT: *(int64_t *)to = f->def; break;
        case FIELD_NUM: *(double *)to = f->def_num; break;
        case FIELD_BOOL: *(bool *)to = f->def != FIELD_ABSENT && f->def != 0; break;
        case FIELD_STR: *(struct str *)to = str_of(f->def_str); break;
        case FIELD_BYTES:
        case FIELD_JSON:
        case FIELD_STRS:
        case FIELD_PAIRS:
        case FIELD_ROWS:
        case FIELD_END: break;
        }
    }
}

/* Binding */

struct bind {
    struct arena *a;
    struct buf *ignored; /* NULL: unknown keys are errors */
    struct err *e;
};

static int bind_members(struct bind *b, const struct field *fields, const struct json *obj, void *out);

/* A client's text, short and on one line: messages end up in logs. */
static const char *show(struct str s, char out[static SHOWN])
{
    size_t n = s.n < SHOWN - 4 ? s.n : SHOWN - 4;

    while (n < s.n && n > 0 && ((unsigned char)s.p[n] & 0xC0) == 0x80)
        n--; /* not in the middle of a character */
    for (size_t i = 0; i < n; i++)
        out[i] = (unsigned char)s.p[i] < 0x20 || s.p[i] == 0x7F ? '?' : s.p[i];
    memcpy(out + n, n < s.n ? "..." : "", n < s.n ? 4 : 1);
    return out;
}

static const char *got(const struct json *v)
{
    return v->type == JSON_NUM && v->is_int ? "integer" : json_type_name(v->type);
}

static int wrong_type(struct bind *b, const struct field *f, const struct json *v)
{
    return err_set(b->e, ERR_TYPE, "%s: expected %s, got %s", f->name, type_word(f->type), got(v));
}

static int out_of_range(struct bind *b, const struct field *f, const struct json *v, bool above)
{
    char shown[SHOWN], limit[32];

    if (f->type == FIELD_INT) {
        int64_t lo = has_range(f) ? to_int(f->min) : INT64_MIN + 1;
        int64_t hi = has_range(f) ? to_int(f->max) : INT64_MAX;
        snprintf(limit, sizeof limit, "%lld", (long long)(above ? hi : lo));
    } else {
        snprintf(limit, sizeof limit, "%.15g", above ? f->max : f->min);
    }
    return err_set(b->e, ERR_INVALID, "%s: %s is %s %s", f->name, show(v->raw, shown),
                   above ? "above the maximum" : "below the minimum", limit);
}

static int bind_int(struct bind *b, const struct field *f, const struct json *v, int64_t *to)
{
    char shown[SHOWN];

    if (v->type != JSON_NUM)
        return wrong_type(b, f, v);
    if (!v->is_int && (v->num >= 0x1p63 || v->num < -0x1p63))
        return out_of_range(b, f, v, v->num > 0);

    int64_t i = v->is_int ? v->i : (int64_t)v->num;
    if (!v->is_int && (double)i != v->num)
        return err_set(b->e, ERR_TYPE, "%s: expected integer, got %s", f->name, show(v->raw, shown));
    if (has_range(f) && i > to_int(f->max))
        return out_of_range(b, f, v, true);
    if (i == FIELD_ABSENT || (has_range(f) && i < to_int(f->min)))
        return out_of_range(b, f, v, false);
    *to = i;
    return 0;
}

static int bind_num(struct bind *b, const struct field *f, const struct json *v, double *to)
{
    if (v->type != JSON_NUM)
        return wrong_type(b, f, v);
    if (has_range(f) && (v->num > f->max || v->num < f->min))
        return out_of_range(b, f, v, v->num > f->max);
    *to = v->num;
    return 0;
}

static bool is_choice(const char *choices, struct str s)
{
    for (const char *c = choices;; c++) {
        const char *end = strchrnul(c, '|');
        if (str_eq(s, (struct str){ c, (size_t)(end - c) }))
            return true;
        if (!*end)
            return false;
        c = end;
    }
}

/* Verbatim JSON is pasted into answers and records, which must stay within the reader's own depth. */
static int check_depth(const struct json *v, int left, struct err *e)
{
    if (v->type != JSON_ARR && v->type != JSON_OBJ)
        return 0;
    if (left == 0)
        return err_set(e, ERR_LIMIT, "JSON is nested deeper than %d (FIELD_JSON_DEPTH)", FIELD_JSON_DEPTH);
    for (const struct json *m = v->first; m; m = m->next) {
        int r = check_depth(m, left - 1, e);
        if (r < 0)
            return r;
    }
    return 0;
}

int field_check_depth(const struct json *v, struct err *e)
{
    return check_depth(v, FIELD_JSON_DEPTH, e);
}

/* Strings, base64 and verbatim JSON: one run of bytes, perhaps capped. */
static int bind_bytes(struct bind *b, const struct field *f, const struct json *v, struct str *to)
{
    char shown[SHOWN];

    if (f->type != FIELD_JSON && v->type != JSON_STR)
        return wrong_type(b, f, v);

    struct str s = f->type == FIELD_JSON ? v->raw : v->s;
    if (f->type == FIELD_JSON) {
        int r = field_check_depth(v, b->e);
        if (r < 0)
            return err_wrap(b->e, r, "%s", f->name);
    } else if (f->type == FIELD_BYTES) {
        s = base64_decode(b->a, v->s);
        if (!s.p)
            return err_set(b->e, ERR_INVALID, "%s: \"%s\" is not base64", f->name, show(v->s, shown));
    } else if (f->path) {
        s = path_bytes(b->a, s);
    }
    if (f->max > 0 && (double)s.n > f->max)
        return err_set(b->e, ERR_LIMIT, "%s: %zu bytes are above the maximum of %.15g bytes", f->name, s.n, f->max);
    if (f->choices && !is_choice(f->choices, s))
        return err_set(b->e, ERR_INVALID, "%s: \"%s\" is not one of %s", f->name, show(s, shown), f->choices);
    *to = s;
    return 0;
}

static int check_count(struct bind *b, const struct field *f, const struct json *v)
{
    if (f->max > 0 && (double)v->count > f->max)
        return err_set(b->e, ERR_LIMIT, "%s: %zu entries are above the maximum of %.15g", f->name, v->count, f->max);
    return 0;
}

static int bind_strs(struct bind *b, const struct field *f, const struct json *v, struct strs *to)
{
    bool one = v->type == JSON_STR;
    char shown[SHOWN];

    if (!one && v->type != JSON_ARR)
        return wrong_type(b, f, v);
    int r = check_count(b, f, v);
    if (r < 0)
        return r;

    size_t n = one ? 1 : v->count, i = 0;
    struct str *list = arena_alloc(b->a, n * sizeof *list);
    for (const struct json *m = one ? v : v->first; i < n; m = m->next, i++) {
        if (m->type != JSON_STR)
            return err_set(b->e, ERR_TYPE, "%s[%zu]: expected string, got %s", f->name, i, got(m));
        if (f->choices && !is_choice(f->choices, m->s))
            return err_set(b->e, ERR_INVALID, "%s[%zu]: \"%s\" is not one of %s", f->name, i, show(m->s, shown),
                           f->choices);
        list[i] = f->path ? path_bytes(b->a, m->s) : m->s;
    }
    *to = (struct strs){ list, n };
    return 0;
}

static int bind_pairs(struct bind *b, const struct field *f, const struct json *v, struct pairs *to)
{
    char shown[SHOWN];
    size_t i = 0;

    if (v->type != JSON_OBJ)
        return wrong_type(b, f, v);
    int r = check_count(b, f, v);
    if (r < 0)
        return r;

    struct pair *list = arena_alloc(b->a, v->count * sizeof *list);
    for (const struct json *m = v->first; m; m = m->next) {
        if (m->type != JSON_STR)
            return err_set(b->e, ERR_TYPE, "%s.%s: expected string, got %s", f->name, show(m->name, shown), got(m));
        list[i++] = (struct pair){ m->name, m->s };
    }
    *to = (struct pairs){ list, i };
    return 0;
}

static int bind_rows(struct bind *b, const struct field *f, const struct json *v, struct rows *to)
{
    size_t i = 0;

    if (v->type != JSON_ARR)
        return wrong_type(b, f, v);
    int r = check_count(b, f, v);
    if (r < 0)
        return r;

    char *list = arena_alloc(b->a, v->count * f->row_size);
    for (const struct json *m = v->first; m; m = m->next, i++) {
        char *row = list + i * f->row_size;
        field_defaults(f->rows, row, f->row_size);
        r = bind_members(b, f->rows, m, row);
        if (r < 0)
            return err_wrap(b->e, r, "%s[%zu]", f->name, i);
    }
    *to = (struct rows){ list, i };
    return 0;
}

static int bind_value(struct bind *b, const struct field *f, const struct json *v, void *to)
{
    switch (f->type) {
    case FIELD_STR:
    case FIELD_BYTES:
    case FIELD_JSON: return bind_bytes(b, f, v, to);
    case FIELD_INT: return bind_int(b, f, v, to);
    case FIELD_NUM: return bind_num(b, f, v, to);
    case FIELD_STRS: return bind_strs(b, f, v, to);
    case FIELD_PAIRS: return bind_pairs(b, f, v, to);
    case FIELD_ROWS: return bind_rows(b, f, v, to);
    case FIELD_BOOL:
        if (v->type != JSON_BOOL)
            return wrong_type(b, f, v);
        *(bool *)to = v->b;
        return 0;
    case FIELD_END: break;
    }
    return 0;
}

static bool is_known(const struct field *fields, struct str name)
{
    for (const struct field *f = fields; f->type != FIELD_END; f++)
        if (str_is(name, f->name) || (f->alias && str_is(name, f->alias)))
            return true;
    return false;
}

static int unknown(struct bind *b, const struct field *fields, struct str name)
{
    char shown[SHOWN], known[160] = "";
    size_t n = 0;

    for (const struct field *f = fields; f->type != FIELD_END; f++) {
        size_t len = strlen(f->name);
        if (n + len + sizeof ", , ..." > sizeof known) {
            memcpy(known + n, ", ...", sizeof ", ...");
            break;
        }
        n += (size_t)snprintf(known + n, sizeof known - n, "%s%s", n ? ", " : "", f->name);
    }
    return err_set(b->e, ERR_INVALID, "%s: unknown parameter (known: %s)", show(name, shown), n ? known : "none");
}

/* Unknown keys come first: "comand: unknown parameter" helps more than "command: required string is missing". */
static int check_names(struct bind *b, const struct field *fields, const struct json *obj)
{
    for (const struct json *m = obj->first; m; m = m->next) {
        if (is_known(fields, m->name))
            continue;
        if (!b->ignored)
            return unknown(b, fields, m->name);
        struct jw w = { .out = b->ignored, .comma = b->ignored->n > 0 };
        jw_str(&w, m->name);
    }
    return 0;
}

static int bind_members(struct bind *b, const struct field *fields, const struct json *obj, void *out)
{
    if (obj && obj->type != JSON_OBJ)
        return err_set(b->e, ERR_TYPE, "expected object, got %s", got(obj));
    int r = obj ? check_names(b, fields, obj) : 0;
    if (r < 0)
        return r;

    for (const struct field *f = fields; f->type != FIELD_END; f++) {
        const struct json *v = json_get(obj, f->name);
        const struct json *other = f->alias ? json_get(obj, f->alias) : NULL;
        if (v && other)
            return err_set(b->e, ERR_INVALID, "%s: given twice, the second time as %s", f->name, f->alias);
        v = v ? v : other;
        if (!v && f->required)
            return err_set(b->e, ERR_MISSING, "%s: required %s is missing", f->name, type_word(f->type));
        if (!v || (v->type == JSON_NULL && !f->required))
            continue;
        r = bind_value(b, f, v, (char *)out + f->offset);
        if (r < 0)
            return r;
    }
    return 0;
}

int field_bind(const struct field *fields, const struct json *obj, struct arena *a, void *out, struct buf *ignored,
               struct err *e)
{
    struct bind b = { .a = a, .ignored = ignored, .e = e };
    size_t size = 0;

    for (const struct field *f = fields; f->type != FIELD_END; f++)
        if (f->offset + type_size(f->type) > size)
            size = f->offset + type_size(f->type);
    field_defaults(fields, out, size);
    return bind_members(&b, fields, obj, out);
}

/* Printing */

static bool is_list(enum field_type t)
{
    return t == FIELD_STRS || t == FIELD_PAIRS || t == FIELD_ROWS;
}

bool field_is_absent(const struct field *f, const void *p)
{
    switch (f->type) {
    case FIELD_STR:
    case FIELD_BYTES: return !((const struct str *)p)->p;
    case FIELD_JSON: return !((const struct str *)p)->p || ((const struct str *)p)->n == 0;
    case FIELD_INT: return *(const int64_t *)p == FIELD_ABSENT;
    case FIELD_NUM: return isnan(*(const double *)p);
    case FIELD_STRS: return ((const struct strs *)p)->n == 0;
    case FIELD_PAIRS: return ((const struct pairs *)p)->n == 0;
    case FIELD_ROWS: return ((const struct rows *)p)->n == 0;
    case FIELD_BOOL:
    case FIELD_END: break;
    }
    return false;
}

static void print_strs(const struct field *f, const struct strs *list, struct jw *w)
{
    jw_arr(w);
    for (size_t i = 0; i < list->n; i++)
        (f->path ? jw_path : jw_str)(w, list->v[i].p ? list->v[i] : STR(""));
    jw_arr_end(w);
}

static void print_pairs(const struct pairs *list, struct jw *w)
{
    jw_obj(w);
    for (size_t i = 0; i < list->n; i++) {
        jw_key_str(w, list->v[i].name);
        jw_str(w, list->v[i].value.p ? list->v[i].value : STR(""));
    }
    jw_obj_end(w);
}

static void print_rows(const struct field *f, const struct rows *list, struct jw *w)
{
    jw_arr(w);
    for (size_t i = 0; i < list->n; i++) {
        jw_obj(w);
        field_print(f->rows, (const char *)list->v + i * f->row_size, w);
        jw_obj_end(w);
    }
    jw_arr_end(w);
}

static void print_value(const struct field *f, const void *p, struct jw *w)
{
    switch (f->type) {
    case FIELD_STR: (f->path ? jw_path : jw_str)(w, *(const struct str *)p); break;
    case FIELD_BYTES: jw_base64(w, *(const struct str *)p); break;
    case FIELD_JSON: jw_raw(w, *(const struct str *)p); break;
    case FIELD_INT: jw_int(w, *(const int64_t *)p); break;
    case FIELD_NUM: jw_num(w, *(const double *)p); break;
    case FIELD_BOOL: jw_bool(w, *(const bool *)p); break;
    case FIELD_STRS: print_strs(f, p, w); break;
    case FIELD_PAIRS: print_pairs(p, w); break;
    case FIELD_ROWS: print_rows(f, p, w); break;
    case FIELD_END: break;
    }
}

void field_print(const struct field *fields, const void *in, struct jw *w)
{
    for (const struct field *f = fields; f->type != FIELD_END; f++) {
        const void *p = (const char *)in + f->offset;
        bool absent = field_is_absent(f, p);

        if (absent && !f->always && !f->nullable)
            continue;
        jw_key(w, f->name);
        if (!absent || (is_list(f->type) && f->always))
            print_value(f, p, w);
        else if (!f->nullable && (f->type == FIELD_STR || f->type == FIELD_BYTES))
            jw_z(w, "");
        else
            jw_null(w);
    }
}

/* Schema */

static void schema_type(const struct field *f, const char *type, struct jw *w)
{
    jw_key(w, "type");
    if (!f->nullable) {
        jw_z(w, type);
        return;
    }
    jw_arr(w);
    jw_z(w, type);
    jw_z(w, "null");
    jw_arr_end(w);
}

static void schema_choices(const struct field *f, bool nullable, struct jw *w)
{
    jw_key(w, "enum");
    jw_arr(w);
    for (const char *c = f->choices, *end;; c = end + 1) {
        end = strchrnul(c, '|');
        jw_str(w, (struct str){ c, (size_t)(end - c) });
        if (!*end)
            break;
    }
    if (nullable)
        jw_null(w);
    jw_arr_end(w);
}

static void schema_max(const struct field *f, const char *key, struct jw *w)
{
    if (f->max > 0)
        jw_kint(w, key, to_int(f->max));
}

static void schema_number(const struct field *f, struct jw *w)
{
    bool integer = f->type == FIELD_INT;
    double def = integer ? (double)f->def : f->def_num;
    /* A zero that nobody wrote into the table may lie outside the range; then there is no default to tell of. */
    bool has_def = !f->required && !isnan(def) && !(integer && f->def == FIELD_ABSENT) &&
                   (!has_range(f) || (def >= f->min && def <= f->max));

    schema_type(f, integer ? "integer" : "number", w);
    if (has_range(f) && integer) {
        jw_kint(w, "minimum", to_int(f->min));
        jw_kint(w, "maximum", to_int(f->max));
    } else if (has_range(f)) {
        jw_knum(w, "minimum", f->min);
        jw_knum(w, "maximum", f->max);
    }
    if (has_def && integer)
        jw_kint(w, "default", f->def);
    else if (has_def)
        jw_knum(w, "default", f->def_num);
}

static void schema_string(const struct field *f, struct jw *w)
{
    schema_type(f, "string", w);
    /* maxLength counts characters and our limit bytes, so this is necessary, not sufficient. */
    schema_max(f, "maxLength", w);
    if (f->choices)
        schema_choices(f, f->nullable, w);
    if (f->def_str && !f->required)
        jw_kz(w, "default", f->def_str);
}

static void schema_items(const struct field *f, struct jw *w)
{
    schema_type(f, "array", w);
    schema_max(f, "maxItems", w);
    jw_key(w, "items");
    if (f->type == FIELD_ROWS) {
        field_schema(f->rows, w);
        return;
    }
    jw_obj(w);
    jw_kz(w, "type", "string");
    if (f->choices)
        schema_choices(f, false, w);
    jw_obj_end(w);
}

static void schema_property(const struct field *f, struct jw *w)
{
    jw_obj(w);
    switch (f->type) {
    case FIELD_STR: schema_string(f, w); break;
    case FIELD_BYTES:
        schema_type(f, "string", w);
        jw_kz(w, "contentEncoding", "base64");
        if (f->max > 0)
            jw_kint(w, "maxLength", (to_int(f->max) + 2) / 3 * 4);
        break;
    case FIELD_INT:
    case FIELD_NUM: schema_number(f, w); break;
    case FIELD_BOOL:
        schema_type(f, "boolean", w);
        if (!f->required && f->def != FIELD_ABSENT)
            jw_kbool(w, "default", f->def != 0);
        break;
    case FIELD_STRS:
    case FIELD_ROWS: schema_items(f, w); break;
    case FIELD_PAIRS:
        schema_type(f, "object", w);
        schema_max(f, "maxProperties", w);
        jw_key(w, "additionalProperties");
        jw_obj(w);
        jw_kz(w, "type", "string");
        jw_obj_end(w);
        break;
    case FIELD_JSON: /* no type: anything */
    case FIELD_END: break;
    }
    if (f->help)
        jw_kz(w, "description", f->help);
    jw_obj_end(w);
}

void field_schema(const struct field *fields, struct jw *w)
{
    jw_obj(w);
    jw_kz(w, "type", "object");
    jw_key(w, "properties");
    jw_obj(w);
    for (const struct field *f = fields; f->type != FIELD_END; f++) {
        jw_key(w, f->name);
        schema_property(f, w);
    }
    jw_obj_end(w);
    jw_key(w, "required");
    jw_arr(w);
    for (const struct field *f = fields; f->type != FIELD_END; f++)
        if (f->required)
            jw_z(w, f->name);
    jw_arr_end(w);
    jw_kbool(w, "additionalProperties", false);
    jw_obj_end(w);
}

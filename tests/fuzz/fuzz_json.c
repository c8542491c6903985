/* Any bytes: the reader refuses them or makes a tree; what the writer makes of that tree reads back as the same. */
#include <stdint.h>
#include <stdlib.h>

#include "base/auto.h"
#include "base/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check(bool ok)
{
    if (!ok)
        abort();
}

static void write_tree(struct jw *w, const struct json *v)
{
    switch (v->type) {
    case JSON_NULL: jw_null(w); break;
    case JSON_BOOL: jw_bool(w, v->b); break;
    case JSON_NUM: v->is_int ? jw_int(w, v->i) : jw_num(w, v->num); break;
    case JSON_STR: jw_str(w, v->s); break;
    case JSON_ARR:
        jw_arr(w);
        for (const struct json *m = v->first; m; m = m->next)
            write_tree(w, m);
        jw_arr_end(w);
        break;
    case JSON_OBJ:
        jw_obj(w);
        for (const struct json *m = v->first; m; m = m->next) {
            jw_key_str(w, m->name);
            write_tree(w, m);
        }
        jw_obj_end(w);
        break;
    }
}

static void check_same(const struct json *a, const struct json *b)
{
    check(a->type == b->type && a->b == b->b && a->num == b->num && a->count == b->count);
    check(!a->is_int || (b->is_int && a->i == b->i));
    check(str_eq(a->s, b->s) && str_eq(a->name, b->name));
    check(utf8_ok(a->s) && utf8_ok(a->name));
    for (a = a->first, b = b->first; a; a = a->next, b = b->next)
        check_same(a, b);
    check(!b);
}

static void any_bytes_as_string(struct arena *a, struct str bytes)
{
    AUTO(buf_done) struct buf b;
    struct jw w = { .out = &b };
    struct json *v;

    buf_init(&b, 16 << 20);
    jw_arr(&w);
    jw_str(&w, bytes);
    jw_base64(&w, bytes);
    jw_arr_end(&w);
    check(json_parse(a, buf_view(&b), &v, NULL) >= 0);
    check(!utf8_ok(bytes) || str_eq(v->first->s, bytes));
    check(str_eq(base64_decode(a, v->first->next->s), bytes));
    (void)base64_decode(a, bytes);
}

/* What the reader takes has an outline, with the same outermost members. */
static void check_outline(struct arena *a, struct str text, const struct json *v)
{
    struct json *o;

    check(json_outline(a, text, &o, NULL) >= 0);
    check(o->type == v->type && o->count == v->count && str_eq(o->raw, v->raw));
    for (const struct json *x = o->first, *y = v->first; y; x = x->next, y = y->next)
        check(x->type == y->type && str_eq(x->raw, y->raw) && str_eq(x->name, y->name) && str_eq(x->s, y->s));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    AUTO(arena_done) struct arena a = { 0 };
    AUTO(buf_done) struct buf b;
    struct str text = { n ? (const char *)data : "", n };
    struct jw w = { .out = &b };
    struct json *v, *back;

    buf_init(&b, 16 << 20);
    any_bytes_as_string(&a, text);
    struct err e = { 0 };
    (void)json_outline(&a, text, &v, NULL); /* of what it does not take, whatever it says */
    int r = json_parse(&a, text, &v, &e);
    check((r < 0) == (e.code != ERR_NONE));
    if (r < 0)
        return 0;
    check(utf8_ok(text));
    check_outline(&a, text, v);
    write_tree(&w, v);
    check(!b.full && json_parse(&a, buf_view(&b), &back, NULL) >= 0);
    check_same(v, back);
    check(json_parse(&a, v->raw, &back, NULL) >= 0);
    check_same(v, back);
    return 0;
}

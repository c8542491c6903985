/* Fields of forms: options, checkboxes, files, and whole forms at once. */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/limits.h"
#include "tool/browser_internal.h"
#ifdef IN_BOX
#include "base/loop.h"
#endif

const struct field browser_in_select[] = {
    ELEMENT,
    FIELD(STRS, P, values, "values or labels of the options", .max = 1000, .alias = "value"),
    FIELD(INT, P, option, "or: number of the option", .def = FIELD_ABSENT, .min = 0, .max = 100000),
    TIMEOUT,
    { 0 },
};
const struct field browser_in_upload[] = {
    ELEMENT,
    FIELD(STRS, P, files, "paths in the box", .required = true, .max = 100),
    TIMEOUT,
    { 0 },
};
const struct field browser_in_check[] = {
    ELEMENT,
    FIELD(BOOL, P, checked, "false: take the mark away", .def = true),
    TIMEOUT,
    { 0 },
};
const struct field browser_in_fill[] = {
    FIELD(
        JSON, P, items,
        "a list of fields, each with selector, ref or index, and one of text, checked, values or files; value does for "
        "any of them",
        .required = true, .max = 4 * MiB, .def_str = "[object]"),
    TIMEOUT,
    { 0 },
};
#define ACTED NEWS, FIELD(JSON, R, element, "that was acted on: tag, id, name, text")
const struct field browser_out_select[] = { ACTED, FIELD(JSON, R, selected, "values of the chosen options"), { 0 } };
const struct field browser_out_upload[] = { ACTED, { 0 } };
const struct field browser_out_check[] = { ACTED, FIELD(BOOL, R, checked, "how it is now"), { 0 } };
const struct field browser_out_fill[] = { NEWS, FIELD(INT, R, count, "fields that were filled"), { 0 } };

#ifdef IN_BOX

static int choose(struct hand *h, struct browser *b, const struct browser_params *p, struct browser_result *r,
                  struct err *e)
{
    AUTO(buf_done) struct buf o = { .cap = 1 * MiB };
    struct jw j = { .out = &o };
    struct spot at;

    if (!browser_names_element(p) || (!p->values.n && p->option == FIELD_ABSENT))
        return err_set(e, ERR_MISSING, "%s: required", browser_names_element(p) ? "values" : "selector");
    buf_z(&o, ",\"values\":");
    jw_arr(&j);
    for (size_t i = 0; i < p->values.n; i++)
        jw_str(&j, p->values.v[i]);
    jw_arr_end(&j);
    if (p->option != FIELD_ABSENT)
        buf_printf(&o, ",\"option\":%lld", (long long)p->option);
    int n = browser_locate(h, b, p, "select", arena_z(h->arena, buf_view(&o)), &at, e);
    if (n < 0)
        return n;
    const struct json *selected = json_get(at.at, "selected");
    if (!selected || !selected->count)
        return err_set(e, ERR_NOT_FOUND, "values: the element has no such option");
    r->selected = selected->raw;
    r->element = json_raw(at.at, "element");
    return 0;
}

static int check(struct hand *h, struct browser *b, const struct browser_params *p, struct browser_result *r,
                 struct err *e)
{
    struct spot at;

    if (!browser_names_element(p))
        return err_set(e, ERR_MISSING, "selector: required");
    for (int again = 0;; again++) {
        int n = browser_locate(h, b, p, "check", ",\"scroll\":true", &at, e);
        if (n < 0)
            return n;
        r->element = json_raw(at.at, "element");
        r->checked = json_get_bool(at.at, "checked", false);
        if (!json_get_bool(at.at, "has", false))
            return err_set(e, ERR_INVALID, "selector: the element is no checkbox and no radio button");
        if (r->checked == p->checked)
            return 0;
        if (again)
            return err_set(e, ERR_SYSTEM, "the page does not let it be %s", p->checked ? "checked" : "unchecked");
        n = browser_move(h, b, at.x, at.y, e);
        if (n >= 0)
            n = browser_click(h, b, "left", 1, e);
        if (n < 0)
            return n;
    }
}

static int give_files(struct hand *h, struct browser *b, const struct browser_params *p, struct browser_result *r,
                      struct err *e)
{
    AUTO(buf_done) struct buf o = { .cap = 1 * MiB };
    struct jw j = { .out = &o };
    const struct json *v = NULL;
    struct spot at;

    if (!browser_names_element(p))
        return err_set(e, ERR_MISSING, "selector: required");
    for (size_t i = 0; i < p->files.n; i++)
        if (access(arena_z(h->arena, p->files.v[i]), R_OK) < 0)
            return err_set(e, ERR_NOT_FOUND, "files: '%.*s': %s", (int)(p->files.v[i].n < 150 ? p->files.v[i].n : 150),
                           p->files.v[i].p, strerror(errno));
    int n = browser_locate(h, b, p, "focus", "", &at, e);
    if (n < 0)
        return n;
    r->element = json_raw(at.at, "element");
    struct str how = browser_element_json(h, p, "");
    n = browser_object(h, b, at.frame, str_of(arena_printf(h->arena, "__sandglass_find(%.*s)", STR_ARG(how))), &v, e);
    if (n < 0)
        return n;
    jw_obj(&j);
    jw_kraw(&j, "objectId", v->raw);
    jw_key(&j, "files");
    jw_arr(&j);
    for (size_t i = 0; i < p->files.n; i++)
        jw_str(&j, p->files.v[i]);
    jw_arr_end(&j);
    jw_obj_end(&j);
    return browser_call_in(h, b, at.frame, "DOM.setFileInputFiles", buf_view(&o), NULL, e);
}

int browser_run_select(struct hand *h, const void *params, void *result, struct err *e)
{
    struct browser *b = browser_open(h, params, e);

    if (!b)
        return -EIO;
    int n = choose(h, b, params, result, e);
    if (n >= 0)
        n = browser_settle(h, b, e);
    return browser_verdict(h, b, n, result, e);
}

int browser_run_check(struct hand *h, const void *params, void *result, struct err *e)
{
    struct browser *b = browser_open(h, params, e);

    if (!b)
        return -EIO;
    int n = check(h, b, params, result, e);
    if (n >= 0)
        n = browser_settle(h, b, e);
    return browser_verdict(h, b, n, result, e);
}

int browser_run_upload(struct hand *h, const void *params, void *result, struct err *e)
{
    struct browser *b = browser_open(h, params, e);

    if (!b)
        return -EIO;
    return browser_verdict(h, b, give_files(h, b, params, result, e), result, e);
}

/* --- whole forms --- */

struct item {
    struct str selector, ref, text, value, label;
    struct strs values, files;
    int64_t index;
    bool checked;
};
static const struct field item_fields[] = {
    FIELD(STR, struct item, selector, "", .max = 8192),
    FIELD(STR, struct item, ref, "", .max = 32),
    FIELD(INT, struct item, index, "", .def = FIELD_ABSENT, .min = 0, .max = 100000),
    FIELD(STR, struct item, text, "", .max = 1 * MiB),
    FIELD(JSON, struct item, value, "", .max = 1 * MiB),
    FIELD(STR, struct item, label, "", .max = 8192),
    FIELD(STRS, struct item, values, "", .max = 1000),
    FIELD(STRS, struct item, files, "", .max = 100),
    FIELD(BOOL, struct item, checked, ""),
    { 0 },
};

/* "value" does for any field: what it means is said by the element. */
static int take_value(struct hand *h, struct browser *b, struct browser_params *p, const struct json *v, bool *mark,
                      struct err *e)
{
    struct spot at;
    int n = browser_locate(h, b, p, "locate", "", &at, e);

    if (n < 0)
        return n;
    const struct json *element = json_get(at.at, "element");
    struct str tag = json_get_str(element, "tag"), type = json_get_str(element, "type");
    struct str text = v->type == JSON_STR ? v->s : v->raw;
    if (str_is(type, "checkbox") || str_is(type, "radio")) {
        *mark = true;
        p->checked = v->type == JSON_BOOL ? v->b : !(str_is(text, "false") || str_is(text, "off") || !text.n);
    } else if (str_is(tag, "select") || str_is(type, "file")) {
        struct str *one = arena_alloc(h->arena, sizeof *one);
        *one = text;
        *(str_is(tag, "select") ? &p->values : &p->files) = (struct strs){ one, 1 };
    } else {
        p->text = text;
    }
    return 0;
}

static int fill_one(struct hand *h, struct browser *b, const struct json *one, struct err *e)
{
    struct browser_params p = { .option = FIELD_ABSENT, .clear = true };
    struct browser_result ignored = { 0 };
    struct item it;
    bool mark = json_get(one, "checked") != NULL;
    int n = field_bind(item_fields, one, h->arena, &it, NULL, e);

    if (n < 0)
        return n;
    p.selector = it.selector, p.ref = it.ref, p.index = it.index, p.values = it.values, p.files = it.files;
    p.text = it.text, p.checked = it.checked;
    if (it.label.n)
        p.values = (struct strs){ &it.label, 1 };
    if (!browser_names_element(&p))
        return err_set(e, ERR_MISSING, "selector: required (or ref, index)");
    const struct json *value = json_get(one, "value");
    if (value && value->type != JSON_NULL) {
        n = take_value(h, b, &p, value, &mark, e);
        if (n < 0)
            return n;
    } else if (!p.text.p && !mark && !p.values.n && !p.files.n) {
        return err_set(e, ERR_MISSING, "value: required (or text, checked, values, files)");
    }
    if (mark)
        return check(h, b, &p, &ignored, e);
    if (p.values.n)
        return choose(h, b, &p, &ignored, e);
    if (p.files.n)
        return give_files(h, b, &p, &ignored, e);
    n = browser_focus(h, b, &p, &ignored, e);
    return n < 0 ? n : browser_type(h, b, p.text, false, 0, e);
}

int browser_run_fill(struct hand *h, const void *params, void *result, struct err *e)
{
    const struct browser_params *p = params;
    struct browser_result *r = result;
    struct json *items = NULL;
    struct browser *b = browser_open(h, p, e);
    int n = 0;

    if (!b)
        return -EIO;
    if (json_parse(h->arena, p->items, &items, e) < 0 || items->type != JSON_ARR)
        return err_set(e, ERR_TYPE, "items: expected a list of objects");
    for (const struct json *one = items->first; one && n >= 0; one = one->next) {
        n = one->type == JSON_OBJ ? fill_one(h, b, one, e) : err_set(e, ERR_TYPE, "expected object");
        if (n < 0)
            n = err_wrap(e, n, "items[%lld]", (long long)r->count);
        else
            r->count++;
    }
    if (n >= 0)
        n = browser_settle(h, b, e);
    return browser_verdict(h, b, n, r, e);
}
#endif

/* Bodies as AgentFlow's framework reads them: required and typed fields, and a 422 that lists every field that is wrong. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/limits.h"
#include "surface/agentflow.h"

#define FAULTS_SHOWN 32 /* of a batch of thousands, somebody needs no more */

void model_begin(struct model *m, struct web *w)
{
    *m = (struct model){ .web = w };
    buf_init(&m->list, LIMIT_HTTP_REPLY);
    m->out = (struct jw){ .out = &m->list };
    if (!w->body)
        model_wrong(m, "missing", NULL, "Field required", STR("null"));
    else if (w->body->type != JSON_OBJ)
        model_wrong(m, "model_attributes_type", NULL,
                    "Input should be a valid dictionary or object to extract fields from", w->body->raw);
    else
        m->body = w->body;
}

static void print_fault(struct model *m, const char *type, const struct model_place *at, const char *msg,
                        struct str input)
{
    struct jw *j = &m->out;

    if (m->faults++ >= FAULTS_SHOWN)
        return;
    jw_obj(j);
    jw_kz(j, "type", type);
    jw_key(j, "loc");
    jw_arr(j);
    jw_z(j, "body");
    if (at->field)
        jw_z(j, at->field);
    if (at->inside) {
        jw_int(j, (int64_t)at->item);
        if (*at->inside)
            jw_z(j, at->inside);
    }
    jw_arr_end(j);
    jw_kz(j, "msg", msg);
    jw_kraw(j, "input", input.n < 65536 ? input : STR("\"(large)\""));
    jw_obj_end(j);
}

void model_wrong(struct model *m, const char *type, const char *field, const char *msg, struct str input)
{
    print_fault(m, type, &(struct model_place){ .field = field }, msg, input);
}

void model_wrong_item(struct model *m, const char *type, const struct model_place *at, const char *msg,
                      struct str input)
{
    print_fault(m, type, at, msg, input);
}

bool model_end(struct model *m)
{
    struct buf b;
    struct jw j = { .out = &b };

    if (m->faults) {
        buf_init(&b, LIMIT_HTTP_REPLY);
        jw_obj(&j);
        jw_key(&j, "detail");
        jw_arr(&j);
        jw_raw(&j, buf_view(&m->list));
        jw_arr_end(&j);
        jw_obj_end(&j);
        web_send(m->web, 422, &b);
    }
    buf_done(&m->list);
    return m->faults == 0;
}

void model_str(struct model *m, const char *field, struct str *ret)
{
    const struct json *v = json_get(m->body, field);

    if (!m->body)
        return;
    if (!v)
        model_wrong(m, "missing", field, "Field required", m->body->raw);
    else if (v->type != JSON_STR)
        model_wrong(m, "string_type", field, "Input should be a valid string", v->raw);
    else
        *ret = v->s;
}

const struct json *model_dict(struct model *m, const char *field)
{
    const struct json *v = json_get(m->body, field);

    if (v && v->type != JSON_OBJ && v->type != JSON_NULL)
        model_wrong(m, "dict_type", field, "Input should be a valid dictionary", v->raw);
    return v && v->type == JSON_OBJ ? v : NULL;
}

const struct json *model_list(struct model *m, const char *field, bool required)
{
    const struct json *v = json_get(m->body, field);

    if (!m->body)
        return NULL;
    if (!v && required)
        model_wrong(m, "missing", field, "Field required", m->body->raw);
    else if (v && v->type != JSON_ARR && (required || v->type != JSON_NULL))
        model_wrong(m, "list_type", field, "Input should be a valid list", v->raw);
    return v && v->type == JSON_ARR ? v : NULL;
}

/* What pydantic takes for a truth value. */
bool model_bool(struct model *m, const char *field, bool otherwise)
{
    static const char *const words[] = { "false", "0", "off", "f", "no", "n", "true", "1", "on", "t", "yes", "y" };
    const struct json *v = json_get(m->body, field);
    struct str text = !v ? STR("") : v->type == JSON_STR ? v->s : v->raw;

    if (!v)
        return otherwise;
    for (size_t i = 0; i < 12 && v->type != JSON_NULL; i++)
        if (text.n == strlen(words[i]) && strncasecmp(text.p, words[i], text.n) == 0)
            return i >= 6;
    model_wrong(m, "bool_parsing", field, "Input should be a valid boolean, unable to interpret input", v->raw);
    return otherwise;
}

/* 30, 30.0 and "30" are integers to pydantic; 1.5 is not. */
int64_t model_timeout_ms(struct model *m)
{
    const struct json *v = json_get(m->body, "timeout");
    const char *type = NULL, *msg = NULL;
    char text[32] = "", *end = text;
    double s = 0;

    if (!v || v->type == JSON_NULL)
        return 0;
    if (v->type == JSON_STR && v->s.n && v->s.n < sizeof text) {
        memcpy(text, v->s.p, v->s.n);
        s = strtod(text, &end);
    } else if (v->type == JSON_NUM) {
        s = v->num;
    }
    if (v->type != JSON_NUM && v->type != JSON_STR)
        type = "int_type", msg = "Input should be a valid integer";
    else if (v->type == JSON_STR && (end == text || *end))
        type = "int_parsing", msg = "Input should be a valid integer, unable to parse string as an integer";
    else if (s != floor(s))
        type = "int_from_float", msg = "Input should be a valid integer, got a number with a fractional part";
    else if (s <= 0 || s > LIMIT_TIMEOUT_MS / 1000)
        type = "out_of_range", msg = "Input should be from 1 to 86400 seconds (LIMIT_TIMEOUT_MS)";
    if (type)
        model_wrong(m, type, "timeout", msg, v->raw);
    return type ? 0 : (int64_t)(s * 1000);
}

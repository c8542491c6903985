/* Our own API: named secrets of a tenant. A value goes in and never comes out. */
#include <stdio.h>

#include "base/limits.h"
#include "session/secret.h"
#include "surface/door.h"

struct secret_body {
    struct str value, box, tools;
};
static const struct field secret_fields[] = {
    FIELD(STR, struct secret_body, value, "the secret", .required = true, .max = SECRET_MAX),
    FIELD(STR, struct secret_body, box, "only for this box", .max = 31),
    FIELD(STR, struct secret_body, tools, "only for these tools, separated by commas", .max = 255),
    { 0 },
};

static void send(struct web *w, int status, const struct secret *x)
{
    struct buf o;
    struct jw j = { .out = &o };

    buf_init(&o, 8192);
    jw_obj(&j);
    secret_print(x, &j);
    jw_obj_end(&j);
    web_send(w, status, &o);
}

static void put(struct web *w)
{
    struct secret ask = { 0 };
    struct secret_body x;
    struct err e;

    if (!w->body || field_bind(secret_fields, w->body, w->http->arena, &x, NULL, &e) < 0) {
        web_error(w, 400, w->body ? e.code : ERR_MISSING, "%s", w->body ? e.msg : "body: a JSON object is required");
        return;
    }
    if (!secret_name_ok(w->match.id)) {
        web_error(w, 400, ERR_INVALID, "name: 1 to 63 letters, digits and . _ - are allowed");
        return;
    }
    snprintf(ask.tenant, sizeof ask.tenant, "%s", w->tenant->name);
    snprintf(ask.name, sizeof ask.name, "%.*s", STR_ARG(w->match.id));
    snprintf(ask.box, sizeof ask.box, "%.*s", STR_ARG(x.box));
    snprintf(ask.tools, sizeof ask.tools, "%.*s", STR_ARG(x.tools));
    if (secrets_set(w->node->secrets, &ask, x.value, &e) < 0)
        web_error(w, web_status_of(e.code), e.code, "%s", e.msg);
    else
        send(w, 200, secrets_find(w->node->secrets, w->tenant, w->match.id));
}

static void list(struct web *w)
{
    struct buf o;
    struct jw j = { .out = &o };
    const struct secret *x;

    buf_init(&o, LIMIT_HTTP_REPLY);
    jw_obj(&j);
    jw_key(&j, "secrets");
    jw_arr(&j);
    for (size_t i = 0; (x = secrets_next(w->node->secrets, w->tenant, &i));) {
        jw_obj(&j);
        secret_print(x, &j);
        jw_obj_end(&j);
    }
    jw_arr_end(&j);
    jw_obj_end(&j);
    web_send(w, 200, &o);
}

static void remove_(struct web *w)
{
    const struct secret *x = secrets_find(w->node->secrets, w->tenant, w->match.id);
    struct secret was;
    struct err e;

    if (!x) {
        web_error(w, 404, ERR_NOT_FOUND, "no secret '%.*s'", (int)(w->match.id.n < 64 ? w->match.id.n : 64),
                  w->match.id.p);
        return;
    }
    was = *x;
    if (secrets_remove(w->node->secrets, w->tenant, w->match.id, &e) < 0)
        web_error(w, web_status_of(e.code), e.code, "%s", e.msg);
    else
        send(w, 200, &was);
}

const struct route secret_routes[] = {
    { "GET", "/sg/v1/secrets", list, ROUTE_ADMIN },
    { "PUT", "/sg/v1/secrets/{id}", put, ROUTE_ADMIN },
    { "DELETE", "/sg/v1/secrets/{id}", remove_, ROUTE_ADMIN },
    { 0 },
};

/* Our own API: API keys. An administrator of a tenant makes and revokes that tenant's keys; one of the tenant "default"
 * is the server's and sees all. */
#include <stdio.h>

#include "base/limits.h"
#include "base/log.h"
#include "surface/door.h"

static struct key_store *store(const struct web *w)
{
    return access_keys(surfaces_door(w->all)->access);
}

static bool sees(const struct web *w, const struct api_key *k)
{
    const char *tenant = k->tenant[0] ? k->tenant : TENANT_DEFAULT;
    return w->tenant->is_default || strcmp(tenant, w->tenant->name) == 0;
}

static void list(struct web *w)
{
    struct buf o;
    struct jw j = { .out = &o };
    const struct api_key *k;

    buf_init(&o, LIMIT_HTTP_REPLY);
    jw_obj(&j);
    jw_key(&j, "keys");
    jw_arr(&j);
    for (size_t i = 0; (k = key_store_next(store(w), &i));)
        if (sees(w, k)) {
            jw_obj(&j);
            api_key_print(k, &j);
            jw_obj_end(&j);
        }
    jw_arr_end(&j);
    jw_obj_end(&j);
    web_send(w, 200, &o);
}

struct key_body {
    struct str name, tenant, role, scopes, box;
    double ttl;
};
static const struct field key_fields[] = {
    FIELD(STR, struct key_body, name, "what it is for", .max = 63),
    FIELD(STR, struct key_body, tenant, "whose; default: one's own", .max = 63),
    FIELD(STR, struct key_body, role, "viewer, agent, operator or admin", .required = true, .max = 16),
    FIELD(STR, struct key_body, scopes, "fewer than the role's: read,execute,manage,admin", .max = 64),
    FIELD(STR, struct key_body, box, "role agent: its box", .max = 31),
    FIELD(NUM, struct key_body, ttl, "seconds until it expires; 0: never", .min = 0, .max = 10 * 366 * 86400.0),
    { 0 },
};

static bool read_ask(struct web *w, struct api_key *k)
{
    struct key_body x;
    struct err e;

    if (!w->body || field_bind(key_fields, w->body, w->http->arena, &x, NULL, &e) < 0) {
        web_error(w, 400, w->body ? e.code : ERR_MISSING, "%s", w->body ? e.msg : "body: a JSON object is required");
        return false;
    }
    *k = (struct api_key){ .role = role_find(x.role.p, x.role.n) };
    struct str tenant = x.tenant.n ? x.tenant : str_of(w->tenant->name);
    if (k->role == ROLE_NONE)
        web_error(w, 400, ERR_INVALID, "role: must be viewer, agent, operator or admin");
    else if (!tenant_name_ok(tenant))
        web_error(w, 400, ERR_INVALID, "tenant: 1 to 63 letters, digits and . _ - are allowed");
    else if (!w->tenant->is_default && !str_is(tenant, w->tenant->name))
        web_error(w, 403, ERR_DENIED, "tenant: only your own");
    else if (x.scopes.n && !scopes_read(x.scopes))
        web_error(w, 400, ERR_INVALID, "scopes: a list of read, execute, manage, admin, with commas");
    else if ((k->role == ROLE_AGENT) != (x.box.n > 0))
        web_error(w, 400, ERR_INVALID, "box: the role agent needs one, and no other role has one");
    else {
        snprintf(k->name, sizeof k->name, "%.*s", STR_ARG(x.name));
        snprintf(k->tenant, sizeof k->tenant, "%.*s", STR_ARG(tenant));
        snprintf(k->box, sizeof k->box, "%.*s", STR_ARG(x.box));
        k->may = x.scopes.n ? scopes_read(x.scopes) : 0;
        k->expires_us = x.ttl > 0 ? wall_us() + (int64_t)(x.ttl * 1e6) : 0;
        return true;
    }
    return false;
}

static void create(struct web *w)
{
    struct api_key ask;
    const struct api_key *k;
    char text[API_KEY_TEXT];
    struct buf o;
    struct jw j = { .out = &o };
    struct err e;

    if (!read_ask(w, &ask))
        return;
    if (key_store_add(store(w), &ask, false, text, &k, &e) < 0) {
        web_error(w, 500, e.code, "%s", e.msg);
        return;
    }
    buf_init(&o, 8192);
    jw_obj(&j);
    api_key_print(k, &j);
    jw_kz(&j, "key", text); /* the only time that anyone sees it */
    jw_obj_end(&j);
    web_send(w, 201, &o);
}

static void get_or_revoke(struct web *w, bool revoke)
{
    const struct api_key *k = key_store_find(store(w), w->match.id);
    struct buf o;
    struct jw j = { .out = &o };
    struct err e;

    if (!k || !sees(w, k)) {
        web_error(w, 404, ERR_NOT_FOUND, "no key '%.*s'", (int)(w->match.id.n < 40 ? w->match.id.n : 40),
                  w->match.id.p);
        return;
    }
    if (revoke && key_store_revoke(store(w), w->match.id, false, &e) < 0) {
        web_error(w, 500, e.code, "%s", e.msg);
        return;
    }
    k = key_store_find(store(w), w->match.id);
    buf_init(&o, 8192);
    jw_obj(&j);
    api_key_print(k, &j);
    jw_obj_end(&j);
    web_send(w, 200, &o);
}

static void get(struct web *w)
{
    get_or_revoke(w, false);
}

static void revoke(struct web *w)
{
    get_or_revoke(w, true);
}

const struct route key_routes[] = {
    { "GET", "/sg/v1/keys", list, ROUTE_ADMIN },
    { "POST", "/sg/v1/keys", create, ROUTE_ADMIN },
    { "GET", "/sg/v1/keys/{id}", get, ROUTE_ADMIN },
    { "DELETE", "/sg/v1/keys/{id}", revoke, ROUTE_ADMIN },
    { 0 },
};

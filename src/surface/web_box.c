/* Which box a request is for. A server of the original has one box; ours has many, named in the path or a header, and
 * one for who names none. The default box is found by its label, so that it survives a restart of serve. */
#include <stdio.h>
#include <stdlib.h>

#include "base/auto.h"
#include "base/limits.h"
#include "base/log.h"
#include "surface/aio.h"
#include "surface/surface.h"

#define DEFAULT_LABELS "{\"sandglass\":\"default\"}"

struct waiter {
    struct waiter *next;
    on_any_box *cb;
    void *arg;
};

struct default_box {
    struct default_box *next;
    struct node *node;
    struct tenant *tenant;
    struct box *making; /* it has no id yet */
    char id[BOX_ID_MAX];
    bool preparing; /* it gets its proxy before anyone gets it */
    struct waiter *waiting;
    struct arena arena; /* of what prepares it */
};

static struct default_box *of_tenant(struct web *w, struct tenant *tenant)
{
    struct default_box **p = surfaces_default_boxes(w->all);

    while (*p && (*p)->tenant != tenant)
        p = &(*p)->next;
    if (!*p) {
        *p = calloc(1, sizeof **p);
        if (!*p)
            abort();
        **p = (struct default_box){ .node = w->node, .tenant = tenant };
    }
    return *p;
}

/* --- the proxy of the default box --- */

static void prepared(struct default_box *d, const struct err *e)
{
    struct box *b = e ? NULL : box_find(d->node, str_of(d->id));
    struct waiter *next, *all = d->waiting;
    struct err gone;

    d->preparing = false;
    d->waiting = NULL;
    arena_done(&d->arena);
    d->arena = (struct arena){ 0 };
    if (!e && !b) {
        err_set(&gone, ERR_NOT_FOUND, "the default box ended while it was prepared");
        e = &gone;
    }
    for (struct waiter *x = all; x; x = next) {
        next = x->next;
        x->cb(x->arg, b, e);
        free(x);
    }
}

static void ask_box(struct default_box *d, const char *tool, struct str params, on_call_done *cb)
{
    struct call_request r = { .surface = STR("aio"),
                              .tenant = d->tenant,
                              .worker = str_of(d->id),
                              .action = str_of(tool),
                              .box = box_find(d->node, str_of(d->id)) };
    struct json *parsed = NULL;
    struct err e;

    if (!r.box || json_parse(&d->arena, params, &parsed, &e) < 0) {
        prepared(d, NULL);
        return;
    }
    r.params = parsed;
    (void)call_start(d->node, &r, cb, d);
}

static void on_proxy_started(void *arg, const struct call *c)
{
    if (c->outcome != OUTCOME_OK)
        log_warn("the default box's proxy did not start", "%.*s", STR_ARG(c->message));
    prepared(arg, NULL);
}

static void on_proxy_set(void *arg, const struct call *c)
{
    struct default_box *d = arg;

    if (c->outcome == OUTCOME_OK) {
        ask_box(d, "command:launch",
                STR("{\"session_id\":\"sandglass-proxy\",\"timeout\":20,"
                    "\"command\":\"exec python3 ~/.config/sandglass/proxy.py serve\"}"),
                on_proxy_started);
        return;
    }
    log_warn("box.proxy is not set in the default box", "%.*s", STR_ARG(c->message));
    prepared(d, NULL);
}

static void set_proxy(struct default_box *d)
{
    AUTO(buf_done) struct buf b = { .cap = 8 * KiB };
    struct jw j = { .out = &b };

    jw_obj(&j);
    jw_kz(&j, "action", "set_upstream");
    jw_kz(&j, "server", d->node->opts.box_proxy);
    jw_obj_end(&j);
    ask_box(d, "proxy:manage", arena_copy(&d->arena, buf_view(&b)), on_proxy_set);
}

static void on_made(void *arg, struct box *b, const struct err *e)
{
    struct default_box *d = arg;

    d->making = NULL;
    if (!e)
        memcpy(d->id, b->id, sizeof d->id);
    if (d->preparing && e)
        prepared(d, e);
    else if (d->preparing)
        set_proxy(d);
}

static void when_up(struct default_box *d, struct box *b, on_any_box *cb, void *arg)
{
    if (!d || !d->preparing) {
        box_when_up(b, cb, arg);
        return;
    }
    struct waiter **at = &d->waiting, *x = calloc(1, sizeof *x);
    if (!x)
        abort();
    while (*at)
        at = &(*at)->next;
    *x = (struct waiter){ .cb = cb, .arg = arg };
    *at = x;
}

static struct box *find_default(struct default_box *d)
{
    struct box *b = d->id[0] ? box_find(d->node, str_of(d->id)) : NULL;

    if (b && b->state != BOX_CLOSING && !b->ending)
        return b;
    for (size_t i = 0; (b = map_next(&d->node->boxes, &i));)
        if (b->tenant == d->tenant && b->standing && b->state != BOX_CLOSING && !b->ending &&
            str_is(b->labels, DEFAULT_LABELS)) {
            memcpy(d->id, b->id, sizeof d->id);
            return b;
        }
    return NULL;
}

/* Other tenants have no part in the host's directories. */
static int add_mounts(const struct default_box *d, struct box_spec *spec, struct err *e)
{
    const char *at = d->tenant == d->node->tenant && d->node->opts.box_mounts ? d->node->opts.box_mounts : "";

    while (*at) {
        int n = (int)strcspn(at, ":");
        struct box_mount m = { .writable = true };
        if (spec->mount_count == LIMIT_MOUNTS || (size_t)n >= sizeof m.from)
            return err_set(e, ERR_LIMIT, "box.mounts: at most LIMIT_MOUNTS (%d) directories of %zu bytes", LIMIT_MOUNTS,
                           sizeof m.from - 1);
        snprintf(m.from, sizeof m.from, "%.*s", n, at);
        snprintf(m.to, sizeof m.to, "%.*s", n, at);
        if (n)
            spec->mounts[spec->mount_count++] = m;
        at += n + (at[n] == ':');
    }
    return 0;
}

static struct box *get_default(struct default_box *d, bool may_make, struct err *e)
{
    struct box_ask ask;
    struct box *b = d->making ? d->making : find_default(d);

    if (b)
        return b;
    if (!may_make) {
        err_set(e, ERR_NOT_FOUND, "there is no default box yet, and who only looks does not make one");
        return NULL;
    }
    if (box_ask_bind(d->node, NULL, &ask, e) < 0 || add_mounts(d, &ask.spec, e) < 0)
        return NULL;
    ask.standing = true;
    ask.tenant = d->tenant;
    ask.labels = STR(DEFAULT_LABELS);
    b = box_new(d->node, &ask, e);
    if (b) {
        d->making = b;
        d->preparing = d->node->opts.box_proxy && d->node->opts.box_proxy[0];
        box_when_up(b, on_made, d);
    }
    return b;
}

static void refuse(struct web *w, int status, enum err_code code, const char *text)
{
    if (w->op)
        aio_error(w, status, "%s", text);
    else
        web_error(w, status, code, "%s", text);
}

void web_server_box(struct web *w, on_any_box *cb, void *arg)
{
    struct default_box *d = of_tenant(w, w->node->tenant);
    struct err e;
    struct box *b = get_default(d, true, &e);

    if (b && b->state != BOX_PAUSED) {
        when_up(d, b, cb, arg);
        return;
    }
    if (b)
        err_set(&e, ERR_BUSY, "box %s is paused", b->id);
    cb(arg, NULL, &e);
}

void web_box_or(struct web *w, on_any_box *cb, void *arg)
{
    struct err e;
    if (!w->box_name.p && w->who.box[0]) /* an agent's token names its box */
        w->box_name = str_of(w->who.box);
    struct default_box *d = w->box_name.p ? NULL : of_tenant(w, w->tenant);
    struct box *b = d ? get_default(d, w->who.may & MAY_EXECUTE, &e) : web_find_box(w, w->box_name);

    if (!b && !w->box_name.p) {
        cb(arg, NULL, &e);
    } else if (!b || b->state == BOX_CLOSING || b->ending) {
        err_set(&e, ERR_NOT_FOUND, "no box '%.*s'", (int)(w->box_name.n < 80 ? w->box_name.n : 80), w->box_name.p);
        cb(arg, NULL, &e);
    } else if (!b->standing) {
        err_set(&e, ERR_DENIED, "box %s belongs to a session of a worker; call it through that worker", b->id);
        cb(arg, NULL, &e);
    } else if (b->state == BOX_PAUSED) {
        err_set(&e, ERR_EXISTS, "box %s is paused; resume it first", b->id);
        cb(arg, NULL, &e);
    } else {
        when_up(d, b, cb, arg);
    }
}

struct asked {
    struct web *w;
    on_web_box *cb;
};

static int status_of(enum err_code code)
{
    switch ((int)code) {
    case ERR_NOT_FOUND: return 404;
    case ERR_DENIED:
    case ERR_EXISTS: return 409;
    case ERR_BUSY:
    case ERR_LIMIT: return 429;
    default: return 503;
    }
}

static void on_up(void *arg, struct box *b, const struct err *e)
{
    struct asked *a = arg;

    if (e)
        refuse(a->w, status_of(e->code), e->code == ERR_EXISTS ? ERR_BUSY : e->code, e->msg);
    else
        a->cb(a->w, b);
}

void web_box(struct web *w, on_web_box *cb)
{
    struct asked *a = arena_alloc(w->http->arena, sizeof *a);

    *a = (struct asked){ w, cb };
    web_box_or(w, on_up, a);
}

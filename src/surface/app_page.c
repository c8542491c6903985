#include <stdio.h>

#include "base/auto.h"
#include "base/limits.h"
#include "surface/door.h"
#include "surface/page.h"
#include "surface/place.h"

void app_say(struct web *w, int status, const struct app *a, const char *text)
{
    page_say(w, status, arena_printf(w->http->arena, "%s is not here", a->name), text);
}

static struct str path_of(struct str target)
{
    const char *query = target.n ? memchr(target.p, '?', target.n) : NULL;

    if (query)
        target.n = (size_t)(query - target.p);
    return target;
}

/* A ticket for this box and no other, for who may come in; absent: nobody needs one. */
static int ticket_for(struct web *w, const struct box *b, struct str *ret, struct err *e)
{
    struct access *access = surfaces_door(w->all)->access;
    struct who who = w->who;
    int64_t ttl;

    *ret = (struct str){ 0 };
    if (!access_is_required(access))
        return 0;
    if (door_came_by_ticket(w)) {
        *ret = door_ticket_of(w);
        return 0;
    }
    who.may &= MAY_READ | MAY_EXECUTE;
    snprintf(who.box, sizeof who.box, "%s", b->id);
    return access_ticket(access, &who, w->http->arena, ret, &ttl, e);
}

static void send_there(struct web *w, const struct box *b, const struct place *at)
{
    struct str origin = place_own_origin(w, at->app, b->id), path = path_of(at->target), ticket;
    struct buf to;
    struct err e;

    if (!origin.n) {
        app_say(w, 421, at->app,
                "What a box serves needs an origin of its own, so that it cannot drive this server in your name: "
                "a name below localhost, or below the domain that the setting host.boxes names. Open this server as "
                "http://localhost (over a tunnel such as ssh -L 8080:localhost:8080 if it is another machine).");
        return;
    }
    if (ticket_for(w, b, &ticket, &e) < 0) {
        app_say(w, 403, at->app, e.msg);
        return;
    }
    buf_init(&to, LIMIT_HTTP_HEAD + 4 * KiB);
    buf_str(&to, origin);
    if (!path.n || path.p[0] != '/')
        buf_char(&to, '/');
    buf_str(&to, path);
    if (at->app->keeps_prefix && path.n == at->prefix.n)
        buf_char(&to, '/');
    size_t query = to.n;
    place_add_query(&to, at->target);
    if (ticket.n)
        buf_printf(&to, "%cticket=%.*s", to.n > query ? '&' : '?', STR_ARG(ticket));
    struct pair headers[] = { { STR("Location"), buf_view(&to) }, { STR("Cache-Control"), STR("no-store") } };
    http_reply_headers(w->http, 302, headers, ARRAY_LEN(headers), STR(""));
    buf_done(&to);
}

/* Not a redirect: a browser sends a strict cookie only to a page that it was led to from the same site. */
static void keep_ticket(struct web *w, const struct box *b, const struct place *at)
{
    struct buf html, to;

    buf_init(&to, LIMIT_HTTP_HEAD);
    buf_str(&to, path_of(at->target));
    place_add_query(&to, at->target);
    buf_init(&html, LIMIT_HTTP_HEAD * 6);
    buf_z(&html, "<!doctype html><meta charset=utf-8><title>...</title><meta http-equiv=refresh content=\"0;url=");
    page_escape(&html, buf_view(&to));
    buf_z(&html, "\">\n");
    buf_done(&to);
    door_keep_page(w, b->id);
    page_html(w, 200, &html);
}

bool app_leads_on(struct web *w, const struct box *b, const struct place *at)
{
    if (!page_wanted(w))
        return false;
    if (at->form == BY_HOST && http_query(w->http, "ticket").n && door_came_by_ticket(w)) {
        keep_ticket(w, b, at);
        return true;
    }
    if (at->form != BY_PATH || !at->app || !at->app->pages)
        return false;
    send_there(w, b, at);
    return true;
}

/* What the browser asks for and gets: a record of the last requests of all tabs and workers. An archive (HAR 1.2) is made of
 * it when somebody wants one (browser_har.c); what is done to requests is in browser_route.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/limits.h"
#include "init/browser_parts.h"

struct network {
    struct entry *first, **end;
    size_t count;
    int64_t last, before,
        at_call;         /* numbers of entries: the newest; when the last call but this began; when this one did */
    char mocked[64][64]; /* ids of requests that a route answered before we were told of them; a ring */
    size_t mocked_next;
};

struct network *network_new(void)
{
    struct network *n = calloc(1, sizeof *n);

    if (!n)
        abort();
    n->end = &n->first;
    return n;
}

static void entry_free(struct entry *x)
{
    arena_done(&x->arena);
    free(x);
}

static void entries_free(struct network *n)
{
    for (struct entry *x; (x = n->first);) {
        n->first = x->next;
        entry_free(x);
    }
    n->end = &n->first;
    n->count = 0;
}

void browser_forget(struct browser *b, bool rules_too)
{
    entries_free(b->network);
    if (rules_too)
        routes_clear(b);
}

const struct entry *network_first(const struct browser *b)
{
    return b->network->first;
}

size_t network_waiting(struct browser *b, const struct view *tab)
{
    size_t n = 0;

    for (const struct entry *x = b->network->first; x; x = x->next)
        n += x->number > tab->first_request && !(x->answered > 0) && !(x->ended > 0) &&
             tab_of(view_of(b, str_of(x->session))) == tab;
    return n;
}

int64_t network_last(const struct browser *b)
{
    return b->network->last;
}

void browser_mark(struct browser *b)
{
    struct network *n = b->network;

    n->before = n->at_call;
    n->at_call = n->last;
    b->downloads_before = b->downloads_at_call;
    b->downloads_at_call = b->downloads_done;
}

/* --- what is asked for, and what comes --- */

static struct str keep(struct entry *x, struct str s, size_t max)
{
    return s.p ? arena_copy(&x->arena, (struct str){ s.p, s.n < max ? s.n : max }) : s;
}

static struct str keep_object(struct entry *x, const struct json *v)
{
    return v && v->type == JSON_OBJ && v->raw.n <= LIMIT_BROWSER_HEADERS ? arena_copy(&x->arena, v->raw)
                                                                         : (struct str){ 0 };
}

static double num(const struct json *p, const char *name)
{
    const struct json *v = json_get(p, name);
    return v && v->type == JSON_NUM ? v->num : 0;
}

static struct entry *find(struct network *n, struct str id) /* the newest of that name */
{
    struct entry *found = NULL;

    for (struct entry *x = n->first; x; x = x->next)
        if (str_is(id, x->id))
            found = x;
    return found;
}

static void take_answer(struct entry *x, const struct json *r, double at)
{
    x->status = json_get_int(r, "status", 0);
    x->status_text = keep(x, json_get_str(r, "statusText"), 256);
    x->mime = keep(x, json_get_str(r, "mimeType"), 256);
    x->protocol = keep(x, json_get_str(r, "protocol"), 32);
    x->address = keep(x, json_get_str(r, "remoteIPAddress"), 64);
    if (!x->got_headers)
        x->answer_headers = keep_object(x, json_get(r, "headers"));
    if (!x->sent_headers && json_get(r, "requestHeaders"))
        x->headers = keep_object(x, json_get(r, "requestHeaders"));
    x->timing = keep_object(x, json_get(r, "timing"));
    x->wire_bytes = (int64_t)num(r, "encodedDataLength");
    x->answered = at;
}

static void on_request(struct network *n, struct view *v, const struct json *p)
{
    const struct json *r = json_get(p, "request"), *redirect = json_get(p, "redirectResponse");
    struct str id = json_get_str(p, "requestId");
    double at = num(p, "timestamp");
    struct entry *x = redirect ? find(n, id) : NULL;

    if (x) {
        take_answer(x, redirect, at);
        x->redirect = keep(x, json_get_str(r, "url"), 64 * KiB);
        x->ended = at;
    }
    x = calloc(1, sizeof *x);
    if (!x)
        abort();
    x->number = ++n->last;
    snprintf(x->id, sizeof x->id, "%.*s", STR_ARG(id));
    memcpy(x->session, v->session, sizeof x->session);
    if (tab_of(v))
        memcpy(x->tab, tab_of(v)->target, sizeof x->tab);
    snprintf(x->frame, sizeof x->frame, "%.*s", STR_ARG(json_get_str(p, "frameId")));
    x->method = keep(x, json_get_str(r, "method"), 32);
    x->url = keep(x, json_get_str(r, "url"), 64 * KiB);
    x->type = keep(x, json_get_str(p, "type"), 32);
    x->headers = keep_object(x, json_get(r, "headers"));
    x->body = keep(x, json_get_str(r, "postData"), 64 * KiB);
    for (size_t i = 0; i < 64 && !redirect; i++)
        x->mocked |= x->id[0] && strcmp(n->mocked[i], x->id) == 0;
    x->wall = num(p, "wallTime");
    x->begun = at;
    x->page = str_is(x->type, "Document") && view_is_tab(v) && strcmp(x->frame, v->target) == 0;
    *n->end = x;
    n->end = &x->next;
    if (++n->count > LIMIT_BROWSER_REQUESTS) {
        x = n->first;
        n->first = x->next;
        n->count--;
        entry_free(x);
    }
}

static void on_answer_event(struct network *n, struct str method, const struct json *p)
{
    struct entry *x = find(n, json_get_str(p, "requestId"));

    if (!x)
        return;
    if (str_is(method, "Network.responseReceived")) {
        take_answer(x, json_get(p, "response"), num(p, "timestamp"));
    } else if (str_is(method, "Network.dataReceived")) {
        x->bytes += (int64_t)num(p, "dataLength");
    } else if (str_is(method, "Network.loadingFinished")) {
        x->wire_bytes = (int64_t)num(p, "encodedDataLength");
        x->ended = num(p, "timestamp");
    } else if (str_is(method, "Network.loadingFailed")) {
        x->error = keep(x, json_get_str(p, "errorText"), 256);
        x->ended = num(p, "timestamp");
    } else if (str_is(method, "Network.requestWillBeSentExtraInfo") && !x->sent_headers) {
        x->headers = keep_object(x, json_get(p, "headers")); /* with cookies, as they were really sent */
        x->sent_headers = true;
    } else if (str_is(method, "Network.responseReceivedExtraInfo") && !x->ended) {
        x->answer_headers = keep_object(x, json_get(p, "headers"));
        x->got_headers = true;
    }
}

void network_mocked(struct browser *b, struct str id)
{
    struct network *n = b->network;
    struct entry *x = find(n, id);

    if (x)
        x->mocked = true;
    else
        snprintf(n->mocked[n->mocked_next++ % 64], 64, "%.*s", STR_ARG(id));
}

bool network_event(struct browser *b, struct view *v, struct str method, const struct json *p)
{
    if (str_is(method, "Fetch.requestPaused"))
        route_event(b, v, p);
    else if (str_is(method, "Network.requestWillBeSent"))
        on_request(b->network, v, p);
    else if (method.n > 8 && memcmp(method.p, "Network.", 8) == 0)
        on_answer_event(b->network, method, p);
    else
        return false;
    return true;
}

/* --- telling --- */

static void print_entry(const struct entry *x, struct jw *j)
{
    jw_obj(j);
    jw_kint(j, "id", x->number);
    jw_kstr(j, "method", x->method);
    jw_kstr(j, "url", x->url);
    jw_kstr(j, "resource_type", x->type.p ? x->type : STR("Other"));
    if (x->status)
        jw_kint(j, "status", x->status);
    else
        jw_kz(j, "status", NULL);
    jw_kstr(j, "status_text", x->status_text.p ? x->status_text : STR(""));
    jw_kstr(j, "mime_type", x->mime.p ? x->mime : STR(""));
    jw_kraw(j, "request_headers", x->headers.n ? x->headers : STR("{}"));
    jw_kraw(j, "response_headers", x->answer_headers.n ? x->answer_headers : STR("{}"));
    if (x->body.p)
        jw_kstr(j, "post_data", x->body);
    jw_knum(j, "timestamp", x->wall);
    if (x->ended > 0)
        jw_knum(j, "duration_ms", (x->ended - x->begun) * 1000);
    else
        jw_kz(j, "duration_ms", NULL);
    jw_kint(j, "size", x->bytes);
    jw_kbool(j, "finished", x->ended > 0);
    jw_kbool(j, "mocked", x->mocked);
    jw_kstr(j, "error", x->error);
    if (x->redirect.p)
        jw_kstr(j, "redirected_to", x->redirect);
    jw_obj_end(j);
}

static bool fits(const struct entry *x, struct str filter)
{
    return !filter.n || memmem(x->url.p, x->url.n, filter.p, filter.n) || browser_glob(filter, x->url) ||
           str_eq(x->method, filter) || (x->type.n == filter.n && strncasecmp(x->type.p, filter.p, filter.n) == 0);
}

struct str browser_requests(struct hand *h, struct browser *b, struct str filter, int64_t limit)
{
    AUTO(buf_done) struct buf o = { .cap = LIMIT_BROWSER_HAR };
    struct jw j = { .out = &o };
    int64_t skip = -limit;

    for (const struct entry *x = b->network->first; x; x = x->next)
        skip += fits(x, filter);
    jw_arr(&j);
    for (const struct entry *x = b->network->first; x; x = x->next)
        if (fits(x, filter) && skip-- <= 0 && o.n < LIMIT_BROWSER_HAR - 4 * LIMIT_BROWSER_HEADERS)
            print_entry(x, &j);
    jw_arr_end(&j);
    return arena_copy(h->arena, buf_view(&o));
}

struct str browser_seen(struct hand *h, struct browser *b, struct str pattern, bool answered)
{
    AUTO(buf_done) struct buf o = { .cap = 8 * LIMIT_BROWSER_HEADERS };
    struct jw j = { .out = &o };

    for (const struct entry *x = b->network->first; x; x = x->next)
        if (x->number > b->network->before && (!answered || x->answered > 0) &&
            (!pattern.n || browser_glob(pattern, x->url) || memmem(x->url.p, x->url.n, pattern.p, pattern.n))) {
            print_entry(x, &j);
            return arena_copy(h->arena, buf_view(&o));
        }
    return (struct str){ 0 };
}

/* The transport of MCP: one POST per message, answered as JSON, or as a stream of events if it takes longer or has
 * news; a GET for what the server says by itself, or to come back to a stream; a DELETE that ends the session. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/limits.h"
#include "surface/mcp.h"
#include "surface/mcp_message.h"

struct batch {
    struct web *web;
    size_t left;
    bool any; /* there is an answer in it */
    struct buf out;
    struct jw w;
};

/* --- POST --- */

void mcp_refuse(struct web *w, int status, int code, const char *text)
{
    struct buf o;
    struct jw j = { .out = &o };

    buf_init(&o, 4096);
    jw_obj(&j);
    jw_kz(&j, "jsonrpc", "2.0");
    jw_kraw(&j, "id", STR("null"));
    jw_key(&j, "error");
    jw_obj(&j);
    jw_kint(&j, "code", code);
    jw_kz(&j, "message", text);
    jw_obj_end(&j);
    jw_obj_end(&j);
    web_send(w, status, &o);
}

static bool accepts(const struct http_request *r, const char *type)
{
    struct str a = http_header(r, "accept");

    return a.p && memmem(a.p, a.n, type, strlen(type));
}

/* The session that the header names. False: it was answered that there is none. */
static bool find_session(struct web *w, struct mcp_hub *h, struct mcp_session **ret)
{
    struct str id = http_header(w->http, "mcp-session-id"), version = http_header(w->http, "mcp-protocol-version");

    *ret = NULL;
    if (version.p && !mcp_version_known(version)) {
        if (str_is(w->http->method, "POST")) /* newer: it says so itself, and has no session */
            return true;
        mcp_refuse(w, 400, MCP_REQUEST,
                   "MCP-Protocol-Version: this version is not supported; the newest is " MCP_LATEST);
        return false;
    }
    if (!id.p)
        return true;
    *ret = map_get(&h->sessions, id);
    if (!*ret || (*ret)->tenant != w->tenant) {
        mcp_refuse(w, 404, MCP_REQUEST, "Mcp-Session-Id: no such session; begin one with initialize");
        return false;
    }
    (*ret)->used_ms = now_ms();
    return true;
}

static void take_answer(struct mcp_hub *h, struct mcp_session *s, const struct mcp_message *m)
{
    for (struct exchange *x = h->open; x; x = x->next)
        if (s && x->session == s && x->asked && (int64_t)x->asked == m->number) {
            x->asked = 0;
            x->answered(x, m->result, m->error);
            return;
        }
}

static const char *profile_of(struct web *w, struct mcp_session *s)
{
    struct str name = http_query(w->http, "profile");

    if (!name.p)
        name = http_header(w->http, "x-sandglass-profile");
    if (name.p)
        return mcp_profile(name);
    return s ? s->profile : mcp_profile_at(w->node->opts.mcp_profile);
}

static void begin(struct exchange *x, const struct mcp_message *m)
{
    struct web *w = x->web;
    struct json *copy = NULL;
    struct err e;

    x->id = m->kind == MCP_BARE_CALL ? (struct str){ 0 } : arena_copy(&x->arena, m->id);
    x->takes_stream = accepts(w->http, "text/event-stream");
    x->profile = profile_of(w, x->session);
    if (m->params && json_parse(&x->arena, arena_copy(&x->arena, m->params->raw), &copy, &e) == 0)
        x->params = copy;
    x->progress = mcp_progress_token(x->params);
    if (!x->profile)
        exchange_error(x, MCP_PARAMS, "profile: there is none of this name");
    else if (m->kind == MCP_CALL && !x->batch && mcp_is_modern(w->http, x->params))
        mcp_modern_handle(x, arena_copy(&x->arena, m->method));
    else
        mcp_handle(x, arena_copy(&x->arena, m->method));
}

/* One message. False: it has no answer. */
static bool take(struct mcp_hub *h, struct web *w, struct mcp_session *s, const struct json *json, struct batch *batch)
{
    struct mcp_message m = mcp_message_read(json, w->node->opts.mcp_bare && !batch);
    struct exchange *x;

    switch (m.kind) {
    case MCP_ANSWER: take_answer(h, s, &m); return false;
    case MCP_NOTIFICATION: mcp_notified(h, s, m.method, m.params); return false;
    case MCP_INVALID:
    case MCP_CALL:
    case MCP_BARE_CALL: break;
    }
    x = exchange_new(h, w, s);
    x->batch = batch;
    x->id = STR("null");
    if (m.kind == MCP_INVALID)
        exchange_error(x, MCP_REQUEST, "not a JSON-RPC 2.0 message: it needs jsonrpc \"2.0\" and a method");
    else
        begin(x, &m);
    mcp_watch(h);
    return true;
}

void mcp_batch_add(struct batch *b, struct str message)
{
    if (message.p)
        jw_raw(&b->w, message);
    b->any |= message.p != NULL;
    if (--b->left)
        return;
    jw_arr_end(&b->w);
    if (b->any) {
        web_send(b->web, 200, &b->out);
    } else { /* all of its requests were cancelled */
        http_reply(b->web->http, 202, NULL, STR(""));
        buf_done(&b->out);
    }
    free(b);
}

static void take_batch(struct mcp_hub *h, struct web *w, struct mcp_session *s, const struct json *all)
{
    struct batch *b = calloc(1, sizeof *b);

    if (!b)
        abort();
    if (!all->count || all->count > LIMIT_MCP_BATCH) {
        free(b);
        mcp_refuse(w, 400, MCP_REQUEST, "a batch has 1 to LIMIT_MCP_BATCH (100) messages");
        return;
    }
    *b = (struct batch){ .web = w, .left = all->count + 1 };
    buf_init(&b->out, LIMIT_HTTP_REPLY);
    b->w.out = &b->out;
    jw_arr(&b->w);
    bool any = false;
    for (const struct json *m = all->first; m; m = m->next) {
        if (take(h, w, s, m, b))
            any = true;
        else
            b->left--;
    }
    if (any) {
        mcp_batch_add(b, (struct str){ 0 });
        return;
    }
    buf_done(&b->out);
    free(b);
    http_reply(w->http, 202, NULL, STR(""));
}

static void post(struct web *w)
{
    struct mcp_hub *h = surfaces_mcp(w->all);
    struct mcp_session *s;
    struct json *m = NULL;
    struct err e;
    char text[300];

    if (!find_session(w, h, &s))
        return;
    if (json_parse(w->http->arena, w->http->body, &m, &e) < 0) {
        snprintf(text, sizeof text, "the body is not JSON: %s", e.msg);
        mcp_refuse(w, 400, MCP_PARSE, text);
        return;
    }
    if (m->type == JSON_ARR && mcp_is_modern(w->http, NULL))
        mcp_refuse(w, 400, MCP_REQUEST, "one message at a time: this version knows no batches");
    else if (m->type == JSON_ARR)
        take_batch(h, w, s, m);
    else if (!take(h, w, s, m, NULL))
        http_reply(w->http, 202, NULL, STR(""));
}

static void for_other(struct web *w, const char *method, const char *profile, struct str params,
                      void (*deliver)(struct web *w, struct str message))
{
    struct exchange *x = exchange_new(surfaces_mcp(w->all), w, NULL);
    struct json *copy = NULL;
    struct err e;

    x->deliver = deliver;
    x->profile = profile;
    if (json_parse(&x->arena, arena_copy(&x->arena, params), &copy, &e) == 0)
        x->params = copy;
    mcp_handle(x, str_of(method));
}

void mcp_call_for(struct web *w, struct str name, const struct json *arguments,
                  void (*deliver)(struct web *w, struct str message))
{
    struct buf b;
    struct jw j = { .out = &b };

    buf_init(&b, LIMIT_HTTP_BODY + 64 * KiB);
    jw_obj(&j);
    jw_kstr(&j, "name", name);
    if (arguments)
        jw_kraw(&j, "arguments", arguments->raw);
    jw_obj_end(&j);
    for_other(w, "tools/call", mcp_profile_at(w->node->opts.mcp_profile), buf_view(&b), deliver);
    buf_done(&b);
}

void mcp_list_for(struct web *w, const char *profile, void (*deliver)(struct web *w, struct str message))
{
    for_other(w, "tools/list", profile, STR("{}"), deliver);
}

/* --- GET, DELETE --- */

static void on_listener_gone(void *arg)
{
    struct mcp_session *s = arg;

    s->listener = NULL;
}

static void ignore_closed(void *arg)
{
    (void)arg;
}

static struct exchange *left_with(struct mcp_session *s, uint64_t stream)
{
    for (struct exchange *x = s->hub->open; x; x = x->next)
        if (x->session == s && x->stream == stream && x->state != EXCHANGE_WAITING)
            return x;
    return NULL;
}

/* The client saw number `after` of a stream and wants what came since. */
static void come_back(struct web *w, struct mcp_session *s, uint64_t stream, uint64_t after)
{
    struct exchange *x = left_with(s, stream);

    /* Nothing will come on it: cancelled, or all was seen. An EventSource that gets this does not come again. */
    if (x ? x->cancelled : !mcp_events_has(&s->events, stream, after)) {
        http_reply(w->http, 204, NULL, STR(""));
        return;
    }
    if (!x) { /* it was answered meanwhile */
        struct http_stream *out = http_stream_begin(w->http, 200, "text/event-stream", ignore_closed, NULL);
        mcp_events_replay(&s->events, out, stream, after);
        http_stream_end(out);
        return;
    }
    exchange_come_back(x, w, after);
}

static void listen_to(struct web *w)
{
    struct mcp_hub *h = surfaces_mcp(w->all);
    struct str last = http_header(w->http, "last-event-id");
    unsigned long stream = 0, after = 0;
    struct mcp_session *s;

    if (!accepts(w->http, "text/event-stream")) {
        mcp_refuse(w, 406, MCP_REQUEST, "Accept: a GET here is a stream of events and needs text/event-stream");
        return;
    }
    if (!find_session(w, h, &s))
        return;
    if (!s) {
        struct pair headers[] = { { STR("Allow"), STR("POST") } };
        http_reply_headers(w->http, 405, headers, 1, STR(""));
        return;
    }
    if (last.p && sscanf(arena_z(w->http->arena, last), "%lu-%lu", &stream, &after) != 2) {
        mcp_refuse(w, 400, MCP_REQUEST, "Last-Event-ID: not one that this server gave");
        return;
    }
    if (stream) {
        come_back(w, s, stream, after);
        return;
    }
    if (s->listener)
        http_stream_end(s->listener);
    s->listener = http_stream_begin(w->http, 200, "text/event-stream", on_listener_gone, s);
    (void)http_stream_write(s->listener, STR(": listening\n\n"));
    if (last.p)
        mcp_events_replay(&s->events, s->listener, 0, after);
}

static void end_session(struct web *w)
{
    struct mcp_session *s;

    if (!find_session(w, surfaces_mcp(w->all), &s))
        return;
    if (!s) {
        mcp_refuse(w, 400, MCP_REQUEST, "Mcp-Session-Id: which session is to end?");
        return;
    }
    mcp_session_end(s);
    http_reply(w->http, 200, NULL, STR(""));
}

const struct route mcp_routes[] = {
    { "POST", "/mcp", post, ROUTE_RAW },
    { "GET", "/mcp", listen_to, ROUTE_RAW },
    { "DELETE", "/mcp", end_session, ROUTE_RAW },
    { "POST", "/v1/mcp", post, ROUTE_RAW },
    { "GET", "/v1/mcp", listen_to, ROUTE_RAW },
    { "DELETE", "/v1/mcp", end_session, ROUTE_RAW },
    { 0 },
};

bool mcp_is_route(const struct route *r)
{
    return r && (r->handler == post || r->handler == listen_to || r->handler == end_session);
}

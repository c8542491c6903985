/* Exchanges: a request on its way to its answer, and whatever is said meanwhile. mcp.h has their states. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/limits.h"
#include "surface/mcp.h"

enum {
    PATIENCE_MS = 300, /* an answer that takes longer comes as a stream */
    LOOK_MS = 100,
    PROGRESS_MS = 1000,
    ALIVE_MS = 15000,
    RETRY_MS = 500, /* after which a client that was sent away comes back */
    IDLE_LOOK_MS = 10000,
};

static void sweep(void *arg);

static void sweep_soon(struct mcp_hub *h, int64_t in_ms)
{
    if (h->sweeping && in_ms >= IDLE_LOOK_MS)
        return;
    h->sweeping = true;
    loop_timer_set(h->sweep, in_ms);
}

static void send_event(struct exchange *x, struct str text)
{
    uint64_t number = x->session ? mcp_events_keep(&x->session->events, x->stream, text) : 0;

    if (x->state == EXCHANGE_STREAM)
        mcp_event_write(x->out, x->stream, number, text);
}

struct exchange *exchange_new(struct mcp_hub *h, struct web *w, struct mcp_session *s)
{
    struct exchange *x = calloc(1, sizeof *x);

    if (!x)
        abort();
    x->hub = h;
    x->web = w;
    x->as = *w;
    x->as.http = NULL;
    x->as.box_name = w->box_name.p ? arena_copy(&x->arena, w->box_name) : w->box_name;
    x->as.parent = w->parent.p ? arena_copy(&x->arena, w->parent) : w->parent;
    x->session = s;
    x->begun_ms = x->told_ms = now_ms();
    x->next = h->open;
    if (x->next)
        x->next->prev = x;
    h->open = x;
    return x;
}

static void exchange_free(struct exchange *x)
{
    if (x->prev)
        x->prev->next = x->next;
    else
        x->hub->open = x->next;
    if (x->next)
        x->next->prev = x->prev;
    arena_done(&x->arena);
    free(x);
}

static void on_stream_lost(void *arg)
{
    struct exchange *x = arg;

    x->out = NULL;
    x->state = EXCHANGE_LEFT;
    if (x->listens)
        exchange_free(x);
    else if (x->modern) /* who hangs up cancels; before, who hangs up may come back */
        exchange_cancel(x);
}

static void start_stream(struct exchange *x)
{
    struct web *w = x->web;

    x->web = NULL;
    x->state = EXCHANGE_STREAM;
    x->out = http_stream_begin(w->http, 200, "text/event-stream", on_stream_lost, x);
    if (!x->session)
        return;
    x->stream = ++x->session->last_stream;
    if (strcmp(x->session->version, "2025-11-25") < 0)
        return;
    /* Something to come back to, before anything has happened. */
    char prime[80];
    snprintf(prime, sizeof prime, "id: %lu-%lu\nretry: %d\ndata: \n\n", (unsigned long)x->stream,
             (unsigned long)x->session->events.number, RETRY_MS);
    (void)http_stream_write(x->out, str_of(prime));
}

static bool can_stream(const struct exchange *x)
{
    if (x->cancelled)
        return false;
    return x->state != EXCHANGE_WAITING || (x->takes_stream && !x->batch && x->id.p);
}

void exchange_leave(struct exchange *x)
{
    if (!x->session || !can_stream(x))
        return;
    if (x->state == EXCHANGE_WAITING)
        start_stream(x);
    if (x->state == EXCHANGE_STREAM) {
        http_stream_end(x->out);
        x->out = NULL;
        x->state = EXCHANGE_LEFT;
    }
}

/* Whoever waits on a connection gets its end without an answer. One that takes a stream gets one in which nothing is,
 * not even something to come back to; one that takes JSON only gets what a notification gets. */
static void hush(struct exchange *x)
{
    struct web *w = x->web;
    struct batch *batch = x->batch;
    bool stream = can_stream(x);

    x->cancelled = true;
    x->web = NULL;
    x->batch = NULL;
    if (batch)
        mcp_batch_add(batch, (struct str){ 0 });
    else if (x->out)
        http_stream_end(x->out);
    else if (w && stream)
        http_reply(w->http, 200, "text/event-stream", STR(""));
    else if (w)
        http_reply(w->http, 202, NULL, STR(""));
    x->out = NULL;
    x->state = EXCHANGE_LEFT;
}

void exchange_cancel(struct exchange *x)
{
    hush(x);
    if (x->asked) {
        x->asked = 0;
        x->answered(x, NULL, NULL);
    } else if (x->call) {
        call_cancel(x->hub->node, x->call);
    }
}

/* A bare call's answer: the result itself, its text where the documentation of others looks for it, and the envelope.
 */
static void answer_bare(struct exchange *x, struct str message)
{
    struct json *m = NULL;
    struct buf o;
    struct jw j = { .out = &o };
    struct err e;

    buf_init(&o, LIMIT_HTTP_REPLY);
    jw_obj(&j);
    if (json_parse(&x->arena, message, &m, &e) == 0) {
        const struct json *result = json_get(m, "result"), *content = json_get(result, "content");
        for (const struct json *k = m->first; k; k = k->next)
            if (!str_is(k->name, "id")) {
                jw_key_str(&j, k->name);
                jw_raw(&j, k->raw);
            }
        for (const struct json *k = result ? result->first : NULL; k; k = k->next)
            if (!json_get(m, arena_z(&x->arena, k->name))) {
                jw_key_str(&j, k->name);
                jw_raw(&j, k->raw);
            }
        struct str text = json_get_str(json_get(result, "_meta"), "text");
        if (!text.p && content && content->first)
            text = json_get_str(content->first, "text");
        if (text.p)
            jw_kstr(&j, "text", text);
    }
    jw_obj_end(&j);
    web_send(x->web, 200, &o);
}

static void reply_json(struct exchange *x, struct buf *take)
{
    struct pair headers[] = { { STR("Content-Type"), STR("application/json") },
                              { STR("Mcp-Session-Id"), x->session ? str_of(x->session->id) : STR("") } };

    if (!x->fresh_session) {
        web_send(x->web, x->status ? x->status : 200, take);
        return;
    }
    http_reply_headers(x->web->http, 200, headers, 2, buf_view(take));
    buf_done(take);
}

static void finish(struct exchange *x, struct buf *take)
{
    if (x->cancelled) {
        buf_done(take);
    } else if (x->batch) {
        mcp_batch_add(x->batch, buf_view(take));
        buf_done(take);
    } else if (x->deliver) {
        x->deliver(x->web, buf_view(take));
        buf_done(take);
    } else if (x->state == EXCHANGE_WAITING && !x->id.p) {
        answer_bare(x, buf_view(take));
        buf_done(take);
    } else if (x->state == EXCHANGE_WAITING) {
        reply_json(x, take);
    } else {
        send_event(x, buf_view(take));
        buf_done(take);
        if (x->out)
            http_stream_end(x->out);
    }
    exchange_free(x);
}

static struct jw message(struct exchange *x, struct buf *o)
{
    struct jw j = { .out = o };

    buf_init(o, LIMIT_HTTP_REPLY);
    jw_obj(&j);
    jw_kz(&j, "jsonrpc", "2.0");
    jw_kraw(&j, "id", x->id);
    return j;
}

void exchange_result(struct exchange *x, struct buf *take_json)
{
    struct buf o;

    if (take_json->full) {
        buf_done(take_json);
        exchange_error(x, MCP_INTERNAL, "the result is larger than LIMIT_HTTP_REPLY (%ld bytes)", LIMIT_HTTP_REPLY);
        return;
    }
    struct jw j = message(x, &o);
    jw_key(&j, "result");
    if (x->modern)
        mcp_modern_result(x, buf_view(take_json), &j);
    else
        jw_raw(&j, buf_view(take_json));
    jw_obj_end(&j);
    buf_done(take_json);
    finish(x, &o);
}

void exchange_error(struct exchange *x, int code, const char *fmt, ...)
{
    char text[600];
    struct buf o;
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    struct jw j = message(x, &o);
    jw_key(&j, "error");
    jw_obj(&j);
    jw_kint(&j, "code", x->modern && code == MCP_NO_RESOURCE ? MCP_PARAMS : code);
    jw_kz(&j, "message", text);
    if (x->error_data.p)
        jw_kraw(&j, "data", x->error_data);
    jw_obj_end(&j);
    jw_obj_end(&j);
    finish(x, &o);
}

void exchange_notify(struct exchange *x, const char *method, struct str params)
{
    struct buf b;
    struct jw j = { .out = &b };

    if (!can_stream(x))
        return;
    if (x->state == EXCHANGE_WAITING)
        start_stream(x);
    x->told_ms = now_ms();
    buf_init(&b, LIMIT_HTTP_REPLY);
    jw_obj(&j);
    jw_kz(&j, "jsonrpc", "2.0");
    jw_kz(&j, "method", method);
    jw_kraw(&j, "params", params);
    jw_obj_end(&j);
    send_event(x, buf_view(&b));
    buf_done(&b);
}

static int level_of(const char *name)
{
    int i = 0;

    while (mcp_levels[i] && strcmp(mcp_levels[i], name) != 0)
        i++;
    return i;
}

void exchange_log(struct exchange *x, const char *level, const char *fmt, ...)
{
    char text[400];
    struct buf b;
    struct jw j = { .out = &b };
    va_list ap;

    int least = x->modern ? x->log_level : x->session ? x->session->log_level : MCP_NO_LOG;

    if (level_of(level) < least)
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    buf_init(&b, 4096);
    jw_obj(&j);
    jw_kz(&j, "level", level);
    jw_kz(&j, "logger", "sandglass");
    jw_kz(&j, "data", text);
    jw_obj_end(&j);
    exchange_notify(x, "notifications/message", buf_view(&b));
    buf_done(&b);
}

bool exchange_ask(struct exchange *x, const char *method, struct str params,
                  void (*answered)(struct exchange *x, const struct json *result, const struct json *error))
{
    struct buf b;
    struct jw j = { .out = &b };

    if (!x->session || !can_stream(x))
        return false;
    if (x->state == EXCHANGE_WAITING)
        start_stream(x);
    x->asked = ++x->hub->last_question;
    x->answered = answered;
    buf_init(&b, LIMIT_HTTP_REPLY);
    jw_obj(&j);
    jw_kz(&j, "jsonrpc", "2.0");
    jw_kint(&j, "id", (int64_t)x->asked);
    jw_kz(&j, "method", method);
    jw_kraw(&j, "params", params);
    jw_obj_end(&j);
    send_event(x, buf_view(&b));
    buf_done(&b);
    return true;
}

static void tell_progress(struct exchange *x)
{
    struct buf b;
    struct jw j = { .out = &b };
    int64_t ms = now_ms() - x->begun_ms;
    char text[80];

    snprintf(text, sizeof text, "running for %lld s", (long long)(ms / 1000));
    buf_init(&b, 4096);
    jw_obj(&j);
    jw_kraw(&j, "progressToken", x->progress);
    jw_knum(&j, "progress", (double)ms / 1000);
    jw_kz(&j, "message", text);
    jw_obj_end(&j);
    exchange_notify(x, "notifications/progress", buf_view(&b));
    buf_done(&b);
}

static void look_at(struct exchange *x, int64_t now)
{
    if (x->state == EXCHANGE_WAITING) {
        if (can_stream(x) && now - x->begun_ms >= PATIENCE_MS)
            start_stream(x);
        return;
    }
    if (x->progress.p && !x->mute && now - x->told_ms >= PROGRESS_MS)
        tell_progress(x);
    else if (x->state == EXCHANGE_STREAM && now - x->told_ms >= ALIVE_MS) {
        x->told_ms = now;
        (void)http_stream_write(x->out, STR(": still here\n\n"));
    }
}

static void sweep(void *arg)
{
    struct mcp_hub *h = arg;
    struct mcp_session *s;
    int64_t now = now_ms();
    bool busy = false;

    for (struct exchange *x = h->open, *next; x; x = next) {
        next = x->next;
        busy |= !x->listens;
        look_at(x, now);
    }
    if (now - h->looked_ms >= IDLE_LOOK_MS) {
        h->looked_ms = now;
        mcp_sessions_end_idle(h);
        for (size_t i = 0; (s = map_next(&h->sessions, &i));)
            if (s->listener && http_stream_waiting(s->listener) == 0)
                (void)http_stream_write(s->listener, STR(": still here\n\n"));
    }
    h->sweeping = false;
    if (busy)
        sweep_soon(h, LOOK_MS);
    else if (h->open || h->sessions.count)
        sweep_soon(h, IDLE_LOOK_MS);
}

void mcp_watch(struct mcp_hub *h)
{
    if (h->open)
        sweep_soon(h, LOOK_MS);
}

/* The client asks for the rest of an answer that it has lost, or that is still to come. */
void exchange_come_back(struct exchange *x, struct web *w, uint64_t after)
{
    if (x->out)
        http_stream_end(x->out);
    x->state = EXCHANGE_STREAM;
    x->told_ms = now_ms();
    x->out = http_stream_begin(w->http, 200, "text/event-stream", on_stream_lost, x);
    mcp_events_replay(&x->session->events, x->out, x->stream, after);
}

struct mcp_hub *mcp_hub_new(struct surfaces *all, struct node *n, struct loop *l)
{
    struct mcp_hub *h = calloc(1, sizeof *h);

    if (!h)
        abort();
    *h = (struct mcp_hub){ .all = all, .node = n, .loop = l };
    h->sweep = loop_timer_new(l, sweep, h);
    h->news = loop_timer_new(l, mcp_tell_news, h);
    return h;
}

/* --- the box --- */

static void on_box(void *arg, struct box *b, const struct err *e)
{
    struct exchange *x = arg;

    x->on_box(x->on_box_arg, b, e);
}

static void on_own_box(void *arg, struct box *b, const struct err *e)
{
    struct exchange *x = arg;

    struct err gone;

    if (x->session)
        x->session->making = NULL;
    if (!e && !x->session) { /* the session ended meanwhile */
        box_close(b, "its MCP session ended", NULL, NULL);
        err_set(&gone, ERR_NOT_FOUND, "the MCP session ended");
        b = NULL;
        e = &gone;
    } else if (!e && !x->session->box[0]) {
        snprintf(x->session->box, sizeof x->session->box, "%s", b->id);
    }
    on_box(x, b, e);
}

void exchange_box(struct exchange *x, void (*cb)(void *arg, struct box *b, const struct err *e), void *arg)
{
    struct mcp_session *s = x->session;
    struct box_ask ask;
    struct box *b;
    struct err e;

    x->on_box = cb;
    x->on_box_arg = arg;
    if (!s || !s->own_box) {
        web_box_or(&x->as, on_box, x);
        return;
    }
    b = s->box[0] ? web_find_box(&x->as, str_of(s->box)) : s->making;
    if (s->box[0] && !b) {
        err_set(&e, ERR_NOT_FOUND, "box %s of this MCP session is gone; begin a new session", s->box);
        on_box(x, NULL, &e);
        return;
    }
    if (!b) {
        bool bound = box_ask_bind(x->hub->node, NULL, &ask, &e) >= 0;
        ask.standing = true;
        ask.tenant = x->as.tenant;
        b = s->making = bound ? box_new(x->hub->node, &ask, &e) : NULL;
    }
    if (!b) {
        on_box(x, NULL, &e);
        return;
    }
    box_when_up(b, on_own_box, x);
}

/* MCP's sessions: what `initialize` makes and DELETE, or half an hour of silence, ends. */
#include <stdio.h>
#include <stdlib.h>

#include "base/limits.h"
#include "surface/mcp.h"

static void session_unsubscribe_all(struct mcp_session *s)
{
    for (struct subscription *p = s->subscriptions, *next; p; p = next) {
        next = p->next;
        free(p);
    }
    s->subscriptions = NULL;
}

void mcp_session_end(struct mcp_session *s)
{
    struct mcp_hub *h = s->hub;

    for (struct exchange *x = h->open; x; x = x->next)
        if (x->session == s)
            x->session = NULL; /* its answer still goes to whoever waits for it */
    if (s->listener)
        http_stream_end(s->listener);
    mcp_events_done(&s->events);
    session_unsubscribe_all(s);
    struct box *b = s->own_box && s->box[0] ? box_find(h->node, str_of(s->box)) : NULL;
    if (b)
        box_close(b, "its MCP session ended", NULL, NULL);
    map_del(&h->sessions, str_of(s->id));
    free(s);
}

void mcp_sessions_end_idle(struct mcp_hub *h)
{
    struct mcp_session *s;

    for (size_t i = 0; (s = map_next(&h->sessions, &i));)
        if (!s->listener && now_ms() - s->used_ms > LIMIT_MCP_IDLE_MS)
            mcp_session_end(s);
}

static bool is_full(const struct mcp_hub *h, const struct tenant *t)
{
    const struct mcp_session *s;
    size_t own = 0;

    if (h->sessions.count < LIMIT_MCP_SESSIONS / 2)
        return false;
    for (size_t i = 0; (s = map_next(&h->sessions, &i));)
        own += s->tenant == t;
    return h->sessions.count >= LIMIT_MCP_SESSIONS || own >= LIMIT_MCP_SESSIONS / 2;
}

struct mcp_session *mcp_session_new(struct exchange *x, struct err *e)
{
    struct mcp_hub *h = x->hub;

    if (is_full(h, x->as.tenant))
        mcp_sessions_end_idle(h);
    if (is_full(h, x->as.tenant)) {
        err_set(e, ERR_BUSY, "there are too many sessions already (LIMIT_MCP_SESSIONS, %d); end one with DELETE",
                LIMIT_MCP_SESSIONS);
        return NULL;
    }
    struct mcp_session *s = calloc(1, sizeof *s);
    if (!s)
        abort();
    s->hub = h;
    s->tenant = x->as.tenant;
    snprintf(s->only_box, sizeof s->only_box, "%s", x->as.who.box);
    mcp_events_init(&s->events);
    s->used_ms = now_ms();
    random_hex(s->id, 32);
    map_put(&h->sessions, str_of(s->id), s);
    return s;
}

void mcp_session_notify(struct mcp_session *s, const char *method, struct str params)
{
    struct buf b;
    struct jw j = { .out = &b };

    buf_init(&b, LIMIT_HTTP_REPLY);
    jw_obj(&j);
    jw_kz(&j, "jsonrpc", "2.0");
    jw_kz(&j, "method", method);
    if (params.p)
        jw_kraw(&j, "params", params);
    jw_obj_end(&j);
    uint64_t number = mcp_events_keep(&s->events, 0, buf_view(&b));
    if (s->listener)
        mcp_event_write(s->listener, 0, number, buf_view(&b));
    buf_done(&b);
}

void mcp_tell_all(struct mcp_hub *h, const char *method)
{
    struct mcp_session *s;

    for (size_t i = 0; (s = map_next(&h->sessions, &i));)
        mcp_session_notify(s, method, (struct str){ 0 });
}

void mcp_tools_changed(struct mcp_hub *h)
{
    mcp_tell_all(h, "notifications/tools/list_changed");
    mcp_modern_tools_changed(h);
}

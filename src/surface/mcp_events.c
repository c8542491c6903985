#include "surface/mcp_events.h"

#include <stdlib.h>

#include "base/limits.h"
#include "http/http.h"
#include "surface/mcp.h"

struct mcp_event {
    struct mcp_event *next;
    uint64_t stream, number;
    size_t n;
    char text[]; /* the JSON of one message */
};

void mcp_events_init(struct mcp_events *s)
{
    *s = (struct mcp_events){ .last = &s->first };
}

static void drop(struct mcp_events *s)
{
    struct mcp_event *e = s->first;

    s->first = e->next;
    if (!s->first)
        s->last = &s->first;
    s->count--;
    s->bytes -= e->n;
    free(e);
}

void mcp_events_done(struct mcp_events *s)
{
    while (s->first)
        drop(s);
}

uint64_t mcp_events_keep(struct mcp_events *s, uint64_t stream, struct str text)
{
    while (s->count && (s->count >= LIMIT_MCP_EVENTS || s->bytes + text.n > LIMIT_MCP_EVENT_BYTES))
        drop(s);
    struct mcp_event *e = malloc(sizeof *e + text.n);
    if (!e)
        abort();
    *e = (struct mcp_event){ .stream = stream, .number = ++s->number, .n = text.n };
    memcpy(e->text, text.p, text.n);
    *s->last = e;
    s->last = &e->next;
    s->count++;
    s->bytes += e->n;
    return e->number;
}

bool mcp_events_has(const struct mcp_events *s, uint64_t stream, uint64_t after)
{
    for (const struct mcp_event *e = s->first; e; e = e->next)
        if (e->stream == stream && e->number > after)
            return true;
    return false;
}

void mcp_events_replay(const struct mcp_events *s, struct http_stream *out, uint64_t stream, uint64_t after)
{
    for (const struct mcp_event *e = s->first; e; e = e->next)
        if (e->stream == stream && e->number > after)
            mcp_event_write(out, stream, e->number, (struct str){ e->text, e->n });
}

void mcp_event_write(struct http_stream *out, uint64_t stream, uint64_t number, struct str text)
{
    struct buf b;

    buf_init(&b, LIMIT_HTTP_REPLY);
    if (number)
        buf_printf(&b, "id: %lu-%lu\n", (unsigned long)stream, (unsigned long)number);
    buf_z(&b, "event: message\ndata: ");
    size_t at = b.n;
    buf_str(&b, text);
    for (size_t i = at; i < b.n; i++)
        if (b.p[i] == '\n' || b.p[i] == '\r') /* white space between tokens; inside strings it is escaped */
            b.p[i] = ' ';
    buf_z(&b, "\n\n");
    (void)http_stream_write(out, buf_view(&b));
    buf_done(&b);
}

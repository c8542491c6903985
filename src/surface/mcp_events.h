/* The events that a session's streams were sent, kept with their numbers, so that a client which lost its connection says
 * the last number it saw and misses nothing. The oldest go when there are LIMIT_MCP_EVENTS of them, or
 * LIMIT_MCP_EVENT_BYTES in them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

struct http_stream;

struct mcp_event;
struct mcp_events {
    struct mcp_event *first, **last;
    size_t count, bytes;
    uint64_t number; /* of the newest; they begin at 1 */
};

void mcp_events_init(struct mcp_events *s);
void mcp_events_done(struct mcp_events *s);
uint64_t mcp_events_keep(struct mcp_events *s, uint64_t stream, struct str text); /* its number */
bool mcp_events_has(const struct mcp_events *s, uint64_t stream, uint64_t after); /* any for a replay? */
/* Those of a stream that are newer than `after`, once more. */
void mcp_events_replay(const struct mcp_events *s, struct http_stream *out, uint64_t stream, uint64_t after);

/* One message in the form of an event. number 0: nobody keeps it, so that it has no id. */
void mcp_event_write(struct http_stream *out, uint64_t stream, uint64_t number, struct str text);

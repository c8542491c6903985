/* Servers inside a box, from outside: HTTP, streams and WebSockets to a port of its loopback. docs/streams.md says how
 * a box's pages are kept apart from ours. */
#pragma once

#include "surface/surface.h"

/* Is this request for a server in a box? By path (/proxy/{port}/..., /absproxy/{port}/...), by host
 * ({port}-{box}.localhost) or by header (X-AIO-Proxy-Port). Sets w->box_name if the host names a box. */
bool proxy_is(struct web *w);
extern const struct route proxy_route;

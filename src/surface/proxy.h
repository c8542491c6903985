/* Servers inside a box, from outside: HTTP, streams and WebSockets to a port of its loopback. docs/streams.md says how
 * a box's pages are kept apart from ours. */
#pragma once

#include "surface/surface.h"

/* Is this request for a server in a box? By path (/proxy/{port}/..., /absproxy/{port}/...), by host
 * ({port}-{box}.localhost; {port}-localhost: the default box) or by header (X-AIO-Proxy-Port). By host, w->box_name is
 * what the host says. */
bool proxy_is(struct web *w);
extern const struct route proxy_route;

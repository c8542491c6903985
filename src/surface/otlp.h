/* Traces to an OpenTelemetry collector: OTLP over HTTP, as JSON. Spans wait in a bounded queue and are sent in batches
 * over a connection of their own; a collector that is slow or gone costs spans, never a call. */
#pragma once

#include "session/call.h"

struct otlp;
struct otlp *otlp_new(struct loop *l, const char *url,
                      struct err *e);                 /* resolves the name: only before the loop runs */
void otlp_free(struct otlp *o);                       /* accepts NULL */
void otlp_step(struct otlp *o, const struct call *c); /* one span: the call */
uint64_t otlp_dropped(const struct otlp *o);

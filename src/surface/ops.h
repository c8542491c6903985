/* What operators see: counters for Prometheus, a line of JSON for each request, the audit log. Everything is gathered
 * in memory and written at the end of a turn of the loop: no request waits for it. */
#pragma once

#include "surface/surface.h"

struct ops;
struct ops_opts {
    struct node *node;
    struct loop *loop;
    bool log_requests;    /* on stderr */
    bool audit;           /* HOME/audit.log */
    const char *otlp_url; /* "": no traces */
};
struct ops *ops_new(const struct ops_opts *o, struct err *e); /* NULL: e */
void ops_free(struct ops *o);                                 /* writes what waits */
void ops_step(struct ops *o, const struct call *c);           /* a call is over */
void ops_answered(struct ops *o, const struct web *w, int status, int64_t bytes);

extern const struct route ops_routes[];
struct ops *surfaces_ops(struct surfaces *s);

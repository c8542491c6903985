/* What all surfaces share: routing, reading a body, and the shape of a request that is answered later. */
#pragma once

#include "access/who.h"
#include "http/http.h"
#include "session/call.h"
#include "session/node.h"

struct surfaces; /* everything behind the port */

enum { ROUTE_ARGS = 3 };

struct route_match {
    struct str id, name;                         /* the {id} and the last other {...} of the pattern */
    struct str arg[ROUTE_ARGS], key[ROUTE_ARGS]; /* all of them in order, and what the pattern calls them */
    size_t args;
};

struct web { /* one request on its way through a surface; lives in the request's arena */
    struct surfaces *all;
    struct node *node;
    struct who who;
    struct str parent;     /* its traceparent, or absent */
    char request_id[64];   /* the client's X-Request-Id, or our own; its steps carry it */
    struct tenant *tenant; /* who.tenant: what it may see and where its things go */
    struct http_request *http;
    const struct route *route; /* NULL: there is none of this path and method */
    const char *allow;         /* but of this path, with these methods; NULL: none */
    bool shut;                 /* door.c: refused by its head, so that its body was not read */
    struct route_match match;
    struct json *body; /* NULL: no body */
    int64_t begun_us;
    void *state;       /* the handler's own */
    struct str held;   /* the same, for one that makes two calls */
    int64_t bytes;     /* transfer.c: of an upload that was moved to its place afterwards */
    struct str sha256; /* the same */
    /* Which box is meant, before any path: "/box/{id}/v1/shell/exec" is path "/v1/shell/exec" of that box. */
    struct str path;         /* decoded, without that and without a last slash; what routes match */
    bool slash;              /* there was one */
    struct str base;         /* "/box/{id}", or empty: in front of every link to ourselves */
    struct str box_name;     /* from the path, else from X-Sandglass-Box; p NULL: the default box */
    const struct aio_op *op; /* the row, in the AIO surface: errors take its shape. NULL: our own */
};

typedef void route_handler(struct web *w);

struct route {
    const char *method;  /* "POST" */
    const char *pattern; /* "/sg/v1/boxes/{id}"; a last "{rest*}" takes slashes too, and may be empty */
    route_handler *handler;
    unsigned flags;
    const char *query; /* own_query.c: what a route of /sg/v1 takes in its URL, NULL: nothing; others do not say */
};

enum {
    ROUTE_RAW = 1,    /* the handler reads the body itself */
    ROUTE_STREAM = 2, /* and gets it as a stream */
    /* What it asks of who calls; without one of these a GET or HEAD asks for MAY_READ, all others for MAY_EXECUTE. */
    ROUTE_PUBLIC = 256,    /* answers without credentials: only what tells nothing of anyone */
    ROUTE_READ = 512,      /* only looks, whatever its method */
    ROUTE_EXECUTE = 16384, /* a GET that does something */
    ROUTE_MANAGE = 1024,
    ROUTE_ADMIN = 2048,
    ROUTE_SERVER = 4096, /* and only of the tenant "default": it is about all of them */
    ROUTE_TENANT = 8192, /* not for a token of one box */
};

extern const struct route agentflow_routes[], agentflow_session_routes[], agentflow_batch_routes[],
    agentflow_admin_routes[], own_routes[], own_state_routes[], own_log_routes[], own_note_routes[], own_blob_routes[],
    mcp_routes[]; /* end with a zeroed row */

struct door_opts;
struct ops;
struct surfaces *surfaces_new(struct node *n, struct loop *l, const struct door_opts *door, struct ops *ops,
                              void *owner);
void surfaces_answered(void *arg, const struct http_request *r, int status, int64_t bytes); /* see http_opts */
void *surfaces_owner(const struct surfaces *s);
void surfaces_handle(void *arg, struct http_request *r);       /* an on_request */
bool surfaces_wants_stream(void *arg, struct http_request *r); /* see http_opts, this and the next */
bool surfaces_refuses(void *arg, struct http_request *r);
void surfaces_step(void *arg, const struct call *c); /* a node's on_step: feeds event streams */
void surfaces_tools(struct surfaces *s);             /* tools came or changed */
/* For the test that keeps surfaces apart. NULL, or a pattern that an earlier one takes away. */
const char *surfaces_clash(void);
/* access: public, read, execute, manage, admin, server (admin of it), with "+server" and "+tenant" */
void surfaces_each_route(void (*cb)(void *arg, const char *method, const char *pattern, const char *access), void *arg);

/* web_box.c: the box that a request is for, running, in one callback; the default box is made at the first call, and
 * made again when it is gone. What goes wrong is answered here, in the shape of the request's surface. */
typedef void on_web_box(struct web *w, struct box *b);
void web_box(struct web *w, on_web_box *cb);
/* The same for a surface that answers by itself what goes wrong; e NULL: fine. */
typedef void on_any_box(void *arg, struct box *b, const struct err *e);
void web_box_or(struct web *w, on_any_box *cb, void *arg);
void web_server_box(struct web *w, on_any_box *cb, void *arg); /* the default box of the tenant "default" */
/* ready_ports.c: calls cb when all of ready.ports answer, at once if there are none; else the answer is 503. */
void ready_ports(struct web *w, void (*cb)(struct web *w));
struct default_box;
struct default_box **surfaces_default_boxes(struct surfaces *s); /* one for each tenant that used it */
struct views;
struct views **surfaces_views(struct surfaces *s); /* view.h */
bool route_fits_pattern(const char *pattern, struct str path, struct route_match *m);

/* The only ways of surfaces to what has an id: whatever is of another tenant, or is not an agent's own box, is not
 * there. */
struct query;
struct answer;
struct box *web_find_box(const struct web *w, struct str id);
bool web_sees_box(const struct web *w, const struct box *b); /* for lists */
bool web_sees_worker(const struct web *w, const struct worker *k);
int web_may_make_boxes(const struct web *w, struct err *e); /* for what makes one and is no route of its own */
struct worker *web_find_worker(const struct web *w, struct str id);
struct worker *web_get_worker(const struct web *w, struct str id, struct err *e);      /* makes it */
uint64_t web_call(struct web *w, struct call_request *r, on_call_done *cb, void *arg); /* call_start for this request */
/* recorder_ask; fills in whose and up to where. */
void web_query(struct web *w, struct query *q, void (*cb)(void *arg, const struct answer *a), void *arg);

void web_send(struct web *w, int status, struct buf *take_json);
void web_error(struct web *w, int status, enum err_code code, const char *fmt, ...)
    __attribute__((format(printf, 4, 5))); /* our own shape */
/* The same with a `detail` beside it, for whoever cannot know yet which surface answers. */
void web_plain(struct web *w, int status, enum err_code code, const char *text);
void web_allows(struct web *w, const char *method); /* the path is there, with this method: for the header Allow */
int web_status_of(enum err_code code);
bool web_abandoned(void *web);           /* for struct call_request */
struct str web_key(const struct web *w); /* idempotency key: header, else body */
/* fast_forward, on_difference of the body; headers X-Fast-Forward, X-Trajectory-Id, for clients that can set nothing
 * else. */
int web_forward(const struct web *w, struct call_request *r, struct err *e);
void web_uuid(char out[37]);

/* own_query.c */
bool own_query_fits(struct web *w); /* false: the answer has left */
bool own_query_flag(struct str s);  /* of a "b" */

/* own_files.c */
route_handler own_diff, own_checkout;

/* events.c */
struct streams;
struct streams *streams_new(struct node *n, struct loop *l);
void streams_open(struct web *w, struct streams *s, struct str trajectory, int64_t after);
void streams_step(struct streams *s, const struct call *c);
struct streams *surfaces_streams(struct surfaces *s);
void step_print(const struct call *c, struct jw *w); /* members, as the recorder prints a step */

/* mcp_http.c */
struct mcp_hub *mcp_hub_new(struct surfaces *all, struct node *n, struct loop *l);
struct mcp_hub *surfaces_mcp(struct surfaces *s);
void mcp_step(struct mcp_hub *h, const struct call *c); /* a step was recorded */
void mcp_tools_changed(struct mcp_hub *h);
int mcp_upstreams_start(struct surfaces *all, const char *file, int fd, struct err *e); /* mcpServers; file "": none */

/* tools_print.c: one tool's description in the forms that surfaces need */
void tool_flags_print(const struct tool *t, struct jw *w);
const char *kind_name(enum backend_kind k);

/* MCP over streamable HTTP, what its files share.
 *
 *   mcp_http.c       the transport: requests in
 *   mcp_message.c    what a message is
 *   mcp_exchange.c   answers out: as JSON, or as a stream that a client can come back to
 *   mcp_session.c    sessions; mcp_events.c what their streams were sent
 *   mcp.c            the methods
 *   mcp_modern.c     what is different since 2026-07-28
 *   mcp_tools.c      the tool table as MCP tools; profiles
 *   mcp_alias.c      names that other sandboxes gave to the same tools
 *   mcp_resources.c  files of the box, trajectories, states
 *   mcp_probe.c      what the conformance suite wants to see; only with the test backends
 *
 * An exchange is one request on its way to its answer:
 *
 *   WAITING --answer in time--> plain JSON
 *      \--it takes longer, or has news--> STREAM --answer--> its last event, end
 *                                            \--client left--> LEFT --client comes back--> STREAM
 *   any of them --client cancels--> LEFT, hushed: nothing is said any more; it is over when its work is
 */
#pragma once

#include "surface/mcp_events.h"
#include "surface/surface.h"

#define MCP_LATEST "2025-11-25" /* of those that begin with a handshake */
#define MCP_MODERN "2026-07-28"

#define LIMIT_MCP_SESSIONS     8192              /* a tenant has at most half of them */
#define LIMIT_MCP_IDLE_MS      (30 * 60 * 1000L) /* a session that nobody used ends */
#define LIMIT_MCP_EVENTS       512               /* kept in one session, for a client that comes back */
#define LIMIT_MCP_EVENT_BYTES  (16 * MiB)
#define LIMIT_MCP_BATCH        100
#define LIMIT_MCP_PAGE         250 /* tools of one answer */
#define LIMIT_MCP_SUBSCRIPTION 256 /* of one session */

enum {
    MCP_PARSE = -32700,
    MCP_REQUEST = -32600,
    MCP_METHOD = -32601,
    MCP_PARAMS = -32602,
    MCP_INTERNAL = -32603,
    MCP_NO_RESOURCE = -32002,
    MCP_HEADER = -32020,
    MCP_VERSION = -32022,
};
enum { MCP_NO_LOG = 100 }; /* a level above all */
#define MCP_BAD_CURSOR "cursor: not one that this server gave"

struct mcp_hub;
struct batch;

struct subscription {
    struct subscription *next;
    char box[BOX_ID_MAX]; /* whose file it is; "" */
    char uri[];
};

struct mcp_session {
    struct mcp_hub *hub;
    char id[40];
    bool own_box;         /* it asked for one: made at its first call, ends with the session */
    char box[BOX_ID_MAX]; /* that one; "": not made yet */
    struct box *making;   /* while it is being made */
    struct tenant *tenant;
    const char *version; /* as negotiated */
    const char *profile;
    bool ready; /* notifications/initialized came */
    bool can_sample, can_elicit;
    int log_level; /* index of mcp_levels */
    int64_t used_ms;
    struct http_stream *listener; /* the GET stream; NULL: none */
    struct mcp_events events;
    uint64_t last_stream;
    struct subscription *subscriptions;
    size_t subscribed;
    char only_box[BOX_ID_MAX]; /* of whom it is: a token of one box; "": it sees all of the tenant's */
    bool new_resources;        /* since it was last told */
};

enum exchange_state { EXCHANGE_WAITING, EXCHANGE_STREAM, EXCHANGE_LEFT };

struct exchange {
    struct exchange *next, *prev; /* all of the hub's */
    struct mcp_hub *hub;
    struct mcp_session *session; /* NULL: stateless */
    enum exchange_state state;
    struct web *web;     /* WAITING: the request */
    struct web as;       /* who asks, and for which box; without the HTTP request, which may be gone */
    struct batch *batch; /* nullable: it is one of several */
    struct http_stream *out;
    uint64_t stream; /* its number in the session */
    struct arena arena;
    struct str id; /* raw JSON; p NULL: a bare call */
    const char *profile;
    const struct json *params;
    struct str progress;                                /* the client's token, raw; p NULL: none */
    bool takes_stream;                                  /* the client accepts one */
    bool mute;                                          /* it tells its progress itself */
    bool cancelled;                                     /* by the client: whatever comes of it is not told */
    bool modern;                                        /* of MCP_MODERN; what follows is only for those */
    bool listens, hears_tools;                          /* it stays open, to be told of changes */
    int log_level;                                      /* as in a session */
    int status;                                         /* of the answer's HTTP; 0: 200 */
    struct str method, error_data;                      /* error_data: JSON; p NULL: none */
    void (*deliver)(struct web *w, struct str message); /* nullable: answers the request in its own way */
    bool fresh_session;                                 /* its answer names the session */
    int64_t begun_ms, told_ms;
    const struct tool *tool;
    const struct json *arguments;
    void (*on_call)(struct exchange *x, const struct call *c); /* nullable: answers instead of mcp_print_result() */
    uint64_t call;                                             /* the call under way; 0: none */
    void (*on_box)(void *arg, struct box *b, const struct err *e);
    void *on_box_arg;
    void (*answered)(struct exchange *x, const struct json *result, const struct json *error); /* what we asked */
    uint64_t asked; /* number of our open question; 0: none */
    void *own;      /* the method's */
};

struct mcp_hub {
    struct node *node;
    struct loop *loop;
    struct surfaces *all;
    struct map sessions;
    struct exchange *open;
    struct loop_timer *sweep, *news;
    bool sweeping;
    bool has_news; /* the timer runs */
    int64_t looked_ms;
    uint64_t last_question;
};

extern const char *const mcp_levels[]; /* "debug" ... "emergency", NULL */

/* mcp_http.c */
bool mcp_is_route(const struct route *r);                               /* of the protocol itself; NULL: no */
void mcp_refuse(struct web *w, int status, int code, const char *text); /* an error without a request */
void mcp_batch_add(struct batch *b, struct str message);                /* one of its answers; p NULL: it has none */

/* mcp_session.c */
struct mcp_session *mcp_session_new(struct exchange *x, struct err *e);
void mcp_session_end(struct mcp_session *s);
void mcp_sessions_end_idle(struct mcp_hub *h);
void mcp_session_notify(struct mcp_session *s, const char *method, struct str params);
void mcp_tell_all(struct mcp_hub *h, const char *method); /* a notification without parameters to every session */

/* mcp_exchange.c */
struct exchange *exchange_new(struct mcp_hub *h, struct web *w, struct mcp_session *s);
void mcp_watch(struct mcp_hub *h); /* looks after those that take longer */
void exchange_come_back(struct exchange *x, struct web *w, uint64_t after);
void exchange_result(struct exchange *x, struct buf *take_json); /* an object */
void exchange_error(struct exchange *x, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void exchange_notify(struct exchange *x, const char *method, struct str params);
void exchange_log(struct exchange *x, const char *level, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* A question to the client; false: it cannot be asked (no stream, or no session). */
bool exchange_ask(struct exchange *x, const char *method, struct str params,
                  void (*answered)(struct exchange *x, const struct json *result, const struct json *error));
void exchange_leave(struct exchange *x);  /* ends the connection; the client comes back for the answer */
void exchange_cancel(struct exchange *x); /* the client wants no answer; may free it */
/* The box of this exchange; cb once, e NULL: fine. */
void exchange_box(struct exchange *x, void (*cb)(void *arg, struct box *b, const struct err *e), void *arg);

/* A tool's call for another surface; deliver gets the JSON-RPC answer. arguments live in w's arena; NULL: {}. */
void mcp_call_for(struct web *w, struct str name, const struct json *arguments,
                  void (*deliver)(struct web *w, struct str message));
void mcp_list_for(struct web *w, const char *profile, void (*deliver)(struct web *w, struct str message));

/* mcp_upstream.c */
void mcp_upstreams_print(struct jw *w, bool hidden_too); /* their names */
bool mcp_upstream_known(struct str name);

/* mcp.c */
void mcp_handle(struct exchange *x, struct str method); /* ends with one result or error */
void mcp_notified(struct mcp_hub *h, struct mcp_session *s, struct str method, const struct json *params);
const char *mcp_version(struct str asked); /* what we answer to a client that speaks this version */
bool mcp_version_known(struct str v);
struct jw mcp_begin(struct buf *out); /* an answer's opened object */

void mcp_versions_print(struct jw *w); /* an array, newest first */
void mcp_about_print(struct jw *w);    /* members: serverInfo, instructions */

/* mcp_modern.c */
bool mcp_is_modern(const struct http_request *r, const struct json *params);
void mcp_modern_handle(struct exchange *x, struct str method); /* as mcp_handle */
void mcp_modern_result(struct exchange *x, struct str result, struct jw *j);
void mcp_modern_tools_changed(struct mcp_hub *h);

/* mcp_tools.c */
void mcp_tools_list(struct exchange *x);
void mcp_tools_call(struct exchange *x);
const char *mcp_profile(struct str name); /* NULL: there is none of that name */
const char *mcp_profile_at(int i);        /* in the order of the configuration's choices */
/* The recorded call; its answer is mcp_print_result(), or x->on_call. arguments live in x->arena; NULL: {}. */
void mcp_call_tool(struct exchange *x, const struct tool *t, const struct json *arguments);
void mcp_print_result(struct exchange *x, const struct call *c);
void mcp_text_result(struct exchange *x, struct str text, bool failed);

/* mcp_resources.c */
void mcp_tell_news(void *hub); /* of what is new in their lists */
void mcp_resources_list(struct exchange *x);
void mcp_resources_read(struct exchange *x);
void mcp_templates_list(struct exchange *x);
void mcp_subscribe(struct exchange *x);
void mcp_unsubscribe(struct exchange *x);
void mcp_complete(struct exchange *x);

/* mcp_probe.c: each returns whether the name is one of its own */
void mcp_probe_tools(struct jw *w);
bool mcp_probe_call(struct exchange *x, struct str name);
void mcp_probe_resources(struct jw *w);
void mcp_probe_templates(struct jw *w);
bool mcp_probe_read(struct exchange *x, struct str uri);
void mcp_probe_prompts(struct jw *w);
bool mcp_probe_prompt(struct exchange *x, struct str name);

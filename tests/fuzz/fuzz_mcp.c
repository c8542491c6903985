/* Any messages of MCP in any order, on any connections: requests, batches, notifications, answers to our questions,
 * streams that a client leaves and comes back to, sessions that end meanwhile. Each request is answered at most once and
 * with JSON or events, every exchange ends, and nothing leaks. The transport, its sessions and its methods are real;
 * tools and boxes are played by this file.
 *
 * An input is lines; the first character says what it is:
 *   P body    POST without a session      S body   POST in the session      N body   the same, without Accept
 *   G id      GET with this Last-Event-ID          D   DELETE               X   the oldest connection is closed
 *   A         what a tool had put off is answered  T   tools have changed */
/* needs: src/surface/mcp_http.c src/surface/mcp_message.c src/surface/mcp_modern.c src/surface/mcp_exchange.c src/surface/mcp_session.c */
/* needs: src/surface/mcp_events.c src/surface/mcp.c */
/* needs: src/http/server.c src/http/conn.c src/http/head.c src/http/request.c */
/* needs: src/http/chunked.c src/http/reply.c src/http/stream.c src/http/body.c src/http/tls.c */
/* libs: -lhttp_parser -lssl -lcrypto */
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/limits.h"
#include "surface/mcp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum { CONNS = 12, LATER = 64, LINES = 64 };

static struct {
    struct loop *loop;
    struct http_server *server;
    struct mcp_hub *hub;
    struct node node;
    struct tenant tenant;
    struct str left; /* of the input */
    int fds[CONNS];
    size_t conns;
    struct exchange *later[LATER];
    size_t put_off;
    char session[40], more[300];
    int lines, idle;
    uint32_t random;
} f;

static void check(bool ok)
{
    if (!ok)
        abort();
}

/* --- what stands behind the transport --- */

static void answer_empty(struct exchange *x)
{
    struct buf o;
    struct jw j = mcp_begin(&o);

    jw_obj_end(&j);
    exchange_result(x, &o);
}

static void put_off(struct exchange *x)
{
    if (f.put_off == LATER)
        answer_empty(x);
    else
        f.later[f.put_off++] = x;
}

static void on_answered(struct exchange *x, const struct json *result, const struct json *error)
{
    (void)result;
    for (size_t i = 0; i < f.put_off; i++)
        if (f.later[i] == x) {
            f.later[i] = f.later[--f.put_off];
            error ? exchange_error(x, MCP_INTERNAL, "refused") : answer_empty(x);
            return;
        }
    check(false); /* an exchange that is over is not asked */
}

static void on_any(void *arg, struct box *b, const struct err *e)
{
    struct exchange *x = arg;

    check(!b && e);
    exchange_error(x, MCP_INTERNAL, "%s", e->msg);
}

void mcp_tools_call(struct exchange *x)
{
    struct str name = json_get_str(x->params, "name");

    if (str_is(name, "later")) {
        put_off(x);
    } else if (str_is(name, "news")) {
        exchange_notify(x, "notifications/progress", STR("{\"progressToken\":1,\"progress\":1}"));
        exchange_log(x, "warning", "log of %s", "a tool");
        put_off(x);
    } else if (str_is(name, "ask")) {
        if (exchange_ask(x, "sampling/createMessage", STR("{}"), on_answered))
            put_off(x);
        else
            answer_empty(x);
    } else if (str_is(name, "leave")) {
        exchange_leave(x);
        put_off(x);
    } else if (str_is(name, "box")) {
        exchange_box(x, on_any, x);
    } else if (str_is(name, "big")) {
        struct buf o;
        struct jw j = mcp_begin(&o);
        jw_key(&j, "lines");
        jw_arr(&j);
        for (int i = 0; i < 10000; i++)
            jw_raw(&j, STR("\"\\n \\\" text\""));
        jw_arr_end(&j);
        jw_obj_end(&j);
        exchange_result(x, &o);
    } else {
        answer_empty(x);
    }
}

void mcp_tools_list(struct exchange *x) { answer_empty(x); }
void mcp_resources_list(struct exchange *x) { answer_empty(x); }
void mcp_tell_news(void *hub) { (void)hub; }
void mcp_resources_read(struct exchange *x) { exchange_leave(x), answer_empty(x); }
void mcp_templates_list(struct exchange *x) { put_off(x); }
void mcp_subscribe(struct exchange *x) { answer_empty(x); }
void mcp_unsubscribe(struct exchange *x) { answer_empty(x); }
void mcp_complete(struct exchange *x) { put_off(x); }
void mcp_probe_prompts(struct jw *w) { (void)w; }
bool mcp_probe_prompt(struct exchange *x, struct str name) { return (void)x, (void)name, false; }
const char *mcp_profile(struct str name) { return str_is(name, "none") ? NULL : "all"; }
const char *mcp_profile_at(int i) { return (void)i, "all"; }
struct mcp_hub *surfaces_mcp(struct surfaces *s) { return (void)s, f.hub; }
struct box *web_find_box(const struct web *w, struct str id) { return (void)w, (void)id, NULL; }
int web_may_make_boxes(const struct web *w, struct err *e) { return (void)w, (void)e, 0; }
struct box *box_find(struct node *n, struct str id) { return (void)n, (void)id, NULL; }
void box_when_up(struct box *b, on_any_box *cb, void *arg) { (void)b, (void)cb, (void)arg; check(false); }
void box_close(struct box *b, const char *why, on_any_box *cb, void *arg) { (void)b, (void)why, (void)cb, (void)arg; check(false); }
struct box *box_new(struct node *n, const struct box_ask *a, struct err *e)
{
    (void)n, (void)a;
    err_set(e, ERR_BUSY, "no box here");
    return NULL;
}
int box_ask_bind(const struct node *n, const struct json *j, struct box_ask *ret, struct err *e)
{
    (void)n, (void)j, (void)ret;
    return err_set(e, ERR_BUSY, "no box here");
}
void web_box_or(struct web *w, on_any_box *cb, void *arg)
{
    struct err e;
    (void)w;
    err_set(&e, ERR_BUSY, "no box here");
    cb(arg, NULL, &e);
}
void call_cancel(struct node *n, uint64_t id) { (void)n, (void)id; }
void random_hex(char *out, size_t digits)
{
    for (size_t i = 0; i < digits; i++)
        out[i] = "0123456789abcdef"[(f.random = f.random * 1664525 + 1013904223) >> 28];
    out[digits] = 0;
}
void web_send(struct web *w, int status, struct buf *take_json)
{
    struct arena a = { 0 };
    struct json *j;
    struct err e;

    if (!take_json->full) /* whatever was asked, the answer is JSON */
        check(json_parse(&a, buf_view(take_json), &j, &e) == 0);
    arena_done(&a);
    http_reply_buf(w->http, status, "application/json", take_json);
}

/* --- the server --- */

static void handle(void *arg, struct http_request *r)
{
    struct web *w = arena_alloc(r->arena, sizeof *w);

    (void)arg;
    *w = (struct web){ .node = &f.node, .tenant = &f.tenant, .http = r, .path = r->path };
    for (const struct route *t = mcp_routes; t->pattern; t++)
        if (str_is(r->method, t->method) && str_is(r->path, t->pattern)) {
            t->handler(w);
            return;
        }
    http_reply(r, 404, NULL, STR(""));
}

/* --- the client --- */

static void hang_up(size_t i)
{
    close(f.fds[i]);
    memmove(f.fds + i, f.fds + i + 1, (--f.conns - i) * sizeof *f.fds);
}

static struct str clean(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if ((unsigned char)s.p[i] < ' ' || (unsigned char)s.p[i] >= 127)
            s.n = i;
    return s.n < 60 ? s : (struct str){ s.p, 60 };
}

static void request(const char *method, bool in_session, bool accepts, struct str last, struct str body);

/* Without a session: what the body says is in the headers, too. */
static void modern(struct str body)
{
    struct arena a = { 0 };
    struct json *j = NULL;
    struct err e;

    if (json_parse(&a, body, &j, &e) < 0)
        j = NULL;
    const struct json *params = json_get(j, "params");
    struct str method = clean(json_get_str(j, "method")), name = clean(json_get_str(params, "name")),
               version = clean(json_get_str(json_get(params, "_meta"), "io.modelcontextprotocol/protocolVersion"));
    snprintf(f.more, sizeof f.more, "MCP-Protocol-Version: %.*s\r\nMcp-Method: %.*s\r\nMcp-Name: %.*s\r\n",
             (int)version.n, version.n ? version.p : "", (int)method.n, method.n ? method.p : "", (int)name.n,
             name.n ? name.p : "");
    request("POST", false, true, STR(""), body);
    f.more[0] = 0;
    arena_done(&a);
}

static void request(const char *method, bool in_session, bool accepts, struct str last, struct str body)
{
    char head[1024];
    int pair[2];

    for (size_t i = 0; i < last.n; i++)
        if ((unsigned char)last.p[i] < ' ' || (unsigned char)last.p[i] >= 127)
            last.n = i;
    if (last.n > 60)
        last.n = 60;
    if (f.conns == CONNS)
        hang_up(0);
    check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0);
    f.fds[f.conns++] = pair[0];
    int n = snprintf(head, sizeof head,
                     "%s /mcp HTTP/1.1\r\nHost: x\r\nContent-Length: %zu\r\n%s%s%s%s%s%s%.*s%s\r\n", method, body.n, f.more,
                     accepts ? "Accept: application/json, text/event-stream\r\n" : "",
                     in_session && f.session[0] ? "Mcp-Session-Id: " : "", in_session ? f.session : "",
                     in_session && f.session[0] ? "\r\n" : "", last.n ? "Last-Event-ID: " : "", (int)last.n,
                     last.n ? last.p : "", last.n ? "\r\n" : "");
    (void)!send(pair[0], head, (size_t)n, MSG_NOSIGNAL);
    (void)!send(pair[0], body.p, body.n, MSG_NOSIGNAL);
    check(http_server_adopt(f.server, pair[1]) == 0);
}

static void answer_one(void)
{
    if (!f.put_off)
        return;
    struct exchange *x = f.later[0];
    memmove(f.later, f.later + 1, --f.put_off * sizeof *f.later);
    answer_empty(x);
}

static void one_line(struct str line)
{
    struct str body = { line.p + 1, line.n - 1 }, none = STR("");

    switch (line.p[0]) {
    case 'P': request("POST", false, true, none, body); break;
    case 'M': modern(body); break;
    case 'S': request("POST", true, true, none, body); break;
    case 'N': request("POST", true, false, none, body); break;
    case 'G': request("GET", true, true, body, none); break;
    case 'D': request("DELETE", true, false, none, none); break;
    case 'X':
        if (f.conns)
            hang_up(0);
        break;
    case 'A': answer_one(); break;
    case 'T': mcp_tools_changed(f.hub); break;
    default: request("POST", true, true, none, line); break;
    }
}

/* The session's name is in the head of an answer. */
static void listen_for_session(void)
{
    char text[4096];

    for (size_t i = 0; i < f.conns; i++) {
        ssize_t n;
        while ((n = recv(f.fds[i], text, sizeof text - 1, 0)) > 0) {
            text[n] = 0;
            char *at = strcasestr(text, "mcp-session-id: ");
            if (at)
                sscanf(at + 16, "%39[0-9a-f]", f.session);
        }
    }
}

static void nothing(void *arg)
{
    (void)arg;
}

static void on_turn(void *arg)
{
    (void)arg;
    loop_later(f.loop, nothing, NULL); /* the next wait returns at once */
    listen_for_session();
    if (f.left.n && f.lines < LINES) {
        const char *nl = memchr(f.left.p, '\n', f.left.n);
        struct str line = { f.left.p, nl ? (size_t)(nl - f.left.p) : f.left.n };
        size_t used = line.n + (nl != NULL);
        f.left = (struct str){ f.left.p + used, f.left.n - used };
        f.lines++;
        if (line.n)
            one_line(line);
        return;
    }
    struct mcp_session *s;
    switch (f.idle++) {
    case 1: /* who listens does so until he hangs up */
        for (const struct exchange *x = f.hub->open; x; x = x->next)
            while (x->listens && f.conns)
                hang_up(0);
        break;
    case 4: /* all that is open ends, and then nothing is */
        while (f.put_off)
            answer_one();
        check(!f.hub->open);
        for (size_t i = 0; (s = map_next(&f.hub->sessions, &i));)
            mcp_session_end(s);
        check(f.hub->sessions.count == 0);
        break;
    case 6: http_server_free(f.server); break;
    case 8: loop_stop(f.loop); break;
    default: break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct http_opts o = { .listen_fd = -1, .handler = handle };

    if (n > 64 * KiB)
        return 0;
    memset(&f, 0, sizeof f);
    f.loop = loop_new();
    f.node.loop = f.loop;
    f.node.opts.mcp_bare = true;
    f.hub = mcp_hub_new(NULL, &f.node, f.loop);
    f.server = http_server_new(f.loop, &o, NULL);
    f.left = (struct str){ (const char *)data, n };
    loop_each_turn(f.loop, on_turn, NULL);
    loop_later(f.loop, nothing, NULL);
    (void)loop_run(f.loop);

    while (f.conns)
        hang_up(0);
    loop_timer_free(f.hub->sweep);
    loop_timer_free(f.hub->news);
    map_done(&f.hub->sessions);
    free(f.hub);
    loop_free(f.loop);
    return 0;
}

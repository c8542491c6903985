/* Terminals for people and programs: a WebSocket in front of a shell that init keeps, and the page that shows it.
 *
 * Nothing of a terminal lives here: a client that lost its connection, or finds another serve, says how far it came
 * (after=OFFSET) and misses nothing that the shell still has. */
#include <stdio.h>
#include <stdlib.h>

#include "base/auto.h"
#include "base/limits.h"
#include "http/ws.h"
#include "session/secret_stream.h"
#include "surface/page.h"
#include "surface/terminal.h"
#include "surface/text_split.h"
#include "surface/view.h"
#include "wire/frame.h"

enum { WAITING_MAX = 256 * KiB, PING_MS = 30000, REPLAY_MIN = 256 * KiB };
#define FROM_NOW_ON (INT64_MAX / 2) /* no terminal ever wrote so much */

struct terminal {
    struct ws *ws;     /* NULL: the client has left */
    struct view *view; /* NULL: it has ended */
    char session[136];
    bool binary, restore, fresh;
    char split[4]; /* the first bytes of a character whose rest will come */
    size_t split_n;
    int64_t asked;                /* where the client wants to begin; < 0: so many from the end */
    int64_t heard;                /* offset behind what came */
    int64_t offset, restored;     /* of the output that was sent; up to where it is old */
    struct secret_stream secrets; /* what came of it and was not sent yet */
    struct loop_timer *ping;
};

static void on_ping(void *arg);

static void terminal_free(struct terminal *t)
{
    view_close(t->view);
    loop_timer_free(t->ping);
    secret_stream_done(&t->secrets);
    free(t);
}

/* --- to the client --- */

static void say_json(struct terminal *t, void (*fill)(struct terminal *t, struct jw *j, struct str data),
                     const char *type, struct str data)
{
    struct buf b;
    struct jw j = { .out = &b };

    buf_init(&b, 8 * (VIEW_MAX + SECRET_MAX) + 1024);
    jw_obj(&j);
    jw_kz(&j, "type", type);
    if (data.p)
        jw_kstr(&j, "data", data);
    if (fill)
        fill(t, &j, data);
    jw_obj_end(&j);
    if (t->ws)
        (void)ws_text(t->ws, buf_view(&b));
    buf_done(&b);
}

static void fill_ready(struct terminal *t, struct jw *j, struct str data)
{
    (void)data;
    jw_kz(j, "session_id", t->session);
    jw_kz(j, "transport", t->binary ? "binary" : "json");
    jw_kz(j, "backend", "native");
    jw_kbool(j, "resumed", !t->fresh);
    jw_kint(j, "offset", t->offset);
}

static void fill_offset(struct terminal *t, struct jw *j, struct str data)
{
    (void)data;
    jw_kint(j, "offset", t->offset);
}

static void fill_time(struct terminal *t, struct jw *j, struct str data)
{
    (void)t, (void)data;
    jw_kint(j, "timestamp", wall_us() / 1000);
}

static void say_rest(struct terminal *t);

static void end(struct terminal *t, const char *type, const char *why)
{
    say_rest(t);
    say_json(t, NULL, type, str_of(why));
    if (t->ws)
        ws_close(t->ws, WS_NORMAL, why);
    view_close(TAKE_PTR(t->view));
}

/* Text is sent in whole characters. */
static void say_text(struct terminal *t, struct str data)
{
    struct buf b;

    buf_init(&b, VIEW_MAX + SECRET_MAX + 8);
    buf_add(&b, t->split, t->split_n);
    buf_str(&b, data);
    t->split_n = text_incomplete(buf_view(&b));
    memcpy(t->split, b.p + b.n - t->split_n, t->split_n);
    b.n -= t->split_n;
    t->offset += (int64_t)data.n;
    bool old = t->offset <= t->restored;
    int64_t ahead = (int64_t)t->split_n;
    t->offset -= ahead; /* who comes back gets the character whole */
    if (b.n)
        say_json(t, fill_offset, old ? "restore_output" : "output", buf_view(&b));
    t->offset += ahead;
    buf_done(&b);
}

static void say_output(struct terminal *t, int64_t at, struct str data)
{
    int64_t old = at < t->offset ? t->offset - at : 0; /* it was only looked at */

    if (old >= (int64_t)data.n)
        return;
    data = (struct str){ data.p + old, data.n - (size_t)old };
    at += old;
    if (at != t->offset) { /* what lay between is gone */
        t->split_n = 0;
        t->offset = at;
        say_json(t, fill_offset, "gap", (struct str){ 0 });
    }
    if (t->binary) {
        t->offset += (int64_t)data.n;
        (void)ws_binary(t->ws, data);
    } else {
        say_text(t, data);
    }
    if (t->restored && t->offset >= t->restored) {
        t->restored = 0;
        say_json(t, fill_offset, "relay_resumed", (struct str){ 0 });
    }
}

/* What waits is no beginning of a value: nothing follows it. */
static void say_rest(struct terminal *t)
{
    int64_t from = t->heard - (int64_t)secret_stream_waits(&t->secrets);
    struct str rest = secret_stream_put(&t->secrets, STR(""), true);

    if (rest.n && t->ws)
        say_output(t, from, rest);
}

static void take_output(struct terminal *t, int64_t at, struct str data)
{
    if (at != t->heard) /* what lay between is gone */
        say_rest(t);
    int64_t from = at - (int64_t)secret_stream_waits(&t->secrets);
    struct str out = secret_stream_put(&t->secrets, data, false);
    t->heard = at + (int64_t)data.n;
    if (out.n)
        say_output(t, from, out);
}

static void say_size(struct terminal *t, const struct view_size *size)
{
    char text[96];

    snprintf(text, sizeof text, "{\"type\":\"size\",\"data\":{\"cols\":%lld,\"rows\":%lld}}", (long long)size->cols,
             (long long)size->rows);
    (void)ws_text(t->ws, str_of(text));
}

static void say_dropped(struct terminal *t, int64_t bytes)
{
    char text[160];

    snprintf(text, sizeof text,
             "%lld bytes of input are lost: more than LIMIT_TERMINAL_INPUT (%ld bytes) wait for the program to read",
             (long long)bytes, LIMIT_TERMINAL_INPUT);
    say_json(t, NULL, "error", str_of(text));
}

/* False: init sent nonsense. */
static bool take_message(struct terminal *t, const struct view_head *head, const char *p)
{
    struct view_hello hello;
    struct view_size size;

    switch ((enum view_type)head->type) {
    case VIEW_HELLO:
        if (head->size != sizeof hello)
            return false;
        memcpy(&hello, p, sizeof hello);
        if (head->at < 0 || head->at > hello.end || hello.end > FROM_NOW_ON)
            return false;
        t->heard = head->at;
        t->offset = t->asked < 0 ? hello.end + t->asked : t->asked < hello.end ? t->asked : hello.end;
        t->offset = t->offset > head->at ? t->offset : head->at;
        t->restored = t->restore && hello.end > t->offset ? hello.end : 0;
        say_json(t, NULL, "session_id", str_of(t->session));
        say_json(t, fill_ready, "ready", STR("Terminal ready"));
        say_size(t, &hello.size);
        if (t->restore && !t->restored)
            say_json(t, fill_offset, "relay_resumed", (struct str){ 0 });
        return true;
    case VIEW_OUTPUT:
        if (head->at < 0 || head->at > FROM_NOW_ON)
            return false;
        take_output(t, head->at, (struct str){ p, head->size });
        return true;
    case VIEW_SIZE:
        if (head->size != sizeof size)
            return false;
        memcpy(&size, p, sizeof size);
        say_size(t, &size);
        return true;
    case VIEW_DROPPED: say_dropped(t, head->at); return true;
    case VIEW_EXIT: end(t, "exit", "the session was closed"); return true;
    case VIEW_INPUT:
    case VIEW_RESIZE:
    case VIEW_ERRORS:
    case VIEW_OPEN:
    case VIEW_TAKEN:
    case VIEW_CLOSE:
    case VIEW_REFUSED: break;
    }
    return false;
}

static bool on_view_message(void *arg, const struct view_head *head, const char *p)
{
    struct terminal *t = arg;

    if (!take_message(t, head, p))
        return false;
    if (t->view && ws_waiting(t->ws) <= WAITING_MAX)
        view_took(t->view);
    return true;
}

static void on_view_hold(void *arg, bool hold)
{
    struct terminal *t = arg;

    ws_hold(t->ws, hold);
}

static void on_view_ended(void *arg, const char *why)
{
    struct terminal *t = arg;

    t->view = NULL;
    end(t, "error", why);
}
static const struct view_handler view_handler = { .message = on_view_message,
                                                  .hold = on_view_hold,
                                                  .ended = on_view_ended };

/* --- from the client --- */

static void send_view(struct terminal *t, enum view_type type, struct str data)
{
    if (t->view)
        view_send(t->view, type, data);
}

static void resize(struct terminal *t, const struct json *msg)
{
    const struct json *data = json_get(msg, "data");
    struct view_size size = { json_get_int(data, "cols", json_get_int(msg, "cols", 0)),
                              json_get_int(data, "rows", json_get_int(msg, "rows", 0)) };

    if (size.cols > 0 && size.cols <= 1000 && size.rows > 0 && size.rows <= 1000)
        send_view(t, VIEW_RESIZE, (struct str){ (char *)&size, sizeof size });
    else
        say_json(t, NULL, "error", STR("resize: cols and rows must be 1 to 1000"));
}

static void on_message(void *arg, struct str data, bool binary)
{
    struct terminal *t = arg;
    struct arena a = { 0 };
    struct json *msg = NULL;
    struct err e;

    if (binary || json_parse(&a, data, &msg, &e) < 0 || msg->type != JSON_OBJ) {
        send_view(t, VIEW_INPUT, data); /* what is no JSON is typed */
        arena_done(&a);
        return;
    }
    struct str type = json_get_str(msg, "type");
    if (str_is(type, "input")) {
        struct str text = json_get_str(msg, "data");
        if (text.n)
            send_view(t, VIEW_INPUT, text);
    } else if (str_is(type, "resize")) {
        resize(t, msg);
    } else if (str_is(type, "ping")) {
        say_json(t, fill_time, "pong", (struct str){ 0 });
    } else if (!str_is(type, "pong")) {
        say_json(t, NULL, "error", STR("type: must be input, resize, ping or pong"));
    }
    arena_done(&a);
}

static void on_drained(void *arg)
{
    struct terminal *t = arg;

    if (t->view)
        view_took(t->view);
}

static void on_closed(void *arg)
{
    struct terminal *t = arg;

    t->ws = NULL;
    terminal_free(t);
}
static const struct ws_handler ws_handler = { .message = on_message, .drained = on_drained, .closed = on_closed };

static void on_ping(void *arg)
{
    struct terminal *t = arg;

    say_json(t, fill_time, "ping", (struct str){ 0 });
    loop_timer_set(t->ping, PING_MS);
}

/* --- the beginning --- */

static int64_t query_int(const struct web *w, const char *name, int64_t or_else)
{
    struct str s = http_query(w->http, name);
    char text[24];

    if (!s.n || s.n >= sizeof text)
        return or_else;
    memcpy(text, s.p, s.n);
    text[s.n] = 0;
    return strtoll(text, NULL, 10);
}

static bool query_is(const struct web *w, const char *name)
{
    struct str s = http_query(w->http, name);
    return str_is(s, "true") || str_is(s, "1");
}

/* A value that was being written then is found all the same. */
static int64_t look_from(int64_t asked, int64_t back)
{
    if (!back || !asked)
        return asked;
    if (asked < 0)
        return asked - back;
    return asked >= FROM_NOW_ON ? -back : asked > back ? asked - back : 0;
}

static void accept_client(struct web *w, struct box *b, struct str session, bool fresh)
{
    struct terminal *t = calloc(1, sizeof *t);
    struct err e;

    if (!t)
        abort();
    *t = (struct terminal){ .fresh = fresh };
    snprintf(t->session, sizeof t->session, "%.*s", STR_ARG(session));
    t->binary = str_is(http_query(w->http, "protocol"), "binary");
    t->restore = query_is(w, "restore");
    int64_t replay = query_int(w, "replay_bytes", LIMIT_TERMINAL_KEPT);
    replay = replay < REPLAY_MIN ? REPLAY_MIN : replay > LIMIT_TERMINAL_KEPT ? LIMIT_TERMINAL_KEPT : replay;
    t->asked = query_int(w, "after", t->restore ? -replay : fresh ? 0 : FROM_NOW_ON);
    t->asked = t->asked < -LIMIT_TERMINAL_KEPT ? -LIMIT_TERMINAL_KEPT : t->asked;
    secret_stream_init(&t->secrets, w->node->secrets, b->tenant, SECRET_EAGER);
    struct view_opts o = { .all = surfaces_views(w->all),
                           .terminal = str_of(t->session),
                           .after = look_from(t->asked, (int64_t)secret_stream_look_back(&t->secrets)),
                           .size = { query_int(w, "cols", 0), query_int(w, "rows", 0) },
                           .handler = &view_handler,
                           .arg = t };
    t->ping = loop_timer_new(w->node->loop, on_ping, t);
    loop_timer_set(t->ping, PING_MS);
    t->ws = ws_accept(w->http, NULL, &ws_handler, t);
    if (!t->ws) {
        terminal_free(t);
        return;
    }
    t->view = view_open(b, &o, &e);
    if (!t->view)
        end(t, "error", e.msg);
}

static void on_opened(void *arg, const struct call *c)
{
    struct web *w = arg;
    struct json *data = NULL;
    struct err e;
    struct box *b = web_find_box(w, str_of(c->box_id));

    if (c->outcome != OUTCOME_OK || !b || json_parse(w->http->arena, c->data, &data, &e) < 0) {
        web_error(w, c->error == ERR_LIMIT ? 429 : 503, c->error ? c->error : ERR_SYSTEM, "%.*s", STR_ARG(c->message));
        return;
    }
    accept_client(w, b, json_get_str(data, "session_id"), true);
}

static void with_box(struct web *w, struct box *b)
{
    struct str id = http_query(w->http, "session_id");

    if (!ws_asked(w->http)) {
        web_error(w, 426, ERR_INVALID, "this is a WebSocket: connect with Upgrade: websocket");
        return;
    }
    if (!id.n && (query_is(w, "durable") || query_is(w, "restore"))) {
        web_error(w, 400, ERR_MISSING, "session_id: is needed to restore a session");
        return;
    }
    if (id.n > 128) {
        web_error(w, 400, ERR_LIMIT, "session_id: at most 128 bytes");
        return;
    }
    if (id.n) {
        accept_client(w, b, id, false);
        return;
    }
    struct call_request r = { .surface = STR("aio"),
                              .worker = str_of(b->id),
                              .action = STR("shell:open"),
                              .trace = str_of(w->request_id),
                              .box = b };
    (void)web_call(w, &r, on_opened, w);
}

static void shell_ws(struct web *w)
{
    web_box(w, with_box);
}

/* --- the page --- */

static void page(struct web *w)
{
    page_of_box(w, "terminal.html");
}

static void static_file(struct web *w)
{
    bool css = w->match.name.n > 4 && memcmp(w->match.name.p + w->match.name.n - 4, ".css", 4) == 0;

    page_file(w, css ? "text/css; charset=utf-8" : "text/javascript; charset=utf-8",
              web_file(arena_z(w->http->arena, w->match.name)));
}

const struct route terminal_routes[] = {
    { "GET", "/v1/shell/ws", shell_ws, ROUTE_RAW | ROUTE_EXECUTE },
    { "GET", "/terminal", page, ROUTE_RAW },
    { "GET", "/static/terminal/{name}", static_file, ROUTE_RAW | ROUTE_PUBLIC },
    { 0 },
};

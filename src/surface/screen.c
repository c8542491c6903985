/* The box's screen for people: the page /vnc/index.html (noVNC), and /websockify, which carries RFB between a WebSocket
 * and the socket of the box's X server. Several may look on at once. Who may only read, or asks for view_only, sends
 * nothing but wishes for pixels (rfb_filter.h), whatever his page does. */
#include <stdio.h>
#include <stdlib.h>

#include "base/auto.h"
#include "base/limits.h"
#include "http/ws.h"
#include "surface/page.h"
#include "surface/plug.h"
#include "surface/rfb_filter.h"
#include "surface/terminal.h"
#include "wire/boot.h"
#include "wire/frame.h"

enum { WAITING_MAX = 1 * MiB };

struct viewer {
    struct node *node;
    struct ws *ws; /* NULL: the client has left */
    char box[BOX_ID_MAX];
    bool dialing, looks_on;
    struct rfb_filter filter;
    int fd;
    struct plug *plug;
    struct buf out; /* what the screen has not taken */
};

static void hang_up(struct viewer *v)
{
    plug_free(TAKE_PTR(v->plug));
    box_hang_up(v->node, v->box, TAKE_FD(v->fd));
}

static void viewer_free(struct viewer *v)
{
    hang_up(v);
    buf_done(&v->out);
    free(v);
}

static void end(struct viewer *v, enum ws_code code, const char *why)
{
    if (v->ws)
        ws_close(v->ws, code, why);
    hang_up(v);
}

/* --- from the screen --- */

static void on_pixels(void *arg, struct str data)
{
    struct viewer *v = arg;

    if (!v->ws)
        return;
    (void)ws_binary(v->ws, data);
    if (v->ws && v->plug && ws_waiting(v->ws) > WAITING_MAX)
        plug_hold(v->plug, true);
}

static void on_gone(void *arg)
{
    end(arg, WS_GOING, "the screen ended");
}

static void flush(struct viewer *v)
{
    if (!v->plug || !v->out.n)
        return;
    buf_eat(&v->out, plug_write(v->plug, buf_view(&v->out)));
    if (v->ws)
        ws_hold(v->ws, v->out.n > 0);
}

static void on_room(void *arg)
{
    flush(arg);
}
static const struct plug_handler plug_handler = {
    .data = on_pixels, .eof = on_gone, .room = on_room, .broken = on_gone
};

/* --- from the client --- */

static void on_message(void *arg, struct str data, bool binary)
{
    struct viewer *v = arg;

    (void)binary; /* some send text, which is as good */
    if (!v->looks_on)
        buf_str(&v->out, data);
    else if (!rfb_filter_feed(&v->filter, data, &v->out)) {
        end(v, WS_PROTOCOL, "this is no RFB");
        return;
    }
    if (v->out.full)
        end(v, WS_TOO_BIG, "the screen does not take so much at once");
    else
        flush(v);
}

static void on_drained(void *arg)
{
    struct viewer *v = arg;

    if (v->plug)
        plug_hold(v->plug, false);
}

static void on_closed(void *arg)
{
    struct viewer *v = arg;
    struct box *b = v->dialing ? box_find(v->node, str_of(v->box)) : NULL;

    v->ws = NULL;
    if (b)
        box_undial(b, v);
    viewer_free(v);
}
static const struct ws_handler ws_handler = { .message = on_message, .drained = on_drained, .closed = on_closed };

/* --- the beginning --- */

static void on_dialed_screen(void *arg, int take_fd, const struct err *e)
{
    struct viewer *v = arg;

    v->dialing = false;
    if (take_fd < 0) {
        end(v, WS_TRY_LATER, e->code == ERR_NOT_FOUND ? "this box has no screen yet" : e->msg);
        return;
    }
    v->fd = take_fd;
    v->plug = plug_new(v->node->loop, take_fd, &plug_handler, v);
    plug_hold(v->plug, false);
    flush(v);
}

static bool query_is(const struct web *w, const char *name)
{
    struct str s = http_query(w->http, name);
    return str_is(s, "true") || str_is(s, "1");
}

static void accept_viewer(struct web *w, struct box *b)
{
    static const struct wire_dial dial = { .target = STR("unix:" BOX_SCREEN) };
    struct viewer *v = calloc(1, sizeof *v);
    struct err e;

    if (!v)
        abort();
    *v = (struct viewer){ .node = w->node, .fd = -1 };
    memcpy(v->box, b->id, sizeof v->box);
    v->looks_on = !(w->who.may & MAY_EXECUTE) || query_is(w, "view_only");
    buf_init(&v->out, 2 * LIMIT_WS_MESSAGE);
    v->ws = ws_accept(w->http, ws_offers(w->http, "binary") ? "binary" : NULL, &ws_handler, v);
    if (!v->ws) {
        viewer_free(v);
        return;
    }
    if (box_dial(b, &dial, on_dialed_screen, v, &e) < 0)
        end(v, WS_TRY_LATER, e.msg);
    else
        v->dialing = true;
}

static void on_started(void *arg, const struct call *c)
{
    struct web *w = arg;
    struct box *b = web_find_box(w, str_of(c->box_id));

    if (c->outcome != OUTCOME_OK || !b)
        web_error(w, 503, c->error ? c->error : ERR_SYSTEM, "%.*s", STR_ARG(c->message));
    else
        accept_viewer(w, b);
}

static void with_box(struct web *w, struct box *b)
{
    if (!ws_asked(w->http)) {
        web_error(w, 426, ERR_INVALID, "this is a WebSocket: connect with Upgrade: websocket");
        return;
    }
    if (!(w->who.may & MAY_EXECUTE)) { /* who only looks starts nothing */
        accept_viewer(w, b);
        return;
    }
    struct call_request r = { .surface = STR("vnc"),
                              .worker = str_of(b->id),
                              .action = STR("desktop:screen"),
                              .trace = str_of(w->request_id),
                              .box = b };
    (void)web_call(w, &r, on_started, w);
}

static void websockify(struct web *w)
{
    web_box(w, with_box);
}

/* --- calls that wait for a person --- */

static void print_waiting(struct web *w, struct box *b)
{
    struct buf out;
    struct jw j = { .out = &out };

    buf_init(&out, 256 * KiB);
    jw_obj(&j);
    jw_key(&j, "waiting");
    jw_arr(&j);
    for (const struct call *c = b->running; c && out.n < 128 * KiB; c = c->next) {
        struct json *params = NULL;
        struct err e;
        bool asks = c->tool && strcmp(c->tool->name, "desktop:handover") == 0;
        bool captcha = c->tool && strcmp(c->tool->name, "browser:captcha") == 0;
        if (!(asks || captcha) || json_parse(w->http->arena, c->params, &params, &e) < 0)
            continue;
        const struct json *timeout = json_get(params, "timeout");
        if (captcha && (!timeout || timeout->num <= 0)) /* only a look */
            continue;
        jw_obj(&j);
        jw_kz(&j, "tool", c->tool->name);
        jw_kstr(&j, "message",
                asks ? json_get_str(params, "message") : STR("Please solve the captcha in the browser."));
        jw_obj_end(&j);
    }
    jw_arr_end(&j);
    jw_obj_end(&j);
    web_send(w, 200, &out);
}

static void waiting(struct web *w)
{
    web_box(w, print_waiting);
}

static void on_told(void *arg, const struct call *c)
{
    struct web *w = arg;
    struct buf out;

    if (c->outcome != OUTCOME_OK) {
        web_error(w, c->outcome == OUTCOME_INVALID_REQUEST ? web_status_of(c->error) : 503,
                  c->error ? c->error : ERR_SYSTEM, "%.*s", STR_ARG(c->message));
        return;
    }
    buf_init(&out, 4096);
    buf_str(&out, c->data);
    web_send(w, 200, &out);
}

static void hand_back(struct web *w, struct box *b)
{
    if (w->who.role == ROLE_AGENT) { /* it would answer its own question; tickets have the role of who made them */
        web_error(w, 403, ERR_DENIED, "a person says that it is done: the role 'agent' may not");
        return;
    }
    struct call_request r = { .surface = STR("vnc"),
                              .worker = str_of(b->id),
                              .person = true,
                              .action = STR("desktop:hand_back"),
                              .trace = str_of(w->request_id),
                              .params = w->body,
                              .box = b };
    (void)web_call(w, &r, on_told, w);
}

static void done(struct web *w)
{
    web_box(w, hand_back);
}

/* --- the page --- */

static void page(struct web *w)
{
    page_of_box(w, "vnc.html");
}

static void static_file(struct web *w)
{
    struct str name = w->match.name;

    page_file(w, "text/javascript; charset=utf-8",
              str_is(name, "vnc.js") ? web_file("vnc.js") : web_archived(web_file("novnc.tar"), name));
}

const struct route screen_routes[] = {
    { "GET", "/websockify", websockify, ROUTE_RAW },
    { "GET", "/vnc", page, ROUTE_RAW },
    { "GET", "/vnc/handover", waiting, ROUTE_RAW },
    { "POST", "/vnc/handover", done, ROUTE_READ }, /* also who may only look on says that it is done */
    { "GET", "/vnc/index.html", page, ROUTE_RAW },
    { "GET", "/vnc/vnc.html", page, ROUTE_RAW },
    { "GET", "/static/vnc/{rest*}", static_file, ROUTE_RAW | ROUTE_PUBLIC },
    { 0 },
};

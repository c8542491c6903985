/* file/watch: events of files. Its documentation shows the bare fields, its samples read .data: both are there. */
#include <stdio.h>
#include <stdlib.h>

#include "base/limits.h"
#include "surface/aio.h"

static bool print_same(struct web *w, const struct call *c, const struct json *data, struct jw *j)
{
    (void)w, (void)data;
    jw_raw(j, c->data);
    return true;
}

/* {"event": {...}}; nothing within the time is a 503 in the newer server, but a client would try again by itself. */
static bool print_wait(struct web *w, const struct call *c, const struct json *data, struct jw *j)
{
    const struct json *events = json_get(data, "events");

    (void)w, (void)c;
    jw_obj(j);
    jw_kraw(j, "event", events && events->first ? events->first->raw : STR("null"));
    jw_kbool(j, "timed_out", json_get_bool(data, "timed_out", false));
    jw_obj_end(j);
    return true;
}

/* --- events as a stream --- */

struct watching {
    struct web *w; /* gone once the stream has begun */
    struct node *node;
    struct http_stream *stream;
    struct tenant *tenant;
    char box[BOX_ID_MAX], worker[BOX_ID_MAX + 16], id[40];
    int64_t cursor;
    bool asking, closed;
    struct arena arena; /* of one call */
};

static void ask(struct watching *x);

static void finish(struct watching *x)
{
    if (x->stream && !x->closed)
        http_stream_end(x->stream);
    arena_done(&x->arena);
    free(x);
}

static void say(struct watching *x, const char *event, int64_t seq, struct str data)
{
    struct buf b;

    buf_init(&b, data.n + 256);
    buf_printf(&b, "id: %s:%lld\nevent: %s\ndata: ", x->id, (long long)seq, event);
    buf_str(&b, data);
    buf_z(&b, "\n\n");
    if (!x->closed)
        (void)http_stream_write(x->stream, buf_view(&b));
    buf_done(&b);
}

static void on_polled(void *arg, const struct call *c)
{
    struct watching *x = arg;
    struct json *data = NULL;
    struct arena a = { 0 };
    struct err e;

    x->asking = false;
    if (!x->closed && c->data.p && json_parse(&a, c->data, &data, &e) == 0) {
        const struct json *events = json_get(data, "events");
        if (json_get_bool(data, "overflow", false))
            say(x, "overflow", x->cursor, STR("{}"));
        for (const struct json *ev = events ? events->first : NULL; ev; ev = ev->next)
            say(x, "file_change", json_get_int(ev, "seq", 0), ev->raw);
        if (events && !events->first && !x->closed)
            (void)http_stream_write(x->stream, STR(": still here\n\n"));
        x->cursor = json_get_int(data, "cursor", x->cursor);
    }
    bool over = x->closed || !data;
    arena_done(&a);
    if (over)
        finish(x);
    else
        ask(x);
}

static void ask(struct watching *x)
{
    struct box *b = box_find(x->node, str_of(x->box));
    struct json *params = NULL;
    struct err e;

    arena_done(&x->arena);
    x->arena = (struct arena){ 0 };
    struct str text =
        str_of(arena_printf(&x->arena, "{\"watcher_id\":\"%s\",\"cursor\":%lld,\"limit\":1000,\"timeout\":20}", x->id,
                            (long long)x->cursor));
    if (!b || json_parse(&x->arena, text, &params, &e) < 0) {
        finish(x);
        return;
    }
    x->asking = true;
    call_start(x->node,
               &(struct call_request){ .surface = STR("aio"),
                                       .tenant = x->tenant,
                                       .worker = str_of(x->worker),
                                       .action = STR("watch:poll"),
                                       .params = params,
                                       .timeout_ms = 60000,
                                       .box = b },
               on_polled, x);
}

static void on_closed(void *arg)
{
    struct watching *x = arg;

    x->closed = true;
    if (!x->asking)
        finish(x);
}

static void on_first(void *arg, const struct call *c)
{
    struct web *w = arg;
    const struct json *data = aio_data(w, c);
    struct str last = http_header(w->http, "last-event-id");
    struct box *b = aio_box(w);

    if (!data) {
        aio_call_failed(w, c);
        return;
    }
    struct watching *x = calloc(1, sizeof *x);
    if (!x)
        abort();
    x->node = w->node;
    x->tenant = b->tenant;
    memcpy(x->box, b->id, sizeof x->box);
    snprintf(x->worker, sizeof x->worker, "watch:%s", b->id);
    struct str id = json_get_str(data, "watcher_id");
    snprintf(x->id, sizeof x->id, "%.*s", STR_ARG(id));
    const char *colon = last.n && last.n < 64 ? memchr(last.p, ':', last.n) : NULL;
    if (colon)
        x->cursor = strtoll(arena_z(w->http->arena, last) + (colon - last.p) + 1, NULL, 10);
    x->stream = http_stream_begin(w->http, 200, "text/event-stream", on_closed, x);
    say(x, "watch_started", x->cursor, STR("{}"));
    ask(x);
}

static struct str id_of(struct web *w)
{
    struct buf b;
    struct jw j = { .out = &b };

    buf_init(&b, 4096);
    jw_kstr(&j, "watcher_id", (struct str){ w->match.name.p, w->match.name.n < 32 ? w->match.name.n : 32 });
    struct str copy = arena_copy(w->http->arena, buf_view(&b));
    buf_done(&b);
    return copy;
}

static void events(struct web *w)
{
    aio_call(w, "watch:poll", id_of(w), on_first);
}

static const struct field id_in[] = {
    SAYS(STR, "watcher_id", "the watcher", .required = true, .max = 32),
    { 0 },
};

static const struct aio_op ops[] = {
    { "GET", "/v1/file/watch", "file", "watch_list", "All watchers", .tool = "watch:watchers", .print = print_same,
      .flags = AIO_TOP | AIO_BARE, .tag = "file-watch" },
    { "POST", "/v1/file/watch", "file", "watch_create", "Watch a file or a directory", .tool = "watch:create",
      .print = print_same, .in_name = "CreateWatchRequest", .flags = AIO_TOP | AIO_BARE, .tag = "file-watch" },
    { "POST", "/v1/file/watch/wait", "file", "watch_wait", "Wait for something to happen to a path",
      .tool = "watch:await", .print = print_wait, .in_name = "WaitRequest", .flags = AIO_TOP | AIO_LONG | AIO_BARE,
      .tag = "file-watch" },
    { "GET", "/v1/file/watch/{watcher_id}/events", "file", "watch_events", "Events as a stream, if it is accepted",
      .tool = "watch:poll", .print = print_same, .in = id_in, .stream = events, .flags = AIO_TOP | AIO_BARE,
      .tag = "file-watch" },
    { "POST", "/v1/file/watch/{watcher_id}/poll", "file", "watch_poll", "Events behind a cursor", .tool = "watch:poll",
      .print = print_same, .in_name = "PollRequest", .flags = AIO_TOP | AIO_LONG | AIO_BARE, .tag = "file-watch" },
    { "DELETE", "/v1/file/watch/{watcher_id}", "file", "watch_stop", "Stop watching", .tool = "watch:stop",
      .print = print_same, .flags = AIO_TOP | AIO_BARE, .tag = "file-watch" },
    { 0 },
};
const struct aio_group aio_watch = { "file-watch", ops };

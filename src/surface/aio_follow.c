/* Server-sent events of commands: exec and view of shell, exec and output of bash, if Accept asks for them.
 *
 *   start   {"session_id", "command_id", "command"}
 *   stdout  {"data", "offset"}       offset: behind data, in all that the command wrote
 *   stderr  {"data", "offset"}
 *   gap     {"stream", "bytes", "offset"}  so many bytes, up to offset, are not kept any more
 *   exit    {"exit_code", "status"}  the last one; or error {"message"}
 *
 * Each has an id: COMMAND:STDOUT_OFFSET:STDERR_OFFSET. A client that lost its connection, or its server, asks for view
 * or output of the session with Last-Event-ID and goes on there. */
#include "surface/aio_follow.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/auto.h"
#include "base/limits.h"
#include "session/secret_stream.h"
#include "surface/aio.h"
#include "surface/plug.h"
#include "surface/text_split.h"
#include "wire/frame.h"
#include "wire/view.h"

enum { WAITING_MAX = 256 * KiB, BEAT_MS = 15000 };

struct channel {
    int64_t offset; /* behind what was sent */
    int64_t heard;  /* behind what came */
    char split[4];
    size_t split_n;
    struct secret_stream secrets; /* what came and was not sent yet */
};

struct follow {
    struct node *node;
    struct http_stream *out; /* NULL: the client has left */
    char box[BOX_ID_MAX], session[136], command_id[32], target[200];
    struct str command; /* in the request's arena; only until the beginning */
    struct wire_dial dial;
    bool bash, dialing, begun;
    int fd;
    struct plug *plug;
    struct buf in;
    struct channel channels[2];
    struct loop_timer *beat;
};

static void follow_free(struct follow *f)
{
    plug_free(f->plug);
    box_hang_up(f->node, f->box, f->fd);
    loop_timer_free(f->beat);
    for (int i = 0; i < 2; i++)
        secret_stream_done(&f->channels[i].secrets);
    buf_done(&f->in);
    free(f);
}

static void end(struct follow *f)
{
    if (f->out)
        http_stream_end(f->out);
    follow_free(f);
}

static void event(struct follow *f, const char *name, struct str json)
{
    struct buf b;

    buf_init(&b, json.n + 512);
    buf_printf(&b, "id: %s:%lld:%lld\nevent: %s\ndata: ", f->command_id,
               (long long)(f->channels[0].offset - (int64_t)f->channels[0].split_n),
               (long long)(f->channels[1].offset - (int64_t)f->channels[1].split_n), name);
    buf_str(&b, json); /* in one line: our writer makes no others */
    buf_z(&b, "\n\n");
    (void)http_stream_write(f->out, buf_view(&b));
    buf_done(&b);
}

static void say_start(struct follow *f)
{
    struct buf b;
    struct jw j = { .out = &b };

    buf_init(&b, 8 * LIMIT_COMMAND);
    jw_obj(&j);
    jw_kz(&j, "session_id", f->session);
    jw_kz(&j, "command_id", f->command_id);
    if (f->command.p)
        jw_kstr(&j, "command", f->command);
    jw_obj_end(&j);
    event(f, "start", buf_view(&b));
    buf_done(&b);
}

static void say_gap(struct follow *f, int which, int64_t to)
{
    struct channel *c = &f->channels[which];
    struct buf b;
    struct jw j = { .out = &b };
    int64_t bytes = to - c->offset + (int64_t)c->split_n;

    c->offset = to; /* whoever comes back with this event's id goes on behind it */
    c->split_n = 0;
    buf_init(&b, 4096);
    jw_obj(&j);
    jw_kz(&j, "stream", which ? "stderr" : "stdout");
    jw_kint(&j, "bytes", bytes);
    jw_kint(&j, "offset", to);
    jw_obj_end(&j);
    event(f, "gap", buf_view(&b));
    buf_done(&b);
}

static void say_data(struct follow *f, int which, int64_t at, struct str data)
{
    struct channel *c = &f->channels[which];
    struct buf text, b;
    struct jw j = { .out = &b };

    int64_t old = at < c->offset ? c->offset - at : 0; /* it was only looked at */
    if (old >= (int64_t)data.n)
        return;
    data = (struct str){ data.p + old, data.n - (size_t)old };
    at += old;
    if (at > c->offset)
        say_gap(f, which, at);
    c->offset = at + (int64_t)data.n;
    buf_init(&text, VIEW_MAX + SECRET_MAX + 8);
    buf_init(&b, 8 * (VIEW_MAX + SECRET_MAX));
    buf_add(&text, c->split, c->split_n);
    buf_str(&text, data);
    c->split_n = text_incomplete(buf_view(&text));
    memcpy(c->split, text.p + text.n - c->split_n, c->split_n);
    text.n -= c->split_n;
    jw_obj(&j);
    jw_kstr(&j, "data", buf_view(&text));
    jw_kint(&j, "offset", c->offset - (int64_t)c->split_n);
    jw_obj_end(&j);
    if (text.n)
        event(f, which ? "stderr" : "stdout", buf_view(&b));
    buf_done(&text);
    buf_done(&b);
}

/* What waits is no beginning of a value: nothing follows it. */
static void say_rest(struct follow *f, int which)
{
    struct channel *c = &f->channels[which];
    int64_t from = c->heard - (int64_t)secret_stream_waits(&c->secrets);
    struct str rest = secret_stream_put(&c->secrets, STR(""), true);

    if (rest.n && f->out)
        say_data(f, which, from, rest);
}

static void take_data(struct follow *f, int which, int64_t at, struct str data)
{
    struct channel *c = &f->channels[which];

    if (at != c->heard) /* what lay between is gone */
        say_rest(f, which);
    if (at < c->heard) /* there was less than the client thinks */
        c->offset = at;
    int64_t from = at - (int64_t)secret_stream_waits(&c->secrets);
    struct str out = secret_stream_put(&c->secrets, data, false);
    c->heard = at + (int64_t)data.n;
    if (out.n)
        say_data(f, which, from, out);
}

static void say_exit(struct follow *f, int64_t code, struct str status)
{
    struct buf b;
    struct jw j = { .out = &b };

    buf_init(&b, 4096);
    jw_obj(&j);
    jw_kint(&j, "exit_code", code);
    jw_kstr(&j, "status", status);
    jw_obj_end(&j);
    event(f, "exit", buf_view(&b));
    buf_done(&b);
}

/* There is less than the client thinks. */
static void not_beyond(struct channel *c, int64_t end)
{
    if (end >= 0 && end < c->heard)
        c->offset = c->heard = end;
}

/* False: f is gone. */
static bool one_message(struct follow *f, const struct view_head *head, struct str data)
{
    struct view_hello hello;

    switch ((enum view_type)head->type) {
    case VIEW_HELLO:
        if (data.n != sizeof hello)
            break;
        memcpy(&hello, data.p, sizeof hello);
        if (!f->bash)
            snprintf(f->command_id, sizeof f->command_id, "%lld", (long long)hello.pid);
        not_beyond(&f->channels[0], head->at);
        not_beyond(&f->channels[1], hello.end);
        say_start(f);
        return true;
    case VIEW_OUTPUT:
    case VIEW_ERRORS:
        if (head->at < 0 || head->at > INT64_MAX / 2)
            break;
        take_data(f, head->type == VIEW_ERRORS, head->at, data);
        return true;
    case VIEW_EXIT:
        say_rest(f, 0);
        say_rest(f, 1);
        say_exit(f, head->at, (struct str){ data.p, data.n < 64 ? data.n : 64 });
        end(f);
        return false;
    case VIEW_SIZE:
    case VIEW_INPUT:
    case VIEW_RESIZE:
    case VIEW_OPEN:
    case VIEW_TAKEN:
    case VIEW_CLOSE:
    case VIEW_REFUSED:
    case VIEW_DROPPED: break;
    }
    end(f);
    return false;
}

static void on_plug_data(void *arg, struct str bytes)
{
    struct follow *f = arg;
    struct view_head head;
    size_t at = 0;

    buf_str(&f->in, bytes);
    while (f->in.n - at >= sizeof head) {
        memcpy(&head, f->in.p + at, sizeof head);
        if (head.size > VIEW_MAX) {
            end(f);
            return;
        }
        if (f->in.n - at - sizeof head < head.size)
            break;
        if (!one_message(f, &head, (struct str){ f->in.p + at + sizeof head, head.size }))
            return;
        at += sizeof head + head.size;
    }
    buf_eat(&f->in, at);
    if (http_stream_waiting(f->out) > WAITING_MAX)
        plug_hold(f->plug, true);
}

static void on_plug_end(void *arg)
{
    say_rest(arg, 0);
    say_rest(arg, 1);
    end(arg); /* without an exit: the client asks again */
}
static const struct plug_handler plug_handler = { .data = on_plug_data, .eof = on_plug_end, .broken = on_plug_end };

static void on_closed(void *arg)
{
    struct follow *f = arg;
    struct box *b = f->dialing ? box_find(f->node, str_of(f->box)) : NULL;

    f->out = NULL;
    if (b)
        box_undial(b, f);
    follow_free(f);
}

static void on_drained(void *arg)
{
    struct follow *f = arg;

    if (f->plug)
        plug_hold(f->plug, false);
}

static void on_beat(void *arg)
{
    struct follow *f = arg;

    if (http_stream_waiting(f->out) == 0)
        (void)http_stream_write(f->out, STR(": still here\n\n"));
    loop_timer_set(f->beat, BEAT_MS);
}

static void on_dialed_command(void *arg, int take_fd, const struct err *e)
{
    struct follow *f = arg;

    f->dialing = false;
    if (take_fd < 0) {
        struct buf b;
        struct jw j = { .out = &b };
        buf_init(&b, 4096);
        jw_obj(&j);
        jw_kz(&j, "message", e->msg);
        jw_obj_end(&j);
        event(f, "error", buf_view(&b));
        buf_done(&b);
        end(f);
        return;
    }
    f->fd = take_fd;
    f->plug = plug_new(f->node->loop, take_fd, &plug_handler, f);
    plug_hold(f->plug, false);
}

/* Last-Event-ID: "COMMAND:OUT:ERR". False: there is none, or one that is not ours: with a "#" in it, it could be read as the
 * end of another session's name, see begin(). */
static bool last_event(const struct web *w, char id[32], int64_t *ret_out, int64_t *ret_err)
{
    struct str last = http_header(w->http, "last-event-id");
    char text[96];
    long long out, err;
    int n = 0;

    if (!last.n || last.n >= sizeof text)
        return false;
    memcpy(text, last.p, last.n);
    text[last.n] = 0;
    if (sscanf(text, "%31[^:#]:%lld:%lld%n", id, &out, &err, &n) != 3 || text[n] || out < 0 || err < 0)
        return false;
    *ret_out = out;
    *ret_err = err;
    return true;
}

/* A little before what is asked for: a value that was being written then is found all the same. */
static void look_from(struct channel *c, const struct box *b, int64_t *after)
{
    *after = *after < 0 ? 0 : *after < INT64_MAX / 2 ? *after : INT64_MAX / 2;
    secret_stream_init(&c->secrets, b->node->secrets, b->tenant, SECRET_EAGER);
    int64_t back = (int64_t)secret_stream_look_back(&c->secrets);
    c->offset = *after;
    c->heard = *after = *after > back ? *after - back : 0;
}

static void begin(struct web *w, struct follow *f)
{
    static const struct pair headers[] = { { STR("Cache-Control"), STR("no-cache") },
                                           { STR("X-Accel-Buffering"), STR("no") } };
    struct box *b = aio_box(w);
    struct err e;

    f->node = w->node;
    f->fd = -1;
    memcpy(f->box, b->id, sizeof f->box);
    snprintf(f->target, sizeof f->target, "%s:%s#%s", f->bash ? "run" : "command", f->session, f->command_id);
    f->dial.target = str_of(f->target);
    buf_init(&f->in, 4 * VIEW_MAX + 128 * KiB);
    look_from(&f->channels[0], b, &f->dial.after);
    look_from(&f->channels[1], b, &f->dial.after_err);
    if (box_dial(b, &f->dial, on_dialed_command, f, &e) < 0) {
        aio_error(w, 503, "%s", e.msg);
        follow_free(f);
        return;
    }
    f->dialing = true;
    f->beat = loop_timer_new(w->node->loop, on_beat, f);
    loop_timer_set(f->beat, BEAT_MS);
    f->out = http_stream_open(w->http, &(struct http_stream_opts){ .status = 200,
                                                                   .content_type = "text/event-stream",
                                                                   .headers = headers,
                                                                   .header_count = ARRAY_LEN(headers),
                                                                   .length = -1,
                                                                   .drained = on_drained,
                                                                   .closed = on_closed,
                                                                   .arg = f });
}

static struct follow *follow_new(struct web *w, bool bash, struct str session)
{
    struct follow *f = calloc(1, sizeof *f);

    if (!f)
        abort();
    *f = (struct follow){ .bash = bash, .command = json_get_str(aio_given(w), "command") };
    snprintf(f->session, sizeof f->session, "%.*s", STR_ARG(session));
    return f;
}

static void on_called(void *arg, const struct call *c)
{
    struct web *w = arg;
    const struct json *data = aio_data(w, c);
    bool bash = w->op->tool[0] == 'c';
    char given[32];

    if (!c->data.p || !data) {
        aio_call_failed(w, c);
        return;
    }
    struct follow *f = follow_new(w, bash, json_get_str(data, "session_id"));
    struct str id = json_get_str(data, "command_id");
    if (!id.p)
        id = json_get_str(json_get(data, "command"), "command_id");
    if (bash)
        snprintf(f->command_id, sizeof f->command_id, "%.*s", STR_ARG(id));
    if (json_get(aio_given(w), "command") == NULL) { /* view, output: perhaps not from the beginning */
        f->dial.after = json_get_int(aio_given(w), "offset", 0);
        f->dial.after_err = json_get_int(aio_given(w), "stderr_offset", 0);
        if (last_event(w, given, &f->dial.after, &f->dial.after_err))
            memcpy(f->command_id, given, sizeof f->command_id);
    }
    if (bash && !f->command_id[0]) {
        aio_error(w, 404, "the session has run no command");
        free(f);
        return;
    }
    begin(w, f);
}

void aio_follow(struct web *w)
{
    struct buf b;
    struct jw j = { .out = &b };
    bool starts = json_get(aio_given(w), "command") != NULL;
    char id[32];
    int64_t out, err;

    buf_init(&b, LIMIT_HTTP_BODY);
    jw_obj(&j);
    for (const struct json *m = aio_given(w) ? aio_given(w)->first : NULL; m; m = m->next)
        if (!str_is(m->name, "async_mode") && !str_is(m->name, "wait")) {
            jw_key(&j, arena_z(w->http->arena, m->name));
            jw_raw(&j, m->raw);
        }
    if (starts)
        jw_kbool(&j, "async_mode", true);
    else if (w->op->tool[0] == 'c' && !json_get(aio_given(w), "command_id") && last_event(w, id, &out, &err))
        jw_kz(&j, "command_id", id); /* of this session, or the answer is 404 */
    jw_obj_end(&j);
    struct str all = arena_copy(w->http->arena, buf_view(&b));
    buf_done(&b);
    aio_call(w, w->op->tool, (struct str){ all.p + 1, all.n - 2 }, on_called);
}

#include "surface/transfer.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/path.h"
#include "http/multipart.h"
#include "session/secret_stream.h"
#include "surface/plug.h"
#include "wire/frame.h"

enum { WAITING_MAX = 512 * KiB, ETAGS_MAX = 100 };

/* One of these per request. It ends when the call is over and, on the way out, the stream was read to its end. */
struct transfer {
    struct web *web; /* NULL: the answer has begun */
    struct node *node;
    int fd;
    struct plug *plug;
    void (*done)(struct web *w, const struct call *c);
    bool over; /* the call is */
    /* in */
    struct http_body *body;
    bool sent; /* all of it went into the box */
    /* out */
    struct http_stream *out;
    bool file, begun, eof, failed;
    struct buf head;
    struct secret_stream secrets;
    /* a form */
    struct form *form;
};

static void hang_up(struct transfer *t)
{
    plug_free(TAKE_PTR(t->plug));
    if (t->fd >= 0)
        close(TAKE_FD(t->fd));
}

static void transfer_free(struct transfer *t)
{
    hang_up(t);
    buf_done(&t->head);
    secret_stream_done(&t->secrets);
    free(t);
}

static struct transfer *transfer_new(struct web *w, void (*done)(struct web *w, const struct call *c))
{
    struct transfer *t = calloc(1, sizeof *t);

    if (!t)
        abort();
    *t = (struct transfer){ .web = w, .node = w->node, .fd = -1, .done = done };
    buf_init(&t->head, WIRE_FILE_MAX + sizeof(uint32_t));
    secret_stream_init(&t->secrets, w->node->secrets, w->tenant, 0);
    return t;
}

static void start(struct transfer *t, struct box *b, const struct transfer_ask *ask, on_call_done *cb,
                  void (*on_stream)(void *arg, int take_fd))
{
    struct web *w = t->web;
    struct json *params = NULL;
    struct err e;

    if (json_parse(w->http->arena, arena_copy(w->http->arena, ask->params), &params, &e) < 0)
        params = NULL; /* the tool says what is missing */
    struct call_request r = { .surface = w->op ? STR("aio") : STR("own"),
                              .worker = str_of(b->id),
                              .action = str_of(ask->tool),
                              .params = params,
                              .trace = str_of(w->request_id),
                              .box = b,
                              .on_stream = on_stream };
    (void)web_call(w, &r, cb, t);
}

/* --- in --- */

static void on_in_done(void *arg, const struct call *c)
{
    struct transfer *t = arg;

    if (t->body)
        http_body_drop(TAKE_PTR(t->body));
    t->done(t->web, c);
    transfer_free(t);
}

static size_t on_body(void *arg, struct str data, bool last)
{
    struct transfer *t = arg;
    size_t n = t->plug ? plug_write(t->plug, data) : 0;

    if (n < data.n) {
        http_body_pause(t->body); /* until there is room, or the call ends */
    } else if (last) {
        t->body = NULL;
        t->sent = true;
        plug_end(t->plug);
    }
    return n;
}

static void on_body_failed(void *arg)
{
    struct transfer *t = arg;

    t->body = NULL;
    hang_up(t); /* without an end: the tool takes it for what it is */
}
static const struct http_body_handler body_handler = { .take = on_body, .failed = on_body_failed };

static void on_plug_data(void *arg, struct str data)
{
    (void)arg, (void)data; /* never: it is held */
}
static void on_plug_room(void *arg)
{
    struct transfer *t = arg;

    if (t->body && !t->sent) /* else it is not room that the rest of a form waits for */
        http_body_resume(t->body);
}
static void on_plug_broken(void *arg)
{
    (void)arg; /* the tool has ended: its result says why */
}
static const struct plug_handler in_handler = {
    .data = on_plug_data, .eof = on_plug_broken, .room = on_plug_room, .broken = on_plug_broken
};

static void on_in_stream(void *arg, int take_fd)
{
    struct transfer *t = arg;

    t->fd = take_fd;
    t->plug = plug_new(t->node->loop, take_fd, &in_handler, t);
    if (t->web->http->streaming)
        t->body = http_body_begin(t->web->http, &body_handler, t);
    else
        plug_end(t->plug);
}

void transfer_in(struct web *w, struct box *b, const struct transfer_ask *ask)
{
    start(transfer_new(w, ask->done), b, ask, on_in_done, on_in_stream);
}

/* --- out --- */

static void check_over(struct transfer *t)
{
    if (!t->over || (t->plug && !t->eof && !t->failed))
        return;
    if (t->out && t->failed)
        http_stream_abort(t->out);
    else if (t->out)
        http_stream_end(t->out);
    transfer_free(t);
}

static void on_out_done(void *arg, const struct call *c)
{
    struct transfer *t = arg;

    t->over = true;
    if (c->outcome != OUTCOME_OK && c->outcome != OUTCOME_PID_LIMIT)
        t->failed = true;
    if (t->web && (t->failed || !t->plug)) {
        t->done(TAKE_PTR(t->web), c);
        t->failed = true;
        hang_up(t);
    }
    check_over(t);
}

static void on_out_closed(void *arg)
{
    struct transfer *t = arg;

    t->out = NULL;
    t->failed = true;
    hang_up(t);
    check_over(t);
}

static void on_out_drained(void *arg)
{
    struct transfer *t = arg;

    if (t->plug)
        plug_hold(t->plug, false);
}

static bool is_plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
}

/* The name in two forms: for every client, and, escaped, for those who understand more than ASCII. */
static struct str disposition(struct arena *a, struct str name)
{
    char *simple = arena_alloc(a, name.n + 1), *full = arena_alloc(a, 3 * name.n + 1);
    size_t n = 0;

    for (size_t i = 0; i < name.n; i++) {
        unsigned char c = (unsigned char)name.p[i];
        simple[i] = c >= ' ' && c < 0x7f && c != '"' && c != '\\' ? (char)c : '_';
        if (is_plain((char)c))
            full[n++] = (char)c;
        else
            n += (size_t)sprintf(full + n, "%%%02X", c);
    }
    bool same = true;
    for (size_t i = 0; i < name.n; i++)
        same = same && simple[i] == name.p[i];
    return str_of(same ? arena_printf(a, "attachment; filename=\"%s\"", simple)
                       : arena_printf(a, "attachment; filename=\"%s\"; filename*=UTF-8''%s", simple, full));
}

/* What a box sends must not become a page of ours: see docs/streams.md. */
#define SAFE_HEADERS                                                                                                   \
    {                                                                                                                  \
        STR("Content-Security-Policy"), STR("sandbox; default-src 'none'")                                             \
    }

static void begin(struct transfer *t, struct http_stream_opts *o)
{
    o->closed = on_out_closed;
    o->drained = on_out_drained;
    o->arg = t;
    t->begun = true;
    struct web *w = TAKE_PTR(t->web);
    t->out = http_stream_open(w->http, o);
}

static void begin_file(struct transfer *t, const struct wire_file *f)
{
    struct arena *a = t->web->http->arena;
    char when[64];
    time_t seconds = (time_t)(f->mtime_ns / 1000000000);
    struct tm tm;

    strftime(when, sizeof when, "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&seconds, &tm));
    const char *range = f->unsatisfiable ? arena_printf(a, "bytes */%lld", (long long)f->size)
                                         : arena_printf(a, "bytes %lld-%lld/%lld", (long long)f->offset,
                                                        (long long)(f->offset + f->length - 1), (long long)f->size);
    struct pair headers[] = { { STR("Content-Disposition"), disposition(a, f->name) },
                              { STR("ETag"), str_of(arena_printf(a, "\"%.*s\"", STR_ARG(f->etag))) },
                              { STR("Last-Modified"), str_of(arena_copy(a, str_of(when)).p) },
                              { STR("Accept-Ranges"), STR("bytes") },
                              { STR("Cache-Control"), STR("private, no-cache") },
                              SAFE_HEADERS,
                              { STR("Content-Range"), str_of(range) } };
    bool ranged = f->unsatisfiable || f->part;
    begin(t, &(struct http_stream_opts){ .status = f->unchanged       ? 304
                                                   : f->unsatisfiable ? 416
                                                   : f->part          ? 206
                                                                      : 200,
                                         .content_type = "application/octet-stream",
                                         .headers = headers,
                                         .header_count = ARRAY_LEN(headers) - !ranged,
                                         .length = f->unchanged ? 0 : f->length });
}

/* The first bytes say what the rest is; they come from the box, so nothing in them is taken for granted. */
static bool read_head(struct transfer *t, struct str *data)
{
    struct wire_file f;
    uint32_t size = 0;
    struct err e;

    while (data->n) {
        size_t want = sizeof size;
        if (t->head.n >= sizeof size) {
            memcpy(&size, t->head.p, sizeof size);
            want += size;
        }
        if (size > WIRE_FILE_MAX)
            return false;
        if (t->head.n >= sizeof size && t->head.n == want)
            break;
        size_t n = want - t->head.n < data->n ? want - t->head.n : data->n;
        buf_add(&t->head, data->p, n);
        *data = (struct str){ data->p + n, data->n - n };
    }
    if (t->head.n < sizeof size)
        return true;
    memcpy(&size, t->head.p, sizeof size);
    if (size > WIRE_FILE_MAX)
        return false;
    if (t->head.n < sizeof size + size)
        return true;
    if (field_unpack(wire_file_fields, (struct str){ t->head.p + sizeof size, size }, t->web->http->arena, &f, sizeof f,
                     &e) < 0 ||
        f.size < 0 || f.length < 0 || f.offset < 0 || f.offset > INT64_MAX / 2 || f.length > INT64_MAX / 2)
        return false;
    begin_file(t, &f);
    return true;
}

static void on_out_data(void *arg, struct str data)
{
    struct transfer *t = arg;

    if (!t->begun && t->file && !read_head(t, &data)) {
        t->failed = true;
        web_error(TAKE_PTR(t->web), 502, ERR_SYSTEM, "the box sent garbage instead of a file");
        hang_up(t);
        check_over(t);
        return;
    }
    if (!t->begun && !t->file) {
        struct pair headers[] = { { STR("Content-Disposition"), STR("attachment; filename=\"files.tar\"") },
                                  { STR("Cache-Control"), STR("private, no-cache") },
                                  SAFE_HEADERS };
        begin(t, &(struct http_stream_opts){ .status = 200,
                                             .content_type = "application/x-tar",
                                             .headers = headers,
                                             .header_count = ARRAY_LEN(headers),
                                             .length = -1 });
    }
    if (!t->begun || !data.n || !t->out)
        return;
    data = secret_stream_put(&t->secrets, data, false);
    if (data.n && !http_stream_write(t->out, data))
        return; /* it is being closed, which is told */
    if (http_stream_waiting(t->out) > WAITING_MAX)
        plug_hold(t->plug, true);
}

static void on_out_eof(void *arg)
{
    struct transfer *t = arg;
    struct str rest = secret_stream_put(&t->secrets, STR(""), true);

    if (t->out && rest.n)
        (void)http_stream_write(t->out, rest);
    t->eof = true;
    check_over(t);
}
static void on_out_broken(void *arg)
{
    struct transfer *t = arg;

    t->failed |= !t->eof; /* after the end, only the other direction broke, which nobody uses */
    t->eof = true;
    check_over(t);
}
static const struct plug_handler out_handler = { .data = on_out_data, .eof = on_out_eof, .broken = on_out_broken };

static void on_out_stream(void *arg, int take_fd)
{
    struct transfer *t = arg;

    t->fd = take_fd;
    t->plug = plug_new(t->node->loop, take_fd, &out_handler, t);
    plug_hold(t->plug, false);
}

void transfer_out(struct web *w, struct box *b, const struct transfer_ask *ask, bool file)
{
    struct transfer *t = transfer_new(w, ask->done);

    t->file = file;
    start(t, b, ask, on_out_done, on_out_stream);
}

static const int64_t FAR = 1000000000000000; /* behind the end of any file */

static bool number(struct str s, int64_t *ret)
{
    int64_t v = 0;

    if (!s.n)
        return false;
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] < '0' || s.p[i] > '9')
            return false;
        v = v < FAR ? v * 10 + (s.p[i] - '0') : FAR;
    }
    *ret = v < FAR ? v : FAR;
    return true;
}

static struct str bare_etag(struct str s)
{
    if (s.n > 2 && s.p[0] == 'W' && s.p[1] == '/')
        s = (struct str){ s.p + 2, s.n - 2 };
    if (s.n >= 2 && s.p[0] == '"' && s.p[s.n - 1] == '"')
        s = (struct str){ s.p + 1, s.n - 2 };
    return s;
}

static void put_etags(struct jw *j, struct str list)
{
    jw_key(j, "unless_etag");
    jw_arr(j);
    for (int i = 0; list.n && i < ETAGS_MAX; i++) {
        const char *comma = memchr(list.p, ',', list.n);
        struct str tag = { list.p, comma ? (size_t)(comma - list.p) : list.n };
        list = (struct str){ tag.p + tag.n + (comma != NULL), list.n - tag.n - (comma != NULL) };
        while (tag.n && tag.p[0] == ' ')
            tag = (struct str){ tag.p + 1, tag.n - 1 };
        while (tag.n && tag.p[tag.n - 1] == ' ')
            tag.n--;
        jw_str(j, bare_etag(tag));
    }
    jw_arr_end(j);
}

void transfer_range(const struct web *w, struct jw *j)
{
    struct str range = http_header(w->http, "range"), none = http_header(w->http, "if-none-match"),
               if_range = http_header(w->http, "if-range");
    int64_t first, last;

    if (none.n)
        put_etags(j, none);
    if (str_is(w->http->method, "HEAD"))
        jw_kbool(j, "only_head", true);
    if (range.n < 7 || memcmp(range.p, "bytes=", 6) != 0 || memchr(range.p, ',', range.n))
        return; /* several ranges: the whole file, as the RFC allows */
    range = (struct str){ range.p + 6, range.n - 6 };
    const char *dash = memchr(range.p, '-', range.n);
    if (!dash)
        return;
    struct str from = { range.p, (size_t)(dash - range.p) }, to = { dash + 1, range.n - from.n - 1 };
    if (!from.n && number(to, &last)) {
        jw_kint(j, "offset", last ? -last : FAR);
    } else if (number(from, &first) && (!to.n || (number(to, &last) && last >= first))) {
        jw_kint(j, "offset", first);
        if (to.n)
            jw_kint(j, "length", last < FAR ? last - first + 1 : FAR);
    } else {
        return;
    }
    if (if_range.n && if_range.n < 200)
        jw_kstr(j, "range_etag", bare_etag(if_range));
}

/* --- forms --- */

static void put_path(struct jw *j, const char *key, struct str given)
{
    jw_key(j, key);
    jw_given_path(j, given);
}

struct form {
    struct transfer *transfer;
    struct box_name {
        char id[BOX_ID_MAX];
    } box;
    struct multipart parser;
    struct buf path, filename;
    enum { PART_NONE, PART_FILE, PART_PATH, PART_OTHER } part;
    bool have_file, have_path, in_tmp;
    bool waits; /* the file is there under its temporary name, and goes when the form does */
    struct tenant *tenant;
    void (*wrong)(struct web *w, const char *field, const char *why);
    char temporary[64];
    bool *gone; /* for on_form, under which it may be answered and freed */
};

struct leftover {
    struct arena arena;
    char box[BOX_ID_MAX];
};

static void on_removed(void *arg, const struct call *c)
{
    struct leftover *l = arg;

    if (c->outcome != OUTCOME_OK)
        log_info("a part of a form is left", "box=%s error=%.*s", l->box, STR_ARG(c->message));
    arena_done(&l->arena);
    free(l);
}

static void form_remove_file(struct form *f)
{
    struct box *b = box_find(f->transfer->node, str_of(f->box.id));
    struct leftover *l = b ? calloc(1, sizeof *l) : NULL;
    struct json *params = NULL;
    struct err e;

    if (!l) /* it went with its box */
        return;
    memcpy(l->box, f->box.id, sizeof l->box);
    (void)json_parse(&l->arena, str_of(arena_printf(&l->arena, "{\"path\":\"%s\"}", f->temporary)), &params, &e);
    (void)call_start(f->transfer->node,
                     &(struct call_request){ .surface = STR("aio"),
                                             .tenant = f->tenant,
                                             .worker = str_of(l->box),
                                             .action = STR("file:delete"),
                                             .params = params,
                                             .box = b },
                     on_removed, l);
}

static void form_free(struct form *f)
{
    if (f->waits)
        form_remove_file(f);
    if (f->gone)
        *f->gone = true;
    buf_done(&f->path);
    buf_done(&f->filename);
    f->transfer->form = NULL;
    transfer_free(f->transfer);
    free(f);
}

static void form_wrong(struct form *f, const char *field, const char *why)
{
    struct transfer *t = f->transfer;

    if (t->body)
        http_body_drop(TAKE_PTR(t->body));
    if (t->web)
        f->wrong(TAKE_PTR(t->web), field, why);
    if (f->have_file && !t->over)
        hang_up(t); /* the call ends, and then this */
    else
        form_free(f);
}

static const char *form_name(const struct form *f, struct arena *a)
{
    const char *name = arena_z(a, buf_view(&f->filename));
    const char *slash = strrchr(name, '/');

    name = slash ? slash + 1 : name;
    return *name && strcmp(name, ".") && strcmp(name, "..") ? name : "upload";
}

static void on_moved(void *arg, const struct call *c)
{
    struct form *f = arg;

    f->waits = c->outcome != OUTCOME_OK;
    f->transfer->done(TAKE_PTR(f->transfer->web), c);
    form_free(f);
}

/* The form said where the file goes only after the file itself: it waits beside. */
static void form_move(struct form *f)
{
    struct web *w = f->transfer->web;
    struct box *b = web_find_box(w, str_of(f->box.id));
    struct json *params = NULL;
    struct buf text;
    struct jw j = { .out = &text };
    struct err e;

    buf_init(&text, 64 * KiB);
    jw_obj(&j);
    jw_kz(&j, "source", f->temporary);
    put_path(&j, "destination", f->have_path ? buf_view(&f->path) : STR("/tmp/"));
    put_path(&j, "name", str_of(form_name(f, w->http->arena)));
    jw_kbool(&j, "overwrite", true);
    jw_kbool(&j, "into", true);
    jw_obj_end(&j);
    struct str copy = arena_copy(w->http->arena, buf_view(&text));
    buf_done(&text);
    (void)json_parse(w->http->arena, copy, &params, &e);
    struct call_request r = { .surface = STR("aio"),
                              .worker = str_of(f->box.id),
                              .action = STR("file:move"),
                              .params = params,
                              .trace = str_of(w->request_id),
                              .box = b,
                              .box_gone = !b };
    (void)web_call(w, &r, on_moved, f);
}

static void on_form_file(void *arg, const struct call *c)
{
    struct transfer *t = arg;
    struct form *f = t->form;

    t->over = true;
    f->waits = f->in_tmp && c->outcome == OUTCOME_OK;
    hang_up(t);
    if (!t->web) { /* answered: the form was wrong, or the client left */
        form_free(f);
        return;
    }
    if (c->outcome != OUTCOME_OK || !f->in_tmp) {
        if (t->body)
            http_body_drop(TAKE_PTR(t->body));
        t->done(TAKE_PTR(t->web), c);
        form_free(f);
        return;
    }
    struct json *data = NULL;
    struct err e;
    if (json_parse(t->web->http->arena, arena_copy(t->web->http->arena, c->data), &data, &e) == 0) {
        t->web->bytes = json_get_int(data, "bytes", 0);
        t->web->sha256 = json_get_str(data, "sha256");
    }
    if (t->body)
        http_body_resume(t->body); /* the rest of the form */
    else
        form_move(f);
}

static void on_form_stream(void *arg, int take_fd)
{
    struct transfer *t = arg;

    t->fd = take_fd;
    if (!t->web) {
        hang_up(t);
        return;
    }
    t->plug = plug_new(t->node->loop, take_fd, &in_handler, t);
    if (t->body)
        http_body_resume(t->body);
}

static void form_begin_file(struct form *f)
{
    struct web *w = f->transfer->web;
    struct box *b = web_find_box(w, str_of(f->box.id));
    struct buf text;
    struct jw j = { .out = &text };
    char uuid[37];

    if (!b) {
        form_wrong(f, "file", "the box is gone");
        return;
    }
    f->have_file = true;
    f->in_tmp = !f->have_path;
    buf_init(&text, 64 * KiB);
    jw_obj(&j);
    if (f->have_path) {
        put_path(&j, "path", buf_view(&f->path));
    } else {
        web_uuid(uuid);
        snprintf(f->temporary, sizeof f->temporary, "/tmp/.form-%s", uuid);
        jw_kz(&j, "path", f->temporary);
    }
    put_path(&j, "name", str_of(form_name(f, w->http->arena)));
    jw_obj_end(&j);
    struct transfer_ask ask = { .tool = "file:upload", .params = buf_view(&text) };
    start(f->transfer, b, &ask, on_form_file, on_form_stream);
    buf_done(&text);
}

/* What is at the front of the form; returns how many bytes of it were used up. False: the form is over. */
static bool form_step(struct form *f, struct str data, size_t *ret_used)
{
    struct transfer *t = f->transfer;
    struct multipart_part part;
    struct err e;
    size_t n = 0;

    *ret_used = 0;
    int r = multipart_next(&f->parser, data, &part, &n, &e);
    if (r < 0) {
        form_wrong(f, "file", e.msg);
        return false;
    }
    switch ((enum multipart_event)r) {
    case MULTIPART_MORE: break;
    case MULTIPART_PART:
        f->part = str_is(part.name, "file") ? PART_FILE : str_is(part.name, "path") ? PART_PATH : PART_OTHER;
        if (f->part == PART_FILE && f->have_file) {
            form_wrong(f, "file", "file: only one file is taken at a time");
            return false;
        }
        if (f->part == PART_FILE) {
            buf_str(&f->filename, part.filename);
            *ret_used = n;
            http_body_pause(t->body);
            form_begin_file(f);
            return false;
        }
        break;
    case MULTIPART_DATA:
        if (f->part == PART_FILE) {
            n = t->plug ? plug_write(t->plug, (struct str){ data.p, n }) : n;
            if (n == 0)
                http_body_pause(t->body);
        } else if (f->part == PART_PATH && !buf_add(&f->path, data.p, n)) {
            form_wrong(f, "path", "path: longer than LIMIT_PATH");
            return false;
        }
        break;
    case MULTIPART_PART_END:
        if (f->part == PART_PATH)
            f->have_path = f->path.n > 0;
        if (f->part == PART_FILE && t->plug) {
            plug_end(t->plug);
            t->sent = true;
            if (f->in_tmp)
                http_body_pause(t->body); /* what follows decides where it goes, once it is there */
        }
        f->part = PART_NONE;
        break;
    case MULTIPART_END: break;
    }
    *ret_used = n;
    return n > 0;
}

static size_t on_form(void *arg, struct str data, bool last)
{
    struct form *f = arg;
    struct transfer *t = f->transfer;
    bool gone = false, more = true;
    size_t used = 0, n;

    f->gone = &gone;
    while (more) {
        more = form_step(f, (struct str){ data.p + used, data.n - used }, &n);
        if (gone)
            return 0;
        used += n;
        more = more && !(t->sent && f->in_tmp && !t->over); /* else it is paused */
    }
    f->gone = NULL;
    if (!t->body) /* it was dropped: answered */
        return 0;
    if (!last || used < data.n)
        return used;
    t->body = NULL;
    if (!t->sent) {
        form_wrong(f, "file", f->have_file ? "file: the form ends in the middle of it" : "file: field required");
        return used;
    }
    if (t->over && f->in_tmp)
        form_move(f);
    return used;
}

static void on_form_failed(void *arg)
{
    struct form *f = arg;

    f->transfer->body = NULL;
    form_wrong(f, "file", "the form did not arrive whole");
}
static const struct http_body_handler form_handler = { .take = on_form, .failed = on_form_failed };

void transfer_form(struct web *w, struct box *b, void (*done)(struct web *w, const struct call *c),
                   void (*wrong)(struct web *w, const char *field, const char *why))
{
    struct form *f = calloc(1, sizeof *f);
    struct err e;

    if (!f)
        abort();
    f->wrong = wrong;
    f->tenant = w->tenant;
    f->transfer = transfer_new(w, done);
    f->transfer->form = f;
    memcpy(f->box.id, b->id, sizeof f->box.id);
    buf_init(&f->path, LIMIT_PATH);
    buf_init(&f->filename, MULTIPART_HEAD_MAX);
    struct str query = http_query(w->http, "path");
    if (query.n && query.n <= LIMIT_PATH) {
        buf_str(&f->path, query);
        f->have_path = true;
    }
    struct str type = http_header(w->http, "content-type");
    if (!w->http->streaming || multipart_init(&f->parser, type.p ? type : STR(""), &e) < 0) {
        form_wrong(f, "file", w->http->streaming ? e.msg : "file: field required");
        return;
    }
    f->transfer->body = http_body_begin(w->http, &form_handler, f);
}

/* --- our own routes --- */

static void on_own_done(struct web *w, const struct call *c)
{
    struct buf b;

    if (c->outcome != OUTCOME_OK && c->outcome != OUTCOME_PID_LIMIT) {
        bool disk = c->outcome == OUTCOME_DISK_FULL;
        int status = c->outcome == OUTCOME_INFRA_ERROR || c->outcome == OUTCOME_BOX_LOST ? 503
                     : disk                                                              ? 507
                     : c->error == ERR_SYSTEM                                            ? 400
                                                                                         : web_status_of(c->error);
        web_error(w, status ? status : 400, c->error ? c->error : ERR_SYSTEM, "%.*s", STR_ARG(c->message));
        return;
    }
    buf_init(&b, LIMIT_RECORD);
    buf_str(&b, c->data);
    web_send(w, 200, &b);
}

static void add_query(struct web *w, struct jw *j, const char *name)
{
    struct str s = http_query(w->http, name);

    if (s.p)
        jw_kstr(j, name, s);
}

static void ask_box(struct web *w, struct box *b)
{
    static const char *const tools[] = { "file:upload", "file:download", "file:upload_tar", "file:download_tar" };
    bool tree = str_is((struct str){ w->path.p + w->path.n - 5, 5 }, "/tree");
    bool in = str_is(w->http->method, "PUT");
    struct buf text;
    struct jw j = { .out = &text };

    buf_init(&text, 64 * KiB);
    jw_obj(&j);
    struct str path = http_query(w->http, "path");
    if (path.p)
        put_path(&j, "path", path);
    if (in && !tree)
        add_query(w, &j, "mode");
    if (in && tree)
        add_query(w, &j, "links");
    if (!in && !tree) {
        add_query(w, &j, "on_change");
        transfer_range(w, &j);
    }
    jw_obj_end(&j);
    struct transfer_ask ask = { .tool = tools[2 * tree + !in], .params = buf_view(&text), .done = on_own_done };
    if (in)
        transfer_in(w, b, &ask);
    else
        transfer_out(w, b, &ask, !tree);
    buf_done(&text);
}

static void route_files(struct web *w)
{
    w->box_name = w->match.id;
    web_box(w, ask_box);
}

const struct route transfer_routes[] = {
    { "PUT", "/sg/v1/boxes/{id}/files", route_files, ROUTE_RAW | ROUTE_STREAM, "path mode" },
    { "GET", "/sg/v1/boxes/{id}/files", route_files, ROUTE_RAW, "path on_change" },
    { "HEAD", "/sg/v1/boxes/{id}/files", route_files, ROUTE_RAW, "path on_change" },
    { "PUT", "/sg/v1/boxes/{id}/tree", route_files, ROUTE_RAW | ROUTE_STREAM, "path links" },
    { "GET", "/sg/v1/boxes/{id}/tree", route_files, ROUTE_RAW, "path" },
    { 0 },
};

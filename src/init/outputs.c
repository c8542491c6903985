#include "init/outputs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"

enum { DEPTH_MAX = 20 }; /* of a value; around it are the list, the output and its data */

struct output {
    struct output *next;
    char type[24];
    char name[8];         /* stream */
    struct stream stream; /* stream */
    char *data;           /* else: members as JSON, without braces */
    size_t n;
    char *display_id;
    char *plain; /* text/plain */
};

void outputs_init(struct outputs *o, int64_t head, int64_t tail)
{
    *o = (struct outputs){ .head = head, .tail = tail };
    o->end = &o->list;
}

static void output_free(struct output *p)
{
    stream_done(&p->stream);
    free(p->data);
    free(p->display_id);
    free(p->plain);
    free(p);
}

static void clear(struct outputs *o)
{
    for (struct output *p = o->list, *next; p; p = next) {
        next = p->next;
        output_free(p);
    }
    o->list = NULL;
    o->end = &o->list;
    o->count = 0;
    o->bytes = 0;
    o->clear_next = false;
}

void outputs_done(struct outputs *o)
{
    clear(o);
}

static struct output *last_of(const struct outputs *o)
{
    struct output *p = o->list;

    while (p && p->next)
        p = p->next;
    return p;
}

static struct output *output_new(struct outputs *o, const char *type)
{
    if (o->clear_next)
        clear(o);
    if (o->count >= LIMIT_CELL_OUTPUTS) {
        o->too_many++;
        return NULL;
    }
    struct output *p = calloc(1, sizeof *p);
    if (!p)
        abort();
    snprintf(p->type, sizeof p->type, "%s", type);
    p->stream.memfd = -1;
    *o->end = p;
    o->end = &p->next;
    o->count++;
    return p;
}

static int depth_of(const struct json *v, int at)
{
    int most = at;

    if (at > DEPTH_MAX)
        return at;
    for (const struct json *m = v ? v->first : NULL; m; m = m->next) {
        int d = depth_of(m, at + 1);
        most = d > most ? d : most;
    }
    return most;
}

/* An object of the kernel's, or {} if it is none or nests too deep to be handed on. */
static struct str object(const struct json *v)
{
    return v && v->type == JSON_OBJ && depth_of(v, 0) <= DEPTH_MAX ? v->raw : STR("{}");
}

static struct output *stream_of(struct outputs *o, struct str name)
{
    struct output *p = o->clear_next ? NULL : last_of(o);
    const char *which = str_is(name, "stderr") ? "stderr" : "stdout";

    if (p && strcmp(p->type, "stream") == 0 && strcmp(p->name, which) == 0)
        return p;
    p = output_new(o, "stream");
    if (!p)
        return NULL;
    int64_t part = o->count > 128 ? 64 : o->count > 16 ? 16 : 1; /* a thousand streams are not each a whole one */
    snprintf(p->name, sizeof p->name, "%s", which);
    stream_init(&p->stream, o->head / part, o->tail / part, 0);
    return p;
}

static void add_stream(struct outputs *o, struct str name, struct str text)
{
    struct output *p = stream_of(o, name);

    if (p)
        stream_add(&p->stream, text.p, text.n);
    else
        o->dropped += (int64_t)text.n;
}

/* A piece of a JSON string, decoded. It may begin or end inside an escape or a character: then a little less of it. */
static struct str decode_piece(struct arena *a, struct str piece, bool from_front)
{
    for (size_t off = 0; off < 16 && off < piece.n; off++) {
        struct str part = { piece.p + (from_front ? off : 0), piece.n - off };
        char *quoted = arena_printf(a, "\"%.*s\"", STR_ARG(part));
        struct json *j = NULL;
        if (json_parse(a, str_of(quoted), &j, NULL) >= 0)
            return j->s;
    }
    return (struct str){ 0 };
}

void outputs_add_cut(struct outputs *o, struct str head, struct str tail, int64_t missing)
{
    struct arena a = { 0 };
    static const char key[] = "\"text\":", end[] = "\"}";
    bool is_stderr = memmem(head.p, head.n < 64 ? head.n : 64, "stderr", 6) != NULL;
    struct output *p = stream_of(o, is_stderr ? STR("stderr") : STR("stdout"));
    const char *at = head.n ? memmem(head.p, head.n < 256 ? head.n : 256, key, sizeof key - 1) : NULL;
    const char *value = at ? at + sizeof key - 1 : NULL;
    size_t left = value ? (size_t)(head.p + head.n - value) : 0;
    const char *quote = left ? memchr(value, '"', left < 8 ? left : 8) : NULL;

    if (p && quote) {
        struct str first = decode_piece(&a, (struct str){ quote + 1, head.n - (size_t)(quote + 1 - head.p) }, false);
        bool ends = tail.n > 2 && memcmp(tail.p + tail.n - 2, end, 2) == 0;
        struct str last = decode_piece(&a, (struct str){ tail.p, ends ? tail.n - 2 : 0 }, true);
        stream_add(&p->stream, first.p, first.n);
        stream_skip(&p->stream, missing);
        stream_add(&p->stream, last.p, last.n);
    } else {
        o->dropped += missing;
    }
    arena_done(&a);
}

static char *copy(struct str s)
{
    char *p = malloc(s.n + 1);

    if (!p)
        abort();
    if (s.n)
        memcpy(p, s.p, s.n);
    p[s.n] = 0;
    return p;
}

static void set_data(struct output *p, struct buf *b, const struct json *content)
{
    const struct json *data = json_get(content, "data");
    struct str plain = json_get_str(data, "text/plain");
    struct str id = json_get_str(json_get(content, "transient"), "display_id");

    free(p->data);
    free(p->plain);
    p->data = copy(buf_view(b));
    p->n = b->n;
    p->plain = plain.p
                   ? copy((struct str){ plain.p, plain.n < (size_t)LIMIT_OUTPUT_HEAD ? plain.n : LIMIT_OUTPUT_HEAD })
                   : NULL;
    if (id.n && !p->display_id)
        p->display_id = copy(id);
}

static void print_rich(struct buf *b, struct str type, const struct json *content)
{
    struct jw w = { .out = b };

    if (str_is(type, "error")) {
        const struct json *lines = json_get(content, "traceback");
        jw_kstr(&w, "ename", json_get_str(content, "ename").p ? json_get_str(content, "ename") : STR("Error"));
        jw_kstr(&w, "evalue", json_get_str(content, "evalue").p ? json_get_str(content, "evalue") : STR(""));
        jw_key(&w, "traceback");
        jw_arr(&w);
        for (const struct json *l = lines ? lines->first : NULL; l; l = l->next)
            if (l->type == JSON_STR)
                jw_str(&w, l->s);
        jw_arr_end(&w);
        return;
    }
    jw_kraw(&w, "data", object(json_get(content, "data")));
    jw_kraw(&w, "metadata", object(json_get(content, "metadata")));
    if (str_is(type, "execute_result"))
        jw_kint(&w, "execution_count", json_get_int(content, "execution_count", 0));
}

static void add_rich(struct outputs *o, struct str type, const struct json *content)
{
    struct buf b = { .cap = LIMIT_CELL_BYTES };
    struct output *p;

    print_rich(&b, type, content);
    if (b.full || o->bytes + (int64_t)b.n > LIMIT_CELL_BYTES) {
        char line[128];
        struct str raw = json_get(content, "data") ? json_get(content, "data")->raw : (struct str){ 0 };
        int n = snprintf(line, sizeof line, "[%zu bytes of %.*s left out: LIMIT_CELL_BYTES is %ld]\n", raw.n,
                         STR_ARG(type), (long)LIMIT_CELL_BYTES);
        add_stream(o, STR("stderr"), (struct str){ line, (size_t)n });
        o->dropped += (int64_t)raw.n;
    } else if ((p = output_new(o, str_is(type, "error")            ? "error"
                                  : str_is(type, "execute_result") ? "execute_result"
                                                                   : "display_data"))) {
        set_data(p, &b, content);
        o->bytes += (int64_t)b.n;
    }
    buf_done(&b);
}

static void update(struct outputs *o, const struct json *content)
{
    struct str id = json_get_str(json_get(content, "transient"), "display_id");
    bool found = false;

    for (struct output *p = o->list; p; p = p->next) {
        struct buf b = { .cap = LIMIT_CELL_BYTES };
        if (!p->display_id || !str_is(id, p->display_id))
            continue;
        found = true;
        print_rich(&b, STR("display_data"), content);
        if (strcmp(p->type, "execute_result") == 0)
            buf_printf(&b, ",\"execution_count\":null");
        if (!b.full && o->bytes - (int64_t)p->n + (int64_t)b.n <= LIMIT_CELL_BYTES) {
            o->bytes += (int64_t)b.n - (int64_t)p->n;
            set_data(p, &b, content);
        } else {
            o->dropped += (int64_t)b.n;
        }
        buf_done(&b);
    }
    if (!found) /* it is an earlier cell's, which was told already */
        add_rich(o, STR("display_data"), content);
}

void outputs_add(struct outputs *o, struct str type, const struct json *content)
{
    if (str_is(type, "stream"))
        add_stream(o, json_get_str(content, "name"), json_get_str(content, "text"));
    else if (str_is(type, "clear_output") && json_get_bool(content, "wait", false))
        o->clear_next = true;
    else if (str_is(type, "clear_output"))
        clear(o);
    else if (str_is(type, "update_display_data"))
        update(o, content);
    else if (str_is(type, "execute_result") || str_is(type, "display_data") || str_is(type, "error"))
        add_rich(o, type, content);
}

void outputs_note(struct outputs *o, const char *stream, struct str text)
{
    add_stream(o, str_of(stream), text);
}

void outputs_print(const struct outputs *o, struct jw *w)
{
    struct arena a = { 0 };

    jw_arr(w);
    for (const struct output *p = o->list; p; p = p->next) {
        jw_obj(w);
        jw_kz(w, "output_type", p->type);
        if (p->data) {
            struct jw members = { .out = w->out, .comma = true };
            buf_char(members.out, ',');
            buf_add(members.out, p->data, p->n);
            w->comma = true;
        } else {
            jw_kz(w, "name", p->name);
            jw_kstr(w, "text", stream_text(&p->stream, &a));
        }
        jw_obj_end(w);
    }
    jw_arr_end(w);
    arena_done(&a);
}

struct str outputs_text(const struct outputs *o, const char *stream, bool rich, struct arena *a)
{
    struct buf b = { .cap = (size_t)(o->head + o->tail) * 4 + KiB };

    for (const struct output *p = o->list; p; p = p->next) {
        if (!p->data && strcmp(p->name, stream) == 0)
            buf_str(&b, stream_text(&p->stream, a));
        else if (rich && p->plain)
            buf_printf(&b, "%s\n", p->plain);
    }
    struct str text = arena_copy(a, buf_view(&b));
    buf_done(&b);
    return text;
}

struct str outputs_plain(struct str s, struct arena *a)
{
    struct buf b = { .cap = s.n };

    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] == 0x1b && i + 1 < s.n && s.p[i + 1] == '[') {
            for (i += 2; i < s.n && !(s.p[i] >= 0x40 && s.p[i] <= 0x7e);)
                i++;
            continue;
        }
        buf_char(&b, s.p[i]);
    }
    struct str text = arena_copy(a, buf_view(&b));
    buf_done(&b);
    return text;
}

int64_t outputs_dropped(const struct outputs *o)
{
    int64_t n = o->dropped;

    for (const struct output *p = o->list; p; p = p->next)
        if (!p->data)
            n += stream_dropped(&p->stream);
    return n;
}

/* The page holds what agents and the pages that they visited said: all of it is escaped, nothing in it can run (no
 * script at all, a policy that forbids any, pictures only as data), and it asks no server for anything. */
#include "cli/log_html.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/auto.h"
#include "base/limits.h"
#include "cli/picture.h"
#include "cli/text.h"
#include "wire/outcome.h"

__asm__(".section .rodata\nlog_css:\n.incbin \"src/cli/page/log.css\"\n.byte 0\n.previous\n");
extern const char log_css[];

enum { PAGE = 100, OPEN_LINES = 16, INLINE_BYTES = 120, VALUE_MAX = 256 * 1024 };

struct page {
    struct api *api;
    struct arena arena; /* of a step */
    const char *id;
    FILE *out;
    int64_t last;
};

/* --- text --- */

/* Control characters as people write them: a bell is ^G, an escape ^[. */
static void put(FILE *out, struct str s)
{
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        switch (c) {
        case '&': fputs("&amp;", out); break;
        case '<': fputs("&lt;", out); break;
        case '>': fputs("&gt;", out); break;
        case '"': fputs("&quot;", out); break;
        case '\'': fputs("&#39;", out); break;
        case '\n':
        case '\t': putc(c, out); break;
        case '\r': break;
        default:
            if (c < 0x20 || c == 0x7f)
                fprintf(out, "^%c", c ^ 0x40);
            else
                putc(c, out);
        }
    }
}

static void put_z(FILE *out, const char *z)
{
    put(out, str_of(z));
}

static size_t lines_of(struct str s)
{
    size_t n = s.n && s.p[s.n - 1] != '\n';

    for (size_t i = 0; i < s.n; i++)
        n += s.p[i] == '\n';
    return n;
}

static struct str cut(struct str s)
{
    if (s.n <= VALUE_MAX)
        return s;
    s.n = VALUE_MAX;
    while (s.n && ((unsigned char)s.p[s.n] & 0xc0) == 0x80) /* not within a character */
        s.n--;
    return s;
}

static void put_pre(const struct page *p, const char *class, struct str s)
{
    struct str shown = cut(s);

    fprintf(p->out, "<pre%s%s%s>", class ? " class=\"" : "", class ? class : "", class ? "\"" : "");
    put(p->out, shown);
    if (shown.n < s.n)
        fprintf(p->out, "\n... %zu more bytes are in the log", s.n - shown.n);
    fputs("</pre>\n", p->out);
}

/* A long one is closed, and says how long it is. */
static void put_block(const struct page *p, const char *name, const char *class, struct str s)
{
    size_t lines = lines_of(s);
    bool closed = lines > OPEN_LINES || s.n > 4000;

    if (closed)
        fputs("<details><summary>", p->out);
    else
        fputs("<p class=\"label\">", p->out);
    put_z(p->out, name);
    if (closed)
        fprintf(p->out, ", %zu lines, %s</summary>", lines, size_text((struct arena *)&p->arena, (int64_t)s.n));
    else
        fputs("</p>", p->out);
    put_pre(p, class, s);
    if (closed)
        fputs("</details>\n", p->out);
}

/* --- values --- */

static struct str text_of(const struct json *v)
{
    return v->type == JSON_STR ? v->s : v->raw;
}

static bool is_short(const struct json *v)
{
    struct str s = text_of(v);

    return s.n <= INLINE_BYTES && !memchr(s.p ? s.p : "", '\n', s.n);
}

static bool is_empty(const struct json *v)
{
    return v->type == JSON_NULL || (v->type == JSON_STR && !v->s.n) ||
           ((v->type == JSON_ARR || v->type == JSON_OBJ) && !v->count) || (v->type == JSON_BOOL && !v->b);
}

/* Shown by itself, or nothing new: 0 bytes of an output, what was asked for said once more. */
static bool is_noise(const struct json *v, const char *const *skip, const struct json *asked)
{
    bool noise = is_empty(v);

    for (const struct json *a = asked ? asked->first : NULL; a && !noise; a = a->next)
        noise = str_eq(a->name, v->name) && str_eq(a->raw, v->raw);

    for (size_t i = 0; skip[i] && !noise; i++)
        noise = str_is(v->name, skip[i]);
    return noise;
}

/* The short members in a row, then the long ones. asked: what need not be repeated, or NULL. */
static void put_members(const struct page *p, const struct json *obj, const char *const *skip, const struct json *asked)
{
    for (int pass = 0; pass < 2; pass++) {
        bool any = false;
        for (const struct json *v = obj ? obj->first : NULL; v; v = v->next) {
            if (is_noise(v, skip, asked) || is_short(v) != (pass == 0))
                continue;
            char *name = arena_z((struct arena *)&p->arena, v->name);
            if (pass == 1) {
                put_block(p, name, NULL, text_of(v));
                continue;
            }
            fputs(any ? "<div><dt>" : "<dl class=\"pairs\"><div><dt>", p->out);
            any = true;
            put_z(p->out, name);
            fputs("</dt><dd>", p->out);
            put(p->out, text_of(v));
            fputs("</dd></div>\n", p->out);
        }
        if (any)
            fputs("</dl>\n", p->out);
    }
}

/* --- a step --- */

static const char *class_of(struct str outcome)
{
    int o = outcome_find(outcome.p ? outcome.p : "", outcome.n);

    return !outcome.n ? "run" : o == OUTCOME_OK ? "ok" : o == OUTCOME_TASK_ERROR ? "task" : "bad";
}

static void put_clock(const struct page *p, const struct json *time, bool with_day)
{
    time_t s = (time_t)(time_us(time) / 1000000);
    char text[40];
    struct tm tm;

    gmtime_r(&s, &tm);
    size_t n = with_day ? strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &tm)
                        : strftime(text, sizeof text, "%H:%M:%S", &tm);
    put(p->out, (struct str){ text, n });
}

static void put_title(struct page *p, const struct json *s, const char *class)
{
    struct str outcome = json_get_str(s, "outcome");
    int64_t n = json_get_int(s, "step", 0), us = json_get_int(s, "total_us", -1);

    fprintf(p->out, "<h2><a class=\"n\" href=\"#s%lld\">#%lld</a><span class=\"tool\">", (long long)n, (long long)n);
    put(p->out, json_get_str(s, "tool"));
    fprintf(p->out, "</span><span class=\"chip %s\">", class);
    put(p->out, outcome.n ? outcome : STR("running"));
    fputs("</span><span class=\"when\">", p->out);
    if (us >= 0)
        fprintf(p->out, "%s &middot; ", span_text(&p->arena, us));
    put_clock(p, json_get(s, "time"), false);
    fputs("</span></h2>\n", p->out);
}

static void put_request(struct page *p, const struct json *params)
{
    static const char *const own[] = { "command", NULL };
    struct str command = json_get_str(params, "command");

    if (command.n)
        put_pre(p, "command", command);
    put_members(p, params, own, NULL);
}

static void put_result(struct page *p, const struct json *s)
{
    static const char *const own[] = { "stdout",       "stderr",       "output", "return_code",
                                       "stdout_bytes", "stderr_bytes", "cwd",    NULL };
    const struct json *data = json_get(s, "observation");
    struct str out = json_get_str(data, "stdout"), err = json_get_str(data, "stderr"),
               message = json_get_str(s, "message"), output = json_get_str(data, "output");

    if (message.n && !str_is(json_get_str(s, "outcome"), "ok") && !str_eq(message, json_get_str(s, "outcome"))) {
        fputs("<p class=\"message\">", p->out);
        put(p->out, cut(message));
        fputs("</p>\n", p->out);
    }
    if (out.n)
        put_block(p, "output", NULL, out);
    else if (output.n)
        put_block(p, "output", NULL, output);
    if (err.n)
        put_block(p, "errors", "err", err);
    if (data && data->type == JSON_OBJ)
        put_members(p, data, own, json_get(s, "params"));
    else if (data && !is_empty(data))
        put_block(p, "result", NULL, text_of(data));
}

static void put_picture(struct page *p, const char *name, struct str url, const char *class)
{
    fprintf(p->out, "<figure class=\"%s\"><img alt=\"%s\" src=\"", class, name);
    put(p->out, url);
    fprintf(p->out, "\"><figcaption>%s</figcaption></figure>\n", name);
}

static void put_pictures(struct page *p, const struct json *s)
{
    static const char *const names[] = { "image", "before", "after" }, *const said[] = { "picture", "before", "after" };
    const struct json *blobs = json_get(s, "blobs");
    struct str urls[3];
    size_t n = 0;

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        urls[i] = picture_url(p->api, &p->arena, p->id, blobs, json_get_int(s, "step", 0), names[i]);
        n += urls[i].n > 0;
    }
    if (!n)
        return;
    fputs("<div class=\"pictures\">\n", p->out);
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (urls[i].n)
            put_picture(p, said[i], urls[i], n == 1 ? "one" : "two");
    fputs("</div>\n", p->out);
}

static void put_use(struct page *p, const struct json *s)
{
    struct str box = json_get_str(s, "box"), state = json_get_str(s, "state_id"), root = json_get_str(s, "state_root");
    int64_t cpu = json_get_int(s, "cpu_us", 0), peak = json_get_int(s, "peak_bytes", 0),
            pids = json_get_int(s, "pids_peak", -1), disk = json_get_int(s, "disk_used_bytes", -1),
            queued = json_get_int(s, "queued_us", 0), dropped = json_get_int(s, "dropped_bytes", 0);

    fputs("<p class=\"use\">", p->out);
    if (box.n) {
        fputs("<span>box <code>", p->out);
        put(p->out, box);
        fputs("</code></span> ", p->out);
    }
    if (state.n) {
        fputs("<span>state <code>", p->out);
        put(p->out, state);
        fputs("</code></span> ", p->out);
    }
    if (root.n) {
        fputs("<span>root <code>", p->out);
        put(p->out, (struct str){ root.p, root.n < 19 ? root.n : 19 });
        fputs("</code></span> ", p->out);
    }
    if (queued > 1000)
        fprintf(p->out, "<span>waited %s</span> ", span_text(&p->arena, queued));
    if (cpu > 0)
        fprintf(p->out, "<span>CPU %s</span> ", span_text(&p->arena, cpu));
    if (peak > 0)
        fprintf(p->out, "<span>peak %s</span> ", size_text(&p->arena, peak));
    if (pids >= 0)
        fprintf(p->out, "<span>processes of the box at most %lld</span> ", (long long)pids);
    if (disk >= 0)
        fprintf(p->out, "<span>disk %s</span> ", size_text(&p->arena, disk));
    if (dropped > 0)
        fprintf(p->out, "<span>%s of output dropped</span> ", size_text(&p->arena, dropped));
    fputs("</p>\n", p->out);
}

static void put_step(struct page *p, const struct json *s)
{
    const char *class = class_of(json_get_str(s, "outcome"));
    const struct json *said = json_get(s, "annotations");

    fprintf(p->out, "<article id=\"s%lld\" class=\"%s\">\n", (long long)json_get_int(s, "step", 0), class);
    put_title(p, s, class);
    put_request(p, json_get(s, "params"));
    put_result(p, s);
    put_pictures(p, s);
    if (said && said->type == JSON_OBJ && said->count)
        put_block(p, "annotations", NULL, said->raw);
    put_use(p, s);
    fputs("</article>\n", p->out);
}

/* --- the page --- */

static int each_step(struct page *p, void (*show)(struct page *p, const struct json *s))
{
    p->last = 0;
    for (;;) {
        const struct json *answer;
        arena_reset(&p->api->arena);
        char *tail = arena_printf(&p->api->arena, "/steps?after=%lld&limit=%d", (long long)p->last, PAGE);
        int r = api_get(p->api, api_path(p->api, "/sg/v1/trajectories/", p->id, tail), &answer);
        if (r != 0)
            return r;
        const struct json *steps = json_get(answer, "steps");
        int64_t next = json_get_int(answer, "next", 0), before = p->last;
        for (const struct json *s = steps ? steps->first : NULL; s; s = s->next) {
            p->last = json_get_int(s, "step", p->last);
            show(p, s);
            arena_reset(&p->arena);
        }
        if (!next || p->last == before)
            return 0;
    }
}

static void put_fact(const struct page *p, const char *name, struct str value)
{
    if (!value.n)
        return;
    fprintf(p->out, "<div><dt>%s</dt><dd>", name);
    put(p->out, cut(value));
    fputs("</dd></div>\n", p->out);
}

static void put_dot(struct page *p, const struct json *s)
{
    struct str outcome = json_get_str(s, "outcome");
    int64_t n = json_get_int(s, "step", 0);

    fprintf(p->out, "<a class=\"%s\" href=\"#s%lld\" title=\"#%lld ", class_of(outcome), (long long)n, (long long)n);
    put(p->out, json_get_str(s, "tool"));
    fputs(": ", p->out);
    put(p->out, outcome.n ? outcome : STR("running"));
    fputs("\"></a>", p->out);
}

static void put_head(struct page *p, const struct json *t)
{
    const struct json *said = json_get(t, "annotations"), *reward = json_get(said, "reward");
    struct arena *a = &p->arena;

    fputs("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
          "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
          "img-src data:; base-uri 'none'; form-action 'none'\">\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
          "<meta name=\"referrer\" content=\"no-referrer\">\n<title>",
          p->out);
    put_z(p->out, p->id);
    fprintf(p->out, "</title>\n<style>\n%s</style></head><body>\n<header><div><p class=\"made\">Trajectory</p><h1>",
            log_css);
    put_z(p->out, p->id);
    fputs("</h1>\n<dl class=\"facts\">\n", p->out);
    put_fact(p, "worker", json_get_str(t, "worker"));
    put_fact(p, "steps", str_of(arena_printf(a, "%lld", (long long)json_get_int(t, "steps", 0))));
    fputs("<div><dt>began</dt><dd>", p->out);
    put_clock(p, json_get(t, "opened"), true);
    fputs("</dd></div>\n", p->out);
    const struct json *outcomes = json_get(t, "outcomes");
    for (const struct json *o = outcomes ? outcomes->first : NULL; o; o = o->next) {
        fprintf(p->out, "<div><span class=\"chip %s\">", class_of(o->name));
        put(p->out, o->raw);
        putc(' ', p->out);
        put(p->out, o->name);
        fputs("</span></div>\n", p->out);
    }
    if (reward && reward->type == JSON_NUM)
        put_fact(p, "reward", reward->raw);
    const struct json *tags = json_get(said, "tags");
    for (const struct json *v = tags && tags->type == JSON_ARR ? tags->first : NULL; v; v = v->next)
        put_fact(p, "tag", v->s);
    put_fact(p, "note", json_get_str(said, "note"));
    fputs("</dl>\n", p->out);
}

static int put_page(struct page *p)
{
    const struct json *t;
    int r = api_get(p->api, api_path(p->api, "/sg/v1/trajectories/", p->id, ""), &t);

    if (r != 0)
        return r;
    put_head(p, t);
    fputs("<nav class=\"map\">", p->out);
    r = each_step(p, put_dot);
    fputs("</nav></div></header>\n<main>\n", p->out);
    if (r == 0 && !p->last)
        fputs("<p class=\"none\">No steps yet.</p>\n", p->out);
    if (r == 0)
        r = each_step(p, put_step);
    fputs("</main></body></html>\n", p->out);
    return r;
}

int log_html(struct api *api, const char *id, const char *path)
{
    struct page p = { .api = api, .id = id, .out = stdout };

    if (path && strcmp(path, "-") != 0)
        p.out = fopen(path, "we");
    if (!p.out) {
        complain("log: %s: %s", path, strerror(errno));
        return EXIT_FAILED;
    }
    int r = put_page(&p);
    arena_done(&p.arena);
    bool failed = fflush(p.out) != 0 || ferror(p.out);
    if (p.out != stdout)
        failed |= fclose(p.out) != 0;
    if (r == 0 && failed) {
        complain("log: %s: it could not be written", path ? path : "standard output");
        r = EXIT_FAILED;
    }
    return r;
}

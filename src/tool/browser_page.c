/* Looking at the page: what is on it, how it looks, what it says, and waiting for it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/auto.h"
#include "base/limits.h"
#include "tool/browser_internal.h"
#ifdef IN_BOX
#include "base/loop.h"
#endif

const struct field browser_in_evaluate[] = {
    FIELD(STR, P, expression, "JavaScript; the value of the last expression is the result, a promise is awaited",
          .required = true, .max = 4 * MiB, .alias = "script"),
    TIMEOUT,
    { 0 },
};
const struct field browser_in_extract[] = { FIELD(STR, P, selector, "of this element; default: the page", .max = 8192),
                                            FIELD(STR, P, what, "what of it", .def_str = "text",
                                                  .choices = "text|html|links|value|attribute"),
                                            FIELD(STR, P, attribute, "its name", .max = 256),
                                            FIELD(BOOL, P, outer, "html: with the element itself"),
                                            TIMEOUT,
                                            { 0 } };
const struct field browser_in_screenshot[] = {
    FIELD(BOOL, P, full_page, "the whole page, not only what is in view"),
    FIELD(STR, P, format, "of the picture", .def_str = "png", .choices = "png|jpeg|webp"),
    FIELD(INT, P, quality, "of jpeg and webp", .def = 80, .min = 0, .max = 100),
    FIELD(STR, P, selector, "only this element", .max = 8192),
    TIMEOUT,
    { 0 },
};
const struct field browser_in_snapshot[] = { FIELD(INT, P, max, "lines at most", .def = 2000, .min = 1, .max = 20000),
                                             { 0 } };
const struct field browser_in_console[] = { FIELD(BOOL, P, clear, "forget them"),
                                            FIELD(STR, P, path, "write them into this file of the box, too",
                                                  .max = LIMIT_PATH),
                                            { 0 } };
const struct field browser_in_find[] = {
    FIELD(STR, P, text, "what to look for, in any case", .required = true, .max = 8192),
    { 0 },
};
const struct field browser_in_markdown[] = {
    FIELD(STR, P, selector, "of this element; default: the main part of the page", .max = 8192),
    { 0 },
};
const struct field browser_in_captcha[] = {
    FIELD(NUM, P, timeout,
          "wait so many seconds until none is left unsolved, or a person says so on the desktop's page", .def_num = 0,
          .min = 0, .max = 86400),
    FIELD(NUM, P, polling, "seconds between two looks", .def_num = 2, .min = 0.1, .max = 3600),
    { 0 },
};
const struct field browser_in_elements[] = { { 0 } };
const struct field browser_out_evaluate[] = {
    NEWS,
    FIELD(JSON, R, value, "the result, if JSON can say it"),
    FIELD(STR, R, type, "its type"),
    { 0 },
};
const struct field browser_out_extract[] = {
    NEWS,
    FIELD(STR, R, content, "the text", .nullable = true),
    FIELD(STR, R, text, "the same, of what = text"),
    FIELD(STR, R, html, "the same, of what = html"),
    FIELD(JSON, R, links, "of text and href"),
    { 0 },
};
const struct field browser_out_screenshot[] = { NEWS,
                                                FIELD(BYTES, R, image, "the picture in base64", .blob = true),
                                                FIELD(STR, R, mime_type, "of the picture"),
                                                FIELD(INT, R, width, "pixels"),
                                                FIELD(INT, R, height, "pixels"),
                                                { 0 } };
const struct field browser_out_snapshot[] = { NEWS,
                                              FIELD(STR, R, snapshot, "an outline: role, name, [ref=...], state",
                                                    .always = true),
                                              FIELD(BOOL, R, truncated, "there is more"),
                                              { 0 } };
const struct field browser_out_elements[] = {
    NEWS,
    FIELD(JSON, R, elements, "what can be acted on"),
    FIELD(INT, R, count, "of them"),
    { 0 },
};
const struct field browser_out_console[] = {
    NEWS,
    FIELD(JSON, R, messages, "type, text, url, line, timestamp, worker: one of those said it"),
    FIELD(STR, R, path, "the file"),
    { 0 },
};
const struct field browser_out_find[] = { NEWS,
                                          { .name = "found",
                                            .type = FIELD_JSON,
                                            .offset = __builtin_offsetof(R, found_at),
                                            .help = "text, context, tag, ref and place of each" },
                                          FIELD(INT, R, count, "of them"),
                                          { 0 } };
const struct field browser_out_markdown[] = { NEWS, FIELD(STR, R, markdown, "the text", .always = true), { 0 } };
const struct field browser_out_captcha[] = { NEWS,
                                             FIELD(BOOL, R, detected, "there is one"),
                                             FIELD(BOOL, R, checked,
                                                   "none is unsolved, or a person says that it is done"),
                                             FIELD(JSON, R, captchas, "type, site_key, solved, ref and place of each"),
                                             FIELD(INT, R, count, "of them"),
                                             { 0 } };

#ifdef IN_BOX

int browser_run_evaluate(struct hand *h, const void *params, void *result, struct err *e)
{
    const struct browser_params *p = params;
    struct browser_result *r = result;
    struct browser *b = browser_open(h, p, e);
    const struct json *v = NULL;

    if (!b)
        return -EIO;
    struct str x = p->expression;
    int n = browser_evaluate(h, b, x, &v, e);
    /* "return 1" is no expression; those who write it mean a function's body */
    if (n == -EINVAL && strstr(e->msg, "Illegal return"))
        n = browser_evaluate(h, b, str_of(arena_printf(h->arena, "(async () => { %.*s\n})()", STR_ARG(x))), &v, e);
    if (n == 0 && str_is(json_get_str(v, "type"), "function")) /* and some write a function that is to be called */
        n = browser_evaluate(h, b, str_of(arena_printf(h->arena, "(%.*s)()", STR_ARG(x))), &v, e);
    if (n >= 0) {
        r->type = json_get_str(v, "type");
        r->value = json_get(v, "value") ? json_get(v, "value")->raw : STR("null");
        n = browser_settle(h, b, e);
    }
    return browser_verdict(h, b, n, r, e);
}

int browser_run_extract(struct hand *h, const void *params, void *result, struct err *e)
{
    const struct browser_params *p = params;
    struct browser_result *r = result;
    struct browser *b = browser_open(h, p, e);
    struct spot at;
    struct buf o;
    struct jw j = { .out = &o };

    if (!b)
        return -EIO;
    buf_init(&o, 64 * KiB);
    jw_obj(&j);
    if (p->selector.n)
        jw_kstr(&j, "selector", p->selector);
    jw_kstr(&j, "what", p->what);
    jw_kstr(&j, "attribute", p->attribute);
    jw_kbool(&j, "outer", p->outer);
    jw_obj_end(&j);
    int n = browser_look(h, b, "extract", arena_copy(h->arena, buf_view(&o)), &at, e);
    buf_done(&o);
    if (n >= 0 && !at.at)
        n = browser_not_there(p, e);
    if (n >= 0) {
        r->content = json_get_str(at.at, "content");
        r->text = str_is(p->what, "text") ? r->content : (struct str){ 0 }; /* AgentFlow's names of it */
        r->html = str_is(p->what, "html") ? r->content : (struct str){ 0 };
        r->links = json_raw(at.at, "links");
    }
    return browser_verdict(h, b, n, r, e);
}

static int clip_of(struct hand *h, struct browser *b, const struct browser_params *p, struct jw *j,
                   struct browser_result *r, struct err *e)
{
    const struct json *m = NULL, *size;
    double x = 0, y = 0, w, hgt;
    struct spot at;
    int n;

    if (p->selector.n) {
        n = browser_locate(h, b, p, "locate", "", &at, e);
        if (n < 0)
            return n;
        w = json_number(at.at, "width"), hgt = json_number(at.at, "height");
        x = at.x - w / 2, y = at.y - hgt / 2;
    } else {
        n = browser_page(h, b, "Page.getLayoutMetrics", (struct str){ 0 }, &m, e);
        if (n < 0)
            return n;
        size = json_get(m, p->full_page ? "cssContentSize" : "cssLayoutViewport");
        w = json_number(size, p->full_page ? "width" : "clientWidth");
        hgt = json_number(size, p->full_page ? "height" : "clientHeight");
    }
    if (w * hgt > 100e6 || w > 32000 || hgt > 32000)
        return err_set(e, ERR_LIMIT, "a picture of %.0f x %.0f pixels exceeds 100 megapixels or 32000 on a side", w,
                       hgt);
    r->width = (int64_t)w;
    r->height = (int64_t)hgt;
    if (!p->full_page && !p->selector.n)
        return 0;
    jw_key(j, "clip");
    jw_obj(j);
    jw_knum(j, "x", x);
    jw_knum(j, "y", y);
    jw_knum(j, "width", w > 1 ? w : 1);
    jw_knum(j, "height", hgt > 1 ? hgt : 1);
    jw_knum(j, "scale", 1);
    jw_obj_end(j);
    jw_kbool(j, "captureBeyondViewport", p->full_page);
    return 0;
}

int browser_run_screenshot(struct hand *h, const void *params, void *result, struct err *e)
{
    const struct browser_params *p = params;
    struct browser_result *r = result;
    struct browser *b = browser_open(h, p, e);
    const struct json *v = NULL;
    struct buf o;
    struct jw j = { .out = &o };

    if (!b)
        return -EIO;
    buf_init(&o, 64 * KiB);
    jw_obj(&j);
    jw_kstr(&j, "format", p->format);
    if (!str_is(p->format, "png"))
        jw_kint(&j, "quality", p->quality);
    int n = clip_of(h, b, p, &j, r, e);
    jw_obj_end(&j);
    if (n >= 0)
        n = browser_page(h, b, "Page.captureScreenshot", buf_view(&o), &v, e);
    buf_done(&o);
    if (n >= 0) {
        r->image = base64_decode(h->arena, json_get_str(v, "data"));
        r->mime_type = str_of(arena_printf(h->arena, "image/%.*s", STR_ARG(p->format)));
    }
    return browser_verdict(h, b, n, r, e);
}

/* --- what is on the page, and in the frames of it that it cannot look into --- */

struct documents {
    struct frame frames[FRAMES_MAX];
    size_t count, next; /* the page's own is the first */
    double x, y;        /* where the one at hand begins, in the viewport */
};

/* Asks the next document that has an answer; `more` are members of how it is asked. 1: *ret, 0: there is none left. */
static int ask_next(struct hand *h, struct browser *b, struct documents *d, const char *act, const char *more,
                    const struct json **ret, struct err *e)
{
    struct err gone;

    *ret = NULL;
    d->x = d->y = 0;
    if (d->next == 0) {
        int n = browser_act(h, b, act, str_of(arena_printf(h->arena, "{%s}", more)), ret, e);
        d->count = n < 0 ? 0 : browser_frames(b, d->frames, FRAMES_MAX);
        d->next = 1;
        if (n < 0 || *ret)
            return n < 0 ? n : 1;
    }
    while (d->next < d->count) {
        struct frame *f = &d->frames[d->next++];
        char *how = arena_printf(h->arena, "{\"foreign\":true,\"prefix\":\"f%.4s\",%s}", f->id, more);
        if (browser_act_in(h, b, f, act, str_of(how), ret, &gone) < 0 || !*ret ||
            browser_frame_place(h, b, f, &d->x, &d->y, &gone) < 0)
            *ret = NULL;
        else
            return 1;
    }
    return 0;
}

/* A frame's lines stand below its own. */
static void add_lines(struct buf *o, struct str text, const char *indent)
{
    while (text.n) {
        const char *nl = memchr(text.p, '\n', text.n);
        size_t k = nl ? (size_t)(nl - text.p) + 1 : text.n;
        buf_z(o, indent);
        buf_add(o, text.p, k);
        text = (struct str){ text.p + k, text.n - k };
    }
}

int browser_run_snapshot(struct hand *h, const void *params, void *result, struct err *e)
{
    const struct browser_params *p = params;
    struct browser_result *r = result;
    struct browser *b = browser_open(h, p, e);
    struct documents d = { .next = 0 };
    const struct json *at = NULL;
    AUTO(buf_done) struct buf o = { .cap = 16 * MiB };
    int n;

    if (!b)
        return -EIO;
    char *more = arena_printf(h->arena, "\"max\":%lld", (long long)p->max);
    while ((n = ask_next(h, b, &d, "snapshot", more, &at, e)) == 1) {
        bool inner = d.next > 1;
        if (inner)
            buf_printf(&o, "%s- document \"%.*s\"\n", o.n ? "\n" : "", STR_ARG(json_get_str(at, "url")));
        add_lines(&o, json_get_str(at, "snapshot"), inner ? "  " : "");
        r->truncated |= json_get_bool(at, "truncated", false);
    }
    r->snapshot = arena_copy(h->arena, buf_view(&o));
    return browser_verdict(h, b, n, r, e);
}

/* The rows of a list, with their places in the viewport. */
static void add_rows(struct buf *o, const struct json *list, const struct documents *d)
{
    for (const struct json *row = list ? list->first : NULL; row; row = row->next) {
        struct jw j = { .out = o };
        if (o->n > 1)
            buf_char(o, ',');
        jw_obj(&j);
        for (const struct json *k = row->first; k; k = k->next) {
            jw_key_str(&j, k->name);
            if (k->type == JSON_NUM && (str_is(k->name, "x") || str_is(k->name, "y")))
                jw_num(&j, k->num + (str_is(k->name, "x") ? d->x : d->y));
            else
                jw_raw(&j, k->raw);
        }
        jw_obj_end(&j);
    }
}

static int list_all(struct hand *h, struct browser *b, const char *act, const char *more, const char *name,
                    struct str *ret, int64_t *ret_count, struct err *e)
{
    struct documents d = { .next = 0 };
    const struct json *at = NULL;
    AUTO(buf_done) struct buf o = { .cap = 16 * MiB };
    int n;

    buf_char(&o, '[');
    for (;;) {
        char *how = arena_printf(h->arena, "\"first\":%lld%s", (long long)*ret_count, more);
        n = ask_next(h, b, &d, act, how, &at, e);
        if (n != 1)
            break;
        const struct json *list = json_get(at, name);
        add_rows(&o, list, &d);
        *ret_count += list ? (int64_t)list->count : 0;
    }
    buf_char(&o, ']');
    *ret = arena_copy(h->arena, buf_view(&o));
    return n;
}

int browser_run_elements(struct hand *h, const void *params, void *result, struct err *e)
{
    struct browser_result *r = result;
    struct browser *b = browser_open(h, params, e);

    if (!b)
        return -EIO;
    return browser_verdict(h, b, list_all(h, b, "elements", "", "elements", &r->elements, &r->count, e), r, e);
}

int browser_run_find(struct hand *h, const void *params, void *result, struct err *e)
{
    const struct browser_params *p = params;
    struct browser_result *r = result;
    struct browser *b = browser_open(h, p, e);
    AUTO(buf_done) struct buf o = { .cap = 64 * KiB };
    struct jw j = { .out = &o };

    if (!b)
        return -EIO;
    if (!p->text.n)
        return err_set(e, ERR_INVALID, "text: it is empty");
    buf_z(&o, ",\"text\":");
    jw_str(&j, p->text);
    int n = list_all(h, b, "find", arena_z(h->arena, buf_view(&o)), "found", &r->found_at, &r->count, e);
    return browser_verdict(h, b, n, r, e);
}

static bool unsolved(struct hand *h, struct str list)
{
    struct json *all = NULL;
    struct err ignored;

    if (!list.n || json_parse(h->arena, list, &all, &ignored) < 0)
        return false;
    for (const struct json *c = all->first; c; c = c->next)
        if (!json_get_bool(c, "solved", false))
            return true;
    return false;
}

int browser_run_captcha(struct hand *h, const void *params, void *result, struct err *e)
{
    const struct browser_params *p = params;
    struct browser_result *r = result;
    int64_t own = h->deadline_ms, end = now_ms() + (int64_t)(p->timeout * 1000);
    struct browser_params look = *p;

    look.timeout = p->timeout + BROWSER_TIMEOUT_S; /* of the looks; the waiting ends before */
    struct browser *b = browser_open(h, &look, e);
    if (!b)
        return -EIO;
    end = own && own - 1000 < end ? own - 1000 : end;
    int n;
    for (;;) {
        r->count = 0;
        n = list_all(h, b, "captcha", "", "captchas", &r->captchas, &r->count, e);
        r->detected = r->count > 0;
        r->checked = n >= 0 && !unsolved(h, r->captchas);
        if (n < 0 || r->checked || now_ms() >= end)
            break;
        int64_t next = now_ms() + (int64_t)(p->polling * 1000);
        while (n >= 0 && now_ms() < next && now_ms() < end && h->self->wish == WISH_NONE)
            n = browser_pause(h, b, now_ms() + 100, e);
        if (n >= 0 && h->self->wish == WISH_INTERRUPT) {
            r->checked = true;
            break;
        }
    }
    return browser_verdict(h, b, n, r, e);
}

int browser_run_markdown(struct hand *h, const void *params, void *result, struct err *e)
{
    const struct browser_params *p = params;
    struct browser_result *r = result;
    struct browser *b = browser_open(h, p, e);
    struct spot at;

    if (!b)
        return -EIO;
    int n = browser_look(h, b, "markdown", p->selector.n ? browser_element_json(h, p, "") : STR("{\"x\":0}"), &at, e);
    if (n >= 0 && !at.at)
        n = browser_not_there(p, e);
    if (n >= 0)
        r->markdown = json_get_str(at.at, "markdown");
    return browser_verdict(h, b, n, r, e);
}

int browser_run_console(struct hand *h, const void *params, void *result, struct err *e)
{
    const struct browser_params *p = params;
    struct browser_result *r = result;
    struct browser *b = browser_open(h, p, e);

    if (!b)
        return -EIO;
    r->messages = browser_console(h, b, false);
    int n = p->path.n ? browser_save(h, p->path, r->messages, e) : 0;
    if (n >= 0)
        r->path = p->path;
    if (n >= 0 && p->clear)
        (void)browser_console(h, b, true);
    return browser_verdict(h, b, n, r, e);
}
#endif

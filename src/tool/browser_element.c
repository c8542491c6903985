/* Acting on elements of the page. They are named by a CSS selector (also text=..., xpath=...), by the reference that
 * browser:snapshot gave, by the index of browser:elements, or by a point. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/limits.h"
#include "tool/browser_internal.h"
#ifdef IN_BOX
#include "base/loop.h"
#endif

const struct field browser_in_click[] = { ELEMENT,
                                          POINT,
                                          FIELD(STR, P, button, "which", .def_str = "left",
                                                .choices = "left|right|middle"),
                                          FIELD(INT, P, click_count, "2: a double click", .def = 1, .min = 1, .max = 3),
                                          TIMEOUT,
                                          { 0 } };
const struct field browser_in_hover[] = { ELEMENT, POINT, TIMEOUT, { 0 } };
const struct field browser_in_type[] = {
    FIELD(STR, P, text, "what to type", .required = true, .max = 1 * MiB),
    ELEMENT,
    FIELD(BOOL, P, clear, "empty the field first"),
    FIELD(BOOL, P, press_enter, "and then the Enter key"),
    FIELD(BOOL, P, keystrokes, "each character by itself, as keys; else as if pasted"),
    FIELD(NUM, P, delay, "seconds between keystrokes", .def_num = 0, .min = 0, .max = 5),
    TIMEOUT,
    { 0 },
};
const struct field browser_in_press[] = { FIELD(STR, P, key, "such as Enter, Tab, a, Control+a, Shift+ArrowLeft",
                                                .required = true, .max = 64),
                                          ELEMENT,
                                          TIMEOUT,
                                          { 0 } };
const struct field browser_in_scroll[] = {
    FIELD(STR, P, direction, "where to; view: until the element is in view; point: to x and y", .def_str = "down",
          .choices = "down|up|left|right|top|bottom|point|view"),
    FIELD(INT, P, amount, "pixels", .def = 300, .min = 0, .max = 1e7),
    FIELD(NUM, P, x, "point: from the left", .min = 0, .max = 1e7),
    FIELD(NUM, P, y, "point: from the top", .min = 0, .max = 1e7),
    FIELD(STR, P, selector, "in this element; view: which", .max = 8192),
    FIELD(STR, P, ref, "or: a reference from browser:snapshot", .max = 32),
    FIELD(INT, P, index, "or: an index from browser:elements", .def = FIELD_ABSENT, .min = 0, .max = 100000),
    TIMEOUT,
    { 0 },
};
#define ACTED                                                                                                          \
    {                                                                                                                  \
        NEWS, FIELD(JSON, R, element, "that was acted on: tag, id, name, text"),                                       \
        {                                                                                                              \
            0                                                                                                          \
        }                                                                                                              \
    }
const struct field browser_out_click[] = ACTED;
const struct field browser_out_hover[] = ACTED;
const struct field browser_out_type[] = ACTED;
const struct field browser_out_press[] = ACTED;
const struct field browser_out_scroll[] = {
    NEWS,  FIELD(INT, R, x, "scrolled to"), FIELD(INT, R, y, "scrolled to"), FIELD(INT, R, height, "of all of it"),
    { 0 },
};

#ifdef IN_BOX

bool browser_names_element(const struct browser_params *p)
{
    return p->selector.n || p->ref.n || p->index != FIELD_ABSENT;
}

struct str browser_element_json(struct hand *h, const struct browser_params *p, const char *more)
{
    struct buf b;
    struct jw j = { .out = &b };

    buf_init(&b, 1 * MiB);
    jw_obj(&j);
    if (p->ref.n)
        jw_kstr(&j, "ref", p->ref);
    else if (p->index != FIELD_ABSENT && !p->selector.n)
        jw_kint(&j, "index", p->index);
    else
        jw_kstr(&j, "selector", p->selector.n ? p->selector : STR("html"));
    buf_z(&b, more);
    jw_obj_end(&j);
    struct str s = arena_copy(h->arena, buf_view(&b));
    buf_done(&b);
    return s;
}

int browser_not_there(const struct browser_params *p, struct err *e)
{
    if (p->ref.n)
        return err_set(e, ERR_NOT_FOUND, "ref: no element '%.*s' (any more); take a new browser:snapshot",
                       STR_ARG(p->ref));
    if (!p->selector.n)
        return err_set(e, ERR_NOT_FOUND, "index: no element %lld (any more); ask browser:elements again",
                       (long long)p->index);
    return err_set(e, ERR_NOT_FOUND, "selector: no element '%.*s'", (int)(p->selector.n < 150 ? p->selector.n : 150),
                   p->selector.p);
}

/* In the page first, then in the frames that it cannot look into itself. */
int browser_look(struct hand *h, struct browser *b, const char *act, struct str how, struct spot *ret, struct err *e)
{
    struct frame frames[FRAMES_MAX];
    double x = 0, y = 0;

    *ret = (struct spot){ 0 };
    int n = browser_act(h, b, act, how, &ret->at, e);
    size_t count = n >= 0 && !ret->at ? browser_frames(b, frames, FRAMES_MAX) : 0;
    for (size_t i = 1; i < count && !ret->at; i++) {
        struct str there = str_of(arena_printf(h->arena, "{\"foreign\":true,\"prefix\":\"f%.4s\",%.*s", frames[i].id,
                                               (int)how.n - 1, how.p + 1));
        struct err gone; /* while we looked: it has nothing, then */
        if (browser_act_in(h, b, &frames[i], act, there, &ret->at, &gone) < 0 || !ret->at)
            continue;
        struct frame *kept = arena_alloc(h->arena, sizeof *kept);
        *kept = frames[i];
        ret->frame = kept;
        n = browser_frame_place(h, b, kept, &x, &y, e);
    }
    ret->x = x + json_number(ret->at, "x") + json_number(ret->at, "width") / 2;
    ret->y = y + json_number(ret->at, "y") + json_number(ret->at, "height") / 2;
    return n;
}

/* A page that changes says so, and is looked at again; what nobody tells (time alone may make something visible) is looked
 * for twice a second. */
int browser_locate(struct hand *h, struct browser *b, const struct browser_params *p, const char *act, const char *more,
                   struct spot *ret, struct err *e)
{
    enum { UNTOLD_MS = 500, LAST_MS = 100 };
    struct str how = browser_element_json(h, p, arena_printf(h->arena, ",\"watch\":true%s", more));

    for (;;) {
        int n = browser_look(h, b, act, how, ret, e);
        if (n < 0 && n != -EINVAL)
            return n;
        bool seen = n >= 0 && ret->at && (json_get_bool(ret->at, "visible", true) || strcmp(act, "locate") != 0);
        struct str hindrance = seen ? json_get_str(ret->at, "not") : (struct str){ 0 };
        if (seen && !hindrance.n)
            return 0;
        if (n == -EINVAL && strstr(e->msg, "SyntaxError")) /* it will never be one */
            return err_set(e, ERR_INVALID, "selector: '%.*s' is no selector",
                           (int)(p->selector.n < 150 ? p->selector.n : 150), p->selector.p);
        bool never = n >= 0 && !ret->at && !p->selector.n; /* a reference or an index does not come back */
        if (never || now_ms() + LAST_MS >= h->deadline_ms) {
            if (n < 0)
                return n;
            if (hindrance.n)
                return err_set(e, ERR_NOT_FOUND, "the element is there, but %.*s", STR_ARG(hindrance));
            return ret->at ? err_set(e, ERR_NOT_FOUND, "the element is there, but cannot be seen")
                           : browser_not_there(p, e);
        }
        int64_t next = now_ms() + UNTOLD_MS, last = h->deadline_ms - LAST_MS;
        n = browser_stirs(h, b, next < last ? next : last, e);
        if (n < 0)
            return n;
    }
}

struct str json_raw(const struct json *j, const char *name)
{
    const struct json *v = json_get(j, name);

    return v ? v->raw : (struct str){ 0 };
}

int browser_aim(struct hand *h, struct browser *b, const struct browser_params *p, struct browser_result *r, double *x,
                double *y, struct err *e)
{
    struct spot at;

    if (!browser_names_element(p) && p->x >= 0 && p->y >= 0) {
        *x = p->x;
        *y = p->y;
        return 0;
    }
    if (!browser_names_element(p))
        return err_set(e, ERR_MISSING, "selector: which element? (or ref, index, x and y)");
    const char *how = p->button.n ? ",\"hit\":true,\"press\":true" : ",\"hit\":true"; /* without one it is a hover */
    int n = browser_locate(h, b, p, "locate", how, &at, e);
    if (n < 0)
        return n;
    *x = at.x;
    *y = at.y;
    r->element = json_raw(at.at, "element");
    return 0;
}

int browser_run_click(struct hand *h, const void *params, void *result, struct err *e)
{
    const struct browser_params *p = params;
    struct browser *b = browser_open(h, p, e);
    double x, y;

    if (!b)
        return -EIO;
    const char *button = arena_z(h->arena, p->button);
    int n = browser_aim(h, b, p, result, &x, &y, e);
    if (n >= 0)
        n = browser_move(h, b, x, y, e);
    if (n >= 0)
        n = browser_click(h, b, button, p->click_count, e);
    if (n >= 0)
        n = browser_settle(h, b, e);
    return browser_verdict(h, b, n, result, e);
}

int browser_run_hover(struct hand *h, const void *params, void *result, struct err *e)
{
    struct browser *b = browser_open(h, params, e);
    double x, y;

    if (!b)
        return -EIO;
    int n = browser_aim(h, b, params, result, &x, &y, e);
    if (n >= 0)
        n = browser_move(h, b, x, y, e);
    return browser_verdict(h, b, n, result, e);
}

int browser_focus(struct hand *h, struct browser *b, const struct browser_params *p, struct browser_result *r,
                  struct err *e)
{
    struct spot at;

    if (!browser_names_element(p))
        return 0;
    int n = browser_locate(h, b, p, "focus", p->clear ? ",\"clear\":true" : "", &at, e);
    if (n >= 0)
        r->element = json_raw(at.at, "element");
    return n;
}

int browser_run_type(struct hand *h, const void *params, void *result, struct err *e)
{
    const struct browser_params *p = params;
    struct browser *b = browser_open(h, p, e);

    if (!b)
        return -EIO;
    if (p->clear && !browser_names_element(p))
        return err_set(e, ERR_MISSING, "selector: which field is to be emptied? (or ref, index)");
    int n = browser_focus(h, b, p, result, e);
    if (n >= 0)
        n = browser_type(h, b, p->text, p->keystrokes, p->delay, e);
    if (n >= 0 && p->press_enter)
        n = browser_press(h, b, STR("Enter"), e);
    if (n >= 0)
        n = browser_settle(h, b, e);
    return browser_verdict(h, b, n, result, e);
}

int browser_run_press(struct hand *h, const void *params, void *result, struct err *e)
{
    const struct browser_params *p = params;
    struct browser *b = browser_open(h, p, e);

    if (!b)
        return -EIO;
    int n = browser_focus(h, b, p, result, e);
    if (n >= 0)
        n = browser_press(h, b, p->key, e);
    if (n >= 0)
        n = browser_settle(h, b, e);
    return browser_verdict(h, b, n, result, e);
}

/* --- scrolling --- */

static struct str scroll_how(struct hand *h, const struct browser_params *p)
{
    struct str d = p->direction;
    bool point = str_is(d, "point"), end = str_is(d, "top") || str_is(d, "bottom") || point;
    long long by = p->amount, x = 0, y = 0;

    if (point)
        x = (long long)p->x, y = (long long)p->y;
    else if (str_is(d, "left") || str_is(d, "right"))
        x = str_is(d, "left") ? -by : by;
    else if (str_is(d, "bottom"))
        y = 100000000;
    else if (str_is(d, "up") || str_is(d, "down"))
        y = str_is(d, "up") ? -by : by;
    char *more = arena_printf(h->arena, ",\"to\":%s,\"x\":%lld,\"y\":%lld", end ? "true" : "false", x, y);
    return browser_names_element(p) ? browser_element_json(h, p, more)
                                    : str_of(arena_printf(h->arena, "{%s}", more + 1));
}

int browser_run_scroll(struct hand *h, const void *params, void *result, struct err *e)
{
    const struct browser_params *p = params;
    struct browser_result *r = result;
    struct browser *b = browser_open(h, p, e);
    struct spot at = { 0 };
    bool view = str_is(p->direction, "view");

    if (!b)
        return -EIO;
    if (view && !browser_names_element(p))
        return err_set(e, ERR_MISSING, "selector: which element is to come into view?");
    int n = view ? browser_locate(h, b, p, "locate", "", &at, e) : 0;
    if (n >= 0)
        n = browser_look(h, b, "scroll", view ? STR("{\"to\":false,\"x\":0,\"y\":0}") : scroll_how(h, p), &at, e);
    if (n >= 0 && !at.at)
        n = browser_not_there(p, e);
    if (n >= 0) {
        r->x = (int64_t)json_number(at.at, "x");
        r->y = (int64_t)json_number(at.at, "y");
        r->height = (int64_t)json_number(at.at, "height");
        n = browser_settle(h, b, e); /* pages load more when they are scrolled */
    }
    return browser_verdict(h, b, n, r, e);
}
#endif

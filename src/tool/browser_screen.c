/* browser:act: mouse and keyboard on the viewport, by points, for those who look at screenshots. Where the mouse is and
 * what is held down stays from call to call. */
#include <errno.h>

#include "base/limits.h"
#include "tool/browser_internal.h"
#ifdef IN_BOX
#include "base/loop.h"
#endif

const struct field browser_in_act[] = {
    FIELD(STR, P, action, "what to do", .required = true,
          .choices =
              "move_to|move_rel|click|mouse_down|mouse_up|right_click|double_click|drag_to|drag_rel|scroll|typing|"
              "press|key_down|key_up|hotkey|wait"),
    FIELD(NUM, P, x, "move_to, drag_to, clicks: where; default of clicks: where the mouse is", .def_num = -1, .min = -1,
          .max = 100000),
    FIELD(NUM, P, y, "its other coordinate", .def_num = -1, .min = -1, .max = 100000),
    FIELD(NUM, P, dx, "move_rel, drag_rel: by so much; scroll: pixels to the right", .min = -100000, .max = 100000),
    FIELD(NUM, P, dy, "the same, downwards", .min = -100000, .max = 100000),
    FIELD(STR, P, button, "click, mouse_down, mouse_up: which", .def_str = "left", .choices = "left|right|middle"),
    FIELD(INT, P, click_count, "click: how often", .def = 1, .min = 1, .max = 3),
    FIELD(STR, P, text, "typing: what", .max = 1 * MiB),
    FIELD(BOOL, P, keystrokes, "typing: each character by itself, as keys; else as if pasted"),
    FIELD(STR, P, key, "press, key_down, key_up: such as enter, ctrl, a", .max = 64),
    FIELD(STRS, P, keys, "hotkey: held together, in this order", .max = 8),
    FIELD(NUM, P, duration, "wait: seconds", .min = 0, .max = 600),
    { 0 },
};
const struct field browser_out_act[] = {
    NEWS,
    FIELD(INT, R, x, "where the mouse is"),
    FIELD(INT, R, y, "where the mouse is"),
    { 0 },
};

#ifdef IN_BOX

/* A mouse does not leave the screen. */
static double within(double v, int64_t size)
{
    return v < 0 ? 0 : v > (double)(size - 1) ? (double)(size - 1) : v;
}

struct place {
    double x, y;
};

static int place_of(struct browser *b, const struct browser_params *p, bool relative, struct place *ret, struct err *e)
{
    struct pointer *at = browser_pointer(b);
    int64_t width, height;

    browser_size(b, &width, &height);
    if (!relative && (p->x < 0) != (p->y < 0))
        return err_set(e, ERR_MISSING, "%s: required beside the other coordinate", p->x < 0 ? "x" : "y");
    *ret = relative    ? (struct place){ at->x + p->dx, at->y + p->dy }
           : p->x >= 0 ? (struct place){ p->x, p->y }
                       : (struct place){ at->x, at->y };
    ret->x = within(ret->x, width);
    ret->y = within(ret->y, height);
    return 0;
}

static int with_mouse(struct hand *h, struct browser *b, const struct browser_params *p, struct err *e)
{
    struct str a = p->action;
    bool relative = str_is(a, "move_rel") || str_is(a, "drag_rel"), drag = a.n > 4 && memcmp(a.p, "drag", 4) == 0,
         move = a.n > 4 && memcmp(a.p, "move", 4) == 0;
    const char *button = str_is(a, "right_click") ? "right" : arena_z(h->arena, p->button);
    struct place at = { 0 };

    if (str_is(a, "mouse_down") || str_is(a, "mouse_up"))
        return browser_button(h, b, str_is(a, "mouse_down"), button, 1, e);
    if ((drag || move) && !relative && p->x < 0)
        return err_set(e, ERR_MISSING, "x: required");
    int n = place_of(b, p, relative, &at, e);
    if (n < 0)
        return n;
    if (drag)
        return browser_drag(h, b, at.x, at.y, e);
    n = browser_move(h, b, at.x, at.y, e);
    if (n < 0 || move)
        return n;
    return browser_click(h, b, button, str_is(a, "double_click") ? 2 : p->click_count, e);
}

static int with_keys(struct hand *h, struct browser *b, const struct browser_params *p, struct err *e)
{
    bool chord = str_is(p->action, "hotkey");

    if (chord ? !p->keys.n : !p->key.n)
        return err_set(e, ERR_MISSING, "%s: required", chord ? "keys" : "key");
    if (chord)
        return browser_chord(h, b, p->keys.v, p->keys.n, e);
    if (str_is(p->action, "press"))
        return browser_press(h, b, p->key, e);
    return browser_key(h, b, p->key, str_is(p->action, "key_down"), e);
}

static int act(struct hand *h, struct browser *b, const struct browser_params *p, struct err *e)
{
    struct str a = p->action;

    if (str_is(a, "wait"))
        return browser_pause(h, b, now_ms() + (int64_t)(p->duration * 1000), e);
    if (str_is(a, "scroll"))
        return browser_wheel(h, b, p->dx, p->dy, e);
    if (str_is(a, "typing") && !p->text.n)
        return err_set(e, ERR_MISSING, "text: required");
    if (str_is(a, "typing"))
        return browser_type(h, b, p->text, p->keystrokes, 0, e);
    if (str_is(a, "press") || str_is(a, "key_down") || str_is(a, "key_up") || str_is(a, "hotkey"))
        return with_keys(h, b, p, e);
    return with_mouse(h, b, p, e);
}

int browser_run_act(struct hand *h, const void *params, void *result, struct err *e)
{
    const struct browser_params *p = params;
    struct browser_result *r = result;
    struct browser *b = browser_open(h, p, e);

    if (!b)
        return -EIO;
    int n = act(h, b, p, e);
    if (n >= 0)
        n = browser_settle(h, b, e);
    r->x = (int64_t)browser_pointer(b)->x;
    r->y = (int64_t)browser_pointer(b)->y;
    return browser_verdict(h, b, n, r, e);
}
#endif

/* What AIO does on a screen: one tool for all of it. */
#include "tool/desktop_internal.h"

#ifdef IN_BOX

#include <errno.h>
#include <math.h>

#include "base/loop.h"
#include "init/desktop.h"
#include "init/rfb.h"

static int act_place(struct desktop *d, const struct desktop_params *p, bool relative, int64_t *x, int64_t *y,
                     struct err *e)
{
    int width, height;

    if ((p->x == FIELD_ABSENT) != (p->y == FIELD_ABSENT))
        return err_set(e, ERR_MISSING, "%s: required beside the other coordinate", p->x == FIELD_ABSENT ? "x" : "y");
    if (p->x != FIELD_ABSENT && !relative) {
        *x = p->x;
        *y = p->y;
        return desktop_inside(d, "x", *x, "y", *y, e);
    }
    int n = desktop_where(d, e);
    rfb_size(d->rfb, &width, &height);
    *x = d->x + (relative ? (int64_t)p->dx : 0);
    *y = d->y + (relative ? (int64_t)p->dy : 0);
    *x = *x < 0 ? 0 : *x >= width ? width - 1 : *x; /* a pointer does not leave the screen */
    *y = *y < 0 ? 0 : *y >= height ? height - 1 : *y;
    return n;
}

static int act_scroll(struct hand *h, struct desktop *d, const struct desktop_params *p, struct err *e)
{
    enum { CLICK = 100 };
    int across = (int)((fabs(p->dx) + CLICK - 1) / CLICK), down = (int)((fabs(p->dy) + CLICK - 1) / CLICK);
    int n = desktop_where(d, e);

    if (n >= 0 && down)
        n = desktop_click(h, d, p->dy > 0 ? RFB_DOWN : RFB_UP, down, e);
    if (n >= 0 && across)
        n = desktop_click(h, d, p->dx > 0 ? RFB_WHEEL_RIGHT : RFB_WHEEL_LEFT, across, e);
    return n;
}

static int act_typing(struct hand *h, struct desktop *d, const struct desktop_params *p, struct desktop_result *r,
                      struct err *e)
{
    if (!p->text.n)
        return err_set(e, ERR_MISSING, "text: required");
    if (p->keystrokes)
        return desktop_type(h, d, p, r, e);
    int n = rfb_paste(h, d->rfb, p->text, e);
    if (n >= 0)
        n = desktop_key(h, d, 0xffe3, true, e);
    if (n >= 0)
        n = desktop_tap(h, d, 'v', e);
    return n < 0 ? n : desktop_key(h, d, 0xffe3, false, e);
}

static int act_mouse(struct hand *h, struct desktop *d, const struct desktop_params *p, struct err *e)
{
    struct str a = p->action;
    bool relative = str_is(a, "move_rel") || str_is(a, "drag_rel"), move = a.n > 4 && memcmp(a.p, "move", 4) == 0,
         drag = a.n > 4 && memcmp(a.p, "drag", 4) == 0;
    unsigned button = str_is(a, "right_click") ? RFB_RIGHT : desktop_button(p->button);
    int64_t x = 0, y = 0;

    if ((drag || move) && !relative && p->x == FIELD_ABSENT)
        return err_set(e, ERR_MISSING, "x: required");
    int n = act_place(d, p, relative, &x, &y, e);
    if (n >= 0 && drag) {
        n = desktop_where(d, e);
        return n < 0 ? n
                     : desktop_drag(
                           h, d, &(struct desktop_way){ { d->x, d->y }, { x, y }, desktop_button(p->button), 0.2 }, e);
    }
    if (n >= 0)
        n = desktop_point(h, d, x, y, e);
    if (n < 0 || move)
        return n;
    if (str_is(a, "mouse_down") || str_is(a, "mouse_up"))
        return desktop_press(h, d, button, str_is(a, "mouse_down"), e);
    return desktop_click(h, d, button, str_is(a, "double_click") ? 2 : str_is(a, "click") ? (int)p->click_count : 1, e);
}

int desktop_run_act(struct hand *h, const void *params, void *result, struct err *e)
{
    const struct desktop_params *p = params;
    struct desktop_result *r = result;
    struct str a = p->action;
    struct desktop *d = desktop_get(h, e);
    int n;

    if (!d)
        return -EIO;
    if (str_is(a, "press") || str_is(a, "key_down") || str_is(a, "key_up"))
        return desktop_one_key(h, p, r, !str_is(a, "key_up"), !str_is(a, "key_down"), e);
    if (str_is(a, "hotkey"))
        return desktop_run_hotkey(h, p, r, e);
    if (str_is(a, "wait"))
        n = rfb_pause(h, d->rfb, now_ms() + (int64_t)(p->duration * 1000), e);
    else if (str_is(a, "scroll"))
        n = act_scroll(h, d, p, e);
    else if (str_is(a, "typing"))
        n = act_typing(h, d, p, r, e);
    else
        n = act_mouse(h, d, p, e);
    if (n >= 0)
        n = rfb_sync(h, d->rfb, e);
    r->position = desktop_pair(h, d->x, d->y);
    return desktop_verdict(h, d, n, r, e);
}
#endif

/* The mouse of the box's screen: where it points, what it presses. */
#include "tool/desktop_internal.h"

#ifdef IN_BOX

#include <errno.h>
#include <stdlib.h>

#include "base/loop.h"
#include "init/desktop.h"
#include "init/rfb.h"
#include "init/x11.h"

int desktop_inside(struct desktop *d, const char *x_name, int64_t x, const char *y_name, int64_t y, struct err *e)
{
    int width, height;

    rfb_size(d->rfb, &width, &height);
    if (x < width && y < height)
        return 0;
    return err_set(e, ERR_INVALID, "%s: %lld is outside of the screen (%dx%d)", x < width ? y_name : x_name,
                   (long long)(x < width ? y : x), width, height);
}

unsigned desktop_button(struct str button)
{
    return str_is(button, "right") ? RFB_RIGHT : str_is(button, "middle") ? RFB_MIDDLE : RFB_LEFT;
}

int desktop_point(struct hand *h, struct desktop *d, int64_t x, int64_t y, struct err *e)
{
    d->gave_up = false;
    d->x = (int)x;
    d->y = (int)y;
    return rfb_pointer(h, d->rfb, d->buttons, d->x, d->y, e);
}

int desktop_press(struct hand *h, struct desktop *d, unsigned button, bool down, struct err *e)
{
    d->gave_up = false;
    d->buttons = down ? d->buttons | button : d->buttons & ~button;
    return rfb_pointer(h, d->rfb, d->buttons, d->x, d->y, e);
}

int desktop_click(struct hand *h, struct desktop *d, unsigned button, int times, struct err *e)
{
    int n = 0;

    for (int i = 0; n >= 0 && i < times; i++) {
        n = desktop_press(h, d, button, true, e);
        if (n >= 0)
            n = desktop_press(h, d, button, false, e);
    }
    return n < 0 ? n : rfb_sync(h, d->rfb, e);
}

/* Where the pointer is: somebody else may have moved it. */
int desktop_where(struct desktop *d, struct err *e)
{
    struct x11 *x = x11_open(DESKTOP_X11, e);
    int n = x ? x11_pointer(x, &d->x, &d->y, e) : -EIO;

    x11_close(x);
    return n;
}

/* A tool's own table says which of the two its answer has; no click at all is a move. */
static int click_at(struct hand *h, const struct desktop_params *p, struct desktop_result *r, unsigned button,
                    int times, struct err *e)
{
    struct desktop *d = desktop_get(h, e);

    if (!d)
        return -EIO;
    int n = desktop_inside(d, "x", p->x, "y", p->y, e);
    if (n >= 0)
        n = desktop_point(h, d, p->x, p->y, e);
    if (n >= 0)
        n = desktop_click(h, d, button, times, e);
    r->clicked = r->position = desktop_pair(h, p->x, p->y);
    return desktop_verdict(h, d, n, r, e);
}

int desktop_run_click(struct hand *h, const void *params, void *result, struct err *e)
{
    const struct desktop_params *p = params;

    ((struct desktop_result *)result)->button = p->button;
    return click_at(h, p, result, desktop_button(p->button), 1, e);
}

int desktop_run_double_click(struct hand *h, const void *params, void *result, struct err *e)
{
    return click_at(h, params, result, RFB_LEFT, 2, e);
}

int desktop_run_right_click(struct hand *h, const void *params, void *result, struct err *e)
{
    const struct desktop_params *p = params;

    if ((p->x == FIELD_ABSENT) != (p->y == FIELD_ABSENT))
        return err_set(e, ERR_INVALID, "%s: x and y, or neither", p->x == FIELD_ABSENT ? "x" : "y");
    if (p->x != FIELD_ABSENT)
        return click_at(h, p, result, RFB_RIGHT, 1, e);
    struct desktop *d = desktop_get(h, e);
    if (!d)
        return -EIO;
    int n = desktop_where(d, e);
    return desktop_verdict(h, d, n < 0 ? n : desktop_click(h, d, RFB_RIGHT, 1, e), result, e);
}

int desktop_run_move(struct hand *h, const void *params, void *result, struct err *e)
{
    return click_at(h, params, result, 0, 0, e);
}

int desktop_drag(struct hand *h, struct desktop *d, const struct desktop_way *way, struct err *e)
{
    enum { STEPS = 20 };
    int n = desktop_point(h, d, way->from[0], way->from[1], e);

    if (n >= 0)
        n = desktop_press(h, d, way->button, true, e);
    int64_t began = now_ms();
    for (int i = 1; n >= 0 && i <= STEPS; i++) { /* programs drag what they see moving */
        n = rfb_pause(h, d->rfb, began + (int64_t)(way->seconds * 1000 * i / STEPS), e);
        if (n >= 0)
            n = desktop_point(h, d, way->from[0] + (way->to[0] - way->from[0]) * i / STEPS,
                              way->from[1] + (way->to[1] - way->from[1]) * i / STEPS, e);
    }
    struct err late;
    int m = rfb_alive(d->rfb) ? desktop_press(h, d, way->button, false, &late) : 0; /* also if the way was cut short */
    return n < 0 ? n : m < 0 ? m : rfb_sync(h, d->rfb, e);
}

int desktop_run_drag(struct hand *h, const void *params, void *result, struct err *e)
{
    const struct desktop_params *p = params;
    struct desktop_result *r = result;
    struct desktop *d = desktop_get(h, e);
    struct desktop_way way = {
        { p->start_x, p->start_y }, { p->end_x, p->end_y }, desktop_button(p->button), p->duration
    };

    if (!d)
        return -EIO;
    int n = desktop_inside(d, "start_x", p->start_x, "start_y", p->start_y, e);
    if (n >= 0)
        n = desktop_inside(d, "end_x", p->end_x, "end_y", p->end_y, e);
    if (n >= 0)
        n = desktop_drag(h, d, &way, e);
    r->from = desktop_pair(h, p->start_x, p->start_y);
    r->to = desktop_pair(h, p->end_x, p->end_y);
    return desktop_verdict(h, d, n, r, e);
}

static int hold(struct hand *h, const struct desktop_params *p, struct desktop_result *r, bool down, struct err *e)
{
    struct desktop *d = desktop_get(h, e);

    if (!d)
        return -EIO;
    int n = desktop_where(d, e);
    if (n >= 0)
        n = desktop_press(h, d, desktop_button(p->button), down, e);
    if (n >= 0)
        n = rfb_sync(h, d->rfb, e);
    r->button = p->button;
    return desktop_verdict(h, d, n, r, e);
}

int desktop_run_mouse_down(struct hand *h, const void *params, void *result, struct err *e)
{
    return hold(h, params, result, true, e);
}

int desktop_run_mouse_up(struct hand *h, const void *params, void *result, struct err *e)
{
    return hold(h, params, result, false, e);
}

int desktop_run_scroll(struct hand *h, const void *params, void *result, struct err *e)
{
    const struct desktop_params *p = params;
    unsigned wheel =
        p->horizontal ? (p->clicks > 0 ? RFB_WHEEL_RIGHT : RFB_WHEEL_LEFT) : (p->clicks > 0 ? RFB_UP : RFB_DOWN);

    ((struct desktop_result *)result)->clicks = p->clicks;
    return click_at(h, p, result, wheel, (int)llabs(p->clicks), e);
}
#endif

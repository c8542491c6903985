/* Windows, the clipboard, and the size of the screen. */
#include "tool/desktop_internal.h"

#ifdef IN_BOX

#include <errno.h>
#include <strings.h>

#include "base/auto.h"
#include "base/limits.h"
#include "base/loop.h"
#include "init/desktop.h"
#include "init/rfb.h"
#include "init/x11.h"

static bool has_text(struct str s, struct str text)
{
    for (size_t i = 0; text.n && i + text.n <= s.n; i++)
        if (strncasecmp(s.p + i, text.p, text.n) == 0)
            return true;
    return false;
}

static int list_windows(struct hand *h, struct x_window *v, size_t *ret_n, struct err *e)
{
    struct x11 *x = x11_open(DESKTOP_X11, e);

    *ret_n = 0;
    if (!x)
        return -EIO;
    int n = x11_windows(x, h->arena, v, ret_n, e);
    x11_close(x);
    return n;
}

int desktop_run_wait(struct hand *h, const void *params, void *result, struct err *e)
{
    const struct desktop_params *p = params;
    struct desktop_result *r = result;
    struct desktop *d = desktop_get(h, e);
    int64_t began = now_ms(), end = began + (int64_t)(p->seconds * 1000);
    struct x_window v[X_WINDOWS_MAX];
    size_t count;
    int n = 0;

    if (!d)
        return -EIO;
    for (;;) {
        if (n >= 0 && p->title.n)
            n = list_windows(h, v, &count, e);
        for (size_t i = 0; n >= 0 && p->title.n && i < count; i++)
            r->found |= has_text(v[i].title, p->title) || has_text(v[i].program, p->title);
        if (n < 0 || r->found || now_ms() >= end)
            break;
        /* windows come with what is drawn; a look five times a second does without asking for all of it */
        n = rfb_pause(h, d->rfb, p->title.n && now_ms() + 200 < end ? now_ms() + 200 : end, e);
    }
    r->waited = (double)(now_ms() - began) / 1000;
    return desktop_verdict(h, d, n, r, e);
}

int desktop_run_clipboard(struct hand *h, const void *params, void *result, struct err *e)
{
    const struct desktop_params *p = params;
    struct desktop_result *r = result;
    struct desktop *d = desktop_get(h, e);
    bool set = str_is(p->action, "set");

    if (!d)
        return -EIO;
    if (set && !p->text.p)
        return err_set(e, ERR_MISSING, "text: required");
    int n = set ? rfb_paste(h, d->rfb, p->text, e) : rfb_copied(h, d->rfb, &r->text, e);
    if (set)
        r->text = p->text;
    return desktop_verdict_bare(h, d, n, r, e);
}

static int act_on_window(struct hand *h, const struct desktop_params *p, struct err *e)
{
    struct x_window v[X_WINDOWS_MAX];
    size_t count;
    uint32_t id = p->window == FIELD_ABSENT ? 0 : (uint32_t)p->window;
    struct x11 *x = x11_open(DESKTOP_X11, e);

    if (!x)
        return -EIO;
    int n = x11_windows(x, h->arena, v, &count, e);
    for (size_t i = count; n >= 0 && !id && i > 0; i--) /* the newest */
        if (has_text(v[i - 1].title, p->title) || has_text(v[i - 1].program, p->title))
            id = v[i - 1].id;
    if (n >= 0 && !id)
        n = p->title.n ? err_set(e, ERR_NOT_FOUND, "title: no window has '%.*s'", STR_ARG(p->title))
                       : err_set(e, ERR_MISSING, "window: which?");
    if (n >= 0)
        n = str_is(p->action, "focus") ? x11_focus(x, id, e) : x11_end(x, id, e);
    x11_close(x);
    return n;
}

int desktop_run_windows(struct hand *h, const void *params, void *result, struct err *e)
{
    const struct desktop_params *p = params;
    struct desktop_result *r = result;
    struct desktop *d = desktop_get(h, e);
    struct x_window v[X_WINDOWS_MAX];
    size_t count;

    if (!d)
        return -EIO;
    int n = str_is(p->action, "list") ? 0 : act_on_window(h, p, e);
    if (n >= 0 && !str_is(p->action, "list"))
        n = rfb_pause(h, d->rfb, now_ms() + 50, e); /* the window manager is another program */
    if (n >= 0)
        n = list_windows(h, v, &count, e);
    if (n < 0)
        return n;
    struct desktop_window *rows = arena_alloc(h->arena, (count + 1) * sizeof *rows);
    for (size_t i = 0; i < count; i++)
        rows[i] = (struct desktop_window){ v[i].id,     v[i].pid,   v[i].x,       v[i].y,     v[i].width,
                                           v[i].height, v[i].title, v[i].program, v[i].active };
    r->windows = (struct rows){ rows, count };
    return desktop_verdict_bare(h, d, 0, r, e);
}

int desktop_run_screen(struct hand *h, const void *params, void *result, struct err *e)
{
    const struct desktop_params *p = params;
    struct desktop_result *r = result;
    struct desktop *d = desktop_get(h, e);
    int width, height, n = 0;

    if (!d)
        return -EIO;
    rfb_size(d->rfb, &width, &height);
    if (p->trees.n)
        d->trees = str_is(p->trees, "on");
    if (p->width != FIELD_ABSENT)
        width = (int)p->width;
    if (p->height != FIELD_ABSENT)
        height = (int)p->height;
    if ((long)width * height > LIMIT_SCREEN_PIXELS)
        return err_set(e, ERR_LIMIT, "width, height: %dx%d has more than LIMIT_SCREEN_PIXELS (%ld) pixels", width,
                       height, (long)LIMIT_SCREEN_PIXELS);
    if (p->width != FIELD_ABSENT || p->height != FIELD_ABSENT)
        n = rfb_resize(h, d->rfb, width, height, e);
    rfb_size(d->rfb, &width, &height);
    r->width = width;
    r->height = height;
    return desktop_verdict_bare(h, d, n, r, e);
}
#endif

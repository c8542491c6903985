/* The keyboard of the box's screen: keys by name, and text in any script. */
#include "tool/desktop_internal.h"

#ifdef IN_BOX

#include <errno.h>

#include "base/auto.h"
#include "base/loop.h"
#include "init/desktop.h"
#include "init/keysym.h"
#include "init/rfb.h"

int desktop_tap(struct hand *h, struct desktop *d, uint32_t sym, struct err *e)
{
    int n = desktop_key(h, d, sym, true, e);

    return n < 0 ? n : desktop_key(h, d, sym, false, e);
}

/* The next character of UTF-8 text (which the surface has checked). */
static uint32_t next_char(struct str *s)
{
    unsigned char b = (unsigned char)s->p[0];
    size_t n = b < 0x80 ? 1 : b >= 0xf0 ? 4 : b >= 0xe0 ? 3 : 2;
    uint32_t c = n == 1 ? b : b & (0xffU >> (n + 1));

    n = n < s->n ? n : s->n;
    for (size_t i = 1; i < n; i++)
        c = c << 6 | ((unsigned char)s->p[i] & 0x3f);
    s->p += n;
    s->n -= n;
    return c;
}

int desktop_type(struct hand *h, struct desktop *d, const struct desktop_params *p, struct desktop_result *r,
                 struct err *e)
{
    int n = 0;

    for (struct str rest = p->text; n >= 0 && rest.n; r->length++) {
        uint32_t c = next_char(&rest), sym = keysym_of_char(c);
        if (!sym)
            return err_set(e, ERR_INVALID, "text: U+%04X at character %lld cannot be typed", c, (long long)r->length);
        n = desktop_tap(h, d, sym, e);
        if (n >= 0 && p->interval > 0 && rest.n)
            n = rfb_pause(h, d->rfb, now_ms() + (int64_t)(p->interval * 1000), e);
        else if (n >= 0 && !rest.n)
            n = rfb_sync(h, d->rfb, e);
    }
    r->typed = p->text;
    return n;
}

int desktop_run_type(struct hand *h, const void *params, void *result, struct err *e)
{
    struct desktop *d = desktop_get(h, e);

    return d ? desktop_verdict(h, d, desktop_type(h, d, params, result, e), result, e) : -EIO;
}

int desktop_sym(struct str key, const char *name, uint32_t *ret, struct err *e)
{
    *ret = keysym_of(key);
    return *ret ? 0
                : err_set(e, ERR_INVALID, "%s: there is no key '%.*s'", name, (int)(key.n < 32 ? key.n : 32), key.p);
}

int desktop_one_key(struct hand *h, const struct desktop_params *p, struct desktop_result *r, bool down, bool up,
                    struct err *e)
{
    uint32_t sym;
    int n = desktop_sym(p->key, "key", &sym, e);

    if (n < 0)
        return n;
    struct desktop *d = desktop_get(h, e);
    if (!d)
        return -EIO;
    if (down)
        n = desktop_key(h, d, sym, true, e);
    if (n >= 0 && up)
        n = desktop_key(h, d, sym, false, e);
    if (n >= 0)
        n = rfb_sync(h, d->rfb, e);
    r->key = p->key;
    return desktop_verdict(h, d, n, r, e);
}

int desktop_run_key(struct hand *h, const void *params, void *result, struct err *e)
{
    return desktop_one_key(h, params, result, true, true, e);
}

int desktop_run_key_down(struct hand *h, const void *params, void *result, struct err *e)
{
    return desktop_one_key(h, params, result, true, false, e);
}

int desktop_run_key_up(struct hand *h, const void *params, void *result, struct err *e)
{
    return desktop_one_key(h, params, result, false, true, e);
}

int desktop_run_hotkey(struct hand *h, const void *params, void *result, struct err *e)
{
    const struct desktop_params *p = params;
    struct desktop_result *r = result;
    uint32_t syms[8];
    int n = p->keys.n ? 0 : err_set(e, ERR_INVALID, "keys: at least one");

    for (size_t i = 0; n >= 0 && i < p->keys.n && i < ARRAY_LEN(syms); i++)
        n = desktop_sym(p->keys.v[i], "keys", &syms[i], e);
    if (n < 0)
        return n;
    struct desktop *d = desktop_get(h, e);
    if (!d)
        return -EIO;
    for (size_t i = 0; n >= 0 && i < p->keys.n; i++)
        n = desktop_key(h, d, syms[i], true, e);
    for (size_t i = p->keys.n; n >= 0 && i > 0; i--)
        n = desktop_key(h, d, syms[i - 1], false, e);
    if (n >= 0)
        n = rfb_sync(h, d->rfb, e);
    r->keys = p->keys;
    return desktop_verdict(h, d, n, r, e);
}
#endif

/* Looking at the screen: its pixels, and what programs tell of their windows over AT-SPI (atspi.py): roles, names, places and
 * states of what one can see. */
#include "tool/desktop_internal.h"

#ifdef IN_BOX

#include <errno.h>

#include "base/auto.h"
#include "base/limits.h"
#include "init/desktop.h"
#include "init/png.h"
#include "init/program.h"
#include "init/rfb.h"

enum { TREE_MAX = 1000 };

__asm__(".section .rodata\natspi_script:\n.incbin \"src/tool/atspi.py\"\n.byte 0\n.previous\n");
extern const char atspi_script[];

static int tree(struct hand *h, int64_t max, struct str *ret, struct err *e)
{
    const char *const argv[] = { "/usr/bin/python3", "-c", atspi_script, arena_printf(h->arena, "%lld", (long long)max),
                                 NULL };
    struct program_end end;
    int n = program_run(
        h, &(struct program_opts){ .argv = argv, .cwd = "/", .deadline_ms = h->deadline_ms, .head_max = 16 * MiB },
        &end, e);

    *ret = (struct str){ 0 };
    if (n < 0)
        return n;
    if (memmem(end.err.p, end.err.n, "ModuleNotFoundError", 19))
        return err_set(e, ERR_NOT_FOUND,
                       "the accessibility tree needs Debian's packages python3-gi and at-spi2-core in the box");
    if (end.timed_out || end.exit_code)
        return err_set(e, ERR_SYSTEM, "accessibility tree: %s%.*s",
                       end.timed_out ? "programs did not answer in time" : "", (int)(end.err.n < 180 ? end.err.n : 180),
                       end.err.p);
    if (end.out.n)
        *ret = end.out;
    return 0;
}

int desktop_verdict_bare(struct hand *h, struct desktop *d, int n, struct desktop_result *r, struct err *e)
{
    if (n == -ETIMEDOUT || n == -ECANCELED || n == -EPIPE) {
        h->outcome = n == -ETIMEDOUT ? OUTCOME_TIMEOUT : n == -ECANCELED ? OUTCOME_KILLED : OUTCOME_TASK_ERROR;
        h->message = str_of(arena_printf(h->arena, "%s", e->msg));
        n = 0;
    }
    r->restarted = d->restarted;
    if (n >= 0)
        d->restarted = false;
    return n;
}

int desktop_verdict(struct hand *h, struct desktop *d, int n, struct desktop_result *r, struct err *e)
{
    struct err ignored; /* what was asked for is done */

    n = desktop_verdict_bare(h, d, n, r, e);
    if (n >= 0 && h->outcome == OUTCOME_OK && d->trees && !r->accessibility_tree.p)
        (void)tree(h, TREE_MAX, &r->accessibility_tree, &ignored);
    return n;
}

struct str desktop_pair(struct hand *h, int64_t x, int64_t y)
{
    return str_of(arena_printf(h->arena, "[%lld,%lld]", (long long)x, (long long)y));
}

int desktop_run_screenshot(struct hand *h, const void *params, void *result, struct err *e)
{
    struct desktop_result *r = result;
    struct desktop *d = desktop_get(h, e);
    const uint8_t *pixels;
    int width, height;
    AUTO(buf_done) struct buf png = { 0 };

    if (!d)
        return -EIO;
    int n = rfb_frame(h, d->rfb, &pixels, e);
    if (n < 0)
        return desktop_verdict(h, d, n, r, e);
    rfb_size(d->rfb, &width, &height);
    buf_init(&png, LIMIT_FRAME);
    png_write(&png, pixels, width, height);
    if (png.full || png.n > LIMIT_FRAME / 4 * 3)
        return err_set(e, ERR_LIMIT, "the picture is larger than LIMIT_FRAME (%ld bytes)", (long)LIMIT_FRAME);
    r->image = arena_copy(h->arena, buf_view(&png));
    r->mime_type = STR("image/png");
    r->size = desktop_pair(h, width, height);
    if (((const struct desktop_params *)params)->accessibility)
        n = tree(h, TREE_MAX, &r->accessibility_tree, e);
    return desktop_verdict(h, d, n, r, e);
}

int desktop_run_tree(struct hand *h, const void *params, void *result, struct err *e)
{
    struct desktop_result *r = result;
    struct desktop *d = desktop_get(h, e);

    return d ? desktop_verdict(h, d, tree(h, ((const struct desktop_params *)params)->max, &r->accessibility_tree, e),
                               r, e)
             : -EIO;
}
#endif

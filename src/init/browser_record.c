/* What the log sees of a page: a small picture of it around each call that acts (browser.record). The answer does not
 * carry it; the step names it as a blob. It never makes a call fail, and a page that does not answer costs it
 * PICTURE_MS at most. */
#include <stdio.h>

#include "base/limits.h"
#include "base/loop.h"
#include "init/browser.h"
#include "init/init.h"
#include "tool/tool.h"

enum { PICTURE_MS = 1500 };

static void take(struct hand *h, struct browser *b, const char *name)
{
    const struct json *v = NULL;
    struct err ignored;
    int64_t deadline = h->deadline_ms, own = now_ms() + PICTURE_MS;

    if (h->picture_count == WIRE_PICTURES_MAX || browser_has_crashed(b))
        return;
    h->deadline_ms = own;
    if (browser_page(h, b, "Page.captureScreenshot",
                     STR("{\"format\":\"jpeg\",\"quality\":60,\"optimizeForSpeed\":true}"), &v, &ignored) == 0) {
        struct str bytes = base64_decode(h->arena, json_get_str(v, "data"));
        if (bytes.n)
            h->pictures[h->picture_count++] = (struct wire_picture){ str_of(name), bytes };
    }
    h->deadline_ms = deadline;
}

void browser_before(struct hand *h, const struct tool *t)
{
    struct browser *b = browser_at_hand(h);

    if (b && h->init->boot.habits.browser_record == 2 && !(t->flags & TOOL_READ_ONLY))
        take(h, b, "before");
}

/* One that was cancelled is not waited for, and what did not answer in time would not answer now. */
void browser_after(struct hand *h, const struct tool *t, int result)
{
    struct browser *b = browser_at_hand(h);

    (void)result;
    if (b && h->init->boot.habits.browser_record >= 1 && !(t->flags & TOOL_READ_ONLY) &&
        h->outcome != OUTCOME_TIMEOUT && h->outcome != OUTCOME_KILLED)
        take(h, b, "after");
}

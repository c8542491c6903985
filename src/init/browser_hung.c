/* A page whose script never ends. Whoever looks at it or acts on it waits for it, to the call's deadline: it may be busy
 * for good reason. Whoever wants to leave it does not: its script is ended, and if it does not answer even then, the
 * tab is replaced. The browser itself always answers: where a hung page is, it knows, too. */
#include <errno.h>
#include <stdio.h>

#include "base/loop.h"
#include "init/browser_parts.h"

enum { ANSWER_MS = 500, ENDED_MS = 1000 };

static bool answers(struct hand *h, struct browser *b, int64_t ms)
{
    struct err ignored;
    int64_t deadline = h->deadline_ms;

    h->deadline_ms = now_ms() + ms;
    int n = browser_page(h, b, "Runtime.evaluate", STR("{\"expression\":\"1\",\"throwOnSideEffect\":true}"), NULL,
                         &ignored);
    h->deadline_ms = deadline;
    return n != -ETIMEDOUT;
}

int browser_unhang(struct hand *h, struct browser *b, struct err *e)
{
    if (!b->at || answers(h, b, ANSWER_MS))
        return 0;
    b->hung = true;
    view_post(b, b->at, "Runtime.terminateExecution", (struct str){ 0 });
    if (answers(h, b, ENDED_MS) || !b->at)
        return 0;
    char *gone = arena_printf(h->arena, "{\"targetId\":\"%s\"}", b->at->target);
    view_post(b, b->at, "Page.crash", (struct str){ 0 }); /* it would keep its process busy */
    int n = browser_tab_open(h, b, STR("about:blank"), e);
    cdp_post(b->cdp, (struct str){ 0 }, "Target.closeTarget", str_of(gone));
    return n;
}

int browser_place(struct hand *h, struct browser *b, struct str *ret_url, struct str *ret_title, struct err *e)
{
    const struct json *r;

    if (!b->at)
        return -ENOENT;
    int n = cdp_call(h, b->cdp, (struct str){ 0 }, "Target.getTargetInfo",
                     str_of(arena_printf(h->arena, "{\"targetId\":\"%s\"}", b->at->target)), &r, e);
    if (n >= 0) {
        *ret_url = json_get_str(json_get(r, "targetInfo"), "url");
        *ret_title = json_get_str(json_get(r, "targetInfo"), "title");
    }
    return n;
}

/* Waiting for the page: never by sleeping for a guess. Whatever the browser tells (load, requests, downloads), and every
 * change of the page, is followed by a look; what changes without a word, such as a variable of a script, is looked at
 * every `polling` seconds, too. */
#include <errno.h>

#include "base/limits.h"
#include "tool/browser_internal.h"
#ifdef IN_BOX
#include <sys/stat.h>

#include "base/auto.h"
#include "base/loop.h"
#include "tool/file_internal.h"
#endif

const struct field browser_in_wait[] = {
    FIELD(STR, P, type, "for what", .def_str = "selector",
          .choices = "selector|load|networkidle|url|function|request|response|download|timeout"),
    FIELD(STR, P, selector, "selector: the element", .max = 8192),
    FIELD(STR, P, state, "selector: how it is to be", .def_str = "visible",
          .choices = "visible|attached|hidden|detached"),
    FIELD(STR, P, pattern, "url, request, response: a part of the URL, or a glob", .max = 8192, .alias = "url"),
    FIELD(STR, P, expression, "function: JavaScript that is to become true", .max = 1 * MiB),
    FIELD(NUM, P, polling, "selector, url, function: seconds between looks, if nothing tells of a change",
          .def_num = 0.1, .min = 0.01, .max = 60),
    FIELD(STR, P, path, "download: copy it to this file", .max = LIMIT_PATH),
    TIMEOUT,
    { 0 },
};
const struct field browser_out_wait[] = { NEWS,
                                          FIELD(BOOL, R, found, "it happened"),
                                          FIELD(JSON, R, request, "request, response: the first one that fits"),
                                          FIELD(STR, R, path, "download: the file"),
                                          { 0 } };

#ifdef IN_BOX

static bool is_function(struct str x)
{
    return memmem(x.p ? x.p : "", x.n, "=>", 2) || (x.n > 8 && memcmp(x.p, "function", 8) == 0);
}

/* 1: it is so, 0: not yet. */
static int look(struct hand *h, struct browser *b, const struct browser_params *p, struct browser_result *r,
                struct err *e)
{
    bool gone = str_is(p->state, "hidden") || str_is(p->state, "detached"),
         seen = str_is(p->state, "visible") || str_is(p->state, "hidden");
    const struct json *v = NULL;
    struct spot at;
    int n;

    if (str_is(p->type, "selector")) {
        n = browser_look(h, b, "exists", browser_element_json(h, p, ",\"watch\":true"), &at, e);
        return n < 0 ? n : (at.at && json_get_bool(at.at, seen ? "visible" : "exists", false)) != gone;
    }
    if (str_is(p->type, "url")) {
        n = browser_evaluate(h, b, STR("location.href"), &v, e);
        struct str url = n >= 0 ? json_get_str(v, "value") : (struct str){ 0 };
        return n < 0 ? n : url.p && (memmem(url.p, url.n, p->pattern.p, p->pattern.n) || browser_glob(p->pattern, url));
    }
    if (str_is(p->type, "function")) {
        char *x = arena_printf(h->arena, "(async () => !!(await (%.*s\n)%s))()", STR_ARG(p->expression),
                               is_function(p->expression) ? "()" : "");
        n = browser_act(h, b, "watch", STR("{\"watch\":true}"), &v, e);
        if (n >= 0)
            n = browser_evaluate(h, b, str_of(x), &v, e);
        return n < 0 ? n : json_get_bool(v, "value", false);
    }
    if (str_is(p->type, "request") || str_is(p->type, "response")) {
        r->request = browser_seen(h, b, p->pattern, str_is(p->type, "response"));
        return r->request.p != NULL;
    }
    if (str_is(p->type, "download")) {
        r->path = browser_downloaded(h, b);
        return r->path.p != NULL;
    }
    return 0; /* timeout: it is never so */
}

static int until(struct hand *h, struct browser *b, const struct browser_params *p, struct browser_result *r,
                 struct err *e)
{
    if (str_is(p->type, "load") || str_is(p->type, "networkidle"))
        return browser_until(h, b, arena_z(h->arena, p->type), h->deadline_ms, e);
    while (now_ms() < h->deadline_ms) {
        int n = look(h, b, p, r, e);
        if (n > 0 || (n < 0 && n != -EINVAL && n != -ENOENT)) /* a page on its way elsewhere may be unable to say */
            return n;
        if (n == -EINVAL && strstr(e->msg, "SyntaxError"))
            return n;
        int64_t next = now_ms() + (int64_t)(p->polling * 1000);
        n = browser_stirs(h, b, next < h->deadline_ms ? next : h->deadline_ms, e);
        if (n < 0)
            return n;
    }
    return 0;
}

static int copy_file(struct hand *h, struct str from, struct str to, struct err *e)
{
    struct str text;
    struct stat st;
    int n = file_read_all(h, arena_z(h->arena, from), &text, &st, e);

    return n < 0 ? n : browser_save(h, to, text, e);
}

int browser_run_wait(struct hand *h, const void *params, void *result, struct err *e)
{
    const struct browser_params *p = params;
    struct browser_result *r = result;
    struct browser *b = browser_open(h, p, e);

    if (!b)
        return -EIO;
    if (str_is(p->type, "selector") && !p->selector.n)
        return err_set(e, ERR_MISSING, "selector: required");
    if (str_is(p->type, "url") && !p->pattern.n)
        return err_set(e, ERR_MISSING, "pattern: required");
    if (str_is(p->type, "function") && !p->expression.n)
        return err_set(e, ERR_MISSING, "expression: required");
    int n = until(h, b, p, r, e);
    r->found = n > 0;
    if (n == 0 && !str_is(p->type, "timeout")) {
        err_set(e, ERR_NONE, "it did not happen in time");
        n = -ETIMEDOUT;
    }
    if (n > 0 && r->path.p && p->path.n) {
        n = copy_file(h, r->path, p->path, e);
        r->path = p->path;
    }
    h->deadline_ms = now_ms() + 5000;
    return browser_verdict(h, b, n, r, e);
}
#endif

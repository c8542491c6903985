/* Requests of the browser: what they were, what is sent with them, what is answered in place of the network. */
#include <errno.h>

#include "base/limits.h"
#include "tool/browser_internal.h"

const struct field browser_in_requests[] = {
    FIELD(STR, P, filter, "only those whose URL has this in it or fits this glob, or of this method or type",
          .max = 8192),
    FIELD(INT, P, limit, "the newest of them", .def = 100, .min = 1, .max = LIMIT_BROWSER_REQUESTS),
    FIELD(BOOL, P, clear, "forget all of them afterwards"),
    { 0 },
};
const struct field browser_in_route[] = {
    FIELD(STR, P, action, "what to do", .def_str = "add", .choices = "add|remove|clear"),
    FIELD(STR, P, pattern, "glob of the URL: * is anything but a slash, ** anything, {a,b} one of these", .max = 8192,
          .alias = "url_pattern"),
    FIELD(STR, P, body, "add: what is answered", .max = LIMIT_BROWSER_MOCK),
    FIELD(INT, P, status, "add: with this status", .def = 200, .min = 100, .max = 599),
    FIELD(PAIRS, P, headers, "add: and these headers", .max = 100),
    FIELD(STR, P, content_type, "add: and this type", .def_str = "text/plain", .max = 256),
    FIELD(BOOL, P, abort, "add: the request fails instead"),
    { 0 },
};
const struct field browser_in_headers[] = {
    FIELD(PAIRS, P, headers, "sent with each request from now on, in place of those before; none: as it was",
          .required = true, .max = 100),
    FIELD(STR, P, origin, "only to this origin, such as https://example.org", .max = 2048),
    { 0 },
};
const struct field browser_in_har[] = {
    FIELD(STR, P, path, "write it into this file of the box; else it is the result", .max = LIMIT_PATH),
    FIELD(BOOL, P, bodies, "with what was answered, as far as the browser has it", .def = true),
    { 0 },
};
const struct field browser_out_requests[] = {
    NEWS,
    FIELD(JSON, R, requests, "method, url, resource_type, status, headers, times, oldest first"),
    { 0 },
};
const struct field browser_out_route[] = { NEWS,
                                           FIELD(INT, R, count, "routes that there are, or were removed"),
                                           { 0 } };
const struct field browser_out_headers[] = { NEWS, { 0 } };
const struct field browser_out_har[] = { NEWS,
                                         FIELD(JSON, R, har, "the archive, HAR 1.2"),
                                         FIELD(STR, R, path, "or: the file that it is in"),
                                         FIELD(INT, R, count, "requests in it"),
                                         { 0 } };

#ifdef IN_BOX

int browser_run_requests(struct hand *h, const void *params, void *result, struct err *e)
{
    const struct browser_params *p = params;
    struct browser_result *r = result;
    struct browser *b = browser_open(h, p, e);

    if (!b)
        return -EIO;
    r->requests = browser_requests(h, b, p->filter, p->limit);
    if (p->clear)
        browser_forget(b, false);
    return browser_verdict(h, b, 0, r, e);
}

int browser_run_route(struct hand *h, const void *params, void *result, struct err *e)
{
    const struct browser_params *p = params;
    struct browser_result *r = result;
    struct browser *b = browser_open(h, p, e);
    bool clear = str_is(p->action, "clear");
    int n = 0;

    if (!b)
        return -EIO;
    if (!clear && !p->pattern.n)
        return err_set(e, ERR_MISSING, "pattern: required");
    if (str_is(p->action, "add")) {
        n = browser_route(b,
                          &(struct route){ .pattern = p->pattern,
                                           .body = p->body,
                                           .content_type = p->content_type,
                                           .headers = p->headers,
                                           .status = p->status,
                                           .abort = p->abort },
                          e);
        r->count = (int64_t)browser_routes(b);
    } else {
        r->count = (int64_t)browser_unroute(b, clear ? (struct str){ 0 } : p->pattern);
        if (!clear && !r->count)
            n = err_set(e, ERR_NOT_FOUND, "pattern: there is no route for '%.*s'",
                        (int)(p->pattern.n < 150 ? p->pattern.n : 150), p->pattern.p);
    }
    return browser_verdict(h, b, n, r, e);
}

int browser_run_headers(struct hand *h, const void *params, void *result, struct err *e)
{
    const struct browser_params *p = params;
    struct browser *b = browser_open(h, p, e);

    if (!b)
        return -EIO;
    return browser_verdict(h, b, browser_headers(b, p->origin, &p->headers, e), result, e);
}

int browser_run_har(struct hand *h, const void *params, void *result, struct err *e)
{
    const struct browser_params *p = params;
    struct browser_result *r = result;
    struct browser *b = browser_open(h, p, e);
    size_t count = 0;

    if (!b)
        return -EIO;
    struct str har = browser_har(h, b, p->bodies, &count);
    int n = p->path.n ? browser_save(h, p->path, har, e) : 0;
    r->count = (int64_t)count;
    if (p->path.n)
        r->path = p->path;
    else
        r->har = har;
    return browser_verdict(h, b, n, r, e);
}
#endif

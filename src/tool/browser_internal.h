/* The browser backend's own header. Each of its files is about one noun: browser.c (the rows, navigation, tabs),
 * element (acting on elements), page (looking at the page), screen (mouse and keyboard of the viewport). A tool NAME
 * has its parameters in browser_in_NAME, its result in browser_out_NAME and its code in browser_run_NAME(). */
#pragma once

#include "base/limits.h"
#include "tool/tool.h"

struct browser_params { /* of all of them; a tool's table says which it takes */
    struct str url, wait_until, selector, ref, button, text, key, direction, what, attribute, expression, format,
        action, type, state, pattern, path, origin, filter, body, content_type, mode, locale, items, cookies, display;
    struct strs values, files, keys, labels, urls, url_blocklist, url_allowlist;
    struct pairs headers;
    int64_t index, click_count, amount, quality, option, max, width, height, status, limit, fps;
    double x, y, dx, dy, timeout, delay, duration, polling;
    bool full_page, clear, press_enter, keystrokes, accept, checked, abort, bodies, outer, allow_file_selection_dialogs;
};
struct browser_result {
    struct str url, title, dialogs, downloads, content, links, element, value, type, image, mime_type, selected, tabs,
        snapshot, elements, messages, text, html, version, user_agent, path, cookies, requests, request, har, found_at,
        markdown, captchas, target, recording, cdp_path, sandbox_why;
    int64_t status, x, y, width, height, count, index, size, screen_width, screen_height;
    double duration;
    bool restarted, crashed, hung, found, truncated, sandboxed, detected, checked, headed;
};

enum { BROWSER_TIMEOUT_S = 30 };
#define P       struct browser_params
#define TIMEOUT FIELD(NUM, P, timeout, "seconds", .def_num = BROWSER_TIMEOUT_S, .min = 0, .max = 3600)
#define ELEMENT                                                                                                        \
    FIELD(STR, P, selector, "CSS selector, text=..., or xpath=...", .max = 8192),                                      \
        FIELD(STR, P, ref, "or: a reference from browser:snapshot", .max = 32),                                        \
        FIELD(INT, P, index, "or: an index from browser:elements", .def = FIELD_ABSENT, .min = 0, .max = 100000)
#define POINT                                                                                                          \
    FIELD(NUM, P, x, "or: a point of the viewport", .def_num = -1, .min = -1, .max = 100000),                          \
        FIELD(NUM, P, y, "its other coordinate", .def_num = -1, .min = -1, .max = 100000)
#define R struct browser_result
#define NEWS                                                                                                           \
    FIELD(STR, R, url, "of the page now"), FIELD(STR, R, title, "its title"),                                          \
        FIELD(JSON, R, dialogs,                                                                                        \
              "that opened and were answered, permissions that were asked for: {type, message, accepted}"),            \
        FIELD(JSON, R, downloads, "that began or ended; files are in /home/gem/Downloads"),                            \
        FIELD(BOOL, R, restarted, "the browser is a new one; the former one is gone"),                                 \
        FIELD(BOOL, R, crashed, "the page crashed before"),                                                            \
        FIELD(BOOL, R, hung, "the page before this one did not answer, and was left by force")

#define BROWSER_TOOLS(X)                                                                                               \
    X(goto)                                                                                                            \
    X(back)                                                                                                            \
    X(forward)                                                                                                         \
    X(reload)                                                                                                          \
    X(tabs)                                                                                                            \
    X(dialog)                                                                                                          \
    X(info)                                                                                                            \
    X(viewport)                                                                                                        \
    X(downloads)                                                                                                       \
    X(record)                                                                                                          \
    X(restart)                                                                                                         \
    X(cookies)                                                                                                         \
    X(state)                                                                                                           \
    X(requests)                                                                                                        \
    X(route)                                                                                                           \
    X(headers)                                                                                                         \
    X(har)                                                                                                             \
    X(fill)                                                                                                            \
    X(check)                                                                                                           \
    X(find)                                                                                                            \
    X(markdown)                                                                                                        \
    X(captcha)                                                                                                         \
    X(click)                                                                                                           \
    X(hover)                                                                                                           \
    X(type)                                                                                                            \
    X(press)                                                                                                           \
    X(scroll)                                                                                                          \
    X(select)                                                                                                          \
    X(upload)                                                                                                          \
    X(screenshot)                                                                                                      \
    X(snapshot)                                                                                                        \
    X(elements)                                                                                                        \
    X(evaluate)                                                                                                        \
    X(extract)                                                                                                         \
    X(wait)                                                                                                            \
    X(console)                                                                                                         \
    X(act)
#define BROWSER_TOOL(name) extern const struct field browser_in_##name[], browser_out_##name[];
BROWSER_TOOLS(BROWSER_TOOL)
#undef BROWSER_TOOL

#ifdef IN_BOX
#include "init/browser.h"

#define BROWSER_TOOL(name) int browser_run_##name(struct hand *h, const void *params, void *result, struct err *e);
BROWSER_TOOLS(BROWSER_TOOL)
#undef BROWSER_TOOL

/* The browser, started if need be, and the call's deadline set. NULL: e. */
struct browser *browser_open(struct hand *h, const struct browser_params *p, struct err *e);
/* Ends a tool that the browser left with n: a call that did not get what it wanted in time, or was cancelled, says so
 * by its outcome; a result tells where the page is and what happened meanwhile. */
int browser_verdict(struct hand *h, struct browser *b, int n, struct browser_result *r, struct err *e);
double json_number(const struct json *j, const char *name); /* 0: none */

/* browser_element.c */
bool browser_names_element(const struct browser_params *p);
struct str browser_element_json(struct hand *h, const struct browser_params *p, const char *more);
int browser_not_there(const struct browser_params *p, struct err *e);
/* An element where it was found: in the page, or in a frame of another origin. */
struct spot {
    const struct json *at;     /* what page.js says about it */
    const struct frame *frame; /* NULL: the page's own */
    double x, y;               /* its middle, in the viewport */
};
/* The element, once it is there and can be seen: pages put them there when they like. */
int browser_locate(struct hand *h, struct browser *b, const struct browser_params *p, const char *act, const char *more,
                   struct spot *ret, struct err *e);
/* The same without waiting; ret->at is NULL if there is none. */
int browser_look(struct hand *h, struct browser *b, const char *act, struct str how, struct spot *ret, struct err *e);
/* Where to act: the middle of the element, or the point that was given. */
int browser_aim(struct hand *h, struct browser *b, const struct browser_params *p, struct browser_result *r, double *x,
                double *y, struct err *e);
int browser_focus(struct hand *h, struct browser *b, const struct browser_params *p, struct browser_result *r,
                  struct err *e);
struct str json_raw(const struct json *j, const char *name); /* absent: none */
int browser_save(struct hand *h, struct str path, struct str text,
                 struct err *e); /* a file of the box, with its directory */
#endif

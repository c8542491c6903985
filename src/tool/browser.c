/* A real browser in the box. Elements are named by a CSS selector (also text=..., xpath=...), by the reference that
 * browser:snapshot gave, by the index of browser:elements, or by a point. Nothing waits by sleeping: a call ends when
 * the page says that it is done, or at its deadline. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/limits.h"
#include "tool/browser_internal.h"
#ifdef IN_BOX
#include <fcntl.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/loop.h"
#include "init/script.h"
#include "init/desktop.h"
#include "init/init.h"
#include "init/task.h"
#include "init/x11.h"
#include "tool/file_internal.h"
#endif

#define UNTIL                                                                                                          \
    FIELD(STR, P, wait_until, "what to wait for", .def_str = "load",                                                   \
          .choices = "load|domcontentloaded|networkidle|commit")

const struct field browser_in_goto[] = {
    FIELD(STR, P, url, "where to go", .required = true, .max = 1 * MiB),
    UNTIL,
    TIMEOUT,
    FIELD(INT, P, width, "of the viewport, if the browser starts now", .def = FIELD_ABSENT, .min = 100, .max = 8192),
    FIELD(INT, P, height, "the same", .def = FIELD_ABSENT, .min = 100, .max = 8192),
    { 0 },
};
const struct field browser_in_back[] = { UNTIL, TIMEOUT, { 0 } };
const struct field browser_in_forward[] = { UNTIL, TIMEOUT, { 0 } };
const struct field browser_in_reload[] = { UNTIL, TIMEOUT, { 0 } };
const struct field browser_in_info[] = { { 0 } };
const struct field browser_in_downloads[] = { { 0 } };
const struct field browser_in_restart[] = {
    FIELD(STR, P, mode, "soft: the browser stays, but routes, headers and the record of requests go", .def_str = "hard",
          .choices = "soft|hard"),
    FIELD(STRS, P, url_blocklist, "sites whose pages are refused: [scheme://]host[:port][/path], or *", .max = 1000),
    FIELD(STRS, P, url_allowlist, "but not these", .max = 1000),
    FIELD(STR, P, locale, "such as de-DE; for hard", .max = 31),
    FIELD(BOOL, P, allow_file_selection_dialogs, "false: pages cannot open them", .def = true),
    FIELD(STR, P, display, "for hard: with a window on the box's desktop or without; default: as it was",
          .choices = "headed|headless"),
    { 0 },
};
const struct field browser_in_viewport[] = { FIELD(INT, P, width, "pixels", .required = true, .min = 100, .max = 8192),
                                             FIELD(INT, P, height, "pixels", .required = true, .min = 100, .max = 8192),
                                             { 0 } };
const struct field browser_in_tabs[] = {
    FIELD(STR, P, action, "what to do", .def_str = "list", .choices = "list|new|switch|close"),
    FIELD(STR, P, url, "new: where to go", .max = 1 * MiB),
    FIELD(INT, P, index, "switch, close: which; close: default is the one at hand", .def = FIELD_ABSENT, .min = 0,
          .max = 255),
    TIMEOUT,
    { 0 },
};
const struct field browser_in_dialog[] = {
    FIELD(BOOL, P, accept, "what confirm and prompt get from now on; an alert is always accepted", .required = true),
    FIELD(STR, P, text, "what a prompt gets", .max = 255),
    { 0 },
};

#define PLACE                                                                                                          \
    {                                                                                                                  \
        NEWS, FIELD(INT, R, status, "HTTP status of the document, if there is one", .def = FIELD_ABSENT),              \
        {                                                                                                              \
            0                                                                                                          \
        }                                                                                                              \
    }
const struct field browser_out_goto[] = PLACE;
const struct field browser_out_back[] = PLACE;
const struct field browser_out_forward[] = PLACE;
const struct field browser_out_reload[] = PLACE;
const struct field browser_out_dialog[] = PLACE;
const struct field browser_out_restart[] = PLACE;
const struct field browser_out_downloads[] = {
    NEWS,
    { .name = "files",
      .type = FIELD_JSON,
      .offset = __builtin_offsetof(R, found_at),
      .help = "guid, url, suggested_filename, state, received, total, path, created_at; oldest first" },
    { 0 },
};
const struct field browser_out_tabs[] = { NEWS, FIELD(JSON, R, tabs, "index, id, url, title, active"), { 0 } };
const struct field browser_out_info[] = { NEWS,
                                          FIELD(STR, R, version, "of the browser"),
                                          FIELD(STR, R, user_agent, "how it calls itself"),
                                          FIELD(BOOL, R, sandboxed,
                                                "the browser's own sandbox is on, inside the box's"),
                                          FIELD(STR, R, sandbox_why, "why it is not; empty if it is"),
                                          FIELD(INT, R, width, "of the viewport"),
                                          FIELD(INT, R, height, "of the viewport"),
                                          FIELD(BOOL, R, headed, "it has a window on the box's desktop"),
                                          FIELD(INT, R, screen_width, "headed: of the desktop", .def = FIELD_ABSENT),
                                          FIELD(INT, R, screen_height, "headed: of the desktop", .def = FIELD_ABSENT),
                                          FIELD(STR, R, cdp_path, "behind /cdp: a WebSocket for other tools"),
                                          { 0 } };

const struct field browser_out_viewport[] = {
    NEWS,
    FIELD(INT, R, width, "of the viewport"),
    FIELD(INT, R, height, "of the viewport"),
    { 0 },
};

#ifdef IN_BOX

static void begin(struct task *t, const void *params)
{
    struct err e = { 0 };
    struct driver_ask ask = { .kind = &browser_kind, .name = STR("browser"), .label = STR("browser") };

    const struct browser_params *p = params;
    if (p->display.n && str_is(p->mode, "hard"))
        t->init->headed = str_is(p->display, "headed") ? 1 : -1;
    bool headed = browser_headed(t->init);
    if (scripts_write(&e) < 0)
        task_fail(t, OUTCOME_INFRA_ERROR, &e);
    else if (headed && desktop_up(t->init, 0, 0, &e) < 0)
        task_fail(t, outcome_of_err(&e), &e);
    else
        driver_submit(t, &ask);
}

/* --- in the driver --- */

static int64_t deadline_of(struct hand *h, const struct browser_params *p)
{
    int64_t own = now_ms() + (int64_t)(((p->timeout > 0 ? p->timeout : BROWSER_TIMEOUT_S) + p->duration) * 1000);

    return h->deadline_ms && h->deadline_ms < own ? h->deadline_ms : own;
}

int browser_save(struct hand *h, struct str path, struct str text, struct err *e)
{
    struct stat st;
    char *at = NULL;
    int n = file_path(h, path, &at, e);

    if (n < 0)
        return n;
    auto_close int fd = file_create(at, O_TRUNC, true, &st, e);
    return fd < 0 ? fd : file_write_all(fd, at, text, e);
}

double json_number(const struct json *j, const char *name)
{
    const struct json *v = json_get(j, name);

    return v && v->type == JSON_NUM ? v->num : 0;
}

static int report(struct hand *h, struct browser *b, struct browser_result *r, struct err *e)
{
    const struct json *v = NULL;
    struct browser_news news;
    struct err ignored;

    (void)e;
    if (!h->deadline_ms || h->deadline_ms > now_ms() + 2000) /* of a page that does not answer the browser tells */
        h->deadline_ms = now_ms() + 2000;
    if (browser_evaluate(h, b, STR("({u: location.href, t: document.title})"), &v, &ignored) == 0) {
        r->url = json_get_str(json_get(v, "value"), "u");
        r->title = json_get_str(json_get(v, "value"), "t");
    } else {
        h->deadline_ms = now_ms() + 1000;
        (void)browser_place(h, b, &r->url, &r->title, &ignored);
    }
    browser_news(h, b, &news);
    r->dialogs = news.dialogs;
    r->downloads = news.downloads;
    r->restarted = news.restarted;
    r->crashed = news.crashed;
    r->hung = news.hung;
    return 0;
}

int browser_verdict(struct hand *h, struct browser *b, int n, struct browser_result *r, struct err *e)
{
    if (n == -ETIMEDOUT || n == -ECANCELED) {
        h->outcome = n == -ETIMEDOUT ? OUTCOME_TIMEOUT : OUTCOME_KILLED;
        h->message = str_of(arena_printf(h->arena, "%s", e->msg));
        h->deadline_ms = now_ms() + 500; /* to tell where the page is */
        return report(h, b, r, e);
    }
    if (n == -EPIPE) {
        h->outcome = OUTCOME_TASK_ERROR;
        h->message = str_of(arena_printf(h->arena, "%s", e->msg));
        return 0;
    }
    return n < 0 ? n : report(h, b, r, e);
}

struct browser *browser_open(struct hand *h, const struct browser_params *p, struct err *e)
{
    struct browser_wish w = { p->width > 0 ? p->width : 0, p->height > 0 ? p->height : 0 };

    h->deadline_ms = deadline_of(h, p);
    struct browser *b = browser_get(h, &w, e);
    if (b)
        browser_mark(b);
    return b;
}

int browser_run_goto(struct hand *h, const void *params, void *result, struct err *e)
{
    const struct browser_params *p = params;
    struct browser_result *r = result;
    struct browser *b = browser_open(h, p, e);

    if (!b)
        return -EIO;
    struct str url = p->url;
    if (!memmem(url.p, url.n, ":", 1))
        url = str_of(arena_printf(h->arena, "http://%.*s", STR_ARG(url)));
    const char *until = arena_z(h->arena, p->wait_until);
    int n = browser_goto(h, b, url, until, h->deadline_ms, &r->status, e);
    struct err waited; /* aborted by a page that is about to crash, perhaps: the news comes behind */
    int64_t end = n < 0 && strstr(e->msg, "ERR_ABORTED") ? now_ms() + 300 : 0;
    while (now_ms() < end && !browser_has_crashed(b) && browser_stirs(h, b, end, &waited) >= 0)
        ;
    if (n < 0 && browser_has_crashed(b) && (b = browser_get(h, NULL, e))) /* the page before this one, a moment ago */
        n = browser_goto(h, b, url, until, h->deadline_ms, &r->status, e);
    if (!b)
        return -EIO;
    if (!r->status)
        r->status = FIELD_ABSENT;
    return browser_verdict(h, b, n, r, e);
}

static int history(struct hand *h, const void *params, void *result, int by, struct err *e)
{
    const struct browser_params *p = params;
    struct browser *b = browser_open(h, p, e);

    ((struct browser_result *)result)->status = FIELD_ABSENT;
    if (!b)
        return -EIO;
    return browser_verdict(h, b, browser_history(h, b, by, arena_z(h->arena, p->wait_until), h->deadline_ms, e), result,
                           e);
}

int browser_run_back(struct hand *h, const void *p, void *r, struct err *e)
{
    return history(h, p, r, -1, e);
}

int browser_run_forward(struct hand *h, const void *p, void *r, struct err *e)
{
    return history(h, p, r, 1, e);
}

int browser_run_reload(struct hand *h, const void *p, void *r, struct err *e)
{
    return history(h, p, r, 0, e);
}

/* --- tabs, dialogs, the browser itself --- */

static int tab_action(struct hand *h, struct browser *b, const struct browser_params *p, struct err *e)
{
    struct tab tabs[TABS_MAX];
    size_t n = 0;

    if (str_is(p->action, "list"))
        return 0;
    if (str_is(p->action, "new"))
        return browser_tab_open(h, b, p->url, e);
    int r = browser_tabs(h, b, tabs, &n, e);
    if (r < 0)
        return r;
    if (p->index == FIELD_ABSENT && str_is(p->action, "close")) /* the one at hand */
        for (size_t i = 0; i < n; i++)
            if (tabs[i].active)
                return browser_tab_close(h, b, tabs[i].target, e);
    if (p->index == FIELD_ABSENT || (size_t)p->index >= n)
        return err_set(e, ERR_NOT_FOUND, "index: there are %zu tabs, from 0", n);
    if (str_is(p->action, "switch"))
        return browser_tab_go(h, b, tabs[p->index].target, e);
    return browser_tab_close(h, b, tabs[p->index].target, e);
}

int browser_run_tabs(struct hand *h, const void *params, void *result, struct err *e)
{
    struct browser_result *r = result;
    struct browser *b = browser_open(h, params, e);
    struct tab tabs[TABS_MAX];
    size_t n = 0;
    struct buf o;
    struct jw j = { .out = &o };

    if (!b)
        return -EIO;
    int res = tab_action(h, b, params, e);
    if (res >= 0)
        res = browser_tabs(h, b, tabs, &n, e);
    buf_init(&o, 4 * MiB);
    jw_arr(&j);
    for (size_t i = 0; res >= 0 && i < n; i++) {
        jw_obj(&j);
        jw_kint(&j, "index", (int64_t)i);
        jw_kz(&j, "id", tabs[i].target);
        jw_kstr(&j, "url", tabs[i].url);
        jw_kstr(&j, "title", tabs[i].title);
        jw_kbool(&j, "active", tabs[i].active);
        jw_obj_end(&j);
    }
    jw_arr_end(&j);
    r->tabs = arena_copy(h->arena, buf_view(&o));
    buf_done(&o);
    return browser_verdict(h, b, res, r, e);
}

int browser_run_downloads(struct hand *h, const void *params, void *result, struct err *e)
{
    struct browser_result *r = result;
    struct browser *b = browser_open(h, params, e);

    if (!b)
        return -EIO;
    r->found_at = browser_downloads(h, b);
    return browser_verdict(h, b, 0, r, e);
}

int browser_run_dialog(struct hand *h, const void *params, void *result, struct err *e)
{
    const struct browser_params *p = params;
    struct browser *b = browser_open(h, p, e);

    if (!b)
        return -EIO;
    browser_dialogs(b, p->accept, p->text);
    return browser_verdict(h, b, 0, result, e);
}

static int viewport_of(struct hand *h, struct browser *b, struct browser_result *r, const struct json **ret,
                       struct err *e)
{
    int n = browser_evaluate(h, b, STR("({w: innerWidth, h: innerHeight, a: navigator.userAgent})"), ret, e);

    if (n >= 0) {
        r->width = (int64_t)json_number(json_get(*ret, "value"), "w");
        r->height = (int64_t)json_number(json_get(*ret, "value"), "h");
    }
    return n;
}

int browser_run_info(struct hand *h, const void *params, void *result, struct err *e)
{
    struct browser_result *r = result;
    struct browser *b = browser_open(h, params, e);
    const struct json *v = NULL;

    if (!b)
        return -EIO;
    int n = viewport_of(h, b, r, &v, e);
    if (n >= 0) {
        r->user_agent = json_get_str(json_get(v, "value"), "a");
        r->version = browser_version(b);
        r->cdp_path = browser_cdp_path(h);
        r->sandboxed = browser_sandboxed(h, b, &r->sandbox_why);
    }
    r->screen_width = r->screen_height = FIELD_ABSENT;
    r->headed = browser_wishes(b)->screen;
    struct x11 *x = r->headed ? x11_open(DESKTOP_X11, e) : NULL;
    if (x)
        x11_screen(x, &r->screen_width, &r->screen_height);
    x11_close(x);
    return browser_verdict(h, b, n, r, e);
}

static bool is_locale(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_,", s.p[i]))
            return false;
    return true;
}

int browser_run_restart(struct hand *h, const void *params, void *result, struct err *e)
{
    const struct browser_params *p = params;
    struct browser_result *r = result;
    struct browser *b = browser_open(h, p, e);

    r->status = FIELD_ABSENT;
    if (!b)
        return -EIO;
    if (!is_locale(p->locale))
        return err_set(e, ERR_INVALID, "locale: '%.*s' is none, such as de-DE", STR_ARG(p->locale));
    int n = browser_sites(b, &p->url_blocklist, &p->url_allowlist, e);
    if (n < 0)
        return n;
    browser_forget(b, true);
    if (str_is(p->mode, "hard")) {
        struct browser_wish w = *browser_wishes(b);
        w.no_file_dialogs = !p->allow_file_selection_dialogs;
        if (p->display.n)
            w.screen = str_is(p->display, "headed");
        if (p->locale.n)
            snprintf(w.locale, sizeof w.locale, "%.*s", STR_ARG(p->locale));
        browser_end(h, b, &w);
        b = browser_get(h, NULL, e);
    }
    return b ? browser_verdict(h, b, 0, r, e) : -EIO;
}

int browser_run_viewport(struct hand *h, const void *params, void *result, struct err *e)
{
    const struct browser_params *p = params;
    struct browser *b = browser_open(h, p, e);
    const struct json *v = NULL;

    if (!b)
        return -EIO;
    int n = browser_resize(h, b, p->width, p->height, e);
    if (n >= 0)
        n = viewport_of(h, b, result, &v, e);
    return browser_verdict(h, b, n, result, e);
}
#endif

enum { LOOKS = TOOL_READ_ONLY | TOOL_PROGRAM };

#define TOOL(name_, title_, flags_, help_)                                                                             \
    {                                                                                                                  \
        .name = "browser:" #name_, .title = (title_), .help = (help_), .flags = TOOL_NEEDS_BOX | (flags_),             \
        .params = browser_in_##name_, .params_size = sizeof(struct browser_params), .result = browser_out_##name_,     \
        .result_size = sizeof(struct browser_result), .run_hand = BOX_CODE(browser_run_##name_),                       \
        .begin = BOX_CODE(begin)                                                                                       \
    }

static const struct tool tools[] = {
    TOOL(goto, "Go to a page", 0, "Opens a URL in the current tab and waits until it is loaded."),
    TOOL(back, "Go back", 0, "Goes back in the tab's history."),
    TOOL(forward, "Go forward", 0, "Goes forward in the tab's history."),
    TOOL(reload, "Reload", 0, "Loads the page again."),
    TOOL(screenshot, "Screenshot", LOOKS, "A picture of the page, the whole page, or an element."),
    TOOL(snapshot, "Outline of the page", LOOKS,
         "What is on the page, as roles and names, with references that other browser tools accept."),
    TOOL(elements, "Elements", LOOKS, "What can be clicked or filled, with indexes and places."),
    TOOL(click, "Click", 0, "Clicks an element, or a point."),
    TOOL(hover, "Hover", 0, "Moves the mouse over an element, or to a point."),
    TOOL(type, "Type", 0, "Types text into an element, or where the cursor is."),
    TOOL(press, "Press a key", 0, "Presses a key, with modifiers if wanted."),
    TOOL(scroll, "Scroll", 0, "Scrolls the page or an element."),
    TOOL(select, "Choose an option", 0, "Chooses options of a list."),
    TOOL(upload, "Give files to a page", 0, "Fills a file field with files of the box."),
    TOOL(evaluate, "Run JavaScript", 0, "Runs JavaScript in the page and returns its value."),
    TOOL(extract, "Extract", LOOKS, "Text, HTML, links or a value of the page or an element."),
    TOOL(wait, "Wait", 0, "Waits until something is so in the page."),
    TOOL(tabs, "Tabs", 0, "Lists, opens, switches and closes tabs."),
    TOOL(console, "Console", 0, "What the page wrote to its console."),
    TOOL(dialog, "Answer dialogs", 0, "Says how confirm and prompt dialogs are answered from now on."),
    TOOL(check, "Check a box", 0, "Marks a checkbox or radio button, or takes the mark away."),
    TOOL(fill, "Fill a form", 0, "Fills several fields: texts, checkboxes, options, files."),
    TOOL(find, "Find text", LOOKS, "Where a text is on the page."),
    TOOL(markdown, "Page as Markdown", LOOKS, "The main part of the page, or an element, as Markdown."),
    TOOL(captcha, "Is there a captcha?", LOOKS, "Tests on the page that tell people from programs."),
    TOOL(cookies, "Cookies", 0, "Tells, sets or clears the browser's cookies."),
    TOOL(state, "State of the browser", 0, "Saves cookies and storage of pages to a file, or loads them."),
    TOOL(requests, "Requests", 0, "What the browser's tabs asked for, and what they got."),
    TOOL(route, "Answer requests", 0, "Answers requests in place of the network, or has them fail."),
    TOOL(headers, "Send headers", 0, "Headers that are sent with all requests, or with those to an origin."),
    TOOL(har, "Requests as an archive", 0, "The record of requests as an HTTP archive (HAR 1.2)."),
    TOOL(downloads, "Downloads", LOOKS, "Files that the browser fetched, or is fetching."),
    TOOL(record, "Film the page", 0, "Makes a video of the tab: for a time, or from start to stop."),
    TOOL(restart, "Restart the browser", 0, "A new browser, or the same one without routes and headers."),
    TOOL(act, "Mouse and keyboard", 0, "Moves and presses the mouse or keys, at points of the viewport."),
    TOOL(viewport, "Size of the viewport", 0, "Sets the size of the viewport."),
    TOOL(info, "About the browser", LOOKS, "Version, viewport and page."),
};

/* AgentFlow's session_config: viewport is [width, height]. */
static void *prepare(struct arena *a, const struct json *config, struct err *e)
{
    const struct json *size = json_get(config, "viewport"), *w = size ? size->first : NULL, *h = w ? w->next : NULL;
    struct browser_params *p = arena_alloc(a, sizeof *p);

    *e = (struct err){ 0 };
    if (!size || size->type == JSON_NULL)
        return NULL;
    if (size->type != JSON_ARR || size->count != 2 || !w->is_int || !h->is_int || w->i < 100 || w->i > 8192 ||
        h->i < 100 || h->i > 8192) {
        err_set(e, ERR_TYPE, "session_config.viewport: expected [width, height], each from 100 to 8192");
        return NULL;
    }
    field_defaults(browser_in_viewport, p, sizeof *p);
    p->width = w->i;
    p->height = h->i;
    return p;
}

const struct backend backend_browser = {
    .name = "browser",
    .help = "A real browser in the box.",
    .kind = KIND_HYBRID,
    .tools = tools,
    .tool_count = sizeof tools / sizeof *tools,
    .prepare = prepare,
    .prepare_with = "browser:viewport",
};

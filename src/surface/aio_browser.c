/* The browser around the page: tabs, cookies, state, network, captchas, a restart, its proxy. */
#include <stdio.h>

#include "base/limits.h"
#include "surface/aio.h"

struct browser_in {
    struct str url, cookies, path, origin, url_pattern, response, response_body, filter, save_path, mode, locale;
    struct strs urls, url_blocklist, url_allowlist;
    struct pairs headers;
    int64_t index, limit, response_status;
    bool abort, allow_file_selection_dialogs;
};
#define I struct browser_in

static const struct field none_in[] = { { 0 } };

/* --- tabs --- */

static const struct field tab_in[] = { FIELD(STR, I, url, "where to go", .max = 1 * MiB), { 0 } };
static const struct field index_in[] = { FIELD(INT, I, index, "which, from 0", .required = true, .min = 0, .max = 255),
                                         { 0 } };

static void ask_tabs(struct web *w, const void *p, struct jw *j)
{
    const struct browser_in *in = p;
    bool new = strcmp(w->op->name, "create") == 0, any = strcmp(w->op->name, "list") == 0;

    jw_kz(j, "action", any ? "list" : new ? "new" : strcmp(w->op->name, "close") == 0 ? "close" : "switch");
    if (new && in->url.n)
        jw_kstr(j, "url", in->url);
    if (!new && !any)
        jw_kint(j, "index", in->index);
}

/* The tab that is at hand now. */
static bool print_tab(struct web *w, const struct call *c, const struct json *data, struct jw *j)
{
    const struct json *tabs = json_get(data, "tabs");

    if (aio_browser_failed(w, c))
        return false;
    for (const struct json *t = tabs ? tabs->first : NULL; t; t = t->next)
        if (json_get_bool(t, "active", false)) {
            jw_obj(j);
            jw_kint(j, "index", json_get_int(t, "index", 0));
            jw_kstr(j, "tab_id", json_get_str(t, "id"));
            jw_kstr(j, "url", json_get_str(t, "url"));
            jw_kstr(j, "title", json_get_str(t, "title"));
            jw_kint(j, "count", (int64_t)tabs->count);
            jw_obj_end(j);
            return true;
        }
    jw_null(j);
    return true;
}

/* --- cookies and state --- */

static const struct field get_cookies_in[] = {
    FIELD(STRS, I, urls, "only those that are sent to one of these, separated by commas", .max = 100, .alias = "url"),
    { 0 },
};
static const struct field set_cookies_in[] = {
    FIELD(JSON, I, cookies, "name, value, url or domain, path, expires, httpOnly, secure, sameSite", .required = true,
          .max = 1 * MiB, .def_str = "[object]"),
    { 0 },
};
static const struct field path_in[] = { FIELD(STR, I, path, "a file of the box", .required = true, .max = LIMIT_PATH),
                                        { 0 } };

static void ask_cookies(struct web *w, const void *p, struct jw *j)
{
    const char *name = w->op->name;
    const struct json *given = aio_given(w);

    (void)p;
    jw_kz(j, "action", name[0] == 'g' ? "get" : name[0] == 's' ? "set" : "clear");
    if (json_get(given, "urls"))
        jw_kraw(j, "urls", json_get(given, "urls")->raw);
    if (json_get(given, "cookies"))
        jw_kraw(j, "cookies", json_get(given, "cookies")->raw);
}

static bool print_count(struct web *w, const struct call *c, const struct json *data, struct jw *j)
{
    if (aio_browser_failed(w, c))
        return false;
    jw_obj(j);
    jw_kint(j, "count", json_get_int(data, "count", 0));
    jw_obj_end(j);
    return true;
}

static void ask_state(struct web *w, const void *p, struct jw *j)
{
    jw_kz(j, "action", w->op->name);
    jw_kstr(j, "path", ((const struct browser_in *)p)->path);
}

static bool print_state(struct web *w, const struct call *c, const struct json *data, struct jw *j)
{
    const struct json *origins = json_get(data, "origins");

    if (aio_browser_failed(w, c))
        return false;
    jw_obj(j);
    jw_kstr(j, "path", json_get_str(data, "path"));
    jw_kint(j, "cookies", json_get_int(data, "count", 0));
    jw_kraw(j, "origins", origins ? origins->raw : STR("[]"));
    jw_obj_end(j);
    return true;
}

/* --- network --- */

static const struct field headers_in[] = {
    FIELD(PAIRS, I, headers, "sent with every request", .required = true, .max = 100),
    { 0 },
};
static const struct field scoped_in[] = {
    FIELD(STR, I, origin, "scheme, host and port", .required = true, .max = 2048),
    FIELD(PAIRS, I, headers, "sent with requests to it", .required = true, .max = 100),
    { 0 },
};
struct response_in {
    struct str body, content_type;
    struct pairs headers;
    int64_t status;
};
#define A struct response_in
static const struct field response_in[] = {
    FIELD(INT, A, status, "HTTP status", .def = 200, .min = 100, .max = 599),
    FIELD(PAIRS, A, headers, "of the answer", .max = 100),
    FIELD(STR, A, body, "of the answer", .max = LIMIT_BROWSER_MOCK),
    FIELD(STR, A, content_type, "of the body", .def_str = "text/plain", .max = 256),
    { 0 },
};
static const struct field route_in[] = {
    FIELD(STR, I, url_pattern, "a glob", .required = true, .max = 8192, .alias = "pattern"),
    FIELD(JSON, I, response, "what is answered", .max = 2 * LIMIT_BROWSER_MOCK, .rows = response_in),
    FIELD(BOOL, I, abort, "the request fails instead"),
    FIELD(STR, I, response_body, "or: only the body", .max = LIMIT_BROWSER_MOCK),
    FIELD(INT, I, response_status, "and its status", .def = 200, .min = 100, .max = 599),
    { 0 },
};
static const struct field unroute_in[] = {
    FIELD(STR, I, url_pattern, "as it was given", .required = true, .max = 8192, .alias = "pattern"),
    { 0 },
};
static const struct field requests_in[] = {
    FIELD(STR, I, filter, "a part of the URL, a glob, a method or a type", .max = 8192),
    FIELD(INT, I, limit, "the newest of them", .def = 100, .min = 1, .max = LIMIT_BROWSER_REQUESTS),
    { 0 },
};
static const struct field har_in[] = {
    FIELD(STR, I, save_path, "a file of the box; without it the answer has the archive", .max = LIMIT_PATH,
          .alias = "path"),
    { 0 },
};

static bool is_json(struct str s)
{
    return s.n && (s.p[0] == '{' || s.p[0] == '[');
}

static void on_routed(void *arg, const struct call *c)
{
    struct web *w = arg;
    struct buf b;
    struct jw j;

    if (aio_browser_failed(w, c))
        return;
    aio_begin(w, &b, &j);
    if (print_count(w, c, aio_data(w, c), &j))
        aio_end(w, &b, &j, NULL);
}

static void add_route(struct web *w)
{
    const struct browser_in *in = aio_bound(w);
    const struct json *given = json_get(aio_given(w), "response"), *headers = NULL;
    struct response_in r = { .status = in->response_status, .body = in->response_body };
    struct err e;
    struct buf b, ignored;

    r.content_type = is_json(r.body) ? STR("application/json") : STR("text/plain");
    buf_init(&ignored, 64 * KiB);
    int n = given ? field_bind(response_in, given, w->http->arena, &r, &ignored, &e) : 0;
    buf_done(&ignored);
    if (n < 0) {
        aio_invalid(w, "body", "response", e.code == ERR_TYPE ? "type_error" : "value_error", "response: %s", e.msg);
        return;
    }
    if (!given && !in->abort && !in->response_body.p && !json_get(aio_given(w), "response_status")) {
        aio_invalid(w, "body", "response", "missing", "response: what is to be answered? (or abort)");
        return;
    }
    headers = json_get(given, "headers");
    buf_init(&b, 4 * LIMIT_BROWSER_MOCK);
    struct jw j = { .out = &b };
    jw_kstr(&j, "pattern", in->url_pattern);
    jw_kint(&j, "status", r.status);
    jw_kstr(&j, "content_type", r.content_type);
    if (r.body.p)
        jw_kstr(&j, "body", r.body);
    if (headers && headers->type == JSON_OBJ)
        jw_kraw(&j, "headers", headers->raw);
    jw_kbool(&j, "abort", in->abort);
    struct str params = arena_copy(w->http->arena, buf_view(&b));
    buf_done(&b);
    aio_call(w, "browser:route", params, on_routed);
}

static void ask_unroute(struct web *w, const void *p, struct jw *j)
{
    (void)w;
    jw_kz(j, "action", "remove");
    jw_kstr(j, "pattern", ((const struct browser_in *)p)->url_pattern);
}

static bool print_nothing(struct web *w, const struct call *c, const struct json *data, struct jw *j)
{
    (void)data;
    if (aio_browser_failed(w, c))
        return false;
    jw_null(j);
    return true;
}

static void ask_har(struct web *w, const void *p, struct jw *j)
{
    const struct browser_in *in = p;

    (void)w;
    if (in->save_path.n)
        jw_kstr(j, "path", in->save_path);
}

static bool print_har(struct web *w, const struct call *c, const struct json *data, struct jw *j)
{
    const struct json *har = json_get(data, "har");

    if (aio_browser_failed(w, c))
        return false;
    jw_obj(j);
    jw_kstr(j, "path", json_get_str(data, "path"));
    jw_kint(j, "entries", json_get_int(data, "count", 0));
    if (har) {
        jw_kstr(j, "content", har->raw);
        jw_kraw(j, "har", har->raw);
    }
    jw_obj_end(j);
    return true;
}

/* --- captchas, the browser itself --- */

static bool print_captcha(struct web *w, const struct call *c, const struct json *data, struct jw *j)
{
    const struct json *list = json_get(data, "captchas"), *first = list ? list->first : NULL;

    if (aio_browser_failed(w, c))
        return false;
    jw_obj(j);
    jw_kbool(j, "detected", first != NULL);
    jw_kstr(j, "type", json_get_str(first, "type"));
    jw_kraw(j, "captchas", list ? list->raw : STR("[]"));
    jw_obj_end(j);
    return true;
}

struct captcha_wait_in {
    double timeout, poll_interval;
};
static const struct field captcha_wait_in[] = {
    FIELD(NUM, struct captcha_wait_in, timeout, "seconds to wait", .def_num = 60, .min = 0, .max = 86400),
    FIELD(NUM, struct captcha_wait_in, poll_interval, "seconds between two looks at the page", .def_num = 2, .min = 0.1,
          .max = 3600),
    { 0 },
};
static const struct field captcha_wait_out[] = {
    SAYS(BOOL, "resolved", "none is left, or a person said on the page /vnc/ that it is done", .required = true),
    { 0 },
};

static void ask_captcha_wait(struct web *w, const void *p, struct jw *params)
{
    const struct captcha_wait_in *in = p;

    (void)w;
    jw_knum(params, "timeout", in->timeout);
    jw_knum(params, "polling", in->poll_interval);
}

static bool print_captcha_wait(struct web *w, const struct call *c, const struct json *data, struct jw *j)
{
    if (aio_browser_failed(w, c))
        return false;
    jw_obj(j);
    jw_kbool(j, "resolved", json_get_bool(data, "checked", false));
    jw_obj_end(j);
    return true;
}

static const struct field record_out[] = {
    SAYS(STR, "status", "idle, recording, stopped", .required = true),
    SAYS(STR, "save_path", "the film", .nullable = true),
    SAYS(NUM, "duration", "seconds"),
    SAYS(INT, "file_size_bytes", "so far", .nullable = true),
    { 0 },
};
struct record_in {
    struct str action, save_path;
    int64_t fps, crf, width, height;
    double max_duration;
};
#define REC struct record_in
static const struct field record_in[] = {
    FIELD(STR, REC, action, "what to do", .required = true, .choices = "start|stop|status"),
    FIELD(STR, REC, save_path, "where to; default: /tmp/recordings/recording_{time}.mp4", .max = LIMIT_PATH - 1),
    FIELD(INT, REC, fps, "pictures each second", .def = 5, .min = 1, .max = 30),
    FIELD(INT, REC, crf, "quality of H.264: 0 is lossless, 51 worst", .def = 28, .min = 0, .max = 51),
    FIELD(NUM, REC, max_duration, "seconds", .def_num = 600, .min = 0.1, .max = 86400),
    FIELD(INT, REC, width, "of the film; default: of the screen", .def = FIELD_ABSENT, .min = 2,
          .max = LIMIT_SCREEN_SIDE),
    FIELD(INT, REC, height, "of the film; default: of the screen", .def = FIELD_ABSENT, .min = 2,
          .max = LIMIT_SCREEN_SIDE),
    { 0 },
};

static const struct field restart_in[] = {
    FIELD(STR, I, mode, "soft: the browser stays, without routes and headers", .def_str = "hard",
          .choices = "soft|hard"),
    FIELD(STRS, I, url_blocklist, "sites that are closed", .max = 1000),
    FIELD(STRS, I, url_allowlist, "but not these", .max = 1000),
    FIELD(BOOL, I, allow_file_selection_dialogs, "pages may open them", .def = true),
    FIELD(STR, I, locale, "such as de-DE", .max = 31),
    { 0 },
};

/* What the box's proxy leaves alone goes directly; with no proxy, everything does. */
static void on_excludes(void *arg, const struct call *c)
{
    struct web *w = arg;
    const struct json *list = json_get(aio_data(w, c), "result");
    struct str kept = w->held;
    struct buf b;

    if (aio_browser_failed(w, c))
        return;
    buf_init(&b, 4 * MiB);
    buf_z(&b, "function FindProxyForURL(url, host) {\n");
    for (const struct json *k = list ? list->first : NULL; k && kept.n; k = k->next) {
        struct jw j = { .out = &b };
        struct str domain = k->s;
        while (domain.n && (*domain.p == '*' || *domain.p == '.')) /* "*.example.org", ".example.org" */
            domain = (struct str){ domain.p + 1, domain.n - 1 };
        buf_z(&b, "  if (shExpMatch(host, ");
        jw_str(&j, k->s);
        buf_z(&b, ") || dnsDomainIs(host, \".\" + ");
        j.comma = false;
        jw_str(&j, domain);
        buf_z(&b, ")) return \"DIRECT\";\n");
    }
    buf_printf(&b, "  return \"%s\";\n}\n", kept.n ? "PROXY 127.0.0.1:8118; DIRECT" : "DIRECT");
    http_reply_buf(w->http, 200, "application/x-ns-proxy-autoconfig", &b);
}

static void on_health(void *arg, const struct call *c)
{
    struct web *w = arg;
    const struct json *r = json_get(aio_data(w, c), "result");

    if (aio_browser_failed(w, c))
        return;
    w->held = json_get_bool(r, "listens", false) ? STR("on") : STR("");
    aio_call(w, "proxy:manage", STR("\"action\":\"excludes\""), on_excludes);
}

static void proxy_pac(struct web *w)
{
    aio_call(w, "proxy:manage", STR("\"action\":\"health\""), on_health);
}

#define B "/v1/browser/"
static const struct aio_op ops[] = {
    { "GET", B "tabs", "browser_tabs", "list", "All tabs", .tool = "browser:tabs", .ask = ask_tabs,
      .print = aio_print_list, .in = none_in, .flags = AIO_LIST },
    { "POST", B "tabs", "browser_tabs", "create", "Open a tab", .tool = "browser:tabs", .ask = ask_tabs,
      .print = print_tab, .in = tab_in, .in_name = "CreatePageRequest" },
    { "DELETE", B "tabs/{index}", "browser_tabs", "close", "Close a tab", .tool = "browser:tabs", .ask = ask_tabs,
      .print = print_tab, .in = index_in },
    { "PUT", B "tabs/{index}/activate", "browser_tabs", "activate", "Go to a tab", .tool = "browser:tabs",
      .ask = ask_tabs, .print = print_tab, .in = index_in },
    { "GET", B "cookies", "browser_cookies", "get_cookies", "Cookies", .tool = "browser:cookies", .ask = ask_cookies,
      .print = aio_print_list, .in = get_cookies_in, .flags = AIO_LIST },
    { "POST", B "cookies", "browser_cookies", "set_cookies", "Set cookies", .tool = "browser:cookies",
      .ask = ask_cookies, .print = print_count, .in = set_cookies_in, .in_name = "CookieSetRequest" },
    { "DELETE", B "cookies", "browser_cookies", "clear_cookies", "Remove all cookies", .tool = "browser:cookies",
      .ask = ask_cookies, .print = print_nothing, .in = none_in },
    { "POST", B "state/save", "browser_state", "save", "Save cookies and storage", .tool = "browser:state",
      .ask = ask_state, .print = print_state, .in = path_in, .in_name = "StateSaveRequest" },
    { "POST", B "state/load", "browser_state", "load", "Load them", .tool = "browser:state", .ask = ask_state,
      .print = print_state, .in = path_in, .in_name = "StateLoadRequest" },
    { "POST", B "network/headers", "browser_network", "set_headers", "Headers of all requests",
      .tool = "browser:headers", .print = print_nothing, .in = headers_in, .in_name = "HeadersRequest" },
    { "POST", B "network/scoped_headers", "browser_network", "set_scoped_headers", "Headers of requests to an origin",
      .tool = "browser:headers", .print = print_nothing, .in = scoped_in, .in_name = "ScopedHeadersRequest" },
    { "POST", B "network/route", "browser_network", "add_route", "Answer requests, or have them fail",
      .handler = add_route, .in = route_in, .in_name = "NetworkRouteRequest", .flags = AIO_BOX },
    { "DELETE", B "network/route", "browser_network", "remove_route", "Do not any more", .tool = "browser:route",
      .ask = ask_unroute, .print = print_count, .in = unroute_in, .in_name = "NetworkRouteRemoveRequest",
      .flags = AIO_BODY },
    { "GET", B "network/requests", "browser_network", "get_requests", "What was asked for", .tool = "browser:requests",
      .print = aio_print_list, .in = requests_in, .flags = AIO_LIST },
    { "POST", B "network/export_har", "browser_network", "export_har", "The same as an archive", .tool = "browser:har",
      .ask = ask_har, .print = print_har, .in = har_in, .in_name = "ExportHarRequest" },
    { "GET", B "captcha/detect", "browser_captcha", "detect", "Is there a captcha?", .tool = "browser:captcha",
      .print = print_captcha, .in = none_in },
    { "POST", B "captcha/wait", "browser_captcha", "wait", "Wait until it is solved", .tool = "browser:captcha",
      .ask = ask_captcha_wait, .print = print_captcha_wait, .in = captcha_wait_in, .in_name = "CaptchaWaitRequest",
      .out = captcha_wait_out, .out_name = "CaptchaWaitResult", .flags = AIO_LONG },
    { "POST", "/v1/display/record", "display", "record", "Film the screen", .tool = "desktop:record", .in = record_in,
      .in_name = "DisplayRecordRequest", .out = record_out, .out_name = "DisplayRecordResult", .tag = "display" },
    { "POST", B "restart", "browser", "restart", "A new browser", .tool = "browser:restart", .print = print_nothing,
      .in = restart_in, .in_name = "RestartRequest", .flags = AIO_LONG },
    { "GET", B "proxy.pac", "browser", "get_proxy_pac", "How the browser reaches the network", .handler = proxy_pac,
      .out_name = "application/x-ns-proxy-autoconfig", .flags = AIO_BOX | AIO_BYTES },
    { 0 },
};
const struct aio_group aio_browser = { "browser", ops };

#include "surface/page.h"

#include "base/auto.h"
#include "base/limits.h"
#include "surface/door.h"
#include "surface/place.h"
#include "surface/terminal.h"

#define NO_SCRIPTS "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
#define OWN_SCRIPTS                                                                                                    \
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self' ws: wss:; "           \
    "img-src 'self' data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"

bool page_wanted(const struct web *w)
{
    struct str accept = http_header(w->http, "accept");

    return str_is(w->http->method, "GET") && !http_header(w->http, "upgrade").n && accept.n &&
           memmem(accept.p, accept.n, "text/html", 9);
}

bool page_is_ours(const struct web *w)
{
    struct place at;

    return !place_find(w, &at) || at.form != BY_HOST;
}

void page_escape(struct buf *b, struct str s)
{
    for (size_t i = 0; i < s.n; i++) {
        switch (s.p[i]) {
        case '<': buf_z(b, "&lt;"); break;
        case '>': buf_z(b, "&gt;"); break;
        case '&': buf_z(b, "&amp;"); break;
        case '"': buf_z(b, "&quot;"); break;
        default: buf_char(b, s.p[i]);
        }
    }
}

static void reply(struct web *w, int status, const char *type, const char *policy, struct str text)
{
    struct pair headers[] = { { STR("Content-Type"), str_of(type) },
                              { STR("Cache-Control"), status == 200 ? STR("no-cache") : STR("no-store") },
                              { STR("Content-Security-Policy"), str_of(policy) } };

    http_reply_headers(w->http, status, headers, ARRAY_LEN(headers), text);
}

void page_html(struct web *w, int status, struct buf *take_html)
{
    reply(w, status, "text/html; charset=utf-8", NO_SCRIPTS, buf_view(take_html));
    buf_done(take_html);
}

void page_file(struct web *w, const char *type, struct str text)
{
    bool html = strncmp(type, "text/html", 9) == 0;

    if (!text.n)
        web_error(w, 404, ERR_NOT_FOUND, "there is no such file");
    else
        reply(w, 200, type, html ? OWN_SCRIPTS : "default-src 'none'", text);
}

void page_of_box(struct web *w, const char *file)
{
    if (w->box_name.n && !web_find_box(w, w->box_name))
        web_error(w, 404, ERR_NOT_FOUND, "no box '%.*s'", STR_ARG(w->box_name));
    else
        page_file(w, "text/html; charset=utf-8", web_file(file));
}

static void begin(struct buf *b, const char *title)
{
    buf_init(b, 64 * KiB);
    buf_z(
        b,
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content=\"width=device-width\"><title>");
    page_escape(b, str_of(title));
    buf_z(b, "</title><style>:root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;max-width:42em;"
             "margin:4em auto;padding:0 1em}h1{font-size:1.5em}pre{background:#8881;padding:.8em;white-space:pre-wrap}"
             "table{border-collapse:collapse}td{padding:.2em 1.5em .2em 0;vertical-align:top}"
             "input{font:inherit;width:20em;max-width:100%}button{font:inherit}</style><h1>");
    page_escape(b, str_of(title));
    buf_z(b, "</h1>\n");
}

void page_say(struct web *w, int status, const char *title, const char *text)
{
    struct buf b;

    begin(&b, title);
    buf_z(&b, "<p>");
    page_escape(&b, str_of(text));
    buf_z(&b, "</p>\n");
    if (page_is_ours(w))
        buf_z(&b, "<p><a href=\"/\">What there is</a></p>\n");
    page_html(w, status, &b);
}

void page_login(struct web *w, const char *text)
{
    struct buf b;

    begin(&b, "Who are you?");
    buf_z(&b, "<p id=said role=status>");
    page_escape(&b, str_of(text));
    buf_z(&b,
          "</p>\n<form id=form><p><label>API key or token<br><input id=key type=password autocomplete=off required "
          "autofocus></label> <button>Go on</button></p></form>\n<noscript><p>This form needs JavaScript. Without it: "
          "<code>POST /tickets</code> with the key as a bearer token gives a ticket, and this address with "
          "<code>?ticket=</code> opens the page.</p></noscript>\n<script src=\"/static/page/login.js\"></script>\n");
    reply(w, 401, "text/html; charset=utf-8", OWN_SCRIPTS, buf_view(&b));
    buf_done(&b);
}

/* --- the front --- */

static const struct {
    const char *path, *name, *what;
    bool of_box;
} links[] = {
    { "/terminal", "Terminal", "a shell in the box", true },
    { "/vnc/index.html?autoconnect=true", "Desktop", "the screen of the box", true },
    { "/jupyter", "Jupyter", "notebooks on its files", true },
    { "/code-server/", "VS Code", "an editor on its files", true },
    { "/v1/docs", "Operations", "every path of AIO's surface, with what it takes and gives" },
    { "/sg/v1/boxes", "Boxes", "as JSON" },
    { "/sg/v1/trajectories", "Trajectories", "as JSON; sandglass log --html makes a page of one" },
    { "/api/v1/tools", "Tools", "every tool with its parameters, as JSON" },
    { "/metrics", "Metrics", "for Prometheus" },
};

static void front_json(struct web *w)
{
    struct buf b;
    struct jw j = { .out = &b };

    buf_init(&b, 4096);
    jw_obj(&j);
    jw_kz(&j, "name", "sandglass");
    jw_kz(&j, "version", SANDGLASS_VERSION);
    jw_key(&j, "links");
    jw_obj(&j);
    for (size_t i = 0; i < ARRAY_LEN(links); i++)
        jw_kz(&j, links[i].name, links[i].path);
    jw_obj_end(&j);
    jw_obj_end(&j);
    web_send(w, 200, &b);
}

static void front(struct web *w)
{
    struct str host = http_header(w->http, "host");
    struct buf b;

    if (!page_wanted(w)) {
        front_json(w);
        return;
    }
    begin(&b, "Sandglass " SANDGLASS_VERSION);
    buf_z(
        &b,
        "<p>Computers for agents, and a memory of everything that happened in them. A first call:</p><pre>curl -s http");
    buf_z(&b, surfaces_door(w->all)->tls ? "s://" : "://");
    page_escape(&b, host);
    buf_z(&b, "/api/v1/execute -H 'Content-Type: application/json' \\\n  -d '{\"worker_id\": \"me\", \"action\": "
              "\"bash:run\", \"params\": {\"command\": \"echo hello from $(hostname)\"}}'</pre>\n<table>");
    for (size_t i = 0; i < ARRAY_LEN(links); i++) {
        buf_z(&b, "<tr><td><a href=\"");
        if (links[i].of_box)
            page_escape(&b, w->base);
        buf_printf(&b, "%s\">%s</a></td><td>%s</td></tr>\n", links[i].path, links[i].name, links[i].what);
    }
    buf_z(
        &b,
        "</table>\n<p>The first four are of the default box; of another one with <code>/box/{id}</code> in front.</p>\n");
    page_html(w, 200, &b);
}

static void script(struct web *w)
{
    page_file(w, "text/javascript; charset=utf-8", str_is(w->match.name, "login.js") ? web_file("login.js") : STR(""));
}

const struct route page_routes[] = {
    { "GET", "/", front, ROUTE_RAW },
    { "GET", "/static/page/{name}", script, ROUTE_RAW | ROUTE_PUBLIC },
    { 0 },
};

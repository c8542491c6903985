/* More MCP tools under AIO Sandbox's names: pages, documents, skills. What its browser server calls by the same name
 * and the same parameters as a tool of the table (browser_click, browser_type, browser_screenshot, browser_extract,
 * browser_hover, browser_select, browser_evaluate, browser_scroll) has no row here. */
#include "surface/mcp_alias.h"

#include "base/limits.h"

struct page_in {
    struct str url, value, selector, key, uri, name, action;
    int64_t index;
    double x, y;
    bool clear;
};
#define P     struct page_in
#define INDEX FIELD(INT, P, index, "its number", .required = true, .min = 0, .max = 100000)
static const struct field none_fields[] = { { 0 } };
static const struct field url_fields[] = { FIELD(STR, P, url, "where to go", .required = true, .max = 1 * MiB), { 0 } };
static const struct field index_fields[] = { INDEX, { 0 } };
static const struct field fill_fields[] = {
    FIELD(INT, P, index, "of browser_get_clickable_elements", .def = FIELD_ABSENT, .min = 0, .max = 100000),
    FIELD(STR, P, selector, "or: CSS selector", .max = 8192),
    FIELD(STR, P, value, "what to type", .required = true, .max = 1 * MiB),
    FIELD(BOOL, P, clear, "empty the field first"),
    { 0 },
};
static const struct field point_fields[] = {
    FIELD(NUM, P, x, "from the left", .required = true, .min = 0, .max = 100000),
    FIELD(NUM, P, y, "from the top", .required = true, .min = 0, .max = 100000),
    { 0 }
};
static const struct field action_fields[] = {
    FIELD(JSON, P, action, "action_type (MOVE_TO, CLICK, TYPING ...) and what it needs", .required = true,
          .max = 1 * MiB, .def_str = "object"),
    { 0 },
};
static const struct field key_fields[] = { FIELD(STR, P, key, "such as Enter", .required = true, .max = 64), { 0 } };
static const struct field uri_fields[] = {
    FIELD(STR, P, uri, "http, https, file or data URI, or a path", .required = true, .max = LIMIT_FILE_IO,
          .alias = "path"),
    { 0 },
};
static const struct field skill_fields[] = { FIELD(STR, P, name, "the skill; without it they are listed", .max = 128),
                                             { 0 } };

/* --- pages --- */

static bool ask_links(struct exchange *x, const void *in, struct jw *w)
{
    (void)x, (void)in;
    jw_kz(w, "what", "links");
    return true;
}

static bool ask_nothing(struct exchange *x, const void *in, struct jw *w)
{
    (void)x, (void)in, (void)w;
    return true;
}

static bool ask_list(struct exchange *x, const void *in, struct jw *w)
{
    (void)x, (void)in;
    jw_kz(w, "action", "list");
    return true;
}

static bool ask_new(struct exchange *x, const void *p, struct jw *w)
{
    const struct page_in *in = p;

    (void)x;
    jw_kz(w, "action", "new");
    jw_kstr(w, "url", in->url);
    return true;
}

static bool ask_switch(struct exchange *x, const void *p, struct jw *w)
{
    const struct page_in *in = p;

    (void)x;
    jw_kz(w, "action", "switch");
    jw_kint(w, "index", in->index);
    return true;
}

static bool ask_fill(struct exchange *x, const void *p, struct jw *w)
{
    const struct page_in *in = p;

    (void)x;
    if (in->selector.n)
        jw_kstr(w, "selector", in->selector);
    else if (in->index != FIELD_ABSENT)
        jw_kint(w, "index", in->index);
    jw_kstr(w, "text", in->value);
    jw_kbool(w, "clear", in->clear);
    return true;
}

static void print_content(struct exchange *x, const struct call *c, const struct json *data, struct buf *text)
{
    (void)x, (void)c;
    buf_str(text, json_get_str(data, "content"));
}

static void print_elements(struct exchange *x, const struct call *c, const struct json *data, struct buf *text)
{
    const struct json *list = json_get(data, "elements");

    (void)x, (void)c;
    for (const struct json *k = list ? list->first : NULL; k; k = k->next)
        buf_printf(text, "[%lld]<%.*s>%.*s</%.*s>\n", (long long)json_get_int(k, "index", 0),
                   STR_ARG(json_get_str(k, "tag")), STR_ARG(json_get_str(k, "text")), STR_ARG(json_get_str(k, "tag")));
}

/* Their navigation ends with what can be clicked. */
static void on_elements(struct exchange *x, const struct call *c)
{
    struct json *data = NULL;
    struct buf text;
    struct err e;

    if (c->outcome != OUTCOME_OK || json_parse(&x->arena, c->data, &data, &e) < 0) {
        mcp_print_result(x, c);
        return;
    }
    buf_init(&text, 4 * MiB);
    buf_printf(&text, "Navigated to %.*s\n", STR_ARG(json_get_str(data, "url")));
    print_elements(x, c, data, &text);
    mcp_text_result(x, arena_copy(&x->arena, buf_view(&text)), false);
    buf_done(&text);
}

static void on_navigated(struct exchange *x, const struct call *c)
{
    if (c->outcome != OUTCOME_OK && c->outcome != OUTCOME_TIMEOUT) { /* theirs: a slow page is no error */
        mcp_print_result(x, c);
        return;
    }
    x->on_call = on_elements;
    mcp_call_tool(x, tool_find(STR("browser:elements"), NULL), NULL);
}

static void run_navigate(struct exchange *x, const void *p)
{
    const struct page_in *in = p;
    struct json *params = NULL;
    struct buf o;
    struct jw j = { .out = &o };
    struct err e;

    buf_init(&o, 2 * MiB);
    jw_obj(&j);
    jw_kstr(&j, "url", in->url);
    jw_kint(&j, "timeout", 20);
    jw_obj_end(&j);
    int r = json_parse(&x->arena, arena_copy(&x->arena, buf_view(&o)), &params, &e);
    buf_done(&o);
    if (r < 0) {
        exchange_error(x, MCP_INTERNAL, "%s", e.msg);
        return;
    }
    x->on_call = on_navigated;
    mcp_call_tool(x, tool_find(STR("browser:goto"), NULL), params);
}

static bool ask_close(struct exchange *x, const void *in, struct jw *w)
{
    (void)x, (void)in;
    jw_kz(w, "action", "close");
    return true;
}

static void print_page(struct exchange *x, const struct call *c, const struct json *data, struct buf *text)
{
    (void)x, (void)c;
    buf_str(text, json_get_str(data, "markdown"));
}

/* One object with AIO's names becomes the parameters of browser:act. */
static bool ask_action(struct exchange *x, const void *p, struct jw *w)
{
    static const char *const same[] = { "x", "y", "button", "text", "key", "keys", "duration", "dx", "dy" };
    const struct page_in *in = p;
    struct json *a = NULL;
    struct err e;

    if (json_parse(&x->arena, in->action, &a, &e) < 0 || a->type != JSON_OBJ) {
        exchange_error(x, MCP_PARAMS, "action: expected object");
        return false;
    }
    char *type = arena_z(&x->arena, json_get_str(a, "action_type"));
    for (char *k = type; *k; k++)
        *k = *k >= 'A' && *k <= 'Z' ? (char)(*k | 32) : *k;
    jw_kz(w, "action", type);
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        if (json_get(a, same[i]) && json_get(a, same[i])->type != JSON_NULL)
            jw_kraw(w, same[i], json_get(a, same[i])->raw);
    if (json_get(a, "x_offset"))
        jw_kraw(w, "dx", json_get(a, "x_offset")->raw);
    if (json_get(a, "y_offset"))
        jw_kraw(w, "dy", json_get(a, "y_offset")->raw);
    if (json_get(a, "num_clicks"))
        jw_kraw(w, "click_count", json_get(a, "num_clicks")->raw);
    jw_kbool(w, "keystrokes", !json_get_bool(a, "use_clipboard", true));
    return true;
}

/* --- documents and skills --- */

static bool ask_convert(struct exchange *x, const void *p, struct jw *w)
{
    const struct page_in *in = p;

    (void)x;
    jw_kstr(w, "uri", in->uri);
    return true;
}

static void print_markdown(struct exchange *x, const struct call *c, const struct json *data, struct buf *text)
{
    (void)x, (void)c;
    buf_str(text, json_get_str(data, "markdown"));
}

static bool ask_skill(struct exchange *x, const void *p, struct jw *w)
{
    const struct page_in *in = p;

    (void)x;
    jw_kz(w, "action", in->name.n ? "content" : "list");
    if (in->name.n)
        jw_kstr(w, "name", in->name);
    return true;
}

static void print_skill(struct exchange *x, const struct call *c, const struct json *data, struct buf *text)
{
    const struct json *result = json_get(data, "result"), *list = json_get(result, "skills");
    struct str content = json_get_str(result, "content");

    (void)x, (void)c;
    if (content.p) {
        buf_str(text, content);
        return;
    }
    buf_printf(text, "Skills Count: %zu\n", list ? list->count : 0);
    for (const struct json *k = list ? list->first : NULL; k; k = k->next)
        buf_printf(text, "- %.*s: %.*s\n", STR_ARG(json_get_str(k, "name")),
                   STR_ARG(json_get_str(json_get(k, "metadata"), "description")));
}

#define IN(fields) .in = (fields), .in_size = sizeof(struct page_in)
#define ROW(name, title, help, fields, ...)                                                                            \
    {                                                                                                                  \
        "aio", name, title, help, IN(fields), __VA_ARGS__                                                              \
    }

const struct mcp_alias mcp_aio_page[] = {
    ROW("browser_navigate", "Go to a page", "Opens a URL and lists what can be clicked there.", url_fields,
        .run = run_navigate),
    ROW("browser_go_back", "Go back", "Goes back in the history.", none_fields, .tool = "browser:back"),
    ROW("browser_go_forward", "Go forward", "Goes forward in the history.", none_fields, .tool = "browser:forward"),
    ROW("browser_get_text", "Text of the page", "The page's text.", none_fields, .tool = "browser:extract",
        .reads = true, .ask = ask_nothing, .print = print_content),
    ROW("browser_get_clickable_elements", "Clickable elements", "What can be clicked or filled, with indexes.",
        none_fields, .tool = "browser:elements", .reads = true, .ask = ask_nothing, .print = print_elements),
    ROW("browser_read_links", "Links", "The page's links.", none_fields, .tool = "browser:extract", .reads = true,
        .ask = ask_links),
    ROW("browser_tab_list", "Tabs", "The open tabs.", none_fields, .tool = "browser:tabs", .reads = true,
        .ask = ask_list),
    ROW("browser_new_tab", "New tab", "Opens a URL in a new tab.", url_fields, .tool = "browser:tabs", .ask = ask_new),
    ROW("browser_switch_tab", "Switch tab", "Goes to another tab.", index_fields, .tool = "browser:tabs",
        .ask = ask_switch),
    ROW("browser_form_input_fill", "Fill a field", "Types a value into a field.", fill_fields, .tool = "browser:type",
        .ask = ask_fill),
    ROW("browser_close_tab", "Close the tab", "Closes the tab at hand.", none_fields, .tool = "browser:tabs",
        .ask = ask_close),
    ROW("browser_close", "Close the browser", "Ends the browser; the next call starts another.", none_fields,
        .tool = "browser:restart"),
    ROW("browser_get_markdown", "Page as Markdown", "The page's main part as Markdown.", none_fields,
        .tool = "browser:markdown", .reads = true, .print = print_page),
    ROW("browser_get_download_list", "Downloads", "Files that the browser fetched.", none_fields,
        .tool = "browser:downloads", .reads = true),
    ROW("browser_get_info", "About the browser", "Version, viewport and page.", none_fields, .tool = "browser:info",
        .reads = true),
    ROW("browser_gui_screenshot", "Screenshot", "A picture of what is in view.", none_fields,
        .tool = "browser:screenshot", .reads = true),
    ROW("browser_gui_execute_action", "Mouse and keyboard", "One action at points of the screen.", action_fields,
        .tool = "browser:act", .ask = ask_action),
    ROW("browser_vision_screen_capture", "Screenshot", "A picture of what is in view.", none_fields,
        .tool = "browser:screenshot", .reads = true),
    ROW("browser_vision_screen_click", "Click a point", "Clicks at a point of the picture.", point_fields,
        .tool = "browser:click"),
    ROW("browser_press_key", "Press a key", "Presses a key.", key_fields, .tool = "browser:press"),
    ROW("sandbox_convert_to_markdown", "To Markdown", "Makes Markdown of a document.", uri_fields,
        .tool = "util:convert", .reads = true, .ask = ask_convert, .print = print_markdown),
    ROW("markitdown_convert", "To Markdown", "Makes Markdown of a document.", uri_fields, .tool = "util:convert",
        .reads = true, .ask = ask_convert, .print = print_markdown),
    ROW("markitdown_extract", "Text of a document", "The text of a document, as Markdown.", uri_fields,
        .tool = "util:convert", .reads = true, .ask = ask_convert, .print = print_markdown),
    ROW("sandbox_load_skill", "Skills", "Lists the skills, or shows one.", skill_fields, .tool = "skills:manage",
        .reads = true, .ask = ask_skill, .print = print_skill),
    { 0 },
};

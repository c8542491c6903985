/* browser_page: the page at hand, by selectors, indexes and points. The rows translate; what pages are is the tools'
 * business. */
#include "base/limits.h"
#include "surface/aio.h"

struct page_in {
    struct str url, wait_until, expression, selector, ref, text, value, label, key, direction, button, format, items,
        save_path, keyword, type, state, url_pattern, action;
    struct strs keys, files;
    int64_t index, amount, click_count, quality, x_to, y_to, fps;
    double x, y, timeout, delay, polling, duration;
    bool full_page, outer, clear;
};
#define I     struct page_in
#define WHERE FIELD(STR, I, selector, "CSS selector, text=..., or xpath=...", .max = 8192)
#define INDEX FIELD(INT, I, index, "or: number of page/elements", .def = FIELD_ABSENT, .min = 0, .max = 100000)
#define REF   FIELD(STR, I, ref, "or: a reference", .max = 32)
#define POINT                                                                                                          \
    FIELD(NUM, I, x, "or: a point of the viewport", .def_num = -1, .min = -1, .max = 100000),                          \
        FIELD(NUM, I, y, "its other coordinate", .def_num = -1, .min = -1, .max = 100000)
#define ONE FIELD(STR, I, selector, "CSS selector, text=..., or xpath=...", .required = true, .max = 8192)

static const struct field none_in[] = { { 0 } };
static const struct field navigate_in[] = {
    FIELD(STR, I, url, "where to go", .required = true, .max = 1 * MiB),
    FIELD(STR, I, wait_until, "what to wait for", .def_str = "load",
          .choices = "load|domcontentloaded|networkidle|commit"),
    FIELD(NUM, I, timeout, "seconds", .def_num = 30, .min = 0, .max = 600),
    { 0 },
};
static const struct field evaluate_in[] = {
    FIELD(STR, I, expression, "JavaScript", .required = true, .max = 4 * MiB, .alias = "script"),
    { 0 },
};
static const struct field click_in[] = {
    WHERE,
    REF,
    INDEX,
    POINT,
    FIELD(STR, I, button, "which", .def_str = "left", .choices = "left|right|middle"),
    FIELD(INT, I, click_count, "how often", .def = 1, .min = 1, .max = 3),
    { 0 },
};
static const struct field hover_in[] = { WHERE, REF, INDEX, POINT, { 0 } };
static const struct field fill_in[] = { WHERE,
                                        REF,
                                        INDEX,
                                        FIELD(STR, I, text, "what is to be in it", .required = true, .max = 1 * MiB,
                                              .alias = "value"),
                                        { 0 } };
static const struct field type_in[] = {
    FIELD(STR, I, text, "what to type where the cursor is", .required = true, .max = 64 * KiB),
    FIELD(NUM, I, delay, "between keys: seconds below 1, milliseconds from 1 on", .min = 0, .max = 5000),
    { 0 },
};
static const struct field key_in[] = { FIELD(STR, I, key, "such as Enter", .required = true, .max = 64), { 0 } };
static const struct field keys_in[] = {
    FIELD(STRS, I, keys, "held together, in this order", .required = true, .max = 8),
    { 0 },
};
static const struct field select_in[] = {
    ONE,
    FIELD(STR, I, value, "of the option", .max = 8192),
    FIELD(STR, I, label, "or: its label", .max = 8192),
    FIELD(INT, I, index, "or: its number", .def = FIELD_ABSENT, .min = 0, .max = 100000),
    { 0 },
};
static const struct field one_in[] = { ONE, { 0 } };
static const struct field upload_in[] = { ONE,
                                          FIELD(STRS, I, files, "paths in the box", .required = true, .max = 100),
                                          { 0 } };
static const struct field form_in[] = {
    FIELD(JSON, I, items, "fields: selector or index, and text, value, checked, values or files", .required = true,
          .max = 4 * MiB, .def_str = "[object]"),
    { 0 },
};
static const struct field scroll_in[] = {
    FIELD(STR, I, direction, "where to", .def_str = "down", .choices = "down|up|left|right|top|bottom"),
    FIELD(INT, I, amount, "pixels; negative: the other way", .def = 300, .min = -1e7, .max = 1e7),
    { 0 },
};
static const struct field scroll_to_in[] = {
    { .name = "x", .type = FIELD_INT, .offset = __builtin_offsetof(I, x_to), .help = "pixels", .min = 0, .max = 1e7 },
    { .name = "y", .type = FIELD_INT, .offset = __builtin_offsetof(I, y_to), .help = "pixels", .min = 0, .max = 1e7 },
    { 0 },
};
static const struct field picture_in[] = {
    FIELD(BOOL, I, full_page, "all of it, not only what is in view"),
    FIELD(STR, I, format, "of the picture", .def_str = "png", .choices = "png|jpg|jpeg|webp"),
    FIELD(INT, I, quality, "of a jpeg", .def = FIELD_ABSENT, .min = 0, .max = 100),
    WHERE,
    { 0 },
};
static const struct field html_in[] = { FIELD(BOOL, I, outer, "with the document type"), { 0 } };
static const struct field console_in[] = { FIELD(BOOL, I, clear, "forget them"), { 0 } };
static const struct field export_in[] = {
    FIELD(STR, I, save_path, "a file of the box", .required = true, .max = LIMIT_PATH),
    FIELD(BOOL, I, clear, "forget them"),
    { 0 },
};
static const struct field find_in[] = { FIELD(STR, I, keyword, "what to look for", .required = true, .max = 8192),
                                        { 0 } };
static const struct field wait_in[] = {
    FIELD(STR, I, type, "for what", .required = true,
          .choices = "selector|load|url|network_idle|networkidle|download|function|response|request|timeout"),
    FIELD(STR, I, selector, "selector: the element", .max = 8192),
    FIELD(STR, I, state, "selector: how it is to be", .choices = "visible|attached|hidden|detached"),
    FIELD(STR, I, url, "url: a part of it, or a glob", .max = 8192),
    FIELD(STR, I, save_path, "download: where to copy it", .max = LIMIT_PATH),
    FIELD(NUM, I, timeout, "seconds", .def_num = 30, .min = 0, .max = 600),
    FIELD(STR, I, expression, "function: JavaScript that is to become true", .max = 1 * MiB),
    FIELD(NUM, I, polling, "seconds between looks", .def_num = 0.1, .min = 0.01, .max = 60),
    FIELD(STR, I, url_pattern, "request, response: a part of the URL, or a glob", .max = 8192),
    { 0 },
};

static const struct field record_in[] = {
    FIELD(STR, I, action, "what to do", .def_str = "once", .choices = "once|start|pause|resume|stop|status"),
    FIELD(STR, I, save_path, "a file of the box, .mp4 or .webm", .max = LIMIT_PATH),
    FIELD(NUM, I, duration, "once: seconds", .def_num = 10, .min = 0.1, .max = 600),
    FIELD(INT, I, fps, "pictures a second", .def = 15, .min = 1, .max = 60),
    FIELD(INT, I, quality, "of each of them", .def = 80, .min = 0, .max = 100),
    { 0 },
};

bool aio_browser_failed(struct web *w, const struct call *c)
{
    if (c->outcome == OUTCOME_OK)
        return false;
    aio_call_failed(w, c);
    return true;
}

/* --- what is asked of the tools --- */

static void ask_fill(struct web *w, const void *p, struct jw *j)
{
    const struct page_in *in = p;

    (void)w;
    if (in->selector.n)
        jw_kstr(j, "selector", in->selector);
    if (in->ref.n)
        jw_kstr(j, "ref", in->ref);
    if (in->index != FIELD_ABSENT)
        jw_kint(j, "index", in->index);
    jw_kstr(j, "text", in->text);
    jw_kbool(j, "clear", true);
}

static void ask_type(struct web *w, const void *p, struct jw *j)
{
    const struct page_in *in = p;

    (void)w;
    jw_kstr(j, "text", in->text);
    jw_kbool(j, "keystrokes", true);
    jw_knum(j, "delay", in->delay >= 1 ? in->delay / 1000 : in->delay);
}

static void ask_keys(struct web *w, const void *p, struct jw *j)
{
    (void)p;
    jw_kz(j, "action", "hotkey");
    jw_kraw(j, "keys", json_get(aio_given(w), "keys")->raw);
}

static void ask_select(struct web *w, const void *p, struct jw *j)
{
    const struct page_in *in = p;

    (void)w;
    jw_kstr(j, "selector", in->selector);
    if (in->value.p || in->label.p) {
        jw_key(j, "values");
        jw_arr(j);
        jw_str(j, in->value.p ? in->value : in->label);
        jw_arr_end(j);
    }
    if (in->index != FIELD_ABSENT)
        jw_kint(j, "option", in->index);
}

static void ask_check(struct web *w, const void *p, struct jw *j)
{
    jw_kstr(j, "selector", ((const struct page_in *)p)->selector);
    jw_kbool(j, "checked", strcmp(w->op->name, "check") == 0);
}

static void ask_scroll(struct web *w, const void *p, struct jw *j)
{
    static const struct {
        const char *way, *back;
    } ways[] = { { "down", "up" }, { "up", "down" }, { "left", "right" }, { "right", "left" } };
    const struct page_in *in = p;
    struct str way = in->direction;

    (void)w;
    for (size_t i = 0; i < sizeof ways / sizeof *ways && in->amount < 0; i++)
        if (str_is(in->direction, ways[i].way))
            way = str_of(ways[i].back);
    jw_kstr(j, "direction", way);
    jw_kint(j, "amount", in->amount < 0 ? -in->amount : in->amount);
}

static void ask_scroll_to(struct web *w, const void *p, struct jw *j)
{
    const struct page_in *in = p;

    (void)w;
    jw_kz(j, "direction", "point");
    jw_kint(j, "x", in->x_to);
    jw_kint(j, "y", in->y_to);
}

static void ask_view(struct web *w, const void *p, struct jw *j)
{
    (void)w;
    jw_kz(j, "direction", "view");
    jw_kstr(j, "selector", ((const struct page_in *)p)->selector);
}

static void ask_picture(struct web *w, const void *p, struct jw *j)
{
    const struct page_in *in = p;

    (void)w;
    jw_kbool(j, "full_page", in->full_page);
    jw_kz(j, "format", str_is(in->format, "png") ? "png" : str_is(in->format, "webp") ? "webp" : "jpeg");
    if (in->quality != FIELD_ABSENT)
        jw_kint(j, "quality", in->quality);
    if (in->selector.n)
        jw_kstr(j, "selector", in->selector);
}

static void ask_html(struct web *w, const void *p, struct jw *j)
{
    (void)w;
    jw_kz(j, "what", "html");
    jw_kbool(j, "outer", ((const struct page_in *)p)->outer);
}

static void ask_text(struct web *w, const void *p, struct jw *j)
{
    (void)w, (void)p;
    jw_kz(j, "what", "text");
}

static void ask_export(struct web *w, const void *p, struct jw *j)
{
    const struct page_in *in = p;

    (void)w;
    jw_kstr(j, "path", in->save_path);
    jw_kbool(j, "clear", in->clear);
}

static void ask_record(struct web *w, const void *p, struct jw *j)
{
    const struct page_in *in = p;

    (void)w;
    jw_kstr(j, "action", in->action);
    if (in->save_path.n)
        jw_kstr(j, "path", in->save_path);
    jw_knum(j, "duration", in->duration);
    jw_kint(j, "fps", in->fps);
    jw_kint(j, "quality", in->quality);
}

static bool print_record(struct web *w, const struct call *c, const struct json *data, struct jw *j)
{
    const struct json *size = json_get(data, "size"), *seconds = json_get(data, "duration");

    if (aio_browser_failed(w, c))
        return false;
    jw_obj(j);
    jw_kstr(j, "status", json_get_str(data, "status"));
    jw_kstr(j, "save_path", json_get_str(data, "path"));
    jw_kraw(j, "duration", seconds ? seconds->raw : STR("0"));
    jw_kint(j, "frames", json_get_int(data, "count", 0));
    jw_kraw(j, "file_size_bytes", size ? size->raw : STR("null"));
    jw_obj_end(j);
    return true;
}

static void ask_find(struct web *w, const void *p, struct jw *j)
{
    (void)w;
    jw_kstr(j, "text", ((const struct page_in *)p)->keyword);
}

static void ask_wait(struct web *w, const void *p, struct jw *j)
{
    const struct page_in *in = p;
    struct str pattern = in->url_pattern.n ? in->url_pattern : in->url;

    (void)w;
    jw_kstr(j, "type", str_is(in->type, "network_idle") ? STR("networkidle") : in->type);
    if (in->selector.n)
        jw_kstr(j, "selector", in->selector);
    if (in->state.n)
        jw_kstr(j, "state", in->state);
    if (pattern.n)
        jw_kstr(j, "pattern", pattern);
    if (in->expression.n)
        jw_kstr(j, "expression", in->expression);
    if (in->save_path.n)
        jw_kstr(j, "path", in->save_path);
    jw_knum(j, "polling", in->polling);
    jw_knum(j, "timeout", in->timeout);
}

/* --- what is made of their results --- */

static bool print_place(struct web *w, const struct call *c, const struct json *data, struct jw *j)
{
    const struct json *status = json_get(data, "status");

    if (aio_browser_failed(w, c))
        return false;
    jw_obj(j);
    jw_kstr(j, "url", json_get_str(data, "url"));
    jw_kstr(j, "title", json_get_str(data, "title"));
    jw_kraw(j, "status", status ? status->raw : STR("null"));
    jw_obj_end(j);
    return true;
}

static bool print_all(struct web *w, const struct call *c, const struct json *data, struct jw *j)
{
    (void)data;
    if (aio_browser_failed(w, c))
        return false;
    jw_raw(j, c->data);
    return true;
}

static bool print_value(struct web *w, const struct call *c, const struct json *data, struct jw *j)
{
    const struct json *value = json_get(data, "value");

    if (aio_browser_failed(w, c))
        return false;
    jw_raw(j, value ? value->raw : STR("null"));
    return true;
}

static bool print_content(struct web *w, const struct call *c, const struct json *data, struct jw *j)
{
    struct str text = json_get_str(data, "content");

    if (aio_browser_failed(w, c))
        return false;
    jw_str(j, text.p ? text : STR(""));
    return true;
}

static bool print_markdown(struct web *w, const struct call *c, const struct json *data, struct jw *j)
{
    struct str text = json_get_str(data, "markdown");

    if (aio_browser_failed(w, c))
        return false;
    jw_obj(j);
    jw_kstr(j, "markdown", text);
    jw_kstr(j, "content", text);
    jw_kstr(j, "title", json_get_str(data, "title"));
    jw_kstr(j, "url", json_get_str(data, "url"));
    jw_obj_end(j);
    return true;
}

bool aio_print_list(struct web *w, const struct call *c, const struct json *data, struct jw *j)
{
    static const char *const lists[] = { "elements", "messages", "found", "tabs", "cookies", "requests" };
    const struct json *list = NULL;

    if (aio_browser_failed(w, c))
        return false;
    for (size_t i = 0; i < sizeof lists / sizeof *lists && !list; i++)
        list = json_get(data, lists[i]);
    jw_raw(j, list ? list->raw : STR("[]"));
    return true;
}

static bool print_export(struct web *w, const struct call *c, const struct json *data, struct jw *j)
{
    const struct json *list = json_get(data, "messages");

    if (aio_browser_failed(w, c))
        return false;
    jw_obj(j);
    jw_kstr(j, "path", json_get_str(data, "path"));
    jw_kint(j, "count", list ? (int64_t)list->count : 0);
    jw_obj_end(j);
    return true;
}

#define PAGE(method, path, name, help, ...)                                                                            \
    {                                                                                                                  \
        method, "/v1/browser/page/" path, "browser_page", name, help, __VA_ARGS__                                      \
    }

static const struct aio_op ops[] = {
    PAGE("POST", "navigate", "navigate", "Go to a URL", .tool = "browser:goto", .print = print_place, .in = navigate_in,
         .in_name = "NavigateRequest", .flags = AIO_OBJECT | AIO_LONG),
    PAGE("POST", "back", "back", "Go back", .tool = "browser:back", .print = print_place, .in = none_in),
    PAGE("POST", "forward", "forward", "Go forward", .tool = "browser:forward", .print = print_place, .in = none_in),
    PAGE("POST", "reload", "reload", "Load it again", .tool = "browser:reload", .print = print_place, .in = none_in),
    PAGE("POST", "click", "click", "Click an element or a point", .tool = "browser:click", .print = print_all,
         .in = click_in, .in_name = "ClickRequest"),
    PAGE("POST", "fill", "fill", "Fill a field", .tool = "browser:type", .ask = ask_fill, .print = print_all,
         .in = fill_in, .in_name = "FillRequest"),
    PAGE("POST", "type", "type_text", "Type where the cursor is", .tool = "browser:type", .ask = ask_type,
         .print = print_all, .in = type_in, .in_name = "TypeTextRequest", .flags = AIO_LONG),
    PAGE("POST", "press_key", "press_key", "Press a key", .tool = "browser:press", .print = print_all, .in = key_in,
         .in_name = "KeyRequest"),
    PAGE("POST", "hot_key", "hot_key", "Press keys together", .tool = "browser:act", .ask = ask_keys,
         .print = print_all, .in = keys_in, .in_name = "HotKeyRequest"),
    PAGE("POST", "hover", "hover", "Move the mouse over it", .tool = "browser:hover", .print = print_all,
         .in = hover_in, .in_name = "HoverRequest"),
    PAGE("POST", "select_option", "select_option", "Choose an option", .tool = "browser:select", .ask = ask_select,
         .print = print_all, .in = select_in, .in_name = "SelectOptionRequest"),
    PAGE("POST", "check", "check", "Check a box", .tool = "browser:check", .ask = ask_check, .print = print_all,
         .in = one_in, .in_name = "CheckRequest"),
    PAGE("POST", "uncheck", "uncheck", "Uncheck a box", .tool = "browser:check", .ask = ask_check, .print = print_all,
         .in = one_in, .in_name = "CheckRequest"),
    PAGE("POST", "upload_file", "upload_file", "Give files to a field", .tool = "browser:upload", .print = print_all,
         .in = upload_in, .in_name = "UploadFileRequest"),
    PAGE("POST", "fill_form", "fill_form", "Fill several fields", .tool = "browser:fill", .print = print_all,
         .in = form_in, .in_name = "FormFillRequest"),
    PAGE("POST", "scroll", "scroll", "Scroll", .tool = "browser:scroll", .ask = ask_scroll, .print = print_all,
         .in = scroll_in, .in_name = "ScrollRequest"),
    PAGE("POST", "scroll_to", "scroll_to", "Scroll to a place", .tool = "browser:scroll", .ask = ask_scroll_to,
         .print = print_all, .in = scroll_to_in, .in_name = "ScrollToRequest"),
    PAGE("POST", "scroll_to_element", "scroll_to_element", "Scroll until it is in view", .tool = "browser:scroll",
         .ask = ask_view, .print = print_all, .in = one_in, .in_name = "ScrollToElementRequest"),
    PAGE("GET", "screenshot", "screenshot", "A picture of the page", .tool = "browser:screenshot", .ask = ask_picture,
         .print = aio_print_picture, .in = picture_in, .out_name = "image/png", .flags = AIO_BYTES),
    PAGE("POST", "record", "record", "Film it", .tool = "browser:record", .ask = ask_record, .print = print_record,
         .in = record_in, .in_name = "RecordRequest", .flags = AIO_OBJECT | AIO_LONG),
    PAGE("GET", "html", "get_html", "Its HTML", .tool = "browser:extract", .ask = ask_html, .print = print_content,
         .in = html_in, .flags = AIO_TEXT),
    PAGE("GET", "text", "get_text", "Its text", .tool = "browser:extract", .ask = ask_text, .print = print_content,
         .in = none_in, .flags = AIO_TEXT),
    PAGE("GET", "markdown", "get_markdown", "Its main part as Markdown", .tool = "browser:markdown",
         .print = print_markdown, .in = none_in, .flags = AIO_OBJECT),
    PAGE("GET", "elements", "get_elements", "What can be acted on", .tool = "browser:elements", .print = aio_print_list,
         .in = none_in, .flags = AIO_LIST),
    PAGE("GET", "console", "get_console", "What it wrote to its console", .tool = "browser:console",
         .print = aio_print_list, .in = console_in, .flags = AIO_LIST),
    PAGE("POST", "console/export", "export_console", "The same, into a file", .tool = "browser:console",
         .ask = ask_export, .print = print_export, .in = export_in, .in_name = "ExportConsoleLogsRequest"),
    PAGE("POST", "evaluate", "evaluate", "Run JavaScript", .tool = "browser:evaluate", .print = print_value,
         .in = evaluate_in, .in_name = "EvaluateRequest"),
    PAGE("POST", "find_text", "find_text", "Where a text is", .tool = "browser:find", .ask = ask_find,
         .print = aio_print_list, .in = find_in, .in_name = "FindTextRequest", .flags = AIO_LIST),
    PAGE("POST", "wait", "wait", "Wait for something", .tool = "browser:wait", .ask = ask_wait, .print = print_all,
         .in = wait_in, .in_name = "BrowserWaitRequest", .flags = AIO_LONG),
    { 0 },
};
const struct aio_group aio_page = { "browser_page", ops };

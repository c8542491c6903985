/* browser info, screenshot, actions, config: the browser as one sees it on a screen. That screen is the page's viewport,
 * or, if the box's browser has a window (display, browser.headed), the box's desktop. */
#include <math.h>
#include <stdlib.h>

#include "base/limits.h"
#include "surface/aio.h"
#include "surface/place.h"

#define SCREEN_INFO "browser:info"

static bool headed(const struct web *w)
{
    return box_headed(aio_box(w));
}

/* --- info --- */

static const struct field viewport_out[] = { SAYS(INT, "width", "pixels", .required = true),
                                             SAYS(INT, "height", "pixels", .required = true),
                                             { 0 } };
static const struct field info_out[] = {
    SAYS(STR, "user_agent", "how the browser calls itself", .required = true),
    SAYS(STR, "cdp_url", "where its debugging protocol is spoken", .required = true),
    SAYS(STR, "vnc_url", "where its screen can be seen", .required = true),
    SAYS(STR, "cdp_ui_url", "a page that shows it", .nullable = true),
    SAYS(JSON, "viewport", "size of the screen", .required = true, .rows = viewport_out),
    SAYS(JSON, "page_viewport", "size of the page's part of it", .nullable = true, .rows = viewport_out),
    { 0 },
};

static const char *address(const struct web *w, const char *scheme, const char *path)
{
    bool tls = str_is(http_header(w->http, "x-forwarded-proto"), "https");
    struct str host = http_header(w->http, "host");

    return arena_printf(w->http->arena, "%s%s://%.*s%.*s%s", scheme, tls ? "s" : "", STR_ARG(host), STR_ARG(w->base),
                        path);
}

static bool print_info(struct web *w, const struct call *c, const struct json *data, struct jw *j)
{
    static const char *const sizes[] = { "viewport", "page_viewport" };
    struct str agent = json_get_str(data, "user_agent");

    (void)c;
    jw_obj(j);
    jw_kstr(j, "user_agent", agent.p ? agent : STR(""));
    jw_kstr(j, "cdp_url", cdp_address(w, json_get_str(data, "cdp_path")));
    jw_kz(j, "vnc_url", address(w, "http", "/vnc/index.html"));
    jw_kz(j, "cdp_ui_url", NULL);
    for (size_t i = 0; i < 2; i++) {
        jw_key(j, sizes[i]);
        jw_obj(j);
        /* the screen's first, if there is one */
        jw_kint(j, "width", json_get_int(data, i ? "width" : "screen_width", json_get_int(data, "width", 0)));
        jw_kint(j, "height", json_get_int(data, i ? "height" : "screen_height", json_get_int(data, "height", 0)));
        jw_obj_end(j);
    }
    jw_obj_end(j);
    return true;
}

/* --- screenshot --- */

struct picture_in {
    struct str format;
    int64_t quality;
};
static const struct field picture_in[] = {
    FIELD(STR, struct picture_in, format, "of the picture", .def_str = "png", .choices = "png|jpg|jpeg|webp"),
    FIELD(INT, struct picture_in, quality, "of a jpeg", .def = FIELD_ABSENT, .min = 0, .max = 100),
    { 0 },
};

static void on_picture(void *arg, const struct call *c)
{
    struct web *w = arg;
    struct json *data = NULL;
    struct err e;

    if (c->data.p)
        (void)json_parse(w->http->arena, c->data, &data, &e);
    (void)aio_print_picture(w, c, data, NULL);
}

static void picture(struct web *w)
{
    const struct picture_in *in = aio_bound(w);
    struct buf b;
    struct jw j = { .out = &b }, *params = &j;

    if (headed(w) && !str_is(in->format, "png")) {
        aio_invalid(w, "query", "format", "value_error", "format: pictures of the desktop are png (browser.headed)");
        return;
    }
    if (headed(w)) {
        aio_call(w, "desktop:screenshot", STR(""), on_picture);
        return;
    }
    buf_init(&b, 256);
    jw_kz(params, "format", str_is(in->format, "png") ? "png" : str_is(in->format, "webp") ? "webp" : "jpeg");
    if (in->quality != FIELD_ABSENT)
        jw_kint(params, "quality", in->quality);
    aio_call(w, "browser:screenshot", arena_copy(w->http->arena, buf_view(&b)), on_picture);
    buf_done(&b);
}

bool aio_print_picture(struct web *w, const struct call *c, const struct json *data, struct jw *j)
{
    struct str bytes = base64_decode(w->http->arena, json_get_str(data, "image"));
    const struct json *size = json_get(data, "size"); /* the desktop's way to say it */
    const struct json *first = size && size->type == JSON_ARR ? size->first : NULL;
    int64_t across = first && first->next ? first->i : json_get_int(data, "width", 0);
    int64_t down = first && first->next ? first->next->i : json_get_int(data, "height", 0);
    struct str width = str_of(arena_printf(w->http->arena, "%lld", (long long)across));
    struct str height = str_of(arena_printf(w->http->arena, "%lld", (long long)down));
    struct pair headers[] = { { STR("Content-Type"), json_get_str(data, "mime_type") },
                              { STR("X-Screen-Width"), width },
                              { STR("X-Screen-Height"), height },
                              { STR("X-Image-Width"), width },
                              { STR("X-Image-Height"), height } };

    (void)j;
    if (c->outcome != OUTCOME_OK || !bytes.n)
        aio_error(w, 503, "%.*s", STR_ARG(c->message));
    else
        http_reply_headers(w->http, 200, headers, sizeof headers / sizeof *headers, bytes);
    return false;
}

/* --- actions --- */

struct action_in {
    struct str action_type, button, text, key;
    struct strs keys;
    double x, y, x_offset, y_offset, duration;
    int64_t num_clicks, dx, dy;
    bool use_clipboard;
};
#define A struct action_in
static const struct field action_in[] = {
    FIELD(STR, A, action_type, "what to do", .required = true,
          .choices =
              "MOVE_TO|MOVE_REL|CLICK|MOUSE_DOWN|MOUSE_UP|RIGHT_CLICK|DOUBLE_CLICK|DRAG_TO|DRAG_REL|SCROLL|TYPING|"
              "PRESS|KEY_DOWN|KEY_UP|HOTKEY|WAIT"),
    FIELD(NUM, A, x, "MOVE_TO, DRAG_TO, clicks: where", .def_num = -1, .min = -1, .max = 100000),
    FIELD(NUM, A, y, "the other coordinate", .def_num = -1, .min = -1, .max = 100000),
    FIELD(NUM, A, x_offset, "MOVE_REL, DRAG_REL: by how much", .min = -100000, .max = 100000),
    FIELD(NUM, A, y_offset, "the same, downwards", .min = -100000, .max = 100000),
    FIELD(STR, A, button, "CLICK, MOUSE_DOWN, MOUSE_UP: which", .def_str = "left", .choices = "left|right|middle"),
    FIELD(INT, A, num_clicks, "CLICK: how often", .def = 1, .min = 1, .max = 3),
    FIELD(INT, A, dx, "SCROLL: pixels to the right", .min = -100000, .max = 100000),
    FIELD(INT, A, dy, "SCROLL: pixels downwards", .min = -100000, .max = 100000),
    FIELD(STR, A, text, "TYPING: what", .max = 1 * MiB),
    FIELD(BOOL, A, use_clipboard, "TYPING: as if pasted; false: as keys", .def = true),
    FIELD(STR, A, key, "PRESS, KEY_DOWN, KEY_UP: such as enter, ctrl, a", .max = 64),
    FIELD(STRS, A, keys, "HOTKEY: held together", .max = 8),
    FIELD(NUM, A, duration, "WAIT: seconds", .min = 0, .max = 600),
    { 0 },
};
static const struct field action_out[] = {
    SAYS(STR, "status", "success", .required = true),
    SAYS(STR, "action_performed", "which", .required = true),
    { 0 },
};

/* What an action cannot do without, beside its type. */
static const struct {
    const char *type, *needs[2];
} needs[] = {
    { "MOVE_TO", { "x", "y" } },
    { "DRAG_TO", { "x", "y" } },
    { "MOVE_REL", { "x_offset", "y_offset" } },
    { "DRAG_REL", { "x_offset", "y_offset" } },
    { "TYPING", { "text" } },
    { "PRESS", { "key" } },
    { "KEY_DOWN", { "key" } },
    { "KEY_UP", { "key" } },
    { "HOTKEY", { "keys" } },
    { "WAIT", { "duration" } },
};

static bool complete(struct web *w, const struct action_in *in)
{
    for (size_t i = 0; i < sizeof needs / sizeof *needs; i++)
        for (size_t k = 0; k < 2 && str_is(in->action_type, needs[i].type) && needs[i].needs[k]; k++) {
            const char *name = needs[i].needs[k];
            const struct json *v = json_get(aio_given(w), name);
            bool empty = v && ((v->type == JSON_STR && !v->s.n) || (v->type == JSON_ARR && !v->count) ||
                               (v->type == JSON_NUM && v->num <= 0 && strcmp(name, "duration") == 0));
            if (!v || empty) {
                aio_invalid(w, "body", name, v ? "value_error" : "missing", "%s: %s %s", name, needs[i].type,
                            v ? "wants more than nothing" : "needs it");
                return false;
            }
        }
    return true;
}

static void on_acted(void *arg, const struct call *c)
{
    struct web *w = arg;
    const struct action_in *in = aio_bound(w);
    struct buf b;
    struct jw j;

    if (c->outcome != OUTCOME_OK) {
        aio_call_failed(w, c);
        return;
    }
    aio_begin(w, &b, &j);
    jw_obj(&j);
    jw_kz(&j, "status", "success");
    jw_kstr(&j, "action_performed", in->action_type);
    jw_obj_end(&j);
    jw_kz(&j, "status", "success");
    jw_kstr(&j, "action_performed", in->action_type);
    aio_end(w, &b, &j, NULL);
}

static void act(struct web *w)
{
    const struct action_in *in = aio_bound(w);
    bool relative = memmem(in->action_type.p, in->action_type.n, "_REL", 4);
    char *type = arena_z(w->http->arena, in->action_type);
    struct buf b;
    struct jw j = { .out = &b };

    if (!complete(w, in))
        return;
    for (char *p = type; *p; p++)
        *p = *p >= 'A' && *p <= 'Z' ? (char)(*p | 32) : *p;
    buf_init(&b, 8 * MiB);
    jw_kz(&j, "action", type);
    if (in->x >= 0)
        jw_knum(&j, "x", headed(w) ? floor(in->x) : in->x);
    if (in->y >= 0)
        jw_knum(&j, "y", headed(w) ? floor(in->y) : in->y);
    jw_knum(&j, "dx", relative ? in->x_offset : (double)in->dx);
    jw_knum(&j, "dy", relative ? in->y_offset : (double)in->dy);
    jw_kstr(&j, "button", in->button);
    jw_kint(&j, "click_count", in->num_clicks);
    if (in->text.n)
        jw_kstr(&j, "text", in->text);
    jw_kbool(&j, "keystrokes", !in->use_clipboard);
    if (in->key.n)
        jw_kstr(&j, "key", in->key);
    if (in->keys.n)
        jw_kraw(&j, "keys", json_get(aio_given(w), "keys")->raw);
    jw_knum(&j, "duration", in->duration);
    struct str params = arena_copy(w->http->arena, buf_view(&b));
    buf_done(&b);
    aio_call(w, headed(w) ? "desktop:act" : "browser:act", params, on_acted);
}

/* --- config --- */

static const struct field resolution_fields[] = { SAYS(INT, "width", "pixels", .required = true),
                                                  SAYS(INT, "height", "pixels", .required = true),
                                                  { 0 } };
static const struct field config_in[] = {
    SAYS(JSON, "resolution", "one of the sizes that screens have, as an object or as \"1920x1080\"", .max = 100,
         .rows = resolution_fields),
    SAYS(STR, "display", "headed: the browser has a window on the box's desktop; it is started anew", .nullable = true,
         .choices = "headed|headless"),
    { 0 },
};
static const struct {
    int width, height;
} sizes[] = { { 1920, 1200 }, { 1920, 1080 }, { 1680, 1050 }, { 1600, 1200 }, { 1400, 1050 },
              { 1360, 768 },  { 1280, 1024 }, { 1280, 960 },  { 1280, 800 },  { 1280, 720 },
              { 1024, 768 },  { 800, 600 },   { 640, 480 } };

static void on_sized(void *arg, const struct call *c)
{
    if (c->outcome != OUTCOME_OK)
        aio_call_failed(arg, c);
    else
        aio_ok(arg, "Resolution updated");
}

static void set_resolution(struct web *w)
{
    const struct json *r = json_get(aio_given(w), "resolution");
    int64_t width = json_get_int(r, "width", 0), height = json_get_int(r, "height", 0);
    bool known = false;

    if (!r) {
        aio_ok(w, "Nothing to change");
        return;
    }
    if (r->type == JSON_STR) { /* "1920x1080" */
        char *end, *text = arena_z(w->http->arena, r->s);
        width = strtol(text, &end, 10);
        height = *end == 'x' ? strtol(end + 1, &end, 10) : 0;
        height = *end ? 0 : height;
    }
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        known |= sizes[i].width == width && sizes[i].height == height;
    if (!known) {
        aio_invalid(w, "body", "resolution", "value_error",
                    "resolution: %.*s is none of 1920x1200, 1920x1080, 1680x1050, 1600x1200, 1400x1050, 1360x768, "
                    "1280x1024, 1280x960, 1280x800, 1280x720, 1024x768, 800x600, 640x480",
                    STR_ARG(r->raw));
        return;
    }
    aio_call(
        w, headed(w) ? "desktop:screen" : "browser:viewport",
        str_of(arena_printf(w->http->arena, "\"width\":%lld,\"height\":%lld", (long long)width, (long long)height)),
        on_sized);
}

static void on_displayed(void *arg, const struct call *c)
{
    struct web *w = arg;

    if (c->outcome != OUTCOME_OK)
        aio_call_failed(w, c);
    else if (json_get(aio_given(w), "resolution"))
        set_resolution(w);
    else
        aio_ok(w, "Display updated");
}

static void config(struct web *w)
{
    struct str display = json_get_str(aio_given(w), "display");

    if (display.n && str_is(display, "headed") != headed(w))
        aio_call(w, "browser:restart", str_of(arena_printf(w->http->arena, "\"display\":\"%.*s\"", STR_ARG(display))),
                 on_displayed);
    else
        set_resolution(w);
}

static const struct aio_op ops[] = {
    { "GET", "/v1/browser/info", "browser", "get_info", "About the browser", .tool = SCREEN_INFO, .print = print_info,
      .out = info_out, .out_name = "BrowserInfoResult" },
    { "GET", "/v1/browser/screenshot", "browser", "screenshot", "A picture of the screen", .handler = picture,
      .in = picture_in, .out_name = "image/png", .flags = AIO_BYTES | AIO_BOX },
    { "POST", "/v1/browser/actions", "browser", "execute_action", "Mouse and keyboard", .handler = act, .in = action_in,
      .in_name = "Action", .out = action_out, .out_name = "ActionData", .flags = AIO_BOX | AIO_TOP | AIO_LONG },
    { "POST", "/v1/browser/config", "browser", "set_config", "Size of the screen", .handler = config, .in = config_in,
      .in_name = "BrowserConfigRequest", .flags = AIO_BOX },
    { 0 },
};
const struct aio_group aio_screen = { "browser", ops };

/* Mouse and keyboard of a page, as the browser takes them: what a page gets is what a person's hands would send. Where
 * the mouse is, which of its buttons and which modifiers are held is kept from call to call. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/auto.h"
#include "base/limits.h"
#include "base/loop.h"
#include "init/browser_parts.h"

enum { MOD_ALT = 1, MOD_CONTROL = 2, MOD_META = 4, MOD_SHIFT = 8 };

/* --- the mouse --- */

static int button_bit(const char *button)
{
    return strcmp(button, "left") == 0 ? 1 : strcmp(button, "right") == 0 ? 2 : strcmp(button, "middle") == 0 ? 4 : 0;
}

static int mouse_event(struct hand *h, struct browser *b, const char *type, const char *button, const char *more,
                       struct err *e)
{
    struct pointer *at = browser_pointer(b);
    char params[400];

    snprintf(params, sizeof params,
             "{\"type\":\"%s\",\"x\":%.2f,\"y\":%.2f,\"button\":\"%s\",\"buttons\":%d,\"modifiers\":%d%s}", type, at->x,
             at->y, button, at->buttons, at->modifiers, more);
    return browser_page(h, b, "Input.dispatchMouseEvent", str_of(params), NULL, e);
}

/* --- what it carries --- */

void drag_end(struct browser *b)
{
    free(b->drag.data);
    b->drag = (struct drag){ 0 };
}

void drag_event(struct browser *b, const struct json *p)
{
    const struct json *data = json_get(p, "data");

    drag_end(b);
    if (data && data->raw.n <= LIMIT_BROWSER_DRAG)
        b->drag.data = strndup(data->raw.p, data->raw.n);
}

/* From dragstart on, pages get events of the drag instead of the mouse's. */
static int drag_step(struct hand *h, struct browser *b, const char *type, struct err *e)
{
    const struct pointer *at = browser_pointer(b);
    char *params = arena_printf(h->arena, "{\"type\":\"%s\",\"x\":%.2f,\"y\":%.2f,\"modifiers\":%d,\"data\":%s}", type,
                                at->x, at->y, at->modifiers, b->drag.data);

    return browser_page(h, b, "Input.dispatchDragEvent", str_of(params), NULL, e);
}

static int drag_over(struct hand *h, struct browser *b, struct err *e)
{
    int n = b->drag.entered ? 0 : drag_step(h, b, "dragEnter", e);

    b->drag.entered = true;
    return n < 0 || !b->drag.data ? n : drag_step(h, b, "dragOver", e);
}

static int drop_it(struct hand *h, struct browser *b, struct err *e)
{
    int n = drag_over(h, b, e);

    if (n >= 0 && b->drag.data)
        n = drag_step(h, b, "drop", e);
    drag_end(b);
    return n;
}

int browser_move(struct hand *h, struct browser *b, double x, double y, struct err *e)
{
    struct pointer *at = browser_pointer(b);

    at->x = x;
    at->y = y;
    if (b->drag.data)
        return drag_over(h, b, e);
    return mouse_event(h, b, "mouseMoved",
                       at->buttons & 1   ? "left"
                       : at->buttons & 2 ? "right"
                       : at->buttons & 4 ? "middle"
                                         : "none",
                       "", e);
}

int browser_button(struct hand *h, struct browser *b, bool down, const char *button, int64_t clicks, struct err *e)
{
    struct pointer *at = browser_pointer(b);
    char more[60];

    at->buttons = down ? at->buttons | button_bit(button) : at->buttons & ~button_bit(button);
    snprintf(more, sizeof more, ",\"clickCount\":%lld", (long long)clicks);
    if (button_bit(button) != 1 || !b->at)
        return mouse_event(h, b, down ? "mousePressed" : "mouseReleased", button, more, e);
    if (down) {
        drag_end(b);
        view_post(b, b->at, "Input.setInterceptDrags", STR("{\"enabled\":true}"));
        return mouse_event(h, b, "mousePressed", button, more, e);
    }
    /* after a drop, no page is told of the button */
    int n = b->drag.data ? drop_it(h, b, e) : mouse_event(h, b, "mouseReleased", button, more, e);
    if (b->at) /* a person at the screen drags without us */
        view_post(b, b->at, "Input.setInterceptDrags", STR("{\"enabled\":false}"));
    return n;
}

int browser_click(struct hand *h, struct browser *b, const char *button, int64_t clicks, struct err *e)
{
    int n = 0;

    for (int64_t i = 1; n >= 0 && i <= clicks; i++) {
        n = browser_button(h, b, true, button, i, e);
        if (n >= 0)
            n = browser_button(h, b, false, button, i, e);
    }
    return n;
}

int browser_drag(struct hand *h, struct browser *b, double x, double y, struct err *e)
{
    enum { STEPS = 8 }; /* pages that follow a drag want to see it move */
    struct pointer *at = browser_pointer(b);
    double from_x = at->x, from_y = at->y;
    int n = browser_button(h, b, true, "left", 1, e);

    for (int i = 1; n >= 0 && i <= STEPS; i++)
        n = browser_move(h, b, from_x + (x - from_x) * i / STEPS, from_y + (y - from_y) * i / STEPS, e);
    return n < 0 ? n : browser_button(h, b, false, "left", 1, e);
}

int browser_wheel(struct hand *h, struct browser *b, double dx, double dy, struct err *e)
{
    char more[100];

    snprintf(more, sizeof more, ",\"deltaX\":%.2f,\"deltaY\":%.2f", dx, dy);
    return mouse_event(h, b, "mouseWheel", "none", more, e);
}

/* --- the keyboard --- */

struct key {
    const char *name, *key, *code, *text;
    int number, modifier;
};

/* Names of more than one letter are taken in any case. The shorter spellings are those of pyautogui. */
static const struct key known_keys[] = {
    { "Enter", "Enter", "Enter", "\r", 13, 0 },
    { "Return", "Enter", "Enter", "\r", 13, 0 },
    { "Tab", "Tab", "Tab", "", 9, 0 },
    { "Escape", "Escape", "Escape", "", 27, 0 },
    { "Esc", "Escape", "Escape", "", 27, 0 },
    { "Backspace", "Backspace", "Backspace", "", 8, 0 },
    { "Delete", "Delete", "Delete", "", 46, 0 },
    { "Del", "Delete", "Delete", "", 46, 0 },
    { "Insert", "Insert", "Insert", "", 45, 0 },
    { "ArrowUp", "ArrowUp", "ArrowUp", "", 38, 0 },
    { "Up", "ArrowUp", "ArrowUp", "", 38, 0 },
    { "ArrowDown", "ArrowDown", "ArrowDown", "", 40, 0 },
    { "Down", "ArrowDown", "ArrowDown", "", 40, 0 },
    { "ArrowLeft", "ArrowLeft", "ArrowLeft", "", 37, 0 },
    { "Left", "ArrowLeft", "ArrowLeft", "", 37, 0 },
    { "ArrowRight", "ArrowRight", "ArrowRight", "", 39, 0 },
    { "Right", "ArrowRight", "ArrowRight", "", 39, 0 },
    { "Home", "Home", "Home", "", 36, 0 },
    { "End", "End", "End", "", 35, 0 },
    { "PageUp", "PageUp", "PageUp", "", 33, 0 },
    { "PgUp", "PageUp", "PageUp", "", 33, 0 },
    { "PageDown", "PageDown", "PageDown", "", 34, 0 },
    { "PgDn", "PageDown", "PageDown", "", 34, 0 },
    { "Space", " ", "Space", " ", 32, 0 },
    { "CapsLock", "CapsLock", "CapsLock", "", 20, 0 },
    { "PrintScreen", "PrintScreen", "PrintScreen", "", 44, 0 },
    { "ContextMenu", "ContextMenu", "ContextMenu", "", 93, 0 },
    { "Control", "Control", "ControlLeft", "", 17, MOD_CONTROL },
    { "Ctrl", "Control", "ControlLeft", "", 17, MOD_CONTROL },
    { "ControlOrMeta", "Control", "ControlLeft", "", 17, MOD_CONTROL },
    { "Shift", "Shift", "ShiftLeft", "", 16, MOD_SHIFT },
    { "Alt", "Alt", "AltLeft", "", 18, MOD_ALT },
    { "Option", "Alt", "AltLeft", "", 18, MOD_ALT },
    { "Meta", "Meta", "MetaLeft", "", 91, MOD_META },
    { "Command", "Meta", "MetaLeft", "", 91, MOD_META },
    { "Cmd", "Meta", "MetaLeft", "", 91, MOD_META },
    { "Win", "Meta", "MetaLeft", "", 91, MOD_META },
    { "Super", "Meta", "MetaLeft", "", 91, MOD_META },
};
/* What a browser does on these by itself, if nobody draws it on a screen. */
static const struct {
    char letter;
    const char *command;
} edits[] = {
    { 'a', "selectAll" }, { 'c', "copy" }, { 'v', "paste" }, { 'x', "cut" }, { 'z', "undo" }, { 'y', "redo" }
};

static int utf8_length(const char *p, size_t n)
{
    size_t k = 1;

    while (k < n && ((unsigned char)p[k] & 0xc0) == 0x80)
        k++;
    return (int)k;
}

/* text: room for what a key without a name in the table types */
static int key_find(struct str name, struct key *ret, char text[8], char code[12], struct err *e)
{
    int number = 0;

    if (name.n == 0)
        return err_set(e, ERR_INVALID, "key: it is empty");
    if ((size_t)utf8_length(name.p, name.n) == name.n && name.n < 8) { /* one character */
        char c = name.p[0], upper = c >= 'a' && c <= 'z' ? (char)(c - 32) : c;
        snprintf(text, 8, "%.*s", STR_ARG(name));
        bool letter = upper >= 'A' && upper <= 'Z', digit = c >= '0' && c <= '9';
        snprintf(code, 12, letter ? "Key%c" : digit ? "Digit%c" : c == ' ' ? "Space" : "", upper);
        *ret = (struct key){ text, text, code, text, letter || digit || c == ' ' ? upper : 0, 0 };
        return 0;
    }
    if (name.n <= 3 && (name.p[0] == 'F' || name.p[0] == 'f') && sscanf(name.p + 1, "%2d", &number) == 1 &&
        number >= 1 && number <= 24) {
        snprintf(code, 12, "F%d", number);
        *ret = (struct key){ code, code, code, "", 111 + number, 0 };
        return 0;
    }
    for (size_t i = 0; i < sizeof known_keys / sizeof *known_keys; i++)
        if (strlen(known_keys[i].name) == name.n && strncasecmp(known_keys[i].name, name.p, name.n) == 0) {
            *ret = known_keys[i];
            return 0;
        }
    return err_set(e, ERR_INVALID, "key: '%.*s' is no key that is known here, such as Enter, Tab, ArrowDown, a",
                   (int)(name.n < 60 ? name.n : 60), name.p);
}

static int key_event(struct hand *h, struct browser *b, const struct key *k, bool down, struct err *e)
{
    struct pointer *at = browser_pointer(b);
    bool command = at->modifiers & (MOD_ALT | MOD_CONTROL | MOD_META);
    AUTO(buf_done) struct buf o = { .cap = 4096 };
    struct jw j = { .out = &o };

    if (down)
        at->modifiers |= k->modifier;
    else
        at->modifiers &= ~k->modifier;
    jw_obj(&j);
    jw_kz(&j, "type", !down ? "keyUp" : k->text[0] && !command ? "keyDown" : "rawKeyDown");
    jw_kz(&j, "key", k->key);
    jw_kz(&j, "code", k->code);
    jw_kint(&j, "windowsVirtualKeyCode", k->number);
    jw_kint(&j, "nativeVirtualKeyCode", k->number);
    jw_kint(&j, "modifiers", at->modifiers);
    if (down && k->text[0] && !command) {
        jw_kz(&j, "text", k->text);
        jw_kz(&j, "unmodifiedText", k->text);
    }
    for (size_t i = 0; i < sizeof edits / sizeof *edits; i++)
        if (down && at->modifiers & MOD_CONTROL && k->key[0] && !k->key[1] && (k->key[0] | 32) == edits[i].letter)
            jw_kraw(&j, "commands", str_of(arena_printf(h->arena, "[\"%s\"]", edits[i].command)));
    jw_obj_end(&j);
    return browser_page(h, b, "Input.dispatchKeyEvent", buf_view(&o), NULL, e);
}

int browser_key(struct hand *h, struct browser *b, struct str name, bool down, struct err *e)
{
    char text[8], code[12];
    struct key k;
    int n = key_find(name, &k, text, code, e);

    return n < 0 ? n : key_event(h, b, &k, down, e);
}

int browser_chord(struct hand *h, struct browser *b, const struct str *names, size_t count, struct err *e)
{
    char text[8], code[12];
    struct key k;
    struct err ignored;
    size_t down = 0;
    int n = 0;

    for (size_t i = 0; i < count; i++) { /* all of them, before any is pressed */
        n = key_find(names[i], &k, text, code, e);
        if (n < 0)
            return n;
    }
    for (; down < count && n >= 0; down++)
        n = browser_key(h, b, names[down], true, e);
    while (down-- > 0) {
        int up = browser_key(h, b, names[down], false, n < 0 ? &ignored : e);
        if (n >= 0)
            n = up;
    }
    return n;
}

int browser_press(struct hand *h, struct browser *b, struct str spelt, struct err *e)
{
    enum { KEYS_MAX = 8 };
    struct str names[KEYS_MAX];
    size_t n = 0;

    while (n < KEYS_MAX - 1) { /* a plus at the end, or alone, is the key itself */
        const char *plus = spelt.n > 1 ? memchr(spelt.p + 1, '+', spelt.n - 1) : NULL;
        if (!plus || plus == spelt.p + spelt.n - 1)
            break;
        names[n++] = (struct str){ spelt.p, (size_t)(plus - spelt.p) };
        spelt = (struct str){ plus + 1, (size_t)(spelt.p + spelt.n - plus - 1) };
    }
    names[n++] = spelt;
    return browser_chord(h, b, names, n, e);
}

/* The document that has the cursor, if it lives in another process than the page around it: text goes to it directly.
 */
static const struct frame *focused(struct hand *h, struct browser *b)
{
    struct frame *frames = arena_alloc(h->arena, FRAMES_MAX * sizeof *frames);
    size_t n = browser_frames(b, frames, FRAMES_MAX);
    const struct json *v = NULL;
    struct err ignored;

    for (size_t i = 1; i < n; i++)
        if (strcmp(frames[i].session, frames[0].session) != 0 &&
            browser_evaluate_in(h, b, &frames[i],
                                STR("document.hasFocus() && !/^I?FRAME$/.test((document.activeElement || {}).tagName)"),
                                &v, &ignored) == 0 &&
            json_get_bool(v, "value", false))
            return &frames[i];
    return NULL;
}

static int insert(struct hand *h, struct browser *b, struct str text, struct err *e)
{
    AUTO(buf_done) struct buf o = { .cap = 8 * MiB };
    struct jw j = { .out = &o };

    jw_obj(&j);
    jw_kstr(&j, "text", text);
    jw_obj_end(&j);
    return browser_call_in(h, b, focused(h, b), "Input.insertText", buf_view(&o), NULL, e);
}

static int type_one(struct hand *h, struct browser *b, struct str c, struct err *e)
{
    if (c.n == 1 && (c.p[0] == '\n' || c.p[0] == '\r' || c.p[0] == '\t'))
        c = c.p[0] == '\t' ? STR("Tab") : STR("Enter");
    else if (c.n > 1 || c.p[0] < ' ')
        return insert(h, b, c, e);
    return browser_chord(h, b, &c, 1, e);
}

int browser_type(struct hand *h, struct browser *b, struct str text, bool keys, double delay, struct err *e)
{
    int n = 0;

    if (!keys && delay <= 0)
        return text.n ? insert(h, b, text, e) : 0;
    for (size_t i = 0; i < text.n && n >= 0;) {
        struct str c = { text.p + i, (size_t)utf8_length(text.p + i, text.n - i) };
        n = type_one(h, b, c, e);
        i += c.n;
        if (n >= 0 && delay > 0 && i < text.n)
            n = browser_pause(h, b, now_ms() + (int64_t)(delay * 1000), e);
    }
    return n < 0 ? n : 0;
}

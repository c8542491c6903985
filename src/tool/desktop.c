/* The box's screen, as somebody who sits in front of it has it: it is looked at, clicked and typed on. The names,
 * parameters and results of the first fifteen tools are AgentFlow's vm:*, and they are there under both names: what
 * serves vm:* is the setting vm.engine, and meta.engine says it. */
#include "tool/desktop_internal.h"

#include "base/auto.h"
#include "base/limits.h"
#ifdef IN_BOX
#include "init/desktop.h"
#include "init/init.h"
#include "init/task.h"
#endif

#define P    struct desktop_params
#define SIDE .min = 0, .max = LIMIT_SCREEN_SIDE - 1
#define AT                                                                                                             \
    FIELD(INT, P, x, "pixels from the left", .required = true, SIDE),                                                  \
        FIELD(INT, P, y, "pixels from the top", .required = true, SIDE)
#define BUTTON FIELD(STR, P, button, "which", .def_str = "left", .choices = "left|right|middle")
#define KEY    FIELD(STR, P, key, "such as enter, tab, esc, f5, ctrl, a, left, pageup", .required = true, .max = 32)

static const struct field screenshot_fields[] = {
    FIELD(BOOL, P, accessibility, "with what programs tell of their windows; takes a while"),
    { 0 },
};
static const struct field tree_fields[] = {
    FIELD(INT, P, max, "parts of windows at most", .def = 1000, .min = 1, .max = 20000),
    { 0 },
};
static const struct field at_fields[] = { AT, { 0 } };
static const struct field click_fields[] = { AT, BUTTON, { 0 } };
static const struct field here_fields[] = {
    FIELD(INT, P, x, "pixels from the left; with neither, where the pointer is", .def = FIELD_ABSENT, SIDE),
    FIELD(INT, P, y, "pixels from the top", .def = FIELD_ABSENT, SIDE),
    { 0 },
};
static const struct field drag_fields[] = {
    FIELD(INT, P, start_x, "where to press", .required = true, SIDE),
    FIELD(INT, P, start_y, "where to press", .required = true, SIDE),
    FIELD(INT, P, end_x, "where to let go", .required = true, SIDE),
    FIELD(INT, P, end_y, "where to let go", .required = true, SIDE),
    BUTTON,
    FIELD(NUM, P, duration, "seconds on the way", .def_num = 0.2, .min = 0, .max = 60),
    { 0 },
};
static const struct field button_fields[] = { BUTTON, { 0 } };
static const struct field scroll_fields[] = { AT,
                                              FIELD(INT, P, clicks, "of the wheel; up is positive, down negative",
                                                    .required = true, .min = -1000, .max = 1000),
                                              FIELD(BOOL, P, horizontal, "right is positive, left negative"),
                                              { 0 } };
static const struct field type_fields[] = {
    FIELD(STR, P, text, "what to type, in any script; a line feed is the Enter key", .required = true,
          .max = LIMIT_TYPED),
    FIELD(NUM, P, interval, "seconds between keys", .def_num = 0, .min = 0, .max = 5),
    { 0 },
};
static const struct field key_fields[] = { KEY, { 0 } };
static const struct field hotkey_fields[] = {
    FIELD(STRS, P, keys, "pressed in this order, let go in reverse", .required = true, .max = 8),
    { 0 },
};
static const struct field wait_fields[] = {
    FIELD(NUM, P, seconds, "how long; with a title: at most", .def_num = 1, .min = 0, .max = 3600),
    FIELD(STR, P, title, "until a window is there whose title or program has this text", .max = 256),
    { 0 },
};
static const struct field clipboard_fields[] = {
    FIELD(STR, P, action, "what to do", .def_str = "get", .choices = "get|set"),
    FIELD(STR, P, text, "set: what programs are to get from it", .max = LIMIT_CLIPBOARD),
    { 0 },
};
static const struct field windows_fields[] = {
    FIELD(STR, P, action, "what to do", .def_str = "list", .choices = "list|focus|close"),
    FIELD(INT, P, window, "focus, close: its id", .def = FIELD_ABSENT, .min = 0, .max = 4294967295.0),
    FIELD(STR, P, title, "or: a part of its title or program", .max = 256),
    { 0 },
};
static const struct field launch_fields[] = {
    FIELD(STR, P, command, "a shell command; it goes on after the call", .required = true, .max = 64 * KiB),
    { 0 },
};
static const struct field screen_fields[] = {
    FIELD(INT, P, width, "set it; pixels", .def = FIELD_ABSENT, .min = 64, .max = LIMIT_SCREEN_SIDE),
    FIELD(INT, P, height, "set it; pixels", .def = FIELD_ABSENT, .min = 64, .max = LIMIT_SCREEN_SIDE),
    FIELD(STR, P, trees, "from now on answers have the accessibility tree, or have it no more", .choices = "on|off"),
    { 0 },
};

static const struct field no_fields[] = { { 0 } };
static const struct field act_fields[] = {
    FIELD(STR, P, action, "what to do", .required = true,
          .choices =
              "move_to|move_rel|click|mouse_down|mouse_up|right_click|double_click|drag_to|drag_rel|scroll|typing|"
              "press|key_down|key_up|hotkey|wait"),
    FIELD(INT, P, x, "move_to, drag_to, clicks: where; default of clicks: where the pointer is", .def = FIELD_ABSENT,
          SIDE),
    FIELD(INT, P, y, "its other coordinate", .def = FIELD_ABSENT, SIDE),
    FIELD(NUM, P, dx, "move_rel, drag_rel: by so much; scroll: pixels to the right, 100 to a click of the wheel",
          .min = -100000, .max = 100000),
    FIELD(NUM, P, dy, "the same, downwards", .min = -100000, .max = 100000),
    BUTTON,
    FIELD(INT, P, click_count, "click: how often", .def = 1, .min = 1, .max = 3),
    FIELD(STR, P, text, "typing: what", .max = LIMIT_TYPED),
    FIELD(BOOL, P, keystrokes, "typing: as keys; else pasted, by ctrl and v"),
    FIELD(STR, P, key, "press, key_down, key_up", .max = 32),
    FIELD(STRS, P, keys, "hotkey", .max = 8),
    FIELD(NUM, P, duration, "wait: seconds", .min = 0, .max = 600),
    { 0 },
};

#define R struct desktop_result
#define TREE                                                                                                           \
    FIELD(STR, R, accessibility_tree, "what programs tell of their windows, as XML", .nullable = true),                \
        FIELD(BOOL, R, restarted, "this is a new screen: the former one is gone, with its windows")
#define POINT(name, help) FIELD(JSON, R, name, help, .def_str = "[integer]", .nullable = true)

static const struct field screenshot_result[] = { FIELD(BYTES, R, image, "the picture", .blob = true),
                                                  FIELD(STR, R, mime_type, "of the picture"),
                                                  POINT(size, "width and height"),
                                                  FIELD(STR, R, session, "the session's name", .session = true,
                                                        .nullable = true),
                                                  TREE,
                                                  { 0 } };
static const struct field click_result[] = { POINT(clicked, "where"), FIELD(STR, R, button, "which"), TREE, { 0 } };
static const struct field position_result[] = { POINT(position, "where the pointer is now"), TREE, { 0 } };
static const struct field drag_result[] = { POINT(from, "where it began"), POINT(to, "where it ended"), TREE, { 0 } };
static const struct field button_result[] = { FIELD(STR, R, button, "which"), TREE, { 0 } };
static const struct field scroll_result[] = {
    POINT(position, "where"), FIELD(INT, R, clicks, "of the wheel"), TREE, { 0 }
};
static const struct field type_result[] = {
    FIELD(STR, R, typed, "what was typed", .always = true), FIELD(INT, R, length, "its characters"), TREE, { 0 }
};
static const struct field key_result[] = { FIELD(STR, R, key, "which"), TREE, { 0 } };
static const struct field hotkey_result[] = { FIELD(STRS, R, keys, "which", .always = true), TREE, { 0 } };
static const struct field wait_result[] = {
    FIELD(NUM, R, waited, "seconds"), FIELD(BOOL, R, found, "the window is there"), TREE, { 0 }
};
static const struct field clipboard_result[] = { FIELD(STR, R, text, "what is in it", .nullable = true),
                                                 FIELD(BOOL, R, restarted, "this is a new screen"),
                                                 { 0 } };
static const struct field window_fields[] = {
    FIELD(INT, struct desktop_window, id, "for focus and close"),
    FIELD(STR, struct desktop_window, title, "in its bar", .always = true),
    FIELD(STR, struct desktop_window, program, "its class", .always = true),
    FIELD(INT, struct desktop_window, pid, "0: it does not say"),
    FIELD(INT, struct desktop_window, x, "of its content"),
    FIELD(INT, struct desktop_window, y, "of its content"),
    FIELD(INT, struct desktop_window, width, "of its content"),
    FIELD(INT, struct desktop_window, height, "of its content"),
    FIELD(BOOL, struct desktop_window, active, "it has the keyboard"),
    { 0 },
};
static const struct field windows_result[] = {
    FIELD(ROWS, R, windows, "the oldest first", .rows = window_fields, .row_size = sizeof(struct desktop_window),
          .always = true),
    FIELD(BOOL, R, restarted, "this is a new screen"),
    { 0 },
};
static const struct field launch_result[] = { FIELD(INT, R, pid, "of the shell that runs it"), { 0 } };
static const struct field tree_result[] = { TREE, { 0 } };
static const struct field screen_result[] = { FIELD(INT, R, width, "pixels"),
                                              FIELD(INT, R, height, "pixels"),
                                              FIELD(BOOL, R, restarted, "this is a new screen"),
                                              { 0 } };

#ifdef IN_BOX

enum { TREE_MAX = 1000 };

static void begin(struct task *t, const void *params)
{
    struct err e = { 0 };
    struct driver_ask ask = { .kind = &desktop_kind, .name = STR("desktop"), .label = STR("desktop") };

    (void)params;
    if (desktop_up(t->init, 0, 0, &e) < 0)
        task_fail(t, outcome_of_err(&e), &e);
    else
        driver_submit(t, &ask);
}

/* It says or judges something: there need not be a screen. */
static void begin_judge(struct task *t, const void *params)
{
    struct driver_ask ask = { .kind = &desktop_kind, .name = STR("desktop"), .label = STR("desktop") };

    (void)params;
    driver_submit(t, &ask);
}

static void begin_launch(struct task *t, const void *params)
{
    const struct desktop_params *p = params;
    struct desktop_result r = { 0 };
    struct err e = { 0 };
    int n = desktop_up(t->init, 0, 0, &e);

    r.pid = n < 0 ? n : desktop_launch(t->init, arena_z(&t->arena, p->command), &e);
    if (r.pid < 0)
        task_fail(t, outcome_of_err(&e), &e);
    else
        task_finish(t, OUTCOME_OK, NULL, &r, 0, NULL);
}
#endif

enum { LOOKS = TOOL_READ_ONLY | TOOL_PROGRAM };

#define ROW(name_, title_, help_, flags_, params_, result_, run_)                                                      \
    {                                                                                                                  \
        .name = name_, .title = title_, .help = help_, .flags = TOOL_NEEDS_BOX | (flags_), .params = params_,          \
        .params_size = sizeof(struct desktop_params), .result = result_, .result_size = sizeof(struct desktop_result), \
        .begin = BOX_CODE(begin), .run_hand = BOX_CODE(run_)                                                           \
    }

/* AgentFlow's, under a name of theirs and under our own. */
#define VM_ROWS(at)                                                                                                    \
    ROW(at ":screenshot", "Look at the screen", "A picture of the whole screen, with the pointer.", LOOKS,             \
        screenshot_fields, screenshot_result, desktop_run_screenshot),                                                 \
        ROW(at ":click", "Click", "Clicks at a point of the screen.", 0, click_fields, click_result,                   \
            desktop_run_click),                                                                                        \
        ROW(at ":double_click", "Double click", "Clicks twice at a point of the screen.", 0, at_fields, click_result,  \
            desktop_run_double_click),                                                                                 \
        ROW(at ":right_click", "Right click", "Clicks the right button at a point, or where the pointer is.", 0,       \
            here_fields, click_result, desktop_run_right_click),                                                       \
        ROW(at ":move", "Move the pointer", "Moves the pointer to a point.", 0, at_fields, position_result,            \
            desktop_run_move),                                                                                         \
        ROW(at ":drag", "Drag", "Presses at one point, moves, and lets go at another.", 0, drag_fields, drag_result,   \
            desktop_run_drag),                                                                                         \
        ROW(at ":mouse_down", "Press a button", "Presses a button of the mouse and holds it.", 0, button_fields,       \
            button_result, desktop_run_mouse_down),                                                                    \
        ROW(at ":mouse_up", "Release a button", "Lets go of a button of the mouse.", 0, button_fields, button_result,  \
            desktop_run_mouse_up),                                                                                     \
        ROW(at ":scroll", "Scroll", "Turns the wheel at a point.", 0, scroll_fields, scroll_result,                    \
            desktop_run_scroll),                                                                                       \
        ROW(at ":type", "Type", "Types text where the keyboard's focus is.", 0, type_fields, type_result,              \
            desktop_run_type),                                                                                         \
        ROW(at ":key", "Press a key", "Presses a key and lets it go.", 0, key_fields, key_result, desktop_run_key),    \
        ROW(at ":key_down", "Hold a key", "Presses a key and holds it.", 0, key_fields, key_result,                    \
            desktop_run_key_down),                                                                                     \
        ROW(at ":key_up", "Release a key", "Lets go of a key.", 0, key_fields, key_result, desktop_run_key_up),        \
        ROW(at ":hotkey", "Press keys together", "Presses keys in order and lets them go in reverse: ctrl, c.", 0,     \
            hotkey_fields, hotkey_result, desktop_run_hotkey),                                                         \
        ROW(at ":wait", "Wait", "Waits so long, or until a window is there.", LOOKS, wait_fields, wait_result,         \
            desktop_run_wait)

static const struct tool desktop_tools[] = {
    VM_ROWS("desktop"),
    ROW("desktop:act", "Mouse and keyboard", "Moves and presses the mouse or keys, as AIO's browser actions name it.",
        0, act_fields, position_result, desktop_run_act),
    ROW("desktop:tree", "What is on the windows",
        "Roles, names and places of what programs show, where they offer it (AT-SPI).", LOOKS, tree_fields, tree_result,
        desktop_run_tree),
    ROW("desktop:clipboard", "Clipboard", "What programs have copied, or are to paste.", 0, clipboard_fields,
        clipboard_result, desktop_run_clipboard),
    ROW("desktop:windows", "Windows", "Lists windows, brings one to the front, or closes it.", 0, windows_fields,
        windows_result, desktop_run_windows),
    ROW("desktop:screen", "Size of the screen", "Tells the size of the screen, or sets it.", TOOL_IDEMPOTENT,
        screen_fields, screen_result, desktop_run_screen),
    { .name = "desktop:launch",
      .title = "Start a program",
      .help = "Starts a program on the screen. Look with desktop:wait or desktop:windows when its window is there.",
      .flags = TOOL_NEEDS_BOX,
      .params = launch_fields,
      .params_size = sizeof(struct desktop_params),
      .result = launch_result,
      .result_size = sizeof(struct desktop_result),
      .begin = BOX_CODE(begin_launch) },
    { .name = "desktop:record",
      .title = "Film the screen",
      .help = "Starts or stops a recording of the screen to a file of the box (H.264 in MP4).",
      .flags = TOOL_NEEDS_BOX,
      .params = desktop_in_record,
      .params_size = sizeof(struct desktop_record_params),
      .result = desktop_out_record,
      .result_size = sizeof(struct desktop_record_result),
      .begin = BOX_CODE(begin),
      .run_hand = BOX_CODE(desktop_run_record) },
    { .name = "desktop:handover",
      .title = "Ask a person",
      .help =
          "Asks a person who looks at the screen to do something there, and waits until it is done or the time is over.",
      .flags = TOOL_NEEDS_BOX | TOOL_PARALLEL,
      .params = desktop_in_handover,
      .params_size = sizeof(struct desktop_handover_params),
      .result = desktop_out_handover,
      .result_size = sizeof(struct desktop_handover_result),
      .begin = BOX_CODE(desktop_begin_handover) },
    { .name = "desktop:hand_back",
      .title = "It is done",
      .help = "What a person says on the page: those who wait go on.",
      .flags = TOOL_NEEDS_BOX | TOOL_PARALLEL | TOOL_HIDDEN | TOOL_PERSON,
      .params = desktop_in_hand_back,
      .params_size = sizeof(struct desktop_handover_params),
      .result = desktop_out_hand_back,
      .result_size = sizeof(struct desktop_handover_result),
      .begin = BOX_CODE(desktop_begin_hand_back) },
};

#define JUDGE_ROW(name_, title_, help_, flags_, params_, result_, run_)                                                \
    {                                                                                                                  \
        .name = name_, .title = title_, .help = help_, .flags = TOOL_NEEDS_BOX | (flags_), .params = params_,          \
        .params_size = sizeof(struct desktop_judge_params), .result = result_,                                         \
        .result_size = sizeof(struct desktop_judge_result), .begin = BOX_CODE(begin_judge), .run_hand = BOX_CODE(run_) \
    }

static const struct tool vm_tools[] = {
    VM_ROWS("vm"),
    { .name = "vm:pyautogui",
      .title = "Run pyautogui calls",
      .help = "Does what calls such as pyautogui.click(10, 20); pyautogui.write('text') say, with literal arguments.",
      .flags = TOOL_NEEDS_BOX | TOOL_STRICT,
      .params = desktop_in_pyautogui,
      .params_size = sizeof(struct desktop_script_params),
      .result = desktop_out_pyautogui,
      .result_size = sizeof(struct desktop_script_result),
      .begin = BOX_CODE(begin),
      .run_hand = BOX_CODE(desktop_run_pyautogui) },
    JUDGE_ROW("vm:done", "The task is done", "Says that the task is done.", 0, no_fields, desktop_out_done,
              desktop_run_done),
    JUDGE_ROW("vm:fail", "The task cannot be done",
              "Says that the task cannot be done; vm:evaluate takes it into account.", 0, desktop_in_fail,
              desktop_out_fail, desktop_run_fail),
    JUDGE_ROW("vm:evaluate", "Judge the result",
              "Compares what is in the box with what is expected, and gives a score from 0 to 1.", TOOL_STRICT,
              desktop_in_evaluate, desktop_out_evaluate, desktop_run_evaluate),
};

/* A session's config may have the size of its screen, [width, height], and ask for accessibility trees. */
static void *prepare(struct arena *a, const struct json *config, struct err *e)
{
    const struct json *size = json_get(config, "screen_size"), *tree = json_get(config, "accessibility_tree");
    struct desktop_params *p = arena_alloc(a, sizeof *p);
    const struct json *w = size ? size->first : NULL, *h = w ? w->next : NULL;

    *e = (struct err){ 0 };
    p->width = p->height = FIELD_ABSENT;
    if (tree && tree->type != JSON_BOOL) {
        err_set(e, ERR_TYPE, "accessibility_tree: must be true or false");
        return NULL;
    }
    if (tree)
        p->trees = tree->b ? STR("on") : STR("off");
    if (!size)
        return tree ? p : NULL;
    if (size->type != JSON_ARR || !w || !h || h->next || !w->is_int || !h->is_int || w->i < 64 || h->i < 64 ||
        w->i > LIMIT_SCREEN_SIDE || h->i > LIMIT_SCREEN_SIDE || w->i * h->i > LIMIT_SCREEN_PIXELS) {
        err_set(e, ERR_INVALID, "screen_size: must be [width, height], each from 64 to %d, together at most %ld pixels",
                LIMIT_SCREEN_SIDE, (long)LIMIT_SCREEN_PIXELS);
        return NULL;
    }
    p->width = w->i;
    p->height = h->i;
    return p;
}

const struct backend backend_desktop = {
    .name = "desktop",
    .help = "A screen, a mouse and a keyboard: what a person would have.",
    .kind = KIND_SESSION,
    .tools = desktop_tools,
    .tool_count = ARRAY_LEN(desktop_tools),
    .full_names = true,
    .prepare = prepare,
    .prepare_with = "desktop:screen",
};

const struct backend backend_vm = {
    .name = "vm",
    .help = "AgentFlow's computer. At present a desktop in a box; meta.engine says so.",
    .kind = KIND_SESSION,
    .tools = vm_tools,
    .tool_count = ARRAY_LEN(vm_tools),
    .engine = "desktop",
    .prepare = prepare,
    .prepare_with = "desktop:screen",
};

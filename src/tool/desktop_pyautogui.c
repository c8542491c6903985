/* vm:pyautogui: scripts of pyautogui's calls, done with the mouse and the keyboard of the box's screen. They are read
 * (pyscript.h), not given to a Python: what is no call of this table is an error that names it. */
#include "tool/desktop_internal.h"

#include "base/limits.h"

const struct field desktop_in_pyautogui[] = {
    FIELD(STRS, struct desktop_script_params, command, "such as pyautogui.click(10, 20); or a list of such",
          .max = 256),
    FIELD(STRS, struct desktop_script_params, commands, "a list of such", .max = 256),
    { 0 },
};
static const struct field one_result[] = {
    FIELD(STR, struct desktop_script_end, status, "success or error", .always = true),
    FIELD(STR, struct desktop_script_end, output, "of position(), size() and onScreen(): what they found",
          .always = true),
    FIELD(STR, struct desktop_script_end, error, "what went wrong", .always = true),
    FIELD(INT, struct desktop_script_end, returncode, "0, or 1"),
    { 0 },
};
const struct field desktop_out_pyautogui[] = {
    FIELD(STRS, struct desktop_script_result, commands, "as they were given", .always = true),
    FIELD(ROWS, struct desktop_script_result, results, "of each command", .rows = one_result,
          .row_size = sizeof(struct desktop_script_end), .always = true),
    FIELD(JSON, struct desktop_script_result, failed_indices, "which commands failed", .def_str = "[integer]"),
    FIELD(STR, struct desktop_script_result, accessibility_tree, "what programs tell of their windows, as XML",
          .nullable = true),
    FIELD(BOOL, struct desktop_script_result, restarted,
          "this is a new screen: the former one is gone, with its windows"),
    { 0 },
};

#ifdef IN_BOX

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/auto.h"
#include "base/loop.h"
#include "init/desktop.h"
#include "init/rfb.h"
#include "tool/pyscript.h"

enum { ARGS_MAX = 8, STEP_MS = 20, STEPS_MAX = 500, REPEAT_MAX = 1000 };

struct script {
    struct hand *h;
    struct desktop *d;
    struct buf out;
};

typedef const struct py_value *const args[ARGS_MAX]; /* by the names of the row; NULL: not given, or None */

/* --- what arguments mean --- */

static int number_of(const struct py_value *v, const char *name, double otherwise, double max, double *ret,
                     struct err *e)
{
    *ret = v ? v->num : otherwise;
    if (v && v->type != PY_NUM && v->type != PY_BOOL)
        return err_set(e, ERR_TYPE, "%s: must be a number", name);
    if (fabs(*ret) > max)
        return err_set(e, ERR_LIMIT, "%s: must be at most %g", name, max);
    return 0;
}

static int seconds_of(const struct py_value *v, const char *name, double *ret, struct err *e)
{
    int n = number_of(v, name, 0, 3600, ret, e);

    return n < 0 ? n : *ret < 0 ? err_set(e, ERR_INVALID, "%s: must not be negative", name) : 0;
}

static int count_of(const struct py_value *v, const char *name, int *ret, struct err *e)
{
    double d;
    int n = number_of(v, name, 1, REPEAT_MAX, &d, e);

    *ret = n < 0 || d < 0 ? 0 : (int)d;
    return n;
}

static int button_of(const struct py_value *v, unsigned *ret, struct err *e)
{
    if (!v || (v->type == PY_NUM && v->num == 1))
        *ret = RFB_LEFT;
    else if (v->type == PY_NUM && (v->num == 2 || v->num == 3))
        *ret = v->num == 2 ? RFB_MIDDLE : RFB_RIGHT;
    else if (v->type == PY_STR && (str_is(v->s, "left") || str_is(v->s, "primary") || str_is(v->s, "middle") ||
                                   str_is(v->s, "right") || str_is(v->s, "secondary")))
        *ret = desktop_button(str_is(v->s, "secondary") ? STR("right") : v->s);
    else
        return err_set(e, ERR_INVALID, "button: must be 'left', 'middle' or 'right'");
    return 0;
}

/* Two numbers, or a pair in place of the first; what is not given is where the pointer is, or no way from there. */
static int place_of(struct script *s, const struct py_value *x, const struct py_value *y, bool relative, int64_t at[2],
                    struct err *e)
{
    double v[2];
    int width, height, n = desktop_where(s->d, e);

    if (n >= 0 && x && x->type == PY_LIST) {
        if (x->n != 2 || y)
            return err_set(e, ERR_INVALID, "x: a pair has two numbers, and stands for x and y");
        y = &x->items[1];
        x = &x->items[0];
    }
    if (n >= 0)
        n = number_of(x, "x", relative ? 0 : s->d->x, 1e6, &v[0], e);
    if (n >= 0)
        n = number_of(y, "y", relative ? 0 : s->d->y, 1e6, &v[1], e);
    if (n < 0)
        return n;
    rfb_size(s->d->rfb, &width, &height);
    at[0] = (int64_t)v[0] + (relative ? s->d->x : 0);
    at[1] = (int64_t)v[1] + (relative ? s->d->y : 0);
    if (relative) { /* a pointer does not leave the screen */
        at[0] = at[0] < 0 ? 0 : at[0] < width ? at[0] : width - 1;
        at[1] = at[1] < 0 ? 0 : at[1] < height ? at[1] : height - 1;
    }
    if (at[0] < 0 || at[1] < 0)
        return err_set(e, ERR_INVALID, "%s: must not be negative", at[0] < 0 ? "x" : "y");
    return desktop_inside(s->d, "x", at[0], "y", at[1], e);
}

/* --- what is done --- */

static int pause_s(struct script *s, double seconds, struct err *e)
{
    return seconds > 0 ? rfb_pause(s->h, s->d->rfb, now_ms() + (int64_t)(seconds * 1000), e) : 0;
}

/* The pointer goes there, in so many seconds; it is where desktop_where() saw it. */
static int travel(struct script *s, const int64_t to[2], double seconds, struct err *e)
{
    int64_t from[2] = { s->d->x, s->d->y }, began = now_ms(), steps = (int64_t)(seconds * 1000 / STEP_MS);
    int n = 0;

    steps = steps < 1 ? 1 : steps < STEPS_MAX ? steps : STEPS_MAX;
    for (int64_t i = 1; n >= 0 && i <= steps; i++) {
        if (seconds > 0)
            n = rfb_pause(s->h, s->d->rfb, began + (int64_t)(seconds * 1000) * i / steps, e);
        if (n >= 0)
            n = desktop_point(s->h, s->d, from[0] + (to[0] - from[0]) * i / steps,
                              from[1] + (to[1] - from[1]) * i / steps, e);
    }
    return n;
}

static int clicks(struct script *s, args v, unsigned button, int times, const struct py_value *interval, struct err *e)
{
    int64_t at[2];
    double between, duration;
    int n = place_of(s, v[0], v[1], false, at, e);

    if (n >= 0)
        n = seconds_of(interval, "interval", &between, e);
    if (n >= 0)
        n = seconds_of(v[5], "duration", &duration, e);
    if (n >= 0)
        n = travel(s, at, duration, e);
    for (int i = 0; n >= 0 && i < times; i++) {
        if (i)
            n = pause_s(s, between, e);
        if (n >= 0)
            n = desktop_click(s->h, s->d, button, 1, e);
    }
    return n;
}

static int do_click(struct script *s, args v, struct err *e)
{
    unsigned button;
    int times, n = button_of(v[4], &button, e);

    if (n >= 0)
        n = count_of(v[2], "clicks", &times, e);
    return n < 0 ? n : clicks(s, v, button, times, v[3], e);
}

static int several(struct script *s, args v, int times, struct err *e)
{
    unsigned button;
    int n = button_of(v[4], &button, e);

    return n < 0 ? n : clicks(s, v, button, times, v[3], e);
}

static int do_double(struct script *s, args v, struct err *e)
{
    return several(s, v, 2, e);
}

static int do_triple(struct script *s, args v, struct err *e)
{
    return several(s, v, 3, e);
}

static int do_left(struct script *s, args v, struct err *e)
{
    return clicks(s, v, RFB_LEFT, 1, v[3], e);
}

static int do_right(struct script *s, args v, struct err *e)
{
    return clicks(s, v, RFB_RIGHT, 1, v[3], e);
}

static int do_middle(struct script *s, args v, struct err *e)
{
    return clicks(s, v, RFB_MIDDLE, 1, v[3], e);
}

static int go(struct script *s, args v, bool relative, struct err *e)
{
    int64_t at[2];
    double duration;
    int n = place_of(s, v[0], v[1], relative, at, e);

    if (n >= 0)
        n = seconds_of(v[2], "duration", &duration, e);
    return n < 0 ? n : travel(s, at, duration, e);
}

static int do_move(struct script *s, args v, struct err *e)
{
    return go(s, v, false, e);
}

static int do_move_rel(struct script *s, args v, struct err *e)
{
    return go(s, v, true, e);
}

static int drag(struct script *s, args v, bool relative, struct err *e)
{
    int64_t at[2];
    unsigned button;
    double duration;
    int n = place_of(s, v[0], v[1], relative, at, e);

    if (n >= 0)
        n = button_of(v[4], &button, e);
    if (n >= 0)
        n = seconds_of(v[2], "duration", &duration, e);
    if (n < 0)
        return n;
    /* programs drag what they see moving */
    return desktop_drag(
        s->h, s->d,
        &(struct desktop_way){ { s->d->x, s->d->y }, { at[0], at[1] }, button, duration > 0 ? duration : 0.2 }, e);
}

static int do_drag(struct script *s, args v, struct err *e)
{
    return drag(s, v, false, e);
}

static int do_drag_rel(struct script *s, args v, struct err *e)
{
    return drag(s, v, true, e);
}

static int hold(struct script *s, args v, bool down, struct err *e)
{
    int64_t at[2];
    unsigned button;
    int n = place_of(s, v[0], v[1], false, at, e);

    if (n >= 0)
        n = button_of(v[2], &button, e);
    if (n >= 0)
        n = travel(s, at, 0, e);
    return n < 0 ? n : desktop_press(s->h, s->d, button, down, e);
}

static int do_mouse_down(struct script *s, args v, struct err *e)
{
    return hold(s, v, true, e);
}

static int do_mouse_up(struct script *s, args v, struct err *e)
{
    return hold(s, v, false, e);
}

static int wheel(struct script *s, args v, unsigned more, unsigned less, struct err *e)
{
    int64_t at[2];
    double by;
    int n = place_of(s, v[1], v[2], false, at, e);

    if (n >= 0)
        n = number_of(v[0], "clicks", 0, REPEAT_MAX, &by, e);
    if (n >= 0)
        n = travel(s, at, 0, e);
    return n < 0 ? n : desktop_click(s->h, s->d, by > 0 ? more : less, (int)fabs(by), e);
}

static int do_scroll(struct script *s, args v, struct err *e)
{
    return wheel(s, v, RFB_UP, RFB_DOWN, e);
}

static int do_hscroll(struct script *s, args v, struct err *e)
{
    return wheel(s, v, RFB_WHEEL_RIGHT, RFB_WHEEL_LEFT, e);
}

/* A key's name, or the i-th of a list of such. */
static int key_of(const struct py_value *v, size_t i, const char *name, uint32_t *ret, struct err *e)
{
    const struct py_value *k = v && v->type == PY_LIST ? &v->items[i] : v;

    if (!k || k->type != PY_STR)
        return err_set(e, ERR_TYPE, "%s: must be the name of a key, or a list of such", name);
    return desktop_sym(k->s, name, ret, e);
}

static int do_press(struct script *s, args v, struct err *e)
{
    size_t count = v[0] && v[0]->type == PY_LIST ? v[0]->n : 1;
    double between;
    uint32_t sym;
    int times, n = count_of(v[1], "presses", &times, e);

    if (n >= 0)
        n = seconds_of(v[2], "interval", &between, e);
    for (int t = 0; n >= 0 && t < times; t++)
        for (size_t i = 0; n >= 0 && i < count; i++) {
            n = key_of(v[0], i, "keys", &sym, e);
            if (n >= 0)
                n = desktop_tap(s->h, s->d, sym, e);
            if (n >= 0)
                n = pause_s(s, between, e);
        }
    return n;
}

static int one_key(struct script *s, args v, bool down, struct err *e)
{
    uint32_t sym;
    int n = v[0] && v[0]->type == PY_LIST ? err_set(e, ERR_TYPE, "key: must be the name of a key")
                                          : key_of(v[0], 0, "key", &sym, e);

    return n < 0 ? n : desktop_key(s->h, s->d, sym, down, e);
}

static int do_key_down(struct script *s, args v, struct err *e)
{
    return one_key(s, v, true, e);
}

static int do_key_up(struct script *s, args v, struct err *e)
{
    return one_key(s, v, false, e);
}

static int do_hotkey(struct script *s, args v, struct err *e)
{
    uint32_t syms[ARGS_MAX];
    size_t count = 0, down = 0;
    int n = 0;

    for (; n >= 0 && count < ARGS_MAX && v[count]; count++)
        n = key_of(v[count], 0, "keys", &syms[count], e);
    if (n >= 0 && !count)
        n = err_set(e, ERR_MISSING, "keys: at least one");
    for (; n >= 0 && down < count; down++)
        n = desktop_key(s->h, s->d, syms[down], true, e);
    while (n >= 0 && down > 0)
        n = desktop_key(s->h, s->d, syms[--down], false, e);
    return n;
}

static int do_write(struct script *s, args v, struct err *e)
{
    struct desktop_params p = { 0 };
    struct desktop_result r = { 0 };
    int n = seconds_of(v[1], "interval", &p.interval, e);

    if (n >= 0 && v[0] && v[0]->type == PY_LIST) { /* names of keys */
        const struct py_value *const keys[ARGS_MAX] = { v[0], NULL, v[1] };
        return do_press(s, keys, e);
    }
    if (n >= 0 && (!v[0] || v[0]->type != PY_STR))
        return err_set(e, ERR_TYPE, "message: must be a text, or a list of keys");
    if (n < 0)
        return n;
    p.text = v[0]->s;
    return desktop_type(s->h, s->d, &p, &r, e);
}

static int do_sleep(struct script *s, args v, struct err *e)
{
    double seconds;
    int n = seconds_of(v[0], "seconds", &seconds, e);

    return n < 0 ? n : pause_s(s, seconds, e);
}

static int do_position(struct script *s, args v, struct err *e)
{
    (void)v;
    int n = desktop_where(s->d, e);
    if (n >= 0)
        buf_printf(&s->out, "Point(x=%d, y=%d)\n", s->d->x, s->d->y);
    return n;
}

static int do_size(struct script *s, args v, struct err *e)
{
    int width, height;

    (void)v;
    (void)e;
    rfb_size(s->d->rfb, &width, &height);
    buf_printf(&s->out, "Size(width=%d, height=%d)\n", width, height);
    return 0;
}

static int do_on_screen(struct script *s, args v, struct err *e)
{
    int64_t at[2];

    buf_z(&s->out, place_of(s, v[0], v[1], false, at, e) < 0 ? "False\n" : "True\n");
    return 0;
}

/* --- the table --- */

#define MODULE "pyautogui."
static const struct function {
    const char *name;
    const char *params[ARGS_MAX]; /* in pyautogui's order; "": it has another meaning there, and is passed over */
    int (*run)(struct script *s, args v, struct err *e);
    unsigned char at[ARGS_MAX]; /* where run() looks for it, if not at its own place: one more than that */
    bool any;                   /* as many as there are */
} functions[] = {
    { MODULE "click", { "x", "y", "clicks", "interval", "button", "duration" }, do_click },
    { MODULE "leftClick", { "x", "y", "interval", "duration" }, do_left, { 1, 2, 4, 6 } },
    { MODULE "rightClick", { "x", "y", "interval", "duration" }, do_right, { 1, 2, 4, 6 } },
    { MODULE "middleClick", { "x", "y", "interval", "duration" }, do_middle, { 1, 2, 4, 6 } },
    { MODULE "doubleClick", { "x", "y", "interval", "button", "duration" }, do_double, { 1, 2, 4, 5, 6 } },
    { MODULE "tripleClick", { "x", "y", "interval", "button", "duration" }, do_triple, { 1, 2, 4, 5, 6 } },
    { MODULE "moveTo", { "x", "y", "duration" }, do_move },
    { MODULE "move", { "xOffset", "yOffset", "duration" }, do_move_rel },
    { MODULE "moveRel", { "xOffset", "yOffset", "duration" }, do_move_rel },
    { MODULE "dragTo", { "x", "y", "duration", "tween", "button" }, do_drag },
    { MODULE "drag", { "xOffset", "yOffset", "duration", "tween", "button" }, do_drag_rel },
    { MODULE "dragRel", { "xOffset", "yOffset", "duration", "tween", "button" }, do_drag_rel },
    { MODULE "mouseDown", { "x", "y", "button" }, do_mouse_down },
    { MODULE "mouseUp", { "x", "y", "button" }, do_mouse_up },
    { MODULE "scroll", { "clicks", "x", "y" }, do_scroll },
    { MODULE "vscroll", { "clicks", "x", "y" }, do_scroll },
    { MODULE "hscroll", { "clicks", "x", "y" }, do_hscroll },
    { MODULE "press", { "keys", "presses", "interval" }, do_press },
    { MODULE "keyDown", { "key" }, do_key_down },
    { MODULE "keyUp", { "key" }, do_key_up },
    { MODULE "hotkey", { 0 }, do_hotkey, .any = true },
    { MODULE "write", { "message", "interval" }, do_write },
    { MODULE "typewrite", { "message", "interval" }, do_write },
    { MODULE "sleep", { "seconds" }, do_sleep },
    { "time.sleep", { "seconds" }, do_sleep },
    { MODULE "position", { 0 }, do_position },
    { MODULE "size", { 0 }, do_size },
    { MODULE "onScreen", { "x", "y" }, do_on_screen },
};

/* They say how a way looks, or when pyautogui would rest: the effect is the same. */
static bool passed_over(struct str name)
{
    return str_is(name, "tween") || str_is(name, "logScreenshot") || str_is(name, "_pause") ||
           str_is(name, "mouseDownUp");
}

static int bind(const struct function *f, const struct py_call *c, const struct py_value *v[ARGS_MAX], struct err *e)
{
    for (size_t i = 0; i < c->n; i++) {
        const struct py_arg *a = &c->args[i];
        size_t k = 0;
        if (!a->name.p)
            k = i;
        else
            while (k < ARGS_MAX && !(f->params[k] && str_is(a->name, f->params[k])))
                k++;
        if (a->name.p && k == ARGS_MAX) {
            if (passed_over(a->name) || (f->any && str_is(a->name, "interval")))
                continue;
            return err_set(e, ERR_INVALID, "%s() has no argument '%.*s'", f->name,
                           (int)(a->name.n < 64 ? a->name.n : 64), a->name.p);
        }
        if (k >= ARGS_MAX || (!f->any && !f->params[k]))
            return err_set(e, ERR_INVALID, "%s() does not take so many arguments (%zu)", f->name, c->n);
        k = f->at[k] ? f->at[k] - 1U : k;
        if (v[k])
            return err_set(e, ERR_INVALID, "%s(): '%.*s' is given twice", f->name, STR_ARG(a->name));
        v[k] = a->value.type == PY_NONE ? NULL : &a->value;
    }
    return 0;
}

static int one_call(struct script *s, const struct py_call *c, struct err *e)
{
    const struct py_value *v[ARGS_MAX] = { 0 };
    const struct function *f = NULL;

    for (size_t i = 0; !f && i < ARRAY_LEN(functions); i++)
        if (str_is(c->name, functions[i].name))
            f = &functions[i];
    if (!f)
        return err_set(e, ERR_INVALID, "there is no %.*s() here; docs/desktop.md lists what there is",
                       (int)(c->name.n < 64 ? c->name.n : 64), c->name.p);
    int n = bind(f, c, v, e);
    return n < 0 ? n : f->run(s, v, e);
}

/* 0: it has ended, well or not; < 0: the screen is gone, or the time over. */
static int one_command(struct script *s, struct str text, struct desktop_script_end *end, struct err *e)
{
    struct py_call *calls;
    size_t count = 0;
    int n = py_parse(s->h->arena, text, &calls, &count, e);

    buf_init(&s->out, 64 * KiB);
    for (size_t i = 0; n >= 0 && i < count; i++)
        n = one_call(s, &calls[i], e);
    if (n >= 0)
        n = rfb_sync(s->h, s->d->rfb, e);
    *end = (struct desktop_script_end){ .status = n < 0 ? STR("error") : STR("success"),
                                        .output = arena_copy(s->h->arena, buf_view(&s->out)),
                                        .error = n < 0 ? str_of(arena_printf(s->h->arena, "%s", e->msg)) : STR(""),
                                        .returncode = n < 0 };
    buf_done(&s->out);
    return n == -ETIMEDOUT || n == -ECANCELED || n == -EPIPE ? n : 0;
}

static int check(struct str command, size_t i, struct err *e)
{
    if (command.n < sizeof MODULE - 1 || memcmp(command.p, MODULE, sizeof MODULE - 1) != 0)
        return err_set(e, ERR_INVALID, "commands[%zu]: must start with '" MODULE "'", i);
    return command.n > LIMIT_TYPED
               ? err_set(e, ERR_LIMIT, "commands[%zu]: more than LIMIT_TYPED (%ld bytes)", i, (long)LIMIT_TYPED)
               : 0;
}

int desktop_run_pyautogui(struct hand *h, const void *params, void *result, struct err *e)
{
    const struct desktop_script_params *p = params;
    struct desktop_script_result *r = result;
    struct script s = { .h = h };
    size_t total = p->command.n + p->commands.n, failed = 0;
    struct desktop_script_end *ends = arena_alloc(h->arena, (total + 1) * sizeof *ends);
    struct desktop_result screen = { 0 };
    struct buf list;
    int n = total ? 0 : err_set(e, ERR_INVALID, "command: required");

    r->commands = (struct strs){ arena_alloc(h->arena, (total + 1) * sizeof *r->commands.v), total };
    for (size_t i = 0; n >= 0 && i < total; i++) { /* all of them, before the first has an effect */
        r->commands.v[i] = i < p->command.n ? p->command.v[i] : p->commands.v[i - p->command.n];
        n = check(r->commands.v[i], i, e);
    }
    if (n < 0)
        return n;
    s.d = desktop_get(h, e);
    if (!s.d)
        return -EIO;
    buf_init(&list, 64 * KiB);
    for (size_t i = 0; n >= 0 && i < total; i++) {
        n = one_command(&s, r->commands.v[i], &ends[i], e);
        if (n >= 0)
            r->results = (struct rows){ ends, i + 1 };
        if (n >= 0 && ends[i].returncode)
            buf_printf(&list, "%s%zu", failed++ ? "," : "[", i);
    }
    n = desktop_verdict(h, s.d, n, &screen, e);
    r->accessibility_tree = screen.accessibility_tree;
    r->restarted = screen.restarted;
    if (failed) {
        buf_char(&list, ']');
        r->failed_indices = arena_copy(h->arena, buf_view(&list));
    }
    if (n >= 0 && failed && h->outcome == OUTCOME_OK) {
        size_t first = strtoul(r->failed_indices.p + 1, NULL, 10);
        h->outcome = OUTCOME_TASK_ERROR;
        h->message = str_of(arena_printf(h->arena, "%zu of %zu commands failed; commands[%zu]: %.*s", failed, total,
                                         first, STR_ARG(ends[first].error)));
    }
    buf_done(&list);
    return n;
}
#endif

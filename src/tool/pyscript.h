/* A script of calls as agents write them for pyautogui: pyautogui.click(10, 20, button='right'); time.sleep(1). It is
 * Python to the eye, but it is read here and not run by Python: names, calls and literals, nothing that computes more than
 * 1920 / 2. */
#pragma once

#include "base/arena.h"
#include "base/err.h"

enum py_type { PY_NONE, PY_BOOL, PY_NUM, PY_STR, PY_LIST, PY_NAME };

struct py_value {
    enum py_type type;
    double num;   /* PY_NUM, and PY_BOOL: 0 or 1 */
    struct str s; /* PY_STR, PY_NAME: "pyautogui.easeInQuad" */
    struct py_value *items;
    size_t n; /* PY_LIST, a tuple too */
};
struct py_arg {
    struct str name; /* absent: by its place */
    struct py_value value;
};
struct py_call {
    struct str name; /* "pyautogui.click" */
    struct py_arg *args;
    size_t n;
};

enum { PY_CALLS_MAX = 256, PY_ITEMS_MAX = 256, PY_DEPTH_MAX = 8 };

/* Everything lives in the arena or in the text. ERR_INVALID names the place. */
int py_parse(struct arena *a, struct str text, struct py_call **ret, size_t *ret_n, struct err *e);

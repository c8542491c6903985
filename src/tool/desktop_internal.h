/* The desktop backend's own header. Each of its files is about one noun: desktop.c (the rows), look, pointer, keys, window, act,
 * pyautogui, evaluate, record, handover. */
#pragma once

#include "tool/tool.h"

struct task;

struct desktop_params { /* of all of them; a tool's table says which it takes */
    int64_t x, y, start_x, start_y, end_x, end_y, clicks, window, width, height, click_count, max;
    double interval, seconds, duration, dx, dy;
    struct str button, text, key, action, command, title;
    struct strs keys;
    bool horizontal, keystrokes, accessibility;
    struct str trees;
};
struct desktop_result {
    struct str session, image, mime_type, size, clicked, button, position, from, to, typed, key, text,
        accessibility_tree;
    struct strs keys;
    struct rows windows;
    int64_t clicks, length, pid, width, height;
    double waited;
    bool restarted, found;
};
struct desktop_window {
    int64_t id, pid, x, y, width, height;
    struct str title, program;
    bool active;
};

/* A tool NAME has its code in desktop_run_NAME(). */
typedef int desktop_run(struct hand *h, const void *params, void *result, struct err *e);
desktop_run desktop_run_screenshot, desktop_run_tree, desktop_run_click, desktop_run_double_click,
    desktop_run_right_click, desktop_run_move, desktop_run_drag, desktop_run_mouse_down, desktop_run_mouse_up,
    desktop_run_scroll, desktop_run_type, desktop_run_key, desktop_run_key_down, desktop_run_key_up, desktop_run_hotkey,
    desktop_run_wait, desktop_run_clipboard, desktop_run_windows, desktop_run_screen, desktop_run_act;

/* --- in the driver, for each other --- */

struct desktop;
/* How it ended; with what programs tell of their windows, if that is wanted with every answer. */
int desktop_verdict(struct hand *h, struct desktop *d, int n, struct desktop_result *r, struct err *e);
int desktop_verdict_bare(struct hand *h, struct desktop *d, int n, struct desktop_result *r,
                         struct err *e); /* without */
struct str desktop_pair(struct hand *h, int64_t x, int64_t y);
int desktop_inside(struct desktop *d, const char *x_name, int64_t x, const char *y_name, int64_t y, struct err *e);
unsigned desktop_button(struct str name);
int desktop_point(struct hand *h, struct desktop *d, int64_t x, int64_t y, struct err *e);
int desktop_press(struct hand *h, struct desktop *d, unsigned button, bool down, struct err *e);
int desktop_click(struct hand *h, struct desktop *d, unsigned button, int times, struct err *e);
struct desktop_way {
    int64_t from[2], to[2];
    unsigned button;
    double seconds;
};
int desktop_drag(struct hand *h, struct desktop *d, const struct desktop_way *way, struct err *e);
int desktop_where(struct desktop *d, struct err *e); /* the pointer is: somebody else may have moved it */
int desktop_tap(struct hand *h, struct desktop *d, uint32_t sym, struct err *e);
int desktop_type(struct hand *h, struct desktop *d, const struct desktop_params *p, struct desktop_result *r,
                 struct err *e);
int desktop_sym(struct str key, const char *name, uint32_t *ret, struct err *e);
int desktop_one_key(struct hand *h, const struct desktop_params *p, struct desktop_result *r, bool down, bool up,
                    struct err *e);

struct desktop_script_params {
    struct strs command, commands;
};
struct desktop_script_end {
    struct str status, output, error;
    int64_t returncode;
};
struct desktop_script_result {
    struct strs commands;
    struct rows results;
    struct str failed_indices, accessibility_tree;
    bool restarted;
};
extern const struct field desktop_in_pyautogui[], desktop_out_pyautogui[];

struct desktop_judge_params {
    struct str evaluator, reason;
};
struct desktop_judge_result {
    double score;
    struct str results, details, evaluator, reason;
    bool last_action_failed, done, fail;
};
extern const struct field desktop_in_evaluate[], desktop_out_evaluate[], desktop_in_fail[], desktop_out_fail[],
    desktop_out_done[];
desktop_run desktop_run_pyautogui, desktop_run_evaluate, desktop_run_fail, desktop_run_done;

struct desktop_record_params {
    struct str action, save_path;
    int64_t fps, crf, width, height;
    double max_duration;
};
struct desktop_record_result {
    struct str status, save_path;
    double duration;
    int64_t file_size_bytes;
};
extern const struct field desktop_in_record[], desktop_out_record[];
int desktop_run_record(struct hand *h, const void *params, void *result, struct err *e);

struct desktop_handover_params {
    struct str message, note;
    double timeout;
};
struct desktop_handover_result {
    bool done;
    struct str note;
    double waited;
    int64_t told;
};
extern const struct field desktop_in_handover[], desktop_out_handover[], desktop_in_hand_back[],
    desktop_out_hand_back[];
void desktop_begin_handover(struct task *t, const void *params);
void desktop_begin_hand_back(struct task *t, const void *params);

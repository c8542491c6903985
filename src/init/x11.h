/* As much of the X11 protocol as it takes to know the windows of the box's screen and to bring one to the front. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"

enum { X_WINDOWS_MAX = 256 };

struct x_window {
    uint32_t id;
    struct str title, program; /* program: WM_CLASS's second word */
    int64_t pid;               /* 0: it does not say */
    int64_t x, y, width, height;
    bool active;
};

struct x11;
struct x11 *x11_open(const char *path, struct err *e); /* NULL: e */
void x11_close(struct x11 *x);                         /* accepts NULL */
int x11_windows(struct x11 *x, struct arena *a, struct x_window *v, size_t *ret_n,
                struct err *e); /* the oldest first */
int x11_focus(struct x11 *x, uint32_t window, struct err *e);
int x11_end(struct x11 *x, uint32_t window, struct err *e); /* asks it to close */
/* Keys of the keyboard that make no character: they can be lent to one. And: what a key makes from now on. */
int x11_spare_keys(struct x11 *x, uint8_t *codes, size_t max, size_t *ret_n, struct err *e);
int x11_bind(struct x11 *x, uint8_t code, uint32_t keysym, struct err *e);
void x11_screen(struct x11 *x, int64_t *ret_width, int64_t *ret_height); /* its size; unchanged if it does not tell */
bool x11_managed(struct x11 *x);                                         /* a window manager is at work */
int x11_pointer(struct x11 *x, int *ret_x, int *ret_y, struct err *e);

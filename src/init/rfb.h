/* A client of the box's screen: RFB (RFC 6143) over a unix socket, with the extensions of it that carry UTF-8 clipboards
 * and new screen sizes. Held by a driver (driver.h); the server behind it is a program of the box. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

struct hand;
struct rfb;

enum {
    RFB_LEFT = 1,
    RFB_MIDDLE = 2,
    RFB_RIGHT = 4,
    RFB_UP = 8,
    RFB_DOWN = 16,
    RFB_WHEEL_LEFT = 32,
    RFB_WHEEL_RIGHT = 64
};

/* Waits until something listens there. NULL: not before the hand's deadline; e. */
struct rfb *rfb_open(struct hand *h, const char *path, struct err *e);
void rfb_close(struct rfb *r); /* accepts NULL */
int rfb_fd(const struct rfb *r);
bool rfb_alive(struct rfb *r);
void rfb_take(struct rfb *r); /* what came between calls: somebody may ask for the clipboard */
void rfb_size(const struct rfb *r, int *ret_width, int *ret_height);

/* These return -ETIMEDOUT at the hand's deadline, -ECANCELED if init wants no more, -EPIPE if the screen is gone. */
int rfb_pointer(struct hand *h, struct rfb *r, unsigned buttons, int x, int y, struct err *e);
int rfb_key(struct hand *h, struct rfb *r, uint32_t keysym, bool down, struct err *e);
int rfb_sync(struct hand *h, struct rfb *r, struct err *e); /* what was sent before has been done */
int rfb_frame(struct hand *h, struct rfb *r, const uint8_t **ret_rgbx,
              struct err *e); /* borrowed until the next call */
int rfb_resize(struct hand *h, struct rfb *r, int width, int height, struct err *e);
int rfb_paste(struct hand *h, struct rfb *r, struct str text, struct err *e);
int rfb_copied(struct hand *h, struct rfb *r, struct str *ret,
               struct err *e); /* in the hand's arena; absent: nothing */
int rfb_pause(struct hand *h, struct rfb *r, int64_t until_ms, struct err *e);

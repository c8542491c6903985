#include "surface/rfb_filter.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { GREETING = 12 + 1 + 1 /* version, kind of security, shared */, MESSAGE_MAX = 1 << 20 };

enum {
    SET_PIXELS = 0,
    SET_ENCODINGS = 2,
    ASK_FRAME = 3,
    KEY = 4,
    POINTER = 5,
    CUT_TEXT = 6,
    CONTINUOUS = 150,
    FENCE = 248,
    SET_SIZE = 251,
    QEMU = 255,
};

/* How many bytes tell the size of a message that begins with this one; 0: there is none such. */
static size_t head_size(uint8_t type)
{
    switch (type) {
    case SET_ENCODINGS: return 4;
    case CUT_TEXT:
    case SET_SIZE: return 8;
    case FENCE: return 9;
    case SET_PIXELS:
    case ASK_FRAME:
    case KEY:
    case POINTER:
    case CONTINUOUS:
    case QEMU: return 1;
    default: return 0;
    }
}

/* The whole message's size, from its head. */
static size_t whole_size(const uint8_t *h, bool *ret_drop)
{
    int32_t n = (int32_t)((uint32_t)h[4] << 24 | (uint32_t)h[5] << 16 | (uint32_t)h[6] << 8 | h[7]);

    *ret_drop = true;
    switch (h[0]) {
    case SET_PIXELS: *ret_drop = false; return 20;
    case SET_ENCODINGS: *ret_drop = false; return 4 + 4 * (size_t)(h[2] << 8 | h[3]);
    case ASK_FRAME:
    case CONTINUOUS: *ret_drop = false; return 10;
    case FENCE: *ret_drop = false; return 9 + (size_t)h[8];
    case KEY: return 8;
    case POINTER: return 6;
    case QEMU: return 12;
    case CUT_TEXT: return 8 + (size_t)llabs((long long)n); /* negative: the extended clipboard */
    case SET_SIZE: return 8 + 16 * (size_t)h[6];
    default: return 0;
    }
}

bool rfb_filter_feed(struct rfb_filter *f, struct str data, struct buf *out)
{
    if (f->seen < GREETING && data.n) {
        size_t n = GREETING - f->seen < data.n ? GREETING - f->seen : data.n;
        buf_add(out, data.p, n);
        f->seen += n;
        data = (struct str){ data.p + n, data.n - n };
    }
    while (data.n) {
        if (!f->left) {
            f->head[f->head_n++] = data.p[0];
            data = (struct str){ data.p + 1, data.n - 1 };
            uint8_t type = (uint8_t)f->head[0];
            size_t need = head_size(type);
            if (!need)
                return false;
            if (f->head_n < need)
                continue;
            size_t whole = whole_size((const uint8_t *)f->head, &f->drop);
            if (whole < f->head_n || whole > MESSAGE_MAX)
                return false;
            if (!f->drop)
                buf_add(out, f->head, f->head_n);
            f->left = whole - f->head_n;
            f->head_n = 0;
            memset(f->head, 0, sizeof f->head);
            continue;
        }
        size_t n = f->left < data.n ? f->left : data.n;
        if (!f->drop)
            buf_add(out, data.p, n);
        f->left -= n;
        data = (struct str){ data.p + n, data.n - n };
    }
    return !out->full;
}

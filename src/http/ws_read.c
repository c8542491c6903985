/* Frames of a WebSocket client, which are masked, and how a server's frames look. */
#include <string.h>

#include "http/ws.h"

enum { OP_CONTINUE = 0, OP_TEXT = 1, OP_BINARY = 2, OP_CLOSE = 8, OP_PING = 9, OP_PONG = 10, CONTROL_MAX = 125 };

void ws_reader_init(struct ws_reader *r, size_t max)
{
    *r = (struct ws_reader){ .max = max };
    buf_init(&r->message, max);
}

void ws_reader_done(struct ws_reader *r)
{
    buf_done(&r->message);
}

bool ws_is_utf8(struct str s)
{
    const unsigned char *p = (const unsigned char *)s.p, *end = p + s.n;

    while (p < end) {
        unsigned c = *p++;
        if (c < 0x80)
            continue;
        int more = c >= 0xc2 && c <= 0xdf ? 1 : c >= 0xe0 && c <= 0xef ? 2 : c >= 0xf0 && c <= 0xf4 ? 3 : 0;
        if (!more || end - p < more)
            return false;
        if ((c == 0xe0 && *p < 0xa0) || (c == 0xed && *p > 0x9f) || (c == 0xf0 && *p < 0x90) ||
            (c == 0xf4 && *p > 0x8f))
            return false;
        for (; more; more--)
            if ((*p++ & 0xc0) != 0x80)
                return false;
    }
    return true;
}

struct frame {
    bool fin;
    int opcode;
    uint64_t size;
    const char *mask;
    size_t head;
};

/* 1: the head is complete; 0: not yet; < 0: -(enum ws_code). */
static int read_head(const char *data, size_t n, struct frame *f)
{
    const unsigned char *p = (const unsigned char *)data;

    if (n < 2)
        return 0;
    *f = (struct frame){ .fin = p[0] & 0x80, .opcode = p[0] & 15, .size = p[1] & 0x7f, .head = 2 };
    if (p[0] & 0x70 || !(p[1] & 0x80)) /* an extension that nobody offered; a frame without a mask */
        return -WS_PROTOCOL;
    size_t wide = f->size == 126 ? 2 : f->size == 127 ? 8 : 0;
    if (n < 2 + wide + 4)
        return 0;
    if (wide) {
        f->size = 0;
        for (size_t i = 0; i < wide; i++)
            f->size = f->size << 8 | p[2 + i];
        if (f->size < (wide == 2 ? 126u : 65536u) || f->size >> 63)
            return -WS_PROTOCOL;
    }
    f->mask = data + 2 + wide;
    f->head = 2 + wide + 4;
    return 1;
}

static int check(const struct ws_reader *r, const struct frame *f)
{
    bool control = f->opcode & 8;

    if (control)
        return f->opcode > OP_PONG || !f->fin || f->size > CONTROL_MAX ? -WS_PROTOCOL : 0;
    if (f->opcode > OP_BINARY || (f->opcode == OP_CONTINUE) != (r->opcode != 0))
        return -WS_PROTOCOL;
    return f->size > r->max - r->message.n ? -WS_TOO_BIG : 0;
}

static int close_frame(struct str s)
{
    if (s.n == 0)
        return WS_CLOSE;
    int code = s.n >= 2 ? (unsigned char)s.p[0] << 8 | (unsigned char)s.p[1] : 0;
    bool known = (code >= 1000 && code <= 1014 && code != 1004 && code != 1005 && code != 1006) ||
                 (code >= 3000 && code <= 4999);
    if (!known)
        return -WS_PROTOCOL;
    return ws_is_utf8((struct str){ s.p + 2, s.n - 2 }) ? WS_CLOSE : -WS_BAD_TEXT;
}

/* The frame's content is unmasked at s. */
static int take(struct ws_reader *r, const struct frame *f, struct str s, struct str *ret)
{
    *ret = s;
    switch (f->opcode) {
    case OP_CLOSE: return close_frame(s);
    case OP_PING: return WS_PING;
    case OP_PONG: return WS_PONG;
    default: break;
    }
    int opcode = r->opcode ? r->opcode : f->opcode;
    if (!f->fin || r->opcode) {
        buf_str(&r->message, s);
        r->opcode = opcode;
        if (!f->fin)
            return WS_FRAGMENT;
        *ret = buf_view(&r->message);
        r->opcode = 0;
    }
    if (opcode == OP_TEXT && !ws_is_utf8(*ret))
        return -WS_BAD_TEXT;
    return opcode == OP_TEXT ? WS_TEXT : WS_BINARY;
}

int ws_read(struct ws_reader *r, char *data, size_t n, struct str *ret, size_t *ret_n)
{
    struct frame f;

    if (!r->opcode)
        buf_reset(&r->message); /* the last message was read */
    int res = read_head(data, n, &f);
    if (res == 0)
        return WS_MORE;
    if (res > 0)
        res = check(r, &f);
    if (res < 0)
        return res;
    if (n - f.head < f.size)
        return WS_MORE;

    char *p = data + f.head;
    for (size_t i = 0; i < f.size; i++)
        p[i] ^= f.mask[i & 3];
    *ret_n = f.head + (size_t)f.size;
    return take(r, &f, (struct str){ p, (size_t)f.size }, ret);
}

void ws_frame(struct buf *out, int opcode, struct str data)
{
    unsigned char head[10] = { (unsigned char)(0x80 | opcode) };
    size_t n = 2;

    if (data.n < 126) {
        head[1] = (unsigned char)data.n;
    } else if (data.n < 65536) {
        head[1] = 126;
        head[2] = (unsigned char)(data.n >> 8);
        head[3] = (unsigned char)data.n;
        n = 4;
    } else {
        head[1] = 127;
        for (int i = 0; i < 8; i++)
            head[2 + i] = (unsigned char)((uint64_t)data.n >> (56 - 8 * i));
        n = 10;
    }
    buf_add(out, head, n);
    buf_str(out, data);
}

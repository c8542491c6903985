#include "wire/zmtp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"

enum { MORE = 1, LONG = 2, COMMAND = 4, COMMAND_MAX = 4096 };

static void put_frame(struct buf *b, unsigned flags, struct str body)
{
    unsigned char head[9] = { (unsigned char)flags, (unsigned char)body.n };

    if (body.n > 255) {
        head[0] |= LONG;
        for (int i = 0; i < 8; i++)
            head[1 + i] = (unsigned char)((uint64_t)body.n >> (56 - 8 * i));
    }
    buf_add(b, head, body.n > 255 ? 9 : 2);
    buf_str(b, body);
}

static void put_property(struct buf *b, const char *name, const char *value)
{
    size_t n = strlen(value);
    unsigned char size[4] = { 0, 0, (unsigned char)(n >> 8), (unsigned char)n };

    buf_char(b, (char)strlen(name));
    buf_z(b, name);
    buf_add(b, size, sizeof size);
    buf_z(b, value);
}

void zmtp_init(struct zmtp *z, enum zmtp_type type, const char *identity)
{
    unsigned char greeting[ZMTP_GREETING] = { 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0x7f, 3, 0, 'N', 'U', 'L', 'L' };
    struct buf ready;

    *z = (struct zmtp){ .type = type };
    buf_init(&z->in, LIMIT_KERNEL_MESSAGE + 64 * KiB);
    buf_init(&z->out, LIMIT_KERNEL_MESSAGE);
    buf_init(&z->body, LIMIT_KERNEL_MESSAGE);
    buf_init(&z->held, LIMIT_KERNEL_MESSAGE);
    buf_add(&z->out, greeting, sizeof greeting);
    buf_init(&ready, COMMAND_MAX);
    buf_add(&ready, "\5READY", 6);
    put_property(&ready, "Socket-Type", type == ZMTP_SUB ? "SUB" : "DEALER");
    put_property(&ready, "Identity", identity);
    put_frame(&z->out, COMMAND, buf_view(&ready));
    buf_done(&ready);
    if (type == ZMTP_SUB)
        put_frame(&z->held, 0, STR("\1")); /* everything */
}

void zmtp_done(struct zmtp *z)
{
    buf_done(&z->in);
    buf_done(&z->out);
    buf_done(&z->body);
    buf_done(&z->held);
    free(z->tail);
}

bool zmtp_send(struct zmtp *z, const struct str *parts, size_t n)
{
    struct buf *out = z->up ? &z->out : &z->held;
    size_t before = out->n;

    for (size_t i = 0; i < n; i++)
        put_frame(out, i + 1 < n ? MORE : 0, parts[i]);
    if (out->full) {
        out->n = before;
        out->full = false;
        return false;
    }
    return true;
}

static int take_greeting(struct zmtp *z, struct err *e)
{
    const unsigned char *p = (const unsigned char *)z->in.p;

    if (z->in.n && p[0] != 0xff)
        return err_set(e, ERR_INVALID, "no ZMTP: the first byte is 0x%02x", p[0]);
    if (z->in.n < ZMTP_GREETING)
        return 0;
    if (p[9] != 0x7f || p[10] < 3)
        return err_set(e, ERR_INVALID, "no ZMTP 3: version byte %u", p[10]);
    if (memcmp(p + 12, "NULL\0", 5) != 0)
        return err_set(e, ERR_INVALID, "ZMTP mechanism '%.20s' is not NULL", (const char *)p + 12);
    buf_eat(&z->in, ZMTP_GREETING);
    z->greeted = true;
    return 1;
}

static void skip(struct zmtp *z)
{
    uint64_t unwanted = z->skip > ZMTP_KEEP ? z->skip - ZMTP_KEEP : 0;
    size_t n = unwanted < z->in.n ? (size_t)unwanted : z->in.n;

    buf_eat(&z->in, n);
    z->skip -= n;
    if (z->skip > ZMTP_KEEP || z->in.n < z->skip)
        return;
    if (!z->tail)
        z->tail = malloc(ZMTP_KEEP);
    if (!z->tail)
        abort();
    memcpy(z->tail, z->in.p, ZMTP_KEEP);
    buf_eat(&z->in, ZMTP_KEEP);
    z->skip = 0;
}

/* A message is begun by its first frame after one that was handed out. */
static void begin_message(struct zmtp *z)
{
    if (!z->taken)
        return;
    z->taken = false;
    buf_reset(&z->body);
    z->n = 0;
    z->skipped = 0;
    free(z->tail);
    z->tail = NULL;
}

static void add_part(struct zmtp *z, struct str body)
{
    if (z->n == ZMTP_PARTS_MAX || !buf_str(&z->body, body)) {
        z->body.full = false;
        z->skipped += body.n;
        body.n = 0;
    }
    if (z->n < ZMTP_PARTS_MAX)
        z->ends[z->n++] = z->body.n;
}

static int hand_out(struct zmtp *z, struct zmtp_message *ret)
{
    size_t from = 0;

    *ret = (struct zmtp_message){ .n = z->n, .skipped = z->skipped, .tail = { z->tail, z->tail ? ZMTP_KEEP : 0 } };
    for (size_t i = 0; i < z->n; i++) {
        ret->parts[i] = (struct str){ z->body.p ? z->body.p + from : "", z->ends[i] - from };
        from = z->ends[i];
    }
    z->taken = true;
    return 1;
}

static int take_command(struct zmtp *z, struct str body, struct err *e)
{
    if (!z->up && body.n >= 6 && memcmp(body.p, "\5READY", 6) == 0) {
        z->up = true; /* its properties say nothing that we do not know */
        buf_str(&z->out, buf_view(&z->held));
        buf_done(&z->held);
    } else if (!z->up)
        return err_set(e, ERR_INVALID, "ZMTP handshake was refused");
    return 0; /* later commands (PING of 3.1 is for those who announce 3.1) are of no concern */
}

/* One frame. 0: incomplete; 1: taken; 2: it was the last of a message. */
static int take_frame(struct zmtp *z, struct err *e)
{
    const unsigned char *p = (const unsigned char *)z->in.p;
    uint64_t size = 0;

    if (z->in.n < 2)
        return 0;
    unsigned flags = p[0];
    size_t head = flags & LONG ? 9 : 2;
    if (flags & ~(unsigned)(MORE | LONG | COMMAND) || (flags & COMMAND && flags & MORE))
        return err_set(e, ERR_INVALID, "ZMTP frame with flags 0x%02x", flags);
    if (z->in.n < head)
        return 0;
    for (size_t i = 1; i < head; i++)
        size = size << 8 | p[i];
    if (size > INT64_MAX)
        return err_set(e, ERR_INVALID, "ZMTP frame of %llu bytes", (unsigned long long)size);
    bool command = flags & COMMAND;
    if ((command || !z->up) && size > COMMAND_MAX)
        return err_set(e, ERR_INVALID, "ZMTP command of %llu bytes", (unsigned long long)size);
    if (!command && !z->up)
        return err_set(e, ERR_INVALID, "ZMTP message before READY");
    uint64_t room = LIMIT_KERNEL_MESSAGE - (z->taken ? 0 : z->body.n);
    if (!command && size > room && size > 2 * ZMTP_KEEP) {
        if (z->in.n - head < ZMTP_KEEP)
            return 0;
        begin_message(z);
        add_part(z, (struct str){ z->in.p + head, ZMTP_KEEP });
        buf_eat(&z->in, head + ZMTP_KEEP);
        z->skip = size - ZMTP_KEEP;
        z->skipped += z->skip - ZMTP_KEEP;
        z->skip_more = flags & MORE;
        return 1;
    }
    if (z->in.n - head < size)
        return 0;
    struct str body = { z->in.p + head, (size_t)size };
    int r = 1;
    if (command) {
        r = take_command(z, body, e);
        r = r < 0 ? r : 1;
    } else {
        begin_message(z);
        add_part(z, body);
        r = flags & MORE ? 1 : 2;
    }
    buf_eat(&z->in, head + (size_t)size);
    return r;
}

int zmtp_next(struct zmtp *z, struct zmtp_message *ret, struct err *e)
{
    if (!z->greeted) {
        int r = take_greeting(z, e);
        if (r <= 0)
            return r;
    }
    for (;;) {
        if (z->skip) {
            skip(z);
            if (z->skip)
                return 0;
            if (!z->skip_more)
                return hand_out(z, ret);
        }
        int r = take_frame(z, e);
        if (r <= 0)
            return r;
        if (r == 2)
            return hand_out(z, ret);
    }
}

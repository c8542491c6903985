#include "init/rfb.h"

#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <zlib.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/buf.h"
#include "base/limits.h"
#include "base/loop.h"
#include "init/driver.h"

enum { SLICE_MS = 1000, IDLE_MS = 5000, CLIP_MS = 3000, RETRY_MS = 15, START_MS = 60000, REFUSED_MS = 500 };

/* messages and encodings, as the protocol numbers them */
enum { SET_PIXELS = 0, SET_ENCODINGS = 2, ASK_FRAME = 3, KEY = 4, POINTER = 5, CUT_TEXT = 6, SET_SIZE = 251 };
enum { FRAME = 0, COLOURS = 1, BELL = 2, SERVER_CUT_TEXT = 3 };
enum { RAW = 0, EXTENDED_SIZE = -308, EXTENDED_CLIPBOARD = (int)0xC0A1E5CE };
enum {
    CLIP_TEXT = 1,
    CLIP_CAPS = 1 << 24,
    CLIP_REQUEST = 1 << 25,
    CLIP_PEEK = 1 << 26,
    CLIP_NOTIFY = 1 << 27,
    CLIP_PROVIDE = 1 << 28
};

struct rfb {
    int fd;
    bool gone;
    struct hand *hand; /* whose call this is; NULL: between calls */
    char in[16 * 1024];
    size_t at, n;
    int width, height;
    uint8_t *pixels;         /* RGBX */
    size_t got;              /* pixels since they were last asked for */
    bool hollow;             /* the answer had none: it told something else, and one has to ask again */
    bool resized, refused;   /* answers to SET_SIZE */
    struct buf ours, theirs; /* the clipboard: what we offer, what was provided */
    bool offers, provided;   /* somebody else offers text; and has given it */
    bool extended;           /* the server can do it */
};

static int lost(struct rfb *r, struct err *e)
{
    r->gone = true;
    err_set(e, ERR_SYSTEM, "the screen is gone; the next call starts a new one");
    return -EPIPE;
}

/* --- bytes --- */

/* Waits for the socket. 0: look again. */
static int await(struct rfb *r, short what, struct err *e)
{
    struct pollfd p = { r->fd, what, 0 };

    if (!r->hand) /* what was begun between calls comes whole and at once, or the server is broken */
        return poll(&p, 1, IDLE_MS) > 0 ? 0 : lost(r, e);
    int64_t now = now_ms(), end = r->hand->deadline_ms;
    if (r->hand->self->wish == WISH_CANCEL) {
        r->gone = true; /* in the middle of a message: another connection is the way on */
        err_set(e, ERR_NONE, "cancelled");
        return -ECANCELED;
    }
    if (end && now >= end) {
        r->gone = true;
        err_set(e, ERR_NONE, "the screen did not answer in time");
        return -ETIMEDOUT;
    }
    (void)driver_poll(r->hand, &p, 1, end && end - now < SLICE_MS ? end - now : SLICE_MS);
    return 0;
}

static int get(struct rfb *r, void *to, size_t n, struct err *e)
{
    while (n) {
        size_t have = r->n - r->at < n ? r->n - r->at : n;
        memcpy(to, r->in + r->at, have);
        r->at += have;
        n -= have;
        to = (char *)to + have;
        if (!n)
            break;
        bool direct = n >= sizeof r->in; /* pixels need not be copied twice */
        ssize_t k = recv(r->fd, direct ? to : r->in, direct ? n : sizeof r->in, MSG_DONTWAIT);
        if (k == 0 || (k < 0 && errno != EAGAIN && errno != EINTR))
            return lost(r, e);
        if (k < 0) {
            int s = await(r, POLLIN, e);
            if (s < 0)
                return s;
        } else if (direct) {
            to = (char *)to + k;
            n -= (size_t)k;
        } else {
            r->at = 0;
            r->n = (size_t)k;
        }
    }
    return 0;
}

static int skip(struct rfb *r, size_t n, struct err *e)
{
    char waste[1024];
    int s = 0;

    while (n && s == 0) {
        size_t k = n < sizeof waste ? n : sizeof waste;
        s = get(r, waste, k, e);
        n -= k;
    }
    return s;
}

static int put(struct rfb *r, const void *from, size_t n, struct err *e)
{
    const char *p = from;

    while (n) {
        ssize_t k = r->gone ? 0 : send(r->fd, p, n, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (k > 0) {
            p += k;
            n -= (size_t)k;
            continue;
        }
        if (k == 0 || (errno != EAGAIN && errno != EINTR))
            return lost(r, e);
        int s = await(r, POLLOUT, e);
        if (s < 0)
            return s;
    }
    return 0;
}

/* --- the clipboard --- */

static int put_clip(struct rfb *r, uint32_t flags, struct str data, struct err *e)
{
    struct {
        uint8_t type, pad[3];
        int32_t size;
        uint32_t flags;
    } m = { CUT_TEXT, { 0 }, (int32_t)htobe32((uint32_t) - (int32_t)(4 + data.n)), htobe32(flags) };
    int s = put(r, &m, sizeof m, e);

    return s < 0 ? s : put(r, data.p, data.n, e);
}

/* Text as the extension has it: its size, CR LF between lines, a NUL at the end, all of it compressed. */
static int provide(struct rfb *r, struct err *e)
{
    struct buf text;

    buf_init(&text, 3 * LIMIT_CLIPBOARD + 16);
    buf_add(&text, "\0\0\0\0", 4);
    for (size_t i = 0; i < r->ours.n; i++) {
        if (r->ours.p[i] == '\n')
            buf_char(&text, '\r');
        buf_char(&text, r->ours.p[i]);
    }
    buf_char(&text, 0);
    uint32_t size = htobe32((uint32_t)text.n - 4);
    memcpy(text.p, &size, 4);
    uLongf n = compressBound(text.n);
    auto_free Bytef *packed = malloc(n);
    if (!packed)
        abort();
    (void)compress2(packed, &n, (Bytef *)text.p, text.n, 1);
    buf_done(&text);
    return put_clip(r, CLIP_PROVIDE | CLIP_TEXT, (struct str){ (char *)packed, n }, e);
}

static void take_provided(struct rfb *r, const char *p, size_t n)
{
    uint32_t size = 0;
    z_stream z = { .next_in = (Bytef *)(uintptr_t)p, .avail_in = (uInt)n, .next_out = (Bytef *)&size, .avail_out = 4 };

    buf_reset(&r->theirs);
    r->provided = true;
    if (inflateInit(&z) != Z_OK)
        return;
    if (inflate(&z, Z_SYNC_FLUSH) >= 0 && z.avail_out == 0 && be32toh(size) <= LIMIT_CLIPBOARD) {
        size = be32toh(size);
        auto_free char *text = malloc(size + 1);
        if (!text)
            abort();
        z.next_out = (Bytef *)text;
        z.avail_out = size;
        (void)inflate(&z, Z_SYNC_FLUSH);
        size -= z.avail_out;
        for (uint32_t i = 0; i < size && text[i]; i++)
            if (text[i] != '\r' || i + 1 >= size || text[i + 1] != '\n')
                buf_char(&r->theirs, text[i]);
    }
    inflateEnd(&z);
}

static int on_clip(struct rfb *r, size_t n, struct err *e)
{
    uint32_t flags, sizes = 0;
    auto_free char *rest = malloc(n ? n : 1);

    if (!rest)
        abort();
    int s = get(r, &flags, 4, e);
    if (s == 0)
        s = get(r, rest, n -= 4, e);
    if (s < 0)
        return s;
    flags = be32toh(flags);
    if (flags & CLIP_CAPS) {
        r->extended = true;
        return put_clip(r, CLIP_CAPS | CLIP_REQUEST | CLIP_PEEK | CLIP_NOTIFY | CLIP_PROVIDE | CLIP_TEXT,
                        (struct str){ (char *)&sizes, sizeof sizes }, e);
    }
    if (flags & CLIP_NOTIFY)
        r->offers = (flags & CLIP_TEXT) != 0;
    else if (flags & CLIP_PROVIDE)
        take_provided(r, rest, n);
    else if (flags & CLIP_REQUEST)
        return provide(r, e);
    else if (flags & CLIP_PEEK)
        return put_clip(r, CLIP_NOTIFY | (r->ours.n ? CLIP_TEXT : 0), (struct str){ 0 }, e);
    return 0;
}

/* --- what the server says --- */

static int new_size(struct rfb *r, unsigned width, unsigned height, struct err *e)
{
    if (!width || !height || (size_t)width * height > LIMIT_SCREEN_PIXELS) {
        r->gone = true; /* the rest of the message is not read, and the next would be taken for it */
        return err_set(e, ERR_LIMIT, "the screen is %ux%u; LIMIT_SCREEN_PIXELS is %ld", width, height,
                       (long)LIMIT_SCREEN_PIXELS);
    }
    if ((int)width == r->width && (int)height == r->height)
        return 0;
    free(r->pixels);
    r->pixels = calloc((size_t)width * height, 4);
    if (!r->pixels)
        abort();
    r->width = (int)width;
    r->height = (int)height;
    return 0;
}

static int one_rectangle(struct rfb *r, struct err *e)
{
    struct {
        uint16_t x, y, w, h;
        int32_t encoding;
    } m;
    uint8_t screens[4];
    int s = get(r, &m, sizeof m, e);

    if (s < 0)
        return s;
    int x = be16toh(m.x), y = be16toh(m.y), w = be16toh(m.w), h = be16toh(m.h);
    int encoding = (int)be32toh((uint32_t)m.encoding);
    if (encoding == EXTENDED_SIZE) { /* x: who asked (1: we), y: why not */
        s = get(r, screens, sizeof screens, e);
        if (s == 0)
            s = skip(r, 16U * screens[0], e);
        r->resized |= x == 1;
        r->refused |= x == 1 && y != 0;
        return s < 0 || (x == 1 && y) ? s : new_size(r, (unsigned)w, (unsigned)h, e);
    }
    if (encoding != RAW || x + w > r->width || y + h > r->height)
        return lost(r, e);
    for (int i = 0; s == 0 && i < h; i++)
        s = get(r, r->pixels + ((size_t)(y + i) * (size_t)r->width + (size_t)x) * 4, (size_t)w * 4, e);
    r->got += (size_t)w * (size_t)h;
    return s;
}

static int one_message(struct rfb *r, struct err *e)
{
    uint8_t head[8];
    int s = get(r, head, 1, e);

    if (s < 0 || head[0] == BELL)
        return s;
    if (head[0] == FRAME) {
        size_t before = r->got;
        s = get(r, head + 1, 3, e);
        for (int i = s < 0 ? 0 : head[2] << 8 | head[3]; s == 0 && i > 0; i--)
            s = one_rectangle(r, e);
        r->hollow |= r->got == before;
        return s;
    }
    if (head[0] == COLOURS) {
        s = get(r, head + 1, 5, e);
        return s < 0 ? s : skip(r, 6U * (unsigned)(head[4] << 8 | head[5]), e);
    }
    if (head[0] != SERVER_CUT_TEXT)
        return lost(r, e);
    s = get(r, head + 1, 7, e);
    if (s < 0)
        return s;
    int32_t n = (int32_t)((uint32_t)head[4] << 24 | (uint32_t)head[5] << 16 | (uint32_t)head[6] << 8 | head[7]);
    if (n >= 0) /* Latin-1, from a server without the extension */
        return skip(r, (size_t)n, e);
    return n < -4 - 2 * LIMIT_CLIPBOARD || n > -4 ? lost(r, e) : on_clip(r, (size_t)-n, e);
}

/* --- asking --- */

/* again: the server has only told its size, which it does whenever all pixels are wanted; it still owes them. */
static int ask_frame(struct rfb *r, bool again, int width, int height, struct err *e)
{
    uint8_t m[10] = { ASK_FRAME,      again, 0, 0, 0, 0, (uint8_t)(width >> 8), (uint8_t)width, (uint8_t)(height >> 8),
                      (uint8_t)height };

    if (!again)
        r->got = 0;
    r->hollow = false;
    return put(r, m, sizeof m, e);
}

static int finish(struct rfb *r, int s)
{
    r->hand = NULL;
    return s;
}

int rfb_frame(struct hand *h, struct rfb *r, const uint8_t **ret_rgbx, struct err *e)
{
    int width = 0, height = 0, s = 0;

    r->hand = h;
    while (s == 0) {
        if (width != r->width || height != r->height) /* at first, and if it changes meanwhile */
            s = ask_frame(r, false, width = r->width, height = r->height, e);
        else if (r->hollow)
            s = ask_frame(r, true, width, height, e);
        else if (r->got >= (size_t)width * (size_t)height)
            break;
        if (s == 0)
            s = one_message(r, e);
    }
    *ret_rgbx = r->pixels;
    return finish(r, s);
}

/* One pixel, asked for behind all else. */
int rfb_sync(struct hand *h, struct rfb *r, struct err *e)
{
    r->hand = h;
    int s = ask_frame(r, false, 1, 1, e);
    while (s == 0 && !r->got) {
        s = one_message(r, e);
        if (s == 0 && r->hollow)
            s = ask_frame(r, true, 1, 1, e);
    }
    return finish(r, s);
}

int rfb_pointer(struct hand *h, struct rfb *r, unsigned buttons, int x, int y, struct err *e)
{
    uint8_t m[6] = { POINTER, (uint8_t)buttons, (uint8_t)(x >> 8), (uint8_t)x, (uint8_t)(y >> 8), (uint8_t)y };

    r->hand = h;
    return finish(r, put(r, m, sizeof m, e));
}

int rfb_key(struct hand *h, struct rfb *r, uint32_t keysym, bool down, struct err *e)
{
    struct {
        uint8_t type, down;
        uint16_t pad;
        uint32_t key;
    } m = { KEY, down, 0, htobe32(keysym) };

    r->hand = h;
    return finish(r, put(r, &m, sizeof m, e));
}

int rfb_resize(struct hand *h, struct rfb *r, int width, int height, struct err *e)
{
    struct {
        uint8_t type, pad;
        uint16_t width, height;
        uint8_t screens, pad2;
        uint32_t id;
        uint16_t x, y, w, h;
        uint32_t flags;
    } m = { SET_SIZE, 0, htobe16((uint16_t)width), htobe16((uint16_t)height), 1, 0, 0, 0, 0, 0, 0, 0 };

    m.w = m.width;
    m.h = m.height;
    r->hand = h;
    r->resized = r->refused = false;
    int s = put(r, &m, sizeof m, e);
    if (s == 0)
        s = ask_frame(r, false, 1, 1, e); /* answers to a new size travel in frames */
    while (s == 0 && !r->resized)
        s = one_message(r, e);
    if (s == 0 && r->refused)
        s = err_set(e, ERR_INVALID, "width, height: the screen cannot be %dx%d", width, height);
    return finish(r, s);
}

int rfb_paste(struct hand *h, struct rfb *r, struct str text, struct err *e)
{
    if (!r->extended)
        return err_set(e, ERR_SYSTEM, "the screen's server cannot take a clipboard");
    r->hand = h;
    buf_reset(&r->ours);
    buf_str(&r->ours, text);
    r->offers = false; /* who offered before has lost it */
    int s = put_clip(r, CLIP_NOTIFY | CLIP_TEXT, (struct str){ 0 }, e);
    return finish(r, s < 0 ? s : rfb_sync(h, r, e));
}

int rfb_copied(struct hand *h, struct rfb *r, struct str *ret, struct err *e)
{
    struct err late;
    int64_t end = h->deadline_ms;
    int s = rfb_sync(h, r, e); /* what was just copied has been told */

    *ret = (struct str){ 0 };
    if (s < 0)
        return s;
    if (!r->offers) {
        if (r->ours.n)
            *ret = arena_copy(h->arena, buf_view(&r->ours));
        return 0;
    }
    r->hand = h;
    r->provided = false;
    h->deadline_ms = now_ms() + CLIP_MS < end || !end ? now_ms() + CLIP_MS : end;
    s = put_clip(r, CLIP_REQUEST | CLIP_TEXT, (struct str){ 0 }, e);
    while (s == 0 && !r->provided && r->offers)
        s = one_message(r, &late);
    h->deadline_ms = end;
    if (s == -ETIMEDOUT)
        s = err_set(e, ERR_SYSTEM, "the program that has the clipboard does not give it");
    if (s == 0 && r->provided)
        *ret = arena_copy(h->arena, buf_view(&r->theirs));
    return finish(r, s);
}

int rfb_pause(struct hand *h, struct rfb *r, int64_t until_ms, struct err *e)
{
    int s = 0;

    r->hand = h;
    while (s == 0 && now_ms() < until_ms) {
        struct pollfd p = { r->fd, POLLIN, 0 };
        int64_t left = until_ms - now_ms();
        if (h->self->wish == WISH_CANCEL) {
            err_set(e, ERR_NONE, "cancelled");
            return finish(r, -ECANCELED);
        }
        if (h->deadline_ms && now_ms() >= h->deadline_ms) {
            err_set(e, ERR_NONE, "the call's time is over");
            return finish(r, -ETIMEDOUT);
        }
        (void)driver_poll(h, &p, 1, left < SLICE_MS ? left : SLICE_MS);
        if (p.revents)
            s = one_message(r, e);
    }
    return finish(r, s);
}

void rfb_take(struct rfb *r)
{
    struct pollfd p = { r->fd, POLLIN, 0 };
    struct err e;

    r->hand = NULL;
    while (!r->gone && (r->at < r->n || poll(&p, 1, 0) > 0))
        (void)one_message(r, &e);
}

/* --- the beginning --- */

static int greet(struct rfb *r, struct err *e)
{
    static const struct {
        uint8_t type, pad[3], bits, depth, big, colour;
        uint16_t red_max, green_max, blue_max;
        uint8_t red, green, blue, pad2[3];
    } pixels = { SET_PIXELS, { 0 }, 32, 24, 0, 1, 0xff00, 0xff00, 0xff00, 0, 8, 16, { 0 } };
    const int32_t wanted[] = { RAW, EXTENDED_SIZE, EXTENDED_CLIPBOARD };
    struct {
        uint8_t type, pad;
        uint16_t n;
        uint32_t v[ARRAY_LEN(wanted)];
    } encodings = { SET_ENCODINGS, 0, htobe16(ARRAY_LEN(wanted)), { 0 } };
    uint8_t text[16], init[24];
    int s = get(r, text, 12, e);

    if (s == 0)
        s = put(r, "RFB 003.008\n", 12, e);
    if (s == 0)
        s = get(r, text, 1, e); /* how many kinds of security; the only one is none */
    if (s == 0)
        s = text[0] == 1 ? get(r, text, 1, e) : lost(r, e);
    if (s == 0)
        s = text[0] == 1 ? put(r, text, 1, e) : lost(r, e);
    if (s == 0)
        s = get(r, text, 4, e);
    if (s == 0)
        s = memcmp(text, "\0\0\0\0", 4) == 0 ? put(r, "\1", 1, e) : lost(r, e); /* shared: people may look on */
    if (s == 0)
        s = get(r, init, sizeof init, e);
    if (s == 0)
        s = skip(r, (size_t)init[20] << 24 | (size_t)init[21] << 16 | (size_t)init[22] << 8 | init[23], e);
    if (s == 0)
        s = new_size(r, (unsigned)(init[0] << 8 | init[1]), (unsigned)(init[2] << 8 | init[3]), e);
    for (size_t i = 0; i < ARRAY_LEN(wanted); i++)
        encodings.v[i] = htobe32((uint32_t)wanted[i]);
    if (s == 0)
        s = put(r, &pixels, sizeof pixels, e);
    return s < 0 ? s : put(r, &encodings, sizeof encodings, e);
}

static int connect_to(struct hand *h, const char *path, struct err *e)
{
    struct sockaddr_un un = { .sun_family = AF_UNIX };

    int64_t began = now_ms(), refused = 0;

    strncpy(un.sun_path, path, sizeof un.sun_path - 1);
    for (;;) {
        auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0)
            return err_sys(e, "make a socket");
        if (connect(fd, (struct sockaddr *)&un, sizeof un) == 0)
            return TAKE_FD(fd);
        /* refused: nobody listens any more. But a server that has just made its socket does not yet */
        if (errno != ECONNREFUSED)
            refused = 0;
        else if (!refused)
            refused = now_ms();
        if ((h->deadline_ms && now_ms() >= h->deadline_ms) || now_ms() - began > START_MS ||
            (refused && now_ms() - refused > REFUSED_MS) || h->self->wish == WISH_CANCEL)
            return err_set(e, ERR_SYSTEM, "the desktop did not start: %s: %s", path, strerror(errno));
        (void)driver_poll(h, NULL, 0, RETRY_MS);
    }
}

struct rfb *rfb_open(struct hand *h, const char *path, struct err *e)
{
    int fd = connect_to(h, path, e);

    if (fd < 0)
        return NULL;
    struct rfb *r = calloc(1, sizeof *r);
    if (!r)
        abort();
    *r = (struct rfb){ .fd = fd, .hand = h };
    buf_init(&r->ours, LIMIT_CLIPBOARD + 1);
    buf_init(&r->theirs, LIMIT_CLIPBOARD + 1);
    if (greet(r, e) < 0 || rfb_sync(h, r, e) < 0) { /* with the first frame come the server's abilities */
        rfb_close(r);
        return NULL;
    }
    return r;
}

void rfb_close(struct rfb *r)
{
    if (!r)
        return;
    close(r->fd);
    free(r->pixels);
    buf_done(&r->ours);
    buf_done(&r->theirs);
    free(r);
}

int rfb_fd(const struct rfb *r)
{
    return r->fd;
}

bool rfb_alive(struct rfb *r)
{
    if (!r->gone)
        rfb_take(r);
    return !r->gone;
}

void rfb_size(const struct rfb *r, int *ret_width, int *ret_height)
{
    *ret_width = r->width;
    *ret_height = r->height;
}

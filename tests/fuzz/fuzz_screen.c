/* Whatever the server of a box's screen says to the driver that looks at it and types on it: RFB, any bytes at any moment.
 * The driver may lose the connection, and must end. The first byte says in which pieces they come, the next ones what is
 * asked meanwhile. */
/* needs: src/init/rfb.c */
/* libs: -lz */
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/loop.h"
#include "init/driver.h"
#include "init/rfb.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum { ASKS = 4 };
static struct {
    int listener, fd; /* the server's ends */
    const uint8_t *p;
    size_t n, piece;
} server = { -1, -1, NULL, 0, 0 };
static char path[64];

/* What stands for init, and for the server behind the socket: takes what the driver said, and says the next piece. */
int driver_poll(struct hand *h, struct pollfd *fds, size_t n, int64_t timeout_ms)
{
    char waste[4096];

    (void)h;
    (void)timeout_ms;
    if (server.fd < 0)
        server.fd = accept(server.listener, NULL, NULL);
    while (recv(server.fd, waste, sizeof waste, MSG_DONTWAIT) > 0)
        ;
    if (server.n) {
        ssize_t k = send(server.fd, server.p, server.n < server.piece ? server.n : server.piece, MSG_DONTWAIT | MSG_NOSIGNAL);
        server.p += k > 0 ? k : 0;
        server.n -= k > 0 ? (size_t)k : server.n; /* it hung up */
    } else {
        (void)shutdown(server.fd, SHUT_RDWR);
    }
    return n ? poll(fds, (nfds_t)n, 0) : 0;
}

static void begin(void)
{
    struct sockaddr_un un = { .sun_family = AF_UNIX };

    snprintf(path, sizeof path, "/tmp/sg-fuzz-screen-%d", (int)getpid());
    (void)unlink(path);
    strncpy(un.sun_path, path, sizeof un.sun_path - 1);
    server.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(server.listener, (struct sockaddr *)&un, sizeof un) < 0 || listen(server.listener, 1) < 0)
        abort();
}

static int ask(struct hand *h, struct rfb *r, unsigned what, struct err *e)
{
    const uint8_t *pixels;
    struct str text;
    int width, height, s;

    switch (what % 7) {
    case 0:
        s = rfb_frame(h, r, &pixels, e);
        rfb_size(r, &width, &height);
        if (s == 0) /* all of them can be read */
            for (long i = 0, end = (long)width * height * 4; i < end; i += 4096)
                s += pixels[i] > 255;
        return s;
    case 1: return rfb_pointer(h, r, RFB_LEFT, 70000, -1, e);
    case 2: return rfb_key(h, r, 'a', true, e);
    case 3: return rfb_resize(h, r, 300, 200, e);
    case 4: return rfb_paste(h, r, STR("text\nof two lines"), e);
    case 5:
        s = rfb_copied(h, r, &text, e);
        return s < 0 || !text.p ? s : (int)strnlen(text.p, text.n);
    default: return rfb_sync(h, r, e);
    }
}

/* A screen that becomes larger than may be: the connection is given up, for the rest of the message is not read. */
static void check_size(struct hand *h)
{
    static const uint8_t said[] = "RFB 003.008\n\1\1\0\0\0\0\0\x8\0\6" "0123456789abcdef" "\0\0\0\0"
                                  "\0\0\0\1" "\0\0\0\0\0\1\0\1\0\0\0\0" "rgbx"
                                  "\0\0\0\2" "\0\0\0\0\xff\xff\xff\xff\xff\xff\xfe\xcc" "\0\0\0\0";
    struct err e;
    const uint8_t *pixels;

    server.piece = 1;
    server.p = said;
    server.n = sizeof said - 1;
    struct rfb *r = rfb_open(h, path, &e);
    if (!r || rfb_frame(h, r, &pixels, &e) >= 0 || e.code != ERR_LIMIT || rfb_alive(r))
        abort();
    rfb_close(r);
    close(server.fd);
    server.fd = -1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct arena a = { 0 };
    struct self self = { 0 };
    struct hand h = { .arena = &a, .self = &self, .deadline_ms = now_ms() + 60000 };
    struct err e = { 0 };

    if (n < 1 + ASKS)
        return 0;
    if (server.listener < 0) {
        begin();
        check_size(&h);
    }
    server.piece = (size_t)data[0] * data[0] + 1;
    server.p = data + 1 + ASKS;
    server.n = n - 1 - ASKS;
    struct rfb *r = rfb_open(&h, path, &e);
    for (int i = 0; r && rfb_fd(r) >= 0 && i < ASKS; i++)
        if (ask(&h, r, data[1 + i], &e) < 0)
            break;
    if (server.fd >= 0) { /* and what comes between calls, at once and then no more */
        (void)!send(server.fd, server.p, server.n, MSG_DONTWAIT | MSG_NOSIGNAL);
        (void)shutdown(server.fd, SHUT_RDWR);
    }
    if (r && rfb_alive(r) && rfb_sync(&h, r, &e) == 0)
        abort(); /* there is nobody any more */
    rfb_close(r);
    if (server.fd < 0)
        server.fd = accept(server.listener, NULL, NULL);
    close(server.fd);
    server.fd = -1;
    arena_done(&a);
    return 0;
}

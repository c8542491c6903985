/* Whatever the X server of a box says to the driver that asks for windows, the pointer and keys: any bytes. What is told is
 * within what came. */
/* needs: src/init/x11.c */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/arena.h"
#include "init/x11.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum { INPUT_MAX = 64 * 1024 }; /* what a socket takes at once */
static int listener = -1;
static char path[64];

static void begin(void)
{
    struct sockaddr_un un = { .sun_family = AF_UNIX };

    snprintf(path, sizeof path, "/tmp/sg-fuzz-x11-%d", (int)getpid());
    (void)unlink(path);
    strncpy(un.sun_path, path, sizeof un.sun_path - 1);
    listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(listener, (struct sockaddr *)&un, sizeof un) < 0 || listen(listener, 1) < 0)
        abort();
}

struct said {
    const uint8_t *p;
    size_t n;
};

/* Says all of it at once, whatever it is asked. x11_open() does not come back before that, so this is a thread. */
static void *talk(void *arg)
{
    const struct said *s = arg;
    int fd = accept(listener, NULL, NULL);

    (void)!send(fd, s->p, s->n, MSG_NOSIGNAL);
    (void)shutdown(fd, SHUT_WR);
    for (char waste[4096]; recv(fd, waste, sizeof waste, 0) > 0;)
        ;
    close(fd);
    return NULL;
}

static size_t sum(struct str s)
{
    size_t v = 0;

    for (size_t i = 0; i < s.n; i++)
        v += (unsigned char)s.p[i];
    return v;
}

/* Events come between a question and its answer: of the server, of another client (the highest bit), and long ones. */
static void check_events(void)
{
    static uint8_t said[1024];
    static const uint8_t hello[8] = { 1, 0, 11, 0, 0, 0, 11 }, events[] = { 34, 0x80 | 33, 35, 0x80 | 35 };
    size_t n = 0;
    pthread_t t;
    struct err e;

    memcpy(said, hello, sizeof hello);
    said[8 + 32] = 7; /* the root, behind no vendor and no formats */
    n = 8 + 44;
    for (size_t i = 0; i < sizeof events; i++, n += 32) {
        said[n] = events[i];
        if ((events[i] & 0x7f) == 35) {
            said[n + 4] = 2;
            memset(said + n + 32, 1, 8);
            n += 8;
        }
    }
    said[n] = 1, said[n + 8] = 200, n += 32; /* the atom, then a property of one word */
    said[n] = 1, said[n + 1] = 32, said[n + 4] = 1, said[n + 8] = 33, said[n + 16] = 1, n += 36;
    said[6] = 11, said[7] = 0;
    struct said s = { said, n };
    if (pthread_create(&t, NULL, talk, &s) != 0)
        abort();
    struct x11 *x = x11_open(path, &e);
    if (!x || !x11_managed(x))
        abort();
    x11_close(x);
    pthread_join(t, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct arena a = { 0 };
    struct x_window v[X_WINDOWS_MAX];
    uint8_t codes[128];
    size_t count = 0, total = 0;
    int64_t width = 1, height = 1;
    int x_at, y_at;
    pthread_t t;
    struct err e;

    if (n < 1 || n > INPUT_MAX)
        return 0;
    if (listener < 0) {
        begin();
        check_events();
    }
    struct said said = { data + 1, n - 1 };
    if (pthread_create(&t, NULL, talk, &said) != 0)
        abort();
    struct x11 *x = x11_open(path, &e);
    if (x && data[0] & 1 && x11_windows(x, &a, v, &count, &e) == 0)
        for (size_t i = 0; i < count; i++)
            total += sum(v[i].title) + sum(v[i].program);
    if (x && data[0] & 2)
        (void)x11_pointer(x, &x_at, &y_at, &e);
    if (x && data[0] & 4 && x11_spare_keys(x, codes, sizeof codes, &count, &e) == 0 && count > sizeof codes)
        abort();
    if (x && data[0] & 8)
        x11_screen(x, &width, &height);
    if (x && data[0] & 16)
        (void)x11_focus(x, 7, &e);
    if (x && data[0] & 32)
        (void)x11_bind(x, 100, 'a', &e);
    if (x && data[0] & 64)
        total += x11_managed(x);
    x11_close(x);
    pthread_join(t, NULL);
    arena_done(&a);
    return total == SIZE_MAX;
}

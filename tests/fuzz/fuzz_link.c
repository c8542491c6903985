/* serve's end of the conversation with a hostile init: whatever it says, the link lives or is closed, and no descriptor
 * is lost. */
/* needs: src/session/link.c */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/loop.h"
#include "session/link.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static char home[64];
static int listener = -1;
static struct loop *loop;

static void on_known(void *arg, uint64_t call, bool finished)
{
    (void)arg, (void)call, (void)finished;
}
static void on_ready_(void *arg)
{
    (void)arg;
}
static void on_result(void *arg, uint64_t call, const struct wire_result *r, struct arena *a, const int *take_fds)
{
    (void)arg, (void)call, (void)a;
    if (r->message.n > 1u << 30) /* reads what it was given */
        abort();
    for (int i = 0; i < 2; i++)
        if (take_fds[i] >= 0)
            close(take_fds[i]);
}
static void on_stream(void *arg, uint64_t call, int take_fd)
{
    (void)arg, (void)call;
    close(take_fd);
}
static void on_dialed_(void *arg, uint64_t id, const struct wire_dialed *d, int take_fd)
{
    (void)arg, (void)id;
    if (d->message.n > 1u << 30 || (take_fd < 0 && !d->error))
        abort();
    if (take_fd >= 0)
        close(take_fd);
}
static void on_down(void *arg, const char *why)
{
    (void)why;
    *(bool *)arg = true;
}
static void on_about_(void *arg, const struct wire_about *a)
{
    (void)arg;
    for (size_t i = 0; i < a->why.n; i++)
        (void)*(volatile const char *)(a->why.p + i);
}

static const struct link_handler handler = { on_known, on_ready_, on_result, on_stream, on_dialed_, on_about_, on_down };

static void clean(void)
{
    static const char *const parts[] = { "/run/box/x.sock", "/run/box", "/run", "" };
    char path[128];

    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        snprintf(path, sizeof path, "%s%s", home, parts[i]);
        (void)remove(path);
    }
}

static void begin(void)
{
    struct sockaddr_un un = { .sun_family = AF_UNIX };
    char dir[128];

    snprintf(home, sizeof home, "/tmp/fuzzlink-%d", (int)getpid());
    snprintf(dir, sizeof dir, "%s/run", home);
    if (mkdir(home, 0700) < 0 || mkdir(dir, 0700) < 0)
        abort();
    snprintf(dir, sizeof dir, "%s/run/box", home);
    if (mkdir(dir, 0700) < 0)
        abort();
    snprintf(un.sun_path, sizeof un.sun_path, "%s/run/box/x.sock", home);
    listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&un, sizeof un) < 0 || listen(listener, 8) < 0)
        abort();
    loop = loop_new();
    atexit(clean);
}

static void stop(void *arg)
{
    (void)arg;
    loop_stop(loop);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    bool down = false;
    struct err e;

    if (listener < 0)
        begin();
    loop_free(loop); /* a stopped loop does not run again */
    loop = loop_new();
    struct link *k = link_new(loop, &handler, &down);
    if (link_open(k, home, "x", &e) < 0)
        abort();
    int peer = accept(listener, NULL, NULL);
    if (n > 64 * 1024)
        n = 64 * 1024;
    if (send(peer, data, n, MSG_NOSIGNAL) < 0 && errno != EPIPE)
        abort();
    shutdown(peer, SHUT_WR);
    struct loop_timer *t = loop_timer_new(loop, stop, NULL);
    loop_timer_set(t, 0);
    loop_run(loop);
    loop_timer_free(t);
    link_free(k);
    close(peer);
    return 0;
}

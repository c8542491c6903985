/* Many terminals that echo at once against one alone. The client shares the processors with what it measures, so it does
 * as little as can be: a send for each key, a wait for all of them, a read for each echo.
 *
 * Measured twice. At a pace: each terminal gets a key every PACE_MS, one alone or all 200 in the same moment, so that
 * both figures are of the same terminal at the same work, with and without the others. And in a chase: the next key as
 * soon as all echoes are there, which has one alone type twenty times as fast as each of 200 does. */
#include "bench.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

enum { TERMINALS = 200, BOXES = 4, ALONE_ROUNDS = 1000, ROUNDS = 400, WARM = 100, BOX_MAX = 64 };
enum { PACE_MS = 20 /* faster than a key that is held down */, CHASE = 0 };

struct terminal {
    int fd;
    pid_t bare;       /* the cat behind a pseudo terminal of our own, with no server between; 0: a WebSocket */
    int64_t typed_ns; /* 0: its echo is here */
};

/* A frame of a client: a mask of zeros changes nothing. */
static void type_keys(const struct terminal *t, const char *keys)
{
    char frame[128] = { (char)0x82, (char)(0x80 | strlen(keys)) };
    size_t n = 6 + strlen(keys);

    if (t->bare) {
        if (write(t->fd, keys, strlen(keys)) != (ssize_t)strlen(keys))
            die("a pseudo terminal takes no key: %s", strerror(errno));
        return;
    }
    memcpy(frame + 6, keys, strlen(keys));
    if (send(t->fd, frame, n, MSG_NOSIGNAL) != (ssize_t)n)
        die("a terminal takes no key: %s", strerror(errno));
}

static struct terminal open_terminal(const char *box)
{
    struct terminal t = { .fd = connect_loopback(opts.port) };
    char text[512];
    size_t n = 0;
    int len = snprintf(text, sizeof text,
                       "GET /box/%s/v1/shell/ws?protocol=binary HTTP/1.1\r\nHost: b\r\nConnection: Upgrade\r\nUpgrade: "
                       "websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n",
                       box);

    if (t.fd < 0 || send(t.fd, text, (size_t)len, MSG_NOSIGNAL) != len)
        die("a terminal cannot be opened");
    for (bool ready = false; !ready;) {
        ssize_t got = recv(t.fd, text + n, sizeof text - 1 - n, 0);
        if (got <= 0)
            die("a terminal was closed: %.*s", (int)n, text);
        n += (size_t)got;
        text[n] = 0;
        ready = memmem(text, n, "\"type\":\"ready\"", 14) != NULL;
        if (!ready && n > sizeof text - 64)
            die("a terminal does not get ready: %s", text);
    }
    type_keys(&t, "PS1=; stty raw -echo; exec cat\n"); /* cat echoes each key at once */
    nap_ms(10);
    return t;
}

static struct terminal open_bare(void)
{
    struct terminal t = { 0 };
    struct termios raw = { 0 };

    cfmakeraw(&raw);
    raw.c_cc[VMIN] = 1;
    t.bare = forkpty(&t.fd, NULL, &raw, NULL);
    if (t.bare == 0) {
        execl("/bin/cat", "cat", NULL);
        _exit(127);
    }
    if (t.bare < 0)
        die("a pseudo terminal cannot be opened: %s", strerror(errno));
    return t;
}

/* Until the shells are quiet; drops what they said. */
static void settle(const struct terminal *all, size_t n)
{
    char sink[65536];

    nap_ms(1500);
    for (size_t i = 0; i < n; i++)
        while (!all[i].bare && recv(all[i].fd, sink, sizeof sink, MSG_DONTWAIT) > 0)
            ;
}

/* What is no output (0x82) is a ping of the server, as text or as control frame, which it sends now and then. */
static const char *skip_pings(const char *p, ssize_t *n)
{
    while (*n >= 2 && p[0] != (char)0x82 && p[1] >= 0 && p[1] < 126 && *n >= 2 + p[1]) {
        *n -= 2 + p[1];
        p += 2 + p[1];
    }
    return p;
}

/* False: it was nothing but a ping. */
static bool take_echo(struct terminal *t, struct samples *s)
{
    char bytes[128];
    ssize_t n = t->bare ? read(t->fd, bytes + 2, 1) + 2 : recv(t->fd, bytes, sizeof bytes, MSG_DONTWAIT);
    const char *echo = t->bare ? bytes : skip_pings(bytes, &n);

    if (n == 0 && echo > bytes)
        return false;
    if (n < 3 || echo[2] != 'k' || !t->typed_ns)
        die("a terminal sent %zd bytes instead of its echo", n);
    n -= 3;
    skip_pings(echo + 3, &n);
    if (n)
        die("a terminal sent %zd bytes more than its echo", n);
    samples_add(s, now_ns() - t->typed_ns);
    t->typed_ns = 0;
    return true;
}

static void nap_until(int64_t ns)
{
    const struct timespec at = { ns / 1000000000, ns % 1000000000 };

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR)
        ;
}

/* All type one key at once; how long until each sees it. Who is late types at once, and does not make up for it. */
static void echo(struct terminal *all, size_t n, size_t rounds, int pace_ms, struct samples *s)
{
    struct epoll_event events[TERMINALS];
    int ep = epoll_create1(EPOLL_CLOEXEC);
    int64_t next = now_ns();

    for (size_t i = 0; i < n; i++)
        if (epoll_ctl(ep, EPOLL_CTL_ADD, all[i].fd, &(struct epoll_event){ EPOLLIN, { .ptr = &all[i] } }) < 0)
            die("epoll: %s", strerror(errno));
    for (; rounds--; next = now_ns() > next ? now_ns() : next) {
        nap_until(next);
        next += pace_ms * (int64_t)1000000;
        for (size_t i = 0; i < n; i++) {
            all[i].typed_ns = now_ns();
            type_keys(&all[i], "k");
        }
        for (size_t left = n; left;) {
            int got = epoll_wait(ep, events, TERMINALS, 60000);
            if (got <= 0)
                die("%zu of %zu terminals do not echo", left, n);
            for (int i = 0; i < got; i++)
                left -= take_echo(events[i].data.ptr, s);
        }
    }
    close(ep);
}

static double cpu_us(void)
{
    struct rusage u;

    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e6 + (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

/* --- what no server can be faster than --- */

/* Between a socket and a pseudo terminal, one process for all, as little as can be: it opens a frame and makes one.
 * Nothing is isolated, kept for who comes back, counted or hidden. */
static void relay(int listener)
{
    struct epoll_event events[TERMINALS];
    int other[4 * TERMINALS + 64], ep = epoll_create1(EPOLL_CLOEXEC);
    bool is_socket[4 * TERMINALS + 64] = { 0 };

    epoll_ctl(ep, EPOLL_CTL_ADD, listener, &(struct epoll_event){ EPOLLIN, { .fd = listener } });
    for (int got; (got = epoll_wait(ep, events, TERMINALS, -1)) > 0;)
        for (int i = 0; i < got; i++) {
            int fd = events[i].data.fd;
            char key[64] = { (char)0x82, 1 };
            if (fd == listener) {
                int in = accept4(listener, NULL, NULL, SOCK_CLOEXEC), one = 1;
                int pty = open_bare().fd;
                setsockopt(in, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
                if (in < 0 || in >= 4 * TERMINALS + 64 || pty >= 4 * TERMINALS + 64)
                    _exit(1);
                other[in] = pty, other[pty] = in, is_socket[in] = true;
                epoll_ctl(ep, EPOLL_CTL_ADD, in, &(struct epoll_event){ EPOLLIN, { .fd = in } });
                epoll_ctl(ep, EPOLL_CTL_ADD, pty, &(struct epoll_event){ EPOLLIN, { .fd = pty } });
            } else if (is_socket[fd]) {
                if (recv(fd, key, sizeof key, 0) != 7)
                    _exit(0); /* the client has ended; so do the shells, by their terminals */
                (void)!write(other[fd], key + 6, 1);
            } else if (read(fd, key + 2, 1) == 1) {
                (void)!send(other[fd], key, 3, MSG_NOSIGNAL);
            }
        }
}

static int relay_port;

static struct terminal open_relayed(void)
{
    struct terminal t = { .fd = connect_loopback(relay_port) };

    if (t.fd < 0)
        die("the relay cannot be reached");
    return t;
}

static pid_t start_relay(void)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof at;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (bind(listener, (struct sockaddr *)&at, size) < 0 || listen(listener, TERMINALS) < 0 ||
        getsockname(listener, (struct sockaddr *)&at, &size) < 0)
        die("the relay cannot listen: %s", strerror(errno));
    pid_t pid = fork();
    if (pid == 0) {
        relay(listener);
        _exit(1);
    }
    close(listener);
    relay_port = ntohs(at.sin_port);
    return pid;
}

struct figures {
    struct samples alone, many;
};

static void measure_many(struct terminal *all, int pace_ms, struct samples *ret)
{
    echo(all, TERMINALS, WARM, CHASE, &(struct samples){ .name = "warm" });
    echo(all, TERMINALS, ROUNDS, pace_ms, ret);
}

static void measure_alone(struct terminal *one, int pace_ms, struct samples *ret)
{
    echo(one, 1, WARM, CHASE, &(struct samples){ .name = "warm" });
    echo(one, 1, ALONE_ROUNDS, pace_ms, ret);
}

static void save_as(struct samples *s, const char *kind, const char *pace, const char *count)
{
    char name[64];

    snprintf(name, sizeof name, "%s-%s-%s", kind, pace, count);
    s->name = name;
    samples_save(s);
}

static void figures_save(struct figures *f, const char *kind, const char *pace)
{
    save_as(&f->alone, kind, pace, "alone");
    save_as(&f->many, kind, pace, "many");
}

/* The same keys without a server: what the kernel and cat take of it, and then what a relay does. */
static void measure_floor(const char *name, struct terminal (*open_one)(void), int pace_ms, const char *pace)
{
    struct figures f = { { .name = "one of those alone," }, { .name = name } };
    struct terminal all[TERMINALS];
    char what[64];

    for (int i = 0; i < TERMINALS; i++)
        all[i] = open_one();
    settle(all, TERMINALS);
    measure_alone(all, pace_ms, &f.alone);
    measure_many(all, pace_ms, &f.many);
    snprintf(what, sizeof what, "streams: 200 %s, %s, p99", name, pace);
    row_times(what, &f.many, .99, &f.alone, .99, 0);
    figures_save(&f, name, pace);
    for (int i = 0; i < TERMINALS; i++) {
        close(all[i].fd);
        if (all[i].bare) {
            kill(all[i].bare, SIGKILL);
            waitpid(all[i].bare, NULL, 0);
        }
    }
}

static void measure_floors(int pace_ms, const char *pace)
{
    measure_floor("bare", open_bare, pace_ms, pace);
    pid_t pid = start_relay();
    measure_floor("relayed", open_relayed, pace_ms, pace);
    waitpid(pid, NULL, 0);
}

static void open_boxes(struct http *h, char boxes[BOXES][BOX_MAX])
{
    for (int i = 0; i < BOXES; i++) {
        http_call(h, "POST", "/sg/v1/boxes", "{}");
        http_expect(h, 201, "make a box");
        if (!json_text(h->body, "id", boxes[i], BOX_MAX))
            die("no id: %.200s", h->body);
    }
}

static void close_boxes(struct http *h, char boxes[BOXES][BOX_MAX])
{
    char path[512];

    for (int i = 0; i < BOXES; i++) {
        snprintf(path, sizeof path, "/sg/v1/boxes/%s", boxes[i]);
        http_call(h, "DELETE", path, NULL);
        http_expect(h, 200, "destroy a box");
    }
}

void measure_terminals(void)
{
    struct figures paced = { { .name = "one alone," } }, chase = { { .name = "one alone," } };
    struct terminal all[TERMINALS];
    char boxes[BOXES][BOX_MAX], text[96];
    struct http h;

    http_open(&h, opts.port);
    open_boxes(&h, boxes);
    all[0] = open_terminal(boxes[0]);
    settle(all, 1);
    measure_alone(all, PACE_MS, &paced.alone);
    measure_alone(all, CHASE, &chase.alone);
    for (int i = 1; i < TERMINALS; i++)
        all[i] = open_terminal(boxes[i % BOXES]);
    settle(all, TERMINALS);
    measure_many(all, PACE_MS, &paced.many);
    double before = cpu_us();
    measure_many(all, CHASE, &chase.many);
    double each = (cpu_us() - before) / (TERMINALS * (WARM + ROUNDS));

    row_times("streams: 200 terminals at a pace, p99", &paced.many, .99, &paced.alone, .99, 20);
    row_times("streams: 200 terminals in a chase, p99", &chase.many, .99, &chase.alone, .99, 20);
    snprintf(text, sizeof text, "p50 %.3f ms at a pace, %.3f in a chase", (double)samples_at(&paced.many, .5) / 1e6,
             (double)samples_at(&chase.many, .5) / 1e6);
    row("  all at once", text, "", 0, ONLY_SHOWN, 0);
    snprintf(text, sizeof text, "%.1f us each", each);
    row("  the client's own", text, "", 0, ONLY_SHOWN, 0);
    figures_save(&paced, "terminals", "pace");
    figures_save(&chase, "terminals", "chase");
    for (int i = 0; i < TERMINALS; i++)
        close(all[i].fd);
    close_boxes(&h, boxes);
    http_close(&h);
    measure_floors(PACE_MS, "pace");
    measure_floors(CHASE, "chase");
}

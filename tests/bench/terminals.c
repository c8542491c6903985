/* Many terminals that echo at once against one alone. The client shares the processors with what it measures, so it does
 * as little as can be: a send for each key, a wait for all of them, a read for each echo. */
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
#include <unistd.h>

enum { TERMINALS = 200, BOXES = 4, ALONE_ROUNDS = 1000, ROUNDS = 400, WARM = 100, BOX_MAX = 64 };

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

/* All type one key at once; how long until each sees it. */
static void echo(struct terminal *all, size_t n, size_t rounds, struct samples *s)
{
    struct epoll_event events[TERMINALS];
    int ep = epoll_create1(EPOLL_CLOEXEC);

    for (size_t i = 0; i < n; i++)
        if (epoll_ctl(ep, EPOLL_CTL_ADD, all[i].fd, &(struct epoll_event){ EPOLLIN, { .ptr = &all[i] } }) < 0)
            die("epoll: %s", strerror(errno));
    while (rounds--) {
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

/* The same keys without a server: what the kernel and cat take of it, and then what a relay does. */
static void measure_floor(const char *name, struct terminal (*open_one)(void), const struct samples *behind_server)
{
    struct samples alone = { .name = "one of those alone," }, many = { .name = name };
    struct terminal all[TERMINALS];
    char what[64];

    for (int i = 0; i < TERMINALS; i++)
        all[i] = open_one();
    settle(all, TERMINALS);
    echo(all, 1, WARM, &(struct samples){ .name = "warm" });
    echo(all, 1, ALONE_ROUNDS, &alone);
    echo(all, TERMINALS, WARM, &(struct samples){ .name = "warm" });
    echo(all, TERMINALS, ROUNDS, &many);
    snprintf(what, sizeof what, "streams: 200 %s, p99", name);
    row_times(what, &many, .99, &alone, .99, 0);
    row_times("streams: the same, against one of ours", &many, .99, behind_server, .99, 0);
    samples_save(&many);
    snprintf(what, sizeof what, "%s-alone", name);
    alone.name = what;
    samples_save(&alone);
    for (int i = 0; i < TERMINALS; i++) {
        close(all[i].fd);
        if (all[i].bare) {
            kill(all[i].bare, SIGKILL);
            waitpid(all[i].bare, NULL, 0);
        }
    }
}

static void measure_floors(const struct samples *behind_server)
{
    measure_floor("bare-terminals", open_bare, behind_server);
    pid_t pid = start_relay();
    measure_floor("relayed-terminals", open_relayed, behind_server);
    waitpid(pid, NULL, 0);
}

void measure_terminals(void)
{
    struct samples alone = { .name = "one alone," }, many = { .name = "terminals-at-once" };
    struct terminal all[TERMINALS];
    char boxes[BOXES][BOX_MAX], path[512], text[96];
    struct http h;

    http_open(&h, opts.port);
    for (int i = 0; i < BOXES; i++) {
        http_call(&h, "POST", "/sg/v1/boxes", "{}");
        http_expect(&h, 201, "make a box");
        if (!json_text(h.body, "id", boxes[i], sizeof boxes[i]))
            die("no id: %.200s", h.body);
    }
    all[0] = open_terminal(boxes[0]);
    settle(all, 1);
    echo(all, 1, WARM, &(struct samples){ .name = "warm" });
    echo(all, 1, ALONE_ROUNDS, &alone);
    for (int i = 1; i < TERMINALS; i++)
        all[i] = open_terminal(boxes[i % BOXES]);
    settle(all, TERMINALS);
    echo(all, TERMINALS, WARM, &(struct samples){ .name = "warm" });
    double before = cpu_us();
    echo(all, TERMINALS, ROUNDS, &many);
    double each = (cpu_us() - before) / (TERMINALS * ROUNDS);

    row_times("streams: 200 terminals echo at once, p99", &many, .99, &alone, .99, 20);
    snprintf(text, sizeof text, "p50 %.3f ms, the client's own %.1f us each", (double)samples_at(&many, .5) / 1e6,
             each);
    row("  all at once", text, "", 0, ONLY_SHOWN, 0);
    measure_floors(&alone);
    samples_save(&many);
    alone.name = "terminal-alone";
    samples_save(&alone);
    for (int i = 0; i < TERMINALS; i++)
        close(all[i].fd);
    for (int i = 0; i < BOXES; i++) {
        snprintf(path, sizeof path, "/sg/v1/boxes/%s", boxes[i]);
        http_call(&h, "DELETE", path, NULL);
        http_expect(&h, 200, "destroy a box");
    }
    http_close(&h);
}

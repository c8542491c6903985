#include "isolate/dns.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"

enum { QUERIES = 256, STREAMS = 32, QUERY_S = 6, STREAM_S = 20, PACKET = 4096, SERVERS = 3, NOBODY = 65534 };

struct query { /* one question under way: its own socket, so that an answer can only be its own */
    int fd;    /* 0: free */
    time_t until;
    struct sockaddr_in from;
};

struct stream {  /* one TCP conversation; what comes on one side leaves on the other */
    int side[2]; /* 0: free */
    time_t until;
};

struct relay {
    int udp, tcp;
    uint32_t servers[SERVERS];
    int server_count;
    unsigned turn;
    struct query queries[QUERIES];
    struct stream streams[STREAMS];
};

int dns_parse_servers(const char *resolv_conf, uint32_t *out, int max)
{
    int n = 0;

    for (const char *p = resolv_conf; p && *p && n < max; p = strchr(p, '\n'), p = p ? p + 1 : NULL) {
        char text[64];
        struct in_addr a;
        if (sscanf(p, "nameserver %63s", text) == 1 && inet_pton(AF_INET, text, &a) == 1)
            out[n++] = ntohl(a.s_addr);
    }
    return n;
}

static void read_servers(struct relay *r)
{
    char text[4096];
    auto_close int fd = open("/etc/resolv.conf", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);

    if (n < 0)
        return; /* as before */
    text[n] = 0;
    uint32_t found[SERVERS];
    int count = dns_parse_servers(text, found, SERVERS);
    if (count > 0) {
        memcpy(r->servers, found, sizeof found);
        r->server_count = count;
    }
}

static time_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec;
}

static int dial(struct relay *r, int type)
{
    if (r->server_count == 0)
        return -1;
    struct sockaddr_in to = { .sin_family = AF_INET,
                              .sin_port = htons(53),
                              .sin_addr.s_addr = htonl(r->servers[r->turn++ % (unsigned)r->server_count]) };
    int fd = socket(AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) < 0 && errno != EINPROGRESS) {
        close(fd);
        return -1;
    }
    return fd;
}

/* The oldest question gives way: a box that floods hurts itself and the slow, not the relay. */
static struct query *free_query(struct relay *r)
{
    struct query *oldest = &r->queries[0];

    for (int i = 0; i < QUERIES; i++) {
        if (r->queries[i].fd == 0)
            return &r->queries[i];
        if (r->queries[i].until < oldest->until)
            oldest = &r->queries[i];
    }
    close(oldest->fd);
    oldest->fd = 0;
    return oldest;
}

static void on_question(struct relay *r)
{
    char packet[PACKET];
    struct sockaddr_in from;
    socklen_t len = sizeof from;

    ssize_t n = recvfrom(r->udp, packet, sizeof packet, MSG_DONTWAIT, (struct sockaddr *)&from, &len);
    if (n < 12)
        return;
    int fd = dial(r, SOCK_DGRAM);
    if (fd < 0)
        return;
    (void)send(fd, packet, (size_t)n, 0);
    *free_query(r) = (struct query){ .fd = fd, .until = now() + QUERY_S, .from = from };
}

static void on_answer(struct relay *r, struct query *q)
{
    char packet[PACKET];

    ssize_t n = recv(q->fd, packet, sizeof packet, MSG_DONTWAIT);
    if (n >= 12)
        (void)sendto(r->udp, packet, (size_t)n, MSG_DONTWAIT, (struct sockaddr *)&q->from, sizeof q->from);
    close(q->fd);
    q->fd = 0;
}

static void on_stream(struct relay *r)
{
    int fd = accept4(r->tcp, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
        return;
    for (int i = 0; i < STREAMS; i++)
        if (r->streams[i].side[0] == 0) {
            int up = dial(r, SOCK_STREAM);
            if (up < 0)
                break;
            r->streams[i] = (struct stream){ .side = { fd, up }, .until = now() + STREAM_S };
            return;
        }
    close(fd);
}

static void end_stream(struct stream *s)
{
    close(s->side[0]);
    close(s->side[1]);
    s->side[0] = s->side[1] = 0;
}

static void move_bytes(struct stream *s, int from)
{
    char bytes[PACKET];

    ssize_t n = recv(s->side[from], bytes, sizeof bytes, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    /* messages are small; a peer whose window is full at this point is not worth waiting for */
    if (n <= 0 || send(s->side[!from], bytes, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL) != n)
        end_stream(s);
}

/* poll's list: the two doors, then questions, then both sides of streams; -1 is skipped by poll itself */
static void turn(struct relay *r, struct pollfd *p)
{
    time_t t = now();

    p[0] = (struct pollfd){ .fd = r->udp, .events = POLLIN };
    p[1] = (struct pollfd){ .fd = r->tcp, .events = POLLIN };
    for (int i = 0; i < QUERIES; i++) {
        struct query *q = &r->queries[i];
        if (q->fd && q->until < t) {
            close(q->fd);
            q->fd = 0;
        }
        p[2 + i] = (struct pollfd){ .fd = q->fd ? q->fd : -1, .events = POLLIN };
    }
    struct pollfd *s = p + 2 + QUERIES;
    for (int i = 0; i < STREAMS; i++) {
        if (r->streams[i].side[0] && r->streams[i].until < t)
            end_stream(&r->streams[i]);
        for (int k = 0; k < 2; k++)
            s[2 * i + k] =
                (struct pollfd){ .fd = r->streams[i].side[0] ? r->streams[i].side[k] : -1, .events = POLLIN };
    }
    if (poll(p, 2 + QUERIES + 2 * STREAMS, 2000) <= 0)
        return;
    for (int i = 0; i < QUERIES; i++)
        if (p[2 + i].revents)
            on_answer(r, &r->queries[i]);
    for (int i = 0; i < 2 * STREAMS; i++)
        if (s[i].revents && r->streams[i / 2].side[0] == p[2 + QUERIES + i / 2 * 2].fd)
            move_bytes(&r->streams[i / 2], i % 2);
    if (p[0].revents)
        on_question(r);
    if (p[1].revents)
        on_stream(r);
}

static int listen_at(uint32_t gateway, int type, struct err *e)
{
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(53), .sin_addr.s_addr = htonl(gateway) };
    int one = 1;
    auto_close int fd = socket(AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) < 0 ||
        bind(fd, (struct sockaddr *)&a, sizeof a) < 0 || (type == SOCK_STREAM && listen(fd, 64) < 0))
        return err_sys(e, "listen for DNS on the gateway");
    return TAKE_FD(fd);
}

static void serve(struct relay *r)
{
    static struct pollfd p[2 + QUERIES + 2 * STREAMS];
    time_t checked = 0;

    /* It talks to boxes: whatever it is talked into, it is nobody and may open nothing but sockets. */
    if (setgroups(0, NULL) < 0 || setresgid(NOBODY, NOBODY, NOBODY) < 0 || setresuid(NOBODY, NOBODY, NOBODY) < 0)
        _exit(1);
    (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* again: a change of ids clears it */
    (void)setrlimit(RLIMIT_FSIZE, &(struct rlimit){ 0, 0 });
    (void)setrlimit(RLIMIT_NPROC, &(struct rlimit){ 0, 0 });
    for (;;) {
        if (now() - checked > 5) {
            read_servers(r);
            checked = now();
        }
        turn(r, p);
    }
}

pid_t dns_start(uint32_t gateway, struct err *e)
{
    static struct relay r;
    sigset_t none;

    auto_close int udp = listen_at(gateway, SOCK_DGRAM, e);
    if (udp < 0)
        return udp;
    auto_close int tcp = listen_at(gateway, SOCK_STREAM, e);
    if (tcp < 0)
        return tcp;
    pid_t parent = getpid(), pid = fork();
    if (pid < 0)
        return err_sys(e, "fork the DNS relay");
    if (pid > 0)
        return pid;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    (void)prctl(PR_SET_NAME, "sandglass-dns");
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    int doors[2] = { fcntl(udp, F_DUPFD, 16), fcntl(tcp, F_DUPFD, 16) }; /* out of the way first */
    if (dup2(doors[0], 3) < 0 || dup2(doors[1], 4) < 0)
        _exit(1);
    (void)syscall(SYS_close_range, 5, ~0U, 0);
    r.udp = 3;
    r.tcp = 4;
    serve(&r);
    _exit(0);
}

void dns_stop(pid_t pid)
{
    (void)kill(pid, SIGKILL); /* our child, not yet waited for: the number is its own */
    (void)waitpid(pid, NULL, 0);
}

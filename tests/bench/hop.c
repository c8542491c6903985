/* What a `file:read` takes if nothing is left of it but its way: HTTP to one process, a message to another that reads the
 * file, a log of both, the answer. No JSON is read, nothing is isolated, indexed or counted, and requests are taken to
 * come whole: what is slower than this is ours, what is not is the machine's. */
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum { WORKERS = 32, FDS = 1024, CALL = 230, RESULT = 1200, BODY = 1600, TURN = 64, LOG = TURN * (CALL + RESULT) };

static char file_name[512];

static void work(int fd)
{
    char bytes[RESULT];

    for (int32_t who; recv(fd, bytes, CALL, MSG_WAITALL) == CALL;) {
        memcpy(&who, bytes, sizeof who);
        int file = open(file_name, O_RDONLY | O_CLOEXEC);
        if (file < 0 || read(file, bytes + sizeof who, 1024) != 1024)
            _exit(1);
        close(file);
        if (send(fd, bytes, RESULT, MSG_NOSIGNAL) != RESULT)
            _exit(1);
    }
    _exit(0);
}

static void start_workers(int fds[WORKERS])
{
    char text[1024] = { 0 };
    int pair[2];

    snprintf(file_name, sizeof file_name, "%s/hop.txt", opts.out);
    int file = open(file_name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (file < 0 || write(file, text, sizeof text) != (ssize_t)sizeof text)
        die("%s: %s", file_name, strerror(errno));
    close(file);
    for (int i = 0; i < WORKERS; i++) {
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
            die("socketpair: %s", strerror(errno));
        if (fork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            close(pair[0]);
            work(pair[1]);
        }
        close(pair[1]);
        fds[i] = pair[0];
    }
}

static int listen_here(void)
{
    struct sockaddr_in at = { .sin_family = AF_INET,
                              .sin_port = htons((uint16_t)opts.port),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, (struct sockaddr *)&at, sizeof at) < 0 || listen(fd, 64) < 0)
        die("the hop cannot listen: %s", strerror(errno));
    return fd;
}

struct turn { /* as ours: the log first, then what it is of */
    char log[LOG];
    size_t logged;
    struct {
        int to;
        int32_t who; /* -1: an answer */
    } sends[TURN];
    size_t count;
};

static void end_turn(struct turn *t, int log)
{
    static char answer[128 + BODY], call[CALL];
    static size_t answer_n;

    if (!answer_n) {
        answer_n =
            (size_t)snprintf(answer, sizeof answer, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", BODY) + BODY;
        memset(answer + answer_n - BODY, ' ', BODY);
    }
    if (t->logged && write(log, t->log, t->logged) != (ssize_t)t->logged)
        die("the log cannot be written");
    for (size_t i = 0; i < t->count; i++) {
        bool is_call = t->sends[i].who >= 0;
        memcpy(call, &t->sends[i].who, sizeof t->sends[i].who);
        (void)!send(t->sends[i].to, is_call ? call : answer, is_call ? CALL : answer_n, MSG_NOSIGNAL);
    }
    t->logged = t->count = 0;
}

static void put(struct turn *t, const char *record, size_t n, int to, int32_t who)
{
    memcpy(t->log + t->logged, record, n);
    t->logged += n;
    t->sends[t->count].to = to;
    t->sends[t->count++].who = who;
}

/* Until it is killed. */
void serve_hop(void)
{
    static const char nothing[] = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
    static struct turn turn;
    int workers[WORKERS], ep = epoll_create1(EPOLL_CLOEXEC), listener = listen_here(), one = 1;
    bool is_worker[FDS] = { 0 };
    struct epoll_event events[TURN];
    char path[512], bytes[4096];

    start_workers(workers);
    snprintf(path, sizeof path, "%s/hop.log", opts.out);
    int log = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    for (int i = 0; i <= WORKERS; i++) {
        int fd = i < WORKERS ? workers[i] : listener;
        is_worker[fd] = i < WORKERS;
        epoll_ctl(ep, EPOLL_CTL_ADD, fd, &(struct epoll_event){ EPOLLIN, { .fd = fd } });
    }
    for (int got; (got = epoll_wait(ep, events, TURN, -1)) > 0; end_turn(&turn, log))
        for (int i = 0; i < got; i++) {
            int fd = events[i].data.fd;
            if (fd == listener) {
                int in = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
                setsockopt(in, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
                epoll_ctl(ep, EPOLL_CTL_ADD, in, &(struct epoll_event){ EPOLLIN, { .fd = in } });
            } else if (is_worker[fd]) {
                int32_t who;
                if (recv(fd, bytes, RESULT, MSG_WAITALL) != RESULT)
                    die("a worker of the hop ended");
                memcpy(&who, bytes, sizeof who);
                put(&turn, bytes, RESULT, who, -1);
            } else {
                ssize_t n = recv(fd, bytes, sizeof bytes, 0);
                const char *worker = n > 0 ? memmem(bytes, (size_t)n, "wrk-", 4) : NULL;
                if (worker)
                    put(&turn, bytes, CALL, workers[(unsigned)atoi(worker + 4) % WORKERS], fd);
                else if (n > 0) /* who asks whether it is there */
                    (void)!send(fd, nothing, sizeof nothing - 1, MSG_NOSIGNAL);
                else
                    close(fd);
            }
        }
}

/* The log under load: 32 connections call the no-op tool as fast as they are answered, then every process of the server
 * is killed with SIGKILL. What was answered is written down (worker, step, text) and looked up in the log of the next
 * server: each answered step exactly once, with the text that was sent. */
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CONNECTIONS = 32, IN_MAX = 65536, ROLES_MAX = 16, PAGE = 1000 };

struct conn {
    int fd;
    int index;
    size_t in_n;
    uint64_t sent, answered;
    uint64_t *step_of; /* step number of the n-th request, from 1; 0: not answered */
    size_t size;
    char in[IN_MAX];
};

static void ask(struct conn *c)
{
    char body[160], out[512];
    int n = snprintf(body, sizeof body,
                     "{\"worker_id\":\"rec-%02d\",\"action\":\"probe:echo\",\"params\":{\"text\":\"%02d-%llu\"}}",
                     c->index, c->index, (unsigned long long)c->sent + 1);
    int len = snprintf(out, sizeof out,
                       "POST /api/v1/execute HTTP/1.1\r\nHost: b\r\nContent-Type: application/json\r\n"
                       "Content-Length: %d\r\n\r\n%s",
                       n, body);

    if (send(c->fd, out, (size_t)len, MSG_NOSIGNAL) == len)
        c->sent++;
}

static void note(struct conn *c, const char *body)
{
    int64_t step = json_number(body, "step", 0);

    if (json_number(body, "code", -1) != 0 || step <= 0)
        die("not the answer of a recorded step: %.400s", body);
    if (c->sent >= c->size) {
        c->size = c->size ? 2 * c->size : 65536;
        c->step_of = realloc(c->step_of, c->size * sizeof *c->step_of);
        if (!c->step_of)
            die("out of memory");
    }
    c->step_of[c->sent] = (uint64_t)step; /* one request at a time: this answers the last one */
    c->answered = c->sent;
}

/* False: the connection is over. */
static bool take(struct conn *c, bool more)
{
    const char *body;
    size_t body_n;
    int status;

    ssize_t got = recv(c->fd, c->in + c->in_n, sizeof c->in - 1 - c->in_n, MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN)
        return true;
    if (got <= 0)
        return false;
    c->in_n += (size_t)got;
    c->in[c->in_n] = 0;
    size_t whole = http_reply(c->in, c->in_n, &status, &body, &body_n);
    if (!whole)
        return true;
    if (status != 200)
        die("status %d: %.400s", status, body);
    note(c, body);
    c->in_n = 0;
    if (more)
        ask(c);
    return true;
}

/* Guard first, stopped, so that it restarts nothing; then the roles, which are its children; then guard. */
static void kill_server(pid_t guard)
{
    pid_t roles[ROLES_MAX];
    size_t n = 0;
    char path[64], line[64];
    int pid;

    kill(guard, SIGSTOP);
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)guard, (int)guard);
    FILE *f = fopen(path, "r");
    while (f && n < ROLES_MAX && fscanf(f, "%d", &pid) == 1) {
        snprintf(path, sizeof path, "/proc/%d/cmdline", pid);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t got = fd >= 0 ? read(fd, line, sizeof line) : -1;
        if (fd >= 0)
            close(fd);
        if (got > 15 && memcmp(line, "sandglass\0role", 15) == 0) /* not the inits of boxes */
            roles[n++] = pid;
    }
    if (f)
        fclose(f);
    if (n < 3)
        die("found only %zu roles below guard %d", n, (int)guard);
    for (size_t i = 0; i < n; i++)
        kill(roles[i], SIGKILL);
    kill(guard, SIGKILL);
}

static void save(struct conn *conns, uint64_t total)
{
    char path[512];

    snprintf(path, sizeof path, "%s/record_answered.tsv", opts.out);
    FILE *f = fopen(path, "w");
    if (!f)
        die("cannot write %s", path);
    for (int i = 0; i < CONNECTIONS; i++)
        for (uint64_t k = 1; k <= conns[i].answered; k++)
            fprintf(f, "rec-%02d\t%llu\t%02d-%llu\n", i, (unsigned long long)conns[i].step_of[k], i,
                    (unsigned long long)k);
    if (fclose(f) != 0)
        die("cannot write %s", path);
    fprintf(stderr, "  %llu steps answered\n", (unsigned long long)total);
}

void measure_record(void)
{
    struct conn *conns = calloc(CONNECTIONS, sizeof *conns);
    struct epoll_event events[CONNECTIONS];
    int ep = epoll_create1(EPOLL_CLOEXEC), open_count = CONNECTIONS;
    uint64_t total = 0;

    if (!conns || ep < 0)
        die("out of memory");
    for (int i = 0; i < CONNECTIONS; i++) {
        conns[i].index = i;
        conns[i].fd = connect_loopback(opts.port);
        if (conns[i].fd < 0)
            die("cannot connect");
        struct epoll_event ev = { .events = EPOLLIN, .data.ptr = &conns[i] };
        epoll_ctl(ep, EPOLL_CTL_ADD, conns[i].fd, &ev);
        ask(&conns[i]);
    }
    int64_t begin = now_ns(), end = begin + (int64_t)(opts.seconds * 1e9), killed = 0;
    while (open_count > 0) {
        int n = epoll_wait(ep, events, CONNECTIONS, killed ? 3000 : 100);
        if (killed && n == 0)
            break;
        for (int i = 0; i < n; i++) {
            struct conn *c = events[i].data.ptr;
            if (!take(c, !killed)) {
                if (!killed)
                    die("the server closed a connection before it was killed");
                epoll_ctl(ep, EPOLL_CTL_DEL, c->fd, NULL);
                close(c->fd);
                open_count--;
            }
        }
        if (!killed && now_ns() >= end) {
            kill_server(opts.guard);
            killed = now_ns();
        }
    }
    for (int i = 0; i < CONNECTIONS; i++)
        total += conns[i].answered;
    save(conns, total);
    char ours[64];
    double rate = (double)total / ((double)(killed - begin) / 1e9);
    snprintf(ours, sizeof ours, "%.0f steps/s for %.1f s", rate, opts.seconds);
    row("record: steps/s, 32 sessions, batch", ours, "20000", rate / 20000, AT_LEAST, 1);
    for (int i = 0; i < CONNECTIONS; i++)
        free(conns[i].step_of);
    free(conns);
}

/* --- reading it back --- */

struct expected { /* one worker: text number by step */
    uint64_t *of_step;
    size_t size, answered;
    unsigned char *seen;
    uint64_t found, extra, wrong, twice;
};

static void load(struct expected *e)
{
    char path[512];
    int worker, index;
    unsigned long long step, k;

    snprintf(path, sizeof path, "%s/record_answered.tsv", opts.out);
    FILE *f = fopen(path, "r");
    if (!f)
        die("cannot read %s", path);
    while (fscanf(f, "rec-%d\t%llu\t%d-%llu\n", &worker, &step, &index, &k) == 4) {
        struct expected *x = &e[worker];
        if (step >= x->size) {
            size_t size = step * 2 + 1024;
            x->of_step = realloc(x->of_step, size * sizeof *x->of_step);
            x->seen = realloc(x->seen, size);
            if (!x->of_step || !x->seen)
                die("out of memory");
            memset(x->of_step + x->size, 0, (size - x->size) * sizeof *x->of_step);
            memset(x->seen + x->size, 0, size - x->size);
            x->size = size;
        }
        if (x->of_step[step])
            die("step %llu of rec-%02d was given to two answers", step, worker);
        x->of_step[step] = k;
        x->answered++;
    }
    fclose(f);
}

static void check_step(struct expected *x, const char *object)
{
    char text[64];
    int64_t step = json_number(object, "step", 0);
    const char *params = strstr(object, "\"params\":");

    if (step <= 0 || !params || !json_text(params, "text", text, sizeof text))
        die("a step without number or text: %.300s", object);
    if ((size_t)step >= x->size || !x->of_step[step]) {
        x->extra++; /* recorded, and its answer did not get through */
        return;
    }
    const char *dash = strchr(text, '-');
    x->wrong += !dash || strtoull(dash + 1, NULL, 10) != x->of_step[step];
    x->twice += x->seen[step];
    x->found += !x->seen[step];
    x->seen[step] = 1;
}

/* Calls check_step for each object of the array; returns how many. Our own JSON: strings have no braces. */
static size_t each_step(struct expected *x, char *json)
{
    char *p = strstr(json, "\"steps\":");
    size_t n = 0;
    int depth = 0;
    char *begin = NULL;

    if (!p)
        die("no steps in %.300s", json);
    for (p = strchr(p, '['); *p && !(*p == ']' && depth == 0); p++) {
        if (*p == '{' && depth++ == 0)
            begin = p;
        if (*p == '}' && --depth == 0) {
            char after = p[1];
            p[1] = 0;
            check_step(x, begin);
            p[1] = after;
            n++;
        }
    }
    return n;
}

static void read_back(struct http *h, int worker, struct expected *x)
{
    char path[256], id[128];
    int64_t after = 0;

    snprintf(path, sizeof path, "/sg/v1/trajectories?worker=rec-%02d", worker);
    http_call(h, "GET", path, NULL);
    http_expect(h, 200, path);
    if (!json_text(h->body, "id", id, sizeof id))
        die("no trajectory of rec-%02d: %.300s", worker, h->body);
    for (;;) {
        snprintf(path, sizeof path, "/sg/v1/trajectories/%s/steps?limit=%d&after=%lld", id, PAGE, (long long)after);
        http_call(h, "GET", path, NULL);
        http_expect(h, 200, path);
        size_t n = each_step(x, h->body);
        const char *next = strstr(h->body, "\"next\":");
        int64_t at = next ? strtoll(next + 7, NULL, 10) : 0;
        if (n == 0 || at <= after)
            break;
        after = at;
    }
}

void measure_verify(void)
{
    struct expected e[CONNECTIONS] = { 0 };
    uint64_t answered = 0, found = 0, extra = 0, wrong = 0, twice = 0;
    char ours[128], theirs[64];
    struct http h;

    load(e);
    http_open(&h, opts.port);
    for (int i = 0; i < CONNECTIONS; i++) {
        read_back(&h, i, &e[i]);
        answered += e[i].answered;
        found += e[i].found;
        extra += e[i].extra;
        wrong += e[i].wrong;
        twice += e[i].twice;
    }
    snprintf(ours, sizeof ours, "%llu found, %llu wrong, %llu twice", (unsigned long long)found,
             (unsigned long long)wrong, (unsigned long long)twice);
    snprintf(theirs, sizeof theirs, "%llu answered", (unsigned long long)answered);
    row("record: in the log after kill -9", ours, theirs, wrong || twice ? 0 : (double)found / (double)answered,
        AT_LEAST, 1);
    snprintf(ours, sizeof ours, "%llu recorded, answer not received", (unsigned long long)extra);
    row("  record", ours, "at most 32: one per connection", 0, ONLY_SHOWN, 0);
    http_close(&h);
}

/* --- for wrk --- */

static void check_file(struct http *h, int worker, const char *name, const char *mode, const char *text)
{
    char body[2048];

    snprintf(body, sizeof body,
             "{\"worker_id\":\"wrk-%02d\",\"action\":\"file:write\","
             "\"params\":{\"path\":\"%s\",\"mode\":\"%s\",\"content\":\"%s\"}}",
             worker, name, mode, text);
    http_call(h, "POST", "/api/v1/execute", body);
    http_expect(h, 200, "file:write");
    snprintf(body, sizeof body, "{\"worker_id\":\"wrk-%02d\",\"action\":\"file:read\",\"params\":{\"path\":\"%s\"}}",
             worker, name);
    http_call(h, "POST", "/api/v1/execute", body);
    http_expect(h, 200, "file:read");
    if (json_number(h->body, "code", -1) != 0 || !strstr(h->body, text))
        die("file:read: %.400s", h->body);
}

/* 32 workers with a box and two files of 1 KiB in each. */
void measure_file_setup(void)
{
    char body[256], text[1025];
    struct http h;

    memset(text, 'x', 1024);
    for (int i = 63; i < 1024; i += 64)
        text[i] = '.';
    text[1024] = 0;
    http_open(&h, opts.port);
    for (int i = 1; i <= CONNECTIONS; i++) {
        snprintf(body, sizeof body, "{\"worker_id\":\"wrk-%02d\",\"resource_type\":\"file\"}", i);
        http_call(&h, "POST", "/api/v1/session/create", body);
        http_expect(&h, 200, "session/create");
        check_file(&h, i, "k.txt", "644", text);
        check_file(&h, i, "private.txt", "600", text);
    }
    http_close(&h);
}

/* Prints how many steps wrk's workers have in the log: what was counted was recorded. */
void measure_check_steps(void)
{
    char path[128];
    long long steps = 0;
    struct http h;

    http_open(&h, opts.port);
    for (int i = 1; i <= CONNECTIONS; i++) {
        snprintf(path, sizeof path, "/sg/v1/trajectories?worker=wrk-%02d", i);
        http_call(&h, "GET", path, NULL);
        http_expect(&h, 200, path);
        steps += json_number(h.body, "steps", 0);
    }
    printf("%lld\n", steps);
    http_close(&h);
}

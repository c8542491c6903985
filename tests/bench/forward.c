/* Fast-forward: a script of real steps is recorded in a box, one after another; then the client sends it again on one
 * connection, one call at a time, as a client does that has lost its place. Every answer is looked at. One client alone
 * measures mostly how fast the machine wakes one process after the other; several, each with a trajectory of its own,
 * what the server gives back. */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS = 5, CLIENTS = 16 };

static char box[64], trajectory[32] = "bench-forward";

static void call(struct http *h, size_t i, const char *forward)
{
    char path[128], body[256], want[64];

    snprintf(path, sizeof path, "/sg/v1/boxes/%s/execute", box);
    snprintf(body, sizeof body,
             "{\"tool\":\"bash:run\",\"params\":{\"command\":\"echo line %zu\"},\"trajectory_id\":\"%s\"%s}",
             i, trajectory, forward);
    http_call(h, "POST", path, body);
    http_expect(h, 200, "step");
    snprintf(want, sizeof want, "\"stdout\":\"line %zu\\n\"", i);
    if (!strstr(h->body, want) || (forward[0] && !strstr(h->body, "\"replayed\":true")))
        die("step %zu: not the recorded answer: %.400s", i, h->body);
}

static double rate_of(struct http *h, size_t n, const char *first, const char *forward)
{
    int64_t begin = now_ns();

    for (size_t i = 0; i < n; i++)
        call(h, i, i == 0 ? first : forward);
    return (double)n * 1e9 / (double)(now_ns() - begin);
}

static void make_box(struct http *h)
{
    http_open(h, opts.port);
    http_call(h, "POST", "/sg/v1/boxes", "{}");
    http_expect(h, 201, "box");
    const char *id = strstr(h->body, "\"id\":\"");
    if (!id || sscanf(id + 6, "%63[^\"]", box) != 1)
        die("no box in %.200s", h->body);
}

/* One of several: records, says so, waits for the others, sends all of it again. */
static void client(int number, size_t n, int ready, int go)
{
    struct http h;
    char byte = 0;

    snprintf(trajectory, sizeof trajectory, "bench-forward-%d", number);
    make_box(&h);
    (void)rate_of(&h, n, "", "");
    if (write(ready, &byte, 1) != 1 || read(go, &byte, 1) != 0)
        die("the others are gone");
    for (size_t r = 0; r < ROUNDS; r++)
        (void)rate_of(&h, n, ",\"fast_forward\":\"begin\"", ",\"fast_forward\":true");
    http_close(&h);
    _exit(0);
}

static double several(size_t n)
{
    int ready[2], go[2], status;
    char byte;

    if (pipe(ready) < 0 || pipe(go) < 0)
        die("pipe");
    for (int i = 0; i < CLIENTS; i++)
        if (fork() == 0) {
            close(go[1]);
            client(i, n, ready[1], go[0]);
        }
    for (int i = 0; i < CLIENTS; i++)
        if (read(ready[0], &byte, 1) != 1)
            die("a client ended");
    int64_t begin = now_ns();
    close(go[1]); /* its end is the sign */
    for (int i = 0; i < CLIENTS; i++)
        if (wait(&status) < 0 || status != 0)
            die("a client failed");
    return (double)(CLIENTS * ROUNDS * n) * 1e9 / (double)(now_ns() - begin);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void measure_forward(void)
{
    struct http h;
    double rates[ROUNDS];
    size_t n = opts.n * 20;
    char ours[80], live[80];

    make_box(&h);
    double recorded = rate_of(&h, n, "", "");
    for (size_t r = 0; r < ROUNDS; r++)
        rates[r] = rate_of(&h, n, ",\"fast_forward\":\"begin\"", ",\"fast_forward\":true");
    http_close(&h);
    qsort(rates, ROUNDS, sizeof *rates, by_value);
    snprintf(ours, sizeof ours, "%.0f steps/s (median of %d x %zu)", rates[ROUNDS / 2], ROUNDS, n);
    snprintf(live, sizeof live, "10000 steps/s (live: %.0f/s)", recorded);
    row("fast-forward, one connection", ours, live, rates[ROUNDS / 2] / 10000, AT_LEAST, 1);
    double rate = several(opts.n * 2);
    snprintf(ours, sizeof ours, "%.0f steps/s (%d x %zu)", rate, CLIENTS, opts.n * 2 * ROUNDS);
    snprintf(live, sizeof live, "fast-forward, %d clients", CLIENTS);
    row(live, ours, "10000 steps/s", rate / 10000, AT_LEAST, 1);
}

/* The harness behind run.sh, which starts the server and says where it is. One word chooses the measure. */
#include "bench.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

struct options opts = { .n = 200, .boxes = 1000, .seconds = 4, .out = "." };

void die(const char *fmt, ...)
{
    va_list ap;

    fputs("bench: ", stderr);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
    exit(1);
}

int64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void nap_ms(long ms)
{
    nanosleep(&(struct timespec){ .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 }, NULL);
}

/* A port that nobody has now. */
static void print_free_port(void)
{
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t n = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof a) < 0 || getsockname(fd, (struct sockaddr *)&a, &n) < 0)
        die("no free port: %s", strerror(errno));
    printf("%d\n", ntohs(a.sin_port));
    close(fd);
}

/* Until somebody answers there: a server that has just begun. */
static void wait_ready(void)
{
    struct http h;
    int64_t until = now_ns() + 20000000000;

    while (!http_can_connect(opts.port)) {
        if (now_ns() > until)
            die("nobody listens on port %d", opts.port);
        nap_ms(20);
    }
    http_open(&h, opts.port);
    for (;;) {
        http_call(&h, "GET", "/sg/v1/status", NULL);
        int64_t ready = json_number(h.body, "ready", -1);
        if (h.status != 503 && (h.status != 200 || ready >= json_number(h.body, "wanted", 0)))
            break;
        if (now_ns() > until)
            die("the server does not become ready: %d %.300s", h.status, h.body);
        nap_ms(20);
    }
    http_close(&h);
}

static const struct {
    const char *name;
    void (*run)(void);
} words[] = {
    { "cold", measure_cold },           { "pool", measure_pool },
    { "live", measure_live },           { "density", measure_density },
    { "record", measure_record },       { "verify", measure_verify },
    { "files", measure_file_setup },    { "steps", measure_check_steps },
    { "port", print_free_port },        { "wait", wait_ready },
    { "clean", destroy_all },           { "forward", measure_forward },
    { "terminals", measure_terminals },
};

int main(int argc, char **argv)
{
    int o;

    while ((o = getopt(argc, argv, "p:n:b:s:g:o:c:k:")) >= 0)
        switch (o) {
        case 'p': opts.port = atoi(optarg); break;
        case 'n': opts.n = strtoul(optarg, NULL, 10); break;
        case 'b': opts.boxes = strtoul(optarg, NULL, 10); break;
        case 's': opts.seconds = atof(optarg); break;
        case 'g': opts.guard = atoi(optarg); break;
        case 'o': opts.out = optarg; break;
        case 'c': opts.bundle = optarg; break;
        case 'k': opts.group = optarg; break;
        default: return 2;
        }
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (optind < argc && strcmp(argv[optind], words[i].name) == 0) {
            words[i].run();
            return 0;
        }
    die("which measure?");
}

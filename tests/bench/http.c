/* A client with as little of its own as possible: one connection, one write, one reply, no copies but the kernel's. */
#include "bench.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

enum { IN_SIZE = 8 << 20 };

int connect_loopback(int port)
{
    struct sockaddr_in to = { .sin_family = AF_INET,
                              .sin_port = htons((uint16_t)port),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        die("socket: %s", strerror(errno));
    if (connect(fd, (struct sockaddr *)&to, sizeof to) < 0) {
        close(fd);
        return -1;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

bool http_can_connect(int port)
{
    int fd = connect_loopback(port);

    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

void http_open(struct http *h, int port)
{
    *h = (struct http){ .fd = connect_loopback(port), .in = malloc(IN_SIZE + 1), .in_size = IN_SIZE };
    if (h->fd < 0 || !h->in)
        die("cannot connect to port %d", port);
}

void http_close(struct http *h)
{
    close(h->fd);
    free(h->in);
}

size_t http_reply(const char *p, size_t n, int *status, const char **body, size_t *body_n)
{
    const char *end = memmem(p, n, "\r\n\r\n", 4);

    if (!end)
        return 0;
    if (n < 12 || memcmp(p, "HTTP/1.1 ", 9) != 0)
        die("not HTTP: %.60s", p);
    *status = atoi(p + 9);
    *body_n = 0;
    for (const char *line = p; line < end;) {
        const char *next = memmem(line, (size_t)(end + 2 - line), "\r\n", 2);
        if (strncasecmp(line, "content-length:", 15) == 0)
            *body_n = strtoul(line + 15, NULL, 10);
        if (strncasecmp(line, "transfer-encoding:", 18) == 0)
            die("a chunked reply: this client does not read those");
        line = next + 2;
    }
    *body = end + 4;
    size_t whole = (size_t)(end + 4 - p) + *body_n;
    return n >= whole ? whole : 0;
}

void http_call(struct http *h, const char *method, const char *path, const char *body)
{
    char out[65536];
    size_t n = 0;
    const char *text;
    int len = snprintf(out, sizeof out,
                       "%s %s HTTP/1.1\r\nHost: b\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
                       method, path, body ? strlen(body) : 0, body ? body : "");

    if (len < 0 || (size_t)len >= sizeof out)
        die("the request is too long");
    if (send(h->fd, out, (size_t)len, MSG_NOSIGNAL) != len)
        die("%s %s: send: %s", method, path, strerror(errno));
    for (;;) {
        ssize_t got = recv(h->fd, h->in + n, h->in_size - n, 0);
        if (got <= 0)
            die("%s %s: the server closed the connection", method, path);
        n += (size_t)got;
        h->in[n] = 0;
        size_t whole = http_reply(h->in, n, &h->status, &text, &h->body_n);
        if (whole && whole < n)
            die("%s %s: more than one reply", method, path);
        if (whole)
            break;
        if (n == h->in_size)
            die("%s %s: the reply is too long", method, path);
    }
    h->body = h->in + (text - h->in);
}

void http_expect(const struct http *h, int status, const char *what)
{
    if (h->status != status)
        die("%s: status %d instead of %d: %.400s", what, h->status, status, h->body);
}

static const char *json_find(const char *json, const char *key)
{
    char quoted[64];
    size_t n = (size_t)snprintf(quoted, sizeof quoted, "\"%s\":", key);
    const char *p = strstr(json, quoted);

    if (!p)
        return NULL;
    p += n;
    while (*p == ' ')
        p++;
    return p;
}

bool json_text(const char *json, const char *key, char *out, size_t size)
{
    const char *p = json_find(json, key);
    size_t n;

    if (!p || *p != '"' || (n = strcspn(p + 1, "\"")) >= size)
        return false;
    memcpy(out, p + 1, n);
    out[n] = 0;
    return true;
}

int64_t json_number(const char *json, const char *key, int64_t otherwise)
{
    const char *p = json_find(json, key);
    return p ? strtoll(p, NULL, 10) : otherwise;
}

bool json_true(const char *json, const char *key)
{
    const char *p = json_find(json, key);
    return p && strncmp(p, "true", 4) == 0;
}

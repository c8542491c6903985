#include "cli/client.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/time.h>

#include "base/auto.h"
#include "base/limits.h"
#include "cli/client_tls.h"

enum { CONNECT_MS = 5000, READ_SIZE = 65536, KEY_MAX = 8192 };

enum body_mode { BODY_LENGTH, BODY_CHUNKED, BODY_TO_END };

struct client {
    int fd;
    struct client_tls *tls; /* NULL: plain */
    int status;
    char type[64], session[64]; /* Content-Type, Mcp-Session-Id */
    enum body_mode mode;
    int64_t left; /* of the body, or of the chunk */
    bool first_chunk, ended, for_stdout;
    size_t at, have; /* what of in[] was not used yet */
    char in[READ_SIZE];
};

struct address {
    char host[256], port[8], prefix[256];
    bool local; /* host is the path of a socket */
    bool tls;
};

static int parse_url(const char *url, struct address *ret, struct err *e)
{
    struct address a = { .port = "80" };
    const char *p = url;

    if (strncmp(p, "unix:", 5) == 0) {
        if (p[5] != '/' || strlen(p + 5) >= sizeof a.host)
            return err_set(e, ERR_INVALID, "'%s' is no URL such as unix:/run/sandglass.sock", url);
        *ret = (struct address){ .local = true };
        strcpy(ret->host, p + 5);
        return 0;
    }
    a.tls = strncmp(p, "https://", 8) == 0;
    if (a.tls)
        strcpy(a.port, "443");
    if (a.tls || strncmp(p, "http://", 7) == 0)
        p += a.tls ? 8 : 7;
    else if (strstr(p, "://"))
        return err_set(e, ERR_INVALID, "'%s' is no URL that begins with http://, https:// or unix:/", url);
    bool brackets = *p == '[';
    size_t n = strcspn(p + brackets, brackets ? "]" : ":/");
    if (n == 0 || n >= sizeof a.host || (brackets && p[1 + n] != ']'))
        return err_set(e, ERR_INVALID, "'%s' is no URL such as http://127.0.0.1:8080", url);
    memcpy(a.host, p + brackets, n);
    p += n + (brackets ? 2 : 0);
    if (*p == ':') {
        n = strspn(++p, "0123456789");
        if (n == 0 || n >= sizeof a.port)
            return err_set(e, ERR_INVALID, "'%s' has no valid port", url);
        memset(a.port, 0, sizeof a.port);
        memcpy(a.port, p, n);
        p += n;
    }
    for (n = strlen(p); n && p[n - 1] == '/'; n--)
        ;
    if ((*p && *p != '/') || n >= sizeof a.prefix)
        return err_set(e, ERR_INVALID, "'%s' is no URL such as http://127.0.0.1:8080", url);
    memcpy(a.prefix, p, n);

    *ret = a;
    return 0;
}

static void set_timeout(int fd, int ms)
{
    struct timeval tv = { ms / 1000, ms % 1000 * 1000 };

    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof tv);
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof tv); /* connect() heeds it, too */
}

static int dial_unix(const struct address *a, int *ret_fd, struct err *e)
{
    struct sockaddr_un to = { .sun_family = AF_UNIX };
    auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    snprintf(to.sun_path, sizeof to.sun_path, "%.*s", (int)sizeof to.sun_path - 1, a->host);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to) < 0)
        return err_set(e, ERR_NOT_FOUND, "no server at unix:%s: %s (start one: sandglass serve)", a->host,
                       strerror(errno));
    *ret_fd = TAKE_FD(fd);
    return 0;
}

static int dial(const char *url, const struct address *a, int *ret_fd, struct err *e)
{
    if (a->local)
        return dial_unix(a, ret_fd, e);
    struct addrinfo want = { .ai_socktype = SOCK_STREAM }, *list = NULL;
    int r = getaddrinfo(a->host, a->port, &want, &list);

    if (r != 0)
        return err_set(e, ERR_NOT_FOUND, "cannot find '%s': %s", a->host, gai_strerror(r));
    r = -EHOSTUNREACH;
    for (struct addrinfo *i = list; i && r < 0; i = i->ai_next) {
        auto_close int fd = socket(i->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0)
            continue;
        set_timeout(fd, CONNECT_MS);
        if (connect(fd, i->ai_addr, i->ai_addrlen) < 0) {
            r = errno == EINPROGRESS ? -ETIMEDOUT : -errno;
            continue;
        }
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
        *ret_fd = TAKE_FD(fd);
        r = 0;
    }
    freeaddrinfo(list);
    if (r < 0)
        return err_set(e, ERR_NOT_FOUND, "no server at %s: %s (start one: sandglass serve)", url, strerror(-r));
    return 0;
}

static int send_all(struct client *c, struct str s, struct err *e)
{
    while (s.n) {
        ssize_t n = c->tls ? client_tls_send(c->tls, s.p, s.n) : send(c->fd, s.p, s.n, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_sys(e, "send the request");
        s.p += n;
        s.n -= (size_t)n;
    }
    return 0;
}

static int send_request(struct client *c, const struct client_request *r, const struct address *a, struct err *e)
{
    char head[16 * KiB];
    const char *key = getenv("SANDGLASS_API_KEY"), *ticket = getenv("SANDGLASS_TICKET");
    const char *path = a->prefix[0] || r->path[0] ? r->path : "/";
    bool accepts = r->header && strncmp(r->header, "Accept:", 7) == 0;
    bool shown = key && *key;

    if (shown && (strlen(key) >= KEY_MAX || strpbrk(key, "\r\n")))
        return err_set(e, ERR_INVALID, "$SANDGLASS_API_KEY has %d bytes or more, or a line break in it", KEY_MAX);
    int n =
        snprintf(head, sizeof head,
                 "%s %s%s%s%s HTTP/1.1\r\nHost: %s%s%s\r\nUser-Agent: sandglass-cli\r\nConnection: close\r\n"
                 "%s%s%s%s%s%s",
                 r->method, a->prefix, path,
                 !ticket             ? ""
                 : strchr(path, '?') ? "&ticket="
                                     : "?ticket=",
                 ticket ? ticket : "", a->local ? "localhost" : a->host, a->local ? "" : ":", a->local ? "" : a->port,
                 accepts ? "" : "Accept: */*\r\n", r->header ? r->header : "", r->header ? "\r\n" : "",
                 shown ? "Authorization: Bearer " : "", shown ? key : "", shown ? "\r\n" : "");

    if (n > 0 && r->body.p && (size_t)n < sizeof head)
        n += snprintf(head + n, sizeof head - (size_t)n, "Content-Type: application/json\r\nContent-Length: %zu\r\n",
                      r->body.n);
    if (n < 0 || (size_t)n + 2 >= sizeof head)
        return err_set(e, ERR_LIMIT, "the request's head is longer than %zu bytes", sizeof head);
    memcpy(head + n, "\r\n", 2);

    int result = send_all(c, (struct str){ head, (size_t)n + 2 }, e);
    return result < 0 ? result : send_all(c, r->body, e);
}

/* Only a write would tell that nobody reads our output any more, and there may be nothing to write for hours. */
static int await(struct client *c, struct err *e)
{
    struct pollfd fds[] = { { .fd = c->fd, .events = POLLIN }, { .fd = STDOUT_FILENO } };

    while (!c->tls || !client_tls_pending(c->tls)) {
        int r = poll(fds, 2, -1);
        if (r < 0 && errno != EINTR)
            return err_sys(e, "wait for the answer");
        if (r > 0 && fds[1].revents & (POLLERR | POLLHUP)) {
            raise(SIGPIPE);
            errno = EPIPE; /* who ignores it, too, has nobody to write to */
            return err_sys(e, "standard output");
        }
        if (r > 0 && fds[0].revents)
            break;
    }
    return 0;
}

/* At least one more byte in in[], or 0 at the end of the connection. */
static int fill(struct client *c, struct err *e)
{
    if (c->at < c->have)
        return 1;
    for (;;) {
        int r = c->for_stdout ? await(c, e) : 0;
        if (r < 0)
            return r;
        ssize_t n = c->tls ? client_tls_recv(c->tls, c->in, sizeof c->in) : recv(c->fd, c->in, sizeof c->in, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN) {
            (void)err_set(e, ERR_BUSY, "the server did not answer in time");
            return -ETIMEDOUT;
        }
        if (n < 0)
            return err_sys(e, "read the answer");
        c->at = 0;
        c->have = (size_t)n;
        return n > 0;
    }
}

/* A line of the framing, without CR LF. */
static int raw_line(struct client *c, char *line, size_t size, struct err *e)
{
    size_t n = 0;

    for (;;) {
        int r = fill(c, e);
        if (r < 0)
            return r;
        if (r == 0)
            return err_set(e, ERR_INVALID, "the server hung up in the middle of an answer");
        char ch = c->in[c->at++];
        if (ch == '\n')
            break;
        if (n + 1 == size)
            return err_set(e, ERR_LIMIT, "a line of the answer's head is longer than %zu bytes", size);
        line[n++] = ch;
    }
    while (n && line[n - 1] == '\r')
        n--;
    line[n] = '\0';
    return 0;
}

static int read_head(struct client *c, struct err *e)
{
    char line[8192];
    int r = raw_line(c, line, sizeof line, e);

    if (r < 0)
        return r;
    if (sscanf(line, "HTTP/1.%*d %d", &c->status) != 1)
        return err_set(e, ERR_INVALID, "this is no HTTP server: it answered '%.60s'", line);
    c->mode = BODY_TO_END;
    while ((r = raw_line(c, line, sizeof line, e)) >= 0 && *line) {
        char *value = strchr(line, ':');
        if (!value)
            continue;
        *value++ = '\0';
        value += strspn(value, " \t");
        if (strcasecmp(line, "content-length") == 0 && c->mode == BODY_TO_END) {
            c->mode = BODY_LENGTH;
            c->left = strtoll(value, NULL, 10);
        } else if (strcasecmp(line, "transfer-encoding") == 0 && strcasecmp(value, "chunked") == 0) {
            c->mode = BODY_CHUNKED;
            c->left = 0;
        } else if (strcasecmp(line, "content-type") == 0) {
            snprintf(c->type, sizeof c->type, "%.63s", value);
        } else if (strcasecmp(line, "mcp-session-id") == 0) {
            snprintf(c->session, sizeof c->session, "%.63s", value);
        }
    }
    c->first_chunk = true;
    c->ended = c->mode == BODY_LENGTH && c->left <= 0;
    return r;
}

int client_check_url(const char *url, struct err *e)
{
    struct address a;

    return parse_url(url, &a, e);
}

void client_hang_up(struct client *c)
{
    (void)shutdown(c->fd, SHUT_RDWR);
}

int client_open(const struct client_request *r, struct client **ret, struct err *e)
{
    struct address a;
    int fd = -1;
    int result = parse_url(r->url, &a, e);

    if (result >= 0)
        result = dial(r->url, &a, &fd, e);
    if (result < 0)
        return result;

    struct client *c = calloc(1, sizeof *c);
    if (!c)
        abort();
    c->fd = fd;
    if (a.tls) /* CONNECT_MS still holds */
        result = client_tls_open(fd, a.host, &c->tls, e);
    c->for_stdout = r->for_stdout;
    set_timeout(fd, r->timeout_ms);
    if (result >= 0)
        result = send_request(c, r, &a, e);
    if (result >= 0)
        result = read_head(c, e);
    if (result < 0) {
        client_close(c);
        return result;
    }
    *ret = c;
    return 0;
}

void client_close(struct client *c)
{
    if (!c)
        return;
    client_tls_close(c->tls);
    close(c->fd);
    free(c);
}

const char *client_type(const struct client *c)
{
    return c->type;
}

const char *client_session(const struct client *c)
{
    return c->session;
}

int client_status(const struct client *c)
{
    return c->status;
}

/* The end of the last chunk, then the next one's size. */
static int next_chunk(struct client *c, struct err *e)
{
    char line[256], *end;
    int r = 0;

    if (!c->first_chunk)
        r = raw_line(c, line, sizeof line, e);
    c->first_chunk = false;
    if (r >= 0)
        r = raw_line(c, line, sizeof line, e);
    if (r < 0)
        return r;
    errno = 0;
    c->left = strtoll(line, &end, 16);
    if (errno || end == line || c->left < 0)
        return err_set(e, ERR_INVALID, "the answer's chunk has the size '%.20s'", line);
    c->ended = c->left == 0;
    return 0;
}

/* What is there of the body: > 0 bytes at *ret, which are thereby used; 0 at the end. At most `most` bytes. */
static int take(struct client *c, size_t most, const char **ret, struct err *e)
{
    int r = 0;

    if (!c->ended && c->mode == BODY_CHUNKED && c->left == 0)
        r = next_chunk(c, e);
    if (r < 0 || c->ended)
        return r;
    r = fill(c, e);
    if (r == 0 && c->mode != BODY_TO_END)
        return err_set(e, ERR_INVALID, "the server hung up in the middle of an answer");
    if (r <= 0)
        return r;

    size_t n = c->have - c->at;
    if (c->mode != BODY_TO_END && (int64_t)n > c->left)
        n = (size_t)c->left;
    if (n > most)
        n = most;
    *ret = c->in + c->at;
    c->at += n;
    if (c->mode != BODY_TO_END)
        c->left -= (int64_t)n;
    c->ended = c->mode == BODY_LENGTH && c->left == 0;
    return (int)n;
}

int client_body(struct client *c, struct buf *out, struct err *e)
{
    const char *p;
    int n;

    while ((n = take(c, READ_SIZE, &p, e)) > 0)
        if (!buf_add(out, p, (size_t)n))
            return err_set(e, ERR_LIMIT, "the answer is larger than %zu bytes", out->cap);
    return n;
}

int client_part(struct client *c, struct str *ret, struct err *e)
{
    const char *p;
    int n = take(c, READ_SIZE, &p, e);

    if (n > 0)
        *ret = (struct str){ p, (size_t)n };
    return n;
}

int client_line(struct client *c, struct buf *line, struct err *e)
{
    const char *p;
    int n;

    buf_reset(line);
    while ((n = take(c, 1, &p, e)) > 0) {
        if (*p == '\n') {
            if (line->n && line->p[line->n - 1] == '\r')
                line->n--;
            return 1;
        }
        if (!buf_char(line, *p))
            return err_set(e, ERR_LIMIT, "an event is larger than %zu bytes", line->cap);
    }
    return n;
}

#include "surface/otlp.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/log.h"

enum { QUEUE = 2 * MiB, BATCH_MS = 500, SEND_MS = 5000, SPAN_MAX = 8192 };

#define BEFORE                                                                                                         \
    "{\"resourceSpans\":[{\"resource\":{\"attributes\":[{\"key\":\"service.name\",\"value\":{\"stringValue\":"         \
    "\"sandglass\"}},{\"key\":\"service.version\",\"value\":{\"stringValue\":\"" SANDGLASS_VERSION                     \
    "\"}}]},\"scopeSpans\":[{\"scope\":{\"name\":\"sandglass\"},\"spans\":["
#define AFTER "]}]}]}"

struct otlp {
    struct loop *loop;
    struct sockaddr_storage to;
    socklen_t to_n;
    char host[256], path[256];
    struct buf spans; /* that wait, with commas */
    size_t count;     /* of them */
    uint64_t dropped;
    /* the batch on its way */
    int fd;
    struct loop_fd *watch;
    struct buf out;
    size_t sent, sending;
    char answer[16];
    size_t answer_n;
    bool complained;
    struct loop_timer *timer; /* the next batch, or the end of patience with this one */
};

static void on_time_(void *arg);

static int parse(struct otlp *o, const char *url, struct err *e)
{
    const char *p = url;
    char host[200], port[8] = "80";

    if (strncmp(p, "http://", 7) != 0)
        return err_set(e, ERR_INVALID, "trace.otlp_url: '%.80s' does not begin with http://", url);
    p += 7;
    bool brackets = *p == '[';
    size_t n = strcspn(p + brackets, brackets ? "]" : ":/");
    if (n == 0 || n >= sizeof host)
        return err_set(e, ERR_INVALID, "trace.otlp_url: '%.80s' names no host", url);
    memcpy(host, p + brackets, n);
    host[n] = 0;
    p += n + (brackets ? 2 : 0);
    if (*p == ':') {
        n = strspn(++p, "0123456789");
        if (n == 0 || n >= sizeof port)
            return err_set(e, ERR_INVALID, "trace.otlp_url: '%.80s' has no valid port", url);
        memcpy(port, p, n);
        port[n] = 0;
        p += n;
    }
    if (strlen(p) >= sizeof o->path || strpbrk(p, " \r\n"))
        return err_set(e, ERR_INVALID, "trace.otlp_url: the path is too long or has spaces");
    snprintf(o->path, sizeof o->path, "%s", *p == '/' && p[1] ? p : "/v1/traces");
    snprintf(o->host, sizeof o->host, "%s:%s", host, port);

    struct addrinfo want = { .ai_socktype = SOCK_STREAM }, *found;
    int r = getaddrinfo(host, port, &want, &found);
    if (r != 0)
        return err_set(e, ERR_NOT_FOUND, "trace.otlp_url: '%s': %s", host, gai_strerror(r));
    memcpy(&o->to, found->ai_addr, found->ai_addrlen);
    o->to_n = found->ai_addrlen;
    freeaddrinfo(found);
    return 0;
}

struct otlp *otlp_new(struct loop *l, const char *url, struct err *e)
{
    struct otlp *o = calloc(1, sizeof *o);

    if (!o)
        abort();
    *o = (struct otlp){ .loop = l, .fd = -1 };
    if (parse(o, url, e) < 0) {
        free(o);
        return NULL;
    }
    buf_init(&o->spans, QUEUE);
    buf_init(&o->out, QUEUE + 4096);
    o->timer = loop_timer_new(l, on_time_, o);
    return o;
}

static void hang_up(struct otlp *o)
{
    loop_unwatch(o->watch);
    o->watch = NULL;
    if (o->fd >= 0)
        close(o->fd);
    o->fd = -1;
    o->sending = 0;
    buf_reset(&o->out);
    loop_timer_set(o->timer, o->count ? BATCH_MS : -1);
}

static void give_up(struct otlp *o, const char *why)
{
    o->dropped += o->sending;
    if (!o->complained)
        log_warn("traces not taken", "collector=%s why='%s', dropping them until it does", o->host, why);
    o->complained = true;
    hang_up(o);
}

static void on_socket(void *arg, uint32_t events)
{
    struct otlp *o = arg;

    if (events & EPOLLOUT) {
        ssize_t n = send(o->fd, o->out.p + o->sent, o->out.n - o->sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno != EAGAIN && errno != EINTR) {
            give_up(o, strerror(errno));
            return;
        }
        o->sent += n > 0 ? (size_t)n : 0;
        if (o->sent == o->out.n)
            loop_change(o->watch, EPOLLIN);
    }
    if (!(events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
        return;
    ssize_t n = recv(o->fd, o->answer + o->answer_n, sizeof o->answer - o->answer_n, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    o->answer_n += n > 0 ? (size_t)n : 0;
    if (n > 0 && o->answer_n < 12)
        return;
    if (o->answer_n < 12 || memcmp(o->answer + 9, "200", 3) != 0) {
        give_up(o, n < 0 ? strerror(errno) : o->answer_n < 12 ? "closed" : "not 200");
        return;
    }
    o->complained = false;
    hang_up(o);
}

static void send_batch(struct otlp *o)
{
    size_t body = strlen(BEFORE) + o->spans.n + strlen(AFTER);

    o->fd = socket(o->to.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    o->sending = o->count;
    buf_reset(&o->out);
    buf_printf(&o->out,
               "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n"
               "Connection: close\r\n\r\n",
               o->path, o->host, body);
    buf_z(&o->out, BEFORE);
    buf_str(&o->out, buf_view(&o->spans));
    buf_z(&o->out, AFTER);
    buf_reset(&o->spans);
    o->count = o->sent = o->answer_n = 0;
    if (o->fd < 0 || (connect(o->fd, (struct sockaddr *)&o->to, o->to_n) < 0 && errno != EINPROGRESS)) {
        give_up(o, strerror(errno));
        return;
    }
    o->watch = loop_watch(o->loop, o->fd, EPOLLOUT, on_socket, o);
    if (!o->watch) {
        give_up(o, "out of watches");
        return;
    }
    loop_timer_set(o->timer, SEND_MS);
}

static void on_time_(void *arg)
{
    struct otlp *o = arg;

    if (o->fd >= 0)
        give_up(o, "no answer in time");
    else if (o->count)
        send_batch(o);
}

/* --- spans --- */

static void hex_id(char *out, size_t digits)
{
    static const char d[] = "0123456789abcdef";
    unsigned char bytes[16];

    if (getrandom(bytes, digits / 2, 0) != (ssize_t)(digits / 2))
        abort();
    for (size_t i = 0; i < digits; i++)
        out[i] = d[i & 1 ? bytes[i / 2] & 15 : bytes[i / 2] >> 4];
    out[digits] = 0;
}

/* "00-<32 hex>-<16 hex>-<2 hex>" */
static bool read_parent(struct str p, char trace[33], char span[17])
{
    if (p.n != 55 || memcmp(p.p, "00-", 3) != 0 || p.p[35] != '-' || p.p[52] != '-')
        return false;
    memcpy(trace, p.p + 3, 32);
    memcpy(span, p.p + 36, 16);
    trace[32] = span[16] = 0;
    return strspn(trace, "0123456789abcdef") == 32 && strspn(span, "0123456789abcdef") == 16 &&
           strspn(trace, "0") != 32 && strspn(span, "0") != 16;
}

static void attribute(struct jw *w, const char *key, struct str value)
{
    if (!value.n)
        return;
    jw_obj(w);
    jw_kz(w, "key", key);
    jw_key(w, "value");
    jw_obj(w);
    jw_kstr(w, "stringValue", value);
    jw_obj_end(w);
    jw_obj_end(w);
}

static void nanos(struct jw *w, const char *key, int64_t us)
{
    char text[32];

    snprintf(text, sizeof text, "%lld000", (long long)us);
    jw_kz(w, key, text);
}

static void print_span(const struct call *c, struct buf *b)
{
    struct jw w = { .out = b };
    char trace[33], parent[17], span[17], step[24];
    bool child = read_parent(c->parent, trace, parent);

    if (!child)
        hex_id(trace, 32);
    hex_id(span, 16);
    snprintf(step, sizeof step, "%lld", (long long)c->step);
    jw_obj(&w);
    jw_kz(&w, "traceId", trace);
    jw_kz(&w, "spanId", span);
    if (child)
        jw_kz(&w, "parentSpanId", parent);
    jw_kstr(&w, "name", c->tool ? str_of(c->tool->name) : STR("unknown tool"));
    jw_kint(&w, "kind", 2); /* server */
    nanos(&w, "startTimeUnixNano", c->started_wall_us);
    nanos(&w, "endTimeUnixNano", c->started_wall_us + c->total_us);
    jw_key(&w, "attributes");
    jw_arr(&w);
    attribute(&w, "sandglass.request_id", c->request_id);
    attribute(&w, "sandglass.tenant", str_of(c->tenant->name));
    attribute(&w, "sandglass.trajectory", c->trajectory ? str_of(c->trajectory->id) : (struct str){ 0 });
    attribute(&w, "sandglass.step", str_of(step));
    attribute(&w, "sandglass.box", str_of(c->box_id));
    attribute(&w, "sandglass.surface", c->surface);
    attribute(&w, "sandglass.outcome", str_of(outcome_name(c->outcome)));
    jw_arr_end(&w);
    jw_key(&w, "status");
    jw_obj(&w);
    jw_kint(&w, "code", c->outcome == OUTCOME_OK ? 1 : 2);
    if (c->outcome != OUTCOME_OK)
        jw_kz(&w, "message", outcome_name(c->outcome));
    jw_obj_end(&w);
    jw_obj_end(&w);
}

void otlp_step(struct otlp *o, const struct call *c)
{
    if (o->spans.n + SPAN_MAX > o->spans.cap) {
        o->dropped++;
        return;
    }
    if (o->count++)
        buf_char(&o->spans, ',');
    print_span(c, &o->spans);
    if (o->count == 1 && o->fd < 0)
        loop_timer_set(o->timer, BATCH_MS);
}

uint64_t otlp_dropped(const struct otlp *o)
{
    return o->dropped;
}

void otlp_free(struct otlp *o)
{
    if (!o)
        return;
    loop_unwatch(o->watch);
    if (o->fd >= 0)
        close(o->fd);
    loop_timer_free(o->timer);
    buf_done(&o->spans);
    buf_done(&o->out);
    free(o);
}

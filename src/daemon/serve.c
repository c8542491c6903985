#include "daemon/serve.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/log.h"
#include "http/http.h"
#include "session/extension.h"
#include "session/restore.h"
#include "surface/door.h"
#include "surface/ops.h"
#include "surface/place.h"
#include "surface/surface.h"

struct serve {
    struct loop *loop;
    const struct serve_opts *opts;
    struct node *node;
    struct surfaces *surfaces;
    struct http_server *http, *local; /* local: on a unix socket, or NULL */
    int local_fd;
    struct door_opts door;
    struct ops *ops;
    struct http_tls *tls;
    struct loop_timer *drain;
    int64_t drain_until_ms;
    pid_t guard;
    int signals;
    bool kill; /* destroy all boxes before the end */
    int status;
};

static void on_ready_node(void *arg)
{
    struct serve *s = arg;
    log_info("ready", "boxes=%zu sessions=%zu", s->node->boxes.count, s->node->session_count);
}

/* An exit with this status tells guard to end everything. */
static void on_shutdown(void *arg)
{
    struct serve *s = arg;

    s->status = SERVE_EXIT_SHUTDOWN;
    kill(getpid(), SIGTERM);
}

static void on_step(void *arg, const struct call *c)
{
    struct serve *s = arg;
    surfaces_step(s->surfaces, c);
}

/* An answer that comes as a stream of events is no request any more: its call is awaited all the same. */
static bool is_busy(const struct serve *s)
{
    return http_server_busy(s->http) > 0 || http_server_unsent(s->http) || calls_awaited(s->node) > 0 ||
           (s->local && (http_server_busy(s->local) > 0 || http_server_unsent(s->local)));
}

/* Again each time: those that were being made have no name before they are there. True: wait on. */
static bool kill_boxes(struct serve *s)
{
    struct box *b;

    for (size_t i = 0; (b = map_next(&s->node->boxes, &i));)
        box_close(b, "shut down", NULL, NULL);
    if (s->node->ready && s->node->box_count == 0 && !is_busy(s))
        return false;
    if (now_ms() < s->drain_until_ms + SERVE_KILL_MS)
        return true;
    log_warn("boxes left", "count=%zu, leaving them to the next start", s->node->box_count);
    return false;
}

/* Unless they are to be killed, boxes and their sessions stay: whoever starts next goes on with them. */
static void drain(void *arg)
{
    struct serve *s = arg;
    bool busy = is_busy(s) && now_ms() < s->drain_until_ms;

    if (busy || (s->kill && kill_boxes(s)))
        loop_timer_set(s->drain, 20);
    else
        loop_stop(s->loop);
}

static void on_signal(void *arg, uint32_t events)
{
    struct serve *s = arg;
    struct signalfd_siginfo si;

    (void)events;
    if (read(s->signals, &si, sizeof si) != (ssize_t)sizeof si)
        return;
    if (si.ssi_signo == SIGHUP) {
        if (s->tls)
            http_tls_look(s->tls, true);
        return;
    }
    if (s->drain_until_ms)
        return;
    s->kill = s->opts->kill && getppid() == s->guard; /* else guard has died: nobody asked for an end */
    log_info("stopping", "grace_ms=%lld kill=%d", (long long)s->opts->grace_ms, s->kill);
    s->drain_until_ms = now_ms() + s->opts->grace_ms;
    http_server_drain(s->http);
    close(s->opts->listen_fd);
    if (s->local)
        http_server_drain(s->local);
    drain(s);
}

static struct str without_port(struct str host)
{
    const char *colon = memrchr(host.p, ':', host.n), *bracket = memrchr(host.p, ']', host.n);

    if (colon && (!bracket || colon > bracket))
        host.n = (size_t)(colon - host.p);
    return host;
}

/* A page on another site must not drive this server through a name that it made resolve to us. Where everyone must
 * prove who he is, such a page could not: a browser sends our cookie only to the name that it got it from. */
static bool host_ok(void *arg, struct str host)
{
    const struct surfaces *surfaces = arg;
    const struct serve *s = surfaces_owner(surfaces);
    struct place at;

    if (host.n && place_is_below(without_port(host), s->opts->host_boxes))
        return true;
    if (host.n && place_is_named(without_port(host), s->opts->host_names))
        return true;
    if (place_is_port_of(host, s->opts->host_names, &at))
        return true;
    if (!s->opts->host_names[0] && access_is_required(s->door.access))
        return true;
    for (size_t i = 0; i < host.n; i++) { /* addresses, and names that no outsider can register */
        char c = host.p[i];
        if (!((c >= '0' && c <= '9') || c == '.' || c == ':' || c == '[' || c == ']' || (c >= 'a' && c <= 'f')))
            goto name;
    }
    return true;
name:
    host = without_port(host);
    if (str_is(host, "localhost") || !memchr(host.p, '.', host.n))
        return true;
    return place_is_below(host, "localhost");
}

/* Who is on this machine can ask without a port; SO_PEERCRED says who it is. */
static int open_local(struct serve *s, struct err *e)
{
    struct sockaddr_un a = { .sun_family = AF_UNIX };
    int n = snprintf(a.sun_path, sizeof a.sun_path, "%s/run/api.sock", s->opts->node.home);

    if (n < 0 || (size_t)n >= sizeof a.sun_path)
        return err_set(e, ERR_LIMIT, "home: too long for a socket");
    auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    (void)unlink(a.sun_path);
    if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof a) < 0 || chmod(a.sun_path, 0666) < 0 || listen(fd, 128) < 0)
        return err_sys(e, "listen on %s", a.sun_path);
    s->local = http_server_new(s->loop,
                               &(struct http_opts){ .listen_fd = fd,
                                                    .handler = surfaces_handle,
                                                    .answered = surfaces_answered,
                                                    .wants_stream = surfaces_wants_stream,
                                                    .refuses = surfaces_refuses,
                                                    .arg = s->surfaces },
                               e);
    if (!s->local)
        return -EIO;
    s->local_fd = TAKE_FD(fd);
    return 0;
}

static void on_tools(void *arg)
{
    struct serve *s = arg;
    surfaces_tools(s->surfaces);
}

/* Our own jobs come through the same door as everybody; by its own socket where there is one, which they may open whoever
 * owns the socket that is listened on, and which speaks no TLS. */
static void find_self(struct serve *s)
{
    union {
        struct sockaddr any;
        struct sockaddr_in in;
        struct sockaddr_in6 in6;
        struct sockaddr_un un;
    } a = { 0 };
    socklen_t n = sizeof a;
    char text[64];

    if (s->opts->socket) {
        snprintf(s->node->self_url, sizeof s->node->self_url, "unix:%s/run/api.sock", s->opts->node.home);
        return;
    }
    if (getsockname(s->opts->listen_fd, &a.any, &n) < 0)
        return;
    const char *scheme = s->opts->tls_cert[0] ? "https" : "http";
    if (a.any.sa_family == AF_INET) {
        if (a.in.sin_addr.s_addr == htonl(INADDR_ANY))
            a.in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        inet_ntop(AF_INET, &a.in.sin_addr, text, sizeof text);
        snprintf(s->node->self_url, sizeof s->node->self_url, "%s://%s:%d", scheme, text, ntohs(a.in.sin_port));
    } else if (a.any.sa_family == AF_INET6) {
        bool any = IN6_IS_ADDR_UNSPECIFIED(&a.in6.sin6_addr);
        inet_ntop(AF_INET6, &a.in6.sin6_addr, text, sizeof text);
        snprintf(s->node->self_url, sizeof s->node->self_url, "%s://[%s]:%d", scheme, any ? "::1" : text,
                 ntohs(a.in6.sin6_port));
    } else if (a.any.sa_family == AF_UNIX) {
        snprintf(s->node->self_url, sizeof s->node->self_url, "unix:%s", a.un.sun_path);
    }
}

static struct str job_ticket(void *arg, const char *tenant, struct arena *a)
{
    struct serve *s = arg;
    struct who who = { .role = ROLE_OPERATOR, .may = role_may(ROLE_OPERATOR), .subject = "job", .how = "job" };

    if (!access_is_required(s->door.access))
        return (struct str){ 0 };
    snprintf(who.tenant, sizeof who.tenant, "%s", tenant);
    return access_job_ticket(s->door.access, &who, a);
}

static int start(struct serve *s, struct err *e)
{
    s->node = node_new(s->loop, &s->opts->node, e);
    if (!s->node)
        return -EIO;
    s->node->on_ready = on_ready_node;
    s->node->on_step = on_step;
    s->node->on_tools = on_tools;
    s->node->on_shutdown = on_shutdown;
    s->node->job_ticket = job_ticket;
    find_self(s);
    s->node->arg = s;
    int r = restore_begin(s->node, e);
    if (r < 0)
        return r;
    r = access_new(&s->opts->access, &s->door.access, e);
    if (r < 0)
        return r;
    s->door.cors_origins = s->opts->cors_origins;
    s->door.box_domain = s->opts->host_boxes;
    s->door.host_names = s->opts->host_names;
    if (s->opts->tls_cert[0]) {
        r = http_tls_new(s->opts->tls_cert, s->opts->tls_key, &s->tls, e);
        if (r < 0)
            return r;
        s->door.tls = true;
    }
    s->ops = ops_new(&(struct ops_opts){ .node = s->node,
                                         .loop = s->loop,
                                         .log_requests = s->opts->log_requests,
                                         .audit = s->opts->audit,
                                         .otlp_url = s->opts->otlp_url },
                     e);
    if (!s->ops)
        return -EIO;
    s->surfaces = surfaces_new(s->node, s->loop, &s->door, s->ops, s);
    r = plugins_load(s->opts->plugins, e);
    if (r >= 0)
        r = extensions_start(s->node, s->opts->extensions, s->opts->extensions_fd, e);
    if (r >= 0)
        r = mcp_upstreams_start(s->surfaces, s->opts->mcp_servers, s->opts->mcp_servers_fd, e);
    if (r < 0)
        return r;
    s->http = http_server_new(s->loop,
                              &(struct http_opts){ .listen_fd = s->opts->listen_fd,
                                                   .tls = s->tls,
                                                   .handler = surfaces_handle,
                                                   .answered = surfaces_answered,
                                                   .wants_stream = surfaces_wants_stream,
                                                   .refuses = surfaces_refuses,
                                                   .arg = s->surfaces,
                                                   .host_ok = host_ok },
                              e);
    if (!s->http)
        return -EIO;
    return s->opts->socket ? open_local(s, e) : 0;
}

int serve_main(const struct serve_opts *o)
{
    struct serve s = { .opts = o, .loop = loop_new(), .guard = getppid(), .local_fd = -1 };
    struct err e = { 0 };
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    auto_close int sfd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    s.signals = sfd;
    s.drain = loop_timer_new(s.loop, drain, &s);
    loop_watch(s.loop, sfd, EPOLLIN, on_signal, &s);
    if (start(&s, &e) < 0) {
        log_error("cannot start", "%s", e.msg);
        return e.code == ERR_NONE || e.code == ERR_SYSTEM || e.code == ERR_BUSY ? 1 : SERVE_EXIT_SETTING;
    }
    loop_run(s.loop);
    http_server_free(s.http);
    http_server_free(s.local);
    if (s.local_fd >= 0)
        close(s.local_fd);
    http_tls_free(s.tls);
    ops_free(s.ops);
    access_free(s.door.access);
    node_free(s.node);
    return s.status;
}

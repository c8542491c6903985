#include "surface/ops.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/limits.h"
#include "base/log.h"
#include "store/recorder_client.h"
#include "surface/otlp.h"

enum { BUCKETS = 14, STATUS_MAX = 600, AUDIT_ROTATE = 64 * MiB, LINES_CAP = 4 * MiB };

/* Upper bounds in microseconds. */
static const int64_t bounds[BUCKETS] = { 250,   500,    1000,   2500,   5000,    10000,   25000,
                                         50000, 100000, 250000, 500000, 1000000, 5000000, 30000000 };

struct histogram {
    uint64_t counts[BUCKETS + 1]; /* the last: above all bounds */
    uint64_t n;
    int64_t sum_us;
};

struct tool_use {
    struct tool_use *next;
    char name[96];
    struct histogram latency;
    uint64_t outcomes[OUTCOME_COUNT];
};

struct lines { /* of text that goes to a file at the end of the turn */
    struct buf text;
    uint64_t dropped;
};

struct ops {
    struct ops_opts opts;
    struct histogram requests;
    uint64_t statuses[STATUS_MAX];
    uint64_t sent_bytes, received_bytes;
    struct tool_use *tools;
    struct lines log, audit;
    int audit_fd;
    off_t audit_bytes;
    char audit_path[4096];
    bool later;
    struct otlp *otlp;
};

static void observe(struct histogram *h, int64_t us)
{
    size_t i = 0;

    while (i < BUCKETS && us > bounds[i])
        i++;
    h->counts[i]++;
    h->n++;
    h->sum_us += us;
}

/* --- lines --- */

static void open_audit(struct ops *o)
{
    o->audit_fd = open(o->audit_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (o->audit_fd < 0)
        log_error("audit log", "cannot open %s, requests are not audited", o->audit_path);
    else
        o->audit_bytes = lseek(o->audit_fd, 0, SEEK_END);
}

static void on_removed(void *arg, const struct answer *a)
{
    (void)arg;
    if (a->error)
        log_warn("audit log", "an old one cannot be removed: %.*s", STR_ARG(a->message));
}

/* To give the blocks of a large file back may take the disk a tenth of a second, which is recorder's to wait. */
static void rotate_audit(struct ops *o)
{
    char old[4200], older[4200];

    if (o->audit_fd < 0 || o->audit_bytes < AUDIT_ROTATE)
        return;
    snprintf(old, sizeof old, "%s.1", o->audit_path);
    snprintf(older, sizeof older, "%s.2", o->audit_path);
    close(o->audit_fd);
    if (rename(old, older) == 0)
        recorder_ask(o->opts.node->recorder, &(struct query){ .op = STR("drop_audit") }, -1, on_removed, NULL);
    (void)rename(o->audit_path, old);
    open_audit(o);
}

static void write_out(struct lines *l, int fd)
{
    if (l->text.n && (fd < 0 || write(fd, l->text.p, l->text.n) != (ssize_t)l->text.n))
        l->dropped++;
    buf_reset(&l->text);
}

static void flush(void *arg)
{
    struct ops *o = arg;

    o->later = false;
    if (o->log.text.n)
        write_out(&o->log, STDERR_FILENO);
    if (o->audit.text.n) {
        o->audit_bytes += (off_t)o->audit.text.n;
        write_out(&o->audit, o->audit_fd);
        rotate_audit(o);
    }
}

static void print_time(struct jw *j)
{
    char t[32];

    utc_time(wall_us(), t);
    jw_kz(j, "time", t);
}

/* Paths without their query: it may hold a ticket or a key. */
static void print_request(const struct web *w, int status, struct jw *j)
{
    print_time(j);
    jw_kz(j, "request", w->request_id);
    jw_kz(j, "tenant", w->who.tenant[0] ? w->who.tenant : NULL);
    jw_kz(j, "role", role_name(w->who.role));
    jw_kz(j, "subject", w->who.subject[0] ? w->who.subject : NULL);
    jw_kz(j, "how", w->who.how);
    if (w->who.key[0])
        jw_kz(j, "key", w->who.key);
    jw_kstr(j, "peer", w->http->peer);
    jw_kstr(j, "method", w->http->method);
    jw_kstr(j, "path", w->http->path);
    jw_kint(j, "status", status);
}

static void line(struct ops *o, struct lines *l, const struct web *w, int status, int64_t bytes, bool full)
{
    struct jw j = { .out = &l->text };
    size_t before = l->text.n;

    jw_obj(&j);
    if (full)
        jw_kz(&j, "level", status >= 500 ? "error" : "info");
    print_request(w, status, &j);
    if (full) {
        jw_kint(&j, "bytes", bytes);
        jw_kint(&j, "us", now_us() - w->begun_us);
    } else {
        jw_kz(&j, "outcome", status < 400 ? "allowed" : status == 401 || status == 403 ? "denied" : "failed");
    }
    jw_obj_end(&j);
    buf_char(&l->text, '\n');
    if (l->text.full) { /* nothing half: a reader would stumble over it */
        l->text.n = before;
        l->text.full = false;
        l->dropped++;
    }
    if (!o->later)
        loop_later(o->opts.loop, flush, o);
    o->later = true;
}

/* What only looked, and was let, is no event. */
static bool is_event(const struct web *w, int status)
{
    bool reads =
        str_is(w->http->method, "GET") || str_is(w->http->method, "HEAD") || str_is(w->http->method, "OPTIONS");
    return !reads || status == 401 || status == 403;
}

void ops_answered(struct ops *o, const struct web *w, int status, int64_t bytes)
{
    observe(&o->requests, now_us() - w->begun_us);
    o->statuses[status > 0 && status < STATUS_MAX ? status : 0]++;
    o->sent_bytes += bytes > 0 ? (uint64_t)bytes : 0;
    o->received_bytes += w->http->body.n;
    if (o->opts.log_requests)
        line(o, &o->log, w, status, bytes, true);
    if (o->opts.audit && is_event(w, status))
        line(o, &o->audit, w, status, bytes, false);
}

void ops_step(struct ops *o, const struct call *c)
{
    const char *name = c->tool ? c->tool->name : "unknown";
    struct tool_use **p = &o->tools;

    while (*p && strcmp((*p)->name, name) != 0)
        p = &(*p)->next;
    if (!*p) {
        *p = calloc(1, sizeof **p);
        if (!*p)
            abort();
        snprintf((*p)->name, sizeof(*p)->name, "%s", name);
    }
    observe(&(*p)->latency, c->total_us);
    (*p)->outcomes[c->outcome]++;
    if (o->otlp)
        otlp_step(o->otlp, c);
}

struct ops *ops_new(const struct ops_opts *opts, struct err *e)
{
    struct ops *o = calloc(1, sizeof *o);

    if (!o)
        abort();
    o->opts = *opts;
    o->audit_fd = -1;
    buf_init(&o->log.text, LINES_CAP);
    buf_init(&o->audit.text, LINES_CAP);
    snprintf(o->audit_path, sizeof o->audit_path, "%s/audit.log", opts->node->opts.home);
    if (opts->audit)
        open_audit(o);
    if (opts->otlp_url && *opts->otlp_url) {
        o->otlp = otlp_new(opts->loop, opts->otlp_url, e);
        if (!o->otlp) {
            ops_free(o);
            return NULL;
        }
    }
    return o;
}

void ops_free(struct ops *o)
{
    if (!o)
        return;
    flush(o);
    otlp_free(o->otlp);
    for (struct tool_use *t = o->tools, *next; t; t = next) {
        next = t->next;
        free(t);
    }
    if (o->audit_fd >= 0)
        close(o->audit_fd);
    buf_done(&o->log.text);
    buf_done(&o->audit.text);
    free(o);
}

/* --- /metrics --- */

static void head(struct buf *b, const char *name, const char *type, const char *help)
{
    buf_printf(b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void one(struct buf *b, const char *name, const char *type, const char *help, double value)
{
    head(b, name, type, help);
    buf_printf(b, "%s %.17g\n", name, value);
}

static void print_histogram(struct buf *b, const char *name, const char *label, const struct histogram *h)
{
    const char *comma = *label ? "," : "", *open = *label ? "{" : "", *close_ = *label ? "}" : "";
    uint64_t sum = 0;

    for (size_t i = 0; i <= BUCKETS; i++) {
        sum += h->counts[i];
        if (i < BUCKETS)
            buf_printf(b, "%s_bucket{%s%sle=\"%g\"} %lu\n", name, label, comma, (double)bounds[i] / 1e6,
                       (unsigned long)sum);
        else
            buf_printf(b, "%s_bucket{%s%sle=\"+Inf\"} %lu\n", name, label, comma, (unsigned long)sum);
    }
    buf_printf(b, "%s_sum%s%s%s %.6f\n", name, open, label, close_, (double)h->sum_us / 1e6);
    buf_printf(b, "%s_count%s%s%s %lu\n", name, open, label, close_, (unsigned long)h->n);
}

static void print_boxes(const struct node *n, struct buf *b)
{
    static const char *const states[] = { "creating", "running", "paused", "quarantined", "closing" };
    uint64_t counts[5] = { 0 };
    const struct box *box;
    const struct tenant *t;

    for (size_t i = 0; (box = map_next(&n->boxes, &i));)
        counts[box->state <= BOX_CLOSING ? box->state : BOX_CLOSING]++;
    head(b, "sandglass_boxes", "gauge", "Boxes by state.");
    for (size_t i = 0; i < 5; i++)
        buf_printf(b, "sandglass_boxes{state=\"%s\"} %lu\n", states[i], (unsigned long)counts[i]);
    head(b, "sandglass_tenant_boxes", "gauge", "Boxes by tenant.");
    for (size_t i = 0; (t = map_next(&n->tenants, &i));)
        buf_printf(b, "sandglass_tenant_boxes{tenant=\"%s\"} %ld\n", t->name, (long)t->use.boxes);
    one(b, "sandglass_boxes_max", "gauge", "How many boxes there may be.", (double)n->opts.box_max);
    one(b, "sandglass_sessions", "gauge", "Sessions that are open.", (double)n->session_count);
    one(b, "sandglass_calls_running", "gauge", "Calls in or on their way to a box.", (double)n->calls.count);
}

static void print_tools(const struct ops *o, struct buf *b)
{
    char label[128];

    head(b, "sandglass_tool_call_seconds", "histogram", "From the request to the recorded result, by tool.");
    for (const struct tool_use *t = o->tools; t; t = t->next) {
        snprintf(label, sizeof label, "tool=\"%s\"", t->name);
        print_histogram(b, "sandglass_tool_call_seconds", label, &t->latency);
    }
    head(b, "sandglass_tool_calls_total", "counter", "Calls by tool and outcome.");
    for (const struct tool_use *t = o->tools; t; t = t->next)
        for (int i = 0; i < OUTCOME_COUNT; i++)
            if (t->outcomes[i])
                buf_printf(b, "sandglass_tool_calls_total{tool=\"%s\",outcome=\"%s\"} %lu\n", t->name,
                           outcome_name((enum outcome)i), (unsigned long)t->outcomes[i]);
}

static void print_http(const struct ops *o, struct buf *b)
{
    head(b, "sandglass_http_requests_total", "counter", "Answered requests by status.");
    for (int i = 0; i < STATUS_MAX; i++)
        if (o->statuses[i])
            buf_printf(b, "sandglass_http_requests_total{status=\"%d\"} %lu\n", i, (unsigned long)o->statuses[i]);
    head(b, "sandglass_http_request_seconds", "histogram", "From the head of a request to its answer.");
    print_histogram(b, "sandglass_http_request_seconds", "", &o->requests);
    one(b, "sandglass_http_sent_bytes_total", "counter", "Bytes of answers.", (double)o->sent_bytes);
    one(b, "sandglass_http_received_bytes_total", "counter", "Bytes of bodies.", (double)o->received_bytes);
    one(b, "sandglass_log_lines_dropped_total", "counter", "Lines of the request and audit logs that were lost.",
        (double)(o->log.dropped + o->audit.dropped));
    one(b, "sandglass_trace_spans_dropped_total", "counter", "Spans that no collector took.",
        (double)(o->otlp ? otlp_dropped(o->otlp) : 0));
}

struct metrics { /* what has to be asked for */
    struct web *w;
    int64_t ready, wanted;
    bool pool_known;
};

static void on_position(void *arg, const struct answer *a)
{
    struct metrics *m = arg;
    struct web *w = m->w;
    struct ops *o = surfaces_ops(w->all);
    struct json *j = NULL;
    struct buf b;
    struct err e;
    uint64_t end = journal_end(w->node->journal);

    buf_init(&b, LIMIT_HTTP_REPLY);
    one(&b, "sandglass_up_seconds", "gauge", "Since this serve was started.",
        (double)(wall_us() - w->node->started_us) / 1e6);
    print_boxes(w->node, &b);
    if (m->pool_known) {
        one(&b, "sandglass_seats_ready", "gauge", "Parked seats.", (double)m->ready);
        one(&b, "sandglass_seats_wanted", "gauge", "Parked seats that there should be.", (double)m->wanted);
    }
    one(&b, "sandglass_log_bytes", "counter", "Written to the log since it began.", (double)end);
    if (a->error == 0 && json_parse(w->http->arena, a->json, &j, &e) == 0) {
        int64_t lag = (int64_t)end - json_get_int(j, "position", 0);
        one(&b, "sandglass_log_lag_bytes", "gauge", "Of the log, what the index has not taken in yet.",
            lag > 0 ? (double)lag : 0);
    }
    print_http(o, &b);
    print_tools(o, &b);
    http_reply_buf(w->http, 200, "text/plain; version=0.0.4; charset=utf-8", &b);
    buf_done(&b);
}

static void on_pool(void *arg, const struct seat_reply *r, const int *take_gauges)
{
    struct metrics *m = arg;
    struct query q = { .op = STR("position") };

    (void)take_gauges;
    m->pool_known = r->result >= 0;
    m->ready = (int64_t)r->pool.ready;
    m->wanted = (int64_t)r->pool.wanted;
    recorder_ask(m->w->node->recorder, &q, -1, on_position, m); /* not web_query: it would wait for the index */
}

static void metrics(struct web *w)
{
    struct metrics *m = arena_alloc(w->http->arena, sizeof *m);

    m->w = w;
    seats_ask(w->node->seats, SEAT_POOL, NULL, NULL, on_pool, m);
}

const struct route ops_routes[] = {
    { "GET", "/metrics", metrics, ROUTE_SERVER },
    { 0 },
};

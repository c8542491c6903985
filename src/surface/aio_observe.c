/* sandbox/observe: figures of a box, now and over time. The counters are the kernel's, read from the box's cgroup; what
 * only the box itself can tell (disks, processes) is asked of it under a name of its own, so that its trajectory stays
 * the agent's. Sessions and reports live in memory and end with the server. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/limits.h"
#include "surface/aio.h"
#include "surface/gzip.h"
#include "surface/samples.h"

enum { REPORTS_MAX = 16, TOP_DEFAULT = 10 };

struct report {
    struct report *next;
    char id[20], session[20], created[32];
    char reason[64], key[129];
    struct buf gzip;
};

struct observation { /* of one box; newest first */
    struct observation *next;
    struct node *node;
    char box[BOX_ID_MAX];
    char session[20], key[129], started[32], ends[32], last[32];
    bool running, processes, disk, asking;
    const char *mode;
    double interval;
    int64_t ends_ms;
    struct loop_timer *timer;
    struct samples samples;
    struct report *reports;
    size_t report_count;
    int64_t cpu_us, cpu_at_us; /* as last read, for the percentage */
    int64_t oom;               /* as last read, and when it was first seen */
    char oom_at[32];
    char cut_at[32]; /* when a sample was last too large */
};

static struct observation *all;

static void now_text(char out[32], int64_t later_s)
{
    utc_time(wall_us() + later_s * 1000000, out);
}

/* Boxes that are gone take their observations with them. */
static void forget_dead(struct node *n)
{
    for (struct observation **at = &all; *at;) {
        struct observation *o = *at;
        if (o->node != n || box_find(n, str_of(o->box)) || o->asking) {
            at = &o->next;
            continue;
        }
        *at = o->next;
        for (struct report *r = o->reports, *next; r; r = next) {
            next = r->next;
            buf_done(&r->gzip);
            free(r);
        }
        loop_timer_free(o->timer);
        samples_done(&o->samples);
        free(o);
    }
}

static void on_sample(void *arg);

static struct observation *get(struct web *w)
{
    struct box *b = aio_box(w);

    forget_dead(w->node);
    for (struct observation *o = all; o; o = o->next)
        if (strcmp(o->box, b->id) == 0)
            return o;
    struct observation *o = calloc(1, sizeof *o);
    if (!o)
        abort();
    *o = (struct observation){ .node = w->node, .mode = "off", .next = all };
    memcpy(o->box, b->id, sizeof o->box);
    samples_reset(&o->samples);
    o->timer = loop_timer_new(w->node->loop, on_sample, o);
    return all = o;
}

/* --- figures --- */

static int64_t number_in(int fd, const char *key)
{
    char text[8192];
    ssize_t n = fd < 0 ? -1 : pread(fd, text, sizeof text - 1, 0);
    size_t len = strlen(key);

    if (n <= 0)
        return -1;
    text[n] = 0;
    if (!*key)
        return strtoll(text, NULL, 10);
    for (const char *at = text; at && *at; at = strchr(at, '\n'), at += at != NULL)
        if (strncmp(at, key, len) == 0 && at[len] == ' ')
            return strtoll(at + len, NULL, 10);
    return -1;
}

static void put_number(struct jw *j, const char *key, int64_t v)
{
    if (v >= 0)
        jw_kint(j, key, v);
    else
        jw_kz(j, key, NULL);
}

static int64_t stat_of(const struct box *b, const char *v2, const char *v1)
{
    int64_t n = number_in(b->gauges[GAUGE_MEMORY_STAT], v2);
    return n >= 0 ? n : number_in(b->gauges[GAUGE_MEMORY_STAT], v1);
}

static void print_cgroup(struct observation *o, const struct box *b, struct jw *j)
{
    int64_t cpu = gauge_cpu_us(b), now = now_us(), memory = number_in(b->gauges[GAUGE_MEMORY], "");
    int64_t max = b->spec.memory_bytes;

    jw_key(j, "cgroup");
    jw_obj(j);
    if (o->cpu_at_us && cpu >= 0 && now > o->cpu_at_us)
        jw_knum(j, "cpu_usage_pct", 100.0 * (double)(cpu - o->cpu_us) / (double)(now - o->cpu_at_us));
    else
        jw_kz(j, "cpu_usage_pct", NULL);
    o->cpu_us = cpu;
    o->cpu_at_us = now;
    jw_kint(j, "cpu_usage_usec", cpu >= 0 ? cpu : 0);
    put_number(j, "cpu_nr_periods", number_in(b->gauges[GAUGE_CPU], "nr_periods"));
    put_number(j, "cpu_nr_throttled", number_in(b->gauges[GAUGE_CPU], "nr_throttled"));
    put_number(j, "cpu_throttled_usec", number_in(b->gauges[GAUGE_CPU], "throttled_usec"));
    jw_kint(j, "mem_current_bytes", memory >= 0 ? memory : 0);
    put_number(j, "mem_max_bytes", max > 0 ? max : -1);
    if (memory >= 0 && max > 0)
        jw_knum(j, "mem_usage_pct", 100.0 * (double)memory / (double)max);
    else
        jw_kz(j, "mem_usage_pct", NULL);
    put_number(j, "oom", number_in(b->gauges[GAUGE_MEMORY_EVENTS], "oom"));
    put_number(j, "oom_kill", number_in(b->gauges[GAUGE_MEMORY_EVENTS], "oom_kill"));
    put_number(j, "memory_anon_bytes", stat_of(b, "anon", "rss"));
    put_number(j, "memory_file_bytes", stat_of(b, "file", "cache"));
    put_number(j, "memory_shmem_bytes", stat_of(b, "shmem", "shmem"));
    put_number(j, "memory_slab_bytes", stat_of(b, "slab", "slab"));
    jw_obj_end(j);
}

static void print_disk(const struct json *d, struct jw *j)
{
    int64_t total = json_get_int(d, "total_bytes", 0), left = json_get_int(d, "free_bytes", 0);
    int64_t inodes = json_get_int(d, "inode_total", 0), free_inodes = json_get_int(d, "inode_free", 0);

    jw_obj(j);
    jw_kstr(j, "path", json_get_str(d, "path"));
    jw_kint(j, "used_bytes", total - left);
    jw_kint(j, "total_bytes", total);
    jw_kint(j, "free_bytes", left);
    jw_knum(j, "usage_pct", total ? 100.0 * (double)(total - left) / (double)total : 0);
    jw_kint(j, "inode_used", inodes - free_inodes);
    jw_kint(j, "inode_total", inodes);
    jw_knum(j, "inode_usage_pct", inodes ? 100.0 * (double)(inodes - free_inodes) / (double)inodes : 0);
    jw_obj_end(j);
}

static void print_process(const struct json *p, struct jw *j)
{
    int64_t rss = json_get_int(p, "rss_bytes", 0), age = json_get_int(p, "start_ticks", 0);

    jw_obj(j);
    jw_kint(j, "pid", json_get_int(p, "pid", 0));
    jw_kz(j, "user", json_get_int(p, "uid", 0) == 0 ? "root" : "gem");
    struct str comm = json_get_str(p, "comm");
    jw_kstr(j, "comm", comm.p ? comm : STR(""));
    jw_kint(j, "rss_bytes", rss);
    jw_knum(j, "rss_mib", (double)rss / (1024 * 1024));
    jw_knum(j, "cpu_pct", age > 0 ? 100.0 * (double)json_get_int(p, "cpu_ticks", 0) / (double)age : 0);
    jw_kint(j, "threads", json_get_int(p, "threads", 1));
    put_number(j, "fds", json_get_int(p, "fds", -1));
    jw_kstr(j, "state", json_get_str(p, "state"));
    jw_knum(j, "uptime_sec", (double)age / 100);
    jw_kint(j, "ppid", json_get_int(p, "ppid", 0));
    jw_obj_end(j);
}

static void print_usage(const struct json *usage, bool disk, bool processes, struct jw *j)
{
    const struct json *disks = json_get(usage, "disks"), *rows = json_get(usage, "processes");

    jw_key(j, "disk");
    jw_arr(j);
    for (const struct json *d = disk && disks ? disks->first : NULL; d; d = d->next)
        print_disk(d, j);
    jw_arr_end(j);
    jw_key(j, "top_processes");
    jw_arr(j);
    for (const struct json *p = processes && rows ? rows->first : NULL; p; p = p->next)
        print_process(p, j);
    jw_arr_end(j);
}

static void begin_event(struct jw *j, const char *when, const char *type, const char *message)
{
    jw_obj(j);
    jw_kz(j, "ts", when);
    jw_kz(j, "type", type);
    jw_kz(j, "message", message);
    jw_key(j, "data");
    jw_obj(j);
}

static void end_event(struct jw *j)
{
    jw_obj_end(j);
    jw_obj_end(j);
}

static void print_snapshot(struct observation *o, const struct box *b, const struct json *usage, bool disk,
                           bool processes, struct jw *j)
{
    char t[32];

    now_text(t, 0);
    jw_obj(j);
    jw_kz(j, "captured_at", t);
    jw_kz(j, "mode", o->mode);
    print_cgroup(o, b, j);
    print_usage(usage, disk, processes, j);
    jw_key(j, "recent_events");
    jw_arr(j);
    int64_t oom = number_in(b->gauges[GAUGE_MEMORY_EVENTS], "oom_kill");
    if (oom > o->oom) {
        o->oom = oom;
        memcpy(o->oom_at, t, sizeof t);
    }
    if (oom > 0) {
        begin_event(j, o->oom_at, "oom_kill", "programs were killed because the memory limit was reached");
        jw_kint(j, "count", oom);
        end_event(j);
    }
    if (o->cut_at[0]) {
        begin_event(j, o->cut_at, "sample_too_large",
                    "disks and processes of a sample were left out: longer than LIMIT_OBSERVE_SAMPLE");
        jw_kint(j, "limit_bytes", LIMIT_OBSERVE_SAMPLE);
        end_event(j);
    }
    jw_arr_end(j);
    jw_obj_end(j);
}

/* --- sampling --- */

static void add_sample(struct observation *o, const struct box *b, const struct json *usage)
{
    struct buf text;
    struct jw j = { .out = &text };

    buf_init(&text, LIMIT_OBSERVE_SAMPLE);
    print_snapshot(o, b, usage, o->disk, o->processes, &j);
    now_text(o->last, 0);
    if (text.full) { /* what a box says of itself may be anything */
        memcpy(o->cut_at, o->last, sizeof o->last);
        buf_reset(&text);
        j = (struct jw){ .out = &text };
        print_snapshot(o, b, NULL, false, false, &j);
    }
    (void)samples_add(&o->samples, buf_view(&text));
    buf_done(&text);
}

static void on_asked(void *arg, const struct call *c)
{
    struct observation *o = arg;
    struct box *b = box_find(o->node, str_of(o->box));
    struct json *usage = NULL;
    struct arena a = { 0 };
    struct err e;

    o->asking = false;
    if (c->data.p && json_parse(&a, c->data, &usage, &e) < 0)
        usage = NULL;
    if (b && o->running)
        add_sample(o, b, usage);
    arena_done(&a);
}

static void stop(struct observation *o)
{
    o->running = false;
    o->mode = "off";
    loop_timer_set(o->timer, -1);
}

static void on_sample(void *arg)
{
    struct observation *o = arg;
    struct box *b = box_find(o->node, str_of(o->box));

    if (!o->running)
        return;
    if (!b || b->state != BOX_RUNNING || (o->ends_ms && now_ms() >= o->ends_ms)) {
        stop(o);
        return;
    }
    loop_timer_set(o->timer, (int64_t)(o->interval * 1000));
    if (!o->disk && !o->processes) {
        add_sample(o, b, NULL);
    } else if (!o->asking) {
        char worker[BOX_ID_MAX + 16];
        snprintf(worker, sizeof worker, "observe:%s", o->box);
        o->asking = true;
        call_start(o->node,
                   &(struct call_request){ .surface = STR("aio"),
                                           .tenant = b->tenant,
                                           .worker = str_of(worker),
                                           .action = STR("system:usage"),
                                           .box = b },
                   on_asked, o);
    }
}

/* --- operations --- */

static void print_or_null(struct jw *j, const char *key, const char *text)
{
    jw_kz(j, key, *text ? text : NULL);
}

static void status(struct web *w)
{
    struct observation *o = get(w);
    struct buf b;
    struct jw j;

    aio_begin(w, &b, &j);
    jw_obj(&j);
    jw_kz(&j, "mode", o->mode);
    jw_kbool(&j, "running", o->running);
    print_or_null(&j, "session_id", o->session);
    print_or_null(&j, "started_at", o->started);
    print_or_null(&j, "ends_at", o->ends);
    if (o->session[0])
        jw_knum(&j, "interval_seconds", o->interval);
    else
        jw_kz(&j, "interval_seconds", NULL);
    print_or_null(&j, "last_sample_at", o->last);
    jw_kz(&j, "runtime_dir", NULL);
    jw_kint(&j, "report_count", (int64_t)o->report_count);
    jw_obj_end(&j);
    aio_end(w, &b, &j, NULL);
}

struct live_in {
    int64_t top_rows;
};
static const struct field live_in[] = {
    FIELD(INT, struct live_in, top_rows, "processes", .def = TOP_DEFAULT, .min = 0, .max = 1000),
    { 0 },
};

static bool print_live(struct web *w, const struct call *c, const struct json *data, struct jw *j)
{
    (void)c;
    print_snapshot(get(w), aio_box(w), data, true, true, j);
    return true;
}

struct start_in {
    struct str mode, idempotency_key;
    int64_t duration_seconds;
    double interval_seconds;
    bool include_processes, include_disk;
};
static const struct field start_in[] = {
    FIELD(STR, struct start_in, mode, "how closely", .def_str = "capture", .choices = "guardrail|capture"),
    FIELD(STR, struct start_in, idempotency_key, "the same key is the same session", .max = 128),
    FIELD(INT, struct start_in, duration_seconds, "then it stops", .def = FIELD_ABSENT, .min = 1, .max = 86400),
    FIELD(NUM, struct start_in, interval_seconds, "between samples; capture: 1, guardrail: 10", .min = 0.1,
          .max = 3600),
    FIELD(BOOL, struct start_in, include_processes, "also the largest processes; unless given, capture does"),
    FIELD(BOOL, struct start_in, include_disk, "also disks", .def = true),
    { 0 },
};

static void new_id(char out[20], char kind)
{
    out[0] = kind;
    out[1] = '-';
    random_hex(out + 2, 16);
    out[18] = 0;
}

static void start(struct web *w)
{
    const struct start_in *p = aio_bound(w);
    struct observation *o = get(w);
    struct buf b;
    struct jw j;

    bool again = o->running && p->idempotency_key.n && str_is(p->idempotency_key, o->key);
    if (o->running && !again) {
        aio_error(w, 409, "observation session %s is running; stop it first", o->session);
        return;
    }
    if (!again) {
        bool guard = str_is(p->mode, "guardrail");
        samples_reset(&o->samples);
        o->last[0] = o->cut_at[0] = 0;
        o->mode = guard ? "guardrail" : "capture";
        o->interval = p->interval_seconds > 0 ? p->interval_seconds : guard ? 10 : 1;
        o->processes = json_get(aio_given(w), "include_processes") ? p->include_processes : !guard;
        o->disk = p->include_disk;
        o->ends_ms = p->duration_seconds == FIELD_ABSENT ? 0 : now_ms() + p->duration_seconds * 1000;
        snprintf(o->key, sizeof o->key, "%.*s", STR_ARG(p->idempotency_key));
        new_id(o->session, 'o');
        now_text(o->started, 0);
        o->ends[0] = 0;
        if (o->ends_ms)
            now_text(o->ends, p->duration_seconds);
        o->running = true;
        on_sample(o);
    }
    aio_begin(w, &b, &j);
    jw_obj(&j);
    jw_kz(&j, "session_id", o->session);
    jw_kz(&j, "mode", o->mode);
    jw_kz(&j, "started_at", o->started);
    print_or_null(&j, "ends_at", o->ends);
    jw_knum(&j, "interval_seconds", o->interval);
    jw_kz(&j, "runtime_dir", "");
    jw_obj_end(&j);
    aio_end(w, &b, &j, NULL);
}

struct stop_in {
    struct str session_id;
};
static const struct field stop_in[] = {
    FIELD(STR, struct stop_in, session_id, "absent: the one that runs", .max = 64),
    { 0 },
};

static void stop_op(struct web *w)
{
    const struct stop_in *p = aio_bound(w);
    struct observation *o = get(w);
    struct buf b;
    struct jw j;

    if (!o->session[0] || (p->session_id.n && !str_is(p->session_id, o->session))) {
        aio_error(w, 404, "Observation session not found");
        return;
    }
    bool was = o->running;
    stop(o);
    aio_begin(w, &b, &j);
    jw_obj(&j);
    jw_kz(&j, "session_id", o->session);
    jw_kbool(&j, "stopped", was);
    jw_kbool(&j, "report_ready", o->samples.count > 0);
    jw_obj_end(&j);
    aio_end(w, &b, &j, NULL);
}

struct export_in {
    struct str idempotency_key, session_id, reason;
};
static const struct field export_in[] = {
    FIELD(STR, struct export_in, idempotency_key, "the same key is the same report", .max = 128),
    FIELD(STR, struct export_in, session_id, "absent: the last one", .max = 64),
    FIELD(STR, struct export_in, reason, "why", .def_str = "manual", .max = 60),
    { 0 },
};

static void print_report(const struct report *r, struct jw *j)
{
    char path[64];

    snprintf(path, sizeof path, "/v1/sandbox/observe/reports/%s", r->id);
    jw_obj(j);
    jw_kz(j, "report_id", r->id);
    print_or_null(j, "session_id", r->session);
    jw_kz(j, "reason", r->reason);
    jw_kz(j, "created_at", r->created);
    jw_kz(j, "path", path);
    jw_kint(j, "size_bytes", (int64_t)r->gzip.n);
    jw_obj_end(j);
}

static struct report *make_report(struct observation *o, const struct box *b, const struct export_in *p)
{
    struct report *r = calloc(1, sizeof *r);
    struct buf text;
    struct jw j = { .out = &text };

    if (!r)
        abort();
    new_id(r->id, 'r');
    snprintf(r->session, sizeof r->session, "%s", o->session);
    snprintf(r->reason, sizeof r->reason, "%.*s", STR_ARG(p->reason));
    snprintf(r->key, sizeof r->key, "%.*s", STR_ARG(p->idempotency_key));
    now_text(r->created, 0);
    buf_init(&text, LIMIT_OBSERVE_SAMPLES + 1 * MiB);
    jw_obj(&j);
    jw_kz(&j, "report_id", r->id);
    jw_kz(&j, "box_id", o->box);
    print_or_null(&j, "session_id", o->session);
    jw_kz(&j, "reason", r->reason);
    jw_kz(&j, "created_at", r->created);
    jw_kint(&j, "sample_count", o->samples.count);
    jw_kint(&j, "dropped_samples", o->samples.dropped);
    jw_key(&j, "now");
    print_snapshot(o, b, NULL, false, false, &j);
    buf_z(&text, ",\"samples\":[");
    samples_print(&o->samples, &text);
    buf_z(&text, "]}");
    buf_init(&r->gzip, LIMIT_OBSERVE_SAMPLES + 2 * MiB);
    gzip_store(&r->gzip, buf_view(&text));
    buf_done(&text);
    r->next = o->reports;
    o->reports = r;
    o->report_count++;
    return r;
}

static void export(struct web *w)
{
    const struct export_in *p = aio_bound(w);
    struct observation *o = get(w);
    struct report *r = NULL;
    struct buf b;
    struct jw j;

    if (p->session_id.n && !str_is(p->session_id, o->session)) {
        aio_error(w, 404, "Observation session not found");
        return;
    }
    for (r = p->idempotency_key.n ? o->reports : NULL; r && !str_is(p->idempotency_key, r->key);)
        r = r->next;
    if (!r && o->report_count >= REPORTS_MAX) {
        aio_error(w, 400, "there are %d reports; delete one first", REPORTS_MAX);
        return;
    }
    if (!r)
        r = make_report(o, aio_box(w), p);
    aio_begin(w, &b, &j);
    print_report(r, &j);
    aio_end(w, &b, &j, NULL);
}

static void reports(struct web *w)
{
    struct observation *o = get(w);
    struct buf b;
    struct jw j;

    aio_begin(w, &b, &j);
    jw_arr(&j);
    for (const struct report *r = o->reports; r; r = r->next)
        print_report(r, &j);
    jw_arr_end(&j);
    aio_end(w, &b, &j, NULL);
}

static const struct field id_in[] = {
    SAYS(STR, "report_id", "of the report", .required = true, .max = 64),
    { 0 },
};

static struct report **find(struct web *w)
{
    struct report **at = &get(w)->reports;

    while (*at && !str_is(w->match.name, (*at)->id))
        at = &(*at)->next;
    if (!*at)
        aio_error(w, 404, "Report not found");
    return at;
}

static void download(struct web *w)
{
    struct report *r = *find(w);

    if (!r)
        return;
    struct pair headers[] = { { STR("Content-Type"), STR("application/gzip") },
                              { STR("Content-Disposition"), STR("attachment; filename=\"observe-report.json.gz\"") } };
    http_reply_headers(w->http, 200, headers, 2, buf_view(&r->gzip));
}

static void delete (struct web *w)
{
    struct report **at = find(w), *r = *at;
    struct buf b;
    struct jw j;

    if (!r)
        return;
    *at = r->next;
    get(w)->report_count--;
    aio_begin(w, &b, &j);
    print_report(r, &j);
    aio_end(w, &b, &j, NULL);
    buf_done(&r->gzip);
    free(r);
}

#define MODES "off|guardrail|capture"
static const struct field status_out[] = {
    SAYS(STR, "mode", "how closely", .required = true, .choices = MODES),
    SAYS(BOOL, "running", "now", .required = true),
    SAYS(STR, "session_id", "the last one", .nullable = true),
    SAYS(STR, "started_at", "when", .nullable = true),
    SAYS(STR, "ends_at", "when", .nullable = true),
    SAYS(NUM, "interval_seconds", "between samples", .nullable = true),
    SAYS(STR, "last_sample_at", "when", .nullable = true),
    SAYS(STR, "runtime_dir", "none here", .nullable = true),
    SAYS(INT, "report_count", "reports"),
    { 0 },
};
static const struct field cgroup_out[] = {
    SAYS(NUM, "cpu_usage_pct", "since the last look", .nullable = true),
    SAYS(INT, "cpu_usage_usec", "so far"),
    SAYS(INT, "cpu_nr_periods", "of the limit", .nullable = true),
    SAYS(INT, "cpu_nr_throttled", "of them", .nullable = true),
    SAYS(INT, "cpu_throttled_usec", "waited", .nullable = true),
    SAYS(INT, "mem_current_bytes", "now"),
    SAYS(INT, "mem_max_bytes", "limit", .nullable = true),
    SAYS(NUM, "mem_usage_pct", "of the limit", .nullable = true),
    SAYS(INT, "oom", "times", .nullable = true),
    SAYS(INT, "oom_kill", "programs killed", .nullable = true),
    SAYS(INT, "memory_anon_bytes", "of it", .nullable = true),
    SAYS(INT, "memory_file_bytes", "of it", .nullable = true),
    SAYS(INT, "memory_shmem_bytes", "of it", .nullable = true),
    SAYS(INT, "memory_slab_bytes", "of it", .nullable = true),
    { 0 },
};
static const struct field disk_out[] = {
    SAYS(STR, "path", "mounted here", .required = true),
    SAYS(INT, "used_bytes", "used", .required = true),
    SAYS(INT, "total_bytes", "all", .required = true),
    SAYS(INT, "free_bytes", "free", .required = true),
    SAYS(NUM, "usage_pct", "used", .required = true),
    SAYS(INT, "inode_used", "used", .nullable = true),
    SAYS(INT, "inode_total", "all", .nullable = true),
    SAYS(NUM, "inode_usage_pct", "used", .nullable = true),
    { 0 },
};
static const struct field process_out[] = {
    SAYS(INT, "pid", "number", .required = true),          SAYS(STR, "user", "whose", .required = true),
    SAYS(STR, "comm", "name", .required = true),           SAYS(INT, "rss_bytes", "memory", .required = true),
    SAYS(NUM, "rss_mib", "memory", .required = true),      SAYS(NUM, "cpu_pct", "of its life", .nullable = true),
    SAYS(INT, "threads", "how many", .nullable = true),    SAYS(INT, "fds", "open descriptors", .nullable = true),
    SAYS(STR, "state", "R, S, D, Z, T", .nullable = true), SAYS(NUM, "uptime_sec", "age", .nullable = true),
    SAYS(INT, "ppid", "parent", .nullable = true),         { 0 },
};
static const struct field event_out[] = {
    SAYS(STR, "ts", "when", .required = true),
    SAYS(STR, "type", "kind", .required = true),
    SAYS(STR, "message", "for people"),
    SAYS(JSON, "data", "more", .def_str = "object"),
    { 0 },
};
static const struct field live_out[] = {
    SAYS(STR, "captured_at", "when", .required = true),
    SAYS(STR, "mode", "how closely", .required = true, .choices = MODES),
    SAYS(JSON, "cgroup", "the kernel's figures", .required = true, .rows = cgroup_out),
    SAYS(ROWS, "disk", "what can be written to", .rows = disk_out),
    SAYS(ROWS, "top_processes", "largest first", .rows = process_out),
    SAYS(ROWS, "recent_events", "what went wrong", .rows = event_out),
    { 0 },
};
static const struct field start_out[] = {
    SAYS(STR, "session_id", "of the session", .required = true),
    SAYS(STR, "mode", "how closely", .required = true, .choices = MODES),
    SAYS(STR, "started_at", "when", .required = true),
    SAYS(STR, "ends_at", "when", .nullable = true),
    SAYS(NUM, "interval_seconds", "between samples", .required = true),
    SAYS(STR, "runtime_dir", "none here: empty", .required = true),
    { 0 },
};
static const struct field stop_out[] = {
    SAYS(STR, "session_id", "of the session", .required = true),
    SAYS(BOOL, "stopped", "it ran until now", .required = true),
    SAYS(BOOL, "report_ready", "there are samples to export", .required = true),
    { 0 },
};
static const struct field report_out[] = {
    SAYS(STR, "report_id", "of the report", .required = true),
    SAYS(STR, "session_id", "whose samples", .nullable = true),
    SAYS(STR, "reason", "why"),
    SAYS(STR, "created_at", "when", .required = true),
    SAYS(STR, "path", "where to get it, on this server", .required = true),
    SAYS(INT, "size_bytes", "of the file", .required = true),
    { 0 },
};

static const struct aio_op ops[] = {
    { "GET", "/v1/sandbox/observe/status", "sandbox", "observe_status", "Is it observed?", .handler = status,
      .out = status_out, .out_name = "ObservationStatus", .flags = AIO_BOX },
    { "GET", "/v1/sandbox/observe/live", "sandbox", "observe_live", "Figures of now", .tool = "system:usage",
      .print = print_live, .in = live_in, .out = live_out, .out_name = "ObservationLiveSnapshot" },
    { "POST", "/v1/sandbox/observe/start", "sandbox", "observe_start", "Take samples from now on", .handler = start,
      .in = start_in, .in_name = "ObserveStartRequest", .out = start_out, .out_name = "ObservationStartResult",
      .flags = AIO_BOX },
    { "POST", "/v1/sandbox/observe/stop", "sandbox", "observe_stop", "Take no more samples", .handler = stop_op,
      .in = stop_in, .in_name = "ObserveStopRequest", .out = stop_out, .out_name = "ObservationStopResult",
      .flags = AIO_BOX },
    { "POST", "/v1/sandbox/observe/export", "sandbox", "observe_export", "Make a report of the samples",
      .handler = export, .in = export_in, .in_name = "ObserveExportRequest", .out = report_out,
      .out_name = "ObservationExportResult", .flags = AIO_BOX },
    { "GET", "/v1/sandbox/observe/reports", "sandbox", "observe_reports", "All reports", .handler = reports,
      .out = report_out, .out_name = "ObservationReportInfo", .flags = AIO_BOX | AIO_LIST },
    { "GET", "/v1/sandbox/observe/reports/{report_id}", "sandbox", "observe_report_download", "A report, gzipped JSON",
      .handler = download, .in = id_in, .out_name = "application/gzip", .flags = AIO_BOX | AIO_BYTES },
    { "DELETE", "/v1/sandbox/observe/reports/{report_id}", "sandbox", "observe_report_delete", "Delete a report",
      .handler = delete, .in = id_in, .out = report_out, .out_name = "ObservationReportInfo", .flags = AIO_BOX },
    { 0 },
};
const struct aio_group aio_observe = { "sandbox", ops };

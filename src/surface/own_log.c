/* Our own API, heavy work on what was recorded: replays as jobs, exports as streams. The work is done by processes of
 * their own (session/job.h); here is only what is asked, and how it is answered. */
#include <stdio.h>
#include <stdlib.h>

#include "base/auto.h"
#include "base/limits.h"
#include "session/job.h"
#include "surface/surface.h"
#include "wire/query.h"

enum { WAITING_MAX = 4 * 1024 * 1024, WORDS = 16 };

/* --- jobs --- */

static void send_job(struct web *w, int status, const struct job *j)
{
    struct buf o;
    struct jw out = { .out = &o };
    struct str report = buf_view(&j->out);

    buf_init(&o, LIMIT_HTTP_REPLY);
    jw_obj(&out);
    job_print(j, &out);
    while (report.n && report.p[report.n - 1] == '\n')
        report.n--;
    jw_kraw(&out, "report", j->state == JOB_DONE && !j->out.full && report.n ? report : STR("null"));
    jw_obj_end(&out);
    web_send(w, status, &o);
}

static struct job *the_job(struct web *w)
{
    struct job *j = job_find(w->node, w->tenant, w->match.id);

    if (!j)
        web_error(w, 404, ERR_NOT_FOUND, "no job '%.*s' (jobs end with the server, and %d are kept)",
                  (int)(w->match.id.n < 40 ? w->match.id.n : 40), w->match.id.p, LIMIT_JOBS_KEPT);
    return j;
}

static void job_get(struct web *w)
{
    struct job *j = the_job(w);
    if (j)
        send_job(w, 200, j);
}

static void job_delete(struct web *w)
{
    struct job *j = the_job(w);

    if (!j)
        return;
    job_kill(j);
    send_job(w, 202, j);
}

static void job_list(struct web *w)
{
    struct buf o;
    struct jw out = { .out = &o };

    buf_init(&o, LIMIT_HTTP_REPLY);
    jw_obj(&out);
    jw_key(&out, "jobs");
    jw_arr(&out);
    for (struct job *j = job_next(w->node, w->tenant, NULL); j; j = job_next(w->node, w->tenant, j)) {
        jw_obj(&out);
        job_print(j, &out);
        jw_obj_end(&out);
    }
    jw_arr_end(&out);
    jw_obj_end(&out);
    web_send(w, 200, &o);
}

/* --- words of a command line --- */

struct words {
    struct job_ask ask;
    size_t n;
    struct web *web;
};

static void add(struct words *x, const char *word)
{
    if (x->n + 1 < JOB_ARGS)
        x->ask.argv[x->n++] = word;
}

/* A value that a client chose never becomes an option of its own. */
static void add_option(struct words *x, const char *name, struct str value)
{
    if (value.n)
        add(x, arena_printf(x->web->http->arena, "--%s=%.*s", name, STR_ARG(value)));
}

static bool is_word(struct str s)
{
    return s.n && s.n < 256 && s.p[0] != '-' && s.p[0] != '.' && !memchr(s.p, '/', s.n) && !memchr(s.p, 0, s.n);
}

/* --- replay --- */

struct replay_body {
    struct str on;
    double min_match;
    bool verify, once, keep;
    struct strs ignore, rules, no_rules;
};
static const struct field replay_fields[] = {
    FIELD(STR, struct replay_body, on, "in this box as it is, not in a fresh one", .max = 64),
    FIELD(BOOL, struct replay_body, verify, "pass or fail by the share of steps that match"),
    FIELD(NUM, struct replay_body, min_match, "verify: so much must match", .min = 0, .max = 1, .def_num = 1),
    FIELD(STRS, struct replay_body, ignore, "what these (POSIX extended) match may differ", .max = WORDS),
    FIELD(STRS, struct replay_body, rules, "rules to use that are off by default", .max = WORDS),
    FIELD(STRS, struct replay_body, no_rules, "rules to do without", .max = WORDS),
    FIELD(BOOL, struct replay_body, once, "do not run steps again that differ"),
    FIELD(BOOL, struct replay_body, keep, "leave the boxes for looking at"),
    { 0 },
};

/* A job that could only fail is not begun. */
static void on_known(void *arg, const struct answer *a)
{
    struct words *x = arg;
    struct web *w = x->web;
    struct err e;

    if (a->error) {
        web_error(w, web_status_of((enum err_code)a->error), (enum err_code)a->error, "%.*s", STR_ARG(a->message));
        return;
    }
    struct job *j = job_start(w->node, &x->ask, &e);
    if (j)
        send_job(w, 202, j);
    else
        web_error(w, web_status_of(e.code), e.code, "%s", e.msg);
}

static void replay(struct web *w)
{
    struct words *x = arena_alloc(w->http->arena, sizeof *x);
    struct query q = { .op = STR("trajectory"), .id = w->match.id };
    struct replay_body b;
    struct err e;

    *x = (struct words){ .web = w, .ask = { .tenant = w->tenant, .kind = "replay" } };
    if (field_bind(replay_fields, w->body, w->http->arena, &b, NULL, &e) < 0) {
        web_error(w, 400, e.code, "%s", e.msg);
        return;
    }
    if (b.on.n && (!is_word(b.on) || !web_find_box(w, b.on))) {
        web_error(w, 404, ERR_NOT_FOUND, "on: no box '%.*s'", STR_ARG(b.on));
        return;
    }
    if (!is_word(w->match.id)) {
        web_error(w, 404, ERR_NOT_FOUND, "no such trajectory");
        return;
    }
    add(x, "replay");
    add(x, "--json");
    add_option(x, "on", b.on);
    if (b.verify)
        add(x, arena_printf(w->http->arena, "--min-match=%.6f", b.min_match));
    for (size_t i = 0; i < b.ignore.n; i++)
        add_option(x, "ignore", b.ignore.v[i]);
    for (size_t i = 0; i < b.rules.n; i++)
        add_option(x, "rule", b.rules.v[i]);
    for (size_t i = 0; i < b.no_rules.n; i++)
        add_option(x, "no-rule", b.no_rules.v[i]);
    if (b.once)
        add(x, "--once");
    if (b.keep)
        add(x, "--keep");
    add(x, "--");
    add(x, arena_z(w->http->arena, w->match.id));
    web_query(w, &q, on_known, x);
}

/* --- export --- */

struct exporting {
    struct web *web; /* until the stream begins */
    struct http_stream *out;
    struct job *job;
    struct loop_timer *look;
    struct node *node;
    bool text;
};

static void exporting_free(struct exporting *x)
{
    loop_timer_free(x->look);
    free(x);
}

static void on_client_gone(void *arg)
{
    struct exporting *x = arg;

    x->out = NULL;
    job_forget(x->job);
    exporting_free(x);
}

static void on_look(void *arg)
{
    struct exporting *x = arg;

    if (x->out && http_stream_waiting(x->out) > WAITING_MAX)
        loop_timer_set(x->look, 10);
    else
        job_more(x->job);
}

static bool on_output(void *arg, struct job *j, struct str data)
{
    struct exporting *x = arg;

    (void)j;
    if (!x->out) {
        x->out = http_stream_begin(x->web->http, 200, x->text ? "application/x-ndjson" : "application/octet-stream",
                                   on_client_gone, x);
        x->web = NULL;
    }
    if (!x->out || !http_stream_write(x->out, data))
        return false; /* a stream that failed is closed, which is told */
    if (http_stream_waiting(x->out) <= WAITING_MAX)
        return true;
    loop_timer_set(x->look, 10);
    return false;
}

static void on_export_end(void *arg, struct job *j)
{
    struct exporting *x = arg;

    if (x->out && j->exit_code == 0)
        http_stream_end(x->out);
    else if (x->out)
        http_stream_abort(x->out); /* the client sees that something is missing */
    else if (j->exit_code == 0)
        http_reply(x->web->http, 200, "application/x-ndjson", STR(""));
    else
        web_error(x->web,
                  j->exit_code == 5   ? 404
                  : j->exit_code == 2 ? 400
                                      : 500,
                  j->exit_code == 5   ? ERR_NOT_FOUND
                  : j->exit_code == 2 ? ERR_INVALID
                                      : ERR_SYSTEM,
                  "%s", j->message[0] ? j->message : "the export failed");
    exporting_free(x);
}

#define EXPORT_QUERY                                                                                                   \
    "format outcome tool since until tag worker min-reward:x min_reward:x max-reward:x max_reward:x shown-max "        \
    "shown_max trainable:b bare:b images:b replays:b"

static const char *const export_options[] = { "format", "outcome", "tool",       "since",      "until",
                                              "tag",    "worker",  "min-reward", "max-reward", "shown-max" };
static const char *const export_flags[] = { "trainable", "bare", "images", "replays" };

/* "min_reward" is as good as "min-reward": programs cannot write the one, and the list of trajectories has it. */
static const char *with_underscores(struct web *w, const char *name)
{
    char *other = arena_printf(w->http->arena, "%s", name);

    for (char *p = other; *p; p++)
        *p = *p == '-' ? '_' : *p;
    return other;
}

static struct str export_option(struct web *w, const char *name)
{
    struct str value = http_query(w->http, name);
    return value.p ? value : http_query(w->http, with_underscores(w, name));
}

static void export(struct web *w)
{
    struct exporting *x = calloc(1, sizeof *x);
    struct words words = {
        .web = w,
        .ask = { .tenant = w->tenant, .kind = "export", .on_output = on_output, .on_end = on_export_end, .arg = x }
    };
    struct str id = w->match.id.n && !str_is(w->match.id, "export") ? w->match.id : http_query(w->http, "id");
    struct err e;

    if (!x)
        abort();
    *x = (struct exporting){ .web = w, .node = w->node, .text = !str_is(http_query(w->http, "format"), "parquet") };
    x->look = loop_timer_new(w->node->loop, on_look, x);
    add(&words, "export");
    for (size_t i = 0; i < ARRAY_LEN(export_options); i++)
        add_option(&words, export_options[i], export_option(w, export_options[i]));
    for (size_t i = 0; i < ARRAY_LEN(export_flags); i++)
        if (own_query_flag(http_query(w->http, export_flags[i])))
            add(&words, arena_printf(w->http->arena, "--%s", export_flags[i]));
    if (id.n && !is_word(id)) {
        exporting_free(x);
        web_error(w, 404, ERR_NOT_FOUND, "no such trajectory");
        return;
    }
    if (!id.n)
        add(&words, "--all");
    add(&words, "--");
    if (id.n)
        add(&words, arena_z(w->http->arena, id));
    x->job = job_start(w->node, &words.ask, &e);
    if (!x->job) {
        exporting_free(x);
        web_error(w, web_status_of(e.code), e.code, "%s", e.msg);
    }
}

const struct route own_log_routes[] = {
    { "GET", "/sg/v1/jobs", job_list, ROUTE_TENANT },
    { "GET", "/sg/v1/jobs/{id}", job_get, ROUTE_TENANT },
    { "DELETE", "/sg/v1/jobs/{id}", job_delete, ROUTE_MANAGE | ROUTE_TENANT },
    { "POST", "/sg/v1/trajectories/{id}/replay", replay, ROUTE_MANAGE | ROUTE_TENANT },
    { "GET", "/sg/v1/trajectories/export", export, ROUTE_TENANT, EXPORT_QUERY " id" },
    { "GET", "/sg/v1/trajectories/{id}/export", export, ROUTE_TENANT, EXPORT_QUERY },
    { 0 },
};

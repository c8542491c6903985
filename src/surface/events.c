/* Live steps of a trajectory as server-sent events. A subscriber first gets what the log already has after its
 * Last-Event-ID, then what happens; nothing is missed and nothing comes twice. */
#include <stdio.h>
#include <stdlib.h>

#include "base/limits.h"
#include "store/recorder_client.h"
#include "surface/surface.h"

enum { HEARTBEAT_MS = 15000, PAGE = 200, LOOK_MS = 20, WAITING_MAX = 256 * 1024 };

struct subscriber {
    struct subscriber *next;
    struct streams *all;
    struct http_stream *out; /* NULL: closed, to be freed by the answer that is under way */
    const struct tenant *tenant;
    char worker[BOX_ID_MAX]; /* an agent's: only its own box's trajectories; else "" */
    char trajectory[LIMIT_TRAJECTORY_ID + 1];
    int64_t sent; /* last step that was written */
    int64_t seen; /* highest step that we heard of; above sent: one before it was still open */
    bool asking;  /* a page of the log is under way; nothing else is written meanwhile */
    bool again;   /* something happened since it was asked for */
    bool full;    /* the client has to read before more is written */
    int64_t page; /* how many steps to ask for at once: as many as found room the last time */
};

struct streams {
    struct node *node;
    struct subscriber *first;
    struct loop_timer *beat, *look;
    struct loop *loop;
};

static void catch_up(struct subscriber *s);

static void sub_free(struct subscriber *s)
{
    for (struct subscriber **p = &s->all->first; *p; p = &(*p)->next)
        if (*p == s) {
            *p = s->next;
            break;
        }
    if (s->asking)
        s->out = NULL;
    else
        free(s);
}

static void on_closed(void *arg)
{
    sub_free(arg);
}

static void write_event(struct subscriber *s, int64_t step, struct str json)
{
    struct buf b;

    buf_init(&b, LIMIT_RECORD);
    buf_printf(&b, "id: %lld\nevent: step\ndata: ", (long long)step);
    /* A client's own JSON may have line breaks between its tokens: each begins a data line of its own. */
    for (const char *p = json.p, *end = json.p + json.n; p < end;) {
        const char *nl = memchr(p, '\n', (size_t)(end - p));
        size_t n = nl ? (size_t)(nl - p) : (size_t)(end - p);
        buf_add(&b, p, n);
        if (nl)
            buf_z(&b, "\ndata: ");
        p += n + (nl != NULL);
    }
    buf_z(&b, "\n\n");
    (void)http_stream_write(s->out, buf_view(&b));
    buf_done(&b);
    s->sent = step;
}

/* What a client has not read stays in the log: it is asked for again when there is room. */
static bool is_full(struct subscriber *s)
{
    if (http_stream_waiting(s->out) <= WAITING_MAX)
        return false;
    s->full = true;
    loop_timer_set(s->all->look, LOOK_MS);
    return true;
}

static void look(void *arg)
{
    struct streams *all = arg;
    bool still = false;

    for (struct subscriber *s = all->first; s; s = s->next) {
        if (!s->full)
            continue;
        if (http_stream_waiting(s->out) > WAITING_MAX / 2) {
            still = true;
            continue;
        }
        s->full = false;
        catch_up(s);
    }
    if (still)
        loop_timer_set(all->look, LOOK_MS);
}

static void on_page(void *arg, const struct answer *a)
{
    struct subscriber *s = arg;
    struct arena arena = { 0 };
    struct json *page = NULL;
    struct err e;
    size_t n = 0;
    bool more = false;

    s->asking = false;
    if (!s->out) {
        free(s);
        return;
    }
    if (a->error == 0 && json_parse(&arena, a->json, &page, &e) == 0) {
        const struct json *steps = json_get(page, "steps"), *next = json_get(page, "next");
        more = next && next->type == JSON_NUM;
        for (const struct json *row = steps ? steps->first : NULL; row; row = row->next, n++) {
            if (is_full(s))
                break;
            if (!json_get_str(row, "outcome").p) { /* still runs: it will come live */
                n = 0;
                break;
            }
            write_event(s, json_get_int(row, "step", 0), row->raw);
        }
    }
    arena_done(&arena);
    s->page = s->full ? (n ? (int64_t)n : 1) : PAGE;
    if (s->full)
        return;
    if ((n && more) || s->again) /* a full page, an answer that was cut for its size, or news */
        catch_up(s);
}

static void catch_up(struct subscriber *s)
{
    struct query q = { .op = STR("steps"),
                       .id = str_of(s->trajectory),
                       .tenant = str_of(s->tenant->name),
                       .worker = str_of(s->worker),
                       .after = s->sent,
                       .limit = s->page,
                       .upto = (int64_t)journal_end(s->all->node->journal) };
    s->asking = true;
    s->again = false;
    recorder_ask(s->all->node->recorder, &q, -1, on_page, s);
}

static void beat(void *arg)
{
    struct streams *all = arg;

    for (struct subscriber *s = all->first; s; s = s->next)
        if (http_stream_waiting(s->out) == 0) /* else there is life enough in it */
            (void)http_stream_write(s->out, STR(": still here\n\n"));
    loop_timer_set(all->beat, HEARTBEAT_MS);
}

struct streams *streams_new(struct node *n, struct loop *l)
{
    struct streams *s = calloc(1, sizeof *s);
    if (!s)
        abort();
    s->node = n;
    s->loop = l;
    s->beat = loop_timer_new(l, beat, s);
    s->look = loop_timer_new(l, look, s);
    loop_timer_set(s->beat, HEARTBEAT_MS);
    return s;
}

void streams_open(struct web *w, struct streams *all, struct str trajectory, int64_t after)
{
    struct subscriber *s = calloc(1, sizeof *s);

    if (!s)
        abort();
    s->all = all;
    s->tenant = w->tenant;
    memcpy(s->worker, w->who.box, sizeof s->worker);
    snprintf(s->trajectory, sizeof s->trajectory, "%.*s", STR_ARG(trajectory));
    s->sent = after;
    s->page = PAGE;
    s->out = http_stream_begin(w->http, 200, "text/event-stream", on_closed, s);
    s->next = all->first;
    all->first = s;
    catch_up(s);
}

/* The same members in the same order as the recorder's rows have: a follower cannot tell live from later. */
void step_print(const struct call *c, struct jw *w)
{
    char t[32];

    utc_time(c->started_wall_us, t);
    jw_kint(w, "call", (int64_t)c->id);
    jw_kz(w, "trajectory", c->trajectory->id);
    jw_kint(w, "step", c->step);
    jw_kz(w, "time", t);
    jw_kint(w, "time_us", c->started_wall_us);
    jw_kstr(w, "action", c->tool ? str_of(c->tool->name) : c->action);
    jw_kstr(w, "worker", c->worker_id);
    jw_kstr(w, "surface", c->surface);
    jw_kstr(w, "tool", c->tool ? str_of(c->tool->name) : c->action);
    jw_kz(w, "resource", c->backend ? c->backend->name : NULL);
    jw_kz(w, "session", c->session_id[0] ? c->session_id : NULL);
    jw_kz(w, "box", c->box_id[0] ? c->box_id : NULL);
    jw_kbool(w, "temporary", c->temporary);
    jw_kstr(w, "key", c->key);
    jw_kstr(w, "trace", c->trace);
    jw_kstr(w, "request", c->request_id);
    jw_kraw(w, "params", c->params);
    jw_kz(w, "state", "done");
    jw_kz(w, "outcome", outcome_name(c->outcome));
    jw_kbool(w, "retry_safe", c->retry_safe);
    jw_kbool(w, "trainable", c->trainable);
    jw_kint(w, "code", c->code);
    jw_kstr(w, "message", c->message);
    jw_kraw(w, "observation", call_logged(c));
    jw_kint(w, "queued_us", c->queued_us);
    jw_kint(w, "run_us", c->run_us);
    jw_kint(w, "total_us", c->total_us);
    jw_kint(w, "cpu_us", c->cpu_us);
    jw_kint(w, "peak_bytes", c->peak_bytes);
    jw_kgauge(w, "pids_peak", c->pids_peak);
    jw_kgauge(w, "disk_used_bytes", c->disk_used_bytes);
    jw_kint(w, "dropped_bytes", c->dropped_bytes);
    jw_kraw(w, "blobs", c->blobs.p ? c->blobs : STR("null"));
    jw_kz(w, "state_id", c->state_id[0] ? c->state_id : NULL);
    jw_kz(w, "state_root", NULL); /* it follows, in the log */
}

void streams_step(struct streams *all, const struct call *c)
{
    struct buf b = { 0 };

    for (struct subscriber *s = all->first, *next; s; s = next) {
        next = s->next;
        if (s->tenant != c->tenant || strcmp(s->trajectory, c->trajectory->id) != 0 ||
            (s->worker[0] && !str_is(c->worker_id, s->worker)))
            continue;
        s->seen = c->step > s->seen ? c->step : s->seen;
        if (s->asking) { /* the page may or may not have it; the next one will */
            s->again = true;
            continue;
        }
        if (c->step <= s->sent || s->full || is_full(s))
            continue;
        /* A parallel step is still open before it, or an earlier serve began it and we do not know all of it: the log
         * does, in order. */
        if (c->step != s->sent + 1 || c->resumed) {
            catch_up(s);
            continue;
        }
        if (!b.p) {
            buf_init(&b, LIMIT_RECORD);
            struct jw w = { .out = &b };
            jw_obj(&w);
            step_print(c, &w);
            jw_obj_end(&w);
        }
        write_event(s, c->step, buf_view(&b));
        if (s->seen > s->sent) /* those that had to wait for this one */
            catch_up(s);
    }
    buf_done(&b);
}

/* What a worker holds of one resource. Calls of one session run in order; sessions run side by side. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/limits.h"
#include "base/log.h"
#include "session/call.h"
#include "session/carry.h"
#include "session/link.h"
#include "session/node.h"
#include "session/origin.h"
#include "session/quarantine.h"
#include "session/remote.h"

/* An action longer than the TTL never has its session taken away under it. */
bool session_expired(const struct session *s, int64_t now)
{
    return s->up && !s->temporary && s->expires_us && s->expires_us <= now && !s->running && !s->queued;
}

struct session *session_find(struct worker *w, const struct backend *b)
{
    for (struct session *s = w->sessions; s; s = s->next) {
        if (s->backend != b || s->temporary)
            continue;
        if (!session_expired(s, wall_us()))
            return s;
        session_close(s, "expired"); /* the sweep would have come a moment later */
        return NULL;
    }
    return NULL;
}

void session_list_add(struct session *s)
{
    struct session **p = &s->worker->sessions;

    while (*p)
        p = &(*p)->next;
    *p = s;
}

/* Letters, digits, '_' and '-' stay, the rest becomes '-'; at most 32, without the strip characters at the ends. */
static size_t clean_name(struct str in, const char *strip, char *out)
{
    size_t n = 0;
    char all[LIMIT_WORKER_ID + 1];
    size_t len = in.n < LIMIT_WORKER_ID ? in.n : LIMIT_WORKER_ID, from = 0;

    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)in.p[i];
        all[i] = isalnum(c) || c == '_' || c == '-' ? (char)c : '-';
    }
    while (from < len && strchr(strip, all[from]))
        from++;
    while (len > from && strchr(strip, all[len - 1]))
        len--;
    while (from < len && n < 32)
        out[n++] = all[from++];
    out[n] = 0;
    return n;
}

/* AgentFlow's naming: {type}_{worker}_{NNN}[_{custom}], and the id adds 8 hex digits. */
static void name_session(struct session *s, struct str custom)
{
    struct worker *w = s->worker;
    struct counter *c = w->counters;
    char who[40], extra[40];

    while (c && c->backend != s->backend)
        c = c->next;
    if (!c) {
        c = calloc(1, sizeof *c);
        if (!c)
            abort();
        *c = (struct counter){ .next = w->counters, .backend = s->backend };
        w->counters = c;
    }
    clean_name(str_of(w->id), "-", who);
    size_t n = (size_t)snprintf(s->name, sizeof s->name, "%s_%s_%03u", s->backend->name, who, ++c->n % 1000000);
    if (custom.p && clean_name(custom, "-_", extra))
        snprintf(s->name + n, sizeof s->name - n, "_%s", extra);
    char hex[9];
    random_hex(hex, 8);
    snprintf(s->id, sizeof s->id, "%s_%s", s->name, hex);
}

static int record_open(const struct session *s, struct err *e)
{
    struct buf *o = &s->worker->node->scratch;
    struct jw w = { .out = o };

    buf_reset(o);
    jw_obj(&w);
    jw_kz(&w, "session", s->id);
    jw_kint(&w, "time", s->created_us);
    jw_kz(&w, "name", s->name);
    if (!s->worker->tenant->is_default)
        jw_kz(&w, "tenant", s->worker->tenant->name);
    jw_kz(&w, "worker", s->worker->id);
    jw_kz(&w, "resource", s->backend->name);
    jw_kz(&w, "box", s->box ? s->box->id : NULL);
    jw_kraw(&w, "config", s->config.p ? s->config : STR("{}"));
    jw_kint(&w, "ttl_ms", s->ttl_ms);
    jw_kbool(&w, "temporary", s->temporary);
    jw_kbool(&w, "own_shell", s->own_shell);
    jw_obj_end(&w);
    struct str body = buf_view(o);
    return node_append(s->worker->node, RECORD_SESSION_OPEN, &body, 1, e);
}

static void record_close(const struct session *s, const char *reason)
{
    struct buf *o = &s->worker->node->scratch;
    struct jw w = { .out = o };
    struct err e;

    buf_reset(o);
    jw_obj(&w);
    jw_kz(&w, "session", s->id);
    jw_kint(&w, "time", wall_us());
    jw_kz(&w, "reason", reason);
    jw_obj_end(&w);
    struct str body = buf_view(o);
    if (node_append(s->worker->node, RECORD_SESSION_CLOSE, &body, 1, &e) < 0)
        log_error("session end not recorded", "session=%s error='%s'", s->id, e.msg);
}

/* The box that the worker's other sessions live in, unless one of the two wants to be alone. */
static struct box *shared_box(struct worker *w)
{
    for (struct session *s = w->sessions; s; s = s->next)
        if (!s->temporary && !s->own_box && s->box && s->box->state != BOX_CLOSING)
            return s->box;
    return NULL;
}

static int choose_box(struct session *s, const struct session_ask *ask, struct err *e)
{
    struct node *n = s->worker->node;
    struct str wish = json_get_str(ask->config, "box");
    struct box_ask box;

    if (s->backend->kind == KIND_STATELESS || s->backend->kind == KIND_SHARED || s->backend->remote)
        return 0;
    if (wish.p && !str_is(wish, "own") && !str_is(wish, "shared"))
        return err_set(e, ERR_INVALID, "box: '%.*s' is neither own nor shared", STR_ARG(wish));
    s->own_box = str_is(wish, "own");
    int r = box_ask_bind(n, ask->config, &box, e);
    if (r < 0)
        return r;
    if (box.origin_of && origin_has_secret(ask->config)) /* it would be in the log */
        return err_set(e, ERR_INVALID,
                       "repo.url: the config of a session is recorded; a URL with a secret is for POST /sg/v1/boxes");
    /* A worker that holds a box works in it, also with tools for which it has no session. */
    s->box = ask->box ? ask->box : s->own_box ? NULL : shared_box(s->worker);
    r = s->box ? box_ask_fits(s->box, ask->config, e) : 0;
    if (r < 0) {
        s->box = NULL;
        return r;
    }
    if (!s->box) {
        box.tenant = s->worker->tenant;
        box.temporary = s->temporary;
        box.ttl_ms = 0; /* the session's own TTL rules */
        s->box = box_new(n, &box, e);
        if (!s->box)
            return -EAGAIN;
    }
    s->next_in_box = s->box->sessions;
    s->box->sessions = s;
    if (s->backend->save_script && !s->box->standing) {      /* a standing box has one shell for all its life */
        s->own_shell = s->box->shell_given && !s->temporary; /* calls without a session share the first one */
        s->box->shell_given = true;
    }
    return 0;
}

static void session_free(struct session *s)
{
    for (struct session **p = &s->worker->sessions; *p; p = &(*p)->next)
        if (*p == s) {
            *p = s->next;
            break;
        }
    s->worker->node->session_count--;
    s->worker = NULL;
    if (!s->pump_pending) {
        arena_done(&s->arena);
        free(s);
    }
}

static void pump(void *arg)
{
    struct session *s = arg;

    s->pump_pending = false;
    if (!s->worker) { /* it was closed meanwhile */
        arena_done(&s->arena);
        free(s);
    } else if (s->temporary && s->over) {
        session_close(s, "done");
    } else {
        session_next(s);
    }
}

void session_pump(struct session *s)
{
    if (s->pump_pending)
        return;
    s->pump_pending = true;
    loop_later(s->worker->node->loop, pump, s);
}

int session_open(struct worker *w, const struct session_ask *ask, struct session **ret, struct err *e)
{
    struct session *s = calloc(1, sizeof *s);
    int r = 0;

    if (!s)
        abort();
    *s = (struct session){ .worker = w, .backend = ask->backend, .temporary = ask->temporary };
    s->queue_last = &s->queue;
    s->created_us = s->last_us = w->last_us = wall_us();
    s->ttl_ms = ask->ttl_ms ? ask->ttl_ms : w->node->opts.session_ttl_ms;
    if (ask->config)
        s->config = arena_copy(&s->arena, ask->config->raw);
    session_list_add(s);
    w->node->session_count++;
    session_touch(s);
    if (ask->backend->open)
        r = ask->backend->open(&s->arena, ask->config, &s->state, e);
    if (r >= 0)
        r = choose_box(s, ask, e);
    if (r < 0) {
        session_free(s);
        return r;
    }
    name_session(s, ask->custom_name);
    if (ask->on_open)
        session_when_open(s, ask->on_open, ask->arg);
    if (!s->box || s->box->state != BOX_CREATING) {
        s->in_open = true;
        if (s->backend->remote)
            remote_open(s, e);
        else
            session_up(s);
        s->in_open = false;
    }
    if (s->lost) { /* the caller hears it from us, and nobody else waits yet */
        *e = s->error;
        free(s->opening);
        s->opening = NULL;
        session_close(s, "failed");
        return -EIO;
    }
    *ret = s;
    return 0;
}

void session_when_open(struct session *s, void (*cb)(void *arg, struct session *s, const struct err *e), void *arg)
{
    struct session_waiter **p = &s->opening, *w;

    if (s->up) {
        cb(arg, s, NULL);
        return;
    }
    w = calloc(1, sizeof *w);
    if (!w)
        abort();
    *w = (struct session_waiter){ .cb = cb, .arg = arg };
    while (*p)
        p = &(*p)->next;
    *p = w;
}

static void tell(struct session *s, const struct err *e)
{
    struct session_waiter *w = s->opening;

    s->opening = NULL;
    for (struct session_waiter *next; w; w = next) {
        next = w->next;
        w->cb(w->arg, s, e);
        free(w);
    }
}

/* Reported, and not kept. */
static void open_failed(struct session *s, const struct err *e)
{
    s->lost = true;
    s->lost_outcome = OUTCOME_INFRA_ERROR;
    s->error = *e;
    if (s->in_open)
        return;
    tell(s, e);
    session_close(s, "failed");
}

/* Temporary sessions end with their call and need no record of their own: the step says it all. */
static void ready(struct session *s)
{
    struct err e;

    session_pump(s);
    if (!s->temporary && record_open(s, &e) < 0) {
        open_failed(s, &e);
        return;
    }
    s->up = true;
    tell(s, NULL);
}

static void on_prepared(void *arg, const struct call *c)
{
    struct worker *w = worker_find(c->node, c->tenant, c->worker_id);
    struct session *s = w ? w->sessions : NULL;
    struct err e;

    (void)arg;
    while (s && strcmp(s->id, c->session_id) != 0) /* it may have been closed meanwhile */
        s = s->next;
    if (!s)
        return;
    s->over = false;
    if (c->outcome == OUTCOME_OK) {
        ready(s);
        return;
    }
    struct arena a = { 0 };
    struct json *data = NULL;
    if (c->data.p)
        (void)json_parse(&a, c->data, &data, &e);
    struct str why = json_get_str(data, "stderr");
    while (why.n && why.p[why.n - 1] == '\n')
        why.n--;
    if (!why.n)
        why = c->message;
    err_set(&e, c->outcome == OUTCOME_TASK_ERROR ? ERR_INVALID : ERR_SYSTEM, "session_config: %.*s", STR_ARG(why));
    arena_done(&a);
    open_failed(s, &e);
}

static void on_ignored(void *arg, const struct call *c)
{
    (void)arg, (void)c;
}

/* Bash refuses to set its own read-only variables again and says so: that is no failure. */
static void on_restored(void *arg, const struct call *c)
{
    struct call as_ok = *c;

    as_ok.outcome = c->outcome == OUTCOME_TASK_ERROR ? OUTCOME_OK : c->outcome;
    on_prepared(arg, &as_ok);
}

/* What the config asks for (a directory, variables) is done in the box before the session is up. */
void session_up(struct session *s)
{
    const struct backend *b = s->backend;
    struct json *config = NULL;
    struct err e = { 0 };
    void *params = NULL;

    if (!s->temporary && b->prepare && s->config.n && json_parse(&s->arena, s->config, &config, &e) == 0) {
        params = b->prepare(&s->arena, config, &e);
        if (e.code) {
            open_failed(s, &e);
            return;
        }
    }
    if (params)
        call_silent(s, tool_find(str_of(b->prepare_with), NULL), params, on_prepared, NULL);
    /* A forked or restored box: its first shell begins where the other one was; this goes before the config's wishes.
     */
    if (!call_shell_begin(s, params ? on_ignored : on_restored, NULL) && !params)
        ready(s);
}

/* The record of its opening stands; only the box's side of it is made again. */
void session_again(struct session *s)
{
    (void)call_shell_begin(s, on_ignored, NULL);
    session_pump(s);
}

void session_lost(struct session *s, enum outcome o, const struct err *e)
{
    s->box = NULL;
    if (!s->up && !s->temporary) {
        open_failed(s, e);
        return;
    }
    s->lost = true;
    s->lost_outcome = o;
    s->error = *e;
    session_pump(s); /* fails what waits */
}

void session_touch(struct session *s)
{
    s->last_us = wall_us();
    s->expires_us = s->ttl_ms ? s->last_us + s->ttl_ms * 1000 : 0;
}

/* Where the box lives on for another session: the next one of this kind begins with nothing. */
static void end_shell(const struct session *s, struct box *b)
{
    bool alone = b->sessions == s && !s->next_in_box;

    if (s->backend->save_script && !s->temporary && !alone && !b->standing && b->state != BOX_CLOSING)
        link_end_shell(b->link, s->own_shell ? str_of(s->id) : STR(""));
}

void session_close(struct session *s, const char *reason)
{
    struct box *b = s->box;
    struct err e;

    err_set(&e, ERR_NOT_FOUND, "session %s was %s", s->id, reason);
    tell(s, &e);
    if (b)
        for (struct call *c = b->running, *next; c; c = next) {
            next = c->next;
            if (c->session != s)
                continue;
            link_cancel(b->link, c->id); /* the box may live on for another session */
            call_fail(c, OUTCOME_KILLED, &e, false);
        }
    while (s->queue)
        call_fail(s->queue, s->lost ? s->lost_outcome : OUTCOME_KILLED, s->lost ? &s->error : &e, true);
    while (s->storing)
        call_leave_session(s->storing); /* what came of it is known, and will be recorded */
    if (s->up && !s->temporary)
        record_close(s, reason);
    if (b)
        end_shell(s, b);
    if (s->backend->remote)
        remote_close(s);
    s->box = NULL;
    if (b)
        box_let_go(b, s, reason);
    session_free(s);
}

/* Sends the calls whose turn it is. */
void session_next(struct session *s)
{
    struct err e;

    if (s->lost) {
        if (s->lost_outcome == OUTCOME_INFRA_ERROR) /* it never came up */
            e = s->error;
        else
            err_set(&e, ERR_NOT_FOUND, "the box of session %s is gone (%s); destroy the session and create it again",
                    s->id, s->error.msg);
        while (s->queue)
            call_fail(s->queue, s->lost_outcome == OUTCOME_INFRA_ERROR ? OUTCOME_INFRA_ERROR : OUTCOME_BOX_LOST, &e,
                      true);
        return;
    }
    struct box *b = s->box;
    if (b && box_quarantined(b)) {
        (void)box_quarantine_error(b, &e);
        for (struct call *c; (c = s->queue);) {
            snprintf(c->box_id, sizeof c->box_id, "%s", b->id);
            call_fail(c, OUTCOME_INFRA_ERROR, &e, true);
        }
        return;
    }
    for (struct call **p = &s->queue; *p;) {
        struct call *c = *p;
        bool parallel = c->tool->flags & TOOL_PARALLEL;

        if (b &&
            (!b->up || b->state != BOX_RUNNING || b->running_count >= LIMIT_CALLS_PER_BOX || (b->holds && !c->silent)))
            return;
        if (b && b->carried.pending && s->backend->interprets && !c->silent) {
            carry_in(s); /* goes before it, and has the session go on */
            return;
        }
        if (!parallel && s->running_alone) { /* later calls that need not wait may pass */
            p = &c->next;
            continue;
        }
        *p = c->next;
        if (!*p)
            s->queue_last = p;
        c->next = NULL;
        s->queued--;
        s->running++;
        s->running_alone += !parallel;
        call_send(c); /* if it is over at once it has left us, and is answered later */
    }
}

const char *session_status(const struct session *s)
{
    if (s->lost || (s->box && box_quarantined(s->box)))
        return "error"; /* AgentFlow has no other word */
    return s->up ? "active" : "initializing";
}

void session_print(const struct session *s, struct jw *w)
{
    char t[32];

    jw_kz(w, "resource_type", s->backend->name);
    jw_kz(w, "session_id", s->id);
    jw_kz(w, "session_name", s->name);
    jw_kz(w, "status", session_status(s));
    jw_kbool(w, "auto_created", s->temporary);
    iso_time(s->created_us, t);
    jw_kz(w, "created_at", t);
    iso_time(s->last_us, t);
    jw_kz(w, "last_activity", t);
    iso_time(s->expires_us, t);
    jw_kz(w, "expires_at", t);
    jw_kz(w, "box_id", s->box ? s->box->id : NULL);
    if (s->box && box_quarantined(s->box)) {
        jw_kz(w, "box_state", box_state_name(s->box));
        box_quarantine_print(s->box, w);
    }
}

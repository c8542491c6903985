/* The tools of the backend "trajectory". A reward is not among what an agent can say of itself: that is for the API. */
#include "tool/log.h"

#include <stdio.h>

#include "base/limits.h"
#include "session/call_parts.h"
#include "session/job.h"
#include "session/note.h"
#include "store/recorder_client.h"

static void fail(struct call *c, enum err_code code, const char *message)
{
    struct err e;
    bool theirs = code == ERR_INVALID || code == ERR_MISSING || code == ERR_TYPE || code == ERR_LIMIT;

    err_set(&e, code, "%s", message);
    call_fail(c,
              code == ERR_BUSY ? OUTCOME_INFRA_ERROR
              : theirs         ? OUTCOME_INVALID_REQUEST
                               : OUTCOME_TASK_ERROR,
              &e, code == ERR_BUSY);
}

static void succeed(struct call *c)
{
    if (c->out.full) {
        fail(c, ERR_LIMIT, "the result exceeds LIMIT_RECORD");
        return;
    }
    c->data = buf_view(&c->out);
    c->outcome = OUTCOME_OK;
    c->run_us = now_us() - c->arrived_us;
    call_finish(c);
}

static struct str trimmed(struct str s)
{
    while (s.n && s.p[s.n - 1] == '\n')
        s.n--;
    return s;
}

static void on_replayed(void *arg, struct job *j)
{
    struct call *c = arg;
    struct str report = trimmed(buf_view(&j->out));
    struct jw w = { .out = &c->out };

    if (j->exit_code > 1 || !report.n) {
        fail(c, j->exit_code == 5 ? ERR_NOT_FOUND : ERR_SYSTEM, j->message[0] ? j->message : "the replay failed");
        return;
    }
    buf_init(&c->out, LIMIT_RECORD);
    jw_obj(&w);
    jw_kraw(&w, "report", report);
    jw_obj_end(&w);
    succeed(c);
}

static void on_exported(void *arg, struct job *j)
{
    struct call *c = arg;
    const struct log_tool_params *p = c->bound;
    struct jw w = { .out = &c->out };

    if (j->exit_code != 0) {
        fail(c,
             j->exit_code == 5   ? ERR_NOT_FOUND
             : j->exit_code == 2 ? ERR_INVALID
                                 : ERR_SYSTEM,
             j->message[0] ? j->message : "the export failed");
        return;
    }
    if ((int64_t)j->out.n > p->max_bytes) {
        fail(c, ERR_LIMIT,
             arena_printf(&c->arena, "max_bytes: the text has %zu bytes, more than %lld", j->out.n,
                          (long long)p->max_bytes));
        return;
    }
    buf_init(&c->out, LIMIT_RECORD);
    jw_obj(&w);
    jw_kstr(&w, "format", p->format);
    jw_kstr(&w, "text", buf_view(&j->out));
    jw_kint(&w, "bytes", (int64_t)j->out.n);
    jw_obj_end(&w);
    succeed(c);
}

static const char *option(struct call *c, const char *name, struct str value)
{
    return arena_printf(&c->arena, "--%s=%.*s", name, STR_ARG(value));
}

static bool is_word(struct str s)
{
    return s.n && s.p[0] != '-' && s.p[0] != '.' && !memchr(s.p, '/', s.n) && !memchr(s.p, 0, s.n);
}

static void start(struct call *c, struct str id, enum log_action what)
{
    const struct log_tool_params *p = c->bound;
    struct job_ask ask = { .tenant = c->tenant, .arg = c };
    size_t n = 0;
    struct err e;

    ask.kind = what == LOG_REPLAY ? "replay" : "export";
    ask.on_end = what == LOG_REPLAY ? on_replayed : on_exported;
    ask.argv[n++] = ask.kind;
    if (what == LOG_REPLAY) {
        ask.argv[n++] = "--json";
        ask.argv[n++] = arena_printf(&c->arena, "--min-match=%.6f", p->min_match);
        if (p->on.n)
            ask.argv[n++] = option(c, "on", p->on);
        if (p->once)
            ask.argv[n++] = "--once";
    } else {
        ask.argv[n++] = option(c, "format", p->format);
        if (p->outcome.n)
            ask.argv[n++] = option(c, "outcome", p->outcome);
        if (p->tool.n)
            ask.argv[n++] = option(c, "tool", p->tool);
        if (p->trainable)
            ask.argv[n++] = "--trainable";
        if (p->bare)
            ask.argv[n++] = "--bare";
    }
    ask.argv[n++] = "--";
    ask.argv[n++] = arena_z(&c->arena, id);
    if (!job_start(c->node, &ask, &e))
        fail(c, e.code, e.msg);
}

/* --- annotate --- */

static void on_known(void *arg, const struct answer *a)
{
    struct call *c = arg;
    const struct log_tool_params *p = c->bound;
    struct str id = p->trajectory.n ? p->trajectory : str_of(c->trajectory->id);
    int64_t step = p->step == FIELD_ABSENT ? 0 : p->step;
    struct buf text;
    struct jw w = { .out = &text };
    struct json *patch = NULL;
    struct err e;

    if (a->error) {
        fail(c, (enum err_code)a->error, arena_z(&c->arena, a->message));
        return;
    }
    buf_init(&text, LIMIT_RECORD);
    jw_obj(&w);
    if (p->tags.n)
        jw_kraw(&w, "tags", p->tags);
    if (p->metadata.n)
        jw_kraw(&w, "metadata", p->metadata);
    if (p->note.n)
        jw_kstr(&w, "note", p->note);
    jw_obj_end(&w);
    struct str copy = arena_copy(&c->arena, buf_view(&text));
    buf_done(&text);
    int r = json_parse(&c->arena, copy, &patch, &e);
    if (r >= 0)
        r = note_check(patch, &e);
    if (r >= 0)
        r = note_append(c->node, c->tenant, id, step, patch, &e);
    if (r < 0) {
        fail(c, e.code, e.msg);
        return;
    }
    buf_init(&c->out, LIMIT_RECORD);
    w = (struct jw){ .out = &c->out };
    jw_obj(&w);
    jw_kstr(&w, "trajectory", id);
    jw_kraw(&w, "annotations", copy);
    jw_obj_end(&w);
    succeed(c);
}

void log_tool_start(struct call *c)
{
    const struct log_tool_params *p = c->bound;
    struct str id = p->trajectory.n ? p->trajectory : str_of(c->trajectory->id);
    enum log_action what = log_tool_action(c->tool);

    if (!is_word(id) || (p->on.n && !is_word(p->on))) {
        fail(c, ERR_NOT_FOUND, "no such trajectory or box");
        return;
    }
    if (what != LOG_ANNOTATE) {
        start(c, id, what);
        return;
    }
    struct query q = { .op = p->step == FIELD_ABSENT ? STR("trajectory") : STR("step"),
                       .id = id,
                       .step = p->step == FIELD_ABSENT ? 0 : p->step,
                       .tenant = str_of(c->tenant->name),
                       .upto = (int64_t)journal_end(c->node->journal) };
    recorder_ask(c->node->recorder, &q, -1, on_known, c);
}

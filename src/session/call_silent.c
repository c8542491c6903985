/* Calls that are no steps: they prepare a session, or ask it about itself. */
#include <stdio.h>

#include "base/limits.h"
#include "base/log.h"
#include "session/call_parts.h"

static struct call *silent_new(struct session *s, const struct tool *t, on_call_done *cb, void *arg)
{
    struct call *c = call_new(s->worker->node);

    c->silent = true;
    c->tenant = s->worker->tenant;
    c->worker = s->worker;
    c->worker->calls++;
    c->worker_id = arena_copy(&c->arena, str_of(s->worker->id));
    c->surface = STR("internal");
    c->params = STR("{}");
    c->tool = t;
    c->backend = s->backend;
    c->timeout_ms = c->node->opts.call_timeout_ms;
    c->session = s;
    snprintf(c->session_id, sizeof c->session_id, "%s", s->id);
    call_wait(c, cb, arg);
    return c;
}

static void silent_queue(struct call *c)
{
    struct session *s = c->session;

    c->state = CALL_QUEUED; /* before anything that may wait already */
    c->next = s->queue;
    s->queue = c;
    if (!c->next)
        s->queue_last = &c->next;
    s->queued++;
    session_pump(s);
}

void call_silent(struct session *s, const struct tool *t, void *bound, on_call_done *cb, void *arg)
{
    struct call *c = silent_new(s, t, cb, arg);

    c->bound = bound;
    silent_queue(c);
}

bool call_silent_json(struct session *s, const struct tool *t, struct str text, int64_t timeout_ms, on_call_done *cb,
                      void *arg)
{
    struct call *c = silent_new(s, t, cb, arg);
    struct json *params = NULL;
    struct err e;

    if (timeout_ms)
        c->timeout_ms = timeout_ms;
    text = arena_copy(&c->arena, text);
    c->bound = arena_alloc(&c->arena, t->params_size + 1);
    if (json_parse(&c->arena, text, &params, &e) < 0 ||
        field_bind(t->params, params, &c->arena, c->bound, NULL, &e) < 0) {
        c->worker->calls--;
        call_free(c);
        return false;
    }
    silent_queue(c);
    return true;
}

static bool run_script(struct session *s, const char *with, struct str command, on_call_done *cb, void *arg)
{
    const struct tool *t = with ? tool_find(str_of(with), NULL) : NULL;
    struct buf b;
    struct jw w = { .out = &b };

    struct arena a = { 0 };
    struct secret_use use = { s->worker->tenant, t ? t->name : NULL, s->box ? s->box->id : NULL };
    struct err e;

    if (!t || command.n > LIMIT_COMMAND)
        return false;
    if (secrets_expand(s->worker->node->secrets, &use, command, SECRET_SHELL, &a, &command, &e) < 0)
        log_warn("secret of a saved shell", "box=%s error='%s', going on without it", s->box ? s->box->id : "", e.msg);
    buf_init(&b, LIMIT_RECORD);
    jw_obj(&w);
    jw_kstr(&w, "command", command);
    jw_obj_end(&w);
    bool begun = call_silent_json(s, t, buf_view(&b), 0, cb, arg);
    buf_done(&b);
    arena_done(&a);
    return begun;
}

bool call_shell_begin(struct session *s, on_call_done *cb, void *arg)
{
    struct box *b = s->box;

    if (!s->backend->begin_with || !b || !b->carried.shell_pending)
        return false;
    b->carried.shell_pending = false;
    return run_script(s, s->backend->begin_with, str_of(b->carried.shell), cb, arg);
}

/* Variables that are secrets are not saved: whoever is made from the state is given them anew. */
static bool save_without(struct session *s, on_call_done *cb, void *arg)
{
    struct json *names = NULL;
    struct arena a = { 0 };
    struct err e;
    struct buf b;

    if (!s->box->secrets.n || json_parse(&a, s->box->secrets, &names, &e) < 0)
        return run_script(s, s->backend->prepare_with, str_of(s->backend->save_script), cb, arg);
    buf_init(&b, LIMIT_COMMAND);
    buf_z(&b, "(unset");
    for (const struct json *m = names->first; m; m = m->next)
        buf_printf(&b, " %.*s", STR_ARG(m->name));
    buf_printf(&b, "\n%s\n)", s->backend->save_script);
    bool begun = run_script(s, s->backend->prepare_with, buf_view(&b), cb, arg);
    buf_done(&b);
    arena_done(&a);
    return begun;
}

bool call_shell_state(struct box *b, on_call_done *cb, void *arg)
{
    for (struct session *s = b->sessions; s; s = s->next_in_box)
        if (s->backend->save_script && !s->running && !s->queued && !s->temporary)
            return save_without(s, cb, arg);
    return false;
}

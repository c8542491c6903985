/* The tools of the backend "box": what is done to a box as a whole. serve works on them, as init does on others: once
 * their intent is in the log. What they do is in the log, too, with the call's number: a state, a box, a box's new
 * seat. So the next serve knows what became of a call that has no result: what is in the log was done, and what is not
 * was not, because nothing of it is kept (restore.c). */
#include "tool/box.h"

#include <errno.h>
#include <stdio.h>

#include "base/limits.h"
#include "session/call_parts.h"
#include "session/compare.h"
#include "session/quarantine.h"
#include "session/rewind.h"
#include "store/recorder_client.h"

/* --- ending --- */

static void fail(struct call *c, const struct err *e)
{
    bool ours = e->code == ERR_SYSTEM || e->code == ERR_BUSY || e->code == ERR_DENIED;
    bool theirs = e->code == ERR_INVALID || e->code == ERR_MISSING || e->code == ERR_TYPE || e->code == ERR_LIMIT;

    c->run_us = now_us() - c->arrived_us - c->queued_us;
    call_fail(c, ours ? OUTCOME_INFRA_ERROR : theirs ? OUTCOME_INVALID_REQUEST : OUTCOME_TASK_ERROR, e, false);
}

/* Nothing of it was done. */
static void refuse(struct call *c, const struct err *e)
{
    call_fail(c, OUTCOME_INFRA_ERROR, e, true);
}

static struct jw begin(struct call *c)
{
    buf_init(&c->out, LIMIT_RECORD);
    struct jw w = { .out = &c->out };
    jw_obj(&w);
    return w;
}

static void succeed(struct call *c, struct jw *w)
{
    struct err e;

    jw_obj_end(w);
    if (c->out.full) {
        err_set(&e, ERR_LIMIT, "the result exceeds LIMIT_RECORD (%ld bytes)", LIMIT_RECORD);
        fail(c, &e);
        return;
    }
    c->data = buf_view(&c->out);
    c->outcome = OUTCOME_OK;
    c->run_us = now_us() - c->arrived_us - c->queued_us;
    call_finish(c);
}

/* --- the tools --- */

static void on_taken(void *arg, const struct state *s, const struct err *e)
{
    struct call *c = arg;

    if (e) {
        fail(c, e);
        return;
    }
    struct jw w = begin(c);
    state_print(s, &w);
    memcpy(c->state_id, s->id, sizeof c->state_id);
    succeed(c, &w);
}

static void on_back(void *arg, struct box *b, const struct rewound *r, const struct err *e)
{
    struct call *c = arg;

    (void)b;
    if (e) {
        fail(c, e);
        return;
    }
    struct jw w = begin(c);
    rewound_print(r, &w);
    memcpy(c->state_id, r->state_id, sizeof c->state_id);
    succeed(c, &w);
}

static void on_copies(void *arg, const struct forks *f, const struct err *e)
{
    struct call *c = arg;

    if (e) {
        fail(c, e);
        return;
    }
    struct jw w = begin(c);
    forks_print(f, &w);
    if (f->made > 0) {
        succeed(c, &w);
        return;
    }
    jw_obj_end(&w);
    c->data = buf_view(&c->out);
    fail(c, &f->copies[0].error);
}

static void on_compared_(void *arg, struct str members, const struct err *e)
{
    struct call *c = arg;
    struct box_tool_params *p = c->bound;
    bool list = box_tool_action(c->tool) == BOX_CHECKOUT;

    if (e) {
        fail(c, e);
        return;
    }
    struct jw w = begin(c);
    if (list) {
        jw_kstr(&w, "state", p->b);
        jw_kz(&w, "url", arena_printf(&c->arena, "/sg/v1/states/%.*s/files", STR_ARG(p->b)));
    } else {
        jw_kstr(&w, "a", p->a);
        jw_kstr(&w, "b", p->b);
    }
    buf_char(&c->out, ',');
    buf_add(&c->out, members.p + 1, members.n - 2); /* the worker's object goes on */
    succeed(c, &w);
}

static const char *only_of(const struct call *c)
{
    return c->request.only_box ? c->box_id : NULL;
}

static struct state *keep(struct call *c, const struct state *s)
{
    struct state *kept = arena_alloc(&c->arena, sizeof *kept);

    *kept = *s;
    kept->shell = kept->origin = kept->carried = kept->at = (struct str){ 0 };
    return kept;
}

static void on_second(void *arg, const struct state *s, const struct err *e)
{
    struct call *c = arg;
    struct box_tool_params *p = c->bound;

    if (e) {
        fail(c, e);
        return;
    }
    p->b = arena_copy(&c->arena, str_of(s->id));
    states_compare(c->node, c->compared, s, p->text, on_compared_, c);
}

static void on_first(void *arg, const struct state *s, const struct err *e)
{
    struct call *c = arg;
    struct box_tool_params *p = c->bound;
    struct box *b = box_find(c->node, str_of(c->box_id));
    struct err why;

    if (e) {
        fail(c, e);
        return;
    }
    p->a = arena_copy(&c->arena, str_of(s->id));
    c->compared = keep(c, s);
    if (!p->b.n && !b) {
        err_set(&why, ERR_MISSING, "b: which state to compare with; there is no box whose files could be taken");
        fail(c, &why);
        return;
    }
    state_look_up(c->node, c->worker->tenant, b,
                  &(struct time_ask){ .state = p->b, .step = FIELD_ABSENT, .only_of = only_of(c) }, on_second, c);
}

static void on_rows(void *arg, const struct answer *a)
{
    struct call *c = arg;
    struct err e;

    if (a->error) {
        err_set(&e, (enum err_code)a->error, "%.*s", STR_ARG(a->message));
        fail(c, &e);
        return;
    }
    buf_init(&c->out, LIMIT_RECORD);
    buf_add(&c->out, a->json.p, a->json.n - 1);
    struct jw w = { .out = &c->out, .comma = true };
    succeed(c, &w);
}

/* --- beginning --- */

static struct box *whose(struct call *c, struct str name, struct err *e)
{
    struct box *b = name.n ? box_find(c->node, name) : call_chosen(c);

    if (b && (b->tenant != c->worker->tenant || (c->request.only_box && b != call_chosen(c))))
        b = NULL; /* of somebody else: not there */
    for (struct session *s = c->worker->sessions; s && !b && !name.n; s = s->next)
        b = s->box;
    if (!b)
        err_set(e, name.n ? ERR_NOT_FOUND : ERR_MISSING,
                name.n ? "no box '%.*s'" : "box: worker '%.*s' has no box; make a session first, or name a box",
                STR_ARG(name.n ? name : c->worker_id));
    return b;
}

static void list(struct call *c, const struct box_tool_params *p)
{
    struct query q = { .op = STR("states"),
                       .box = str_of(c->box_id),
                       .id = p->trajectory,
                       .tenant = str_of(c->worker->tenant->name),
                       .after = p->after,
                       .limit = p->limit,
                       .upto = (int64_t)journal_end(c->node->journal) };

    recorder_ask(c->node->recorder, &q, -1, on_rows, c);
}

/* May it be done at all? *ret: to which box, NULL if it needs none. */
static int check(struct call *c, struct box **ret, struct err *e)
{
    const struct box_tool_params *p = c->bound;
    enum box_action action = box_tool_action(c->tool);
    bool needless = p->box.n == 0 && (action == BOX_CHECKOUT || action == BOX_STATES || action == BOX_DIFF ||
                                      (action == BOX_FORK && p->state.n));

    *ret = whose(c, p->box, e);
    if (c->request.only_box && action == BOX_FORK)
        return err_set(e, ERR_DENIED, "this token is for box %s only: it makes no others", c->chosen);
    if (c->request.makes_no_box && action == BOX_FORK)
        return err_set(e, ERR_DENIED, "making a box asks for the scope 'manage'");
    if (!*ret && !needless)
        return -ENOENT;
    if (action == BOX_RESTORE && !p->state.n && p->step == FIELD_ABSENT)
        return err_set(e, ERR_MISSING, "state or step: which state to go back to");
    return 0;
}

/* Does it look at the files of the box as they are now? */
static bool needs_files(const struct call *c)
{
    const struct box_tool_params *p = c->bound;

    switch (box_tool_action(c->tool)) {
    case BOX_SNAPSHOT: return true;
    case BOX_FORK: return !p->state.n && p->step == FIELD_ABSENT;
    case BOX_DIFF: return !p->b.n;
    case BOX_RESTORE:
    case BOX_RESET:
    case BOX_CHECKOUT:
    case BOX_STATES: break;
    }
    return false;
}

void box_tool_start(struct call *c)
{
    struct box *b = NULL;
    struct err e = { 0 };

    int r = check(c, &b, &e);
    if (b)
        memcpy(c->box_id, b->id, sizeof c->box_id);
    if (r >= 0 && b && box_quarantined(b) && needs_files(c)) {
        (void)box_quarantine_error(b, &e);
        refuse(c, &e);
        return;
    }
    if (r < 0 || call_promise(c, &e) < 0)
        fail(c, &e);
}

void box_tool_run(struct call *c)
{
    const struct box_tool_params *p = c->bound;
    struct time_ask ask = {
        .state = p->state, .trajectory = p->trajectory, .step = p->step, .only_of = only_of(c), .call = c->id
    };
    enum box_action action = box_tool_action(c->tool);
    struct box *b = c->box_id[0] ? box_find(c->node, str_of(c->box_id)) : NULL;
    struct err e;

    if (!b && c->box_id[0]) {
        err_set(&e, ERR_NOT_FOUND, "box %s ended meanwhile", c->box_id);
        fail(c, &e);
        return;
    }
    switch (action) {
    case BOX_SNAPSHOT: /* the state after this very step */
        state_take(b, p->name, &(struct moment){ c->trajectory->id, c->step, c->id }, on_taken, c);
        break;
    case BOX_RESTORE:
    case BOX_RESET: box_rewind(b, &ask, action == BOX_RESET, on_back, c); break;
    case BOX_FORK: box_fork(c->node, c->worker->tenant, b, &ask, (size_t)p->n, on_copies, c); break;
    case BOX_DIFF:
        ask = (struct time_ask){ .state = p->a, .step = FIELD_ABSENT, .only_of = ask.only_of };
        state_look_up(c->node, c->worker->tenant, NULL, &ask, on_first, c);
        break;
    case BOX_CHECKOUT:
        ask.step = FIELD_ABSENT;
        state_look_up(c->node, c->worker->tenant, NULL, &ask, on_second, c);
        break;
    case BOX_STATES: list(c, p); break;
    }
}

/* --- of an earlier serve --- */

static void undone(struct call *c)
{
    struct err e;

    err_set(&e, ERR_SYSTEM, "the server was restarted before it was done; nothing of it was kept");
    c->run_us = now_us() - c->arrived_us;
    call_fail(c, OUTCOME_INFRA_ERROR, &e, true);
}

static void on_taken_before(void *arg, const struct state *s, const struct err *e)
{
    if (s)
        on_taken(arg, s, NULL);
    else if (e->code == ERR_NOT_FOUND)
        undone(arg);
    else
        fail(arg, e);
}

/* The members of what the record of a box says that the call did. */
static void print_done(const struct box *b, struct jw *w)
{
    struct arena a = { 0 };
    struct json *done = NULL;
    struct err e;

    if (json_parse(&a, b->done, &done, &e) == 0)
        for (const struct json *v = done->first; v; v = v->next) {
            jw_key_str(w, v->name);
            jw_raw(w, v->raw);
        }
    arena_done(&a);
}

static void find_rewound(struct call *c)
{
    struct box *b = box_find(c->node, str_of(c->box_id));
    struct json *done = NULL;
    struct err e;

    if (b && box_quarantined(b) && b->quarantine.since_us >= c->started_wall_us) { /* that is what it did */
        (void)box_quarantine_error(b, &e);
        fail(c, &e);
        return;
    }
    if (!b || b->call != c->id || json_parse(&c->arena, b->done, &done, &e) < 0) {
        undone(c);
        return;
    }
    struct jw w = begin(c);
    print_done(b, &w);
    struct str state = json_get_str(done, "restored");
    snprintf(c->state_id, sizeof c->state_id, "%.*s", STR_ARG(state));
    succeed(c, &w);
}

static void find_copies(struct call *c)
{
    struct json *params = NULL;
    struct box *b, *first = NULL;
    int64_t made = 0;
    struct err e;

    for (size_t i = 0; (b = map_next(&c->node->boxes, &i));)
        if (b->call == c->id)
            first = b;
    if (!first || json_parse(&c->arena, c->params, &params, &e) < 0) {
        undone(c);
        return;
    }
    int64_t total = json_get_int(params, "n", 1);
    struct jw w = begin(c);
    print_done(first, &w);
    jw_key(&w, "boxes");
    jw_arr(&w);
    for (size_t i = 0; (b = map_next(&c->node->boxes, &i));)
        if (b->call == c->id) {
            jw_obj(&w);
            jw_kz(&w, "id", b->id);
            jw_obj_end(&w);
            made++;
        }
    for (int64_t i = made; i < total; i++) {
        jw_obj(&w);
        jw_kz(&w, "id", NULL);
        jw_kz(&w, "error", "the server was restarted before it was made");
        jw_obj_end(&w);
    }
    jw_arr_end(&w);
    jw_kint(&w, "requested", total);
    jw_kint(&w, "made", made);
    succeed(c, &w);
}

void box_tool_resume(struct call *c)
{
    switch (box_tool_action(c->tool)) {
    case BOX_SNAPSHOT:
        state_find_call(c->node, c->tenant, &(struct moment){ c->trajectory->id, c->step, c->id }, on_taken_before, c);
        break;
    case BOX_RESTORE:
    case BOX_RESET: find_rewound(c); break;
    case BOX_FORK: find_copies(c); break;
    case BOX_DIFF:
    case BOX_CHECKOUT:
    case BOX_STATES: undone(c); break;
    }
}

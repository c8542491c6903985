/* Fast-forward: a client that lost its connection or its box sends the same calls again, and gets what was recorded
 * until the log ends; then the box, in its last state, goes on.
 *
 *   WALKING ──same call: the recorded answer──┐      page: rows of the log that were not passed yet
 *      │  └───────────────────────────────────┘      passed: number of the last step that was given back
 *      │ no more rows, a call that needs a box
 *   SETTLING: the box is the recorded one, or another one that is put into the last state
 *      │
 *   LIVE: calls run
 *
 * Invariants: nothing that has a recorded result runs; a call that differs is refused and leaves no trace in the log.
 * Steps that the sandbox ended (box_lost, infra_error) are no results of the agent's: they are passed over. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/limits.h"
#include "session/call_parts.h"
#include "session/rewind.h"
#include "session/state.h"
#include "store/recorder_client.h"

enum { PAGE = 500, BOXES = 16, EXPECT_US = 120 };

struct forward {
    struct worker *worker;
    char trajectory[LIMIT_TRAJECTORY_ID + 1];
    bool armed; /* by a session's config: the worker's calls need not ask for it */
    enum { WALKING, SETTLING, LIVE } state;
    bool asking, ended; /* the recorder; no more rows */
    int64_t passed, looked_again;
    struct buf text;
    struct arena arena; /* of the page */
    const struct json *row;
    struct call *waiting, **waiting_end;
    bool pumping;
    /* what the passed steps say of the worker's box */
    char seen[BOXES][BOX_ID_MAX]; /* the last one is where it is now */
    size_t boxes;
    bool several;      /* of them, in turns */
    int64_t changed;   /* the last step that may have changed it; 0: none */
    char state_id[40]; /* after that step; "" */
    /* a call that differs, by the client's wish: it goes on under another name */
    char branch[LIMIT_TRAJECTORY_ID + 1];
    char target[BOX_ID_MAX]; /* SETTLING: the box that is put into that state */
};

static void pump(struct forward *f);

/* --- JSON values that mean the same --- */

static bool same_value(const struct json *a, const struct json *b);

static bool same_members(const struct json *a, const struct json *b)
{
    for (const struct json *m = a->first; m; m = m->next) {
        const struct json *o = b->first;
        while (o && !str_eq(o->name, m->name))
            o = o->next;
        if (!o || !same_value(m, o))
            return false;
    }
    return true;
}

static bool same_value(const struct json *a, const struct json *b)
{
    if (str_eq(a->raw, b->raw))
        return true;
    if (a->type != b->type || a->count != b->count)
        return false;
    switch (a->type) {
    case JSON_NULL: return true;
    case JSON_BOOL: return a->b == b->b;
    case JSON_NUM: return a->is_int && b->is_int ? a->i == b->i : a->num == b->num;
    case JSON_STR: return str_eq(a->s, b->s);
    case JSON_OBJ: return same_members(a, b);
    case JSON_ARR: break;
    }
    const struct json *y = b->first;
    for (const struct json *x = a->first; x; x = x->next, y = y->next)
        if (!same_value(x, y))
            return false;
    return true;
}

static struct str name_of(const struct call *c)
{
    return c->tool ? str_of(c->tool->name) : c->action;
}

static bool is_same(const struct call *c, const struct json *row)
{
    const struct json *params = json_get(row, "params");

    if (!str_eq(json_get_str(row, "tool"), name_of(c)))
        return false;
    if (c->request.params && params)
        return same_value(c->request.params, params);
    return !params || params->count == 0 ? !c->request.params || c->request.params->count == 0 : false;
}

/* --- ends of a call --- */

static void refuse(struct call *c, const struct err *e)
{
    c->unrecorded = true;
    call_fail(c, OUTCOME_INVALID_REQUEST, e, true);
}

static void differs(struct call *c, const struct json *row)
{
    const struct json *params = json_get(row, "params");
    struct str was = params ? params->raw : STR("{}"), tool = json_get_str(row, "tool"), name = name_of(c);
    struct err e;

    err_set(&e, ERR_EXISTS, "fast_forward: step %lld of %s was %.*s %.*s%s, this call is %.*s %.*s%s",
            (long long)json_get_int(row, "step", 0), c->trajectory->id, STR_ARG(tool), (int)(was.n < 60 ? was.n : 60),
            was.p, was.n > 60 ? "..." : "", STR_ARG(name), (int)(c->params.n < 60 ? c->params.n : 60), c->params.p,
            c->params.n > 60 ? "..." : "");
    refuse(c, &e);
}

static void go_live(struct forward *f, struct call *c)
{
    struct worker *w = c->worker;

    if (f->branch[0] && strcmp(c->trajectory->id, f->branch) != 0) {
        trajectory_drop(c->node, c->trajectory);
        c->trajectory = w->trajectory;
        c->trajectory->users++;
    }
    if (c->bind_error.code)
        call_fail(c, OUTCOME_INVALID_REQUEST, &c->bind_error, false);
    else if (!c->key.p || !call_use_key(c))
        call_proceed(c);
}

static struct call *pop(struct forward *f)
{
    struct call *c = f->waiting;

    f->waiting = c->next;
    if (!f->waiting)
        f->waiting_end = &f->waiting;
    c->next = NULL;
    return c;
}

/* --- the log --- */

static const char *box_of(const struct forward *f)
{
    return f->boxes ? f->seen[f->boxes - 1] : "";
}

static void enter_box(struct forward *f, struct str box)
{
    bool known = f->boxes == BOXES;

    for (size_t i = 0; i < f->boxes; i++)
        known = known || str_is(box, f->seen[i]);
    f->several = f->several || known;
    if (known)
        return;
    snprintf(f->seen[f->boxes++], BOX_ID_MAX, "%.*s", STR_ARG(box));
    f->changed = 0;
    f->state_id[0] = 0;
}

static void pass(struct forward *f, const struct json *row)
{
    const struct tool *t = tool_find(json_get_str(row, "tool"), NULL);
    struct str box = json_get_str(row, "box"), state = json_get_str(row, "state_id");

    f->passed = json_get_int(row, "step", f->passed);
    f->row = row->next;
    if (!box.n || json_get_bool(row, "temporary", false))
        return;
    if (!str_is(box, box_of(f)))
        enter_box(f, box);
    if (t && t->flags & TOOL_READ_ONLY)
        return;
    f->changed = f->passed;
    snprintf(f->state_id, sizeof f->state_id, "%.*s", STR_ARG(state));
}

static void on_page(void *arg, const struct answer *a)
{
    struct forward *f = arg;
    struct json *page = NULL;
    struct err e;

    f->asking = false;
    buf_reset(&f->text);
    arena_reset(&f->arena);
    f->row = NULL;
    if (a->error && a->error != ERR_NOT_FOUND) {
        err_set(&e, ERR_BUSY, "fast_forward: the log could not be read: %.*s", STR_ARG(a->message));
        struct call *c = pop(f);
        c->unrecorded = true;
        call_fail(c, OUTCOME_INFRA_ERROR, &e, true);
    } else {
        buf_str(&f->text, a->json);
        const struct json *rows =
            !a->error && json_parse(&f->arena, buf_view(&f->text), &page, &e) == 0 ? json_get(page, "steps") : NULL;
        f->row = rows ? rows->first : NULL;
        f->ended = !f->row;
    }
    pump(f);
}

static void ask_page(struct forward *f)
{
    struct node *n = f->worker->node;
    struct query q = { .op = STR("steps"),
                       .id = str_of(f->trajectory),
                       .tenant = str_of(f->worker->tenant->name),
                       .after = f->passed,
                       .limit = PAGE,
                       .upto = (int64_t)journal_end(n->journal) };

    f->asking = true;
    recorder_ask(n->recorder, &q, -1, on_page, f);
}

static bool is_lost(const struct json *row)
{
    struct str o = json_get_str(row, "outcome");

    return str_is(o, "box_lost") || str_is(o, "infra_error");
}

/* A step without a result: it runs now, and the call shares its answer; or its end is in the log by now. */
static void join_open(struct forward *f, const struct json *row)
{
    struct call *other = call_find(f->worker->node, (uint64_t)json_get_int(row, "call", 0));
    int64_t step = json_get_int(row, "step", 0);

    if (other) {
        pass(f, row);
        call_join(pop(f), other);
    } else if (f->looked_again < step) {
        f->looked_again = step;
        f->row = NULL;
    } else {
        pass(f, row); /* a serve died with it; nobody will ever know its end */
    }
}

/* Its texts did not fit beside others in one page; alone, they do. */
static bool is_cut(struct forward *f, const struct json *row)
{
    int64_t step = json_get_int(row, "step", 0);

    if (f->looked_again >= step || (!json_get(row, "observation_omitted") && !json_get(row, "params_omitted")))
        return false;
    f->looked_again = step;
    f->row = NULL;
    return true;
}

static void branch_off(struct forward *f, struct call *c)
{
    struct worker *w = c->worker;

    worker_set_trajectory(w, trajectory_use(w->node, w->tenant, (struct str){ 0 }, 0));
    snprintf(f->branch, sizeof f->branch, "%s", w->trajectory->id);
    f->row = NULL;
    f->ended = true;
}

/* One call and one row. */
static void walk(struct forward *f)
{
    struct call *c = f->waiting;
    const struct json *row = f->row;

    if (is_lost(row) || str_is(json_get_str(row, "surface"), FORWARD_SURFACE)) {
        pass(f, row);
    } else if (is_cut(f, row)) {
        return;
    } else if (!is_same(c, row)) {
        if (c->request.forward_branch)
            branch_off(f, c);
        else
            differs(pop(f), row);
    } else if (!json_get_str(row, "outcome").n) {
        join_open(f, row);
    } else {
        pass(f, row);
        call_replay(pop(f), row);
        loop_expect(f->worker->node->loop, EXPECT_US); /* the client has the next one ready */
    }
}

/* --- the box --- */

static void cannot(struct forward *f, enum err_code code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

static void cannot(struct forward *f, enum err_code code, const char *fmt, ...)
{
    char text[200];
    struct err e;
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    err_set(&e, code, "fast_forward: %s", text);
    f->state = WALKING;
    struct call *c = pop(f);
    c->unrecorded = true;
    call_fail(c, code == ERR_INVALID ? OUTCOME_BOX_LOST : OUTCOME_INFRA_ERROR, &e, true);
    pump(f);
}

static void arrive(struct forward *f)
{
    f->state = LIVE;
    pump(f);
}

/* The log says where the box comes from: the next one who fast-forwards must know, and so must a replay. */
static void record_restore(struct forward *f, const struct box *b)
{
    struct call *c = call_new(f->worker->node);

    c->surface = STR(FORWARD_SURFACE);
    c->worker = f->worker;
    c->tenant = f->worker->tenant;
    c->worker->calls++;
    c->worker_id = arena_copy(&c->arena, str_of(f->worker->id));
    c->action = STR("box:restore");
    c->params = str_of(arena_printf(&c->arena, "{\"state\":\"%s\"}", b->state_id));
    c->data = str_of(arena_printf(&c->arena, "{\"restored\":\"%s\",\"state_id\":\"%s\",\"from_box\":\"%s\"}",
                                  b->state_id, b->state_id, box_of(f)));
    c->trajectory = f->waiting->trajectory;
    if (f->branch[0])
        c->trajectory = f->worker->trajectory;
    c->trajectory->users++;
    snprintf(c->box_id, sizeof c->box_id, "%s", b->id);
    snprintf(c->state_id, sizeof c->state_id, "%s", b->state_id);
    call_finish(c);
}

static void on_rewound_box(void *arg, struct box *b, const struct rewound *r, const struct err *e)
{
    struct forward *f = arg;

    (void)r;
    if (e) {
        cannot(f, ERR_BUSY, "the box was not put into its last state: %s", e->msg);
        return;
    }
    record_restore(f, b);
    arrive(f);
}

static void on_state_found(void *arg, const struct state *s, const struct err *e)
{
    struct forward *f = arg;
    struct box *b = box_find(f->worker->node, str_of(f->target));

    if (!b)
        cannot(f, ERR_BUSY, "box %s ended meanwhile", f->target);
    else if (e && e->code != ERR_NOT_FOUND)
        cannot(f, ERR_BUSY, "%s", e->msg);
    else if (e || (!f->state_id[0] && s->step < f->changed))
        cannot(f, ERR_INVALID,
               "box %s is gone, and no state was kept after step %lld, the last one that changed it (boxes made with "
               "\"state\": \"step\" keep one after each)",
               box_of(f), (long long)f->changed);
    else
        box_rewind_state(b, s, false, on_rewound_box, f);
}

/* Nothing was changed in it: it is as it was made, from an image or from a state. */
static void from_record(struct forward *f, struct box *b, const struct json *record)
{
    const struct json *spec = json_get(record, "spec"), *layers = json_get(spec, "layers");
    struct state s = { 0 };
    struct str image = json_get_str(record, "image"), root = json_get_str(spec, "parent_root");

    if (!layers || !layers->count) {
        arrive(f);
        return;
    }
    snprintf(s.image, sizeof s.image, "%.*s", STR_ARG(image));
    snprintf(s.root, sizeof s.root, "%.*s", STR_ARG(root));
    for (const struct json *l = layers->first; l && s.layer_count < LIMIT_LAYERS; l = l->next)
        snprintf(s.layers[s.layer_count++], LAYER_ID_MAX, "%.*s", STR_ARG(l->s));
    box_rewind_state(b, &s, false, on_rewound_box, f);
}

static void find_state(struct forward *f, const struct json *record)
{
    struct node *n = f->worker->node;
    struct box *b = box_find(n, str_of(f->target));

    if (!b)
        cannot(f, ERR_BUSY, "box %s ended meanwhile", f->target);
    else if (!f->changed)
        from_record(f, b, record);
    else if (f->state_id[0])
        state_find(n, f->worker->tenant, str_of(f->state_id), on_state_found, f);
    else
        state_find_step(n, f->worker->tenant,
                        &(struct step_of){ .trajectory = str_of(f->trajectory), .step = f->passed }, on_state_found, f);
}

static void on_session(void *arg, struct session *s, const struct err *e)
{
    struct forward *f = arg;
    struct json *record = NULL;
    struct err why;

    if (e) {
        cannot(f, ERR_BUSY, "no session for the box: %s", e->msg);
        return;
    }
    snprintf(f->target, sizeof f->target, "%s", s->box ? s->box->id : "");
    (void)json_parse(&f->arena, buf_view(&f->text), &record, &why);
    find_state(f, record);
}

static void open_session(struct forward *f, const struct json *record)
{
    struct buf b;
    struct jw w = { .out = &b };
    struct json *config = NULL;
    struct session *s;
    struct err e;

    buf_init(&b, LIMIT_RECORD);
    jw_obj(&w);
    box_settings_print(record, &w);
    jw_obj_end(&w);
    struct str text = arena_copy(&f->arena, buf_view(&b));
    buf_done(&b);
    struct session_ask ask = { .backend = f->waiting->backend, .on_open = on_session, .arg = f };
    if (json_parse(&f->arena, text, &config, &e) == 0)
        ask.config = config;
    if (session_open(f->worker, &ask, &s, &e) < 0)
        cannot(f, ERR_BUSY, "no box can be made: %s", e.msg);
}

static void on_box_record(void *arg, const struct answer *a)
{
    struct forward *f = arg;
    struct json *record = NULL;
    struct err e;

    buf_reset(&f->text);
    arena_reset(&f->arena);
    buf_str(&f->text, a->json);
    if (a->error || json_parse(&f->arena, buf_view(&f->text), &record, &e) < 0)
        cannot(f, ERR_BUSY, "nothing is known of box %s: %.*s", box_of(f), STR_ARG(a->message));
    else if (f->target[0])
        find_state(f, record);
    else
        open_session(f, record);
}

/* The box in which the call would run. */
static struct box *box_for(struct call *c)
{
    struct session *s = session_find(c->worker, c->backend);

    if (c->chosen[0])
        return call_chosen(c);
    if (s && s->lost) {
        session_close(s, "lost");
        s = NULL;
    }
    if (s)
        return s->box;
    for (s = c->worker->sessions; s; s = s->next)
        if (!s->temporary && !s->own_box && s->box && s->box->state != BOX_CLOSING)
            return s->box;
    return NULL;
}

/* The log has ended, and the next call runs. */
static void settle(struct forward *f)
{
    struct call *c = f->waiting;

    bool gone = c->chosen[0] && !call_chosen(c);
    if (c->bind_error.code || gone || !(c->tool->flags & TOOL_NEEDS_BOX)) {
        go_live(f, pop(f));
        return;
    }
    struct box *b = box_for(c);
    bool same = b && strcmp(b->id, box_of(f)) == 0 && !f->branch[0];
    if (same || !f->boxes) {
        arrive(f);
        return;
    }
    f->state = SETTLING;
    if (f->several) {
        cannot(f, ERR_INVALID, "trajectory %s used several boxes in turns, and they are gone", f->trajectory);
        return;
    }
    snprintf(f->target, sizeof f->target, "%s", b ? b->id : "");
    struct query q = { .op = STR("box"),
                       .box = str_of(box_of(f)),
                       .tenant = str_of(f->worker->tenant->name),
                       .upto = (int64_t)journal_end(f->worker->node->journal) };
    recorder_ask(f->worker->node->recorder, &q, -1, on_box_record, f);
}

static void pump(struct forward *f)
{
    if (f->pumping)
        return;
    f->pumping = true;
    while (f->waiting && !f->asking && f->state != SETTLING) {
        if (f->state == LIVE)
            go_live(f, pop(f));
        else if (f->row)
            walk(f);
        else if (!f->ended)
            ask_page(f);
        else
            settle(f);
    }
    f->pumping = false;
}

/* --- from outside --- */

static struct forward *forward_new(struct worker *w, struct str trajectory)
{
    struct forward *f = calloc(1, sizeof *f);

    if (!f)
        abort();
    f->worker = w;
    snprintf(f->trajectory, sizeof f->trajectory, "%.*s", STR_ARG(trajectory));
    f->waiting_end = &f->waiting;
    buf_init(&f->text, LIMIT_FRAME);
    forward_free(w);
    w->forward = f;
    return f;
}

void forward_free(struct worker *w)
{
    if (!w->forward)
        return;
    buf_done(&w->forward->text);
    arena_done(&w->forward->arena);
    free(w->forward);
    w->forward = NULL;
}

int forward_arm(struct worker *w, struct str trajectory, struct err *e)
{
    if (w->forward && (w->forward->waiting || w->forward->asking))
        return err_set(e, ERR_BUSY, "fast_forward: calls of worker %s are being forwarded in %s now", w->id,
                       w->forward->trajectory);
    forward_new(w, trajectory)->armed = true;
    return 0;
}

struct str forward_name(const struct worker *w, struct str name)
{
    const struct forward *f = w->forward;

    if (f && f->branch[0] && (!name.n || str_is(name, f->trajectory)))
        return str_of(f->branch);
    return f && f->armed && !name.n ? str_of(f->trajectory) : name;
}

bool call_forward(struct call *c)
{
    struct forward *f = c->worker->forward;
    const char *id = c->trajectory->id;
    bool here = f && (strcmp(f->trajectory, id) == 0 || strcmp(f->branch, id) == 0);
    bool busy = f && (f->waiting || f->asking || f->state == SETTLING);
    struct err e;

    if (c->request.forward == FORWARD_NO && !(here && f->armed)) {
        if (f && !busy)
            forward_free(c->worker);
        return false;
    }
    if (!here || c->request.forward == FORWARD_BEGIN) {
        if (busy) {
            err_set(&e, ERR_BUSY, "fast_forward: calls of this worker are being forwarded in %s now", f->trajectory);
            c->unrecorded = true;
            call_fail(c, OUTCOME_INFRA_ERROR, &e, true);
            return true;
        }
        f = forward_new(c->worker, str_of(id));
    }
    *f->waiting_end = c;
    f->waiting_end = &c->next;
    c->next = NULL;
    pump(f);
    return true;
}

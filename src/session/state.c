#include "session/state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/limits.h"
#include "base/log.h"
#include "session/call.h"
#include "session/carry.h"
#include "session/quarantine.h"
#include "session/rewind.h"
#include "session/spec_json.h"
#include "store/recorder_client.h"

struct taking {          /* one snapshot on its way */
    struct taking *next; /* in hashing or twins */
    struct node *node;
    char box[BOX_ID_MAX];
    struct state state;
    on_state *cb; /* NULL: answered */
    void *arg;
    struct arena arena;
};

/* States whose root is being computed, and those without a change that wait for the root of such a one. */
static struct taking *hashing, *twins;

/* --- the record --- */

static void print_members(const struct state *s, struct jw *w)
{
    jw_kz(w, "state", s->id);
    jw_kz(w, "box", s->box);
    if (s->tenant && !s->tenant->is_default)
        jw_kz(w, "tenant", s->tenant->name);
    jw_kint(w, "time", s->time_us);
    jw_kz(w, "image", s->image);
    jw_kz(w, "name", s->name[0] ? s->name : NULL);
    jw_kz(w, "parent", s->parent[0] ? s->parent : NULL);
    jw_kz(w, "trajectory", s->trajectory[0] ? s->trajectory : NULL);
    jw_kint(w, "step", s->step);
    jw_key(w, "layers");
    jw_arr(w);
    for (uint32_t i = 0; i < s->layer_count; i++)
        jw_z(w, s->layers[i]);
    jw_arr_end(w);
    jw_kz(w, "root", s->root[0] ? s->root : NULL);
    jw_kint(w, "entries", s->entries);
    jw_kint(w, "bytes", s->bytes);
}

const char *state_fidelity(const struct state *s)
{
    return s->shell.p || carry_has_variables(s->carried) ? "fs+session" : "fs";
}

void state_print(const struct state *s, struct jw *w)
{
    struct arena a = { 0 };

    print_members(s, w);
    jw_kbool(w, "changed", s->changed);
    jw_kint(w, "frozen_us", s->frozen_us);
    jw_kz(w, "fidelity", state_fidelity(s));
    if (s->carried.n)
        jw_kraw(w, "sessions", carry_sessions(s->carried, &a));
    arena_done(&a);
    if (s->quarantined)
        jw_kbool(w, "quarantined", true);
}

static int record_state(struct node *n, const struct state *s, struct err *e)
{
    struct jw w = { .out = &n->scratch };
    struct arena a = { 0 };
    struct str shell = secrets_redact(n->secrets, s->tenant, s->shell, SECRET_ANSI, &a);

    shell = secrets_redact(n->secrets, s->tenant, shell, SECRET_SHELL, &a);
    buf_reset(w.out);
    jw_obj(&w);
    print_members(s, &w);
    if (s->call)
        jw_kint(&w, "call", (int64_t)s->call);
    jw_key(&w, "spec");
    jw_obj(&w);
    spec_print(&s->spec, &w);
    jw_obj_end(&w);
    jw_kbool(&w, "step_states", s->step_states);
    if (s->origin.n)
        jw_kraw(&w, "origin", s->origin);
    if (s->carried.n)
        jw_kraw(&w, "carried", s->carried);
    jw_kstr(&w, "shell", secrets_redact(n->secrets, s->tenant, shell, SECRET_PLAIN, &a));
    jw_obj_end(&w);
    arena_done(&a);
    struct str body = buf_view(w.out);
    return node_append(n, RECORD_STATE, &body, 1, e);
}

/* What is to be said of a state that has its record already. mark NULL: none. */
static int record_about(struct node *n, enum record_type type, const char *id, const char *mark, struct pair more,
                        struct err *e)
{
    struct jw w = { .out = &n->scratch };

    buf_reset(w.out);
    jw_obj(&w);
    jw_kz(&w, "state", id);
    jw_kint(&w, "time", wall_us());
    if (mark)
        jw_kz(&w, "mark", mark);
    jw_key_str(&w, more.name);
    jw_str(&w, more.value);
    jw_obj_end(&w);
    struct str body = buf_view(w.out);
    return node_append(n, type, &body, 1, e);
}

static void record_root(struct node *n, const struct state *s)
{
    struct err e;

    if (record_about(n, RECORD_STATE_ROOT, s->id, NULL, (struct pair){ STR("root"), str_of(s->root) }, &e) < 0)
        log_error("root of a state not recorded", "state=%s error='%s'; it can be computed again", s->id, e.msg);
}

static void text_to(char *out, size_t size, struct str s)
{
    snprintf(out, size, "%.*s", STR_ARG(s));
}

static void from_json(const struct json *j, struct arena *a, struct state *s)
{
    const struct json *layers = json_get(j, "layers");

    *s = (struct state){ .step = json_get_int(j, "step", 0), .time_us = json_get_int(j, "time", 0) };
    text_to(s->id, sizeof s->id, json_get_str(j, "state"));
    text_to(s->box, sizeof s->box, json_get_str(j, "box"));
    text_to(s->image, sizeof s->image, json_get_str(j, "image"));
    text_to(s->name, sizeof s->name, json_get_str(j, "name"));
    text_to(s->parent, sizeof s->parent, json_get_str(j, "parent"));
    text_to(s->root, sizeof s->root, json_get_str(j, "root"));
    text_to(s->trajectory, sizeof s->trajectory, json_get_str(j, "trajectory"));
    s->entries = json_get_int(j, "entries", 0);
    s->bytes = json_get_int(j, "bytes", 0);
    for (const struct json *l = layers ? layers->first : NULL; l && s->layer_count < LIMIT_LAYERS; l = l->next)
        text_to(s->layers[s->layer_count++], LAYER_ID_MAX, l->s);
    s->quarantined = str_is(json_get_str(j, "mark"), "quarantined");
    s->suspect = json_get_bool(j, "suspect", false);
    s->has_spec = json_get(j, "spec") != NULL;
    spec_read(json_get(j, "spec"), &s->spec);
    s->step_states = json_get_bool(j, "step_states", false);
    if (json_get(j, "origin"))
        s->origin = arena_copy(a, json_get(j, "origin")->raw);
    if (json_get(j, "at"))
        s->at = arena_copy(a, json_get(j, "at")->raw);
    s->shell = arena_copy(a, json_get_str(j, "shell"));
    if (json_get(j, "carried"))
        s->carried = arena_copy(a, json_get(j, "carried")->raw);
}

/* --- taking one --- */

static void answer(struct taking *t, const struct err *e)
{
    on_state *cb = t->cb;
    struct box *b = box_find(t->node, str_of(t->box));

    if (cb && b && b->holds && --b->holds == 0)
        for (struct session *s = b->sessions; s; s = s->next_in_box)
            session_pump(s);
    t->cb = NULL;
    if (cb)
        cb(t->arg, e ? NULL : &t->state, e);
}

static void taking_free(struct taking *t)
{
    arena_done(&t->arena);
    free(t);
}

/* The layer is on disk and the box goes on; the record makes it a state. */
static int sealed(struct taking *t, struct box *b, const struct seat_reply *r, struct err *e)
{
    struct state *s = &t->state;

    s->changed = r->changed;
    s->layer_count = r->layer_count < LIMIT_LAYERS ? r->layer_count : LIMIT_LAYERS;
    memcpy(s->layers, r->layers, sizeof s->layers);
    s->entries = (int64_t)r->layer_entries;
    s->bytes = (int64_t)r->layer_bytes;
    s->frozen_us = r->frozen_us;
    s->time_us = wall_us();
    if (!r->changed)
        memcpy(s->root, b->root, sizeof s->root);
    memcpy(s->id, "s-", 2);
    random_hex(s->id + 2, 20);
    snprintf(s->parent, sizeof s->parent, "%s", b->state_id);
    int err = record_state(t->node, s, e);
    if (err < 0)
        return err;
    snprintf(b->state_id, sizeof b->state_id, "%s", s->id);
    memcpy(b->spec.layers, s->layers, sizeof s->layers);
    b->spec.layer_count = s->layer_count;
    if (r->changed)
        b->root[0] = 0;
    return 0;
}

static bool same_layers(const struct state *a, const struct state *b)
{
    return a->layer_count == b->layer_count && memcmp(a->layers, b->layers, a->layer_count * sizeof a->layers[0]) == 0;
}

static void take_root(struct taking *t, const char *root)
{
    struct box *b = box_find(t->node, str_of(t->box));

    memcpy(t->state.root, root, sizeof t->state.root);
    record_root(t->node, &t->state);
    if (b && strcmp(b->state_id, t->state.id) == 0)
        memcpy(b->root, root, sizeof b->root);
}

static bool is_hashed_now(const struct state *s)
{
    for (const struct taking *t = hashing; t; t = t->next)
        if (same_layers(&t->state, s))
            return true;
    return false;
}

static void push(struct taking **list, struct taking *t)
{
    t->next = *list;
    *list = t;
}

bool state_is_hashed_now(const char *id)
{
    for (const struct taking *t = hashing; t; t = t->next)
        if (strcmp(t->state.id, id) == 0)
            return true;
    for (const struct taking *t = twins; t; t = t->next)
        if (strcmp(t->state.id, id) == 0)
            return true;
    return false;
}

void state_read(const struct json *j, struct arena *a, struct state *ret)
{
    from_json(j, a, ret);
}

void state_set_root(struct node *n, struct state *s, const char *root)
{
    struct box *b = box_find(n, str_of(s->box));

    snprintf(s->root, sizeof s->root, "%s", root);
    record_root(n, s);
    if (b && strcmp(b->state_id, s->id) == 0)
        memcpy(b->root, s->root, sizeof b->root);
}

void state_drop(struct node *n, const char *id, const char *why)
{
    struct err e;

    if (record_about(n, RECORD_STATE_MARK, id, "dropped", (struct pair){ STR("why"), str_of(why) }, &e) < 0)
        log_error("removal of a state not recorded", "state=%s error='%s'", id, e.msg);
}

/* The hashing is over; root is "" if it failed. The box may have ended meanwhile, the state is there all the same. */
static void hashed(struct taking *t, const char *root)
{
    struct taking **at = &hashing;
    while (*at != t)
        at = &(*at)->next;
    *at = t->next;
    for (struct taking **p = &twins, *twin; (twin = *p);) {
        if (twin->node != t->node || !same_layers(&twin->state, &t->state)) {
            p = &twin->next;
            continue;
        }
        *p = twin->next;
        if (root[0])
            take_root(twin, root);
        taking_free(twin);
    }
    if (root[0] && t->state.id[0])
        take_root(t, root);
    else
        t->node->roots_missing = true;
    taking_free(t);
}

static void on_snapshot(void *arg, const struct seat_reply *r, const int *take_gauges)
{
    struct taking *t = arg;
    struct box *b = box_find(t->node, str_of(t->box));
    struct err e = r->err;

    (void)take_gauges;
    if (!t->cb) { /* the second reply */
        hashed(t, r->result < 0 ? "" : r->root);
        return;
    }
    int result = r->result;
    if (result >= 0)
        result = b ? sealed(t, b, r, &e) : err_set(&e, ERR_NOT_FOUND, "box %s ended during the snapshot", t->box);
    if (result < 0)
        t->state.id[0] = 0;
    answer(t, result < 0 ? &e : NULL);
    if (r->result >= 0 && r->more)
        push(&hashing, t);
    else if (result >= 0 && !t->state.root[0] && is_hashed_now(&t->state))
        push(&twins, t);
    else {
        if (result >= 0 && !t->state.root[0])
            t->node->roots_missing = true;
        taking_free(t);
    }
}

static void ask_supervise(struct taking *t)
{
    struct box *b = box_find(t->node, str_of(t->box));
    struct err e;

    if (!b || (b->state != BOX_RUNNING && b->state != BOX_PAUSED)) {
        err_set(&e, ERR_BUSY, "box %s is %s", t->box, b ? box_state_name(b) : "gone");
        answer(t, &e);
        taking_free(t);
        return;
    }
    seats_ask(t->node->seats, SEAT_SNAPSHOT, b->seat, NULL, on_snapshot, t);
}

static void on_carried(void *arg, struct str carried)
{
    struct taking *t = arg;

    t->state.carried = arena_copy(&t->arena, carried);
    ask_supervise(t);
}

static void ask_interpreters(struct taking *t)
{
    struct box *b = box_find(t->node, str_of(t->box));

    if (!b)
        ask_supervise(t); /* which says so */
    else
        carry_out(b, on_carried, t);
}

/* What the shell said of itself: cwd, variables, functions, options as a script that makes them again. */
static void on_shell(void *arg, const struct call *c)
{
    struct taking *t = arg;
    struct json *data = NULL;
    struct err e;

    if (c->outcome == OUTCOME_OK && c->data.p && json_parse(&t->arena, c->data, &data, &e) == 0 &&
        json_get_int(data, "stdout_bytes", 0) <= LIMIT_SHELL_STATE)
        t->state.shell = arena_copy(&t->arena, json_get_str(data, "stdout"));
    ask_interpreters(t);
}

/* It is asked for by name where an id could stand, and printed in tables. */
static bool name_ok(struct str name, struct err *e)
{
    if (name.n > 1 && name.p[1] == '-' && (name.p[0] == 's' || name.p[0] == 'b')) {
        err_set(e, ERR_INVALID, "name: ids of states and boxes begin with 's-' and 'b-', names must not");
        return false;
    }
    for (size_t i = 0; i < name.n; i++)
        if ((unsigned char)name.p[i] < ' ' || name.p[i] == 0x7f) {
            err_set(e, ERR_INVALID, "name: byte %zu is a control character", i);
            return false;
        }
    return true;
}

void state_take(struct box *b, struct str name, const struct moment *m, on_state *cb, void *arg)
{
    struct taking *t = NULL;
    struct err e;

    if (!name_ok(name, &e) || (box_quarantined(b) && box_quarantine_error(b, &e) < 0)) {
        cb(arg, NULL, &e);
        return;
    }
    t = calloc(1, sizeof *t);
    if (!t)
        abort();
    t->node = b->node;
    t->cb = cb;
    t->arg = arg;
    snprintf(t->box, sizeof t->box, "%s", b->id);
    t->state.tenant = b->tenant;
    snprintf(t->state.box, sizeof t->state.box, "%s", b->id);
    snprintf(t->state.image, sizeof t->state.image, "%s", b->spec.image);
    t->state.has_spec = true;
    t->state.spec = b->spec;
    t->state.step_states = b->step_states;
    t->state.origin = arena_copy(&t->arena, b->origin);
    text_to(t->state.name, sizeof t->state.name, name);
    if (m->trajectory)
        snprintf(t->state.trajectory, sizeof t->state.trajectory, "%s", m->trajectory);
    t->state.step = m->step;
    t->state.call = m->call;
    b->holds++;
    if (b->carried.shell_pending && !b->carried.perhaps) /* none has begun: who does will begin with this */
        t->state.shell = arena_copy(&t->arena, str_of(b->carried.shell));
    if (t->state.shell.n || b->state != BOX_RUNNING || !call_shell_state(b, on_shell, t))
        ask_interpreters(t); /* no shell, or it is busy */
}

/* --- finding one --- */

struct finding {
    on_state *cb;
    void *arg;
};

static void on_found(void *arg, const struct answer *a)
{
    struct finding *f = arg;
    struct arena arena = { 0 };
    struct json *j = NULL;
    struct err e = { 0 };
    struct state s;

    if (a->error)
        err_set(&e, (enum err_code)a->error, "%.*s", STR_ARG(a->message));
    else if (json_parse(&arena, a->json, &j, &e) == 0)
        from_json(j, &arena, &s);
    f->cb(f->arg, j ? &s : NULL, j ? NULL : &e);
    arena_done(&arena);
    free(f);
}

static void find(struct node *n, struct query *q, on_state *cb, void *arg)
{
    struct finding *f = calloc(1, sizeof *f);

    if (!f)
        abort();
    *f = (struct finding){ cb, arg };
    q->op = STR("state");
    q->upto = (int64_t)journal_end(n->journal);
    recorder_ask(n->recorder, q, -1, on_found, f);
}

void state_find(struct node *n, const struct tenant *t, struct str id, on_state *cb, void *arg)
{
    find(n, &(struct query){ .state = id, .tenant = str_of(t->name) }, cb, arg);
}

void state_find_step(struct node *n, const struct tenant *t, const struct step_of *at, on_state *cb, void *arg)
{
    find(n, &(struct query){ .id = at->trajectory, .step = at->step, .box = at->box, .tenant = str_of(t->name) }, cb,
         arg);
}

void state_find_call(struct node *n, const struct tenant *t, const struct moment *m, on_state *cb, void *arg)
{
    find(n,
         &(struct query){
             .id = str_of(m->trajectory), .step = m->step, .call = (int64_t)m->call, .tenant = str_of(t->name) },
         cb, arg);
}

/* The one lookup of fork, restore and reset. */
struct looking {
    on_state *cb;
    void *arg;
    char only_of[BOX_ID_MAX];
};

static void on_looked_up(void *arg, const struct state *s, const struct err *e)
{
    struct looking l = *(struct looking *)arg;
    struct err why;

    free(arg);
    if (s && l.only_of[0] && strcmp(s->box, l.only_of) != 0) {
        err_set(&why, ERR_NOT_FOUND, "box %s has no such state", l.only_of);
        s = NULL;
        e = &why;
    }
    if (s && s->quarantined) {
        err_set(&why, ERR_DENIED, "state %s is quarantined: its layers on disk are not what the log says", s->id);
        e = &why;
    }
    l.cb(l.arg, s, e);
}

void state_look_up(struct node *n, const struct tenant *tenant, struct box *b, const struct time_ask *ask, on_state *cb,
                   void *arg)
{
    struct trajectory *t = b ? box_trajectory(b) : NULL;
    struct str trajectory = ask->trajectory.n ? ask->trajectory : t ? str_of(t->id) : (struct str){ 0 };
    struct err e;

    if (ask->state.n && ask->step != FIELD_ABSENT) {
        err_set(&e, ERR_INVALID, "state, step: only one of them can say which state is meant");
        cb(arg, NULL, &e);
        return;
    }
    if (!ask->state.n && ask->step != FIELD_ABSENT && !trajectory.n) {
        err_set(&e, ERR_INVALID, "step: the box has no trajectory of its own; give trajectory, too");
        cb(arg, NULL, &e);
        return;
    }
    const struct trajectory *asked = ask->trajectory.n ? trajectory_find(n, tenant, trajectory) : t;
    if (!ask->state.n && ask->step != FIELD_ABSENT && asked && ask->step > asked->steps) {
        err_set(&e, ERR_NOT_FOUND, "step: trajectory %s has %lld steps, no step %lld", asked->id,
                (long long)asked->steps, (long long)ask->step);
        cb(arg, NULL, &e);
        return;
    }
    struct looking *l = calloc(1, sizeof *l);
    if (!l)
        abort();
    *l = (struct looking){ .cb = cb, .arg = arg };
    if (ask->only_of)
        snprintf(l->only_of, sizeof l->only_of, "%s", ask->only_of);
    if (ask->state.n)
        state_find(n, tenant, ask->state, on_looked_up, l);
    else if (ask->step != FIELD_ABSENT)
        state_find_step(n, tenant, &(struct step_of){ trajectory, ask->step, b ? str_of(b->id) : (struct str){ 0 } },
                        on_looked_up, l);
    else
        state_take(b, (struct str){ 0 }, &(struct moment){ t ? t->id : NULL, t ? t->steps : 0, 0 }, on_looked_up, l);
}

void state_quarantine(struct node *n, const char *id, const char *expected, const char *found)
{
    struct err e;

    log_error("state does not prove itself", "state=%s disk=%s log=%s, nothing is made of it any more", id, found,
              expected);
    if (record_about(n, RECORD_STATE_MARK, id, "quarantined", (struct pair){ STR("found"), str_of(found) }, &e) < 0)
        log_error("quarantine not recorded", "state=%s error='%s'", id, e.msg);
}

void state_settings(const struct state *s, struct box_ask *ask)
{
    if (!s->has_spec)
        return;
    ask->spec = s->spec;
    ask->step_states = s->step_states;
    ask->origin = s->origin;
}

void state_apply(const struct state *s, struct box_spec *spec)
{
    if (s->has_spec)
        spec->sudo = s->spec.sudo; /* it has files of its own in the image */
    snprintf(spec->image, sizeof spec->image, "%s", s->image);
    spec->layer_count = s->layer_count;
    memcpy(spec->layers, s->layers, sizeof spec->layers);
    memcpy(spec->parent_root, s->root, sizeof spec->parent_root);
}

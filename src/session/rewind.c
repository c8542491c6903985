#include "session/rewind.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/limits.h"
#include "base/log.h"
#include "session/call.h"
#include "session/carry.h"
#include "session/link.h"
#include "session/origin.h"
#include "session/quarantine.h"

enum { ROOT_POLL_MS = 50, ROOT_POLLS = 600 };

struct rewind {
    struct node *node;
    const struct tenant *tenant;
    char box[BOX_ID_MAX];
    uint64_t call;
    bool proof;
    bool reset;      /* asked for with proof: without one, the box may not go on */
    bool again;      /* the state is what it began with; its set-up is to be run on it */
    char proven[40]; /* that one, once it has proved itself */
    struct box_spec spec;
    struct rewound to;
    struct str shell, carried;
    struct loop_timer *wait; /* for a root that is still being computed */
    int waited;
    on_rewound *cb;
    void *arg;
    struct arena arena;
};

struct trajectory *box_trajectory(struct box *b)
{
    struct worker *w = worker_of_box(b);

    if ((!w || !w->trajectory) && b->sessions)
        w = b->sessions->worker;
    return w ? w->trajectory : NULL;
}

static void done(struct rewind *w, const struct err *e)
{
    struct box *b = box_find(w->node, str_of(w->box));

    if (b)
        b->rewinding = false;
    if (b && e && !b->up && link_is_open(b->link)) { /* it goes on as it was */
        b->up = true;
        for (struct session *s = b->sessions; s; s = s->next_in_box)
            session_pump(s);
    }
    w->cb(w->arg, b, e ? NULL : &w->to, e);
    loop_timer_free(w->wait);
    arena_done(&w->arena);
    free(w);
}

static void ignore(void *arg, const struct seat_reply *r, const int *take_gauges)
{
    (void)arg, (void)r, (void)take_gauges;
}

void rewound_print(const struct rewound *r, struct jw *w)
{
    jw_kz(w, "restored", r->state_id[0] ? r->state_id : NULL);
    jw_kz(w, "root", r->root[0] ? r->root : NULL);
    jw_kbool(w, "proved", r->proved);
    jw_kz(w, "fidelity", r->fidelity);
    if (r->sessions.n)
        jw_kraw(w, "sessions", r->sessions);
}

/* What the record of the box's new seat says of the call that it is for. */
static void name_call(struct rewind *w, struct box *b)
{
    struct buf text;
    struct jw j = { .out = &text };

    buf_init(&text, LIMIT_RECORD);
    jw_obj(&j);
    rewound_print(&w->to, &j);
    jw_obj_end(&j);
    b->call = w->call;
    b->done = w->call ? arena_copy(&b->arena, buf_view(&text)) : (struct str){ 0 };
    buf_done(&text);
}

/* A new seat is there: the box moves over, the old one goes. */
static void on_seat(void *arg, const struct seat_reply *r, const int *take_gauges)
{
    struct rewind *w = arg;
    struct box *b = box_find(w->node, str_of(w->box));
    struct err e = r->err;

    if (r->result < 0) {
        done(w, &e);
        return;
    }
    if (!b || b->state == BOX_CLOSING) {
        for (int i = 0; i < SEAT_GAUGES; i++)
            if (take_gauges[i] >= 0)
                close(take_gauges[i]);
        seats_ask(w->node->seats, SEAT_DESTROY, r->id, NULL, ignore, NULL);
        err_set(&e, ERR_NOT_FOUND, "box %s ended meanwhile", w->box);
        done(w, &e);
        return;
    }
    struct carried before = b->carried;
    char state_before[sizeof b->state_id];
    memcpy(state_before, b->state_id, sizeof state_before);
    memcpy(b->state_id, w->to.state_id, sizeof b->state_id);
    b->carried = (struct carried){ 0 };
    carry_expect(b, w->shell.n ? w->shell : origin_shell(b), w->carried);
    name_call(w, b);
    typeof(b->quarantine) quarantine = b->quarantine;
    box_quarantine_end(b); /* take_new_seat saw the proof */
    if (box_move(b, r, take_gauges, &w->spec, &e) < 0) {
        carry_done(&b->carried);
        b->carried = before;
        b->quarantine = quarantine;
        memcpy(b->state_id, state_before, sizeof b->state_id);
        done(w, &e);
        return;
    }
    carry_done(&before);
    memcpy(b->root, w->to.root, sizeof b->root);
    for (struct session *s = b->sessions; s; s = s->next_in_box)
        session_again(s);
    done(w, NULL);
}

static void take_new_seat(struct rewind *w)
{
    struct box *b = box_find(w->node, str_of(w->box));
    struct err e;

    if (!b || (b->state != BOX_RUNNING && b->state != BOX_PAUSED && b->state != BOX_QUARANTINED)) {
        err_set(&e, ERR_BUSY, "box %s is %s", w->box, b ? box_state_name(b) : "gone");
        done(w, &e);
        return;
    }
    if (box_quarantined(b) && !w->to.proved) {
        err_set(&e, ERR_DENIED, "box %s is quarantined, and an image directory cannot prove itself; destroy the box",
                b->id);
        done(w, &e);
        return;
    }
    b->up = false; /* calls wait */
    err_set(&e, ERR_BUSY, "box %s is being put back into another state", b->id);
    while (b->running)
        call_fail(b->running, OUTCOME_KILLED, &e, false);
    seats_ask(w->node->seats, w->to.proved ? SEAT_CREATE_CLEAN : SEAT_CREATE, NULL, &w->spec, on_seat, w);
}

/* What was to be proved is something else. Whoever asked for a reset must not go on as if it had been one. */
static void unproved(struct rewind *w, const char *state, const struct err *why)
{
    struct box *b = box_find(w->node, str_of(w->box));
    struct err e = *why;

    if (b && w->reset && b->state != BOX_CLOSING) {
        box_quarantine(b, state);
        err_set(&e, ERR_DENIED, "box %s is quarantined: %s", b->id, why->msg);
    }
    done(w, &e);
}

static void on_target(void *arg, const struct state *s, const struct err *e);

static void is_proved(struct rewind *w)
{
    struct box *b = box_find(w->node, str_of(w->box));

    if (w->again && b) {
        w->again = false;
        memcpy(w->proven, w->to.state_id, sizeof w->proven);
        origin_again(b, on_target, w);
        return;
    }
    w->to.proved = true;
    take_new_seat(w);
}

static void on_verified(void *arg, const struct seat_reply *r, const int *take_gauges)
{
    struct rewind *w = arg;
    struct err e = r->err;
    bool differs = r->result == 0 && w->to.root[0] && strcmp(r->root, w->to.root) != 0;

    (void)take_gauges;
    if (differs || r->result == -ENODATA) {
        state_quarantine(w->node, w->to.state_id, w->to.root, differs ? r->root : e.msg);
        if (differs)
            err_set(&e, ERR_DENIED, "state %s is quarantined: its layers on disk have the root %.20s..., not %.20s...",
                    w->to.state_id, r->root, w->to.root);
        else
            err_wrap(&e, 0, "state %s is quarantined", w->to.state_id);
        unproved(w, w->to.state_id, &e);
    } else if (r->result == -ESTALE) {
        unproved(w, "", &e);
    } else if (r->result < 0) {
        done(w, &e);
    } else {
        memcpy(w->to.root, r->root, sizeof w->to.root);
        is_proved(w);
    }
}

/* From what the new seat will be made of: the image, and the layers of its spec. An image directory is as it lies there. */
static void prove(struct rewind *w)
{
    if (w->spec.layer_count || strcmp(w->spec.image, "host") == 0)
        seats_ask(w->node->seats, SEAT_VERIFY, NULL, &w->spec, on_verified, w);
    else if (w->again)
        is_proved(w);
    else
        take_new_seat(w);
}

static void look_again(void *arg)
{
    struct rewind *w = arg;

    state_find(w->node, w->tenant, str_of(w->to.state_id), on_target, w);
}

/* Without a root nothing can be proved. It may come later: after a restart it is computed again. */
static bool must_wait(struct rewind *w, const struct state *s)
{
    struct err e;

    if (!w->proof || s->root[0] || !s->layer_count)
        return false;
    if (w->waited++ >= ROOT_POLLS) {
        err_set(&e, ERR_BUSY, "the root of state %s is still being computed: it cannot prove itself yet", s->id);
        done(w, &e);
        return true;
    }
    if (!w->wait)
        w->wait = loop_timer_new(w->node->loop, look_again, w);
    loop_timer_set(w->wait, ROOT_POLL_MS);
    return true;
}

static int check_target(const struct rewind *w, const struct box *b, const struct state *s, struct err *e)
{
    if (!b)
        return err_set(e, ERR_NOT_FOUND, "box %s ended meanwhile", w->box);
    if (s->has_spec && s->spec.sudo != b->spec.sudo)
        return err_set(e, ERR_INVALID, "state %s was taken in a box with%s sudo, which this box has%s; fork it instead",
                       s->id, s->spec.sudo ? "" : "out", b->spec.sudo ? "" : " not");
    return 0;
}

static void on_target(void *arg, const struct state *s, const struct err *e)
{
    struct rewind *w = arg;
    struct box *b = box_find(w->node, str_of(w->box));
    struct err why;

    if (s && s->quarantined) { /* it was found out before, and is no better now */
        err_set(&why, ERR_DENIED, "state %s is quarantined: its layers on disk are not what the log says", s->id);
        unproved(w, s->id, &why);
        return;
    }
    if (e) {
        why = *e;
        done(w, &why);
        return;
    }
    memcpy(w->to.state_id, s->id, sizeof w->to.state_id);
    memcpy(w->to.root, s->root, sizeof w->to.root);
    if (check_target(w, b, s, &why) < 0) {
        done(w, &why);
        return;
    }
    w->proof = w->proof || s->suspect || box_quarantined(b);
    if (must_wait(w, s))
        return;
    state_apply(s, &w->spec);
    w->shell = arena_copy(&w->arena, s->shell);
    w->carried = arena_copy(&w->arena, s->carried);
    w->to.fidelity = state_fidelity(s);
    w->to.sessions = arena_copy(&w->arena, carry_sessions(s->carried, &w->arena));
    if (w->proof && w->proven[0] && strcmp(w->proven, s->id) == 0)
        is_proved(w);
    else if (w->proof)
        prove(w);
    else
        take_new_seat(w);
}

static struct rewind *begin(struct box *b, bool proof, on_rewound *cb, void *arg)
{
    struct err e;

    if (b->rewinding) {
        err_set(&e, ERR_BUSY, "box %s is already being put into another state", b->id);
        cb(arg, b, NULL, &e);
        return NULL;
    }
    struct rewind *w = calloc(1, sizeof *w);
    if (!w)
        abort();
    *w = (struct rewind){
        .node = b->node, .tenant = b->tenant, .proof = proof, .reset = proof, .spec = b->spec, .cb = cb, .arg = arg
    };
    memcpy(w->box, b->id, sizeof w->box);
    w->to.fidelity = "fs";
    w->spec.layer_count = 0;
    w->spec.parent_root[0] = 0;
    b->rewinding = true;
    return w;
}

void box_rewind(struct box *b, const struct time_ask *ask, bool proof, on_rewound *cb, void *arg)
{
    struct rewind *w = begin(b, proof, cb, arg);

    if (w)
        w->call = ask->call;
    if (w && (ask->state.n || ask->step != FIELD_ABSENT))
        state_look_up(b->node, b->tenant, b, ask, on_target, w);
    else if (w && origin_has_state(b)) {
        w->again = true;
        state_find(b->node, b->tenant, str_of(b->base_state), on_target, w);
    } else if (w && proof)
        prove(w);
    else if (w)
        take_new_seat(w);
}

void box_rewind_state(struct box *b, const struct state *s, bool proof, on_rewound *cb, void *arg)
{
    struct rewind *w = begin(b, proof, cb, arg);

    if (w)
        on_target(w, s, NULL);
}

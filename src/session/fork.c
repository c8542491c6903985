#include <stdlib.h>

#include "base/limits.h"
#include "session/carry.h"
#include "session/rewind.h"

struct forking {
    struct forks out; /* first: a copy finds its way back */
    struct node *node;
    struct box_ask like;
    const struct state *suspect; /* to be proved first */
    bool of_state;               /* settings come from the state */
    on_forked *cb;
    void *arg;
    struct arena arena;
};

static void forking_end(struct forking *f, const struct err *e)
{
    f->cb(f->arg, e ? NULL : &f->out, e);
    arena_done(&f->arena);
    free(f);
}

static void copy_done(struct forked_copy *c)
{
    struct forks *all = c->all;

    all->made += !c->failed;
    if (++all->done == all->total)
        forking_end((struct forking *)all, NULL);
}

static void on_copy(void *arg, struct box *b, const struct err *e)
{
    struct forked_copy *c = arg;

    if (e) {
        c->failed = true;
        c->error = *e;
    } else {
        memcpy(c->id, b->id, sizeof c->id);
        c->setup_us = b->setup_us;
    }
    copy_done(c);
}

static void print_source(const struct forks *f, struct jw *w)
{
    jw_kz(w, "state", f->state_id);
    jw_kz(w, "fidelity", f->fidelity);
    if (f->sessions.n)
        jw_kraw(w, "sessions", f->sessions);
    jw_kbool(w, "proved", f->proved); /* else the layers are trusted as they lie on disk */
}

/* What the record of each copy says of the call that it is for. */
static struct str name_call(struct forking *f)
{
    struct buf text;
    struct jw w = { .out = &text };

    buf_init(&text, LIMIT_RECORD);
    jw_obj(&w);
    print_source(&f->out, &w);
    jw_obj_end(&w);
    struct str done = arena_copy(&f->arena, buf_view(&text));
    buf_done(&text);
    return done;
}

static struct box *make_copy(struct forking *f, const struct state *s, struct err *e)
{
    struct box_ask ask = f->like;

    state_apply(s, &ask.spec);
    ask.shell = s->shell;
    ask.carried = s->carried;
    ask.standing = true;
    struct box *b = box_new(f->node, &ask, e);
    if (b) {
        memcpy(b->state_id, s->id, sizeof b->state_id);
        memcpy(b->began_with, s->id, sizeof b->began_with);
        memcpy(b->root, s->root, sizeof b->root);
    }
    return b;
}

static void make_copies(struct forking *f, const struct state *s)
{
    memcpy(f->out.state_id, s->id, sizeof f->out.state_id);
    f->out.fidelity = state_fidelity(s);
    f->out.sessions = arena_copy(&f->arena, carry_sessions(s->carried, &f->arena));
    if (f->of_state)
        state_settings(s, &f->like); /* borrowed from s: copies are asked for before it goes */
    f->like.forked_at = s->at;
    f->like.call = f->out.call;
    f->like.done = f->out.call ? name_call(f) : (struct str){ 0 };
    size_t total = f->out.total; /* the last copy may end f */
    for (size_t i = 0; i < total; i++) {
        struct forked_copy *c = &f->out.copies[i];
        c->all = &f->out;
        struct box *b = make_copy(f, s, &c->error);
        if (b) {
            box_when_up(b, on_copy, c);
        } else {
            c->failed = true;
            copy_done(c);
        }
    }
}

static void on_verified(void *arg, const struct seat_reply *r, const int *take_gauges)
{
    struct forking *f = arg;
    const struct state *s = f->suspect;
    struct err e = r->err;

    (void)take_gauges;
    if (r->result >= 0 && strcmp(r->root, s->root) != 0) {
        state_quarantine(f->node, s->id, s->root, r->root);
        err_set(&e, ERR_DENIED, "state %s is quarantined: its layers on disk have the root %.20s..., not %.20s...",
                s->id, r->root, s->root);
    }
    if (e.code != ERR_NONE) {
        forking_end(f, &e);
        return;
    }
    f->out.proved = true;
    make_copies(f, s);
}

static void on_source(void *arg, const struct state *s, const struct err *e)
{
    struct forking *f = arg;
    struct err why;

    if (e) {
        forking_end(f, e);
        return;
    }
    if (!s->suspect || !s->layer_count) {
        make_copies(f, s);
        return;
    }
    if (!s->root[0]) {
        err_set(&why, ERR_BUSY, "the root of state %s is still being computed: it cannot prove itself yet", s->id);
        forking_end(f, &why);
        return;
    }
    struct state *kept = arena_alloc(&f->arena, sizeof *kept);
    struct box_spec *spec = arena_alloc(&f->arena, sizeof *spec);
    *kept = *s;
    kept->shell = arena_copy(&f->arena, s->shell);
    kept->carried = arena_copy(&f->arena, s->carried);
    kept->origin = arena_copy(&f->arena, s->origin);
    kept->at = arena_copy(&f->arena, s->at);
    f->suspect = kept;
    *spec = f->like.spec;
    state_apply(kept, spec);
    seats_ask(f->node->seats, SEAT_VERIFY, NULL, spec, on_verified, f);
}

void box_fork(struct node *n, struct tenant *t, struct box *b, const struct time_ask *ask, size_t copies, on_forked *cb,
              void *arg)
{
    struct forking *f = calloc(1, sizeof *f);

    if (!f)
        abort();
    *f = (struct forking){ .node = n, .cb = cb, .arg = arg, .of_state = !b };
    f->out.total = copies;
    f->out.call = ask->call;
    f->out.copies = arena_alloc(&f->arena, copies * sizeof *f->out.copies);
    f->like = (struct box_ask){ .spec = b ? b->spec : n->opts.spec, .ttl_ms = n->opts.box_ttl_ms };
    f->like.tenant = t;
    f->like.step_states = b && b->step_states;
    f->like.headed = b ? b->headed : 0;
    f->like.origin = b ? arena_copy(&f->arena, b->origin) : (struct str){ 0 };
    f->like.secrets = b ? arena_copy(&f->arena, b->secrets) : (struct str){ 0 };
    f->like.labels = b ? arena_copy(&f->arena, b->labels) : (struct str){ 0 };
    state_look_up(n, t, b, ask, on_source, f);
}

void forks_print(const struct forks *f, struct jw *w)
{
    print_source(f, w);
    jw_key(w, "boxes");
    jw_arr(w);
    for (size_t i = 0; i < f->total; i++) {
        const struct forked_copy *c = &f->copies[i];
        jw_obj(w);
        jw_kz(w, "id", c->failed ? NULL : c->id);
        if (c->failed)
            jw_kz(w, "error", c->error.msg);
        else
            jw_kint(w, "setup_us", c->setup_us);
        jw_obj_end(w);
    }
    jw_arr_end(w);
    jw_kint(w, "requested", (int64_t)f->total);
    jw_kint(w, "made", (int64_t)f->made);
}

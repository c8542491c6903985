/* A box as serve sees it: asked for, linked, shared by sessions, given back. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/log.h"
#include "session/box_key.h"
#include "session/call.h"
#include "session/carry.h"
#include "session/link.h"
#include "session/profile.h"
#include "session/node.h"
#include "session/origin.h"
#include "session/quarantine.h"
#include "session/spec_json.h"

enum { RELINK_TRIES = 50, RELINK_MS = 20, HOOKS_MS = 35000 };

static void on_known(void *arg, uint64_t id, bool finished);
static void on_ready_link(void *arg);
static void on_result(void *arg, uint64_t id, const struct wire_result *r, struct arena *a, const int *take_fds);
static void on_stream(void *arg, uint64_t id, int take_fd);
static void on_dial_answer(void *arg, uint64_t id, const struct wire_dialed *d, int take_fd);
static void on_about(void *arg, const struct wire_about *a);
static void on_down(void *arg, const char *why);

static const struct link_handler handler = { .known = on_known,
                                             .ready = on_ready_link,
                                             .result = on_result,
                                             .stream = on_stream,
                                             .dialed = on_dial_answer,
                                             .about = on_about,
                                             .down = on_down };

const char *box_state_name(const struct box *b)
{
    switch (b->state) {
    case BOX_CREATING: return "creating";
    case BOX_RUNNING: return "running";
    case BOX_PAUSED: return "paused";
    case BOX_QUARANTINED: return "quarantined";
    case BOX_CLOSING: return "closing";
    }
    return "unknown";
}

struct box *box_find(struct node *n, struct str id)
{
    return map_get(&n->boxes, id);
}

struct box *box_of_seat(struct node *n, const char *seat)
{
    return map_get(&n->seated, str_of(seat));
}

static void take_seat(struct box *b, const char *seat)
{
    if (b->seat[0])
        map_del(&b->node->seated, str_of(b->seat));
    snprintf(b->seat, sizeof b->seat, "%s", seat);
    map_put(&b->node->seated, str_of(b->seat), b);
}

static struct box *box_alloc(struct node *n)
{
    struct box *b = calloc(1, sizeof *b);
    if (!b)
        abort();
    b->node = n;
    b->pids_peak = b->disk_used_bytes = b->written = -1;
    n->box_count++;
    for (int i = 0; i < SEAT_GAUGES; i++)
        b->gauges[i] = -1;
    b->created_us = wall_us();
    b->link = link_new(n->loop, &handler, b);
    return b;
}

static void tell(struct box_waiter **list, struct box *b, const struct err *e)
{
    struct box_waiter *w = *list;

    *list = NULL;
    for (struct box_waiter *next; w; w = next) {
        next = w->next;
        w->cb(w->arg, b, e);
        free(w);
    }
}

static void wait_for(struct box_waiter **list, void (*cb)(void *arg, struct box *b, const struct err *e), void *arg)
{
    struct box_waiter *w = calloc(1, sizeof *w);

    if (!w)
        abort();
    *w = (struct box_waiter){ .cb = cb, .arg = arg };
    while (*list)
        list = &(*list)->next;
    *list = w;
}

static void box_free(struct box *b)
{
    box_dials_fail(b, "the box has ended");
    b->node->box_count--;
    if (b->charge.boxes)
        tenant_give_box(b->tenant, &b->charge);
    if (b->id[0])
        map_del(&b->node->boxes, str_of(b->id));
    if (b->seat[0])
        map_del(&b->node->seated, str_of(b->seat));
    box_key_drop(b);
    link_free(b->link);
    box_look_end(b);
    for (int i = 0; i < SEAT_GAUGES; i++)
        if (b->gauges[i] >= 0)
            close(b->gauges[i]);
    arena_done(&b->arena);
    carry_done(&b->carried);
    free(b);
}

/* Everyone who lives in the box hears of its end: calls first, then sessions. */
static void evict(struct box *b, enum outcome o, const struct err *e)
{
    box_dials_fail(b, e->msg);
    while (b->running)
        call_fail(b->running, o, e, false);
    while (b->sessions) {
        struct session *s = b->sessions;
        if (o == OUTCOME_KILLED) { /* somebody wanted it: they end with their box */
            session_close(s, b->close_reason);
            continue;
        }
        b->sessions = s->next_in_box;
        s->next_in_box = NULL;
        session_lost(s, o, e);
    }
}

static void record_close(struct box *b)
{
    struct err e;
    struct buf *o = &b->node->scratch;
    struct jw w = { .out = o };

    buf_reset(o);
    jw_obj(&w);
    jw_kz(&w, "box", b->id);
    jw_kint(&w, "time", wall_us());
    jw_kz(&w, "reason", b->close_reason ? b->close_reason : "lost");
    jw_obj_end(&w);
    struct str body = buf_view(o);
    if (node_append(b->node, RECORD_BOX_CLOSE, &body, 1, &e) < 0)
        log_error("box end not recorded", "box=%s error='%s'; the next start will record it", b->id, e.msg);
}

static void on_destroyed(void *arg, const struct seat_reply *r, const int *take_gauges);

/* Its seat. Supervise's sweeper is to be the last who lets go of its files, which takes the longer the more there are. */
static void give_back(struct box *b)
{
    box_look_end(b);
    seats_ask(b->node->seats, SEAT_DESTROY, b->seat, NULL, on_destroyed, b);
}

static void on_destroyed(void *arg, const struct seat_reply *r, const int *take_gauges)
{
    struct box *b = arg;
    (void)take_gauges;

    if (r->result < 0 && r->err.code != ERR_NOT_FOUND) {
        /* supervise went away: asked again until it says that nothing is left. */
        give_back(b);
        return;
    }
    record_close(b);
    tell(&b->closing, b, NULL);
    box_free(b);
}

struct last_words {
    struct node *node;
    char id[BOX_ID_MAX];
    const char *reason;
};

static void on_hooks_ran(void *arg, const struct call *c)
{
    struct last_words *l = arg;
    struct box *b = box_find(l->node, str_of(l->id));

    if (c->outcome != OUTCOME_OK)
        log_warn("hooks not run", "box=%s error='%.*s', destroying it", l->id, STR_ARG(c->message));
    if (b && b->ending) {
        b->ending = false;
        box_close(b, l->reason, NULL, NULL);
    }
    free(l);
}

/* True: the box ends later, when what it was told to do before has been done. */
static bool run_hooks(struct box *b, const char *reason)
{
    if (b->ending)
        return strcmp(reason, "unresponsive") != 0;
    if (!b->hooked || b->state != BOX_RUNNING || !b->up || b->rewinding)
        return false;
    struct last_words *l = calloc(1, sizeof *l);
    if (!l)
        abort();
    *l = (struct last_words){ .node = b->node, .reason = reason };
    memcpy(l->id, b->id, sizeof l->id);
    b->hooked = false;
    b->ending = true;
    struct call_request r = { .surface = STR("own"),
                              .tenant = b->tenant,
                              .worker = str_of(l->id),
                              .action = STR("system:shutdown"),
                              .timeout_ms = HOOKS_MS,
                              .box = b };
    call_start(b->node, &r, on_hooks_ran, l);
    return true;
}

void box_close(struct box *b, const char *reason, void (*cb)(void *arg, struct box *b, const struct err *e), void *arg)
{
    struct err e;

    if (cb)
        wait_for(&b->closing, cb, arg);
    if (b->state == BOX_CLOSING || run_hooks(b, reason))
        return;
    bool creating = b->state == BOX_CREATING;
    b->state = BOX_CLOSING;
    b->close_reason = reason;
    b->up = false;
    err_set(&e, ERR_NOT_FOUND, "box %s was %s", b->id, reason);
    evict(b, OUTCOME_KILLED, &e);
    if (!creating) /* else on_created sees CLOSING and gives it back */
        give_back(b);
}

void box_let_go(struct box *b, struct session *s, const char *reason)
{
    for (struct session **p = &b->sessions; *p; p = &(*p)->next_in_box)
        if (*p == s) {
            *p = s->next_in_box;
            break;
        }
    s->next_in_box = NULL;
    if (!b->sessions && !b->standing)
        box_close(b, reason, NULL, NULL);
}

static void print_unenforced(uint32_t bits, struct jw *w)
{
    static const char *const names[] = { "memory", "cpu", "pids", "disk" };

    jw_key(w, "unenforced");
    jw_arr(w);
    for (unsigned i = 0; i < 4; i++)
        if (bits & 1u << i)
            jw_z(w, names[i]);
    jw_arr_end(w);
}

void box_print(const struct box *b, struct jw *w)
{
    char t[32];

    jw_kz(w, "id", b->id);
    jw_kz(w, "state", box_state_name(b));
    box_quarantine_print(b, w);
    jw_kz(w, "image", b->spec.image);
    utc_time(b->created_us, t);
    jw_kz(w, "created", t);
    jw_kbool(w, "warm", b->warm);
    jw_kint(w, "setup_us", b->setup_us);
    jw_kraw(w, "labels", b->labels.p ? b->labels : STR("{}"));
    if (b->secrets.p)
        jw_kraw(w, "secrets", b->secrets);
    jw_key(w, "limits");
    jw_obj(w);
    spec_limits_print(&b->spec, w);
    jw_obj_end(w);
    jw_kz(w, "network", b->spec.network == BOX_NETWORK_FULL ? "full" : "none");
    jw_kbool(w, "sudo", b->spec.sudo);
    jw_kbool(w, "user_namespaces", b->spec.user_namespaces);
    if (b->browser.known) {
        jw_key(w, "browser");
        jw_obj(w);
        jw_kbool(w, "sandboxed", b->browser.sandboxed);
        if (!b->browser.sandboxed)
            jw_kz(w, "why", b->browser.why);
        jw_obj_end(w);
    }
    jw_kz(w, "display", box_headed(b) ? "headed" : "headless");
    jw_kz(w, "states", b->step_states ? "step" : "manual");
    profile_print(&b->spec.profile, false, w);
    jw_kz(w, "state_id", b->state_id[0] ? b->state_id : NULL);
    jw_kint(w, "ttl_ms", b->ttl_ms);
    if (b->expires_us) {
        utc_time(b->expires_us, t);
        jw_kz(w, "expires", t);
    }
    if (b->origin.n)
        jw_kraw(w, "origin", b->origin);
    print_unenforced(b->unenforced, w);
    jw_kbool(w, "temporary", b->temporary);
    jw_key(w, "sessions");
    jw_arr(w);
    for (const struct session *s = b->sessions; s; s = s->next_in_box)
        jw_z(w, s->id);
    jw_arr_end(w);
}

static int display_of(struct str s)
{
    return str_is(s, "headed") ? 1 : str_is(s, "headless") ? -1 : 0;
}

bool box_headed(const struct box *b)
{
    return b->headed ? b->headed > 0 : b->node->opts.browser_headed;
}

int box_record(struct box *b, struct err *e)
{
    struct buf *o = &b->node->scratch;
    struct jw w = { .out = o };

    buf_reset(o);
    jw_obj(&w);
    jw_kz(&w, "box", b->id);
    jw_kz(&w, "seat", b->seat);
    if (!b->tenant->is_default)
        jw_kz(&w, "tenant", b->tenant->name);
    jw_kint(&w, "time", b->created_us);
    jw_kz(&w, "image", b->spec.image);
    jw_kraw(&w, "labels", b->labels.p ? b->labels : STR("{}"));
    if (b->secrets.p)
        jw_kraw(&w, "secrets", b->secrets);
    jw_key(&w, "spec");
    jw_obj(&w);
    spec_print(&b->spec, &w);
    jw_key(&w, "layers");
    jw_arr(&w);
    for (uint32_t i = 0; i < b->spec.layer_count; i++)
        jw_z(&w, b->spec.layers[i]);
    jw_arr_end(&w);
    jw_kz(&w, "parent_root", b->spec.parent_root);
    profile_print(&b->spec.profile, true, &w);
    jw_obj_end(&w);
    box_key_record(b, &w);
    jw_kbool(&w, "step_states", b->step_states);
    if (b->headed)
        jw_kz(&w, "display", b->headed > 0 ? "headed" : "headless");
    if (b->helper)
        jw_kbool(&w, "helper", true);
    if (b->origin.n)
        jw_kraw(&w, "origin", b->origin);
    jw_kz(&w, "began_with", b->began_with[0] ? b->began_with : NULL);
    jw_kz(&w, "state", b->state_id[0] ? b->state_id : NULL);
    if (b->forked_at.n)
        jw_kraw(&w, "forked_at", b->forked_at);
    if (b->call) {
        jw_kint(&w, "call", (int64_t)b->call);
        jw_kraw(&w, "done", b->done);
    }
    carry_record(b, &w);
    box_quarantine_print(b, &w);
    jw_kbool(&w, "temporary", b->temporary);
    jw_kbool(&w, "standing", b->standing);
    jw_kint(&w, "ttl_ms", b->ttl_ms);
    jw_kbool(&w, "warm", b->warm);
    print_unenforced(b->unenforced, &w);
    jw_obj_end(&w);
    struct str body = buf_view(o);
    return node_append(b->node, RECORD_BOX_OPEN, &body, 1, e);
}

void box_restarted_browser(struct box *b, struct str params)
{
    struct arena a = { 0 };
    struct json *said = NULL;
    struct err e;
    int headed = json_parse(&a, params, &said, &e) < 0 || str_is(json_get_str(said, "mode"), "soft")
                     ? 0
                     : display_of(json_get_str(said, "display"));

    if (headed && headed != b->headed) {
        b->headed = headed;
        if (box_record(b, &e) < 0)
            log_warn("a box's display is not recorded", "box=%s error='%s', going on", b->id, e.msg);
    }
    arena_done(&a);
}

/* A box that could not be made or linked: everyone who waits is told why. */
static void creation_failed(struct box *b, const struct err *why)
{
    struct err e = *why;

    b->state = BOX_CLOSING;
    b->close_reason = "failed";
    tell(&b->opening, b, &e);
    evict(b, OUTCOME_INFRA_ERROR, &e);
    if (b->id[0])
        give_back(b);
    else {
        tell(&b->closing, b, NULL);
        box_free(b);
    }
}

int box_env(const struct box *b, struct arena *a, struct pairs *ret, struct err *e)
{
    struct secret_use use = { b->tenant, NULL, b->id };
    struct json *list = NULL;

    *ret = (struct pairs){ 0 };
    if (!b->secrets.n)
        return 0;
    int r = json_parse(a, b->secrets, &list, e);
    if (r < 0)
        return r;
    ret->v = arena_alloc(a, (list->count + 1) * sizeof *ret->v);
    for (const struct json *m = list->first; m; m = m->next) {
        const struct secret *x = secrets_find(b->node->secrets, b->tenant, m->s);
        if (!x)
            return err_set(e, ERR_NOT_FOUND, "secrets: there is no secret '%.*s'", STR_ARG(m->s));
        r = secret_may(x, &use, e);
        if (r < 0)
            return r;
        ret->v[ret->n++] = (struct pair){ m->name, { x->value, x->value_n } };
    }
    return 0;
}

/* What init is to know of a new seat: its browser's display, and the variables that every program has which is started
 * from now on. The shell that waits already has them not, so it goes. */
static void give_env(struct box *b)
{
    struct arena a = { 0 };
    struct wire_env w = { .display = b->headed > 0   ? STR("headed")
                                     : b->headed < 0 ? STR("headless")
                                                     : (struct str){ 0 } };
    struct err e;
    bool secrets = b->secrets.n > 0;

    if (secrets && box_env(b, &a, &w.env, &e) < 0) {
        log_warn("secrets not given", "box=%s error='%s', going on without them", b->id, e.msg);
        w.env = (struct pairs){ 0 };
        secrets = false;
    }
    if (secrets || w.display.n)
        link_env(b->link, &w);
    if (secrets)
        link_end_shell(b->link, STR(""));
    arena_done(&a);
}

static void on_created(void *arg, const struct seat_reply *r, const int *take_gauges)
{
    struct box *b = arg;
    struct err e;

    for (int i = 0; i < SEAT_GAUGES; i++)
        b->gauges[i] = take_gauges[i];
    if (r->result < 0) {
        e = r->err;
        creation_failed(b, &e);
        return;
    }
    snprintf(b->id, sizeof b->id, "%s", r->id); /* its first seat gives the box its name */
    map_put(&b->node->boxes, str_of(b->id), b);
    take_seat(b, r->id);
    b->warm = r->warm;
    b->setup_us = r->setup_us;
    b->unenforced = r->unenforced;
    if (b->state == BOX_CLOSING) { /* nobody wants it any more */
        give_back(b);
        return;
    }
    if (box_record(b, &e) < 0 || link_open(b->link, b->node->opts.home, b->seat, &e) < 0) {
        creation_failed(b, &e);
        return;
    }
    give_env(b);
    b->state = BOX_RUNNING;
    b->up = true; /* a new init holds no call: nothing to wait for */
    tell(&b->opening, b, NULL);
    for (struct session *s = b->sessions, *next; s; s = next) {
        next = s->next_in_box;
        session_up(s);
    }
}

static void on_old_seat(void *arg, const struct seat_reply *r, const int *take_gauges)
{
    (void)arg, (void)r, (void)take_gauges; /* what supervise could not take away now, the next LIST shows */
}

int box_move(struct box *b, const struct seat_reply *r, const int *take_gauges, const struct box_spec *spec,
             struct err *e)
{
    struct link *link = link_new(b->node->loop, &handler, b);

    if (link_open(link, b->node->opts.home, r->id, e) < 0) {
        link_free(link);
        for (int i = 0; i < SEAT_GAUGES; i++)
            if (take_gauges[i] >= 0)
                close(take_gauges[i]);
        seats_ask(b->node->seats, SEAT_DESTROY, r->id, NULL, on_old_seat, NULL);
        return -EIO;
    }
    box_dials_fail(b, "the box went on in another state");
    link_free(b->link);
    b->link = link;
    char old[BOX_ID_MAX];
    memcpy(old, b->seat, sizeof old);
    box_look_end(b);
    take_seat(b, r->id);
    for (int i = 0; i < SEAT_GAUGES; i++) {
        if (b->gauges[i] >= 0)
            close(b->gauges[i]);
        b->gauges[i] = take_gauges[i];
    }
    b->oom_seen = b->pids_seen = 0;
    b->spec = *spec;
    b->browser.known = false;
    give_env(b);
    b->state = BOX_RUNNING;
    b->up = true;
    int res = box_record(b, e);                                            /* the same box, another seat */
    seats_ask(b->node->seats, SEAT_DESTROY, old, NULL, on_old_seat, NULL); /* not before the log names the new one */
    return res;
}

/* Its state is there, or cannot be had. */
static void on_origin(struct box *b, const struct err *e)
{
    struct err gone;

    err_set(&gone, ERR_NOT_FOUND, "nobody wants the box any more");
    if (e || b->state == BOX_CLOSING)
        creation_failed(b, e ? e : &gone);
    else
        seats_ask(b->node->seats, SEAT_CREATE, NULL, &b->spec, on_created, b);
}

static struct tenant_use charge_of(const struct box_spec *s)
{
    return (struct tenant_use){
        .boxes = 1, .memory_bytes = s->memory_bytes, .disk_bytes = s->disk_bytes, .cpu_milli = s->cpu_milli
    };
}

struct box *box_new(struct node *n, const struct box_ask *ask, struct err *e)
{
    struct box *made = NULL;
    if (box_key_find(n, ask, &made, e) != 0)
        return made;
    if ((int64_t)n->box_count >= n->opts.box_max) {
        err_set(e, ERR_BUSY, "box.max (%ld boxes) is reached; destroy some or try again later", (long)n->opts.box_max);
        return NULL;
    }
    struct tenant *tenant = ask->tenant ? ask->tenant : n->tenant;
    struct tenant_use charge = charge_of(&ask->spec);
    struct box like = { .node = n, .tenant = tenant, .secrets = ask->secrets };
    struct arena a = { 0 };
    struct pairs env;
    int known = box_env(&like, &a, &env, e);
    arena_done(&a);
    if (known < 0)
        return NULL;
    if (tenant_take_box(tenant, &charge, e) < 0)
        return NULL;
    struct box *b = box_alloc(n);
    b->tenant = tenant;
    b->charge = charge;
    b->spec = ask->spec;
    b->ttl_ms = ask->ttl_ms;
    b->expires_us = ask->ttl_ms ? b->created_us + ask->ttl_ms * 1000 : 0;
    b->temporary = ask->temporary;
    b->standing = ask->standing;
    b->labels = arena_copy(&b->arena, ask->labels);
    b->secrets = arena_copy(&b->arena, ask->secrets);
    box_key_take(b, ask);
    b->step_states = ask->step_states;
    b->headed = ask->headed;
    b->forked_at = arena_copy(&b->arena, ask->forked_at);
    b->call = ask->call;
    b->done = arena_copy(&b->arena, ask->done);
    b->helper = ask->helper;
    origin_take(b, ask->origin);
    carry_expect(b, ask->shell.n ? ask->shell : origin_shell(b), ask->carried);
    if (!ask->origin_of) {
        seats_ask(n->seats, SEAT_CREATE, NULL, &b->spec, on_created, b);
    } else if (origin_begin(b, ask->origin_of, on_origin, e) < 0) {
        box_free(b);
        return NULL;
    }
    return b;
}

void box_when_up(struct box *b, void (*cb)(void *arg, struct box *b, const struct err *e), void *arg)
{
    if (b->state == BOX_CREATING)
        wait_for(&b->opening, cb, arg);
    else
        cb(arg, b, NULL);
}

/* supervise says that the box's init ended. */
void on_box_dead(void *arg, const struct seat_reply *r)
{
    struct node *n = arg;
    struct box *b = box_of_seat(n, r->id);
    struct err e;

    if (!b || b->state == BOX_CLOSING)
        return;
    b->state = BOX_CLOSING;
    b->up = false;
    b->close_reason = r->oom ? "lost: out of memory" : "lost";
    err_set(&e, ERR_NOT_FOUND, "box %s ended (%s %d)%s", b->id, (r->status & 127) ? "signal" : "status",
            (r->status & 127) ? r->status & 127 : r->status >> 8 & 255, r->oom ? ": out of memory" : "");
    log_warn("box lost", "box=%s %s", b->id, e.msg);
    evict(b, r->oom ? OUTCOME_OOM : OUTCOME_BOX_LOST, &e);
    give_back(b);
}

/* --- the link --- */

static void on_known(void *arg, uint64_t id, bool finished)
{
    struct box *b = arg;
    struct call *c = call_find(b->node, id);

    (void)finished;
    if (c && strcmp(c->box_id, b->id) == 0)
        c->known = true;
    else
        link_ack(b->link, id); /* its result is in the log already, or nobody asked: init may forget it */
}

static void on_ready_link(void *arg)
{
    struct box *b = arg;
    struct err e;

    if (b->up)
        return;
    b->up = true;
    err_set(&e, ERR_SYSTEM, "the call had not reached the box when the server was restarted");
    for (struct call *c = b->running, *next; c; c = next) {
        next = c->next;
        if (!c->known)
            call_fail(c, OUTCOME_INFRA_ERROR, &e, true);
    }
    for (struct session *s = b->sessions, *next; s; s = next) {
        next = s->next_in_box;
        session_pump(s);
    }
}

static void on_result(void *arg, uint64_t id, const struct wire_result *r, struct arena *a, const int *take_fds)
{
    struct box *b = arg;
    struct call *c = call_find(b->node, id);

    (void)a;
    if (!c || c->box != b) { /* being stored, recorded before, or invented by the box */
        for (int i = 0; i < 2; i++)
            if (take_fds[i] >= 0)
                close(take_fds[i]);
        if (!c)
            link_ack(b->link, id);
        return;
    }
    call_result(c, r, take_fds);
}

static void on_stream(void *arg, uint64_t id, int take_fd)
{
    struct box *b = arg;
    struct call *c = call_find(b->node, id);

    if (c && c->box == b)
        call_stream(c, take_fd);
    else
        close(take_fd);
}

static void on_about(void *arg, const struct wire_about *a)
{
    struct box *b = arg;

    b->browser.known = true;
    b->browser.sandboxed = a->sandboxed;
    snprintf(b->browser.why, sizeof b->browser.why, "%.*s", STR_ARG(a->why));
}

static void on_dial_answer(void *arg, uint64_t id, const struct wire_dialed *d, int take_fd)
{
    box_dialed(arg, id, d, take_fd);
}

/* Box root can make init hang up on whoever comes; that must not become all that we do. */
static int connect_again(struct box *b, struct err *e)
{
    if (now_ms() - b->breaks_from_ms > LINK_BREAKS_MS) {
        b->breaks_from_ms = now_ms();
        b->breaks = 0;
    }
    if (++b->breaks > LIMIT_LINK_BREAKS)
        return err_set(e, ERR_LIMIT, "its init hung up more than LIMIT_LINK_BREAKS (%d) times in %d s",
                       LIMIT_LINK_BREAKS, LINK_BREAKS_MS / 1000);
    return link_open(b->link, b->node->opts.home, b->seat, e);
}

/* The connection broke but the box may live: connect again; supervise tells if it does not. */
static void on_down(void *arg, const char *why)
{
    struct box *b = arg;
    struct err e;

    box_dials_fail(b, "the connection to the box's init broke");
    if (b->state == BOX_CLOSING)
        return;
    log_warn("link to box broke", "box=%s why='%s', connecting again", b->id, why);
    b->up = false;
    for (struct call *c = b->running; c; c = c->next)
        c->known = false;
    if (connect_again(b, &e) == 0)
        return;
    log_warn("box cannot be reached", "box=%s error='%s', giving it up", b->id, e.msg);
    b->state = BOX_CLOSING;
    b->close_reason = "lost";
    err_set(&e, ERR_NOT_FOUND, "box %s cannot be reached any more", b->id);
    evict(b, OUTCOME_BOX_LOST, &e);
    give_back(b);
}

/* --- pause and resume --- */

struct freeze {
    struct box *b;
    char id[BOX_ID_MAX];
    struct node *node;
    bool frozen;
    void (*cb)(void *arg, struct box *b, const struct err *e);
    void *arg;
};

static void on_frozen(void *arg, const struct seat_reply *r, const int *take_gauges)
{
    struct freeze *f = arg;
    struct box *b = box_find(f->node, str_of(f->id));
    struct err e;

    (void)take_gauges;
    if (!b) {
        err_set(&e, ERR_NOT_FOUND, "box %s ended meanwhile", f->id);
        f->cb(f->arg, NULL, &e);
    } else if (r->result < 0) {
        e = r->err;
        f->cb(f->arg, b, &e);
    } else {
        if (b->state != BOX_CLOSING && b->state != BOX_QUARANTINED)
            b->state = f->frozen ? BOX_PAUSED : BOX_RUNNING;
        b->still_us = now_us();
        f->cb(f->arg, b, NULL);
        for (struct session *s = b->sessions, *next; s; s = next) {
            next = s->next_in_box;
            session_pump(s);
        }
    }
    free(f);
}

int box_freeze(struct box *b, bool frozen, void (*cb)(void *arg, struct box *b, const struct err *e), void *arg,
               struct err *e)
{
    if (b->state == BOX_QUARANTINED)
        return box_quarantine_error(b, e);
    if (b->state != BOX_RUNNING && b->state != BOX_PAUSED)
        return err_set(e, ERR_BUSY, "box %s is %s", b->id, box_state_name(b));

    struct freeze *f = calloc(1, sizeof *f);
    if (!f)
        abort();
    *f = (struct freeze){ .b = b, .node = b->node, .frozen = frozen, .cb = cb, .arg = arg };
    memcpy(f->id, b->id, sizeof f->id);
    seats_ask(b->node->seats, frozen ? SEAT_FREEZE : SEAT_THAW, b->seat, NULL, on_frozen, f);
    return 0;
}

/* --- a box that an earlier serve had --- */

struct box *box_adopt(struct node *n, const struct seat_reply *r, const int *take_gauges, const struct json *record)
{
    struct box *b = box_alloc(n);
    const struct json *spec = json_get(record, "spec");

    struct str id = json_get_str(record, "box");
    struct err e;
    b->tenant = tenant_get(n, json_get_str(record, "tenant"), &e);
    if (!b->tenant) /* damaged: nobody's, which is better than somebody else's */
        b->tenant = tenant_get(n, STR("lost"), &e);
    snprintf(b->id, sizeof b->id, "%.*s", STR_ARG(id));
    map_put(&n->boxes, str_of(b->id), b);
    take_seat(b, r->id);
    for (int i = 0; i < SEAT_GAUGES; i++)
        b->gauges[i] = take_gauges[i];
    b->adopted = true;
    b->shell_given = true; /* perhaps to a session that is closed by now */
    b->state = r->frozen ? BOX_PAUSED : BOX_RUNNING;
    b->unenforced = r->unenforced;
    b->created_us = json_get_int(record, "time", json_get_int(record, "opened_us", wall_us()));
    b->temporary = json_get_bool(record, "temporary", false);
    b->standing = json_get_bool(record, "standing", false);
    b->warm = json_get_bool(record, "warm", false);
    b->ttl_ms = json_get_int(record, "ttl_ms", 0);
    b->expires_us = b->ttl_ms ? b->created_us + b->ttl_ms * 1000 : 0;
    const struct json *labels = json_get(record, "labels");
    b->labels = labels ? arena_copy(&b->arena, labels->raw) : STR("{}");
    const struct json *secrets = json_get(record, "secrets");
    if (secrets && secrets->type == JSON_OBJ)
        b->secrets = arena_copy(&b->arena, secrets->raw);
    box_key_adopt(b, record);
    struct str image = json_get_str(record, "image");
    snprintf(b->spec.image, sizeof b->spec.image, "%.*s", STR_ARG(image));
    spec_read(spec, &b->spec);
    profile_read(json_get(spec, "determinism"), &b->spec.profile);
    b->step_states = json_get_bool(record, "step_states", false);
    b->headed = display_of(json_get_str(record, "display"));
    b->helper = json_get_bool(record, "helper", false);
    struct str began = json_get_str(record, "began_with");
    snprintf(b->began_with, sizeof b->began_with, "%.*s", STR_ARG(began));
    const struct json *forked_at = json_get(record, "forked_at"), *done = json_get(record, "done");
    b->forked_at = forked_at ? arena_copy(&b->arena, forked_at->raw) : (struct str){ 0 };
    b->call = done ? (uint64_t)json_get_int(record, "call", 0) : 0;
    b->done = done ? arena_copy(&b->arena, done->raw) : (struct str){ 0 };
    const struct json *origin = json_get(record, "origin");
    if (origin)
        origin_take(b, origin->raw);
    const struct json *layers = json_get(spec, "layers");
    for (const struct json *l = layers ? layers->first : NULL; l && b->spec.layer_count < LIMIT_LAYERS; l = l->next)
        snprintf(b->spec.layers[b->spec.layer_count++], LAYER_ID_MAX, "%.*s", STR_ARG(l->s));
    struct str root = json_get_str(spec, "parent_root");
    snprintf(b->spec.parent_root, sizeof b->spec.parent_root, "%.*s", STR_ARG(root));
    struct str state = json_get_str(record, "state_now"), its_root = json_get_str(record, "root_now");
    snprintf(b->state_id, sizeof b->state_id, "%.*s", STR_ARG(state));
    snprintf(b->root, sizeof b->root, "%.*s", STR_ARG(its_root));
    carry_adopt(b, record);
    box_quarantine_adopt(b, record, r->frozen);
    b->hooked = true; /* init knows; asking it for nothing costs little */
    b->charge = charge_of(&b->spec);
    tenant_add_box(b->tenant, &b->charge); /* it is there, whatever the quota says now */
    b->oom_seen = (uint64_t)gauge_read(b->gauges[GAUGE_MEMORY_EVENTS], "oom_kill ");
    b->pids_seen = (uint64_t)gauge_read(b->gauges[GAUGE_PIDS_EVENTS], "max ");
    return b;
}

void box_link(struct box *b)
{
    struct err e;

    if (!link_is_open(b->link) && link_open(b->link, b->node->opts.home, b->seat, &e) < 0)
        log_warn("adopted box does not answer", "box=%s error='%s', waiting for supervise", b->id, e.msg);
}

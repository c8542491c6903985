/* Taking over after a crash or an upgrade. The log says what should be; supervise says what is.
 *
 *   in the log and alive      adopted; its sessions go on; init is asked about the calls that were under way
 *   in the log, not alive     its calls end as box_lost, its sessions say so until they are destroyed
 *   alive, not in the log     was being made when serve died: destroyed
 *   temporary                 its one call is finished, then it is destroyed as always */
#include "session/restore.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "session/call.h"
#include "session/node.h"
#include "store/recorder_client.h"

static struct {
    struct arena arena;
    struct json *open; /* answer of recorder; NULL once it has been used */
    struct map seen;   /* boxes named by the LIST under way */
} past;

int restore_begin(struct node *n, struct err *e)
{
    struct query q = { .op = STR("open"), .upto = (int64_t)journal_end(n->journal) };
    struct answer a;

    int r = recorder_ask_wait(n->opts.home, &q, &past.arena, &a, e);
    if (r < 0)
        return err_wrap(e, r, "ask the recorder what is open");
    if (a.error)
        return err_set(e, (enum err_code)a.error, "the recorder says: %.*s", STR_ARG(a.message));
    r = json_parse(&past.arena, a.json, &past.open, e);
    if (r < 0)
        return err_wrap(e, r, "answer of the recorder");
    uint64_t max = (uint64_t)json_get_int(past.open, "max_call", 0);
    if (max > n->last_call) /* the clock went back */
        n->last_call = max;
    return 0;
}

static const struct json *recorded_box(const char *seat)
{
    const struct json *boxes = json_get(past.open, "boxes");

    for (const struct json *b = boxes ? boxes->first : NULL; b; b = b->next)
        if (str_is(json_get_str(b, json_get_str(b, "seat").p ? "seat" : "box"), seat))
            return b;
    return NULL;
}

static void restore_workers(struct node *n)
{
    const struct json *list = json_get(past.open, "trajectories");
    struct err e;

    for (const struct json *t = list ? list->first : NULL; t; t = t->next) {
        struct str id = json_get_str(t, "id");
        struct tenant *tenant = tenant_get(n, json_get_str(t, "tenant"), &e);
        struct worker *w = id.p && tenant ? worker_get(n, tenant, json_get_str(t, "worker"), &e) : NULL;
        if (w)
            worker_set_trajectory(w, trajectory_use(n, tenant, id, json_get_int(t, "last_step", 0)));
    }
}

/* After the calls: those that are still under way belong to where the worker was. */
static void end_episodes(struct node *n)
{
    const struct json *list = json_get(past.open, "trajectories");
    struct err e;

    for (const struct json *t = list ? list->first : NULL; t; t = t->next) {
        struct tenant *tenant = tenant_get(n, json_get_str(t, "tenant"), &e);
        struct worker *w = tenant ? worker_find(n, tenant, json_get_str(t, "worker")) : NULL;
        if (w && w->trajectory && json_get_bool(t, "ended", false) && str_is(json_get_str(t, "id"), w->trajectory->id))
            worker_set_trajectory(w, NULL);
    }
}

static void restore_session(struct node *n, const struct json *j)
{
    struct err e;
    struct str id = json_get_str(j, "session"), name = json_get_str(j, "name");
    const struct backend *backend = backend_find(json_get_str(j, "resource"));
    struct tenant *tenant = tenant_get(n, json_get_str(j, "tenant"), &e);
    struct worker *w = tenant ? worker_get(n, tenant, json_get_str(j, "worker"), &e) : NULL;

    if (!backend || !w || json_get_bool(j, "temporary", false))
        return;
    struct session *s = calloc(1, sizeof *s);
    if (!s)
        abort();
    *s = (struct session){
        .worker = w, .backend = backend, .up = true, .own_shell = json_get_bool(j, "own_shell", false)
    };
    session_list_add(s);
    n->session_count++;
    s->queue_last = &s->queue;
    snprintf(s->id, sizeof s->id, "%.*s", STR_ARG(id));
    snprintf(s->name, sizeof s->name, "%.*s", STR_ARG(name));
    s->created_us = json_get_int(j, "time", wall_us());
    s->ttl_ms = json_get_int(j, "ttl_ms", n->opts.session_ttl_ms);
    const struct json *config = json_get(j, "config");
    if (config)
        s->config = arena_copy(&s->arena, config->raw);
    s->own_box = str_is(json_get_str(config, "box"), "own");
    if (backend->open)
        (void)backend->open(&s->arena, config, &s->state, &e);
    session_touch(s);
    struct str box = json_get_str(j, "box");
    s->box = box.n ? box_find(n, box) : NULL;
    if (s->box) {
        s->next_in_box = s->box->sessions;
        s->box->sessions = s;
    } else if (box.n) {
        err_set(&e, ERR_NOT_FOUND, "box %.*s ended while the server was down", STR_ARG(box));
        session_lost(s, OUTCOME_BOX_LOST, &e);
    }
}

static void restore_call(struct node *n, const struct json *j)
{
    struct str box_id = json_get_str(j, "box");
    struct box *b = box_id.n ? box_find(n, box_id) : NULL;
    struct call *c = call_resume(n, j, b);
    struct err e;

    if (c && c->tool->flags & TOOL_ON_BOX) {
        box_tool_resume(c);
        return;
    }
    if (!c || b) /* b: its init will say what became of it */
        return;
    if (c->tool->flags & TOOL_REMOTE) {
        err_set(&e, ERR_SYSTEM, "the server restarted while the call was with another process");
        call_fail(c, OUTCOME_INFRA_ERROR, &e, false);
        return;
    }
    err_set(&e, ERR_NOT_FOUND, "box %.*s ended while the server was down", STR_ARG(box_id));
    call_fail(c, OUTCOME_BOX_LOST, &e, false);
}

static void close_record(struct node *n, struct str id)
{
    struct jw w = { .out = &n->scratch };
    struct err e;

    buf_reset(w.out);
    jw_obj(&w);
    jw_kstr(&w, "box", id);
    jw_kint(&w, "time", wall_us());
    jw_kz(&w, "reason", "lost");
    jw_obj_end(&w);
    struct str body = buf_view(w.out);
    if (node_append(n, RECORD_BOX_CLOSE, &body, 1, &e) < 0)
        log_error("box end not recorded", "error='%s'", e.msg);
}

static void go_on(struct box *b)
{
    for (struct session *s = b->sessions; s; s = s->next_in_box)
        session_again(s); /* the shell's beginning may not have reached the box */
    box_link(b);
}

/* supervise has named every living box. */
static void settle(struct node *n)
{
    const struct json *list;
    struct box *b;

    list = json_get(past.open, "tenants");
    for (const struct json *j = list ? list->first : NULL; j; j = j->next) {
        struct tenant *t = tenant_get(n, json_get_str(j, "tenant"), &(struct err){ 0 });
        if (t)
            t->use.trajectories = json_get_int(j, "trajectories", 0);
    }
    restore_workers(n);
    list = json_get(past.open, "boxes");
    for (const struct json *j = list ? list->first : NULL; j; j = j->next)
        if (!box_find(n, json_get_str(j, "box")))
            close_record(n, json_get_str(j, "box"));
    list = json_get(past.open, "sessions");
    for (const struct json *j = list ? list->first : NULL; j; j = j->next)
        restore_session(n, j);
    list = json_get(past.open, "steps");
    for (const struct json *j = list ? list->first : NULL; j; j = j->next)
        restore_call(n, j);
    end_episodes(n);
    past.open = NULL;
    for (size_t i = 0; (b = map_next(&n->boxes, &i));)
        if (b->helper || (!b->standing && !b->sessions && !b->running)) /* who waited for a helper is gone */
            box_close(b, "abandoned", NULL, NULL);
        else
            go_on(b);
    n->ready = n->roots_missing = true;
    if (n->on_ready)
        n->on_ready(n->arg);
}

static void ignore(void *arg, const struct seat_reply *r, const int *take_gauges)
{
    (void)arg, (void)r, (void)take_gauges;
}

/* A box that we know and supervise does not: it died while nobody looked. */
static void find_dead(struct node *n)
{
    struct box *b;

    for (size_t i = 0; (b = map_next(&n->boxes, &i));) {
        if (b->state == BOX_CREATING || b->state == BOX_CLOSING || map_get(&past.seen, str_of(b->seat)))
            continue;
        struct seat_reply dead = { .verb = SEAT_DEAD, .status = 9 };
        memcpy(dead.id, b->seat, sizeof dead.id);
        on_box_dead(n, &dead);
    }
}

static void on_listed(void *arg, const struct seat_reply *r, const int *take_gauges)
{
    struct node *n = arg;

    if (r->result < 0) {
        restore_boxes(n);
        return;
    }
    if (r->id[0]) {
        struct box *b = box_of_seat(n, r->id);
        const struct json *record = b ? NULL : recorded_box(r->id);
        if (!b && record)
            b = box_adopt(n, r, take_gauges, record);
        else
            for (int i = 0; i < SEAT_GAUGES; i++)
                if (take_gauges[i] >= 0)
                    close(take_gauges[i]);
        if (b)
            map_put(&past.seen, str_of(b->seat), b);
        else if (past.open || n->ready)
            seats_ask(n->seats, SEAT_DESTROY, r->id, NULL, ignore, NULL);
        return;
    }
    if (n->ready)
        find_dead(n);
    else
        settle(n);
    map_done(&past.seen);
}

void restore_boxes(struct node *n)
{
    map_done(&past.seen);
    seats_ask(n->seats, SEAT_LIST, NULL, NULL, on_listed, n);
}

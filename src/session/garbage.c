#include "session/garbage.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/log.h"
#include "session/state.h"
#include "store/recorder_client.h"

enum { PAGE_ROWS = 1000, ROUNDS_MAX = 8 };

struct collect {
    struct node *node;
    bool dry;
    int list; /* memfd: what stays, for supervise */
    int64_t after;
    int rounds;
    struct garbage sum;
    on_collected *cb;
    void *arg;
};

static void collect_end(struct collect *c, const struct err *e)
{
    c->node->collecting = false;
    c->node->collected_ms = now_ms();
    if (!e)
        log_info("garbage removed", "layers=%lu objects=%lu bytes=%lu states=%lu used=%lu%s",
                 (unsigned long)c->sum.layers_removed, (unsigned long)c->sum.objects_removed,
                 (unsigned long)c->sum.removed_bytes, (unsigned long)c->sum.states_dropped,
                 (unsigned long)c->sum.used_bytes, c->dry ? " (dry)" : "");
    else
        log_warn("garbage not removed", "error='%s'", e->msg);
    if (c->cb)
        c->cb(c->arg, e ? NULL : &c->sum, e);
    if (c->list >= 0)
        close(c->list);
    free(c);
}

static struct json *rows_of(const struct answer *a, struct arena *arena, int64_t *last, struct err *e)
{
    struct json *j = NULL;

    if (a->error)
        err_set(e, (enum err_code)a->error, "%.*s", STR_ARG(a->message));
    else if (json_parse(arena, a->json, &j, e) < 0)
        j = NULL;
    if (j)
        *last = json_get_int(j, "last", 0);
    struct json *rows = j ? (struct json *)json_get(j, "rows") : NULL;
    if (j && !rows)
        err_set(e, ERR_SYSTEM, "the recorder's answer has no rows");
    return rows;
}

static void ask(struct node *n, const char *op, int64_t after, int64_t limit, on_answer *cb, void *arg)
{
    struct query q = { .op = str_of(op), .after = after, .limit = limit, .upto = (int64_t)journal_end(n->journal) };
    recorder_ask(n->recorder, &q, -1, cb, arg);
}

static void begin_round(struct collect *c);

/* --- the budget --- */

static bool is_used(const struct node *n, const char *state)
{
    struct box *b;

    for (size_t i = 0; (b = map_next(&n->boxes, &i));)
        if (strcmp(b->state_id, state) == 0 || strcmp(b->base_state, state) == 0)
            return true;
    return false;
}

static void on_old(void *arg, const struct answer *a)
{
    struct collect *c = arg;
    struct arena arena = { 0 };
    struct err e = { 0 };
    int64_t last = 0, excess = (int64_t)c->sum.used_bytes - c->node->opts.state_budget;
    uint64_t before = c->sum.states_dropped;
    const struct json *rows = rows_of(a, &arena, &last, &e);

    for (const struct json *r = rows ? rows->first : NULL; r && excess > 0; r = r->next) {
        char *id = arena_z(&arena, json_get_str(r, "state"));
        if (is_used(c->node, id))
            continue;
        state_drop(c->node, id, "state.budget");
        c->sum.states_dropped++;
        excess -= json_get_int(r, "bytes", 0) + 4096;
    }
    arena_done(&arena);
    if (e.code != ERR_NONE)
        collect_end(c, &e);
    else if (c->sum.states_dropped == before)
        collect_end(c, NULL);
    else
        begin_round(c);
}

/* --- one round --- */

static void on_swept(void *arg, const struct seat_reply *r, const int *take_gauges)
{
    struct collect *c = arg;
    struct err e = r->err;

    (void)take_gauges;
    if (r->result < 0) {
        collect_end(c, &e);
        return;
    }
    c->sum.layers_kept = r->gc.layers_kept;
    c->sum.objects_kept = r->gc.objects_kept;
    c->sum.used_bytes = r->gc.used_bytes;
    c->sum.layers_removed += r->gc.layers_removed;
    c->sum.objects_removed += r->gc.objects_removed;
    c->sum.removed_bytes += r->gc.removed_bytes;
    int64_t budget = c->node->opts.state_budget;
    if (c->dry || budget == 0 || (int64_t)r->gc.used_bytes <= budget || c->rounds >= ROUNDS_MAX)
        collect_end(c, NULL);
    else
        ask(c->node, "old_states", 0, PAGE_ROWS, on_old, c);
}

static void sweep_layers(struct collect *c)
{
    struct seat_request q = { .verb = SEAT_GC };

    q.gc.grace_ms = c->node->opts.gc_grace_ms;
    q.gc.dry = c->dry;
    seats_ask_files(c->node->seats, &q, TAKE_FD(c->list), on_swept, c);
}

static bool write_row(int fd, const struct json *r)
{
    struct str root = json_get_str(r, "root");
    const struct json *layers = json_get(r, "layers");
    bool good = true;

    if (root.n > 7)
        good = dprintf(fd, "r %.*s\n", (int)root.n - 7, root.p + 7) > 0;
    for (const struct json *l = layers ? layers->first : NULL; l && good; l = l->next)
        good = dprintf(fd, "l %.*s\n", STR_ARG(l->s)) > 0;
    return good;
}

static void on_live(void *arg, const struct answer *a)
{
    struct collect *c = arg;
    struct arena arena = { 0 };
    struct err e = { 0 };
    int64_t last = 0;
    const struct json *rows = rows_of(a, &arena, &last, &e);
    size_t n = 0;
    bool good = rows;

    for (const struct json *r = rows ? rows->first : NULL; r && good; r = r->next, n++)
        good = write_row(c->list, r);
    arena_done(&arena);
    if (good && n == 0)
        good = dprintf(c->list, "end\n") > 0;
    if (!good) {
        if (e.code == ERR_NONE)
            err_sys(&e, "write down what stays");
        collect_end(c, &e);
    } else if (n == 0) {
        sweep_layers(c);
    } else {
        c->after = last;
        ask(c->node, "live_states", c->after, PAGE_ROWS, on_live, c);
    }
}

static void begin_round(struct collect *c)
{
    struct err e;

    c->rounds++;
    c->after = 0;
    c->list = memfd_create("stays", MFD_CLOEXEC);
    if (c->list < 0) {
        err_sys(&e, "memfd");
        collect_end(c, &e);
        return;
    }
    ask(c->node, "live_states", 0, PAGE_ROWS, on_live, c);
}

void garbage_collect(struct node *n, bool dry, on_collected *cb, void *arg)
{
    struct err e;

    if (n->collecting) {
        err_set(&e, ERR_BUSY, "garbage is being removed already");
        cb(arg, NULL, &e);
        return;
    }
    struct collect *c = calloc(1, sizeof *c);
    if (!c)
        abort();
    *c = (struct collect){ .node = n, .dry = dry, .list = -1, .cb = cb, .arg = arg };
    n->collecting = true;
    begin_round(c);
}

/* --- roots that came too late: one after the other --- */

struct late {
    struct node *node;
    struct state state;
    int64_t after;
    struct arena arena;
};

static void next_late(struct late *l);

static void on_hashed(void *arg, const struct seat_reply *r, const int *take_gauges)
{
    struct late *l = arg;

    (void)take_gauges;
    if (r->result == 0 && r->root[0])
        state_set_root(l->node, &l->state, r->root);
    else
        log_warn("root not computed", "state=%s error='%s'", l->state.id, r->err.msg);
    next_late(l);
}

static void on_pending(void *arg, const struct answer *a)
{
    struct late *l = arg;
    struct err e = { 0 };

    arena_reset(&l->arena);
    const struct json *rows = rows_of(a, &l->arena, &l->after, &e);
    if (!rows || !rows->first) {
        l->node->hashing_late = false;
        if (!rows)
            log_warn("states without a root not found", "error='%s'", e.msg);
        arena_done(&l->arena);
        free(l);
        return;
    }
    state_read(rows->first, &l->arena, &l->state);
    struct box_spec spec = l->node->opts.spec;
    state_apply(&l->state, &spec);
    if (state_is_hashed_now(l->state.id))
        next_late(l);
    else
        seats_ask(l->node->seats, SEAT_HASH, NULL, &spec, on_hashed, l);
}

static void next_late(struct late *l)
{
    ask(l->node, "pending_states", l->after, 1, on_pending, l);
}

void garbage_sweep(struct node *n)
{
    if (n->roots_missing && !n->hashing_late && n->ready) {
        struct late *l = calloc(1, sizeof *l);
        if (!l)
            abort();
        l->node = n;
        n->hashing_late = true;
        n->roots_missing = false;
        next_late(l);
    }
    if (!n->collected_ms)
        n->collected_ms = now_ms();
    if (n->ready && n->opts.gc_interval_ms && !n->collecting && now_ms() - n->collected_ms >= n->opts.gc_interval_ms)
        garbage_collect(n, false, NULL, NULL);
}

/* States of boxes: the box stands still while a worker copies what changed into a layer, and goes on as soon as that is
 * sealed. The state's root follows when nobody is waiting for anything: the states of one box are hashed in their order,
 * because each root is worked out from the one before. A worker has the box's writable layer by descriptor and never
 * follows a path that the box could have made. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/log.h"
#include "base/loop.h"
#include "daemon/chain.h"
#include "daemon/image_proof.h"
#include "daemon/open_files.h"
#include "image/tree.h"
#include "isolate/idmap.h"
#include "isolate/spec.h"

enum {
    FREEZE_WAIT_MS = 2000,
    FREEZE_LOOK_US = 300, /* at first without a sleep: most stand still within this */
    FREEZE_POLL_MS = 1,
    MERGE_COUNT = 8,    /* so many layers of one size class become one of the next: each is copied log times */
    FLATTEN_BELOW = 24, /* a box that was forked from so many layers gets one in their place */
    HASH_NICE = 10,
    HASH_AFTER_MS = 3, /* who was answered may fork the box, or take the next step, and wants the processors */
    HASH_LATEST_MS = 100,
    HASHES_MAX = 8,
};

enum work { WORK_SEAL, WORK_VERIFY, WORK_HASH, WORK_MERGE, WORK_FLATTEN };

struct report { /* what the worker says, once */
    int32_t result;
    struct err err;
    bool changed, full;
    uint64_t entries, bytes;
    char root[STATE_ROOT_MAX];
};

struct snapshot {
    struct snapshot *next; /* of the same box: waits for its turn; or in seats.unhashed */
    struct seats *all;
    enum work work;
    struct seat_waiter waiter;
    char id[BOX_ID_MAX], layer[LAYER_ID_MAX];
    bool holds, sealed; /* holds: the box stands still for it */
    int64_t began_us, give_up_ms;
    struct loop_timer *poll; /* until it stands still */
    struct watched changes;
    uint8_t class;        /* of what is made */
    uint32_t from, count; /* MERGE: which of the sealed ones */
    char first[LAYER_ID_MAX];
    struct image_try image; /* VERIFY */
    struct whole {          /* VERIFY, HASH: a state, all of it, for its box may be gone */
        struct box_spec spec;
        char root[STATE_ROOT_MAX];   /* of the state before; "": all is read */
        char outdated[LAYER_ID_MAX]; /* a layer whose index is of no more use; or "" */
        bool full;                   /* the state before is that which its box began with */
        int64_t since_ms;
    } * state;
    struct clerk *worker;
    struct loop_fd *watch;
};

struct order { /* shared with the worker, who reads it */
    struct seat seat;
    struct snapshot job;
    struct whole state;
    uint64_t inodes[WATCH_INODES_MAX];
};

static void new_id(char out[LAYER_ID_MAX])
{
    static const char digits[] = "abcdefghijklmnopqrstuvwxyz234567";
    unsigned char raw[20];

    if (getrandom(raw, sizeof raw, 0) != sizeof raw)
        abort();
    snprintf(out, LAYER_ID_MAX, "l-");
    for (size_t i = 0; i < sizeof raw; i++)
        out[2 + i] = digits[raw[i] & 31];
    out[2 + sizeof raw] = 0;
}

/* --- the worker --- */

static void say(int sock, const struct report *r)
{
    (void)send(sock, r, sizeof *r, MSG_NOSIGNAL);
}

/* The layers of the whole state, oldest first: what the box began with, then what was sealed since. */
static uint32_t state_layers(const struct seat *x, char out[][LAYER_ID_MAX])
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < x->spec.layer_count && !x->sealed_is_all; i++)
        memcpy(out[n++], x->spec.layers[i], LAYER_ID_MAX);
    for (uint32_t i = 0; i < x->sealed_count && n < LIMIT_LAYERS; i++)
        memcpy(out[n++], x->sealed[i], LAYER_ID_MAX);
    return n;
}

static bool is_bare(const struct seat *x)
{
    return x->spec.layer_count == 0 && x->sealed_count == 0;
}

/* Then /tmp was mounted as an overlay (isolate/root.c). */
static bool has_tmp(const struct seat *x)
{
    for (uint32_t i = 0; i < x->spec.layer_count; i++) {
        char path[HOST_PATH + LAYER_ID_MAX + 8];
        snprintf(path, sizeof path, "%s/%s/tmp", x->all->layers, x->spec.layers[i]);
        if (access(path, F_OK) == 0)
            return true;
    }
    return false;
}

static int seal(const struct seat *x, const struct snapshot *p, uint32_t n, struct layer_sealed *ret, struct err *e)
{
    static struct chain below;
    const char *sealed[LIMIT_LAYERS];
    struct open_files open;
    const struct seats *s = x->all;

    for (uint32_t i = 0; i < n; i++)
        sealed[i] = x->sealed[n - 1 - i];
    int r = chain_open(s, &x->spec, x->spec.layer_count, (char(*)[LAYER_ID_MAX])x->spec.layers, &below, e);
    if (r < 0) {
        chain_close(&below);
        return r;
    }
    open_files_find(&s->groups, x->id, &open);
    bool all = open.all || p->changes.lost;
    const struct layer_opts o = { .below = &below.c,
                                  .id = p->layer,
                                  .sealed = sealed,
                                  .sealed_n = n,
                                  .scratch = x->proc.scratch,
                                  .base = idmap_base(x->slot),
                                  .tmp_is_overlay = has_tmp(x),
                                  .suspects = open.paths,
                                  .suspects_n = open.n,
                                  .changed = p->changes.inodes,
                                  .changed_n = p->changes.n,
                                  .known = !all,
                                  .suspect_all = all };
    r = layer_seal(&o, ret, e);
    open_files_done(&open);
    chain_close(&below);
    return r;
}

static void seal_all(const struct seat *x, const struct snapshot *p, int sock)
{
    static char layers[LIMIT_LAYERS + 1][LAYER_ID_MAX];
    struct report r = { 0 };
    struct layer_sealed done = { 0 };
    uint32_t n = state_layers(x, layers) + 1 >= LIMIT_LAYERS ? 0 : x->sealed_count;

    r.result = seal(x, p, n, &done, &r.err);
    r.changed = done.changed;
    r.full = done.full;
    r.entries = done.entries;
    r.bytes = done.bytes;
    say(sock, &r);
}

/* Layers of this box that lie side by side become one, which says the same. */
static void merge(const struct seat *x, const struct snapshot *p, int sock)
{
    struct report r = { 0 };
    struct layer_sealed done;
    const char *ids[LIMIT_LAYERS];

    for (uint32_t i = 0; i < p->count; i++)
        ids[i] = x->sealed[p->from + p->count - 1 - i];
    r.result = layer_merge(x->all->opts->home, ids, p->count, p->layer, &done, &r.err);
    say(sock, &r);
}

/* All layers of its state, with those that it was made of, become one. */
static void flatten(const struct seat *x, const struct snapshot *p, int sock)
{
    static struct chain c;
    static char layers[LIMIT_LAYERS + 1][LAYER_ID_MAX];
    struct report r = { 0 };
    struct layer_sealed done;

    r.result = chain_open(x->all, &x->spec, state_layers(x, layers), layers, &c, &r.err);
    if (r.result >= 0)
        r.result = layer_flatten(&c.c, p->layer, false, &done, &r.err);
    chain_close(&c);
    say(sock, &r);
}

static void verify(const struct seats *s, const struct box_spec *spec, bool image, int sock)
{
    static struct chain c;
    struct report r = { 0 };
    struct state_root expected = { 0 }, found = { 0 };

    r.result = chain_open(s, spec, spec->layer_count, (char(*)[LAYER_ID_MAX])spec->layers, &c, &r.err);
    if (r.result >= 0 && image)
        r.result = host_image_prove(&s->host, spec->sudo, &r.err); /* what the layers lie on */
    if (r.result >= 0)
        (void)chain_root(spec->parent_root, &expected);
    if (r.result >= 0)
        r.result = layer_verify(&c.c, &expected, &found, &r.err);
    if (r.result >= 0) {
        r.result = 0;
        snprintf(r.root, sizeof r.root, "sha256:%s", found.hex);
    }
    chain_close(&c);
    say(sock, &r);
}

static void hash(const struct seats *s, const struct whole *h, int sock)
{
    static struct chain c;
    struct report r = { 0 };
    struct state_root room, root;

    if (h->outdated[0]) /* it has a newer */
        layer_drop_index(s->opts->home, h->outdated);
    r.result = chain_open(s, &h->spec, h->spec.layer_count, (char(*)[LAYER_ID_MAX])h->spec.layers, &c, &r.err);
    if (r.result >= 0)
        r.result = layer_hash(&c.c, chain_root(h->root, &room), false, &root, NULL, &r.err);
    if (r.result >= 0) {
        r.result = 0;
        snprintf(r.root, sizeof r.root, "sha256:%s", root.hex);
    }
    chain_close(&c);
    say(sock, &r);
}

static void work(void *seats, void *shared, int fd, int sock)
{
    struct order *o = shared;

    o->seat.proc.scratch = fd;
    o->job.changes.inodes = o->inodes;
    switch (o->job.work) {
    case WORK_SEAL: seal_all(&o->seat, &o->job, sock); break;
    case WORK_VERIFY: verify(seats, &o->state.spec, o->job.image.wanted, sock); break;
    case WORK_HASH: hash(seats, &o->state, sock); break;
    case WORK_MERGE: merge(&o->seat, &o->job, sock); break;
    case WORK_FLATTEN: flatten(&o->seat, &o->job, sock); break;
    }
}

/* --- supervise's side --- */

/* So that a large layer is not copied with each handful of small ones. */
static uint8_t size_class(const struct report *r)
{
    uint8_t class = 0;

    for (uint64_t left = (r->bytes + r->entries * 4096) >> 20; left > 0; left /= MERGE_COUNT)
        class ++;
    return class;
}

static struct whole *whole_new(const struct box_spec *spec)
{
    struct whole *h = calloc(1, sizeof *h);

    if (!h)
        abort();
    h->spec = *spec;
    return h;
}

static void take_sealed(struct snapshot *p, struct seat *x, const struct report *r)
{
    struct seat_reply out = { .result = r->result, .err = r->err, .changed = r->changed };
    struct whole *h = p->state = whole_new(&x->spec);

    p->sealed = true;
    out.frozen_us = now_us() - p->began_us;
    out.layer_entries = r->entries;
    out.layer_bytes = r->bytes;
    snprintf(out.id, sizeof out.id, "%s", p->id);
    h->full = r->full || !r->changed;
    memcpy(h->root, h->full ? x->spec.parent_root : x->root, sizeof h->root);
    if (r->result >= 0 && r->changed) {
        if (x->sealed_count)
            memcpy(h->outdated, x->sealed[x->sealed_count - 1], LAYER_ID_MAX);
        if (r->full) {
            x->sealed_count = 0;
            x->sealed_is_all = false;
        }
        x->sizes[x->sealed_count] = size_class(r);
        memcpy(x->sealed[x->sealed_count++], p->layer, LAYER_ID_MAX);
        x->root[0] = 0; /* until it is hashed */
        seat_resave(x);
    }
    out.more = r->result >= 0 && (r->changed || is_bare(x));
    if (r->result >= 0 && !r->changed)
        memcpy(out.root, x->root, sizeof out.root);
    out.layer_count = h->spec.layer_count = state_layers(x, out.layers);
    memcpy(h->spec.layers, out.layers, sizeof h->spec.layers);
    seat_answer(p->all, &p->waiter, &out);
}

static void take_root(struct snapshot *p, struct seat *x, const struct report *r)
{
    struct seat_reply out = { .result = 0, .changed = true };
    bool of_bare = x && is_bare(x);

    snprintf(out.id, sizeof out.id, "%s", p->id);
    if (r->result < 0) /* the layer is good all the same */
        log_warn("state not hashed", "box=%s layer=%s error='%s', it can be computed later", p->id, p->layer,
                 r->err.msg);
    else
        memcpy(out.root, r->root, sizeof out.root);
    if (of_bare || (x && x->sealed_count && strcmp(x->sealed[x->sealed_count - 1], p->layer) == 0)) {
        memcpy(x->root, out.root, sizeof x->root);
        seat_resave(x);
    }
    seat_answer(p->all, &p->waiter, &out);
    for (struct snapshot *q = p->next; q; q = q->next)
        if (strcmp(q->id, p->id) == 0) { /* the state after this one */
            if (!q->state->full)
                memcpy(q->state->root, out.root, sizeof q->state->root);
            break;
        }
}

static void begin(struct snapshot *p);

/* The box may run again, or the next one's turn has come. */
static void go_on(struct snapshot *p)
{
    struct err e;
    struct seat *x = p->holds ? seats_find(p->all, p->id) : NULL;

    p->holds = false;
    if (!x || x->state != SEAT_OUT)
        return;
    x->sealing = 0;
    struct snapshot *next = x->snapshots;
    if (next) {
        x->snapshots = next->next;
        next->next = NULL;
        begin(next);
        return;
    }
    if (!x->paused && cgroup_freeze(&p->all->groups, p->id, false, &e) < 0)
        log_warn("box stays frozen", "id=%s error='%s'", p->id, e.msg);
}

static void release(struct snapshot *p)
{
    struct snapshot **at = &p->all->unhashed;

    while (*at && *at != p)
        at = &(*at)->next;
    if (*at)
        *at = p->next;
    loop_unwatch(p->watch);
    loop_timer_free(p->poll);
    image_tried(p->all, &p->image, false, "");
    free(p->changes.inodes);
    free(p->state);
    free(p);
}

/* It has said what it had to say, or has ended. */
static void let_worker(struct snapshot *p, bool alive)
{
    if (!p->worker)
        return;
    loop_unwatch(TAKE_PTR(p->watch));
    p->all->hashing -= p->work == WORK_HASH;
    if (alive)
        clerk_put(TAKE_PTR(p->worker));
    else
        clerk_end(TAKE_PTR(p->worker));
}

static void end(struct snapshot *p)
{
    go_on(p);
    let_worker(p, false);
    release(p);
}

static void answer_failed(struct snapshot *p, const char *why)
{
    struct seat_reply out = { 0 };

    if (p->work == WORK_MERGE || p->work == WORK_FLATTEN)
        return; /* nobody asked */
    snprintf(out.id, sizeof out.id, "%s", p->id);
    if (!p->sealed)
        out.result = err_set(&out.err, ERR_SYSTEM, "snapshot of box %s: %s", p->id, why);
    seat_answer(p->all, &p->waiter, &out);
}

static void tidy(struct seats *s, struct seat *x);

/* The layers may be others by now: a full one came, or the box ended. */
static void take_merged(struct snapshot *p, struct seat *x, const struct report *r)
{
    uint32_t at = 0;

    if (x)
        x->merging = false;
    if (r->result < 0) {
        log_warn("layers not merged", "box=%s error='%s'", p->id, r->err.msg);
        return;
    }
    while (x && at < x->sealed_count && strcmp(x->sealed[at], p->first) != 0)
        at++;
    if (!x || at + p->count > x->sealed_count)
        return; /* nobody names the new one: it goes with the garbage */
    memcpy(x->sealed[at], p->layer, LAYER_ID_MAX);
    x->sizes[at] = p->class;
    uint32_t rest = x->sealed_count - at - p->count;
    memmove(x->sealed[at + 1], x->sealed[at + p->count], rest * LAYER_ID_MAX);
    memmove(&x->sizes[at + 1], &x->sizes[at + p->count], rest);
    x->sealed_count = at + 1 + rest;
    if (p->work == WORK_FLATTEN)
        x->sealed_is_all = true;
    seat_resave(x);
    log_debug("layers merged", "box=%s count=%u left=%u", x->id, p->count, x->sealed_count);
    tidy(p->all, x);
}

static void answer_proof(struct snapshot *p, const struct report *r)
{
    struct seat_reply out = { .result = r->result, .err = r->err };

    memcpy(out.root, r->root, sizeof out.root);
    image_tried(p->all, &p->image, r->result >= 0, r->root);
    seat_answer(p->all, &p->waiter, &out);
}

/* True: the root is to follow. */
static bool take_seal(struct snapshot *p, struct seat *x, const struct report *r)
{
    if (!x) {
        answer_failed(p, "it ended meanwhile");
        return false;
    }
    if (r->result < 0)
        watch_lose(&x->watched);
    bool more = r->result >= 0 && (r->changed || is_bare(x));
    take_sealed(p, x, r);
    return more;
}

static void fail(struct snapshot *p, struct seat *x, const char *why)
{
    if (x && p->work == WORK_SEAL)
        watch_lose(&x->watched);
    if (x && (p->work == WORK_MERGE || p->work == WORK_FLATTEN))
        x->merging = false;
    answer_failed(p, why);
    end(p);
}

static void hash_later(struct snapshot *p);

static void on_report(void *arg, uint32_t events)
{
    struct snapshot *p = arg;
    struct seats *s = p->all;
    struct report r;
    struct seat *x = seats_find(s, p->id);

    (void)events;
    if (x && x->state != SEAT_OUT)
        x = NULL;
    bool said = recv(p->worker->sock, &r, sizeof r, MSG_DONTWAIT) == (ssize_t)sizeof r;
    let_worker(p, said);
    if (!said) {
        fail(p, x, "its worker ended");
        return;
    }
    r.err.msg[sizeof r.err.msg - 1] = 0;
    switch (p->work) {
    case WORK_SEAL:
        if (take_seal(p, x, &r)) {
            go_on(p);
            hash_later(p);
            return;
        }
        break;
    case WORK_HASH:
        if (p->sealed)
            take_root(p, x, &r);
        else
            answer_proof(p, &r);
        if (x)
            tidy(s, x);
        break;
    case WORK_VERIFY: answer_proof(p, &r); break;
    case WORK_MERGE:
    case WORK_FLATTEN: take_merged(p, x, &r); break;
    }
    end(p);
    snapshots_pump(s);
}

static struct snapshot *work_new(struct seats *s, enum work work, const struct seat_waiter *w, const char *id)
{
    struct snapshot *p = calloc(1, sizeof *p);

    if (!p)
        abort();
    *p = (struct snapshot){ .all = s, .work = work, .began_us = now_us() };
    if (w)
        p->waiter = *w;
    snprintf(p->id, sizeof p->id, "%s", id);
    new_id(p->layer);
    return p;
}

/* x may be NULL: p->state says it all. */
static void start(struct snapshot *p, struct seat *x)
{
    bool waited = p->work == WORK_SEAL || p->work == WORK_VERIFY;
    struct err e;

    for (int tries = 0; tries < 2; tries++) { /* one that has ended is noticed only now */
        p->worker = clerk_get(waited ? &p->all->clerks : &p->all->behind, &e);
        if (!p->worker)
            break;
        struct order *o = p->worker->order;
        if (x)
            o->seat = *x;
        if (p->state)
            o->state = *p->state;
        o->job = *p;
        if (p->changes.n)
            memcpy(o->inodes, p->changes.inodes, p->changes.n * sizeof *o->inodes);
        p->all->hashing += p->work == WORK_HASH;
        if (clerk_go(p->worker, x ? x->proc.scratch : -1, &e) == 0) {
            p->watch = loop_watch(p->all->loop, p->worker->sock, EPOLLIN, on_report, p);
            return;
        }
        let_worker(p, false);
    }
    fail(p, x, e.msg);
}

/* --- roots --- */

/* Those of one box in their order: each needs the one before. */
static bool has_turn(const struct snapshot *p)
{
    const struct snapshot *q = p->all->unhashed;

    while (q != p && strcmp(q->id, p->id) != 0)
        q = q->next;
    return q == p;
}

void snapshots_pump(void *seats)
{
    struct seats *s = seats;
    int64_t now = now_ms();

    for (struct snapshot *p = s->unhashed, *next; p && s->hashing < HASHES_MAX; p = next) {
        next = p->next;
        if (p->worker || !has_turn(p))
            continue;
        if (now - p->state->since_ms < (s->making_asked ? HASH_LATEST_MS : HASH_AFTER_MS)) {
            loop_timer_set(s->hash_timer, HASH_AFTER_MS);
            break;
        }
        start(p, NULL);
    }
}

static void hash_later(struct snapshot *p)
{
    struct snapshot **at = &p->all->unhashed;

    while (*at)
        at = &(*at)->next;
    *at = p;
    p->next = NULL;
    p->work = WORK_HASH;
    p->state->since_ms = now_ms();
    snapshots_pump(p->all);
}

void snapshots_open(struct seats *s)
{
    struct clerks w = { .work = work, .arg = s, .order_size = sizeof(struct order) };
    char objects[HOST_PATH];

    tree_spread(s->layers);
    if ((size_t)snprintf(objects, sizeof objects, "%s/objects", s->opts->home) < sizeof objects)
        tree_spread(objects);

    for (int i = 0; i < s->groups.count; i++)
        w.keep[w.keep_n++] = s->groups.trees[i].dir;
    for (int i = 0; i < HOST_DIRS; i++)
        w.keep[w.keep_n++] = s->host_dirs[i];
    s->clerks = s->behind = w;
    s->behind.nice = HASH_NICE;
    s->hash_timer = loop_timer_new(s->loop, snapshots_pump, s);
}

void snapshots_close(struct seats *s)
{
    clerks_close(&s->clerks);
    clerks_close(&s->behind);
    loop_timer_free(s->hash_timer);
}

/* --- sealing --- */

static void refuse(struct seats *s, const struct seat_waiter *w, const char *id, const struct err *e)
{
    struct seat_reply r = { .result = -EIO, .err = *e };

    snprintf(r.id, sizeof r.id, "%s", id);
    seat_answer(s, w, &r);
}

static bool stands_still(const struct snapshot *p)
{
    int64_t until = p->began_us + FREEZE_LOOK_US;
    bool frozen;

    while (!(frozen = cgroup_frozen(&p->all->groups, p->id)) && now_us() < until)
        (void)sched_yield(); /* its processes need a processor to stop on */
    return frozen;
}

/* When it stands still, whatever was done to its files is in the queue of events. */
static void look(void *arg)
{
    struct snapshot *p = arg;
    struct seat *x = seats_find(p->all, p->id);
    struct err e;

    if (!x || x->state != SEAT_OUT) {
        answer_failed(p, "it ended meanwhile");
        end(p);
    } else if (stands_still(p)) {
        watch_begin(&p->all->watch, &x->watched, x->proc.scratch);
        watch_take(&p->all->watch, &x->watched, &p->changes);
        start(p, x);
    } else if (now_ms() < p->give_up_ms) {
        if (!p->poll)
            p->poll = loop_timer_new(p->all->loop, look, p);
        loop_timer_set(p->poll, FREEZE_POLL_MS);
    } else {
        err_set(&e, ERR_BUSY, "box %s does not stand still: a process is stuck in the kernel", p->id);
        refuse(p->all, &p->waiter, p->id, &e);
        end(p);
    }
}

static void begin(struct snapshot *p)
{
    struct seat *x = seats_find(p->all, p->id);
    struct err e;

    p->holds = true;
    x->sealing = 1;
    p->began_us = now_us();
    p->give_up_ms = now_ms() + FREEZE_WAIT_MS;
    if (cgroup_freeze(&p->all->groups, p->id, true, &e) < 0) {
        refuse(p->all, &p->waiter, p->id, &e);
        end(p);
        return;
    }
    look(p);
}

/* How many of the newest layers are of this size class or smaller, if at least half of them are of it. */
static uint32_t mergeable(const struct seat *x, unsigned class)
{
    uint32_t run = 0, equal = 0, n = x->sealed_count;

    for (; run < n && x->sizes[n - 1 - run] <= class; run++)
        equal += x->sizes[n - 1 - run] == class;
    return equal * 2 >= run ? run : 0;
}

/* Long chains cost a mount of each layer, and their number is limited. */
static void tidy(struct seats *s, struct seat *x)
{
    uint32_t n = x->sealed_count, run = 0;
    unsigned class = 0;

    if (x->merging)
        return;
    for (; class < 16 && run < MERGE_COUNT; class ++)
        run = mergeable(x, class);
    bool deep = x->spec.layer_count >= FLATTEN_BELOW && !x->sealed_is_all && n > 0;
    if (!deep && run < MERGE_COUNT)
        return;
    struct snapshot *p = work_new(s, deep ? WORK_FLATTEN : WORK_MERGE, NULL, x->id);
    p->count = deep ? n : run;
    p->class = (uint8_t) class; /* the next one, after the loop */
    p->from = n - p->count;
    memcpy(p->first, x->sealed[p->from], LAYER_ID_MAX);
    x->merging = true;
    start(p, x);
}

void seats_snapshot(struct seats *s, const struct seat_waiter *w, const char *id)
{
    struct seat *x = seats_find(s, id);
    struct err e;

    if (!x || x->state != SEAT_OUT) {
        err_set(&e, ERR_NOT_FOUND, "no box %s", id);
        refuse(s, w, id, &e);
        return;
    }
    if (x->proc.scratch < 0) {
        err_set(&e, ERR_DENIED, "the files of box %s cannot be reached: it was made before the server was restarted",
                id);
        refuse(s, w, id, &e);
        return;
    }
    struct snapshot *p = work_new(s, WORK_SEAL, w, id);
    if (!x->sealing) {
        begin(p);
        return;
    }
    struct snapshot **last = &x->snapshots;
    while (*last)
        last = &(*last)->next;
    *last = p;
}

void seat_drop_snapshots(struct seat *x)
{
    for (struct snapshot *p = x->snapshots, *next; p; p = next) {
        next = p->next;
        answer_failed(p, "it ended meanwhile");
        release(p);
    }
    x->snapshots = NULL;
}

void seats_verify(struct seats *s, const struct seat_waiter *w, const struct box_spec *spec, bool compute_)
{
    struct seat_reply known = { 0 };
    struct err e;

    if (spec_check(spec, &e) < 0) {
        refuse(s, w, "", &e);
        return;
    }
    bool proved = compute_ || image_proved(s, spec);
    if (proved && !compute_ && spec->layer_count == 0 && image_root(s, spec)[0]) {
        snprintf(known.root, sizeof known.root, "%s", image_root(s, spec));
        seat_answer(s, w, &known);
        return;
    }
    struct snapshot *p = work_new(s, compute_ ? WORK_HASH : WORK_VERIFY, w, "");
    p->state = whole_new(spec);
    if (!proved)
        image_try(s, spec, &p->image);
    if (compute_)
        hash_later(p);
    else
        start(p, NULL);
}

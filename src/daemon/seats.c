#include "daemon/seats.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/auto.h"
#include "base/log.h"
#include "base/loop.h"
#include "daemon/box_dir.h"
#include "daemon/chain.h"
#include "daemon/fdstore.h"
#include "daemon/image_proof.h"
#include "image/sha.h"
#include "isolate/child.h"
#include "isolate/spec.h"
#include "isolate/step.h"

enum {
    READY_MS = 60000, /* a machine with far more to do than it can takes long for everything; what hangs is rare */
    READY_US = 400,   /* from half built, on a machine that has nothing else to do */
    KEEP_MS = 5,      /* a box that is gone by then was never guard's business */
    RETRY_FAST = 50,
    RETRY_FAST_MS = 2,
    RETRY_SLOW_MS = 500,
    FREEZE_POLL_MS = 1,
    FREEZE_TRIES = 2000
};

/* --- the table --- */

static unsigned bucket(const char *id)
{
    unsigned h = 2166136261u;
    for (; *id; id++)
        h = (h ^ (unsigned char)*id) * 16777619u;
    return h % SEAT_BUCKETS;
}

struct seat *seats_find(struct seats *s, const char *id)
{
    for (struct seat *x = s->buckets[bucket(id)]; x; x = x->next)
        if (strcmp(x->id, id) == 0)
            return x;
    return NULL;
}

static void on_timer(void *arg);

struct seat *seats_add(struct seats *s, const char *id)
{
    struct seat *x = calloc(1, sizeof *x);
    if (!x)
        abort();
    x->all = s;
    snprintf(x->id, sizeof x->id, "%s", id);
    x->state = SEAT_ENDING; /* counted nowhere; the caller says what it is */
    x->slot = -1;
    x->proc = (struct spawned){ .pidfd = -1, .channel = -1, .ready = -1, .scratch = -1 };
    x->hold = x->mounts = x->lost_scratch = -1;
    memset(x->gauges, -1, sizeof x->gauges);
    x->timer = loop_timer_new(s->loop, on_timer, x);
    x->next = s->buckets[bucket(id)];
    s->buckets[bucket(id)] = x;
    s->count++;
    return x;
}

void seat_set_state(struct seat *x, enum seat_state to)
{
    struct seats *s = x->all;
    unsigned *making = x->for_pool ? &s->making_pool : &s->making_asked;

    s->blanks += (to == SEAT_BLANK) - (x->state == SEAT_BLANK);
    s->parked += (to == SEAT_PARKED) - (x->state == SEAT_PARKED);
    *making += (to == SEAT_MAKING) - (x->state == SEAT_MAKING);
    log_debug("seat", "id=%s state=%d->%d", x->id, (int)x->state, (int)to);
    x->state = to;
}

static void drop(struct seat *x)
{
    struct seat **p = &x->all->buckets[bucket(x->id)];

    while (*p != x)
        p = &(*p)->next;
    *p = x->next;
    x->all->count--;
    loop_unwatch(x->on_exit);
    loop_unwatch(x->on_ready);
    loop_unwatch(x->on_half_built);
    loop_timer_free(x->timer);
    if (x->hold >= 0)
        close(x->hold);
    if (x->mounts >= 0)
        close(x->mounts);
    for (int i = 0; i < SEAT_GAUGES; i++)
        if (x->gauges[i] >= 0)
            close(x->gauges[i]);
    seat_drop_snapshots(x);
    watch_end(&x->all->watch, &x->watched);
    spawn_close(&x->proc);
    free(x);
}

/* --- replies --- */

void seat_answer(struct seats *s, const struct seat_waiter *w, const struct seat_reply *r)
{
    struct seat_reply out = *r;

    out.version = SEAT_VERSION;
    out.verb = w->verb;
    out.seq = w->seq;
    s->reply(s->reply_arg, w->conn, &out);
}

static void refuse(struct seats *s, const struct seat_waiter *w, const char *id, int result, const struct err *e)
{
    struct seat_reply r = { .result = result < 0 ? result : -EIO, .err = *e };

    snprintf(r.id, sizeof r.id, "%s", id);
    seat_answer(s, w, &r);
}

static bool wait_for(struct seat *x, const struct seat_waiter *w)
{
    for (int i = 0; i < SEAT_WAITERS; i++)
        if (x->waiters[i].verb == 0) {
            x->waiters[i] = *w;
            return true;
        }
    return false;
}

static void answer_made(struct seat *x, bool warm)
{
    struct seat_reply r = { .warm = warm,
                            .unenforced = cgroups_unenforced(&x->all->groups),
                            .setup_us = now_us() - x->asked_us };

    snprintf(r.id, sizeof r.id, "%s", x->id);
    for (int i = 0; i < SEAT_WAITERS; i++)
        if (x->waiters[i].verb == SEAT_CREATE) {
            seat_answer(x->all, &x->waiters[i], &r);
            x->waiters[i].verb = 0;
        }
}

/* Each once: its cgroups may stay busy for a while, and who asks meanwhile is answered at the next try. */
static void answer_gone(struct seat *x)
{
    struct seat_reply r = { .status = x->status, .oom = x->oom };

    snprintf(r.id, sizeof r.id, "%s", x->id);
    for (int i = 0; i < SEAT_WAITERS; i++) {
        struct seat_waiter w = x->waiters[i];
        x->waiters[i].verb = 0;
        if (w.verb == SEAT_DESTROY) {
            seat_answer(x->all, &w, &r);
        } else if (w.verb != 0) {
            struct err e = x->failure;
            if (e.code == ERR_NONE)
                err_set(&e, ERR_NOT_FOUND, "box %s ended", x->id);
            refuse(x->all, &w, x->id, e.sys ? -e.sys : -EIO, &e);
        }
    }
}

/* --- ending --- */

static void wipe(struct seat *x)
{
    struct seats *s = x->all;

    answer_gone(x);      /* its processes are; what has a name of it yet nobody asks for any more */
    (void)sched_yield(); /* who waits for the answer was woken on our processor */
    if (cgroup_remove(&s->groups, x->id) < 0) {
        cgroup_kill(&s->groups, x->id); /* only after a crash: a pid namespace without its init is empty */
        if (++x->tries == RETRY_FAST)
            log_warn("cgroup stays busy", "id=%s, trying on every %d ms", x->id, (int)RETRY_SLOW_MS);
        loop_timer_set(x->timer, x->tries < RETRY_FAST ? RETRY_FAST_MS : RETRY_SLOW_MS);
        return;
    }
    idmap_release(&s->ids, x->slot);
    if (x->kept)
        fdstore_drop(s->opts->store, x->id);
    state_remove(s, x->id);
    sweeper_take(&s->sweeper, TAKE_FD(x->mounts));
    sweeper_take(&s->sweeper, TAKE_FD(x->proc.scratch)); /* keeps its file system */
    drop(x);
    pool_pump(s);
}

void seat_end(struct seat *x, const struct err *why)
{
    if (x->state == SEAT_ENDING)
        return;
    if (why)
        x->failure = *why;
    if (x->state == SEAT_MAKING && x->for_pool && x->failure.code != ERR_NONE)
        pool_failed(x->all, &x->failure);
    seat_set_state(x, SEAT_ENDING);
    loop_unwatch(x->on_ready);
    loop_unwatch(x->on_half_built);
    x->on_ready = x->on_half_built = NULL;
    loop_timer_set(x->timer, -1);
    if (x->proc.pidfd < 0) {
        wipe(x);
        return;
    }
    x->mounts = spawn_mounts(&x->proc);
    cgroup_kill(&x->all->groups, x->id); /* all at once; with init alone the others would die one after the other */
    (void)syscall(SYS_pidfd_send_signal, x->proc.pidfd, SIGKILL, NULL, 0);
    if (!x->on_exit)
        seat_watch(x);
}

static void tell_dead(struct seat *x)
{
    struct seat_reply r = { .version = SEAT_VERSION, .verb = SEAT_DEAD, .status = x->status, .oom = x->oom };

    snprintf(r.id, sizeof r.id, "%s", x->id);
    x->all->reply(x->all->reply_arg, 0, &r);
}

static void explain_early_end(struct seat *x)
{
    if (x->failure.code != ERR_NONE)
        return;
    if (spawn_story(&x->proc, &x->failure)) {
        err_wrap(&x->failure, 0, "create box");
        return;
    }
    err_set(&x->failure, ERR_SYSTEM, "create box: init ended before it was ready (%s %d%s)",
            WIFSIGNALED(x->status) ? "signal" : "status",
            WIFSIGNALED(x->status) ? WTERMSIG(x->status) : WEXITSTATUS(x->status), x->oom ? ", out of memory" : "");
}

static void on_exit_ready(void *arg, uint32_t events)
{
    struct seat *x = arg;
    siginfo_t info = { 0 };

    (void)events;
    if (waitid(P_PIDFD, (id_t)x->proc.pidfd, &info, WEXITED | WNOHANG) == 0 && info.si_pid != 0)
        x->status = info.si_code == CLD_EXITED ? (info.si_status & 0xff) << 8 : info.si_status & 0x7f;
    x->oom = cgroup_oom_kills(&x->all->groups, x->id) > 0;
    loop_unwatch(x->on_exit);
    x->on_exit = NULL;
    close(TAKE_FD(x->proc.pidfd));
    x->proc.pid = 0;

    switch (x->state) {
    case SEAT_BLANK:
        explain_early_end(x);
        blank_failed(x->all, &x->failure);
        break;
    case SEAT_MAKING: explain_early_end(x); break;
    case SEAT_PARKED: log_warn("parked box ended", "id=%s status=%d, making another", x->id, x->status); break;
    case SEAT_OUT: tell_dead(x); break;
    case SEAT_ENDING: break;
    }
    if (x->state == SEAT_ENDING)
        wipe(x);
    else
        seat_end(x, NULL);
}

void seat_watch(struct seat *x)
{
    x->on_exit = loop_watch(x->all->loop, x->proc.pidfd, EPOLLIN, on_exit_ready, x);
}

/* --- making --- */

/* What a box writes lies in a tmpfs, whose pages count as its memory: without the second term a full disk would be an
 * out-of-memory kill instead of ENOSPC. */
int seat_limit(const struct seat *x, const struct box_spec *spec, struct err *e)
{
    const struct cgroup_limits limits = { .memory_bytes = spec->memory_bytes + spec->disk_bytes,
                                          .pids = spec->pids,
                                          .cpu_milli = spec->cpu_milli };
    return cgroup_limit(&x->all->groups, x->id, &limits, e);
}

void seat_keep(struct seat *x)
{
    struct err e;

    x->kept = true;
    if (fdstore_keep(x->all->opts->store, x->id, x->proc.scratch, &e) < 0)
        log_warn("files of a box are not kept", "id=%s error=\"%s\", no snapshots after a restart", x->id, e.msg);
}

void seat_resave(const struct seat *x)
{
    struct err e;

    if (state_save(x, &e) < 0)
        log_warn("state of a box not saved", "id=%s error=\"%s\", a restart knows an older one", x->id, e.msg);
}

/* Until the answer nobody uses the box: what is not needed by the child is done while it builds, and not before the
 * child has got most of that done, for it may have come to our processor. */
static int settle(struct seat *x, struct err *e)
{
    int r = step_reach(STEP_LIMITS, e);
    if (r < 0)
        return r;
    r = seat_limit(x, &x->spec, e);
    if (r < 0)
        return r;
    r = step_reach(STEP_STATE, e);
    if (r < 0)
        return r;
    r = state_save(x, e);
    for (int i = 0; r >= 0 && i < SEAT_GAUGES; i++)
        x->gauges[i] = cgroup_gauge(&x->all->groups, x->id, i);
    return r;
}

static void on_half_built(void *arg, uint32_t events)
{
    struct seat *x = arg;
    struct err e = { 0 };

    (void)events; /* its end, too; what it says is read later */
    loop_unwatch(x->on_half_built);
    x->on_half_built = NULL;
    if (settle(x, &e) < 0) {
        err_wrap(&e, 0, "create box");
        seat_end(x, &e);
    } else if (!x->for_pool) {
        loop_expect(x->all->loop, READY_US); /* somebody waits for it */
    }
}

static void on_ready_byte(void *arg, uint32_t events)
{
    struct seat *x = arg;
    char byte;

    (void)events;
    if (x->on_half_built)
        on_half_built(x, 0);
    if (x->state == SEAT_ENDING)
        return;
    ssize_t n = read(x->proc.ready, &byte, 1);
    loop_unwatch(x->on_ready);
    x->on_ready = NULL;
    close(TAKE_FD(x->proc.ready));
    if (n != 1)
        return; /* it ends; its exit tells why */
    struct err e = { 0 };
    if (step_reach(STEP_READY, &e) < 0) {
        err_wrap(&e, 0, "create box");
        seat_end(x, &e);
        return;
    }
    loop_timer_set(x->timer, -1);
    (void)spawn_story(&x->proc, &e); /* takes the descriptor of its scratch */
    snprintf(x->root, sizeof x->root, "%s", x->spec.parent_root);
    if (x->for_pool) {
        x->all->pool_failures = 0;
        pool_hold(x);
        seat_set_state(x, SEAT_PARKED);
    } else {
        seat_set_state(x, SEAT_OUT);
        answer_made(x, false);
        loop_timer_set(x->timer, KEEP_MS); /* after a kill before this the files are found by their handle */
    }
    close(TAKE_FD(x->proc.channel));
    state_note_scratch(x);
    pool_pump(x->all);
}

int seats_gauge(struct seats *s, const char *id, int gauge)
{
    struct seat *x = seats_find(s, id);

    return x && x->gauges[gauge] >= 0 ? TAKE_FD(x->gauges[gauge]) : cgroup_gauge(&s->groups, id, gauge);
}

/* For a serve that is nobody to the box: what a serve with rights would see, the box's user perhaps may not. */
int seats_written(struct seats *s, const char *id)
{
    const struct seat *x = seats_find(s, id);

    if (!x || x->state != SEAT_OUT || x->proc.scratch < 0 || getuid() != 0 || s->opts->serve_uid == 0)
        return -1;
    return openat(x->proc.scratch, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
}

void seats_look(struct seats *s, const struct seat_waiter *w, const char *id)
{
    struct seat_reply r = { 0 };

    snprintf(r.id, sizeof r.id, "%s", id);
    seat_answer(s, w, &r); /* no such box: without the descriptor, which is opened when it goes */
}

static int start(struct seat *x, struct err *e)
{
    struct child_go go = { .boot = { .version = BOOT_VERSION,
                                     .sudo = x->spec.sudo,
                                     .warm_shell = x->for_pool,
                                     .warm_hand = !x->for_pool,
                                     .warm_context = x->for_pool && x->all->opts->python_warm & 1,
                                     .warm_kernel = x->for_pool && x->all->opts->python_warm & 2,
                                     .fork_python = x->all->opts->python_fork,
                                     .warm_browser = x->for_pool && x->all->opts->browser_warm,
                                     .open_files = x->spec.open_files,
                                     .memory_bytes = x->spec.memory_bytes,
                                     .orphan_ms = x->all->opts->orphan_ms,
                                     .habits = x->all->opts->habits,
                                     .fake_clock = x->spec.profile.start_us != 0,
                                     .clock_offset_us = x->spec.profile.offset_us },
                           .spec = x->spec };
    snprintf(go.boot.preload, sizeof go.boot.preload, "%s",
             x->all->opts->python_preload ? x->all->opts->python_preload : "");
    memcpy(go.boot.locale, x->spec.profile.locale, sizeof go.boot.locale);
    memcpy(go.boot.timezone, x->spec.profile.timezone, sizeof go.boot.timezone);
    memcpy(go.boot.hash_seed, x->spec.profile.hash_seed, sizeof go.boot.hash_seed);

    int r = x->spec.network == BOX_NETWORK_FULL ? uplink_take(x->all, &x->address, e) : 0;
    if (r < 0)
        return r;
    go.address = x->address;
    r = spawn_go(&x->proc, &go, e);
    if (r < 0)
        (void)spawn_story(&x->proc, e); /* it had ended before: its own reason is the better one */
    return r;
}

int seats_make(struct seats *s, const struct box_spec *spec, bool for_pool, struct seat **ret, struct err *e)
{
    int64_t asked = now_us();
    bool nests = spec->user_namespaces;
    /* cold: nothing of it may exist before */
    int begun = spec->cold ? blank_begin(s, nests, ret, e) : blank_take(s, nests, ret, e);
    struct seat *x = *ret;
    struct err late = { 0 };

    x->spec = *spec;
    x->for_pool = for_pool;
    x->asked_us = asked;
    seat_set_state(x, SEAT_MAKING);
    if (!spec->cold)
        loop_later(s->loop, blank_pump, s);
    int r = begun < 0 ? begun : start(x, e);
    int made = blank_finish(x, &late);
    if (made < 0 && begun >= 0) { /* then nobody could be told to start, either */
        r = made;
        *e = late;
    }
    if (r < 0)
        return err_wrap(e, r, "create box");
    x->on_half_built = loop_watch(s->loop, x->proc.channel, EPOLLIN, on_half_built, x);
    x->on_ready = loop_watch(s->loop, x->proc.ready, EPOLLIN, on_ready_byte, x);
    loop_timer_set(x->timer, READY_MS);
    return 0;
}

static int check_enforced(const struct seats *s, const struct box_spec *spec, struct err *e)
{
    unsigned missing = cgroups_unenforced(&s->groups);

    if (missing == 0 || spec->allow_unenforced)
        return 0;
    return err_set(e, ERR_DENIED,
                   "create box: this machine cannot enforce a limit:%s%s%s (no such cgroup controller); "
                   "allow_unenforced makes the box without",
                   missing & BOX_CAN_MEMORY ? " memory" : "", missing & BOX_CAN_CPU ? " cpu" : "",
                   missing & BOX_CAN_PIDS ? " pids" : "");
}

void seats_create(struct seats *s, const struct seat_waiter *w, const struct box_spec *spec, bool clean)
{
    struct err e = { 0 };
    struct seat *x = NULL;

    s->last_create_us = now_us();
    int r = s->closing ? err_set(&e, ERR_BUSY, "create box: supervise is stopping") : spec_check(spec, &e);
    if (r >= 0 && spec->user_namespaces && !s->opts->may_nest)
        r = err_set(&e, ERR_DENIED, "user_namespaces: the server's setting box.user_namespaces allows none");
    if (r >= 0)
        r = check_enforced(s, spec, &e);
    if (r < 0) {
        refuse(s, w, "", r, &e);
        return;
    }
    if (pool_take(s, w, spec, clean))
        return;
    r = seats_make(s, spec, false, &x, &e);
    (void)wait_for(x, w);
    if (r < 0)
        seat_end(x, &e); /* answers when nothing is left */
}

/* --- the other verbs --- */

static struct seat *find_out(struct seats *s, const struct seat_waiter *w, const char *id)
{
    struct seat *x = seats_find(s, id);
    if (x && x->state == SEAT_OUT)
        return x;
    struct err e;
    int r = err_set(&e, ERR_NOT_FOUND, "no box %s", id);
    refuse(s, w, id, r, &e);
    return NULL;
}

void seats_destroy(struct seats *s, const struct seat_waiter *w, const char *id)
{
    struct seat *x = seats_find(s, id);

    if (!x || (x->state != SEAT_OUT && x->state != SEAT_ENDING)) {
        (void)find_out(s, w, id);
        return;
    }
    if (!wait_for(x, w)) {
        struct err e;
        int r = err_set(&e, ERR_BUSY, "box %s: too many requests wait for it", id);
        refuse(s, w, id, r, &e);
        return;
    }
    seat_end(x, NULL);
}

static bool somebody_waits(const struct seat *x, uint32_t verb)
{
    for (int i = 0; i < SEAT_WAITERS; i++)
        if (x->waiters[i].verb == verb)
            return true;
    return false;
}

static void poll_freeze(struct seat *x)
{
    struct seat_reply r = { 0 };
    bool frozen = cgroup_frozen(&x->all->groups, x->id);

    if (!frozen && ++x->tries < FREEZE_TRIES) {
        loop_timer_set(x->timer, FREEZE_POLL_MS);
        return;
    }
    snprintf(r.id, sizeof r.id, "%s", x->id);
    r.frozen = frozen;
    if (!frozen)
        r.result = err_set(&r.err, ERR_BUSY, "box %s does not freeze: a process is stuck in the kernel", x->id);
    x->tries = 0;
    for (int i = 0; i < SEAT_WAITERS; i++)
        if (x->waiters[i].verb == SEAT_FREEZE) {
            seat_answer(x->all, &x->waiters[i], &r);
            x->waiters[i].verb = 0;
        }
}

/* Written down first: a kill in between leaves a box that runs, never one that nobody wakes. */
static int set_paused(struct seat *x, bool on, struct err *e)
{
    bool was = x->paused;

    x->paused = on;
    if (on != was)
        seat_resave(x);
    if (!on && x->sealing)
        return 0; /* it goes on when it is sealed */
    int r = cgroup_freeze(&x->all->groups, x->id, on, e);
    if (r < 0 && on != was) {
        x->paused = was;
        seat_resave(x);
    }
    return r;
}

void seats_freeze(struct seats *s, const struct seat_waiter *w, const char *id, bool on)
{
    struct err e;
    struct seat_reply ok = { 0 };
    struct seat *x = find_out(s, w, id);

    if (!x)
        return;
    int r = set_paused(x, on, &e);
    if (r >= 0 && on && !wait_for(x, w))
        r = err_set(&e, ERR_BUSY, "box %s: too many requests wait for it", id);
    if (r < 0) {
        refuse(s, w, id, r, &e);
    } else if (on) {
        poll_freeze(x);
    } else {
        snprintf(ok.id, sizeof ok.id, "%s", id);
        seat_answer(s, w, &ok);
    }
}

void seats_list(struct seats *s, const struct seat_waiter *w)
{
    struct seat_reply end = { 0 };

    for (int b = 0; b < SEAT_BUCKETS; b++)
        for (struct seat *x = s->buckets[b]; x; x = x->next) {
            struct seat_reply r = { .unenforced = cgroups_unenforced(&s->groups), .warm = x->warm };
            if (x->state != SEAT_OUT)
                continue;
            snprintf(r.id, sizeof r.id, "%s", x->id);
            r.frozen = x->paused; /* a snapshot lets it go on by itself */
            seat_answer(s, w, &r);
        }
    seat_answer(s, w, &end);
}

static void on_timer(void *arg)
{
    struct seat *x = arg;
    struct err e;

    switch (x->state) {
    case SEAT_MAKING:
        err_set(&e, ERR_SYSTEM, "create box: not ready after %d ms", (int)READY_MS);
        e.sys = ETIMEDOUT;
        seat_end(x, &e);
        break;
    case SEAT_OUT:
        if (!x->kept)
            seat_keep(x);
        if (somebody_waits(x, SEAT_FREEZE))
            poll_freeze(x);
        break;
    case SEAT_ENDING: wipe(x); break;
    case SEAT_BLANK:
    case SEAT_PARKED: break;
    }
}

static void each(struct seats *s, void (*f)(struct seat *x, uint64_t conn), uint64_t conn)
{
    for (int b = 0; b < SEAT_BUCKETS; b++)
        for (struct seat *x = s->buckets[b], *next; x; x = next) {
            next = x->next; /* f may end and free x, and nothing else */
            f(x, conn);
        }
}

static void forget(struct seat *x, uint64_t conn)
{
    for (int i = 0; i < SEAT_WAITERS; i++)
        if (x->waiters[i].verb != 0 && x->waiters[i].conn == conn) {
            bool created = x->waiters[i].verb == SEAT_CREATE;
            x->waiters[i].verb = 0;
            if (created) {
                seat_end(x, NULL);
                return;
            }
        }
}

void seats_forget_conn(struct seats *s, uint64_t conn)
{
    each(s, forget, conn);
}

static void drain(struct seat *x, uint64_t conn)
{
    (void)conn;
    if (x->state != SEAT_OUT)
        seat_end(x, NULL);
}

void seats_drain(struct seats *s)
{
    s->closing = true;
    each(s, drain, 0);
}

/* --- all of it --- */

static int open_dirs(struct seats *s, const char *home, struct err *e)
{
    static const char *const dirs[] = { "", "/run" };
    char path[512];

    for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
        if ((size_t)snprintf(path, sizeof path, "%s%s", home, dirs[i]) >= sizeof path)
            return err_set(e, ERR_INVALID, "the path of '%s' is too long", home);
        if (mkdir(path, 0755) < 0 && errno != EEXIST)
            return err_sys(e, "mkdir '%s'", path);
    }
    s->box_dir = box_dir_open(home, e);
    return s->box_dir < 0 ? s->box_dir : 0;
}

static void on_pool_timer(void *arg)
{
    pool_pump(arg);
}

int seats_open(struct seats *s, const struct supervise_opts *o, struct loop *l, struct err *e)
{
    s->opts = o;
    s->loop = l;
    memset(s->host_dirs, -1, sizeof s->host_dirs);
    s->box_dir = s->init = s->relay = s->network.host_ns = s->sweeper.fd = s->spawner.fd = s->watch.fan = -1;
    int r = open_dirs(s, o->home, e);
    if (r < 0)
        return r;
    r = sweeper_open(&s->sweeper, e);
    if (r < 0)
        return r;
    s->group = o->cgroup_root ? o->cgroup_root : "sandglass";
    idmap_init(&s->ids, s->group);
    r = cgroups_open(s->group, &s->groups, e);
    if (r < 0)
        return r;
    s->init = spawn_copy_init(o->init_path, e);
    if (s->init < 0)
        return s->init;
    spawner_init(&s->spawner, s->init);
    r = spawner_start(&s->spawner, e);
    if (r < 0)
        return r;
    r = host_image_open(o->home, o->init_path, &s->host, e);
    if (r < 0)
        return r;
    r = chain_keep(s, e);
    if (r < 0)
        return r;
    snprintf(s->layers, sizeof s->layers, "%s/layers", o->home);
    s->paths = (struct spawn_paths){ .layers = s->layers,
                                     .host_root = s->host.root,
                                     .host_sudo = s->host.sudo,
                                     .image_roots = o->image_roots,
                                     .mount_roots = o->mount_roots };
    r = uplink_open(s, e);
    if (r < 0)
        return r;
    watch_open(&s->watch, l);
    snapshots_open(s);
    (void)sha_of(
        STR("")); /* libcrypto begins with reading its configuration: here, and not in each worker that hashes */
    s->pool_timer = loop_timer_new(l, on_pool_timer, s);
    s->blank_timer = loop_timer_new(l, blank_pump, s);
    seats_recover(s);
    uplink_resume(s);
    if (s->count == 0)
        host_image_prune(o->home, &s->host);
    pool_pump(s);
    loop_later(l, blank_pump, s);
    return 0;
}

void seats_close(struct seats *s)
{
    uplink_close(s);
    for (int b = 0; b < SEAT_BUCKETS; b++)
        while (s->buckets[b])
            drop(s->buckets[b]);
    loop_timer_free(s->pool_timer);
    loop_timer_free(s->blank_timer);
    snapshots_close(s);
    watch_close(&s->watch);
    spawner_close(&s->spawner);
    sweeper_close(&s->sweeper);
    cgroups_remove(&s->groups, s->group); /* it stays if a box lives on in it */
    idmap_done(&s->ids);
    if (s->init >= 0)
        close(s->init);
    for (int i = 0; i < HOST_DIRS; i++)
        if (s->host_dirs[i] >= 0)
            close(s->host_dirs[i]);
    image_proof_done(s);
    box_dir_close(s->opts->home, s->box_dir);
}

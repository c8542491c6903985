/* First processes of boxes to come, made ahead: what takes longest (a network namespace, the move into cgroups, which
 * may wait for a grace period of the kernel) needs no word about the box. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#include "base/log.h"
#include "base/loop.h"
#include "daemon/seats.h"
#include "isolate/step.h"

enum { BETWEEN_MS = 2, BACKOFF_MS = 1000 };

static void make_id(char *out, size_t size)
{
    static const char digits[] = "abcdefghijklmnopqrstuvwxyz234567";
    unsigned char raw[16];

    if (getrandom(raw, sizeof raw, 0) != sizeof raw)
        abort();
    snprintf(out, size, "b-");
    for (size_t i = 0; i < sizeof raw; i++)
        out[2 + i] = digits[raw[i] & 31];
    out[2 + sizeof raw] = 0;
}

static int take_ids(struct seat *x, bool nests, struct err *e)
{
    int r = step_reach(STEP_SLOT, e);
    if (r < 0)
        return r;
    r = x->slot = idmap_take(&x->all->ids, e);
    if (r < 0)
        return r;
    r = step_reach(STEP_USERNS, e);
    if (r < 0)
        return r;
    x->nests = nests;
    r = idmap_userns(&x->all->ids, x->slot, nests, e);
    return r < 0 ? r : 0;
}

int blank_begin(struct seats *s, bool nests, struct seat **ret, struct err *e)
{
    char id[BOX_ID_MAX];

    make_id(id, sizeof id);
    struct seat *x = *ret = seats_add(s, id);
    seat_set_state(x, SEAT_BLANK);
    x->asked_us = now_us();
    int r = take_ids(x, nests, e);
    if (r < 0)
        return r;
    const struct spawn_opts o = {
        .id = x->id,
        .groups = &s->groups,
        .paths = &s->paths,
        .network = &s->network,
        .slot = x->slot,
        .userns = idmap_userns(&s->ids, x->slot, nests, NULL),
        .spawner = &s->spawner,
        .sockets = s->box_dir,
        .serve_uid = s->opts->serve_uid,
        .serve_gid = s->opts->serve_gid,
    };
    return spawn_begin(&o, &x->proc, e);
}

int blank_finish(struct seat *x, struct err *e)
{
    bool asked = x->proc.asked;
    int r = spawn_finish(&x->all->spawner, &x->proc, e);

    if (r < 0 || !asked)
        return r;
    x->starttime = state_starttime(x->proc.pid);
    seat_watch(x);
    return 0;
}

int blank_take(struct seats *s, bool nests, struct seat **ret, struct err *e)
{
    struct seat *oldest = NULL; /* the younger ones may not have their namespaces yet */

    for (int b = 0; s->blanks > 0 && b < SEAT_BUCKETS; b++)
        for (struct seat *x = s->buckets[b]; x; x = x->next)
            if (x->state == SEAT_BLANK && x->nests == nests && (!oldest || x->asked_us < oldest->asked_us))
                oldest = x;
    if (!oldest)
        return blank_begin(s, nests, ret, e);
    *ret = oldest;
    return 0;
}

void blank_failed(struct seats *s, const struct err *why)
{
    log_warn("cannot prepare a box", "error=\"%s\", trying again in %d ms", why->msg, (int)BACKOFF_MS);
    s->blank_not_before_us = now_us() + BACKOFF_MS * 1000;
    loop_timer_set(s->blank_timer, BACKOFF_MS + 1);
}

void blank_pump(void *seats)
{
    struct seats *s = seats;
    struct seat *x;
    struct err e = { 0 }, late = { 0 };

    if (s->closing || s->blanks >= SEAT_BLANKS || now_us() < s->blank_not_before_us)
        return;
    int begun = blank_begin(s, s->opts->pool_spec.user_namespaces, &x, &e);
    int made = blank_finish(x, &late);
    if (begun < 0 || made < 0) {
        blank_failed(s, begun < 0 ? &e : &late);
        seat_end(x, NULL);
    } else if (s->blanks < SEAT_BLANKS) {
        loop_timer_set(s->blank_timer, BETWEEN_MS);
    }
}

/* Workers and the trajectories that they write. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/limits.h"
#include "base/log.h"
#include "session/node.h"

enum { WORKER_IDLE_S = 3600 };

static void *find(const struct map *m, const struct tenant *t, struct str id)
{
    char key[sizeof t->name + LIMIT_WORKER_ID];

    if (!id.p || id.n > LIMIT_WORKER_ID)
        return NULL;
    tenant_key_to(t, id, key);
    return map_get(m, (struct str){ key, tenant_key_size(t, id) });
}

static struct str make_key(const struct tenant *t, struct str id)
{
    size_t n = tenant_key_size(t, id);
    char *key = malloc(n + 1);

    if (!key)
        abort();
    tenant_key_to(t, id, key);
    return (struct str){ key, n };
}

struct trajectory *trajectory_find(struct node *n, const struct tenant *t, struct str id)
{
    return find(&n->trajectories, t, id);
}

struct trajectory *trajectory_use(struct node *n, struct tenant *tenant, struct str id, int64_t steps_if_new)
{
    struct trajectory *t = trajectory_find(n, tenant, id);

    if (!t) {
        t = calloc(1, sizeof *t);
        if (!t)
            abort();
        t->tenant = tenant;
        if (id.p) {
            snprintf(t->id, sizeof t->id, "%.*s", STR_ARG(id));
        } else {
            memcpy(t->id, "t-", 2);
            random_hex(t->id + 2, 20);
        }
        t->steps = steps_if_new;
        t->key = make_key(tenant, str_of(t->id));
        map_put(&n->trajectories, t->key, t);
    }
    t->users++;
    return t;
}

void trajectory_drop(struct node *n, struct trajectory *t)
{
    if (!t || --t->users)
        return;
    map_del(&n->trajectories, t->key);
    free((char *)t->key.p);
    free(t);
}

struct worker *worker_find(struct node *n, const struct tenant *t, struct str id)
{
    return find(&n->workers, t, id);
}

struct worker *worker_of_box(const struct box *b)
{
    return worker_find(b->node, b->tenant, str_of(b->id));
}

struct worker *worker_get(struct node *n, struct tenant *t, struct str id, struct err *e)
{
    struct worker *w = worker_find(n, t, id);

    if (w)
        return w;
    if (id.n == 0) {
        err_set(e, ERR_MISSING, "worker_id: a non-empty string is required");
        return NULL;
    }
    if (id.n > LIMIT_WORKER_ID) {
        err_set(e, ERR_LIMIT, "worker_id: %zu bytes exceed LIMIT_WORKER_ID (%d)", id.n, LIMIT_WORKER_ID);
        return NULL;
    }
    w = calloc(1, sizeof *w);
    if (!w)
        abort();
    w->id = strndup(id.p, id.n);
    if (!w->id || strlen(w->id) != id.n) {
        free(w->id);
        free(w);
        err_set(e, ERR_INVALID, "worker_id: contains NUL");
        return NULL;
    }
    w->node = n;
    w->last_us = wall_us();
    w->tenant = t;
    w->key = make_key(t, id);
    map_put(&n->workers, w->key, w);
    return w;
}

void worker_set_trajectory(struct worker *w, struct trajectory *take_t)
{
    trajectory_drop(w->node, w->trajectory);
    w->trajectory = take_t;
}

static void worker_free(struct worker *w)
{
    map_del(&w->node->workers, w->key);
    trajectory_drop(w->node, w->trajectory);
    forward_free(w);
    for (struct counter *c = w->counters, *next; c; c = next) {
        next = c->next;
        free(c);
    }
    free((char *)w->key.p);
    free(w->id);
    free(w);
}

void worker_disconnect(struct worker *w, const char *reason, size_t *ret_sessions)
{
    *ret_sessions = 0;
    for (struct session *s = w->sessions, *next; s; s = next) {
        next = s->next;
        if (s->temporary)
            continue;
        session_close(s, reason);
        ++*ret_sessions;
    }
}

void worker_end_episode(struct worker *w)
{
    struct jw j = { .out = &w->node->scratch };
    struct err e;

    if (!w->trajectory)
        return;
    buf_reset(j.out);
    jw_obj(&j);
    jw_kz(&j, "worker", w->id);
    jw_kz(&j, "trajectory", w->trajectory->id);
    jw_kint(&j, "time", wall_us());
    if (!w->tenant->is_default)
        jw_kz(&j, "tenant", w->tenant->name);
    jw_obj_end(&j);
    struct str body = buf_view(j.out);
    if (node_append(w->node, RECORD_EPISODE_END, &body, 1, &e) < 0)
        log_error("end of an episode not recorded", "worker=%s error='%s'; after a restart it goes on", w->id, e.msg);
    worker_set_trajectory(w, NULL);
}

void worker_expire(struct worker *w, int64_t now_us_)
{
    for (struct session *s = w->sessions, *next; s; s = next) {
        next = s->next;
        if (session_expired(s, now_us_))
            session_close(s, "expired");
    }
}

void worker_sweep(struct worker *w, int64_t now_us_)
{
    worker_expire(w, now_us_);
    if (!w->sessions && !w->calls && now_us_ - w->last_us > WORKER_IDLE_S * 1000000LL)
        worker_free(w);
}

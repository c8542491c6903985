#include "session/retention.h"

#include "base/log.h"
#include "session/job.h"

enum { INTERVAL_MS = 3600 * 1000 };

static void prune(struct node *n, struct tenant *t)
{
    struct arena a = { 0 };
    struct job_ask ask = { .tenant = t, .kind = "prune" };
    size_t i = 0;
    struct err e;

    ask.argv[i++] = "prune";
    ask.argv[i++] = "--json";
    if (n->opts.retention_age_ms)
        ask.argv[i++] = arena_printf(&a, "--older-than=%llds", (long long)n->opts.retention_age_ms / 1000);
    if (n->opts.retention_count)
        ask.argv[i++] = arena_printf(&a, "--keep=%lld", (long long)n->opts.retention_count);
    const char *tags = n->opts.retention_keep_tags ? n->opts.retention_keep_tags : "";
    for (size_t k; *tags && i < JOB_ARGS - 1; tags += k + (tags[k] == ',')) {
        k = strcspn(tags, ",");
        if (k)
            ask.argv[i++] = arena_printf(&a, "--keep-tag=%.*s", (int)k, tags);
    }
    if (!job_start(n, &ask, &e))
        log_warn("trajectories not pruned", "tenant=%s error='%s', trying again in an hour", t->name, e.msg);
    arena_done(&a);
}

void retention_sweep(struct node *n)
{
    struct tenant *t;

    if (!n->ready || (!n->opts.retention_age_ms && !n->opts.retention_count))
        return;
    if (n->pruned_ms && now_ms() - n->pruned_ms < INTERVAL_MS)
        return;
    n->pruned_ms = now_ms();
    for (size_t i = 0; (t = map_next(&n->tenants, &i));)
        prune(n, t);
}

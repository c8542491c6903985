#include "init/hooks.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/loop.h"
#include "init/init.h"
#include "init/job.h"

static void hook_free(struct hook *h)
{
    free(h->name);
    free(h->command);
    free(h);
}

struct hook *hook_find(struct init *in, struct str name)
{
    struct hook *h = in->hooks;

    while (h && !str_is(name, h->name))
        h = h->next;
    return h;
}

void hook_remove(struct init *in, struct hook *h)
{
    for (struct hook **at = &in->hooks; *at; at = &(*at)->next)
        if (*at == h) {
            *at = h->next;
            hook_free(h);
            return;
        }
}

struct hook *hook_add(struct init *in, struct str name, struct str command, double timeout, int64_t priority,
                      struct err *e)
{
    struct hook *old = hook_find(in, name), *h = calloc(1, sizeof *h), **at = &in->hooks;
    size_t n = 0;

    if (!h)
        abort();
    if (old)
        hook_remove(in, old);
    for (struct hook *o = in->hooks; o; o = o->next)
        n++;
    if (n >= LIMIT_HOOKS) {
        free(h);
        err_set(e, ERR_LIMIT, "a box has at most LIMIT_HOOKS (%d) hooks", LIMIT_HOOKS);
        return NULL;
    }
    *h = (struct hook){ .name = strndup(name.p, name.n),
                        .command = strndup(command.p, command.n),
                        .timeout = timeout,
                        .priority = priority };
    while (*at && (*at)->priority <= priority)
        at = &(*at)->next;
    h->next = *at;
    *at = h;
    return h;
}

struct hooks_running {
    struct init *init;
    struct hook *next; /* of the next priority */
    int64_t deadline_ms, ran, failed;
    size_t open;
    on_hooks_done *cb;
    void *arg;
};

static void run_some(struct hooks_running *r);

static void on_end(void *arg, struct job *j)
{
    struct hooks_running *r = arg;
    struct job_state s = job_describe(j);

    if (s.running) {
        job_signal(j, SIGKILL);
        r->failed++;
    } else {
        r->failed += s.exit_code != 0;
    }
    if (--r->open == 0)
        run_some(r);
}

static void run_some(struct hooks_running *r)
{
    struct pairs none = { 0 };

    while (r->open == 0 && r->next && now_ms() < r->deadline_ms) {
        int64_t priority = r->next->priority;
        r->open = 1; /* until all of them have begun */
        for (; r->next && r->next->priority == priority; r->next = r->next->next) {
            struct hook *h = r->next;
            struct job *j = job_start(r->init, str_of(h->command), BOX_HOME, &none, NULL);
            int64_t left = r->deadline_ms - now_ms(), own = (int64_t)(h->timeout * 1000);
            r->ran++;
            if (!j) {
                r->failed++;
                continue;
            }
            r->open++;
            job_wait(j, own < left ? own : left, true, on_end, r);
        }
        r->open--;
    }
    if (r->open)
        return;
    r->cb(r->arg, r->ran, r->failed);
    free(r);
}

void hooks_run(struct init *in, int64_t total_ms, on_hooks_done *cb, void *arg)
{
    struct hooks_running *r = calloc(1, sizeof *r);

    if (!r)
        abort();
    *r = (struct hooks_running){
        .init = in, .next = in->hooks, .deadline_ms = now_ms() + total_ms, .cb = cb, .arg = arg
    };
    run_some(r);
}

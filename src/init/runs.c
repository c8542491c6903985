#include "init/runs.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/auto.h"
#include "base/limits.h"
#include "base/loop.h"
#include "init/init.h"

enum { RUNS_KEPT = 64 }; /* of one session */

struct run_session *run_session_find(struct init *in, struct str id)
{
    for (struct run_session *s = in->run_sessions; s; s = s->next)
        if (str_is(id, s->id))
            return s;
    return NULL;
}

void run_session_set(char **to, struct str value)
{
    free(*to);
    *to = value.n ? strndup(value.p, value.n) : NULL;
}

static void run_free(struct run *r)
{
    loop_timer_free(r->hard);
    free(r->command);
    free(r);
}

static bool is_busy(struct run_session *s)
{
    for (struct run *r = s->runs; r; r = r->next) {
        run_look(r);
        if (r->status == RUN_RUNNING)
            return true;
    }
    return false;
}

static void session_drop(struct run_session *s);

void run_session_close(struct run_session *s)
{
    for (struct run_session **at = &s->init->run_sessions; *at; at = &(*at)->next)
        if (*at == s) {
            *at = s->next;
            break;
        }
    s->closed = true;
    s->holds++; /* those who wait are told now, and the last of them must not free it under us */
    for (struct run *r = s->runs; r; r = r->next) {
        run_look(r);
        struct job *j = run_job(r);
        if (r->status == RUN_RUNNING && j) {
            r->killed = true;
            job_signal(j, SIGKILL);
        }
    }
    session_drop(s);
}

static void session_drop(struct run_session *s)
{
    if (--s->holds || !s->closed)
        return;
    for (struct run *r = s->runs, *next; r; r = next) {
        next = r->next;
        run_free(r);
    }
    free(s->id);
    free(s->cwd);
    free(s->snapshot);
    free(s);
}

void run_hold(struct run *r)
{
    r->session->holds++;
}

void run_drop(struct run *r)
{
    session_drop(r->session);
}

/* They cost next to nothing; the one that was not used for the longest time and runs nothing goes. */
static int make_room(struct init *in, struct err *e)
{
    struct run_session *oldest = NULL;
    size_t n = 0;

    for (struct run_session *s = in->run_sessions; s; s = s->next) {
        n++;
        if ((!oldest || s->last_us < oldest->last_us) && !is_busy(s))
            oldest = s;
    }
    if (n < LIMIT_RUN_SESSIONS)
        return 0;
    if (!oldest)
        return err_set(e, ERR_LIMIT, "LIMIT_RUN_SESSIONS (%d) sessions have active commands", LIMIT_RUN_SESSIONS);
    run_session_close(oldest);
    return 0;
}

struct run_session *run_session_open(struct init *in, struct str id, struct err *e)
{
    struct run_session *s = id.n ? run_session_find(in, id) : NULL;
    unsigned char b[8];
    char made[17];

    if (s || make_room(in, e) < 0)
        return s;
    if (getrandom(b, sizeof b, 0) != (ssize_t)sizeof b)
        abort();
    for (int i = 0; i < 8; i++)
        snprintf(made + 2 * i, 3, "%02x", b[i]);
    s = calloc(1, sizeof *s);
    if (!s)
        abort();
    *s = (struct run_session){ .init = in, .created_us = wall_us(), .last_us = wall_us(), .next = in->run_sessions };
    run_session_set(&s->id, id.n ? id : str_of(made));
    run_session_set(&s->cwd, str_of(init_workspace(in)));
    in->run_sessions = s;
    return s;
}

struct job *run_job(struct run *r)
{
    return job_find(r->session->init, str_of(r->id), NULL);
}

void run_look(struct run *r)
{
    struct job *j = r->status == RUN_RUNNING ? run_job(r) : NULL;

    if (!j || job_describe(j).running)
        return;
    struct job_state s = job_describe(j);
    r->exit_code = s.sig ? -s.sig : s.exit_code;
    r->status = r->killed && s.sig ? RUN_KILLED : RUN_COMPLETED;
    loop_timer_set(r->hard, -1);
}

static void on_hard(void *arg)
{
    struct run *r = arg;
    struct job *j = run_job(r);

    run_look(r);
    if (r->status != RUN_RUNNING || !j)
        return;
    r->status = RUN_TIMED_OUT;
    r->exit_code = -1;
    job_signal(j, SIGKILL);
}

static void forget_old(struct run_session *s)
{
    struct run **at = &s->runs;

    for (int n = 0; *at; n++) {
        struct run *r = *at;
        run_look(r);
        if (n < RUNS_KEPT || r->status == RUN_RUNNING) {
            at = &r->next;
            continue;
        }
        *at = r->next;
        run_free(r);
    }
}

struct run *run_start(struct run_session *s, struct str command, const struct pairs *env, int64_t hard_ms,
                      struct err *e)
{
    AUTO(arena_done) struct arena a = { 0 };
    struct pairs all = *env;

    if (s->snapshot) { /* bash sources what BASH_ENV names before it executes anything */
        struct pair *v = arena_alloc(&a, (env->n + 1) * sizeof *v);
        v[0] = (struct pair){ STR("BASH_ENV"), str_of(s->snapshot) };
        if (env->n)
            memcpy(v + 1, env->v, env->n * sizeof *v);
        all = (struct pairs){ v, env->n + 1 };
    }
    struct job *j = job_start(s->init, command, s->cwd, &all, e);
    if (!j)
        return NULL;
    struct run *r = calloc(1, sizeof *r);
    if (!r)
        abort();
    *r = (struct run){ .session = s, .next = s->runs, .command = strndup(command.p, command.n) };
    snprintf(r->id, sizeof r->id, "%s", job_describe(j).id);
    r->hard = loop_timer_new(s->init->loop, on_hard, r);
    if (hard_ms > 0)
        loop_timer_set(r->hard, hard_ms);
    s->runs = r;
    s->count++;
    s->last_us = wall_us();
    forget_old(s);
    return r;
}

struct run *run_find(struct run_session *s, struct str id)
{
    struct run *r = s->runs;

    while (r && id.n && !str_is(id, r->id))
        r = r->next;
    if (r)
        run_look(r);
    return r;
}

int run_signal(struct run *r, int sig, struct err *e)
{
    struct job *j = run_job(r);

    run_look(r);
    if (r->status != RUN_RUNNING || !j)
        return err_set(e, ERR_NOT_FOUND, "command %s has ended", r->id);
    r->killed = true;
    job_signal(j, sig);
    return 0;
}

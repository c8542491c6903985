/* Code in contexts that last: interpreters that keep their variables from call to call (init/context.h), and bash,
 * which is a shell of its own. */
#include "tool/code_internal.h"

#ifdef IN_BOX

#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/limits.h"
#include "init/context.h"
#include "init/hands.h"
#include "init/init.h"
#include "init/script.h"
#include "init/shell.h"
#include "init/task.h"
#include "tool/carry.h"
#include "tool/file_internal.h"

enum { EXIT_TIMEOUT = 124 };

/* A note is "language directory". */
static struct driver_ask ask_of(struct task *t, struct str session, struct str language, struct str cwd)
{
    return (struct driver_ask){
        .kind = &context_kind,
        .name = session,
        .label = session,
        .note = str_of(arena_printf(&t->arena, "%.*s %.*s", STR_ARG(language.n ? language : STR("python")),
                                    STR_ARG(cwd.n ? cwd : str_of(init_workspace(t->init))))),
        .noted = cwd.n && cwd.p[0] == '/',
    };
}

/* --- bash --- */

static void on_shell(void *arg, const struct shell_report *s)
{
    struct task *t = arg;
    const struct execute_params *p = t->state;
    struct execute_result r = { 0 };
    enum outcome o = OUTCOME_OK;
    struct err e = { 0 };

    field_defaults(execute_result_fields, &r, sizeof r);
    r.language = p->language;
    r.session = p->session;
    r.execution_time_ms = (double)(now_us() - t->begun_us) / 1000;
    r.restarted = s->restarted;
    r.status = STR("completed");
    r.exit_code = r.return_code = s->exit_code;
    if (s->out) {
        r.stdout = stream_text(s->out, &t->arena);
        r.stdout_bytes = s->out->total;
    }
    if (s->err) {
        r.stderr = stream_text(s->err, &t->arena);
        r.stderr_bytes = s->err->total;
    }
    if (s->end == SHELL_TIMEOUT) {
        o = OUTCOME_TIMEOUT;
        r.status = STR("timeout");
        r.exit_code = r.return_code = EXIT_TIMEOUT;
        err_set(&e, ERR_NONE, "timed out; the command was ended, the shell lives");
    } else if (s->end == SHELL_BROKEN) {
        o = OUTCOME_INFRA_ERROR;
        err_set(&e, ERR_SYSTEM, "bash could not be started");
    } else if (s->end == SHELL_RUINED) {
        o = OUTCOME_TASK_ERROR;
        err_set(&e, ERR_NONE,
                "bash cannot be started any more: it, or what it needs, was removed or replaced in this box");
    } else if (s->end == SHELL_LOST) {
        o = OUTCOME_TASK_ERROR;
        err_set(&e, ERR_NONE,
                "the shell cannot run commands any more, or not say how they end; it was replaced by a new one");
    } else if (s->end == SHELL_KILLED || s->exit_code) {
        o = s->end == SHELL_KILLED ? OUTCOME_KILLED : OUTCOME_TASK_ERROR;
        err_set(&e, ERR_NONE, "exit status %d", s->exit_code);
    }
    task_finish(t, o, o == OUTCOME_OK ? NULL : &e, &r, 0, NULL);
}

static void cancel_shell(struct task *t)
{
    const struct execute_params *p = t->state;
    struct shell *s = shell_find(t->init, str_of(arena_printf(&t->arena, "code:%.*s", STR_ARG(p->session))));
    struct shell_watch none = { .cb = on_shell, .arg = t };

    if (s)
        (void)shell_kill(s, &none, NULL);
}

static void bash_begin(struct task *t, const struct execute_params *p)
{
    struct str name = str_of(arena_printf(&t->arena, "code:%.*s", STR_ARG(p->session)));
    struct err e = { 0 };
    struct shell *s = shell_get(t->init, name, &e);
    int64_t timeout = p->timeout > 0 ? (int64_t)(p->timeout * 1000) : t->call.timeout_ms;
    struct shell_command c = { .text = p->code, .stdin_text = p->stdin.p ? p->stdin : STR(""), .cwd = p->cwd };
    struct shell_watch w = { .timeout_ms = timeout,
                             .head_bytes = t->call.head_bytes ? t->call.head_bytes : LIMIT_OUTPUT_HEAD,
                             .tail_bytes = t->call.tail_bytes ? t->call.tail_bytes : LIMIT_OUTPUT_TAIL,
                             .cb = on_shell,
                             .arg = t };

    t->state = (void *)p;
    t->cancel = cancel_shell;
    if (!s || shell_run(s, &c, &w, &e) < 0)
        task_fail(t, outcome_of_err(&e), &e);
}

/* --- in init --- */

void execute_begin(struct task *t, const void *params)
{
    const struct execute_params *p = params;
    struct err e;

    if (!p->session.n) {
        (void)hands_submit(t->init, t); /* the call was copied: its parameters last */
        return;
    }
    if (str_is(p->language, "bash")) {
        bash_begin(t, p);
        return;
    }
    bool python = str_is(p->language, "python");
    if (!python && !str_is(p->language, "javascript")) {
        err_set(&e, ERR_INVALID, "session: %.*s has no contexts that last; python, javascript and bash do",
                STR_ARG(p->language));
        task_fail(t, OUTCOME_INVALID_REQUEST, &e);
        return;
    }
    if (scripts_write(&e) < 0) {
        task_fail(t, OUTCOME_INFRA_ERROR, &e);
        return;
    }
    struct driver_ask ask = ask_of(t, p->session, p->language, p->cwd);
    ask.idle_ms = (int64_t)(p->max_idle * 1000);
    ask.idle_of_new = true;
    ask.spare = python;
    if (python)
        pyserver_need(t->init, PYSERVER_CONTEXT);
    driver_submit(t, &ask);
}

void open_begin(struct task *t, const void *params)
{
    const struct open_params *p = params;
    struct driver_ask ask = ask_of(t, p->session, p->language, p->cwd);
    struct err e;

    if (scripts_write(&e) < 0) {
        task_fail(t, OUTCOME_INFRA_ERROR, &e);
        return;
    }
    ask.idle_ms = (int64_t)(p->max_idle * 1000);
    ask.must_exist = p->must_exist;
    ask.spare = str_is(p->language, "python") && !p->fresh;
    if (ask.spare)
        pyserver_need(t->init, PYSERVER_CONTEXT);
    driver_submit(t, &ask);
}

void carry_begin(struct task *t, const void *params)
{
    const struct carry_params *p = params;
    struct driver_ask ask = ask_of(t, p->session, STR("python"), (struct str){ 0 });
    struct err e;

    if (scripts_write(&e) < 0) {
        task_fail(t, OUTCOME_INFRA_ERROR, &e);
        return;
    }
    ask.must_exist = strcmp(t->tool->name, "code:save") == 0;
    ask.spare = true;
    pyserver_need(t->init, PYSERVER_CONTEXT);
    driver_submit(t, &ask);
}

/* Where a copy waits for its driver: both find it by the copy's name. */
static const char *branch_path(struct arena *a, struct str to)
{
    uint64_t hash = 14695981039346656037u;

    for (size_t i = 0; i < to.n; i++)
        hash = (hash ^ (unsigned char)to.p[i]) * 1099511628211u;
    return arena_printf(a, BOX_USER_RUN "/branch.%016llx", (unsigned long long)hash);
}

static void on_branched(struct task *own)
{
    struct task *t = own->arg;
    const struct fork_params *p = t->state;
    struct driver *from = driver_find(t->init, &context_kind, p->session);
    struct strs lost; /* the whole of its result */
    struct err e;

    if (task_read_reply(own, &t->arena, &lost, &e) < 0 || !from) {
        task_fail(t, OUTCOME_TASK_ERROR, &e);
        return;
    }
    struct driver_info i = driver_describe(from);
    driver_submit(
        t, &(struct driver_ask){
               .kind = &context_kind, .name = p->to, .label = p->to, .note = str_of(i.note), .idle_ms = i.idle_ms });
}

void fork_begin(struct task *t, const void *params)
{
    const struct fork_params *p = params;
    struct carry_one_params place = { str_of(branch_path(&t->arena, p->to)) };
    struct err e;

    if (driver_find(t->init, &context_kind, p->to)) {
        err_set(&e, ERR_EXISTS, "to: there is a session '%.*s' already", STR_ARG(p->to));
        task_fail(t, OUTCOME_TASK_ERROR, &e);
        return;
    }
    (void)unlink(place.path.p); /* of an attempt that came to nothing */
    t->state = (void *)p;
    struct task *own = task_own(t->init, tool_find(STR("carry:branch"), NULL), &place, on_branched, t);
    own->call.timeout_ms = LIMIT_CARRY_MS;
    driver_submit(own, &(struct driver_ask){
                           .kind = &context_kind, .name = p->session, .label = p->session, .must_exist = true });
}

void contexts_begin(struct task *t, const void *params)
{
    struct context_row *rows = arena_alloc(&t->arena, LIMIT_DRIVERS_PER_BOX * sizeof *rows);
    struct contexts_result r = { .sessions = { rows, 0 } };

    (void)params;
    for (struct driver *d = NULL; (d = driver_next(t->init, &context_kind, d));) {
        struct driver_info i = driver_describe(d);
        const char *space = strchr(i.note, ' ');
        rows[r.sessions.n++] = (struct context_row){
            .session = str_of(i.label),
            .language = { i.note, (size_t)(space - i.note) },
            .cwd = str_of(space + 1),
            .status = i.busy ? STR("busy") : STR("idle"),
            .created_at = (double)i.created_us / 1e6,
            .last_used = (double)i.used_us / 1e6,
            .age_seconds = (wall_us() - i.created_us) / 1000000,
            .max_idle = i.idle_ms / 1000,
        };
    }
    task_finish(t, OUTCOME_OK, NULL, &r, 0, NULL);
}

void end_begin(struct task *t, const void *params)
{
    const struct end_params *p = params;
    struct count_result r = { 0 };
    struct err e;

    for (struct driver *d = driver_next(t->init, &context_kind, NULL), *next; d; d = next) {
        next = driver_next(t->init, &context_kind, d);
        if (!p->all && !str_is(p->session, driver_describe(d).label))
            continue;
        driver_end(d);
        r.count++;
    }
    if (r.count || p->all) {
        task_finish(t, OUTCOME_OK, NULL, &r, 0, NULL);
        return;
    }
    err_set(&e, ERR_NOT_FOUND, "code: no session '%.*s'", STR_ARG(p->session));
    task_fail(t, OUTCOME_TASK_ERROR, &e);
}

void interrupt_context_begin(struct task *t, const void *params)
{
    const struct context_params *p = params;
    struct driver *d = driver_find(t->init, &context_kind, p->session);
    struct count_result r = { 0 };
    struct err e;

    if (!d) {
        err_set(&e, ERR_NOT_FOUND, "code: no session '%.*s'", STR_ARG(p->session));
        task_fail(t, OUTCOME_TASK_ERROR, &e);
        return;
    }
    r.count = driver_interrupt(d);
    task_finish(t, OUTCOME_OK, NULL, &r, 0, NULL);
}

/* --- in the driver --- */

static void judge(struct hand *h, const struct context_end *end)
{
    const char *gone = end->lost_it ? "; it did not react, so the context was ended" : "; variables are as they were";

    h->dropped_bytes = end->dropped_bytes;
    switch (end->status) {
    case CONTEXT_OK:
    case CONTEXT_STALE: return;
    case CONTEXT_ERROR:
        h->outcome = OUTCOME_TASK_ERROR;
        h->message = end->ename.n ? str_of(arena_printf(h->arena, "%.*s: %.*s", STR_ARG(end->ename),
                                                        (int)(end->evalue.n < 500 ? end->evalue.n : 500),
                                                        end->evalue.p ? end->evalue.p : ""))
                                  : str_of(arena_printf(h->arena, "exit status %d", end->exit_code));
        return;
    case CONTEXT_TIMEOUT:
        h->outcome = OUTCOME_TIMEOUT;
        h->message = str_of(arena_printf(h->arena, "timed out after %.3g s and was interrupted%s", end->limit_s, gone));
        return;
    case CONTEXT_INTERRUPTED:
        h->outcome = h->self->wish == WISH_CANCEL ? OUTCOME_KILLED : OUTCOME_TASK_ERROR;
        h->message = str_of(arena_printf(h->arena, "interrupted%s", gone));
        return;
    case CONTEXT_DIED:
        h->outcome = OUTCOME_TASK_ERROR;
        h->message = str_of(arena_printf(h->arena, "the interpreter ended: %.*s", STR_ARG(end->evalue)));
        return;
    }
}

static const char *const status_names[] = {
    [CONTEXT_OK] = "completed",    [CONTEXT_ERROR] = "completed",
    [CONTEXT_TIMEOUT] = "timeout", [CONTEXT_INTERRUPTED] = "interrupted",
    [CONTEXT_DIED] = "died",       [CONTEXT_STALE] = "",
};

int execute_in_context(struct hand *h, const struct execute_params *p, struct execute_result *r, struct err *e)
{
    struct context_end end;
    const char *program = NULL;
    char *cwd = NULL;

    if (p->args.n)
        return err_set(e, ERR_INVALID, "args: a context that lasts has none; leave out session or args");
    if (p->cpu_limit > 0)
        return err_set(e, ERR_INVALID, "cpu_limit: is for fresh processes; a session has timeout");
    if (p->stdin.p && str_is(p->language, "javascript"))
        return err_set(e, ERR_INVALID, "stdin: a JavaScript context has none; leave out session or stdin");
    int n = p->cwd.n ? file_path(h, p->cwd, &cwd, e) : 0;
    if (n >= 0 && p->version.n)
        n = node_find(h, p->language, p->version, &program, e);
    if (n < 0)
        return n;
    n = context_run(h,
                    &(struct context_ask){ .language = p->language,
                                           .program = program,
                                           .code = p->code,
                                           .input = p->stdin,
                                           .cwd = str_of(cwd),
                                           .timeout = p->timeout,
                                           .memory_bytes = p->memory_limit_mb * MiB },
                    &end, e);
    if (n < 0)
        return n;
    judge(h, &end);
    r->stdout = end.out;
    r->stderr = end.err;
    r->stdout_bytes = end.out_bytes;
    r->stderr_bytes = end.err_bytes;
    r->return_code = r->exit_code = end.status == CONTEXT_TIMEOUT ? EXIT_TIMEOUT : end.exit_code;
    r->execution_time_ms = (double)end.run_us / 1000;
    r->memory_used_mb = (double)(end.memory_bytes / KiB) / 1024;
    r->language = p->language;
    r->status = str_of(status_names[end.status]);
    r->result = end.result;
    r->session = p->session;
    r->ename = end.ename;
    r->evalue = end.evalue;
    r->traceback = end.traceback;
    r->figures = end.figures;
    r->execution_count = end.count ? end.count : FIELD_ABSENT;
    r->restarted = end.fresh;
    r->carried = end.carried;
    r->lost = end.lost;
    return 0;
}

static int carried(struct hand *h, const struct context_end *end, struct carry_result *r, struct err *e)
{
    if (end->status != CONTEXT_OK)
        return err_set(e, ERR_SYSTEM, "%.*s: %.*s", STR_ARG(end->ename.n ? end->ename : STR("the context failed")),
                       STR_ARG(end->evalue));
    r->lost = end->lost;
    h->dropped_bytes = 0;
    return 0;
}

/* The interpreter writes and reads the file itself: it is the box's user, as this process is. */
static int carry(struct hand *h, const char *op, struct str path, struct carry_result *r, struct err *e)
{
    struct context_end end;
    struct stat st = { 0 };
    char *full = NULL;

    int n = file_path(h, path, &full, e);
    if (n >= 0)
        n = context_run(h, &(struct context_ask){ .op = op, .language = STR("python"), .path = str_of(full) }, &end, e);
    if (n >= 0)
        n = carried(h, &end, r, e);
    r->path = str_of(full);
    if (n >= 0 && stat(full, &st) == 0)
        r->bytes = (int64_t)st.st_size;
    return n;
}

int save_run(struct hand *h, const void *params, void *result, struct err *e)
{
    return carry(h, "save", ((const struct carry_params *)params)->path, result, e);
}

int load_run(struct hand *h, const void *params, void *result, struct err *e)
{
    return carry(h, "load", ((const struct carry_params *)params)->path, result, e);
}

int fork_run(struct hand *h, const void *params, void *result, struct err *e)
{
    const struct fork_params *p = params;
    struct context_ask ask = { .op = "where", .language = STR("python"), .branch = branch_path(h->arena, p->to) };
    struct context_end end;

    int n = context_run(h, &ask, &end, e);
    if (n < 0)
        return n;
    if (end.status != CONTEXT_OK)
        return err_set(e, ERR_SYSTEM, "the copy ended: %.*s", STR_ARG(end.evalue));
    *(struct open_result *)result = (struct open_result){ .session = p->to,
                                                          .language = STR("python"),
                                                          .cwd = end.result,
                                                          .max_idle = h->self->idle_ms / 1000,
                                                          .created = true,
                                                          .created_at = (double)h->self->created_us / 1e6 };
    return 0;
}

int open_run(struct hand *h, const void *params, void *result, struct err *e)
{
    const struct open_params *p = params;
    struct open_result *r = result;
    struct context_end end;
    char *cwd = NULL;

    const char *program = NULL;
    int n = p->cwd.n ? file_path(h, p->cwd, &cwd, e) : 0;
    if (n >= 0 && p->version.n)
        n = node_find(h, p->language, p->version, &program, e);
    const struct context_ask ask = {
        .language = p->language, .program = program, .cwd = str_of(cwd), .alone = p->fresh
    };
    if (n >= 0 && p->fresh && context_is_up(h))
        n = err_set(e, ERR_INVALID, "fresh: context '%.*s' is there already; end it first", STR_ARG(p->session));
    if (n >= 0)
        n = context_run(h, &ask, &end, e);
    if (n < 0)
        return n;
    if (end.status != CONTEXT_OK)
        return err_set(e, ERR_SYSTEM, "cannot start %.*s: %.*s", STR_ARG(p->language), STR_ARG(end.evalue));
    *r = (struct open_result){ .session = p->session,
                               .language = p->language,
                               .cwd = end.cwd.n ? end.cwd : h->cwd,
                               .max_idle = h->self->idle_ms / 1000,
                               .created = h->self->first_call,
                               .created_at = (double)h->self->created_us / 1e6 };
    return 0;
}

#endif

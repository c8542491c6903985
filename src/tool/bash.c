/* The shell of a box: commands in a persistent bash, and programs in the background. The machinery is in init
 * (init/shell.h, init/job.h); here are the parameters, the results, and what a result is called. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/limits.h"
#include "tool/tool.h"

enum { LINGER_MS = 2000, WAIT_MAX_MS = 600000, EXIT_TIMEOUT = 124, EXIT_UNRUN = 126, EXIT_KILLED = 137 };

struct run_params {
    struct str command, stdin, cwd;
    double timeout;
    struct pairs env;
};
static const struct field run_fields[] = {
    FIELD(STR, struct run_params, command, "what bash executes; directory and variables persist between calls",
          .required = true, .max = LIMIT_COMMAND),
    FIELD(NUM, struct run_params, timeout, "seconds after which the command is ended", .min = 0,
          .max = LIMIT_TIMEOUT_MS / 1000),
    FIELD(STR, struct run_params, stdin,
          "what the command reads; without it, a command that reads is reported as "
          "waiting_for_input",
          .max = LIMIT_FILE_IO),
    FIELD(STR, struct run_params, cwd, "directory for this command only", .max = LIMIT_PATH, .path = true),
    FIELD(PAIRS, struct run_params, env, "variables for this command only", .max = 1024),
    { 0 },
};

struct begin_params {
    struct str command;
};
static const struct field begin_fields[] = {
    FIELD(STR, struct begin_params, command, "what makes the shell like the other one", .required = true,
          .max = LIMIT_COMMAND),
    { 0 },
};

struct run_result {
    struct str stdout, stderr;
    int64_t exit_code, return_code;
    struct str cwd, status, prompt, signal;
    bool shell_exited, shell_restarted;
    int64_t stdout_bytes, stderr_bytes;
    bool stdout_kept, stderr_kept;
    struct str background, job_id;
};
static const struct field run_result_fields[] = {
    FIELD(STR, struct run_result, stdout, "head and tail if it was long", .always = true),
    FIELD(STR, struct run_result, stderr, "the same", .always = true),
    FIELD(INT, struct run_result, exit_code, "absent while the command goes on; 124: timed out", .def = FIELD_ABSENT),
    FIELD(INT, struct run_result, return_code, "the same number", .def = FIELD_ABSENT),
    FIELD(STR, struct run_result, cwd, "directory of the shell afterwards", .path = true),
    FIELD(STR, struct run_result, status, "completed, waiting_for_input, timeout or running"),
    FIELD(STR, struct run_result, prompt, "waiting_for_input: last line of the output"),
    FIELD(STR, struct run_result, signal, "name of the signal that ended the command"),
    FIELD(BOOL, struct run_result, shell_exited, "the command ended the shell; the next one gets a fresh shell"),
    FIELD(BOOL, struct run_result, shell_restarted, "the shell had to be replaced: its variables are gone"),
    FIELD(INT, struct run_result, stdout_bytes, "true length"),
    FIELD(INT, struct run_result, stderr_bytes, "true length"),
    FIELD(BOOL, struct run_result, stdout_kept, "more of stdout is kept as a blob"),
    FIELD(BOOL, struct run_result, stderr_kept, "more of stderr is kept as a blob"),
    FIELD(STR, struct run_result, background, "what children of earlier commands wrote since the last call"),
    FIELD(STR, struct run_result, job_id, "the background program, if it was one"),
    { 0 },
};

struct start_params {
    struct str command, cwd;
    struct pairs env;
};
static const struct field start_fields[] = {
    FIELD(STR, struct start_params, command, "what bash executes in the background", .required = true,
          .max = 128 * KiB),
    FIELD(STR, struct start_params, cwd, "directory; relative to /home/gem", .max = LIMIT_PATH, .path = true),
    FIELD(PAIRS, struct start_params, env, "more variables", .max = 1024),
    { 0 },
};
struct start_result {
    struct str job_id;
    int64_t pid;
};
static const struct field start_result_fields[] = {
    FIELD(STR, struct start_result, job_id, "for bash:output, bash:input, bash:interrupt, bash:kill"),
    FIELD(INT, struct start_result, pid, "process id in the box"),
    { 0 },
};

struct output_params {
    struct str job_id;
    int64_t offset, stderr_offset, wait_ms;
};
static const struct field output_fields[] = {
    FIELD(STR, struct output_params, job_id, "as bash:start returned it", .required = true, .max = 32),
    FIELD(INT, struct output_params, offset, "of stdout; without it: where the last call ended", .def = FIELD_ABSENT,
          .min = 0, .max = 1e15),
    FIELD(INT, struct output_params, stderr_offset, "the same for stderr", .def = FIELD_ABSENT, .min = 0, .max = 1e15),
    FIELD(INT, struct output_params, wait_ms, "wait so long for output or the end, if there is nothing new", .min = 0,
          .max = WAIT_MAX_MS),
    { 0 },
};
struct output_result {
    struct str job_id, status, stdout, stderr, signal;
    int64_t exit_code, offset, stderr_offset, stdout_bytes, stderr_bytes;
};
static const struct field output_result_fields[] = {
    FIELD(STR, struct output_result, job_id, "the background program"),
    FIELD(STR, struct output_result, status, "running or completed"),
    FIELD(STR, struct output_result, stdout, "new output", .always = true),
    FIELD(STR, struct output_result, stderr, "new output", .always = true),
    FIELD(INT, struct output_result, exit_code, "absent while it runs", .def = FIELD_ABSENT),
    FIELD(STR, struct output_result, signal, "name of the signal that ended it"),
    FIELD(INT, struct output_result, offset, "of stdout, behind what was returned"),
    FIELD(INT, struct output_result, stderr_offset, "of stderr, behind what was returned"),
    FIELD(INT, struct output_result, stdout_bytes, "all of it so far"),
    FIELD(INT, struct output_result, stderr_bytes, "all of it so far"),
    { 0 },
};

struct input_params {
    struct str data, job_id;
    bool eof;
    double timeout;
};
static const struct field input_fields[] = {
    FIELD(STR, struct input_params, data, "what the program reads next; include the newline", .max = LIMIT_COMMAND),
    FIELD(BOOL, struct input_params, eof, "then end its input"),
    FIELD(STR, struct input_params, job_id, "a background program; absent: the shell's command", .max = 32),
    FIELD(NUM, struct input_params, timeout, "seconds after which the command is ended", .min = 0,
          .max = LIMIT_TIMEOUT_MS / 1000),
    { 0 },
};

struct job_params {
    struct str job_id;
};
static const struct field job_fields[] = {
    FIELD(STR, struct job_params, job_id, "a background program; absent: the shell's command", .max = 32),
    { 0 },
};

struct none_params {
    bool unused; /* a struct needs a member */
};
static const struct field none_fields[] = { { 0 } };

struct shell_row {
    struct str session, status, command, cwd;
    int64_t pid;
};
static const struct field shell_row_fields[] = {
    FIELD(STR, struct shell_row, session, "name of the shell", .always = true),
    FIELD(STR, struct shell_row, status, "down, idle, running, waiting_for_input or ending"),
    FIELD(STR, struct shell_row, command, "beginning of the command under way"),
    FIELD(STR, struct shell_row, cwd, "directory", .path = true),
    FIELD(INT, struct shell_row, pid, "process id in the box"),
    { 0 },
};
struct job_row {
    struct str job_id, command, status;
    int64_t pid, exit_code, age_ms, stdout_bytes, stderr_bytes;
};
static const struct field job_row_fields[] = {
    FIELD(STR, struct job_row, job_id, "name"),
    FIELD(STR, struct job_row, command, "what was started"),
    FIELD(STR, struct job_row, status, "running or completed"),
    FIELD(INT, struct job_row, pid, "process id in the box"),
    FIELD(INT, struct job_row, exit_code, "absent while it runs", .def = FIELD_ABSENT),
    FIELD(INT, struct job_row, age_ms, "since it was started"),
    FIELD(INT, struct job_row, stdout_bytes, "all of it so far"),
    FIELD(INT, struct job_row, stderr_bytes, "all of it so far"),
    { 0 },
};
struct list_result {
    struct rows shells, jobs;
};
static const struct field list_result_fields[] = {
    FIELD(ROWS, struct list_result, shells, "persistent shells", .always = true, .rows = shell_row_fields,
          .row_size = sizeof(struct shell_row)),
    FIELD(ROWS, struct list_result, jobs, "background programs, newest first", .always = true, .rows = job_row_fields,
          .row_size = sizeof(struct job_row)),
    { 0 },
};

#ifdef IN_BOX

#include "init/init.h"
#include "init/job.h"
#include "init/program.h"
#include "init/shell.h"
#include "init/stream.h"
#include "init/task.h"

static void fail(struct task *t, const struct err *e)
{
    enum outcome o = outcome_of_err(e);

    if (e->sys == EAGAIN && e->code == ERR_SYSTEM)
        o = OUTCOME_PID_LIMIT; /* fork */
    task_fail(t, o, e);
}

static struct str signal_name(struct arena *a, int sig)
{
    const char *name = sig > 0 ? sigabbrev_np(sig) : NULL;

    return name ? str_of(arena_printf(a, "SIG%s", name)) : (struct str){ 0 };
}

static enum outcome judge(struct task *t, const struct shell_report *r, struct run_result *out, struct err *e)
{
    out->status = STR("completed");
    out->exit_code = r->exit_code;
    switch (r->end) {
    case SHELL_DONE:
        if (r->exit_code > 128 && r->exit_code < 128 + 65)
            out->signal = signal_name(&t->arena, r->exit_code - 128);
        if (r->exit_code == 0)
            return OUTCOME_OK;
        err_set(e, ERR_NONE, "exit status %d%s", r->exit_code, r->interrupted ? ", interrupted" : "");
        if (r->interrupted)
            return OUTCOME_KILLED;
        return program_disk_full(out->stderr) ? OUTCOME_DISK_FULL : OUTCOME_TASK_ERROR;
    case SHELL_WAITING:
    case SHELL_RUNNING:
        out->exit_code = FIELD_ABSENT;
        out->status = r->end == SHELL_WAITING ? STR("waiting_for_input") : STR("running");
        return OUTCOME_OK;
    case SHELL_TIMEOUT:
        out->exit_code = EXIT_TIMEOUT;
        out->status = STR("timeout");
        err_set(e, ERR_NONE, "timed out after %.3g s; the command and its children were killed",
                (double)t->call.timeout_ms / 1000);
        return OUTCOME_TIMEOUT;
    case SHELL_KILLED:
        out->exit_code = EXIT_KILLED;
        out->signal = STR("SIGKILL");
        err_set(e, ERR_NONE, "killed by request");
        return OUTCOME_KILLED;
    case SHELL_LOST:
        err_set(
            e, ERR_NONE,
            "the shell cannot run commands any more, or not say how they end (a builtin replaced or disabled, set -r, "
            "ulimit -n, a trap under extdebug?); it was replaced by a new one");
        return OUTCOME_TASK_ERROR;
    case SHELL_RUINED:
        out->exit_code = EXIT_UNRUN;
        err_set(e, ERR_NONE,
                "bash cannot be started any more (status %d), so the command did not run: it, or a library that it "
                "needs, was removed or replaced in this box",
                r->exit_code);
        return OUTCOME_TASK_ERROR;
    case SHELL_BROKEN: err_set(e, ERR_SYSTEM, "bash could not be started (status %d)", r->exit_code); break;
    }
    return OUTCOME_INFRA_ERROR;
}

static void on_shell(void *arg, const struct shell_report *r)
{
    struct task *t = arg;
    struct run_result out = { 0 };
    struct err e = { 0 };

    field_defaults(run_result_fields, &out, sizeof out);
    out.stdout = stream_text(r->out, &t->arena);
    out.stderr = stream_text(r->err, &t->arena);
    out.stdout_bytes = r->out->total;
    out.stderr_bytes = r->err->total;
    out.cwd = str_of(r->cwd);
    out.shell_exited = r->exited;
    out.shell_restarted = r->restarted;
    if (r->background->total)
        out.background = stream_text(r->background, &t->arena);
    enum outcome o = judge(t, r, &out, &e);
    out.return_code = out.exit_code;
    if (r->end == SHELL_WAITING) {
        out.prompt = stream_last_line(r->out, &t->arena);
        if (!out.prompt.n)
            out.prompt = stream_last_line(r->err, &t->arena);
    }
    if (r->end == SHELL_WAITING || r->end == SHELL_RUNNING) {
        t->flows = WIRE_FLOWS_OUT | WIRE_FLOWS_ERR;
        t->flows |= r->end == SHELL_WAITING ? WIRE_SETTLED_OUT | WIRE_SETTLED_ERR : 0;
        t->shell = t->state;
        t->report = r->number;
    }
    int64_t dropped = stream_dropped(r->out) + stream_dropped(r->err);
    if (!utf8_ok(out.stdout)) /* JSON has no place for its bytes */
        stream_keep(r->out);
    if (!utf8_ok(out.stderr))
        stream_keep(r->err);
    int fds[2] = { stream_take_memfd(r->out), stream_take_memfd(r->err) };
    out.stdout_kept = fds[0] >= 0;
    out.stderr_kept = fds[1] >= 0;
    task_finish(t, o, o == OUTCOME_OK ? NULL : &e, &out, dropped, fds);
}

static struct shell_watch watch_of(struct task *t, double timeout_s)
{
    bool plain = t->call.head_bytes == 0 && t->call.tail_bytes == 0;
    int64_t ms = timeout_s > 0 ? (int64_t)(timeout_s * 1000 + 0.999) : 0;

    if (ms > 0 && (t->call.timeout_ms == 0 || ms < t->call.timeout_ms))
        t->call.timeout_ms = ms; /* the smaller of both; the message names it */
    return (struct shell_watch){
        .timeout_ms = t->call.timeout_ms,
        .head_bytes = plain ? LIMIT_OUTPUT_HEAD : t->call.head_bytes,
        .tail_bytes = plain ? LIMIT_OUTPUT_TAIL : t->call.tail_bytes,
        .kept_bytes = t->call.kept_bytes,
        .cb = on_shell,
        .arg = t,
    };
}

static void cancel_shell(struct task *t)
{
    struct shell_watch w = watch_of(t, 0);
    (void)shell_kill(t->state, &w, NULL);
}

static int check_env(const struct pairs *env, struct err *e)
{
    for (size_t i = 0; i < env->n; i++) {
        struct str name = env->v[i].name;
        bool ok = name.n > 0 && !(name.p[0] >= '0' && name.p[0] <= '9');
        for (size_t k = 0; ok && k < name.n; k++) {
            char c = name.p[k];
            ok = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
        }
        if (!ok)
            return err_set(e, ERR_INVALID, "env: '%.*s' is not a name of a variable", STR_ARG(name));
        if (env->v[i].value.n && memchr(env->v[i].value.p, 0, env->v[i].value.n))
            return err_set(e, ERR_INVALID, "env: the value of %.*s contains a NUL byte", STR_ARG(name));
    }
    return 0;
}

static int check_cwd(struct task *t, struct str cwd, const char *base, struct err *e)
{
    struct stat st;

    if (!cwd.p)
        return 0;
    if (cwd.n == 0 || memchr(cwd.p, 0, cwd.n))
        return err_set(e, ERR_INVALID, "cwd is not a path");
    const char *path =
        cwd.p[0] == '/' ? arena_z(&t->arena, cwd) : arena_printf(&t->arena, "%s/%.*s", base, STR_ARG(cwd));
    if (stat(path, &st) < 0 || !S_ISDIR(st.st_mode))
        return err_set(e, ERR_NOT_FOUND, "cwd: no directory '%.*s'", STR_ARG(cwd));
    return 0;
}

static int check_command(struct str command, struct err *e)
{
    if (command.n && memchr(command.p, 0, command.n))
        return err_set(e, ERR_INVALID, "command contains a NUL byte");
    return 0;
}

static void run_begin(struct task *t, const void *params)
{
    const struct run_params *p = params;
    struct err e = { 0 };
    struct shell *s = shell_get(t->init, t->call.session, &e);

    if (!s || check_command(p->command, &e) < 0 || check_env(&p->env, &e) < 0 ||
        check_cwd(t, p->cwd, shell_describe(s).cwd, &e) < 0) {
        fail(t, &e);
        return;
    }
    struct shell_command c = { .text = p->command, .stdin_text = p->stdin, .cwd = p->cwd, .env = p->env };
    struct shell_watch w = watch_of(t, p->timeout);
    t->state = s;
    t->cancel = cancel_shell;
    if (shell_run(s, &c, &w, &e) < 0)
        fail(t, &e);
}

/* Once in the life of a seat: serve says it again if it cannot know whether it did before it was killed. */
static void begin_begin(struct task *t, const void *params)
{
    const struct begin_params *p = params;
    struct run_params run = { 0 };
    struct run_result out = { 0 };
    static bool given;

    if (!given) {
        given = true;
        field_defaults(run_fields, &run, sizeof run);
        run.command = p->command;
        run_begin(t, &run);
        return;
    }
    field_defaults(run_result_fields, &out, sizeof out);
    task_finish(t, OUTCOME_OK, NULL, &out, 0, NULL);
}

/* A word about a background program in the shape that bash:run has. */
static void finish_job(struct task *t, struct job *j)
{
    struct job_state s = job_describe(j);
    struct run_result out = { 0 };

    field_defaults(run_result_fields, &out, sizeof out);
    out.job_id = str_of(s.id);
    out.status = s.running ? STR("running") : STR("completed");
    out.stdout_bytes = s.out->total;
    out.stderr_bytes = s.err->total;
    if (!s.running) {
        out.exit_code = out.return_code = s.exit_code;
        out.signal = signal_name(&t->arena, s.sig);
    }
    task_finish(t, OUTCOME_OK, NULL, &out, 0, NULL);
}

static void input_begin(struct task *t, const void *params)
{
    const struct input_params *p = params;
    struct err e = { 0 };

    if (p->job_id.n) {
        struct job *j = job_find(t->init, p->job_id, &e);
        if (!j || job_input(j, p->data, p->eof, &e) < 0)
            fail(t, &e);
        else
            finish_job(t, j);
        return;
    }
    struct shell *s = shell_find(t->init, t->call.session);
    struct shell_watch w = watch_of(t, p->timeout);
    t->state = s;
    t->cancel = cancel_shell;
    if (!s)
        err_set(&e, ERR_NOT_FOUND, "no command waits for input");
    if (!s || shell_input(s, p->data, p->eof, &w, &e) < 0)
        fail(t, &e);
}

static void on_job_killed(void *arg, struct job *j)
{
    finish_job(arg, j);
}

static void forget_job(struct task *t)
{
    struct err e;

    job_unwait(t->init, t);
    err_set(&e, ERR_NONE, "cancelled");
    task_fail(t, OUTCOME_KILLED, &e);
}

static void signal_job(struct task *t, struct str id, int sig)
{
    struct err e = { 0 };
    struct job *j = job_find(t->init, id, &e);

    if (!j) {
        fail(t, &e);
        return;
    }
    job_signal(j, sig);
    if (!job_describe(j).running) {
        finish_job(t, j);
        return;
    }
    t->cancel = forget_job;
    job_wait(j, LINGER_MS, true, on_job_killed, t);
}

static void signal_begin(struct task *t, const struct job_params *p, int sig)
{
    struct err e = { 0 };

    if (p->job_id.n) {
        signal_job(t, p->job_id, sig);
        return;
    }
    struct shell *s = shell_find(t->init, t->call.session);
    struct shell_watch w = watch_of(t, LINGER_MS / 1000.0);
    int r = -ENOENT;

    w.let_run = true;
    t->state = s;
    if (!s)
        err_set(&e, ERR_NOT_FOUND, "the shell runs nothing");
    else
        r = sig == SIGINT ? shell_interrupt(s, &w, &e) : shell_kill(s, &w, &e);
    if (r < 0) {
        fail(t, &e);
    } else if (r > 0) { /* the call that waits for the command will say how it ended */
        struct run_result out = { 0 };
        field_defaults(run_result_fields, &out, sizeof out);
        out.status = STR("running");
        task_finish(t, OUTCOME_OK, NULL, &out, 0, NULL);
    }
}

static void interrupt_begin(struct task *t, const void *params)
{
    signal_begin(t, params, SIGINT);
}

static void kill_begin(struct task *t, const void *params)
{
    signal_begin(t, params, SIGKILL);
}

static void on_started(void *arg, struct job *j)
{
    struct task *t = arg;
    struct start_result out = { .job_id = str_of(job_describe(j).id), .pid = job_describe(j).pid };
    struct err e = { 0 };

    if (out.pid < 0) {
        errno = EAGAIN;
        err_sys(&e, "start background program %s", job_describe(j).id);
        fail(t, &e);
        return;
    }
    task_finish(t, OUTCOME_OK, NULL, &out, 0, NULL);
}

static void start_begin(struct task *t, const void *params)
{
    const struct start_params *p = params;
    const char *home = init_workspace(t->init), *cwd = home;
    struct err e = { 0 };

    if (p->cwd.n)
        cwd =
            p->cwd.p[0] == '/' ? arena_z(&t->arena, p->cwd) : arena_printf(&t->arena, "%s/%.*s", home, STR_ARG(p->cwd));
    struct job *j = NULL;
    if (check_command(p->command, &e) == 0 && check_env(&p->env, &e) == 0 && check_cwd(t, p->cwd, home, &e) == 0)
        j = job_start(t->init, p->command, cwd, &p->env, &e);
    if (!j) {
        fail(t, &e);
        return;
    }
    t->cancel = forget_job;
    job_on_started(j, on_started, t);
}

static void finish_output(void *arg, struct job *j)
{
    struct task *t = arg;
    const struct output_params *p = t->state;
    struct job_state s = job_describe(j);
    int64_t room = t->call.head_bytes + t->call.tail_bytes;
    struct output_result out = { 0 };

    if (room <= 0)
        room = LIMIT_OUTPUT_HEAD + LIMIT_OUTPUT_TAIL;
    field_defaults(output_result_fields, &out, sizeof out);
    out.job_id = str_of(s.id);
    out.status = s.running ? STR("running") : STR("completed");
    out.stdout_bytes = s.out->total;
    out.stderr_bytes = s.err->total;
    out.offset = p->offset == FIELD_ABSENT ? s.out->read_to : p->offset;
    out.stderr_offset = p->stderr_offset == FIELD_ABSENT ? s.err->read_to : p->stderr_offset;
    out.stdout = spool_read(s.out, &out.offset, (size_t)room, &t->arena);
    out.stderr = spool_read(s.err, &out.stderr_offset, (size_t)room, &t->arena);
    s.out->read_to = out.offset;
    s.err->read_to = out.stderr_offset;
    job_piece(j, t, out.offset, out.stderr_offset);
    if (!s.running) {
        out.exit_code = s.exit_code;
        out.signal = signal_name(&t->arena, s.sig);
    }
    task_finish(t, OUTCOME_OK, NULL, &out, 0, NULL);
}

static void output_begin(struct task *t, const void *params)
{
    const struct output_params *p = params;
    struct err e = { 0 };
    struct job *j = job_find(t->init, p->job_id, &e);

    if (!j) {
        fail(t, &e);
        return;
    }
    struct job_state s = job_describe(j);
    int64_t from = p->offset == FIELD_ABSENT ? s.out->read_to : p->offset;
    int64_t err_from = p->stderr_offset == FIELD_ABSENT ? s.err->read_to : p->stderr_offset;
    t->state = (void *)params;
    int64_t wait_ms = job_patience(j, from, err_from, p->wait_ms);
    if (wait_ms <= 0) {
        finish_output(t, j);
        return;
    }
    t->cancel = forget_job;
    job_wait(j, wait_ms, false, finish_output, t);
}

static void list_begin(struct task *t, const void *params)
{
    struct list_result out = { 0 };
    size_t shells = 0, jobs = 0;

    (void)params;
    for (struct shell *s = NULL; (s = shell_next(t->init, s));)
        shells++;
    for (struct job *j = NULL; (j = job_next(t->init, j));)
        jobs++;
    struct shell_row *rows = arena_alloc(&t->arena, (shells + 1) * sizeof *rows);
    struct job_row *job_rows = arena_alloc(&t->arena, (jobs + 1) * sizeof *job_rows);
    for (struct shell *s = NULL; (s = shell_next(t->init, s));) {
        struct shell_info i = shell_describe(s);
        rows[out.shells.n++] = (struct shell_row){ .session = str_of(i.name),
                                                   .status = str_of(i.state),
                                                   .command = str_of(i.command),
                                                   .cwd = str_of(i.cwd),
                                                   .pid = i.pid };
    }
    for (struct job *j = NULL; (j = job_next(t->init, j));) {
        struct job_state s = job_describe(j);
        job_rows[out.jobs.n++] = (struct job_row){
            .job_id = str_of(s.id),
            .command = str_of(s.command),
            .pid = s.pid,
            .status = s.running ? STR("running") : STR("completed"),
            .exit_code = s.running ? FIELD_ABSENT : s.exit_code,
            .age_ms = (now_us() - s.started_us) / 1000,
            .stdout_bytes = s.out->total,
            .stderr_bytes = s.err->total,
        };
    }
    out.shells.v = rows;
    out.jobs.v = job_rows;
    task_finish(t, OUTCOME_OK, NULL, &out, 0, NULL);
}

#endif

static const struct tool bash_tools[] = {
    { .name = "bash:run",
      .title = "Run a command",
      .help = "Runs a command in a persistent bash. Directory, variables and functions stay for the next call.",
      .flags = TOOL_NEEDS_BOX,
      .params = run_fields,
      .params_size = sizeof(struct run_params),
      .result = run_result_fields,
      .result_size = sizeof(struct run_result),
      .begin = BOX_CODE(run_begin) },
    { .name = "bash:input",
      .title = "Answer a prompt",
      .help = "Gives input to a command that is waiting for it, or to a background program.",
      .flags = TOOL_NEEDS_BOX,
      .params = input_fields,
      .params_size = sizeof(struct input_params),
      .result = run_result_fields,
      .result_size = sizeof(struct run_result),
      .begin = BOX_CODE(input_begin) },
    { .name = "bash:interrupt",
      .title = "Interrupt",
      .help = "Sends SIGINT, as control-C would.",
      .flags = TOOL_NEEDS_BOX | TOOL_PARALLEL,
      .params = job_fields,
      .params_size = sizeof(struct job_params),
      .result = run_result_fields,
      .result_size = sizeof(struct run_result),
      .begin = BOX_CODE(interrupt_begin) },
    { .name = "bash:kill",
      .title = "Kill",
      .help = "Kills the command under way, or a background program, with all "
              "its children.",
      .flags = TOOL_NEEDS_BOX | TOOL_PARALLEL,
      .params = job_fields,
      .params_size = sizeof(struct job_params),
      .result = run_result_fields,
      .result_size = sizeof(struct run_result),
      .begin = BOX_CODE(kill_begin) },
    { .name = "bash:start",
      .title = "Start in the background",
      .help = "Starts a program that goes on while other commands run, such as a server.",
      .flags = TOOL_NEEDS_BOX,
      .params = start_fields,
      .params_size = sizeof(struct start_params),
      .result = start_result_fields,
      .result_size = sizeof(struct start_result),
      .begin = BOX_CODE(start_begin) },
    { .name = "bash:output",
      .title = "Output of a background program",
      .help = "Returns what a background program wrote since the last call, and whether it still runs.",
      .flags = TOOL_NEEDS_BOX | TOOL_PARALLEL,
      .params = output_fields,
      .params_size = sizeof(struct output_params),
      .result = output_result_fields,
      .result_size = sizeof(struct output_result),
      .begin = BOX_CODE(output_begin) },
    { .name = "bash:list",
      .title = "List shells and background programs",
      .help = "Lists what is running.",
      .flags = TOOL_NEEDS_BOX | TOOL_PARALLEL | TOOL_READ_ONLY | TOOL_IDEMPOTENT,
      .params = none_fields,
      .params_size = sizeof(struct none_params),
      .result = list_result_fields,
      .result_size = sizeof(struct list_result),
      .begin = BOX_CODE(list_begin) },
    { .name = "bash:begin",
      .title = "Begin where another shell was",
      .help = "In a box that was made from a state, before the first command.",
      .flags = TOOL_NEEDS_BOX | TOOL_HIDDEN,
      .params = begin_fields,
      .params_size = sizeof(struct begin_params),
      .result = run_result_fields,
      .result_size = sizeof(struct run_result),
      .begin = BOX_CODE(begin_begin) },
};

/* --- a session's config --- */

static void quote(struct buf *b, struct str s)
{
    buf_char(b, '\'');
    for (size_t i = 0; i < s.n; i++)
        s.p[i] == '\'' ? buf_z(b, "'\\''") : buf_char(b, s.p[i]);
    buf_char(b, '\'');
}

static bool is_name(struct str s)
{
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (i && c >= '0' && c <= '9')))
            return false;
    }
    return s.n > 0;
}

/* cwd and env of the config become the first command of the shell: whatever it does lasts. */
static void *bash_prepare(struct arena *a, const struct json *config, struct err *e)
{
    struct run_params *p = arena_alloc(a, sizeof *p);
    const struct json *cwd = json_get(config, "cwd"), *env = json_get(config, "env");
    struct buf b;

    *e = (struct err){ 0 };
    if ((cwd && cwd->type != JSON_STR && cwd->type != JSON_NULL) ||
        (env && env->type != JSON_OBJ && env->type != JSON_NULL)) {
        err_set(e, ERR_TYPE, "session_config: cwd must be a string, env an object of strings");
        return NULL;
    }
    buf_init(&b, LIMIT_COMMAND);
    if (cwd && cwd->s.n) {
        buf_z(&b, "cd -- ");
        quote(&b, cwd->s);
    }
    for (const struct json *v = env ? env->first : NULL; v; v = v->next) {
        if (v->type != JSON_STR || !is_name(v->name)) {
            err_set(e, ERR_TYPE, "session_config.env.%.*s: needs a shell name and a string", STR_ARG(v->name));
            buf_done(&b);
            return NULL;
        }
        buf_printf(&b, "%sexport %.*s=", b.n ? " && " : "", STR_ARG(v->name));
        quote(&b, v->s);
    }
    field_defaults(run_fields, p, sizeof *p);
    p->command = arena_copy(a, buf_view(&b));
    bool full = b.full;
    buf_done(&b);
    if (full)
        err_set(e, ERR_LIMIT, "session_config: cwd and env exceed LIMIT_COMMAND (%ld bytes)", LIMIT_COMMAND);
    return full || !p->command.n ? NULL : p;
}

const struct backend backend_bash = {
    .name = "bash",
    .help = "A persistent shell.",
    .kind = KIND_SESSION,
    .tools = bash_tools,
    .tool_count = ARRAY_LEN(bash_tools),
    .prepare = bash_prepare,
    .prepare_with = "bash:run",
    /* Read-only variables of bash itself are refused on the way back, which is harmless. What is the other shell's own is
     * not taken along: RANDOM would seed all copies alike, HOSTNAME is the box's name. */
    .save_script = "declare -p; echo 'RANDOM=$SRANDOM; [[ $HOSTNAME != b-* ]] || read -r HOSTNAME"
                   " </proc/sys/kernel/hostname'; declare -f; alias -p; set +o; shopt -p; umask -p; "
                   "printf 'cd -- %q\\n' \"$PWD\"; [[ ! -v OLDPWD ]] || printf 'OLDPWD=%q\\n' \"$OLDPWD\"; "
                   "[[ $# == 0 ]] || { printf 'set --'; printf ' %q' \"$@\"; echo; }; trap",
    .begin_with = "bash:begin",
};

/* Commands with a process of their own and separate stdout and stderr, as the AIO surface's bash has them. A session is
 * where they begin; nothing that one command does to its shell is seen by the next. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/limits.h"
#include "tool/tool.h"

enum { OUTPUT_DEFAULT = 50000, WAIT_MAX_S = 24 * 3600, COMMAND_MAX = 128 * 1024 - 64 };

#define STATUSES            "pending|running|completed|timed_out|killed"
#define SESSION_FIELD(type) FIELD(STR, type, session_id, "the session", .required = true, .max = 128)

struct launch_params {
    struct str session_id, command, exec_dir;
    struct pairs env;
    bool async_mode;
    double timeout, hard_timeout;
    int64_t max_output_length;
};
static const struct field launch_fields[] = {
    FIELD(STR, struct launch_params, session_id, "the session; one that does not exist is made", .max = 128),
    FIELD(STR, struct launch_params, command, "what bash executes", .required = true, .max = COMMAND_MAX),
    FIELD(STR, struct launch_params, exec_dir, "directory, also of later commands of the session", .max = LIMIT_PATH,
          .path = true),
    FIELD(PAIRS, struct launch_params, env, "variables for this command", .max = 1024),
    FIELD(BOOL, struct launch_params, async_mode, "do not wait for it"),
    FIELD(NUM, struct launch_params, timeout, "seconds to wait; then the answer is running, and it goes on", .min = 0,
          .max = WAIT_MAX_S),
    FIELD(NUM, struct launch_params, hard_timeout, "seconds after which it is killed", .min = 0, .max = WAIT_MAX_S),
    FIELD(INT, struct launch_params, max_output_length,
          "characters of each stream in the answer; 0: no limit of its own", .def = OUTPUT_DEFAULT, .min = 0,
          .max = LIMIT_OUTPUT_KEPT),
    { 0 },
};
struct launch_result {
    struct str session_id, command_id, command, status, stdout, stderr;
    int64_t exit_code, offset, stderr_offset;
};
static const struct field launch_result_fields[] = {
    FIELD(STR, struct launch_result, session_id, "for the next call", .required = true),
    FIELD(STR, struct launch_result, command_id, "of this command", .required = true),
    FIELD(STR, struct launch_result, command, "as given", .required = true, .always = true),
    FIELD(STR, struct launch_result, status, "how it stands", .required = true, .choices = STATUSES),
    FIELD(STR, struct launch_result, stdout, "so far; its middle is left out if it is long", .nullable = true,
          .always = true),
    FIELD(STR, struct launch_result, stderr, "the same", .nullable = true, .always = true),
    FIELD(INT, struct launch_result, exit_code, "once it ended; of a signal: its negative number", .def = FIELD_ABSENT,
          .nullable = true),
    FIELD(INT, struct launch_result, offset, "bytes of stdout so far"),
    FIELD(INT, struct launch_result, stderr_offset, "bytes of stderr so far"),
    { 0 },
};

struct follow_params {
    struct str session_id, command_id;
    int64_t offset, stderr_offset;
    bool wait;
    double wait_timeout;
};
static const struct field follow_fields[] = {
    SESSION_FIELD(struct follow_params),
    FIELD(STR, struct follow_params, command_id, "absent: the newest", .max = 32),
    FIELD(INT, struct follow_params, offset, "of stdout", .min = 0, .max = 1e15),
    FIELD(INT, struct follow_params, stderr_offset, "of stderr", .min = 0, .max = 1e15),
    FIELD(BOOL, struct follow_params, wait, "until there is something new"),
    FIELD(NUM, struct follow_params, wait_timeout, "at most so many seconds", .def_num = 30, .min = 0,
          .max = WAIT_MAX_S),
    { 0 },
};
struct info_row {
    struct str command_id, command, status;
    int64_t exit_code;
};
static const struct field info_fields[] = {
    FIELD(STR, struct info_row, command_id, "its name", .required = true),
    FIELD(STR, struct info_row, command, "as given", .required = true, .always = true),
    FIELD(STR, struct info_row, status, "how it stands", .required = true, .choices = STATUSES),
    FIELD(INT, struct info_row, exit_code, "once it ended", .def = FIELD_ABSENT, .nullable = true),
    { 0 },
};
struct follow_result {
    struct str session_id, stdout, stderr, command;
    int64_t offset, stderr_offset;
};
static const struct field follow_result_fields[] = {
    FIELD(STR, struct follow_result, session_id, "the session", .required = true),
    FIELD(STR, struct follow_result, stdout, "new output", .always = true),
    FIELD(STR, struct follow_result, stderr, "new output", .always = true),
    FIELD(INT, struct follow_result, offset, "of stdout, behind what was returned"),
    FIELD(INT, struct follow_result, stderr_offset, "of stderr, behind what was returned"),
    FIELD(JSON, struct follow_result, command, "how it stands", .nullable = true, .rows = info_fields),
    { 0 },
};

struct feed_params {
    struct str session_id, command_id, input;
    bool eof;
};
static const struct field feed_fields[] = {
    SESSION_FIELD(struct feed_params),
    FIELD(STR, struct feed_params, command_id, "absent: the newest", .max = 32),
    FIELD(STR, struct feed_params, input, "what it reads next", .required = true, .max = LIMIT_COMMAND),
    FIELD(BOOL, struct feed_params, eof, "then end its input"),
    { 0 },
};
struct signal_params {
    struct str session_id, command_id, signal;
};
static const struct field signal_fields[] = {
    SESSION_FIELD(struct signal_params),
    FIELD(STR, struct signal_params, command_id, "absent: the newest", .max = 32),
    FIELD(STR, struct signal_params, signal, "SIGTERM, SIGKILL or SIGINT", .def_str = "SIGTERM",
          .choices = "SIGTERM|SIGKILL|SIGINT"),
    { 0 },
};

struct session_row {
    struct str session_id, status, working_dir, current_command;
    double created_at, last_used_at;
    int64_t command_count;
};
static const struct field session_fields[] = {
    FIELD(STR, struct session_row, session_id, "its name", .required = true),
    FIELD(STR, struct session_row, status, "ready or closed", .required = true),
    FIELD(STR, struct session_row, working_dir, "where commands begin", .required = true, .path = true),
    FIELD(NUM, struct session_row, created_at, "seconds since 1970", .required = true),
    FIELD(NUM, struct session_row, last_used_at, "the same", .required = true),
    FIELD(STR, struct session_row, current_command, "under way", .nullable = true),
    FIELD(INT, struct session_row, command_count, "so far"),
    { 0 },
};
struct begin_params {
    struct str session_id, exec_dir, snapshot_path;
};
static const struct field begin_fields[] = {
    FIELD(STR, struct begin_params, session_id, "its name; one that exists is returned as it is", .max = 128),
    FIELD(STR, struct begin_params, exec_dir, "where commands begin", .max = LIMIT_PATH, .path = true),
    FIELD(STR, struct begin_params, snapshot_path, "a file that bash sources before each command", .max = LIMIT_PATH,
          .path = true),
    { 0 },
};
struct end_params {
    struct str session_id;
};
static const struct field end_fields[] = { SESSION_FIELD(struct end_params), { 0 } };
struct list_params {
    bool unused;
};
static const struct field list_fields[] = { { 0 } };
struct list_result {
    struct rows sessions;
};
static const struct field list_result_fields[] = {
    FIELD(ROWS, struct list_result, sessions, "newest first", .always = true, .rows = session_fields,
          .row_size = sizeof(struct session_row)),
    { 0 },
};

#ifdef IN_BOX

#include "init/init.h"
#include "init/runs.h"
#include "init/task.h"
#include "tool/ends.h"

struct following { /* a task's state */
    const void *params;
    struct run *run;
};

static void fail(struct task *t, const struct err *e)
{
    task_fail(t, e->code == ERR_SYSTEM && e->sys == EAGAIN ? OUTCOME_PID_LIMIT : outcome_of_err(e), e);
}

static struct run_session *find(struct task *t, struct str id)
{
    struct run_session *s = run_session_find(t->init, id);
    struct err e;

    if (!s) {
        err_set(&e, ERR_NOT_FOUND, "Session not found: %.*s", STR_ARG(id));
        fail(t, &e);
    }
    return s;
}

static struct run *find_run(struct task *t, struct str session, struct str id)
{
    struct run_session *s = find(t, session);
    struct run *r = s ? run_find(s, id) : NULL;
    struct err e;

    if (s && !r) {
        err_set(&e, ERR_NOT_FOUND, "session %s has no %s%.*s", s->id, id.n ? "command " : "commands", STR_ARG(id));
        fail(t, &e);
    }
    return r;
}

static struct str status_of(const struct run *r)
{
    switch (r->status) {
    case RUN_RUNNING: return STR("running");
    case RUN_COMPLETED: return STR("completed");
    case RUN_TIMED_OUT: return STR("timed_out");
    case RUN_KILLED: return STR("killed");
    }
    return STR("completed");
}

static int64_t exit_of(const struct run *r)
{
    return r->status == RUN_RUNNING ? FIELD_ABSENT : r->exit_code;
}

static void on_cancel(struct task *t)
{
    struct following *f = t->state;
    struct err e;

    job_unwait(t->init, t);
    run_drop(f->run);
    err_set(&e, ERR_NONE, "cancelled; the command goes on");
    task_fail(t, OUTCOME_KILLED, &e);
}

static struct str both_ends(struct task *t, const struct spool *s, int64_t max, int64_t *dropped)
{
    int64_t all =
        max == 0 || max > LIMIT_OUTPUT_KEPT / 4 ? LIMIT_OUTPUT_KEPT : max * 4; /* bytes of so many characters */
    int64_t from = 0, at = s->total - all / 2;

    if (max == 0)
        max = LIMIT_OUTPUT_KEPT;
    if (s->total <= all)
        return ends_of(&t->arena, spool_read(s, &from, (size_t)all, &t->arena), (size_t)max, dropped);
    struct str head = spool_read(s, &from, (size_t)(all / 2), &t->arena);
    struct str tail = spool_read(s, &at, (size_t)(all / 2), &t->arena);
    head.n = ends_first(head, (size_t)(max - max / 2));
    size_t n = ends_last(tail, (size_t)(max / 2));
    tail = (struct str){ tail.p + tail.n - n, n };
    int64_t omitted = s->total - (int64_t)(head.n + tail.n);
    *dropped += omitted;
    return ends_join(&t->arena, head, omitted, tail);
}

static void finish_launch(void *arg, struct job *j)
{
    struct task *t = arg;
    struct following *f = t->state;
    const struct launch_params *p = f->params;
    struct launch_result out = { 0 };
    struct err e = { 0 };
    int64_t dropped = 0;

    run_look(f->run);
    struct job_state s = job_describe(j);
    out.session_id = str_of(f->run->session->id);
    out.command_id = str_of(f->run->id);
    out.command = p->command;
    out.status = status_of(f->run);
    out.exit_code = exit_of(f->run);
    out.offset = s.out->total;
    out.stderr_offset = s.err->total;
    out.stdout = both_ends(t, s.out, p->max_output_length, &dropped);
    out.stderr = both_ends(t, s.err, p->max_output_length, &dropped);
    job_piece(j, t, out.offset, out.stderr_offset);
    enum outcome o = f->run->status == RUN_TIMED_OUT                             ? OUTCOME_TIMEOUT
                     : f->run->status == RUN_KILLED                              ? OUTCOME_KILLED
                     : f->run->status == RUN_COMPLETED && f->run->exit_code != 0 ? OUTCOME_TASK_ERROR
                                                                                 : OUTCOME_OK;
    if (o != OUTCOME_OK)
        err_set(&e, ERR_NONE, "exit status %d", f->run->exit_code);
    task_finish(t, o, o == OUTCOME_OK ? NULL : &e, &out, dropped, NULL);
    run_drop(f->run);
}

static int check_env(const struct pairs *env, struct err *e)
{
    for (size_t i = 0; i < env->n; i++) {
        struct str name = env->v[i].name, value = env->v[i].value;
        if (!name.n || memchr(name.p, '=', name.n) || memchr(name.p, 0, name.n))
            return err_set(e, ERR_INVALID, "env: '%.*s' is not a name of a variable", STR_ARG(name));
        if (value.n && memchr(value.p, 0, value.n))
            return err_set(e, ERR_INVALID, "env: the value of %.*s contains a NUL byte", STR_ARG(name));
    }
    return 0;
}

static int set_dir(struct task *t, struct run_session *s, struct str dir, struct err *e)
{
    if (!dir.n && init_check_dir(t->init, s->cwd) < 0)
        return err_set(e, ERR_INVALID, "exec_dir: the session's directory is gone: %s; name another", s->cwd);
    if (!dir.n)
        return 0;
    const char *z =
        dir.p[0] == '/' ? arena_z(&t->arena, dir) : arena_printf(&t->arena, "%s/%.*s", s->cwd, STR_ARG(dir));
    int r = memchr(dir.p, 0, dir.n) ? -ENOENT : init_check_dir(t->init, z);
    if (r == -ENOENT)
        return err_set(e, ERR_INVALID, "exec_dir: Directory does not exist: %.*s", STR_ARG(dir));
    if (r < 0)
        return err_set(e, ERR_INVALID, "exec_dir: %.*s: %s", STR_ARG(dir), strerror(-r));
    run_session_set(&s->cwd, str_of(z));
    return 0;
}

static int64_t to_ms(double s)
{
    return (int64_t)(s * 1000 + 0.5);
}

static void launch_begin(struct task *t, const void *params)
{
    const struct launch_params *p = params;
    struct following *f = arena_alloc(&t->arena, sizeof *f);
    struct err e = { 0 };

    if (memchr(p->command.p, 0, p->command.n))
        err_set(&e, ERR_INVALID, "command contains a NUL byte");
    else
        (void)check_env(&p->env, &e);
    struct run_session *s = e.code ? NULL : run_session_open(t->init, p->session_id, &e);
    if (s && set_dir(t, s, p->exec_dir, &e) == 0)
        f->run = run_start(s, p->command, &p->env, to_ms(p->hard_timeout), &e);
    if (!f->run) {
        fail(t, &e);
        return;
    }
    f->params = p;
    t->state = f;
    t->cancel = on_cancel;
    run_hold(f->run);
    struct job *j = run_job(f->run);
    if (p->async_mode) {
        job_expect(j);
        finish_launch(t, j);
        return;
    }
    int64_t ms = p->timeout > 0 ? to_ms(p->timeout) : INT64_MAX / 1000000;
    if (t->call.timeout_ms > 0 && ms > t->call.timeout_ms)
        ms = t->call.timeout_ms;
    job_wait(j, ms, true, finish_launch, t);
}

static void finish_follow(void *arg, struct job *j)
{
    struct task *t = arg;
    struct following *f = t->state;
    const struct follow_params *p = f->params;
    struct follow_result out = { .offset = p->offset, .stderr_offset = p->stderr_offset };
    AUTO(buf_done) struct buf b = { .cap = LIMIT_FRAME };
    struct jw w = { .out = &b };

    run_look(f->run);
    out.session_id = str_of(f->run->session->id);
    out.stdout = out.stderr = STR("");
    if (j) {
        struct job_state s = job_describe(j);
        out.stdout = spool_read(s.out, &out.offset, LIMIT_OUTPUT_KEPT, &t->arena);
        out.stderr = spool_read(s.err, &out.stderr_offset, LIMIT_OUTPUT_KEPT, &t->arena);
        job_piece(j, t, out.offset, out.stderr_offset);
    }
    struct info_row row = { .command_id = str_of(f->run->id),
                            .command = str_of(f->run->command),
                            .status = status_of(f->run),
                            .exit_code = exit_of(f->run) };
    jw_obj(&w);
    field_print(info_fields, &row, &w);
    jw_obj_end(&w);
    out.command = buf_view(&b);
    task_finish(t, OUTCOME_OK, NULL, &out, 0, NULL);
    run_drop(f->run);
}

static void follow_begin(struct task *t, const void *params)
{
    const struct follow_params *p = params;
    struct following *f = arena_alloc(&t->arena, sizeof *f);
    struct run_session *session = find(t, p->session_id);

    if (!session)
        return;
    if (!session->runs && !p->command_id.n) {
        struct follow_result out = { .session_id = p->session_id, .stdout = STR(""), .stderr = STR("") };
        task_finish(t, OUTCOME_OK, NULL, &out, 0, NULL);
        return;
    }
    *f = (struct following){ p, find_run(t, p->session_id, p->command_id) };
    t->state = f;
    if (!f->run)
        return;
    run_hold(f->run);
    struct job *j = run_job(f->run);
    int64_t wait_ms = j && p->wait ? job_patience(j, p->offset, p->stderr_offset, to_ms(p->wait_timeout)) : 0;
    if (wait_ms <= 0) {
        finish_follow(t, j);
        return;
    }
    t->cancel = on_cancel;
    job_wait(j, wait_ms, false, finish_follow, t);
}

static void finish_info(struct task *t, struct run *r)
{
    run_look(r);
    struct info_row row = {
        .command_id = str_of(r->id), .command = str_of(r->command), .status = status_of(r), .exit_code = exit_of(r)
    };
    task_finish(t, OUTCOME_OK, NULL, &row, 0, NULL);
}

static void feed_begin(struct task *t, const void *params)
{
    const struct feed_params *p = params;
    struct run *r = find_run(t, p->session_id, p->command_id);
    struct err e = { 0 };

    if (!r)
        return;
    struct job *j = run_job(r);
    if (!j)
        err_set(&e, ERR_NOT_FOUND, "command %s has ended", r->id);
    if (!j || job_input(j, p->input, p->eof, &e) < 0)
        fail(t, &e);
    else
        finish_info(t, r);
}

static void on_signalled(void *arg, struct job *j)
{
    struct task *t = arg;
    struct following *f = t->state;

    (void)j;
    finish_info(t, f->run);
    run_drop(f->run);
}

static void signal_begin(struct task *t, const void *params)
{
    const struct signal_params *p = params;
    struct run *r = find_run(t, p->session_id, p->command_id);
    struct err e = { 0 };

    if (!r)
        return;
    int sig = str_is(p->signal, "SIGKILL") ? SIGKILL : str_is(p->signal, "SIGINT") ? SIGINT : SIGTERM;
    if (r->status != RUN_RUNNING) { /* it has ended: nothing to do */
        finish_info(t, r);
        return;
    }
    if (run_signal(r, sig, &e) < 0) {
        fail(t, &e);
        return;
    }
    struct following *f = arena_alloc(&t->arena, sizeof *f);
    *f = (struct following){ p, r };
    t->state = f;
    t->cancel = on_cancel;
    run_hold(r);
    job_wait(run_job(r), 2000, true, on_signalled, t);
}

static struct session_row row_of(struct run_session *s)
{
    const char *current = NULL;

    for (struct run *r = s->runs; r && !current; r = r->next) {
        run_look(r);
        if (r->status == RUN_RUNNING)
            current = r->command;
    }
    return (struct session_row){ .session_id = str_of(s->id),
                                 .status = STR("ready"),
                                 .working_dir = str_of(s->cwd),
                                 .created_at = (double)s->created_us / 1e6,
                                 .last_used_at = (double)s->last_us / 1e6,
                                 .current_command = str_of(current),
                                 .command_count = s->count };
}

/* Bash says nothing of a file that is not there, and would look for a relative one where each command begins. */
static int check_snapshot(struct task *t, struct str path, struct err *e)
{
    if (!path.n)
        return 0;
    if (path.p[0] != '/')
        return err_set(e, ERR_TYPE, "snapshot_path: not an absolute path: %.*s", STR_ARG(path));
    int r = init_check_file(t->init, arena_z(&t->arena, path));
    if (r == -ENOENT)
        return err_set(e, ERR_INVALID, "snapshot_path: File does not exist: %.*s", STR_ARG(path));
    return r < 0 ? err_set(e, ERR_INVALID, "snapshot_path: %.*s: %s", STR_ARG(path), strerror(-r)) : 0;
}

static void begin_begin(struct task *t, const void *params)
{
    const struct begin_params *p = params;
    struct err e = { 0 };

    if ((p->session_id.n && memchr(p->session_id.p, 0, p->session_id.n)) ||
        (p->snapshot_path.n && memchr(p->snapshot_path.p, 0, p->snapshot_path.n)))
        err_set(&e, ERR_INVALID, "session_id or snapshot_path contains a NUL byte");
    else
        (void)check_snapshot(t, p->snapshot_path, &e);
    struct run_session *s = e.code ? NULL : run_session_open(t->init, p->session_id, &e);
    if (s && set_dir(t, s, p->exec_dir, &e) == 0) {
        if (p->snapshot_path.n)
            run_session_set(&s->snapshot, p->snapshot_path);
        struct session_row row = row_of(s);
        task_finish(t, OUTCOME_OK, NULL, &row, 0, NULL);
        return;
    }
    fail(t, &e);
}

static void end_begin(struct task *t, const void *params)
{
    const struct end_params *p = params;
    struct run_session *s = find(t, p->session_id);

    if (!s)
        return;
    struct session_row row = row_of(s);
    row.session_id = arena_copy(&t->arena, row.session_id);
    row.working_dir = arena_copy(&t->arena, row.working_dir);
    row.status = STR("closed");
    row.current_command = (struct str){ 0 };
    run_session_close(s);
    task_finish(t, OUTCOME_OK, NULL, &row, 0, NULL);
}

static void list_begin(struct task *t, const void *params)
{
    struct list_result out = { 0 };
    size_t n = 0;

    (void)params;
    for (struct run_session *s = t->init->run_sessions; s; s = s->next)
        n++;
    struct session_row *rows = arena_alloc(&t->arena, (n + 1) * sizeof *rows);
    for (struct run_session *s = t->init->run_sessions; s; s = s->next)
        rows[out.sessions.n++] = row_of(s);
    out.sessions.v = rows;
    task_finish(t, OUTCOME_OK, NULL, &out, 0, NULL);
}

#endif

enum { RUNS = TOOL_NEEDS_BOX | TOOL_PARALLEL, LOOK = RUNS | TOOL_READ_ONLY | TOOL_IDEMPOTENT };

#define ROW(verb, params_, params_type, result_, result_type)                                                          \
    .params = params_, .params_size = sizeof(struct params_type), .result = result_,                                   \
    .result_size = sizeof(struct result_type), .begin = BOX_CODE(verb##_begin)

static const struct tool command_tools[] = {
    { .name = "command:launch",
      .title = "Run a command in a fresh process",
      .help = "Runs a command in a bash of its own, with separate stdout and stderr, and waits for it if asked.",
      .flags = RUNS,
      ROW(launch, launch_fields, launch_params, launch_result_fields, launch_result) },
    { .name = "command:follow",
      .title = "Output of a launched command",
      .help = "Returns output from an offset on, and how the command stands.",
      .flags = LOOK,
      ROW(follow, follow_fields, follow_params, follow_result_fields, follow_result) },
    { .name = "command:feed",
      .title = "Input for a launched command",
      .help = "Writes to the command's stdin, and ends it if asked.",
      .flags = RUNS,
      ROW(feed, feed_fields, feed_params, info_fields, info_row) },
    { .name = "command:signal",
      .title = "Signal a launched command",
      .help = "Sends a signal to the command and its children.",
      .flags = RUNS,
      ROW(signal, signal_fields, signal_params, info_fields, info_row) },
    { .name = "command:begin",
      .title = "Make a session for commands",
      .help = "A session is where commands begin, and what is sourced before them.",
      .flags = RUNS | TOOL_IDEMPOTENT,
      ROW(begin, begin_fields, begin_params, session_fields, session_row) },
    { .name = "command:end",
      .title = "Close a session of commands",
      .help = "Kills what runs in it.",
      .flags = RUNS,
      ROW(end, end_fields, end_params, session_fields, session_row) },
    { .name = "command:sessions",
      .title = "List sessions of commands",
      .help = "All that there are.",
      .flags = LOOK,
      ROW(list, list_fields, list_params, list_result_fields, list_result) },
};

const struct backend backend_command = {
    .name = "command",
    .help = "Commands in processes of their own.",
    .kind = KIND_SESSION,
    .tools = command_tools,
    .tool_count = ARRAY_LEN(command_tools),
    .full_names = true,
};

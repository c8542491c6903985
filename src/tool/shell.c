/* Shells by name on pseudo terminals, as the AIO surface has them: commands wait for each other, a call stops waiting
 * by one of three clocks, and what was run is remembered as a console. The machinery is init/terminal.h. */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/limits.h"
#include "tool/tool.h"

enum { SHORT_OUTPUT = 30000, ACTIVE_US = 300 * 1000000, WAIT_MAX_S = 24 * 3600 };

#define STATUSES       "running|completed|no_change_timeout|hard_timeout|terminated"
#define ID_FIELD(type) FIELD(STR, type, id, "the session", .required = true, .max = 128, .alias = "session_id")

struct console_row {
    struct str ps1, command, output;
};
static const struct field console_fields[] = {
    FIELD(STR, struct console_row, ps1, "the prompt", .required = true, .always = true),
    FIELD(STR, struct console_row, command, "what was run", .required = true, .always = true),
    FIELD(STR, struct console_row, output, "what it wrote", .always = true),
    { 0 },
};

struct exec_params {
    struct str id, exec_dir, command, on_busy;
    bool async_mode, strict, preserve_symlinks, truncate, create;
    double timeout, hard_timeout;
    int64_t no_change_timeout;
    struct pairs env;
};
static const struct field exec_fields[] = {
    FIELD(STR, struct exec_params, id, "the session; without it: a new one", .max = 128, .alias = "session_id"),
    FIELD(STR, struct exec_params, exec_dir, "directory to go to first; absolute", .max = LIMIT_PATH, .path = true),
    FIELD(STR, struct exec_params, command, "what bash executes", .required = true, .max = LIMIT_COMMAND),
    FIELD(BOOL, struct exec_params, async_mode, "do not wait for it"),
    FIELD(NUM, struct exec_params, timeout, "seconds to wait; then the answer is running, and it goes on", .min = 0,
          .max = WAIT_MAX_S, .def_num = 0),
    FIELD(BOOL, struct exec_params, strict, "an exec_dir that does not exist is an error, else it is ignored"),
    FIELD(INT, struct exec_params, no_change_timeout,
          "seconds without output after which the answer is no_change_timeout; it goes on, until the session is used "
          "again",
          .def = FIELD_ABSENT, .min = 0, .max = WAIT_MAX_S),
    FIELD(NUM, struct exec_params, hard_timeout, "seconds after which it is ended", .min = 0, .max = WAIT_MAX_S),
    FIELD(BOOL, struct exec_params, preserve_symlinks, "exec_dir keeps its symbolic links in $PWD"),
    FIELD(BOOL, struct exec_params, truncate, "at most 30000 characters of output", .def = true),
    FIELD(PAIRS, struct exec_params, env, "variables for this command only", .max = 1024),
    FIELD(BOOL, struct exec_params, create, "make the session if there is none of that name"),
    FIELD(STR, struct exec_params, on_busy, "while another command runs: wait for it, or fail", .def_str = "queue",
          .choices = "queue|reject"),
    { 0 },
};
struct exec_result {
    struct str session_id, command, status, output;
    int64_t exit_code;
    struct rows console;
    struct str working_dir;
    bool shell_exited;
    int64_t output_bytes;
};
static const struct field exec_result_fields[] = {
    FIELD(STR, struct exec_result, session_id, "for the next call", .required = true),
    FIELD(STR, struct exec_result, command, "as given", .required = true, .always = true),
    FIELD(STR, struct exec_result, status, "how it stands", .required = true, .choices = STATUSES),
    FIELD(STR, struct exec_result, output, "what it wrote so far", .nullable = true, .always = true),
    FIELD(ROWS, struct exec_result, console, "prompt, command and output", .nullable = true, .rows = console_fields,
          .row_size = sizeof(struct console_row), .always = true),
    FIELD(INT, struct exec_result, exit_code, "once it ended", .def = FIELD_ABSENT, .nullable = true),
    FIELD(STR, struct exec_result, working_dir, "where the shell is", .path = true),
    FIELD(BOOL, struct exec_result, shell_exited, "it ended the shell; the next command gets a fresh one"),
    FIELD(INT, struct exec_result, output_bytes, "true length of the output"),
    { 0 },
};

struct id_params {
    struct str id;
};
static const struct field id_fields[] = { ID_FIELD(struct id_params), { 0 } };

struct view_result {
    struct str output, session_id, status, command;
    struct rows console;
    int64_t exit_code;
    struct str working_dir;
};
static const struct field view_result_fields[] = {
    FIELD(STR, struct view_result, output, "all prompts, commands and outputs that are kept", .required = true,
          .always = true),
    FIELD(STR, struct view_result, session_id, "the session", .required = true),
    FIELD(ROWS, struct view_result, console, "the same in parts", .nullable = true, .rows = console_fields,
          .row_size = sizeof(struct console_row), .always = true),
    FIELD(STR, struct view_result, status, "of the last command", .required = true, .choices = STATUSES),
    FIELD(STR, struct view_result, command, "the last one", .nullable = true),
    FIELD(INT, struct view_result, exit_code, "of the last command, once it ended", .def = FIELD_ABSENT,
          .nullable = true),
    FIELD(STR, struct view_result, working_dir, "where the shell is", .path = true),
    { 0 },
};

struct wait_params {
    struct str id;
    int64_t seconds, max_wait_seconds;
};
static const struct field wait_fields[] = {
    ID_FIELD(struct wait_params),
    FIELD(INT, struct wait_params, seconds, "at most", .def = FIELD_ABSENT, .min = 0, .max = WAIT_MAX_S),
    FIELD(INT, struct wait_params, max_wait_seconds, "the same", .def = FIELD_ABSENT, .min = 0, .max = WAIT_MAX_S),
    { 0 },
};
struct status_result {
    struct str status;
    int64_t exit_code;
};
static const struct field status_result_fields[] = {
    FIELD(STR, struct status_result, status, "of the last command", .required = true, .choices = STATUSES),
    FIELD(INT, struct status_result, exit_code, "once it ended", .def = FIELD_ABSENT, .nullable = true),
    { 0 },
};

struct type_params {
    struct str id, input;
    bool press_enter, eof;
};
static const struct field type_fields[] = {
    ID_FIELD(struct type_params),
    FIELD(STR, struct type_params, input, "as typed on a keyboard", .required = true, .max = LIMIT_TERMINAL_INPUT / 2),
    FIELD(BOOL, struct type_params, press_enter, "then the Enter key", .required = true),
    FIELD(BOOL, struct type_params, eof, "then the end of the input (control-D)"),
    { 0 },
};

struct kill_result {
    struct str status;
    int64_t exit_code, returncode;
};
static const struct field kill_result_fields[] = {
    FIELD(STR, struct kill_result, status, "of the last command", .required = true, .choices = STATUSES),
    FIELD(INT, struct kill_result, exit_code, "of it", .def = FIELD_ABSENT, .nullable = true),
    FIELD(INT, struct kill_result, returncode, "the same", .def = FIELD_ABSENT, .nullable = true),
    { 0 },
};

struct open_params {
    struct str id, exec_dir;
    int64_t no_change_timeout;
    bool preserve_symlinks;
};
static const struct field open_fields[] = {
    FIELD(STR, struct open_params, id, "its name; one that exists is returned as it is", .max = 128,
          .alias = "session_id"),
    FIELD(STR, struct open_params, exec_dir, "directory in which it begins", .max = LIMIT_PATH, .path = true),
    FIELD(INT, struct open_params, no_change_timeout, "for commands that do not say; 0: never; 120 if absent",
          .def = FIELD_ABSENT, .min = 0, .max = WAIT_MAX_S),
    FIELD(BOOL, struct open_params, preserve_symlinks, "exec_dir keeps its symbolic links in $PWD"),
    { 0 },
};
struct open_result {
    struct str session_id, working_dir;
};
static const struct field open_result_fields[] = {
    FIELD(STR, struct open_result, session_id, "its name", .required = true),
    FIELD(STR, struct open_result, working_dir, "where it is", .required = true, .path = true),
    { 0 },
};

struct update_params {
    struct str id;
    int64_t no_change_timeout;
};
static const struct field update_fields[] = {
    ID_FIELD(struct update_params),
    FIELD(INT, struct update_params, no_change_timeout, "seconds; 0: never", .def = FIELD_ABSENT, .min = 0,
          .max = WAIT_MAX_S),
    { 0 },
};
struct update_result {
    struct str session_id;
    int64_t no_change_timeout;
};
static const struct field update_result_fields[] = {
    FIELD(STR, struct update_result, session_id, "its name"),
    FIELD(INT, struct update_result, no_change_timeout, "seconds; 0: never"),
    { 0 },
};

struct none_params {
    bool unused;
};
static const struct field none_fields[] = { { 0 } };

struct session_row {
    struct str session_id, working_dir, status, current_command;
    double created_at, last_used_at;
    int64_t age_seconds;
};
static const struct field session_row_fields[] = {
    FIELD(STR, struct session_row, session_id, "its name"),
    FIELD(STR, struct session_row, working_dir, "where it is", .path = true),
    FIELD(NUM, struct session_row, created_at, "seconds since 1970"),
    FIELD(NUM, struct session_row, last_used_at, "the same"),
    FIELD(INT, struct session_row, age_seconds, "since it was made"),
    FIELD(STR, struct session_row, status, "ready or busy"),
    FIELD(STR, struct session_row, current_command, "under way"),
    { 0 },
};
struct sessions_result {
    struct rows sessions;
    int64_t active, max;
};
static const struct field sessions_result_fields[] = {
    FIELD(ROWS, struct sessions_result, sessions, "newest first", .always = true, .rows = session_row_fields,
          .row_size = sizeof(struct session_row)),
    FIELD(INT, struct sessions_result, active, "used in the last five minutes"),
    FIELD(INT, struct sessions_result, max, "how many there can be"),
    { 0 },
};

struct close_params {
    struct str id;
};
static const struct field close_fields[] = {
    FIELD(STR, struct close_params, id, "the session; absent: all", .max = 128, .alias = "session_id"),
    { 0 },
};
struct close_result {
    int64_t closed;
};
static const struct field close_result_fields[] = {
    FIELD(INT, struct close_result, closed, "sessions"),
    { 0 },
};

#ifdef IN_BOX

#include "init/init.h"
#include "init/spool.h"
#include "init/task.h"
#include "init/terminal.h"
#include "tool/ends.h"

static void fail(struct task *t, const struct err *e)
{
    task_fail(t, e->code == ERR_SYSTEM && e->sys == EAGAIN ? OUTCOME_PID_LIMIT : outcome_of_err(e), e);
}

static struct terminal *find(struct task *t, struct str id)
{
    struct terminal *s = terminal_find(t->init, id);
    struct err e;

    if (!s) {
        err_set(&e, ERR_NOT_FOUND, "Session not found: %.*s", STR_ARG(id));
        fail(t, &e);
    }
    return s;
}

static void on_cancel(struct task *t)
{
    struct err e;

    command_unwait(t->init, t);
    err_set(&e, ERR_NONE, "cancelled; the command goes on");
    task_fail(t, OUTCOME_KILLED, &e);
}

static struct str status_of(const struct command *c)
{
    if (!c)
        return STR("completed");
    switch (c->status) {
    case COMMAND_WAITING: return STR("running");
    case COMMAND_RUNNING: return c->silent ? STR("no_change_timeout") : STR("running");
    case COMMAND_COMPLETED: return STR("completed");
    case COMMAND_TERMINATED: return STR("terminated");
    case COMMAND_HARD_TIMEOUT: return STR("hard_timeout");
    }
    return STR("terminated");
}

static bool is_over(const struct command *c)
{
    return c->status != COMMAND_WAITING && c->status != COMMAND_RUNNING;
}

static int64_t exit_of(const struct command *c)
{
    return c && is_over(c) ? c->exit_code : FIELD_ABSENT;
}

static struct str text_of(struct task *t, const struct command *c, bool truncate)
{
    struct str text = stream_text(&c->out, &t->arena);
    int64_t omitted = 0;

    return truncate ? ends_of(&t->arena, text, SHORT_OUTPUT, &omitted) : text;
}

static struct console_row console_of(struct task *t, const struct command *c, struct str output)
{
    return (struct console_row){ .ps1 = arena_copy(&t->arena, str_of(c->prompt ? c->prompt : "$ ")),
                                 .command = arena_copy(&t->arena, str_of(c->text)),
                                 .output = output };
}

/* What it wrote last may be half of something. */
static void set_flows(struct task *t, const struct command *c)
{
    bool settled = c && now_us() - c->last_output_us >= SPOOL_SETTLE_MS * 1000;

    if (c && c->status == COMMAND_RUNNING)
        t->flows = WIRE_FLOWS_WHOLE | (settled ? WIRE_SETTLED_WHOLE : 0);
}

/* --- exec --- */

static void finish_exec(void *arg, struct command *c, enum command_news why)
{
    struct task *t = arg;
    const struct exec_params *p = t->state;
    struct console_row *row = arena_alloc(&t->arena, sizeof *row);
    struct exec_result out = { 0 };
    struct err e = { 0 };

    (void)why;
    field_defaults(exec_result_fields, &out, sizeof out);
    struct terminal_info i = terminal_describe(c->terminal);
    out.session_id = arena_copy(&t->arena, str_of(i.name));
    out.command = p->command;
    out.status = status_of(c);
    out.output = text_of(t, c, p->truncate);
    *row = console_of(t, c, out.output);
    if (out.output.n && out.output.p[out.output.n - 1] == '\n')
        out.output.n--; /* as a person reads it off the screen */
    out.console = (struct rows){ row, 1 };
    out.exit_code = exit_of(c);
    out.working_dir = arena_copy(&t->arena, str_of(i.cwd));
    out.shell_exited = c->shell_exited;
    out.output_bytes = c->out.total;
    enum outcome o = OUTCOME_OK;
    if (c->status == COMMAND_HARD_TIMEOUT)
        o = OUTCOME_TIMEOUT;
    else if (c->status == COMMAND_TERMINATED)
        o = OUTCOME_KILLED;
    else if (c->status == COMMAND_COMPLETED && c->exit_code != 0)
        o = OUTCOME_TASK_ERROR;
    if (o != OUTCOME_OK)
        err_set(&e, ERR_NONE, c->shell_exited ? "exit status %d; the shell ended with it" : "exit status %d",
                c->exit_code);
    set_flows(t, c);
    task_finish(t, o, o == OUTCOME_OK ? NULL : &e, &out, stream_dropped(&c->out), NULL);
    if (!p->id.n)
        terminal_warm(t->init);
}

static int check_env(const struct pairs *env, struct err *e)
{
    for (size_t i = 0; i < env->n; i++) {
        struct str name = env->v[i].name;
        bool ok = name.n > 0 && !(name.p[0] >= '0' && name.p[0] <= '9');
        for (size_t k = 0; ok && k < name.n; k++)
            ok = strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_", name.p[k]) && name.p[k];
        if (!ok)
            return err_set(e, ERR_INVALID, "env: '%.*s' is not a name of a variable", STR_ARG(name));
        if (env->v[i].value.n && memchr(env->v[i].value.p, 0, env->v[i].value.n))
            return err_set(e, ERR_INVALID, "env: the value of %.*s contains a NUL byte", STR_ARG(name));
    }
    return 0;
}

static bool has_nul(struct str s)
{
    return s.n && memchr(s.p, 0, s.n);
}

/* NULL with e unset: there is none, or one that is not insisted on and cannot be gone to. */
static const char *check_dir(struct task *t, struct str dir, bool strict, struct err *e)
{
    const char *z = arena_z(&t->arena, dir);

    if (!dir.n)
        return NULL;
    int r = has_nul(dir) || dir.p[0] != '/' ? -EINVAL : init_check_dir(t->init, z);
    if (r == 0)
        return z;
    if (strict && r == -EINVAL)
        err_set(e, ERR_INVALID, "exec_dir: '%.*s' is not an absolute path", STR_ARG(dir));
    else if (strict && r == -ENOENT)
        err_set(e, ERR_NOT_FOUND, "exec_dir: Directory does not exist: %.*s", STR_ARG(dir));
    else if (strict)
        err_set(e, ERR_INVALID, "exec_dir: %.*s: %s", STR_ARG(dir), strerror(-r));
    return NULL;
}

static int64_t to_ms(double s)
{
    return (int64_t)(s * 1000 + 0.5);
}

static void exec_begin(struct task *t, const void *params)
{
    const struct exec_params *p = params;
    struct err e = { 0 };
    struct terminal *s = !p->id.n ? NULL : p->create ? terminal_find(t->init, p->id) : find(t, p->id);

    if (p->id.n && !s && !p->create)
        return;
    struct command_ask ask = { .text = p->command,
                               .cwd = check_dir(t, p->exec_dir, p->strict, &e),
                               .logical = p->preserve_symlinks,
                               .env = p->env,
                               .hard_ms = to_ms(p->hard_timeout) };
    if (e.code == 0 && has_nul(p->command))
        err_set(&e, ERR_INVALID, "command contains a NUL byte");
    if (e.code == 0)
        (void)check_env(&p->env, &e);
    if (e.code == 0 && s && terminal_busy(s) && str_is(p->on_busy, "reject"))
        err_set(&e, ERR_EXISTS, "session %.*s is busy with another command", STR_ARG(p->id));
    if (e.code == 0 && !s)
        s = terminal_open(t->init, &(struct terminal_opts){ .name = p->id }, &e);
    struct command *c = s && e.code == 0 ? terminal_run(s, &ask, &e) : NULL;
    if (!c) {
        fail(t, &e);
        return;
    }
    t->state = (void *)params;
    t->cancel = on_cancel;
    if (p->async_mode || is_over(c)) {
        finish_exec(t, c, NEWS_TIME);
        return;
    }
    int64_t ms = p->timeout > 0 ? to_ms(p->timeout) : -1;
    if (t->call.timeout_ms > 0 && (ms < 0 || ms > t->call.timeout_ms))
        ms = t->call.timeout_ms;
    int64_t quiet =
        p->no_change_timeout == FIELD_ABSENT ? terminal_describe(s).no_change_ms : p->no_change_timeout * 1000;
    command_wait(c, &(struct command_wait_opts){ .ms = ms, .quiet_ms = quiet, .cb = finish_exec, .arg = t });
}

/* --- view, wait, type, terminate --- */

static void view_begin(struct task *t, const void *params)
{
    const struct id_params *p = params;
    struct terminal *s = find(t, p->id);
    struct view_result out = { 0 };
    AUTO(buf_done) struct buf all = { .cap = LIMIT_FILE_IO };
    size_t n = 0;

    if (!s)
        return;
    field_defaults(view_result_fields, &out, sizeof out);
    for (struct command *c = terminal_first(s); c; c = c->next)
        n += c->status != COMMAND_WAITING;
    struct console_row *rows = arena_alloc(&t->arena, (n + 1) * sizeof *rows);
    n = 0;
    for (struct command *c = terminal_first(s); c; c = c->next) {
        if (c->status == COMMAND_WAITING)
            continue;
        struct str text = text_of(t, c, false);
        rows[n] = console_of(t, c, text);
        buf_str(&all, rows[n].ps1);
        buf_str(&all, rows[n].command);
        buf_char(&all, '\n');
        buf_str(&all, text);
        if (text.n && text.p[text.n - 1] != '\n')
            buf_char(&all, '\n');
        n++;
    }
    struct command *last = terminal_last(s);
    struct terminal_info i = terminal_describe(s);
    out.output = arena_copy(&t->arena, buf_view(&all));
    out.session_id = str_of(i.name);
    out.console = (struct rows){ rows, n };
    out.status = status_of(last);
    out.command = last ? str_of(last->text) : (struct str){ 0 };
    out.exit_code = exit_of(last);
    out.working_dir = str_of(i.cwd);
    set_flows(t, last);
    task_finish(t, OUTCOME_OK, NULL, &out, 0, NULL);
}

static void finish_status(void *arg, struct command *c, enum command_news why)
{
    struct status_result out = { .status = status_of(c), .exit_code = exit_of(c) };

    (void)why;
    task_finish(arg, OUTCOME_OK, NULL, &out, 0, NULL);
}

static struct command *newest(struct terminal *s)
{
    struct command *c = terminal_first(s);

    while (c && c->next)
        c = c->next;
    return c;
}

static void wait_begin(struct task *t, const void *params)
{
    const struct wait_params *p = params;
    struct terminal *s = find(t, p->id);
    struct command *c = s ? newest(s) : NULL;
    int64_t seconds = p->seconds != FIELD_ABSENT ? p->seconds : p->max_wait_seconds;

    if (!s)
        return;
    if (p->seconds != FIELD_ABSENT && p->max_wait_seconds != FIELD_ABSENT && p->max_wait_seconds < p->seconds)
        seconds = p->max_wait_seconds;
    if (!c || is_over(c)) {
        finish_status(t, c, NEWS_END);
        return;
    }
    t->cancel = on_cancel;
    int64_t ms = seconds == FIELD_ABSENT ? t->call.timeout_ms : seconds * 1000;
    command_wait(c,
                 &(struct command_wait_opts){ .ms = ms > 0 || seconds == 0 ? ms : -1, .cb = finish_status, .arg = t });
}

static void type_begin(struct task *t, const void *params)
{
    const struct type_params *p = params;
    struct terminal *s = find(t, p->id);
    struct err e = { 0 };

    if (!s)
        return;
    if (terminal_type(s, p->input, &e) < 0 || (p->press_enter && terminal_type(s, STR("\r"), &e) < 0) ||
        (p->eof && terminal_type_end(s, &e) < 0))
        fail(t, &e);
    else
        finish_status(t, terminal_last(s), NEWS_OUTPUT);
}

static void finish_kill(void *arg, struct command *c, enum command_news why)
{
    struct kill_result out = { .status = status_of(c), .exit_code = exit_of(c), .returncode = exit_of(c) };

    (void)why;
    task_finish(arg, OUTCOME_OK, NULL, &out, 0, NULL);
}

static void terminate_begin(struct task *t, const void *params)
{
    const struct id_params *p = params;
    struct terminal *s = find(t, p->id);
    struct command *c = s ? terminal_last(s) : NULL;

    if (!s)
        return;
    if (!c || is_over(c)) {
        finish_kill(t, c, NEWS_END);
        return;
    }
    t->cancel = on_cancel;
    command_wait(c, &(struct command_wait_opts){ .ms = 10000, .cb = finish_kill, .arg = t });
    command_kill(c);
}

/* --- sessions --- */

static void open_begin(struct task *t, const void *params)
{
    const struct open_params *p = params;
    struct err e = { 0 };
    struct open_result out = { 0 };
    char real[PATH_MAX];

    if (has_nul(p->id) || has_nul(p->exec_dir))
        err_set(&e, ERR_INVALID, "id or exec_dir contains a NUL byte");
    const char *cwd = e.code ? NULL : check_dir(t, p->exec_dir, false, &e);
    if (cwd && !p->preserve_symlinks)
        cwd = realpath(cwd, real);
    struct terminal *s =
        e.code ? NULL : terminal_open(t->init, &(struct terminal_opts){ .name = p->id, .cwd = cwd }, &e);
    if (!s) {
        fail(t, &e);
        return;
    }
    if (p->no_change_timeout != FIELD_ABSENT)
        terminal_set_no_change(s, p->no_change_timeout * 1000);
    terminal_keep(s);
    out.session_id = str_of(terminal_describe(s).name);
    out.working_dir = str_of(terminal_describe(s).cwd);
    task_finish(t, OUTCOME_OK, NULL, &out, 0, NULL);
}

static void update_begin(struct task *t, const void *params)
{
    const struct update_params *p = params;
    struct terminal *s = find(t, p->id);

    if (!s)
        return;
    if (p->no_change_timeout != FIELD_ABSENT)
        terminal_set_no_change(s, p->no_change_timeout * 1000);
    struct update_result out = { .session_id = p->id, .no_change_timeout = terminal_describe(s).no_change_ms / 1000 };
    task_finish(t, OUTCOME_OK, NULL, &out, 0, NULL);
}

static void sessions_begin(struct task *t, const void *params)
{
    struct sessions_result out = { .max = LIMIT_TERMINALS_PER_BOX };
    int64_t now = wall_us();
    size_t n = 0;

    (void)params;
    for (struct terminal *s = NULL; (s = terminal_next(t->init, s));)
        n++;
    struct session_row *rows = arena_alloc(&t->arena, (n + 1) * sizeof *rows);
    for (struct terminal *s = NULL; (s = terminal_next(t->init, s));) {
        struct terminal_info i = terminal_describe(s);
        struct command *c = terminal_last(s);
        rows[out.sessions.n++] = (struct session_row){
            .session_id = str_of(i.name),
            .working_dir = str_of(i.cwd),
            .created_at = (double)i.created_us / 1e6,
            .last_used_at = (double)i.last_us / 1e6,
            .age_seconds = (now - i.created_us) / 1000000,
            .status = i.busy ? STR("busy") : STR("ready"),
            .current_command = c && !is_over(c) ? str_of(c->text) : (struct str){ 0 },
        };
        out.active += now - i.last_us < ACTIVE_US;
    }
    out.sessions.v = rows;
    task_finish(t, OUTCOME_OK, NULL, &out, 0, NULL);
}

static void close_begin(struct task *t, const void *params)
{
    const struct close_params *p = params;
    struct close_result out = { 0 };

    if (p->id.n) {
        struct terminal *s = find(t, p->id);
        if (!s)
            return;
        terminal_close(s);
        out.closed = 1;
    } else {
        for (struct terminal *s; (s = terminal_next(t->init, NULL)); out.closed++)
            terminal_close(s);
    }
    task_finish(t, OUTCOME_OK, NULL, &out, 0, NULL);
}

#endif

enum { SHELL = TOOL_NEEDS_BOX | TOOL_PARALLEL, LOOK = SHELL | TOOL_READ_ONLY | TOOL_IDEMPOTENT };

#define ROW(verb, params_, params_type, result_, result_type)                                                          \
    .params = params_, .params_size = sizeof(struct params_type), .result = result_,                                   \
    .result_size = sizeof(struct result_type), .begin = BOX_CODE(verb##_begin)

static const struct tool shell_tools[] = {
    { .name = "shell:exec",
      .title = "Run a command in a terminal",
      .help =
          "Runs a command in a named shell on a terminal; directory and variables stay. Returns when it ends or one "
          "of three clocks runs out.",
      .flags = SHELL,
      ROW(exec, exec_fields, exec_params, exec_result_fields, exec_result) },
    { .name = "shell:view",
      .title = "Look at a terminal",
      .help = "What was run in a shell, and what came of it.",
      .flags = LOOK,
      ROW(view, id_fields, id_params, view_result_fields, view_result) },
    { .name = "shell:wait",
      .title = "Wait for a command",
      .help = "Waits until the last command of a shell ends.",
      .flags = LOOK,
      ROW(wait, wait_fields, wait_params, status_result_fields, status_result) },
    { .name = "shell:type",
      .title = "Type into a terminal",
      .help = "Gives input to the program in front.",
      .flags = SHELL,
      ROW(type, type_fields, type_params, status_result_fields, status_result) },
    { .name = "shell:terminate",
      .title = "End a command",
      .help = "Ends the command that a shell runs, with its children.",
      .flags = SHELL,
      ROW(terminate, id_fields, id_params, kill_result_fields, kill_result) },
    { .name = "shell:open",
      .title = "Make a shell",
      .help = "Makes a named shell, or returns the one of that name.",
      .flags = SHELL | TOOL_IDEMPOTENT,
      ROW(open, open_fields, open_params, open_result_fields, open_result) },
    { .name = "shell:update",
      .title = "Change a shell's settings",
      .help = "Sets how long commands of a shell may be silent.",
      .flags = SHELL | TOOL_IDEMPOTENT,
      ROW(update, update_fields, update_params, update_result_fields, update_result) },
    { .name = "shell:sessions",
      .title = "List shells",
      .help = "The named shells of the box.",
      .flags = LOOK,
      ROW(sessions, none_fields, none_params, sessions_result_fields, sessions_result) },
    { .name = "shell:close",
      .title = "Close a shell",
      .help = "Ends a shell and all that runs in it; without a name, all shells.",
      .flags = SHELL,
      ROW(close, close_fields, close_params, close_result_fields, close_result) },
};

const struct backend backend_shell = {
    .name = "shell",
    .help = "Named shells on terminals.",
    .kind = KIND_SESSION,
    .tools = shell_tools,
    .tool_count = ARRAY_LEN(shell_tools),
    .full_names = true,
};

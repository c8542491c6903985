/* Jupyter kernels: cells with rich outputs in a kernel that lives from call to call, one per session. The kernel is
 * driven by a process in the box (init/kernel.h). */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/limits.h"
#include "tool/tool.h"

enum { ANSWERS_MAX = 64, IDLE_MAX = 7 * 24 * 3600 };

#define SESSION_FIELD(type)                                                                                            \
    FIELD(STR, type, session, "which kernel; without it, the one of this worker", .alias = "session_id",               \
          .max = LIMIT_SESSION_NAME)

struct execute_params {
    struct str code, session, kernel_name, cwd;
    double timeout, max_idle;
    struct strs stdin;
    bool silent, once, allow_stdin;
};
static const struct field execute_fields[] = {
    FIELD(STR, struct execute_params, code, "the cell", .required = true, .max = LIMIT_CODE),
    SESSION_FIELD(struct execute_params),
    FIELD(STR, struct execute_params, kernel_name, "kind of a new kernel: python3 unless it is named",
          .max = LIMIT_KERNEL_NAME),
    FIELD(NUM, struct execute_params, timeout, "seconds after which the cell is interrupted; its variables stay",
          .min = 0, .max = LIMIT_TIMEOUT_MS / 1000),
    FIELD(STR, struct execute_params, cwd, "directory, entered before; it lasts", .max = LIMIT_PATH),
    FIELD(STRS, struct execute_params, stdin,
          "answers to input(), in order; without one, a cell that asks is reported as waiting_for_input",
          .max = ANSWERS_MAX),
    FIELD(BOOL, struct execute_params, allow_stdin, "false: input() is an error at once; for callers who never answer",
          .def = true),
    FIELD(BOOL, struct execute_params, silent, "no output is collected and the cell has no number"),
    FIELD(BOOL, struct execute_params, once, "the session ends after this cell"),
    FIELD(NUM, struct execute_params, max_idle, "seconds without a call after which the session ends; 0: never",
          .min = 0, .max = IDLE_MAX),
    { 0 },
};

struct cell_result {
    struct str status, session, kernel_name, outputs, stdout, stderr, ename, evalue, prompt, background, msg_id;
    struct strs traceback;
    int64_t execution_count;
    bool password, kernel_restarted, kernel_died, carried;
    struct strs lost;
    double execution_time_ms;
};
static const struct field cell_result_fields[] = {
    FIELD(STR, struct cell_result, status, "ok, error, timeout, interrupted, waiting_for_input or died"),
    FIELD(JSON, struct cell_result, outputs, "as a notebook keeps them: stream, execute_result, display_data, error"),
    FIELD(INT, struct cell_result, execution_count, "the cell's number", .def = FIELD_ABSENT),
    FIELD(STR, struct cell_result, stdout, "all of stdout, and results as text, where they came", .always = true),
    FIELD(STR, struct cell_result, stderr, "all of stderr", .always = true),
    FIELD(STR, struct cell_result, ename, "error: its class"),
    FIELD(STR, struct cell_result, evalue, "error: its text; died: how the kernel ended"),
    FIELD(STRS, struct cell_result, traceback, "error: lines, with colours"),
    FIELD(STR, struct cell_result, prompt, "waiting_for_input: the question"),
    FIELD(BOOL, struct cell_result, password, "waiting_for_input: the answer is secret"),
    FIELD(STR, struct cell_result, background, "what threads of earlier cells wrote since"),
    FIELD(BOOL, struct cell_result, kernel_restarted, "this kernel is new: the variables of the former one are gone"),
    FIELD(BOOL, struct cell_result, carried,
          "this kernel is new in this box, and has the variables of the one that the state was taken of"),
    FIELD(STRS, struct cell_result, lost, "carried: variables that could not be taken along, with the reason"),
    FIELD(BOOL, struct cell_result, kernel_died,
          "it is gone; files are as they were, and the next cell gets a new one"),
    FIELD(STR, struct cell_result, session, "its name"),
    FIELD(STR, struct cell_result, kernel_name, "its kind"),
    FIELD(STR, struct cell_result, msg_id, "of the request to the kernel"),
    FIELD(NUM, struct cell_result, execution_time_ms, "of this call's part of the cell"),
    { 0 },
};

struct input_params {
    struct str session, text;
    double timeout;
};
static const struct field input_fields[] = {
    FIELD(STR, struct input_params, text, "the answer, without a newline", .required = true, .max = 64 * KiB),
    SESSION_FIELD(struct input_params),
    FIELD(NUM, struct input_params, timeout, "as in execute", .min = 0, .max = LIMIT_TIMEOUT_MS / 1000),
    { 0 },
};

struct create_params {
    struct str session, kernel_name, cwd;
    double max_idle;
};
static const struct field create_fields[] = {
    SESSION_FIELD(struct create_params),
    FIELD(STR, struct create_params, kernel_name, "kind of kernel: python3 unless it is named",
          .max = LIMIT_KERNEL_NAME),
    FIELD(STR, struct create_params, cwd, "its directory; /home/gem unless it is named", .max = LIMIT_PATH),
    FIELD(NUM, struct create_params, max_idle, "seconds without a call after which the session ends; 0: never",
          .min = 0, .max = IDLE_MAX),
    { 0 },
};
struct create_result {
    struct str session, kernel_name;
};
static const struct field create_result_fields[] = {
    FIELD(STR, struct create_result, session, "its name"),
    FIELD(STR, struct create_result, kernel_name, "its kind"),
    { 0 },
};

struct session_params {
    struct str session;
};
static const struct field session_fields[] = {
    SESSION_FIELD(struct session_params),
    { 0 },
};
struct interrupt_result {
    bool interrupted;
};
static const struct field interrupt_result_fields[] = {
    FIELD(BOOL, struct interrupt_result, interrupted,
          "a cell was under way; the call that waits for it says how it ended"),
    { 0 },
};

struct delete_params {
    struct str session;
    bool all;
};
static const struct field delete_fields[] = {
    SESSION_FIELD(struct delete_params),
    FIELD(BOOL, struct delete_params, all, "every session of the box"),
    { 0 },
};
struct delete_result {
    int64_t deleted;
};
static const struct field delete_result_fields[] = {
    FIELD(INT, struct delete_result, deleted, "how many"),
    { 0 },
};

struct none_params {
    char none;
};
static const struct field none_fields[] = { { 0 } };
struct session_row {
    struct str session, kernel_name, status;
    double created_at, last_used;
    int64_t age_seconds, waiting, restarts;
};
static const struct field session_row_fields[] = {
    FIELD(STR, struct session_row, session, "its name"),
    FIELD(STR, struct session_row, kernel_name, "its kind"),
    FIELD(STR, struct session_row, status, "idle or busy"),
    FIELD(NUM, struct session_row, created_at, "seconds since 1970"),
    FIELD(NUM, struct session_row, last_used, "seconds since 1970"),
    FIELD(INT, struct session_row, age_seconds, "since it was created"),
    FIELD(INT, struct session_row, waiting, "cells in its queue"),
    FIELD(INT, struct session_row, restarts, "how often its driver had to be started again"),
    { 0 },
};
struct list_result {
    struct rows sessions;
};
static const struct field list_result_fields[] = {
    FIELD(ROWS, struct list_result, sessions, "kernels of this box", .always = true, .rows = session_row_fields,
          .row_size = sizeof(struct session_row)),
    { 0 },
};

struct spec_row {
    struct str name, display_name, language;
};
static const struct field spec_row_fields[] = {
    FIELD(STR, struct spec_row, name, "kernel_name"),
    FIELD(STR, struct spec_row, display_name, "for people"),
    FIELD(STR, struct spec_row, language, "what it runs"),
    { 0 },
};
struct info_result {
    struct rows kernels;
    int64_t active_sessions, max_sessions;
    struct str default_kernel;
};
static const struct field info_result_fields[] = {
    FIELD(ROWS, struct info_result, kernels, "kernel specs that were found in the box", .always = true,
          .rows = spec_row_fields, .row_size = sizeof(struct spec_row)),
    FIELD(STR, struct info_result, default_kernel, "what a session gets that names none"),
    FIELD(INT, struct info_result, active_sessions, "kernels that live in this box"),
    FIELD(INT, struct info_result, max_sessions, "of one box"),
    { 0 },
};

struct look_params {
    struct str code, session;
    int64_t cursor_pos, detail_level;
};
static const struct field look_fields[] = {
    FIELD(STR, struct look_params, code, "text of a cell", .required = true, .max = LIMIT_COMMAND),
    FIELD(INT, struct look_params, cursor_pos, "in characters; at the end unless it is given", .def = -1, .min = -1,
          .max = LIMIT_COMMAND),
    FIELD(INT, struct look_params, detail_level, "inspect: 1 shows the source too", .min = 0, .max = 1),
    SESSION_FIELD(struct look_params),
    { 0 },
};
struct complete_result {
    struct strs matches;
    int64_t cursor_start, cursor_end;
};
static const struct field complete_result_fields[] = {
    FIELD(STRS, struct complete_result, matches, "what could stand there", .always = true),
    FIELD(INT, struct complete_result, cursor_start, "of the text that a match replaces"),
    FIELD(INT, struct complete_result, cursor_end, "its end"),
    { 0 },
};
struct inspect_result {
    bool found;
    struct str data, text;
};
static const struct field inspect_result_fields[] = {
    FIELD(BOOL, struct inspect_result, found, "something is known"),
    FIELD(STR, struct inspect_result, text, "as plain text"),
    FIELD(JSON, struct inspect_result, data, "by type of content"),
    { 0 },
};

#ifdef IN_BOX

#include <sys/fsuid.h>

#include "init/init.h"
#include "init/kernel.h"
#include "init/script.h"
#include "init/task.h"
#include "tool/file_internal.h"

enum { MATCHES_MAX = 500 };

/* --- in init --- */

/* A session that was named is the box's; one that was not is the worker's own. */
static struct driver_ask ask_of(struct task *t, struct str session)
{
    return (struct driver_ask){
        .kind = &jupyter_kind,
        .name = session.n ? str_of(arena_printf(&t->arena, "s:%.*s", STR_ARG(session)))
                          : str_of(arena_printf(&t->arena, "w:%.*s", STR_ARG(t->call.session))),
        .label = session.n ? session : STR("default"),
    };
}

static bool ready(struct task *t)
{
    struct err e;

    if (scripts_write(&e) < 0) {
        task_fail(t, OUTCOME_INFRA_ERROR, &e);
        return false;
    }
    if (t->init->boot.fork_python)
        kernel_ahead(t->init);
    return true;
}

static void execute_begin(struct task *t, const void *params)
{
    const struct execute_params *p = params;
    struct driver_ask ask = ask_of(t, p->session);

    ask.note = p->kernel_name.n ? p->kernel_name : STR("python3");
    ask.spare = kernel_may_wait(t->init, p->kernel_name);
    ask.once = p->once;
    ask.idle_ms = (int64_t)(p->max_idle * 1000);
    if (ready(t))
        driver_submit(t, &ask);
}

static void create_begin(struct task *t, const void *params)
{
    const struct create_params *p = params;
    struct driver_ask ask = ask_of(t, p->session);

    ask.note = p->kernel_name.n ? p->kernel_name : STR("python3");
    ask.spare = kernel_may_wait(t->init, p->kernel_name);
    ask.idle_ms = (int64_t)(p->max_idle * 1000);
    if (ready(t))
        driver_submit(t, &ask);
}

static void look_begin(struct task *t, const void *params)
{
    const struct look_params *p = params;
    struct driver_ask ask = ask_of(t, p->session);

    ask.note = STR("python3");
    ask.spare = kernel_may_wait(t->init, (struct str){ 0 });
    if (ready(t))
        driver_submit(t, &ask);
}

static void input_begin(struct task *t, const void *params)
{
    const struct input_params *p = params;
    struct driver_ask ask = ask_of(t, p->session);

    ask.must_exist = true;
    driver_submit(t, &ask);
}

static void interrupt_begin(struct task *t, const void *params)
{
    const struct session_params *p = params;
    struct driver_ask ask = ask_of(t, p->session);
    struct driver *d = driver_find(t->init, &jupyter_kind, ask.name);
    struct interrupt_result r = { .interrupted = true };

    ask.must_exist = true;
    if (d && driver_interrupt(d))
        task_finish(t, OUTCOME_OK, NULL, &r, 0, NULL);
    else
        driver_submit(t, &ask); /* a cell may wait for input */
}

static void restart_begin(struct task *t, const void *params)
{
    const struct session_params *p = params;
    struct driver_ask ask = ask_of(t, p->session);
    struct driver *d = driver_find(t->init, &jupyter_kind, ask.name);

    ask.must_exist = true;
    if (d)
        (void)driver_interrupt(d);
    driver_submit(t, &ask);
}

static void delete_begin(struct task *t, const void *params)
{
    const struct delete_params *p = params;
    struct driver_ask ask = ask_of(t, p->session);
    struct delete_result r = { 0 };
    struct err e;

    for (struct driver *d = driver_next(t->init, &jupyter_kind, NULL), *next; d; d = next) {
        next = driver_next(t->init, &jupyter_kind, d);
        if (!p->all && !str_is(ask.name, driver_describe(d).name))
            continue;
        driver_end(d);
        r.deleted++;
    }
    if (r.deleted || p->all) {
        task_finish(t, OUTCOME_OK, NULL, &r, 0, NULL);
        return;
    }
    err_set(&e, ERR_NOT_FOUND, "jupyter: no session '%.*s'", STR_ARG(ask.label));
    task_fail(t, OUTCOME_TASK_ERROR, &e);
}

static void list_begin(struct task *t, const void *params)
{
    struct session_row *rows = arena_alloc(&t->arena, LIMIT_DRIVERS_PER_BOX * sizeof *rows);
    struct list_result r = { .sessions = { rows, 0 } };

    (void)params;
    for (struct driver *d = NULL; (d = driver_next(t->init, &jupyter_kind, d));) {
        struct driver_info i = driver_describe(d);
        rows[r.sessions.n++] = (struct session_row){
            .session = str_of(i.label),
            .kernel_name = str_of(i.note),
            .status = i.busy ? STR("busy") : STR("idle"),
            .created_at = (double)i.created_us / 1e6,
            .last_used = (double)i.used_us / 1e6,
            .age_seconds = (wall_us() - i.created_us) / 1000000,
            .waiting = (int64_t)i.waiting,
            .restarts = i.restarts,
        };
    }
    task_finish(t, OUTCOME_OK, NULL, &r, 0, NULL);
}

/* Small files, read with the rights of the box's user. */
static void info_begin(struct task *t, const void *params)
{
    struct kernel_spec specs[KERNELS_MAX];
    struct spec_row *rows = arena_alloc(&t->arena, KERNELS_MAX * sizeof *rows);
    struct info_result r = { .kernels = { rows, 0 }, .max_sessions = LIMIT_DRIVERS_PER_BOX };

    (void)params;
    setfsgid(BOX_GID);
    setfsuid(BOX_UID);
    size_t n = kernel_specs(&t->arena, specs, KERNELS_MAX);
    setfsuid(0);
    setfsgid(0);
    for (size_t i = 0; i < n; i++)
        rows[r.kernels.n++] = (struct spec_row){ specs[i].name, specs[i].display_name, specs[i].language };
    for (struct driver *d = NULL; (d = driver_next(t->init, &jupyter_kind, d));)
        r.active_sessions++;
    r.default_kernel = STR("python3");
    task_finish(t, OUTCOME_OK, NULL, &r, 0, NULL);
}

/* --- in the driver --- */

static struct str label_of(struct hand *h)
{
    const char *name = h->self->name;

    return name[0] == 's' ? str_of(name + 2) : STR("default");
}

static const char *const status_names[] = {
    [CELL_OK] = "ok",
    [CELL_ERROR] = "error",
    [CELL_TIMEOUT] = "timeout",
    [CELL_INTERRUPTED] = "interrupted",
    [CELL_ASKING] = "waiting_for_input",
    [CELL_DIED] = "died",
};

static void judge(struct hand *h, const struct cell_end *end)
{
    const char *gone = end->lost ? "; it did not react to the interrupt, so its kernel was ended" : "";

    h->dropped_bytes = outputs_dropped(end->outputs);
    switch (end->status) {
    case CELL_OK:
    case CELL_ASKING: return;
    case CELL_ERROR:
        h->outcome = OUTCOME_TASK_ERROR;
        h->message =
            str_of(arena_printf(h->arena, "%.*s: %.*s", STR_ARG(end->ename.n ? end->ename : STR("the cell failed")),
                                (int)(end->evalue.n < 500 ? end->evalue.n : 500), end->evalue.p ? end->evalue.p : ""));
        return;
    case CELL_TIMEOUT:
        h->outcome = OUTCOME_TIMEOUT;
        h->message = str_of(arena_printf(h->arena, "timed out after %.3g s and was interrupted%s", end->limit_s, gone));
        return;
    case CELL_INTERRUPTED:
        h->outcome = h->self->wish == WISH_CANCEL ? OUTCOME_KILLED : OUTCOME_TASK_ERROR;
        h->message = str_of(arena_printf(h->arena, "interrupted%s", gone));
        return;
    case CELL_DIED:
        h->outcome = OUTCOME_TASK_ERROR;
        h->message = str_of(arena_printf(h->arena, "the kernel ended: %.*s", STR_ARG(end->evalue)));
        return;
    }
}

static void describe(struct hand *h, struct kernel *k, const struct cell_end *end, struct cell_result *r)
{
    struct buf b = { .cap = LIMIT_FRAME - 16 * MiB };
    struct jw w = { .out = &b };

    judge(h, end);
    outputs_print(end->outputs, &w);
    r->outputs = b.full ? STR("[]") : arena_copy(h->arena, buf_view(&b));
    buf_done(&b);
    r->status = str_of(status_names[end->status]);
    r->stdout = outputs_text(end->outputs, "stdout", true, h->arena);
    r->stderr = outputs_text(end->outputs, "stderr", false, h->arena);
    r->ename = end->ename;
    r->evalue = end->evalue;
    r->traceback = end->traceback;
    r->prompt = end->prompt;
    r->password = end->password;
    r->background = kernel_background(k, h->arena);
    r->kernel_died = end->status == CELL_DIED || end->lost;
    r->session = label_of(h);
    r->kernel_name = kernel_name(k);
    r->msg_id = end->msg_id;
    r->execution_time_ms = (double)end->run_us / 1000;
    if (end->count)
        r->execution_count = end->count;
}

static int directory(struct hand *h, struct str cwd, struct str *ret, struct err *e)
{
    char *path = NULL;

    *ret = (struct str){ 0 };
    if (!cwd.n)
        return 0;
    int r = file_path(h, cwd, &path, e);
    *ret = str_of(path);
    return r;
}

static int execute_run(struct hand *h, const void *params, void *result, struct err *e)
{
    const struct execute_params *p = params;
    struct cell_result *out = result;
    struct kernel *k = NULL;
    struct cell_end end;
    struct str cwd;

    if (kernel_asking(h))
        return err_set(e, ERR_BUSY, "a cell of this session waits for input: answer it, or interrupt it");
    int r = directory(h, p->cwd, &cwd, e);
    if (r >= 0)
        r = kernel_get(h, p->kernel_name, cwd, &k, e);
    if (r < 0)
        return r;
    out->kernel_restarted = kernel_fresh(k);
    out->carried = kernel_carried(k, &out->lost);
    struct cell cell = { .code = p->code,
                         .silent = p->silent,
                         .answers = p->stdin,
                         .no_stdin = !p->allow_stdin || (p->once && !p->stdin.n),
                         .timeout = p->timeout };
    r = kernel_run(h, k, &cell, &end, e);
    if (r >= 0)
        describe(h, k, &end, out);
    return r;
}

static int input_run(struct hand *h, const void *params, void *result, struct err *e)
{
    const struct input_params *p = params;
    struct cell_end end;

    if (!kernel_asking(h))
        return err_set(e, ERR_NOT_FOUND, "no cell of this session waits for input");
    int r = kernel_answer(h, h->self->state, p->text, p->timeout, &end, e);
    if (r >= 0)
        describe(h, h->self->state, &end, result);
    return r;
}

static int create_run(struct hand *h, const void *params, void *result, struct err *e)
{
    const struct create_params *p = params;
    struct create_result *out = result;
    struct kernel *k = NULL;
    struct str cwd;

    int r = directory(h, p->cwd, &cwd, e);
    if (r >= 0)
        r = kernel_get(h, p->kernel_name, cwd, &k, e);
    if (r < 0)
        return r;
    (void)kernel_fresh(k);
    *out = (struct create_result){ .session = label_of(h), .kernel_name = kernel_name(k) };
    return 0;
}

static int interrupt_run(struct hand *h, const void *params, void *result, struct err *e)
{
    struct interrupt_result *out = result;
    struct cell_end end;

    (void)params;
    if (!kernel_asking(h))
        return 0;
    h->self->wish = WISH_INTERRUPT;
    out->interrupted = true;
    return kernel_answer(h, h->self->state, STR(""), 0, &end, e);
}

static int restart_run(struct hand *h, const void *params, void *result, struct err *e)
{
    struct create_result *out = result;
    struct kernel *k = NULL;

    (void)params;
    kernel_stop(h);
    int r = kernel_get(h, (struct str){ 0 }, (struct str){ 0 }, &k, e);
    if (r < 0)
        return r;
    (void)kernel_fresh(k);
    *out = (struct create_result){ .session = label_of(h), .kernel_name = kernel_name(k) };
    return 0;
}

static int64_t characters(struct str s)
{
    int64_t n = 0;

    for (size_t i = 0; i < s.n; i++)
        n += (s.p[i] & 0xc0) != 0x80;
    return n;
}

static int look(struct hand *h, const struct look_params *p, const char *type, const struct json **ret, struct err *e)
{
    AUTO(buf_done) struct buf b = { .cap = LIMIT_FRAME };
    struct jw w = { .out = &b };
    struct kernel *k = NULL;
    struct json *j = NULL;
    struct str reply;

    int r = kernel_get(h, (struct str){ 0 }, (struct str){ 0 }, &k, e);
    if (r < 0)
        return r;
    jw_obj(&w);
    jw_kstr(&w, "code", p->code);
    jw_kint(&w, "cursor_pos", p->cursor_pos >= 0 ? p->cursor_pos : characters(p->code));
    jw_kint(&w, "detail_level", p->detail_level);
    jw_obj_end(&w);
    r = kernel_request(h, k, type, buf_view(&b), &reply, e);
    if (r >= 0)
        r = json_parse(h->arena, reply, &j, e);
    *ret = j;
    return r;
}

static int complete_run(struct hand *h, const void *params, void *result, struct err *e)
{
    struct complete_result *out = result;
    const struct json *reply = NULL;

    int r = look(h, params, "complete_request", &reply, e);
    if (r < 0)
        return r;
    const struct json *list = json_get(reply, "matches");
    out->matches.v = arena_alloc(h->arena, MATCHES_MAX * sizeof(struct str));
    for (const struct json *m = list ? list->first : NULL; m && out->matches.n < MATCHES_MAX; m = m->next)
        if (m->type == JSON_STR)
            out->matches.v[out->matches.n++] = m->s;
    out->cursor_start = json_get_int(reply, "cursor_start", 0);
    out->cursor_end = json_get_int(reply, "cursor_end", 0);
    return 0;
}

static int inspect_run(struct hand *h, const void *params, void *result, struct err *e)
{
    struct inspect_result *out = result;
    const struct json *reply = NULL;

    int r = look(h, params, "inspect_request", &reply, e);
    if (r < 0)
        return r;
    const struct json *data = json_get(reply, "data");
    out->found = json_get_bool(reply, "found", false);
    out->data = data && data->type == JSON_OBJ && field_check_depth(data, NULL) >= 0 ? data->raw : STR("{}");
    out->text = outputs_plain(json_get_str(data, "text/plain"), h->arena);
    return 0;
}

#endif

#define ROW(verb, params_, result_)                                                                                    \
    .params = params_##_fields, .params_size = sizeof(struct params_##_params), .result = result_##_result_fields,     \
    .result_size = sizeof(struct result_##_result), .begin = BOX_CODE(verb##_begin)

enum { LOOKS = TOOL_READ_ONLY | TOOL_IDEMPOTENT };

static const struct tool jupyter_tools[] = {
    { .name = "jupyter:execute",
      .title = "Run a cell",
      .help = "Runs code in a Jupyter kernel. Variables stay for the next cell; tables, images and errors come back as "
              "notebook outputs.",
      .flags = TOOL_NEEDS_BOX | TOOL_PARALLEL,
      ROW(execute, execute, cell),
      .run_hand = BOX_CODE(execute_run) },
    { .name = "jupyter:input",
      .title = "Answer a cell's question",
      .help = "Gives the answer to input() in a cell that is waiting for it, and goes on with the cell.",
      .flags = TOOL_NEEDS_BOX | TOOL_PARALLEL,
      ROW(input, input, cell),
      .run_hand = BOX_CODE(input_run) },
    { .name = "jupyter:create",
      .title = "Start a kernel",
      .help = "Starts the kernel of a session, if it is not there yet.",
      .flags = TOOL_NEEDS_BOX | TOOL_PARALLEL,
      ROW(create, create, create),
      .run_hand = BOX_CODE(create_run) },
    { .name = "jupyter:list",
      .title = "List kernels",
      .help = "Lists the sessions of the box.",
      .flags = TOOL_NEEDS_BOX | TOOL_PARALLEL | LOOKS,
      ROW(list, none, list) },
    { .name = "jupyter:delete",
      .title = "End a kernel",
      .help = "Ends a session with its kernel and all that it started.",
      .flags = TOOL_NEEDS_BOX | TOOL_PARALLEL,
      ROW(delete, delete, delete) },
    { .name = "jupyter:interrupt",
      .title = "Interrupt a cell",
      .help = "Interrupts the cell under way, as the stop button does. Variables stay.",
      .flags = TOOL_NEEDS_BOX | TOOL_PARALLEL,
      ROW(interrupt, session, interrupt),
      .run_hand = BOX_CODE(interrupt_run) },
    { .name = "jupyter:restart",
      .title = "Restart a kernel",
      .help = "Ends the kernel and starts a new one. Variables are gone, files are not.",
      .flags = TOOL_NEEDS_BOX | TOOL_PARALLEL,
      ROW(restart, session, create),
      .run_hand = BOX_CODE(restart_run) },
    { .name = "jupyter:complete",
      .title = "Complete code",
      .help = "What could stand at a place in a cell.",
      .flags = TOOL_NEEDS_BOX | TOOL_PARALLEL,
      ROW(look, look, complete),
      .run_hand = BOX_CODE(complete_run) },
    { .name = "jupyter:inspect",
      .title = "Inspect a name",
      .help = "What is known about the name at a place in a cell: signature, documentation.",
      .flags = TOOL_NEEDS_BOX | TOOL_PARALLEL,
      ROW(look, look, inspect),
      .run_hand = BOX_CODE(inspect_run) },
    { .name = "jupyter:info",
      .title = "Which kernels there are",
      .help = "Lists the kernel specs that are installed in the box.",
      .flags = TOOL_NEEDS_BOX | TOOL_PARALLEL | LOOKS,
      ROW(info, none, info) },
};

const struct backend backend_jupyter = { .name = "jupyter",
                                         .full_names = true,
                                         .help = "Jupyter kernels: persistent variables, rich outputs.",
                                         .kind = KIND_SESSION,
                                         .interprets = true,
                                         .tools = jupyter_tools,
                                         .tool_count = ARRAY_LEN(jupyter_tools) };

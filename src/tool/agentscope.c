/* AgentScope's two tools, with its names and its form of a result: pieces of text that say what they are, and isError.
 * As there, what a cell or a command writes to stderr is an error; unlike there, so is an exception. */
#include <string.h>

#include "base/auto.h"
#include "base/limits.h"
#include "tool/tool.h"

struct cell_params {
    struct str code;
};
static const struct field cell_fields[] = {
    FIELD(STR, struct cell_params, code, "the cell; variables stay for the next one", .required = true,
          .max = LIMIT_CODE),
    { 0 },
};
struct command_params {
    struct str command;
};
static const struct field command_fields[] = {
    FIELD(STR, struct command_params, command, "what a fresh /bin/sh executes in /home/gem", .required = true,
          .max = LIMIT_COMMAND),
    { 0 },
};
struct piece {
    struct str type, text, description;
};
static const struct field piece_fields[] = {
    FIELD(STR, struct piece, type, "text"),
    FIELD(STR, struct piece, text, "the piece", .always = true),
    FIELD(STR, struct piece, description, "stdout, stderr or returncode"),
    { 0 },
};
struct pieces_result {
    struct rows content;
    bool isError;
};
static const struct field pieces_result_fields[] = {
    FIELD(ROWS, struct pieces_result, content, "stdout, then stderr if there is any", .always = true,
          .rows = piece_fields, .row_size = sizeof(struct piece)),
    FIELD(BOOL, struct pieces_result, isError, "something was written to stderr, or there was an exception"),
    { 0 },
};

#ifdef IN_BOX

#include "init/init.h"
#include "init/kernel.h"
#include "init/program.h"
#include "init/script.h"
#include "init/task.h"
#include "wire/boot.h"

enum { PIECES_MAX = 3 };

static void add(struct pieces_result *r, struct str text, const char *what)
{
    ((struct piece *)r->content.v)[r->content.n++] =
        (struct piece){ .type = STR("text"), .text = text, .description = str_of(what) };
}

/* The kernel is the one that jupyter:execute without a session has. */
static void cell_begin(struct task *t, const void *params)
{
    struct driver_ask ask = {
        .kind = &jupyter_kind,
        .name = str_of(arena_printf(&t->arena, "w:%.*s", STR_ARG(t->call.session))),
        .label = STR("default"),
        .note = STR("python3"),
        .spare = kernel_may_wait(t->init, (struct str){ 0 }),
    };
    struct err e;

    (void)params;
    if (scripts_write(&e) < 0) {
        task_fail(t, OUTCOME_INFRA_ERROR, &e);
        return;
    }
    if (t->init->boot.fork_python)
        kernel_ahead(t->init);
    driver_submit(t, &ask);
}

/* A traceback without colours: it is read as text. */
static struct str plain(struct hand *h, const struct cell_end *end)
{
    struct buf b = { .cap = LIMIT_OUTPUT_HEAD };

    for (size_t i = 0; i < end->traceback.n; i++) {
        buf_str(&b, outputs_plain(end->traceback.v[i], h->arena));
        buf_char(&b, '\n');
    }
    struct str text = arena_copy(h->arena, buf_view(&b));
    buf_done(&b);
    return text;
}

static int cell_run(struct hand *h, const void *params, void *result, struct err *e)
{
    const struct cell_params *p = params;
    struct pieces_result *r = result;
    struct kernel *k = NULL;
    struct cell_end end;

    int n = kernel_get(h, (struct str){ 0 }, (struct str){ 0 }, &k, e);
    if (n >= 0)
        n = kernel_run(h, k, &(struct cell){ .code = p->code, .no_stdin = true }, &end, e);
    if (n < 0)
        return n;
    struct str err = outputs_text(end.outputs, "stderr", false, h->arena);
    if (end.status == CELL_ERROR)
        err = str_of(arena_printf(h->arena, "%.*s%.*s", STR_ARG(err), STR_ARG(plain(h, &end))));
    else if (end.status != CELL_OK)
        err = str_of(arena_printf(h->arena, "%.*sthe cell did not end: %.*s\n", STR_ARG(err),
                                  STR_ARG(end.evalue.n ? end.evalue : STR("timed out or interrupted"))));
    r->content.v = arena_alloc(h->arena, PIECES_MAX * sizeof(struct piece));
    add(r, outputs_text(end.outputs, "stdout", true, h->arena), "stdout");
    if (err.n)
        add(r, err, "stderr");
    r->isError = err.n > 0;
    h->dropped_bytes = outputs_dropped(end.outputs);
    if (end.status != CELL_OK) {
        h->outcome = end.status == CELL_TIMEOUT ? OUTCOME_TIMEOUT : OUTCOME_TASK_ERROR;
        h->message = end.ename.n ? end.ename : STR("the cell failed");
    }
    return 0;
}

static int command_run(struct hand *h, const void *params, void *result, struct err *e)
{
    const struct command_params *p = params;
    const char *argv[] = { "/bin/sh", "-c", arena_z(h->arena, p->command), NULL };
    struct pieces_result *r = result;
    struct program_end end;

    int n = program_run(h,
                        &(struct program_opts){ .argv = argv,
                                                .cwd = arena_z(h->arena, h->cwd),
                                                .deadline_ms = h->deadline_ms ? h->deadline_ms - 50 : 0,
                                                .head_max = (size_t)h->head_bytes,
                                                .tail_max = (size_t)h->tail_bytes },
                        &end, e);
    if (n < 0)
        return n;
    r->content.v = arena_alloc(h->arena, PIECES_MAX * sizeof(struct piece));
    add(r, end.out, "stdout");
    if (end.err.n)
        add(r, end.err, "stderr");
    add(r, str_of(arena_printf(h->arena, "%d", end.exit_code)), "returncode");
    r->isError = end.err.n > 0;
    h->cpu_us = end.cpu_us;
    h->dropped_bytes = end.dropped_bytes;
    if (end.timed_out || end.exit_code) {
        h->outcome = end.timed_out ? OUTCOME_TIMEOUT : OUTCOME_TASK_ERROR;
        h->message = str_of(arena_printf(h->arena, "exit status %d", end.exit_code));
    }
    return 0;
}

#endif

#define ROW(name_)                                                                                                     \
    .params = name_##_fields, .params_size = sizeof(struct name_##_params), .result = pieces_result_fields,            \
    .result_size = sizeof(struct pieces_result), .run_hand = BOX_CODE(name_##_run)

static const struct tool agentscope_tools[] = {
    { .name = "agentscope:run_ipython_cell",
      .title = "Run a cell",
      .help = "Runs Python code in a kernel that keeps its variables, and returns what it wrote.",
      .flags = TOOL_NEEDS_BOX,
      .begin = BOX_CODE(cell_begin),
      ROW(cell) },
    { .name = "agentscope:run_shell_command",
      .title = "Run a shell command",
      .help = "Runs a command in a fresh shell and returns stdout, stderr and the return code.",
      .flags = TOOL_NEEDS_BOX,
      ROW(command) },
};

const struct backend backend_agentscope = { .name = "agentscope",
                                            .help = "The tools of AgentScope's base sandbox.",
                                            .kind = KIND_SESSION,
                                            .interprets = true,
                                            .tools = agentscope_tools,
                                            .tool_count = ARRAY_LEN(agentscope_tools) };

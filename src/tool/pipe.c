/* A program in the box whose stdin and stdout are a byte stream of whoever asked: how the server talks to programs that
 * speak a protocol of lines, such as MCP servers. */
#include "tool/tool.h"

#include "base/limits.h"
#ifdef IN_BOX
#include "init/hand.h"
#include "init/program.h"
#endif

enum { STDERR_MAX = 4096 };

struct run_params {
    struct strs argv;
    struct pairs env;
    struct str cwd;
};
static const struct field run_fields[] = {
    FIELD(STRS, struct run_params, argv, "the program and its arguments", .required = true, .max = 256),
    FIELD(PAIRS, struct run_params, env, "more variables", .max = 1024),
    FIELD(STR, struct run_params, cwd, "where it runs", .max = LIMIT_PATH),
    { 0 },
};
struct run_result {
    int64_t exit_code;
    struct str stderr;
};
static const struct field run_result_fields[] = {
    FIELD(INT, struct run_result, exit_code, "how it ended"),
    FIELD(STR, struct run_result, stderr, "the end of what it said there", .always = true),
    { 0 },
};

#ifdef IN_BOX
static int run(struct hand *h, const void *params, void *result, struct err *e)
{
    const struct run_params *p = params;
    struct run_result *out = result;
    const char **argv = arena_alloc(h->arena, (p->argv.n + 1) * sizeof *argv);
    struct program_end end;

    for (size_t i = 0; i < p->argv.n; i++)
        argv[i] = arena_z(h->arena, p->argv.v[i]);
    struct program_opts o = { .argv = argv,
                              .cwd = p->cwd.n ? arena_z(h->arena, p->cwd) : arena_z(h->arena, h->cwd),
                              .env = &p->env,
                              .socket = h->stream,
                              .deadline_ms = h->deadline_ms,
                              .head_max = 0,
                              .tail_max = STDERR_MAX };
    int r = p->argv.n ? program_run(h, &o, &end, e) : err_set(e, ERR_INVALID, "argv: which program?");
    if (r < 0)
        return r;
    out->exit_code = end.exit_code;
    out->stderr = end.err;
    return 0;
}
#endif

static const struct tool tools[] = {
    { .name = "pipe:run",
      .title = "Talk to a program",
      .help = "Runs a program whose stdin and stdout are the call's byte stream.",
      .flags = TOOL_NEEDS_BOX | TOOL_STREAM | TOOL_PARALLEL | TOOL_HIDDEN,
      .params = run_fields,
      .params_size = sizeof(struct run_params),
      .result = run_result_fields,
      .result_size = sizeof(struct run_result),
      .run_hand = BOX_CODE(run) },
};

const struct backend backend_pipe = {
    .name = "pipe",
    .help = "Programs that speak a protocol over stdin and stdout.",
    .kind = KIND_SESSION,
    .tools = tools,
    .tool_count = 1,
    .full_names = true,
};

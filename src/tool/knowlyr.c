/* knowlyr-sandbox's five tools, and the task's tests. The work is that of the file and code backends; here are its
 * names, its one shape of result, and its work directory. No text of a client ever becomes shell text, but for `shell`
 * and the tests, whose whole point it is: what its arguments name is passed as arguments. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/limits.h"
#include "tool/file_internal.h"
#include "tool/tool.h"
#include "wire/boot.h"

#define WORK_DIR "/workspace"

/* In every row: serve fills it in with the box's own work directory if the client leaves it out. */
#define WORK_DIR_FIELD(type_)                                                                                          \
    FIELD(STR, struct type_, work_dir, "where relative paths begin; default: the box's work directory, " WORK_DIR,     \
          .max = LIMIT_PATH, .path = true)
#define TIMEOUT_FIELD(type_)                                                                                           \
    FIELD(NUM, struct type_, timeout, "seconds after which it is ended, with all that it started; default: the box's", \
          .min = 0, .max = LIMIT_TIMEOUT_MS / 1000)

#define ENV_FIELD(type_) FIELD(PAIRS, struct type_, env, "more variables, beside the box's", .max = LIMIT_ENV)

struct file_read_ask {
    struct str path, work_dir;
    int64_t start_line, end_line;
};
static const struct field file_read_fields[] = {
    FIELD(STR, struct file_read_ask, path, "file", .required = true, .max = LIMIT_PATH, .path = true),
    FIELD(INT, struct file_read_ask, start_line, "first line, from 1; 0: from the beginning", .min = 0, .max = 1e15),
    FIELD(INT, struct file_read_ask, end_line, "last line, which is included; 0: to the end", .min = 0, .max = 1e15),
    WORK_DIR_FIELD(file_read_ask),
    { 0 },
};

struct file_write_ask {
    struct str path, content, work_dir;
    bool create_dirs;
};
static const struct field file_write_fields[] = {
    FIELD(STR, struct file_write_ask, path, "file", .required = true, .max = LIMIT_PATH, .path = true),
    FIELD(STR, struct file_write_ask, content, "its whole content", .required = true, .max = LIMIT_FILE_IO),
    FIELD(BOOL, struct file_write_ask, create_dirs, "make missing directories", .def = true),
    WORK_DIR_FIELD(file_write_ask),
    { 0 },
};

struct shell_ask {
    struct str command, work_dir;
    double timeout;
    struct pairs env;
};
static const struct field shell_fields[] = {
    FIELD(STR, struct shell_ask, command, "what a fresh bash executes", .required = true, .max = 128 * KiB - 1),
    TIMEOUT_FIELD(shell_ask),
    ENV_FIELD(shell_ask),
    WORK_DIR_FIELD(shell_ask),
    { 0 },
};

struct search_ask {
    struct str pattern, path, file_pattern, work_dir;
};
static const struct field search_fields[] = {
    FIELD(STR, struct search_ask, pattern, "regular expression as grep knows it", .required = true, .max = 64 * KiB),
    FIELD(STR, struct search_ask, path, "file or directory", .def_str = ".", .max = LIMIT_PATH, .path = true),
    FIELD(STR, struct search_ask, file_pattern, "only files whose name matches, such as *.py", .max = LIMIT_PATH),
    WORK_DIR_FIELD(search_ask),
    { 0 },
};

struct git_ask {
    struct str subcommand, args, work_dir;
    double timeout;
    struct pairs env;
};
static const struct field git_fields[] = {
    FIELD(STR, struct git_ask, subcommand, "such as diff, log, status", .required = true, .max = 64 * KiB),
    FIELD(STR, struct git_ask, args,
          "its arguments; quotes and backslashes group words as in a shell, and nothing is "
          "expanded",
          .max = 64 * KiB),
    TIMEOUT_FIELD(git_ask),
    ENV_FIELD(git_ask),
    WORK_DIR_FIELD(git_ask),
    { 0 },
};

struct tests_ask {
    struct str test_command, work_dir;
    double timeout;
    struct pairs env;
};
static const struct field tests_fields[] = {
    FIELD(STR, struct tests_ask, test_command, "what a fresh bash executes; default: the box's test command",
          .max = 128 * KiB - 1),
    TIMEOUT_FIELD(tests_ask),
    ENV_FIELD(tests_ask),
    WORK_DIR_FIELD(tests_ask),
    { 0 },
};

struct reply {
    struct str output, error;
    int64_t exit_code;
    bool success;
};
static const struct field reply_fields[] = {
    FIELD(STR, struct reply, output, "what it printed, or the file", .always = true),
    FIELD(INT, struct reply, exit_code, "0: it succeeded; 124: its time was over"),
    FIELD(STR, struct reply, error, "what it said on stderr, or why it failed", .nullable = true),
    FIELD(BOOL, struct reply, success, "the exit code is 0: warnings on stderr do not make a failure"),
    { 0 },
};

#ifdef IN_BOX

#include "base/loop.h"
#include "init/hand.h"
#include "init/program.h"

enum { EXIT_TIMEOUT = 124, ARGS_MAX = 1024, MARGIN_MS = 250 };

/* --- what they share --- */

/* A failure is a result: exit code 1, and why. Only a parameter that nobody gave stays an error. */
static int failed(struct hand *h, struct reply *r, struct err *e)
{
    if (e->code == ERR_MISSING)
        return -EINVAL;
    r->exit_code = 1;
    r->error = str_of(arena_printf(h->arena, "%s", e->msg));
    h->outcome = e->sys == ENOSPC || e->sys == EDQUOT ? OUTCOME_DISK_FULL : OUTCOME_TASK_ERROR;
    h->message = r->error;
    return 0;
}

/* The hand's directory for this call; the next call has its own. */
static int enter(struct hand *h, struct str work_dir, struct str *ret_before, struct err *e)
{
    struct stat st;
    char *dir = WORK_DIR;

    *ret_before = h->cwd;
    h->cwd = STR(WORK_DIR);
    int r = work_dir.n ? file_path(h, work_dir, &dir, e) : 0;
    h->cwd = *ret_before;
    if (r < 0)
        return r;
    if (stat(dir, &st) < 0)
        return file_fail(e, "enter", dir);
    if (!S_ISDIR(st.st_mode))
        return err_set(e, ERR_NOT_FOUND, "enter %s: not a directory", dir);
    h->cwd = str_of(dir);
    return 0;
}

/* ~ is the user's home, and not the work directory as it would be to file_path(). */
static int path_of(struct hand *h, struct str path, char **ret, struct err *e)
{
    struct str here = h->cwd;

    if (path.n && path.p[0] == '~')
        h->cwd = STR(BOX_HOME);
    int r = file_path(h, path, ret, e);
    h->cwd = here;
    return r;
}

static void take_end(struct hand *h, const struct program_end *end, double limit_s, struct reply *r)
{
    const char *name = end->sig > 0 ? sigabbrev_np(end->sig) : NULL;

    h->cpu_us = end->cpu_us;
    h->dropped_bytes = end->dropped_bytes;
    r->output = end->out;
    r->error = end->err.n ? end->err : (struct str){ 0 };
    r->exit_code = end->exit_code;
    if (end->timed_out) {
        bool gap = end->err.n && end->err.p[end->err.n - 1] != '\n';
        h->outcome = OUTCOME_TIMEOUT;
        h->message =
            str_of(arena_printf(h->arena, "timed out after %.3g s; the program and its children were killed", limit_s));
        r->exit_code = EXIT_TIMEOUT;
        r->error =
            str_of(arena_printf(h->arena, "%.*s%s%.*s", STR_ARG(end->err), gap ? "\n" : "", STR_ARG(h->message)));
    } else if (end->exit_code) {
        h->outcome = program_disk_full(end->err) ? OUTCOME_DISK_FULL : OUTCOME_TASK_ERROR;
        h->message = str_of(name ? arena_printf(h->arena, "ended by SIG%s", name)
                                 : arena_printf(h->arena, "exit status %d", end->exit_code));
    }
}

/* A little before init would kill this hand, and with it what it has read. */
static int64_t deadline(const struct hand *h, double timeout_s, double *ret_s)
{
    int64_t now = now_ms(), left = h->deadline_ms ? h->deadline_ms - now : INT64_MAX;
    int64_t margin = left / 20 < MARGIN_MS ? left / 20 : MARGIN_MS;
    int64_t own = timeout_s > 0 ? (int64_t)(timeout_s * 1000) : INT64_MAX;

    if (own == INT64_MAX && left == INT64_MAX)
        return 0;
    *ret_s = (double)(own <= left + MARGIN_MS ? own : (left + 49) / 50 * 50) / 1000;
    return now + (own < left - margin ? own : left - margin);
}

static int run_program(struct hand *h, const char *const *argv, double timeout, const struct pairs *given,
                       struct reply *r, struct err *e)
{
    struct pair more[] = {
        { STR("PYTHONUNBUFFERED"), STR("1") }, /* what was printed before a timeout is not lost */
        { STR("GIT_PAGER"), STR("cat") },
        { STR("GIT_TERMINAL_PROMPT"), STR("0") },
    };
    struct pairs env = { arena_alloc(h->arena, (given->n + ARRAY_LEN(more)) * sizeof *env.v), ARRAY_LEN(more) };
    struct program_end end;
    double limit_s = 0;
    memcpy(env.v, more, sizeof more);
    for (size_t i = 0; i < given->n; i++) /* a later one wins */
        env.v[env.n++] = given->v[i];
    int64_t at = deadline(h, timeout, &limit_s);

    int n = program_run(h,
                        &(struct program_opts){ .argv = argv,
                                                .cwd = arena_z(h->arena, h->cwd),
                                                .env = &env,
                                                .deadline_ms = at,
                                                .head_max = (size_t)h->head_bytes,
                                                .tail_max = (size_t)h->tail_bytes },
                        &end, e);
    if (n >= 0)
        take_end(h, &end, limit_s, r);
    return n;
}

static int text_arg(struct hand *h, const char *name, struct str s, const char **ret, struct err *e)
{
    if (s.n && memchr(s.p, 0, s.n))
        return err_set(e, ERR_INVALID, "%s contains a NUL byte", name);
    *ret = arena_z(h->arena, s);
    return 0;
}

/* --- the tools, each in the directory that enter() gave --- */

static int read_in(struct hand *h, const void *params, struct reply *r, struct err *e)
{
    const struct file_read_ask *p = params;
    struct stat st;
    char *path;

    int n = path_of(h, p->path, &path, e);
    if (n >= 0)
        n = file_read_all(h, path, &r->output, &st, e);
    if (n < 0)
        return n;
    if (p->start_line > 0 || p->end_line > 0)
        r->output =
            file_cut_lines(r->output, p->start_line > 0 ? p->start_line : 1, p->end_line > 0 ? p->end_line : INT64_MAX);
    return 0;
}

static int write_in(struct hand *h, const void *params, struct reply *r, struct err *e)
{
    const struct file_write_ask *p = params;
    struct stat st;
    char *path;

    int n = path_of(h, p->path, &path, e);
    if (n < 0)
        return n;
    auto_close int fd = file_create(path, 0, p->create_dirs, &st, e);
    n = fd < 0 ? fd : file_store(fd, path, p->content, e);
    if (n < 0)
        return n;
    r->output = str_of(arena_printf(h->arena, "已写入 %zu 字节到 %.*s", p->content.n, STR_ARG(p->path)));
    return 0;
}

static int shell_in(struct hand *h, const void *params, struct reply *r, struct err *e)
{
    const struct shell_ask *p = params;
    const char *argv[] = { "bash", "-c", NULL, NULL };

    int n = text_arg(h, "command", p->command, &argv[2], e);
    return n < 0 ? n : run_program(h, argv, p->timeout, &p->env, r, e);
}

static int tests_in(struct hand *h, const void *params, struct reply *r, struct err *e)
{
    const struct tests_ask *p = params;
    const char *argv[] = { "bash", "-c", NULL, NULL };

    if (!p->test_command.n)
        return err_set(e, ERR_MISSING, "test_command: the box was made without one, and the call names none");
    int n = text_arg(h, "test_command", p->test_command, &argv[2], e);
    return n < 0 ? n : run_program(h, argv, p->timeout, &p->env, r, e);
}

/* grep walks a directory in the order in which it lies on disk, which another box need not share. */
struct hit {
    struct str path, line;
    size_t at;
};

static int by_path(const void *x, const void *y)
{
    const struct hit *a = x, *b = y;
    size_t n = a->path.n < b->path.n ? a->path.n : b->path.n;
    int c = n ? memcmp(a->path.p, b->path.p, n) : 0;

    if (!c)
        c = (a->path.n > b->path.n) - (a->path.n < b->path.n);
    return c ? c : (a->at > b->at) - (a->at < b->at);
}

/* path NUL number:text  becomes  path:number:text; the lines of one file have no path and are in order. */
static struct str sorted(struct hand *h, struct str out)
{
    if (!out.n || !memchr(out.p, 0, out.n))
        return arena_copy(h->arena, out);
    size_t n = 0, room = (size_t)file_count_lines(out);
    struct hit *hits = arena_alloc(h->arena, (room + 1) * sizeof *hits);
    char *text = arena_alloc(h->arena, out.n + 2), *to = text;

    for (const char *p = out.p, *end = out.p + out.n; p < end && n < room; n++) {
        const char *nl = memchr(p, '\n', (size_t)(end - p));
        struct str line = { p, (size_t)((nl ? nl + 1 : end) - p) };
        const char *nul = memchr(line.p, 0, line.n);
        hits[n] = (struct hit){ .line = line, .at = n, .path = { p, nul ? (size_t)(nul - p) : line.n } };
        p += line.n;
    }
    qsort(hits, n, sizeof *hits, by_path);
    for (size_t i = 0; i < n; i++) {
        memcpy(to, hits[i].line.p, hits[i].line.n);
        if (hits[i].path.n < hits[i].line.n)
            to[hits[i].path.n] = ':';
        to += hits[i].line.n;
        if (to[-1] != '\n')
            *to++ = '\n';
    }
    return (struct str){ text, (size_t)(to - text) };
}

static bool on_grep_output(void *arg, const char *p, size_t n)
{
    struct buf *b = arg;

    buf_add(b, p, n);
    return !b->full;
}

static int search_in(struct hand *h, const void *params, struct reply *r, struct err *e)
{
    const struct search_ask *p = params;
    const char *argv[12] = { "grep", "-rnZ", "--devices=skip", "--color=never" }, *only = NULL;
    AUTO(buf_done) struct buf out = { .cap = LIMIT_GREP_OUTPUT };
    struct program_end end;
    double limit_s = 0;
    size_t k = 4;

    int n = text_arg(h, "file_pattern", p->file_pattern, &only, e);
    if (n >= 0 && *only)
        argv[k++] = arena_printf(h->arena, "--include=%s", only);
    argv[k++] = "-e";
    n = n < 0 ? n : text_arg(h, "pattern", p->pattern, &argv[k++], e);
    argv[k++] = "--";
    n = n < 0 ? n : text_arg(h, "path", p->path, &argv[k++], e);
    if (n < 0)
        return n;
    struct program_opts o = { .argv = argv,
                              .cwd = arena_z(h->arena, h->cwd),
                              .head_max = (size_t)h->head_bytes,
                              .tail_max = (size_t)h->tail_bytes,
                              .on_stdout = on_grep_output,
                              .arg = &out };
    o.deadline_ms = deadline(h, 0, &limit_s);
    n = program_run(h, &o, &end, e);
    if (n < 0)
        return n;
    if (end.stopped)
        return err_set(e, ERR_LIMIT, "what matches exceeds LIMIT_GREP_OUTPUT (%ld bytes); narrow the search",
                       LIMIT_GREP_OUTPUT);
    if (end.exit_code == 1 && !end.err.n)
        end.exit_code = 0; /* nothing found is an answer */
    take_end(h, &end, limit_s, r);
    r->output = sorted(h, buf_view(&out));
    return 0;
}

/* The words of a line as a shell would see them: quotes and backslashes, no expansion of any kind. */
static int split_words(struct hand *h, const char *name, struct str s, const char **argv, size_t *n, struct err *e)
{
    const char *p = s.p, *end = s.p + s.n;

    while (p < end) {
        if (strchr(" \t\n\r", *p)) {
            p++;
            continue;
        }
        char *word = arena_alloc(h->arena, (size_t)(end - p) + 1), *to = word;
        char quote = 0;
        for (; p < end && (quote || !strchr(" \t\n\r", *p)); p++) {
            if (*p == quote)
                quote = 0;
            else if (!quote && (*p == '\'' || *p == '"'))
                quote = *p;
            else if (*p == '\\' && quote != '\'' && p + 1 < end && (!quote || strchr("\"\\$`", p[1])))
                *to++ = *++p;
            else
                *to++ = *p;
        }
        if (quote)
            return err_set(e, ERR_INVALID, "%s: a quote (%c) is not closed", name, quote);
        if (*n == ARGS_MAX)
            return err_set(e, ERR_LIMIT, "%s: more than %d words", name, ARGS_MAX);
        argv[(*n)++] = word;
    }
    return 0;
}

static int git_in(struct hand *h, const void *params, struct reply *r, struct err *e)
{
    const struct git_ask *p = params;
    const char **argv = arena_alloc(h->arena, (ARGS_MAX + 2) * sizeof *argv), *text;
    size_t k = 0;

    int n = text_arg(h, "subcommand", p->subcommand, &text, e);
    n = n < 0 ? n : text_arg(h, "args", p->args, &text, e);
    argv[k++] = "git";
    n = n < 0 ? n : split_words(h, "subcommand", p->subcommand, argv, &k, e);
    n = n < 0 ? n : split_words(h, "args", p->args, argv, &k, e);
    return n < 0 ? n : run_program(h, argv, p->timeout, &p->env, r, e);
}

static int run_in(struct hand *h, const void *params, struct str work_dir, struct reply *r,
                  int (*work)(struct hand *h, const void *params, struct reply *r, struct err *e), struct err *e)
{
    struct str before;

    int n = enter(h, work_dir, &before, e);
    if (n >= 0)
        n = work(h, params, r, e);
    h->cwd = before;
    if (n == -EAGAIN && h->quick)
        return n;
    if (n < 0)
        n = failed(h, r, e);
    r->success = n >= 0 && r->exit_code == 0;
    return n;
}

#define RUN(verb, ask)                                                                                                 \
    static int verb##_run(struct hand *h, const void *params, void *result, struct err *e)                             \
    {                                                                                                                  \
        return run_in(h, params, ((const struct ask *)params)->work_dir, result, verb##_in, e);                        \
    }
RUN(read, file_read_ask)
RUN(write, file_write_ask)
RUN(shell, shell_ask)
RUN(search, search_ask)
RUN(git, git_ask)
RUN(tests, tests_ask)

#endif

#define ROW(verb, params_, ask)                                                                                        \
    .params = params_##_fields, .params_size = sizeof(struct ask), .result = reply_fields,                             \
    .result_size = sizeof(struct reply), .run_hand = BOX_CODE(verb##_run)

static const struct tool knowlyr_tools[] = {
    { .name = "knowlyr:file_read",
      .title = "Read a file",
      .help = "Reads a file, or some of its lines.",
      .flags = TOOL_NEEDS_BOX | TOOL_READ_ONLY | TOOL_IDEMPOTENT,
      ROW(read, file_read, file_read_ask) },
    { .name = "knowlyr:file_write",
      .title = "Write a file",
      .help = "Writes a file and makes missing directories.",
      .flags = TOOL_NEEDS_BOX | TOOL_IDEMPOTENT,
      ROW(write, file_write, file_write_ask) },
    { .name = "knowlyr:shell",
      .title = "Run a command",
      .help =
          "Runs a command in a fresh bash in the work directory. Nothing that it starts outlives the call; files do.",
      .flags = TOOL_NEEDS_BOX,
      ROW(shell, shell, shell_ask) },
    { .name = "knowlyr:search",
      .title = "Search in files",
      .help = "Returns the lines that match as file:line:text, sorted by file.",
      .flags = TOOL_NEEDS_BOX | TOOL_READ_ONLY | TOOL_PROGRAM | TOOL_IDEMPOTENT,
      ROW(search, search, search_ask) },
    { .name = "knowlyr:git",
      .title = "Git",
      .help = "Runs git in the work directory: diff, log, status and all the others.",
      .flags = TOOL_NEEDS_BOX,
      ROW(git, git, git_ask) },
    { .name = "knowlyr:run_tests",
      .title = "Run the task's tests",
      .help = "Runs the test command that the box was made with.",
      .flags = TOOL_NEEDS_BOX,
      ROW(tests, tests, tests_ask) },
};

const struct backend backend_knowlyr = { .name = "knowlyr",
                                         .help = "The tools of knowlyr-sandbox, in the work directory of a box.",
                                         .kind = KIND_SESSION,
                                         .tools = knowlyr_tools,
                                         .tool_count = ARRAY_LEN(knowlyr_tools),
                                         .full_names = true };

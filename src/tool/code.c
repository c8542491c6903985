/* Code: code:execute runs a snippet in a fresh process and ends everything that it started, so that nothing but files
 * stays; or, with a session, in a context that lasts (code_session.c). The other tools are file work (code_text.c) and a
 * shell under the names, parameters and text formats that AgentFlow gives them; their results are one text, in the field `result`.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/limits.h"
#include "tool/code_internal.h"
#include "tool/file_internal.h"
#include "tool/tool.h"

enum { READ_LINES = 2000, ARGS_MAX = 256 };

static const struct field execute_fields[] = {
    FIELD(STR, struct execute_params, code, "the program", .required = true, .max = LIMIT_CODE),
    FIELD(STR, struct execute_params, language, "its language", .def_str = "python",
          .choices = "python|javascript|bash|c|cpp|go|rust|java|perl|ruby"),
    FIELD(NUM, struct execute_params, timeout, "seconds after which it is ended, with all that it started", .min = 0,
          .max = LIMIT_TIMEOUT_MS / 1000),
    FIELD(STR, struct execute_params, stdin, "what it reads", .max = LIMIT_FILE_IO),
    FIELD(STRS, struct execute_params, args, "its arguments", .max = ARGS_MAX),
    FIELD(STR, struct execute_params, session,
          "python, javascript, bash: a context of that name, which keeps its variables; without it, a fresh process",
          .alias = "session_id", .max = LIMIT_SESSION_NAME),
    FIELD(STR, struct execute_params, cwd, "directory; /home/gem unless it is named. In a session it lasts",
          .max = LIMIT_PATH, .path = true),
    FIELD(STR, struct execute_params, version, "javascript: of Node.js, 20 or node20; an error if there is no such one",
          .max = 32),
    FIELD(PAIRS, struct execute_params, files, "written before it runs, by name; relative to cwd", .max = 256),
    FIELD(INT, struct execute_params, memory_limit_mb, "MiB of data that one process may have; 0: what the box has",
          .min = 0, .max = 1024 * 1024),
    FIELD(NUM, struct execute_params, cpu_limit, "seconds of processor time of one process; 0: no limit", .min = 0,
          .max = 86400),
    FIELD(NUM, struct execute_params, max_idle,
          "session: of a new one, seconds without a call after which it ends; 0: never", .min = 0, .max = 7 * 86400),
    { 0 },
};
const struct field execute_result_fields[] = {
    FIELD(STR, struct execute_result, stdout, "head and tail if it was long", .always = true),
    FIELD(STR, struct execute_result, stderr, "the same", .always = true),
    FIELD(INT, struct execute_result, return_code, "0: it succeeded; 124: timed out; 128 + n: ended by signal n"),
    FIELD(INT, struct execute_result, exit_code, "the same number"),
    FIELD(NUM, struct execute_result, execution_time_ms, "from its start to its end"),
    FIELD(NUM, struct execute_result, memory_used_mb, "most memory that one of its processes had, in MiB"),
    FIELD(STR, struct execute_result, language, "as which it was run"),
    FIELD(STR, struct execute_result, status, "completed, timeout, interrupted or died"),
    FIELD(STR, struct execute_result, result, "session: the value of the last expression, as text"),
    FIELD(STR, struct execute_result, ename, "session: class of the exception"),
    FIELD(STR, struct execute_result, evalue, "session: its text"),
    FIELD(STRS, struct execute_result, traceback, "session: where it came from"),
    FIELD(STRS, struct execute_result, figures, "session: matplotlib figures, PNG in base64"),
    FIELD(INT, struct execute_result, execution_count, "session: number of the call", .def = FIELD_ABSENT),
    FIELD(STR, struct execute_result, session, "the context"),
    FIELD(BOOL, struct execute_result, restarted, "session: this context is new, the former one's variables are gone"),
    FIELD(BOOL, struct execute_result, carried,
          "session: this context is new in this box, and has the variables of the one that the state was taken of"),
    FIELD(STRS, struct execute_result, lost, "carried: variables that could not be taken along, with the reason"),
    FIELD(STR, struct execute_result, signal, "name of the signal that ended it"),
    FIELD(INT, struct execute_result, stdout_bytes, "true length"),
    FIELD(INT, struct execute_result, stderr_bytes, "true length"),
    { 0 },
};

struct program_params {
    struct strs argv;
    struct str cwd, stdin;
    struct pairs env;
    double timeout;
};
static const struct field program_fields[] = {
    FIELD(STRS, struct program_params, argv, "the program and its arguments, as they are: no shell reads them",
          .required = true, .max = ARGS_MAX),
    FIELD(STR, struct program_params, cwd, "directory; relative to /home/gem", .max = LIMIT_PATH, .path = true),
    FIELD(PAIRS, struct program_params, env, "more variables", .max = 1024),
    FIELD(STR, struct program_params, stdin, "what it reads", .max = LIMIT_FILE_IO),
    FIELD(NUM, struct program_params, timeout, "seconds after which it is ended, with all that it started", .min = 0,
          .max = LIMIT_TIMEOUT_MS / 1000),
    { 0 },
};

static const struct field text_result_fields[] = {
    FIELD(STR, struct text_result, result, "the answer, as text", .always = true),
    { 0 },
};

static const struct field read_fields[] = {
    FIELD(STR, struct read_params, file_path, "file; relative to /home/gem", .required = true, .max = LIMIT_PATH,
          .path = true),
    FIELD(INT, struct read_params, offset, "first line, from 1", .def = 1, .min = 1, .max = 1e15),
    FIELD(INT, struct read_params, limit, "so many lines", .def = READ_LINES, .min = 1, .max = 1e15),
    { 0 },
};

static const struct field glob_fields[] = {
    FIELD(STR, struct glob_params, pattern, "*, ?, [a-z], {a,b}; ** is any number of directories", .required = true,
          .max = LIMIT_PATH),
    FIELD(STR, struct glob_params, path, "directory in which to search; relative to /home/gem", .def_str = ".",
          .max = LIMIT_PATH, .path = true),
    { 0 },
};

static const struct field grep_fields[] = {
    FIELD(STR, struct grep_params, pattern, "regular expression as grep knows it", .required = true, .max = 64 * KiB),
    FIELD(STR, struct grep_params, path, "file or directory; relative to /home/gem", .def_str = ".", .max = LIMIT_PATH,
          .path = true),
    FIELD(STR, struct grep_params, glob, "only files whose name matches", .max = LIMIT_PATH),
    { 0 },
};

struct bash_params {
    struct str command;
    double timeout;
};
static const struct field bash_fields[] = {
    FIELD(STR, struct bash_params, command, "what a fresh bash executes", .required = true, .max = LIMIT_CODE),
    FIELD(NUM, struct bash_params, timeout, "seconds after which it is ended, with all that it started", .min = 0,
          .max = LIMIT_TIMEOUT_MS / 1000),
    { 0 },
};
struct bash_result {
    struct str result, status;
    int64_t exit_code;
};
static const struct field bash_result_fields[] = {
    FIELD(STR, struct bash_result, result, "stdout, then [stderr]: and stderr; or (no output)", .always = true),
    FIELD(INT, struct bash_result, exit_code, "124: timed out"),
    FIELD(STR, struct bash_result, status, "completed or timeout"),
    { 0 },
};

struct none_params {
    char none;
};
static const struct field none_fields[] = { { 0 } };
struct language_row {
    struct str language, program, version, help;
    bool lasting;
};
static const struct field language_row_fields[] = {
    FIELD(STR, struct language_row, language, "its name here"),
    FIELD(STR, struct language_row, program, "what runs or compiles it"),
    FIELD(STR, struct language_row, version, "as it says itself"),
    FIELD(STR, struct language_row, help, "how it is run"),
    FIELD(BOOL, struct language_row, lasting, "it has contexts that keep variables: session"),
    { 0 },
};
struct languages_result {
    struct rows languages;
};
static const struct field languages_result_fields[] = {
    FIELD(ROWS, struct languages_result, languages, "those whose programs are in the box and run", .always = true,
          .rows = language_row_fields, .row_size = sizeof(struct language_row)),
    { 0 },
};

static const struct field open_fields[] = {
    FIELD(STR, struct open_params, session, "its name", .required = true, .alias = "session_id",
          .max = LIMIT_SESSION_NAME),
    FIELD(STR, struct open_params, language, "of the context", .def_str = "python", .choices = "python|javascript"),
    FIELD(STR, struct open_params, cwd, "its directory; /home/gem unless it is named", .max = LIMIT_PATH, .path = true),
    FIELD(NUM, struct open_params, max_idle, "seconds without a call after which it ends; 0: never", .min = 0,
          .max = 7 * 86400),
    FIELD(STR, struct open_params, version, "javascript: of Node.js, 20 or node20; an error if there is no such one",
          .max = 32),
    FIELD(BOOL, struct open_params, must_exist, "it is an error if there is none of that name"),
    FIELD(
        BOOL, struct open_params, fresh,
        "an interpreter that is started now: none that waited, and with python.fork no fork, so its seeds are its own"),
    { 0 },
};
static const struct field open_result_fields[] = {
    FIELD(STR, struct open_result, session, "its name"),
    FIELD(STR, struct open_result, language, "of the context"),
    FIELD(STR, struct open_result, cwd, "its directory", .path = true),
    FIELD(BOOL, struct open_result, created, "it was not there before"),
    FIELD(NUM, struct open_result, created_at, "seconds since 1970"),
    FIELD(INT, struct open_result, max_idle, "seconds without a call after which it ends; 0: never"),
    { 0 },
};
static const struct field fork_fields[] = {
    FIELD(STR, struct fork_params, session, "which context", .required = true, .alias = "session_id",
          .max = LIMIT_SESSION_NAME),
    FIELD(STR, struct fork_params, to, "name of the copy", .required = true, .max = LIMIT_SESSION_NAME),
    { 0 },
};
static const struct field context_fields[] = {
    FIELD(STR, struct context_params, session, "which context", .required = true, .alias = "session_id",
          .max = LIMIT_SESSION_NAME),
    { 0 },
};
static const struct field end_fields[] = {
    FIELD(STR, struct end_params, session, "which context", .alias = "session_id", .max = LIMIT_SESSION_NAME),
    FIELD(BOOL, struct end_params, all, "every one"),
    { 0 },
};
static const struct field count_result_fields[] = {
    FIELD(INT, struct count_result, count, "how many"),
    { 0 },
};
static const struct field carry_fields[] = {
    FIELD(STR, struct carry_params, session, "a Python context", .required = true, .alias = "session_id",
          .max = LIMIT_SESSION_NAME),
    FIELD(STR, struct carry_params, path, "file; relative to /home/gem", .required = true, .max = LIMIT_PATH,
          .path = true),
    { 0 },
};
static const struct field carry_result_fields[] = {
    FIELD(STR, struct carry_result, path, "the file", .path = true),
    FIELD(INT, struct carry_result, bytes, "its size"),
    FIELD(STRS, struct carry_result, lost, "names that are not in it, or could not be made again", .always = true),
    { 0 },
};
static const struct field context_row_fields[] = {
    FIELD(STR, struct context_row, session, "its name"),
    FIELD(STR, struct context_row, language, "python or javascript"),
    FIELD(STR, struct context_row, cwd, "the directory that a call named last, or in which it was made", .path = true),
    FIELD(STR, struct context_row, status, "idle or busy"),
    FIELD(NUM, struct context_row, created_at, "seconds since 1970"),
    FIELD(NUM, struct context_row, last_used, "seconds since 1970"),
    FIELD(INT, struct context_row, age_seconds, "since it was made"),
    FIELD(INT, struct context_row, max_idle, "seconds without a call after which it ends; 0: never"),
    { 0 },
};
static const struct field contexts_result_fields[] = {
    FIELD(ROWS, struct contexts_result, sessions, "contexts of this box", .always = true, .rows = context_row_fields,
          .row_size = sizeof(struct context_row)),
    { 0 },
};

static const struct field edit_fields[] = {
    FIELD(STR, struct edit_params, file_path, "file; relative to /home/gem", .required = true, .max = LIMIT_PATH,
          .path = true),
    FIELD(STR, struct edit_params, old_string, "text that occurs exactly once", .required = true, .max = LIMIT_FILE_IO),
    FIELD(STR, struct edit_params, new_string, "its replacement", .required = true, .max = LIMIT_FILE_IO),
    FIELD(BOOL, struct edit_params, replace_all, "replace every occurrence"),
    { 0 },
};

static const struct field write_fields[] = {
    FIELD(STR, struct write_params, file_path, "file; relative to /home/gem", .required = true, .max = LIMIT_PATH,
          .path = true),
    FIELD(STR, struct write_params, content, "its whole content", .required = true, .max = LIMIT_FILE_IO),
    { 0 },
};

#ifdef IN_BOX

#include "base/loop.h"
#include "init/driver.h"
#include "init/program.h"

#define SNIPPET_DIR "/tmp/.sandglass-code"

enum { TRY_MS = 10000, LASTING = 3 }; /* the first so many languages have contexts */
#define JVM_OWN                                                                                                        \
    (256 * MiB) /* what Java's machine has beside the program's data: its own code, the compiler's classes */
enum { SLOTS = 64, EXIT_TIMEOUT = 124, MARGIN_MIN_MS = 10, MARGIN_MAX_MS = 250 };

struct language {
    const char *name, *program, *suffix;
    const char *compile; /* NULL: the program takes the file; else how bash makes $f.bin of $f */
    const char *version[4];
    const char *help;
};
/* Output of a compiler goes beside the file, in a directory of this user; the lock of the file guards it as well. */
#define COMPILE(command) command " -o \"$f.bin\" \"$f\""
static const struct language languages[] = {
    { "python", "python3", "py", NULL, { "python3", "--version" }, "fresh or lasting" },
    { "javascript", "node", "js", NULL, { "node", "--version" }, "fresh or lasting" },
    { "bash", "bash", "sh", NULL, { "bash", "--version" }, "fresh or lasting" },
    { "c", "gcc", "c", COMPILE("gcc -O1 -std=gnu17") " -lm -pthread", { "gcc", "--version" }, "compiled" },
    { "cpp", "g++", "cpp", COMPILE("g++ -O1 -std=gnu++17") " -pthread", { "g++", "--version" }, "compiled" },
    { "go",
      "go",
      "go",
      "export GOCACHE=" SNIPPET_DIR "/go GOFLAGS=-mod=mod; " COMPILE("go build"),
      { "go", "version" },
      "compiled" },
    { "rust",
      "rustc",
      "rs",
      COMPILE("rustc --edition 2021 -O --crate-name snippet"),
      { "rustc", "--version" },
      "compiled" },
    { "java", "java", "java", NULL, { "java", "--version" }, "one source file, compiled in memory" },
    { "perl", "perl", "pl", NULL, { "perl", "-e", "print qq(perl $^V)" }, "fresh" },
    { "ruby", "ruby", "rb", NULL, { "ruby", "--version" }, "fresh" },
};

/* --- running --- */

struct snippet {
    char path[64];
    int fd; /* holds the lock */
};

static void snippet_done(struct snippet *s)
{
    if (s->fd < 0)
        return;
    (void)!ftruncate(s->fd, 0); /* not unlinked: somebody may be about to lock the same name */
    close(s->fd);
}

/* The names of snippets appear in tracebacks, so they are the same from call to call: the first that no other call has
 * locked. A lock ends with its process, so nothing is ever left behind for good. */
static int snippet_write(struct snippet *s, const char *suffix, struct str code, struct err *e)
{
    struct stat st;

    if (mkdir(SNIPPET_DIR, 0700) < 0 && errno != EEXIST)
        return err_sys(e, "make directory " SNIPPET_DIR);
    if (lstat(SNIPPET_DIR, &st) < 0 || !S_ISDIR(st.st_mode) || st.st_uid != getuid())
        return err_set(e, ERR_DENIED, SNIPPET_DIR " is not a directory of this user; delete it");
    for (int i = 1; i <= SLOTS; i++) {
        snprintf(s->path, sizeof s->path, SNIPPET_DIR "/snippet%d.%s", i, suffix);
        s->fd = open(s->path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
        if (s->fd < 0)
            return err_sys(e, "write %s", s->path);
        if (flock(s->fd, LOCK_EX | LOCK_NB) == 0) {
            int r = ftruncate(s->fd, 0) < 0 ? err_sys(e, "write %s", s->path) : 0;
            return r < 0 ? r : file_write_all(s->fd, s->path, code, e);
        }
        close(TAKE_FD(s->fd));
    }
    return err_set(e, ERR_BUSY, "%d snippets run already", SLOTS);
}

/* JavaScript with a line that only a module may have. Newer versions of Node.js see that themselves, older ones go by
 * the file's name. */
static bool is_module(const struct language *l, struct str code)
{
    static const struct {
        const char *word, *then;
    } begins[] = { { "import", " \t{*\"'" }, { "export", " \t{*" } };

    if (strcmp(l->name, "javascript") != 0 || memmem(code.p, code.n, "require(", 8))
        return false;
    for (const char *p = code.p, *end = code.p + code.n; p < end; p++) {
        while (p < end && (*p == ' ' || *p == '\t'))
            p++;
        for (size_t i = 0; i < ARRAY_LEN(begins); i++)
            if (end - p > 6 && memcmp(p, begins[i].word, 6) == 0 && p[6] && strchr(begins[i].then, p[6]))
                return true;
        p = memchr(p, '\n', (size_t)(end - p));
        if (!p)
            break;
    }
    return false;
}

/* When the program is ended, and what that is called. If it is the call's own deadline: a little before init would kill
 * the hand, and with it what it has read. */
struct limit {
    int64_t at_ms;
    double seconds;
};

static struct limit limit_of(const struct hand *h, double timeout_s)
{
    int64_t now = now_ms();
    int64_t left = h->deadline_ms ? h->deadline_ms - now : INT64_MAX;
    int64_t margin = left / 20 > MARGIN_MAX_MS ? MARGIN_MAX_MS : left / 20 < MARGIN_MIN_MS ? MARGIN_MIN_MS : left / 20;
    int64_t own = timeout_s > 0 ? (int64_t)(timeout_s * 1000) : INT64_MAX;

    if (own == INT64_MAX && left == INT64_MAX)
        return (struct limit){ 0 };
    return (struct limit){
        .at_ms = now + (own < left - margin ? own : left - margin),
        .seconds = (double)(own <= left + MARGIN_MAX_MS ? own : (left + 49) / 50 * 50) / 1000,
    };
}

static struct str signal_name(struct arena *a, int sig)
{
    const char *name = sig > 0 ? sigabbrev_np(sig) : NULL;

    return name ? str_of(arena_printf(a, "SIG%s", name)) : (struct str){ 0 };
}

/* What kind of result this is; the program's output is the result in each case. */
static void judge(struct hand *h, struct program_end *end, double limit_s)
{
    h->cpu_us = end->cpu_us;
    h->dropped_bytes = end->dropped_bytes;
    if (end->timed_out) {
        h->outcome = OUTCOME_TIMEOUT;
        h->message =
            str_of(arena_printf(h->arena, "timed out after %.3g s; the program and its children were killed", limit_s));
        end->exit_code = EXIT_TIMEOUT;
        end->sig = 0;
    } else if (end->exit_code) {
        h->outcome = program_disk_full(end->err) ? OUTCOME_DISK_FULL : OUTCOME_TASK_ERROR;
        h->message = str_of(end->sig ? arena_printf(h->arena, "ended by %.*s", STR_ARG(signal_name(h->arena, end->sig)))
                                     : arena_printf(h->arena, "exit status %d", end->exit_code));
    }
}

struct ask {
    struct str language, code, input, cwd;
    const char *program; /* NULL: the language's own */
    const struct strs *args;
    double timeout, cpu_limit;
    int64_t memory_bytes;
};

static const struct language *language_find(struct str name)
{
    for (size_t i = 0; i < ARRAY_LEN(languages); i++)
        if (str_is(name, languages[i].name))
            return &languages[i];
    return NULL;
}

int node_find(struct hand *h, struct str language, struct str version, const char **ret, struct err *e)
{
    static const char *const ask[] = { "node", "--version", NULL };
    struct str digits = version;
    struct program_end end;
    struct err none;

    *ret = "node";
    if (!version.n)
        return 0;
    if (!str_is(language, "javascript"))
        return err_set(e, ERR_INVALID, "version: is for javascript");
    while (digits.n && (digits.p[0] < '0' || digits.p[0] > '9'))
        digits = (struct str){ digits.p + 1, digits.n - 1 };
    char *other = arena_printf(h->arena, "node%.*s", STR_ARG(digits));
    if (digits.n && !memchr(digits.p, '/', digits.n) && program_find(other, &none) >= 0) {
        *ret = other;
        return 0;
    }
    struct program_opts o = {
        .argv = ask, .cwd = "/", .deadline_ms = now_ms() + TRY_MS, .head_max = KiB, .tail_max = KiB
    };
    int r = program_run(h, &o, &end, e);
    if (r < 0)
        return r;
    size_t n = digits.n; /* "v20.1.2\n" is "20" and "20.1" */
    if (n && end.out.n > n + 1 && memcmp(end.out.p + 1, digits.p, n) == 0 && strchr(".\n", end.out.p[n + 1]))
        return 0;
    return err_set(e, ERR_INVALID, "version: this image has Node.js %.*s, not %.*s", end.out.n ? (int)end.out.n - 1 : 0,
                   end.out.p, STR_ARG(version));
}

/* The limits are the program's own: a compiler may need more than what it makes. */
static const char *compile_and_run(struct arena *a, const struct language *l, const struct ask *q)
{
    int64_t cpu_s = (int64_t)(q->cpu_limit + 0.999);
    const char *data = q->memory_bytes ? arena_printf(a, "ulimit -d %lld && ", (long long)(q->memory_bytes / KiB)) : "";
    const char *cpu =
        cpu_s ? arena_printf(a, "ulimit -St %lld && ulimit -Ht %lld && ", (long long)cpu_s, (long long)cpu_s + 1) : "";

    return arena_printf(a, "f=$1; shift; %s && %s%sexec \"$f.bin\" \"$@\"", l->compile, data, cpu);
}

static int run_code(struct hand *h, const struct ask *q, struct program_end *end, struct err *e)
{
    const char *argv[ARGS_MAX + 8] = { NULL };
    char *home = arena_z(h->arena, h->cwd), *cwd = home;
    struct pair more[] = {
        { STR("PYTHONUNBUFFERED"), STR("1") }, /* what was printed before a timeout is not lost */
        { STR("PYTHONPATH"), h->cwd },         /* modules are found where the agent's files are */
        { STR("NODE_PATH"), str_of(arena_printf(h->arena, "%s/node_modules", home)) },
    };
    struct pairs env = { more, ARRAY_LEN(more) };
    const struct language *l = language_find(q->language);
    AUTO(snippet_done) struct snippet file = { .fd = -1 };
    size_t args = q->args && q->args->n <= ARGS_MAX ? q->args->n : 0;

    if (!l)
        return err_set(e, ERR_INVALID, "language: no such language");
    const char *program = q->program ? q->program : l->program;
    int r = q->cwd.n ? file_path(h, q->cwd, &cwd, e) : 0;
    if (r >= 0)
        r = program_find(program, e);
    if (r >= 0)
        r = snippet_write(&file, is_module(l, q->code) ? "mjs" : l->suffix, q->code, e);
    if (r < 0)
        return r;
    size_t n = 0;
    argv[n++] = l->compile ? "bash" : program;
    if (l->compile) {
        argv[n++] = "-c";
        argv[n++] = compile_and_run(h->arena, l, q);
        argv[n++] = l->name; /* $0 */
    }
    int64_t memory = l->compile ? 0 : q->memory_bytes;
    if (memory && str_is(q->language, "java")) { /* it would take a quarter of the machine, and not start */
        argv[n++] = arena_printf(h->arena, "-Xmx%lldm", (long long)(memory / MiB));
        argv[n++] = "-XX:+UseSerialGC";
        memory += JVM_OWN;
    }
    argv[n++] = file.path;
    for (size_t i = 0; i < args; i++) {
        argv[n + i] = arena_z(h->arena, q->args->v[i]);
        if (strlen(argv[n + i]) != q->args->v[i].n)
            return err_set(e, ERR_INVALID, "args: argument %zu contains a NUL byte", i + 1);
    }
    struct limit limit = limit_of(h, q->timeout);
    struct program_opts o = {
        .argv = argv,
        .cwd = cwd,
        .env = &env,
        .input = q->input,
        .memory_bytes = memory,
        .cpu_s = l->compile ? 0 : q->cpu_limit,
        .deadline_ms = limit.at_ms,
        .head_max = (size_t)h->head_bytes,
        .tail_max = (size_t)h->tail_bytes,
    };
    r = program_run(h, &o, end, e);
    if (r >= 0)
        judge(h, end, limit.seconds);
    return r;
}

static void describe(struct hand *h, const struct program_end *end, struct execute_result *r)
{
    r->stdout = end->out;
    r->stderr = end->err;
    r->stdout_bytes = end->out_bytes;
    r->stderr_bytes = end->err_bytes;
    r->return_code = r->exit_code = end->exit_code;
    r->execution_time_ms = (double)end->run_us / 1000;
    r->memory_used_mb = (double)(end->peak_bytes / KiB) / 1024;
    r->status = end->timed_out ? STR("timeout") : STR("completed");
    r->signal = signal_name(h->arena, end->sig);
}

static int program_tool_run(struct hand *h, const void *params, void *result, struct err *e)
{
    const struct program_params *p = params;
    const char *argv[ARGS_MAX + 1] = { NULL };
    struct program_end end;
    char *cwd = arena_z(h->arena, h->cwd);

    if (!p->argv.n || !p->argv.v[0].n)
        return err_set(e, ERR_MISSING, "argv: the program's name is required");
    for (size_t i = 0; i < p->argv.n; i++) {
        argv[i] = arena_z(h->arena, p->argv.v[i]);
        if (strlen(argv[i]) != p->argv.v[i].n)
            return err_set(e, ERR_INVALID, "argv: word %zu contains a NUL byte", i);
    }
    int r = p->cwd.n ? file_path(h, p->cwd, &cwd, e) : 0;
    if (r < 0)
        return r;
    struct limit limit = limit_of(h, p->timeout);
    r = program_run(h,
                    &(struct program_opts){ .argv = argv,
                                            .cwd = cwd,
                                            .env = &p->env,
                                            .input = p->stdin,
                                            .deadline_ms = limit.at_ms,
                                            .head_max = (size_t)h->head_bytes,
                                            .tail_max = (size_t)h->tail_bytes },
                    &end, e);
    if (r < 0)
        return r;
    judge(h, &end, limit.seconds);
    describe(h, &end, result);
    return 0;
}

static int write_files(struct hand *h, const struct execute_params *p, struct err *e)
{
    for (size_t i = 0; i < p->files.n; i++) {
        struct str name = p->files.v[i].name;
        bool inside = p->cwd.n && name.n && name.p[0] != '/' && name.p[0] != '~';
        char *path = NULL;
        struct stat st;
        if (inside)
            name = str_of(arena_printf(h->arena, "%.*s/%.*s", STR_ARG(p->cwd), STR_ARG(name)));
        int r = file_path(h, name, &path, e);
        auto_close int fd = r < 0 ? -1 : file_create(path, 0, true, &st, e);
        r = r < 0 ? r : fd < 0 ? fd : file_store(fd, path, p->files.v[i].value, e);
        if (r < 0)
            return err_wrap(e, r, "files");
    }
    return 0;
}

static int execute_run(struct hand *h, const void *params, void *result, struct err *e)
{
    const struct execute_params *p = params;
    struct execute_result *r = result;
    const char *program = NULL;
    struct program_end end;

    int n = write_files(h, p, e);
    if (n < 0)
        return n;
    if (h->self)
        return execute_in_context(h, p, r, e);
    if (p->version.n)
        n = node_find(h, p->language, p->version, &program, e);
    if (n < 0)
        return n;
    n = run_code(h,
                 &(struct ask){ .language = p->language,
                                .program = program,
                                .code = p->code,
                                .input = p->stdin,
                                .cwd = p->cwd,
                                .args = &p->args,
                                .timeout = p->timeout,
                                .cpu_limit = p->cpu_limit,
                                .memory_bytes = p->memory_limit_mb * MiB },
                 &end, e);
    if (n < 0)
        return n;
    describe(h, &end, r);
    r->language = p->language;
    return 0;
}

/* Found by trying: a program that is there and does not run is not listed. */
static int languages_run(struct hand *h, const void *params, void *result, struct err *e)
{
    struct language_row *rows = arena_alloc(h->arena, ARRAY_LEN(languages) * sizeof *rows);
    struct languages_result *r = result;
    struct program_end end;

    (void)params;
    r->languages.v = rows;
    for (size_t i = 0; i < ARRAY_LEN(languages); i++) {
        const struct language *l = &languages[i];
        struct program_opts o = {
            .argv = l->version, .cwd = "/", .deadline_ms = now_ms() + TRY_MS, .head_max = KiB, .tail_max = KiB
        };
        if (program_run(h, &o, &end, e) < 0 || end.exit_code || end.timed_out || !end.out.n)
            continue;
        const char *line = memchr(end.out.p, '\n', end.out.n);
        rows[r->languages.n++] =
            (struct language_row){ .language = str_of(l->name),
                                   .program = str_of(l->program),
                                   .version = { end.out.p, line ? (size_t)(line - end.out.p) : end.out.n },
                                   .help = str_of(l->help),
                                   .lasting = i < LASTING };
    }
    return 0;
}

static int bash_run(struct hand *h, const void *params, void *result, struct err *e)
{
    const struct bash_params *p = params;
    struct bash_result *r = result;
    struct program_end end;

    int n = run_code(h, &(struct ask){ .language = STR("bash"), .code = p->command, .timeout = p->timeout }, &end, e);
    if (n < 0)
        return n;
    bool gap = end.out.n && end.out.p[end.out.n - 1] != '\n';
    r->result = end.out;
    if (end.err.n)
        r->result = str_of(
            arena_printf(h->arena, "%.*s%s[stderr]:\n%.*s", STR_ARG(end.out), gap ? "\n" : "", STR_ARG(end.err)));
    else if (!end.out.n)
        r->result = STR("(no output)");
    r->exit_code = end.exit_code;
    r->status = end.timed_out ? STR("timeout") : STR("completed");
    return 0;
}

#endif

enum { LOOKS = TOOL_READ_ONLY | TOOL_IDEMPOTENT | TOOL_PARALLEL };

#define ROW_OF(params_, result_)                                                                                       \
    .params = params_##_fields, .params_size = sizeof(struct params_##_params), .result = result_##_result_fields,     \
    .result_size = sizeof(struct result_##_result)
#define ROW(verb, result_)                                                                                             \
    .params = verb##_fields, .params_size = sizeof(struct verb##_params), .result = result_##_result_fields,           \
    .result_size = sizeof(struct result_##_result), .run_hand = BOX_CODE(verb##_run)

static const struct tool code_tools[] = {
    { .name = "code:execute",
      .title = "Run code",
      .help =
          "Runs a program in one of several languages. Without a session: in a fresh process, of which only files "
          "stay. With a session: Python, JavaScript or bash in a context that keeps its variables for the next call.",
      .flags = TOOL_NEEDS_BOX,
      .begin = BOX_CODE(execute_begin),
      ROW(execute, execute) },
    { .name = "code:languages",
      .title = "Which languages there are",
      .help = "Lists the languages whose programs are in the box and run, with their versions.",
      .flags = TOOL_NEEDS_BOX | LOOKS | TOOL_PROGRAM,
      ROW_OF(none, languages),
      .run_hand = BOX_CODE(languages_run) },
    { .name = "code:open",
      .title = "Make a context",
      .help = "Makes a context of Python or JavaScript, if there is none of that name.",
      .flags = TOOL_NEEDS_BOX | TOOL_PARALLEL,
      ROW_OF(open, open),
      .begin = BOX_CODE(open_begin),
      .run_hand = BOX_CODE(open_run) },
    { .name = "code:save",
      .title = "Save a context",
      .help =
          "Writes the variables, functions, classes and imports of a Python context to a file, which a fork of the box "
          "has too. Open files, sockets, threads and generators cannot be saved; their names are returned.",
      .flags = TOOL_NEEDS_BOX,
      ROW_OF(carry, carry),
      .begin = BOX_CODE(carry_begin),
      .run_hand = BOX_CODE(save_run) },
    { .name = "code:load",
      .title = "Load a context",
      .help = "Makes a Python context like the one that was saved to a file.",
      .flags = TOOL_NEEDS_BOX,
      ROW_OF(carry, carry),
      .begin = BOX_CODE(carry_begin),
      .run_hand = BOX_CODE(load_run) },
    { .name = "code:fork",
      .title = "Fork a context",
      .help =
          "Makes a second Python context that goes on where this one is: its process is forked, so that everything in "
          "it is there, open files and generators too, in memory that both share until they change it. Threads end.",
      .flags = TOOL_NEEDS_BOX,
      ROW_OF(fork, open),
      .begin = BOX_CODE(fork_begin),
      .run_hand = BOX_CODE(fork_run) },
    { .name = "code:contexts",
      .title = "List contexts",
      .help = "Lists the contexts of the box.",
      .flags = TOOL_NEEDS_BOX | LOOKS,
      ROW_OF(none, contexts),
      .begin = BOX_CODE(contexts_begin) },
    { .name = "code:end",
      .title = "End a context",
      .help = "Ends a context and all that it started.",
      .flags = TOOL_NEEDS_BOX | TOOL_PARALLEL,
      ROW_OF(end, count),
      .begin = BOX_CODE(end_begin) },
    { .name = "code:stop",
      .title = "Interrupt a context",
      .help = "Interrupts what a context runs; its variables stay.",
      .flags = TOOL_NEEDS_BOX | TOOL_PARALLEL,
      ROW_OF(context, count),
      .begin = BOX_CODE(interrupt_context_begin) },
    { .name = "code:program",
      .title = "Run a program",
      .help = "Runs one program with its arguments, without a shell: nothing in them is interpreted. Nothing that it "
              "starts "
              "outlives the call; files do.",
      .flags = TOOL_NEEDS_BOX,
      .params = program_fields,
      .params_size = sizeof(struct program_params),
      .result = execute_result_fields,
      .result_size = sizeof(struct execute_result),
      .run_hand = BOX_CODE(program_tool_run) },
    { .name = "code:read",
      .title = "Read a file with line numbers",
      .help = "Returns lines of a text file, each with its number.",
      .flags = TOOL_NEEDS_BOX | LOOKS,
      ROW(read, text) },
    { .name = "code:glob",
      .title = "Find paths by pattern",
      .help = "Returns the paths that match a pattern, one per line.",
      .flags = TOOL_NEEDS_BOX | LOOKS,
      ROW(glob, text) },
    { .name = "code:grep",
      .title = "Search in files",
      .help = "Returns the lines that match as path:number:text, as grep -rn does.",
      .flags = TOOL_NEEDS_BOX | LOOKS,
      ROW(grep, text) },
    { .name = "code:bash",
      .title = "Run a command",
      .help = "Runs a command in a fresh bash and returns stdout and stderr as one text.",
      .flags = TOOL_NEEDS_BOX,
      ROW(bash, bash) },
    { .name = "code:edit",
      .title = "Edit a file",
      .help = "Replaces a text that occurs exactly once, or every occurrence of it.",
      .flags = TOOL_NEEDS_BOX,
      ROW(edit, text) },
    { .name = "code:write",
      .title = "Write a file",
      .help = "Writes a file and makes missing directories.",
      .flags = TOOL_NEEDS_BOX | TOOL_IDEMPOTENT,
      ROW(write, text) },
};

const struct backend backend_code = {
    .name = "code",
    .help = "Run code in fresh processes or in contexts that last; work on files as text.",
    .kind = KIND_SESSION,
    .interprets = true,
    .tools = code_tools,
    .tool_count = ARRAY_LEN(code_tools)
};

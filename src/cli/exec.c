/* `sandglass exec`: one tool call in a box. The command's own exit code becomes ours, as ssh does it. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/limits.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/text.h"
#include "daemon/units.h"
#include "wire/outcome.h"

struct asked {
    const char *tool, *params, *timeout, *cwd, *key;
    struct option_list env;
    bool input;
};

/* In single quotes nothing is special but the single quote itself. */
static void add_quoted(struct buf *b, const char *word)
{
    if (*word &&
        strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./=:,+@%") == strlen(word)) {
        buf_z(b, word);
        return;
    }
    buf_char(b, '\'');
    for (; *word; word++) {
        if (*word == '\'')
            buf_z(b, "'\\''");
        else
            buf_char(b, *word);
    }
    buf_char(b, '\'');
}

/* One word without "--" is shell text; otherwise each word is one argument. */
static void add_command(struct jw *w, const struct words *words)
{
    struct buf text;

    buf_init(&text, LIMIT_HTTP_BODY); /* the server says what is too long; half a command must not run */
    if (words->n == 2 && words->dashed < 0)
        buf_z(&text, words->v[1]);
    else
        for (int i = 1; i < words->n; i++) {
            if (i > 1)
                buf_char(&text, ' ');
            add_quoted(&text, words->v[i]);
        }
    jw_kstr(w, "command", buf_view(&text));
    buf_done(&text);
}

static int add_input(struct jw *w)
{
    struct buf in;
    ssize_t n;

    buf_init(&in, LIMIT_FILE_IO);
    for (;;) {
        char *room = buf_room(&in, 65536);
        if (!room)
            break;
        n = read(STDIN_FILENO, room, 65536);
        if (n <= 0)
            break;
        buf_grew(&in, (size_t)n);
    }
    bool full = in.full, text = utf8_ok(buf_view(&in));
    jw_kstr(w, "stdin", buf_view(&in));
    buf_done(&in);
    if (full)
        complain("exec: the input is larger than LIMIT_FILE_IO (%ld bytes)", LIMIT_FILE_IO);
    else if (!text) /* in JSON its bytes would become others, and nobody would notice */
        complain(
            "exec: the input is not UTF-8 text; send it as such: base64 FILE | %s exec --stdin BOX 'base64 -d | ...'",
            cli_program);
    return full || !text ? EXIT_EXEC_OWN : OPTIONS_OK;
}

static int add_params(const struct command *cmd, const struct asked *a, const struct words *words, struct jw *w)
{
    if (a->params) {
        AUTO(arena_done) struct arena arena = { 0 };
        struct json *parsed;
        struct err e;
        if (json_parse(&arena, str_of(a->params), &parsed, &e) < 0)
            return usage_error(cmd, "--params: %s", e.msg);
        jw_raw(w, str_of(a->params));
        return OPTIONS_OK;
    }
    jw_obj(w);
    if (!a->tool)
        add_command(w, words);
    if (a->cwd)
        jw_kz(w, "cwd", a->cwd);
    if (a->env.n) {
        jw_key(w, "env");
        jw_obj(w);
        for (size_t i = 0; i < a->env.n; i++) {
            const char *equals = strchr(a->env.v[i], '=');
            if (!equals || equals == a->env.v[i])
                return usage_error(cmd, "--env '%s': must be NAME=VALUE", a->env.v[i]);
            jw_key_str(w, (struct str){ a->env.v[i], (size_t)(equals - a->env.v[i]) });
            jw_z(w, equals + 1);
        }
        jw_obj_end(w);
    }
    int r = a->input ? add_input(w) : OPTIONS_OK;
    jw_obj_end(w);
    return r;
}

static int add_all(const struct command *cmd, const struct asked *a, const struct words *words, struct jw *w,
                   int64_t *ret_timeout_ms)
{
    int64_t ms = 0;

    if (a->timeout && (units_duration(a->timeout, &ms) < 0 || ms <= 0 || ms > LIMIT_TIMEOUT_MS))
        return usage_error(cmd, "--timeout '%s': must be a time such as 250ms, 30s or 5m, at most 24h", a->timeout);
    jw_obj(w);
    jw_kz(w, "tool", a->tool ? a->tool : "bash:run");
    if (ms)
        jw_knum(w, "timeout", (double)ms / 1000);
    if (a->key)
        jw_kz(w, "idempotency_key", a->key);
    jw_key(w, "params");
    int r = add_params(cmd, a, words, w);
    jw_obj_end(w);
    *ret_timeout_ms = ms;
    return r;
}

/* What the command wrote, byte by byte, from the blob that its step keeps. 0: printed, 1: there is none of all of it. */
static int print_kept(struct api *a, const struct json *answer, const char *name, int64_t total, FILE *out)
{
    const struct json *blob = json_get(json_get(answer, "blobs"), name);
    struct str trajectory = json_get_str(answer, "trajectory_id"), part;
    struct client *c = NULL;
    struct err e = { 0 };
    int r;

    if (!blob || json_get_int(blob, "bytes", -1) != total)
        return 1;
    const char *rest =
        arena_printf(&a->arena, "/steps/%lld/blobs/%s", (long long)json_get_int(answer, "step", 0), name);
    struct client_request request = {
        .url = a->url,
        .method = "GET",
        .path = api_path(a, "/sg/v1/trajectories/", arena_z(&a->arena, trajectory), rest),
        .timeout_ms = a->timeout_ms,
    };
    if (client_open(&request, &c, &e) < 0 || client_status(c) != 200) {
        client_close(c);
        return 1;
    }
    while ((r = client_part(c, &part, &e)) > 0)
        fwrite(part.p, 1, part.n, out);
    client_close(c);
    if (r < 0)
        complain("%s is not complete: %s", name, e.msg);
    return r;
}

/* An answer has head and tail of a long output, and only text: the rest is asked for. */
static int print_stream(struct api *a, const struct json *answer, const char *name, FILE *out)
{
    const struct json *data = json_get(answer, "data");
    struct str s = json_get_str(data, name);
    int64_t total = json_get_int(data, arena_printf(&a->arena, "%s_bytes", name), (int64_t)s.n);
    int r = (size_t)total == s.n ? 1 : print_kept(a, answer, name, total, out);

    if (r > 0 && s.n)
        fwrite(s.p, 1, s.n, out);
    fflush(out);
    if (r > 0 && (size_t)total > s.n)
        complain("%s had %lld bytes, more than the server keeps (output.kept): its middle is left out", name,
                 (long long)total);
    else if (r > 0 && (size_t)total < s.n)
        complain("%s was not UTF-8: what was not is shown as U+FFFD", name);
    return r < 0 ? r : 0;
}

static int print_data(struct api *a, const struct json *answer)
{
    const struct json *data = json_get(answer, "data");
    bool streams = json_get_str(data, "stdout").p || json_get_str(data, "stderr").p;

    if (streams) {
        int r = print_stream(a, answer, "stdout", stdout);
        return r < 0 ? r : print_stream(a, answer, "stderr", stderr);
    }
    if (data && data->type != JSON_NULL)
        print_line(data->raw);
    return 0;
}

static bool waits_for_input(const struct json *answer)
{
    struct str tool = json_get_str(answer, "tool");

    return (str_is(tool, "bash:run") || str_is(tool, "bash:input")) &&
           str_is(json_get_str(json_get(answer, "data"), "status"), "waiting_for_input");
}

/* docs/cli.md: what became of the call, as one number */
static int exit_code(const struct json *answer)
{
    const struct json *data = json_get(answer, "data");
    struct str name = json_get_str(answer, "outcome"), message = json_get_str(answer, "message");
    int found = outcome_find(name.p ? name.p : "", name.n);
    enum outcome o = found < 0 ? OUTCOME_INFRA_ERROR : (enum outcome)found;
    int64_t code = json_get_int(data, "exit_code", -1);
    bool has_code = code >= 0 && code <= 255;

    if (o == OUTCOME_OK && waits_for_input(answer)) {
        struct str box = json_get_str(answer, "box_id");
        complain("it waits for input, and so does the shell; go on with: %s exec %.*s --tool bash:input --params "
                 "'{\"data\": \"...\\n\"}', or end it with --tool bash:interrupt",
                 cli_program, STR_ARG(box));
        return EXIT_EXEC_OWN;
    }
    if (o != OUTCOME_OK && !(o == OUTCOME_TASK_ERROR && has_code))
        complain("%.*s: %.*s", STR_ARG(name), STR_ARG(message));
    switch (o) {
    case OUTCOME_OK: return has_code ? (int)code : EXIT_FINE;
    case OUTCOME_TASK_ERROR:
    case OUTCOME_DISK_FULL:
    case OUTCOME_PID_LIMIT:
    case OUTCOME_EGRESS_DENIED: return has_code && code ? (int)code : EXIT_FAILED;
    case OUTCOME_TIMEOUT: return EXIT_EXEC_TIMEOUT;
    case OUTCOME_OOM:
    case OUTCOME_KILLED: return has_code && code ? (int)code : 137;
    case OUTCOME_INVALID_REQUEST:
    case OUTCOME_BOX_LOST:
    case OUTCOME_INFRA_ERROR:
    case OUTCOME_COUNT: break;
    }
    return EXIT_EXEC_OWN;
}

static int call(const struct words *w, struct str body, int64_t timeout_ms)
{
    const struct json *answer;
    struct api api;

    api_init(&api, w);
    /* The server ends the call; we wait for it, and a little longer for a server that does not answer. */
    api.timeout_ms = timeout_ms ? (int)(timeout_ms + 30000) : 0;
    int r = api_call(&api, "POST", api_path(&api, "/sg/v1/boxes/", w->v[0], "/execute"), body, &answer);
    if (r != 0) {
        r = EXIT_EXEC_OWN;
    } else {
        if (w->json)
            api_print(&api);
        else
            r = print_data(&api, answer);
        int code = exit_code(answer);
        r = r < 0 ? EXIT_EXEC_OWN : code;
    }
    api_done(&api);
    return r;
}

static int run(const struct command *cmd, int argc, char **argv)
{
    struct asked a = { 0 };
    struct words w;
    struct buf body;
    int64_t timeout_ms = 0;
    const struct option rows[] = {
        { "timeout", 't', OPTION_TEXT, &a.timeout, "TIME", "end it after 250ms, 30s, 5m" },
        { "cwd", 'C', OPTION_TEXT, &a.cwd, "DIR", "in this directory of the box" },
        { "env", 'e', OPTION_LIST, &a.env, "NAME=VALUE", "a variable; may be repeated" },
        { "stdin", 'i', OPTION_FLAG, &a.input, NULL, "give it our standard input" },
        { "tool", 0, OPTION_TEXT, &a.tool, "TOOL", "another tool than bash:run; see 'sandglass tools'" },
        { "params", 'p', OPTION_TEXT, &a.params, "JSON", "the tool's parameters" },
        { "key", 0, OPTION_TEXT, &a.key, "KEY", "idempotency key: a repeated call shares the first one's answer" },
        { 0 },
    };
    int r = options_parse(cmd, rows, 2, argc, argv, &w);

    if (r != OPTIONS_OK)
        return r;
    if (w.n == 0)
        return usage_error(cmd, "name a box");
    if (w.n == 1 && !a.tool && !a.params)
        return usage_error(cmd, "say what to run");
    if (w.n > 1 && (a.tool || a.params))
        return usage_error(cmd, "with --tool or --params, no command is expected");
    if (a.params && (a.cwd || a.env.n || a.input))
        return usage_error(cmd, "--cwd, --env and --stdin stand in --params, if there are some");

    buf_init(&body, LIMIT_HTTP_BODY);
    struct jw writer = { .out = &body };
    r = add_all(cmd, &a, &w, &writer, &timeout_ms);
    if (r == OPTIONS_OK && body.full) {
        complain("exec: the request is larger than LIMIT_HTTP_BODY (%ld bytes)", LIMIT_HTTP_BODY);
        r = EXIT_EXEC_OWN;
    }
    if (r == OPTIONS_OK)
        r = call(&w, buf_view(&body), timeout_ms);
    buf_done(&body);
    return r;
}

const struct command command_exec = {
    .name = "exec",
    .words = "[options] BOX 'SHELL TEXT' | BOX -- PROGRAM ARGS... | BOX --tool TOOL --params JSON",
    .about = "Run a command, or another tool, in a box; it is recorded as a step.",
    .more = "bash:run uses the box's one shell: its directory and variables persist.",
    .codes = "the command's own; 124 its time was over, 125 not it failed, but what should have run it",
    .examples = "  sandglass exec b-3f9a 'cd /tmp && ls -l | wc -l'\n"
                "  sandglass exec b-3f9a -- python3 -c 'print(1 + 1)'\n"
                "  sandglass exec --timeout 30s --stdin b-3f9a 'sort | uniq -c' < words.txt\n"
                "  sandglass exec b-3f9a --tool file:read --params '{\"path\": \"/etc/hostname\"}'\n",
    .run = run,
    .remote = true,
};

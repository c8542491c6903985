/* knowlyr-sandbox's command line over our server: its commands, its options, its words and its exit codes. Called by
 * that name, or as `sandglass knowlyr`. What it prints is Chinese, as there.
 *
 * Beyond the original: destroy, snapshot and restore exist; replay begins where the box began, and fails if it
 * diverges. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/auto.h"
#include "base/field.h"
#include "base/limits.h"
#include "cli/client.h"
#include "cli/knowlyr.h"
#include "cli/repo.h"
#include "cli/text.h"
#include "daemon/units.h"

enum { ID_WIDTH = 14, STATE_WIDTH = 8 };

/* --- the server --- */

static void say(const char *what, struct str why)
{
    fflush(stdout);
    fprintf(stderr, "%s: ", what);
    print_safe(stderr, why, 4000);
    fputc('\n', stderr);
}

/* The answer with its status; 0: there was none, and that has been said. Nothing else is. */
int knowlyr_ask(struct api *a, const char *method, const char *path, struct str body, const struct json **ret)
{
    struct client_request request = { .url = a->url, .method = method, .path = path, .body = body };
    struct client *c = NULL;
    struct json *answer = NULL;
    struct err e = { 0 };

    buf_reset(&a->text);
    int r = client_open(&request, &c, &e);
    if (r >= 0)
        r = client_body(c, &a->text, &e);
    int status = c ? client_status(c) : 0;
    client_close(c);
    if (r < 0) {
        fflush(stdout);
        fprintf(stderr, "服务器连接失败: %s (启动: sandglass serve; 地址: --url 或 $SANDGLASS_URL)\n", e.msg);
        return 0;
    }
    struct str text = arena_copy(&a->arena, buf_view(&a->text));
    if (json_parse(&a->arena, text, &answer, &e) < 0)
        answer = NULL;
    *ret = answer;
    return status;
}

static bool is_fine(int status)
{
    return status >= 200 && status < 300;
}

/* Says what the server refused with; returns the exit code. */
static int refused(const char *what, const struct json *answer, int status)
{
    struct str message = json_get_str(json_get(answer, "error"), "message");
    char text[32];

    snprintf(text, sizeof text, "HTTP %d", status);
    if (status)
        say(what, message.n ? message : str_of(text));
    return EXIT_FAILED;
}

/* The id of the one box that a whole id or a beginning of one names; NULL: said. */
const char *knowlyr_find(struct api *a, const char *name, const char *what)
{
    const struct json *answer = NULL, *boxes;
    struct str found = { 0 };
    size_t n = 0;

    int status = knowlyr_ask(a, "GET", "/sg/v1/boxes", (struct str){ 0 }, &answer);
    if (!is_fine(status)) {
        refused(what, answer, status);
        return NULL;
    }
    boxes = json_get(answer, "boxes");
    for (const struct json *b = boxes ? boxes->first : NULL; b; b = b->next) {
        struct str id = json_get_str(b, "id");
        if (str_is(id, name))
            return arena_z(&a->arena, id);
        if (*name && id.n >= strlen(name) && memcmp(id.p, name, strlen(name)) == 0) {
            found = id;
            n++;
        }
    }
    if (n == 1)
        return arena_z(&a->arena, found);
    say("沙箱不存在", str_of(name));
    return NULL;
}

/* --- create --- */

struct create_asked {
    const char *repo, *commit, *language, *image, *timeout, *memory, *cpu, *tests, *dir;
    struct option_list setup;
    double timeout_s, cores;
};

static int check_create(const struct command *cmd, struct create_asked *a)
{
    char *end;

    if (!a->repo || !a->commit)
        return usage_error(cmd, "option --%s is required", a->repo ? "commit" : "repo");
    a->timeout_s = strtod(a->timeout, &end);
    if (!isdigit((unsigned char)a->timeout[0]) || *end || a->timeout_s <= 0 || strpbrk(a->timeout, ".eE"))
        return usage_error(cmd, "--timeout '%s': must be a whole number of seconds", a->timeout);
    a->cores = strtod(a->cpu, &end);
    if (!isdigit((unsigned char)a->cpu[0]) || *end || !(a->cores > 0))
        return usage_error(cmd, "--cpu '%s': must be a number such as 1.0", a->cpu);
    if (!*a->repo)
        fputs("  配置错误: repo_url 不能为空\n", stderr);
    if (!*a->commit)
        fputs("  配置错误: base_commit 不能为空\n", stderr);
    return *a->repo && *a->commit ? OPTIONS_OK : EXIT_FAILED;
}

static void create_body(struct api *api, const struct create_asked *a, struct jw *w)
{
    jw_obj(w);
    jw_kz(w, "image", a->image);
    jw_kz(w, "memory", a->memory);
    jw_knum(w, "cpu", a->cores);
    jw_key(w, "labels");
    jw_obj(w);
    jw_kz(w, "knowlyr-sandbox", "true");
    jw_obj_end(w);
    (void)repo_add(api, w, a->repo, a->commit);
    jw_key(w, "task");
    jw_obj(w);
    jw_kz(w, "language", a->language);
    jw_knum(w, "timeout", a->timeout_s);
    if (a->tests)
        jw_kz(w, "test_command", a->tests);
    if (a->dir)
        jw_kz(w, "work_dir", a->dir);
    jw_key(w, "setup_commands");
    jw_arr(w);
    for (size_t i = 0; i < a->setup.n; i++)
        jw_z(w, a->setup.v[i]);
    jw_arr_end(w);
    jw_obj_end(w);
    jw_obj_end(w);
}

static void warn_setup(const struct create_asked *a, const struct json *origin)
{
    const struct json *setup = json_get(origin, "setup");
    size_t i = 0;

    for (const struct json *s = setup ? setup->first : NULL; s && i < a->setup.n; s = s->next, i++)
        if (json_get_int(s, "exit_code", 0) != 0) {
            fprintf(stderr, "初始化命令失败 (exit code %lld): %s\n", (long long)json_get_int(s, "exit_code", 0),
                    a->setup.v[i]);
            print_safe(stderr, json_get_str(s, "error"), 2000);
            fputc('\n', stderr);
        }
}

static int make(const struct words *w, const struct create_asked *a)
{
    const struct json *box = NULL;
    struct api api;
    struct buf body;
    struct jw writer = { .out = &body };

    api_init(&api, w);
    buf_init(&body, LIMIT_HTTP_BODY);
    create_body(&api, a, &writer);
    if (!w->json)
        printf("正在创建沙箱...\n  仓库: %s\n  Commit: %s\n  镜像: %s\n", a->repo, a->commit, a->image);
    fflush(stdout);
    int status = knowlyr_ask(&api, "POST", "/sg/v1/boxes", buf_view(&body), &box);
    buf_done(&body);
    int r = is_fine(status) ? EXIT_FINE : refused("创建失败", box, status);
    if (r == EXIT_FINE && w->json)
        api_print(&api);
    else if (r == EXIT_FINE) {
        struct str id = json_get_str(box, "id"), state = json_get_str(box, "state");
        struct str dir = json_get_str(json_get(box, "origin"), "work_dir");
        printf("✓ 沙箱创建成功: %.*s\n  工作目录: %.*s\n  状态: %.*s\n", STR_ARG(id), STR_ARG(dir), STR_ARG(state));
        warn_setup(a, json_get(box, "origin"));
    }
    api_done(&api);
    return r;
}

static int run_create(const struct command *cmd, int argc, char **argv)
{
    struct create_asked a = { .language = "python", .image = "host", .timeout = "300", .memory = "512m", .cpu = "1.0" };
    struct words w;
    const struct option rows[] = {
        { "repo", 0, OPTION_TEXT, &a.repo, "URL", "git repository: https, ssh, file:///..., or a directory" },
        { "commit", 0, OPTION_TEXT, &a.commit, "SHA", "where to begin" },
        { "language", 0, OPTION_TEXT, &a.language, "NAME", "of the task (python); chooses its test command" },
        { "image", 0, OPTION_TEXT, &a.image, "IMAGE", "host, or a directory that the server allows (host)" },
        { "timeout", 0, OPTION_TEXT, &a.timeout, "SECONDS", "of a tool call that does not say its own (300)" },
        { "memory", 0, OPTION_TEXT, &a.memory, "SIZE", "memory (512m)" },
        { "cpu", 0, OPTION_TEXT, &a.cpu, "CORES", "processors (1.0)" },
        { "setup", 0, OPTION_LIST, &a.setup, "COMMAND", "run it first, and again after a reset; may be repeated" },
        { "test-command", 0, OPTION_TEXT, &a.tests, "COMMAND", "the task's tests" },
        { "work-dir", 0, OPTION_TEXT, &a.dir, "DIR", "where the repository is put (/workspace)" },
        { 0 },
    };
    int r = options_parse(cmd, rows, 0, argc, argv, &w);

    if (r != OPTIONS_OK)
        return r;
    if (w.n)
        return usage_error(cmd, "'%s': no words are expected", w.v[0]);
    r = check_create(cmd, &a);
    return r == OPTIONS_OK ? make(&w, &a) : r;
}

/* --- exec --- */

static const struct {
    const char *tool, *label, *param;
} tools[] = {
    { "file_read", "路径", "path" }, { "file_write", "路径", "path" }, { "shell", "命令", "command" },
    { "search", "模式", "pattern" }, { "git", "命令", "subcommand" },
};

static const char *check_tool(const char *name)
{
    for (size_t i = 0; name && i < ARRAY_LEN(tools); i++)
        if (strcmp(tools[i].tool, name) == 0)
            return name;
    return NULL;
}

static void print_indented(struct str text)
{
    for (const char *p = text.p, *end = text.p + text.n; p < end;) {
        const char *nl = memchr(p, '\n', (size_t)(end - p));
        const char *next = nl ? nl + 1 : end;
        fputs("    ", stdout);
        fwrite(p, 1, (size_t)((nl ? nl : end) - p), stdout);
        putchar('\n');
        p = next;
    }
}

static void print_call(const char *tool, const struct json *params)
{
    printf("执行工具: %s\n", tool);
    for (size_t i = 0; i < ARRAY_LEN(tools); i++) {
        struct str value = json_get_str(params, tools[i].param), more = json_get_str(params, "args");
        if (strcmp(tools[i].tool, tool) != 0 || !value.p)
            continue;
        bool git = strcmp(tool, "git") == 0;
        printf("  %s: %s%.*s%s%.*s\n", tools[i].label, git ? "git " : "", STR_ARG(value), git && more.n ? " " : "",
               git ? (int)more.n : 0, git && more.p ? more.p : "");
    }
}

static int print_result(const struct json *data, struct str message)
{
    int64_t code = json_get_int(data, "exit_code", 1);
    struct str output = json_get_str(data, "output"), error = json_get_str(data, "error");

    printf("  Exit code: %lld\n", (long long)code);
    if (output.n) {
        puts("  Output:");
        print_indented(output);
    }
    while (error.n && error.p[error.n - 1] == '\n')
        error.n--;
    if (!data)
        error = message;
    if (error.n)
        say("错误", error);
    return code >= 0 && code <= 255 ? (int)code : EXIT_FAILED;
}

static int execute(const struct words *w, const char *tool, const struct json *params)
{
    const struct json *answer = NULL;
    struct api api;
    struct buf body;
    struct jw j = { .out = &body };
    int r = EXIT_FAILED;

    api_init(&api, w);
    const char *id = knowlyr_find(&api, w->v[0], "执行失败");
    buf_init(&body, LIMIT_HTTP_BODY);
    jw_obj(&j);
    jw_kz(&j, "tool", arena_printf(&api.arena, "knowlyr:%s", tool));
    jw_kraw(&j, "params", params->raw);
    jw_obj_end(&j);
    int status =
        id ? knowlyr_ask(&api, "POST", api_path(&api, "/sg/v1/boxes/", id, "/execute"), buf_view(&body), &answer) : 0;
    if (id && is_fine(status) && w->json) {
        api_print(&api);
        r = (int)json_get_int(json_get(answer, "data"), "exit_code", EXIT_FAILED);
    } else if (id && is_fine(status)) {
        const struct json *data = json_get(answer, "data");
        print_call(tool, params);
        r = print_result(data && data->type == JSON_OBJ ? data : NULL, json_get_str(answer, "message"));
    } else if (id) {
        r = refused("执行失败", answer, status);
    }
    buf_done(&body);
    api_done(&api);
    return r;
}

static int run_exec(const struct command *cmd, int argc, char **argv)
{
    const char *tool = NULL, *params = NULL;
    struct words w;
    struct arena a = { 0 };
    struct json *parsed = NULL;
    struct err e = { 0 };
    const struct option rows[] = {
        { "tool", 0, OPTION_TEXT, &tool, "TOOL", "file_read, file_write, shell, search or git" },
        { "params", 0, OPTION_TEXT, &params, "JSON", "its parameters, an object" },
        { 0 },
    };
    int r = options_parse(cmd, rows, 0, argc, argv, &w);

    if (r != OPTIONS_OK)
        return r;
    if (w.n != 1)
        return usage_error(cmd, "name one sandbox");
    if (!tool || !params)
        return usage_error(cmd, "option --%s is required", tool ? "params" : "tool");
    if (!check_tool(tool))
        return usage_error(cmd, "--tool '%s': must be one of file_read, file_write, shell, search, git", tool);
    if (json_parse(&a, str_of(params), &parsed, &e) < 0 || parsed->type != JSON_OBJ) {
        fprintf(stderr, "  参数解析失败: %s\n", e.msg[0] ? e.msg : "not a JSON object");
        r = EXIT_FAILED;
    } else {
        r = execute(&w, tool, parsed);
    }
    arena_done(&a);
    return r;
}

/* --- list --- */

/* Of the box's creation, in the local time of who looks. */
static const char *minute(struct arena *a, const struct json *created)
{
    time_t t = (time_t)(time_us(created) / 1000000);
    char *text = arena_alloc(a, 32);
    struct tm tm;

    if (!t || !localtime_r(&t, &tm))
        return "-";
    strftime(text, 32, "%Y-%m-%d %H:%M", &tm);
    return text;
}

static int by_age(const void *x, const void *y)
{
    const struct json *const *a = x, *const *b = y;
    int64_t t = time_us(json_get(*a, "created")), u = time_us(json_get(*b, "created"));

    return (t > u) - (t < u);
}

static void print_list(struct api *api, const struct json *boxes)
{
    size_t n = boxes ? boxes->count : 0, k = 0;
    const struct json **rows = arena_alloc(&api->arena, (n + 1) * sizeof *rows);
    int width = ID_WIDTH, state_width = STATE_WIDTH;

    for (const struct json *b = n ? boxes->first : NULL; b; b = b->next) {
        rows[k++] = b;
        if ((int)json_get_str(b, "state").n > state_width)
            state_width = (int)json_get_str(b, "state").n;
        if ((int)json_get_str(b, "id").n > width)
            width = (int)json_get_str(b, "id").n;
    }
    qsort(rows, n, sizeof *rows, by_age);
    puts("活跃沙箱列表:");
    if (!n)
        puts("  (无活跃沙箱)");
    else
        printf("  %-*s  状态%-*s  镜像                  创建时间\n", width, "ID", state_width - 4, "");
    for (size_t i = 0; i < n; i++) {
        struct str id = json_get_str(rows[i], "id"), state = json_get_str(rows[i], "state");
        struct str image = json_get_str(rows[i], "image");
        printf("  %-*.*s  %-*.*s  %-19.*s  %s\n", width, STR_ARG(id), state_width, STR_ARG(state), STR_ARG(image),
               minute(&api->arena, json_get(rows[i], "created")));
    }
    printf("总计: %zu 个沙箱\n", n);
}

static int run_list(const struct command *cmd, int argc, char **argv)
{
    const struct json *answer = NULL;
    struct words w;
    struct api api;
    int r = options_parse(cmd, NULL, 0, argc, argv, &w);

    if (r != OPTIONS_OK)
        return r;
    if (w.n)
        return usage_error(cmd, "'%s': no words are expected", w.v[0]);
    api_init(&api, &w);
    int status = knowlyr_ask(&api, "GET", "/sg/v1/boxes", (struct str){ 0 }, &answer);
    r = is_fine(status) ? EXIT_FINE : refused("列表失败", answer, status);
    if (r == EXIT_FINE && w.json)
        api_print(&api);
    else if (r == EXIT_FINE)
        print_list(&api, json_get(answer, "boxes"));
    api_done(&api);
    return r;
}

/* --- one box, one request --- */

struct verb {
    const char *method, *after;
    const char *done, *failed; /* "沙箱已重置", "重置失败" */
    const char *prints;        /* member of the answer; NULL: the box's id */
};

static int run_verb(const struct command *cmd, const struct verb *v, int words, int argc, char **argv)
{
    const struct json *answer = NULL;
    struct words w;
    struct api api;
    struct buf body;
    struct jw j = { .out = &body };
    int status = 0, r = options_parse(cmd, NULL, 0, argc, argv, &w);

    if (r != OPTIONS_OK)
        return r;
    if (w.n != words)
        return usage_error(cmd, words == 1 ? "name one sandbox" : "name one sandbox and one snapshot");
    api_init(&api, &w);
    buf_init(&body, 4096);
    jw_obj(&j);
    if (words == 2)
        jw_kz(&j, "state", w.v[1]);
    jw_obj_end(&j);
    const char *id = knowlyr_find(&api, w.v[0], v->failed);
    if (id)
        status = knowlyr_ask(&api, v->method, api_path(&api, "/sg/v1/boxes/", id, v->after),
                             strcmp(v->method, "POST") == 0 ? buf_view(&body) : (struct str){ 0 }, &answer);
    if (id && is_fine(status) && w.json)
        api_print(&api);
    else if (id && is_fine(status))
        printf("%s: %s\n", v->done, v->prints ? arena_z(&api.arena, json_get_str(answer, v->prints)) : id);
    else if (id)
        refused(v->failed, answer, status);
    r = id && is_fine(status) ? EXIT_FINE : EXIT_FAILED;
    buf_done(&body);
    api_done(&api);
    return r;
}

#define VERB(name, words, ...)                                                                                         \
    static int run_##name(const struct command *cmd, int argc, char **argv)                                            \
    {                                                                                                                  \
        return run_verb(cmd, &(struct verb){ __VA_ARGS__ }, words, argc, argv);                                        \
    }
VERB(reset, 1, "POST", "/reset", "沙箱已重置", "重置失败", NULL)
VERB(destroy, 1, "DELETE", "", "沙箱已销毁", "销毁失败", NULL)
VERB(snapshot, 1, "POST", "/snapshot", "快照已创建", "快照失败", "state")
VERB(restore, 2, "POST", "/restore", "沙箱已恢复", "恢复失败", NULL)

/* --- the table --- */

static const struct command commands[] = {
    { .name = "create",
      .words = "--repo URL --commit SHA [options]",
      .about = "创建沙箱环境 (make a sandbox from a repository)",
      .examples = "  knowlyr-sandbox create --repo https://github.com/user/repo --commit abc123\n",
      .run = run_create,
      .remote = true },
    { .name = "exec",
      .words = "SANDBOX_ID --tool TOOL --params JSON",
      .about = "在沙箱中执行工具 (run a tool; the exit code is the tool's)",
      .examples = "  knowlyr-sandbox exec b-3f9a --tool shell --params '{\"command\": \"python -m pytest\"}'\n",
      .run = run_exec,
      .remote = true },
    { .name = "reset",
      .words = "SANDBOX_ID",
      .about = "重置沙箱到初始状态 (back to the commit; set-up commands run again)",
      .run = run_reset,
      .remote = true },
    { .name = "replay",
      .words = "SANDBOX_ID FILE [--no-reset]",
      .about = "重放 Agent 执行轨迹 (replay a trajectory; exit code 1 if it diverges)",
      .examples = "  knowlyr-sandbox replay b-3f9a trajectory.json\n",
      .run = knowlyr_replay,
      .remote = true },
    { .name = "list", .words = "", .about = "列出活跃沙箱 (list the sandboxes)", .run = run_list, .remote = true },
    { .name = "snapshot",
      .words = "SANDBOX_ID",
      .about = "创建快照 (keep the files as they are)",
      .run = run_snapshot,
      .remote = true },
    { .name = "restore",
      .words = "SANDBOX_ID SNAPSHOT",
      .about = "恢复快照 (back to a snapshot)",
      .run = run_restore,
      .remote = true },
    { .name = "destroy",
      .words = "SANDBOX_ID",
      .about = "销毁沙箱 (end a sandbox)",
      .run = run_destroy,
      .remote = true },
};

static void print_usage(FILE *out)
{
    fputs("Usage: knowlyr-sandbox [--version] [--help] COMMAND [ARGS]...\n\n"
          "AgentSandbox - Code Agent 执行沙箱 (served by Sandglass)\n\nCommands:\n",
          out);
    for (size_t i = 0; i < ARRAY_LEN(commands); i++)
        fprintf(out, "  %-9s %s\n", commands[i].name, commands[i].about);
}

int knowlyr_main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : NULL;

    cli_program = "knowlyr-sandbox";
    if (name && strcmp(name, "--version") == 0) {
        puts("knowlyr-sandbox, version 0.1.2");
        return EXIT_FINE;
    }
    if (!name || strcmp(name, "--help") == 0) {
        print_usage(name ? stdout : stderr);
        return name ? EXIT_FINE : EXIT_USAGE;
    }
    for (size_t i = 0; i < ARRAY_LEN(commands); i++)
        if (strcmp(commands[i].name, name) == 0)
            return commands[i].run(&commands[i], argc - 1, argv + 1);
    print_usage(stderr);
    fprintf(stderr, "\nError: No such command '%s'.\n", name);
    return EXIT_USAGE;
}

static int run(const struct command *cmd, int argc, char **argv)
{
    (void)cmd;
    return knowlyr_main(argc, argv);
}

const struct command command_knowlyr = {
    .name = "knowlyr",
    .words = "COMMAND ...",
    .about = "knowlyr-sandbox's command line: create, exec, reset, replay, list.",
    .run = run,
};

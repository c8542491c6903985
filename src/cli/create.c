#include <string.h>

#include "base/limits.h"
#include "cli/cli.h"
#include "cli/repo.h"
#include "daemon/units.h"

struct asked {
    const char *image, *memory, *disk, *shm, *cpu, *pids, *open_files, *network, *ttl, *state;
    const char *repo, *commit, *tests, *dir, *language, *timeout;
    struct option_list labels, mounts, setup;
    bool no_sudo, sudo, user_namespaces, allow_unenforced;
};

/* One limit as a JSON member, divided (milliseconds and thousandths become decimals). */
static int add_number(const struct command *cmd, struct jw *w, const char *option, const char *key, const char *text,
                      int (*parse)(const char *, int64_t *))
{
    int64_t value;

    if (!text)
        return OPTIONS_OK;
    if (parse(text, &value) < 0)
        return usage_error(cmd, "--%s '%s': must be %s", option, text,
                           parse == units_size       ? "a size such as 512m or 2g"
                           : parse == units_duration ? "a time such as 250ms, 30s or 5m"
                           : parse == units_milli    ? "a decimal such as 0.5 or 2"
                                                     : "a whole number");
    bool thousandths = parse == units_duration || parse == units_milli;
    jw_key(w, key);
    if (thousandths)
        jw_num(w, (double)value / 1000);
    else
        jw_int(w, value);
    return OPTIONS_OK;
}

static int add_limits(const struct command *cmd, const struct asked *a, struct jw *w)
{
    const struct {
        const char *option, *key, *text;
        int (*parse)(const char *, int64_t *);
    } limits[] = {
        { "memory", "memory", a->memory, units_size }, { "disk", "disk", a->disk, units_size },
        { "shm", "shm", a->shm, units_size },          { "cpu", "cpu", a->cpu, units_milli },
        { "pids", "pids", a->pids, units_integer },    { "open-files", "open_files", a->open_files, units_integer },
        { "ttl", "ttl", a->ttl, units_duration },
    };

    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        int r = add_number(cmd, w, limits[i].option, limits[i].key, limits[i].text, limits[i].parse);
        if (r != OPTIONS_OK)
            return r;
    }
    return OPTIONS_OK;
}

static int add_labels(const struct command *cmd, const struct option_list *labels, struct jw *w)
{
    if (!labels->n)
        return OPTIONS_OK;
    jw_key(w, "labels");
    jw_obj(w);
    for (size_t i = 0; i < labels->n; i++) {
        const char *equals = strchr(labels->v[i], '=');
        if (!equals || equals == labels->v[i])
            return usage_error(cmd, "--label '%s': must be NAME=VALUE", labels->v[i]);
        jw_key_str(w, (struct str){ labels->v[i], (size_t)(equals - labels->v[i]) });
        jw_z(w, equals + 1);
    }
    jw_obj_end(w);
    return OPTIONS_OK;
}

/* FROM:TO[:rw|:ro] */
static int add_mounts(const struct command *cmd, const struct option_list *mounts, struct jw *w)
{
    if (!mounts->n)
        return OPTIONS_OK;
    jw_key(w, "mounts");
    jw_arr(w);
    for (size_t i = 0; i < mounts->n; i++) {
        const char *from = mounts->v[i], *to = strchr(from, ':');
        size_t n = to ? strcspn(to + 1, ":") : 0;
        const char *mode = to ? to + 1 + n : "";
        if (from[0] != '/' || n == 0 || to[1] != '/' || (*mode && strcmp(mode, ":rw") != 0 && strcmp(mode, ":ro") != 0))
            return usage_error(cmd, "--mount '%s': must be /HOST/DIR:/BOX/DIR, perhaps with :rw", from);
        jw_obj(w);
        jw_kstr(w, "from", (struct str){ from, (size_t)(to - from) });
        jw_kstr(w, "to", (struct str){ to + 1, n });
        jw_kbool(w, "writable", strcmp(mode, ":rw") == 0);
        jw_obj_end(w);
    }
    jw_arr_end(w);
    return OPTIONS_OK;
}

/* Where it comes from, beside its image. */
static int add_origin(const struct command *cmd, const struct asked *a, struct api *api, struct jw *w)
{
    bool task = a->tests || a->dir || a->language || a->timeout || a->setup.n;

    if (!a->repo != !a->commit)
        return usage_error(cmd, "--repo and --commit go together");
    const char *why = a->repo ? repo_add(api, w, a->repo, a->commit) : NULL;
    if (why && (a->repo[0] == '/' || a->repo[0] == '.' || strncmp(a->repo, "file://", 7) == 0))
        complain("%s: %s; the server is asked to read it itself", a->repo, why);
    if (!task)
        return OPTIONS_OK;
    jw_key(w, "task");
    jw_obj(w);
    if (a->tests)
        jw_kz(w, "test_command", a->tests);
    if (a->dir)
        jw_kz(w, "work_dir", a->dir);
    if (a->language)
        jw_kz(w, "language", a->language);
    int r = add_number(cmd, w, "timeout", "timeout", a->timeout, units_duration);
    if (a->setup.n) {
        jw_key(w, "setup_commands");
        jw_arr(w);
        for (size_t i = 0; i < a->setup.n; i++)
            jw_z(w, a->setup.v[i]);
        jw_arr_end(w);
    }
    jw_obj_end(w);
    return r;
}

static int add_all(const struct command *cmd, const struct asked *a, struct api *api, struct jw *w)
{
    jw_obj(w);
    if (a->image)
        jw_kz(w, "image", a->image);
    if (a->network)
        jw_kz(w, "network", a->network);
    if (a->state)
        jw_kz(w, "state", a->state);
    if (a->no_sudo || a->sudo)
        jw_kbool(w, "sudo", a->sudo);
    if (a->user_namespaces)
        jw_kbool(w, "user_namespaces", true);
    if (a->allow_unenforced)
        jw_kbool(w, "allow_unenforced", true);
    int r = add_limits(cmd, a, w);
    if (r == OPTIONS_OK)
        r = add_labels(cmd, &a->labels, w);
    if (r == OPTIONS_OK)
        r = add_mounts(cmd, &a->mounts, w);
    if (r == OPTIONS_OK)
        r = add_origin(cmd, a, api, w);
    jw_obj_end(w);
    return r;
}

/* A command that failed is told; the box is there all the same. */
static void warn_setup(const struct json *origin)
{
    const struct json *setup = json_get(origin, "setup"), *commands = json_get(origin, "setup_commands");
    const struct json *s = setup ? setup->first : NULL, *c = commands ? commands->first : NULL;

    for (; s && c; s = s->next, c = c->next)
        if (json_get_int(s, "exit_code", 0) != 0) {
            struct str said = json_get_str(s, "error");
            complain("warning: '%.*s' failed with exit code %lld: %.*s", STR_ARG(c->s),
                     (long long)json_get_int(s, "exit_code", 0), STR_ARG(said));
        }
}

static int ask(struct api *api, const struct words *w, struct str body)
{
    const struct json *box;

    int r = api_call(api, "POST", "/sg/v1/boxes", body, &box);
    if (r == 0 && w->json)
        api_print(api);
    else if (r == 0)
        printf("%.*s\n", STR_ARG(json_get_str(box, "id")));
    for (const struct json *u = r == 0 && json_get(box, "unenforced") ? json_get(box, "unenforced")->first : NULL; u;
         u = u->next)
        complain("warning: this machine does not enforce the box's limit of %.*s", STR_ARG(u->s));
    if (r == 0)
        warn_setup(json_get(box, "origin"));
    return r;
}

static int run(const struct command *cmd, int argc, char **argv)
{
    struct asked a = { 0 };
    struct words w;
    struct api api;
    struct buf body;
    const struct option rows[] = {
        { "image", 0, OPTION_TEXT, &a.image, "IMAGE", "host, or a directory that the server allows" },
        { "memory", 'm', OPTION_TEXT, &a.memory, "SIZE", "memory: 512m, 2g" },
        { "disk", 0, OPTION_TEXT, &a.disk, "SIZE", "what it may write" },
        { "shm", 0, OPTION_TEXT, &a.shm, "SIZE", "size of /dev/shm" },
        { "cpu", 'c', OPTION_TEXT, &a.cpu, "CORES", "0.5, 2" },
        { "pids", 0, OPTION_TEXT, &a.pids, "N", "processes and threads" },
        { "open-files", 0, OPTION_TEXT, &a.open_files, "N", "open files of each process" },
        { "network", 'n', OPTION_TEXT, &a.network, "none|full", "loopback only, or outbound" },
        { "sudo", 0, OPTION_FLAG, &a.sudo, NULL, "with sudo" },
        { "no-sudo", 0, OPTION_FLAG, &a.no_sudo, NULL, "without sudo" },
        { "user-namespaces", 0, OPTION_FLAG, &a.user_namespaces, NULL, "programs may make some: Chromium's sandbox" },
        { "ttl", 't', OPTION_TEXT, &a.ttl, "TIME", "end it after 90s, 30m, 2h; 0: never" },
        { "state", 's', OPTION_TEXT, &a.state, "step|manual", "keep a state after every step, or when asked" },
        { "label", 'l', OPTION_LIST, &a.labels, "NAME=VALUE", "may be repeated" },
        { "mount", 0, OPTION_LIST, &a.mounts, "FROM:TO[:rw]", "a host directory in the box; may be repeated" },
        { "repo", 0, OPTION_TEXT, &a.repo, "URL",
          "clone this: https, ssh, file:///..., or a directory of this machine" },
        { "commit", 0, OPTION_TEXT, &a.commit, "SHA", "at this commit, tag or branch" },
        { "setup", 0, OPTION_LIST, &a.setup, "COMMAND", "run it first, and again after a reset; may be repeated" },
        { "test-command", 0, OPTION_TEXT, &a.tests, "COMMAND", "what the tool knowlyr:run_tests runs" },
        { "language", 0, OPTION_TEXT, &a.language, "NAME", "of the task: chooses the test command if there is none" },
        { "work-dir", 0, OPTION_TEXT, &a.dir, "DIR", "where the repository is put (/workspace)" },
        { "timeout", 0, OPTION_TEXT, &a.timeout, "TIME", "of a call that does not say its own" },
        { "allow-unenforced", 0, OPTION_FLAG, &a.allow_unenforced, NULL, "also if a limit cannot be enforced" },
        { 0 },
    };
    int r = options_parse(cmd, rows, 0, argc, argv, &w);

    if (r != OPTIONS_OK)
        return r;
    if (w.n)
        return usage_error(cmd, "'%s': no words are expected", w.v[0]);
    if (a.sudo && a.no_sudo)
        return usage_error(cmd, "--sudo and --no-sudo exclude each other");

    buf_init(&body, LIMIT_HTTP_BODY);
    api_init(&api, &w);
    if (a.repo || a.setup.n)
        api.timeout_ms = 0; /* a clone takes its time; the server has its own limit */
    struct jw writer = { .out = &body };
    r = add_all(cmd, &a, &api, &writer);
    if (r == OPTIONS_OK)
        r = ask(&api, &w, buf_view(&body));
    api_done(&api);
    buf_done(&body);
    return r;
}

const struct command command_create = {
    .name = "create",
    .words = "[options]",
    .about = "Make a box and print its id.",
    .more = "What is not given is the server's default (docs/configuration.md, box.*).",
    .examples = "  box=$(sandglass create)\n"
                "  sandglass create --memory 512m --cpu 0.5 --ttl 30m --label team=red\n"
                "  sandglass create --repo https://host/project --commit abc123 --setup 'make deps'\n"
                "  sandglass create --network full --mount /srv/data:/data\n",
    .run = run,
    .remote = true,
};

/* `sandglass serve`, and `sandglass role`, by which guard starts its processes. */
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "daemon/config.h"
#include "daemon/daemon.h"

static void print_help(const struct command *cmd)
{
    printf("usage: sandglass %s %s\n\n%s\n\n%s\n\noptions:\n", cmd->name, cmd->words, cmd->about, cmd->more);
    config_print_help(stdout);
    printf("  %-24s %s\n  %-24s %s\n  %-24s %s\n\nexamples:\n%s", "--dump-config",
           "print a commented sample of the file, and end", "--json",
           "print one line on standard output when it listens: url, home, pid", "--help", "print this", cmd->examples);
}

static bool has_word(int argc, char **argv, const char *word)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], word) == 0)
            return true;
    return false;
}

/* It is no setting: roles do not inherit it. */
static bool take_word(int *argc, char **argv, const char *word)
{
    for (int i = 1; i < *argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], word) == 0) {
            memmove(argv + i, argv + i + 1, (size_t)(*argc - i) * sizeof *argv);
            --*argc;
            return true;
        }
    return false;
}

static int run_serve(const struct command *cmd, int argc, char **argv)
{
    struct config c;
    struct err e;
    int first;

    if (has_word(argc, argv, "--help") || has_word(argc, argv, "-h")) {
        print_help(cmd);
        return EXIT_FINE;
    }
    if (has_word(argc, argv, "--dump-config")) {
        config_dump(stdout);
        return EXIT_FINE;
    }
    bool json = take_word(&argc, argv, "--json");
    if (config_load(argc, argv, &c, &first, &e) < 0) {
        complain("%s", e.msg);
        return EXIT_USAGE;
    }
    int code = EXIT_USAGE;
    if (first < argc) {
        (void)usage_error(cmd, "'%s': serve takes flags only", argv[first]);
    } else if (config_check_places(&c, &e) < 0) {
        complain("%s", e.msg);
    } else {
        log_max = c.log_level;
        code = guard_main(&c, json);
    }
    config_done(&c);
    return code;
}

const struct command command_serve = {
    .name = "serve",
    .words = "[--listen HOST:PORT] [--home DIR] [--config FILE] [--KEY VALUE ...]",
    .about = "Run the server in the foreground until SIGTERM or SIGINT.",
    .more = "Each setting has a key in the file, an environment variable (SANDGLASS_BOX_MEMORY for box.memory) and a "
            "flag;\n"
            "flags win over variables, variables over the file. docs/configuration.md explains them.",
    .examples = "  sandglass serve\n"
                "  sandglass serve --listen 127.0.0.1:9000 --home /tmp/sg --box-memory 512m\n"
                "  sandglass serve --listen 127.0.0.1:0 --json\n"
                "  sandglass serve --dump-config > sandglass.conf\n",
    .run = run_serve,
};

static int run_role(const struct command *cmd, int argc, char **argv)
{
    struct config c;
    struct err e;
    int first;

    if (argc < 3)
        return usage_error(cmd, "name a role and the process that starts it");
    if (config_load(argc - 2, argv + 2, &c, &first, &e) < 0) {
        complain("role %s: %s", argv[1], e.msg);
        return EXIT_USAGE;
    }
    log_max = c.log_level;
    log_role(argv[1]);
    int code = role_main(argv[1], (pid_t)atoi(argv[2]), &c);
    config_done(&c);
    return code;
}

const struct command command_role = {
    .name = "role",
    .words = "supervise|serve|recorder PARENT [--KEY VALUE ...]",
    .about = "Run one role; guard does this.",
    .run = run_role,
    .hidden = true,
};

static int run_config(const struct command *cmd, int argc, char **argv)
{
    bool markdown = false;
    struct words w;
    const struct option rows[] = {
        { "markdown", 0, OPTION_FLAG, &markdown, NULL, "print docs/configuration.md" },
        { 0 },
    };
    int r = options_parse(cmd, rows, 0, argc, argv, &w);

    if (r != OPTIONS_OK)
        return r;
    if (markdown)
        config_markdown(stdout);
    else
        config_dump(stdout);
    return EXIT_FINE;
}

const struct command command_config = {
    .name = "config",
    .words = "[--markdown]",
    .about = "Print the table of settings.",
    .run = run_config,
    .hidden = true,
};

static int run_routes(const struct command *cmd, int argc, char **argv)
{
    (void)cmd, (void)argc, (void)argv;
    routes_print(stdout);
    return EXIT_FINE;
}

const struct command command_routes = {
    .name = "routes",
    .words = "",
    .about = "Print every route of the port, a JSON object a line.",
    .run = run_routes,
    .hidden = true,
};

/* The program's entry: one table of commands. */
#include <errno.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/knowlyr.h"

static const struct command *const commands[] = {
    &command_serve,    &command_doctor,  &command_tools,
    &command_create,   &command_exec,    &command_list,
    &command_show,     &command_destroy, &command_pause,
    &command_resume,   &command_log,     &command_top,
    &command_replay,   &command_export,  &command_import,
    &command_annotate, &command_prune,   &command_snapshot,
    &command_restore,  &command_reset,   &command_fork,
    &command_states,   &command_gc,      &command_diff,
    &command_checkout, &command_knowlyr, &command_mcp,
    &command_key,      &command_version, &command_role,
    &command_config,   &command_routes,  NULL,
};

static void print_commands(FILE *out)
{
    fputs("Sandglass gives agents computers, and remembers everything that happened in them.\n\n"
          "usage: sandglass COMMAND ...\n\n",
          out);
    for (const struct command *const *c = commands; *c; c++)
        if (!(*c)->hidden)
            fprintf(out, "  %-9s %s\n", (*c)->name, (*c)->about);
    fputs("\n'sandglass COMMAND --help' shows options and examples.\n", out);
}

/* What was printed counts if it arrived: a full disk must not look like success. */
static int printed(int code, int lost)
{
    bool broken = ferror(stdout);

    if (fflush(stdout) == 0 && !broken)
        return code;
    complain("standard output could not be written: %s", errno ? strerror(errno) : "an error");
    return code ? code : lost;
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : NULL, *slash = argc ? strrchr(argv[0], '/') : NULL;

    if (argc && strcmp(slash ? slash + 1 : argv[0], "knowlyr-sandbox") == 0)
        return printed(knowlyr_main(argc, argv), EXIT_FAILED);
    if (!name) {
        print_commands(stderr);
        return EXIT_USAGE;
    }
    if (strcmp(name, "--version") == 0)
        name = "version";
    bool help = strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0;
    if (help && argc == 2) {
        print_commands(stdout);
        return EXIT_FINE;
    }
    if (help) { /* sandglass help exec */
        name = argv[2];
        argv[2] = "--help";
    }
    for (const struct command *const *c = commands; *c; c++)
        if (strcmp((*c)->name, name) == 0)
            return printed((*c)->run(*c, argc - 1, argv + 1), *c == &command_exec ? EXIT_EXEC_OWN : EXIT_FAILED);
    complain("there is no command '%s'; 'sandglass --help' lists them", name);
    return EXIT_USAGE;
}

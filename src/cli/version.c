#include "cli/cli.h"

#ifndef SANDGLASS_VERSION
#define SANDGLASS_VERSION "0"
#endif
#ifndef SANDGLASS_REV
#define SANDGLASS_REV "unknown"
#endif

static int run(const struct command *cmd, int argc, char **argv)
{
    struct words w;
    int r = options_parse(cmd, NULL, 0, argc, argv, &w);

    if (r != OPTIONS_OK)
        return r;
    if (w.n)
        return usage_error(cmd, "'%s': no words are expected", w.v[0]);
    printf(w.json ? "{\"version\":\"%s\",\"revision\":\"%s\"}\n" : "sandglass %s (%s)\n", SANDGLASS_VERSION,
           SANDGLASS_REV);
    return EXIT_FINE;
}

const struct command command_version = {
    .name = "version",
    .words = "[--json]",
    .about = "Print the version.",
    .examples = "  sandglass version --json\n",
    .run = run,
};

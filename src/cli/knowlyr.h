/* knowlyr-sandbox's command line: what its two files share, and its entry. */
#pragma once

#include "cli/cli.h"

int knowlyr_main(int argc, char **argv);

int knowlyr_ask(struct api *a, const char *method, const char *path, struct str body, const struct json **ret);
const char *knowlyr_find(struct api *a, const char *name, const char *what);
int knowlyr_replay(const struct command *cmd, int argc, char **argv);

/* A trajectory as one page for a browser, with everything in it: `sandglass log --html`. */
#pragma once

#include "cli/cli.h"

int log_html(struct api *api, const char *id, const char *path); /* path NULL: standard output. An exit code */

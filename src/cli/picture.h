/* Pictures that steps keep (docs/browser.md), for commands that put them into what they write. */
#pragma once

#include "cli/cli.h"

/* The step's blob of this name as a data: URL, in a; absent: it has none, or it cannot be had. */
struct str picture_url(struct api *api, struct arena *a, const char *trajectory, const struct json *blobs, int64_t step,
                       const char *name);

/* The repository of a box that is to be made: --repo and --commit as the server's API wants them. */
#pragma once

#include "cli/cli.h"

/* The member "repo" of the request. A repository of this machine is sent along as a bundle: the server need not be
 * able, nor allowed, to read it. What is not one, or is too large, goes by its URL, and the server decides: returns why
 * it was not sent along, or NULL. */
const char *repo_add(struct api *a, struct jw *w, const char *repo, const char *commit);

/* The image "host": the host's own /usr, under a small root of our making that holds nothing secret. It works at once
 * and downloads nothing. It is built once per generation (packages, libraries, init) and never changed:
 *
 *   <home>/images/host-<generation>/root       lower of /
 *   <home>/images/host-<generation>/usr-sudo   put over the host's /usr in boxes that have sudo
 *   <home>/images/host-<generation>/proof      fingerprints of these two as they were built
 */
#pragma once

#include <stdbool.h>

#include "image/sha.h"

enum { HOST_PATH = 512 };

struct host_image {
    char generation[24];
    char root[HOST_PATH], sudo[HOST_PATH];
    struct sha root_proof, sudo_proof;
    uint64_t packages; /* of the host, when it was opened: whose /usr it is */
};

/* Finds or builds the current generation. May take tens of milliseconds. */
int host_image_open(const char *home, const char *init_path, struct host_image *ret, struct err *e);
/* Is it still what was built: each file of the skeleton (and what sudo needs), over the /usr of the same packages?
 * -ESTALE: it is not, and e says what differs. */
bool host_image_packages(const struct host_image *h); /* those of the host are what they were */
int host_image_prove(const struct host_image *h, bool sudo, struct err *e);
/* Removes all other generations; only when no box uses one. */
void host_image_prune(const char *home, const struct host_image *keep);

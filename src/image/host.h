/* The image "host": the host's own /usr, under a small root of our making that holds nothing secret. It works at once
 * and downloads nothing. It is built once per generation (packages, libraries, init) and never changed:
 *
 *   <home>/images/host-<generation>/root       lower of /
 *   <home>/images/host-<generation>/usr-sudo   put over the host's /usr in boxes that have sudo
 */
#pragma once

#include <sys/types.h>

struct err;

enum { HOST_PATH = 512 };

struct host_image {
    char generation[24];
    char root[HOST_PATH], sudo[HOST_PATH];
};

/* Finds or builds the current generation. May take tens of milliseconds. */
int host_image_open(const char *home, const char *init_path, struct host_image *ret, struct err *e);
/* Removes all other generations; only when no box uses one. */
void host_image_prune(const char *home, const struct host_image *keep);

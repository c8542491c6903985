/* The fork servers of Python in a box: one that makes contexts with preloaded modules, one that makes Jupyter kernels.
 * Each has imported what its children need, so that a child is there in milliseconds and shares its memory. They belong
 * to the box's user. Without modules to preload there is none for contexts: they are born one by one (context.h). */
#pragma once

#include <stdbool.h>

struct init;

enum pyserver { PYSERVER_CONTEXT, PYSERVER_KERNEL, PYSERVER_COUNT };

/* Starts it if it is not there. It may fail, now or later: who connects and gets no answer helps himself. */
void pyserver_need(struct init *in, enum pyserver which);
const char *pyserver_socket(const struct init *in, enum pyserver which); /* NULL: there is none */

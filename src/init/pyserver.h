/* The fork servers of Python in a box (python.fork): one that makes contexts with preloaded modules, one that makes
 * Jupyter kernels. Each has imported what its children need, so that a child is there in milliseconds and shares its
 * memory, and its hash seed with it. They belong to the box's user. Without python.fork there are none, and without
 * modules to preload none for contexts: then each is born by itself, the next one ahead of time (driver.h: a spare). */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct arena;
struct init;

enum pyserver { PYSERVER_CONTEXT, PYSERVER_KERNEL, PYSERVER_COUNT };
enum { PYSERVER_MODULES = 32 };

/* Starts it if it is not there. It may fail, now or later: who connects and gets no answer helps himself. */
void pyserver_need(struct init *in, enum pyserver which);
const char *pyserver_socket(const struct init *in, enum pyserver which); /* NULL: there is none */
/* The modules to preload, at most max; argv has room for them and the NULL behind. */
void pyserver_modules(const struct init *in, struct arena *a, const char **argv, size_t max);

/* The files that processes of a frozen box could be writing to just now: open for writing, or mapped shared. */
#pragma once

#include "base/arena.h"
#include "base/str.h"
#include "isolate/cgroup.h"

struct open_files {
    struct arena arena;
    struct str *paths; /* in the box; not each once, not all of them regular files */
    size_t n, size;
    bool all; /* it cannot be told: descriptors are under way in a socket, one of them has lost the name by which it
               * was opened and has another, or there are too many */
};

void open_files_find(const struct cgroups *g, const char *box, struct open_files *ret);
void open_files_done(struct open_files *o);

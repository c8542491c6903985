/* Host directories in a box: spec.mounts. */
#pragma once

struct err;
struct root_opts;

/* While the host's names can be seen. proc: of a process of the box. fds: LIMIT_MOUNTS of them, never closed. */
int binds_open(const struct root_opts *o, int proc, int *ret_fds, struct err *e);
int binds_attach(const struct root_opts *o, int root, const int *fds, struct err *e);

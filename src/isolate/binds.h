/* Host directories in a box: spec.mounts. */
#pragma once

struct err;
struct root_opts;

int binds_attach(const struct root_opts *o, int root, struct err *e);

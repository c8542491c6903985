/* What this machine really lets us do: each thing is tried, in a child where it could leave a trace. For `sandglass
 * doctor`. */
#pragma once

#include <stdbool.h>

struct probe_opts {
    const char *cgroup_name; /* below which groups are made for the trial; NULL: "sandglass-probe" */
};

/* switches_off says what is lost without it, remedy what to do about it; both are "" if ok. */
typedef void on_probe(void *arg, const char *name, bool ok, const char *detail, const char *switches_off,
                      const char *remedy);

int probe_all(const struct probe_opts *o, on_probe *report, void *arg); /* how many failed */

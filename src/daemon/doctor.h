/* What this machine offers. Every row comes from trying the thing, never from a version or a file's presence. */
#pragma once

#include <stdbool.h>

struct config;

struct doctor_row {    /* borrowed for the call */
    const char *group; /* "boxes", "kernel", "programs" */
    const char *name;
    bool ok;
    bool needed;        /* without it there are no boxes */
    const char *detail; /* what it answered, or how it failed */
    const char *off;    /* if not ok: what does not work without it */
    const char *fix;    /* if not ok: the command that brings it; "" if there is none */
};
typedef void on_doctor_row(void *arg, const struct doctor_row *row);

/* Returns whether boxes can be made. */
bool doctor_run(const struct config *c, on_doctor_row *report, void *arg);
bool doctor_programs(on_doctor_row *report, void *arg);
bool doctor_box(const struct config *c, on_doctor_row *report, void *arg);

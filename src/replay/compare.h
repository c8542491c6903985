/* Is what happened now what was recorded? Not by equality of strings: the outcome, the exit code and each field of the
 * observation, after the rules of canon.h; fields that measure the run (times, process ids) are never looked at. */
#pragma once

#include "replay/canon.h"
#include "replay/trajectory.h"

enum replay_class {
    CLASS_IDENTICAL,
    CLASS_BENIGN,           /* differs only in what the rules remove */
    CLASS_NONDETERMINISTIC, /* differs again when it is run again */
    CLASS_DIVERGED,
    CLASS_UNCHECKED, /* nothing was recorded to compare with, or nothing was to be run */
    CLASS_COUNT
};
const char *class_name(enum replay_class c);

struct verdict {
    enum replay_class class;
    bool ends_differently; /* outcome or exit code: it matters even if it is nondeterministic */
    struct str field;      /* the first that differs: "exit_code", "stdout", "entries[2].size" */
    struct str want, got;  /* its text on both sides */
    unsigned rules;        /* that removed differences */
    const char *note;      /* nullable */
};

/* Never CLASS_NONDETERMINISTIC: one look cannot tell. */
void compare_step(const struct canon *c, struct arena *a, const struct traj_step *want, const struct traj_step *got,
                  struct verdict *ret);
enum replay_class compare_texts(const struct canon *c, struct arena *a, struct str want, struct str got,
                                unsigned *rules);

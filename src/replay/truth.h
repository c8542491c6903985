/* What really happened, beside what the model was shown: the object "sandglass" in a format's metadata or extra.
 *
 * A reader that finds it, and finds that the text in the file is still the one that this truth is shown as, compares
 * with the truth. A text that somebody changed wins. */
#pragma once

#include "replay/format.h"

struct truth_form { /* how a format shows a step */
    struct str (*text)(struct arena *a, const struct traj_step *s, const struct write_opts *o); /* its result */
    struct str (*args)(struct arena *a, const struct traj_step *s);                             /* its arguments */
};
extern const struct truth_form truth_plain; /* truth_shown, and arguments as they are */

/* Members of one step's truth, without braces. shown: what the format's own field holds. */
void truth_step(struct jw *w, const struct traj_step *s, struct str shown, const struct write_opts *o);
/* The metadata object: t's own members and "sandglass": {"trajectory", "worker", "steps": [...]}, unless o->bare. */
void truth_metadata(struct jw *w, struct arena *a, const struct trajectory *t, const struct write_opts *o,
                    const struct truth_form *form);

/* Over steps that were read, by order. */
void truth_take(struct arena *a, struct trajectory *t, const struct json *metadata, const struct truth_form *form);
void truth_take_step(struct arena *a, struct traj_step *s, const struct json *truth, const struct truth_form *form);

/* traj_shown() cut in the middle to o->shown_max. */
struct str truth_shown(struct arena *a, const struct traj_step *s, const struct write_opts *o);

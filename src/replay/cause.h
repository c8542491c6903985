/* Why two runs may have gone differently, where the texts tell. */
#pragma once

#include "replay/compare.h"

/* Nothing differs but times. Two runs within one second may well agree, and are no proof of anything. */
bool cause_is_clock(const struct canon *c, struct arena *a, const struct verdict *v);

/* "missing program: foo", "clock" ...; absent if it cannot be told. again: it differed again when it was run again. */
struct str cause_of(const struct canon *c, struct arena *a, const struct traj_step *want, const struct traj_step *got,
                    const struct verdict *v, bool again);

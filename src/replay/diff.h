/* The difference between two texts as a unified diff, as short as it can be: lines that only differ in what the rules
 * remove count as equal. */
#pragma once

#include "replay/canon.h"

enum { DIFF_CONTEXT = 2, DIFF_LINES = 40 };

/* Nothing is added if there is no difference. At most DIFF_LINES lines, then how many are left out. */
void diff_unified(const struct canon *c, struct arena *a, struct str want, struct str got, struct buf *out);

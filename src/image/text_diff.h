/* A unified diff of two texts (Myers' algorithm, the greedy form with a cap on the number of edits; beyond it the
 * middle is shown as replaced). */
#pragma once

#include "base/buf.h"

enum { TEXT_DIFF_EDITS = 1500, TEXT_DIFF_CONTEXT = 3 };

/* Appends hunks without file headers; nothing if the texts are equal. Lines that do not end with a newline are marked
 * as diff(1) does. */
void text_diff(struct str old, struct str new, struct buf *out);
bool text_is(struct str s); /* UTF-8 without NUL: worth a text diff */

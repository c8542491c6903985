/* The beginning and the end of a text that is too long for an answer, counted in characters. A byte that is not part of
 * one counts as one. */
#pragma once

#include <stdint.h>

#include "base/arena.h"
#include "base/str.h"

size_t ends_first(struct str s, size_t chars); /* how many bytes the first so many characters have */
size_t ends_last(struct str s, size_t chars);
struct str ends_join(struct arena *a, struct str head, int64_t omitted, struct str tail);
struct str ends_of(struct arena *a, struct str s, size_t chars,
                   int64_t *omitted); /* adds to *omitted what it left out */

/* A hash over all that a directory of our own holds: names, types, modes, owners, contents, links, attributes. No times.
 * For small trees (an image's skeleton); states have roots (manifest.h), which follow what changed instead. */
#pragma once

#include "image/sha.h"

int fingerprint_of(const char *path, struct sha *ret, struct err *e);

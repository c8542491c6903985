/* Paths as text. The name of a file is any bytes without '/' and NUL; JSON has text. A byte that is not part of UTF-8 is
 * written as one of the characters U+EF80 to U+EFFF (of private use: nothing means anything there), U+EF00 plus its
 * value, and read back from it. A name that really has such a character has its three bytes written like that, so that
 * each name has one text, and each text is the name of one file. */
#pragma once

#include "base/json.h"

void jw_path(struct jw *w, struct str bytes);            /* p NULL writes null */
struct str path_bytes(struct arena *a, struct str text); /* text itself, if it is those bytes */
void jw_given_path(struct jw *w, struct str either);     /* bytes or text, as a URL or a form has it */

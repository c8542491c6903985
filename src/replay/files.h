/* The files after a step, on both sides: two state roots that are not equal, and what makes the difference. */
#pragma once

#include "replay/run.h"

struct files; /* which files differ since which step: a difference is news only once */
struct files *files_new(struct arena *a);

/* Does the step make a new difference between the files of both sides? Fills v if it does, as compare_step() does:
 * CLASS_BENIGN if the rules remove it, CLASS_DIVERGED with the paths otherwise. rows: GET /sg/v1/diff, was -> is. */
void files_compare(struct files *f, const struct canon *c, const struct json *rows, struct verdict *v);
/* Does one of the files that the last files_compare() found differ here, too? */
bool files_again(const struct files *f, const struct json *rows);

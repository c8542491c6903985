/* What a replay found, for people. */
#pragma once

#include <stdio.h>

#include "replay/run.h"

void report_step(FILE *out, struct arena *a, const struct replay_step *s, bool colour); /* one line */
void report_end(FILE *out, struct arena *a, const struct replay_result *r, bool colour);
void report_rules(FILE *out, struct arena *a);

/* A step as a line of shell, as SWE-agent has it. */
#pragma once

#include "replay/truth.h"

struct str swe_action(struct arena *a, const struct traj_step *s); /* the command; else "TOOL {arguments}" */
extern const struct truth_form swe_form;

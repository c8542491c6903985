/* How knowlyr calls our tools, what it calls their parameters, and what it takes as their output. Both directions. */
#pragma once

#include "replay/truth.h"

struct str knowlyr_tool(const struct traj_step *s);
extern const struct truth_form knowlyr_form;

/* What the tools of the backend "box" are given. They are about the box as a whole, so serve itself works on them
 * (session/box_tool.c), and no session is needed: the box is the one that the call is made in, or the worker's. */
#pragma once

#include "tool/tool.h"

struct box_tool_params { /* of all of them; each tool's table names its own */
    struct str box, name, state, trajectory, a, b;
    int64_t step, n, limit, after;
    bool text;
};

enum box_action { BOX_SNAPSHOT, BOX_RESTORE, BOX_RESET, BOX_FORK, BOX_DIFF, BOX_CHECKOUT, BOX_STATES };
enum box_action box_tool_action(const struct tool *t);

/* What the tools of the backend "trajectory" are given. They are about what was recorded; serve has them done by processes
 * of their own (session/log_tool.c), and no box or session is needed. */
#pragma once

#include "tool/tool.h"

struct log_tool_params { /* of all of them; each tool's table names its own */
    struct str trajectory, on, format, outcome, tool, note, tags, metadata;
    double min_match, reward;
    int64_t step, max_bytes;
    bool once, trainable, bare, pinned;
};

enum log_action { LOG_REPLAY, LOG_EXPORT, LOG_ANNOTATE };
enum log_action log_tool_action(const struct tool *t);

/* What was recorded, as tools. The rows are here, the work is done elsewhere: see tool/log.h. */
#include "tool/log.h"

#include "base/auto.h"
#include "base/limits.h"

#define P struct log_tool_params
#define TRAJECTORY                                                                                                     \
    FIELD(STR, P, trajectory, "id of the trajectory; default: the one that this call belongs to",                      \
          .max = LIMIT_TRAJECTORY_ID)

static const struct field replay_params[] = {
    TRAJECTORY,
    FIELD(STR, P, on, "in this box as it is; default: fresh boxes like the recorded ones", .max = 64),
    FIELD(NUM, P, min_match, "how much must match for `verified`", .min = 0, .max = 1, .def_num = 1),
    FIELD(BOOL, P, once, "do not run steps again that differ"),
    { 0 },
};
static const struct field export_params[] = {
    TRAJECTORY,
    FIELD(STR, P, format, "atif, openai, sharegpt, agentflow, knowlyr, swe-agent, sandglass ...", .required = true,
          .max = 32),
    FIELD(STR, P, outcome, "only steps that ended so", .max = 32),
    FIELD(STR, P, tool, "only steps of this tool", .max = 128),
    FIELD(BOOL, P, trainable, "only steps that a learner may take as the agent's own"),
    FIELD(BOOL, P, bare, "without what really happened in metadata and extra"),
    FIELD(INT, P, max_bytes, "longer texts are refused", .def = 1000000, .min = 1, .max = 8000000),
    { 0 },
};
static const struct field annotate_params[] = {
    TRAJECTORY,
    FIELD(INT, P, step, "of this step; default: of the whole", .def = FIELD_ABSENT, .min = 1, .max = 1e15),
    FIELD(JSON, P, tags, "a list of texts, instead of those before", .def_str = "[string]", .max = 16384),
    FIELD(JSON, P, metadata, "an object that is merged into its metadata", .def_str = "object", .max = 65536),
    FIELD(STR, P, note, "in words", .max = 65536),
    { 0 },
};

struct result {
    struct str report, text, annotations, trajectory, format;
    int64_t bytes;
};
#define R struct result
static const struct field replay_result[] = { FIELD(JSON, R, report, "as docs/replay.md describes it"), { 0 } };
static const struct field export_result[] = { FIELD(STR, R, format, "of the text"),
                                              FIELD(STR, R, text, "the trajectory"),
                                              FIELD(INT, R, bytes, "its length"),
                                              { 0 } };
static const struct field annotate_result[] = {
    FIELD(STR, R, trajectory, "whose"),
    FIELD(JSON, R, annotations, "what was set"),
    { 0 },
};

#define ROW(name_, title_, help_, flags_, fields)                                                                      \
    {                                                                                                                  \
        .name = "trajectory:" name_, .title = (title_), .help = (help_), .flags = TOOL_ON_LOG | (flags_),              \
        .params = fields##_params, .params_size = sizeof(P), .result = fields##_result, .result_size = sizeof(R),      \
    }
static const struct tool tools[] = {
    /* in the order of enum log_action */
    ROW("replay", "Replay", "Runs a recorded trajectory again and says at which step it goes differently, and why.",
        TOOL_PARALLEL, replay),
    ROW("export", "Export", "A recorded trajectory as text in a format that other programs read.",
        TOOL_READ_ONLY | TOOL_IDEMPOTENT | TOOL_PARALLEL, export),
    ROW("annotate", "Annotate", "Adds tags, metadata or a note to a trajectory or one of its steps.", TOOL_IDEMPOTENT,
        annotate),
};

enum log_action log_tool_action(const struct tool *t)
{
    return (enum log_action)(t - tools);
}

extern const struct backend backend_trajectory;
const struct backend backend_trajectory = {
    .name = "trajectory",
    .help = "What was recorded: replay, export, annotate.",
    .kind = KIND_STATELESS,
    .tools = tools,
    .tool_count = ARRAY_LEN(tools),
};

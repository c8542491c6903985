/* The box through time, as tools. The rows are here, the work is done by serve: see tool/box.h. */
#include "tool/box.h"

#include "base/auto.h"
#include "base/limits.h"

#define P struct box_tool_params

#define BOX        FIELD(STR, P, box, "id of the box; default: the one the call is made in, or the worker's", .max = 64)
#define STATE(...) FIELD(STR, P, state, "a recorded state, by id or name", .max = 64, ##__VA_ARGS__)
#define STEP       FIELD(INT, P, step, "instead: the state after this step", .def = FIELD_ABSENT, .min = 1, .max = 1e15)
#define TRAJECTORY                                                                                                     \
    FIELD(STR, P, trajectory, "whose step; default: the box's own trajectory", .max = LIMIT_TRAJECTORY_ID)

static const struct field snapshot_params[] = {
    FIELD(STR, P, name, "a name for the state", .max = 64),
    BOX,
    { 0 },
};
static const struct field rewind_params[] = { STATE(), STEP, TRAJECTORY, BOX, { 0 } };
static const struct field fork_params[] = {
    FIELD(INT, P, n, "how many copies", .def = 1, .min = 1, .max = LIMIT_FORKS), STATE(), STEP, TRAJECTORY, BOX, { 0 },
};
static const struct field diff_params[] = {
    FIELD(STR, P, a, "the older state, by id or name", .required = true, .max = 64),
    FIELD(STR, P, b, "the newer state; default: the box as it is now", .max = 64),
    FIELD(BOOL, P, text, "show the lines that differ in text files"),
    BOX,
    { 0 },
};
static const struct field checkout_params[] = { STATE(.required = true), { 0 } };
static const struct field states_params[] = {
    BOX,
    FIELD(STR, P, trajectory, "only those of this trajectory", .max = LIMIT_TRAJECTORY_ID),
    FIELD(INT, P, after, "the next_after of the list before", .def = 0, .min = 0, .max = 9e15),
    FIELD(INT, P, limit, "how many at most", .def = 100, .min = 1, .max = 1000),
    { 0 },
};

/* Results are printed by serve; these tables describe them. */
struct result {
    struct str state, box, tenant, image, name, parent, trajectory, root, fidelity, restored, url, layers, boxes, rows;
    struct str states, sessions;
    int64_t time, step, entries, bytes, frozen_us, requested, made, next;
    bool changed, proved, truncated, quarantined;
    struct {
        struct str a, b;
        int64_t added, changed, removed;
    } diff;
};
#define R struct result
#define SESSIONS                                                                                                       \
    FIELD(JSON, R, sessions, "contexts and kernels: whether their variables are carried, and which are not")
#define D __typeof__(((struct result *)0)->diff)

static const struct field snapshot_result[] = {
    FIELD(STR, R, state, "id of the state"),
    FIELD(STR, R, box, "whose files"),
    FIELD(STR, R, tenant, "whose it is, if not the default tenant's"),
    FIELD(INT, R, time, "when, in microseconds since 1970"),
    FIELD(STR, R, image, "the image below its layers"),
    FIELD(STR, R, name, "its name", .nullable = true),
    FIELD(STR, R, parent, "the state before it", .nullable = true),
    FIELD(STR, R, trajectory, "after a step of this one", .nullable = true),
    FIELD(INT, R, step, "which step"),
    FIELD(STR, R, root, "hash that proves its files; null: it follows", .nullable = true),
    FIELD(JSON, R, layers, "layers over the image, oldest first"),
    FIELD(INT, R, entries, "files written into the newest layer"),
    FIELD(INT, R, bytes, "their bytes"),
    FIELD(BOOL, R, changed, "false: the files are as in the state before"),
    FIELD(INT, R, frozen_us, "how long the box stood still"),
    FIELD(STR, R, fidelity, "what it carries: fs or fs+session"),
    SESSIONS,
    FIELD(BOOL, R, quarantined, "its layers did not prove their root"),
    { 0 },
};
static const struct field rewind_result[] = {
    FIELD(STR, R, restored, "id of the state; null: the bare image", .nullable = true),
    FIELD(STR, R, root, "its root", .nullable = true),
    FIELD(BOOL, R, proved, "the root was computed again from what is on disk"),
    FIELD(STR, R, fidelity, "what it carries: fs or fs+session"),
    SESSIONS,
    { 0 },
};
static const struct field fork_result[] = {
    FIELD(STR, R, state, "what the copies began with"),
    FIELD(STR, R, fidelity, "what they carry: fs or fs+session"),
    SESSIONS,
    FIELD(BOOL, R, proved, "the root was computed again from what is on disk"),
    FIELD(JSON, R, boxes, "one row per copy: its id, or an error"),
    FIELD(INT, R, requested, "how many were asked for"),
    FIELD(INT, R, made, "how many there are"),
    { 0 },
};
static const struct field diff_result[] = {
    FIELD(STR, D, a, "id of the older state"),   FIELD(STR, D, b, "id of the newer state"),
    FIELD(INT, D, added, "how many paths came"), FIELD(INT, D, changed, "how many changed"),
    FIELD(INT, D, removed, "how many went"),     FIELD(BOOL, R, truncated, "there are more rows than shown"),
    FIELD(JSON, R, rows, "one per path"),        { 0 },
};
static const struct field checkout_result[] = {
    FIELD(STR, R, state, "id of the state"),
    FIELD(STR, R, url, "where its files are, as a tar"),
    FIELD(INT, D, added, "how many paths it has beside the image"),
    FIELD(INT, D, changed, "how many are others than there"),
    FIELD(INT, D, removed, "how many are not there any more"),
    FIELD(BOOL, R, truncated, "there are more rows than shown"),
    FIELD(JSON, R, rows, "one per path that differs from the image"),
    { 0 },
};
static const struct field states_result[] = {
    FIELD(JSON, R, states, "newest first"),
    FIELD(INT, R, next, "`after` of the next page", .nullable = true),
    { 0 },
};

#define ROW(name_, title_, help_, flags_, fields)                                                                      \
    {                                                                                                                  \
        .name = "box:" name_, .title = (title_), .help = (help_), .flags = TOOL_ON_BOX | (flags_),                     \
        .params = fields##_params, .params_size = sizeof(P), .result = fields##_result, .result_size = sizeof(R),      \
    }

static const struct tool tools[] = {
    /* in the order of enum box_action */
    ROW("snapshot", "Snapshot", "Keeps all files of the box as they are now, as a state that can be returned to.", 0,
        snapshot),
    ROW("restore", "Restore",
        "Puts the box back into a recorded state. Its programs end and later files are gone; take a snapshot first to "
        "come back to them.",
        TOOL_IDEMPOTENT, rewind),
    ROW("reset", "Reset",
        "Puts the box back to its bare image, or to a state; the files are first proved by their hash. If they are not "
        "what they were, the box is quarantined.",
        TOOL_IDEMPOTENT, rewind),
    ROW("fork", "Fork", "Makes more boxes that begin as this one is now, or as it was in a state or after a step.", 0,
        fork),
    ROW("diff", "Diff", "Which files differ between two states, or between a state and now.", TOOL_PARALLEL, diff),
    ROW("checkout", "List a state's files", "The files of a state that differ from the image, and where to get them.",
        TOOL_READ_ONLY | TOOL_IDEMPOTENT | TOOL_PARALLEL, checkout),
    ROW("states", "States", "The recorded states, newest first.", TOOL_READ_ONLY | TOOL_IDEMPOTENT | TOOL_PARALLEL,
        states),
};

enum box_action box_tool_action(const struct tool *t)
{
    return (enum box_action)(t - tools);
}

const struct backend backend_box = {
    .name = "box",
    .help = "The box through time: snapshot, restore, reset, fork, diff.",
    .kind = KIND_STATELESS,
    .tools = tools,
    .tool_count = ARRAY_LEN(tools),
    .full_names = true,
};

/* A backend in a shared object: one row is all it takes.
 *
 *   cc -shared -fPIC -Isrc -D_GNU_SOURCE -o dice.so examples/extend/plugin.c
 *   sandglass serve --plugins /path/to/dice.so
 *   sandglass exec ... or POST /api/v1/execute {"action": "dice:roll", "params": {"sides": 6}} */
#include <stdlib.h>

#include "tool/tool.h"

struct roll_params {
    int64_t sides;
};
static const struct field roll_fields[] = {
    FIELD(INT, struct roll_params, sides, "how many sides it has", .def = 6, .min = 2, .max = 1000),
    { 0 },
};
struct roll_result {
    int64_t value;
};
static const struct field roll_result_fields[] = {
    FIELD(INT, struct roll_result, value, "what it shows"),
    { 0 },
};

static int roll(struct tool_env *env, const void *params, void *result, struct err *e)
{
    const struct roll_params *p = params;
    struct roll_result *r = result;

    (void)env, (void)e;
    r->value = 1 + random() % p->sides;
    return 0;
}

static const struct tool tools[] = {
    { .name = "dice:roll",
      .title = "Roll a die",
      .help = "Rolls a die and tells what it shows.",
      .flags = TOOL_READ_ONLY,
      .params = roll_fields,
      .params_size = sizeof(struct roll_params),
      .result = roll_result_fields,
      .result_size = sizeof(struct roll_result),
      .run = roll },
};

static const struct backend dice = { .name = "dice", .help = "Dice.", .kind = KIND_STATELESS, .tools = tools, .tool_count = 1 };

const struct backend *sandglass_backend(void);
const struct backend *sandglass_backend(void)
{
    return &dice;
}

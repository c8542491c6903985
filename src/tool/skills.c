/* Skills: directories with a SKILL.md that an agent can read and use. They lie in the box, and so does the script that
 * looks after them (skills.py). */
#include <string.h>

#include "base/auto.h"
#include "base/limits.h"
#include "tool/tool.h"

struct skills_params {
    struct str action, path, name, names, archive;
};
static const struct field skills_fields[] = {
    FIELD(STR, struct skills_params, action, "what to do", .required = true,
          .choices = "register|list|content|remove|clear"),
    FIELD(STR, struct skills_params, path, "register: a directory, or where to unpack the archive", .max = LIMIT_PATH),
    FIELD(STR, struct skills_params, name, "of the skill", .max = 128),
    FIELD(STR, struct skills_params, names, "list: only these, with commas", .max = 4096),
    FIELD(BYTES, struct skills_params, archive, "register: a zip", .max = LIMIT_FILE_IO),
    { 0 },
};
struct skills_result {
    struct str result;
};
static const struct field skills_result_fields[] = {
    FIELD(JSON, struct skills_result, result, "what came of it"),
    { 0 },
};

#ifdef IN_BOX

#include "tool/python_ask.h"

__asm__(".section .rodata\n.global skills_script\nskills_script:\n.incbin \"src/tool/skills.py\"\n.byte 0\n.text\n");
extern const char skills_script[];

static int manage_run(struct hand *h, const void *params, void *result, struct err *e)
{
    const struct python_ask q = { "looking after skills", skills_script, skills_fields, params };
    struct skills_result *r = result;
    const struct json *said;
    int n = python_ask(h, &q, &said, e);

    if (n < 0)
        return n;
    const struct json *got = json_get(said, "result");
    r->result = got ? got->raw : STR("null");
    return 0;
}

#endif

static const struct tool skills_tools[] = {
    { .name = "skills:manage",
      .title = "Skills of the box",
      .help = "Registers, lists, reads and removes skills: directories with a SKILL.md.",
      .flags = TOOL_NEEDS_BOX | TOOL_PARALLEL,
      .params = skills_fields,
      .params_size = sizeof(struct skills_params),
      .result = skills_result_fields,
      .result_size = sizeof(struct skills_result),
      .run_hand = BOX_CODE(manage_run) },
};

const struct backend backend_skills = {
    .name = "skills",
    .help = "Skills.",
    .kind = KIND_SESSION,
    .tools = skills_tools,
    .tool_count = ARRAY_LEN(skills_tools),
    .full_names = true,
};

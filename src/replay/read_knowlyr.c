/* knowlyr's three ways to write a trajectory: for its replay (tool_name, params, expected_output), of its recorder
 * (tool_call, tool_result), and of its wrappers and hub (tool, params, output). */
#include "replay/knowlyr.h"
#include "replay/read.h"

#include "base/field.h"
#include "replay/toolmap.h"

static const struct json *steps_of(const struct json *v)
{
    const struct json *steps = json_get(v, "steps");
    return steps && steps->type == JSON_ARR ? steps : NULL;
}

bool knowlyr_sniff(const struct json *v)
{
    const struct json *steps = steps_of(v);

    if (!steps || json_get(v, "schema_version"))
        return false;
    return !steps->first || json_get(steps->first, "tool_name");
}

bool recorder_sniff(const struct json *v)
{
    const struct json *steps = steps_of(v);
    const struct json *first = steps ? steps->first : NULL;

    if (!first || json_get(v, "schema_version") || json_get_int(first, "step", 0) > 0)
        return false;
    return json_get(first, "tool_call") || (json_get(first, "tool") && json_get(first, "params"));
}

/* Relative paths and commands begin in its work directory, unless we wrote the file ourselves. */
static struct toolmap map_of(struct arena *a, const struct json *v)
{
    bool ours = json_get(json_get(v, "metadata"), "sandglass") != NULL;

    return (struct toolmap){ .arena = a, .base = ours ? NULL : "/workspace", .knowlyr = true };
}

int knowlyr_read(struct arena *a, const struct json *v, struct trajectory *t, struct err *e)
{
    const struct toolmap m = map_of(a, v);

    traj_metadata(t, json_get(v, "metadata"));
    for (const struct json *step = steps_of(v)->first; step; step = step->next) {
        if (step->type != JSON_OBJ)
            return err_set(e, ERR_TYPE, "step %zu: expected object, got %s", t->n, json_type_name(step->type));
        struct traj_step *s = traj_add(a, t);
        struct str name = json_get_str(step, "tool_name");
        toolmap_call(&m, name.p ? name : STR(""), json_get(step, "params"), s);
        traj_expect_text(s, json_get_str(step, "expected_output"));
    }
    truth_take(a, t, json_get(v, "metadata"), &knowlyr_form);
    return 0;
}

static void take_result(const struct json *step, struct traj_step *s)
{
    const struct json *result = json_get(step, "tool_result");
    int64_t code;

    result = result ? result : step;
    code = json_get_int(result, "exit_code", FIELD_ABSENT);
    traj_expect_text(s, json_get_str(result, "output"));
    s->exit_code = code;
    s->message = json_get_str(result, "error");
    s->thought = json_get_str(step, "thought");
    s->time = json_get_str(step, "timestamp");
    s->time_us = traj_time_us(s->time);
}

int recorder_read(struct arena *a, const struct json *v, struct trajectory *t, struct err *e)
{
    const struct toolmap m = map_of(a, v);
    const struct json *task = json_get(v, "task");

    t->id = json_get_str(task, "task_id");
    if (!t->id.p)
        t->id = json_get_str(v, "task_id");
    t->task = json_get_str(task, "description");
    t->agent = json_get_str(v, "agent");
    t->model = json_get_str(v, "model");
    traj_metadata(t, json_get(v, "metadata"));
    for (const struct json *step = steps_of(v)->first; step; step = step->next) {
        const struct json *call = json_get(step, "tool_call");
        struct str name = call ? json_get_str(call, "name") : json_get_str(step, "tool");
        if (step->type != JSON_OBJ)
            return err_set(e, ERR_TYPE, "step %zu: expected object, got %s", t->n, json_type_name(step->type));
        struct traj_step *s = traj_add(a, t);
        toolmap_call(&m, name.p ? name : STR(""), call ? json_get(call, "parameters") : json_get(step, "params"), s);
        take_result(step, s);
    }
    truth_take(a, t, json_get(v, "metadata"), &knowlyr_form);
    return 0;
}

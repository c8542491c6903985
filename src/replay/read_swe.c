/* SWE-agent's .traj: a list of actions, each a line of shell, with what was observed. */
#include "replay/read.h"

#include "replay/swe.h"
#include "replay/toolmap.h"

bool swe_sniff(const struct json *v)
{
    const struct json *list = json_get(v, "trajectory");

    if (!list || list->type != JSON_ARR)
        return false;
    return list->first ? json_get(list->first, "action") != NULL : json_get(v, "info") != NULL;
}

static struct str one_command(struct arena *a, const struct traj_step *s)
{
    struct json *params;
    struct err e;

    if (!str_is(s->tool, "bash:run") && !str_is(traj_name(s), "bash"))
        return (struct str){ 0 };
    if (json_parse(a, traj_args(s), &params, &e) < 0 || params->count != 1)
        return (struct str){ 0 };
    return json_get_str(params, "command");
}

struct str swe_action(struct arena *a, const struct traj_step *s)
{
    struct str command = one_command(a, s);

    if (command.p)
        return command;
    return str_join(a, (struct str[]){ traj_name(s), STR(" "), traj_args(s) }, 3);
}

const struct truth_form swe_form = { truth_shown, swe_action };

int swe_read(struct arena *a, const struct json *v, struct trajectory *t, struct err *e)
{
    const struct toolmap m = { .arena = a };
    const struct json *info = json_get(v, "info"), *extra = json_get(v, "sandglass");
    struct str environment = json_get_str(v, "environment");

    traj_metadata(t, info);
    t->id = json_get_str(extra, "trajectory");
    if (!t->id.p)
        t->id = environment;
    t->worker = json_get_str(extra, "worker");
    for (const struct json *step = json_get(v, "trajectory")->first; step; step = step->next) {
        struct str action = json_get_str(step, "action");
        if (step->type != JSON_OBJ)
            return err_set(e, ERR_TYPE, "step %zu: expected object, got %s", t->n, json_type_name(step->type));
        if (!action.n)
            continue; /* the model said nothing that could be run */
        struct traj_step *s = traj_add(a, t);
        toolmap_shell(&m, action, s);
        traj_expect_text(s, json_get_str(step, "observation"));
        s->thought = json_get_str(step, "thought");
        struct str as_params = s->as_params, as_tool = s->as_tool;
        s->as_params = action; /* what the truth is measured by */
        truth_take_step(a, s, json_get(json_get(step, "extra"), "sandglass"), &swe_form);
        if (s->as_params.p) {
            s->as_params = as_params;
            s->as_tool = as_tool;
        }
    }
    return 0;
}

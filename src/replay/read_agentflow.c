/* AgentFlow: trajectories.jsonl of the synthesis (paths of nodes), and the results of a rollout (tool calls with their
 * whole results). */
#include "replay/read.h"

#include "replay/toolmap.h"

bool agentflow_sniff(const struct json *v)
{
    const struct json *nodes = json_get(v, "nodes");

    return nodes && nodes->type == JSON_ARR && json_get(v, "trajectory_id");
}

int agentflow_read(struct arena *a, const struct json *v, struct trajectory *t, struct err *e)
{
    const struct toolmap m = { .arena = a };

    (void)e;
    t->id = json_get_str(v, "trajectory_id");
    t->task = json_get_str(v, "seed_data");
    for (const struct json *n = json_get(v, "nodes")->first; n; n = n->next) {
        const struct json *action = json_get(n, "action");
        struct str name = json_get_str(action, "tool_name");
        if (!action || action->type != JSON_OBJ)
            continue; /* the root of a tree has none */
        struct traj_step *s = traj_add(a, t);
        toolmap_call(&m, name.p ? name : STR(""), json_get(action, "parameters"), s);
        traj_expect_text(s, json_get_str(n, "observation"));
        s->thought = json_get_str(n, "intent");
    }
    traj_metadata(t, json_get(v, "metadata"));
    truth_take(a, t, json_get(v, "metadata"), &truth_plain);
    return 0;
}

/* A line of results_*.jsonl, or the trajectory in it alone. */
static const struct json *rollout_of(const struct json *v)
{
    const struct json *inner = json_get(v, "trajectory");
    const struct json *r = inner && inner->type == JSON_OBJ ? inner : v;
    const struct json *calls = json_get(r, "tool_calls");

    return calls && calls->type == JSON_ARR && json_get(r, "messages") ? r : NULL;
}

bool rollout_sniff(const struct json *v)
{
    return rollout_of(v) != NULL;
}

static void take_result(struct arena *a, const struct json *call, struct traj_step *s)
{
    const struct json *result = json_get(call, "result"), *success = json_get(call, "success");

    if (!result || result->type == JSON_NULL)
        return;
    if (result->type == JSON_STR) {
        traj_expect_text(s, result->s);
        return;
    }
    traj_observe(s, result);
    s->expect = EXPECT_RESULT;
    if (success && success->type == JSON_BOOL)
        s->outcome = s->exit_code > 0 || !success->b ? STR("task_error") : STR("ok");
    if (!s->data || s->data->type != JSON_OBJ)
        traj_expect_text(s, traj_shown(a, s));
}

int rollout_read(struct arena *a, const struct json *v, struct trajectory *t, struct err *e)
{
    const struct toolmap m = { .arena = a };
    const struct json *r = rollout_of(v);

    (void)e;
    t->id = json_get_str(r, "task_id");
    t->task = json_get_str(r, "question");
    t->answer = json_get_str(r, "final_answer");
    for (const struct json *c = json_get(r, "tool_calls")->first; c; c = c->next) {
        struct traj_step *s = traj_add(a, t);
        struct str name = json_get_str(c, "tool_name");
        toolmap_call(&m, name.p ? name : STR(""), json_get(c, "parameters"), s);
        take_result(a, c, s);
    }
    traj_metadata(t, json_get(v, "metadata"));
    truth_take(a, t, json_get(v, "metadata"), &truth_plain);
    return 0;
}

/* AgentFlow: a line of trajectories.jsonl (a path of nodes without its root), and a line of a rollout's results. */
#include "replay/read.h"
#include "replay/write_common.h"

static char *node_id(struct arena *a, size_t i)
{
    return arena_printf(a, "node_%08zx", i);
}

static void write_node(struct jw *w, struct arena *a, const struct trajectory *t, size_t i, const struct write_opts *o)
{
    const struct traj_step *s = &t->steps[i];

    jw_obj(w);
    jw_kz(w, "node_id", node_id(a, i + 1));
    jw_kstr(w, "observation", s->expect == EXPECT_NOTHING ? STR("") : truth_shown(a, s, o));
    jw_kstr(w, "intent", s->thought.p ? s->thought : STR(""));
    jw_key(w, "action");
    jw_obj(w);
    jw_kstr(w, "tool_name", traj_name(s));
    jw_key(w, "parameters");
    write_args_object(w, s);
    jw_obj_end(w);
    jw_kz(w, "parent_id", node_id(a, i)); /* the root itself is not written */
    jw_key(w, "children_ids");
    jw_arr(w);
    if (i + 1 < t->n)
        jw_z(w, node_id(a, i + 2));
    jw_arr_end(w);
    jw_kint(w, "depth", (int64_t)i + 1);
    jw_obj_end(w);
}

static void write_path(struct arena *a, const struct trajectory *t, const struct write_opts *o, struct buf *out)
{
    struct jw w = { .out = out, .one_line = true };

    jw_obj(&w);
    jw_kstr(&w, "trajectory_id", t->id.p ? t->id : STR(""));
    jw_kstr(&w, "source_id", t->worker.p ? t->worker : STR(""));
    jw_kstr(&w, "seed_data", t->task.p ? t->task : STR(""));
    jw_kint(&w, "total_depth", (int64_t)t->n);
    jw_key(&w, "nodes");
    jw_arr(&w);
    for (size_t i = 0; i < t->n; i++)
        write_node(&w, a, t, i, o);
    jw_arr_end(&w);
    if (!o->bare) {
        jw_key(&w, "metadata");
        truth_metadata(&w, a, t, o, &truth_plain);
    }
    jw_obj_end(&w);
    buf_char(out, '\n');
}

static void write_call(struct jw *w, const struct traj_step *s)
{
    jw_obj(w);
    jw_kstr(w, "tool_name", traj_name(s));
    jw_key(w, "parameters");
    write_args_object(w, s);
    if (s->expect == EXPECT_TEXT)
        jw_kstr(w, "result", s->text);
    else
        jw_kraw(w, "result", s->observation.n ? s->observation : STR("null"));
    jw_kbool(w, "success", !traj_failed(s));
    jw_kstr(w, "error", traj_failed(s) ? s->message : (struct str){ 0 });
    jw_knum(w, "execution_time_ms", (double)s->run_us / 1000);
    jw_obj_end(w);
}

static int64_t span_us(const struct trajectory *t)
{
    if (!t->n || t->steps[0].time_us <= 0)
        return 0;
    return t->steps[t->n - 1].time_us + t->steps[t->n - 1].total_us - t->steps[0].time_us;
}

static void write_rollout_trajectory(struct jw *w, struct arena *a, const struct trajectory *t,
                                     const struct write_opts *o)
{
    const struct traj_step *last = t->n ? &t->steps[t->n - 1] : NULL;

    jw_obj(w);
    jw_kstr(w, "task_id", t->id.p ? t->id : STR(""));
    jw_kstr(w, "question", t->task.p ? t->task : STR(""));
    jw_key(w, "messages");
    write_messages(w, a, t, o);
    jw_key(w, "tool_calls");
    jw_arr(w);
    for (size_t i = 0; i < t->n; i++)
        write_call(w, &t->steps[i]);
    jw_arr_end(w);
    jw_kstr(w, "final_answer", t->answer.p ? t->answer : STR(""));
    jw_kint(w, "total_turns", (int64_t)t->n);
    jw_kbool(w, "success", traj_success(t));
    jw_kstr(w, "error", last && traj_failed(last) ? last->message : (struct str){ 0 });
    jw_kstr(w, "start_time", t->n ? t->steps[0].time : (struct str){ 0 });
    jw_kstr(w, "end_time", last ? traj_time_text(a, last->time_us + last->total_us) : (struct str){ 0 });
    jw_knum(w, "execution_time_ms", (double)span_us(t) / 1000);
    jw_obj_end(w);
}

static void write_rollout(struct arena *a, const struct trajectory *t, const struct write_opts *o, struct buf *out)
{
    struct jw w = { .out = out, .one_line = true };

    jw_obj(&w);
    jw_kstr(&w, "task_id", t->id.p ? t->id : STR(""));
    jw_kstr(&w, "question", t->task.p ? t->task : STR(""));
    jw_kstr(&w, "predicted_answer", t->answer.p ? t->answer : STR(""));
    jw_kbool(&w, "success", traj_success(t));
    jw_key(&w, "trajectory");
    write_rollout_trajectory(&w, a, t, o);
    if (!o->bare) {
        jw_key(&w, "metadata");
        truth_metadata(&w, a, t, o, &truth_plain);
    }
    jw_obj_end(&w);
    buf_char(out, '\n');
}

extern const struct traj_format format_agentflow, format_agentflow_rollout;
const struct traj_format format_agentflow = {
    .name = "agentflow",
    .about = "AgentFlow's trajectories.jsonl",
    .sniff = agentflow_sniff,
    .read = agentflow_read,
    .write = write_path,
};
const struct traj_format format_agentflow_rollout = {
    .name = "agentflow-rollout",
    .images = true,
    .about = "AgentFlow's rollout results, one task per line (JSONL)",
    .sniff = rollout_sniff,
    .read = rollout_read,
    .write = write_rollout,
};

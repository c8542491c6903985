/* knowlyr: the JSON that its replay takes, and the JSONL of its recorder. */
#include "base/field.h"
#include "replay/knowlyr.h"
#include "replay/read.h"
#include "replay/write_common.h"

static void write_replay(struct arena *a, const struct trajectory *t, const struct write_opts *o, struct buf *out)
{
    struct jw w = { .out = out, .one_line = o->many };

    jw_obj(&w);
    jw_key(&w, "steps");
    jw_arr(&w);
    for (size_t i = 0; i < t->n; i++) {
        const struct traj_step *s = &t->steps[i];
        jw_obj(&w);
        jw_kstr(&w, "tool_name", knowlyr_tool(s));
        jw_kraw(&w, "params", traj_args_ok(s) ? knowlyr_form.args(a, s) : STR("{}"));
        jw_kstr(&w, "expected_output", knowlyr_form.text(a, s, o));
        jw_obj_end(&w);
    }
    jw_arr_end(&w);
    jw_key(&w, "metadata");
    truth_metadata(&w, a, t, o, &knowlyr_form);
    jw_obj_end(&w);
    buf_char(out, '\n');
}

static void write_step(struct jw *w, struct arena *a, const struct traj_step *s, size_t i, const struct write_opts *o)
{
    struct str output = knowlyr_form.text(a, s, o);
    int64_t code = s->exit_code != FIELD_ABSENT ? s->exit_code : traj_failed(s);
    struct str error = s->err.n ? s->err : traj_failed(s) ? s->message : (struct str){ 0 };

    jw_obj(w);
    jw_kint(w, "step_id", (int64_t)i);
    jw_kstr(w, "thought", s->thought.p ? s->thought : STR(""));
    jw_key(w, "tool_call");
    jw_obj(w);
    jw_kstr(w, "name", knowlyr_tool(s));
    jw_kraw(w, "parameters", traj_args_ok(s) ? knowlyr_form.args(a, s) : STR("{}"));
    jw_obj_end(w);
    jw_key(w, "tool_result");
    jw_obj(w);
    jw_kstr(w, "output", output.p ? output : STR(""));
    jw_kint(w, "exit_code", code);
    jw_kstr(w, "error", error);
    jw_obj_end(w);
    jw_kstr(w, "timestamp", s->time.p ? s->time : STR(""));
    jw_kint(w, "token_count", 0);
    jw_obj_end(w);
}

static void write_outcome(struct jw *w, const struct trajectory *t)
{
    jw_key(w, "outcome");
    jw_obj(w);
    jw_kbool(w, "success", traj_success(t));
    jw_knum(w, "score", traj_success(t) ? 1.0 : 0.0);
    jw_kint(w, "tests_passed", 0);
    jw_kint(w, "tests_failed", 0);
    jw_kint(w, "total_steps", (int64_t)t->n);
    jw_kint(w, "total_tokens", 0);
    jw_key(w, "outcome_metadata");
    jw_obj(w);
    jw_obj_end(w);
    jw_obj_end(w);
}

static void write_recorder(struct arena *a, const struct trajectory *t, const struct write_opts *o, struct buf *out)
{
    struct jw w = { .out = out, .one_line = true };

    jw_obj(&w);
    jw_key(&w, "task");
    jw_obj(&w);
    jw_kstr(&w, "task_id", t->id.p ? t->id : STR(""));
    jw_kstr(&w, "description", t->task.p ? t->task : STR(""));
    jw_obj_end(&w);
    jw_kstr(&w, "agent", t->agent.p ? t->agent : STR(""));
    jw_kstr(&w, "model", t->model.p ? t->model : STR(""));
    jw_key(&w, "steps");
    jw_arr(&w);
    for (size_t i = 0; i < t->n; i++)
        write_step(&w, a, &t->steps[i], i, o);
    jw_arr_end(&w);
    write_outcome(&w, t);
    jw_key(&w, "metadata");
    truth_metadata(&w, a, t, o, &knowlyr_form);
    jw_obj_end(&w);
    buf_char(out, '\n');
}

extern const struct traj_format format_knowlyr, format_knowlyr_recorder;
const struct traj_format format_knowlyr = {
    .name = "knowlyr",
    .about = "what knowlyr-sandbox replay takes, one document",
    .sniff = knowlyr_sniff,
    .read = knowlyr_read,
    .write = write_replay,
};
const struct traj_format format_knowlyr_recorder = {
    .name = "knowlyr-recorder",
    .about = "knowlyr-recorder's trajectories, one per line (JSONL)",
    .sniff = recorder_sniff,
    .read = recorder_read,
    .write = write_recorder,
};

/* ATIF-v1.7 as its validator wants it: no unknown keys, steps numbered 1 to n without gaps, every source_call_id names
 * a call of its own step, agent-only fields on agent steps only. What the format has no place for is in `extra`. */
#include "replay/read.h"
#include "replay/write_common.h"

static void plain_step(struct jw *w, size_t *number, const char *source, struct str message, struct str time)
{
    jw_obj(w);
    jw_kint(w, "step_id", (int64_t)++ * number);
    if (time.n)
        jw_kstr(w, "timestamp", time);
    jw_kz(w, "source", source);
    jw_kstr(w, "message", message);
    jw_obj_end(w);
}

static void write_call(struct jw *w, const struct traj_step *s, struct str id, struct str name)
{
    jw_key(w, "tool_calls");
    jw_arr(w);
    jw_obj(w);
    jw_kstr(w, "tool_call_id", id);
    jw_kstr(w, "function_name", name);
    jw_key(w, "arguments");
    write_args_object(w, s);
    jw_obj_end(w);
    jw_arr_end(w);
}

static void write_result(struct jw *w, const struct traj_step *s, struct str id, struct str shown,
                         const struct write_opts *o)
{
    jw_key(w, "observation");
    jw_obj(w);
    jw_key(w, "results");
    jw_arr(w);
    jw_obj(w);
    jw_kstr(w, "source_call_id", id);
    jw_kstr(w, "content", shown);
    if (!o->bare) {
        jw_key(w, "extra");
        jw_obj(w);
        jw_key(w, "sandglass");
        jw_obj(w);
        truth_step(w, s, shown, o);
        jw_obj_end(w);
        jw_obj_end(w);
    }
    jw_obj_end(w);
    jw_arr_end(w);
    jw_obj_end(w);
}

static void write_step(struct jw *w, struct arena *a, const struct traj_step *s, size_t *number,
                       const struct write_opts *o)
{
    struct str id = call_id(a, *number), name = wire_name(a, traj_name(s));

    jw_obj(w);
    jw_kint(w, "step_id", (int64_t)++ * number);
    if (s->time.n)
        jw_kstr(w, "timestamp", s->time);
    jw_kz(w, "source", "agent");
    jw_kstr(w, "message", s->thought.p ? s->thought : STR(""));
    write_call(w, s, id, name);
    if (s->expect != EXPECT_NOTHING)
        write_result(w, s, id, truth_shown(a, s, o), o);
    jw_obj_end(w);
}

static void write_agent(struct jw *w, struct arena *a, const struct trajectory *t)
{
    jw_key(w, "agent");
    jw_obj(w);
    jw_kstr(w, "name", t->agent.n ? t->agent : STR("unknown"));
    jw_kz(w, "version", "unknown");
    if (t->model.n)
        jw_kstr(w, "model_name", t->model);
    jw_key(w, "tool_definitions");
    write_tool_definitions(w, a, t);
    jw_obj_end(w);
}

static void write(struct arena *a, const struct trajectory *t, const struct write_opts *o, struct buf *out)
{
    struct jw w = { .out = out, .one_line = o->many };
    struct str id = t->id.n ? t->id : STR("unknown");
    size_t number = 0;

    jw_obj(&w);
    jw_kz(&w, "schema_version", "ATIF-v1.7");
    jw_kstr(&w, "session_id", id);
    jw_kstr(&w, "trajectory_id", id);
    write_agent(&w, a, t);
    jw_key(&w, "steps");
    jw_arr(&w);
    if (t->task.p)
        plain_step(&w, &number, "user", t->task, t->n ? t->steps[0].time : (struct str){ 0 });
    for (size_t i = 0; i < t->n; i++)
        write_step(&w, a, &t->steps[i], &number, o);
    if (t->answer.p)
        plain_step(&w, &number, "agent", t->answer, t->n ? t->steps[t->n - 1].time : (struct str){ 0 });
    jw_arr_end(&w);
    jw_key(&w, "final_metrics");
    jw_obj(&w);
    jw_kint(&w, "total_steps", (int64_t)number);
    jw_obj_end(&w);
    if (!o->bare) {
        jw_key(&w, "extra");
        jw_obj(&w);
        jw_kz(&w, "source", "sandglass");
        jw_kstr(&w, "worker", t->worker);
        if (t->metadata.n)
            jw_kraw(&w, "metadata", t->metadata);
        jw_obj_end(&w);
    }
    jw_obj_end(&w);
    buf_char(out, '\n');
}

extern const struct traj_format format_atif;
const struct traj_format format_atif = {
    .name = "atif",
    .about = "ATIF-v1.7, one document",
    .sniff = atif_sniff,
    .read = atif_read,
    .write = write,
};

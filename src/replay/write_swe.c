/* SWE-agent's .traj. */
#include "replay/read.h"
#include "replay/swe.h"
#include "replay/write_common.h"

static void write_step(struct jw *w, struct arena *a, const struct traj_step *s, const struct write_opts *o)
{
    struct str shown = s->expect == EXPECT_NOTHING ? STR("") : truth_shown(a, s, o);

    jw_obj(w);
    jw_kstr(w, "action", swe_action(a, s));
    jw_kstr(w, "observation", shown);
    jw_kstr(w, "response", s->thought.p ? s->thought : STR(""));
    jw_kstr(w, "thought", s->thought.p ? s->thought : STR(""));
    jw_knum(w, "execution_time", (double)s->run_us / 1e6);
    jw_key(w, "state");
    jw_obj(w);
    if (json_get_str(s->data, "cwd").p)
        jw_kstr(w, "working_dir", json_get_str(s->data, "cwd"));
    jw_obj_end(w);
    jw_key(w, "query");
    jw_arr(w);
    jw_arr_end(w);
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
}

static void write(struct arena *a, const struct trajectory *t, const struct write_opts *o, struct buf *out)
{
    struct jw w = { .out = out, .one_line = o->many };

    jw_obj(&w);
    jw_key(&w, "trajectory");
    jw_arr(&w);
    for (size_t i = 0; i < t->n; i++)
        write_step(&w, a, &t->steps[i], o);
    jw_arr_end(&w);
    jw_key(&w, "history");
    write_messages(&w, a, t, o);
    jw_key(&w, "info");
    jw_obj(&w);
    jw_kz(&w, "exit_status", t->answer.p ? "submitted" : "exit");
    jw_kstr(&w, "submission", t->answer);
    jw_key(&w, "model_stats");
    jw_obj(&w);
    jw_obj_end(&w);
    jw_obj_end(&w);
    jw_kz(&w, "environment", "sandglass");
    jw_kraw(&w, "replay_config", STR("null"));
    if (!o->bare) {
        jw_key(&w, "sandglass");
        jw_obj(&w);
        jw_kstr(&w, "trajectory", t->id);
        jw_kstr(&w, "worker", t->worker);
        jw_obj_end(&w);
    }
    jw_obj_end(&w);
    buf_char(out, '\n');
}

extern const struct traj_format format_swe_agent;
const struct traj_format format_swe_agent = {
    .name = "swe-agent",
    .about = "SWE-agent's .traj, one document",
    .sniff = swe_sniff,
    .read = swe_read,
    .write = write,
};

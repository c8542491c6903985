/* Our own steps: a page of GET /sg/v1/trajectories/{id}/steps, many pages, one step per line (`sandglass log --json`),
 * or what `sandglass import` prints. */
#include "replay/format.h"

static bool is_step(const struct json *v)
{
    return v->type == JSON_OBJ && json_get_str(v, "tool").p && json_get(v, "params") && json_get_int(v, "step", 0) > 0;
}

static bool sniff(const struct json *v)
{
    const struct json *steps = json_get(v, "steps");

    if (is_step(v))
        return true;
    if (!steps || steps->type != JSON_ARR || !json_get(v, "trajectory"))
        return false;
    return !steps->first || is_step(steps->first);
}

static struct str group(const struct json *v)
{
    struct str name = json_get_str(v, "trajectory");
    return name.p ? name : STR("");
}

static int read_step(struct arena *a, const struct json *v, struct trajectory *t, struct err *e)
{
    const struct json *params = json_get(v, "params"), *as = json_get(v, "as_params");

    if (!is_step(v))
        return err_set(e, ERR_INVALID, "step %zu: a step needs tool, params and step", t->n + 1);
    if (params->type != JSON_OBJ && params->type != JSON_NULL)
        return err_set(e, ERR_TYPE, "step %zu: params: expected object, got %s", t->n + 1,
                       json_type_name(params->type));
    struct traj_step *s = traj_add(a, t);
    s->step = json_get_int(v, "step", 0);
    s->tool = json_get_str(v, "tool");
    s->params = params->type == JSON_OBJ ? params->raw : STR("{}");
    if (json_get_int(v, "params_omitted", 0) > 0)
        s->refused = "its parameters are too large for an answer of the server";
    traj_result(s, v);
    if (json_get_int(v, "observation_omitted", 0) > 0)
        s->expect = EXPECT_NOTHING;
    s->open = str_is(json_get_str(v, "state"), "open");
    s->time = json_get_str(v, "time");
    s->time_us = json_get_int(v, "time_us", -1);
    if (s->time_us < 0)
        s->time_us = traj_time_us(s->time);
    s->worker = json_get_str(v, "worker");
    s->session = json_get_str(v, "session");
    s->box = json_get_str(v, "box");
    s->temporary = json_get_bool(v, "temporary", false);
    s->ours = str_is(json_get_str(v, "surface"), "fast_forward");
    /* what import adds, and where a server keeps it */
    const struct json *extra = json_get(v, "extra");
    if (extra) {
        v = extra;
        as = json_get(v, "as_params");
    }
    s->thought = json_get_str(v, "thought");
    s->as_tool = json_get_str(v, "as_tool");
    if (as && as->type != JSON_NULL)
        s->as_params = as->type == JSON_STR ? as->s : as->raw;
    if (json_get_str(v, "refused").p)
        s->refused = arena_z(a, json_get_str(v, "refused"));
    s->ends = json_get_bool(v, "ends", false);
    s->emulated = json_get_bool(v, "emulated", false);
    if (!s->outcome.n)
        traj_expect_text(s, json_get_str(v, "text"));
    if (!t->worker.p)
        t->worker = s->worker;
    return 0;
}

static int read(struct arena *a, const struct json *v, struct trajectory *t, struct err *e)
{
    const struct json *steps = json_get(v, "steps");
    int r = 0;

    t->id = group(v);
    if (is_step(v))
        return read_step(a, v, t, e);
    if (json_get_str(v, "worker").p)
        t->worker = json_get_str(v, "worker");
    traj_metadata(t, json_get(v, "metadata"));
    if (json_get(v, "boxes"))
        t->boxes = json_get(v, "boxes")->raw;
    for (const struct json *s = steps ? steps->first : NULL; s && r >= 0; s = s->next)
        r = read_step(a, s, t, e);
    return r;
}

static void write_step(const struct traj_step *s, struct jw *w)
{
    struct str args = s->as_params;

    jw_obj(w);
    jw_kint(w, "step", s->step);
    jw_kstr(w, "tool", s->tool);
    jw_kraw(w, "params", s->params.n ? s->params : STR("null"));
    if (s->as_tool.p)
        jw_kstr(w, "as_tool", s->as_tool);
    if (args.p && traj_args_ok(s))
        jw_kraw(w, "as_params", args);
    else if (args.p)
        jw_kstr(w, "as_params", args);
    if (s->refused)
        jw_kz(w, "refused", s->refused);
    if (s->ends)
        jw_kbool(w, "ends", true);
    if (s->emulated)
        jw_kbool(w, "emulated", true);
    if (s->thought.n)
        jw_kstr(w, "thought", s->thought);
    jw_kstr(w, "outcome", s->outcome);
    jw_kbool(w, "trainable", s->trainable);
    jw_kraw(w, "code", s->code.n ? s->code : STR("null"));
    jw_kstr(w, "message", s->message);
    jw_kraw(w, "observation", s->observation.n ? s->observation : STR("null"));
    if (s->expect == EXPECT_TEXT)
        jw_kstr(w, "text", s->text);
    jw_kstr(w, "time", s->time);
    jw_kint(w, "queued_us", s->queued_us);
    jw_kint(w, "run_us", s->run_us);
    jw_kint(w, "total_us", s->total_us);
    jw_kint(w, "dropped_bytes", s->dropped_bytes);
    jw_kraw(w, "blobs", s->blobs.n ? s->blobs : STR("null"));
    jw_kstr(w, "worker", s->worker);
    jw_kstr(w, "session", s->session);
    jw_kstr(w, "box", s->box);
    jw_kbool(w, "temporary", s->temporary);
    jw_kz(w, "state", s->open ? "open" : "done");
    jw_kstr(w, "state_root", s->state_root);
    if (s->state_id.n)
        jw_kstr(w, "state_id", s->state_id);
    if (s->ours)
        jw_kz(w, "surface", "fast_forward");
    jw_obj_end(w);
}

static void write(struct arena *a, const struct trajectory *t, const struct write_opts *o, struct buf *out)
{
    struct jw w = { .out = out, .one_line = true };

    (void)a;
    (void)o;
    jw_obj(&w);
    jw_kstr(&w, "trajectory", t->id.p ? t->id : STR(""));
    jw_kstr(&w, "worker", t->worker);
    jw_kraw(&w, "metadata", t->metadata.n ? t->metadata : STR("{}"));
    if (t->boxes.n)
        jw_kraw(&w, "boxes", t->boxes);
    jw_key(&w, "steps");
    jw_arr(&w);
    for (size_t i = 0; i < t->n; i++)
        write_step(&t->steps[i], &w);
    jw_arr_end(&w);
    jw_kraw(&w, "next", STR("null"));
    jw_obj_end(&w);
    buf_char(out, '\n');
}

extern const struct traj_format format_own;
const struct traj_format format_own = {
    .name = "sandglass",
    .about = "our own steps, all of them and all of each",
    .sniff = sniff,
    .read = read,
    .group = group,
    .write = write,
};

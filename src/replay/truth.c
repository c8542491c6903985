#include "replay/truth.h"

#include "base/field.h"

struct str truth_shown(struct arena *a, const struct traj_step *s, const struct write_opts *o)
{
    struct str all = traj_shown(a, s);
    size_t max = o ? o->shown_max : 0, half = max / 2;

    if (!max || all.n <= max)
        return all;
    size_t head = half, tail = all.n - half;
    while (head && ((unsigned char)all.p[head] & 0xc0) == 0x80) /* not inside a character */
        head--;
    while (tail < all.n && ((unsigned char)all.p[tail] & 0xc0) == 0x80)
        tail++;
    const char *mark = arena_printf(a, "\n[... %zu bytes left out ...]\n", tail - head);
    return str_join(a, (struct str[]){ { all.p, head }, str_of(mark), { all.p + tail, all.n - tail } }, 3);
}

static struct str plain_args(struct arena *a, const struct traj_step *s)
{
    (void)a;
    return traj_args(s);
}

const struct truth_form truth_plain = { truth_shown, plain_args };

/* How the shown text was made of the observation, so that one can be told from the other. */
static void truncation(struct jw *w, const struct traj_step *s, struct str shown, const struct write_opts *o)
{
    bool cut = o->shown_max && memmem(shown.p, shown.n, " bytes left out ...]", 20) != NULL;

    if (!cut && s->dropped_bytes <= 0)
        return;
    jw_key(w, "truncation");
    jw_obj(w);
    jw_kz(w, "rule", "head+tail");
    if (cut)
        jw_kint(w, "shown_max", (int64_t)o->shown_max);
    if (s->dropped_bytes > 0)
        jw_kint(w, "dropped_bytes", s->dropped_bytes); /* by the box, before it was recorded */
    jw_obj_end(w);
}

void truth_step(struct jw *w, const struct traj_step *s, struct str shown, const struct write_opts *o)
{
    jw_kint(w, "step", s->step);
    jw_kstr(w, "tool", s->tool);
    if (s->params.n)
        jw_kraw(w, "params", s->params);
    if (s->outcome.n)
        jw_kstr(w, "outcome", s->outcome);
    if (s->message.n)
        jw_kstr(w, "message", s->message);
    if (s->code.n)
        jw_kraw(w, "code", s->code);
    if (s->expect == EXPECT_RESULT)
        jw_kraw(w, "observation", s->observation.n ? s->observation : STR("null"));
    if (s->time.n)
        jw_kstr(w, "time", s->time);
    if (s->total_us > 0) {
        jw_kint(w, "queued_us", s->queued_us);
        jw_kint(w, "run_us", s->run_us);
        jw_kint(w, "total_us", s->total_us);
    }
    jw_kbool(w, "trainable", s->trainable);
    if (s->box.n)
        jw_kstr(w, "box", s->box);
    if (s->session.n)
        jw_kstr(w, "session", s->session);
    if (s->blobs.n)
        jw_kraw(w, "blobs", s->blobs);
    if (s->temporary)
        jw_kbool(w, "temporary", true);
    jw_kstr(w, "state_root", s->state_root);
    truncation(w, s, shown.p ? shown : STR(""), o);
}

static void truth_all(struct jw *w, struct arena *a, const struct trajectory *t, const struct write_opts *o,
                      const struct truth_form *form)
{
    if (o->bare)
        return;
    jw_key(w, "sandglass");
    jw_obj(w);
    jw_kstr(w, "trajectory", t->id);
    jw_kstr(w, "worker", t->worker);
    if (t->boxes.n)
        jw_kraw(w, "boxes", t->boxes);
    jw_key(w, "steps");
    jw_arr(w);
    for (size_t i = 0; i < t->n; i++) {
        jw_obj(w);
        truth_step(w, &t->steps[i], form->text(a, &t->steps[i], o), o);
        jw_obj_end(w);
    }
    jw_arr_end(w);
    jw_obj_end(w);
}

void truth_metadata(struct jw *w, struct arena *a, const struct trajectory *t, const struct write_opts *o,
                    const struct truth_form *form)
{
    struct json *own = NULL;
    struct err e;

    jw_obj(w);
    if (t->metadata.n && json_parse(a, t->metadata, &own, &e) >= 0)
        for (const struct json *m = own->first; m; m = m->next) {
            if (str_is(m->name, "sandglass"))
                continue;
            jw_key_str(w, m->name);
            jw_raw(w, m->raw);
        }
    truth_all(w, a, t, o, form);
    jw_obj_end(w);
}

/* --- back --- */

static size_t skip_space(struct str s, size_t at)
{
    while (at < s.n && memchr(" \t\r\n", s.p[at], 4))
        at++;
    return at;
}

/* But for white space, which is another if the file was laid out anew, or if one of them is a string. */
static bool same_json(struct str x, struct str y)
{
    bool quoted = false;

    for (size_t i = 0, k = 0;; i++, k++) {
        if (!quoted) {
            i = skip_space(x, i);
            k = skip_space(y, k);
        }
        if (i >= x.n || k >= y.n)
            return i >= x.n && k >= y.n;
        if (x.p[i] != y.p[k])
            return false;
        if (quoted && x.p[i] == '\\' && i + 1 < x.n && k + 1 < y.n && x.p[i + 1] == y.p[k + 1]) {
            i++;
            k++;
        } else if (x.p[i] == '"') {
            quoted = !quoted;
        }
    }
}

/* Tool and parameters of the truth, if the file's arguments are still what they are written as. */
static void take_params(struct arena *a, struct traj_step *s, const struct json *truth, const struct truth_form *form)
{
    const struct json *params = json_get(truth, "params");
    struct traj_step made = { .tool = json_get_str(truth, "tool"), .params = params ? params->raw : STR("{}") };

    if (!params || params->type != JSON_OBJ || !same_json(form->args(a, &made), traj_args(s)))
        return;
    s->tool = made.tool;
    s->params = form->args == plain_args ? traj_args(s) : made.params;
    s->as_tool = s->as_params = (struct str){ 0 };
    s->refused = NULL;
    s->emulated = s->ends = false;
}

void truth_take_step(struct arena *a, struct traj_step *s, const struct json *truth, const struct truth_form *form)
{
    const struct json *truncation_rule = json_get(truth, "truncation");
    struct traj_step copy = *s;

    if (!truth || truth->type != JSON_OBJ || !json_get_str(truth, "tool").n)
        return;
    take_params(a, &copy, truth, form);
    traj_result(&copy, truth);
    copy.step = json_get_int(truth, "step", s->step);
    copy.box = json_get_str(truth, "box");
    copy.session = json_get_str(truth, "session");
    copy.time = json_get_str(truth, "time");
    copy.time_us = traj_time_us(copy.time);
    copy.temporary = json_get_bool(truth, "temporary", false);
    copy.text = (struct str){ 0 };
    const struct write_opts o = { .shown_max = (size_t)json_get_int(truncation_rule, "shown_max", 0) };
    bool same = str_eq(str_trim(form->text(a, &copy, &o)), str_trim(s->text));
    if (copy.expect == EXPECT_RESULT && (same || s->expect != EXPECT_TEXT))
        *s = copy;
}

void truth_take(struct arena *a, struct trajectory *t, const struct json *metadata, const struct truth_form *form)
{
    const struct json *ours = json_get(metadata, "sandglass"), *steps = json_get(ours, "steps");

    if (!steps || steps->type != JSON_ARR || steps->count != t->n)
        return;
    if (json_get_str(ours, "trajectory").n)
        t->id = json_get_str(ours, "trajectory");
    t->worker = json_get_str(ours, "worker");
    if (json_get(ours, "boxes"))
        t->boxes = json_get(ours, "boxes")->raw;
    size_t i = 0;
    for (const struct json *truth = steps->first; truth; truth = truth->next)
        truth_take_step(a, &t->steps[i++], truth, form);
}

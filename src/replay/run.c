#include "replay/run.h"

#include <errno.h>

#include "base/field.h"
#include "base/limits.h"
#include "replay/cause.h"
#include "replay/diff.h"
#include "replay/files.h"
#include "replay/safe.h"

enum { PREVIEW = 200 };

struct run {
    const struct trajectory *t;
    struct canon *c;
    const struct replay_ops *ops;
    struct arena *a;
    struct files *files;
    size_t scratch_at; /* steps before this one were run in SCRATCH, too */
};

bool replay_matters(const struct replay_step *s)
{
    return s->verdict.class == CLASS_DIVERGED ||
           (s->verdict.class == CLASS_NONDETERMINISTIC && s->verdict.ends_differently);
}

static bool can_run(const struct traj_step *s)
{
    return !s->refused && !s->ends && !s->ours;
}

static int call(struct run *r, enum replay_world w, size_t i, struct traj_step *got, struct err *e)
{
    const struct traj_step *s = &r->t->steps[i];

    *got = (struct traj_step){ .step = s->step, .tool = s->tool, .params = s->params, .exit_code = FIELD_ABSENT };
    return r->ops->call(r->ops->arg, w, s, r->a, got, e);
}

/* The same state again: SCRATCH is brought to this step by all steps before it. */
static int call_in_scratch(struct run *r, size_t i, struct traj_step *got, struct err *e)
{
    for (; r->scratch_at < i; r->scratch_at++) {
        if (!can_run(&r->t->steps[r->scratch_at]))
            continue;
        int n = call(r, WORLD_SCRATCH, r->scratch_at, got, e);
        if (n < 0)
            return n;
    }
    r->scratch_at = i + 1;
    return call(r, WORLD_SCRATCH, i, got, e);
}

static int judge_again(struct run *r, size_t i, struct replay_step *s, struct err *e)
{
    struct traj_step second;
    struct verdict to_first, to_recorded;
    bool reads = step_only_reads(r->a, s->want);

    if (r->ops->once || (!r->ops->has_scratch && !reads)) {
        s->again = r->ops->once ? "it was not run again" : "it was not run again: that might change the box";
        return 0;
    }
    int n = r->ops->has_scratch ? call_in_scratch(r, i, &second, e) : call(r, WORLD_MAIN, i, &second, e);
    if (n < 0)
        return n;
    compare_step(r->c, r->a, &s->got, &second, &to_first);
    compare_step(r->c, r->a, s->want, &second, &to_recorded);
    if (to_recorded.class < CLASS_NONDETERMINISTIC) {
        s->verdict.class = CLASS_NONDETERMINISTIC;
        s->again = "run again, it gave what was recorded";
    } else if (to_first.class == CLASS_DIVERGED) {
        s->verdict.class = CLASS_NONDETERMINISTIC;
        s->again = "run again, it gave something else again";
    } else if (cause_is_clock(r->c, r->a, &s->verdict)) {
        s->verdict.class = CLASS_NONDETERMINISTIC;
        s->again = "only times differ";
    } else {
        s->again = "run again, it gave the same difference";
    }
    return 0;
}

/* Fills v if the files differ in what they did not differ in before. */
static void look_at_files(struct run *r, struct replay_step *s, struct verdict *v)
{
    const struct json *rows = NULL;
    const struct traj_step *want = s->want, *got = &s->got;

    if (!want->state_root.n || !got->state_root.n || str_eq(want->state_root, got->state_root))
        return;
    s->files_differ = true;
    if (r->ops->diff && want->state_id.n && got->state_id.n &&
        r->ops->diff(r->ops->arg, want->state_id, got->state_id, r->a, &rows) >= 0)
        files_compare(r->files, r->c, rows, v);
    else
        v->note = "the state roots differ; the recorded state is not at hand to say in what";
}

/* The answers are the same; are the files? */
static void compare_files(struct run *r, size_t i, struct replay_step *s, struct err *e)
{
    const struct json *rows = NULL;
    struct traj_step second;

    look_at_files(r, s, &s->verdict);
    if (s->verdict.class != CLASS_DIVERGED)
        return;
    s->again = "it was not run again";
    if (r->ops->once || !r->ops->has_scratch || call_in_scratch(r, i, &second, e) < 0 || !second.state_id.n ||
        r->ops->diff(r->ops->arg, s->got.state_id, second.state_id, r->a, &rows) < 0)
        return;
    if (files_again(r->files, rows)) {
        s->verdict.class = CLASS_NONDETERMINISTIC;
        s->again = "run again, it left other files again";
    } else {
        s->again = "run again, it left the same files";
    }
}

static void refuse(struct replay_step *s)
{
    const struct traj_step *want = s->want;

    s->got = (struct traj_step){ .step = want->step, .tool = want->tool, .exit_code = FIELD_ABSENT };
    if (want->ends || want->ours) {
        s->verdict = (struct verdict){ .class = CLASS_UNCHECKED,
                                       .note = want->ends ? "it ends the episode; there is nothing to run"
                                                          : "a fast-forward went on in another box" };
        return;
    }
    s->got.outcome = STR("invalid_request");
    s->got.message = str_of(want->refused);
    if (!traj_args_ok(want)) { /* a call that no program could have run, then as little as now */
        s->verdict = (struct verdict){ .class = CLASS_UNCHECKED, .note = want->refused };
        return;
    }
    s->verdict = (struct verdict){ .class = CLASS_DIVERGED,
                                   .ends_differently = true,
                                   .field = STR("tool"),
                                   .want = traj_name(want),
                                   .got = s->got.message };
    s->cause = s->got.message;
}

static void explain(struct run *r, struct replay_step *s)
{
    bool again = s->verdict.class == CLASS_NONDETERMINISTIC;
    struct buf diff;

    s->cause = cause_of(r->c, r->a, s->want, &s->got, &s->verdict, again);
    buf_init(&diff, 4 * (size_t)MiB);
    diff_unified(r->c, r->a, s->verdict.want, s->verdict.got, &diff);
    s->diff = arena_copy(r->a, buf_view(&diff));
    buf_done(&diff);
}

static int one_step(struct run *r, size_t i, struct replay_step *s, struct err *e)
{
    if (!can_run(s->want)) {
        refuse(s);
        return 0;
    }
    int n = call(r, WORLD_MAIN, i, &s->got, e);
    if (n < 0)
        return n;
    s->ran = true;
    canon_hint(r->c, traj_args(s->want));
    compare_step(r->c, r->a, s->want, &s->got, &s->verdict);
    if (s->verdict.class == CLASS_IDENTICAL || s->verdict.class == CLASS_BENIGN) {
        compare_files(r, i, s, e);
        if (s->verdict.class > CLASS_BENIGN)
            explain(r, s);
        return 0;
    }
    struct verdict files = { 0 };
    look_at_files(r, s, &files); /* what it left is its doing, not that of the steps behind it */
    if (s->verdict.class != CLASS_DIVERGED)
        return 0;
    n = judge_again(r, i, s, e);
    if (n < 0) {
        s->again = "it could not be run again";
        n = 0;
    }
    explain(r, s);
    return n;
}

static void count(struct replay_result *res, const struct replay_step *s, size_t i)
{
    res->counts[s->verdict.class]++;
    res->completed++;
    if (replay_matters(s) && res->divergence_step < 0)
        res->divergence_step = (int64_t)i;
    if (s->verdict.class == CLASS_NONDETERMINISTIC || s->verdict.class == CLASS_DIVERGED)
        res->first_different = res->first_different < 0 ? (int64_t)i : res->first_different;
}

static void sum_up(struct replay_result *res)
{
    size_t good = res->counts[CLASS_IDENTICAL] + res->counts[CLASS_BENIGN];
    size_t all = good + res->counts[CLASS_NONDETERMINISTIC] + res->counts[CLASS_DIVERGED];

    res->match = all ? (double)good / (double)all : 1.0;
    res->success = res->completed == res->total && res->divergence_step < 0;
}

int replay_run(const struct trajectory *t, struct canon *c, const struct replay_ops *ops, struct arena *a,
               struct replay_result *ret, struct err *e)
{
    struct run r = { .t = t, .c = c, .ops = ops, .a = a, .files = files_new(a) };
    int n = 0;

    *ret = (struct replay_result){ .total = t->n, .divergence_step = -1, .first_different = -1 };
    ret->steps = arena_alloc(a, (t->n + 1) * sizeof *ret->steps);
    for (size_t i = 0; i < t->n && n >= 0; i++) {
        struct replay_step *s = &ret->steps[i];
        s->want = &t->steps[i];
        n = one_step(&r, i, s, e);
        if (n < 0)
            break;
        count(ret, s, i);
        if (ops->on_step)
            ops->on_step(ops->arg, s, i, t->n);
    }
    sum_up(ret);
    return n < 0 ? n : 0;
}

/* --- as JSON --- */

static struct str preview(struct arena *a, const struct traj_step *s)
{
    struct str text = s->out.n ? s->out : traj_shown(a, s);
    size_t n = 0, chars = 0;

    for (; n < text.n && chars <= PREVIEW; n++)
        chars += ((unsigned char)text.p[n] & 0xc0) != 0x80;
    return (struct str){ text.p, chars > PREVIEW ? n - 1 : n };
}

static void print_difference(struct jw *w, const struct replay_step *s)
{
    const struct verdict *v = &s->verdict;

    jw_kstr(w, "field", v->field);
    jw_kstr(w, "cause", s->cause);
    jw_kz(w, "again", s->again);
    jw_kstr(w, "diff", s->diff);
    jw_key(w, "recorded_exit_code");
    if (s->want->exit_code == FIELD_ABSENT)
        jw_null(w);
    else
        jw_int(w, s->want->exit_code);
    jw_kstr(w, "recorded_outcome", s->want->outcome);
}

static void print_rules(struct jw *w, unsigned rules)
{
    jw_key(w, "rules");
    jw_arr(w);
    for (size_t i = 0; canon_rules[i].name; i++)
        if (rules & (1u << i))
            jw_z(w, canon_rules[i].name);
    if (rules & CANON_USER)
        jw_z(w, "--ignore");
    jw_arr_end(w);
}

static void print_detail(struct jw *w, struct arena *a, const struct replay_step *s, size_t i)
{
    int64_t code = s->got.exit_code != FIELD_ABSENT ? s->got.exit_code : traj_failed(&s->got);

    jw_obj(w);
    jw_kint(w, "step", (int64_t)i);
    jw_kint(w, "number", s->want->step);
    jw_kstr(w, "tool_name", traj_name(s->want));
    jw_kstr(w, "tool", s->want->tool);
    jw_kint(w, "exit_code", code);
    jw_kstr(w, "outcome", s->got.outcome);
    jw_kbool(w, "diverged", replay_matters(s));
    jw_kz(w, "class", class_name(s->verdict.class));
    jw_kstr(w, "output_preview", preview(a, &s->got));
    print_rules(w, s->verdict.rules);
    if (s->verdict.note)
        jw_kz(w, "note", s->verdict.note);
    if (s->verdict.class == CLASS_DIVERGED || s->verdict.class == CLASS_NONDETERMINISTIC)
        print_difference(w, s);
    jw_kstr(w, "state_root", s->got.state_root);
    jw_kstr(w, "recorded_state_root", s->want->state_root);
    if (s->got.state_root.n && s->want->state_root.n)
        jw_kbool(w, "files_differ", s->files_differ);
    jw_obj_end(w);
}

void replay_print(struct jw *w, struct arena *a, const struct replay_result *r)
{
    bool all_zero = true;

    jw_kbool(w, "success", r->success);
    jw_kint(w, "total_steps", (int64_t)r->total);
    jw_kint(w, "completed_steps", (int64_t)r->completed);
    jw_kint(w, "divergence_step", r->divergence_step);
    jw_kint(w, "first_different_step", r->first_different);
    jw_knum(w, "match", r->match);
    jw_key(w, "counts");
    jw_obj(w);
    for (int c = 0; c < CLASS_COUNT; c++)
        jw_kint(w, class_name((enum replay_class)c), (int64_t)r->counts[c]);
    jw_obj_end(w);
    jw_key(w, "details");
    jw_arr(w);
    for (size_t i = 0; i < r->completed; i++) {
        print_detail(w, a, &r->steps[i], i);
        all_zero &= !traj_failed(&r->steps[i].got);
    }
    jw_arr_end(w);
    jw_kbool(w, "all_exit_zero", all_zero); /* knowlyr's success wants this as well */
}

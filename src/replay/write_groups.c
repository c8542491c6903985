/* Attempts at the same thing, side by side: preference pairs and groups with advantages. What makes trajectories
 * attempts at the same thing is `group` in their metadata, or that their boxes were forked from one step of another;
 * that other one, if it went on, is an attempt as well, and what it did before is the prompt of all. */
#include <math.h>

#include "replay/write_common.h"

struct attempt {
    const struct trajectory *t;
    size_t from; /* its first step that is its own */
};
struct group {
    struct str name;
    const struct trajectory *parent; /* nullable */
    size_t prefix;                   /* steps of the parent that all share */
    struct attempt *v;
    size_t n;
};

/* "t-1#5": forks of the fifth step of t-1 */
static const struct trajectory *parent_of(const struct traj_set *set, const struct trajectory *t)
{
    const char *hash = t->group_step > 0 ? memrchr(t->group.p, '#', t->group.n) : NULL;
    struct str id = { t->group.p, hash ? (size_t)(hash - t->group.p) : 0 };

    for (size_t i = 0; hash && i < set->n; i++)
        if (str_eq(set->v[i].id, id))
            return &set->v[i];
    return NULL;
}

static size_t steps_up_to(const struct trajectory *t, int64_t number)
{
    size_t n = 0;

    while (n < t->n && t->steps[n].step <= number)
        n++;
    return n;
}

static void add(struct group *g, const struct trajectory *t, size_t from)
{
    if (t->has_reward)
        g->v[g->n++] = (struct attempt){ t, from };
}

/* The group that the i-th trajectory is the first of; false: it has none, or is not the first. */
static bool group_of(struct arena *a, const struct traj_set *set, size_t i, struct group *ret)
{
    const struct trajectory *first = &set->v[i];

    if (!first->group.n)
        return false;
    for (size_t k = 0; k < i; k++)
        if (str_eq(set->v[k].group, first->group))
            return false;
    *ret = (struct group){ .name = first->group, .parent = parent_of(set, first) };
    ret->v = arena_alloc(a, (set->n + 1) * sizeof *ret->v);
    if (ret->parent) {
        ret->prefix = steps_up_to(ret->parent, first->group_step);
        if (ret->prefix < ret->parent->n)
            add(ret, ret->parent, ret->prefix);
    }
    for (size_t k = i; k < set->n; k++)
        if (str_eq(set->v[k].group, first->group))
            add(ret, &set->v[k], 0);
    return ret->n > 1;
}

static void write_prompt(struct jw *w, struct arena *a, const struct group *g, const struct write_opts *o)
{
    struct str task = g->parent && g->parent->task.n ? g->parent->task : g->v[0].t->task;

    jw_key(w, "prompt");
    jw_arr(w);
    if (task.p) {
        jw_obj(w);
        jw_kz(w, "role", "user");
        jw_kstr(w, "content", task);
        jw_obj_end(w);
    }
    if (g->parent)
        write_turns(w, a, g->parent, (struct turns){ 0, g->prefix, 0 }, o);
    jw_arr_end(w);
}

static void write_attempt(struct jw *w, struct arena *a, const struct group *g, const struct attempt *t,
                          const struct write_opts *o)
{
    jw_arr(w);
    write_turns(w, a, t->t, (struct turns){ t->from, t->t->n, g->prefix }, o);
    if (t->t->answer.p) {
        jw_obj(w);
        jw_kz(w, "role", "assistant");
        jw_kstr(w, "content", t->t->answer);
        jw_obj_end(w);
    }
    jw_arr_end(w);
}

static void write_pair(struct jw *w, struct arena *a, const struct group *g, const struct attempt *pair[2],
                       const struct write_opts *o)
{
    jw_obj(w);
    write_prompt(w, a, g, o);
    jw_key(w, "chosen");
    write_attempt(w, a, g, pair[0], o);
    jw_key(w, "rejected");
    write_attempt(w, a, g, pair[1], o);
    jw_key(w, "tools");
    write_tools_of(w, a, (const struct trajectory *[]){ g->parent, pair[0]->t, pair[1]->t }, 3);
    jw_kstr(w, "group", g->name);
    jw_kstr(w, "chosen_id", pair[0]->t->id);
    jw_kstr(w, "rejected_id", pair[1]->t->id);
    jw_knum(w, "chosen_reward", pair[0]->t->reward);
    jw_knum(w, "rejected_reward", pair[1]->t->reward);
    jw_obj_end(w);
    w->comma = false;
    buf_char(w->out, '\n');
}

static void write_pairs(struct arena *a, const struct traj_set *set, const struct write_opts *o, struct buf *out)
{
    struct jw w = { .out = out };
    struct group g;

    for (size_t i = 0; i < set->n; i++) {
        if (!group_of(a, set, i, &g))
            continue;
        for (size_t x = 0; x < g.n; x++)
            for (size_t y = 0; y < g.n; y++)
                if (g.v[x].t->reward > g.v[y].t->reward)
                    write_pair(&w, a, &g, (const struct attempt *[2]){ &g.v[x], &g.v[y] }, o);
    }
}

static void write_group(struct jw *w, struct arena *a, const struct group *g, const struct write_opts *o)
{
    double mean = 0, square = 0;

    for (size_t i = 0; i < g->n; i++)
        mean += g->v[i].t->reward / (double)g->n;
    for (size_t i = 0; i < g->n; i++)
        square += (g->v[i].t->reward - mean) * (g->v[i].t->reward - mean) / (double)g->n;
    jw_obj(w);
    jw_kstr(w, "group", g->name);
    write_prompt(w, a, g, o);
    jw_key(w, "completions");
    jw_arr(w);
    for (size_t i = 0; i < g->n; i++) {
        const struct trajectory *t = g->v[i].t;
        jw_obj(w);
        jw_kstr(w, "id", t->id);
        jw_key(w, "messages");
        write_attempt(w, a, g, &g->v[i], o);
        jw_knum(w, "reward", t->reward);
        jw_knum(w, "advantage", square > 0 ? (t->reward - mean) / sqrt(square) : 0);
        jw_obj_end(w);
    }
    jw_arr_end(w);
    jw_knum(w, "reward_mean", mean);
    jw_knum(w, "reward_std", sqrt(square));
    jw_key(w, "tools");
    const struct trajectory **all = arena_alloc(a, (g->n + 1) * sizeof *all);
    all[0] = g->parent;
    for (size_t i = 0; i < g->n; i++)
        all[i + 1] = g->v[i].t;
    write_tools_of(w, a, all, g->n + 1);
    jw_obj_end(w);
    w->comma = false;
    buf_char(w->out, '\n');
}

static void write_groups(struct arena *a, const struct traj_set *set, const struct write_opts *o, struct buf *out)
{
    struct jw w = { .out = out };
    struct group g;

    for (size_t i = 0; i < set->n; i++)
        if (group_of(a, set, i, &g))
            write_group(&w, a, &g, o);
}

extern const struct traj_format format_preferences, format_grpo;
const struct traj_format format_preferences = {
    .name = "preferences",
    .images = true,
    .about = "pairs of attempts with different rewards: prompt, chosen, rejected (JSONL)",
    .write_set = write_pairs,
};
const struct traj_format format_grpo = {
    .name = "grpo",
    .images = true,
    .about = "groups of attempts with rewards and advantages (JSONL)",
    .write_set = write_groups,
};

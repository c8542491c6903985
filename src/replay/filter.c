#include "replay/filter.h"

static bool wanted(const struct traj_step *s, const struct traj_filter *f)
{
    if (f->outcome && !str_is(s->outcome, f->outcome))
        return false;
    if (f->tool && !str_is(s->tool, f->tool))
        return false;
    if (f->trainable && !s->trainable)
        return false;
    return (!f->since_us || s->time_us >= f->since_us) && (!f->until_us || s->time_us < f->until_us);
}

void traj_filter(struct trajectory *t, const struct traj_filter *f)
{
    size_t kept = 0;

    for (size_t i = 0; i < t->n; i++)
        if (!t->steps[i].ours && wanted(&t->steps[i], f))
            t->steps[kept++] = t->steps[i];
    t->n = kept;
}

bool traj_wanted(const struct trajectory *t, const struct traj_filter *f)
{
    const struct json *m = t->tags ? t->tags->first : NULL;

    while (f->tag && m && !(m->type == JSON_STR && str_is(m->s, f->tag)))
        m = m->next;
    if (f->tag && !m)
        return false;
    if ((f->has_min || f->has_max) && !t->has_reward)
        return false;
    return (!f->has_min || t->reward >= f->min_reward) && (!f->has_max || t->reward <= f->max_reward);
}

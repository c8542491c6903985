/* The table of formats; and how a file becomes values: one JSON value, one per line, or one per entry of a list. */
#include "replay/format.h"

#include <stdio.h>

extern const struct traj_format format_own, format_atif, format_openai, format_sharegpt, format_agentflow,
    format_agentflow_rollout, format_knowlyr, format_knowlyr_recorder, format_swe_agent, format_preferences,
    format_grpo, format_parquet;

const struct traj_format *const traj_formats[] = {
    &format_own,
    &format_atif,
    &format_openai,
    &format_sharegpt,
    &format_agentflow,
    &format_agentflow_rollout,
    &format_knowlyr,
    &format_knowlyr_recorder,
    &format_swe_agent,
    &format_preferences,
    &format_grpo,
    &format_parquet,
    NULL,
};

const struct traj_format *format_find(const char *name)
{
    for (const struct traj_format *const *f = traj_formats; *f; f++)
        if (strcmp((*f)->name, name) == 0)
            return *f;
    return NULL;
}

const struct traj_format *format_to_write(const char *name, struct err *e)
{
    const struct traj_format *f = format_find(name);
    char known[256] = "";
    size_t n = 0;

    if (f && (f->write || f->write_set))
        return f;
    for (const struct traj_format *const *k = traj_formats; *k; k++)
        if (((*k)->write || (*k)->write_set) && n < sizeof known)
            n += (size_t)snprintf(known + n, sizeof known - n, "%s%s", n ? ", " : "", (*k)->name);
    err_set(e, ERR_NOT_FOUND, "no format '%s'; there are %s", name, known);
    return NULL;
}

/* --- reading --- */

struct reading {
    struct arena *arena;
    struct traj_set *set;
    struct err *e;
};

static const struct traj_format *sniff(const struct json *v)
{
    for (const struct traj_format *const *f = traj_formats; *f; f++)
        if ((*f)->sniff && (*f)->sniff(v))
            return *f;
    return NULL;
}

static struct trajectory *grow(struct arena *a, struct traj_set *set)
{
    if (set->n == set->room) {
        size_t room = set->room ? 2 * set->room : 4;
        struct trajectory *more = arena_alloc(a, room * sizeof *more);
        if (set->n)
            memcpy(more, set->v, set->n * sizeof *more);
        set->v = more;
        set->room = room;
    }
    return &set->v[set->n++];
}

void traj_set_add(struct arena *a, struct traj_set *set, const struct trajectory *t)
{
    *grow(a, set) = *t;
}

static struct trajectory *room_for(struct reading *r)
{
    struct trajectory *t = grow(r->arena, r->set);

    traj_init(t);
    return t;
}

/* Steps that stand one per line belong together. */
static struct trajectory *trajectory_of(struct reading *r, const struct json *v)
{
    const struct traj_format *f = r->set->format;

    if (f->group) {
        struct str name = f->group(v);
        for (size_t i = r->set->n; i-- > 0;)
            if (str_eq(r->set->v[i].id, name))
                return &r->set->v[i];
    }
    return room_for(r);
}

static int take_value(struct reading *r, const struct json *v)
{
    const struct traj_format *f = r->set->format ? r->set->format : sniff(v);
    int n = 0;

    if (!f && v->type == JSON_ARR && v->count) {
        for (const struct json *m = v->first; m && n >= 0; m = m->next)
            n = m->type == JSON_OBJ ? take_value(r, m) : err_set(r->e, ERR_TYPE, "an entry of the list is no object");
        return n;
    }
    if (!f)
        return err_set(r->e, ERR_INVALID, "this is no format that is known here (docs/export.md lists them)");
    if (r->set->format && f->sniff && !f->sniff(v))
        return err_set(r->e, ERR_INVALID, "this is not of the format %s", f->name);
    r->set->format = f;
    return f->read(r->arena, v, trajectory_of(r, v), r->e);
}

static int take_lines(struct reading *r, struct str text)
{
    for (int line = 1; text.n; line++) {
        const char *end = memchr(text.p, '\n', text.n);
        struct str one = str_trim((struct str){ text.p, end ? (size_t)(end - text.p) : text.n });
        size_t skip = end ? (size_t)(end - text.p) + 1 : text.n;
        struct json *v;
        if (one.n) {
            int n = json_parse(r->arena, one, &v, r->e);
            if (n >= 0)
                n = take_value(r, v);
            if (n < 0)
                return err_wrap(r->e, n, "line %d", line);
        }
        text.p += skip;
        text.n -= skip;
    }
    return 0;
}

int traj_read(struct arena *a, struct str text, const struct traj_format *format, struct traj_set *ret, struct err *e)
{
    struct traj_set set = { .format = format };
    struct reading r = { .arena = a, .set = &set, .e = e };
    struct err whole = { 0 }, line = { 0 };
    struct json *v;
    int n;

    if (format && !format->read)
        return err_set(e, ERR_INVALID, "format %s can be written, but not read", format->name);
    text = str_trim(text);
    const char *end = text.n ? memchr(text.p, '\n', text.n) : NULL;
    struct str first = { text.p, end ? (size_t)(end - text.p) : text.n };
    if (json_parse(a, text, &v, &whole) >= 0)
        n = take_value(&r, v);
    else if (end && json_parse(a, str_trim(first), &v, &line) >= 0)
        n = take_lines(&r, text);
    else
        n = err_set(e, ERR_INVALID, "this is not JSON: %s", whole.msg);
    if (n < 0)
        return n;
    if (!set.n)
        return err_set(e, ERR_INVALID, "there is no trajectory in it");
    *ret = set;
    return 0;
}

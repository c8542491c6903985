/* ShareGPT: {"conversations": [{"from", "value"}]}; a function_call is a JSON text {"name", "arguments"}. */
#include "replay/read.h"

#include "replay/toolmap.h"

static const struct json *turns_of(const struct json *v)
{
    const struct json *list = json_get(v, "conversations");

    if (!list || list->type != JSON_ARR || !list->first || !json_get_str(list->first, "from").p)
        return NULL;
    return list;
}

bool sharegpt_sniff(const struct json *v)
{
    return turns_of(v) != NULL;
}

/* Several calls at once are a list in some files; the observation that follows is that of the last one. */
static void read_calls(struct arena *a, struct str text, const struct json *answer, struct trajectory *t)
{
    const struct toolmap m = { .arena = a };
    struct json *v = NULL;
    struct err e;

    if (json_parse(a, text, &v, &e) < 0) {
        toolmap_text(&m, STR(""), text, traj_add(a, t));
        return;
    }
    for (const struct json *c = v->type == JSON_ARR ? v->first : v; c; c = v->type == JSON_ARR ? c->next : NULL) {
        const struct json *args = json_get(c, "arguments");
        struct str name = json_get_str(c, "name");
        struct traj_step *s = traj_add(a, t);
        if (args && args->type == JSON_STR)
            toolmap_text(&m, name.p ? name : STR(""), args->s, s);
        else
            toolmap_call(&m, name.p ? name : STR(""), args && args->type != JSON_NULL ? args : NULL, s);
        if ((v->type != JSON_ARR || !c->next) && answer)
            traj_expect_text(s, json_get_str(answer, "value"));
    }
}

int sharegpt_read(struct arena *a, const struct json *v, struct trajectory *t, struct err *e)
{
    const struct json *metadata = json_get(v, "metadata");

    (void)e;
    for (const struct json *m = turns_of(v)->first; m; m = m->next) {
        struct str from = json_get_str(m, "from"), text = json_get_str(m, "value");
        bool answered = m->next && str_is(json_get_str(m->next, "from"), "observation");
        if ((str_is(from, "human") || str_is(from, "user")) && !t->task.n)
            t->task = text;
        else if (str_is(from, "function_call"))
            read_calls(a, text, answered ? m->next : NULL, t);
        else if ((str_is(from, "gpt") || str_is(from, "assistant")) && text.n)
            t->answer = text;
    }
    traj_metadata(t, metadata);
    t->id = json_get_str(v, "id");
    truth_take(a, t, metadata, &truth_plain);
    return 0;
}

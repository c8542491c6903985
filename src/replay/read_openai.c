/* OpenAI chat messages with tool calls: {"messages": [...]}, or the list alone. Arguments are a string of JSON in the
 * API's form and an object in many training sets; both are taken. mini-SWE-agent's files have this form, too. */
#include "replay/read.h"

#include "replay/toolmap.h"

static const struct json *messages_of(const struct json *v)
{
    const struct json *list = v->type == JSON_ARR ? v : json_get(v, "messages");

    if (!list || list->type != JSON_ARR || !list->first || !json_get_str(list->first, "role").p)
        return NULL;
    return list;
}

bool openai_sniff(const struct json *v)
{
    return messages_of(v) && !json_get(v, "tool_calls"); /* a rollout of AgentFlow has both */
}

/* The tool message that answers this call. */
static const struct json *answer_of(const struct json *message, struct str id)
{
    const struct json *nth = NULL;

    for (const struct json *m = message->next; m; m = m->next) {
        struct str role = json_get_str(m, "role"), name = json_get_str(m, "tool_call_id");
        if (!str_is(role, "tool") && !str_is(role, "function"))
            break;
        if (id.p && name.p && str_eq(id, name))
            return m;
        if (!nth && !name.p)
            nth = m;
    }
    return nth;
}

static void read_call(struct arena *a, const struct json *message, const struct json *call, struct trajectory *t)
{
    const struct toolmap m = { .arena = a };
    const struct json *function = json_get(call, "function");
    const struct json *args = json_get(function ? function : call, "arguments");
    struct str name = json_get_str(function ? function : call, "name");
    const struct json *answer = answer_of(message, json_get_str(call, "id"));
    struct traj_step *s = traj_add(a, t);

    if (args && args->type == JSON_STR)
        toolmap_text(&m, name.p ? name : STR(""), args->s, s);
    else
        toolmap_call(&m, name.p ? name : STR(""), args && args->type != JSON_NULL ? args : NULL, s);
    traj_expect_text(s, content_text(a, json_get(answer, "content")));
}

static void read_message(struct arena *a, const struct json *m, struct trajectory *t)
{
    const struct json *calls = json_get(m, "tool_calls"), *old = json_get(m, "function_call");
    struct str role = json_get_str(m, "role"), text = content_text(a, json_get(m, "content"));
    size_t before = t->n;

    if (str_is(role, "user") && !t->task.p)
        t->task = text;
    if (!str_is(role, "assistant"))
        return;
    for (const struct json *c = calls ? calls->first : NULL; c; c = c->next)
        read_call(a, m, c, t);
    if (old && old->type == JSON_OBJ)
        read_call(a, m, old, t);
    if (t->n > before)
        t->steps[before].thought = text;
    else if (text.n)
        t->answer = text;
}

int openai_read(struct arena *a, const struct json *v, struct trajectory *t, struct err *e)
{
    const struct json *list = messages_of(v), *metadata = json_get(v, "metadata");

    (void)e;
    for (const struct json *m = list->first; m; m = m->next)
        read_message(a, m, t);
    traj_metadata(t, metadata);
    t->id = json_get_str(v, "id");
    truth_take(a, t, metadata, &truth_plain);
    return 0;
}

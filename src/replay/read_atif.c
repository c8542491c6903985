/* ATIF (Harbor's agent trajectory interchange format), any 1.x: agent steps with tool calls and their observations. */
#include "replay/read.h"

#include "replay/toolmap.h"

bool atif_sniff(const struct json *v)
{
    struct str version = json_get_str(v, "schema_version");
    const struct json *steps = json_get(v, "steps");

    return version.n >= 5 && memcmp(version.p, "ATIF-", 5) == 0 && steps && steps->type == JSON_ARR;
}

/* content is a string, or a list of parts of which the texts count */
struct str content_text(struct arena *a, const struct json *content)
{
    struct str text = { 0 };

    if (!content || content->type == JSON_NULL)
        return text;
    if (content->type == JSON_STR)
        return content->s;
    text = STR("");
    if (content->type == JSON_ARR)
        for (const struct json *p = content->first; p; p = p->next) {
            struct str part = json_get_str(p, "text");
            if (part.n)
                text = text.n ? str_join(a, (struct str[]){ text, STR("\n"), part }, 3) : part;
        }
    return text;
}

/* The result that names the call; without names, the one at its place. */
static const struct json *result_of(const struct json *step, struct str id, size_t place)
{
    const struct json *results = json_get(json_get(step, "observation"), "results");
    const struct json *at = NULL;
    size_t i = 0;

    for (const struct json *r = results ? results->first : NULL; r; r = r->next, i++) {
        struct str name = json_get_str(r, "source_call_id");
        if (name.p && id.p && str_eq(name, id))
            return r;
        if (!name.p && i == place)
            at = r;
    }
    return at;
}

static void read_calls(struct arena *a, const struct json *step, struct trajectory *t)
{
    const struct toolmap m = { .arena = a };
    const struct json *calls = json_get(step, "tool_calls");
    struct str thought = content_text(a, json_get(step, "message"));
    size_t place = 0;

    for (const struct json *c = calls ? calls->first : NULL; c; c = c->next, place++) {
        struct traj_step *s = traj_add(a, t);
        struct str name = json_get_str(c, "function_name");
        const struct json *result = result_of(step, json_get_str(c, "tool_call_id"), place);
        toolmap_call(&m, name.p ? name : STR(""), json_get(c, "arguments"), s);
        traj_expect_text(s, content_text(a, json_get(result, "content")));
        s->time = json_get_str(step, "timestamp");
        s->time_us = traj_time_us(s->time);
        s->thought = place == 0 ? thought : (struct str){ 0 };
        truth_take_step(a, s, json_get(json_get(result, "extra"), "sandglass"), &truth_plain);
    }
}

int atif_read(struct arena *a, const struct json *v, struct trajectory *t, struct err *e)
{
    const struct json *agent = json_get(v, "agent"), *extra = json_get(v, "extra");
    const struct json *steps = json_get(v, "steps");

    (void)e;
    t->id = json_get_str(v, "trajectory_id");
    if (!t->id.p)
        t->id = json_get_str(v, "session_id");
    t->agent = json_get_str(agent, "name");
    t->model = json_get_str(agent, "model_name");
    traj_metadata(t, json_get(extra, "metadata"));
    t->worker = json_get_str(extra, "worker");
    for (const struct json *s = steps->first; s; s = s->next) {
        struct str source = json_get_str(s, "source"), text = content_text(a, json_get(s, "message"));
        if (str_is(source, "user") && !t->task.p)
            t->task = text;
        if (str_is(source, "agent") && !json_get(s, "tool_calls"))
            t->answer = text;
        read_calls(a, s, t);
    }
    return 0;
}

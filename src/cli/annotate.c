/* `sandglass annotate`: says something about a trajectory, or a step of it, after the fact. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

struct asked {
    const char *reward, *note, *step, *metadata;
    struct option_list tags, untags;
    bool pin, unpin;
};

static bool in_list(const struct option_list *l, struct str s)
{
    for (size_t i = 0; i < l->n; i++)
        if (str_is(s, l->v[i]))
            return true;
    return false;
}

/* Those that it has, without some, with others. */
static void print_tags(struct jw *w, const struct asked *a, const struct json *had)
{
    const struct json *tags = json_get(had, "tags");

    if (!a->tags.n && !a->untags.n)
        return;
    jw_key(w, "tags");
    jw_arr(w);
    for (const struct json *t = tags ? tags->first : NULL; t; t = t->next)
        if (t->type == JSON_STR && !in_list(&a->untags, t->s) && !in_list(&a->tags, t->s))
            jw_str(w, t->s);
    for (size_t i = 0; i < a->tags.n; i++)
        jw_z(w, a->tags.v[i]);
    jw_arr_end(w);
}

static int print_patch(const struct command *cmd, const struct asked *a, const struct json *had, struct buf *body)
{
    struct jw w = { .out = body };
    char *end;

    jw_obj(&w);
    print_tags(&w, a, had);
    if (a->reward) {
        double reward = strtod(a->reward, &end);
        if (!*a->reward || *end || !isfinite(reward))
            return usage_error(cmd, "--reward '%s': must be a number", a->reward);
        jw_knum(&w, "reward", reward);
    }
    if (a->note)
        jw_kz(&w, "note", a->note);
    if (a->metadata)
        jw_kraw(&w, "metadata", str_of(a->metadata));
    if (a->pin || a->unpin)
        jw_kbool(&w, "pinned", a->pin);
    jw_obj_end(&w);
    return body->n > 2 ? OPTIONS_OK : usage_error(cmd, "nothing to say: --tag, --reward, --note, --metadata, --pin");
}

static int annotate(const struct command *cmd, struct api *api, const char *id, const struct asked *a)
{
    const struct json *row = NULL;
    struct buf body;
    const char *tail = a->step ? arena_printf(&api->arena, "/steps?after=%d&limit=1", atoi(a->step) - 1) : "";
    int r = api_get(api, api_path(api, "/sg/v1/trajectories/", id, tail), &row);

    if (r != 0)
        return r;
    if (a->step)
        row = json_get(row, "steps") ? json_get(row, "steps")->first : NULL;
    buf_init(&body, 1 << 20);
    r = print_patch(cmd, a, json_get(row, "annotations"), &body);
    if (r == OPTIONS_OK) {
        arena_reset(&api->arena);
        tail = a->step ? arena_printf(&api->arena, "/steps/%s", a->step) : "";
        r = api_call(api, "PATCH", api_path(api, "/sg/v1/trajectories/", id, tail), buf_view(&body), &row);
        if (r == 0 && api->json)
            api_print(api);
        else if (r == 0)
            print_line(json_get(row, "annotations") ? json_get(row, "annotations")->raw : STR("{}"));
    }
    buf_done(&body);
    return r;
}

static int run(const struct command *cmd, int argc, char **argv)
{
    struct asked a = { 0 };
    struct words w;
    struct api api;
    const struct option rows[] = {
        { "tag", 't', OPTION_LIST, &a.tags, "TAG", "give it this tag; repeatable" },
        { "untag", 0, OPTION_LIST, &a.untags, "TAG", "take this tag away" },
        { "reward", 'r', OPTION_TEXT, &a.reward, "NUMBER", "what it was worth" },
        { "note", 'n', OPTION_TEXT, &a.note, "TEXT", "in words" },
        { "metadata", 0, OPTION_TEXT, &a.metadata, "JSON", "an object that is merged into its metadata" },
        { "step", 0, OPTION_TEXT, &a.step, "N", "of this step, not of the whole" },
        { "pin", 0, OPTION_FLAG, &a.pin, NULL, "it is to be kept" },
        { "unpin", 0, OPTION_FLAG, &a.unpin, NULL, "it need not be kept" },
        { 0 },
    };
    int r = options_parse(cmd, rows, 0, argc, argv, &w);

    if (r != OPTIONS_OK)
        return r;
    if (w.n != 1)
        return usage_error(cmd, "name one trajectory");
    if (a.step && atoi(a.step) < 1)
        return usage_error(cmd, "--step '%s': must be a number from 1", a.step);
    api_init(&api, &w);
    r = annotate(cmd, &api, w.v[0], &a);
    api_done(&api);
    return r;
}

const struct command command_annotate = {
    .name = "annotate",
    .words = "TRAJECTORY [--tag TAG] [--reward NUMBER] [--note TEXT] [--metadata JSON] [--step N]",
    .about = "Say something about a trajectory: tags, a reward, a note, metadata.",
    .more = "What is said is a record in the log, as safe as the steps. Exports take it along and can choose by it.",
    .examples = "  sandglass annotate t-81c2 --reward 1 --tag solved\n"
                "  sandglass annotate t-81c2 --step 3 --note 'here it went wrong'\n"
                "  sandglass annotate t-81c2 --metadata '{\"task\": \"fix the build\", \"group\": \"g1\"}'\n",
    .run = run,
    .remote = true,
};

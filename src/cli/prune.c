/* `sandglass prune`: forgets trajectories by age, number and tags. What is pinned or being written stays. */
#include <stdlib.h>
#include <string.h>

#include "base/loop.h"
#include "cli/cli.h"
#include "cli/trajectory.h"
#include "daemon/units.h"

struct asked {
    const char *older, *keep;
    struct option_list tags, keep_tags;
    bool dry;
    int64_t age_ms, newest; /* 0: no limit */
};
struct victim {
    struct victim *next;
    char *id;
};
struct pruning {
    const struct asked *asked;
    struct arena arena;
    struct victim *victims;
    int64_t seen, chosen, gone, refused;
};

static bool has_tag(const struct json *notes, const struct option_list *tags)
{
    const struct json *list = json_get(notes, "tags");

    for (const struct json *t = list ? list->first : NULL; t; t = t->next)
        for (size_t i = 0; i < tags->n; i++)
            if (t->type == JSON_STR && str_is(t->s, tags->v[i]))
                return true;
    return false;
}

/* The newest come first. */
static bool is_wanted(struct pruning *p, const struct json *row)
{
    const struct asked *a = p->asked;
    const struct json *notes = json_get(row, "annotations");
    bool old = a->age_ms && traj_time_us(json_get_str(row, "last")) < wall_us() - a->age_ms * 1000;
    bool many = a->newest && p->seen > a->newest;

    if (!old && !many)
        return true;
    return json_get_bool(notes, "pinned", false) || has_tag(notes, &a->keep_tags) ||
           (a->tags.n && !has_tag(notes, &a->tags));
}

static int choose(struct pruning *p, struct api *api)
{
    int64_t after = 0;

    do {
        const struct json *page = NULL;
        arena_reset(&api->arena);
        int r = api_get(api, arena_printf(&api->arena, "/sg/v1/trajectories?limit=500&after=%lld", (long long)after),
                        &page);
        if (r != 0)
            return r;
        const struct json *rows = json_get(page, "trajectories");
        for (const struct json *t = rows ? rows->first : NULL; t; t = t->next) {
            p->seen++;
            if (is_wanted(p, t))
                continue;
            struct victim *v = arena_alloc(&p->arena, sizeof *v);
            *v = (struct victim){ .next = p->victims, .id = arena_z(&p->arena, json_get_str(t, "id")) };
            p->victims = v;
            p->chosen++;
        }
        after = json_get_int(page, "next", 0);
    } while (after > 0);
    return 0;
}

static int forget(struct pruning *p, struct api *api)
{
    for (const struct victim *v = p->victims; v; v = v->next) {
        if (p->asked->dry) {
            puts(v->id);
            continue;
        }
        arena_reset(&api->arena);
        int r = api_call(api, "DELETE", api_path(api, "/sg/v1/trajectories/", v->id, ""), (struct str){ 0 }, NULL);
        if (r == EXIT_UNREACHABLE || r == EXIT_TIMEOUT)
            return r;
        *(r == 0 ? &p->gone : &p->refused) += 1; /* somebody writes to it, or it went meanwhile */
        progress("forgetting", p->gone + p->refused, p->chosen);
    }
    return 0;
}

static int parse(const struct command *cmd, struct asked *a)
{
    char *end;

    if (a->older && (units_duration(a->older, &a->age_ms) < 0 || a->age_ms <= 0))
        return usage_error(cmd, "--older-than '%s': must be a time such as 30d or 12h", a->older);
    if (a->keep) {
        a->newest = strtoll(a->keep, &end, 10);
        if (!*a->keep || *end || a->newest < 1)
            return usage_error(cmd, "--keep '%s': must be a number from 1", a->keep);
    }
    return a->older || a->keep ? OPTIONS_OK : usage_error(cmd, "--older-than or --keep: what may go?");
}

static int run(const struct command *cmd, int argc, char **argv)
{
    struct asked a = { 0 };
    struct words w;
    struct api api;
    const struct option rows[] = {
        { "older-than", 0, OPTION_TEXT, &a.older, "TIME", "those whose last step is older: 30d, 12h" },
        { "keep", 0, OPTION_TEXT, &a.keep, "N", "all but the newest N" },
        { "tag", 0, OPTION_LIST, &a.tags, "TAG", "only those with this tag" },
        { "keep-tag", 0, OPTION_LIST, &a.keep_tags, "TAG", "never those with this tag" },
        { "dry-run", 0, OPTION_FLAG, &a.dry, NULL, "only print their ids" },
        { 0 },
    };
    int r = options_parse(cmd, rows, 0, argc, argv, &w);

    if (r != OPTIONS_OK)
        return r;
    if (w.n)
        return usage_error(cmd, "'%s': it takes options only", w.v[0]);
    r = parse(cmd, &a);
    if (r != OPTIONS_OK)
        return r;
    struct pruning p = { .asked = &a };
    api_init(&api, &w);
    api.json = false;
    r = choose(&p, &api);
    if (r == 0)
        r = forget(&p, &api);
    if (r == 0 && w.json)
        printf("{\"seen\":%lld,\"forgotten\":%lld,\"kept_open\":%lld}\n", (long long)p.seen, (long long)p.gone,
               (long long)p.refused);
    else if (r == 0 && !a.dry)
        printf("%lld of %lld trajectories forgotten\n", (long long)p.gone, (long long)p.seen);
    arena_done(&p.arena);
    api_done(&api);
    return r;
}

const struct command command_prune = {
    .name = "prune",
    .words = "--older-than TIME | --keep N [--tag TAG] [--keep-tag TAG] [--dry-run]",
    .about = "Forget old trajectories. What is pinned or being written stays.",
    .more =
        "They are gone from every list, and their steps are erased from the log; with both limits, what exceeds either goes. "
        "retention.age\n"
        "and retention.count of the configuration do the same every hour. States are freed by sandglass gc.",
    .examples = "  sandglass prune --older-than 90d --keep-tag golden --dry-run\n"
                "  sandglass prune --keep 10000\n",
    .run = run,
    .remote = true,
};

/* list, show: what boxes there are. */
#include <stdlib.h>
#include <string.h>

#include "base/loop.h"
#include "cli/cli.h"
#include "cli/text.h"

static const char *labels_text(struct arena *a, const struct json *labels)
{
    const char *text = "";

    for (const struct json *l = labels ? labels->first : NULL; l; l = l->next)
        text = arena_printf(a, "%s%s%.*s=%.*s", text, *text ? "," : "", STR_ARG(l->name), STR_ARG(l->s));
    return *text ? text : "-";
}

static const char *ttl_text(struct arena *a, const struct json *box)
{
    int64_t expires = time_us(json_get(box, "expires"));

    return expires ? age_text(a, (expires - wall_us()) / 1000000) : "-";
}

static char *member(struct arena *a, const struct json *box, const char *name)
{
    return arena_z(a, json_get_str(box, name));
}

static void print_table(struct arena *a, const struct json *boxes)
{
    struct table t;

    table_init(&t, a, 6);
    table_row(&t, (const char *[]){ "ID", "STATE", "IMAGE", "AGE", "TTL", "LABELS" });
    for (const struct json *b = boxes ? boxes->first : NULL; b; b = b->next) {
        int64_t created = time_us(json_get(b, "created"));
        table_row(&t, (const char *[]){ member(a, b, "id"), member(a, b, "state"), member(a, b, "image"),
                                        age_text(a, (wall_us() - created) / 1000000), ttl_text(a, b),
                                        labels_text(a, json_get(b, "labels")) });
    }
    table_print(&t, stdout);
}

static int run_list(const struct command *cmd, int argc, char **argv)
{
    const char *label = NULL;
    bool ids = false;
    struct words w;
    struct api api;
    const struct json *answer;
    const struct option rows[] = {
        { "label", 'l', OPTION_TEXT, &label, "NAME=VALUE", "only boxes with this label" },
        { "ids", 'q', OPTION_FLAG, &ids, NULL, "print the ids only" },
        { 0 },
    };
    int r = options_parse(cmd, rows, 0, argc, argv, &w);

    if (r != OPTIONS_OK)
        return r;
    if (w.n)
        return usage_error(cmd, "'%s': no words are expected", w.v[0]);
    if (label && !strchr(label, '='))
        return usage_error(cmd, "--label '%s': must be NAME=VALUE", label);

    api_init(&api, &w);
    r = api_get(&api, label ? api_path(&api, "/sg/v1/boxes?label=", label, "") : "/sg/v1/boxes", &answer);
    const struct json *boxes = r == 0 ? json_get(answer, "boxes") : NULL;
    if (r == 0 && w.json)
        api_print(&api);
    else if (r == 0 && ids)
        for (const struct json *b = boxes ? boxes->first : NULL; b; b = b->next)
            printf("%.*s\n", STR_ARG(json_get_str(b, "id")));
    else if (r == 0)
        print_table(&api.arena, boxes);
    api_done(&api);
    return r;
}

const struct command command_list = {
    .name = "list",
    .words = "[--label NAME=VALUE] [--ids]",
    .about = "List the boxes.",
    .examples = "  sandglass list\n  sandglass list --label team=red --json\n",
    .run = run_list,
    .remote = true,
};

/* An object as indented lines: what a person wants to see of a box, whatever its members are. */
static void print_members(struct arena *a, const struct json *object, int indent)
{
    for (const struct json *m = object->first; m; m = m->next) {
        printf("%*s%s", indent, "", safe_z(a, m->name, 60));
        if (m->type == JSON_OBJ && m->count) {
            putchar('\n');
            print_members(a, m, indent + 2);
            continue;
        }
        int pad = 22 - indent - (int)m->name.n;
        size_t n = m->name.n;
        bool bytes = n > 6 && memcmp(m->name.p + n - 6, "_bytes", 6) == 0 && m->type == JSON_NUM && m->is_int;
        printf("%*s", pad > 1 ? pad : 1, "");
        print_safe(stdout, m->type == JSON_STR ? m->s : m->raw, 400);
        printf(bytes && m->i >= 1024 ? "  (%s)\n" : "\n", bytes ? size_text(a, m->i) : "");
    }
}

static int run_show(const struct command *cmd, int argc, char **argv)
{
    struct words w;
    struct api api;
    const struct json *box;
    int r = options_parse(cmd, NULL, 0, argc, argv, &w);

    if (r != OPTIONS_OK)
        return r;
    if (w.n != 1)
        return usage_error(cmd, "name one box");

    api_init(&api, &w);
    r = api_get(&api, api_path(&api, "/sg/v1/boxes/", w.v[0], ""), &box);
    if (r == 0 && w.json)
        api_print(&api);
    else if (r == 0)
        print_members(&api.arena, box, 0);
    api_done(&api);
    return r;
}

const struct command command_show = {
    .name = "show",
    .words = "BOX",
    .about = "Show a box: its state, limits, use and sessions.",
    .examples = "  sandglass show b-3f9a\n  sandglass show --json b-3f9a\n",
    .run = run_show,
    .remote = true,
};

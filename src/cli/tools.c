#include <string.h>

#include "cli/cli.h"
#include "cli/text.h"

static void print_parameters(struct arena *a, const struct json *schema)
{
    const struct json *properties = json_get(schema, "properties"), *required = json_get(schema, "required");

    for (const struct json *p = properties ? properties->first : NULL; p; p = p->next) {
        bool must = false;
        for (const struct json *r = required ? required->first : NULL; r; r = r->next)
            must |= str_eq(r->s, p->name);
        struct str type = json_get_str(p, "type"), help = json_get_str(p, "description");
        const struct json *def = json_get(p, "default");
        printf("  %-16s %-8.*s %s", safe_z(a, p->name, 60), STR_ARG(type), safe_z(a, help, 300));
        if (def)
            printf(" (default %.*s)", STR_ARG(def->raw));
        puts(must ? " (required)" : "");
    }
}

static void print_tool(struct arena *a, const struct json *tool)
{
    printf("%s\n%s\n\nparameters:\n", safe_z(a, json_get_str(tool, "name"), 100),
           safe_z(a, json_get_str(tool, "description"), 2000));
    print_parameters(a, json_get(tool, "parameters"));
    puts("\nresult:");
    print_parameters(a, json_get(tool, "result"));
}

static const struct json *find_tool(const struct json *tools, const char *name)
{
    for (const struct json *t = tools ? tools->first : NULL; t; t = t->next)
        if (str_is(json_get_str(t, "name"), name))
            return t;
    return NULL;
}

static void print_table(struct arena *a, const struct json *tools)
{
    struct table t;

    table_init(&t, a, 3);
    table_row(&t, (const char *[]){ "TOOL", "KIND", "WHAT IT DOES" });
    for (const struct json *tool = tools ? tools->first : NULL; tool; tool = tool->next) {
        struct str title = json_get_str(tool, "title");
        table_row(&t, (const char *[]){ arena_z(a, json_get_str(tool, "name")), arena_z(a, json_get_str(tool, "kind")),
                                        arena_z(a, title.n ? title : json_get_str(tool, "description")) });
    }
    table_print(&t, stdout);
}

static int show_one(const struct words *w, struct api *api, const struct json *tools)
{
    const struct json *tool = find_tool(tools, w->v[0]);

    if (!tool) {
        complain("there is no tool '%s'; 'sandglass tools' lists them", w->v[0]);
        return EXIT_NOT_FOUND;
    }
    if (w->json)
        printf("%.*s\n", STR_ARG(tool->raw));
    else
        print_tool(&api->arena, tool);
    return EXIT_FINE;
}

static int run(const struct command *cmd, int argc, char **argv)
{
    struct words w;
    struct api api;
    const struct json *answer;
    int r = options_parse(cmd, NULL, 0, argc, argv, &w);

    if (r != OPTIONS_OK)
        return r;
    if (w.n > 1)
        return usage_error(cmd, "name one tool at most");

    api_init(&api, &w);
    r = api_get(&api, "/sg/v1/tools", &answer);
    if (r == 0 && w.n)
        r = show_one(&w, &api, json_get(answer, "tools"));
    else if (r == 0 && w.json)
        api_print(&api);
    else if (r == 0)
        print_table(&api.arena, json_get(answer, "tools"));
    api_done(&api);
    return r;
}

const struct command command_tools = {
    .name = "tools",
    .words = "[TOOL]",
    .about = "List the tools, or show one with its parameters.",
    .examples = "  sandglass tools\n  sandglass tools bash:run\n  sandglass tools --json\n",
    .run = run,
    .remote = true,
};

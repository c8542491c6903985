/* snapshot, restore, reset, fork, states: a box through time. */
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/text.h"

/* The body of a request from what the options say; step and n are numbers. */
static struct str body_of(struct api *a, const char *name, const char *state, const char *step, const char *n)
{
    struct buf b;
    struct jw w = { .out = &b };

    buf_init(&b, 65536);
    jw_obj(&w);
    if (name)
        jw_kz(&w, "name", name);
    if (state)
        jw_kz(&w, "state", state);
    if (step)
        jw_kint(&w, "step", strtoll(step, NULL, 10));
    if (n)
        jw_kint(&w, "n", strtoll(n, NULL, 10));
    jw_obj_end(&w);
    struct str text = arena_copy(&a->arena, buf_view(&b));
    buf_done(&b);
    return text;
}

static bool is_count(const char *text)
{
    return !text ||
           (text[0] >= '1' && text[0] <= '9' && strlen(text) <= 15 && strspn(text, "0123456789") == strlen(text));
}

static int snapshot(const struct command *cmd, int argc, char **argv)
{
    const char *name = NULL;
    const struct option rows[] = { { "name", 'n', OPTION_TEXT, &name, "NAME", "a name for the state" }, { 0 } };
    const struct json *answer;
    struct words w;
    struct api api;
    int r = options_parse(cmd, rows, 0, argc, argv, &w);

    if (r != OPTIONS_OK)
        return r;
    if (w.n != 1)
        return usage_error(cmd, "name one box");
    api_init(&api, &w);
    r = api_call(&api, "POST", api_path(&api, "/sg/v1/boxes/", w.v[0], "/snapshot"),
                 body_of(&api, name, NULL, NULL, NULL), &answer);
    if (!r && w.json)
        api_print(&api);
    else if (!r)
        printf("%.*s\n", STR_ARG(json_get_str(answer, "state")));
    api_done(&api);
    return r;
}

static int rewind_box(const struct command *cmd, int argc, char **argv)
{
    const char *step = NULL;
    const struct option rows[] = { { "at", 0, OPTION_TEXT, &step, "STEP", "the state after this step of the box" },
                                   { 0 } };
    bool reset = strcmp(cmd->name, "reset") == 0;
    const struct json *answer;
    struct words w;
    struct api api;
    int r = options_parse(cmd, rows, 0, argc, argv, &w);

    if (r != OPTIONS_OK)
        return r;
    if (w.n < 1 || w.n > 2 || (!reset && w.n == 1 && !step))
        return usage_error(cmd, reset ? "name one box, and perhaps a state" : "name one box, and a state or --at STEP");
    if (w.n == 2 && step)
        return usage_error(cmd, "a state or --at STEP, not both");
    if (!is_count(step))
        return usage_error(cmd, "--at '%s': must be a number from 1", step);
    api_init(&api, &w);
    r = api_call(&api, "POST", api_path(&api, "/sg/v1/boxes/", w.v[0], reset ? "/reset" : "/restore"),
                 body_of(&api, NULL, w.n == 2 ? w.v[1] : NULL, step, NULL), &answer);
    if (!r && w.json)
        api_print(&api);
    api_done(&api);
    return r;
}

/* A living box forks itself, with its labels; of one that has ended, or of a trajectory, there is the state of a step. */
static int fork_path(struct api *api, const char *what, const char **step, char **ret)
{
    const struct json *box = NULL;
    bool named = strncmp(what, "b-", 2) == 0 && !strchr(what, '@');
    int r = named ? api_try(api, api_path(api, "/sg/v1/boxes/", what, ""), &box) : 0;

    if (r != 0)
        return r;
    if (box || (named && !*step)) { /* or the server says that there is no such box */
        *ret = api_path(api, "/sg/v1/boxes/", what, "/fork");
        return 0;
    }
    if (*step)
        what = arena_printf(&api->arena, "%s@%s", what, *step);
    *step = NULL;
    *ret = api_path(api, "/sg/v1/states/", what, "/fork");
    return 0;
}

static int fork_box(const struct command *cmd, int argc, char **argv)
{
    const char *n = NULL, *step = NULL;
    const struct option rows[] = { { "copies", 'n', OPTION_TEXT, &n, "N", "how many (1)" },
                                   { "at", 0, OPTION_TEXT, &step, "STEP", "as the box was after this step" },
                                   { 0 } };
    const struct json *answer, *boxes;
    struct words w;
    struct api api;
    int r = options_parse(cmd, rows, 0, argc, argv, &w);

    if (r != OPTIONS_OK)
        return r;
    if (w.n != 1)
        return usage_error(cmd, "name one box, state or trajectory");
    if (!is_count(step) || !is_count(n))
        return usage_error(cmd, "%s '%s': must be a number from 1", is_count(step) ? "-n" : "--at",
                           is_count(step) ? n : step);
    api_init(&api, &w);
    char *path = NULL;
    r = fork_path(&api, w.v[0], &step, &path);
    if (!r)
        r = api_call(&api, "POST", path, body_of(&api, NULL, NULL, step, n), &answer);
    if (!r && w.json)
        api_print(&api);
    for (boxes = !r && !w.json ? json_get(answer, "boxes") : NULL, boxes = boxes ? boxes->first : NULL; boxes;
         boxes = boxes->next) {
        struct str id = json_get_str(boxes, "id"), why = json_get_str(boxes, "error");
        if (id.p)
            printf("%.*s\n", STR_ARG(id));
        else
            complain("%.*s", STR_ARG(why));
        r = id.p ? r : EXIT_REFUSED;
    }
    api_done(&api);
    return r;
}

static void print_states(struct api *api, const struct json *row)
{
    for (; row; row = row->next) {
        struct str root = json_get_str(row, "root"), name = json_get_str(row, "name");
        if (json_get_bool(row, "quarantined", false))
            root = STR("quarantined");
        printf("%-24.*s %-20.*s %6lld %10lld %12lld  %-23.*s%s%s\n", STR_ARG(json_get_str(row, "state")),
               STR_ARG(json_get_str(row, "box")), (long long)json_get_int(row, "step", 0),
               (long long)json_get_int(row, "entries", 0), (long long)json_get_int(row, "bytes", 0),
               root.p ? (int)(root.n < 23 ? root.n : 23) : 7, root.p ? root.p : "pending", name.n ? "  " : "",
               name.n ? safe_z(&api->arena, name, 64) : "");
    }
}

static int states(const struct command *cmd, int argc, char **argv)
{
    const struct json *answer, *rows;
    const char *box;
    int64_t after = 0;
    struct words w;
    struct api api;
    int r = options_parse(cmd, NULL, 0, argc, argv, &w);

    if (r != OPTIONS_OK)
        return r;
    if (w.n > 1)
        return usage_error(cmd, "name at most one box");
    api_init(&api, &w);
    do {
        arena_reset(&api.arena);
        box = w.n ? api_path(&api, "&box=", w.v[0], "") : "";
        r = api_get(&api, arena_printf(&api.arena, "/sg/v1/states?after=%lld%s", (long long)after, box), &answer);
        if (!r && w.json)
            api_print(&api);
        rows = !r && !w.json ? json_get(answer, "states") : NULL;
        if (rows && !after)
            printf("%-24s %-20s %6s %10s %12s  %-23s  %s\n", "STATE", "BOX", "STEP", "ENTRIES", "BYTES", "ROOT",
                   "NAME");
        print_states(&api, rows ? rows->first : NULL);
        after = !r ? json_get_int(answer, "next", 0) : 0;
    } while (after > 0);
    api_done(&api);
    return r;
}

const struct command command_snapshot = {
    .name = "snapshot",
    .words = "BOX [--name NAME]",
    .about = "Keep the files of a box as they are now; prints the state's id.",
    .examples = "  sandglass snapshot b-3f9a --name before-the-upgrade\n",
    .run = snapshot,
    .remote = true,
};
const struct command command_restore = {
    .name = "restore",
    .words = "BOX STATE | BOX --at STEP",
    .about = "Put a box back into a state; its id and its sessions stay, its processes end.",
    .examples = "  sandglass restore b-3f9a before-the-upgrade\n  sandglass restore b-3f9a --at 12\n",
    .run = rewind_box,
    .remote = true,
};
const struct command command_reset = {
    .name = "reset",
    .words = "BOX [STATE]",
    .about = "As restore, to the bare image if no state is named, and the state proves itself first.",
    .examples = "  sandglass reset b-3f9a\n",
    .run = rewind_box,
    .remote = true,
};
const struct command command_fork = {
    .name = "fork",
    .words = "BOX|STATE [-n N] | BOX|TRAJECTORY --at STEP [-n N]",
    .about = "Make more boxes with the files of one, as it is or as it was; prints their ids.",
    .more =
        "A state is named by its id, its name, or the step after which it was: TRAJECTORY@STEP, BOX@STEP. With --at, the box\n"
        "may have ended.",
    .examples = "  sandglass fork b-3f9a -n 10\n  sandglass fork b-3f9a --at 12\n  sandglass fork s-77aa\n",
    .run = fork_box,
    .remote = true,
};
const struct command command_states = {
    .name = "states",
    .words = "[BOX]",
    .about = "List the states that were kept, newest first.",
    .examples = "  sandglass states b-3f9a\n",
    .run = states,
    .remote = true,
};

static int gc(const struct command *cmd, int argc, char **argv)
{
    bool dry = false;
    const struct option rows[] = { { "dry-run", 'n', OPTION_FLAG, &dry, NULL, "only say what would go" }, { 0 } };
    const struct json *answer;
    struct words w;
    struct api api;
    int r = options_parse(cmd, rows, 0, argc, argv, &w);

    if (r != OPTIONS_OK)
        return r;
    if (w.n)
        return usage_error(cmd, "no words are expected");
    api_init(&api, &w);
    r = api_call(&api, "POST", "/sg/v1/gc", dry ? STR("{\"dry\":true}") : STR("{}"), &answer);
    if (!r && w.json)
        api_print(&api);
    else if (!r)
        printf("%s %lld layers and %lld objects, %.1f MiB; %lld states dropped; states take %.1f MiB\n",
               dry ? "would remove" : "removed", (long long)json_get_int(answer, "layers_removed", 0),
               (long long)json_get_int(answer, "objects_removed", 0),
               (double)json_get_int(answer, "removed_bytes", 0) / 1048576,
               (long long)json_get_int(answer, "states_dropped", 0),
               (double)json_get_int(answer, "used_bytes", 0) / 1048576);
    api_done(&api);
    return r;
}

const struct command command_gc = {
    .name = "gc",
    .words = "[--dry-run]",
    .about = "Remove layers that no state and no box needs; keep states within state.budget.",
    .examples = "  sandglass gc --dry-run\n",
    .run = gc,
    .remote = true,
};

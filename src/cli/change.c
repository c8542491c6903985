/* destroy, pause, resume: one request for each named box. */
#include <string.h>

#include "cli/cli.h"

static const struct {
    const char *name, *method, *after;
} verbs[] = {
    { "destroy", "DELETE", "" },
    { "pause", "POST", "/pause" },
    { "resume", "POST", "/resume" },
};

static int run(const struct command *cmd, int argc, char **argv)
{
    size_t verb = 0;
    struct words w;
    struct api api;
    int code = EXIT_FINE, r = options_parse(cmd, NULL, 0, argc, argv, &w);

    if (r != OPTIONS_OK)
        return r;
    if (w.n == 0)
        return usage_error(cmd, "name a box");
    while (strcmp(verbs[verb].name, cmd->name) != 0)
        verb++;

    api_init(&api, &w);
    for (int i = 0; i < w.n; i++) { /* a box that fails does not save the others; the first failure is the code */
        struct str body = verbs[verb].method[0] == 'P' ? STR("{}") : (struct str){ 0 };
        char *path = api_path(&api, "/sg/v1/boxes/", w.v[i], verbs[verb].after);
        r = api_call(&api, verbs[verb].method, path, body, NULL);
        if (r && !code)
            code = r;
        else if (!r && w.json)
            api_print(&api);
    }
    api_done(&api);
    return code;
}

const struct command command_destroy = {
    .name = "destroy",
    .words = "BOX...",
    .about = "End boxes and remove all that is in them; what was recorded stays.",
    .examples = "  sandglass destroy b-3f9a\n  sandglass list --ids | xargs sandglass destroy\n",
    .run = run,
    .remote = true,
};
const struct command command_pause = {
    .name = "pause",
    .words = "BOX...",
    .about = "Freeze boxes: nothing in them runs, nothing is lost.",
    .examples = "  sandglass pause b-3f9a\n",
    .run = run,
    .remote = true,
};
const struct command command_resume = {
    .name = "resume",
    .words = "BOX...",
    .about = "Let paused boxes go on.",
    .examples = "  sandglass resume b-3f9a\n",
    .run = run,
    .remote = true,
};

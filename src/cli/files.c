/* diff and checkout: looking into states. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/text.h"

static void print_row(const struct json *row)
{
    struct str change = json_get_str(row, "change"), path = json_get_str(row, "path"), text = json_get_str(row, "text");
    bool colours = colour_wanted(stdout);
    char letter = str_is(change, "added") ? 'A' : str_is(change, "removed") ? 'D' : 'M';

    printf("%s%c ",
           colour_on(colours, letter == 'A'   ? COLOUR_GREEN
                              : letter == 'D' ? COLOUR_RED
                                              : COLOUR_YELLOW),
           letter);
    print_safe(stdout, path, path.n);
    printf("%s\n", colour_off(colours));
    while (text.n) {
        const char *end = memchr(text.p, '\n', text.n);
        size_t n = end ? (size_t)(end - text.p) : text.n;
        print_safe(stdout, (struct str){ text.p, n }, n);
        putchar('\n');
        text.p += n + (end != NULL);
        text.n -= n + (end != NULL);
    }
}

static int diff(const struct command *cmd, int argc, char **argv)
{
    bool text = false;
    const struct option rows[] = { { "text", 't', OPTION_FLAG, &text, NULL, "with the lines that differ" }, { 0 } };
    const struct json *answer, *row;
    struct words w;
    struct api api;
    int r = options_parse(cmd, rows, 0, argc, argv, &w);

    if (r != OPTIONS_OK)
        return r;
    if (w.n != 2)
        return usage_error(cmd, "name two states");
    api_init(&api, &w);
    const char *path = api_path(&api, api_path(&api, "/sg/v1/diff?a=", w.v[0], "&b="), w.v[1], text ? "&text=1" : "");
    r = api_get(&api, path, &answer);
    if (!r && w.json)
        api_print(&api);
    row = !r && !w.json ? json_get(answer, "rows") : NULL;
    for (row = row ? row->first : NULL; row; row = row->next)
        print_row(row);
    if (!r && json_get_bool(answer, "truncated", false))
        complain("there are more differences than are shown");
    api_done(&api);
    return r;
}

/* Into the file under another name first: half a tar must not look like a whole one. */
static int save(struct client *c, FILE *file, struct err *e)
{
    struct str part;
    int n;

    while ((n = client_part(c, &part, e)) > 0)
        if (fwrite(part.p, 1, part.n, file) != part.n)
            return err_sys(e, "write");
    return n < 0 ? n : fflush(file) ? err_sys(e, "write") : 0;
}

static int save_as(struct client *c, const char *path, struct err *e)
{
    auto_free char *part = NULL;

    if (!path || strcmp(path, "-") == 0)
        return save(c, stdout, e);
    if (asprintf(&part, "%s.part", path) < 0)
        abort();
    FILE *file = fopen(part, "we");
    if (!file)
        return err_sys(e, "%s", part);
    int r = save(c, file, e);
    if (fclose(file) != 0 && r >= 0)
        r = err_sys(e, "%s", part);
    if (r >= 0 && rename(part, path) < 0)
        r = err_sys(e, "%s", path);
    if (r < 0)
        (void)unlink(part);
    return r;
}

static int checkout(const struct command *cmd, int argc, char **argv)
{
    const char *to = NULL;
    const struct option rows[] = { { "output", 'o', OPTION_TEXT, &to, "FILE", "where to (standard output)" }, { 0 } };
    struct client *c = NULL;
    struct words w;
    struct api api;
    struct err e = { 0 };
    int r = options_parse(cmd, rows, 0, argc, argv, &w);

    if (r != OPTIONS_OK)
        return r;
    if (w.n != 1)
        return usage_error(cmd, "name one state");
    if (!to && isatty(STDOUT_FILENO))
        return usage_error(cmd, "a tar is nothing for a terminal; give -o FILE");
    api_init(&api, &w);
    struct client_request q = { .url = api.url, .method = "GET", .timeout_ms = api.timeout_ms };
    q.path = api_path(&api, "/sg/v1/states/", w.v[0], "/files");
    r = client_open(&q, &c, &e);
    if (r < 0) {
        complain("%s", e.msg);
        r = r == -ETIMEDOUT ? EXIT_TIMEOUT : EXIT_UNREACHABLE;
    } else if (client_status(c) != 200) {
        r = api_refused(&api, c);
    } else if (save_as(c, to, &e) < 0) {
        complain("checkout: %s", e.msg);
        r = EXIT_FAILED;
    } else {
        r = EXIT_FINE;
    }
    client_close(c);
    api_done(&api);
    return r;
}

const struct command command_diff = {
    .name = "diff",
    .words = "STATE STATE [--text]",
    .about = "What was added (A), changed (M) and removed (D) between two states.",
    .examples = "  sandglass diff s-77aa s-91bc --text\n  sandglass diff before-the-upgrade s-91bc\n",
    .run = diff,
    .remote = true,
};
const struct command command_checkout = {
    .name = "checkout",
    .words = "STATE [-o FILE.tar]",
    .about = "The files of a state as a tar: all that differs from the image.",
    .examples = "  sandglass checkout s-77aa -o files.tar\n  sandglass checkout s-77aa | tar -tv\n",
    .run = checkout,
    .remote = true,
};

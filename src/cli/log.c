/* `sandglass log`: a trajectory as a person likes to read it, and as it grows. */
#include <errno.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/limits.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/log_html.h"
#include "cli/text.h"
#include "wire/outcome.h"

enum { PAGE = 200, HEAD_LINES = 8, TAIL_LINES = 4, LINE_BYTES = 160 };

struct view {
    struct api *api;
    bool json, colour, full, following;
    int64_t last; /* number of the last step that was shown */
    const char *id;
};

/* ---- one step ---- */

static size_t count_lines(struct str s)
{
    size_t n = 0;

    for (size_t i = 0; i < s.n; i++)
        n += s.p[i] == '\n';
    return n + (s.n && s.p[s.n - 1] != '\n');
}

/* Indented; the middle of a long text is left out, unless everything was asked for. */
static void print_lines(const struct view *v, struct str s, const char *first, const char *rest, enum colour c)
{
    size_t total = count_lines(s), n = 0;
    bool cut = !v->full && total > HEAD_LINES + TAIL_LINES + 1;

    while (s.n) {
        const char *end = memchr(s.p, '\n', s.n);
        struct str line = { s.p, end ? (size_t)(end - s.p) : s.n };
        if (!cut || n < HEAD_LINES || n >= total - TAIL_LINES) {
            printf("%s%s", n ? rest : first, colour_on(v->colour, c));
            print_safe(stdout, line, v->full ? line.n : LINE_BYTES);
            printf("%s\n", colour_off(v->colour));
        } else if (n == HEAD_LINES) {
            printf("%s%s... %zu lines ...%s\n", rest, colour_on(v->colour, COLOUR_DIM), total - HEAD_LINES - TAIL_LINES,
                   colour_off(v->colour));
        }
        s.p += line.n + (end != NULL);
        s.n -= line.n + (end != NULL);
        n++;
    }
}

static enum colour outcome_colour(struct str name)
{
    int o = outcome_find(name.p ? name.p : "", name.n);

    if (o == OUTCOME_OK)
        return COLOUR_GREEN;
    return o == OUTCOME_TASK_ERROR ? COLOUR_YELLOW : COLOUR_RED;
}

static void print_title(const struct view *v, const struct json *step)
{
    struct arena *a = &v->api->arena;
    struct str outcome = json_get_str(step, "outcome"), box = json_get_str(step, "box");
    int64_t us = time_us(json_get(step, "time")), total = json_get_int(step, "total_us", -1);
    time_t seconds = (time_t)(us / 1000000);
    char clock[16];
    struct tm tm;

    if (total < 0)
        total = json_get_int(json_get(step, "times"), "total_us", -1);
    if (!box.n)
        box = json_get_str(step, "box_id");
    localtime_r(&seconds, &tm);
    strftime(clock, sizeof clock, "%H:%M:%S", &tm);
    printf("%s#%lld%s %s %s  %s%s%s  %s   %s%s%s\n", colour_on(v->colour, COLOUR_BOLD),
           (long long)json_get_int(step, "step", 0), colour_off(v->colour), clock,
           safe_z(a, json_get_str(step, "tool"), 80), colour_on(v->colour, outcome_colour(outcome)),
           outcome.n ? safe_z(a, outcome, 40) : "running", colour_off(v->colour), total >= 0 ? span_text(a, total) : "",
           colour_on(v->colour, COLOUR_DIM), safe_z(a, box, 40), colour_off(v->colour));
}

/* A shell command as typed; any other tool's parameters as name=value. */
static void print_request(const struct view *v, const struct json *params)
{
    struct str command = json_get_str(params, "command");

    if (command.p)
        print_lines(v, command, "  $ ", "  > ", COLOUR_BOLD);
    for (const struct json *p = params ? params->first : NULL; p; p = p->next) {
        if (p->s.p && p->s.p == command.p)
            continue;
        printf("  %s=", safe_z(&v->api->arena, p->name, 60));
        print_safe(stdout, p->type == JSON_STR ? p->s : p->raw, v->full ? p->raw.n : LINE_BYTES);
        putchar('\n');
    }
}

static void print_result(const struct view *v, const struct json *step)
{
    const struct json *data = json_get(step, "observation");
    struct str out = json_get_str(data, "stdout"), errors = json_get_str(data, "stderr");
    struct str message = json_get_str(step, "message");
    int64_t code = json_get_int(data, "exit_code", 0);

    print_lines(v, out, "    ", "    ", COLOUR_NONE);
    print_lines(v, errors, "    ", "    ", COLOUR_RED);
    if (data && !out.p && !errors.p && data->type != JSON_NULL && data->count)
        print_lines(v, data->raw, "    ", "    ", COLOUR_DIM);
    if (code && str_is(json_get_str(step, "outcome"), "task_error"))
        printf("    %sexit %lld%s\n", colour_on(v->colour, COLOUR_YELLOW), (long long)code, colour_off(v->colour));
    else if (message.n && !str_is(json_get_str(step, "outcome"), "ok"))
        print_lines(v, message, "    ", "    ", COLOUR_RED);
}

static void print_step(struct view *v, const struct json *step)
{
    int64_t number = json_get_int(step, "step", 0);

    if (number && number <= v->last)
        return; /* a stream that was resumed may say a step twice */
    v->last = number;
    if (v->json) {
        print_line(step->raw);
    } else {
        print_title(v, step);
        print_request(v, json_get(step, "params"));
        print_result(v, step);
    }
    fflush(stdout);
}

/* ---- all steps so far ---- */

static int print_pages(struct view *v, const char *tool, const char *outcome)
{
    for (;;) {
        const struct json *answer;
        struct api *api = v->api;
        arena_reset(&api->arena); /* the page before may have been large */
        char *tail = arena_printf(&api->arena, "/steps?after=%lld&limit=%d", (long long)v->last, PAGE);
        if (tool)
            tail = api_path(api, arena_printf(&api->arena, "%s&tool=", tail), tool, "");
        if (outcome)
            tail = api_path(api, arena_printf(&api->arena, "%s&outcome=", tail), outcome, "");
        int r = api_get(api, api_path(api, "/sg/v1/trajectories/", v->id, tail), &answer);
        if (r != 0)
            return r;

        const struct json *steps = json_get(answer, "steps");
        int64_t before = v->last;
        for (const struct json *s = steps ? steps->first : NULL; s; s = s->next) {
            if (v->following && !json_get_str(s, "outcome").n)
                return 0; /* it still runs: its event will tell how it ended */
            print_step(v, s);
        }
        if (json_get_int(answer, "next", 0) == 0 || v->last == before)
            return 0;
    }
}

/* ---- new steps, as they come ---- */

static void take_event_line(struct view *v, struct buf *data, struct str line)
{
    struct json *step;
    struct err e;

    if (line.n == 0 && data->n) {
        if (json_parse(&v->api->arena, buf_view(data), &step, &e) >= 0 && step->type == JSON_OBJ)
            print_step(v, step);
        buf_reset(data);
        arena_reset(&v->api->arena);
    } else if (line.n > 5 && memcmp(line.p, "data:", 5) == 0) {
        size_t skip = line.p[5] == ' ' ? 6 : 5;
        if (data->n)
            buf_char(data, '\n');
        buf_add(data, line.p + skip, line.n - skip);
    }
}

static int follow_once(struct view *v, struct buf *line, struct buf *data, struct err *e)
{
    char header[64], path[512];
    struct client *c = NULL;

    snprintf(header, sizeof header, "Last-Event-ID: %lld", (long long)v->last);
    snprintf(path, sizeof path, "%s", api_path(v->api, "/sg/v1/trajectories/", v->id, "/events"));
    struct client_request request = {
        .url = v->api->url, .method = "GET", .path = path, .header = header, .for_stdout = true
    };
    int r = client_open(&request, &c, e);
    if (r >= 0 && client_status(c) != 200)
        r = err_set(e, client_status(c) == 404 ? ERR_NOT_FOUND : ERR_INVALID, "the server answered %d",
                    client_status(c));
    buf_reset(data);
    while (r >= 0 && (r = client_line(c, line, e)) > 0)
        take_event_line(v, data, buf_view(line));
    client_close(c);
    return r;
}

/* A server that restarts is back in milliseconds, so a broken stream is taken up again; five failures in a row end it.
 */
static int follow(struct view *v)
{
    struct buf line, data;
    struct err e = { 0 };
    int failures = 0;

    buf_init(&line, LIMIT_RECORD);
    buf_init(&data, LIMIT_RECORD);
    while (failures < 5) {
        int64_t before = v->last;
        int r = follow_once(v, &line, &data, &e);
        failures = r < 0 && v->last == before ? failures + 1 : 0;
        if (r == -EPIPE)
            break;
        usleep(r < 0 ? 500000 : 100000);
    }
    buf_done(&line);
    buf_done(&data);
    complain("%s", e.msg);
    return e.code == ERR_INVALID ? EXIT_REFUSED : EXIT_UNREACHABLE;
}

/* ---- whose steps ---- */

/* ID names a trajectory, a box, or a worker, in this order. */
static int find_trajectory(struct view *v, const char *id)
{
    struct api *api = v->api;
    const struct json *answer;
    int r = api_try(api, api_path(api, "/sg/v1/trajectories/", id, ""), &answer);

    if (r != 0 || answer) {
        v->id = id;
        return r;
    }
    r = api_try(api, api_path(api, "/sg/v1/boxes/", id, ""), &answer);
    struct str found = json_get_str(answer, "trajectory");
    if (r == 0 && !found.n) {
        r = api_get(api, api_path(api, "/sg/v1/trajectories?limit=1&worker=", id, ""), &answer);
        const struct json *list = r == 0 ? json_get(answer, "trajectories") : NULL;
        found = json_get_str(list ? list->first : NULL, "id");
    }
    if (r == 0 && !found.n) {
        complain("no trajectory, box or worker '%s' has steps", id);
        return EXIT_NOT_FOUND;
    }
    v->id = arena_z(&api->arena, found);
    return r;
}

static int run(const struct command *cmd, int argc, char **argv)
{
    const char *tool = NULL, *outcome = NULL, *to = NULL;
    bool following = false, full = false, html = false;
    struct words w;
    struct api api;
    const struct option rows[] = {
        { "follow", 'f', OPTION_FLAG, &following, NULL, "go on with new steps as they come" },
        { "full", 0, OPTION_FLAG, &full, NULL, "shorten nothing" },
        { "html", 0, OPTION_FLAG, &html, NULL, "one page for a browser, with the pictures in it" },
        { "output", 'o', OPTION_TEXT, &to, "FILE", "--html: instead of standard output" },
        { "tool", 0, OPTION_TEXT, &tool, "TOOL", "only steps of this tool" },
        { "outcome", 0, OPTION_TEXT, &outcome, "OUTCOME", "only steps that ended so: ok, task_error, timeout ..." },
        { 0 },
    };
    int r = options_parse(cmd, rows, 0, argc, argv, &w);

    if (r != OPTIONS_OK)
        return r;
    if (w.n != 1)
        return usage_error(cmd, "name one trajectory, box or worker");
    if (html ? following || tool || outcome || full || w.json : to != NULL)
        return usage_error(cmd, html ? "--html shows every step as a page; of other options it takes only -o"
                                     : "-o goes with --html");
    if (following && (tool || outcome))
        return usage_error(cmd, "--follow shows every step; it does not go with --tool or --outcome");

    api_init(&api, &w);
    struct view v = {
        .api = &api, .json = w.json, .colour = colour_wanted(stdout), .full = full, .following = following
    };
    r = find_trajectory(&v, w.v[0]);
    char id[256];
    snprintf(id, sizeof id, "%s", r == 0 ? v.id : ""); /* the arena is emptied between events */
    v.id = id;
    if (r == 0)
        r = html ? log_html(&api, id, to) : print_pages(&v, tool, outcome);
    if (r == 0 && following)
        r = follow(&v);
    api_done(&api);
    return r;
}

const struct command command_log = {
    .name = "log",
    .words = "ID [--follow | --html]",
    .about = "Show the steps of a trajectory; ID may be a trajectory, a box or a worker.",
    .more = "--json prints one step per line, as GET /sg/v1/trajectories/{id}/steps gives it.",
    .examples = "  sandglass log agent-7\n"
                "  sandglass log --follow b-3f9a\n"
                "  sandglass log agent-7 --html -o agent-7.html\n"
                "  sandglass log --json t-81c2 | jq -r .outcome | sort | uniq -c\n",
    .run = run,
    .remote = true,
};

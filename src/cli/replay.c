/* `sandglass replay`: runs a recorded trajectory again and says where it went differently, and why. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/replay_report.h"
#include "cli/replay_world.h"
#include "cli/text.h"
#include "cli/trajectory.h"

struct asked {
    const char *on, *min_match, *format, *index;
    struct option_list ignore, off, turn_on;
    bool verify, rules, keep, once;
    double least;
    long chosen; /* from 1; 0: all */
};

struct replaying {
    struct api *api;
    const struct asked *asked;
    const struct trajectory *trajectory;
    bool json, colour;
    struct world *worlds[2];
    struct arena *arena;
    int exit_code; /* of what ended it, if it did not run to its end */
};

static volatile sig_atomic_t interrupted;

static void on_interrupt(int sig)
{
    (void)sig;
    interrupted = 1; /* the boxes must still be destroyed; a second one ends us at once */
}

static int call(void *arg, enum replay_world w, const struct traj_step *s, struct arena *a, struct traj_step *got,
                struct err *e)
{
    struct replaying *r = arg;

    if (interrupted)
        return err_set(e, ERR_BUSY, "interrupted");
    if (!r->worlds[w]) {
        r->worlds[w] = world_new(r->api, w == WORLD_MAIN ? r->asked->on : NULL, "replay");
        for (size_t i = 0; i < r->trajectory->n; i++)
            if (r->trajectory->steps[i].ours)
                world_alias(r->worlds[w], json_get_str(r->trajectory->steps[i].data, "from_box"),
                            r->trajectory->steps[i].box);
        world_expect(r->worlds[w], r->trajectory);
    }
    int code = world_call(r->worlds[w], s, a, got);
    if (code == 0)
        return 0;
    if (w == WORLD_MAIN)
        r->exit_code = code;
    return err_set(e, ERR_SYSTEM, "step %lld could not be run", (long long)s->step);
}

static int diff(void *arg, struct str x, struct str y, struct arena *a, const struct json **ret)
{
    struct replaying *r = arg;
    return world_diff(r->api, x, y, a, ret);
}

static void on_step(void *arg, const struct replay_step *s, size_t i, size_t n)
{
    struct replaying *r = arg;

    if (!r->json) {
        report_step(stdout, r->arena, s, r->colour);
        fflush(stdout);
    } else {
        progress("replaying", (int64_t)i + 1, (int64_t)n);
    }
}

static bool passed(const struct asked *a, const struct replay_result *res)
{
    return a->verify ? res->completed == res->total && res->match >= a->least : res->success;
}

static void print_json(const struct replaying *r, const struct loaded *l, const struct trajectory *t,
                       const struct replay_result *res)
{
    struct buf out;
    struct jw w = { .out = &out };

    buf_init(&out, TRAJ_FILE_MAX);
    jw_obj(&w);
    jw_kstr(&w, "trajectory", t->id);
    jw_kz(&w, "format", l->set.format->name);
    jw_key(&w, "boxes");
    jw_arr(&w);
    for (size_t i = 0; r->worlds[WORLD_MAIN] && world_box(r->worlds[WORLD_MAIN], i); i++)
        jw_z(&w, world_box(r->worlds[WORLD_MAIN], i));
    jw_arr_end(&w);
    replay_print(&w, r->arena, res);
    if (r->asked->verify) {
        jw_knum(&w, "min_match", r->asked->least);
        jw_kbool(&w, "verified", passed(r->asked, res));
    }
    jw_obj_end(&w);
    buf_char(&out, '\n');
    fwrite(out.p, 1, out.n, stdout);
    buf_done(&out);
}

static void print_end(const struct replaying *r, const struct replay_result *res)
{
    report_end(stdout, r->arena, res, r->colour);
    if (r->asked->verify)
        printf("%s: match %.4g, at least %.4g wanted\n", passed(r->asked, res) ? "verified" : "NOT VERIFIED",
               res->match, r->asked->least);
    for (size_t i = 0; r->asked->keep && r->worlds[WORLD_MAIN] && world_box(r->worlds[WORLD_MAIN], i); i++)
        printf("box kept: %s\n", world_box(r->worlds[WORLD_MAIN], i));
}

static int replay_one(struct replaying *r, const struct loaded *l, const struct trajectory *t, struct canon *c)
{
    struct arena arena = { 0 };
    struct replay_result res;
    struct err e = { 0 };
    const struct replay_ops ops = {
        .arg = r, .call = call, .diff = diff, .on_step = on_step, .has_scratch = !r->asked->on, .once = r->asked->once
    };

    r->arena = &arena;
    r->trajectory = t;
    r->exit_code = 0;
    if (!r->json)
        printf("replaying %s: %zu steps\n", t->id.n ? safe_z(&arena, t->id, 80) : l->set.format->name, t->n);
    int n = replay_run(t, c, &ops, &arena, &res, &e);
    if (n < 0)
        complain("replay: %s", e.msg);
    if (r->json)
        print_json(r, l, t, &res);
    else
        print_end(r, &res);
    for (size_t i = 0; i < 2; i++)
        if (r->worlds[i])
            world_free(r->worlds[i], i == WORLD_MAIN && r->asked->keep);
    memset(r->worlds, 0, sizeof r->worlds);
    arena_done(&arena);
    if (n < 0)
        return r->exit_code ? r->exit_code : EXIT_FAILED;
    return passed(r->asked, &res) ? EXIT_FINE : EXIT_FAILED;
}

static int replay_all(struct replaying *r, const struct loaded *l, struct canon *c)
{
    int worst = EXIT_FINE;

    if (r->asked->chosen > (long)l->set.n) {
        complain("replay: there are only %zu trajectories in it", l->set.n);
        return EXIT_NOT_FOUND;
    }
    if (l->set.n > 1 && r->asked->on && !r->asked->chosen) {
        complain("replay: there are %zu trajectories in it; with --on, choose one by --index", l->set.n);
        return EXIT_USAGE;
    }
    signal(SIGINT, on_interrupt);
    signal(SIGTERM, on_interrupt); /* a job of a server that ends, or was told to */
    signal(SIGPIPE, on_interrupt); /* nobody reads any more: | head */
    for (size_t i = 0; i < l->set.n && !interrupted; i++) {
        if (r->asked->chosen && (long)i + 1 != r->asked->chosen)
            continue;
        int code = replay_one(r, l, &l->set.v[i], c);
        worst = code > worst ? code : worst;
    }
    return worst;
}

static int set_rules(const struct command *cmd, const struct asked *a, struct canon *c)
{
    struct err e = { 0 };

    for (size_t i = 0; i < a->off.n; i++)
        if (canon_switch(c, a->off.v[i], false, &e) < 0)
            return usage_error(cmd, "--no-rule: %s", e.msg);
    for (size_t i = 0; i < a->turn_on.n; i++)
        if (canon_switch(c, a->turn_on.v[i], true, &e) < 0)
            return usage_error(cmd, "--rule: %s", e.msg);
    for (size_t i = 0; i < a->ignore.n; i++)
        if (canon_ignore(c, a->ignore.v[i], &e) < 0)
            return usage_error(cmd, "--ignore: %s", e.msg);
    return OPTIONS_OK;
}

static int parse_numbers(const struct command *cmd, struct asked *a)
{
    char *end;

    a->least = 1.0;
    if (a->min_match) {
        a->least = strtod(a->min_match, &end);
        if (!*a->min_match || *end || !(a->least >= 0 && a->least <= 1))
            return usage_error(cmd, "--min-match '%s': must be a number from 0 to 1", a->min_match);
        a->verify = true;
    }
    if (a->index) {
        a->chosen = strtol(a->index, &end, 10);
        if (!*a->index || *end || a->chosen < 1)
            return usage_error(cmd, "--index '%s': must be a number from 1", a->index);
    }
    return OPTIONS_OK;
}

static int print_rules(const struct words *w)
{
    struct arena a = { 0 };
    struct buf out;
    struct jw j = { .out = &out };

    if (!w->json) {
        report_rules(stdout, &a);
        arena_done(&a);
        return EXIT_FINE;
    }
    buf_init(&out, 1 << 16);
    jw_arr(&j);
    for (size_t i = 0; canon_rules[i].name; i++) {
        jw_obj(&j);
        jw_kz(&j, "name", canon_rules[i].name);
        jw_kbool(&j, "on", canon_rules[i].on);
        jw_kz(&j, "about", canon_rules[i].about);
        jw_obj_end(&j);
    }
    jw_arr_end(&j);
    printf("%.*s\n", STR_ARG(buf_view(&out)));
    buf_done(&out);
    return EXIT_FINE;
}

static int replay(const struct words *w, const char *what, const struct asked *a, struct canon *c)
{
    struct loaded l = { 0 };
    struct api api;

    api_init(&api, w);
    struct replaying r = { .api = &api, .asked = a, .json = w->json, .colour = colour_wanted(stdout) };
    const struct json *box;
    int code = a->on ? api_get(&api, api_path(&api, "/sg/v1/boxes/", a->on, ""), &box) : 0;
    if (code == 0)
        code = load_trajectories(&api, what, a->format, &l);
    if (code == 0)
        code = replay_all(&r, &l, c);
    loaded_done(&l);
    api_done(&api);
    return code;
}

static int run(const struct command *cmd, int argc, char **argv)
{
    struct asked a = { 0 };
    struct words w;
    const struct option rows[] = {
        { "on", 0, OPTION_TEXT, &a.on, "BOX", "in this box as it is, not in a fresh one" },
        { "verify", 0, OPTION_FLAG, &a.verify, NULL, "pass or fail by the share of steps that match" },
        { "min-match", 0, OPTION_TEXT, &a.min_match, "SHARE", "--verify: so much must match (default 1.0)" },
        { "ignore", 0, OPTION_LIST, &a.ignore, "REGEX", "what this matches (POSIX extended) may differ" },
        { "rules", 0, OPTION_FLAG, &a.rules, NULL, "list the rules about what may differ" },
        { "no-rule", 0, OPTION_LIST, &a.off, "RULE", "do without this rule" },
        { "rule", 0, OPTION_LIST, &a.turn_on, "RULE", "with this rule, which is off by default" },
        { "once", 0, OPTION_FLAG, &a.once, NULL, "do not run steps again that differ" },
        { "keep", 0, OPTION_FLAG, &a.keep, NULL, "leave the box for looking at" },
        { "format", 0, OPTION_TEXT, &a.format, "FORMAT", "of the file; else it is found out" },
        { "index", 0, OPTION_TEXT, &a.index, "N", "of several trajectories in the file, only the N-th" },
        { 0 },
    };
    int r = options_parse(cmd, rows, 0, argc, argv, &w);

    if (r != OPTIONS_OK)
        return r;
    if (a.rules && w.n == 0)
        return print_rules(&w);
    if (w.n == 2 && !a.on) { /* knowlyr's order: the box, then the file */
        a.on = w.v[0];
        w.v[0] = w.v[1];
    } else if (w.n != 1) {
        return usage_error(cmd, "name one trajectory, box, worker or file");
    }
    r = parse_numbers(cmd, &a);
    if (r != OPTIONS_OK)
        return r;
    struct canon *c = canon_new();
    r = set_rules(cmd, &a, c);
    if (r == OPTIONS_OK)
        r = replay(&w, w.v[0], &a, c);
    canon_free(c);
    return r;
}

const struct command command_replay = {
    .name = "replay",
    .words = "TRAJECTORY|FILE [--on BOX] [--verify] | BOX FILE",
    .about = "Run a recorded trajectory again and say where it goes differently.",
    .more = "Each step is identical, benign (differs only in what the rules remove), nondeterministic (differs again\n"
            "when it is run again) or diverged. Exit code 0: it matches; 1: a step diverged, or --verify failed.\n"
            "Files: our own, ATIF, OpenAI messages, AgentFlow, knowlyr, SWE-agent (docs/replay.md).",
    .examples = "  sandglass replay t-81c2\n"
                "  sandglass replay run.traj --verify --min-match 0.98 --json\n"
                "  sandglass replay t-81c2 --ignore 'build [0-9]+' --no-rule duration\n"
                "  sandglass replay --rules\n",
    .run = run,
    .remote = true,
};

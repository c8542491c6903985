/* `sandglass export`: a trajectory in a format that other programs read. */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "cli/cli.h"
#include "cli/picture.h"
#include "cli/trajectory.h"
#include "daemon/units.h"
#include "replay/filter.h"
#include "wire/outcome.h"

struct asked {
    const char *format, *to, *from_format, *outcome, *tool, *since, *until, *shown, *worker, *tag, *min_reward,
        *max_reward;
    bool trainable, bare, all, images, replays;
};

static int parse_time(const struct command *cmd, const char *name, const char *text, int64_t *ret)
{
    if (!text)
        return OPTIONS_OK;
    *ret = traj_time_us(str_of(text));
    if (*ret <= 0)
        return usage_error(cmd, "--%s '%s': must be a time such as 2026-01-02 or 2026-01-02T03:04:05Z", name, text);
    return OPTIONS_OK;
}

static int parse_number(const char *text, double *ret)
{
    char *end;

    if (!text)
        return 0;
    *ret = strtod(text, &end);
    return !*text || *end || isnan(*ret) ? -1 : 0;
}

static int parse(const struct command *cmd, const struct asked *a, struct traj_filter *f, struct write_opts *o)
{
    int64_t bytes = 0;

    *f = (struct traj_filter){ .outcome = a->outcome,
                               .tool = a->tool,
                               .trainable = a->trainable,
                               .tag = a->tag,
                               .has_min = a->min_reward != NULL,
                               .has_max = a->max_reward != NULL };
    if (parse_number(a->min_reward, &f->min_reward) < 0 || parse_number(a->max_reward, &f->max_reward) < 0)
        return usage_error(cmd, "--min-reward, --max-reward: must be numbers");
    if (a->outcome && outcome_find(a->outcome, strlen(a->outcome)) < 0)
        return usage_error(cmd, "--outcome '%s': there is no such outcome", a->outcome);
    if (a->shown && units_size(a->shown, &bytes) < 0)
        return usage_error(cmd, "--shown-max '%s': must be a size such as 4000 or 16k", a->shown);
    *o = (struct write_opts){ .shown_max = (size_t)bytes, .bare = a->bare };
    int r = parse_time(cmd, "since", a->since, &f->since_us);
    return r == OPTIONS_OK ? parse_time(cmd, "until", a->until, &f->until_us) : r;
}

/* Where the result goes. A file appears under its name when it is complete; until then it has none (or, on a file
 * system that cannot do that, one that ends in .part): a killed export leaves no half of one. */
struct sink {
    FILE *file;
    const char *path;
    char *part; /* NULL: the file has no name yet */
};

static int sink_open(struct sink *k, const char *path)
{
    auto_free char *copy = path ? strdup(path) : NULL;

    *k = (struct sink){ .file = stdout };
    if (!path || strcmp(path, "-") == 0)
        return 0;
    k->path = path;
    int fd = open(dirname(copy), O_TMPFILE | O_RDWR | O_CLOEXEC, 0644);
    if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == ENOENT || errno == EINVAL)) {
        if (asprintf(&k->part, "%s.part", path) < 0)
            abort();
        fd = open(k->part, O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC, 0644);
    }
    k->file = fd < 0 ? NULL : fdopen(fd, "w");
    return k->file ? 0 : -errno;
}

static int sink_write(struct sink *k, struct buf *out)
{
    bool ok = fwrite(out->p ? out->p : "", 1, out->n, k->file) == out->n;

    buf_reset(out);
    return ok ? 0 : -errno;
}

/* A name for the nameless file: linkat() does not replace, rename() does. */
static int give_name(struct sink *k)
{
    char proc[64];

    if (k->part)
        return 0;
    if (asprintf(&k->part, "%s.%d.part", k->path, (int)getpid()) < 0)
        abort();
    snprintf(proc, sizeof proc, "/proc/self/fd/%d", fileno(k->file));
    (void)unlink(k->part);
    return linkat(AT_FDCWD, proc, AT_FDCWD, k->part, AT_SYMLINK_FOLLOW) < 0 ? -errno : 0;
}

static int sink_close(struct sink *k, bool good)
{
    int r = 0;

    if (fflush(k->file) != 0)
        r = -errno;
    if (!k->path)
        return r;
    if (r == 0 && good && fsync(fileno(k->file)) < 0)
        r = -errno;
    if (r == 0 && good)
        r = give_name(k);
    fclose(k->file);
    if (r == 0 && good && rename(k->part, k->path) < 0)
        r = -errno;
    if ((r < 0 || !good) && k->part)
        (void)unlink(k->part);
    free(k->part);
    return r;
}

/* --- one by one, or all together --- */

struct exporting {
    const struct traj_format *format;
    struct traj_filter filter;
    struct write_opts opts;
    bool images;
    struct sink sink;
    struct buf out;
    struct arena arena; /* of a set that is written as a whole */
    struct traj_set set;
    size_t emptied; /* trajectories of which the filters left nothing */
};

static int take(struct exporting *x, struct loaded *l)
{
    int r = 0;

    x->opts.many |= l->set.n > 1;
    for (size_t i = 0; i < l->set.n && r == 0; i++) {
        if (!traj_wanted(&l->set.v[i], &x->filter))
            continue;
        size_t before = l->set.v[i].n;
        traj_filter(&l->set.v[i], &x->filter);
        if (before > 0 && l->set.v[i].n == 0) { /* a conversation without a word, which no format allows */
            x->emptied++;
            continue;
        }
        if (x->format->write_set) {
            traj_set_add(&x->arena, &x->set, &l->set.v[i]);
            continue;
        }
        x->format->write(&l->arena, &l->set.v[i], &x->opts, &x->out);
        if (x->out.full) {
            complain("export: a trajectory is larger than 1 GiB");
            return EXIT_FAILED;
        }
        r = sink_write(&x->sink, &x->out);
    }
    if (r < 0)
        complain("export: %s: %s", x->sink.path ? x->sink.path : "standard output", strerror(-r));
    return r < 0 ? EXIT_FAILED : 0;
}

/* What the model was shown: the picture that a call answered with, not those that the log took beside it. */
static void take_pictures(struct api *api, struct loaded *l)
{
    for (size_t i = 0; i < l->set.n; i++) {
        struct trajectory *t = &l->set.v[i];
        for (size_t k = 0; k < t->n; k++) {
            struct traj_step *s = &t->steps[k];
            struct json *blobs = NULL;
            struct err e;
            if (!s->blobs.n || json_parse(&l->arena, s->blobs, &blobs, &e) < 0)
                continue;
            s->picture = picture_url(api, &l->arena, arena_z(&l->arena, t->id), blobs, s->step, "image");
            arena_reset(&api->arena);
        }
    }
}

/* The texts of a set must outlive it: what was loaded is kept until the end. */
struct kept {
    struct kept *next;
    struct loaded l;
};

static int load_and_take(struct exporting *x, struct api *api, const char *what, const char *from, struct kept **kept)
{
    struct kept *k = calloc(1, sizeof *k);

    if (!k)
        abort();
    int r = load_trajectories(api, what, from, &k->l);
    if (r == 0 && x->images && k->l.from_server)
        take_pictures(api, &k->l);
    if (r == 0)
        r = take(x, &k->l);
    if (r == 0 && x->format->write_set) {
        k->next = *kept;
        *kept = k;
        return 0;
    }
    loaded_done(&k->l);
    free(k);
    return r;
}

static int load_all(struct exporting *x, struct api *api, const struct asked *a, struct kept **kept)
{
    AUTO(arena_done) struct arena ids = { 0 };
    struct id {
        struct id *next;
        char *z;
    } *list = NULL;
    int64_t after = 0, total = 0, done = 0;
    const struct json *page;

    do {
        arena_reset(&api->arena);
        const char *more = a->worker ? arena_printf(&api->arena, "&worker=%s", api_path(api, "", a->worker, "")) : "";
        const char *path =
            arena_printf(&api->arena, "/sg/v1/trajectories?limit=500&after=%lld%s", (long long)after, more);
        int r = api_get(api, path, &page);
        if (r != 0)
            return r;
        const struct json *rows = json_get(page, "trajectories");
        for (const struct json *t = rows ? rows->first : NULL; t; t = t->next) {
            if (!a->replays && json_get(json_get(json_get(t, "annotations"), "metadata"), "replay_of"))
                continue;
            total++;
            struct id *i = arena_alloc(&ids, sizeof *i); /* the newest come first, and go out last */
            *i = (struct id){ .next = list, .z = arena_z(&ids, json_get_str(t, "id")) };
            list = i;
        }
        after = json_get_int(page, "next", 0);
    } while (after > 0);
    for (const struct id *i = list; i; i = i->next) {
        progress("trajectories", done++, total);
        int r = load_and_take(x, api, i->z, "server", kept);
        if (r != 0)
            return r;
    }
    progress("trajectories", total, total);
    return 0;
}

static int export_to(struct exporting *x, struct api *api, const struct asked *a, const struct words *w)
{
    struct kept *kept = NULL;
    int r = sink_open(&x->sink, a->to), code = 0;

    if (r < 0) {
        complain("export: %s: %s", a->to, strerror(-r));
        return EXIT_FAILED;
    }
    if (a->all)
        code = load_all(x, api, a, &kept);
    for (int i = 0; i < w->n && code == 0; i++)
        code = load_and_take(x, api, w->v[i], a->from_format, &kept);
    if (code == 0 && x->format->write_set) {
        x->format->write_set(&x->arena, &x->set, &x->opts, &x->out);
        if (x->out.full)
            complain("export: the result is larger than 1 GiB");
        else if (x->out.n == 0)
            complain("export: nothing to write for %s: among %zu trajectories there are no two attempts at the same "
                     "thing with rewards (docs/export.md)",
                     x->format->name, x->set.n);
        code = x->out.full || sink_write(&x->sink, &x->out) < 0 ? EXIT_FAILED : 0;
    }
    if (code == 0 && x->emptied)
        complain("export: %zu trajectories left out: no step of theirs is as the filters ask", x->emptied);
    r = sink_close(&x->sink, code == 0);
    if (r < 0 && code == 0) {
        complain("export: %s: %s", a->to ? a->to : "standard output", strerror(-r));
        code = EXIT_FAILED;
    }
    for (struct kept *k = kept, *next; k; k = next) {
        next = k->next;
        loaded_done(&k->l);
        free(k);
    }
    return code;
}

static int run(const struct command *cmd, int argc, char **argv)
{
    struct asked a = { 0 };
    struct words w;
    struct api api;
    struct exporting x = { 0 };
    struct err e = { 0 };
    const struct option rows[] = {
        { "format", 'f', OPTION_TEXT, &a.format, "FORMAT", "of the result" },
        { "output", 'o', OPTION_TEXT, &a.to, "FILE", "instead of standard output" },
        { "all", 0, OPTION_FLAG, &a.all, NULL, "all trajectories of the server" },
        { "worker", 0, OPTION_TEXT, &a.worker, "WORKER", "--all: only this one's" },
        { "replays", 0, OPTION_FLAG, &a.replays, NULL, "--all: with what replays did, too" },
        { "tag", 0, OPTION_TEXT, &a.tag, "TAG", "only trajectories with this tag" },
        { "min-reward", 0, OPTION_TEXT, &a.min_reward, "NUMBER", "only trajectories with such a reward, or more" },
        { "max-reward", 0, OPTION_TEXT, &a.max_reward, "NUMBER", "only trajectories with such a reward, or less" },
        { "outcome", 0, OPTION_TEXT, &a.outcome, "OUTCOME", "only steps that ended so: ok, task_error ..." },
        { "tool", 0, OPTION_TEXT, &a.tool, "TOOL", "only steps of this tool" },
        { "trainable", 0, OPTION_FLAG, &a.trainable, NULL, "only steps that a learner may take as the agent's own" },
        { "since", 0, OPTION_TEXT, &a.since, "TIME", "only steps from then on" },
        { "until", 0, OPTION_TEXT, &a.until, "TIME", "only steps before then" },
        { "shown-max", 0, OPTION_TEXT, &a.shown, "SIZE", "cut observations in the middle to so many bytes" },
        { "bare", 0, OPTION_FLAG, &a.bare, NULL, "without what really happened in metadata and extra" },
        { "images", 0, OPTION_FLAG, &a.images, NULL,
          "with the pictures that tools answered with, in formats of messages" },
        { "from", 0, OPTION_TEXT, &a.from_format, "FORMAT", "of the file that is read; else it is found out" },
        { 0 },
    };
    int r = options_parse(cmd, rows, 0, argc, argv, &w);

    if (r != OPTIONS_OK)
        return r;
    if (!a.format)
        return usage_error(cmd, "--format is missing");
    if (a.all == (w.n > 0))
        return usage_error(cmd, "name trajectories, boxes, workers or files; or --all");
    x.format = format_to_write(a.format, &e);
    if (!x.format)
        return usage_error(cmd, "%s", e.msg);
    if (a.images && !x.format->images)
        return usage_error(
            cmd, "--images: %s has no place for them (openai, agentflow-rollout, preferences, grpo, parquet have)",
            x.format->name);
    x.images = a.images;
    r = parse(cmd, &a, &x.filter, &x.opts);
    if (r != OPTIONS_OK)
        return r;
    x.opts.many = a.all || w.n > 1;
    api_init(&api, &w);
    buf_init(&x.out, TRAJ_FILE_MAX);
    r = export_to(&x, &api, &a, &w);
    buf_done(&x.out);
    arena_done(&x.arena);
    api_done(&api);
    return r;
}

const struct command command_export = {
    .name = "export",
    .words = "ID|FILE... --format FORMAT [-o FILE] [filters]",
    .about = "Write a trajectory in a format that other programs read.",
    .more = "Formats: sandglass, atif, openai, sharegpt, agentflow, agentflow-rollout, knowlyr, knowlyr-recorder,\n"
            "swe-agent, preferences, grpo, parquet (docs/export.md). Arguments are written byte for byte as they were "
            "sent. ID may be a\n"
            "trajectory, a box or a worker; a file is converted.",
    .examples = "  sandglass export t-81c2 --format atif -o t-81c2.json\n"
                "  sandglass export agent-7 --format openai --trainable --shown-max 8k >> train.jsonl\n"
                "  sandglass export run.traj --format sharegpt\n",
    .run = run,
    .remote = true,
};

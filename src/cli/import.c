/* `sandglass import`: a trajectory of any known format as our own steps. */
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/auto.h"
#include "base/limits.h"
#include "cli/cli.h"
#include "cli/trajectory.h"

enum { METADATA_MAX = 200000 };

static int print_all(const struct loaded *l, struct arena *a)
{
    const struct traj_format *own = format_find("sandglass");
    const struct write_opts o = { 0 };
    struct buf out;

    buf_init(&out, TRAJ_FILE_MAX);
    for (size_t i = 0; i < l->set.n && !out.full; i++)
        own->write(a, &l->set.v[i], &o, &out);
    bool full = out.full;
    if (!full)
        fwrite(out.p, 1, out.n, stdout);
    buf_done(&out);
    if (full)
        complain("import: the result is larger than 1 GiB");
    return full ? EXIT_FAILED : EXIT_FINE;
}

static void print_summary(const struct loaded *l)
{
    size_t steps = 0, refused = 0;

    for (size_t i = 0; i < l->set.n; i++)
        for (size_t k = 0; k < l->set.v[i].n; k++) {
            steps++;
            refused += l->set.v[i].steps[k].refused != NULL;
        }
    fprintf(stderr, "%s: %zu trajectories, %zu steps", l->set.format->name, l->set.n, steps);
    if (refused)
        fprintf(stderr, ", %zu of them with a tool or arguments that have no counterpart here", refused);
    fputc('\n', stderr);
}

/* --- on a server --- */

static struct str id_for(struct arena *a, const struct trajectory *t, const char *wish, size_t i)
{
    static const char good[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:-";
    unsigned char bytes[10];
    char hex[24] = "t-";
    size_t n = 0;

    if (wish)
        return i ? str_of(arena_printf(a, "%s-%zu", wish, i + 1)) : str_of(wish);
    while (n < t->id.n && t->id.p[n] && strchr(good, t->id.p[n]))
        n++;
    if (t->id.n && n == t->id.n && n <= LIMIT_TRAJECTORY_ID)
        return t->id;
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        abort();
    for (size_t k = 0; k < sizeof bytes; k++)
        snprintf(hex + 2 + 2 * k, 3, "%02x", bytes[k]);
    return arena_copy(a, str_of(hex));
}

/* The server takes so many at a time. */
static int send_steps(struct api *api, struct arena *a, const struct trajectory *t, const char *id)
{
    enum { PAGE = 100 };
    const struct traj_format *own = format_find("sandglass");
    const struct write_opts o = { 0 };
    struct buf body;
    int r = 0;

    buf_init(&body, TRAJ_FILE_MAX);
    for (size_t at = 0; r == 0 && (at < t->n || at == 0); at += PAGE) {
        struct trajectory page = *t;
        page.steps = t->steps + at;
        page.n = t->n - at < PAGE ? t->n - at : PAGE;
        buf_reset(&body);
        own->write(a, &page, &o, &body);
        struct str text = str_trim(buf_view(&body));
        struct str head = str_of(arena_printf(a, "{\"first_step\":%zu,", at + 1));
        text = str_join(a, (struct str[]){ head, { text.p + 1, text.n - 1 } }, 2);
        arena_reset(&api->arena);
        r = api_call(api, "POST", api_path(api, "/sg/v1/trajectories/", id, "/steps"), text, NULL);
        progress("storing", (int64_t)at, (int64_t)t->n);
    }
    buf_done(&body);
    return r;
}

/* With what its boxes were like: a replay here makes such ones. */
static void print_metadata(const struct trajectory *t, struct jw *w)
{
    AUTO(arena_done) struct arena a = { 0 };
    struct json *own = NULL;
    struct err e;

    if (t->metadata.n > 2 && t->metadata.n < METADATA_MAX)
        (void)json_parse(&a, t->metadata, &own, &e);
    bool boxes = t->boxes.n && t->boxes.n < METADATA_MAX;
    if (!own && !boxes)
        return;
    jw_key(w, "metadata");
    jw_obj(w);
    for (const struct json *m = own ? own->first : NULL; m; m = m->next) {
        if (boxes && str_is(m->name, "boxes"))
            continue;
        jw_key_str(w, m->name);
        jw_raw(w, m->raw);
    }
    if (boxes)
        jw_kraw(w, "boxes", t->boxes);
    jw_obj_end(w);
}

static int send_notes(struct api *api, const struct trajectory *t, const char *id)
{
    struct buf body;
    struct jw w = { .out = &body };

    buf_init(&body, 1 << 20);
    jw_obj(&w);
    print_metadata(t, &w);
    if (t->has_reward)
        jw_knum(&w, "reward", t->reward);
    jw_obj_end(&w);
    arena_reset(&api->arena);
    int r =
        body.n > 2 ? api_call(api, "PATCH", api_path(api, "/sg/v1/trajectories/", id, ""), buf_view(&body), NULL) : 0;
    buf_done(&body);
    return r;
}

static int store_all(const struct loaded *l, struct arena *a, const struct words *words, const char *wish)
{
    struct api api;
    struct buf out;
    struct jw w = { .out = &out };
    int r = 0;

    api_init(&api, words);
    api.json = false;
    buf_init(&out, 1 << 26);
    jw_obj(&w);
    jw_kz(&w, "format", l->set.format->name);
    jw_key(&w, "trajectories");
    jw_arr(&w);
    for (size_t i = 0; i < l->set.n && r == 0; i++) {
        const struct trajectory *t = &l->set.v[i];
        const char *id = arena_z(a, id_for(a, t, wish, i));
        r = send_steps(&api, a, t, id);
        if (r == 0)
            r = send_notes(&api, t, id);
        if (r == 0 && !words->json)
            printf("%s  %zu steps\n", id, t->n);
        jw_obj(&w);
        jw_kz(&w, "id", id);
        jw_kint(&w, "steps", (int64_t)t->n);
        jw_obj_end(&w);
    }
    jw_arr_end(&w);
    jw_obj_end(&w);
    if (r == 0 && words->json)
        printf("%.*s\n", STR_ARG(buf_view(&out)));
    buf_done(&out);
    api_done(&api);
    return r;
}

static int run(const struct command *cmd, int argc, char **argv)
{
    const char *format = NULL, *id = NULL;
    bool store = false;
    struct words w;
    struct loaded l = { 0 };
    const struct option rows[] = {
        { "format", 'f', OPTION_TEXT, &format, "FORMAT", "do not find out by itself" },
        { "store", 0, OPTION_FLAG, &store, NULL, "store it on the server as a trajectory; else it is printed" },
        { "id", 0, OPTION_TEXT, &id, "ID", "--store: its name there; default: as in the file" },
        { 0 },
    };
    int r = options_parse(cmd, rows, 0, argc, argv, &w);

    if (r != OPTIONS_OK)
        return r;
    if (w.n != 1)
        return usage_error(cmd, "name one file, or - for standard input");
    r = load_file(w.v[0], format, &l);
    if (r == 0)
        r = store ? store_all(&l, &l.arena, &w, id) : print_all(&l, &l.arena);
    if (r == 0 && !w.json)
        print_summary(&l);
    loaded_done(&l);
    return r;
}

const struct command command_import = {
    .name = "import",
    .words = "FILE [--format FORMAT] [--store [--id ID]]",
    .about = "Read a trajectory of another program and store it, or print it as our own steps.",
    .more = "Formats: sandglass, atif, openai, sharegpt, agentflow, agentflow-rollout, knowlyr, knowlyr-recorder,\n"
            "swe-agent (docs/export.md). Printed, there is one trajectory per line.",
    .examples = "  sandglass import run.traj --store\n"
                "  sandglass import run.traj > run.jsonl\n"
                "  sandglass import messages.jsonl | jq -r '.steps[] | .tool' | sort | uniq -c\n",
    .run = run,
    .remote = true,
};

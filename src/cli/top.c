/* `sandglass top`: what the boxes use, refreshed. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/loop.h"
#include "cli/cli.h"
#include "cli/text.h"
#include "daemon/units.h"

enum { BOXES_MAX = 2000, FIRST_MS = 500 };

struct sample {
    char id[64], state[16];
    int64_t cpu_us, peak, limit, taken_us, age_s;
    int64_t pids, pids_limit, disk, disk_limit; /* pids, disk: -1, not known */
    double percent;                             /* of one core, since the sample before; < 0: there was none */
};
struct samples {
    struct sample v[BOXES_MAX];
    size_t n, boxes; /* boxes: how many there are */
};

static void keep_z(char *to, size_t size, struct str s)
{
    snprintf(to, size, "%.*s", STR_ARG(s));
}

static int take_samples(struct api *api, struct samples *ret)
{
    const struct json *answer;
    int r = api_get(api, "/sg/v1/boxes", &answer);

    if (r != 0)
        return r;
    const struct json *boxes = json_get(answer, "boxes");
    ret->boxes = boxes ? boxes->count : 0;
    ret->n = 0;
    for (const struct json *b = boxes ? boxes->first : NULL; b && ret->n < BOXES_MAX; b = b->next) {
        struct sample *s = &ret->v[ret->n++];
        *s = (struct sample){ .percent = -1, .taken_us = now_us() };
        s->cpu_us = json_get_int(b, "cpu_us", 0);
        s->peak = json_get_int(b, "memory_peak_bytes", 0);
        s->limit = json_get_int(json_get(b, "limits"), "memory_bytes", 0);
        s->pids = json_get_int(b, "pids_peak", -1);
        s->pids_limit = json_get_int(json_get(b, "limits"), "pids", 0);
        s->disk = json_get_int(b, "disk_used_bytes", -1);
        s->disk_limit = json_get_int(json_get(b, "limits"), "disk_bytes", 0);
        s->age_s = (wall_us() - time_us(json_get(b, "created"))) / 1000000;
        keep_z(s->id, sizeof s->id, json_get_str(b, "id"));
        keep_z(s->state, sizeof s->state, json_get_str(b, "state"));
    }
    return 0;
}

static int by_percent(const void *a, const void *b)
{
    double x = ((const struct sample *)a)->percent, y = ((const struct sample *)b)->percent;

    return (x < y) - (x > y);
}

static void compare(const struct samples *before, struct samples *now)
{
    for (size_t i = 0; i < now->n; i++) {
        struct sample *s = &now->v[i];
        for (size_t k = 0; k < before->n; k++) {
            const struct sample *old = &before->v[k];
            if (strcmp(old->id, s->id) == 0 && s->taken_us > old->taken_us)
                s->percent = 100.0 * (double)(s->cpu_us - old->cpu_us) / (double)(s->taken_us - old->taken_us);
        }
    }
    qsort(now->v, now->n, sizeof now->v[0], by_percent);
}

static void print_json(const struct samples *s)
{
    struct buf b;

    buf_init(&b, 1 << 20);
    struct jw w = { .out = &b };
    jw_obj(&w);
    jw_kint(&w, "count", (int64_t)s->boxes);
    jw_key(&w, "boxes");
    jw_arr(&w);
    for (size_t i = 0; i < s->n; i++) {
        const struct sample *x = &s->v[i];
        jw_obj(&w);
        jw_kz(&w, "id", x->id);
        jw_kz(&w, "state", x->state);
        jw_knum(&w, "cpu_percent", x->percent < 0 ? 0 : x->percent);
        jw_kint(&w, "cpu_us", x->cpu_us);
        jw_kint(&w, "memory_peak_bytes", x->peak);
        jw_kint(&w, "memory_bytes", x->limit);
        if (x->pids >= 0)
            jw_kint(&w, "pids_peak", x->pids);
        jw_kint(&w, "pids", x->pids_limit);
        if (x->disk >= 0)
            jw_kint(&w, "disk_used_bytes", x->disk);
        jw_kint(&w, "disk_bytes", x->disk_limit);
        jw_obj_end(&w);
    }
    jw_arr_end(&w);
    jw_obj_end(&w);
    printf("%.*s\n", STR_ARG(buf_view(&b)));
    buf_done(&b);
}

static void print_table(struct arena *a, const struct samples *s)
{
    struct table t;

    table_init(&t, a, 8);
    table_row(&t, (const char *[]){ "ID", "STATE", "CPU %", "CPU TIME", "MEMORY PEAK", "PIDS PEAK", "DISK", "AGE" });
    for (size_t i = 0; i < s->n; i++) {
        const struct sample *x = &s->v[i];
        table_row(
            &t, (const char *[]){
                    x->id, x->state, x->percent < 0 ? "-" : arena_printf(a, "%.1f", x->percent),
                    span_text(a, x->cpu_us), arena_printf(a, "%s / %s", size_text(a, x->peak), size_text(a, x->limit)),
                    x->pids < 0 ? "-" : arena_printf(a, "%lld / %lld", (long long)x->pids, (long long)x->pids_limit),
                    x->disk < 0 ? "-" : arena_printf(a, "%s / %s", size_text(a, x->disk), size_text(a, x->disk_limit)),
                    age_text(a, x->age_s) });
    }
    table_print(&t, stdout);
    printf("%zu box%s%s\n", s->boxes, s->boxes == 1 ? "" : "es", s->boxes > s->n ? ", not all of them shown" : "");
}

static int loop_until_end(struct api *api, bool once, int64_t every_ms)
{
    auto_free struct samples *before = calloc(1, sizeof *before), *now = calloc(1, sizeof *now);

    if (!before || !now)
        abort();
    int r = take_samples(api, before);
    for (int64_t wait_ms = FIRST_MS; r == 0; wait_ms = every_ms) {
        usleep((useconds_t)(wait_ms * 1000));
        r = take_samples(api, now);
        if (r != 0)
            break;
        compare(before, now);
        if (!once && !api->json)
            fputs("\033[H\033[2J", stdout);
        if (api->json)
            print_json(now);
        else
            print_table(&api->arena, now);
        fflush(stdout);
        if (once)
            break;
        *before = *now;
        arena_reset(&api->arena);
    }
    return r;
}

static int run(const struct command *cmd, int argc, char **argv)
{
    const char *interval = "2s";
    bool once = false;
    int64_t every_ms;
    struct words w;
    struct api api;
    const struct option rows[] = {
        { "once", '1', OPTION_FLAG, &once, NULL, "print once; so it is also if this is no terminal" },
        { "interval", 'n', OPTION_TEXT, &interval, "TIME", "between two looks (2s)" },
        { 0 },
    };
    int r = options_parse(cmd, rows, 0, argc, argv, &w);

    if (r != OPTIONS_OK)
        return r;
    if (w.n)
        return usage_error(cmd, "'%s': no words are expected", w.v[0]);
    if (units_duration(interval, &every_ms) < 0 || every_ms < 100 || every_ms > 3600000)
        return usage_error(cmd, "--interval '%s': must be a time such as 2s, from 100ms to 1h", interval);

    api_init(&api, &w);
    r = loop_until_end(&api, once || !isatty(STDOUT_FILENO), every_ms);
    api_done(&api);
    return r;
}

const struct command command_top = {
    .name = "top",
    .words = "[--once] [--interval TIME]",
    .about = "Watch what the boxes use: processor, peaks of memory and processes, disk.",
    .examples = "  sandglass top\n  sandglass top --once --json\n",
    .run = run,
    .remote = true,
};

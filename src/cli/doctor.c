#include <string.h>

#include "cli/cli.h"
#include "cli/text.h"
#include "daemon/config.h"
#include "daemon/doctor.h"

struct report {
    bool json, colour;
    struct buf out;
    struct jw w;
    char group[32];
    size_t missing;
};

static void print_row(struct report *r, const struct doctor_row *row)
{
    enum colour c = row->ok ? COLOUR_GREEN : row->needed ? COLOUR_RED : COLOUR_YELLOW;

    if (strcmp(r->group, row->group) != 0)
        printf("%s%s\n", *r->group ? "\n" : "", row->group);
    snprintf(r->group, sizeof r->group, "%s", row->group);
    printf("  %s%-7s%s %-26s ", colour_on(r->colour, c),
           row->ok       ? "ok"
           : row->needed ? "NEEDED"
                         : "missing",
           colour_off(r->colour), row->name);
    print_safe(stdout, str_of(row->detail), 200);
    putchar('\n');
    if (!row->ok && row->off && *row->off)
        printf("          switches off: %s\n", row->off);
    if (!row->ok && row->fix && *row->fix)
        printf("          to get it:    %s\n", row->fix);
    fflush(stdout);
}

static void on_row(void *arg, const struct doctor_row *row)
{
    struct report *r = arg;

    r->missing += !row->ok;
    if (!r->json) {
        print_row(r, row);
        return;
    }
    jw_obj(&r->w);
    jw_kz(&r->w, "group", row->group);
    jw_kz(&r->w, "name", row->name);
    jw_kbool(&r->w, "ok", row->ok);
    jw_kbool(&r->w, "needed", row->needed);
    jw_kz(&r->w, "detail", row->detail);
    if (!row->ok) {
        jw_kz(&r->w, "switches_off", row->off ? row->off : "");
        jw_kz(&r->w, "fix", row->fix ? row->fix : "");
    }
    jw_obj_end(&r->w);
}

static int examine(const struct words *w, const struct config *c)
{
    struct report r = { .json = w->json, .colour = colour_wanted(stdout) };

    buf_init(&r.out, 1 << 20);
    r.w.out = &r.out;
    jw_obj(&r.w);
    jw_key(&r.w, "checks");
    jw_arr(&r.w);
    bool fine = doctor_run(c, on_row, &r);
    jw_arr_end(&r.w);
    jw_kbool(&r.w, "boxes", fine);
    jw_obj_end(&r.w);
    if (w->json)
        printf("%.*s\n", STR_ARG(buf_view(&r.out)));
    else
        printf("\n%s; %zu thing%s missing\n", fine ? "boxes can be made here" : "boxes can NOT be made here", r.missing,
               r.missing == 1 ? "" : "s");
    buf_done(&r.out);
    return fine ? EXIT_FINE : EXIT_FAILED;
}

static int run(const struct command *cmd, int argc, char **argv)
{
    const char *file = NULL;
    char *flags[3] = { "doctor" };
    struct config c;
    struct words w;
    struct err e;
    int first, n = 1;
    const struct option rows[] = {
        { "config", 0, OPTION_TEXT, &file, "FILE", "the server's configuration" },
        { 0 },
    };
    int r = options_parse(cmd, rows, 0, argc, argv, &w);

    if (r != OPTIONS_OK)
        return r;
    if (w.n)
        return usage_error(cmd, "'%s': no words are expected", w.v[0]);
    if (file) {
        flags[n++] = "--config";
        flags[n++] = (char *)file;
    }
    if (config_load(n, flags, &c, &first, &e) < 0) {
        complain("%s", e.msg);
        return EXIT_USAGE;
    }
    r = examine(&w, &c);
    config_done(&c);
    return r;
}

const struct command command_doctor = {
    .name = "doctor",
    .words = "[--config FILE]",
    .about = "Try what this machine offers, and say what is missing and how to get it.",
    .more = "Ends with 0 if boxes can be made, else with 1.",
    .examples = "  sandglass doctor\n  sandglass doctor --json | jq '.checks[] | select(.ok | not) | .fix'\n",
    .run = run,
};

#include "cli/replay_report.h"

#include <string.h>

#include "base/field.h"
#include "cli/text.h"

enum { REQUEST = 60, DIFF_LINE = 200 };

static enum colour colour_of(enum replay_class c)
{
    switch (c) {
    case CLASS_IDENTICAL: return COLOUR_GREEN;
    case CLASS_BENIGN: return COLOUR_GREEN;
    case CLASS_NONDETERMINISTIC: return COLOUR_YELLOW;
    case CLASS_DIVERGED: return COLOUR_RED;
    case CLASS_UNCHECKED:
    case CLASS_COUNT: break;
    }
    return COLOUR_DIM;
}

/* The command, the path, or all parameters. */
static struct str request(struct arena *a, const struct traj_step *s)
{
    struct json *params;
    struct err e;

    if (json_parse(a, traj_args(s), &params, &e) < 0)
        return traj_args(s);
    if (json_get_str(params, "command").p)
        return json_get_str(params, "command");
    return json_get_str(params, "path").p ? json_get_str(params, "path") : params->raw;
}

void report_step(FILE *out, struct arena *a, const struct replay_step *s, bool colour)
{
    const char *name = class_name(s->verdict.class);
    struct buf more;

    buf_init(&more, 4096);
    if (s->verdict.class == CLASS_BENIGN) {
        buf_z(&more, " (");
        canon_names(s->verdict.rules, &more);
        buf_char(&more, ')');
    } else if (s->cause.n) {
        buf_printf(&more, " (%s)", safe_z(a, s->cause, 120));
    } else if (s->verdict.note) {
        buf_printf(&more, " (%s)", s->verdict.note);
    }
    fprintf(out, "  #%-4lld %-10s %s%s%s%.*s  %s%s%s\n", (long long)s->want->step, safe_z(a, traj_name(s->want), 40),
            colour_on(colour, colour_of(s->verdict.class)), name, colour_off(colour), STR_ARG(buf_view(&more)),
            colour_on(colour, COLOUR_DIM), safe_z(a, request(a, s->want), REQUEST), colour_off(colour));
    buf_done(&more);
}

static void print_diff(FILE *out, struct arena *a, struct str diff, bool colour)
{
    while (diff.n) {
        const char *end = memchr(diff.p, '\n', diff.n);
        struct str line = { diff.p, end ? (size_t)(end - diff.p) : diff.n };
        enum colour c = !line.n            ? COLOUR_NONE
                        : line.p[0] == '-' ? COLOUR_RED
                        : line.p[0] == '+' ? COLOUR_GREEN
                        : line.p[0] == '@' ? COLOUR_DIM
                                           : COLOUR_NONE;
        fprintf(out, "    %s%s%s\n", colour_on(colour, c), safe_z(a, line, DIFF_LINE), colour_off(colour));
        diff.p += line.n + (end != NULL);
        diff.n -= line.n + (end != NULL);
    }
}

static const char *code_text(struct arena *a, int64_t code)
{
    return code == FIELD_ABSENT ? "none" : arena_printf(a, "%lld", (long long)code);
}

static void print_first(FILE *out, struct arena *a, const struct replay_step *s, bool colour)
{
    const struct traj_step *want = s->want, *got = &s->got;

    fprintf(out, "\n%s%s: #%lld %s%s\n", colour_on(colour, COLOUR_BOLD),
            replay_matters(s) ? "first step that matters" : "first step that differs", (long long)want->step,
            safe_z(a, traj_name(want), 60), colour_off(colour));
    fprintf(out, "    %s\n", safe_z(a, request(a, want), DIFF_LINE));
    if (s->cause.n)
        fprintf(out, "  cause: %s\n", safe_z(a, s->cause, DIFF_LINE));
    if (want->expect == EXPECT_RESULT && want->exit_code != got->exit_code)
        fprintf(out, "  exit code: %s, now %s\n", code_text(a, want->exit_code), code_text(a, got->exit_code));
    if (want->outcome.n && !str_eq(want->outcome, got->outcome))
        fprintf(out, "  outcome: %s, now %s\n", safe_z(a, want->outcome, 40), safe_z(a, got->outcome, 40));
    if (s->again)
        fprintf(out, "  %s\n", s->again);
    if (s->verdict.field.n)
        fprintf(out, "  %s:\n", safe_z(a, s->verdict.field, 80));
    print_diff(out, a, s->diff, colour);
}

void report_end(FILE *out, struct arena *a, const struct replay_result *r, bool colour)
{
    bool comma = false;
    int64_t first = r->divergence_step >= 0 ? r->divergence_step : r->first_different;

    if (first >= 0)
        print_first(out, a, &r->steps[first], colour);
    fprintf(out, "\n%s%zu of %zu steps%s: ", colour_on(colour, COLOUR_BOLD), r->completed, r->total,
            colour_off(colour));
    for (int c = 0; c < CLASS_COUNT; c++)
        if (r->counts[c]) {
            fprintf(out, "%s%zu %s", comma ? ", " : "", r->counts[c], class_name((enum replay_class)c));
            comma = true;
        }
    fprintf(out, comma ? "; match %.4g\n" : "nothing was run\n", r->match);
}

void report_rules(FILE *out, struct arena *a)
{
    struct table t;

    table_init(&t, a, 3);
    table_row(&t, (const char *[]){ "RULE", "", "WHAT IT REMOVES" });
    for (size_t i = 0; canon_rules[i].name; i++)
        table_row(&t, (const char *[]){ canon_rules[i].name, canon_rules[i].on ? "on" : "off", canon_rules[i].about });
    table_print(&t, out);
}

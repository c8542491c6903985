#include "replay/cause.h"

#include "base/auto.h"
#include "replay/lines.h"

struct texts {
    const struct canon *c;
    struct arena *a;
    struct str want, got; /* all that each side said */
    struct str command;   /* the parameters */
};

static bool says(struct str text, const char *words)
{
    return text.n && memmem(text.p, text.n, words, strlen(words));
}

/* The first of these that is said now and was not said then. */
static const char *new_words(const struct texts *t, const char *const *list)
{
    for (; *list; list++)
        if (says(t->got, *list) && !says(t->want, *list))
            return *list;
    return NULL;
}

static struct str line_with(struct str text, const char *words)
{
    const char *at = memmem(text.p, text.n, words, strlen(words)), *from = at, *end;

    while (from > text.p && from[-1] != '\n')
        from--;
    end = memchr(at, '\n', text.n - (size_t)(at - text.p));
    return str_trim((struct str){ from, end ? (size_t)(end - from) : text.n - (size_t)(from - text.p) });
}

/* "bash: line 1: foo: command not found" */
static struct str missing_program(const struct texts *t)
{
    static const char *const list[] = { ": command not found", ": not found", NULL };
    const char *words = new_words(t, list);

    if (!words)
        return (struct str){ 0 };
    struct str line = line_with(t->got, words);
    const char *end = memmem(line.p, line.n, words, strlen(words)), *from = end;
    while (from > line.p && from[-1] != ' ')
        from--;
    return str_of(arena_printf(t->a, "missing program: %.*s", (int)(end - from < 80 ? end - from : 80), from));
}

static struct str network(const struct texts *t, const struct traj_step *got)
{
    static const char *const list[] = { "Could not resolve host",     "Network is unreachable",
                                        "Couldn't connect to server", "Temporary failure in name resolution",
                                        "Name or service not known",  "No route to host",
                                        "Failed to connect to",       "Connection refused",
                                        "unable to access",           NULL };

    if (str_is(got->outcome, "egress_denied") || new_words(t, list))
        return STR("network denied");
    return (struct str){ 0 };
}

static struct str dependency(const struct texts *t)
{
    static const char *const list[] = { "ModuleNotFoundError",
                                        "ImportError",
                                        "error while loading shared libraries",
                                        "Cannot find module",
                                        "fatal error: ",
                                        "undefined reference",
                                        "cannot find -l",
                                        "AttributeError: module",
                                        NULL };
    const char *words = new_words(t, list);

    if (!words)
        return (struct str){ 0 };
    struct str line = line_with(t->got, words);
    return str_of(arena_printf(t->a, "changed dependency: %.*s", (int)(line.n < 120 ? line.n : 120), line.p));
}

/* --- what is left when one kind of thing is taken out --- */

/* Every number becomes #; with dots_only, only those that look like a version (1.2.3). */
static struct str mask_numbers(struct arena *a, struct str s, bool dots_only)
{
    char *out = arena_alloc(a, s.n + 1);
    size_t n = 0, i = 0;

    while (i < s.n) {
        size_t from = i, dots = 0;
        while (i < s.n && ((s.p[i] >= '0' && s.p[i] <= '9') ||
                           (i > from && s.p[i] == '.' && i + 1 < s.n && s.p[i + 1] >= '0' && s.p[i + 1] <= '9')))
            dots += s.p[i++] == '.';
        if (i == from) {
            out[n++] = s.p[i++];
        } else if (dots_only && !dots) {
            memcpy(out + n, s.p + from, i - from);
            n += i - from;
        } else {
            out[n++] = '#';
        }
    }
    return (struct str){ out, n };
}

static bool equal_without_numbers(const struct texts *t, const struct verdict *v, bool dots_only)
{
    return str_eq(mask_numbers(t->a, v->want, dots_only), mask_numbers(t->a, v->got, dots_only));
}

static bool equal_without_times(const struct texts *t, const struct verdict *v)
{
    struct lines x = lines_split(t->a, v->want), y = lines_split(t->a, v->got);

    if (x.n != y.n)
        return false;
    for (size_t i = 0; i < x.n; i++)
        if (!str_eq(canon_times(t->c, t->a, x.v[i].raw), canon_times(t->c, t->a, y.v[i].raw)))
            return false;
    return true;
}

static bool only_order_differs(const struct texts *t, const struct verdict *v)
{
    struct lines x = lines_split(t->a, v->want), y = lines_split(t->a, v->got);

    lines_canon(&x, t->c, t->a, 0, 0);
    lines_canon(&y, t->c, t->a, 0, 0);
    return x.n > 1 && lines_same_sorted(t->a, &x, &y);
}

static bool mentions(struct str text, const char *const *list)
{
    for (; *list; list++)
        if (says(text, *list))
            return true;
    return false;
}

static struct str from_difference(const struct texts *t, const struct verdict *v, bool again)
{
    static const char *const clocks[] = { "date +", "date;", "\"date", "datetime", "time.",    "time(", "now(",
                                          "uptime", "clock", "EPOCH",  "SECONDS",  "strftime", NULL };
    static const char *const dice[] = { "RANDOM", "random", "shuf", "uuid", "mktemp", "secrets", "sort -R", NULL };

    if (only_order_differs(t, v))
        return STR("order of lines");
    if (equal_without_times(t, v))
        return STR("clock");
    if (!again && equal_without_numbers(t, v, true))
        return STR("changed dependency: another version");
    if (again && mentions(t->command, dice)) /* before the clock: "time" stands in many commands */
        return STR("random numbers");
    if (again && equal_without_numbers(t, v, false) && mentions(t->command, clocks))
        return STR("clock");
    if (again)
        return STR("random numbers, scheduling or the clock");
    return (struct str){ 0 };
}

bool cause_is_clock(const struct canon *c, struct arena *a, const struct verdict *v)
{
    struct texts t = { .c = c, .a = a };

    return equal_without_times(&t, v);
}

struct str cause_of(const struct canon *c, struct arena *a, const struct traj_step *want, const struct traj_step *got,
                    const struct verdict *v, bool again)
{
    struct texts t = { .c = c, .a = a, .command = traj_args(want) };
    struct str found;

    t.want = str_join(a, (struct str[]){ traj_shown(a, want), STR("\n"), want->message }, 3);
    t.got = str_join(a, (struct str[]){ traj_shown(a, got), STR("\n"), got->message }, 3);
    if (str_is(got->outcome, "box_lost") || str_is(got->outcome, "infra_error"))
        return STR("the sandbox failed, not the step");
    found = network(&t, got);
    if (!found.p)
        found = missing_program(&t);
    if (!found.p)
        found = dependency(&t);
    return found.p ? found : from_difference(&t, v, again);
}

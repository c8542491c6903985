/* Applying the rules. Expressions are compiled once; each line is matched by itself, so that a long output does not
 * make the matcher slow. */
#include "replay/canon.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/auto.h"
#include "base/limits.h"

struct canon {
    regex_t re[CANON_RULES_MAX][CANON_PATTERNS];
    bool on[CANON_RULES_MAX];
    regex_t ignores[CANON_IGNORES];
    size_t ignore_count;
    bool git, pid; /* canon_hint */
};

struct canon *canon_new(void)
{
    struct canon *c = calloc(1, sizeof *c);

    if (!c)
        abort();
    for (size_t i = 0; canon_rules[i].name; i++) {
        c->on[i] = canon_rules[i].on;
        for (size_t k = 0; k < CANON_PATTERNS && canon_rules[i].patterns[k]; k++)
            if (regcomp(&c->re[i][k], canon_rules[i].patterns[k], REG_EXTENDED) != 0)
                abort(); /* the table is ours, and a test compiles it */
    }
    return c;
}

void canon_free(struct canon *c)
{
    if (!c)
        return;
    for (size_t i = 0; canon_rules[i].name; i++)
        for (size_t k = 0; k < CANON_PATTERNS && canon_rules[i].patterns[k]; k++)
            regfree(&c->re[i][k]);
    for (size_t i = 0; i < c->ignore_count; i++)
        regfree(&c->ignores[i]);
    free(c);
}

static int find_rule(const char *name)
{
    for (int i = 0; canon_rules[i].name; i++)
        if (strcmp(canon_rules[i].name, name) == 0)
            return i;
    return -1;
}

int canon_switch(struct canon *c, const char *name, bool on, struct err *e)
{
    int i = find_rule(name);

    if (i < 0)
        return err_set(e, ERR_NOT_FOUND, "there is no rule '%s'; 'sandglass replay --rules' lists them", name);
    c->on[i] = on;
    return 0;
}

unsigned canon_bit(const char *name)
{
    for (size_t i = 0; canon_rules[i].name; i++)
        if (strcmp(canon_rules[i].name, name) == 0)
            return 1u << i;
    return 0;
}

bool canon_is_on(const struct canon *c, const char *name)
{
    int i = find_rule(name);
    return i >= 0 && c->on[i];
}

void canon_hint(struct canon *c, struct str args)
{
    static const char *const asks[] = { "$!", "$$", "getpid", "PPID", "BASHPID", "pgrep", "pidof" };

    c->git = args.n && memmem(args.p, args.n, "git", 3) != NULL;
    c->pid = false;
    for (size_t i = 0; i < ARRAY_LEN(asks) && args.n; i++)
        c->pid |= memmem(args.p, args.n, asks[i], strlen(asks[i])) != NULL;
}

int canon_ignore(struct canon *c, const char *regex, struct err *e)
{
    char why[128];

    if (c->ignore_count == CANON_IGNORES)
        return err_set(e, ERR_LIMIT, "more than %d expressions", CANON_IGNORES);
    int r = regcomp(&c->ignores[c->ignore_count], regex, REG_EXTENDED);
    if (r != 0) {
        regerror(r, &c->ignores[c->ignore_count], why, sizeof why);
        return err_set(e, ERR_INVALID, "'%.80s' is no POSIX extended regular expression: %s", regex, why);
    }
    c->ignore_count++;
    return 0;
}

/* Every match becomes `to`; NULL: there was none. Empty matches are stepped over. */
static const char *substitute(const regex_t *re, const char *to, bool (*ok)(struct str), struct str in, struct buf *out)
{
    size_t at = 0;
    bool changed = false;

    buf_reset(out);
    while (at <= in.n) {
        regmatch_t m = { .rm_so = (regoff_t)at, .rm_eo = (regoff_t)in.n };
        if (regexec(re, in.p, 1, &m, REG_STARTEND | (at ? REG_NOTBOL : 0)) != 0)
            break;
        size_t from = (size_t)m.rm_so, end = (size_t)m.rm_eo;
        bool take = end > from && (!ok || ok((struct str){ in.p + from, end - from }));
        buf_add(out, in.p + at, from - at);
        if (take)
            buf_z(out, to);
        else
            buf_add(out, in.p + from, end - from);
        if (end == from && end < in.n)
            buf_char(out, in.p[end]);
        at = end + (end == from);
        changed |= take;
    }
    if (!changed)
        return NULL;
    if (at < in.n)
        buf_add(out, in.p + at, in.n - at);
    return out->p ? out->p : "";
}

static void apply_rule(const struct canon *c, size_t i, struct arena *a, struct str *line, struct buf *scratch)
{
    const struct canon_rule *rule = &canon_rules[i];

    bool (*ok)(struct str) = rule->when == WHEN_GIT && c->git ? NULL : rule->ok;

    if (rule->when == WHEN_PID && !c->pid)
        return;
    if (rule->line)
        rule->line(a, line);
    for (size_t k = 0; k < CANON_PATTERNS && rule->patterns[k]; k++)
        if (substitute(&c->re[i][k], rule->to, ok, *line, scratch))
            *line = arena_copy(a, buf_view(scratch));
}

struct str canon_line(const struct canon *c, struct arena *a, struct str line, unsigned *rules, bool *ret_gone)
{
    struct buf scratch;
    bool had_text = line.n > 0;

    buf_init(&scratch, LIMIT_RECORD);
    *ret_gone = false;
    line =
        arena_copy(a, line.p ? line : STR("")); /* terminated: not every regexec() minds only the range it is given */
    for (size_t i = 0; i < c->ignore_count; i++)
        if (substitute(&c->ignores[i], "", NULL, line, &scratch)) {
            line = arena_copy(a, buf_view(&scratch));
            *rules |= CANON_USER;
            *ret_gone = had_text && line.n == 0;
        }
    for (size_t i = 0; canon_rules[i].name && !*ret_gone; i++) {
        struct str before = line;
        if (c->on[i])
            apply_rule(c, i, a, &line, &scratch);
        if (!str_eq(before, line))
            *rules |= 1u << i;
    }
    buf_done(&scratch);
    return line;
}

struct str canon_times(const struct canon *c, struct arena *a, struct str line)
{
    static const char *const names[] = { "time", "epoch", "duration" };
    struct buf scratch;

    buf_init(&scratch, LIMIT_RECORD);
    line = arena_copy(a, line.p ? line : STR(""));
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        apply_rule(c, (size_t)find_rule(names[i]), a, &line, &scratch);
    buf_done(&scratch);
    return line;
}

void canon_names(unsigned rules, struct buf *out)
{
    bool comma = false;

    for (size_t i = 0; canon_rules[i].name; i++)
        if (rules & (1u << i)) {
            buf_printf(out, "%s%s", comma ? ", " : "", canon_rules[i].name);
            comma = true;
        }
    if (rules & CANON_USER)
        buf_printf(out, "%s--ignore", comma ? ", " : "");
}

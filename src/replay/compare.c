#include "replay/compare.h"

#include "base/auto.h"
#include "base/field.h"
#include "replay/lines.h"

const char *class_name(enum replay_class c)
{
    static const char *const names[CLASS_COUNT] = { "identical", "benign", "nondeterministic", "diverged",
                                                    "unchecked" };
    return names[c];
}

enum replay_class compare_texts(const struct canon *c, struct arena *a, struct str want, struct str got,
                                unsigned *rules)
{
    if (str_eq(want, got))
        return CLASS_IDENTICAL;
    struct lines x = lines_split(a, want), y = lines_split(a, got);
    size_t before, behind;
    unsigned used = 0;
    lines_common(&x, &y, &before, &behind);
    lines_canon(&x, c, a, before, behind);
    lines_canon(&y, c, a, before, behind);
    bool same = x.n == y.n;
    for (size_t i = before; same && i < x.n; i++) {
        same = str_eq(x.v[i].canon, y.v[i].canon);
        if (same && !str_eq(x.v[i].raw, y.v[i].raw))
            used |= x.v[i].rules | y.v[i].rules;
    }
    if (!same && canon_is_on(c, "line-order") && lines_same_sorted(a, &x, &y)) {
        same = true;
        for (size_t i = 0; canon_rules[i].name; i++)
            used |= canon_rules[i].sorts ? 1u << i : 0;
    }
    if (!same)
        return CLASS_DIVERGED;
    *rules |= used ? used : CANON_USER; /* no rule changed a line: lines were removed */
    return CLASS_BENIGN;
}

/* --- fields of observations --- */

struct walk {
    const struct canon *c;
    struct arena *a;
    struct verdict *v;
};

/* What measures the run or names it anew, and not its result. exit_code is compared before; return_code is the same
 * number. */
static bool is_measure(struct str name, const struct json *in)
{
    static const char *const names[] = {
        "stdout_bytes", "stderr_bytes", "stdout_kept",    "stderr_kept",    "pid",         "mtime",      "atime",
        "ctime",        "offset",       "stderr_offset",  "background",     "return_code", "exit_code",  "duration",
        "elapsed",      "time",         "execution_time", "timestamp",      "ppid",        "session_id", "msg_id",
        "last_used",    "waited",       "output_bytes",   "memory_used_mb", "rss_bytes",   "free_bytes", "inode",
        "inode_free",
    };
    /* how a state is kept: what was taken before decides it, and its root may follow later */
    static const char *const kept[] = { "layers", "entries", "bytes", "changed", "parent", "root", "call" };
    static const char *const ends[] = { "_ms", "_us", "_ns", "_time", "_at", "_seconds", "_ticks" };
    bool has_text = json_get_str(in, "content").p || json_get_str(in, "stdout").p;
    bool is_state = json_get(in, "state") && json_get(in, "layers");

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (str_is(name, names[i]))
            return true;
    for (size_t i = 0; is_state && i < ARRAY_LEN(kept); i++)
        if (str_is(name, kept[i]))
            return true;
    for (size_t i = 0; i < ARRAY_LEN(ends); i++)
        if (name.n > strlen(ends[i]) && memcmp(name.p + name.n - strlen(ends[i]), ends[i], strlen(ends[i])) == 0)
            return true;
    /* lengths of a text that is compared itself: they differ when only the length of a number in it does */
    return has_text && (str_is(name, "size") || str_is(name, "lines") || str_is(name, "bytes"));
}

static void differs(struct walk *w, const char *path, struct str want, struct str got)
{
    if (w->v->class == CLASS_DIVERGED)
        return;
    w->v->class = CLASS_DIVERGED;
    w->v->field = str_of(path);
    w->v->want = want;
    w->v->got = got;
}

static bool is_empty(const struct json *v)
{
    return !v || v->type == JSON_NULL || (v->type == JSON_BOOL && !v->b) || (v->type == JSON_STR && v->s.n == 0) ||
           ((v->type == JSON_ARR || v->type == JSON_OBJ) && v->count == 0);
}

static void walk_text(struct walk *w, const char *path, struct str want, struct str got)
{
    enum replay_class class = compare_texts(w->c, w->a, want, got, &w->v->rules);

    if (class == CLASS_DIVERGED)
        differs(w, path, want, got);
    else if (class == CLASS_BENIGN && w->v->class == CLASS_IDENTICAL)
        w->v->class = CLASS_BENIGN;
}

static void walk_value(struct walk *w, const char *path, const struct json *want, const struct json *got);

static void walk_array(struct walk *w, const char *path, const struct json *want, const struct json *got)
{
    const struct json *x = want->first, *y = got->first;
    size_t i = 0;

    if (want->count != got->count) {
        differs(w, path, want->raw, got->raw);
        return;
    }
    for (; x && y; x = x->next, y = y->next)
        walk_value(w, arena_printf(w->a, "%s[%zu]", path, i++), x, y);
}

/* Of what a box was put back into: a state's root follows it, and is null as long as it is not known. */
static bool is_pending_root(const struct json *in, const struct json *want, const struct json *got)
{
    return str_is(want->name, "root") && json_get(in, "restored") &&
           (want->type == JSON_NULL || !got || got->type == JSON_NULL);
}

static void walk_object(struct walk *w, const char *path, const struct json *want, const struct json *got)
{
    for (const struct json *x = want->first; x; x = x->next) {
        const struct json *y = got->first;
        while (y && !str_eq(y->name, x->name))
            y = y->next;
        if (is_measure(x->name, want) || is_pending_root(want, x, y))
            continue;
        const char *to = arena_printf(w->a, "%s%s%.*s", path, *path ? "." : "", STR_ARG(x->name));
        if (y)
            walk_value(w, to, x, y);
        else if (!is_empty(x))
            differs(w, to, x->raw, STR(""));
    }
}

static void walk_value(struct walk *w, const char *path, const struct json *want, const struct json *got)
{
    if (want->type != got->type) {
        if (!is_empty(want) || !is_empty(got))
            differs(w, path, want->raw, got->raw);
        return;
    }
    switch (want->type) {
    case JSON_NULL: break;
    case JSON_BOOL:
        if (want->b != got->b)
            differs(w, path, want->raw, got->raw);
        break;
    case JSON_NUM:
        if (want->num != got->num || (want->is_int && got->is_int && want->i != got->i))
            differs(w, path, want->raw, got->raw);
        break;
    case JSON_STR: walk_text(w, path, want->s, got->s); break;
    case JSON_ARR: walk_array(w, path, want, got); break;
    case JSON_OBJ: walk_object(w, path, want, got); break;
    }
}

/* --- one step --- */

static struct str number(struct arena *a, int64_t n)
{
    return n == FIELD_ABSENT ? STR("none") : str_of(arena_printf(a, "%lld", (long long)n));
}

static void compare_end(struct walk *w, const struct traj_step *want, const struct traj_step *got)
{
    bool codes = want->expect == EXPECT_RESULT || want->exit_code != FIELD_ABSENT;

    if (codes && want->exit_code != got->exit_code && !(want->expect == EXPECT_TEXT && got->exit_code == FIELD_ABSENT))
        differs(w, "exit_code", number(w->a, want->exit_code), number(w->a, got->exit_code));
    if (want->outcome.n && !str_eq(want->outcome, got->outcome))
        differs(w, "outcome", want->outcome, got->outcome);
    w->v->ends_differently = w->v->class == CLASS_DIVERGED;
}

/* Outputs, and pictures that were asked for. Those that the log took by itself are no part of the answer, and how far a
 * page was drawn at that moment is chance. */
static void compare_blobs(struct walk *w, struct str want, struct str got)
{
    struct json *a = NULL, *b = NULL;
    struct err e;

    if (json_parse(w->a, want, &a, &e) < 0 || json_parse(w->a, got, &b, &e) < 0)
        return;
    for (const struct json *x = a->first; x; x = x->next) {
        if (str_is(x->name, "before") || str_is(x->name, "after"))
            continue;
        const struct json *y = json_get(b, arena_z(w->a, x->name));
        struct str was = json_get_str(x, "hash"), is = json_get_str(y, "hash");
        if (!str_eq(was, is))
            differs(w, "blobs", want, got);
    }
}

static void compare_result(struct walk *w, const struct traj_step *want, const struct traj_step *got)
{
    if (want->data && got->data)
        walk_value(w, "", want->data, got->data);
    else if (!is_empty(want->data) || !is_empty(got->data))
        differs(w, "observation", want->observation.p ? want->observation : STR(""),
                got->observation.p ? got->observation : STR(""));
    if (!want->data && !got->data)
        walk_text(w, "message", want->message.p ? want->message : STR(""), got->message.p ? got->message : STR(""));
    /* What the box left out of a long output is only known by its hash; it says nothing if the rest differs anyway. */
    if (w->v->class == CLASS_IDENTICAL && want->blobs.n && got->blobs.n)
        compare_blobs(w, want->blobs, got->blobs);
}

/* It is not known how the text was made of the streams: any way that gives it will do. */
static void compare_text(struct walk *w, const struct traj_step *want, const struct traj_step *got)
{
    struct str ways[] = { traj_shown(w->a, got), traj_streams(w->a, got), got->out };
    struct str text = str_trim(want->text);
    enum replay_class best = CLASS_DIVERGED;
    unsigned rules = 0;

    for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
        unsigned used = 0;
        enum replay_class class = compare_texts(w->c, w->a, text, str_trim(ways[i].p ? ways[i] : STR("")), &used);
        if (class < best) {
            best = class;
            rules = used;
        }
    }
    w->v->rules |= rules;
    if (best == CLASS_DIVERGED)
        differs(w, "output", text, str_trim(got->err.n && !got->out.n ? ways[1] : ways[0]));
    else if (best > w->v->class)
        w->v->class = best;
}

static bool tells_failure(struct str text)
{
    static const char *const words[] = { "rror", "not found", "No such", "nvalid", "No replacement", "ailed", "失败" };

    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (text.n && memmem(text.p, text.n, words[i], strlen(words[i])))
            return true;
    return false;
}

static bool was_outside(struct str outcome)
{
    return str_is(outcome, "killed") || str_is(outcome, "box_lost") || str_is(outcome, "infra_error");
}

void compare_step(const struct canon *c, struct arena *a, const struct traj_step *want, const struct traj_step *got,
                  struct verdict *ret)
{
    struct walk w = { .c = c, .a = a, .v = ret };

    *ret = (struct verdict){ .class = CLASS_IDENTICAL };
    if (want->expect == EXPECT_NOTHING || was_outside(want->outcome)) {
        ret->class = CLASS_UNCHECKED;
        ret->note = want->expect == EXPECT_NOTHING ? "nothing was recorded to compare with"
                                                   : "the recorded step was ended from outside";
        return;
    }
    compare_end(&w, want, got);
    if (want->emulated && want->expect == EXPECT_TEXT) {
        if (traj_failed(got) && !tells_failure(want->text)) {
            differs(&w, "outcome", STR("it succeeded"), got->outcome);
            ret->ends_differently = true;
        } else if (ret->class == CLASS_IDENTICAL) {
            ret->class = CLASS_UNCHECKED;
            ret->note = "done by another tool, whose words differ";
        }
        return;
    }
    /* The texts are looked at even if the codes differ: they say why. */
    struct verdict end = *ret;
    *ret = (struct verdict){ .class = CLASS_IDENTICAL };
    if (want->expect == EXPECT_RESULT)
        compare_result(&w, want, got);
    else
        compare_text(&w, want, got);
    if (end.class == CLASS_DIVERGED) {
        if (ret->class != CLASS_DIVERGED)
            *ret = end;
        ret->ends_differently = true;
    }
}

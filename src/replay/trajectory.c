/* The neutral form and its views. Readers fill it, writers and the comparison only look at it. */
#include "replay/trajectory.h"

#include <stdio.h>
#include <time.h>

#include "base/field.h"
#include "base/limits.h"

void traj_init(struct trajectory *t)
{
    *t = (struct trajectory){ 0 };
}

struct traj_step *traj_add(struct arena *a, struct trajectory *t)
{
    if (t->n == t->room) {
        size_t room = t->room ? 2 * t->room : 16;
        struct traj_step *more = arena_alloc(a, room * sizeof *more);
        if (t->n)
            memcpy(more, t->steps, t->n * sizeof *more);
        t->steps = more;
        t->room = room;
    }
    struct traj_step *s = &t->steps[t->n++];
    *s = (struct traj_step){ .step = (int64_t)t->n, .exit_code = FIELD_ABSENT, .trainable = true };
    return s;
}

void traj_observe(struct traj_step *s, const struct json *value)
{
    s->data = NULL;
    s->observation = s->out = s->err = (struct str){ 0 };
    s->exit_code = FIELD_ABSENT;
    if (!value || value->type == JSON_NULL)
        return;
    s->data = value;
    s->observation = value->raw;
    s->out = json_get_str(value, "stdout");
    s->err = json_get_str(value, "stderr");
    if (!s->out.p)
        s->out = json_get_str(value, "content");
    if (!s->out.p && json_get(value, "success")) { /* of knowlyr's tools */
        s->out = json_get_str(value, "output");
        s->err = json_get_str(value, "error");
    }
    s->exit_code = json_get_int(value, "exit_code", FIELD_ABSENT);
}

void traj_expect_text(struct traj_step *s, struct str text)
{
    s->text = text;
    s->expect = text.p ? EXPECT_TEXT : EXPECT_NOTHING;
}

void traj_result(struct traj_step *s, const struct json *row)
{
    const struct json *times = json_get(row, "times"), *code = json_get(row, "code"), *blobs = json_get(row, "blobs");
    const struct json *data = json_get(row, "observation");

    traj_observe(s, data ? data : json_get(row, "data"));
    s->outcome = json_get_str(row, "outcome");
    s->message = json_get_str(row, "message");
    if (code && code->type != JSON_NULL)
        s->code = code->raw;
    if (blobs && blobs->type == JSON_OBJ)
        s->blobs = blobs->raw;
    s->state_root = json_get_str(row, "state_root");
    s->state_id = json_get_str(row, "state_id");
    s->trainable = json_get_bool(row, "trainable", true);
    times = times ? times : row;
    s->queued_us = json_get_int(times, "queued_us", 0);
    s->run_us = json_get_int(times, "run_us", 0);
    s->total_us = json_get_int(times, "total_us", 0);
    s->dropped_bytes = json_get_int(row, "dropped_bytes", 0);
    s->expect = s->outcome.n ? EXPECT_RESULT : EXPECT_NOTHING;
}

static struct str first_str(const struct json *o, const char *const *names)
{
    for (; *names; names++) {
        struct str s = json_get_str(o, *names);
        if (s.p)
            return s;
    }
    return (struct str){ 0 };
}

void traj_metadata(struct trajectory *t, const struct json *metadata)
{
    static const char *const tasks[] = { "task", "prompt", "question", "description", "instruction", NULL };
    static const char *const agents[] = { "agent", "agent_name", NULL };
    static const char *const models[] = { "model", "model_name", NULL };
    static const char *const answers[] = { "final_answer", "answer", "submission", NULL };
    const struct {
        struct str *to;
        const char *const *names;
    } views[] = { { &t->task, tasks }, { &t->agent, agents }, { &t->model, models }, { &t->answer, answers } };

    if (!metadata || metadata->type != JSON_OBJ)
        return;
    t->metadata = metadata->raw;
    for (size_t i = 0; i < sizeof views / sizeof *views; i++)
        if (!views[i].to->p)
            *views[i].to = first_str(metadata, views[i].names);
}

struct str traj_name(const struct traj_step *s)
{
    return s->as_tool.p ? s->as_tool : s->tool;
}

struct str traj_args(const struct traj_step *s)
{
    struct str args = s->as_params.p ? s->as_params : s->params;
    return args.n ? args : STR("{}");
}

bool traj_args_ok(const struct traj_step *s)
{
    struct arena a = { 0 };
    struct json *v;
    struct err e;
    bool ok = json_parse(&a, traj_args(s), &v, &e) >= 0 && v->type == JSON_OBJ;

    arena_done(&a);
    return ok;
}

bool traj_failed(const struct traj_step *s)
{
    if (s->outcome.n)
        return !str_is(s->outcome, "ok");
    return s->exit_code != FIELD_ABSENT && s->exit_code != 0;
}

struct str str_join(struct arena *a, const struct str *parts, size_t n)
{
    size_t total = 0, at = 0;

    for (size_t i = 0; i < n; i++)
        total += parts[i].n;
    char *p = arena_alloc(a, total + 1);
    for (size_t i = 0; i < n; i++) {
        if (parts[i].n)
            memcpy(p + at, parts[i].p, parts[i].n);
        at += parts[i].n;
    }
    return (struct str){ p, total };
}

/* Two texts, the second one on a line of its own. */
static struct str on_lines(struct arena *a, struct str first, struct str second)
{
    bool newline = first.n && first.p[first.n - 1] != '\n';

    if (!second.n)
        return first.p ? first : STR("");
    return first.n ? str_join(a, (struct str[]){ first, newline ? STR("\n") : STR(""), second }, 3) : second;
}

struct str traj_streams(struct arena *a, const struct traj_step *s)
{
    return on_lines(a, s->out, s->err);
}

static struct str how_it_ended(struct arena *a, const struct traj_step *s)
{
    if (!traj_failed(s))
        return (struct str){ 0 };
    if (str_is(s->outcome, "task_error") && s->exit_code != FIELD_ABSENT)
        return str_of(arena_printf(a, "[exit code %lld]", (long long)s->exit_code));
    return str_join(a, (struct str[]){ STR("["), s->outcome, STR(": "), s->message, STR("]") }, 5);
}

struct str traj_shown(struct arena *a, const struct traj_step *s)
{
    if (s->expect == EXPECT_TEXT)
        return s->text;
    return on_lines(a, s->out.p || s->err.p ? traj_streams(a, s) : s->observation, how_it_ended(a, s));
}

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

struct str str_trim(struct str s)
{
    while (s.n && is_space(s.p[0])) {
        s.p++;
        s.n--;
    }
    while (s.n && is_space(s.p[s.n - 1]))
        s.n--;
    return s;
}

/* "Z", "+01:00" or nothing; in microseconds to take away */
static int64_t zone_us(const char *z)
{
    int hours, minutes;
    char sign;

    if (sscanf(z, "%c%2d:%2d", &sign, &hours, &minutes) != 3 || (sign != '+' && sign != '-'))
        return 0;
    return (sign == '-' ? -1 : 1) * (int64_t)(hours * 3600 + minutes * 60) * 1000000;
}

int64_t traj_time_us(struct str text)
{
    char z[64] = { 0 };
    struct tm tm = { 0 };
    int64_t fraction = 0;

    if (text.n < 10 || text.n >= sizeof z)
        return -1;
    memcpy(z, text.p, text.n);
    if (z[10] == ' ')
        z[10] = 'T';
    const char *rest = strptime(z, "%Y-%m-%dT%H:%M:%S", &tm);
    if (!rest) {
        tm = (struct tm){ 0 };
        rest = strptime(z, "%Y-%m-%d", &tm);
        if (!rest || *rest)
            return -1;
    }
    if (*rest == '.') {
        int64_t unit = 100000;
        for (rest++; *rest >= '0' && *rest <= '9'; rest++, unit /= 10)
            fraction += (*rest - '0') * unit;
    }
    return (int64_t)timegm(&tm) * 1000000 + fraction - zone_us(rest);
}

struct str traj_time_text(struct arena *a, int64_t us)
{
    time_t seconds = (time_t)(us / 1000000);
    struct tm tm;
    char text[40];

    if (us <= 0)
        return (struct str){ 0 };
    gmtime_r(&seconds, &tm);
    strftime(text, sizeof text, "%FT%T", &tm);
    return str_of(arena_printf(a, "%s.%06lldZ", text, (long long)(us % 1000000)));
}

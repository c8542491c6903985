#include "replay/knowlyr.h"

#include "base/auto.h"
#include "base/limits.h"

static const struct {
    const char *ours, *theirs;
    const char *keys[4];    /* that both have */
    const char *renamed[4]; /* pairs: ours, theirs */
} tools[] = {
    { "bash:run", "shell", { "command", "timeout" }, { "cwd", "work_dir" } },
    { "file:read", "file_read", { "path", "start_line", "end_line" }, { NULL } },
    { "file:write", "file_write", { "path", "content" }, { "mkdir", "create_dirs" } },
};

#define OWN "knowlyr:"

struct str knowlyr_tool(const struct traj_step *s)
{
    size_t n = sizeof OWN - 1;

    if (!s->as_tool.p && s->tool.n > n && memcmp(s->tool.p, OWN, n) == 0)
        return (struct str){ s->tool.p + n, s->tool.n - n };
    for (size_t i = 0; i < ARRAY_LEN(tools) && !s->as_tool.p; i++)
        if (str_is(s->tool, tools[i].ours))
            return str_of(tools[i].theirs);
    return traj_name(s);
}

static const char *their_key(size_t row, struct str key)
{
    for (size_t i = 0; i < ARRAY_LEN(tools[row].keys) && tools[row].keys[i]; i++)
        if (str_is(key, tools[row].keys[i]))
            return tools[row].keys[i];
    if (tools[row].renamed[0] && str_is(key, tools[row].renamed[0]))
        return tools[row].renamed[1];
    return NULL;
}

/* As they are if knowlyr knows every key; else renamed, and without those that it lacks: it would refuse the call. */
static struct str args(struct arena *a, const struct traj_step *s)
{
    struct json *params;
    struct err e;
    size_t row = 0;
    bool as_is = true;

    while (row < ARRAY_LEN(tools) && !str_is(s->tool, tools[row].ours))
        row++;
    if (s->as_tool.p || row == ARRAY_LEN(tools) || json_parse(a, traj_args(s), &params, &e) < 0)
        return traj_args(s);
    for (const struct json *p = params->first; p; p = p->next)
        as_is &= their_key(row, p->name) && str_is(p->name, their_key(row, p->name));
    if (as_is)
        return traj_args(s);
    struct buf out;
    struct jw w = { .out = &out };
    buf_init(&out, 2 * (size_t)LIMIT_FILE_IO);
    jw_obj(&w);
    for (const struct json *p = params->first; p; p = p->next)
        if (their_key(row, p->name))
            jw_kraw(&w, their_key(row, p->name), p->raw);
    jw_obj_end(&w);
    struct str made = arena_copy(a, buf_view(&out));
    buf_done(&out);
    return made;
}

static struct str output(struct arena *a, const struct traj_step *s, const struct write_opts *o)
{
    if (s->expect == EXPECT_TEXT)
        return s->text;
    if (s->expect == EXPECT_NOTHING)
        return (struct str){ 0 };
    if (str_is(s->tool, "file:write") && s->data)
        return str_of(arena_printf(a, "已写入 %lld 字节到 %.*s", (long long)json_get_int(s->data, "bytes", 0),
                                   STR_ARG(json_get_str(s->data, "path"))));
    if (s->out.p)
        return s->out; /* stderr is its "error" */
    return s->data ? truth_shown(a, s, o) : STR("");
}

const struct truth_form knowlyr_form = { output, args };

#include "replay/write_common.h"

#include "base/auto.h"
#include "base/map.h"
#include "tool/tool.h"

struct str wire_name(struct arena *a, struct str tool)
{
    struct str name = arena_copy(a, tool);

    for (size_t i = 0; i < name.n; i++) {
        char c = name.p[i];
        bool ok = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '-';
        if (!ok)
            ((char *)name.p)[i] = '_';
    }
    return name.n > 64 ? (struct str){ name.p, 64 } : name;
}

static void write_definition(struct jw *w, struct arena *a, const struct tool *tool)
{
    jw_obj(w);
    jw_kz(w, "type", "function");
    jw_key(w, "function");
    jw_obj(w);
    jw_kstr(w, "name", wire_name(a, str_of(tool->name)));
    jw_kz(w, "description", tool->help);
    jw_key(w, "parameters");
    field_schema(tool->params, w);
    jw_obj_end(w);
    jw_obj_end(w);
}

void write_tools_of(struct jw *w, struct arena *a, const struct trajectory *const *all, size_t n)
{
    struct map seen = { 0 };

    jw_arr(w);
    for (size_t k = 0; k < n; k++)
        for (size_t i = 0; all[k] && i < all[k]->n; i++) {
            const struct traj_step *s = &all[k]->steps[i];
            const struct tool *tool = s->as_tool.p ? NULL : tool_find(s->tool, NULL);
            if (!tool || map_get(&seen, s->tool))
                continue;
            map_put(&seen, s->tool, (void *)tool);
            write_definition(w, a, tool);
        }
    jw_arr_end(w);
    map_done(&seen);
}

void write_tool_definitions(struct jw *w, struct arena *a, const struct trajectory *t)
{
    write_tools_of(w, a, &t, 1);
}

void write_args_object(struct jw *w, const struct traj_step *s)
{
    if (traj_args_ok(s)) {
        jw_raw(w, traj_args(s));
        return;
    }
    jw_obj(w);
    jw_kstr(w, "_raw", traj_args(s));
    jw_obj_end(w);
}

struct str call_id(struct arena *a, size_t i)
{
    return str_of(arena_printf(a, "call_%zu", i + 1));
}

bool traj_success(const struct trajectory *t)
{
    return t->n == 0 || !traj_failed(&t->steps[t->n - 1]);
}

/* A tool's message can only have text: the picture is said by the user, right behind it. */
static void write_picture(struct jw *w, const struct traj_step *s)
{
    jw_obj(w);
    jw_kz(w, "role", "user");
    jw_key(w, "content");
    jw_arr(w);
    jw_obj(w);
    jw_kz(w, "type", "image_url");
    jw_key(w, "image_url");
    jw_obj(w);
    jw_kstr(w, "url", s->picture);
    jw_obj_end(w);
    jw_obj_end(w);
    jw_arr_end(w);
    jw_obj_end(w);
}

static void write_turn(struct jw *w, struct arena *a, const struct traj_step *s, size_t i, const struct write_opts *o)
{
    struct str id = call_id(a, i), name = wire_name(a, traj_name(s));

    jw_obj(w);
    jw_kz(w, "role", "assistant");
    jw_kstr(w, "content", s->thought.p ? s->thought : STR(""));
    jw_key(w, "tool_calls");
    jw_arr(w);
    jw_obj(w);
    jw_kstr(w, "id", id);
    jw_kz(w, "type", "function");
    jw_key(w, "function");
    jw_obj(w);
    jw_kstr(w, "name", name);
    jw_kstr(w, "arguments", traj_args(s)); /* a string, as in the API: byte for byte what was sent */
    jw_obj_end(w);
    jw_obj_end(w);
    jw_arr_end(w);
    jw_obj_end(w);
    jw_obj(w);
    jw_kz(w, "role", "tool");
    jw_kstr(w, "tool_call_id", id);
    jw_kstr(w, "name", name);
    jw_kstr(w, "content", s->expect == EXPECT_NOTHING ? STR("") : truth_shown(a, s, o));
    jw_obj_end(w);
    if (s->picture.n)
        write_picture(w, s);
}

void write_turns(struct jw *w, struct arena *a, const struct trajectory *t, struct turns which,
                 const struct write_opts *o)
{
    for (size_t i = which.from; i < which.to; i++)
        write_turn(w, a, &t->steps[i], which.first + i - which.from, o);
}

void write_messages(struct jw *w, struct arena *a, const struct trajectory *t, const struct write_opts *o)
{
    jw_arr(w);
    if (t->task.p) {
        jw_obj(w);
        jw_kz(w, "role", "user");
        jw_kstr(w, "content", t->task);
        jw_obj_end(w);
    }
    write_turns(w, a, t, (struct turns){ 0, t->n, 0 }, o);
    if (t->answer.p) {
        jw_obj(w);
        jw_kz(w, "role", "assistant");
        jw_kstr(w, "content", t->answer);
        jw_obj_end(w);
    }
    jw_arr_end(w);
}

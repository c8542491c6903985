/* ShareGPT, one conversation per line: human and observation at odd places, function_call and gpt at even ones, so the
 * conversation begins with a human and ends with gpt even if nobody said anything. */
#include "base/limits.h"
#include "replay/read.h"
#include "replay/write_common.h"

static void say(struct jw *w, const char *from, struct str value)
{
    jw_obj(w);
    jw_kz(w, "from", from);
    jw_kstr(w, "value", value.p ? value : STR(""));
    jw_obj_end(w);
}

static void say_call(struct jw *w, struct arena *a, const struct traj_step *s)
{
    struct buf text;
    struct jw inner = { .out = &text };

    buf_init(&text, TRAJ_FILE_MAX);
    jw_obj(&inner);
    jw_kstr(&inner, "name", wire_name(a, traj_name(s)));
    jw_key(&inner, "arguments");
    write_args_object(&inner, s);
    jw_obj_end(&inner);
    say(w, "function_call", buf_view(&text));
    buf_done(&text);
}

static void write(struct arena *a, const struct trajectory *t, const struct write_opts *o, struct buf *out)
{
    struct jw w = { .out = out, .one_line = true };
    struct buf tools;
    struct jw inner = { .out = &tools };

    buf_init(&tools, TRAJ_FILE_MAX);
    write_tool_definitions(&inner, a, t);
    jw_obj(&w);
    if (t->id.n)
        jw_kstr(&w, "id", t->id);
    jw_key(&w, "conversations");
    jw_arr(&w);
    say(&w, "human", t->task);
    for (size_t i = 0; i < t->n; i++) {
        say_call(&w, a, &t->steps[i]);
        say(&w, "observation", t->steps[i].expect == EXPECT_NOTHING ? STR("") : truth_shown(a, &t->steps[i], o));
    }
    say(&w, "gpt", t->answer);
    jw_arr_end(&w);
    jw_kz(&w, "system", "");
    jw_kstr(&w, "tools", buf_view(&tools)); /* a string there */
    jw_key(&w, "metadata");
    truth_metadata(&w, a, t, o, &truth_plain);
    jw_obj_end(&w);
    buf_char(out, '\n');
    buf_done(&tools);
}

extern const struct traj_format format_sharegpt;
const struct traj_format format_sharegpt = {
    .name = "sharegpt",
    .about = "ShareGPT conversations, one per line (JSONL)",
    .sniff = sharegpt_sniff,
    .read = sharegpt_read,
    .write = write,
};

/* OpenAI chat messages with tools, one conversation per line. */
#include "replay/read.h"
#include "replay/write_common.h"

static void write(struct arena *a, const struct trajectory *t, const struct write_opts *o, struct buf *out)
{
    struct jw w = { .out = out, .one_line = true };

    jw_obj(&w);
    if (t->id.n)
        jw_kstr(&w, "id", t->id);
    jw_key(&w, "messages");
    write_messages(&w, a, t, o);
    jw_key(&w, "tools");
    write_tool_definitions(&w, a, t);
    jw_key(&w, "metadata");
    truth_metadata(&w, a, t, o, &truth_plain);
    jw_obj_end(&w);
    buf_char(out, '\n');
}

extern const struct traj_format format_openai;
const struct traj_format format_openai = {
    .name = "openai",
    .images = true,
    .about = "chat messages with tool calls, one conversation per line (JSONL)",
    .sniff = openai_sniff,
    .read = openai_read,
    .write = write,
};

/* A table with one trajectory per row. What is nested is JSON text: that is what readers of data sets agree on. */
#include "replay/parquet.h"
#include "replay/write_common.h"

enum {
    C_ID,
    C_WORKER,
    C_TASK,
    C_MODEL,
    C_MESSAGES,
    C_TOOLS,
    C_METADATA,
    C_TAGS,
    C_GROUP,
    C_REWARD,
    C_SUCCESS,
    C_STEPS,
    C_TIME
};

static const struct parquet_column columns[] = {
    [C_ID] = { "id", PARQUET_TEXT },
    [C_WORKER] = { "worker", PARQUET_TEXT },
    [C_TASK] = { "task", PARQUET_TEXT },
    [C_MODEL] = { "model", PARQUET_TEXT },
    [C_MESSAGES] = { "messages", PARQUET_TEXT },
    [C_TOOLS] = { "tools", PARQUET_TEXT },
    [C_METADATA] = { "metadata", PARQUET_TEXT },
    [C_TAGS] = { "tags", PARQUET_TEXT },
    [C_GROUP] = { "group", PARQUET_TEXT },
    [C_REWARD] = { "reward", PARQUET_DOUBLE },
    [C_SUCCESS] = { "success", PARQUET_BOOL },
    [C_STEPS] = { "steps", PARQUET_INT },
    [C_TIME] = { "started_us", PARQUET_INT },
};
enum { COUNT = sizeof columns / sizeof *columns };

static struct parquet_value text_of(struct str s)
{
    return (struct parquet_value){ .there = s.n > 0, .text = s };
}

static void write_row(struct parquet *p, struct arena *a, const struct trajectory *t, const struct write_opts *o)
{
    struct parquet_value v[COUNT] = { 0 };
    struct buf texts[3];
    struct jw w[3];

    for (size_t i = 0; i < 3; i++) {
        buf_init(&texts[i], TRAJ_FILE_MAX);
        w[i] = (struct jw){ .out = &texts[i] };
    }
    write_messages(&w[0], a, t, o);
    write_tool_definitions(&w[1], a, t);
    truth_metadata(&w[2], a, t, o, &truth_plain);
    v[C_ID] = text_of(t->id);
    v[C_WORKER] = text_of(t->worker);
    v[C_TASK] = text_of(t->task);
    v[C_MODEL] = text_of(t->model);
    v[C_MESSAGES] = text_of(buf_view(&texts[0]));
    v[C_TOOLS] = text_of(buf_view(&texts[1]));
    v[C_METADATA] = text_of(buf_view(&texts[2]));
    v[C_TAGS] = text_of(t->tags ? t->tags->raw : STR(""));
    v[C_GROUP] = text_of(t->group);
    v[C_REWARD] = (struct parquet_value){ .there = t->has_reward, .d = t->reward };
    v[C_SUCCESS] = (struct parquet_value){ .there = t->n > 0, .i = traj_success(t) };
    v[C_STEPS] = (struct parquet_value){ .there = true, .i = (int64_t)t->n };
    v[C_TIME] = (struct parquet_value){ .there = t->n && t->steps[0].time_us > 0, .i = t->n ? t->steps[0].time_us : 0 };
    parquet_row(p, v);
    for (size_t i = 0; i < 3; i++)
        buf_done(&texts[i]);
}

static void write_set(struct arena *a, const struct traj_set *set, const struct write_opts *o, struct buf *out)
{
    struct parquet *p = parquet_new(a, columns, COUNT, out);

    for (size_t i = 0; i < set->n; i++)
        write_row(p, a, &set->v[i], o);
    parquet_end(p);
}

extern const struct traj_format format_parquet;
const struct traj_format format_parquet = {
    .name = "parquet",
    .images = true,
    .about = "a Parquet file, one trajectory per row; what is nested is JSON text",
    .write_set = write_set,
};

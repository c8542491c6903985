/* AgentFlow's data-science tools (ds_inspect_data, ds_read_csv, ds_run_python), in the box and with its limits.
 * seed_path is a directory of the box. As there, what goes wrong with data or code is a text, not an error of the call.
 */
#include <string.h>

#include "base/auto.h"
#include "base/limits.h"
#include "tool/tool.h"

enum { VARS_MAX = 64, ROWS_MAX = 100000 };

#define SEED_FIELD(type)                                                                                               \
    FIELD(STR, type, seed_path, "directory of the CSV files, in the box; relative to /home/gem", .required = true,     \
          .max = LIMIT_PATH)

struct inspect_data_params {
    struct str seed_path;
};
static const struct field inspect_data_fields[] = { SEED_FIELD(struct inspect_data_params), { 0 } };
struct read_csv_params {
    struct str seed_path, csv_file;
    int64_t max_rows;
};
static const struct field read_csv_fields[] = {
    FIELD(STR, struct read_csv_params, csv_file, "name of the file", .required = true, .max = LIMIT_PATH),
    FIELD(INT, struct read_csv_params, max_rows, "how many rows are shown", .def = 50, .min = 1, .max = ROWS_MAX),
    SEED_FIELD(struct read_csv_params),
    { 0 },
};
struct run_python_params {
    struct str seed_path, code;
    struct strs return_vars;
};
static const struct field run_python_fields[] = {
    FIELD(STR, struct run_python_params, code, "runs in seed_path; without it, a description of every file",
          .max = LIMIT_CODE),
    FIELD(STRS, struct run_python_params, return_vars, "variables to show afterwards", .max = VARS_MAX),
    SEED_FIELD(struct run_python_params),
    { 0 },
};
struct image_row {
    struct str type, base64, description;
};
static const struct field image_row_fields[] = {
    FIELD(STR, struct image_row, type, "image/png"),
    FIELD(STR, struct image_row, base64, "the figure"),
    FIELD(STR, struct image_row, description, "which one"),
    { 0 },
};
struct ds_result {
    struct str result;
    struct rows images;
};
static const struct field ds_result_fields[] = {
    FIELD(STR, struct ds_result, result, "the answer, as text", .always = true),
    FIELD(ROWS, struct ds_result, images, "matplotlib figures", .rows = image_row_fields,
          .row_size = sizeof(struct image_row)),
    { 0 },
};

#ifdef IN_BOX

#include "init/hand.h"
#include "init/hands.h"
#include "init/program.h"
#include "init/script.h"
#include "init/task.h"
#include "wire/boot.h"

enum { IMAGES_MAX = 16 };

static void ds_begin(struct task *t, const void *params)
{
    struct err e;

    (void)params;
    if (scripts_write(&e) < 0)
        task_fail(t, OUTCOME_INFRA_ERROR, &e);
    else
        (void)hands_submit(t->init, t);
}

static void take_images(struct hand *h, const struct json *list, struct ds_result *r)
{
    struct image_row *rows = arena_alloc(h->arena, IMAGES_MAX * sizeof *rows);

    r->images.v = rows;
    for (const struct json *i = list ? list->first : NULL; i && r->images.n < IMAGES_MAX; i = i->next)
        rows[r->images.n++] =
            (struct image_row){ json_get_str(i, "type"), json_get_str(i, "base64"), json_get_str(i, "description") };
}

static int ask(struct hand *h, const struct field *fields, const char *op, const void *params, struct ds_result *r,
               struct err *e)
{
    static const char *const argv[] = { "python3", SCRIPT_DS, NULL };
    AUTO(buf_done) struct buf b = { .cap = LIMIT_FRAME };
    struct jw w = { .out = &b };
    struct program_end end;
    struct json *j = NULL;

    jw_obj(&w);
    jw_kz(&w, "op", op);
    field_print(fields, params, &w);
    jw_obj_end(&w);
    int n = program_run(h,
                        &(struct program_opts){ .argv = argv,
                                                .cwd = BOX_HOME,
                                                .input = buf_view(&b),
                                                .deadline_ms = h->deadline_ms ? h->deadline_ms - 100 : 0,
                                                .head_max = LIMIT_FILE_IO,
                                                .tail_max = 4 * KiB },
                        &end, e);
    if (n < 0)
        return n;
    h->cpu_us = end.cpu_us;
    if (end.timed_out) {
        h->outcome = OUTCOME_TIMEOUT;
        h->message = STR("timed out; the program and its children were killed");
        r->result = STR("Error: timed out");
    } else if (json_parse(h->arena, end.out, &j, NULL) < 0) {
        h->outcome = OUTCOME_TASK_ERROR;
        h->message = str_of(arena_printf(h->arena, "the interpreter ended with status %d", end.exit_code));
        r->result = str_of(arena_printf(h->arena, "Error: the interpreter ended with status %d\n%.*s", end.exit_code,
                                        (int)(end.err.n < 4096 ? end.err.n : 4096), end.err.p ? end.err.p : ""));
    } else {
        r->result = json_get_str(j, "result");
        take_images(h, json_get(j, "images"), r);
    }
    return 0;
}

#define DS_RUN(verb)                                                                                                   \
    static int verb##_run(struct hand *h, const void *params, void *result, struct err *e)                             \
    {                                                                                                                  \
        return ask(h, verb##_fields, #verb, params, result, e);                                                        \
    }
DS_RUN(inspect_data)
DS_RUN(read_csv)
DS_RUN(run_python)

#endif

#define ROW(verb)                                                                                                      \
    .params = verb##_fields, .params_size = sizeof(struct verb##_params), .result = ds_result_fields,                  \
    .result_size = sizeof(struct ds_result), .begin = BOX_CODE(ds_begin), .run_hand = BOX_CODE(verb##_run)

static const struct tool ds_tools[] = {
    { .name = "ds:inspect_data",
      .title = "Describe CSV files",
      .help = "For every CSV file of a directory: rows, columns, types, missing values, duplicates.",
      .flags = TOOL_NEEDS_BOX | TOOL_READ_ONLY | TOOL_PROGRAM,
      ROW(inspect_data) },
    { .name = "ds:read_csv",
      .title = "Show a CSV file",
      .help = "Shows the first rows of a CSV file.",
      .flags = TOOL_NEEDS_BOX | TOOL_READ_ONLY | TOOL_PROGRAM,
      ROW(read_csv) },
    { .name = "ds:run_python",
      .title = "Analyse with Python",
      .help =
          "Runs Python in the directory of the CSV files, in a fresh process; returns what it printed, variables and "
          "figures.",
      .flags = TOOL_NEEDS_BOX,
      ROW(run_python) },
};

const struct backend backend_ds = { .name = "ds",
                                    .help = "Data science on CSV files.",
                                    .kind = KIND_SESSION,
                                    .tools = ds_tools,
                                    .tool_count = ARRAY_LEN(ds_tools) };

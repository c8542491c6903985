/* Formats of trajectories: what each reader makes of a file, that writing and reading gives the same again, and that no
 * file, however broken, does harm. Files are in tests/unit/data/replay; make runs the tests from the top. */
#include "test.h"

#include <fcntl.h>

#include "base/auto.h"
#include "base/field.h"
#include "replay/filter.h"
#include "replay/format.h"
#include "replay/toolmap.h"

#define auto_arena AUTO(arena_done) struct arena
#define auto_buf   AUTO(buf_done) struct buf
#define DATA       "tests/unit/data/replay/"

static void slurp(const char *path, struct buf *out)
{
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n;

    buf_init(out, 1 << 20);
    while (fd >= 0 && (n = read(fd, buf_room(out, 4096), 4096)) > 0)
        buf_grew(out, (size_t)n);
    if (!out->n) {
        printf("%s: empty or not there\n", path);
        test_failures++;
    }
}

static const struct {
    const char *file, *format;
    size_t trajectories, steps, refused;
} files[] = {
    { DATA "own.json", "sandglass", 1, 8, 0 },
    { DATA "atif.json", "atif", 1, 2, 0 },
    { DATA "openai.jsonl", "openai", 2, 3, 1 },
    { DATA "agentflow.jsonl", "agentflow", 2, 4, 2 },
    { DATA "rollout.jsonl", "agentflow-rollout", 1, 1, 0 },
    { DATA "knowlyr.json", "knowlyr", 1, 6, 1 },
    { DATA "recorder.jsonl", "knowlyr-recorder", 1, 2, 0 },
    { DATA "swe.traj", "swe-agent", 1, 6, 1 },
};

TEST(replay_readers_find_the_format)
{
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        auto_arena a = { 0 };
        auto_buf text = { 0 };
        struct traj_set set = { 0 };
        struct err e = { 0 };
        size_t steps = 0, refused = 0;
        slurp(files[i].file, &text);
        if (traj_read(&a, buf_view(&text), NULL, &set, &e) < 0) {
            printf("%s: %s\n", files[i].file, e.msg);
            test_failures++;
            continue;
        }
        for (size_t k = 0; k < set.n; k++)
            for (size_t s = 0; s < set.v[k].n; s++) {
                steps++;
                refused += set.v[k].steps[s].refused != NULL;
            }
        EXPECT_STR(str_of(set.format->name), files[i].format);
        EXPECT_INT(set.n, files[i].trajectories);
        EXPECT_INT(steps, files[i].steps);
        EXPECT_INT(refused, files[i].refused);
    }
}

static struct traj_set read_file(struct arena *a, const char *path, struct buf *text)
{
    struct traj_set set = { 0 };
    struct err e = { 0 };

    slurp(path, text);
    EXPECT_INT(traj_read(a, buf_view(text), NULL, &set, &e), 0);
    return set;
}

TEST(replay_readers_take_everything)
{
    auto_arena a = { 0 };
    auto_buf text = { 0 }, more = { 0 }, swe = { 0 };
    struct traj_set own = read_file(&a, DATA "own.json", &text), atif = read_file(&a, DATA "atif.json", &more);

    struct traj_step *s = own.v[0].steps;
    EXPECT_STR(own.v[0].id, "t-0123456789abcdef0123");
    EXPECT_STR(own.v[0].worker, "agent-7");
    EXPECT_STR(s[0].params, "{ \"command\" : \"echo \\u0068ello\",\t \"timeout\":3.50 }");
    EXPECT_STR(s[0].out, "hello\n");
    EXPECT_INT(s[3].exit_code, 2);
    EXPECT_STR(s[3].err, "make: *** No targets.  Stop.\n");
    EXPECT_INT(s[4].exit_code, FIELD_ABSENT);
    EXPECT_STR(s[5].outcome, "timeout");
    EXPECT_TRUE(!s[7].trainable);
    EXPECT_INT(s[0].time_us, 1767323041000006);
    EXPECT_INT(traj_time_us(s[0].time), 1767323041000006);

    EXPECT_STR(atif.v[0].steps[0].text, "1"); /* by its call id, not by its place */
    EXPECT_STR(atif.v[0].steps[1].text, "2\n");
    EXPECT_STR(atif.v[0].task, "please");
    EXPECT_STR(atif.v[0].answer, "all done");
    EXPECT_STR(atif.v[0].steps[0].thought, "two");

    struct traj_set traj = read_file(&a, DATA "swe.traj", &swe);
    s = traj.v[0].steps;
    EXPECT_STR(s[0].params, "{\"command\":\"ls -a /workspace\\n\"}");
    EXPECT_STR(s[1].tool, "file:write");
    EXPECT_STR(s[1].params, "{\"path\":\"/tmp/t.py\",\"content\":\"print(\\\"it's\\\")\\n\"}");
    EXPECT_TRUE(s[1].emulated);
    EXPECT_TRUE(s[5].ends);
}

static struct str convert(struct arena *a, const struct trajectory *t, const char *format, const struct write_opts *o)
{
    struct err e = { 0 };
    const struct traj_format *f = format_to_write(format, &e);
    struct buf out;

    buf_init(&out, 1 << 22);
    EXPECT_TRUE(f != NULL);
    if (f)
        f->write(a, t, o, &out);
    EXPECT_TRUE(!out.full);
    struct str text = arena_copy(a, buf_view(&out));
    buf_done(&out);
    return text;
}

static void expect_same_step(const char *format, const struct traj_step *x, const struct traj_step *y)
{
    int before = test_failures;

    EXPECT_STR(y->tool, x->tool.p);
    EXPECT_TRUE(str_eq(y->tool, x->tool));
    EXPECT_TRUE(str_eq(y->params, x->params));
    EXPECT_TRUE(str_eq(y->outcome, x->outcome));
    EXPECT_TRUE(str_eq(y->observation, x->observation));
    EXPECT_INT(y->exit_code, x->exit_code);
    EXPECT_INT(y->step, x->step);
    EXPECT_INT(y->expect, x->expect);
    EXPECT_TRUE(str_eq(y->time, x->time));
    EXPECT_TRUE(str_eq(y->box, x->box));
    EXPECT_TRUE(!y->refused && !y->emulated);
    if (test_failures != before)
        printf("%s, step %lld\n", format, (long long)x->step);
}

TEST(replay_round_trips)
{
    static const char *const formats[] = { "sandglass",         "atif",    "openai",    "agentflow",
                                           "agentflow-rollout", "knowlyr", "swe-agent", "knowlyr-recorder" };
    const struct write_opts o = { 0 };

    for (size_t i = 0; i < ARRAY_LEN(formats); i++) {
        auto_arena a = { 0 };
        auto_buf text = { 0 };
        struct traj_set own = read_file(&a, DATA "own.json", &text), back = { 0 };
        struct err e = { 0 };
        for (size_t k = 0; k < own.v[0].n; k++) {
            struct str tool = arena_copy(&a, own.v[0].steps[k].tool); /* terminated, to be shown */
            own.v[0].steps[k].tool = tool;
        }
        struct str out = convert(&a, &own.v[0], formats[i], &o);
        EXPECT_INT(traj_read(&a, out, NULL, &back, &e), 0);
        if (!back.n || back.v[0].n != own.v[0].n) {
            printf("%s: %s\n", formats[i], e.msg);
            test_failures++;
            continue;
        }
        EXPECT_STR(str_of(back.format->name), formats[i]);
        for (size_t k = 0; k < own.v[0].n; k++)
            expect_same_step(formats[i], &own.v[0].steps[k], &back.v[0].steps[k]);
    }
}

TEST(replay_edited_texts_win)
{
    auto_arena a = { 0 };
    auto_buf text = { 0 };
    const struct write_opts o = { 0 };
    struct traj_set own = read_file(&a, DATA "own.json", &text), back = { 0 };
    struct str out = convert(&a, &own.v[0], "knowlyr", &o);
    char *edited = arena_z(&a, out), *at = strstr(edited, "\"expected_output\":\"hello");
    struct err e = { 0 };

    EXPECT_TRUE(at != NULL);
    if (!at)
        return;
    memcpy(at + 19, "jello", 5);
    EXPECT_INT(traj_read(&a, str_of(edited), NULL, &back, &e), 0);
    EXPECT_INT(back.v[0].steps[0].expect, EXPECT_TEXT);
    EXPECT_STR(back.v[0].steps[0].text, "jello\n");
    EXPECT_INT(back.v[0].steps[2].expect, EXPECT_RESULT);
}

/* Schemas of tools change with the tools: [] in their place. */
static struct str without_tools(struct arena *a, struct str text)
{
    struct json *v = NULL;
    struct err e;

    EXPECT_TRUE(json_parse(a, text, &v, &e) >= 0);
    const struct json *tools =
        json_get(v, "tools") ? json_get(v, "tools") : json_get(json_get(v, "agent"), "tool_definitions");
    if (!tools)
        return text;
    size_t before = (size_t)(tools->raw.p - text.p), behind = before + tools->raw.n;
    return str_join(a, (struct str[]){ { text.p, before }, STR("[]"), { text.p + behind, text.n - behind } }, 3);
}

TEST(replay_golden_files)
{
    static const char *const formats[] = { "atif",    "openai",    "sharegpt",         "agentflow", "agentflow-rollout",
                                           "knowlyr", "swe-agent", "knowlyr-recorder", "sandglass" };
    const struct write_opts o = { .shown_max = 0 };

    for (size_t i = 0; i < ARRAY_LEN(formats); i++) {
        auto_arena a = { 0 };
        auto_buf text = { 0 }, golden = { 0 };
        struct traj_set own = read_file(&a, DATA "own.json", &text);
        struct str out = convert(&a, &own.v[0], formats[i], &o);
        slurp(arena_printf(&a, DATA "golden/%s.json", formats[i]), &golden);
        bool same = str_eq(without_tools(&a, out), without_tools(&a, buf_view(&golden)));
        if (!same)
            printf("%s differs from its golden file; if that is meant: sandglass export " DATA
                   "own.json --format %s -o " DATA "golden/%s.json\n",
                   formats[i], formats[i], formats[i]);
        EXPECT_TRUE(same);
    }
}

TEST(replay_shown_is_cut)
{
    auto_arena a = { 0 };
    auto_buf text = { 0 };
    const struct write_opts o = { .shown_max = 20 };
    struct traj_set own = read_file(&a, DATA "own.json", &text), back = { 0 };
    struct err e = { 0 };
    struct str out = convert(&a, &own.v[0], "openai", &o);

    EXPECT_TRUE(memmem(out.p, out.n, "bytes left out ...]", 19) != NULL);
    EXPECT_TRUE(strstr(out.p, "\"truncation\":{\"rule\":\"head+tail\",\"shown_max\":20}") != NULL);
    EXPECT_INT(traj_read(&a, out, NULL, &back, &e), 0);
    EXPECT_STR(back.v[0].steps[3].err, "make: *** No targets.  Stop.\n"); /* the truth is whole */
    const struct write_opts bare = { .bare = true };
    out = convert(&a, &own.v[0], "openai", &bare);
    EXPECT_TRUE(memmem(out.p, out.n, "sandglass", 9) == NULL);
    EXPECT_INT(traj_read(&a, out, NULL, &back, &e), 0);
    EXPECT_INT(back.v[0].steps[0].expect, EXPECT_TEXT);
    EXPECT_TRUE(str_eq(back.v[0].steps[0].params, own.v[0].steps[0].params));
}

TEST(replay_filters)
{
    static const struct {
        struct traj_filter filter;
        size_t left;
    } cases[] = {
        { { 0 }, 8 },
        { { .outcome = "ok" }, 3 },
        { { .tool = "bash:run" }, 4 },
        { { .trainable = true }, 7 },
        { { .since_us = 1767323043000006 }, 6 },
        { { .until_us = 1767323043000006 }, 2 },
        { { .outcome = "task_error", .tool = "file:read" }, 1 },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        auto_arena a = { 0 };
        auto_buf text = { 0 };
        struct traj_set own = read_file(&a, DATA "own.json", &text);
        traj_filter(&own.v[0], &cases[i].filter);
        EXPECT_INT(own.v[0].n, cases[i].left);
    }
}

/* What it is fed, and what it makes of it: both must be harmless. */
static void read_and_write(struct str text)
{
    auto_arena a = { 0 };
    struct traj_set set = { 0 };
    struct err e = { 0 };
    char *copy = malloc(text.n ? text.n : 1); /* so that a byte behind it is found out */

    memcpy(copy, text.p, text.n);
    if (traj_read(&a, (struct str){ copy, text.n }, NULL, &set, &e) >= 0)
        for (size_t i = 0; i < set.n; i++)
            (void)convert(&a, &set.v[i], "sandglass", &(struct write_opts){ 0 });
    else
        EXPECT_TRUE(e.msg[0] != 0);
    free(copy);
}

TEST(replay_readers_survive_cuts)
{
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        auto_buf text = { 0 };
        slurp(files[i].file, &text);
        for (size_t n = 0; n < text.n; n += n < 64 ? 1 : 13)
            read_and_write((struct str){ text.p, n });
    }
}

/* A value of another kind in every place where a value may be. */
TEST(replay_readers_survive_wrong_types)
{
    static const char *const others[] = { "null", "7", "[]", "{}", "\"x\"", "[[1]]", "{\"steps\":3}" };

    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        auto_buf text = { 0 };
        slurp(files[i].file, &text);
        for (size_t at = 0; at + 1 < text.n; at++) {
            if (text.p[at] != ':')
                continue;
            size_t end = at + 1;
            while (end < text.n && !strchr(",}]\n", text.p[end]))
                end++;
            auto_buf changed = { 0 };
            buf_init(&changed, 1 << 20);
            buf_add(&changed, text.p, at + 1);
            buf_z(&changed, others[at % ARRAY_LEN(others)]);
            buf_add(&changed, text.p + end, text.n - end);
            read_and_write(buf_view(&changed));
        }
    }
}

TEST(replay_readers_refuse)
{
    static const char *const texts[] = { "",
                                         "  ",
                                         "{",
                                         "[]",
                                         "{}",
                                         "3",
                                         "null",
                                         "[1,2]",
                                         "{\"steps\":[]}x",
                                         "\"a\"",
                                         "{\"a\":1}\n{\"b\":2}",
                                         "{\"messages\":[]}",
                                         "{\"schema_version\":\"ATIF-v1.7\"}" };

    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        auto_arena a = { 0 };
        struct traj_set set = { 0 };
        struct err e = { 0 };
        int r = traj_read(&a, str_of(texts[i]), NULL, &set, &e);
        if (r >= 0)
            printf("'%s' was taken\n", texts[i]);
        EXPECT_TRUE(r < 0 && e.msg[0]);
    }
}

TEST(replay_unknown_format)
{
    struct err e = { 0 };

    EXPECT_TRUE(format_to_write("xml", &e) == NULL);
    EXPECT_TRUE(strstr(e.msg, "sharegpt") && strstr(e.msg, "knowlyr-recorder") && strstr(e.msg, "swe-agent"));
}

TEST(replay_toolmap)
{
    static const struct {
        const char *name, *args, *base, *tool, *params;
    } cases[] = {
        { "bash:run", "{\"command\": \"ls\"}", NULL, "bash:run", "{\"command\": \"ls\"}" },
        { "bash_run", "{\"command\": \"ls\"}", NULL, "bash:run", "{\"command\": \"ls\"}" },
        { "shell", "{\"command\":\"ls\",\"timeout\":5,\"work_dir\":\"x\"}", "/workspace", "bash:run",
          "{\"command\":\"ls\",\"cwd\":\"/workspace/x\",\"timeout\":5}" },
        { "file_read", "{\"path\":\"a\"}", NULL, "file:read", "{\"path\":\"a\"}" },
        { "file_read", "{\"path\":\"a\",\"start_line\":0,\"end_line\":0}", NULL, "file:read", "{\"path\":\"a\"}" },
        { "file_read", "{\"path\":\"a\",\"start_line\":2,\"end_line\":3}", "/w", "file:read",
          "{\"path\":\"/w/a\",\"start_line\":2,\"end_line\":3}" },
        { "file_write", "{\"path\":\"/a\",\"content\":\"x\",\"create_dirs\":false}", NULL, "file:write",
          "{\"path\":\"/a\",\"content\":\"x\",\"mkdir\":false}" },
        { "git", "{\"subcommand\":\"log\",\"args\":\"-1 --format='%s'\"}", NULL, "bash:run",
          "{\"command\":\"git log -1 --format='%s'\"}" },
        { "no:such", "{\"a\":1}", NULL, "no:such", "{\"a\":1}" },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        auto_arena a = { 0 };
        struct toolmap m = { .arena = &a, .base = cases[i].base };
        struct traj_step s = { 0 };
        toolmap_text(&m, str_of(cases[i].name), str_of(cases[i].args), &s);
        EXPECT_STR(s.tool, cases[i].tool);
        EXPECT_STR(s.params, cases[i].params);
        EXPECT_TRUE(!s.refused);
        EXPECT_TRUE(str_eq(traj_args(&s), str_of(cases[i].args)));
    }
    auto_arena a = { 0 };
    struct toolmap m = { .arena = &a };
    struct traj_step s = { 0 };
    toolmap_text(&m, STR("teleport"), STR("{}"), &s);
    EXPECT_STR(str_of(s.refused), "no such tool: teleport");
}

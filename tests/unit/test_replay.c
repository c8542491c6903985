/* The divergence engine: what the rules remove, what a comparison finds, and how planted divergences are classified. */
#include "test.h"

#include "base/auto.h"
#include "base/field.h"
#include "replay/canon.h"
#include "replay/cause.h"
#include "replay/diff.h"
#include "replay/run.h"
#include "replay/safe.h"

#define auto_arena AUTO(arena_done) struct arena
#define auto_buf   AUTO(buf_done) struct buf

static void canon_freep(struct canon **c)
{
    canon_free(*c);
}
#define auto_canon AUTO(canon_freep) struct canon

static enum replay_class texts(const struct canon *c, const char *want, const char *got)
{
    auto_arena a = { 0 };
    unsigned rules = 0;

    return compare_texts(c, &a, str_of(want), str_of(got), &rules);
}

TEST(replay_rules_remove)
{
    static const struct {
        const char *rule, *want, *got;
    } cases[] = {
        { "terminal", "\033[31mred\033[0m", "red" },
        { "time", "Mon Nov 16 02:59:13 UTC 2026", "Tue Dec  1 12:00:00 UTC 2026" },
        { "time", "at 2026-01-02T03:04:05.123Z ok", "at 2027-11-22 13:14:15+01:00 ok" },
        { "time", "-rw-r--r-- 1 gem gem 5 Nov 16 02:59 a", "-rw-r--r-- 1 gem gem 5 Dec 17 12:01 a" },
        { "time", "done 02:59:13", "done 12:00:01.5" },
        { "epoch", "1794797953", "1794799999" },
        { "epoch", "1794797953181901", "1794799999000000" },
        { "duration", "== 3 passed in 0.12s ==", "== 3 passed in 11.02s ==" },
        { "duration", "real\t0m0.003s", "real\t1m10.103s" },
        { "duration", "took 0.5 seconds", "took 12 seconds" },
        { "pid", "started with pid 17", "started with pid 2301" },
        { "pid", "[1] 123", "[1] 9" },
        { "pid", "==12==ERROR", "==99==ERROR" },
        { "temporary", "/tmp/tmp.u8Hy2lZVR5", "/tmp/tmp.abcdefghij" },
        { "temporary", "/tmp/tmpab12cd_x", "/tmp/tmpzzzzzzzz" },
        { "temporary-name", "/tmp/build.Xy12zz/o", "/tmp/build.Qr77ab/o" },
        { "address", "<object at 0x7f12a4b3c910>", "<object at 0x55d0c0ffee00>" },
        { "network", "from 10.0.0.5:4242", "from 172.17.0.9:51000" },
        { "network", "listening on port 40123", "listening on port 39999" },
        { "uuid", "f81d4fae-7dec-11d0-a765-00a0c91e6bf6", "01234567-89ab-cdef-0123-456789abcdef" },
        { "id", "box b-ji34356pbsyz5cyq", "box b-aaaabbbbccccdddd" },
        { "commit", "[main 1a2b3c4] fix", "[main 9f8e7d6] fix" },
        { "commit", "commit 0123456789012345678901234567890123456789",
          "commit abcdefabcdabcdefabcdabcdefabcdabcdefabcd" },
        { "commit-short", "1bf47c1 hi", "3f65976 hi" },
        { "hash-order", "{'2', '0', 'a, b'}", "{'a, b', '0', '2'}" },
        { "machine", " 00:39:05 up 15 min,  0 user,  load average: 1.69, 0.88, 0.57",
          " 00:39:05 up 3 days, 17:02,  2 users,  load average: 0.01, 0.08, 0.07" },
        { "machine", "0.52 0.58 0.59 1/467 12345", "11.52 0.58 0.59 3/1467 99" },
        { "machine", "Mem:        24682416     1184944    21826068", "Mem:        24682416      714800    21904132" },
        { "machine", "Mem:            23Gi       1.1Gi        20Gi", "Mem:            23Gi       714Mi        21Gi" },
        { "machine", "MemFree:        21826068 kB", "MemFree:          904132 kB" },
        { "machine", "dr-xr-xr-x 162 nobody nogroup    0 Nov 18 00:39 proc",
          "dr-xr-xr-x 1034 nobody nogroup    0 Nov 18 00:39 proc" },
        { "machine", "drwxr-xr-x   2 root   root    80 run", "drwxr-xr-x    2 root   root    80 run" },
        { "space", "a  \nb", "a\nb\t" },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct err e;
        auto_canon *c = canon_new();
        enum replay_class on = texts(c, cases[i].want, cases[i].got);
        EXPECT_INT(canon_switch(c, cases[i].rule, false, &e), 0);
        enum replay_class off = texts(c, cases[i].want, cases[i].got);
        if (on != CLASS_BENIGN || off != CLASS_DIVERGED)
            printf("rule %s: '%s'\n", cases[i].rule, cases[i].want);
        EXPECT_INT(on, CLASS_BENIGN);
        EXPECT_INT(off, CLASS_DIVERGED);
    }
}

TEST(replay_rules_keep)
{
    static const struct {
        const char *want, *got;
    } cases[] = {
        { "3 passed", "2 passed" },
        { "a.py:12:5: error", "a.py:13:5: error" },
        { "numpy 1.26.4", "numpy 2.0.1" },
        { "4a1e67f2fe1d1cc7b31d0ca2ec441da4778203a036a77da10344c85e24ff0f92  a",
          "5a1e67f2fe1d1cc7b31d0ca2ec441da4778203a036a77da10344c85e24ff0f92  a" },
        { "/tmp/input.txt", "/tmp/output.txt" },
        { "1048576 big", "1048577 big" },
        { "port", "export" },
        { "a\nb\n", "b\na\n" },
        { "a\n", "a\na\n" },
        { "", "x" },
        { "23748", "7958" },
        { "drwxr-xr-x 3 gem gem 80 src", "drwxr-xr-x 2 gem gem 80 src" },
        { "-rw-r--r-- 1 gem gem 80 a  b", "-rw-r--r-- 1 gem gem 80 a b" },
        { "-rw-r--r-- 1 gem gem 80 proc", "-rw-r--r-- 1 gem gem 81 proc" },
        { "size: 12 kB", "size: 13 kB" },
        { "load: 12", "load: 13" },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        auto_canon *c = canon_new();
        enum replay_class got = texts(c, cases[i].want, cases[i].got);
        if (got != CLASS_DIVERGED)
            printf("'%s'\n", cases[i].want);
        EXPECT_INT(got, CLASS_DIVERGED);
        EXPECT_INT(texts(c, cases[i].want, cases[i].want), CLASS_IDENTICAL);
    }
}

TEST(replay_rules_user)
{
    auto_canon *c = canon_new();
    struct err e = { 0 };

    EXPECT_INT(texts(c, "build 17 ok", "build 18 ok"), CLASS_DIVERGED);
    EXPECT_INT(canon_ignore(c, "build [0-9]+", &e), 0);
    EXPECT_INT(texts(c, "build 17 ok", "build 18 ok"), CLASS_BENIGN);
    EXPECT_INT(canon_ignore(c, "^debug: .*", &e), 0);
    EXPECT_INT(texts(c, "a\ndebug: x\nb", "a\nb"), CLASS_BENIGN); /* a line that is ignored whole is not there */
    EXPECT_TRUE(canon_ignore(c, "(", &e) < 0);
    EXPECT_TRUE(strstr(e.msg, "regular expression") != NULL);
    EXPECT_TRUE(canon_switch(c, "nosuch", true, &e) < 0);
    EXPECT_INT(e.code, ERR_NOT_FOUND);
    EXPECT_INT(canon_switch(c, "line-order", true, &e), 0);
    EXPECT_INT(texts(c, "a\nb\nc", "c\na\nb"), CLASS_BENIGN);
    EXPECT_INT(texts(c, "a\nb\nc", "c\na\na"), CLASS_DIVERGED);
    EXPECT_INT(texts(c, "x\n", "\0\n"), CLASS_DIVERGED);
    canon_hint(c, STR("{\"command\":\"git log\"}"));
    EXPECT_INT(texts(c, "1234567 hi", "7654321 hi"), CLASS_BENIGN);
    EXPECT_INT(texts(c, "started 17", "started 23"), CLASS_DIVERGED);
    canon_hint(c, STR("{\"command\":\"sleep 9 & echo started $!\"}"));
    EXPECT_INT(texts(c, "started 17", "started 23"), CLASS_BENIGN);
    EXPECT_INT(texts(c, "started 17", "stopped 23"), CLASS_DIVERGED);
}

static void expect_diff(const char *want, const char *got, const char *diff)
{
    auto_arena a = { 0 };
    auto_canon *c = canon_new();
    auto_buf out = { 0 };

    buf_init(&out, 1 << 16);
    diff_unified(c, &a, str_of(want), str_of(got), &out);
    EXPECT_STR(buf_view(&out), diff);
}

TEST(replay_diff)
{
    expect_diff("a\nb\n", "a\nb\n", "");
    expect_diff("a\nb\nc\n", "a\nx\nc\n", "--- recorded\n+++ replayed\n@@ -1,3 +1,3 @@\n a\n-b\n+x\n c\n");
    expect_diff("", "x\n", "--- recorded\n+++ replayed\n@@ -0,0 +1,2 @@\n+x\n+\n");
    /* lines that only differ in a time are equal, and context is short */
    expect_diff("1\n2\n3\n02:03:04\n5\n6\n7\n8\n", "1\n2\n3\n12:13:14\n5\n7\n8\n",
                "--- recorded\n+++ replayed\n@@ -4,5 +4,4 @@\n 12:13:14\n 5\n-6\n 7\n 8\n");
    expect_diff("a\nb\nc\nd\ne\nf\ng\nh\n", "A\nb\nc\nd\ne\nf\ng\nH\n",
                "--- recorded\n+++ replayed\n@@ -1,3 +1,3 @@\n-a\n+A\n b\n c\n@@ -6,3 +6,3 @@\n f\n g\n-h\n+H\n");
}

TEST(replay_diff_is_capped)
{
    auto_arena a = { 0 };
    auto_canon *c = canon_new();
    auto_buf x = { 0 }, y = { 0 }, out = { 0 };

    buf_init(&x, 1 << 20);
    buf_init(&y, 1 << 20);
    buf_init(&out, 1 << 20);
    for (int i = 0; i < 5000; i++) {
        buf_printf(&x, "x%d\n", i);
        buf_printf(&y, "y%d\n", i);
    }
    diff_unified(c, &a, buf_view(&x), buf_view(&y), &out);
    EXPECT_TRUE(memmem(out.p, out.n, "... 9960 more lines", 19) != NULL);
}

TEST(replay_only_reads)
{
    static const char *const yes[] = { "date",
                                       "echo $RANDOM",
                                       "ls -l | wc -l",
                                       "cat a; head -3 b 2>/dev/null",
                                       "git status --short",
                                       "grep -r 'a > b' .",
                                       "echo hi 2>&1",
                                       "" };
    static const char *const no[] = {
        "rm x",          "echo a > b",   "ls; rm x",    "echo $(rm x)",     "echo `rm x`",
        "git commit",    "python3 x.py", "cat <(rm x)", "FOO=1 rm x",       "echo 'a\\'; rm x; echo '",
        "ls && touch b", "sort -o a b",  "(rm x)",      "echo \"$(rm x)\"", "'ls",
        "ls\nrm x"
    };

    for (size_t i = 0; i < ARRAY_LEN(yes); i++) {
        if (!command_only_reads(str_of(yes[i])))
            printf("'%s'\n", yes[i]);
        EXPECT_TRUE(command_only_reads(str_of(yes[i])));
    }
    for (size_t i = 0; i < ARRAY_LEN(no); i++) {
        if (command_only_reads(str_of(no[i])))
            printf("'%s'\n", no[i]);
        EXPECT_TRUE(!command_only_reads(str_of(no[i])));
    }
}

/* --- comparing steps --- */

static struct traj_step result(struct arena *a, const char *answer)
{
    struct traj_step s = { .tool = STR("bash:run"), .params = STR("{}"), .exit_code = FIELD_ABSENT };
    struct json *v;
    struct err e;

    EXPECT_TRUE(json_parse(a, str_of(answer), &v, &e) >= 0);
    traj_result(&s, v);
    return s;
}

static struct verdict compare(struct arena *a, const char *want, const char *got)
{
    auto_canon *c = canon_new();
    struct traj_step x = result(a, want), y = result(a, got);
    struct verdict v;

    compare_step(c, a, &x, &y, &v);
    return v;
}

TEST(replay_root_that_is_not_known_yet_is_no_difference)
{
    static const char known[] = "{\"outcome\":\"ok\",\"data\":{\"restored\":\"s-1\",\"root\":\"sha256:aa\"}}";
    static const char other[] = "{\"outcome\":\"ok\",\"data\":{\"restored\":\"s-1\",\"root\":\"sha256:bb\"}}";
    static const char pending[] = "{\"outcome\":\"ok\",\"data\":{\"restored\":\"s-1\",\"root\":null}}";
    auto_arena a = { 0 };

    EXPECT_INT(compare(&a, pending, known).class, CLASS_IDENTICAL);
    EXPECT_INT(compare(&a, known, pending).class, CLASS_IDENTICAL);
    EXPECT_INT(compare(&a, known, other).class, CLASS_DIVERGED);
}

TEST(replay_compare_fields)
{
    auto_arena a = { 0 };
    struct verdict v;

    v = compare(
        &a, "{\"outcome\":\"ok\",\"data\":{\"stdout\":\"a\",\"exit_code\":0,\"stdout_bytes\":1,\"pid\":7}}",
        "{\"outcome\":\"ok\",\"data\":{\"stdout\":\"a\",\"exit_code\":0,\"stdout_bytes\":9,\"pid\":8,\"new\":1}}");
    EXPECT_INT(v.class, CLASS_IDENTICAL);
    v = compare(&a, "{\"outcome\":\"ok\",\"data\":{\"stdout\":\"a\",\"exit_code\":0}}",
                "{\"outcome\":\"task_error\",\"data\":{\"stdout\":\"a\",\"exit_code\":1}}");
    EXPECT_INT(v.class, CLASS_DIVERGED);
    EXPECT_TRUE(v.ends_differently);
    EXPECT_STR(v.field, "exit_code");
    v = compare(&a, "{\"outcome\":\"ok\",\"data\":{\"content\":\"at 10:00:00\",\"size\":11}}",
                "{\"outcome\":\"ok\",\"data\":{\"content\":\"at 9:00:00\",\"size\":10}}");
    EXPECT_INT(v.class, CLASS_BENIGN);
    v = compare(&a,
                "{\"outcome\":\"ok\",\"data\":{\"entries\":[{\"name\":\"a\",\"size\":1,\"mtime\":1.5},{\"name\":\"b\","
                "\"size\":2}]}}",
                "{\"outcome\":\"ok\",\"data\":{\"entries\":[{\"name\":\"a\",\"size\":1,\"mtime\":9.5},{\"name\":\"b\","
                "\"size\":3}]}}");
    EXPECT_INT(v.class, CLASS_DIVERGED);
    EXPECT_STR(v.field, "entries[1].size");
    v = compare(&a, "{\"outcome\":\"task_error\",\"message\":\"read /a: no\",\"data\":null}",
                "{\"outcome\":\"task_error\",\"message\":\"read /b: no\",\"data\":null}");
    EXPECT_STR(v.field, "message");
    v = compare(&a, "{\"outcome\":\"box_lost\",\"data\":null}", "{\"outcome\":\"ok\",\"data\":{\"stdout\":\"x\"}}");
    EXPECT_INT(v.class, CLASS_UNCHECKED);
    v = compare(&a, "{\"outcome\":\"ok\",\"data\":{\"cwd\":\"/a\"}}", "{\"outcome\":\"ok\",\"data\":{}}");
    EXPECT_STR(v.field, "cwd");
    v = compare(&a, "{\"outcome\":\"ok\",\"data\":{\"stdout\":\"x\"},\"blobs\":{\"stdout\":{\"hash\":\"1\"}}}",
                "{\"outcome\":\"ok\",\"data\":{\"stdout\":\"x\"},\"blobs\":{\"stdout\":{\"hash\":\"2\"}}}");
    EXPECT_STR(v.field, "blobs");
}

/* --- whole replays, with results out of a table --- */

struct plan {
    const char *command;
    const char *recorded; /* stdout then */
    const char *now[3];   /* stdout of the first run, of the second ... ; the last one stays */
    const char *err;      /* stderr now */
    int code, code_now;
    const char *outcome; /* now; NULL: ok or task_error by the code */
};
struct fake {
    const struct plan *plans;
    int runs[16], scratch_runs;
};

static struct str answer(struct arena *a, const char *out, const char *err, int code, const char *outcome)
{
    auto_buf b = { 0 };
    struct jw w = { .out = &b };

    buf_init(&b, 1 << 16);
    jw_obj(&w);
    jw_kz(&w, "outcome", outcome ? outcome : code ? "task_error" : "ok");
    jw_key(&w, "data");
    jw_obj(&w);
    jw_kz(&w, "stdout", out);
    jw_kz(&w, "stderr", err ? err : "");
    jw_kint(&w, "exit_code", code);
    jw_obj_end(&w);
    jw_obj_end(&w);
    return arena_copy(a, buf_view(&b));
}

static int fake_call(void *arg, enum replay_world w, const struct traj_step *s, struct arena *a, struct traj_step *got,
                     struct err *e)
{
    struct fake *f = arg;
    const struct plan *p = &f->plans[s->step - 1];
    int run = f->runs[s->step - 1]++;
    struct json *v;

    f->scratch_runs += w == WORLD_SCRATCH;
    while (run > 0 && !p->now[run])
        run--;
    json_parse(a, answer(a, p->now[run], p->err, p->code_now, p->outcome), &v, e);
    traj_result(got, v);
    return 0;
}

static void plan_step(struct arena *a, struct trajectory *t, const struct plan *p)
{
    struct traj_step *s = traj_add(a, t);
    auto_buf b = { 0 };
    struct jw w = { .out = &b };
    struct json *v;

    buf_init(&b, 1 << 16);
    jw_obj(&w);
    jw_kz(&w, "command", p->command);
    jw_obj_end(&w);
    s->tool = STR("bash:run");
    s->params = arena_copy(a, buf_view(&b));
    json_parse(a, answer(a, p->recorded, "", p->code, NULL), &v, NULL);
    traj_result(s, v);
}

static struct replay_result replay(struct arena *a, const struct plan *plans, size_t n, bool scratch, struct fake *ret)
{
    auto_canon *c = canon_new();
    struct fake f = { .plans = plans };
    struct replay_ops ops = { .arg = &f, .call = fake_call, .has_scratch = scratch };
    struct trajectory t;
    struct replay_result r;
    struct err e = { 0 };

    traj_init(&t);
    for (size_t i = 0; i < n; i++)
        plan_step(a, &t, &plans[i]);
    EXPECT_INT(replay_run(&t, c, &ops, a, &r, &e), 0);
    *ret = f;
    return r;
}

TEST(replay_planted_divergences)
{
    static const struct {
        struct plan plan;
        enum replay_class class;
        const char *cause;
        bool matters;
    } cases[] = {
        { { "echo a", "a\n", { "a\n" } }, CLASS_IDENTICAL, "", false },
        { { "date", "Mon Nov 16 02:59:13 UTC 2026\n", { "Tue Nov 17 02:59:13 UTC 2026\n" } }, CLASS_BENIGN, "", false },
        { { "date +%N", "123456\n", { "777\n", "888\n" } }, CLASS_NONDETERMINISTIC, "clock", false },
        { { "echo $RANDOM", "5\n", { "6\n", "7\n" } }, CLASS_NONDETERMINISTIC, "random numbers", false },
        { { "flaky", "ok\n", { "bad\n", "ok\n" } },
          CLASS_NONDETERMINISTIC,
          "random numbers, scheduling or the clock",
          false },
        { { "frob", "fine\n", { "" }, "bash: frob: command not found\n", 0, 127 },
          CLASS_DIVERGED,
          "missing program: frob",
          true },
        { { "curl x", "page\n", { "" }, "curl: (6) Could not resolve host: x\n", 0, 6 },
          CLASS_DIVERGED,
          "network denied",
          true },
        { { "curl x", "page\n", { "" }, "", 0, 1, "egress_denied" }, CLASS_DIVERGED, "network denied", true },
        { { "pip list", "numpy 1.26.4\n", { "numpy 2.0.1\n" } },
          CLASS_DIVERGED,
          "changed dependency: another version",
          true },
        { { "python3 a.py", "1\n", { "" }, "ModuleNotFoundError: No module named 'x'\n", 0, 1 },
          CLASS_DIVERGED,
          "changed dependency: ModuleNotFoundError: No module named 'x'",
          true },
        { { "ls", "a\nb\n", { "b\na\n" } }, CLASS_DIVERGED, "order of lines", true },
        { { "shuf x", "a\nb\nc\n", { "b\na\nc\n", "c\na\nb\n" } }, CLASS_NONDETERMINISTIC, "order of lines", false },
        { { "make", "ok\n", { "" }, "", 0, 0, "box_lost" }, CLASS_DIVERGED, "the sandbox failed, not the step", true },
        { { "cat f", "new text\n", { "old text\n" } }, CLASS_DIVERGED, "", true },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        auto_arena a = { 0 };
        struct plan plans[3] = { { "true", "", { "" } }, cases[i].plan, { "true", "", { "" } } };
        struct fake f;
        struct replay_result r = replay(&a, plans, 3, true, &f);
        struct replay_step *s = &r.steps[1];
        if (s->verdict.class != cases[i].class)
            printf("%s: %s\n", cases[i].plan.command, class_name(s->verdict.class));
        EXPECT_INT(s->verdict.class, cases[i].class);
        EXPECT_STR(s->cause.p ? s->cause : STR(""), cases[i].cause);
        EXPECT_INT(r.success, !cases[i].matters);
        EXPECT_INT(r.divergence_step, cases[i].matters ? 1 : -1);
        EXPECT_INT(r.completed, 3);
        EXPECT_INT(f.runs[1], cases[i].class >= CLASS_NONDETERMINISTIC ? 2 : 1);
    }
}

TEST(replay_without_scratch_runs_only_readers_again)
{
    auto_arena a = { 0 };
    struct plan plans[] = { { "echo $RANDOM", "1\n", { "2\n", "3\n" } }, { "./roll >> log", "1\n", { "2\n", "3\n" } } };
    struct fake f;
    struct replay_result r = replay(&a, plans, 2, false, &f);

    EXPECT_INT(r.steps[0].verdict.class, CLASS_NONDETERMINISTIC);
    EXPECT_INT(r.steps[1].verdict.class, CLASS_DIVERGED);
    EXPECT_TRUE(strstr(r.steps[1].again, "not run again") != NULL);
    EXPECT_INT(f.runs[1], 1);
    EXPECT_INT(f.scratch_runs, 0);
}

TEST(replay_scratch_catches_up)
{
    auto_arena a = { 0 };
    struct plan plans[] = {
        { "a", "", { "" } }, { "b", "1\n", { "2\n" } }, { "c", "", { "" } }, { "d", "1\n", { "2\n" } }
    };
    struct fake f;
    struct replay_result r = replay(&a, plans, 4, true, &f);

    EXPECT_INT(r.counts[CLASS_DIVERGED], 2);
    EXPECT_INT(f.scratch_runs, 4); /* each step once: a b, then c d */
    EXPECT_TRUE(r.match == 0.5);
}

TEST(replay_result_as_json)
{
    auto_arena a = { 0 };
    auto_buf b = { 0 };
    struct jw w = { .out = &b };
    struct plan plans[] = { { "a", "x\n", { "x\n" } },
                            { "frob", "1\n", { "" }, "sh: frob: command not found\n", 0, 127 } };
    struct fake f;
    struct replay_result r = replay(&a, plans, 2, true, &f);
    struct json *v;
    struct err e;

    buf_init(&b, 1 << 16);
    jw_obj(&w);
    replay_print(&w, &a, &r);
    jw_obj_end(&w);
    EXPECT_TRUE(json_parse(&a, buf_view(&b), &v, &e) >= 0);
    EXPECT_TRUE(!json_get_bool(v, "success", true));
    EXPECT_INT(json_get_int(v, "total_steps", 0), 2);
    EXPECT_INT(json_get_int(v, "completed_steps", 0), 2);
    EXPECT_INT(json_get_int(v, "divergence_step", 0), 1);
    const struct json *first = json_get(v, "details")->first, *second = first->next;
    EXPECT_STR(json_get_str(first, "output_preview"), "x\n");
    EXPECT_TRUE(!json_get_bool(first, "diverged", true));
    EXPECT_STR(json_get_str(second, "tool_name"), "bash:run");
    EXPECT_INT(json_get_int(second, "exit_code", 0), 127);
    EXPECT_TRUE(json_get_bool(second, "diverged", false));
    EXPECT_STR(json_get_str(second, "cause"), "missing program: frob");
    EXPECT_INT(json_get_int(json_get(v, "counts"), "diverged", 0), 1);
}

/* One table: what it accepts, what it says when it does not, and that its packed form survives hostile bytes. */
#include "test.h"

#include <math.h>
#include <stdlib.h>

#include "base/auto.h"
#include "base/field.h"

#define auto_arena AUTO(arena_done) struct arena
#define auto_buf   AUTO(buf_done) struct buf

struct edit {
    struct str old_text;
    int64_t count;
    struct strs tags;
};
static const struct field edit_fields[] = {
    FIELD(STR, struct edit, old_text, "what", .required = true),
    FIELD(INT, struct edit, count, "how often", .def = 1),
    FIELD(STRS, struct edit, tags, "words"),
    { 0 },
};

struct all {
    struct str command, mode, body, extra;
    int64_t timeout, after;
    double rate, ratio;
    bool force, keep;
    struct strs args;
    struct pairs env;
    struct rows edits;
};
static const struct field all_fields[] = {
    FIELD(STR, struct all, command, "what to run", .required = true, .max = 20),
    FIELD(STR, struct all, mode, "how", .choices = "fast|slow", .def_str = "fast"),
    FIELD(BYTES, struct all, body, "bytes", .max = 4),
    FIELD(JSON, struct all, extra, "anything"),
    FIELD(INT, struct all, timeout, "ms", .def = 1000, .min = 1, .max = 86400000, .alias = "timeout_ms"),
    FIELD(INT, struct all, after, "cursor", .def = FIELD_ABSENT),
    FIELD(NUM, struct all, rate, "per second", .min = 0.5, .max = 2, .def_num = 1),
    FIELD(NUM, struct all, ratio, "of two", .def_num = (double)NAN),
    FIELD(BOOL, struct all, force, "yes"),
    FIELD(BOOL, struct all, keep, "yes", .def = 1),
    FIELD(STRS, struct all, args, "words", .max = 3),
    FIELD(PAIRS, struct all, env, "variables", .max = 2),
    FIELD(ROWS, struct all, edits, "changes", .rows = edit_fields, .row_size = sizeof(struct edit), .max = 2),
    { 0 },
};

static const char full_text[] =
    "{\"command\":\"ls\",\"mode\":\"slow\",\"body\":\"AP8=\",\"extra\":{ \"x\": [1] },\"timeout\":30.0,\"after\":-7,"
    "\"rate\":2,\"ratio\":0.25,\"force\":true,\"keep\":false,\"args\":[\"a\",\"\"],\"env\":{\"A\":\"1\",\"B\":\"\"},"
    "\"edits\":[{\"old_text\":\"o\",\"count\":3,\"tags\":\"one\"},{\"old_text\":\"\"}]}";

static int bind(struct arena *a, const char *text, struct all *out, struct buf *ignored, struct err *e)
{
    struct json *v;
    int r = json_parse(a, str_of(text), &v, e);

    memset(out, 0x5A, sizeof *out); /* the callee zeroes */
    return r < 0 ? r : field_bind(all_fields, v, a, out, ignored, e);
}

static void bind_ok(struct arena *a, const char *text, struct all *out)
{
    struct err e = { 0 };

    if (bind(a, text, out, NULL, &e) < 0) {
        test_failures++;
        printf("%s: %s\n", text, e.msg);
    }
}

static struct str print(struct arena *a, const struct field *fields, const void *in)
{
    auto_buf b;
    struct jw w = { .out = &b };

    buf_init(&b, 100000);
    jw_obj(&w);
    field_print(fields, in, &w);
    jw_obj_end(&w);
    return arena_copy(a, buf_view(&b));
}

TEST(field_binds_every_type)
{
    auto_arena a = { 0 };
    struct all p;

    bind_ok(&a, full_text, &p);
    EXPECT_STR(p.command, "ls");
    EXPECT_STR(p.mode, "slow");
    EXPECT_TRUE(str_eq(p.body, (struct str){ "\0\xff", 2 }));
    EXPECT_STR(p.extra, "{ \"x\": [1] }");
    EXPECT_INT(p.timeout, 30);
    EXPECT_INT(p.after, -7);
    EXPECT_TRUE(p.rate == 2 && p.ratio == 0.25);
    EXPECT_INT(p.force, true);
    EXPECT_INT(p.keep, false);
    EXPECT_INT(p.args.n, 2);
    EXPECT_STR(p.args.v[0], "a");
    EXPECT_INT(p.env.n, 2);
    EXPECT_STR(p.env.v[0].name, "A");
    EXPECT_STR(p.env.v[0].value, "1");
    EXPECT_INT(p.edits.n, 2);
    const struct edit *edits = p.edits.v;
    EXPECT_STR(edits[0].old_text, "o");
    EXPECT_INT(edits[0].count, 3);
    EXPECT_INT(edits[0].tags.n, 1);
    EXPECT_STR(edits[0].tags.v[0], "one");
    EXPECT_INT(edits[1].count, 1);
}

TEST(field_absent_values_take_their_defaults)
{
    static const char *const texts[] = {
        "{\"command\":\"\"}",
        "{\"command\":\"\",\"mode\":null,\"body\":null,\"extra\":null,\"timeout\":null,\"after\":null,\"rate\":null,"
        "\"ratio\":null,\"force\":null,\"keep\":null,\"args\":null,\"env\":null,\"edits\":null}",
    };

    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        auto_arena a = { 0 };
        struct all p;
        bind_ok(&a, texts[i], &p);
        EXPECT_TRUE(p.command.p && p.command.n == 0);
        EXPECT_STR(p.mode, "fast");
        EXPECT_TRUE(!p.body.p && !p.extra.p);
        EXPECT_INT(p.timeout, 1000);
        EXPECT_INT(p.after, FIELD_ABSENT);
        EXPECT_TRUE(p.rate == 1 && isnan(p.ratio));
        EXPECT_INT(p.force, false);
        EXPECT_INT(p.keep, true);
        EXPECT_INT(p.args.n + p.env.n + p.edits.n, 0);
    }
}

TEST(field_errors_name_the_field_the_value_and_what_is_allowed)
{
    static const struct {
        const char *members;
        enum err_code code;
        const char *msg;
    } cases[] = {
        { "\"timeout\":90000000", ERR_INVALID, "timeout: 90000000 is above the maximum 86400000" },
        { "\"timeout\":0", ERR_INVALID, "timeout: 0 is below the minimum 1" },
        { "\"timeout\":1e30", ERR_INVALID, "timeout: 1e30 is above the maximum 86400000" },
        { "\"timeout\":1.5", ERR_TYPE, "timeout: expected integer, got 1.5" },
        { "\"timeout\":\"30\"", ERR_TYPE, "timeout: expected integer, got string" },
        { "\"after\":9223372036854775808", ERR_INVALID,
          "after: 9223372036854775808 is above the maximum 9223372036854775807" },
        { "\"after\":-9223372036854775808", ERR_INVALID,
          "after: -9223372036854775808 is below the minimum -9223372036854775807" },
        { "\"rate\":2.5", ERR_INVALID, "rate: 2.5 is above the maximum 2" },
        { "\"rate\":-1", ERR_INVALID, "rate: -1 is below the minimum 0.5" },
        { "\"rate\":true", ERR_TYPE, "rate: expected number, got boolean" },
        { "\"force\":1", ERR_TYPE, "force: expected boolean, got integer" },
        { "\"force\":\"true\"", ERR_TYPE, "force: expected boolean, got string" },
        { "\"mode\":\"medium\"", ERR_INVALID, "mode: \"medium\" is not one of fast|slow" },
        { "\"mode\":\"\"", ERR_INVALID, "mode: \"\" is not one of fast|slow" },
        { "\"mode\":\"fast|slow\"", ERR_INVALID, "mode: \"fast|slow\" is not one of fast|slow" },
        { "\"mode\":[]", ERR_TYPE, "mode: expected string, got array" },
        { "\"body\":\"A\"", ERR_INVALID, "body: \"A\" is not base64" },
        { "\"body\":\"AAAAAAA=\"", ERR_LIMIT, "body: 5 bytes are above the maximum of 4 bytes" },
        { "\"args\":[\"a\",1]", ERR_TYPE, "args[1]: expected string, got integer" },
        { "\"args\":{}", ERR_TYPE, "args: expected array of strings, got object" },
        { "\"args\":[\"\",\"\",\"\",\"\"]", ERR_LIMIT, "args: 4 entries are above the maximum of 3" },
        { "\"env\":{\"A\":null}", ERR_TYPE, "env.A: expected string, got null" },
        { "\"env\":[]", ERR_TYPE, "env: expected object of strings, got array" },
        { "\"env\":{\"A\":\"\",\"B\":\"\",\"C\":\"\"}", ERR_LIMIT, "env: 3 entries are above the maximum of 2" },
        { "\"edits\":{}", ERR_TYPE, "edits: expected array of objects, got object" },
        { "\"edits\":[{\"old_text\":\"\"},7]", ERR_TYPE, "edits[1]: expected object, got integer" },
        { "\"edits\":[{}]", ERR_MISSING, "edits[0]: old_text: required string is missing" },
        { "\"edits\":[{\"old\":1}]", ERR_INVALID, "edits[0]: old: unknown parameter (known: old_text, count, tags)" },
        { "\"edits\":[{},{},{}]", ERR_LIMIT, "edits: 3 entries are above the maximum of 2" },
        { "\"timeout\":1,\"timeout_ms\":2", ERR_INVALID, "timeout: given twice, the second time as timeout_ms" },
        { "\"tiemout\":1", ERR_INVALID,
          "tiemout: unknown parameter (known: command, mode, body, extra, timeout, after, rate, ratio, force, keep, "
          "args, "
          "env, edits)" },
        { "\"new\\nline\":1", ERR_INVALID,
          "new?line: unknown parameter (known: command, mode, body, extra, timeout, after, rate, ratio, force, keep, "
          "args, "
          "env, edits)" },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        auto_arena a = { 0 };
        struct err e = { 0 };
        struct all p;
        EXPECT_TRUE(bind(&a, arena_printf(&a, "{\"command\":\"ls\",%s}", cases[i].members), &p, NULL, &e) < 0);
        EXPECT_INT(e.code, cases[i].code);
        EXPECT_STR(str_of(e.msg), cases[i].msg);
    }
}

TEST(field_required_means_present_and_of_the_type)
{
    static const struct {
        const char *text;
        enum err_code code;
        const char *msg;
    } cases[] = {
        { "{}", ERR_MISSING, "command: required string is missing" },
        { "{\"command\":null}", ERR_TYPE, "command: expected string, got null" },
        { "{\"command\":\"123456789012345678901\"}", ERR_LIMIT, "command: 21 bytes are above the maximum of 20 bytes" },
        { "[]", ERR_TYPE, "expected object, got array" },
        { "5", ERR_TYPE, "expected object, got integer" },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        auto_arena a = { 0 };
        struct err e = { 0 };
        struct all p;
        EXPECT_TRUE(bind(&a, cases[i].text, &p, NULL, &e) < 0);
        EXPECT_INT(e.code, cases[i].code);
        EXPECT_STR(str_of(e.msg), cases[i].msg);
    }
    auto_arena a = { 0 };
    struct edit p;
    EXPECT_TRUE(field_bind(edit_fields, NULL, &a, &p, NULL, NULL) < 0);
}

TEST(field_integers_take_integral_numbers)
{
    static const struct {
        const char *text;
        int64_t i;
    } cases[] = { { "30", 30 }, { "30.0", 30 }, { "3e1", 30 }, { "-2.5e1", -25 }, { "1e18", 1000000000000000000 } };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        auto_arena a = { 0 };
        struct all p;
        bind_ok(&a, arena_printf(&a, "{\"command\":\"\",\"after\":%s}", cases[i].text), &p);
        EXPECT_INT(p.after, cases[i].i);
    }
}

TEST(field_alias_is_a_second_name)
{
    auto_arena a = { 0 };
    struct all p;

    bind_ok(&a, "{\"command\":\"\",\"timeout_ms\":5}", &p);
    EXPECT_INT(p.timeout, 5);
}

TEST(field_long_client_text_is_cut_at_a_character)
{
    auto_arena a = { 0 };
    struct err e = { 0 };
    struct all p;
    char key[202] = "";

    for (size_t i = 0; i < 200; i += 2)
        memcpy(key + i, "\xc3\xa9", 2);
    EXPECT_TRUE(bind(&a, arena_printf(&a, "{\"x%s\":1}", key), &p, NULL, &e) < 0);
    EXPECT_TRUE(utf8_ok(str_of(e.msg)));
    EXPECT_TRUE(strstr(e.msg, "\xc3\xa9...: unknown parameter (known: command, mode"));
}

TEST(field_ignored_keys_are_listed_as_json_strings)
{
    auto_arena a = { 0 };
    auto_buf ignored;
    struct all p;

    buf_init(&ignored, 1000);
    EXPECT_INT(
        bind(&a, "{\"x\":1,\"command\":\"c\",\"q\\\"\":2,\"edits\":[{\"old_text\":\"\",\"z\":3}]}", &p, &ignored, NULL),
        0);
    EXPECT_STR(p.command, "c");
    EXPECT_STR(buf_view(&ignored), "\"x\",\"q\\\"\",\"z\"");
}

TEST(field_print_reads_back)
{
    auto_arena a = { 0 };
    struct all p, q;

    bind_ok(&a, full_text, &p);
    struct str text = print(&a, all_fields, &p);
    EXPECT_STR(text, "{\"command\":\"ls\",\"mode\":\"slow\",\"body\":\"AP8=\",\"extra\":{ \"x\": [1] },\"timeout\":30,"
                     "\"after\":-7,\"rate\":2,\"ratio\":0.25,\"force\":true,\"keep\":false,\"args\":[\"a\",\"\"],"
                     "\"env\":{\"A\":\"1\",\"B\":\"\"},\"edits\":[{\"old_text\":\"o\",\"count\":3,\"tags\":[\"one\"]},"
                     "{\"old_text\":\"\",\"count\":1}]}");
    bind_ok(&a, text.p, &q);
    EXPECT_TRUE(str_eq(print(&a, all_fields, &q), text));
}

TEST(field_print_leaves_out_what_is_absent_unless_told)
{
    struct some {
        struct str s, j;
        int64_t i;
        double d;
        bool b;
        struct strs l;
        struct pairs m;
        struct rows r;
    };
    static const struct field quiet[] = {
        FIELD(STR, struct some, s, ""),
        FIELD(JSON, struct some, j, ""),
        FIELD(INT, struct some, i, ""),
        FIELD(NUM, struct some, d, ""),
        FIELD(BOOL, struct some, b, ""),
        FIELD(STRS, struct some, l, ""),
        FIELD(PAIRS, struct some, m, ""),
        FIELD(ROWS, struct some, r, "", .rows = edit_fields, .row_size = sizeof(struct edit)),
        { 0 },
    };
    struct field loud[ARRAY_LEN(quiet)], nulls[ARRAY_LEN(quiet)];
    struct some v = { .i = FIELD_ABSENT, .d = (double)NAN };
    auto_arena a = { 0 };

    memcpy(loud, quiet, sizeof quiet);
    memcpy(nulls, quiet, sizeof quiet);
    for (size_t i = 0; i + 1 < ARRAY_LEN(quiet); i++)
        loud[i].always = nulls[i].nullable = true;
    EXPECT_STR(print(&a, quiet, &v), "{\"b\":false}");
    EXPECT_STR(print(&a, nulls, &v),
               "{\"s\":null,\"j\":null,\"i\":null,\"d\":null,\"b\":false,\"l\":null,\"m\":null,\"r\":null}");
    EXPECT_STR(print(&a, loud, &v),
               "{\"s\":\"\",\"j\":null,\"i\":null,\"d\":null,\"b\":false,\"l\":[],\"m\":{},\"r\":[]}");
    v = (struct some){ .s = STR("a\xff"), .j = STR("") };
    EXPECT_STR(print(&a, quiet, &v), "{\"s\":\"a\xef\xbf\xbd\",\"i\":0,\"d\":0,\"b\":false}");
}

TEST(field_schema_is_a_json_schema)
{
    auto_arena a = { 0 };
    auto_buf b;
    struct jw w = { .out = &b };
    struct json *v;

    buf_init(&b, 100000);
    field_schema(all_fields, &w);
    EXPECT_INT(json_parse(&a, buf_view(&b), &v, NULL), 0);
    EXPECT_STR(
        buf_view(&b),
        "{\"type\":\"object\",\"properties\":{"
        "\"command\":{\"type\":\"string\",\"maxLength\":20,\"description\":\"what to run\"},"
        "\"mode\":{\"type\":\"string\",\"enum\":[\"fast\",\"slow\"],\"default\":\"fast\",\"description\":\"how\"},"
        "\"body\":{\"type\":\"string\",\"contentEncoding\":\"base64\",\"maxLength\":8,\"description\":\"bytes\"},"
        "\"extra\":{\"description\":\"anything\"},"
        "\"timeout\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":86400000,\"default\":1000,\"description\":\"ms\"},"
        "\"after\":{\"type\":\"integer\",\"description\":\"cursor\"},"
        "\"rate\":{\"type\":\"number\",\"minimum\":0.5,\"maximum\":2,\"default\":1,\"description\":\"per second\"},"
        "\"ratio\":{\"type\":\"number\",\"description\":\"of two\"},"
        "\"force\":{\"type\":\"boolean\",\"default\":false,\"description\":\"yes\"},"
        "\"keep\":{\"type\":\"boolean\",\"default\":true,\"description\":\"yes\"},"
        "\"args\":{\"type\":\"array\",\"maxItems\":3,\"items\":{\"type\":\"string\"},\"description\":\"words\"},"
        "\"env\":{\"type\":\"object\",\"maxProperties\":2,\"additionalProperties\":{\"type\":\"string\"},"
        "\"description\":\"variables\"},"
        "\"edits\":{\"type\":\"array\",\"maxItems\":2,\"items\":{\"type\":\"object\",\"properties\":{"
        "\"old_text\":{\"type\":\"string\",\"description\":\"what\"},"
        "\"count\":{\"type\":\"integer\",\"default\":1,\"description\":\"how often\"},"
        "\"tags\":{\"type\":\"array\",\"items\":{\"type\":\"string\"},\"description\":\"words\"}},"
        "\"required\":[\"old_text\"],\"additionalProperties\":false},\"description\":\"changes\"}},"
        "\"required\":[\"command\"],\"additionalProperties\":false}");
}

static void pack_text(struct arena *a, const char *text, struct buf *out)
{
    struct all p;

    bind_ok(a, text, &p);
    field_pack(all_fields, &p, out);
}

TEST(field_packed_struct_reads_back)
{
    static const char *const texts[] = { full_text, "{\"command\":\"\"}",
                                         "{\"command\":\"x\",\"args\":[],\"edits\":[]}" };

    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        auto_arena a = { 0 };
        auto_buf b;
        struct all p, q;
        buf_init(&b, 10000);
        bind_ok(&a, texts[i], &p);
        field_pack(all_fields, &p, &b);
        EXPECT_INT(field_unpack(all_fields, buf_view(&b), &a, &q, sizeof q, NULL), 0);
        EXPECT_TRUE(q.command.p);
        EXPECT_TRUE(str_eq(print(&a, all_fields, &p), print(&a, all_fields, &q)));
    }
}

TEST(field_packed_bytes_are_as_documented)
{
    struct one {
        int64_t n;
        struct strs l;
    } v = { .n = -2, .l = { (struct str[]){ STR("ab"), STR("") }, 2 } };
    static const struct field one_fields[] = { FIELD(INT, struct one, n, ""), FIELD(STRS, struct one, l, ""), { 0 } };
    static const char want[] = "\1n\3\10\0\0\0\xfe\xff\xff\xff\xff\xff\xff\xff"
                               "\1l\6\16\0\0\0\2\0\0\0\2\0\0\0ab\0\0\0";
    auto_buf b;

    buf_init(&b, 1000);
    field_pack(one_fields, &v, &b);
    EXPECT_INT(b.n, sizeof want);
    EXPECT_INT(memcmp(b.p, want, sizeof want), 0);
}

TEST(field_absent_numbers_stay_absent_on_the_wire)
{
    struct two {
        int64_t code, other;
        double d;
    } v = { .code = FIELD_ABSENT, .other = FIELD_ABSENT, .d = (double)NAN }, w;
    static const struct field two_fields[] = {
        FIELD(INT, struct two, code, "default 0"),
        FIELD(INT, struct two, other, "", .def = FIELD_ABSENT),
        FIELD(NUM, struct two, d, "default 0"),
        { 0 },
    };
    auto_arena a = { 0 };
    auto_buf b;

    buf_init(&b, 1000);
    field_pack(two_fields, &v, &b);
    EXPECT_INT(field_unpack(two_fields, buf_view(&b), &a, &w, sizeof w, NULL), 0);
    EXPECT_INT(w.code, FIELD_ABSENT);
    EXPECT_INT(w.other, FIELD_ABSENT);
    EXPECT_TRUE(isnan(w.d));
}

TEST(field_unpack_skips_unknown_names_and_takes_any_order)
{
    struct newer {
        int64_t count, fresh;
        struct str old_text;
    } v = { .count = 9, .fresh = 1, .old_text = STR("o") };
    static const struct field newer_fields[] = {
        FIELD(INT, struct newer, count, ""),
        FIELD(INT, struct newer, fresh, ""),
        FIELD(STR, struct newer, old_text, ""),
        { 0 },
    };
    auto_arena a = { 0 };
    auto_buf b;
    struct edit q;

    buf_init(&b, 1000);
    field_pack(newer_fields, &v, &b);
    EXPECT_INT(field_unpack(edit_fields, buf_view(&b), &a, &q, sizeof q, NULL), 0);
    EXPECT_STR(q.old_text, "o");
    EXPECT_INT(q.count, 9);
}

/* In memory of exactly its size, so that the sanitizer sees any look past the end. */
static int unpack_exact(const struct field *fields, struct str packed, void *out, size_t size, struct err *e)
{
    auto_arena a = { 0 };
    auto_free char *copy = malloc(packed.n ? packed.n : 1);
    auto_buf b;
    struct jw w = { .out = &b };

    memcpy(copy, packed.p, packed.n);
    int r = field_unpack(fields, (struct str){ copy, packed.n }, &a, out, size, e);
    buf_init(&b, 1 << 20);
    field_print(fields, out, &w); /* whatever came out can be used */
    return r;
}

TEST(field_unpack_of_a_cut_struct_never_crashes)
{
    auto_arena a = { 0 };
    auto_buf b;

    buf_init(&b, 10000);
    pack_text(&a, full_text, &b);
    size_t whole = 0;
    for (size_t n = 0; n <= b.n; n++) {
        struct err e = { 0 };
        struct all q;
        if (unpack_exact(all_fields, (struct str){ b.p, n }, &q, sizeof q, &e) >= 0)
            whole++;
        else
            EXPECT_TRUE(e.code != ERR_NONE && !q.command.p);
    }
    EXPECT_INT(whole, ARRAY_LEN(all_fields)); /* only cuts between two fields make sense */
}

TEST(field_unpack_of_a_changed_byte_never_crashes)
{
    auto_arena a = { 0 };
    auto_buf b;

    buf_init(&b, 10000);
    pack_text(&a, full_text, &b);
    for (size_t i = 0; i < b.n; i++) {
        char was = b.p[i];
        for (int c = 0; c < 256; c += c < 16 || c > 250 ? 1 : 13) {
            struct all q;
            b.p[i] = (char)c;
            (void)unpack_exact(all_fields, buf_view(&b), &q, sizeof q, NULL);
        }
        b.p[i] = was;
    }
}

struct knot {
    struct rows sub;
};
static const struct field knot_fields[] = {
    FIELD(ROWS, struct knot, sub, "itself", .rows = knot_fields, .row_size = sizeof(struct knot)),
    { 0 },
};

TEST(field_unpack_caps_nesting)
{
    struct knot knots[5] = { 0 };
    auto_arena a = { 0 };
    struct err e = { 0 };
    struct knot q;

    for (int depth = 1; depth <= 5; depth++) {
        auto_buf b;
        memset(knots, 0, sizeof knots);
        for (int i = 0; i + 1 < depth; i++)
            knots[i].sub = (struct rows){ &knots[i + 1], 1 };
        buf_init(&b, 1000);
        field_pack(knot_fields, knots, &b);
        EXPECT_INT(field_unpack(knot_fields, buf_view(&b), &a, &q, sizeof q, &e) < 0, depth > 4);
    }
    EXPECT_INT(e.code, ERR_LIMIT);
}

TEST(field_unpack_refuses_lies)
{
    static const struct {
        const char *what;
        struct str packed;
    } cases[] = {
        { "type of another field", { "\7timeout\1\10\0\0\0\0\0\0\0\0\0\0\0", 21 } },
        { "short integer", { "\7timeout\3\4\0\0\0\0\0\0\0", 17 } },
        { "boolean 2", { "\5force\5\1\0\0\0\2", 12 } },
        { "empty boolean", { "\5force\5\0\0\0\0", 11 } },
        { "JSON that is none", { "\5extra\10\2\0\0\0{]", 13 } },
        { "empty JSON", { "\5extra\10\0\0\0\0", 11 } },
        { "two JSON values",
          { "\5extra\10\3\0\0\0"
            "1 2",
            14 } },
        { "huge count of strings", { "\4args\6\4\0\0\0\xff\xff\xff\xff", 14 } },
        { "huge count of pairs", { "\3env\7\4\0\0\0\xff\xff\xff\x7f", 13 } },
        { "huge count of rows", { "\5edits\11\10\0\0\0\xff\xff\xff\xff\0\0\0\0", 19 } },
        { "list without a count", { "\4args\6\2\0\0\0\0\0", 12 } },
        { "bytes after the list", { "\4args\6\5\0\0\0\0\0\0\0x", 15 } },
        { "repeated name", { "\3env\7\30\0\0\0\2\0\0\0\1\0\0\0A\0\0\0\0\1\0\0\0A\0\0\0\0", 31 } },
        { "name that is not UTF-8", { "\3env\7\15\0\0\0\1\0\0\0\1\0\0\0\xff\0\0\0\0", 22 } },
        { "length past the end", { "\7command\1\xff\xff\xff\xff", 13 } },
        { "name past the end", { "\377command", 8 } },
        { "entry past the end", { "\4args\6\10\0\0\0\1\0\0\0\1\0\0\0", 18 } },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct err e = { 0 };
        struct all q;
        if (unpack_exact(all_fields, cases[i].packed, &q, sizeof q, &e) >= 0 || e.code == ERR_NONE) {
            test_failures++;
            printf("accepted: %s\n", cases[i].what);
        }
    }
}

TEST(field_unpack_does_not_let_the_sender_size_our_memory)
{
    struct fat {
        char pad[4096];
        struct str s;
    };
    static const struct field fat_fields[] = { FIELD(STR, struct fat, s, ""), { 0 } };
    struct holder {
        struct rows r;
    } q;
    static const struct field holder_fields[] = {
        FIELD(ROWS, struct holder, r, "", .rows = fat_fields, .row_size = sizeof(struct fat)),
        { 0 },
    };
    enum { ROWS = 100000 }; /* 400 KB of empty rows ask for 400 MB */
    auto_arena a = { 0 };
    auto_buf b;
    struct err e = { 0 };

    buf_init(&b, 1 << 20);
    uint32_t n = ROWS, size = 4 + 4 * ROWS;
    buf_add(&b, "\1r\11", 3);
    buf_add(&b, &size, 4);
    buf_add(&b, &n, 4);
    memset(buf_room(&b, 4 * ROWS), 0, 4 * ROWS);
    buf_grew(&b, 4 * ROWS);
    EXPECT_TRUE(field_unpack(holder_fields, buf_view(&b), &a, &q, sizeof q, &e) < 0);
    EXPECT_INT(e.code, ERR_LIMIT);
    EXPECT_TRUE(a.total < 32 << 20);
    EXPECT_INT(q.r.n, 0);
}

TEST(field_json_leaves_room_for_what_is_around_it)
{
    for (int depth = FIELD_JSON_DEPTH; depth <= FIELD_JSON_DEPTH + 1; depth++) {
        auto_arena a = { 0 };
        auto_buf b;
        struct err e = { 0 };
        struct all p, q = { .command = STR("x") };
        char deep[2 * FIELD_JSON_DEPTH + 3] = "";
        bool ok = depth <= FIELD_JSON_DEPTH;

        memset(deep, '[', (size_t)depth);
        memset(deep + depth, ']', (size_t)depth);
        int r = bind(&a, arena_printf(&a, "{\"command\":\"\",\"extra\":%s}", deep), &p, NULL, &e);
        EXPECT_INT(r >= 0, ok);
        EXPECT_STR(str_of(e.msg), ok ? "" : "extra: JSON is nested deeper than 32 (FIELD_JSON_DEPTH)");
        q.extra = str_of(deep);
        buf_init(&b, 1000);
        field_pack(all_fields, &q, &b);
        EXPECT_INT(field_unpack(all_fields, buf_view(&b), &a, &p, sizeof p, &e) >= 0, ok);
    }
}

TEST(field_pack_into_a_full_buf_stops_quietly)
{
    auto_arena a = { 0 };

    for (size_t cap = 0; cap < 200; cap++) {
        auto_buf b;
        buf_init(&b, cap);
        pack_text(&a, full_text, &b);
        EXPECT_TRUE(b.full && b.n <= cap);
    }
}

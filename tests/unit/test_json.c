/* What the JSON reader accepts and refuses, and what the writer promises. */
#include "test.h"

#include <math.h>
#include <stdlib.h>

#include "base/auto.h"
#include "base/json.h"
#include "base/limits.h"

#define auto_arena AUTO(arena_done) struct arena
#define auto_buf   AUTO(buf_done) struct buf

struct sample {
    const char *name;
    struct str text;
};
#define CASE(name, lit)                                                                                                \
    {                                                                                                                  \
        name,                                                                                                          \
        {                                                                                                              \
            lit, sizeof(lit) - 1                                                                                       \
        }                                                                                                              \
    }

static const struct sample accepted[] = {
    CASE("array_arrays_with_spaces", "[[]   ]"),
    CASE("array_empty_string", "[\"\"]"),
    CASE("array_empty", "[]"),
    CASE("array_ending_with_newline", "[\"a\"]\n"),
    CASE("array_false", "[false]"),
    CASE("array_heterogeneous", "[null, 1, \"1\", {}]"),
    CASE("array_null", "[null]"),
    CASE("array_with_1_and_newline", "[1\n]"),
    CASE("array_with_leading_space", " [1]"),
    CASE("array_with_several_null", "[1,null,null,null,2]"),
    CASE("array_with_trailing_space", "[2] "),
    CASE("number", "[123e65]"),
    CASE("number_0e+1", "[0e+1]"),
    CASE("number_0e1", "[0e1]"),
    CASE("number_after_space", "[ 4]"),
    CASE("number_close_to_zero", "[-0.0000000000000000000000000000000000000000000000000000000000000000000000000001]"),
    CASE("number_int_with_exp", "[20e1]"),
    CASE("number_minus_zero", "[-0]"),
    CASE("number_negative_int", "[-123]"),
    CASE("number_negative_one", "[-1]"),
    CASE("number_real_capital_e", "[1E22]"),
    CASE("number_real_capital_e_neg_exp", "[1E-2]"),
    CASE("number_real_capital_e_pos_exp", "[1E+2]"),
    CASE("number_real_exponent", "[123.456e78]"),
    CASE("number_real_fraction_exponent", "[123.456e-78]"),
    CASE("number_simple_real", "[123.456789]"),
    CASE("number_huge_int", "[123123123123123123123123123123]"),
    CASE("number_underflow", "[123e-10000000]"),
    CASE("object", "{\"asd\":\"sdf\", \"dfg\":\"fgh\"}"),
    CASE("object_basic", "{\"asd\":\"sdf\"}"),
    CASE("object_empty", "{}"),
    CASE("object_empty_key", "{\"\":0}"),
    CASE("object_escaped_null_in_key", "{\"foo\\u0000bar\": 42}"),
    CASE("object_extreme_numbers", "{ \"min\": -1.0e+28, \"max\": 1.0e+28 }"),
    CASE("object_string_unicode", "{\"title\":\"\\u041f\\u043e\\u043b\" }"),
    CASE("object_with_newlines", "{\n\"a\": \"b\"\n}"),
    CASE("object_keys_differ_by_case", "{\"a\":1,\"A\":2}"),
    CASE("string_1_2_3_byte_sequences", "[\"\\u0060\\u012a\\u12AB\"]"),
    CASE("string_surrogate_pair", "[\"\\uD801\\udc37\"]"),
    CASE("string_surrogate_pairs", "[\"\\ud83d\\ude39\\ud83d\\udc8d\"]"),
    CASE("string_allowed_escapes", "[\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"]"),
    CASE("string_backslash_and_u_escaped_zero", "[\"\\\\u0000\"]"),
    CASE("string_backslash_doublequotes", "[\"\\\"\"]"),
    CASE("string_comments", "[\"a/*b*/c/*d//e\"]"),
    CASE("string_double_escape_a", "[\"\\\\a\"]"),
    CASE("string_escaped_control", "[\"\\u0012\"]"),
    CASE("string_escaped_noncharacter", "[\"\\uFFFF\"]"),
    CASE("string_in_array_leading_space", "[ \"asd\"]"),
    CASE("string_last_surrogates", "[\"\\uDBFF\\uDFFF\"]"),
    CASE("string_nonchar_u+10ffff", "[\"\xf4\x8f\xbf\xbf\"]"),
    CASE("string_nonchar_u+ffff", "[\"\xef\xbf\xbf\"]"),
    CASE("string_null_escape", "[\"\\u0000\"]"),
    CASE("string_one_byte_utf8", "[\"\\u002c\"]"),
    CASE("string_pi", "[\"\xcf\x80\"]"),
    CASE("string_line_separator", "[\"\xe2\x80\xa8\xe2\x80\xa9\"]"),
    CASE("string_del", "[\"a\x7f"
                       "a\"]"),
    CASE("string_utf8_three_and_four", "[\"\xe2\x82\xac\xf0\x9d\x84\x9e\"]"),
    CASE("string_with_bom_inside", "[\"\xef\xbb\xbf\"]"),
    CASE("structure_lonely_false", "false"),
    CASE("structure_lonely_int", "42"),
    CASE("structure_lonely_negative_real", "-0.1"),
    CASE("structure_lonely_null", "null"),
    CASE("structure_lonely_string", "\"asd\""),
    CASE("structure_lonely_true", "true"),
    CASE("structure_string_empty", "\"\""),
    CASE("structure_trailing_newline", "[\"a\"]\n"),
    CASE("structure_all_white_space", " \t\r\n[ \t\r\n] \t\r\n"),
};

static const struct sample refused[] = {
    CASE("array_1_true_without_comma", "[1 true]"),
    CASE("array_invalid_utf8", "[a\xe5]"),
    CASE("array_colon_instead_of_comma", "[\"\": 1]"),
    CASE("array_comma_after_close", "[\"\"],"),
    CASE("array_comma_and_number", "[,1]"),
    CASE("array_double_comma", "[1,,2]"),
    CASE("array_double_extra_comma", "[\"x\",,]"),
    CASE("array_extra_close", "[\"x\"]]"),
    CASE("array_extra_comma", "[\"\",]"),
    CASE("array_incomplete", "[\"x\""),
    CASE("array_inner_array_no_comma", "[3[4]]"),
    CASE("array_items_separated_by_semicolon", "[1;2]"),
    CASE("array_just_comma", "[,]"),
    CASE("array_just_minus", "[-]"),
    CASE("array_missing_value", "[   , \"\"]"),
    CASE("array_newlines_unclosed", "[\"a\",\n4\n,1,"),
    CASE("array_number_and_comma", "[1,]"),
    CASE("array_spaces_vertical_tab", "[\"\va\"\\f]"),
    CASE("array_star_inside", "[*]"),
    CASE("array_unclosed", "[\"\""),
    CASE("array_unclosed_trailing_comma", "[1,"),
    CASE("array_closed_by_brace", "[1}"),
    CASE("incomplete_false", "[fals]"),
    CASE("incomplete_null", "[nul]"),
    CASE("incomplete_true", "[tru]"),
    CASE("word_too_long", "[truee]"),
    CASE("capitalised_true", "[True]"),
    CASE("undefined", "[undefined]"),
    CASE("multidigit_number_then_00", "123\0"),
    CASE("number_++", "[++1234]"),
    CASE("number_+1", "[+1]"),
    CASE("number_+inf", "[+Inf]"),
    CASE("number_-01", "[-01]"),
    CASE("number_-1.0.", "[-1.0.]"),
    CASE("number_-2.", "[-2.]"),
    CASE("number_-nan", "[-NaN]"),
    CASE("number_.-1", "[.-1]"),
    CASE("number_.2e-3", "[.2e-3]"),
    CASE("number_0.1.2", "[0.1.2]"),
    CASE("number_0.3e+", "[0.3e+]"),
    CASE("number_0.3e", "[0.3e]"),
    CASE("number_0.e1", "[0.e1]"),
    CASE("number_0_capital_e+", "[0E+]"),
    CASE("number_0e", "[0e]"),
    CASE("number_1.0e-", "[1.0e-]"),
    CASE("number_1_000", "[1 000.0]"),
    CASE("number_1eE2", "[1eE2]"),
    CASE("number_2.e+3", "[2.e+3]"),
    CASE("number_9.e+", "[9.e+]"),
    CASE("number_inf", "[Inf]"),
    CASE("number_nan", "[NaN]"),
    CASE("number_full_width_digit", "[\xef\xbc\x91]"),
    CASE("number_expression", "[1+2]"),
    CASE("number_hex", "[0x42]"),
    CASE("number_infinity", "[Infinity]"),
    CASE("number_minus_infinity", "[-Infinity]"),
    CASE("number_minus_sign_with_trailing_garbage", "[-foo]"),
    CASE("number_minus_space_1", "[- 1]"),
    CASE("number_neg_int_starting_with_zero", "[-012]"),
    CASE("number_starting_with_dot", "[.123]"),
    CASE("number_with_alpha", "[1.2a-3]"),
    CASE("number_with_leading_zero", "[012]"),
    CASE("number_beyond_double", "[1e999]"),
    CASE("number_below_double", "[-1.5e+9999]"),
    CASE("object_bad_value", "[\"x\", truth]"),
    CASE("object_bracket_key", "{[: \"x\"}"),
    CASE("object_comma_instead_of_colon", "{\"x\", null}"),
    CASE("object_double_colon", "{\"x\"::\"b\"}"),
    CASE("object_garbage_at_end", "{\"a\":\"a\" 123}"),
    CASE("object_key_with_single_quotes", "{key: 'value'}"),
    CASE("object_missing_colon", "{\"a\" b}"),
    CASE("object_missing_key", "{:\"b\"}"),
    CASE("object_missing_semicolon", "{\"a\" \"b\"}"),
    CASE("object_missing_value", "{\"a\":"),
    CASE("object_no_colon", "{\"a\""),
    CASE("object_non_string_key", "{1:1}"),
    CASE("object_repeated_null_key", "{null:null,null:null}"),
    CASE("object_several_trailing_commas", "{\"id\":0,,,,,}"),
    CASE("object_single_quote", "{'a':0}"),
    CASE("object_trailing_comma", "{\"id\":0,}"),
    CASE("object_trailing_comment", "{\"a\":\"b\"}/**/"),
    CASE("object_trailing_comment_slash", "{\"a\":\"b\"}//"),
    CASE("object_two_commas_in_a_row", "{\"a\":\"b\",,\"c\":\"d\"}"),
    CASE("object_unquoted_key", "{a: \"b\"}"),
    CASE("object_unterminated_value", "{\"a\":\"a"),
    CASE("object_with_single_string", "{ \"foo\" : \"bar\", \"a\" }"),
    CASE("object_closed_by_bracket", "{\"a\":1]"),
    CASE("object_duplicate_key", "{\"a\":1,\"b\":2,\"a\":3}"),
    CASE("object_duplicate_key_by_escape", "{\"a\":1,\"\\u0061\":2}"),
    CASE("object_duplicate_empty_key", "{\"\":1,\"\":1}"),
    CASE("single_space", " "),
    CASE("empty", ""),
    CASE("string_1_surrogate_then_escape", "[\"\\uD800\\\"]"),
    CASE("string_1_surrogate_then_u", "[\"\\uD800\\u\"]"),
    CASE("string_1_surrogate_then_u1x", "[\"\\uD800\\u1x\"]"),
    CASE("string_lone_high_surrogate", "[\"\\ud800\"]"),
    CASE("string_lone_low_surrogate", "[\"\\udc00\"]"),
    CASE("string_high_then_plain", "[\"\\ud800abcdef\"]"),
    CASE("string_high_then_high", "[\"\\ud800\\ud800\"]"),
    CASE("string_swapped_surrogates", "[\"\\uDd1e\\uD834\"]"),
    CASE("string_accentuated_no_quotes", "[\xc3\xa9]"),
    CASE("string_backslash_00", "[\"\\\0\"]"),
    CASE("string_escape_x", "[\"\\x00\"]"),
    CASE("string_escaped_backslash_bad", "[\"\\\\\\\"]"),
    CASE("string_escaped_tab", "[\"\\\t\"]"),
    CASE("string_escaped_emoji", "[\"\\\xf0\x9f\x8c\x80\"]"),
    CASE("string_incomplete_escape", "[\"\\\"]"),
    CASE("string_incomplete_escaped_character", "[\"\\u00A\"]"),
    CASE("string_invalid_unicode_escape", "[\"\\uqqqq\"]"),
    CASE("string_invalid_escape", "[\"\\a\"]"),
    CASE("string_upper_case_u", "[\"\\U0041\"]"),
    CASE("string_invalid_utf8_after_escape", "[\"\\\xe5\"]"),
    CASE("string_no_quotes_with_bad_escape", "[\\n]"),
    CASE("string_single_doublequote", "\""),
    CASE("string_single_quote", "['single quote']"),
    CASE("string_single_string_no_quotes", "abc"),
    CASE("string_start_escape_unclosed", "[\"\\"),
    CASE("string_unescaped_control", "[\"a\x01"
                                     "a\"]"),
    CASE("string_unescaped_nul", "[\"a\0a\"]"),
    CASE("string_unescaped_newline", "[\"new\nline\"]"),
    CASE("string_unescaped_tab", "[\"\t\"]"),
    CASE("string_with_trailing_garbage", "\"\"x"),
    CASE("string_utf8_lone_continuation", "[\"\x81\"]"),
    CASE("string_utf8_overlong_2", "[\"\xc0\xaf\"]"),
    CASE("string_utf8_overlong_3", "[\"\xe0\x80\xaf\"]"),
    CASE("string_utf8_overlong_4", "[\"\xf0\x80\x80\xaf\"]"),
    CASE("string_utf8_surrogate", "[\"\xed\xa0\x80\"]"),
    CASE("string_utf8_above_10ffff", "[\"\xf4\x90\x80\x80\"]"),
    CASE("string_utf8_five_bytes", "[\"\xf8\x88\x80\x80\x80\"]"),
    CASE("string_utf8_cut", "[\"\xe2\x82\"]"),
    CASE("string_utf8_ff", "[\"\xff\"]"),
    CASE("string_latin1_key", "{\"\xe9\":1}"),
    CASE("structure_angle_bracket", "<.>"),
    CASE("structure_bom", "\xef\xbb\xbf{}"),
    CASE("structure_array_trailing_garbage", "[1]x"),
    CASE("structure_double_array", "[][]"),
    CASE("structure_end_array", "]"),
    CASE("structure_form_feed", "[\f]"),
    CASE("structure_no_break_space", "[\xc2\xa0]"),
    CASE("structure_nul_outside_string", "[\0]"),
    CASE("structure_object_then_close", "{}}"),
    CASE("structure_open_object_comma", "{,"),
    CASE("structure_open_object_open_array", "{["),
    CASE("structure_single_eacute", "\xe9"),
    CASE("structure_trailing_hash", "{\"a\":\"b\"}#{}"),
    CASE("structure_unclosed_object", "{\"asd\":\"asd\""),
    CASE("structure_uescaped_bracket", "[\\u000A\"\"]"),
    CASE("structure_utf16_le", "[\0\"\0\xe9\0\"\0]\0"),
};

/* The text is copied into memory of exactly its size, so that the sanitizer sees any look past the end. */
static int parse_exact(struct arena *a, struct str text, struct err *e)
{
    auto_free char *copy = malloc(text.n ? text.n : 1);
    struct json *v;

    memcpy(copy, text.p, text.n);
    return json_parse(a, (struct str){ copy, text.n }, &v, e);
}

static void expect_all(const struct sample *cases, size_t n, bool accept)
{
    for (size_t i = 0; i < n; i++) {
        auto_arena a = { 0 };
        struct err e = { 0 };
        bool ok = parse_exact(&a, cases[i].text, &e) >= 0;

        if (ok != accept) {
            test_failures++;
            printf("%s: %s: %s\n", cases[i].name, accept ? "refused" : "accepted", e.msg);
        } else if (!accept && (e.code == ERR_NONE || !strstr(e.msg, " at byte "))) {
            test_failures++;
            printf("%s: message without an offset: %s\n", cases[i].name, e.msg);
        }
    }
}

static struct json *parse(struct arena *a, struct str text)
{
    struct json *v = NULL;
    struct err e = { 0 };

    if (json_parse(a, text, &v, &e) < 0) {
        test_failures++;
        printf("\"%.*s\": %s\n", STR_ARG(text), e.msg);
        v = arena_alloc(a, sizeof *v);
    }
    return v;
}

TEST(json_accepts_what_rfc_8259_allows)
{
    expect_all(accepted, ARRAY_LEN(accepted), true);
}

TEST(json_refuses_what_rfc_8259_forbids)
{
    expect_all(refused, ARRAY_LEN(refused), false);
}

TEST(json_refuses_every_proper_prefix_of_a_document)
{
    static const char text[] = "{\"a\":[1.5e3,\"\\ud83d\\ude00\xe2\x82\xac\",null],\"b\":{\"c\":true,\"d\":-0}}";

    for (size_t n = 0; n < sizeof text - 1; n++) {
        auto_arena a = { 0 };
        EXPECT_TRUE(parse_exact(&a, (struct str){ text, n }, NULL) < 0);
    }
}

TEST(json_survives_every_single_byte_change)
{
    static const char text[] = "{\"a\":[1.5e3,\"\\ud83d\\n\xe2\x82\xac\",null],\"b\":-12}";

    for (size_t at = 0; at < sizeof text - 1; at++)
        for (int c = 0; c < 256; c++) {
            auto_arena a = { 0 };
            char copy[sizeof text];
            memcpy(copy, text, sizeof text);
            copy[at] = (char)c;
            (void)parse_exact(&a, (struct str){ copy, sizeof text - 1 }, NULL);
        }
}

TEST(json_error_names_the_byte)
{
    static const struct {
        const char *text, *msg;
    } cases[] = {
        { "", "JSON: expected a value, found the end at byte 0" },
        { "[1,2", "JSON: expected ',' or ']' at byte 4" },
        { "{\"a\" 1}", "JSON: expected ':' at byte 5" },
        { "{\"a\":1 \"b\"", "JSON: expected ',' or '}' at byte 7" },
        { "[\"abc", "JSON: string without an end at byte 1" },
        { "[\"ab\\q\"]", "JSON: unknown escape at byte 4" },
        { "[\"ab\\ud800\"]", "JSON: lone surrogate at byte 4" },
        { "[01]", "JSON: number with a leading zero at byte 2" },
        { "{} x", "JSON: unexpected text after the value at byte 3" },
        { "{\"a\":1,\"a\":2}", "JSON: duplicate key of the value at byte 11" },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        auto_arena a = { 0 };
        struct err e = { 0 };
        struct json *v;
        EXPECT_TRUE(json_parse(&a, str_of(cases[i].text), &v, &e) < 0);
        EXPECT_INT(e.code, ERR_INVALID);
        EXPECT_STR(str_of(e.msg), cases[i].msg);
    }
}

TEST(json_integers_are_exact)
{
    static const struct {
        const char *text;
        bool is_int;
        int64_t i;
        double num;
    } cases[] = {
        { "0", true, 0, 0 },
        { "-0", true, 0, 0 },
        { "30", true, 30, 30 },
        { "30.0", true, 30, 30 },
        { "-30.000", true, -30, -30 },
        { "30.5", false, 0, 30.5 },
        { "30.01", false, 0, 30.01 },
        { "3e1", false, 0, 30 },
        { "3.0e1", false, 0, 30 },
        { "9007199254740993", true, 9007199254740993, 9007199254740992 },
        { "9223372036854775807", true, INT64_MAX, 0x1p63 },
        { "-9223372036854775808", true, INT64_MIN, -0x1p63 },
        { "9223372036854775808", false, 0, 0x1p63 },
        { "-9223372036854775809", false, 0, -0x1p63 },
        { "18446744073709551616", false, 0, 0x1p64 },
        { "18446744073709551617.0", false, 0, 0x1p64 },
        { "100000000000000000000000000000000000000000000000000000000000000000000000", false, 0, 1e71 },
        { "0.1", false, 0, 0.1 },
        { "1.7976931348623157e308", false, 0, 1.7976931348623157e308 },
        { "5e-324", false, 0, 5e-324 },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        auto_arena a = { 0 };
        struct json *v = parse(&a, str_of(cases[i].text));
        EXPECT_INT(v->type, JSON_NUM);
        EXPECT_INT(v->is_int, cases[i].is_int);
        EXPECT_INT(v->i, cases[i].i);
        EXPECT_TRUE(v->num == cases[i].num);
    }
    auto_arena a = { 0 };
    EXPECT_TRUE(signbit(parse(&a, STR("-0"))->num));
}

TEST(json_decodes_escapes_and_keeps_raw_bytes)
{
    auto_arena a = { 0 };
    struct str text =
        STR(" {\"k\\n\": \"\\u0041\\u00e9\\u20ac\\ud83d\\ude00\\/\\\"\\\\\\b\\f\\n\\r\\tend\" , \"p\":[ 1 , {} ]} ");
    struct json *v = parse(&a, text);

    EXPECT_STR(v->raw,
               "{\"k\\n\": \"\\u0041\\u00e9\\u20ac\\ud83d\\ude00\\/\\\"\\\\\\b\\f\\n\\r\\tend\" , \"p\":[ 1 , {} ]}");
    EXPECT_STR(v->first->name, "k\n");
    EXPECT_STR(v->first->s, "A\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80/\"\\\b\f\n\r\tend");
    EXPECT_STR(v->first->next->raw, "[ 1 , {} ]");
    EXPECT_STR(v->first->next->first->raw, "1");
    EXPECT_INT(v->first->next->count, 2);
}

TEST(json_strings_without_escapes_are_not_copied)
{
    auto_arena a = { 0 };
    struct str text = STR("\"plain text that is long enough for the word-wise scan\"");

    EXPECT_TRUE(parse(&a, text)->s.p == text.p + 1);
}

TEST(json_strings_may_contain_nul)
{
    auto_arena a = { 0 };
    struct str s = parse(&a, STR("\"a\\u0000b\""))->s;

    EXPECT_INT(s.n, 3);
    EXPECT_INT(memcmp(s.p, "a\0b", 3), 0);
}

TEST(json_finds_a_special_byte_at_every_place)
{
    static const char special[] = { '"', '\\', '\n', 0x1F, '\x80', '\xff', 0 };

    for (size_t n = 1; n < 40; n++)
        for (size_t at = 0; at < n; at++)
            for (size_t k = 0; k < sizeof special; k++) {
                auto_arena a = { 0 };
                char text[48];
                memset(text, 'x', sizeof text);
                text[0] = text[n + 1] = '"';
                text[at + 1] = special[k];
                EXPECT_TRUE(parse_exact(&a, (struct str){ text, n + 2 }, NULL) < 0);
                EXPECT_INT(utf8_ok((struct str){ text, n + 2 }), (special[k] & 0x80) == 0);
            }
}

static struct str nested(struct arena *a, size_t depth, char open, const char *inner)
{
    size_t each = open == '{' ? 5 : 1;
    char *text = arena_alloc(a, depth * (each + 1) + 8), *p = text;

    for (size_t i = 0; i < depth; i++)
        p = stpcpy(p, open == '{' ? "{\"a\":" : "[");
    p = stpcpy(p, inner);
    for (size_t i = 0; i < depth; i++)
        *p++ = open == '{' ? '}' : ']';
    return (struct str){ text, (size_t)(p - text) };
}

TEST(json_depth_is_capped)
{
    auto_arena a = { 0 };
    struct err e = { 0 };
    struct json *v;

    EXPECT_INT(json_parse(&a, nested(&a, LIMIT_JSON_DEPTH, '[', "1"), &v, &e), 0);
    EXPECT_INT(json_parse(&a, nested(&a, LIMIT_JSON_DEPTH, '{', "1"), &v, &e), 0);
    EXPECT_TRUE(json_parse(&a, nested(&a, LIMIT_JSON_DEPTH + 1, '[', "1"), &v, &e) < 0);
    EXPECT_INT(e.code, ERR_LIMIT);
    EXPECT_TRUE(json_parse(&a, nested(&a, 100000, '{', "1"), &v, &e) < 0);
    EXPECT_INT(e.code, ERR_LIMIT);
    EXPECT_STR(str_of(e.msg), "JSON: nested deeper than 64 (LIMIT_JSON_DEPTH) at byte 320");
}

TEST(json_siblings_do_not_count_as_depth)
{
    auto_arena a = { 0 };
    auto_buf b;

    buf_init(&b, 1 << 20);
    buf_char(&b, '[');
    for (int i = 0; i < 1000; i++)
        buf_z(&b, "[[]],");
    buf_z(&b, "{}]");
    EXPECT_INT(parse(&a, buf_view(&b))->count, 1001);
}

TEST(json_number_of_values_is_capped)
{
    auto_arena a = { 0 };
    struct err e = { 0 };
    size_t n = 2 * (size_t)JSON_VALUES_MAX + 1;
    auto_free char *text = malloc(n);
    struct json *v;

    for (size_t i = 0; i < n; i++)
        text[i] = i == 0 ? '[' : i == n - 1 ? ']' : i % 2 ? '0' : ',';
    EXPECT_TRUE(json_parse(&a, (struct str){ text, n }, &v, &e) < 0);
    EXPECT_INT(e.code, ERR_LIMIT);
}

static struct str big_object(struct buf *b, int members, int twice)
{
    buf_reset(b);
    buf_char(b, '{');
    for (int i = 0; i < members; i++)
        buf_printf(b, "%s\"key%d\":%d", i ? "," : "", i == members - 1 && twice >= 0 ? twice : i, i);
    buf_char(b, '}');
    return buf_view(b);
}

TEST(json_duplicate_keys_are_found_in_objects_of_any_size)
{
    static const int sizes[] = { 2, 63, 64, 65, 66, 1000, 50000 };
    auto_buf b;

    buf_init(&b, 1 << 22);
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        auto_arena a = { 0 };
        struct err e = { 0 };
        struct json *v = parse(&a, big_object(&b, sizes[i], -1));
        EXPECT_INT(v->count, sizes[i]);
        EXPECT_INT(json_get_int(v, "key1", -1), 1);
        EXPECT_TRUE(json_parse(&a, big_object(&b, sizes[i], 0), &v, &e) < 0);
        EXPECT_TRUE(strstr(e.msg, "duplicate key"));
    }
}

TEST(json_outline_has_the_outermost_members_and_the_bytes_of_what_is_in_them)
{
    auto_arena a = { 0 };
    static const char *const broken[] = { "{\"a\":{", "{\"a\":[\"]}", "{\"a\":{}", "{\"a\":{}}}",
                                          "{\"a\":{\"\x01\"}}" };
    struct str text =
        STR("{\"n\":-7,\"s\":\"a\\nb\",\"o\":{\"x\":\"]}\\\"\",\"y\":[{}]},\"l\":[[1],{\"\":2}],\"e\":{},\"t\":true}");
    struct json *v;
    struct err e;

    EXPECT_INT(json_outline(&a, text, &v, &e), 0);
    EXPECT_INT(v->count, 6);
    EXPECT_INT(json_get_int(v, "n", 0), -7);
    EXPECT_STR(json_get_str(v, "s"), "a\nb");
    EXPECT_STR(json_get(v, "o")->raw, "{\"x\":\"]}\\\"\",\"y\":[{}]}");
    EXPECT_TRUE(json_get(v, "o")->type == JSON_OBJ && !json_get(v, "o")->first);
    EXPECT_STR(json_get(v, "l")->raw, "[[1],{\"\":2}]");
    EXPECT_TRUE(json_get(v, "l")->type == JSON_ARR && !json_get(v, "l")->first);
    EXPECT_STR(json_get(v, "e")->raw, "{}");
    EXPECT_TRUE(json_get_bool(v, "t", false));
    for (size_t i = 0; i < ARRAY_LEN(broken); i++)
        EXPECT_TRUE(json_outline(&a, str_of(broken[i]), &v, &e) < 0);
}

TEST(json_get_answers_otherwise_for_what_is_not_there)
{
    auto_arena a = { 0 };
    struct json *v = parse(&a, STR("{\"s\":\"x\",\"i\":7,\"f\":7.5,\"b\":true,\"n\":null}"));

    EXPECT_STR(json_get_str(v, "s"), "x");
    EXPECT_TRUE(!json_get_str(v, "i").p);
    EXPECT_TRUE(!json_get_str(v, "zz").p);
    EXPECT_INT(json_get_int(v, "i", -1), 7);
    EXPECT_INT(json_get_int(v, "f", -1), -1);
    EXPECT_INT(json_get_int(v, "s", -1), -1);
    EXPECT_INT(json_get_bool(v, "b", false), true);
    EXPECT_INT(json_get_bool(v, "n", true), true);
    EXPECT_TRUE(json_get(v, "n") && json_get(v, "n")->type == JSON_NULL);
    EXPECT_TRUE(!json_get(json_get(v, "s"), "s"));
    EXPECT_TRUE(!json_get(NULL, "s"));
    EXPECT_STR(str_of(json_type_name(JSON_OBJ)), "object");
}

TEST(json_writer_places_commas)
{
    auto_buf b;
    struct jw w = { .out = &b };

    buf_init(&b, 1000);
    jw_obj(&w);
    jw_kint(&w, "a", -5);
    jw_key(&w, "b");
    jw_arr(&w);
    jw_arr(&w);
    jw_arr_end(&w);
    jw_obj(&w);
    jw_obj_end(&w);
    jw_null(&w);
    jw_bool(&w, true);
    jw_raw(&w, STR("{ }"));
    jw_raw(&w, (struct str){ 0 });
    jw_z(&w, NULL);
    jw_arr_end(&w);
    jw_kz(&w, "c", "x");
    jw_kbool(&w, "d", false);
    jw_knum(&w, "e", 0.5);
    jw_kraw(&w, "f", STR("[1]"));
    jw_kstr(&w, "g", (struct str){ 0 });
    jw_obj_end(&w);
    EXPECT_STR(buf_view(&b), "{\"a\":-5,\"b\":[[],{},null,true,{ },null,null],\"c\":\"x\",\"d\":false,\"e\":0.5,"
                             "\"f\":[1],\"g\":null}");
}

TEST(json_writer_escapes_strings)
{
    static const struct {
        struct str in;
        const char *out;
    } cases[] = {
        { { "", 0 }, "\"\"" },
        { { "plain, long enough for the word-wise scan", 41 }, "\"plain, long enough for the word-wise scan\"" },
        { { "\"\\/\b\f\n\r\t", 8 }, "\"\\\"\\\\/\\b\\f\\n\\r\\t\"" },
        { { "\0\x01\x1f\x7f", 4 }, "\"\\u0000\\u0001\\u001f\x7f\"" },
        { { "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", 9 }, "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"" },
        { { "a\xff"
            "b",
            3 },
          "\"a\xef\xbf\xbd"
          "b\"" },
        { { "\xe2\x82", 2 }, "\"\xef\xbf\xbd\"" },
        { { "\xf0\x9f\x98"
            "a",
            4 },
          "\"\xef\xbf\xbd"
          "a\"" },
        { { "\xed\xa0\x80", 3 }, "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"" },
        { { "\xc3\xa9\x80\n\xc3\xa9", 6 }, "\"\xc3\xa9\xef\xbf\xbd\\n\xc3\xa9\"" },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        auto_arena a = { 0 };
        auto_buf b;
        struct jw w = { .out = &b };
        buf_init(&b, 1000);
        jw_str(&w, cases[i].in);
        EXPECT_STR(buf_view(&b), cases[i].out);
        if (utf8_ok(cases[i].in))
            EXPECT_TRUE(str_eq(parse(&a, buf_view(&b))->s, cases[i].in));
    }
}

TEST(json_any_bytes_become_text_that_reads_back)
{
    uint32_t seed = 1;

    for (int round = 0; round < 2000; round++) {
        auto_arena a = { 0 };
        auto_buf b;
        struct jw w = { .out = &b };
        char bytes[32];
        for (size_t i = 0; i < sizeof bytes; i++) {
            seed = seed * 1664525 + 1013904223;
            bytes[i] = (char)(seed >> 24);
        }
        buf_init(&b, 1000);
        jw_str(&w, (struct str){ bytes, (size_t)round % sizeof bytes });
        EXPECT_INT(parse(&a, buf_view(&b))->type, JSON_STR);
    }
}

TEST(json_numbers_are_written_in_the_shortest_form_that_reads_back)
{
    static const struct {
        double d;
        const char *text;
    } cases[] = {
        { 0, "0" },
        { 30, "30" },
        { -1.5, "-1.5" },
        { 0.1, "0.1" },
        { 0.30000000000000004, "0.30000000000000004" },
        { 1e300, "1e+300" },
        { 5e-324, "4.94065645841247e-324" },
        { 1.0 / 3, "0.3333333333333333" },
        { 1e21, "1e+21" },
        { (double)NAN, "null" },
        { (double)INFINITY, "null" },
        { -(double)INFINITY, "null" },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        auto_arena a = { 0 };
        auto_buf b;
        struct jw w = { .out = &b };
        buf_init(&b, 100);
        jw_num(&w, cases[i].d);
        EXPECT_STR(buf_view(&b), cases[i].text);
        struct json *v = parse(&a, buf_view(&b));
        EXPECT_TRUE(v->type == JSON_NULL || v->num == cases[i].d);
    }
}

TEST(json_integers_are_written_whole)
{
    static const int64_t cases[] = { 0, 1, -1, 10, 1234567890123, INT64_MAX, INT64_MIN };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        auto_arena a = { 0 };
        auto_buf b;
        struct jw w = { .out = &b };
        buf_init(&b, 100);
        jw_int(&w, cases[i]);
        EXPECT_INT(parse(&a, buf_view(&b))->i, cases[i]);
    }
}

TEST(json_writer_never_passes_the_cap)
{
    for (size_t cap = 0; cap < 40; cap++) {
        auto_buf b;
        struct jw w = { .out = &b };
        buf_init(&b, cap);
        jw_obj(&w);
        jw_kz(&w, "k",
              "a\n\xff"
              "b");
        jw_key(&w, "b");
        jw_base64(&w, STR("abcd"));
        jw_obj_end(&w);
        EXPECT_TRUE(b.n <= cap);
        EXPECT_INT(b.full, cap < 30);
    }
}

TEST(json_base64_reads_back)
{
    static const struct {
        const char *plain, *coded;
    } cases[] = {
        { "", "\"\"" },
        { "f", "\"Zg==\"" },
        { "fo", "\"Zm8=\"" },
        { "foo", "\"Zm9v\"" },
        { "foob", "\"Zm9vYg==\"" },
        { "fooba", "\"Zm9vYmE=\"" },
        { "foobar", "\"Zm9vYmFy\"" },
        { "\xff\xfe\xfd", "\"//79\"" },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        auto_arena a = { 0 };
        auto_buf b;
        struct jw w = { .out = &b };
        buf_init(&b, 100);
        jw_base64(&w, str_of(cases[i].plain));
        EXPECT_STR(buf_view(&b), cases[i].coded);
        struct str back = base64_decode(&a, parse(&a, buf_view(&b))->s);
        EXPECT_TRUE(back.p);
        EXPECT_STR(back, cases[i].plain);
    }
}

TEST(json_base64_takes_white_space_and_missing_padding_but_no_garbage)
{
    auto_arena a = { 0 };
    static const char *const wrong[] = { "Z",    "Zm9vY", "Zg=",  "Zg===", "Zg==Zg==", "=",
                                         "====", "Zm9v=", "Zm-v", "Zm_v",  "\xc3\xa9" };

    EXPECT_STR(base64_decode(&a, STR("Zg")), "f");
    EXPECT_STR(base64_decode(&a, STR(" Zm\r\n9v\tYm E ")), "fooba");
    EXPECT_STR(base64_decode(&a, STR("Z g = =")), "f");
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
        EXPECT_TRUE(!base64_decode(&a, str_of(wrong[i])).p);
}

/* An odd byte may stand anywhere in a string of any length: the looks at many bytes at once must find it. */
TEST(json_finds_an_odd_byte_at_every_place_of_strings_of_every_length)
{
    static const struct {
        char byte;
        const char *written;
    } odd[] = {
        { '"', "\\\"" }, { '\\', "\\\\" }, { '\n', "\\n" }, { 0x1f, "\\u001f" }, { (char)0xff, "\xEF\xBF\xBD" }
    };

    for (size_t n = 1; n <= 70; n++)
        for (size_t at = 0; at < n; at++)
            for (size_t k = 0; k < ARRAY_LEN(odd); k++) {
                auto_arena a = { 0 };
                auto_buf out = { .cap = 4096 };
                auto_free char *text = malloc(n); /* exactly as long: a look behind its end is found */
                struct jw w = { .out = &out };
                char want[256];
                struct json *v = NULL;

                memset(text, '~', n);
                text[at] = odd[k].byte;
                jw_str(&w, (struct str){ text, n });
                snprintf(want, sizeof want, "\"%.*s%s%.*s\"", (int)at,
                         "~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~", odd[k].written,
                         (int)(n - at - 1), "~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~");
                EXPECT_STR(buf_view(&out), want);
                EXPECT_INT(json_parse(&a, buf_view(&out), &v, NULL), 0);
                if (odd[k].byte != (char)0xff)
                    EXPECT_TRUE(v && str_eq(v->s, (struct str){ text, n }));
            }
}

TEST(json_writes_times_as_the_shortest_text_that_reads_back)
{
    static const double more[] = { 0,    0.1,   0.30000000000000004, 1e-4, 0.0005, 999999999999.999, 1e12, 123456.7891,
                                   -1.5, 2.5e-3 };

    for (int i = 0; i < 20000; i++) {
        double d = i < (int)ARRAY_LEN(more) ? more[i] : i < 12000 ? i / 1000.0 : i * 7919.0 / 1000;
        auto_buf out = { .cap = 64 };
        struct jw w = { .out = &out };
        char want[40];

        for (int digits = 15; digits <= 17; digits++) {
            snprintf(want, sizeof want, "%.*g", digits, d);
            if (strtod(want, NULL) == d)
                break;
        }
        jw_num(&w, d);
        EXPECT_STR(buf_view(&out), want);
    }
}

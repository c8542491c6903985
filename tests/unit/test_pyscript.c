#include "test.h"
#include "tool/pyscript.h"

static int parse(struct arena *a, const char *text, struct py_call **calls, size_t *n, struct err *e)
{
    *calls = NULL;
    *n = 0;
    return py_parse(a, str_of(text), calls, n, e);
}

TEST(pyscript_reads_calls_with_literals_as_python_would)
{
    struct arena a = { 0 };
    struct py_call *c;
    struct err e;
    size_t n;

    EXPECT_INT(parse(&a, "import pyautogui, time; m.f(1, -2.5e1, x='a\\n\\u00e9' \"b\", y=[True, None, (3,)]) # why\n\ng( 1920 // 2 + 3 * (4 - 2), )", &c, &n, &e), 0);
    EXPECT_INT(n, 2);
    EXPECT_STR(c[0].name, "m.f");
    EXPECT_INT(c[0].n, 4);
    EXPECT_TRUE(c[0].args[0].value.num == 1 && !c[0].args[0].name.p && c[0].args[1].value.num == -25);
    EXPECT_STR(c[0].args[2].value.s, "a\n\xc3\xa9"
                                     "b");
    EXPECT_STR(c[0].args[2].name, "x");
    const struct py_value *list = &c[0].args[3].value;
    EXPECT_TRUE(list->type == PY_LIST && list->n == 3 && list->items[0].type == PY_BOOL && list->items[1].type == PY_NONE);
    EXPECT_TRUE(list->items[2].type == PY_LIST && list->items[2].n == 1);
    EXPECT_TRUE(c[1].args[0].value.num == 966);
    EXPECT_INT(parse(&a, "f('''a'\n\"b''', r'\\n', '\\q')", &c, &n, &e), 0);
    EXPECT_STR(c[0].args[0].value.s, "a'\n\"b");
    EXPECT_STR(c[0].args[1].value.s, "\\n");
    EXPECT_STR(c[0].args[2].value.s, "\\q");
    arena_done(&a);
}

TEST(pyscript_refuses_whatever_is_no_call_with_literals)
{
    static const char *const wrong[] = {
        "f", "f(", "f(1", "f(1))", "f(1 2)", "f(a=1, 2)", "f(g())", "f('a", "f('a\nb')", "f('\\ud800')", "f('\\xg')", "f(1/0)",
        "f(1e999)", "f(1.2.3)", "f('a'+1)", "f(-'a')", "f(lambda: 1)", "f(1) + 2", "x = f(1)", "import os", "f(x[0])", "f({})", "f(f'a')",
        "f((((((((((1))))))))))", "f(---------------1)", "if True: f(1)", "f(1_000)", "f(0x10)", "\\", "f(\xff)", "f().g()",
    };
    struct arena a = { 0 };
    struct py_call *c;
    struct err e;
    size_t n;

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        e = (struct err){ 0 };
        EXPECT_TRUE(parse(&a, wrong[i], &c, &n, &e) < 0);
        EXPECT_TRUE(strstr(e.msg, "at character "));
    }
    EXPECT_INT(parse(&a, " \n;;# nothing", &c, &n, &e), 0);
    EXPECT_INT(n, 0);
    arena_done(&a);
}

#include "tool/pyscript.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/buf.h"

struct reader {
    struct arena *arena;
    struct str text;
    size_t at;
    int depth; /* of brackets: within them a line may end anywhere */
    struct err *e;
};

static int wrong(struct reader *r, const char *what)
{
    return err_set(r->e, ERR_INVALID, "at character %zu: %s", r->at + 1, what);
}

static int look(const struct reader *r)
{
    return r->at < r->text.n ? (unsigned char)r->text.p[r->at] : -1;
}

static void skip_space(struct reader *r)
{
    for (int c; (c = look(r)) == ' ' || c == '\t' || c == '\r' || (c == '\n' && r->depth) || c == '#';) {
        if (c == '#')
            while (look(r) >= 0 && look(r) != '\n')
                r->at++;
        else
            r->at++;
    }
}

static bool eat(struct reader *r, char c)
{
    skip_space(r);
    if (look(r) != c)
        return false;
    r->at++;
    return true;
}

static bool starts_name(int c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(int c)
{
    return c >= '0' && c <= '9';
}

/* A name, with its dots: "pyautogui.click". Empty: there is none. */
static struct str name(struct reader *r)
{
    size_t from = r->at;

    while (starts_name(look(r)) || (r->at > from && (is_digit(look(r)) || look(r) == '.')))
        r->at++;
    return (struct str){ r->text.p + from, r->at - from };
}

/* --- strings --- */

static void add_char(struct buf *b, uint32_t c)
{
    if (c < 0x80) {
        buf_char(b, (char)c);
    } else if (c < 0x800) {
        buf_char(b, (char)(0xc0 | c >> 6));
        buf_char(b, (char)(0x80 | (c & 0x3f)));
    } else if (c < 0x10000) {
        buf_char(b, (char)(0xe0 | c >> 12));
        buf_char(b, (char)(0x80 | (c >> 6 & 0x3f)));
        buf_char(b, (char)(0x80 | (c & 0x3f)));
    } else {
        buf_char(b, (char)(0xf0 | c >> 18));
        buf_char(b, (char)(0x80 | (c >> 12 & 0x3f)));
        buf_char(b, (char)(0x80 | (c >> 6 & 0x3f)));
        buf_char(b, (char)(0x80 | (c & 0x3f)));
    }
}

/* So many digits of a number to the base of 8 or 16. */
static int number(struct reader *r, int base, int min, int max, uint32_t *ret)
{
    int n = 0;

    for (*ret = 0; n < max; n++, r->at++) {
        int c = look(r), v = is_digit(c)            ? c - '0'
                             : c >= 'a' && c <= 'f' ? c - 'a' + 10
                             : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                    : 99;
        if (v >= base)
            break;
        *ret = *ret * (uint32_t)base + (uint32_t)v;
    }
    return n >= min ? 0 : wrong(r, "not enough digits behind the backslash");
}

static int escape(struct reader *r, struct buf *b)
{
    static const char from[] = "\\'\"nrtabfv", to[] = "\\'\"\n\r\t\a\b\f\v";
    int c = look(r);
    uint32_t v;
    const char *at = c > 0 ? strchr(from, c) : NULL;

    if (c < 0)
        return wrong(r, "the text does not end");
    if (at || c == '\n') {
        r->at++;
        if (at)
            buf_char(b, to[at - from]);
        return 0;
    }
    bool octal = c >= '0' && c <= '7';
    if (!octal && c != 'x' && c != 'u' && c != 'U') { /* as Python has it: then the backslash is meant */
        buf_char(b, '\\');
        return 0;
    }
    int digits = c == 'x' ? 2 : c == 'u' ? 4 : 8;
    if (!octal)
        r->at++;
    int s = octal ? number(r, 8, 1, 3, &v) : number(r, 16, digits, digits, &v);
    if (s < 0)
        return s;
    if (v > 0x10ffff || (v >= 0xd800 && v < 0xe000))
        return wrong(r, "this is no character");
    add_char(b, v);
    return 0;
}

static int string(struct reader *r, bool raw, struct buf *b)
{
    char quote = (char)look(r);
    size_t left = r->text.n - r->at;
    bool three = left >= 3 && r->text.p[r->at + 1] == quote && r->text.p[r->at + 2] == quote;

    r->at += three ? 3 : 1;
    for (int c; (c = look(r)) >= 0;) {
        left = r->text.n - r->at;
        if (c == quote && (!three || (left >= 3 && r->text.p[r->at + 1] == quote && r->text.p[r->at + 2] == quote))) {
            r->at += three ? 3 : 1;
            return 0;
        }
        if (c == '\n' && !three)
            break;
        r->at++;
        if (c != '\\') {
            buf_char(b, (char)c);
        } else if (raw) {
            buf_char(b, '\\');
            if (look(r) == quote || look(r) == '\\')
                buf_char(b, r->text.p[r->at++]);
        } else {
            int s = escape(r, b);
            if (s < 0)
                return s;
        }
    }
    return wrong(r, "the text does not end");
}

/* Does a text begin here? Goes past what may stand before its quote: r, which leaves backslashes as they are, or u. */
static bool at_string(struct reader *r, bool *ret_raw)
{
    int c = look(r), next = r->at + 1 < r->text.n ? r->text.p[r->at + 1] : 0;
    bool prefix = (c == 'r' || c == 'R' || c == 'u') && (next == '\'' || next == '"');

    *ret_raw = prefix && c != 'u';
    r->at += prefix;
    return prefix || c == '\'' || c == '"';
}

/* One after the other they are one text. */
static int strings(struct reader *r, bool raw, struct py_value *ret)
{
    struct buf b;
    int s;

    buf_init(&b, r->text.n + 4); /* no escape is shorter than what it makes */
    do {
        s = string(r, raw, &b);
        skip_space(r);
    } while (s == 0 && at_string(r, &raw));
    *ret = (struct py_value){ .type = PY_STR, .s = arena_copy(r->arena, buf_view(&b)) };
    buf_done(&b);
    return s;
}

/* --- values --- */

static int value(struct reader *r, struct py_value *ret);

static int list(struct reader *r, char close, struct py_value *ret)
{
    struct py_value items[PY_ITEMS_MAX];
    size_t n = 0;
    bool comma = false;
    int s = 0;

    if (++r->depth > PY_DEPTH_MAX)
        return wrong(r, "brackets nest too deep");
    while (!eat(r, close)) {
        if (n && !comma)
            return wrong(r, "a comma or a closing bracket should be here");
        if (n == PY_ITEMS_MAX)
            return wrong(r, "this list is too long");
        s = value(r, &items[n++]);
        if (s < 0)
            return s;
        comma = eat(r, ',');
    }
    r->depth--;
    if (close == ')' && n == 1 && !comma) { /* brackets around a value */
        *ret = items[0];
        return 0;
    }
    *ret = (struct py_value){ .type = PY_LIST, .items = arena_alloc(r->arena, (n + 1) * sizeof *items), .n = n };
    if (n)
        memcpy(ret->items, items, n * sizeof *items);
    return 0;
}

static int digits(struct reader *r, struct py_value *ret)
{
    char text[32], *end;
    size_t n = 0;

    for (int c; n < sizeof text - 1; text[n++] = (char)c, r->at++) {
        c = look(r);
        bool sign = (c == '+' || c == '-') && n && (text[n - 1] == 'e' || text[n - 1] == 'E');
        if (!is_digit(c) && c != '.' && !(n && (c == 'e' || c == 'E')) && !sign)
            break;
    }
    text[n] = 0;
    *ret = (struct py_value){ .type = PY_NUM, .num = strtod(text, &end) };
    return n && !*end && isfinite(ret->num) && !starts_name(look(r)) && !is_digit(look(r))
               ? 0
               : wrong(r, "this is no number");
}

static int atom(struct reader *r, struct py_value *ret)
{
    skip_space(r);
    int c = look(r);
    bool raw;

    if (c == '-' || c == '+') {
        if (++r->depth > PY_DEPTH_MAX)
            return wrong(r, "too many signs");
        r->at++;
        int s = atom(r, ret);
        r->depth--;
        if (s == 0 && ret->type != PY_NUM)
            s = wrong(r, "only a number has a sign");
        ret->num = c == '-' ? -ret->num : ret->num;
        return s;
    }
    if (c == '[' || c == '(') {
        r->at++;
        return list(r, c == '[' ? ']' : ')', ret);
    }
    if (at_string(r, &raw))
        return strings(r, raw, ret);
    if (is_digit(c) || c == '.')
        return digits(r, ret);
    struct str word = name(r);
    if (!word.n)
        return wrong(r, "a number, a text, a list, True, False or None should be here");
    *ret = (struct py_value){ .type = PY_NAME, .s = word };
    if (str_is(word, "True") || str_is(word, "False"))
        *ret = (struct py_value){ .type = PY_BOOL, .num = str_is(word, "True") };
    else if (str_is(word, "None"))
        *ret = (struct py_value){ .type = PY_NONE };
    else if (eat(r, '('))
        return wrong(r, "a value cannot be a call");
    return 0;
}

static int compute(struct reader *r, char op, struct py_value *left, const struct py_value *right)
{
    if (left->type != PY_NUM || right->type != PY_NUM)
        return wrong(r, "only numbers can be computed with");
    if ((op == '/' || op == '|') && right->num == 0)
        return wrong(r, "division by zero");
    left->num = op == '+'   ? left->num + right->num
                : op == '-' ? left->num - right->num
                : op == '*' ? left->num * right->num
                : op == '/' ? left->num / right->num
                            : floor(left->num / right->num);
    return isfinite(left->num) ? 0 : wrong(r, "this number is too large");
}

static int product(struct reader *r, struct py_value *ret)
{
    struct py_value right;
    int s = atom(r, ret);

    for (skip_space(r); s == 0 && (look(r) == '*' || look(r) == '/'); skip_space(r)) {
        char op = r->text.p[r->at++];
        if (op == '/' && look(r) == '/') {
            op = '|';
            r->at++;
        }
        s = atom(r, &right);
        if (s == 0)
            s = compute(r, op, ret, &right);
    }
    return s;
}

static int value(struct reader *r, struct py_value *ret)
{
    struct py_value right;
    int s = product(r, ret);

    for (skip_space(r); s == 0 && (look(r) == '+' || look(r) == '-'); skip_space(r)) {
        char op = r->text.p[r->at++];
        s = product(r, &right);
        if (s == 0)
            s = compute(r, op, ret, &right);
    }
    return s;
}

/* --- calls --- */

static int argument(struct reader *r, struct py_arg *ret)
{
    skip_space(r);
    size_t from = r->at;
    struct str word = name(r);

    *ret = (struct py_arg){ 0 };
    if (word.n && eat(r, '=')) {
        ret->name = word;
    } else {
        r->at = from;
    }
    return value(r, &ret->value);
}

static int arguments(struct reader *r, struct py_call *c)
{
    enum { MAX = 32 };
    struct py_arg args[MAX];
    bool comma = true;

    r->depth++;
    for (c->n = 0; !eat(r, ')'); comma = eat(r, ',')) {
        if (!comma)
            return wrong(r, "a comma or a closing bracket should be here");
        if (c->n == MAX)
            return wrong(r, "too many arguments");
        int s = argument(r, &args[c->n]);
        if (s < 0)
            return s;
        if (!args[c->n].name.p && c->n && args[c->n - 1].name.p)
            return wrong(r, "an argument without a name stands behind one with a name");
        c->n++;
    }
    r->depth--;
    c->args = arena_alloc(r->arena, (c->n + 1) * sizeof *args);
    if (c->n)
        memcpy(c->args, args, c->n * sizeof *args);
    return 0;
}

/* What scripts begin with: these are here without being asked for. */
static int import(struct reader *r)
{
    do {
        skip_space(r);
        struct str module = name(r);
        if (!str_is(module, "pyautogui") && !str_is(module, "time"))
            return wrong(r, "only pyautogui and time are here");
    } while (eat(r, ','));
    return 0;
}

int py_parse(struct arena *a, struct str text, struct py_call **ret, size_t *ret_n, struct err *e)
{
    struct reader r = { .arena = a, .text = text, .e = e };
    struct py_call calls[PY_CALLS_MAX];
    size_t n = 0;

    for (;;) {
        int s = 0;
        while (eat(&r, ';') || eat(&r, '\n'))
            ;
        if (look(&r) < 0)
            break;
        struct str word = name(&r);
        if (str_is(word, "import")) {
            s = import(&r);
        } else if (n == PY_CALLS_MAX) {
            s = wrong(&r, "too many calls");
        } else if (!word.n || !eat(&r, '(')) {
            s = wrong(&r, "a call should be here, such as pyautogui.click(10, 20)");
        } else {
            calls[n].name = word;
            s = arguments(&r, &calls[n++]);
        }
        if (s < 0)
            return s;
        skip_space(&r);
        if (look(&r) >= 0 && look(&r) != ';' && look(&r) != '\n')
            return wrong(&r, "a call ends with its line, or with a semicolon");
    }
    *ret = arena_alloc(a, (n + 1) * sizeof *calls);
    if (n)
        memcpy(*ret, calls, n * sizeof *calls);
    *ret_n = n;
    return 0;
}

/* Hostile bytes as a packed struct, and hostile JSON for the same table. Whatever is accepted must print as JSON, and
 * pack and unpack to the same. The first byte chooses. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/auto.h"
#include "base/field.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

struct row {
    struct str s, j;
    int64_t i;
    struct rows sub;
};
static const struct field row_fields[] = {
    FIELD(STR, struct row, s, "text", .required = true),
    FIELD(JSON, struct row, j, "any"),
    FIELD(INT, struct row, i, "number", .def = 3),
    FIELD(ROWS, struct row, sub, "itself", .rows = row_fields, .row_size = sizeof(struct row)),
    { 0 },
};

struct all {
    struct str s, y, j, c;
    int64_t i, o;
    double d, r;
    bool b, t;
    struct strs l;
    struct pairs p;
    struct rows e;
};
static const struct field all_fields[] = {
    FIELD(STR, struct all, s, "text", .max = 1000),
    FIELD(BYTES, struct all, y, "bytes", .max = 1000),
    FIELD(JSON, struct all, j, "any"),
    FIELD(STR, struct all, c, "choice", .choices = "a|bc|", .alias = "choice"),
    FIELD(INT, struct all, i, "number", .min = -5, .max = 1e18),
    FIELD(INT, struct all, o, "optional", .def = FIELD_ABSENT, .nullable = true),
    FIELD(NUM, struct all, d, "real", .def_num = (double)NAN),
    FIELD(NUM, struct all, r, "ranged", .min = -1, .max = 1),
    FIELD(BOOL, struct all, b, "flag"),
    FIELD(BOOL, struct all, t, "flag", .def = 1),
    FIELD(STRS, struct all, l, "list", .always = true),
    FIELD(PAIRS, struct all, p, "map"),
    FIELD(ROWS, struct all, e, "rows", .rows = row_fields, .row_size = sizeof(struct row)),
    { 0 },
};

static void check(bool ok)
{
    if (!ok)
        abort();
}

static void print(struct buf *b, const struct all *v)
{
    struct jw w = { .out = b };

    buf_init(b, 64 << 20);
    jw_obj(&w);
    field_print(all_fields, v, &w);
    jw_obj_end(&w);
}

/* Whatever came in, from JSON or from a box, goes out as JSON that we read again. */
static void check_accepted(struct arena *a, const struct all *v)
{
    AUTO(buf_done) struct buf packed, one, two;
    struct all back;
    struct json *tree;

    buf_init(&packed, 64 << 20);
    buf_init(&two, 64 << 20);
    print(&one, v);
    check(json_parse(a, buf_view(&one), &tree, NULL) >= 0);
    field_pack(all_fields, v, &packed);
    check(!packed.full && !one.full);
    check(field_unpack(all_fields, buf_view(&packed), a, &back, sizeof back, NULL) >= 0);
    print(&two, &back);
    check(str_eq(buf_view(&one), buf_view(&two)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    AUTO(arena_done) struct arena a = { 0 };
    AUTO(buf_done) struct buf ignored;
    struct err e = { 0 };
    struct all v;
    struct json *tree;

    buf_init(&ignored, 1 << 20);
    if (n == 0)
        return 0;
    struct str in = { (const char *)data + 1, n - 1 };
    if (data[0] != '{') {
        int r = field_unpack(all_fields, in, &a, &v, sizeof v, &e);
        check((r < 0) == (e.code != ERR_NONE));
        check_accepted(&a, &v);
        return 0;
    }
    in = (struct str){ (const char *)data, n };
    if (json_parse(&a, in, &tree, NULL) < 0)
        return 0;
    int r = field_bind(all_fields, tree, &a, &v, data[n - 1] == ' ' ? &ignored : NULL, &e);
    check((r < 0) == (e.code != ERR_NONE));
    check(utf8_ok(str_of(e.msg)) || strlen(e.msg) == sizeof e.msg - 1);
    if (r >= 0)
        check_accepted(&a, &v);
    return 0;
}

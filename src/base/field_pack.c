/* The packed form of structs that a table describes. Packing trusts its input, unpacking nothing: it is how a box talks
 * to us. Each field that is not absent is
 *   u8 length of the name, name, u8 type, u32 length, that many bytes
 * INT: 8 bytes. NUM: 8 bytes, IEEE double. BOOL: 1 byte, 0 or 1. STR, BYTES, JSON: as they are.
 * STRS, PAIRS, ROWS: u32 count, then per entry u32 length and bytes (a pair is two such; a row is a packed struct).
 * All integers are little-endian. */
#include "base/field.h"

#include <assert.h>
#include <math.h>

#include "base/auto.h"
#include "base/limits.h"

enum {
    UNPACK_DEPTH = 4,  /* rows in rows */
    UNPACK_GROWTH = 4, /* a packed list of strings takes four times its bytes in memory, at most */
};
#define UNPACK_SPARE ((size_t)(16 * MiB)) /* on top, for rows, which are mostly bigger than their packed form */

static void put_le(struct buf *out, uint64_t v, size_t n)
{
    unsigned char bytes[8];

    for (size_t i = 0; i < n; i++)
        bytes[i] = (unsigned char)(v >> 8 * i);
    buf_add(out, bytes, n);
}

static uint64_t get_le(const char *p, size_t n)
{
    uint64_t v = 0;

    for (size_t i = 0; i < n; i++)
        v |= (uint64_t)(unsigned char)p[i] << 8 * i;
    return v;
}

static void put_sized(struct buf *out, struct str s)
{
    if (s.n > UINT32_MAX) {
        out->full = true;
        return;
    }
    put_le(out, s.n, 4);
    buf_str(out, s);
}

/* A length whose value is known only later: begin, append, end. */
static size_t begin_sized(struct buf *out)
{
    put_le(out, 0, 4);
    return out->n;
}

static void end_sized(struct buf *out, size_t from)
{
    size_t n = out->n - from;

    if (n > UINT32_MAX)
        out->full = true;
    if (out->full)
        return;
    for (size_t i = 0; i < 4; i++)
        out->p[from - 4 + i] = (char)(n >> 8 * i);
}

static void pack_strs(const struct strs *list, struct buf *out)
{
    put_le(out, list->n, 4);
    for (size_t i = 0; i < list->n; i++)
        put_sized(out, list->v[i]);
}

static void pack_pairs(const struct pairs *list, struct buf *out)
{
    put_le(out, list->n, 4);
    for (size_t i = 0; i < list->n; i++) {
        put_sized(out, list->v[i].name);
        put_sized(out, list->v[i].value);
    }
}

static void pack_rows(const struct field *f, const struct rows *list, struct buf *out)
{
    put_le(out, list->n, 4);
    for (size_t i = 0; i < list->n && !out->full; i++) {
        size_t from = begin_sized(out);
        field_pack(f->rows, (const char *)list->v + i * f->row_size, out);
        end_sized(out, from);
    }
}

static void pack_value(const struct field *f, const void *p, struct buf *out)
{
    uint64_t bits;

    switch (f->type) {
    case FIELD_STR:
    case FIELD_BYTES:
    case FIELD_JSON: buf_str(out, *(const struct str *)p); break;
    case FIELD_INT: put_le(out, (uint64_t) * (const int64_t *)p, 8); break;
    case FIELD_NUM:
        memcpy(&bits, p, 8);
        put_le(out, bits, 8);
        break;
    case FIELD_BOOL: put_le(out, *(const bool *)p, 1); break;
    case FIELD_STRS: pack_strs(p, out); break;
    case FIELD_PAIRS: pack_pairs(p, out); break;
    case FIELD_ROWS: pack_rows(f, p, out); break;
    case FIELD_END: break;
    }
}

/* An absent INT or NUM whose default is a value must travel: the reader would take the default. */
static bool reads_as_absent(const struct field *f)
{
    return f->type == FIELD_INT ? f->def == FIELD_ABSENT : f->type == FIELD_NUM ? isnan(f->def_num) : true;
}

/* What stands before a value: name, type, room for its length. */
static void put_head(const struct field *f, struct buf *out)
{
    size_t name_n = strlen(f->name), n = 1 + name_n + 1 + 4;
    unsigned char *to = buf_room(out, n);

    assert(name_n <= UINT8_MAX);
    if (!to)
        return;
    *to = (unsigned char)name_n;
    memcpy(to + 1, f->name, name_n);
    to[1 + name_n] = (unsigned char)f->type;
    memset(to + 1 + name_n + 1, 0, 4);
    buf_grew(out, n);
}

void field_pack(const struct field *fields, const void *in, struct buf *out)
{
    for (const struct field *f = fields; f->type != FIELD_END && !out->full; f++) {
        const void *p = (const char *)in + f->offset;

        if (field_is_absent(f, p) && reads_as_absent(f))
            continue;
        put_head(f, out);
        size_t from = out->n;
        pack_value(f, p, out);
        end_sized(out, from);
    }
}

struct unpack {
    struct arena *a;
    size_t total_max; /* of a->total: what the sender may make us allocate */
    const char *start;
    struct err *e;
};

static int unpack_struct(struct unpack *u, const struct field *fields, struct str in, void *out, int depth);

static int corrupt(struct unpack *u, const char *where, const char *what)
{
    return err_set(u->e, ERR_INVALID, "packed struct: %s at byte %zu", what, (size_t)(where - u->start));
}

static bool take(struct str *in, size_t n, struct str *ret)
{
    if (in->n < n)
        return false;
    *ret = (struct str){ in->p, n };
    in->p += n;
    in->n -= n;
    return true;
}

static bool take_sized(struct str *in, struct str *ret)
{
    struct str len;

    return take(in, 4, &len) && take(in, get_le(len.p, 4), ret);
}

/* The count and the memory of a list. An entry takes at least entry_min bytes, so a count that the bytes cannot hold
 * is refused before anything is allocated for it. */
static int unpack_list(struct unpack *u, struct str *in, size_t entry_min, size_t entry_size, struct rows *ret)
{
    struct str count;

    if (!take(in, 4, &count))
        return corrupt(u, in->p, "list without a count");
    size_t n = get_le(count.p, 4);
    if (n > in->n / entry_min)
        return corrupt(u, count.p, "count above what the bytes hold");
    if (u->a->total > u->total_max || n * entry_size > u->total_max - u->a->total)
        return err_set(u->e, ERR_LIMIT, "packed struct: %zu entries of %zu bytes are more than its size allows", n,
                       entry_size);
    *ret = (struct rows){ n ? arena_alloc(u->a, n * entry_size) : NULL, n };
    return 0;
}

static int unpack_strs(struct unpack *u, struct str in, struct strs *to)
{
    struct rows list;
    int r = unpack_list(u, &in, 4, sizeof(struct str), &list);

    if (r < 0)
        return r;
    struct str *v = list.v;
    for (size_t i = 0; i < list.n; i++)
        if (!take_sized(&in, &v[i]))
            return corrupt(u, in.p, "cut entry");
    if (in.n)
        return corrupt(u, in.p, "bytes after the last entry");
    *to = (struct strs){ v, list.n };
    return 0;
}

static int by_bytes(const void *a, const void *b)
{
    const struct str *x = a, *y = b;

    return x->n != y->n ? (x->n < y->n ? -1 : 1) : memcmp(x->p, y->p, x->n);
}

/* Names become keys of a JSON object that we must be able to read again: UTF-8, each once. */
static int check_keys(struct unpack *u, const struct pair *v, size_t n, const char *where)
{
    auto_free struct str *names = malloc((n + 1) * sizeof *names);

    if (!names)
        return err_set(u->e, ERR_LIMIT, "packed struct: no memory for %zu pairs", n);
    for (size_t i = 0; i < n; i++) {
        names[i] = v[i].name;
        if (!utf8_ok(names[i]))
            return corrupt(u, where, "name that is not UTF-8 in the pairs");
    }
    qsort(names, n, sizeof *names, by_bytes);
    for (size_t i = 1; i < n; i++)
        if (str_eq(names[i - 1], names[i]))
            return corrupt(u, where, "repeated name in the pairs");
    return 0;
}

static int unpack_pairs(struct unpack *u, struct str in, struct pairs *to)
{
    const char *from = in.p;
    struct rows list;
    int r = unpack_list(u, &in, 8, sizeof(struct pair), &list);

    if (r < 0)
        return r;
    struct pair *v = list.v;
    for (size_t i = 0; i < list.n; i++)
        if (!take_sized(&in, &v[i].name) || !take_sized(&in, &v[i].value))
            return corrupt(u, in.p, "cut entry");
    if (in.n)
        return corrupt(u, in.p, "bytes after the last entry");
    *to = (struct pairs){ v, list.n };
    return check_keys(u, v, list.n, from);
}

static int unpack_rows(struct unpack *u, const struct field *f, struct str in, struct rows *to, int depth)
{
    struct rows list;
    int r = unpack_list(u, &in, 4, f->row_size, &list);

    if (r < 0)
        return r;
    for (size_t i = 0; i < list.n; i++) {
        struct str row;
        char *v = (char *)list.v + i * f->row_size;
        if (!take_sized(&in, &row))
            return corrupt(u, in.p, "cut row");
        field_defaults(f->rows, v, f->row_size);
        r = unpack_struct(u, f->rows, row, v, depth + 1);
        if (r < 0)
            return r;
    }
    if (in.n)
        return corrupt(u, in.p, "bytes after the last row");
    *to = list;
    return 0;
}

/* JSON from the wire is pasted into our own JSON later, so it must be whole. The tree is of no use here. */
static int unpack_json(struct unpack *u, struct str in, struct str *to)
{
    AUTO(arena_done) struct arena scratch = { 0 };
    struct json *tree;
    int r = json_parse(&scratch, in, &tree, u->e);

    if (r >= 0)
        r = field_check_depth(tree, u->e);
    if (r < 0)
        return err_wrap(u->e, r, "packed struct");
    *to = in;
    return 0;
}

static int unpack_value(struct unpack *u, const struct field *f, struct str in, void *to, int depth)
{
    uint64_t bits;

    switch (f->type) {
    case FIELD_STR:
    case FIELD_BYTES: *(struct str *)to = in; return 0;
    case FIELD_JSON: return unpack_json(u, in, to);
    case FIELD_STRS: return unpack_strs(u, in, to);
    case FIELD_PAIRS: return unpack_pairs(u, in, to);
    case FIELD_ROWS: return unpack_rows(u, f, in, to, depth);
    case FIELD_INT:
    case FIELD_NUM:
        if (in.n != 8)
            return corrupt(u, in.p, "number that is not 8 bytes");
        bits = get_le(in.p, 8);
        memcpy(to, &bits, 8);
        return 0;
    case FIELD_BOOL:
        if (in.n != 1 || (unsigned char)in.p[0] > 1)
            return corrupt(u, in.p, "boolean that is not 0 or 1");
        *(bool *)to = in.p[0];
        return 0;
    case FIELD_END: break;
    }
    return 0;
}

/* Fields mostly come in the table's order, so the search goes on where the last one ended. */
static const struct field *find_name(const struct field *fields, const struct field *from, struct str name)
{
    for (const struct field *f = from; f->type != FIELD_END; f++)
        if (str_is(name, f->name))
            return f;
    for (const struct field *f = fields; f < from; f++)
        if (str_is(name, f->name))
            return f;
    return NULL;
}

static int unpack_struct(struct unpack *u, const struct field *fields, struct str in, void *out, int depth)
{
    const struct field *next = fields;

    if (depth > UNPACK_DEPTH)
        return err_set(u->e, ERR_LIMIT, "packed struct: nested deeper than %d", UNPACK_DEPTH);
    while (in.n) {
        struct str len, name, type, value;
        const char *from = in.p;

        if (!take(&in, 1, &len) || !take(&in, (unsigned char)len.p[0], &name) || !take(&in, 1, &type) ||
            !take_sized(&in, &value))
            return corrupt(u, from, "cut field");
        const struct field *f = find_name(fields, next, name);
        if (!f)
            continue;
        if ((unsigned char)type.p[0] != f->type)
            return corrupt(u, from, "field of another type than expected");
        int r = unpack_value(u, f, value, (char *)out + f->offset, depth);
        if (r < 0)
            return err_wrap(u->e, r, "%s", f->name);
        next = f + 1;
    }
    return 0;
}

int field_unpack(const struct field *fields, struct str packed, struct arena *a, void *out, size_t size, struct err *e)
{
    struct unpack u = {
        .a = a,
        .total_max = a->total + packed.n * UNPACK_GROWTH + UNPACK_SPARE,
        .start = packed.p ? packed.p : "",
        .e = e,
    };

    field_defaults(fields, out, size);
    int r = unpack_struct(&u, fields, (struct str){ u.start, packed.n }, out, 1);
    if (r < 0)
        field_defaults(fields, out, size); /* nobody sees half of a lie */
    return r;
}

/* The metadata is Thrift in its compact form: a field is a byte with its number's distance to the one before and its
 * type; numbers are zigzag varints, structs end with a zero. */
#include "replay/parquet.h"

#include <string.h>

enum { GROUP_ROWS = 128, GROUP_BYTES = 32 * 1024 * 1024, MAGIC_SIZE = 4, COLUMNS_MAX = 32 };
enum thrift { T_I32 = 5, T_I64 = 6, T_BINARY = 8, T_LIST = 9, T_STRUCT = 12 };

struct writer {
    struct buf *out;
    int last; /* number of the field before */
};

static void varint(struct buf *b, uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        buf_char(b, (char)(v | 0x80));
    buf_char(b, (char)v);
}

static void zigzag(struct buf *b, int64_t v)
{
    varint(b, ((uint64_t)v << 1) ^ (uint64_t)(v >> 63));
}

static void field(struct writer *w, int number, enum thrift type)
{
    buf_char(w->out, (char)((number - w->last) << 4 | (int)type)); /* none here is further than 15 */
    w->last = number;
}

static void field_int(struct writer *w, int number, enum thrift type, int64_t v)
{
    field(w, number, type);
    zigzag(w->out, v);
}

static void text(struct buf *b, const char *z)
{
    varint(b, strlen(z));
    buf_z(b, z);
}

static void list(struct buf *b, size_t n, enum thrift type)
{
    if (n < 15) {
        buf_char(b, (char)(n << 4 | type));
        return;
    }
    buf_char(b, (char)(0xf0 | type));
    varint(b, n);
}

static void le32(struct buf *b, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        buf_char(b, (char)(v >> 8 * i));
}

static void le64(struct buf *b, uint64_t v)
{
    le32(b, (uint32_t)v);
    le32(b, (uint32_t)(v >> 32));
}

/* --- rows --- */

struct chunk {
    uint64_t offset, size;
};
struct group {
    struct group *next;
    struct chunk chunks[COLUMNS_MAX];
    size_t rows;
};
struct parquet {
    struct arena *arena; /* of what lives until the end */
    const struct parquet_column *columns;
    size_t n, rows, total;
    struct buf *out;
    struct buf values[COLUMNS_MAX]; /* of the group that is being filled */
    unsigned char there[COLUMNS_MAX][GROUP_ROWS];
    unsigned char bits[COLUMNS_MAX]; /* booleans that do not fill a byte yet */
    unsigned bit_count[COLUMNS_MAX];
    struct group *groups, **groups_end;
};

struct parquet *parquet_new(struct arena *a, const struct parquet_column *columns, size_t n, struct buf *out)
{
    struct parquet *p = arena_alloc(a, sizeof *p);

    *p = (struct parquet){ .arena = a, .columns = columns, .n = n, .out = out };
    p->groups_end = &p->groups;
    for (size_t i = 0; i < n; i++)
        buf_init(&p->values[i], 1 << 30);
    buf_z(out, "PAR1");
    return p;
}

static void add_bit(struct parquet *p, size_t c, bool bit)
{
    p->bits[c] |= (unsigned char)(bit << p->bit_count[c]);
    if (++p->bit_count[c] < 8)
        return;
    buf_char(&p->values[c], (char)p->bits[c]);
    p->bits[c] = 0;
    p->bit_count[c] = 0;
}

static void add_value(struct parquet *p, size_t c, const struct parquet_value *v)
{
    uint64_t bits;

    switch (p->columns[c].type) {
    case PARQUET_BOOL: add_bit(p, c, v->i != 0); break;
    case PARQUET_INT: le64(&p->values[c], (uint64_t)v->i); break;
    case PARQUET_DOUBLE:
        memcpy(&bits, &v->d, sizeof bits);
        le64(&p->values[c], bits);
        break;
    case PARQUET_TEXT:
        le32(&p->values[c], (uint32_t)v->text.n);
        buf_str(&p->values[c], v->text);
        break;
    }
}

/* Which rows have a value: runs of equal ones, each a varint of twice its length and the value. */
static void add_levels(const struct parquet *p, size_t c, struct buf *out)
{
    struct buf runs;

    buf_init(&runs, 4 * GROUP_ROWS);
    for (size_t i = 0, n; i < p->rows; i += n) {
        for (n = 1; i + n < p->rows && p->there[c][i + n] == p->there[c][i]; n++)
            ;
        varint(&runs, (uint64_t)n << 1);
        buf_char(&runs, (char)p->there[c][i]);
    }
    le32(out, (uint32_t)runs.n);
    buf_str(out, buf_view(&runs));
    buf_done(&runs);
}

static void write_page(struct parquet *p, size_t c, struct chunk *ret)
{
    struct buf levels;
    struct writer w = { .out = p->out };

    ret->offset = p->out->n;
    buf_init(&levels, 8 * GROUP_ROWS);
    add_levels(p, c, &levels);
    if (p->bit_count[c])
        buf_char(&p->values[c], (char)p->bits[c]);
    int64_t size = (int64_t)(levels.n + p->values[c].n);
    field_int(&w, 1, T_I32, 0); /* a data page */
    field_int(&w, 2, T_I32, size);
    field_int(&w, 3, T_I32, size);
    field(&w, 5, T_STRUCT);
    struct writer in = { .out = p->out };
    field_int(&in, 1, T_I32, (int64_t)p->rows);
    field_int(&in, 2, T_I32, 0); /* plain */
    field_int(&in, 3, T_I32, 3); /* runs */
    field_int(&in, 4, T_I32, 3);
    buf_char(p->out, 0);
    buf_char(p->out, 0);
    buf_str(p->out, buf_view(&levels));
    buf_str(p->out, buf_view(&p->values[c]));
    buf_done(&levels);
    buf_reset(&p->values[c]);
    p->bits[c] = 0;
    p->bit_count[c] = 0;
    ret->size = p->out->n - ret->offset;
}

static void flush(struct parquet *p)
{
    if (!p->rows)
        return;
    struct group *g = arena_alloc(p->arena, sizeof *g);
    *g = (struct group){ .rows = p->rows };
    for (size_t c = 0; c < p->n; c++)
        write_page(p, c, &g->chunks[c]);
    *p->groups_end = g;
    p->groups_end = &g->next;
    p->total += p->rows;
    p->rows = 0;
}

void parquet_row(struct parquet *p, const struct parquet_value *values)
{
    size_t bytes = 0;

    for (size_t c = 0; c < p->n; c++) {
        p->there[c][p->rows] = values[c].there;
        if (values[c].there)
            add_value(p, c, &values[c]);
        bytes += p->values[c].n;
    }
    p->rows++;
    if (p->rows == GROUP_ROWS || bytes > GROUP_BYTES)
        flush(p);
}

/* --- the footer --- */

static void write_schema(const struct parquet *p)
{
    struct writer root = { .out = p->out };

    list(p->out, p->n + 1, T_STRUCT);
    field(&root, 4, T_BINARY);
    text(p->out, "schema");
    field_int(&root, 5, T_I32, (int64_t)p->n);
    buf_char(p->out, 0);
    for (size_t c = 0; c < p->n; c++) {
        struct writer w = { .out = p->out };
        field_int(&w, 1, T_I32, p->columns[c].type);
        field_int(&w, 3, T_I32, 1); /* may be absent */
        field(&w, 4, T_BINARY);
        text(p->out, p->columns[c].name);
        if (p->columns[c].type == PARQUET_TEXT)
            field_int(&w, 6, T_I32, 0); /* UTF-8 */
        buf_char(p->out, 0);
    }
}

static void write_chunk(const struct parquet *p, const struct group *g, size_t c)
{
    struct writer w = { .out = p->out }, in = { .out = p->out };
    const struct chunk *k = &g->chunks[c];

    field_int(&w, 2, T_I64, (int64_t)k->offset);
    field(&w, 3, T_STRUCT);
    field_int(&in, 1, T_I32, p->columns[c].type);
    field(&in, 2, T_LIST);
    list(p->out, 2, T_I32);
    zigzag(p->out, 0);
    zigzag(p->out, 3);
    field(&in, 3, T_LIST);
    list(p->out, 1, T_BINARY);
    text(p->out, p->columns[c].name);
    field_int(&in, 4, T_I32, 0); /* not compressed */
    field_int(&in, 5, T_I64, (int64_t)g->rows);
    field_int(&in, 6, T_I64, (int64_t)k->size);
    field_int(&in, 7, T_I64, (int64_t)k->size);
    field_int(&in, 9, T_I64, (int64_t)k->offset);
    buf_char(p->out, 0);
    buf_char(p->out, 0);
}

static void write_group(const struct parquet *p, const struct group *g)
{
    struct writer w = { .out = p->out };
    uint64_t bytes = 0;

    field(&w, 1, T_LIST);
    list(p->out, p->n, T_STRUCT);
    for (size_t c = 0; c < p->n; c++) {
        write_chunk(p, g, c);
        bytes += g->chunks[c].size;
    }
    field_int(&w, 2, T_I64, (int64_t)bytes);
    field_int(&w, 3, T_I64, (int64_t)g->rows);
    buf_char(p->out, 0);
}

void parquet_end(struct parquet *p)
{
    struct writer w = { .out = p->out };
    size_t groups = 0;

    flush(p);
    size_t from = p->out->n;
    field_int(&w, 1, T_I32, 1);
    field(&w, 2, T_LIST);
    write_schema(p);
    field_int(&w, 3, T_I64, (int64_t)p->total);
    field(&w, 4, T_LIST);
    for (const struct group *g = p->groups; g; g = g->next)
        groups++;
    list(p->out, groups, T_STRUCT);
    for (const struct group *g = p->groups; g; g = g->next)
        write_group(p, g);
    field(&w, 6, T_BINARY);
    text(p->out, "sandglass");
    buf_char(p->out, 0);
    le32(p->out, (uint32_t)(p->out->n - from));
    buf_z(p->out, "PAR1");
    for (size_t c = 0; c < p->n; c++)
        buf_done(&p->values[c]);
}

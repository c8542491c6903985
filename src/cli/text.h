/* Text for people: tables, ages, sizes, colours; and bytes from a box made safe for a terminal. */
#pragma once

#include <stdint.h>
#include <stdio.h>

#include "base/arena.h"

enum { TABLE_COLUMNS = 8 };

struct table { /* left-aligned columns as wide as their widest cell */
    struct arena *arena;
    size_t columns, rows, room;
    const char **cells;
};
void table_init(struct table *t, struct arena *a, size_t columns);
void table_row(struct table *t, const char *const *cells); /* copies */
void table_print(const struct table *t, FILE *out);

enum colour { COLOUR_NONE, COLOUR_DIM, COLOUR_BOLD, COLOUR_GREEN, COLOUR_RED, COLOUR_YELLOW };
bool colour_wanted(FILE *out);                     /* a terminal, and NO_COLOR is not set */
const char *colour_on(bool wanted, enum colour c); /* "" if not wanted */
const char *colour_off(bool wanted);

/* What a box wrote is hostile: escape sequences could retitle, clear or retype a terminal. Control characters
 * become visible; at most max bytes, then "...". */
void print_safe(FILE *out, struct str s, size_t max);
char *safe_z(struct arena *a, struct str s, size_t max);

/* "2026-01-02T03:04:05..." in UTC, or microseconds since 1970; 0: neither */
struct json;
int64_t time_us(const struct json *value);
const char *age_text(struct arena *a, int64_t seconds); /* 12s, 5m, 3h, 2d */
const char *size_text(struct arena *a, int64_t bytes);  /* 12 KiB, 1.5 GiB */
const char *span_text(struct arena *a, int64_t us);     /* 850 us, 4.2 ms, 12 s */

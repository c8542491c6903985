#include "cli/text.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/json.h"

void table_init(struct table *t, struct arena *a, size_t columns)
{
    *t = (struct table){ .arena = a, .columns = columns };
}

void table_row(struct table *t, const char *const *cells)
{
    if (t->rows == t->room) {
        size_t room = t->room ? 2 * t->room : 16;
        const char **more = arena_alloc(t->arena, room * t->columns * sizeof *more);
        if (t->rows)
            memcpy(more, t->cells, t->rows * t->columns * sizeof *more);
        t->cells = more;
        t->room = room;
    }
    for (size_t i = 0; i < t->columns; i++)
        t->cells[t->rows * t->columns + i] = safe_z(t->arena, str_of(cells[i] ? cells[i] : "-"), 200);
    t->rows++;
}

void table_print(const struct table *t, FILE *out)
{
    int width[TABLE_COLUMNS] = { 0 };

    for (size_t i = 0; i < t->rows * t->columns; i++) {
        int n = (int)strlen(t->cells[i]);
        if (n > width[i % t->columns])
            width[i % t->columns] = n;
    }
    for (size_t i = 0; i < t->rows * t->columns; i++) {
        bool last = i % t->columns == t->columns - 1;
        fprintf(out, "%-*s%s", last ? 0 : width[i % t->columns], t->cells[i], last ? "\n" : "  ");
    }
}

bool colour_wanted(FILE *out)
{
    const char *no = getenv("NO_COLOR");

    return isatty(fileno(out)) && !(no && *no);
}

const char *colour_on(bool wanted, enum colour c)
{
    static const char *const codes[] = {
        [COLOUR_NONE] = "",          [COLOUR_DIM] = "\033[2m",  [COLOUR_BOLD] = "\033[1m",
        [COLOUR_GREEN] = "\033[32m", [COLOUR_RED] = "\033[31m", [COLOUR_YELLOW] = "\033[33m",
    };
    return wanted ? codes[c] : "";
}

const char *colour_off(bool wanted)
{
    return wanted ? "\033[0m" : "";
}

/* C0, DEL, and the two-byte UTF-8 forms of C1, some of which terminals obey as well. */
static size_t control_at(struct str s, size_t i)
{
    unsigned char c = (unsigned char)s.p[i];

    if (c == 0xc2 && i + 1 < s.n && (unsigned char)s.p[i + 1] >= 0x80 && (unsigned char)s.p[i + 1] < 0xa0)
        return 2;
    return (c < 0x20 && c != '\t') || c == 0x7f;
}

char *safe_z(struct arena *a, struct str s, size_t max)
{
    bool cut = s.n > max;
    size_t n = cut ? max : s.n;

    while (cut && n && ((unsigned char)s.p[n] & 0xc0) == 0x80) /* not inside a character */
        n--;
    char *text = arena_alloc(a, 2 * n + 4), *out = text;
    for (size_t i = 0; i < n; i++) {
        size_t bytes = control_at((struct str){ s.p, n }, i);
        if (bytes == 1) {
            *out++ = '^';
            *out++ = (char)(s.p[i] == 0x7f ? '?' : s.p[i] + '@');
        } else if (bytes == 2) {
            *out++ = '?';
            i++;
        } else {
            *out++ = s.p[i];
        }
    }
    if (cut)
        memcpy(out, "...", 3);
    return text;
}

void print_safe(FILE *out, struct str s, size_t max)
{
    struct arena a;

    arena_init(&a);
    fputs(safe_z(&a, s, max), out);
    arena_done(&a);
}

int64_t time_us(const struct json *value)
{
    struct tm tm = { 0 };

    if (value && value->type == JSON_NUM && value->is_int)
        return value->i;
    if (!value || value->type != JSON_STR || value->s.n < 19 || value->s.n > 40)
        return 0;
    char text[48] = { 0 };
    memcpy(text, value->s.p, value->s.n);
    if (!strptime(text, "%Y-%m-%dT%H:%M:%S", &tm))
        return 0;
    return (int64_t)timegm(&tm) * 1000000;
}

const char *age_text(struct arena *a, int64_t s)
{
    if (s < 0)
        s = 0;
    if (s < 120)
        return arena_printf(a, "%llds", (long long)s);
    if (s < 2 * 3600)
        return arena_printf(a, "%lldm", (long long)s / 60);
    if (s < 48 * 3600)
        return arena_printf(a, "%lldh", (long long)s / 3600);
    return arena_printf(a, "%lldd", (long long)s / 86400);
}

const char *size_text(struct arena *a, int64_t bytes)
{
    static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
    double value = (double)bytes;
    size_t u = 0;

    while (value >= 1024 && u + 1 < ARRAY_LEN(units)) {
        value /= 1024;
        u++;
    }
    return arena_printf(a, value < 10 && u ? "%.1f %s" : "%.0f %s", value, units[u]);
}

const char *span_text(struct arena *a, int64_t us)
{
    if (us < 1000)
        return arena_printf(a, "%lld us", (long long)us);
    if (us < 100000)
        return arena_printf(a, "%.1f ms", (double)us / 1e3);
    if (us < 1000000)
        return arena_printf(a, "%.0f ms", (double)us / 1e3);
    return arena_printf(a, "%.1f s", (double)us / 1e6);
}

#include "daemon/units.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/auto.h"

struct unit {
    const char *name;
    int64_t factor;
};

/* Ascending, so that printing can try the largest first. */
static const struct unit sizes[] = {
    { "", 1 }, { "k", 1LL << 10 }, { "m", 1LL << 20 }, { "g", 1LL << 30 }, { "t", 1LL << 40 },
};
static const struct unit durations[] = {
    { "ms", 1 }, { "s", 1000 }, { "m", 60000 }, { "h", 3600000 }, { "d", 86400000 },
};

/* Digits, and where they end. */
static int digits(const char *text, int64_t *ret, const char **ret_end)
{
    int64_t value = 0;
    const char *p = text;

    for (; *p >= '0' && *p <= '9'; p++)
        if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, *p - '0', &value))
            return -EINVAL;
    if (p == text)
        return -EINVAL;

    *ret = value;
    *ret_end = p;
    return 0;
}

static int scaled(const struct unit *units, size_t n, int64_t value, const char *name, int64_t *ret)
{
    for (size_t i = 0; i < n; i++) {
        if (strcasecmp(units[i].name, name) != 0)
            continue;
        return __builtin_mul_overflow(value, units[i].factor, ret) ? -EINVAL : 0;
    }
    return -EINVAL;
}

int units_size(const char *text, int64_t *ret_bytes)
{
    const char *end;
    int64_t value;
    char unit[2] = { 0 };

    if (digits(text, &value, &end) < 0)
        return -EINVAL;
    /* "512m", "512MB" and "512MiB" mean the same: nobody limits memory in powers of ten. */
    if (*end && strcasecmp(end, "b") != 0)
        unit[0] = *end++;
    if (*end && strcasecmp(end, "b") != 0 && (!unit[0] || strcasecmp(end, "ib") != 0))
        return -EINVAL;
    return scaled(sizes, ARRAY_LEN(sizes), value, unit, ret_bytes);
}

int units_duration(const char *text, int64_t *ret_ms)
{
    const char *end;
    int64_t value;

    if (digits(text, &value, &end) < 0)
        return -EINVAL;
    if (value == 0 && !*end) {
        *ret_ms = 0;
        return 0;
    }
    return scaled(durations, ARRAY_LEN(durations), value, end, ret_ms);
}

int units_milli(const char *text, int64_t *ret_milli)
{
    const char *p;
    int64_t value;

    if (digits(text, &value, &p) < 0 || value > INT64_MAX / 1000 - 1)
        return -EINVAL;
    value *= 1000;
    if (*p == '.') {
        p++;
        for (int64_t place = 100; place && *p >= '0' && *p <= '9'; place /= 10)
            value += (*p++ - '0') * place;
    }
    if (*p || p[-1] == '.')
        return -EINVAL;

    *ret_milli = value;
    return 0;
}

int units_integer(const char *text, int64_t *ret_integer)
{
    const char *end;
    int64_t value;

    if (digits(text, &value, &end) < 0 || *end)
        return -EINVAL;
    *ret_integer = value;
    return 0;
}

static const char *print_scaled(const struct unit *units, size_t n, char text[UNITS_TEXT], int64_t value)
{
    while (n > 1 && (value == 0 || value % units[n - 1].factor != 0))
        n--;
    snprintf(text, UNITS_TEXT, "%lld%s", (long long)(value / units[n - 1].factor), value ? units[n - 1].name : "");
    return text;
}

const char *units_print_size(char text[UNITS_TEXT], int64_t bytes)
{
    return print_scaled(sizes, ARRAY_LEN(sizes), text, bytes);
}

const char *units_print_duration(char text[UNITS_TEXT], int64_t ms)
{
    return print_scaled(durations, ARRAY_LEN(durations), text, ms);
}

const char *units_print_milli(char text[UNITS_TEXT], int64_t milli)
{
    int n = snprintf(text, UNITS_TEXT, "%lld.%03d", (long long)(milli / 1000), (int)(milli % 1000));

    while (n > 2 && text[n - 1] == '0' && text[n - 2] != '.')
        text[--n] = '\0';
    return text;
}

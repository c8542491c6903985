/* Sizes, durations and decimals as people write them: 512m, 2g, 250ms, 30s, 1.5. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { UNITS_TEXT = 32 };

/* 0, or -EINVAL: not of that form, negative, or out of 64 bits. */
int units_size(const char *text, int64_t *ret_bytes);      /* k, m, g, t are powers of 1024; none: bytes */
int units_duration(const char *text, int64_t *ret_ms);     /* ms, s, m, h, d; only 0 may go without a unit */
int units_milli(const char *text, int64_t *ret_milli);     /* "1.5" gives 1500; at most three decimals */
int units_integer(const char *text, int64_t *ret_integer); /* decimal digits only */

/* The shortest exact form that the functions above read back. Each returns text. */
const char *units_print_size(char text[UNITS_TEXT], int64_t bytes);
const char *units_print_duration(char text[UNITS_TEXT], int64_t ms);
const char *units_print_milli(char text[UNITS_TEXT], int64_t milli);

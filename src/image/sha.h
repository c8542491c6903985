/* SHA-256: names of contents, of directory objects and of states. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

struct err;

enum { SHA_BYTES = 32, SHA_HEX = 65 };

struct sha {
    unsigned char b[SHA_BYTES];
};

struct sha sha_of(struct str s);
/* What fd holds from its first byte to its end; holes count as zeros. Stops with an error after cap bytes. */
int sha_fd(int fd, uint64_t cap, struct sha *ret, struct err *e);
void sha_print(const struct sha *h, char out[SHA_HEX]); /* lower-case hex */
bool sha_parse(struct str hex, struct sha *ret);        /* 64 lower-case digits and nothing else */

static inline bool sha_eq(const struct sha *a, const struct sha *b)
{
    return memcmp(a->b, b->b, SHA_BYTES) == 0;
}

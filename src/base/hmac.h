/* HMAC-SHA-256, for init, which is linked with no library. */
#pragma once

#include "base/str.h"

enum { HMAC_HEX = 64 };

/* Over the parts, one after the other; hexadecimal, NUL-terminated. */
void hmac_sha256_hex(struct str key, const struct str *parts, size_t count, char out[HMAC_HEX + 1]);

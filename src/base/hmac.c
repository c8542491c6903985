#include "base/hmac.h"

#include "base/sha256.h"

static unsigned digit(char c)
{
    return (unsigned)(c <= '9' ? c - '0' : c - 'a' + 10);
}

static void raw_of(const char hex[HMAC_HEX + 1], unsigned char out[HMAC_HEX / 2])
{
    for (int i = 0; i < HMAC_HEX / 2; i++)
        out[i] = (unsigned char)(digit(hex[2 * i]) << 4 | digit(hex[2 * i + 1]));
}

void hmac_sha256_hex(struct str key, const struct str *parts, size_t count, char out[HMAC_HEX + 1])
{
    unsigned char pad[64] = { 0 }, sum[HMAC_HEX / 2];
    struct sha256 s;

    if (key.n > sizeof pad) {
        sha256_init(&s);
        sha256_add(&s, key.p, key.n);
        sha256_hex(&s, out);
        raw_of(out, pad);
    } else if (key.n) {
        memcpy(pad, key.p, key.n);
    }
    for (size_t i = 0; i < sizeof pad; i++)
        pad[i] ^= 0x36;
    sha256_init(&s);
    sha256_add(&s, pad, sizeof pad);
    for (size_t i = 0; i < count; i++)
        sha256_add(&s, parts[i].p, parts[i].n);
    sha256_hex(&s, out);
    raw_of(out, sum);
    for (size_t i = 0; i < sizeof pad; i++)
        pad[i] ^= 0x36 ^ 0x5c;
    sha256_init(&s);
    sha256_add(&s, pad, sizeof pad);
    sha256_add(&s, sum, sizeof sum);
    sha256_hex(&s, out);
}

#include "base/sha256.h"

#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

static const uint32_t k[64] = { 0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4,
                                0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe,
                                0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f,
                                0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7,
                                0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc,
                                0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
                                0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116,
                                0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
                                0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
                                0xc67178f2 };

static uint32_t ror(uint32_t v, int n)
{
    return v >> n | v << (32 - n);
}

static void blocks_plain(uint32_t state[8], const unsigned char *p, size_t count)
{
    for (; count; count--, p += 64) {
        uint32_t w[64], s[8];
        for (int i = 0; i < 16; i++)
            w[i] = (uint32_t)p[4 * i] << 24 | (uint32_t)p[4 * i + 1] << 16 | (uint32_t)p[4 * i + 2] << 8 | p[4 * i + 3];
        for (int i = 16; i < 64; i++) {
            uint32_t a = ror(w[i - 15], 7) ^ ror(w[i - 15], 18) ^ w[i - 15] >> 3;
            uint32_t b = ror(w[i - 2], 17) ^ ror(w[i - 2], 19) ^ w[i - 2] >> 10;
            w[i] = w[i - 16] + a + w[i - 7] + b;
        }
        memcpy(s, state, sizeof s);
        for (int i = 0; i < 64; i++) {
            uint32_t e = ror(s[4], 6) ^ ror(s[4], 11) ^ ror(s[4], 25);
            uint32_t t1 = s[7] + e + ((s[4] & s[5]) ^ (~s[4] & s[6])) + k[i] + w[i];
            uint32_t a = ror(s[0], 2) ^ ror(s[0], 13) ^ ror(s[0], 22);
            uint32_t t2 = a + ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
            memmove(s + 1, s, 7 * sizeof *s);
            s[4] += t1;
            s[0] = t1 + t2;
        }
        for (int i = 0; i < 8; i++)
            state[i] += s[i];
    }
}

#if defined(__x86_64__)
/* The processor's own instructions: several times as fast. They hold the state as ABEF and CDGH. */
__attribute__((target("sha,sse4.1"))) static void blocks_sha(uint32_t state[8], const unsigned char *p, size_t count)
{
    const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0bLL, 0x0405060700010203LL);
    __m128i lo = _mm_shuffle_epi32(_mm_loadu_si128((const void *)state), 0xb1);       /* BADC, from ABCD in memory */
    __m128i hi = _mm_shuffle_epi32(_mm_loadu_si128((const void *)(state + 4)), 0x1b); /* HGFE reversed */
    __m128i abef = _mm_alignr_epi8(lo, hi, 8);
    __m128i cdgh = _mm_blend_epi16(hi, lo, 0xf0);

    for (; count; count--, p += 64) {
        __m128i w[4], old_abef = abef, old_cdgh = cdgh;
        for (int i = 0; i < 4; i++)
            w[i] = _mm_shuffle_epi8(_mm_loadu_si128((const void *)(p + 16 * i)), swap);
        for (int i = 0; i < 16; i++) {
            __m128i cur = w[i & 3];
            if (i >= 4) { /* four more words of the schedule */
                __m128i t = _mm_sha256msg1_epu32(w[i & 3], w[(i + 1) & 3]);
                t = _mm_add_epi32(t, _mm_alignr_epi8(w[(i + 3) & 3], w[(i + 2) & 3], 4));
                cur = w[i & 3] = _mm_sha256msg2_epu32(t, w[(i + 3) & 3]);
            }
            __m128i kw = _mm_add_epi32(cur, _mm_loadu_si128((const void *)(k + 4 * i)));
            cdgh = _mm_sha256rnds2_epu32(cdgh, abef, kw);
            abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(kw, 0x0e));
        }
        abef = _mm_add_epi32(abef, old_abef);
        cdgh = _mm_add_epi32(cdgh, old_cdgh);
    }
    lo = _mm_shuffle_epi32(abef, 0x1b);
    hi = _mm_shuffle_epi32(cdgh, 0xb1);
    _mm_storeu_si128((void *)state, _mm_blend_epi16(lo, hi, 0xf0));
    _mm_storeu_si128((void *)(state + 4), _mm_alignr_epi8(hi, lo, 8));
}

static int has_sha(void)
{
    static int known;
    unsigned a, b, c, d;

    if (!known)
        known =
            __get_cpuid_count(7, 0, &a, &b, &c, &d) && b & 1u << 29 && __get_cpuid(1, &a, &b, &c, &d) && c & 1u << 19
                ? 1
                : -1;
    return known > 0;
}
#endif

static void blocks(uint32_t state[8], const unsigned char *p, size_t count)
{
#if defined(__x86_64__)
    if (has_sha()) {
        blocks_sha(state, p, count);
        return;
    }
#endif
    blocks_plain(state, p, count);
}

void sha256_init(struct sha256 *s)
{
    static const uint32_t first[8] = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                       0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19 };

    memcpy(s->state, first, sizeof first);
    s->bytes = 0;
}

void sha256_add(struct sha256 *s, const void *data, size_t n)
{
    const unsigned char *p = data;
    size_t have = s->bytes % 64;

    s->bytes += n;
    if (have) {
        size_t part = 64 - have < n ? 64 - have : n;
        memcpy(s->block + have, p, part);
        if (have + part < 64)
            return;
        blocks(s->state, s->block, 1);
        p += part;
        n -= part;
    }
    blocks(s->state, p, n / 64);
    memcpy(s->block, p + n / 64 * 64, n % 64);
}

void sha256_hex(struct sha256 *s, char out[65])
{
    static const char hex[] = "0123456789abcdef";
    uint64_t bits = s->bytes * 8;
    unsigned char tail[72] = { 0x80 };
    size_t pad = (s->bytes % 64 < 56 ? 56 : 120) - s->bytes % 64;

    for (size_t i = 0; i < 8; i++)
        tail[pad + i] = (unsigned char)(bits >> (56 - 8 * i));
    sha256_add(s, tail, pad + 8);
    for (int i = 0; i < 64; i++)
        out[i] = hex[s->state[i / 8] >> (28 - 4 * (i % 8)) & 15];
    out[64] = 0;
}

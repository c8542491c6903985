#include "store/crc32c.h"

#include <stdbool.h>
#include <string.h>

uint32_t crc32c_table(uint32_t crc, const void *p, size_t n)
{
    static uint32_t table[256];
    const unsigned char *b = p;

    if (!table[1])
        for (uint32_t i = 0; i < 256; i++) {
            uint32_t c = i;
            for (int bit = 0; bit < 8; bit++)
                c = c & 1 ? c >> 1 ^ 0x82F63B78u : c >> 1;
            table[i] = c;
        }
    crc = ~crc;
    while (n--)
        crc = table[(crc ^ *b++) & 0xff] ^ crc >> 8;
    return ~crc;
}

#ifdef __x86_64__
#include <nmmintrin.h>

__attribute__((target("sse4.2"))) static uint32_t by_cpu(uint32_t crc, const unsigned char *p, size_t n)
{
    uint64_t c = ~crc;

    for (; n >= 8; n -= 8, p += 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        c = _mm_crc32_u64(c, word);
    }
    for (; n; n--)
        c = _mm_crc32_u8((uint32_t)c, *p++);
    return ~(uint32_t)c;
}

uint32_t crc32c(uint32_t crc, const void *p, size_t n)
{
    return __builtin_cpu_supports("sse4.2") ? by_cpu(crc, p, n) : crc32c_table(crc, p, n);
}
#else
uint32_t crc32c(uint32_t crc, const void *p, size_t n)
{
    return crc32c_table(crc, p, n);
}
#endif

#include "surface/gzip.h"

#include <stdint.h>

static uint32_t crc32_of(struct str s)
{
    uint32_t crc = ~0u;

    for (size_t i = 0; i < s.n; i++) {
        crc ^= (unsigned char)s.p[i];
        for (int k = 0; k < 8; k++)
            crc = crc & 1 ? crc >> 1 ^ 0xEDB88320u : crc >> 1;
    }
    return ~crc;
}

static void put(struct buf *out, uint32_t v, int bytes)
{
    for (int i = 0; i < bytes; i++)
        buf_char(out, (char)(v >> 8 * i));
}

void gzip_store(struct buf *out, struct str content)
{
    static const char head[10] = { 0x1f, (char)0x8b, 8, 0, 0, 0, 0, 0, 0, 3 };
    size_t at = 0;

    buf_add(out, head, sizeof head);
    do { /* blocks of at most 65535 bytes, the last one marked */
        size_t n = content.n - at < 65535 ? content.n - at : 65535;
        buf_char(out, at + n == content.n);
        put(out, (uint32_t)n, 2);
        put(out, ~(uint32_t)n, 2);
        buf_add(out, content.p + at, n);
        at += n;
    } while (at < content.n);
    put(out, crc32_of(content), 4);
    put(out, (uint32_t)content.n, 4);
}

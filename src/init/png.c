#include "init/png.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/auto.h"

static void chunk(struct buf *out, const char *type, const void *data, size_t n)
{
    uint32_t size = htobe32((uint32_t)n);
    uLong sum = crc32(0, (const Bytef *)type, 4);

    buf_add(out, &size, 4);
    buf_add(out, type, 4);
    if (n) {
        buf_add(out, data, n);
        sum = crc32(sum, data, (uInt)n);
    }
    uint32_t check = htobe32((uint32_t)sum);
    buf_add(out, &check, 4);
}

void png_write(struct buf *out, const uint8_t *rgbx, int width, int height)
{
    struct {
        uint32_t width, height;
        uint8_t bits, colour, rest[3];
    } __attribute__((packed)) head = { htobe32((uint32_t)width), htobe32((uint32_t)height), 8, 2, { 0 } };
    size_t line = 1 + 3 * (size_t)width;
    auto_free uint8_t *row = malloc(line);
    z_stream z = { 0 };

    if (!row || deflateInit2(&z, 1, Z_DEFLATED, 15, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        abort();
    size_t room = deflateBound(&z, line * (size_t)height);
    auto_free uint8_t *packed = malloc(room);
    if (!packed)
        abort();
    z.next_out = packed;
    z.avail_out = (uInt)room;
    for (int y = 0; y < height; y++) {
        const uint8_t *from = rgbx + (size_t)y * (size_t)width * 4;
        row[0] = 0; /* no filter: flat colours compress well as they are */
        for (int x = 0; x < width; x++)
            memcpy(row + 1 + 3 * x, from + 4 * x, 3);
        z.next_in = row;
        z.avail_in = (uInt)line;
        (void)deflate(&z, y + 1 < height ? Z_NO_FLUSH : Z_FINISH);
    }
    buf_add(out, "\x89PNG\r\n\x1a\n", 8);
    chunk(out, "IHDR", &head, sizeof head);
    chunk(out, "IDAT", packed, z.total_out);
    chunk(out, "IEND", NULL, 0);
    deflateEnd(&z);
}

/* A picture of the screen as a PNG file. */
#pragma once

#include <stdint.h>

#include "base/buf.h"

/* Four bytes a pixel, of which the last is ignored. Fills out, which is full if it has no room for it. */
void png_write(struct buf *out, const uint8_t *rgbx, int width, int height);

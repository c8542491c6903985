/* Bytes that come in pieces, sent as text in whole characters. */
#pragma once

#include "base/str.h"

/* How many bytes at the end of s belong to a character whose rest is still to come. */
static inline size_t text_incomplete(struct str s)
{
    for (size_t back = 1; back <= 3 && back <= s.n; back++) {
        unsigned char c = (unsigned char)s.p[s.n - back];
        if ((c & 0xc0) == 0x80)
            continue;
        size_t need = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 1;
        return need > back ? back : 0;
    }
    return 0;
}

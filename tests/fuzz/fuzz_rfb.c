/* Any bytes from somebody who may only look at a screen: what passes does not depend on how they are cut, and has
 * nothing left in it that would be taken out. The first byte says where they are cut. */
/* needs: src/surface/rfb_filter.c */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "surface/rfb_filter.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static bool feed(const char *p, size_t n, size_t cut, struct buf *out)
{
    struct rfb_filter f = { 0 };
    bool fine = true;

    buf_init(out, 1 << 20);
    for (size_t at = 0; fine && at < n; at += cut) {
        size_t m = n - at < cut ? n - at : cut;
        char *exact = malloc(m);
        memcpy(exact, p + at, m);
        fine = rfb_filter_feed(&f, (struct str){ exact, m }, out);
        free(exact);
    }
    return fine;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct buf whole, pieces, again;

    if (n < 2)
        return 0;
    const char *p = (const char *)data + 1;
    bool fine = feed(p, n - 1, n, &whole);
    if (feed(p, n - 1, data[0] % 13 + 1, &pieces) != fine)
        abort();
    if (fine && (whole.n != pieces.n || whole.n > n - 1 || (whole.n && memcmp(whole.p, pieces.p, whole.n) != 0)))
        abort();
    if (fine) {
        if (!feed(whole.p, whole.n, n, &again) || again.n != whole.n)
            abort();
        buf_done(&again);
    }
    buf_done(&whole);
    buf_done(&pieces);
    return 0;
}

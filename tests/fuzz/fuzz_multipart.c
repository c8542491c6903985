/* Any bytes as a form, in pieces of any size: it moves on or asks for more, and never looks beyond what it was given.
 */
/* needs: src/http/multipart.c */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "http/multipart.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct multipart m;
    struct multipart_part part;
    struct err e;
    size_t have = 0, at = 0;

    if (n < 1 || n > 16384 || multipart_init(&m, STR("multipart/form-data; boundary=b"), &e) < 0)
        return 0;
    size_t step = data[0] + 1u;
    data++;
    n--;
    char *held = malloc(n + 1);
    for (int rounds = 0; rounds < 100000; rounds++) {
        char *exact = malloc(have + 1); /* so that the sanitizer sees one byte too far */
        memcpy(exact, held, have);
        exact = realloc(exact, have ? have : 1);
        size_t used = 0;
        int r = multipart_next(&m, (struct str){ exact, have }, &part, &used, &e);
        if (used > have || (r == MULTIPART_DATA && !used))
            abort();
        if (r == MULTIPART_PART && (!part.name.p || part.name.p < exact || part.name.p + part.name.n > exact + have))
            abort();
        free(exact);
        if (r < 0 || r == MULTIPART_END)
            break;
        memmove(held, held + used, have - used);
        have -= used;
        if (used)
            continue;
        size_t more = n - at < step ? n - at : step;
        if (!more)
            break;
        memcpy(held + have, data + at, more);
        have += more;
        at += more;
    }
    free(held);
    return 0;
}

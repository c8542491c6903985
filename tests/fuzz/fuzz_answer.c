/* Any bytes as the answer of a server in a box. */
/* needs: src/http/answer.c src/http/chunked.c */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "http/answer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct answer_reader r = { 0 };
    struct arena a = { 0 };
    size_t have = 0, at = 0;

    if (n < 1 || n > 65536)
        return 0;
    size_t step = data[0] + 1u;
    data++;
    n--;
    char *held = malloc(n + 1);
    for (int rounds = 0; rounds < 100000; rounds++) {
        struct answer x;
        struct str got = { 0 };
        size_t used = 0;
        struct err e;
        char *exact = malloc(have ? have : 1);
        memcpy(exact, held, have);
        int k = answer_next(&r, &a, exact, have, &x, &got, &used, &e);
        if (used > have || (k == ANSWER_DATA && (!got.n || got.p < exact || got.p + got.n > exact + have)))
            abort();
        if (k == ANSWER_HEAD && (x.status < 100 || x.status > 599 || x.length < -1))
            abort();
        free(exact);
        if (k < 0 || k == ANSWER_END)
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
    arena_done(&a);
    return 0;
}

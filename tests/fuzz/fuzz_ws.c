/* Any bytes as frames of a WebSocket client. */
/* needs: src/http/ws_read.c */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "http/ws.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct ws_reader r;
    size_t at = 0;

    ws_reader_init(&r, 4096);
    for (;;) {
        char *exact = malloc(n - at + 1);
        memcpy(exact, data + at, n - at);
        exact = realloc(exact, n - at ? n - at : 1);
        struct str got = { 0 };
        size_t used = 0;
        int kind = ws_read(&r, exact, n - at, &got, &used);
        if (kind > 0 && (used < 6 || used > n - at || got.n > 4096))
            abort();
        if (kind == WS_TEXT && !ws_is_utf8(got))
            abort();
        free(exact);
        if (kind <= 0)
            break;
        at += used;
    }
    ws_reader_done(&r);
    return 0;
}

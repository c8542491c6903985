/* What a kernel may send to its driver: bytes that should be ZMTP, parts that should be a Jupyter message, JSON that
 * should be an output. */
/* needs: src/init/outputs.c src/init/stream.c */
#include <stdint.h>
#include <stdlib.h>

#include "base/json.h"
#include "init/outputs.h"
#include "wire/zmtp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static const char greeting[64] = "\xff\0\0\0\0\0\0\0\1\x7f\3\1NULL";

static void take(struct outputs *o, const struct zmtp_message *m)
{
    struct arena a = { 0 };
    struct json *j = NULL;

    for (size_t i = 1; i < m->n; i++)
        if (json_parse(&a, m->parts[i], &j, NULL) >= 0)
            outputs_add(o, m->parts[0], j);
    if (m->skipped)
        outputs_add_cut(o, m->parts[0], m->tail, (int64_t)m->skipped);
    arena_done(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct arena a = { 0 };
    struct outputs o;
    struct zmtp z;
    struct zmtp_message m;
    struct err e;

    outputs_init(&o, 64, 64);
    zmtp_init(&z, ZMTP_DEALER, "me");
    if (n && data[0] & 1) { /* most inputs are more than a greeting */
        buf_add(&z.in, greeting, sizeof greeting);
        buf_add(&z.in, "\4\6\5READY", 8);
    }
    size_t chunk = n ? (size_t)(data[0] >> 1) + 1 : 1;
    int r = 0;
    for (size_t at = 1; at < n && r >= 0; at += chunk) {
        buf_add(&z.in, data + at, n - at < chunk ? n - at : chunk);
        while ((r = zmtp_next(&z, &m, &e)) > 0)
            take(&o, &m);
    }
    if (n > 2) /* and the ends of a message that was cut */
        outputs_add_cut(&o, (struct str){ (const char *)data, n / 2 },
                        (struct str){ (const char *)data + n / 2, n - n / 2 }, 5);
    struct buf b = { .cap = 64u << 20 };
    struct jw w = { .out = &b };
    struct json *back = NULL;
    outputs_print(&o, &w);
    if (json_parse(&a, buf_view(&b), &back, NULL) < 0) /* what leaves the box is JSON in any case */
        abort();
    (void)outputs_text(&o, "stdout", true, &a);
    buf_done(&b);
    outputs_done(&o);
    zmtp_done(&z);
    arena_done(&a);
    return 0;
}

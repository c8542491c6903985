/* What a box could send to serve: a stream of frames, each unpacked by the table of its type. */
#include <stdint.h>
#include <stdlib.h>

#include "base/auto.h"
#include "base/limits.h"
#include "wire/frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

union any {
    struct wire_hello hello;
    struct wire_known known;
    struct wire_call call;
    struct wire_shell shell;
    struct wire_result result;
    struct wire_dial dial;
    struct wire_dialed dialed;
    struct wire_about about;
    struct wire_env env;
    struct wire_held held;
};

static void check(bool ok)
{
    if (!ok)
        abort();
}

static void take_payload(enum frame_type type, struct str payload)
{
    AUTO(arena_done) struct arena a = { 0 };
    AUTO(buf_done) struct buf again;
    const struct field *fields = NULL;
    union any v;
    size_t size = 0;

    buf_init(&again, LIMIT_FRAME);
    switch (type) {
    case FRAME_HELLO: fields = wire_hello_fields, size = sizeof v.hello; break;
    case FRAME_KNOWN: fields = wire_known_fields, size = sizeof v.known; break;
    case FRAME_CALL: fields = wire_call_fields, size = sizeof v.call; break;
    case FRAME_END_SHELL: fields = wire_shell_fields, size = sizeof v.shell; break;
    case FRAME_RESULT: fields = wire_result_fields, size = sizeof v.result; break;
    case FRAME_DIAL: fields = wire_dial_fields, size = sizeof v.dial; break;
    case FRAME_DIALED: fields = wire_dialed_fields, size = sizeof v.dialed; break;
    case FRAME_ABOUT: fields = wire_about_fields, size = sizeof v.about; break;
    case FRAME_ENV: fields = wire_env_fields, size = sizeof v.env; break;
    case FRAME_HELD: fields = wire_held_fields, size = sizeof v.held; break;
    case FRAME_READY:
    case FRAME_ACK:
    case FRAME_CANCEL:
    case FRAME_STREAM:
    case FRAME_TYPES: return;
    }
    if (field_unpack(fields, payload, &a, &v, size, NULL) < 0)
        return;

    struct frame_head head;
    struct str back;
    frame_add(&again, type, 1, 0, fields, &v);
    check(frame_peek(&again, &head, &back, NULL) == 1 && head.type == type && head.size == back.n);
    check(field_unpack(fields, back, &a, &v, size, NULL) >= 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    AUTO(buf_done) struct buf in;
    struct frame_head head;
    struct str payload;
    struct err e = { 0 };
    int r;

    buf_init(&in, LIMIT_FRAME);
    buf_add(&in, data, n);
    while ((r = frame_peek(&in, &head, &payload, &e)) == 1) {
        check(payload.p >= in.p && payload.p + payload.n <= in.p + in.n);
        take_payload((enum frame_type)head.type, payload);
        buf_eat(&in, sizeof head + head.size);
    }
    check((r < 0) == (e.code != ERR_NONE));
    return 0;
}

#include "wire/frame.h"

#include "base/limits.h"

const struct field wire_hello_fields[] = {
    FIELD(INT, struct wire_hello, version, "of the wire"),
    FIELD(STR, struct wire_hello, build, "revision"),
    { 0 },
};
const struct field wire_known_fields[] = {
    FIELD(BOOL, struct wire_known, finished, "its result follows"),
    { 0 },
};
const struct field wire_call_fields[] = {
    FIELD(STR, struct wire_call, tool, "name"),
    FIELD(STR, struct wire_call, session, "shell"),
    FIELD(INT, struct wire_call, timeout_ms, "0: none"),
    FIELD(INT, struct wire_call, head_bytes, "of each stream"),
    FIELD(INT, struct wire_call, tail_bytes, "of each stream"),
    FIELD(INT, struct wire_call, kept_bytes, "of each stream"),
    FIELD(INT, struct wire_call, expect_us, "until its end, probably"),
    FIELD(BYTES, struct wire_call, params, "packed"),
    { 0 },
};
const struct field wire_env_fields[] = {
    FIELD(PAIRS, struct wire_env, env, "variables", .max = 64),
    FIELD(STR, struct wire_env, display, "of the browser"),
    { 0 },
};
const struct field wire_shell_fields[] = {
    FIELD(STR, struct wire_shell, session, "shell"),
    { 0 },
};
static const struct field picture_fields[] = {
    FIELD(STR, struct wire_picture, name, "of the blob"),
    FIELD(BYTES, struct wire_picture, bytes, "PNG, JPEG or WebP"),
    { 0 },
};
const struct field wire_result_fields[] = {
    FIELD(INT, struct wire_result, outcome, "enum outcome"),
    FIELD(STR, struct wire_result, message, "for people"),
    FIELD(INT, struct wire_result, error, "enum err_code"),
    FIELD(INT, struct wire_result, sys, "errno"),
    FIELD(INT, struct wire_result, run_us, "time"),
    FIELD(INT, struct wire_result, cpu_us, "time"),
    FIELD(INT, struct wire_result, dropped_bytes, "output lost"),
    FIELD(INT, struct wire_result, disk_used_bytes, "on the box's disk", .def = FIELD_ABSENT),
    FIELD(INT, struct wire_result, flows, "what goes on"),
    FIELD(BYTES, struct wire_result, result, "packed"),
    FIELD(ROWS, struct wire_result, pictures, "for the log", .max = WIRE_PICTURES_MAX, .rows = picture_fields,
          .row_size = sizeof(struct wire_picture)),
    { 0 },
};

const struct field wire_held_fields[] = {
    FIELD(INT, struct wire_held, out, "bytes of stdout"),
    FIELD(INT, struct wire_held, err, "bytes of stderr"),
    { 0 },
};
const struct field wire_dial_fields[] = {
    FIELD(STR, struct wire_dial, target, "what to connect to"),
    FIELD(INT, struct wire_dial, after, "offset"),
    FIELD(INT, struct wire_dial, after_err, "offset"),
    { 0 },
};
const struct field wire_dialed_fields[] = {
    FIELD(INT, struct wire_dialed, error, "enum err_code"),
    FIELD(STR, struct wire_dialed, message, "for people"),
    { 0 },
};
const struct field wire_about_fields[] = {
    FIELD(BOOL, struct wire_about, sandboxed, "the browser's own sandbox is on"),
    FIELD(STR, struct wire_about, why, "it is not"),
    { 0 },
};
const struct field wire_file_fields[] = {
    FIELD(INT, struct wire_file, size, "bytes of the file"),
    FIELD(INT, struct wire_file, offset, "where the content begins"),
    FIELD(INT, struct wire_file, length, "of the content"),
    FIELD(INT, struct wire_file, mtime_ns, "last change"),
    FIELD(STR, struct wire_file, etag, "version"),
    FIELD(STR, struct wire_file, name, "last part of the path"),
    FIELD(BOOL, struct wire_file, part, "a range of it"),
    FIELD(BOOL, struct wire_file, unsatisfiable, "no such range"),
    FIELD(BOOL, struct wire_file, unchanged, "the client has it"),
    { 0 },
};

void frame_add(struct buf *out, enum frame_type type, uint64_t id, unsigned fds, const struct field *fields,
               const void *fixed)
{
    struct frame_head head = { .type = (uint16_t)type, .fds = (uint16_t)fds, .id = id };
    size_t at = out->n;

    if (!buf_add(out, &head, sizeof head))
        return;
    if (fields)
        field_pack(fields, fixed, out);
    if (out->full) {
        out->n = at; /* never half a frame */
        return;
    }
    head.size = (uint32_t)(out->n - at - sizeof head);
    memcpy(out->p + at, &head, sizeof head);
}

int frame_peek(const struct buf *in, struct frame_head *ret_head, struct str *ret_payload, struct err *e)
{
    struct frame_head head;

    if (in->n < sizeof head)
        return 0;
    memcpy(&head, in->p, sizeof head);
    if (head.size > LIMIT_FRAME)
        return err_set(e, ERR_LIMIT, "frame of %u bytes exceeds LIMIT_FRAME (%ld)", head.size, LIMIT_FRAME);
    if (head.type < FRAME_HELLO || head.type >= FRAME_TYPES || head.fds > 2)
        return err_set(e, ERR_INVALID, "frame of type %u with %u descriptors", head.type, head.fds);
    if (in->n - sizeof head < head.size)
        return 0;
    *ret_head = head;
    *ret_payload = (struct str){ in->p + sizeof head, head.size };
    return 1;
}

/* AgentFlow's envelope, for the files of this surface. */
#pragma once

#include "surface/surface.h"

/* Members code, message, data, meta of one answer. */
void envelope_print(const struct call *c, struct jw *w);
struct str envelope_trace(struct web *w); /* the client's trace_id, else a new one; it is recorded with the step */
/* The envelope of everything that is not a tool call. data: JSON; NULL-terminated strings may be NULL. */
struct envelope {
    int code;
    const char *message;
    struct str data;
    const char *tool, *resource, *session_id;
    struct str beside; /* members beside the four, or absent: what AgentFlow's own facade and examples read there */
};
void envelope_send(struct web *w, int status, const struct envelope *v);
int envelope_status(int code);

/* A body that the framework checks: begin, read the fields, end. All that is wrong is in one 422, in pydantic's words. */
struct model {
    struct web *web;
    const struct json *body; /* NULL: no object */
    struct buf list;
    struct jw out;
    size_t faults;
};
struct model_place {
    const char *field;
    size_t item;
    const char *inside; /* NULL: the field itself; "": its item; else a field of that */
};
void model_begin(struct model *m, struct web *w);
void model_wrong(struct model *m, const char *type, const char *field, const char *msg, struct str input);
void model_wrong_item(struct model *m, const char *type, const struct model_place *at, const char *msg,
                      struct str input);
bool model_end(struct model *m);                                     /* false: the 422 was sent */
void model_str(struct model *m, const char *field, struct str *ret); /* required */
const struct json *model_dict(struct model *m, const char *field);   /* optional: NULL */
const struct json *model_list(struct model *m, const char *field, bool required);
bool model_bool(struct model *m, const char *field, bool otherwise);
int64_t model_timeout_ms(struct model *m); /* of the field `timeout`; 0: none */

int envelope_code(enum err_code e); /* of a request that is wrong; 0: it is not the caller's fault */

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

/* The framework's 422. type, field and msg as pydantic words them. */
void invalid_send(struct web *w, const char *type, const char *field, const char *msg, struct str input);
/* Reads a required string of the body; false: a 422 was sent. */
bool model_str(struct web *w, const char *field, struct str *ret);
bool model_bool(struct web *w, const char *field, bool otherwise, bool *ret); /* optional, the same */
int envelope_code(enum err_code e); /* of a request that is wrong; 0: it is not the caller's fault */

/* Files through the port: uploads and downloads of any size, as streams into and out of a box. Each is a call of a
 * file tool, and so a step. A surface says what is asked for and how the result is told. */
#pragma once

#include "surface/surface.h"

struct transfer_ask {
    const char *tool;  /* "file:upload" ... */
    struct str params; /* JSON object */
    /* Answers the request: the call is over, and was not answered by the stream itself. */
    void (*done)(struct web *w, const struct call *c);
};

/* The body of the request goes into the box; without one, nothing does. */
void transfer_in(struct web *w, struct box *b, const struct transfer_ask *ask);
/* What the tool sends is the answer. file: it begins with a struct wire_file, which gives the headers. */
void transfer_out(struct web *w, struct box *b, const struct transfer_ask *ask, bool file);
/* A form with a part "file" and perhaps "path", as AIO's clients send it. wrong: it is no such form. */
void transfer_form(struct web *w, struct box *b, void (*done)(struct web *w, const struct call *c),
                   void (*wrong)(struct web *w, const char *field, const char *why));
/* Parameters of file:download from the headers Range, If-Range and If-None-Match. */
void transfer_range(const struct web *w, struct jw *params);

extern const struct route transfer_routes[];

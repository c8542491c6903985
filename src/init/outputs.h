/* What one cell put out, as a notebook keeps it: a list of nbformat outputs. Neighbouring pieces of one stream are
 * joined and keep head and tail; rich data is capped as a whole; what does not fit is counted and said. What comes in
 * is a kernel's JSON. */
#pragma once

#include "base/json.h"
#include "init/stream.h"

struct output;
struct outputs {
    struct output *list, **end;
    size_t count;
    int64_t bytes;      /* of rich data */
    int64_t dropped;    /* bytes of anything that is in no output */
    int64_t too_many;   /* outputs beyond LIMIT_CELL_OUTPUTS */
    int64_t head, tail; /* of each stream */
    bool clear_next;    /* clear_output(wait=True) */
};

void outputs_init(struct outputs *o, int64_t head, int64_t tail);
void outputs_done(struct outputs *o); /* accepts a zeroed one */
/* type: stream, execute_result, display_data, update_display_data, error, clear_output; others are left alone. */
void outputs_add(struct outputs *o, struct str type, const struct json *content);
/* A stream message of which only the beginning and the end of the JSON are there. */
void outputs_add_cut(struct outputs *o, struct str head, struct str tail, int64_t missing);
void outputs_note(struct outputs *o, const char *stream, struct str text); /* a line of our own */
void outputs_print(const struct outputs *o, struct jw *w);
/* All of one stream ("stdout"), with the text of results and displays where `rich`. */
struct str outputs_text(const struct outputs *o, const char *stream, bool rich, struct arena *a);
struct str outputs_plain(struct str s, struct arena *a); /* without the colours of a terminal */
int64_t outputs_dropped(const struct outputs *o);

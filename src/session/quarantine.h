/* A box whose reset did not prove itself. Nobody may go on in it as if it had been reset: it stands still, and calls on
 * it are answered at once, by serve. It ends with a reset that proves itself, or with the box. */
#pragma once

#include "session/node.h"

/* By this state; "": by the image. What runs in the box ends. */
void box_quarantine(struct box *b, const char *state);
void box_quarantine_end(struct box *b); /* its new seat is proved; the record of that seat says so */
bool box_quarantined(const struct box *b);
/* What a call on it is told: since when, by what, and what to do. */
int box_quarantine_error(const struct box *b, struct err *e);
/* The member "quarantine" of its record and of the API's object; nothing if there is none. */
void box_quarantine_print(const struct box *b, struct jw *w);
void box_quarantine_adopt(struct box *b, const struct json *record, bool frozen); /* of an earlier serve */

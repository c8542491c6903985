/* Somebody looks at a terminal from outside: output from any place on, and what is typed. Speaks wire/view.h over a
 * descriptor that goes out by DIAL. */
#pragma once

#include "base/err.h"
#include "wire/frame.h"

struct init;

int view_open(struct init *in, struct str terminal, const struct wire_dial *w, struct err *e); /* serve's end */

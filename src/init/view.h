/* Somebody looks at terminals from outside: output from any place on, and what is typed. Speaks wire/view.h over a
 * descriptor that goes out by DIAL, for all terminals of the box. */
#pragma once

#include "base/err.h"

struct init;

int views_open(struct init *in, struct err *e); /* serve's end */

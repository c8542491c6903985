/* Somebody follows the output of a command from outside, as it comes. Speaks wire/view.h: OUTPUT, ERRORS, EXIT.
 *
 *   job:ID            a background program
 *   command:NAME      the newest command of the terminal NAME
 *   command:NAME#SEQ  that one of its commands
 */
#pragma once

#include "base/err.h"
#include "wire/frame.h"

struct init;

int tail_job(struct init *in, struct str id, const struct wire_dial *w, struct err *e); /* serve's end */
int tail_command(struct init *in, struct str name, const struct wire_dial *w, struct err *e);

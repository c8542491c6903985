/* Somebody follows the output of a command from outside, as it comes. Speaks wire/view.h: OUTPUT, ERRORS, EXIT.
 *
 *   run:NAME#ID       a command of the session NAME (runs.h)
 *   command:NAME#     the newest command of the terminal NAME
 *   command:NAME#SEQ  that one of its commands
 *
 * HELLO says where it begins: of stdout in its head, of stderr as end.
 */
#pragma once

#include "base/err.h"
#include "wire/frame.h"

struct init;

int tail_run(struct init *in, struct str name, const struct wire_dial *w, struct err *e); /* serve's end */
int tail_command(struct init *in, struct str name, const struct wire_dial *w, struct err *e);

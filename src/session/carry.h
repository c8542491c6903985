/* The variables of a box's interpreters through its states. Init gathers them before a snapshot (carry:out), they are
 * stored as a blob, the state names it; a box that is made from the state is given them before the first call that may
 * want them (carry:in). What is in the blob concerns nobody but the interpreters themselves.
 *
 *   {"blob":"sha256:...","bytes":n,"sessions":[{"session","kind","language","carried","reason","bytes","lost":[]}]} */
#pragma once

#include "session/node.h"

/* Tells what a state that is taken now has of them: absent if there are none. Asks init only if code ran meanwhile.
 * Perhaps before it returns. */
void carry_out(struct box *b, void (*cb)(void *arg, struct str carried), void *arg);
void carry_expect(struct box *b, struct str carried); /* a new seat: it is to be given these */
void carry_in(struct session *s);                     /* gives them, before all that waits in this session */
bool carry_has_variables(struct str carried);
struct str carry_sessions(struct str carried, struct arena *a); /* the list in it, or absent */

/* What a box has of another moment's sessions. The shell: a script, kept in the record of the state and of the box that
 * is made from it, which the box's first shell runs before all else (bash:begin). The variables of interpreters: init
 * gathers them before a snapshot (carry:out), they are stored as a blob, the state names it; a box that is made from the
 * state is given them before the first call that may want them (carry:in). What is in the blob concerns nobody but the
 * interpreters themselves. Init takes each only once, so a serve that does not know whether its predecessor gave them
 * gives them again.
 *
 *   {"blob":"sha256:...","bytes":n,"sessions":[{"session","kind","language","carried","reason","bytes","lost":[]}]} */
#pragma once

#include "session/node.h"

/* Tells what a state that is taken now has of them: absent if there are none. Asks init only if code ran meanwhile.
 * Perhaps before it returns. */
void carry_out(struct box *b, void (*cb)(void *arg, struct str carried), void *arg);
/* A new seat: it is to be given these. Either may be absent; both are copied. */
void carry_expect(struct box *b, struct str shell, struct str carried);
void carry_adopt(struct box *b, const struct json *record); /* the same, as the record of a box that was there has it */
void carry_record(const struct box *b, struct jw *w);       /* the members that carry_adopt reads */
void carry_done(struct carried *c);
void carry_in(struct session *s); /* gives interpreters theirs, before all that waits in this session */
bool carry_has_variables(struct str carried);
struct str carry_sessions(struct str carried, struct arena *a); /* the list in it, or absent */

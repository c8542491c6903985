/* Tickets: what a browser can carry in a URL, for pages and WebSockets. A ticket is the word of this server itself,
 * signed with a key that never leaves its home: nothing is remembered, and a ticket outlives a restart of serve. It may
 * be used any number of times until it expires; whoever made it by an API key loses it with the key. */
#pragma once

#include <stdint.h>

#include "access/who.h"
#include "base/arena.h"
#include "base/err.h"

struct ticket_key {
    unsigned char bytes[32];
};

int ticket_key_load(const char *home, struct ticket_key *ret, struct err *e); /* makes it at first use */
struct str ticket_make(const struct ticket_key *k, const struct who *w, int64_t until_us, struct arena *a);
int ticket_check(const struct ticket_key *k, struct str ticket, int64_t wall_us, struct who *ret, struct err *e);

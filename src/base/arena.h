/* Memory with one lifetime: a request, a call, a session. Nothing in it is freed piecemeal.
 * Small allocations abort when memory is exhausted; what a client sizes goes through a capped buf. */
#pragma once

#include "base/str.h"

struct arena_block;
struct arena {
    struct arena_block *head;
    size_t total; /* bytes handed out */
};

void arena_init(struct arena *a);
void arena_done(struct arena *a);  /* accepts a zeroed arena */
void arena_reset(struct arena *a); /* empties it but keeps one block for the next request */

void *arena_alloc(struct arena *a, size_t n);         /* zeroed, aligned to 16 */
struct str arena_copy(struct arena *a, struct str s); /* the copy is NUL-terminated, too */
char *arena_z(struct arena *a, struct str s);         /* the same, as a C string */
char *arena_printf(struct arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

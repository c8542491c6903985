/* A box that sees the same machine and the same moment in every run: what may be asked, as JSON. */
#pragma once

#include "base/json.h"
#include "wire/seat.h"

/* true, or an object with some of: hostname, locale, timezone, hash_seed, cpus, aslr, start_time. */
int profile_bind(const struct json *v, const char *image, struct box_profile *ret, struct err *e);
/* The object; nothing if there is none. With offset: as the log has it. */
void profile_print(const struct box_profile *p, bool offset, struct jw *w);
void profile_read(const struct json *recorded, struct box_profile *ret); /* what was printed with offset */

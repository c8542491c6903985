/* What may be asked of a box. Everything in a box_spec came over a socket and is checked here, once. */
#pragma once

#include <stdbool.h>

struct box_spec;
struct err;

int spec_check(const struct box_spec *s, struct err *e); /* names the field and its range */
/* May a seat that was made for have be handed out for want? Limits that live in cgroups can be rewritten. */
bool spec_fits(const struct box_spec *have, const struct box_spec *want);
bool spec_same_limits(const struct box_spec *a, const struct box_spec *b);

/* A box's settings in records of the log. */
#pragma once

#include "base/json.h"
#include "wire/seat.h"

void spec_limits_print(const struct box_spec *s, struct jw *w); /* members, as the API shows them */
void spec_print(const struct box_spec *s, struct jw *w);        /* members: all but the image and its layers */
void spec_read(const struct json *j, struct box_spec *s);       /* j may be NULL; what is missing is left alone */

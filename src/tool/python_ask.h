/* Tools whose work a Python script in the box does: it gets the parameters as JSON, and answers with JSON. `missing` in
 * the answer is something that is not there, `error` what was wrong with the call; each says so in a sentence. */
#pragma once

#include "base/field.h"
#include "init/hand.h"

struct python_ask {
    const char *what; /* "the proxy": begins a sentence about what went wrong */
    const char *script;
    const struct field *fields; /* of params */
    const void *params;
    bool tells_script; /* the script gets its own text, to leave it behind in the box */
};
int python_ask(struct hand *h, const struct python_ask *q, const struct json **ret, struct err *e);

/* What several writers need. */
#pragma once

#include "replay/truth.h"

/* Names of functions may only have letters, digits, _ and -: "bash:run" becomes "bash_run", which reads back. */
struct str wire_name(struct arena *a, struct str tool);
/* [{"type":"function","function":{"name","description","parameters"}}] of the tools that t uses and that we know. */
void write_tool_definitions(struct jw *w, struct arena *a, const struct trajectory *t);
/* The same of several, each tool once; those that are NULL use none. */
void write_tools_of(struct jw *w, struct arena *a, const struct trajectory *const *all, size_t n);
void write_args_object(struct jw *w, const struct traj_step *s); /* {"_raw": "..."} if they are no object */
struct str call_id(struct arena *a, size_t i);                   /* "call_1" */
bool traj_success(const struct trajectory *t);                   /* the last step ended well */
struct turns {
    size_t from, to; /* steps [from, to) */
    size_t first;    /* the number of the first call, from 0: calls of one conversation have different ids */
};
/* Their messages, without brackets. */
void write_turns(struct jw *w, struct arena *a, const struct trajectory *t, struct turns which,
                 const struct write_opts *o);
/* The messages of the whole conversation, as a JSON array. */
void write_messages(struct jw *w, struct arena *a, const struct trajectory *t, const struct write_opts *o);

/* What the files call*.c share; nobody else includes it. */
#pragma once

#include "session/call.h"

static inline struct str call_id_key(const uint64_t *id) /* in node.calls */
{
    return (struct str){ (const char *)id, sizeof *id };
}

struct call *call_new(struct node *n);
void call_proceed(struct call *c);             /* it may run */
struct box *call_chosen(const struct call *c); /* by its surface, if it is still there */
void call_send_recorded(struct call *c);       /* its INTENT is written: what the tool does begins */

bool call_print_result(struct call *c, const void *result); /* as its data; false: it is too large, and has failed */
void call_known_gauges(struct call *c); /* of what allocates nothing to speak of: its box's, without asking */
/* call_look.c. True: serve could do it itself, and it is over. */
bool call_look(struct call *c);

/* call_end.c */
void call_free(struct call *c);
void call_wait(struct call *c, on_call_done *cb, void *arg); /* one more who is told */
void call_join(struct call *c, struct call *other); /* c ends here; those who wait for it get the other's answer */
int call_promise(struct call *c, struct err *e);    /* adds its INTENT: call_send_recorded follows */
void call_commit_later(struct call *c, enum call_commit what); /* when what was recorded in this turn is written */
void call_await_store(struct call *c);                         /* it leaves its box, and keeps its session waiting */
void call_finish(struct call *c);                              /* its outcome is known: record it, then answer */

int call_bind(struct call *c, const struct call_request *r, struct err *e); /* call_bind.c */

/* call_forward.c. True: the call goes on elsewhere. */
bool call_forward(struct call *c);
#define FORWARD_SURFACE "fast_forward" /* of the step that says into which state a new box was put */

/* call_key.c. The answer that was recorded. */
void call_replay(struct call *c, const struct json *row);
/* call_key.c. True: the call goes on elsewhere (it joined another, or waits for the recorder). */
bool call_use_key(struct call *c);

/* call_blob.c: what is kept outside of the step's record. To be stored, by its name; type NULL: no picture. */
void call_keep(struct call *c, struct str name, const char *type, int take_fd);
/* The members of its result that are blobs, which are emptied; true: there were some. Then its pictures. */
bool call_keep_fields(struct call *c, void *result);
void call_keep_pictures(struct call *c, const struct wire_result *r);
void call_store(struct call *c, void (*done)(struct call *c)); /* all of them; done sees c->blobs */
void call_unstore(struct call *c);                             /* a recorded answer is made whole again */
void call_keep_nothing(struct call *c);                        /* closes what was not stored */

/* log_tool.c: tools about what was recorded */
void log_tool_start(struct call *c);
/* box_tool.c: tools about the box itself. Checked and promised; then done; or, of an earlier serve, looked for. */
void box_tool_start(struct call *c);
void box_tool_run(struct call *c);

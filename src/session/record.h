/* A call as the journal keeps it. */
#pragma once

struct call;
struct err;

int record_intent(const struct call *c, struct err *e);
int record_result(const struct call *c, struct err *e);
int record_step(const struct call *c, struct err *e); /* both in one, for calls that had no intent */

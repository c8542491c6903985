/* The hands of a box: processes for straight-line tools (hand.h), started on demand, reused, ended when idle. */
#pragma once

#include <stdbool.h>

struct init;
struct task;

void hands_init(struct init *in);
void hands_warm(struct init *in); /* one, ahead of the first call */
/* True: a hand has the parameters. False: the task waits, and t->call must be copied by the caller. */
bool hands_submit(struct init *in, struct task *t);

/* What an earlier serve left: boxes that live, sessions, calls without a result. */
#pragma once

struct node;
struct err;

/* Once, before anything is answered: asks recorder for what the log says is open. */
int restore_begin(struct node *n, struct err *e);
/* At every connection to supervise: compares its boxes with ours. The first time, n->on_ready follows. */
void restore_boxes(struct node *n);

/* The conversation with serve: wire/frame.h over one connection at a time. A new connection replaces the older one;
 * a broken one changes nothing for the work that runs. */
#pragma once

#include "base/err.h"
#include "wire/frame.h"

struct init;
struct task;

int link_open(struct init *in, int listen_fd, struct err *e);
void link_send_result(struct task *t); /* t->reply; at once if somebody listens, else at the next HELLO */
/* A frame with a descriptor, which is sent and closed, or only closed if nobody listens. */
void link_send_fd(struct init *in, enum frame_type type, uint64_t id, int take_fd);
void link_dialed(struct init *in, uint64_t id, int take_fd, const struct err *e); /* fd < 0: e says why */
void link_about(struct init *in, const struct wire_about *a);        /* kept, and told to each who connects */
void link_refuse(struct init *in, uint64_t id, const struct err *e); /* a result that is not kept */

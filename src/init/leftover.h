/* Output that is nobody's: written by children of commands that have ended. Its pipes are read on, so that the children
 * do not block or die of SIGPIPE; the end of what they wrote is shown with the next result. */
#pragma once

#include "init/stream.h"

struct loop;
struct leftover_pipe;

struct leftover {
    struct loop *loop;
    struct stream text;
    struct leftover_pipe *pipes;
};

void leftover_init(struct leftover *l, struct loop *loop);
void leftover_add(struct leftover *l, int take_fd);
void leftover_clear(struct leftover *l); /* the text was shown */

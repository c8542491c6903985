/* A named pipe between init and a shell. Init holds it open for both directions, so that opening it never blocks the
 * shell and its end never shows as a hang-up. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"

struct fifo {
    char path[48];
    int fd; /* -1: closed */
    bool big;
    dev_t dev;
    ino_t ino;
};

int fifo_open(struct fifo *f, const char *dir, const char *name, struct err *e); /* replaces what has that name */
void fifo_close(struct fifo *f);
void fifo_grow(struct fifo *f);   /* after a burst: as large as the kernel allows */
void fifo_shrink(struct fifo *f); /* back to the usual size */
/* Does anybody but us have it open for writing? Then the pipe is left to them: its reader is returned and f is a fresh
 * pipe under the old name. Else -1, and f is as before (its descriptor may be another one). */
int fifo_part(struct fifo *f, struct err *e);
int fifo_renew(struct fifo *f, struct err *e); /* a fresh pipe, whoever has the old one */

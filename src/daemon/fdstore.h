/* Descriptors that outlive supervise: guard keeps a duplicate of each, by the id of its box, and gives them to the next
 * life of supervise. What they are for is not guard's business.
 *
 *   supervise                        guard
 *   KEEP id + descriptor  -------->  kept, instead of an older one of that id
 *   DROP id               -------->  closed
 *   GIVE                  -------->
 *                         <--------  KEEP id + descriptor, for each
 *                         <--------  GIVE: that was all
 *
 * One SEQPACKET pair per life of supervise. Neither end ever waits for the other, but for supervise at its start. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "wire/seat.h"

struct err;

enum { GUARD_STORE_FD = 4 }; /* supervise's end, inherited from guard */

struct kept_fd {
    char id[BOX_ID_MAX];
    int fd;
};

/* guard's end */
struct fdstore {
    int socket; /* -1: no supervise */
    struct kept_fd *kept;
    size_t count;
    size_t given; /* while giving: how many are given */
    bool giving;
};

void fdstore_init(struct fdstore *s);
int fdstore_renew(struct fdstore *s, struct err *e); /* a new pair; returns supervise's end, owned by the caller */
short fdstore_events(const struct fdstore *s);       /* for poll */
void fdstore_turn(struct fdstore *s);                /* all that can be done without waiting */

/* supervise's end; store < 0, without a guard: nothing is kept */
int fdstore_inherited(int fd); /* it, or -1 if it is no such socket */
int fdstore_keep(int store, const char *id, int fd, struct err *e);
void fdstore_drop(int store, const char *id);
int fdstore_give(int store, struct kept_fd **ret, size_t *ret_count,
                 struct err *e); /* waits; all owned by the caller */

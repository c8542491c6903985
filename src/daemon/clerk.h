/* Clerks: forks of supervise that wait for something to do, so that whoever waits for a state does not wait for a fork,
 * and for the pages that both sides copy after it. A clerk has let go of every descriptor but those that it is said to
 * keep: nothing of a box lives on in one. It is given an order in memory that both share, does it, says one report, and
 * waits again. A few are kept; after many orders one is replaced, whatever it may have gathered. */
#pragma once

#include <stddef.h>
#include <sys/types.h>

struct err;

enum { CLERK_KEEPS = 16 };

typedef void on_order(void *arg, void *order, int fd,
                      int sock); /* fd: what came with it, or -1; says its report on sock */

struct clerks {
    on_order *work;
    void *arg;
    size_t order_size;
    int nice; /* behind the answers that somebody waits for */
    int keep[CLERK_KEEPS];
    int keep_n;
    struct clerk *idle;
    unsigned idle_n;
};

struct clerk {
    struct clerk *next;
    struct clerks *all;
    pid_t pid;
    int sock;    /* packets; readable: its report, or its end */
    void *order; /* shared */
    unsigned orders;
};

struct clerk *clerk_get(struct clerks *w, struct err *e); /* one that waits, or a new one */
int clerk_go(struct clerk *x, int fd, struct err *e);     /* with the order as it is now; fd may be -1 */
void clerk_put(struct clerk *x);                          /* its report was read: it waits again, or ends */
void clerk_end(struct clerk *x);                          /* at once, whatever it is doing */
void clerks_close(struct clerks *w);

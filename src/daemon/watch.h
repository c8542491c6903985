/* Which files of a box something happened to since its last snapshot: fanotify on the box's scratch file system, one
 * queue for all boxes. A box is watched from its first snapshot on; before that everything in scratch is new anyway.
 *
 * What an event says: FAN_CLOSE_WRITE that an open file which could be written through is gone, with all its mappings;
 * FAN_CREATE, DELETE, MOVED_* that the names of a directory changed; FAN_ATTRIB that mode, owner, times or attributes
 * did. Overlay works on the upper's files by the same functions as everybody, so what is done through it is seen here.
 * That this is so, also for mappings, is tried out once at the start; a kernel on which it is not, or that has no
 * fanotify, makes every snapshot compare all that the box wrote.
 *
 * Events can be lost: the queue overflows, or a box changes more files than are remembered. Then `lost` is set, and
 * the next snapshot of each box concerned compares everything, once. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/map.h"

struct err;
struct loop;
struct loop_fd;
struct loop_timer;

enum { WATCH_INODES_MAX = 65536 };

struct watched { /* one box; zeroed: not watched */
    uint64_t fsid;
    bool marked, lost;
    uint64_t *inodes;
    size_t n, size;
};

struct watch {
    int fan; /* -1: it cannot be done here */
    struct loop *loop;
    struct loop_fd *on;
    struct loop_timer *rest; /* between two looks: a busy box must not keep supervise busy */
    struct map boxes;        /* fsid -> struct watched, which must not move */
};

void watch_open(struct watch *w, struct loop *l);
void watch_close(struct watch *w);
/* From now on; what happened before is lost. scratch: a directory of that file system. */
void watch_begin(struct watch *w, struct watched *x, int scratch);
/* All that came until now, sorted, each once; x begins anew. The caller frees ret->inodes. A box that stands still
 * has no event under way. */
void watch_take(struct watch *w, struct watched *x, struct watched *ret);
void watch_lose(struct watched *x); /* what was taken was not used */
void watch_end(struct watch *w, struct watched *x);

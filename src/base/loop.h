/* One epoll loop per process: descriptors, timers, and work put off to the end of the turn. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct loop;
struct loop_fd;    /* one watched descriptor */
struct loop_timer; /* one timer; embedded storage is not needed, it is a heap object */

typedef void on_ready(void *arg, uint32_t events); /* EPOLLIN ... */
typedef void on_time(void *arg);

struct loop *loop_new(void);
void loop_free(struct loop *l);
int loop_run(struct loop *l); /* until loop_stop */
void loop_stop(struct loop *l);

/* The watch does not own fd. loop_unwatch is safe inside a callback, for any watch: a removed watch is never
 * called again, not even in this turn. */
struct loop_fd *loop_watch(struct loop *l, int fd, uint32_t events, on_ready *cb, void *arg);
void loop_change(struct loop_fd *w, uint32_t events);
void loop_unwatch(struct loop_fd *w); /* accepts NULL */

/* Called before each callback of a descriptor or timer, except of those that were marked. One per loop. */
void loop_before(struct loop *l, on_time *cb, void *arg);
void loop_skip_before(struct loop_fd *w);

/* An event is likely to come within so many microseconds: before it sleeps next, the loop looks for it that long. A
 * processor that went idle takes as long to wake as many a request to answer. Looking in vain makes it rarer. */
void loop_expect(struct loop *l, int us);

/* Timers fire once. loop_timer_new makes an idle one. */
struct loop_timer *loop_timer_new(struct loop *l, on_time *cb, void *arg);
void loop_timer_set(struct loop_timer *t, int64_t in_ms); /* < 0 stops it */
void loop_timer_free(struct loop_timer *t);               /* accepts NULL; safe inside its own callback */

/* Called once at the end of this turn of the loop (before the next wait). */
void loop_later(struct loop *l, on_time *cb, void *arg);
/* Called at the end of every turn: the place for work gathered during the turn. At most 4. */
void loop_each_turn(struct loop *l, on_time *cb, void *arg);

int64_t now_ms(void);  /* monotonic */
int64_t now_us(void);  /* monotonic */
int64_t wall_us(void); /* since 1970 */

#include "base/loop.h"

#include <errno.h>
#include <stdlib.h>
#include <sched.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

enum {
    EVENTS_PER_TURN = 256,
    EACH_TURN_MAX = 4,
    VAIN_MAX = 6, /* after so many looks in vain one in 64 is made: perhaps whom we wait for needs this processor */
};

struct loop_fd {
    struct loop *loop;
    int fd;
    on_ready *cb; /* NULL: removed, freed at the end of the turn */
    void *arg;
    bool skip_before;
    struct loop_fd *next_dead;
};

struct loop_timer {
    struct loop *loop;
    int64_t at_ms;
    size_t slot; /* 1-based place in the heap; 0: idle */
    on_time *cb;
    void *arg;
};

struct later {
    on_time *cb;
    void *arg;
};

struct loop {
    int epfd;
    bool stop;
    struct loop_timer **heap; /* 1-based binary heap by at_ms */
    size_t heap_n, heap_size;
    struct later *later;
    size_t later_n, later_size;
    struct later each[EACH_TURN_MAX];
    size_t each_n;
    struct later before; /* cb NULL: none */
    struct loop_fd *dead;
    int expect_us;
    unsigned skip_looks, vain;
};

static int64_t clock_us(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}
int64_t now_us(void)
{
    return clock_us(CLOCK_MONOTONIC);
}
int64_t now_ms(void)
{
    return now_us() / 1000;
}
int64_t wall_us(void)
{
    return clock_us(CLOCK_REALTIME);
}

static void *grow(void *p, size_t need, size_t *size, size_t each)
{
    if (need <= *size)
        return p;
    *size = *size ? *size * 2 : 64;
    p = realloc(p, *size * each);
    if (!p)
        abort();
    return p;
}

struct loop *loop_new(void)
{
    struct loop *l = calloc(1, sizeof *l);
    if (!l)
        abort();
    l->epfd = epoll_create1(EPOLL_CLOEXEC);
    if (l->epfd < 0) {
        free(l);
        return NULL;
    }
    return l;
}

static void free_dead(struct loop *l)
{
    for (struct loop_fd *w = l->dead, *next; w; w = next) {
        next = w->next_dead;
        free(w);
    }
    l->dead = NULL;
}

void loop_free(struct loop *l)
{
    if (!l)
        return;
    free_dead(l);
    close(l->epfd);
    free(l->heap);
    free(l->later);
    free(l);
}

struct loop_fd *loop_watch(struct loop *l, int fd, uint32_t events, on_ready *cb, void *arg)
{
    struct loop_fd *w = calloc(1, sizeof *w);
    if (!w)
        abort();
    *w = (struct loop_fd){ .loop = l, .fd = fd, .cb = cb, .arg = arg };

    struct epoll_event ev = { .events = events, .data.ptr = w };
    if (epoll_ctl(l->epfd, EPOLL_CTL_ADD, fd, &ev) < 0) {
        free(w);
        return NULL;
    }
    return w;
}

void loop_change(struct loop_fd *w, uint32_t events)
{
    struct epoll_event ev = { .events = events, .data.ptr = w };
    (void)epoll_ctl(w->loop->epfd, EPOLL_CTL_MOD, w->fd, &ev);
}

void loop_unwatch(struct loop_fd *w)
{
    if (!w || !w->cb)
        return;
    (void)epoll_ctl(w->loop->epfd, EPOLL_CTL_DEL, w->fd, NULL);
    w->cb = NULL;
    w->next_dead = w->loop->dead;
    w->loop->dead = w;
}

static void heap_put(struct loop *l, size_t slot, struct loop_timer *t)
{
    l->heap[slot] = t;
    t->slot = slot;
}

static void heap_fix(struct loop *l, size_t slot)
{
    struct loop_timer *t = l->heap[slot];

    while (slot > 1 && l->heap[slot / 2]->at_ms > t->at_ms) {
        heap_put(l, slot, l->heap[slot / 2]);
        slot /= 2;
    }
    for (;;) {
        size_t child = slot * 2;
        if (child > l->heap_n)
            break;
        if (child < l->heap_n && l->heap[child + 1]->at_ms < l->heap[child]->at_ms)
            child++;
        if (l->heap[child]->at_ms >= t->at_ms)
            break;
        heap_put(l, slot, l->heap[child]);
        slot = child;
    }
    heap_put(l, slot, t);
}

struct loop_timer *loop_timer_new(struct loop *l, on_time *cb, void *arg)
{
    struct loop_timer *t = calloc(1, sizeof *t);
    if (!t)
        abort();
    *t = (struct loop_timer){ .loop = l, .cb = cb, .arg = arg };
    return t;
}

void loop_timer_set(struct loop_timer *t, int64_t in_ms)
{
    struct loop *l = t->loop;

    if (t->slot) {
        size_t slot = t->slot;
        struct loop_timer *last = l->heap[l->heap_n--];
        t->slot = 0;
        if (last != t) {
            heap_put(l, slot, last);
            heap_fix(l, slot);
        }
    }
    if (in_ms < 0)
        return;
    t->at_ms = now_ms() + in_ms;
    l->heap = grow(l->heap, l->heap_n + 2, &l->heap_size, sizeof(struct loop_timer *));
    heap_put(l, ++l->heap_n, t);
    heap_fix(l, l->heap_n);
}

void loop_timer_free(struct loop_timer *t)
{
    if (!t)
        return;
    loop_timer_set(t, -1);
    free(t);
}

void loop_later(struct loop *l, on_time *cb, void *arg)
{
    l->later = grow(l->later, l->later_n + 1, &l->later_size, sizeof *l->later);
    l->later[l->later_n++] = (struct later){ cb, arg };
}

void loop_each_turn(struct loop *l, on_time *cb, void *arg)
{
    if (l->each_n == EACH_TURN_MAX)
        abort();
    l->each[l->each_n++] = (struct later){ cb, arg };
}

void loop_before(struct loop *l, on_time *cb, void *arg)
{
    l->before = (struct later){ cb, arg };
}

void loop_skip_before(struct loop_fd *w)
{
    w->skip_before = true;
}

static void run_before(struct loop *l)
{
    if (l->before.cb)
        l->before.cb(l->before.arg);
}

static void end_turn(struct loop *l)
{
    for (size_t i = 0; i < l->later_n; i++) /* a callback may add more; they run in this turn, too */
        l->later[i].cb(l->later[i].arg);
    l->later_n = 0;
    for (size_t i = 0; i < l->each_n; i++)
        l->each[i].cb(l->each[i].arg);
    free_dead(l);
}

void loop_stop(struct loop *l)
{
    l->stop = true;
}

void loop_expect(struct loop *l, int us)
{
    l->expect_us = us;
}

static int look(struct loop *l, struct epoll_event *events)
{
    int64_t until = now_us() + l->expect_us;
    int n;

    l->expect_us = 0;
    if (l->skip_looks) {
        l->skip_looks--;
        return 0;
    }
    while ((n = epoll_wait(l->epfd, events, EVENTS_PER_TURN, 0)) == 0 && now_us() < until)
        (void)sched_yield(); /* whom we wait for may be waiting for this processor */
    l->vain = n != 0 ? 0 : l->vain < VAIN_MAX ? l->vain + 1 : VAIN_MAX;
    l->skip_looks = (1u << l->vain) - 1;
    return n;
}

int loop_run(struct loop *l)
{
    struct epoll_event events[EVENTS_PER_TURN];

    while (!l->stop) {
        int64_t wait = -1;
        if (l->later_n)
            wait = 0;
        else if (l->heap_n) {
            wait = l->heap[1]->at_ms - now_ms();
            wait = wait < 0 ? 0 : wait;
        }
        int n = l->expect_us && wait != 0 ? look(l, events) : 0;
        if (n == 0)
            n = epoll_wait(l->epfd, events, EVENTS_PER_TURN, (int)(wait > 3600000 ? 3600000 : wait));
        if (n < 0 && errno != EINTR)
            return -errno;
        for (int i = 0; i < n; i++) {
            struct loop_fd *w = events[i].data.ptr;
            if (!w->cb)
                continue;
            if (!w->skip_before)
                run_before(l);
            w->cb(w->arg, events[i].events);
        }
        for (int64_t now = l->heap_n ? now_ms() : 0; l->heap_n && l->heap[1]->at_ms <= now;) {
            struct loop_timer *t = l->heap[1];
            loop_timer_set(t, -1);
            run_before(l);
            t->cb(t->arg);
        }
        end_turn(l);
    }
    return 0;
}

#include "surface/plug.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/limits.h"

enum { CHUNK = 128 * KiB, READS_PER_TURN = 4 };

struct plug {
    struct loop *loop;
    int fd;
    const struct plug_handler *handler;
    void *arg;
    struct loop_fd *watch;
    uint32_t armed;
    bool held, full, eof, broken, busy, freed;
    bool hup; /* not watched: see look_away */
};

static void arm(struct plug *p)
{
    uint32_t want = (p->held || p->eof || p->broken ? 0 : EPOLLIN) | (p->full ? EPOLLOUT : 0);

    if (p->watch && want != p->armed)
        loop_change(p->watch, want);
    p->armed = want;
}

static void break_off(struct plug *p)
{
    if (p->broken)
        return;
    p->broken = true;
    loop_unwatch(p->watch);
    p->watch = NULL;
    p->handler->broken(p->arg);
}

static void read_some(struct plug *p)
{
    static char chunk[CHUNK];

    for (int i = 0; i < READS_PER_TURN && !p->held && !p->eof && !p->broken && !p->freed; i++) {
        ssize_t n = recv(p->fd, chunk, sizeof chunk, MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n < 0) {
            break_off(p);
        } else if (n == 0) {
            p->eof = true;
            p->handler->eof(p->arg);
        } else {
            p->handler->data(p->arg, (struct str){ chunk, (size_t)n });
            if ((size_t)n < sizeof chunk) /* there was no more, or epoll says so again */
                return;
        }
    }
}

static void on_plug(void *arg, uint32_t events);

/* The other end was closed, but what it sent before is not read yet, and nobody wants it now. Epoll would report the
 * hang-up without end. */
static void look_away(struct plug *p)
{
    loop_unwatch(p->watch);
    p->watch = NULL;
    p->hup = true;
}

static void look_again(struct plug *p)
{
    p->hup = false;
    p->armed = EPOLLIN;
    p->watch = loop_watch(p->loop, p->fd, EPOLLIN, on_plug, p);
}

static void on_plug(void *arg, uint32_t events)
{
    struct plug *p = arg;

    p->busy = true;
    if (events & EPOLLIN)
        read_some(p);
    else if (events & (EPOLLERR | EPOLLHUP)) { /* nothing to read before it, or nobody wants it */
        if (p->eof || p->held)                 /* its end was told; or is still to be read */
            look_away(p);
        else
            read_some(p);
    }
    if (!p->freed && !p->broken && p->full && events & EPOLLOUT) {
        p->full = false;
        if (p->handler->room)
            p->handler->room(p->arg);
    }
    p->busy = false;
    if (p->freed)
        free(p);
    else
        arm(p);
}

struct plug *plug_new(struct loop *l, int fd, const struct plug_handler *h, void *arg)
{
    struct plug *p = calloc(1, sizeof *p);

    if (!p)
        abort();
    *p = (struct plug){ .loop = l, .fd = fd, .handler = h, .arg = arg, .held = true };
    p->watch = loop_watch(l, fd, 0, on_plug, p);
    return p;
}

void plug_free(struct plug *p)
{
    if (!p)
        return;
    loop_unwatch(p->watch);
    p->watch = NULL;
    p->freed = p->broken = true;
    if (!p->busy)
        free(p);
}

void plug_hold(struct plug *p, bool hold)
{
    p->held = hold;
    if (!hold && p->hup && !p->broken)
        look_again(p);
    if (!p->busy)
        arm(p);
}

size_t plug_write(struct plug *p, struct str s)
{
    size_t done = 0;

    while (done < s.n && !p->broken) {
        ssize_t n = send(p->fd, s.p + done, s.n - done, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno != EAGAIN)
            return s.n; /* nobody will read it; whether anything comes out is told by reading */
        if (n < 0) {
            p->full = true;
            if (!p->busy)
                arm(p);
            break;
        }
        done += (size_t)n;
    }
    return done;
}

void plug_end(struct plug *p)
{
    (void)shutdown(p->fd, SHUT_WR);
}

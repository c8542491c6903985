#include "init/leftover.h"

#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/loop.h"

enum { TAIL = 64 * 1024, PIPES_MAX = 64 };

struct leftover_pipe {
    struct leftover *owner;
    int fd;
    struct loop_fd *watch;
    struct leftover_pipe *next;
};

void leftover_init(struct leftover *l, struct loop *loop)
{
    *l = (struct leftover){ .loop = loop };
    stream_init(&l->text, 0, TAIL, 0);
}

void leftover_clear(struct leftover *l)
{
    if (!l->text.total)
        return;
    stream_done(&l->text);
    stream_init(&l->text, 0, TAIL, 0);
}

static void pipe_close(struct leftover_pipe *p)
{
    for (struct leftover_pipe **at = &p->owner->pipes; *at; at = &(*at)->next)
        if (*at == p) {
            *at = p->next;
            break;
        }
    loop_unwatch(p->watch);
    close(p->fd);
    free(p);
}

static void on_leftover(void *arg, uint32_t events)
{
    struct leftover_pipe *p = arg;
    auto_free char *scratch = NULL;

    (void)events;
    if (stream_drain(&p->owner->text, p->fd, &scratch) <= 0)
        pipe_close(p);
}

void leftover_add(struct leftover *l, int take_fd)
{
    struct leftover_pipe *p = calloc(1, sizeof *p);
    size_t n = 0;

    if (!p)
        abort();
    *p = (struct leftover_pipe){ .owner = l, .fd = take_fd, .next = l->pipes };
    l->pipes = p;
    p->watch = loop_watch(l->loop, p->fd, EPOLLIN, on_leftover, p);
    for (struct leftover_pipe *old = l->pipes, *next; old; old = next) {
        next = old->next;
        if (++n > PIPES_MAX)
            pipe_close(old); /* its writer gets SIGPIPE: better than running out of descriptors */
    }
}

#include "test.h"

#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "surface/plug.h"

struct world {
    struct loop *loop;
    struct loop_timer *timer;
    struct plug *plug;
    int peer; /* -1: closed */
    int rooms, ends;
};

static void on_data(void *arg, struct str data)
{
    (void)arg, (void)data;
}

static void on_end(void *arg)
{
    struct world *w = arg;

    w->ends++;
}

static void on_room(void *arg)
{
    struct world *w = arg;

    w->rooms++;
    (void)plug_write(w->plug, STR("more"));
}

static void on_close_then_stop(void *arg)
{
    struct world *w = arg;

    if (w->peer < 0) {
        loop_stop(w->loop);
        return;
    }
    EXPECT_INT(w->rooms, 0);
    EXPECT_INT(w->ends, 0);
    close(TAKE_FD(w->peer));
    loop_timer_set(w->timer, 50);
}

TEST(plug_to_somebody_who_will_not_read_is_not_tried_for_ever)
{
    static const struct plug_handler handler = { on_data, on_end, on_room, on_end };
    struct world w = { .loop = loop_new() };
    int ends[2];

    EXPECT_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    w.plug = plug_new(w.loop, ends[0], &handler, &w);
    plug_hold(w.plug, false);
    w.peer = ends[1];
    w.timer = loop_timer_new(w.loop, on_close_then_stop, &w);
    loop_timer_set(w.timer, 50);
    EXPECT_INT(shutdown(w.peer, SHUT_RD), 0); /* it may write, still */
    EXPECT_INT(plug_write(w.plug, STR("lost")), 4);
    EXPECT_INT(loop_run(w.loop), 0);
    EXPECT_INT(w.ends, 1);
    plug_free(w.plug);
    loop_timer_free(w.timer);
    loop_free(w.loop);
    close(ends[0]);
}

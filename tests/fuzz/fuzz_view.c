/* serve's end of the stream with all views of a box, whatever its init says: a view that ended hears no more, none is
 * told more than its window, all of them end with the stream, and the stream with the last of them. The first byte says in
 * which pieces it comes, and whether it is the stream itself or a list of messages: type, place of the view, what `at`
 * is, size. */
/* needs: src/surface/view.c src/surface/plug.c */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/loop.h"
#include "session/node.h"
#include "surface/view.h"
#include "wire/frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum { LOOKERS = 3, TYPED = 70 * 1024 };

static struct looker {
    struct view *view;
    bool held;
    size_t untaken;
} lookers[LOOKERS];
static struct {
    struct loop *loop;
    int fd; /* init's end */
    struct buf says;
    size_t piece;
    int turns; /* that serve has to learn of the end */
    struct views *all;
    int open; /* descriptors that serve has */
} world;

/* What stands for the node. */
static struct {
    on_dialed *cb;
    void *arg;
} dial;

struct box *box_find(struct node *n, struct str id)
{
    (void)n, (void)id;
    return NULL;
}
int box_reachable(const struct box *b, struct err *e)
{
    (void)b, (void)e;
    return 0;
}
int box_dial(struct box *b, const struct wire_dial *d, on_dialed *cb, void *arg, struct err *e)
{
    (void)b, (void)e;
    if (!str_is(d->target, "views"))
        abort();
    dial.cb = cb;
    dial.arg = arg;
    return 0;
}
void box_undial(struct box *b, void *arg)
{
    (void)b, (void)arg;
}
void box_hang_up(struct node *n, const char *box_id, int take_fd)
{
    (void)n, (void)box_id;
    if (take_fd >= 0) {
        close(take_fd);
        world.open--;
    }
}

static bool on_message(void *arg, const struct view_head *head, const char *p)
{
    struct looker *l = arg;
    static char typed[TYPED];

    if (!l->view)
        abort(); /* it has ended */
    for (size_t i = 0; i < head->size; i++) /* all of it can be read */
        (void)*(volatile const char *)(p + i);
    l->untaken += head->type == VIEW_EXIT ? 0 : sizeof *head + head->size;
    if (l->untaken > VIEW_WINDOW)
        abort();
    switch ((enum view_type)head->type) {
    case VIEW_HELLO: return true;
    case VIEW_OUTPUT:
        if (head->at & 1) {
            l->untaken = l->untaken >= VIEW_WINDOW / 2 ? 0 : l->untaken;
            view_took(l->view);
        }
        return true;
    case VIEW_SIZE:
        if (!l->held)
            view_send(l->view, VIEW_INPUT, (struct str){ typed, head->at & 1 ? TYPED : 1 });
        return true;
    case VIEW_EXIT: view_close(TAKE_PTR(l->view)); return head->at & 1;
    case VIEW_INPUT:
    case VIEW_RESIZE:
    case VIEW_ERRORS:
    case VIEW_OPEN:
    case VIEW_TAKEN:
    case VIEW_CLOSE: break;
    case VIEW_REFUSED: abort();
    }
    return false;
}
static void on_hold(void *arg, bool hold)
{
    struct looker *l = arg;

    if (l->held == hold)
        abort();
    l->held = hold;
}
static void on_ended(void *arg, const char *why)
{
    struct looker *l = arg;

    if (!l->view || strlen(why) >= 200)
        abort();
    l->view = NULL;
}
static const struct view_handler handler = { on_message, on_hold, on_ended };

static void look(struct box *b, struct looker *l)
{
    struct view_opts o = { .all = &world.all, .terminal = STR("t"), .handler = &handler, .arg = l };
    struct err e;

    *l = (struct looker){ 0 };
    l->view = view_open(b, &o, &e);
    if (!l->view)
        abort();
}

/* init says the next piece, and sometimes takes what it was told. */
static void on_turn(void *arg, uint32_t events)
{
    char waste[4096];

    (void)arg, (void)events;
    if (!world.says.n)
        (void)shutdown(world.fd, SHUT_RDWR);
    if (!world.says.n && (!world.all || !world.turns--)) {
        loop_stop(world.loop);
        return;
    }
    size_t n = world.says.n < world.piece ? world.says.n : world.piece;
    ssize_t sent = n ? send(world.fd, world.says.p, n, MSG_NOSIGNAL | MSG_DONTWAIT) : 0;
    if (sent < 0 && errno != EAGAIN)
        sent = (ssize_t)world.says.n; /* it hung up */
    buf_eat(&world.says, sent < 0 ? 0 : (size_t)sent);
    while (world.piece & 1 && recv(world.fd, waste, sizeof waste, MSG_DONTWAIT) > 0)
        ;
}

static void put_messages(const uint8_t *p, size_t n)
{
    static const char content[VIEW_MAX];

    while (n >= 4 && world.says.n < 1u << 20) {
        uint64_t slot = p[1] % (LOOKERS + 1);
        struct view_head head = { .size = p[3] == 255 ? VIEW_MAX : p[3],
                                  .type = p[0] % 13,
                                  .view = slot << VIEW_SLOT_BITS | slot,
                                  .at = (int8_t)p[2] };
        head.size = head.type == VIEW_HELLO ? sizeof(struct view_hello) : head.size;
        buf_add(&world.says, &head, sizeof head);
        buf_add(&world.says, content, head.size);
        p += 4;
        n -= 4;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct node node = { 0 };
    struct box box = { .node = &node, .id = "b-1", .seat = "s-1" };
    int ends[2];

    if (n < 2 || n > 64 * 1024 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        return 0;
    node.loop = world.loop = loop_new();
    world.fd = ends[1];
    world.open = 1;
    world.turns = 16;
    buf_init(&world.says, 2u << 20);
    world.piece = (size_t)data[0] * data[0] + 1;
    if (data[1] & 1)
        buf_add(&world.says, data + 2, n - 2);
    else
        put_messages(data + 2, n - 2);
    world.piece += world.says.n / 64; /* else much of it takes for ever */
    for (int i = 0; i < LOOKERS; i++)
        look(&box, &lookers[i]);
    dial.cb(dial.arg, ends[0], NULL);
    int always = eventfd(1, EFD_CLOEXEC);
    struct loop_fd *turn = loop_watch(world.loop, always, EPOLLIN, on_turn, NULL);
    loop_run(world.loop);
    for (int i = 0; i < LOOKERS; i++)
        if (lookers[i].view)
            abort(); /* its stream has ended */
    if (world.all || world.open)
        abort();
    loop_unwatch(turn);
    close(always);
    loop_free(world.loop);
    buf_done(&world.says);
    close(ends[1]);
    return 0;
}

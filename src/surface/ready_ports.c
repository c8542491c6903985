/* What ready.ports says: the server is ready when these ports of the default box answer. One after the other is tried;
 * the first that does not answer is named in a 503, and whoever waits asks again. */
#include <stdio.h>
#include <stdlib.h>

#include "surface/surface.h"
#include "wire/frame.h"

struct wait {
    struct web *web;
    void (*cb)(struct web *w);
    const char *rest; /* of the list */
    char box[BOX_ID_MAX];
};

static void not_yet(struct wait *x, const char *why)
{
    web_error(x->web, 503, ERR_BUSY, "ready.ports: %s", why);
}

static void next_port(struct wait *x);

static void on_port(void *arg, int take_fd, const struct err *e)
{
    struct wait *x = arg;

    box_hang_up(x->web->node, x->box, take_fd);
    if (take_fd < 0)
        not_yet(x, e->msg);
    else
        next_port(x);
}

static void next_port(struct wait *x)
{
    struct box *b = box_find(x->web->node, str_of(x->box));
    size_t n = strcspn(x->rest, ",");
    struct err e;

    if (!n) {
        x->cb(x->web);
        return;
    }
    if (!b) {
        not_yet(x, "the default box ended");
        return;
    }
    struct wire_dial d = { .target = str_of(arena_printf(x->web->http->arena, "tcp:%.*s", (int)n, x->rest)) };
    x->rest += n + (x->rest[n] == ',');
    if (box_dial(b, &d, on_port, x, &e) < 0)
        not_yet(x, e.msg);
}

static void on_box(void *arg, struct box *b, const struct err *e)
{
    struct wait *x = arg;

    if (e) {
        not_yet(x, e->msg);
        return;
    }
    memcpy(x->box, b->id, sizeof x->box);
    next_port(x);
}

void ready_ports(struct web *w, void (*cb)(struct web *w))
{
    const char *list = w->node->opts.ready_ports;

    if (!list || !*list) {
        cb(w);
        return;
    }
    struct wait *x = arena_alloc(w->http->arena, sizeof *x);
    *x = (struct wait){ .web = w, .cb = cb, .rest = list };
    web_server_box(w, on_box, x);
}

/* Connections into a box. Init makes them; here is who waits for which, and how many a box may have. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/limits.h"
#include "session/link.h"
#include "session/node.h"

struct dial {
    struct dial *next;
    uint64_t id;
    on_dialed *cb; /* NULL: nobody waits any more */
    void *arg;
};

int box_reachable(const struct box *b, struct err *e)
{
    if (b->state == BOX_RUNNING && b->up && link_is_open(b->link))
        return 0;
    return err_set(e, ERR_BUSY, "box %s is %s", b->id,
                   b->state == BOX_RUNNING ? "not connected yet" : box_state_name(b));
}

int box_dial(struct box *b, const struct wire_dial *d, on_dialed *cb, void *arg, struct err *e)
{
    int r = box_reachable(b, e);

    if (r < 0)
        return r;
    if (b->dialed >= LIMIT_DIALS_PER_BOX)
        return err_set(e, ERR_BUSY, "box %s has LIMIT_DIALS_PER_BOX (%d) connections", b->id, LIMIT_DIALS_PER_BOX);
    struct dial *x = calloc(1, sizeof *x);
    if (!x)
        abort();
    *x = (struct dial){ .next = b->dials, .id = node_call_id(b->node), .arg = arg };
    uint64_t id = x->id;
    b->dials = x;
    b->dialed++;
    link_dial(b->link, id, d);
    if (b->dials != x || x->id != id) /* the link broke under it, and took all dials along */
        return err_set(e, ERR_BUSY, "box %s does not answer", b->id);
    x->cb = cb;
    return 0;
}

void box_undial(struct box *b, void *arg)
{
    for (struct dial *x = b->dials; x; x = x->next)
        if (x->arg == arg)
            x->cb = NULL;
}

void box_hang_up(struct node *n, const char *box_id, int take_fd)
{
    struct box *b = box_find(n, str_of(box_id));

    if (take_fd < 0)
        return;
    close(take_fd);
    if (b && b->dialed)
        b->dialed--;
}

void box_dialed(struct box *b, uint64_t id, const struct wire_dialed *d, int take_fd)
{
    struct dial **at = &b->dials;
    struct err e;

    while (*at && (*at)->id != id)
        at = &(*at)->next;
    struct dial *x = *at;
    if (x)
        *at = x->next;
    if (!x || !x->cb || take_fd < 0) {
        if (x)
            b->dialed--;
        if (take_fd >= 0)
            close(take_fd);
        if (x && x->cb) {
            err_set(&e, d->error > ERR_NONE && d->error <= ERR_SYSTEM ? (enum err_code)d->error : ERR_SYSTEM, "%.*s",
                    (int)(d->message.n < 200 ? d->message.n : 200), d->message.p ? d->message.p : "");
            x->cb(x->arg, -1, &e);
        }
    } else {
        x->cb(x->arg, take_fd, NULL);
    }
    free(x);
}

static void fail_one(struct box *b, const char *why)
{
    struct dial *x = b->dials;
    struct err e;

    b->dials = x->next;
    b->dialed--;
    err_set(&e, ERR_BUSY, "%s", why);
    if (x->cb)
        x->cb(x->arg, -1, &e);
    free(x);
}

void box_dials_fail(struct box *b, const char *why)
{
    while (b->dials)
        fail_one(b, why);
}

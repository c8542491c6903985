/* What comes from a box is hostile: a view that is sent nonsense ends, a stream whose messages cannot be told apart ends
 * with all its views, and a box that does not read keeps only those waiting who type into it. */
#include "surface/view.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/auto.h"
#include "base/limits.h"
#include "session/node.h"
#include "surface/plug.h"
#include "wire/frame.h"

enum {
    WAITING_MAX = 256 * KiB, /* more is not taken from clients until the box has read */
    OUT_MAX = 4 * MiB,
    SLOT_MASK = (1 << VIEW_SLOT_BITS) - 1,
};
_Static_assert(LIMIT_DIALS_PER_BOX <= SLOT_MASK, "each view has a place");

struct view {
    struct views *stream;
    uint64_t id;
    const struct view_handler *handler;
    void *arg;
    size_t untaken; /* bytes of messages */
};

struct views {
    struct views *next, **all;
    struct node *node;
    char box[BOX_ID_MAX], seat[BOX_ID_MAX];
    int fd;
    struct plug *plug; /* NULL: init is being asked for the stream */
    uint64_t opened;   /* views so far */
    size_t count;      /* that are open */
    struct view *slots[LIMIT_DIALS_PER_BOX];
    struct buf in, out;
    bool due;  /* says what is in out at the end of the turn */
    bool full; /* views are held */
    bool lost; /* something did not fit into out */
    bool gone; /* freed at the end of the turn */
};

/* --- the end --- */

static void free_later(void *arg)
{
    struct views *s = arg;

    buf_done(&s->in);
    buf_done(&s->out);
    free(s);
}

static void stream_close(struct views *s)
{
    struct box *b = s->plug ? NULL : box_find(s->node, str_of(s->box));

    if (s->gone)
        return;
    s->gone = true;
    for (struct views **at = s->all; *at; at = &(*at)->next)
        if (*at == s) {
            *at = s->next;
            break;
        }
    if (b)
        box_undial(b, s);
    plug_free(TAKE_PTR(s->plug));
    box_hang_up(s->node, s->box, TAKE_FD(s->fd));
    loop_later(s->node->loop, free_later, s);
}

static void view_free(struct view *v)
{
    v->stream->slots[v->id & SLOT_MASK] = NULL;
    v->stream->count--;
    free(v);
}

static void view_end(struct view *v, const char *why)
{
    const struct view_handler *h = v->handler;
    void *arg = v->arg;

    view_free(v);
    h->ended(arg, why);
}

static void stream_fail(struct views *s, const char *why)
{
    stream_close(s);
    for (size_t i = 0; i < LIMIT_DIALS_PER_BOX; i++)
        if (s->slots[i])
            view_end(s->slots[i], why);
}

/* --- into the box --- */

static void hold_all(struct views *s, bool hold)
{
    s->full = hold;
    for (size_t i = 0; i < LIMIT_DIALS_PER_BOX; i++)
        if (s->slots[i])
            s->slots[i]->handler->hold(s->slots[i]->arg, hold);
}

static void flush(struct views *s)
{
    if (s->lost) {
        stream_fail(s, "the box does not read");
        return;
    }
    if (!s->plug || !s->out.n)
        return;
    buf_eat(&s->out, plug_write(s->plug, buf_view(&s->out)));
    if (s->full && !s->out.n) {
        buf_done(&s->out);
        buf_init(&s->out, OUT_MAX);
        hold_all(s, false);
    }
}

static void on_turn_end(void *arg)
{
    struct views *s = arg;

    s->due = false;
    if (!s->gone)
        flush(s);
}

static void say(struct views *s, const struct view_head *head, const char *p)
{
    if (!s->due)
        loop_later(s->node->loop, on_turn_end, s);
    s->due = true;
    if (!buf_add(&s->out, head, sizeof *head) || !buf_add(&s->out, p, head->size))
        s->lost = true;
    if (!s->full && s->out.n > WAITING_MAX)
        hold_all(s, true);
}

void view_send(struct view *v, enum view_type type, struct str data)
{
    do {
        size_t n = data.n < VIEW_MAX ? data.n : VIEW_MAX;
        say(v->stream, &(struct view_head){ .size = (uint32_t)n, .type = type, .view = v->id }, data.p);
        data = (struct str){ data.p + n, data.n - n };
    } while (data.n);
}

void view_took(struct view *v)
{
    if (v->untaken < VIEW_WINDOW / 2) /* init may say as much again */
        return;
    say(v->stream, &(struct view_head){ .type = VIEW_TAKEN, .view = v->id, .at = (int64_t)v->untaken }, "");
    v->untaken = 0;
}

void view_close(struct view *v)
{
    if (!v)
        return;
    struct views *s = v->stream;
    struct view_head head = { .type = VIEW_CLOSE, .view = v->id };
    view_free(v);
    if (s->count)
        say(s, &head, "");
    else
        stream_close(s);
}

/* --- out of it --- */

static struct view *find_view(const struct views *s, uint64_t id)
{
    struct view *v = (id & SLOT_MASK) < LIMIT_DIALS_PER_BOX ? s->slots[id & SLOT_MASK] : NULL;

    return v && v->id == id ? v : NULL;
}

static void one_message(struct views *s, const struct view_head *head, const char *p)
{
    struct view *v = find_view(s, head->view);
    char why[200];

    if (!v) /* closed since this was said */
        return;
    if (head->type == VIEW_REFUSED) {
        snprintf(why, sizeof why, "%.*s", (int)head->size, p);
        view_end(v, why);
        return;
    }
    if (head->type != VIEW_EXIT)
        v->untaken += sizeof *head + head->size;
    if (v->untaken <= VIEW_WINDOW && v->handler->message(v->arg, head, p))
        return;
    v = find_view(s, head->view); /* it may have been closed */
    if (!v)
        return;
    say(s, &(struct view_head){ .type = VIEW_CLOSE, .view = v->id }, ""); /* before its place is given to another */
    view_end(v, "the box sent nonsense");
}

static void on_data(void *arg, struct str data)
{
    struct views *s = arg;
    struct view_head head;
    size_t at = 0;

    buf_str(&s->in, data);
    while (!s->gone && s->in.n - at >= sizeof head) {
        memcpy(&head, s->in.p + at, sizeof head);
        if (head.size > VIEW_MAX) {
            stream_fail(s, "the box sent nonsense");
            return;
        }
        if (s->in.n - at - sizeof head < head.size)
            break;
        one_message(s, &head, s->in.p + at + sizeof head);
        at += sizeof head + head.size;
    }
    buf_eat(&s->in, at);
    if (!s->count)
        stream_close(s);
}

static void on_end(void *arg)
{
    stream_fail(arg, "the box or the session ended");
}

static void on_room(void *arg)
{
    flush(arg);
}
static const struct plug_handler plug_handler = { .data = on_data, .eof = on_end, .room = on_room, .broken = on_end };

/* --- the beginning --- */

static void on_dialed_views(void *arg, int take_fd, const struct err *e)
{
    struct views *s = arg;

    if (take_fd < 0) {
        stream_fail(s, e->msg);
        return;
    }
    s->fd = take_fd;
    s->plug = plug_new(s->node->loop, take_fd, &plug_handler, s);
    plug_hold(s->plug, false);
    flush(s);
}

/* A box that goes on in another seat has another init. */
static struct views *stream_find(struct views *all, const struct box *b)
{
    while (all && strcmp(all->seat, b->seat) != 0)
        all = all->next;
    return all;
}

static struct views *stream_open(struct views **all, struct box *b, struct err *e)
{
    struct views *s = calloc(1, sizeof *s);

    if (!s)
        abort();
    *s = (struct views){ .all = all, .node = b->node, .fd = -1 };
    memcpy(s->box, b->id, sizeof s->box);
    memcpy(s->seat, b->seat, sizeof s->seat);
    if (box_dial(b, &(struct wire_dial){ .target = STR("views") }, on_dialed_views, s, e) < 0) {
        free(s);
        return NULL;
    }
    buf_init(&s->in, 4 * VIEW_MAX + 128 * KiB);
    buf_init(&s->out, OUT_MAX);
    s->next = *all;
    *all = s;
    return s;
}

struct view *view_open(struct box *b, const struct view_opts *o, struct err *e)
{
    struct views *s = stream_find(*o->all, b);
    AUTO(buf_done) struct buf ask = { .cap = VIEW_MAX };
    size_t slot = 0;

    if (box_reachable(b, e) < 0)
        return NULL;
    while (s && slot < LIMIT_DIALS_PER_BOX && s->slots[slot])
        slot++;
    if (slot == LIMIT_DIALS_PER_BOX) {
        err_set(e, ERR_BUSY, "LIMIT_DIALS_PER_BOX (%d) clients look at terminals of box %s", LIMIT_DIALS_PER_BOX,
                b->id);
        return NULL;
    }
    if (!s)
        s = stream_open(o->all, b, e);
    if (!s)
        return NULL;
    struct view *v = calloc(1, sizeof *v);
    if (!v)
        abort();
    *v = (struct view){ .stream = s, .id = s->opened++ << VIEW_SLOT_BITS | slot, .handler = o->handler, .arg = o->arg };
    s->slots[slot] = v;
    s->count++;
    buf_add(&ask, &o->size, sizeof o->size);
    buf_str(&ask, o->terminal);
    if (s->full)
        v->handler->hold(v->arg, true);
    say(s, &(struct view_head){ .size = (uint32_t)ask.n, .type = VIEW_OPEN, .view = v->id, .at = o->after }, ask.p);
    return v;
}

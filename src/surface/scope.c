/* What exists for who sent a request. Surfaces look up boxes, workers and records only through here: what belongs to
 * another tenant is not there, and for an agent nothing is there but its own box. */
#include "base/limits.h"
#include "store/recorder_client.h"
#include "surface/surface.h"

bool web_sees_box(const struct web *w, const struct box *b)
{
    return b->tenant == w->tenant && !b->helper && (!w->who.box[0] || strcmp(w->who.box, b->id) == 0);
}

struct box *web_find_box(const struct web *w, struct str id)
{
    struct box *b = box_find(w->node, id);
    return b && web_sees_box(w, b) ? b : NULL;
}

int web_may_make_boxes(const struct web *w, struct err *e)
{
    if (w->who.box[0])
        return err_set(e, ERR_DENIED, "this token is for box %s only: it makes no others", w->who.box);
    if (!(w->who.may & MAY_MANAGE))
        return err_set(e, ERR_DENIED, "the role '%s' may not do this: making a box asks for the scope 'manage'",
                       role_name(w->who.role));
    return 0;
}

bool web_sees_worker(const struct web *w, const struct worker *k)
{
    return k->tenant == w->tenant && (!w->who.box[0] || strcmp(w->who.box, k->id) == 0);
}

struct worker *web_find_worker(const struct web *w, struct str id)
{
    struct worker *k = worker_find(w->node, w->tenant, id);
    return k && web_sees_worker(w, k) ? k : NULL;
}

struct worker *web_get_worker(const struct web *w, struct str id, struct err *e)
{
    if (w->who.box[0] && !str_is(id, w->who.box)) {
        err_set(e, ERR_DENIED, "worker_id: this token is for box %s only", w->who.box);
        return NULL;
    }
    return worker_get(w->node, w->tenant, id, e);
}

/* An agent's call runs in its box, whatever it says. */
uint64_t web_call(struct web *w, struct call_request *r, on_call_done *cb, void *arg)
{
    r->tenant = w->tenant;
    r->request_id = str_of(w->request_id);
    r->parent = w->parent;
    r->makes_no_box = !(w->who.may & MAY_MANAGE);
    if (w->who.box[0]) {
        r->box = web_find_box(w, str_of(w->who.box));
        r->worker = str_of(w->who.box);
        r->box_gone = !r->box;
        r->only_box = true;
    }
    return call_start(w->node, r, cb, arg);
}

void web_query(struct web *w, struct query *q, void (*cb)(void *arg, const struct answer *a), void *arg)
{
    q->tenant = str_of(w->tenant->name);
    if (w->who.box[0]) { /* the trajectories of its own box, and the states */
        q->worker = str_of(w->who.box);
        if (!str_is(q->op, "trajectories")) /* there it narrows further */
            q->box = q->worker;
    }
    q->upto = (int64_t)journal_end(w->node->journal);
    recorder_ask(w->node->recorder, q, -1, cb, arg);
}

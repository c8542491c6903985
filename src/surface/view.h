/* Somebody looks at a terminal of a box, and types: a view. One stream carries all views of a box (wire/view.h); what
 * they say in one turn of the loop goes into the box at its end, together. */
#pragma once

#include "base/err.h"
#include "base/str.h"
#include "wire/view.h"

struct box;
struct view;
struct views; /* a stream; they are in a list */

struct view_handler {
    bool (*message)(void *arg, const struct view_head *head, const char *p); /* false: nonsense. May close the view */
    void (*hold)(void *arg, bool hold);                                      /* the box takes no more for now */
    void (*ended)(void *arg, const char *why); /* once, and the view is gone; not after view_close */
};

struct view_opts {
    struct views **all; /* every stream of this server; at first NULL */
    struct str terminal;
    int64_t after;         /* the first byte that is wanted; < 0: so many from the end */
    struct view_size size; /* zeros: as it is */
    const struct view_handler *handler;
    void *arg;
};
/* NULL: e. Calls nothing but hold before it returns. */
struct view *view_open(struct box *b, const struct view_opts *o, struct err *e);
void view_close(struct view *v); /* accepts NULL; safe in its own callbacks */
void view_send(struct view *v, enum view_type type, struct str data);
void view_took(struct view *v); /* all that came has been passed on: more may come */

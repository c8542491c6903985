/* One end of a byte stream into a box: a socket that came from init, so that whatever it does must neither block nor
 * surprise. Reading can be held, writing says how much it took. */
#pragma once

#include "base/loop.h"
#include "base/str.h"

struct plug;
struct plug_handler {
    void (*data)(void *arg, struct str data); /* may hold or free the plug */
    void (*eof)(void *arg);                   /* once; writing may go on */
    void (*room)(void *arg);                  /* nullable: after plug_write took less than all */
    void (*broken)(void *arg);                /* once: an error, instead of eof */
};

struct plug *plug_new(struct loop *l, int fd, const struct plug_handler *h, void *arg); /* borrows fd; begins held */
void plug_free(struct plug *p);                  /* accepts NULL; safe in its own callbacks */
void plug_hold(struct plug *p, bool hold);       /* no data until it is let go */
size_t plug_write(struct plug *p, struct str s); /* how many bytes it took; all, if nobody reads any more */
void plug_end(struct plug *p);                   /* nothing more will be written */

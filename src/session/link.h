/* serve's end of the conversation with one init. Everything that arrives is hostile: sizes are capped, ids are
 * looked up, descriptors are counted; the worst a box can do is lose its own link. */
#pragma once

#include "base/loop.h"
#include "wire/frame.h"

struct link;

struct link_handler {
    void (*known)(void *arg, uint64_t call, bool finished); /* only while the link comes up */
    void (*ready)(void *arg);                               /* every call that init holds was named */
    /* Strings live until return; take_fds[2] (-1: none) belong to the callee. */
    void (*result)(void *arg, uint64_t call, const struct wire_result *r, struct arena *a, const int *take_fds);
    void (*stream)(void *arg, uint64_t call, int take_fd); /* a connected stream socket, whoever is behind it */
    void (*dialed)(void *arg, uint64_t id, const struct wire_dialed *d, int take_fd); /* fd < 0: d says why */
    void (*about)(void *arg, const struct wire_about *a);                             /* strings live until return */
    void (*down)(void *arg, const char *why); /* broken; link_open again if the box lives */
};

struct link *link_new(struct loop *l, const struct link_handler *h, void *arg);
int link_open(struct link *k, const char *home, const char *box_id, struct err *e);
void link_free(struct link *k);
bool link_is_open(const struct link *k);

void link_call(struct link *k, uint64_t call, const struct wire_call *c);
void link_held(struct link *k, uint64_t call, const struct wire_held *h);
void link_ack(struct link *k, uint64_t call); /* leaves with the next call, or by link_flush */
void link_flush(struct link *k);
void link_cancel(struct link *k, uint64_t call);
void link_dial(struct link *k, uint64_t id, const struct wire_dial *d);
void link_env(struct link *k, const struct wire_env *w); /* variables of all programs to come */
void link_end_shell(struct link *k, struct str session);

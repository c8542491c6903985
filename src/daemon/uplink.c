/* The host's side of box networks: addresses in turn, the DNS relay kept alive. */
#include <errno.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/auto.h"
#include "base/log.h"
#include "base/loop.h"
#include "daemon/seats.h"
#include "isolate/dns.h"

static void watch_relay(struct seats *s);

static void on_relay_end(void *arg, uint32_t events)
{
    struct seats *s = arg;
    struct err e = { 0 };

    (void)events;
    loop_unwatch(s->on_relay);
    s->on_relay = NULL;
    close(TAKE_FD(s->relay));
    (void)waitpid(s->network.relay, NULL, 0);
    s->network.relay = 0;
    s->network.ready = false;
    log_warn("dns relay ended", "starting another");
    if (network_prepare(&s->network, &e) < 0)
        log_error("no dns relay", "error=\"%s\", trying again with the next box", e.msg);
    else
        watch_relay(s);
}

static void watch_relay(struct seats *s)
{
    if (s->on_relay || s->network.relay <= 0)
        return;
    s->relay = (int)syscall(SYS_pidfd_open, s->network.relay, 0);
    if (s->relay >= 0)
        s->on_relay = loop_watch(s->loop, s->relay, EPOLLIN, on_relay_end, s);
}

int uplink_open(struct seats *s, struct err *e)
{
    s->relay = -1;
    return network_init(&s->network, s->opts->cgroup_root ? s->opts->cgroup_root : "sandglass", s->opts->subnet, e);
}

static bool in_use(const struct seats *s, uint32_t address)
{
    for (int b = 0; b < SEAT_BUCKETS; b++)
        for (const struct seat *x = s->buckets[b]; x; x = x->next)
            if (x->address == address)
                return true;
    return false;
}

int uplink_take(struct seats *s, uint32_t *ret_address, struct err *e)
{
    struct network *n = &s->network;
    uint32_t last = network_size(n) - 3; /* without the subnet's own, the gateway's and the last */

    int r = network_prepare(n, e);
    if (r < 0)
        return r;
    watch_relay(s);
    for (uint32_t i = 0; i < last; i++) {
        uint32_t address = n->next;
        n->next = n->next >= last ? 1 : n->next + 1;
        if (!in_use(s, address)) {
            *ret_address = address;
            return 0;
        }
    }
    return err_set(e, ERR_LIMIT, "all %u addresses of the boxes' subnet are in use", last);
}

static bool any_networked(const struct seats *s)
{
    for (int b = 0; b < SEAT_BUCKETS; b++)
        for (const struct seat *x = s->buckets[b]; x; x = x->next)
            if (x->address && x->state != SEAT_ENDING)
                return true;
    return false;
}

void uplink_resume(struct seats *s)
{
    struct err e = { 0 };

    for (int b = 0; b < SEAT_BUCKETS; b++)
        for (const struct seat *x = s->buckets[b]; x; x = x->next)
            if (x->address >= s->network.next)
                s->network.next = x->address + 1;
    if (!any_networked(s)) {
        network_remove(&s->network);
        return;
    }
    if (network_prepare(&s->network, &e) < 0)
        log_error("boxes have no network", "error=\"%s\", trying again with the next box", e.msg);
    watch_relay(s);
}

void uplink_close(struct seats *s)
{
    loop_unwatch(s->on_relay);
    s->on_relay = NULL;
    if (s->relay >= 0)
        close(TAKE_FD(s->relay));
    if (!any_networked(s))
        network_remove(&s->network);
    network_done(&s->network);
}

/* The network of a box: always a namespace of its own with loopback; with BOX_NETWORK_FULL one veth towards the host.
 *
 *   box: eth0 10.x/32  --veth--  host: sg<tag>-<index>, a route to that one address
 *                                host: sg<tag>, holds the gateway's address, on which only the DNS relay listens
 *
 * Routed, not bridged: boxes share no segment, so there is nothing to spoof or to sniff. What may pass stands in nft.c.
 * Addresses and names are by index, which supervise hands out in turn: a dead box's veth goes with its namespace, some
 * milliseconds late. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct err;

enum { NETWORK_NAME = 16 };

struct network {
    uint32_t subnet; /* host byte order */
    int bits;
    char tag[8]; /* of this server: several may run on one machine */
    char table[64];
    int host_ns;
    bool ready;    /* the host's side is set up */
    uint32_t next; /* index to try first */
    pid_t relay;   /* DNS; 0: none */
};

/* Parses and remembers; touches nothing. name is the server's own (its cgroup's). Without a subnet, one of the 64 in
 * 100.64.0.0/10 is taken by that name, so that servers beside each other seldom meet. */
int network_init(struct network *n, const char *name, const char *subnet, struct err *e);
void network_done(struct network *n); /* ends the relay; rules stay for boxes that live on */
/* First use: forwarding, the gateway's address, rules, the DNS relay. Takes some 50 ms. */
int network_prepare(struct network *n, struct err *e);
void network_remove(struct network *n); /* what network_prepare made, maybe in a former life; when no box needs it */

uint32_t network_gateway(const struct network *n);
uint32_t network_size(const struct network *n);
uint32_t network_address(const struct network *n, uint32_t index); /* 1.. */
void network_text(uint32_t address, char out[NETWORK_NAME]);

/* Called by the box's first process in its new network namespace. */
int network_loopback(struct err *e);
void network_open_up(int proc); /* low ports and ping for everybody; proc: a /proc, or -1 for the usual one */
int network_link(const struct network *n, uint32_t index, struct err *e);

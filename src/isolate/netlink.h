/* Just enough rtnetlink to make a link, give it an address and a route. One request, one acknowledgement. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct err;

struct netlink {
    int fd;
    uint32_t seq;
    size_t n;
    _Alignas(8) char buf[1024];
};

int netlink_open(struct netlink *n, struct err *e); /* of the caller's current network namespace */
void netlink_close(struct netlink *n);

void netlink_begin(struct netlink *n, uint16_t type, uint16_t flags, const void *head, size_t size);
void netlink_attr(struct netlink *n, uint16_t type, const void *data, size_t size);
size_t netlink_nest(struct netlink *n, uint16_t type, const void *head, size_t size); /* give the result to: */
void netlink_end(struct netlink *n, size_t nest);
int netlink_send(struct netlink *n, struct err *e); /* waits for the kernel's answer, which is immediate */

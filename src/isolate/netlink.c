#include "isolate/netlink.h"

#include <errno.h>
#include <linux/netlink.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"

int netlink_open(struct netlink *n, struct err *e)
{
    n->fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    n->seq = 0;
    return n->fd < 0 ? err_sys(e, "netlink socket") : 0;
}

void netlink_close(struct netlink *n)
{
    if (n->fd >= 0)
        close(n->fd);
    n->fd = -1;
}

static void put(struct netlink *n, const void *p, size_t size)
{
    size_t padded = NLMSG_ALIGN(size);
    if (n->n + padded > sizeof n->buf)
        abort();
    memset(n->buf + n->n, 0, padded);
    if (size)
        memcpy(n->buf + n->n, p, size);
    n->n += padded;
}

void netlink_begin(struct netlink *n, uint16_t type, uint16_t flags, const void *head, size_t size)
{
    struct nlmsghdr h = { .nlmsg_type = type, .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | flags, .nlmsg_seq = ++n->seq };

    n->n = 0;
    put(n, &h, sizeof h);
    put(n, head, size);
}

void netlink_attr(struct netlink *n, uint16_t type, const void *data, size_t size)
{
    struct nlattr a = { .nla_len = (uint16_t)(sizeof a + size), .nla_type = type };

    put(n, &a, sizeof a);
    put(n, data, size);
}

size_t netlink_nest(struct netlink *n, uint16_t type, const void *head, size_t size)
{
    size_t at = n->n;

    netlink_attr(n, type, NULL, 0);
    put(n, head, size);
    return at;
}

void netlink_end(struct netlink *n, size_t nest)
{
    ((struct nlattr *)(void *)(n->buf + nest))->nla_len = (uint16_t)(n->n - nest);
}

int netlink_send(struct netlink *n, struct err *e)
{
    union {
        struct nlmsghdr h;
        char space[4096];
    } reply;

    ((struct nlmsghdr *)(void *)n->buf)->nlmsg_len = (uint32_t)n->n;
    if (send(n->fd, n->buf, n->n, 0) < 0)
        return err_sys(e, "netlink");
    for (;;) {
        ssize_t got = recv(n->fd, &reply, sizeof reply, 0);
        if (got < (ssize_t)NLMSG_LENGTH(sizeof(struct nlmsgerr)))
            return err_sys(e, "netlink");
        if (reply.h.nlmsg_seq != n->seq || reply.h.nlmsg_type != NLMSG_ERROR)
            continue;
        const struct nlmsgerr *error = NLMSG_DATA(&reply.h);
        errno = -error->error;
        return error->error ? err_sys(e, "netlink") : 0;
    }
}

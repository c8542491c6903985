#include "init/socket.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <string.h>
#include <sys/socket.h>

#include "base/auto.h"

/* The kernel answers while it is asked: what cannot be read at once will not come. */
static ssize_t ask(unsigned ino, char *to, size_t size)
{
    struct {
        struct nlmsghdr head;
        struct unix_diag_req req;
    } q = { .head = { .nlmsg_len = sizeof q, .nlmsg_type = SOCK_DIAG_BY_FAMILY, .nlmsg_flags = NLM_F_REQUEST },
            .req = { .sdiag_family = AF_UNIX,
                     .udiag_states = ~0u,
                     .udiag_ino = ino,
                     .udiag_show = UDIAG_SHOW_PEER,
                     .udiag_cookie = { ~0u, ~0u } } };
    auto_close int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);

    if (fd < 0 || send(fd, &q, sizeof q, 0) != sizeof q)
        return -1;
    return recv(fd, to, size, MSG_DONTWAIT);
}

unsigned socket_other_end(unsigned ino)
{
    _Alignas(struct nlmsghdr) char text[1024];
    ssize_t n = ask(ino, text, sizeof text);
    const struct nlmsghdr *head = (const void *)text;
    unsigned other = 0;

    if (n < (ssize_t)sizeof *head || !NLMSG_OK(head, (size_t)n) || head->nlmsg_type != SOCK_DIAG_BY_FAMILY ||
        head->nlmsg_len < NLMSG_LENGTH(sizeof(struct unix_diag_msg)))
        return 0;
    const struct unix_diag_msg *m = NLMSG_DATA(head);
    int left = (int)(head->nlmsg_len - NLMSG_LENGTH(sizeof *m));
    for (const struct rtattr *a = (const void *)(m + 1); RTA_OK(a, left); a = RTA_NEXT(a, left))
        if (a->rta_type == UNIX_DIAG_PEER && RTA_PAYLOAD(a) == sizeof other)
            memcpy(&other, RTA_DATA(a), sizeof other);
    return other;
}

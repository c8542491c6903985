#include "base/fdpass.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

union control {
    struct cmsghdr head;
    char room[CMSG_SPACE(sizeof(int) * FDPASS_MAX)];
};

int fdpass_send(int sock, const void *data, size_t n, const int *fds, int count, int flags)
{
    size_t bytes = sizeof(int) * (size_t)count;
    union control control = { 0 };
    struct iovec iov = { (void *)data, n };
    struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };

    assert(count <= FDPASS_MAX);
    if (count > 0) {
        m.msg_control = &control;
        m.msg_controllen = CMSG_SPACE(bytes);
        control.head =
            (struct cmsghdr){ .cmsg_len = CMSG_LEN(bytes), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS };
        memcpy(CMSG_DATA(&control.head), fds, bytes);
    }
    ssize_t sent;
    do
        sent = sendmsg(sock, &m, MSG_NOSIGNAL | flags);
    while (sent < 0 && errno == EINTR);
    return sent < 0 ? -errno : 0;
}

ssize_t fdpass_recv(int sock, void *data, size_t n, int *ret_fds, int *count, int flags)
{
    union control control;
    struct iovec iov = { data, n };
    struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control };
    int room = *count;

    assert(room <= FDPASS_MAX);
    m.msg_controllen = CMSG_LEN(sizeof(int) * (size_t)room); /* no padding, into which one more would fit */
    *count = 0;
    ssize_t got;
    do
        got = recvmsg(sock, &m, MSG_CMSG_CLOEXEC | flags);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return -errno;
    for (struct cmsghdr *h = CMSG_FIRSTHDR(&m); h; h = CMSG_NXTHDR(&m, h))
        if (h->cmsg_level == SOL_SOCKET && h->cmsg_type == SCM_RIGHTS) {
            *count = (int)((h->cmsg_len - CMSG_LEN(0)) / sizeof(int));
            memcpy(ret_fds, CMSG_DATA(h), sizeof(int) * (size_t)*count);
        }
    return got;
}

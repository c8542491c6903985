#include "daemon/fdstore.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/log.h"

/* The room is for a burst of as many packets as may be kept, while guard does not run. */
enum { GIVE_WAIT_S = 5, SOCKET_ROOM = 1024 * LIMIT_KEPT_FDS };

enum verb { STORE_KEEP = 1, STORE_DROP, STORE_GIVE };

struct packet {
    uint32_t verb;
    char id[BOX_ID_MAX];
};

static int send_packet(int socket, enum verb verb, const char *id, int fd)
{
    struct packet p = { .verb = verb };
    struct iovec iov = { &p, sizeof p };
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof fd)];
    } control = { 0 };
    struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };

    snprintf(p.id, sizeof p.id, "%s", id);
    if (fd >= 0) {
        control.head =
            (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof fd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS };
        memcpy(CMSG_DATA(&control.head), &fd, sizeof fd);
        m.msg_control = &control;
        m.msg_controllen = sizeof control;
    }
    return sendmsg(socket, &m, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/* 1: a packet, 0: the other end is gone, < 0: none now, or it made no sense. *ret_fd is -1 if none came with it. */
static int hear_packet(int socket, int flags, struct packet *ret, int *ret_fd)
{
    struct iovec iov = { ret, sizeof *ret };
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control };

    *ret_fd = -1;
    ssize_t n = recvmsg(socket, &m, flags | MSG_CMSG_CLOEXEC);
    if (n < 0)
        return -errno;
    if (n == 0)
        return 0;
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    if (c && c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(sizeof(int)))
        memcpy(ret_fd, CMSG_DATA(c), sizeof(int));
    if (n != (ssize_t)sizeof *ret)
        ret->verb = 0;
    ret->id[sizeof ret->id - 1] = 0;
    return 1;
}

/* --- guard --- */

void fdstore_init(struct fdstore *s)
{
    *s = (struct fdstore){ .socket = -1, .kept = calloc(LIMIT_KEPT_FDS, sizeof *s->kept) };
    if (!s->kept)
        abort();
}

static struct kept_fd *find(struct fdstore *s, const char *id)
{
    for (size_t i = 0; i < s->count; i++)
        if (strcmp(s->kept[i].id, id) == 0)
            return &s->kept[i];
    return NULL;
}

static void forget(struct fdstore *s, const char *id)
{
    struct kept_fd *k = find(s, id);

    if (!k)
        return;
    close(k->fd);
    *k = s->kept[--s->count];
}

static void keep(struct fdstore *s, const char *id, int take_fd)
{
    auto_close int fd = take_fd;

    forget(s, id);
    if (fd < 0 || s->count == LIMIT_KEPT_FDS) { /* no descriptor: guard itself has too many open */
        log_warn("descriptor not kept", "box=%s kept=%zu max=%d, it ends with supervise", id, s->count,
                 (int)LIMIT_KEPT_FDS);
        return;
    }
    struct kept_fd *k = &s->kept[s->count++];
    snprintf(k->id, sizeof k->id, "%s", id);
    k->fd = TAKE_FD(fd);
}

static void hang_up(struct fdstore *s)
{
    if (s->socket >= 0)
        close(TAKE_FD(s->socket));
    s->giving = false;
}

static void take_packet(struct fdstore *s, const struct packet *p, int take_fd)
{
    auto_close int fd = take_fd;

    switch (p->verb) {
    case STORE_KEEP: keep(s, p->id, TAKE_FD(fd)); break;
    case STORE_DROP: forget(s, p->id); break;
    case STORE_GIVE:
        s->giving = true;
        s->given = 0;
        break;
    default: log_warn("garbled packet of supervise", "verb=%u, ignored", p->verb);
    }
}

static void give(struct fdstore *s)
{
    int r = 0;

    for (; r >= 0 && s->given < s->count; s->given += r >= 0)
        r = send_packet(s->socket, STORE_KEEP, s->kept[s->given].id, s->kept[s->given].fd);
    if (r >= 0)
        r = send_packet(s->socket, STORE_GIVE, "", -1);
    if (r != -EAGAIN)
        s->giving = false; /* other errors: it is dead, and its end comes next */
}

void fdstore_turn(struct fdstore *s)
{
    struct packet p;
    int fd;

    while (s->socket >= 0) {
        if (s->giving)
            give(s);
        if (s->giving)
            return;
        int r = hear_packet(s->socket, MSG_DONTWAIT, &p, &fd);
        if (r == 0 || (r < 0 && r != -EAGAIN && r != -EINTR))
            hang_up(s);
        if (r <= 0)
            return;
        take_packet(s, &p, fd);
    }
}

short fdstore_events(const struct fdstore *s)
{
    return s->giving ? POLLOUT : POLLIN;
}

int fdstore_renew(struct fdstore *s, struct err *e)
{
    int pair[2], room = SOCKET_ROOM;

    fdstore_turn(s); /* what supervise said before it died is still in the socket */
    hang_up(s);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return err_sys(e, "socketpair");
    for (int i = 0; i < 2; i++)
        (void)setsockopt(pair[i], SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof room);
    s->socket = pair[0];
    return pair[1];
}

/* --- supervise --- */

int fdstore_inherited(int fd)
{
    int type, domain;
    socklen_t size = sizeof type;

    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) < 0 || type != SOCK_SEQPACKET)
        return -1;
    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) < 0 || domain != AF_UNIX)
        return -1;
    return fcntl(fd, F_SETFD, FD_CLOEXEC) < 0 ? -1 : fd;
}

int fdstore_keep(int store, const char *id, int fd, struct err *e)
{
    int r = store < 0 || fd < 0 ? 0 : send_packet(store, STORE_KEEP, id, fd);

    errno = -r;
    return r < 0 ? err_sys(e, "give a descriptor to guard") : 0;
}

void fdstore_drop(int store, const char *id)
{
    int r = store < 0 ? 0 : send_packet(store, STORE_DROP, id, -1);

    if (r < 0 && r != -EPIPE && r != -ECONNRESET) /* these two: guard is dead, and nothing stays with it */
        log_warn("descriptor stays with guard", "box=%s errno=%d, the next start drops it", id, -r);
}

int fdstore_give(int store, struct kept_fd **ret, size_t *ret_count, struct err *e)
{
    struct timeval wait = { .tv_sec = GIVE_WAIT_S };
    struct packet p = { 0 };
    size_t n = 0;
    int fd;

    *ret = NULL;
    *ret_count = 0;
    if (store < 0)
        return 0;
    (void)setsockopt(store, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
    int r = send_packet(store, STORE_GIVE, "", -1);
    struct kept_fd *all = calloc(LIMIT_KEPT_FDS, sizeof *all);
    if (!all)
        abort();
    while (r >= 0) {
        r = hear_packet(store, 0, &p, &fd);
        if (r == 0)
            r = -EPIPE;
        if (r < 0 || p.verb == STORE_GIVE)
            break;
        if (p.verb == STORE_KEEP && n < LIMIT_KEPT_FDS) {
            all[n].fd = fd; /* -1, if supervise has too many open */
            memcpy(all[n++].id, p.id, sizeof p.id);
        } else if (fd >= 0) {
            close(fd);
        }
    }
    *ret = all; /* also after a failure: what came is good */
    *ret_count = n;
    errno = -r;
    return r < 0 ? err_sys(e, "ask guard for descriptors") : 0;
}

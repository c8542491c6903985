#include "init/rtnetlink.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/loop.h"
#include "init/init.h"

enum { ROUTE = 0, ROOM = 512 /* the kernel's structs may be longer than those we know */ };

static struct boot_pass *pass; /* in a page that forks find empty: hands parse what hostile programs say */

/* The name of a process's network namespace. Root of the box has no right to look at the user's processes; the user has, unless
 * they are in a user namespace of their own: then nobody here has. */
static bool network_of(struct init *in, const char *who, char name[static 64])
{
    char path[48];
    ssize_t n = -1;

    snprintf(path, sizeof path, "/proc/%s/ns/net", who);
    for (int user = 0; user < 2 && n < 0; user++) {
        if (user)
            init_as_user(in);
        n = readlink(path, name, 63);
    }
    init_as_root(in);
    name[n < 0 ? 0 : n] = 0;
    return n > 0;
}

static bool in_the_boxes(struct init *in, uint32_t pid)
{
    char who[16], here[64], there[64];

    snprintf(who, sizeof who, "%u", pid);
    return network_of(in, "self", here) && network_of(in, who, there) && strcmp(here, there) == 0;
}

static uint64_t word(int i)
{
    return pass->words[2 * i] | (uint64_t)pass->words[2 * i + 1] << 32;
}

static int give(int fd, const struct seccomp_notif *asked)
{
    int type = (int)asked->data.args[1];
    auto_close int s =
        (int)syscall(SYS_socket, (long)AF_NETLINK, (long)(type | SOCK_CLOEXEC), (long)ROUTE, word(0), word(1), word(2));
    struct seccomp_notif_addfd a = { .id = asked->id,
                                     .flags = SECCOMP_ADDFD_FLAG_SEND,
                                     .srcfd = (uint32_t)s,
                                     .newfd_flags = type & SOCK_CLOEXEC ? O_CLOEXEC : 0 };

    return s < 0 || ioctl(fd, SECCOMP_IOCTL_NOTIF_ADDFD, &a) < 0 ? -errno : 0;
}

static void on_asked(void *arg, uint32_t events)
{
    struct init *in = arg;
    union {
        struct seccomp_notif n;
        char room[ROOM];
    } asked = { 0 };
    union {
        struct seccomp_notif_resp r;
        char room[ROOM];
    } answer = { 0 };

    (void)events;
    if (ioctl(BOOT_FD_ASKED, SECCOMP_IOCTL_NOTIF_RECV, &asked) < 0)
        return; /* it was killed meanwhile */
    answer.r.id = asked.n.id;
    answer.r.error = in_the_boxes(in, asked.n.pid) ? give(BOOT_FD_ASKED, &asked.n) : -EPROTONOSUPPORT;
    if (answer.r.error)
        (void)ioctl(BOOT_FD_ASKED, SECCOMP_IOCTL_NOTIF_SEND, &answer);
}

void rtnetlink_open(struct init *in)
{
    if (!in->boot.asked)
        return;
    void *page = mmap(NULL, sizeof *pass, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED || madvise(page, sizeof *pass, MADV_WIPEONFORK) < 0) {
        close(BOOT_FD_ASKED); /* whoever asks is told that there is no such call */
    } else {
        pass = page;
        *pass = in->boot.pass;
        (void)fcntl(BOOT_FD_ASKED, F_SETFD, FD_CLOEXEC);
        (void)loop_watch(in->loop, BOOT_FD_ASKED, EPOLLIN, on_asked, in);
    }
    explicit_bzero(&in->boot.pass, sizeof in->boot.pass);
}

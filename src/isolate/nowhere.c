#include "isolate/nowhere.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/fdpass.h"
#include "isolate/mountfd.h"

/* Private: what a box mounts on its copy would appear in all others. The kernel's own first file system stays below,
 * as it does below every root. */
static int empty(struct err *e)
{
    static const char *const opts[] = { "size=4k", "nr_inodes=1", "mode=0555", "source=none", NULL };

    if (unshare(CLONE_NEWNS) < 0)
        return err_sys(e, "unshare the mount namespace");
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return err_sys(e, "make mounts private");
    auto_close int root = mountfd_new("tmpfs", opts, MOUNT_RO | MOUNT_NOSUID | MOUNT_NODEV | MOUNT_NOEXEC, e);
    if (root < 0)
        return root;
    auto_close int ns = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
    if (ns < 0)
        return err_sys(e, "open the mount namespace");
    int r = mountfd_attach_at(root, AT_FDCWD, "/", e);
    if (r < 0)
        return r;
    if (fchdir(root) < 0 || syscall(SYS_pivot_root, ".", ".") < 0) /* the host's root comes to lie upon it */
        return err_sys(e, "pivot_root");
    if (umount2(".", MNT_DETACH) < 0)
        return err_sys(e, "detach the host's root");
    return TAKE_FD(ns);
}

/* By a process of its own: to come back from another mount namespace is to lose one's root directory. */
int nowhere_open(struct err *e)
{
    int pair[2], ns = -1, count = 1;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return err_sys(e, "socketpair");
    auto_close int mine = pair[0], theirs = pair[1];
    pid_t pid = fork();
    if (pid < 0)
        return err_sys(e, "fork");
    if (pid == 0) {
        struct err why = { 0 };
        ns = empty(&why);
        _exit(fdpass_send(theirs, &why, sizeof why, &ns, ns >= 0, 0) < 0);
    }
    close(TAKE_FD(theirs));
    struct err why = { 0 };
    ssize_t n = fdpass_recv(mine, &why, sizeof why, &ns, &count, 0);
    (void)waitpid(pid, NULL, 0);
    if (n == (ssize_t)sizeof why && count == 1)
        return ns;
    if (n != (ssize_t)sizeof why)
        return err_set(e, ERR_SYSTEM, "make an empty mount namespace: its maker ended");
    if (e)
        *e = why;
    return why.sys ? -why.sys : -EIO;
}

int nowhere_enter(int nowhere, struct err *e)
{
    if (setns(nowhere, CLONE_NEWNS) < 0)
        return err_sys(e, "enter the empty mount namespace");
    return unshare(CLONE_NEWNS) < 0 ? err_sys(e, "unshare the mount namespace") : 0;
}

#include "isolate/idmap.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <linux/securebits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/limits.h"

enum { WORDS = IDMAP_SLOTS / 64 };

void idmap_init(struct idmap *m, const char *name)
{
    unsigned hash = 2166136261u;

    for (const char *p = name; *p; p++)
        hash = (hash ^ (unsigned char)*p) * 16777619u;
    m->start = hash % WORDS;
}

int idmap_take(struct idmap *m, struct err *e)
{
    for (unsigned i = 0; i < WORDS; i++) {
        unsigned w = (m->start + i) % WORDS;
        if (~m->used[w]) {
            int slot = (int)w * 64 + __builtin_ctzll(~m->used[w]);
            (void)idmap_claim(m, slot);
            return slot;
        }
    }
    return err_set(e, ERR_LIMIT, "all %d uid ranges are in use", IDMAP_SLOTS);
}

bool idmap_claim(struct idmap *m, int slot)
{
    if (slot < 0 || slot >= IDMAP_SLOTS)
        return false;
    uint64_t bit = 1ULL << (slot % 64);
    if (m->used[slot / 64] & bit)
        return false;
    m->used[slot / 64] |= bit;
    return true;
}

void idmap_release(struct idmap *m, int slot)
{
    if (slot >= 0 && slot < IDMAP_SLOTS)
        m->used[slot / 64] &= ~(1ULL << (slot % 64));
}

static int write_proc(int proc, pid_t pid, const char *file, const char *text, struct err *e)
{
    char path[64];

    snprintf(path, sizeof path, "%d/%s", (int)pid, file);
    auto_close int fd = openat(proc, path, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, text, strlen(text)) < 0)
        return err_sys(e, "write %s", file);
    return 0;
}

struct maps {
    uid_t owner;
    bool nests;
    char uids[64], gids[64];
};

/* The namespace belongs to the first uid of its own range, not to the host's root: the kernel counts what a namespace uses
 * (inotify instances, pending signals, processes) for its owner, too, and one box could use up what all others, and root,
 * have together. The securebit keeps the right to make a namespace, which not every host gives to everybody. */
static int enter_new(uid_t owner)
{
    if (prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP, 0, 0, 0) < 0 || syscall(SYS_setresuid, -1, owner, -1) < 0 ||
        unshare(CLONE_NEWUSER) < 0)
        return errno;
    return 0;
}

/* These sysctls are looked up in the opener's own user namespace, so no path can be redirected and the parent's limits are
 * not touched. Network and pid namespaces cannot be made where no user namespace can. */
static int limit_nested(bool nests)
{
    static const char *const limits[] = { "/proc/sys/user/max_user_namespaces", "/proc/sys/user/max_pid_namespaces",
                                          "/proc/sys/user/max_net_namespaces" };
    char text[16];
    int n = snprintf(text, sizeof text, "%d", nests ? LIMIT_NESTED_NAMESPACES : 0);

    for (size_t i = 0; i < (nests ? ARRAY_LEN(limits) : 1); i++) {
        auto_close int fd = open(limits[i], O_WRONLY | O_CLOEXEC);
        if (fd < 0 || write(fd, text, (size_t)n) != n)
            return errno;
    }
    return 0;
}

/* The child only exists so that the namespace has somebody to belong to while the maps are written. It closes
 * the namespace to nested ones itself. */
static void holder(int sock, const struct maps *m)
{
    char go;

    int done = enter_new(m->owner);
    if (write(sock, &done, sizeof done) != sizeof done || done != 0 || read(sock, &go, 1) != 1)
        _exit(1);
    done = limit_nested(m->nests);
    (void)!write(sock, &done, sizeof done);
    (void)!read(sock, &go, 1);
    _exit(0);
}

static int fill(int proc, pid_t pid, int sock, const struct maps *m, struct err *e)
{
    char path[64];
    int done = 0;

    if (read(sock, &done, sizeof done) != sizeof done)
        return err_sys(e, "user namespace: its first process ended");
    if (done != 0) {
        errno = done;
        return err_sys(e, "make a user namespace");
    }
    int r = write_proc(proc, pid, "uid_map", m->uids, e);
    if (r < 0)
        return r;
    r = write_proc(proc, pid, "gid_map", m->gids, e);
    if (r < 0)
        return r;
    if (write(sock, "g", 1) != 1 || read(sock, &done, sizeof done) != sizeof done)
        return err_sys(e, "user namespace: its first process ended");
    if (done != 0) {
        errno = done;
        return err_sys(e, "limit nested user namespaces");
    }
    snprintf(path, sizeof path, "%d/ns/user", (int)pid);
    int fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? err_sys(e, "open %s", path) : fd;
}

static int make(int proc, const struct maps *m, struct err *e)
{
    int pair[2];
    struct clone_args args = { .exit_signal = SIGCHLD };

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return err_sys(e, "socketpair");
    auto_close int mine = pair[0], theirs = pair[1];

    pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof args);
    if (pid < 0)
        return err_sys(e, "clone the holder of a user namespace");
    if (pid == 0) {
        close(pair[0]);
        holder(pair[1], m);
    }
    close(TAKE_FD(theirs));
    int fd = fill(proc, pid, mine, m, e);
    close(TAKE_FD(mine)); /* ends the holder */
    (void)waitpid(pid, NULL, 0);
    return fd;
}

int idmap_userns(struct idmap *m, int slot, bool nests, struct err *e)
{
    struct maps maps = { .nests = nests };

    if (m->userns[slot] > 0 && m->nests[slot] == nests)
        return m->userns[slot] - 1;
    if (m->userns[slot] > 0)
        close(m->userns[slot] - 1);
    m->userns[slot] = 0;
    m->nests[slot] = nests;
    auto_close int proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
    maps.owner = idmap_base(slot);
    snprintf(maps.uids, sizeof maps.uids, "0 %u %d\n", idmap_base(slot), IDMAP_RANGE);
    memcpy(maps.gids, maps.uids, sizeof maps.gids);
    int fd = make(proc, &maps, e);
    if (fd >= 0)
        m->userns[slot] = fd + 1;
    return fd;
}

void idmap_done(struct idmap *m)
{
    for (int i = 0; i < IDMAP_SLOTS; i++)
        if (m->userns[i] > 0)
            close(m->userns[i] - 1);
}

int idmap_userns_owner(int proc, const struct idmap_owner *o, struct err *e)
{
    struct maps m = { .owner = o->uid };

    snprintf(m.uids, sizeof m.uids, "%u %u 1\n", o->disk_uid, o->uid);
    snprintf(m.gids, sizeof m.gids, "%u %u 1\n", o->disk_gid, o->gid);
    return make(proc, &m, e);
}

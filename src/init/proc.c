#include "init/proc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

#include "base/auto.h"
#include "init/init.h"
#include "init/socket.h"
#include "init/sudo.h"

enum { KILL_ROUNDS = 50, WAIT_MAX = 16, OWN_FD_MAX = 64 };

static ssize_t slurp(const char *path, char *to, size_t size)
{
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, to, size - 1);

    if (n >= 0)
        to[n] = 0;
    return n;
}

int64_t procs_memory(void)
{
    DIR *d = opendir("/proc");
    int64_t pages = 0;

    for (struct dirent *e; d && (e = readdir(d));) {
        char path[32], text[128];
        long long resident, shared;
        snprintf(path, sizeof path, "/proc/%.10s/statm", e->d_name);
        if (e->d_name[0] >= '1' && e->d_name[0] <= '9' && slurp(path, text, sizeof text) > 0 &&
            sscanf(text, "%*d %lld %lld", &resident, &shared) == 2)
            pages += resident - shared;
    }
    if (d)
        closedir(d);
    return pages * sysconf(_SC_PAGESIZE);
}

uint64_t proc_tick(void)
{
    struct timespec t;

    clock_gettime(CLOCK_BOOTTIME, &t);
    return (uint64_t)t.tv_sec * (uint64_t)sysconf(_SC_CLK_TCK) +
           (uint64_t)t.tv_nsec * (uint64_t)sysconf(_SC_CLK_TCK) / 1000000000;
}

/* The name, in parentheses, may contain anything, so the fields are those after the last one. */
static bool read_stat(pid_t pid, struct proc *ret)
{
    char path[32], text[512];
    unsigned long long start;
    int ppid;
    char state;

    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    if (slurp(path, text, sizeof text) <= 0)
        return false;
    char *p = strrchr(text, ')');
    if (!p || sscanf(p + 1, " %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu", &state,
                     &ppid, &start) != 3)
        return false;
    *ret = (struct proc){ .pid = pid, .ppid = ppid, .start = start, .state = state };
    return true;
}

static int by_pid(const void *a, const void *b)
{
    return ((const struct proc *)a)->pid - ((const struct proc *)b)->pid;
}

static struct proc *find(const struct procs *p, pid_t pid)
{
    struct proc key = { .pid = pid };

    return p->n ? bsearch(&key, p->v, p->n, sizeof *p->v, by_pid) : NULL;
}

static bool listed(const char *list, pid_t pid)
{
    for (const char *p = list; p && *p; p = strchr(p, ' ') ? strchr(p, ' ') + 1 : NULL)
        if (atoi(p) == pid)
            return true;
    return false;
}

/* Climbs from one process to the root; the step count ends loops that a racing scan could show. */
static bool is_inside(const struct procs *all, const struct tree *t, const struct proc *p)
{
    for (size_t step = 0; p && step <= all->n; step++) {
        const struct proc *then = t->also ? find(t->also, p->pid) : NULL;
        if (then && then->inside && then->start == p->start)
            return true;
        if (p->ppid == t->root)
            return !(listed(t->before, p->pid) && p->start <= t->before_tick);
        if (p->ppid <= 1)
            return false;
        p = find(all, p->ppid);
        if (p && p->inside)
            return true;
    }
    return false;
}

int procs_scan(struct init *in, const struct tree *t, struct procs *ret)
{
    DIR *d = opendir("/proc");
    struct procs all = { 0 };
    size_t size = 0;

    if (!d)
        return -errno;
    for (struct dirent *ent; (ent = readdir(d));) {
        int pid = ent->d_name[0] >= '0' && ent->d_name[0] <= '9' ? atoi(ent->d_name) : 0;
        if (pid <= 1)
            continue;
        if (all.n == size) {
            size = size ? size * 2 : 32;
            all.v = realloc(all.v, size * sizeof *all.v);
            if (!all.v)
                abort();
        }
        if (read_stat(pid, &all.v[all.n])) {
            /* What runs for a sudo client counts as the client's child, though init started it. */
            pid_t client = sudo_client_of(in, pid);
            if (client)
                all.v[all.n].ppid = client;
            all.n++;
        }
    }
    closedir(d);
    if (all.n)
        qsort(all.v, all.n, sizeof *all.v, by_pid);
    for (size_t i = 0; i < all.n; i++)
        all.v[i].inside = all.v[i].state != 'Z' && is_inside(&all, t, &all.v[i]);
    *ret = all;
    return 0;
}

void procs_done(struct procs *p)
{
    free(p->v);
    *p = (struct procs){ 0 };
}

char *proc_children(pid_t pid)
{
    char path[48];
    size_t n = 0, size = 256;

    snprintf(path, sizeof path, "/proc/%d/task/%d/children", pid, pid);
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    char small[256];
    ssize_t r = fd < 0 ? -1 : read(fd, small, sizeof small);
    if (r <= 0)
        return NULL;

    char *text = malloc(size + 1);
    if (!text)
        abort();
    do {
        memcpy(text + n, small, (size_t)r);
        n += (size_t)r;
        if (size - n < sizeof small) {
            size *= 2;
            text = realloc(text, size + 1);
            if (!text)
                abort();
        }
        r = read(fd, small, sizeof small);
    } while (r > 0);
    text[n] = 0;
    return text;
}

char *proc_cwd(pid_t pid)
{
    char path[32], to[4096];

    snprintf(path, sizeof path, "/proc/%d/cwd", pid);
    ssize_t n = readlink(path, to, sizeof to - 1);
    if (n <= 0)
        return NULL;
    to[n] = 0;
    return strdup(to);
}

int64_t proc_files_max(pid_t pid)
{
    char path[32], text[2048];
    long long max = -1;

    snprintf(path, sizeof path, "/proc/%d/limits", pid);
    const char *row = slurp(path, text, sizeof text) > 0 ? strstr(text, "Max open files") : NULL;
    return row && sscanf(row, "Max open files %lld", &max) == 1 ? max : -1;
}

void proc_signal(const struct proc *p, int sig)
{
    auto_close int fd = (int)syscall(SYS_pidfd_open, p->pid, 0);
    struct proc now;

    /* The descriptor pins a process; if that one has the right birthday, the signal cannot hit another. */
    if (fd >= 0 && read_stat(p->pid, &now) && now.start == p->start)
        (void)syscall(SYS_pidfd_send_signal, fd, sig, NULL, 0);
}

size_t procs_signal(const struct procs *p, int sig)
{
    size_t n = 0;

    for (size_t i = 0; i < p->n; i++)
        if (p->v[i].inside) {
            proc_signal(&p->v[i], sig);
            n++;
        }
    return n;
}

size_t tree_signal(struct init *in, const struct tree *t, int sig)
{
    AUTO(procs_done) struct procs all = { 0 };

    return procs_scan(in, t, &all) < 0 ? 0 : procs_signal(&all, sig);
}

/* A process that forks faster than we scan is stopped first: a stopped one forks no more. */
bool tree_kill(struct init *in, const struct tree *t)
{
    size_t before = 0;

    for (int round = 0; round < KILL_ROUNDS; round++) {
        size_t n = tree_signal(in, t, SIGSTOP);
        if (n == 0)
            return true;
        if (n == before || round > KILL_ROUNDS / 2) {
            (void)tree_signal(in, t, SIGKILL);
            struct timespec pause = { .tv_nsec = 200000L << (round < 5 ? round : 5) };
            nanosleep(&pause, NULL); /* death takes a moment; init has nothing more urgent */
            n = 0;
        }
        before = n;
    }
    return false;
}

static bool is_fifo(pid_t pid, unsigned long fd, dev_t dev, ino_t ino)
{
    char path[48];
    struct stat st;

    snprintf(path, sizeof path, "/proc/%d/fd/%lu", pid, fd);
    return stat(path, &st) == 0 && st.st_ino == ino && st.st_dev == dev;
}

static bool peek_memory(pid_t pid, unsigned long at, void *to, size_t n)
{
    char path[32];

    snprintf(path, sizeof path, "/proc/%d/mem", pid);
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd >= 0 && pread(fd, to, n, (off_t)at) == (ssize_t)n;
}

/* Those that an epoll watches, as the kernel lists them. */
static int watched_fds(pid_t pid, unsigned long epoll, int fds[WAIT_MAX])
{
    char path[48], text[4096];
    int n = 0, fd;
    unsigned events;

    snprintf(path, sizeof path, "/proc/%d/fdinfo/%lu", pid, epoll);
    if (slurp(path, text, sizeof text) <= 0)
        return 0;
    for (const char *at = text; (at = strstr(at, "tfd:")); at += 4)
        if (sscanf(at, "tfd: %d events: %x", &fd, &events) == 2 && events & (EPOLLIN | EPOLLOUT)) {
            if (n == WAIT_MAX)
                return 0;
            fds[n++] = fd;
        }
    return n;
}

static int polled_fds(pid_t pid, unsigned long at, unsigned long count, int fds[WAIT_MAX])
{
    struct pollfd all[WAIT_MAX];
    int n = 0;

    if (count > WAIT_MAX || !peek_memory(pid, at, all, count * sizeof *all))
        return 0;
    for (unsigned long i = 0; i < count; i++)
        if (all[i].fd >= 0)
            fds[n++] = all[i].fd;
    return n;
}

static int selected_fds(pid_t pid, unsigned long at, unsigned long count, int fds[WAIT_MAX])
{
    unsigned long set;
    int n = 0;

    if (count < 1 || count > 64 || !at || !peek_memory(pid, at, &set, sizeof set))
        return 0;
    for (; set && n < WAIT_MAX; set &= set - 1)
        fds[n++] = __builtin_ctzl(set);
    return set ? 0 : n;
}

enum lock { LOCK_NONE, LOCK_TIMED, LOCK_FOR_GOOD }; /* does a thread wait for another one of its process? */

/* For which descriptors does this thread sleep? Only calls without a time count, but for those of event loops,
 * which have some timer or other: there, a second is long. 0: for none. */
static int waited_fds(pid_t pid, enum lock *ret_lock, int fds[WAIT_MAX])
{
    char path[32], text[256];
    unsigned long a[6];
    long nr;

    *ret_lock = LOCK_NONE;
    snprintf(path, sizeof path, "/proc/%d/syscall", pid);
    if (slurp(path, text, sizeof text) <= 0 ||
        sscanf(text, "%ld %lx %lx %lx %lx %lx %lx", &nr, &a[0], &a[1], &a[2], &a[3], &a[4], &a[5]) != 7)
        return 0;
    *ret_lock = nr != SYS_futex ? LOCK_NONE : a[3] ? LOCK_TIMED : LOCK_FOR_GOOD;
    fds[0] = (int)a[0];
    if (nr == SYS_read || nr == SYS_readv)
        return 1;

    bool polls = nr == SYS_ppoll && a[2] == 0;
    bool selects = nr == SYS_pselect6 && a[4] == 0;
    bool loops = nr == SYS_epoll_pwait;
#ifdef SYS_poll
    polls = polls || (nr == SYS_poll && (int)a[2] < 0);
#endif
#ifdef SYS_select
    selects = selects || (nr == SYS_select && a[4] == 0);
#endif
#ifdef SYS_epoll_wait
    loops = loops || nr == SYS_epoll_wait;
#endif
    if (polls)
        return polled_fds(pid, a[0], a[1], fds);
    if (selects)
        return selected_fds(pid, a[1], a[0], fds);
    return loops && ((int)a[3] < 0 || (int)a[3] >= 1000) ? watched_fds(pid, a[0], fds) : 0;
}

static bool fd_link(pid_t pid, int fd, char link[static 64])
{
    char path[48];

    snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, fd);
    ssize_t n = readlink(path, link, 63);
    link[n < 0 ? 0 : n] = '\0';
    return n > 0;
}

static int count_links(pid_t pid, const char *link)
{
    char other[64];
    int n = 0;

    for (int i = 0; i < OWN_FD_MAX; i++)
        n += fd_link(pid, i, other) && strcmp(link, other) == 0;
    return n;
}

/* Can nobody but the process itself write to this? Then whoever waits for it waits for nothing from outside. Event loops
 * have such pipes and pairs of sockets, with which their threads and signal handlers wake them. */
static bool is_own(const struct procs *all, pid_t pid, int fd)
{
    char link[64];
    unsigned socket;
    int ends = 2;

    if (!fd_link(pid, fd, link))
        return false;
    if (strcmp(link, "anon_inode:[eventfd]") == 0 || strcmp(link, "anon_inode:[signalfd]") == 0)
        return true;
    if (sscanf(link, "socket:[%u]", &socket) == 1) {
        ends = 1;
        socket = socket_other_end(socket);
        if (!socket)
            return false;
        snprintf(link, sizeof link, "socket:[%u]", socket);
    } else if (strncmp(link, "pipe:", 5) != 0) {
        return false;
    }
    if (count_links(pid, link) < ends)
        return false;
    for (size_t i = 0; i < all->n; i++)
        if (all->v[i].inside && all->v[i].pid != pid && count_links(all->v[i].pid, link))
            return false; /* it inherited the other end */
    return true;
}

/* One thread of a process, the first one or another, waits for the fifo, and no other is at work. A program that also
 * watches its network connections or its children is at work. Runtimes have threads that look around now and then; if
 * the first one has something to do at some time, that is the program's. */
static bool waits_for(const struct procs *all, pid_t pid, dev_t dev, ino_t ino)
{
    char path[32];
    bool found = false, idle = true;

    snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *dir = opendir(path);
    for (struct dirent *d; dir && idle && (d = readdir(dir));) {
        pid_t tid = atoi(d->d_name);
        int fds[WAIT_MAX];
        enum lock lock;
        if (tid <= 0)
            continue;
        int n = waited_fds(tid, &lock, fds);
        idle = n > 0 || lock == LOCK_FOR_GOOD || (lock == LOCK_TIMED && tid != pid);
        for (int i = 0; i < n && idle; i++) {
            bool is_it = is_fifo(pid, (unsigned long)fds[i], dev, ino);
            found = found || is_it;
            idle = is_it || is_own(all, pid, fds[i]);
        }
        if (tid == pid && n == 1 && found) /* whatever others do, the program itself asks */
            break;
    }
    if (dir)
        closedir(dir);
    return found && idle;
}

bool proc_reads(pid_t pid, dev_t dev, ino_t ino)
{
    struct proc p;

    return read_stat(pid, &p) && p.state == 'S' && waits_for(&(struct procs){ 0 }, pid, dev, ino);
}

bool tree_reads(struct init *in, const struct tree *t, dev_t dev, ino_t ino)
{
    AUTO(procs_done) struct procs all = { 0 };
    bool reads = false;

    if (procs_scan(in, t, &all) < 0)
        return false;
    for (size_t i = 0; i < all.n; i++) {
        struct proc *p = &all.v[i];
        if (!p->inside && p->pid != t->root)
            continue;
        if (p->state == 'R' || p->state == 'D')
            return false;
        reads = reads || (p->state == 'S' && waits_for(&all, p->pid, dev, ino));
    }
    return reads;
}

/* The hand is a subreaper: whatever the program leaves behind becomes the hand's child, so that the tree below the hand
 * is the whole of what the call started, and can be killed as a whole. */
#include "init/program.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/auto.h"
#include "base/limits.h"
#include "base/loop.h"
#include "init/child.h"
#include "init/hand.h"
#include "init/proc.h"
#include "init/stream.h"
#include "wire/boot.h"

/* LINGER_MS: how long output is still read after the end of the program, if another process holds its pipes. */
enum { READ_BLOCK = 64 * 1024, LINGER_MS = 100, TICK_MS = 20 };

struct run {
    struct hand *h;
    const struct program_opts *o;
    struct program_end *end;
    pid_t pid;
    int pidfd;  /* -1: the kernel has none; then we look every TICK_MS */
    int fds[2]; /* stdout, stderr; -1: at their end */
    struct stream streams[2];
    bool reaped;
    int status;
    struct rusage use;
};

static char block[READ_BLOCK]; /* a hand runs one program at a time; what is not written to costs no memory */

/* Without this, a missing program would look like one that exits with 127. */
int program_find(const char *name, struct err *e)
{
    char path[LIMIT_PATH];

    if (strchr(name, '/'))
        return access(name, X_OK) == 0 ? 0 : err_set(e, ERR_NOT_FOUND, "%s is not installed in this image", name);
    for (const char *p = BOX_PATH; *p; p += strspn(p, ":")) {
        size_t n = strcspn(p, ":");
        snprintf(path, sizeof path, "%.*s/%s", (int)n, p, name);
        if (access(path, X_OK) == 0)
            return 0;
        p += n;
    }
    return err_set(e, ERR_NOT_FOUND, "%s is not installed in this image", name);
}

/* A file in memory instead of a pipe: nobody has to feed it, and a program that does not read costs nothing. */
static int input_fd(struct str input, struct err *e)
{
    auto_close int fd = memfd_create("stdin", MFD_CLOEXEC);

    if (fd < 0)
        return err_sys(e, "make stdin");
    for (size_t at = 0; at < input.n;) {
        ssize_t n = pwrite(fd, input.p + at, input.n - at, (off_t)at);
        if (n <= 0)
            return err_sys(e, "write stdin");
        at += (size_t)n;
    }
    return TAKE_FD(fd);
}

static void set_limits(const struct program_opts *o)
{
    struct rlimit data = { (rlim_t)o->memory_bytes, (rlim_t)o->memory_bytes };
    rlim_t cpu_s = (rlim_t)(o->cpu_s + 0.999);
    struct rlimit cpu = { cpu_s, cpu_s + 1 };

    if (o->memory_bytes > 0)
        (void)setrlimit(RLIMIT_DATA, &data);
    if (o->cpu_s > 0)
        (void)setrlimit(RLIMIT_CPU, &cpu);
}

/* Nothing of the hand's memory is copied for a process that executes another program at once. */
static pid_t spawn(const struct child_opts *o, const struct program_opts *limits)
{
    char **mine = environ;
    struct child_place place;

    child_hold(&place);
    pid_t pid = vfork();
    if (pid == 0) {
        child_release(&place);
        (void)setsid();
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0); /* init kills the tree; this is for a hand that crashes */
        set_limits(limits);
        child_exec(o);
    }
    child_release(&place);
    environ = mine;
    return pid;
}

static int start(struct run *r, struct err *e)
{
    struct arena *a = r->h->arena;
    auto_close int in = -1;
    int out[2], err[2];

    if (r->o->input.p) {
        in = input_fd(r->o->input, e);
        if (in < 0)
            return in;
    }
    if (pipe2(out, O_CLOEXEC) < 0)
        return err_sys(e, "make a pipe");
    if (pipe2(err, O_CLOEXEC) < 0) {
        int n = err_sys(e, "make a pipe");
        close(out[0]);
        close(out[1]);
        return n;
    }
    int both = r->o->socket;
    struct child_opts child = { .argv = r->o->argv,
                                .env = child_env(a, false, r->o->cwd, r->o->env),
                                .fds = { both > 0 ? both : in, both > 0 ? both : out[1], err[1] },
                                .cwd = r->o->cwd };
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    r->pid = spawn(&child, r->o);
    int n = r->pid < 0 ? err_sys(e, "start %s", r->o->argv[0]) : 0;
    close(out[1]);
    close(err[1]);
    r->fds[0] = out[0];
    r->fds[1] = err[0];
    (void)fcntl(out[0], F_SETFL, O_NONBLOCK);
    (void)fcntl(err[0], F_SETFL, O_NONBLOCK);
    r->pidfd = n < 0 ? -1 : (int)syscall(SYS_pidfd_open, r->pid, 0);
    return n;
}

/* One block, so that a program which never stops writing does not keep us from the clock. False: there was none. */
static bool read_stream(struct run *r, int i)
{
    ssize_t n = read(r->fds[i], block, READ_BLOCK);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (n <= 0) {
        close(r->fds[i]);
        r->fds[i] = -1;
        return false;
    }
    if (i == 0 && r->o->on_stdout) {
        r->end->out_bytes += n;
        if (!r->end->stopped && !r->o->on_stdout(r->o->arg, block, (size_t)n))
            r->end->stopped = true;
    } else {
        stream_add(&r->streams[i], block, (size_t)n);
    }
    return true;
}

static void look_for_end(struct run *r)
{
    if (!r->reaped && wait4(r->pid, &r->status, WNOHANG, &r->use) == r->pid)
        r->reaped = true;
}

static void wait_for_end(struct run *r)
{
    int64_t linger_until = 0;

    for (;;) {
        int64_t now = now_ms();
        int64_t until = r->reaped ? linger_until : r->o->deadline_ms;
        if (r->end->stopped || (r->fds[0] < 0 && r->fds[1] < 0 && r->reaped))
            return;
        if (until && now >= until) {
            r->end->timed_out = !r->reaped;
            return;
        }
        struct pollfd p[3] = { { r->fds[0], POLLIN, 0 },
                               { r->fds[1], POLLIN, 0 },
                               { r->reaped ? -1 : r->pidfd, POLLIN, 0 } };
        int64_t wait = until ? until - now : 60000;
        if (r->pidfd < 0 && wait > TICK_MS)
            wait = TICK_MS;
        (void)poll(p, 3, (int)(wait < 60000 ? wait : 60000));
        for (int i = 0; i < 2; i++)
            if (p[i].revents)
                (void)read_stream(r, i);
        if (!r->reaped) {
            look_for_end(r);
            linger_until = now_ms() + LINGER_MS;
        }
    }
}

/* After this the hand has no child. What is still in the pipes was written before. */
static void end_all(struct run *r)
{
    int status;

    if (!r->reaped || waitpid(-1, &status, WNOHANG) >= 0) /* most programs leave nobody behind: then no search */
        (void)tree_kill(r->h->init, &(struct tree){ .root = getpid() });
    while (!r->reaped) {
        if (wait4(r->pid, &r->status, 0, &r->use) < 0 && errno == EINTR)
            continue;
        r->reaped = true;
    }
    while (waitpid(-1, &status, WNOHANG) > 0)
        ;
    for (int i = 0; i < 2; i++)
        while (r->fds[i] >= 0 && !r->end->stopped && read_stream(r, i))
            ;
}

static void report(struct run *r)
{
    struct program_end *end = r->end;

    end->sig = WIFSIGNALED(r->status) ? WTERMSIG(r->status) : 0;
    end->exit_code = end->sig ? 128 + end->sig : WEXITSTATUS(r->status);
    end->cpu_us = (r->use.ru_utime.tv_sec + r->use.ru_stime.tv_sec) * 1000000LL + r->use.ru_utime.tv_usec +
                  r->use.ru_stime.tv_usec;
    end->peak_bytes = r->use.ru_maxrss * KiB;
    end->out = stream_text(&r->streams[0], r->h->arena);
    end->err = stream_text(&r->streams[1], r->h->arena);
    end->out_bytes += r->streams[0].total;
    end->err_bytes = r->streams[1].total;
    end->dropped_bytes = stream_dropped(&r->streams[0]) + stream_dropped(&r->streams[1]);
}

int program_run(struct hand *h, const struct program_opts *o, struct program_end *ret, struct err *e)
{
    struct run r = { .h = h, .o = o, .end = ret, .pidfd = -1, .fds = { -1, -1 } };
    int64_t begun = now_us();

    *ret = (struct program_end){ 0 };
    int n = program_find(o->argv[0], e);
    if (n < 0)
        return n;
    for (int i = 0; i < 2; i++)
        stream_init(&r.streams[i], (int64_t)o->head_max, (int64_t)o->tail_max, 0);
    n = start(&r, e);
    if (n >= 0) {
        wait_for_end(&r);
        end_all(&r);
        report(&r);
        ret->run_us = now_us() - begun;
    }
    for (int i = 0; i < 2; i++) {
        if (r.fds[i] >= 0)
            close(r.fds[i]);
        stream_done(&r.streams[i]);
    }
    if (r.pidfd >= 0)
        close(r.pidfd);
    return n;
}

bool program_disk_full(struct str said)
{
    static const char *const places[] = { "/", "/tmp", BOX_HOME, "/dev/shm" };
    static const char words[] = "No space left on device";
    struct statvfs fs;

    if (!said.n || !memmem(said.p, said.n, words, sizeof words - 1))
        return false;
    for (size_t i = 0; i < ARRAY_LEN(places); i++)
        if (statvfs(places[i], &fs) == 0 && (fs.f_bavail * fs.f_frsize < 64 * KiB || (fs.f_files && fs.f_favail == 0)))
            return true;
    return false;
}

int64_t program_disk_used(int64_t at_least)
{
    struct statvfs fs;

    if (statvfs("/", &fs) < 0) /* of an overlay, it is its upper layer's: the tmpfs with all that the box writes */
        return at_least;
    int64_t used = (int64_t)((fs.f_blocks - fs.f_bfree) * fs.f_frsize);
    return used > at_least ? used : at_least;
}

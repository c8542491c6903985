#include "session/job.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdnoreturn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/limits.h"
#include "base/log.h"

enum { OUT, ERR, PIPES, CHUNK = 64 * 1024 };

struct machinery {
    struct job_ask ask;
    pid_t pid;
    int pidfd, fd[PIPES];
    struct loop_fd *watch[PIPES], *end_watch;
    struct buf line;
    bool paused, over;
};

static struct job *jobs; /* the newest first */

static void on_output(void *arg, uint32_t events);

static void close_pipe(struct machinery *m, int i)
{
    if (m->watch[i])
        loop_unwatch(m->watch[i]);
    if (m->fd[i] >= 0)
        close(m->fd[i]);
    m->watch[i] = NULL;
    m->fd[i] = -1;
}

static void free_machinery(void *arg)
{
    struct machinery *m = arg;

    buf_done(&m->line);
    free(m);
}

static void unlink_job(struct job *j)
{
    for (struct job **p = &jobs; *p; p = &(*p)->next)
        if (*p == j) {
            *p = j->next;
            break;
        }
    buf_done(&j->out);
    free(j);
}

/* The oldest that are over make room. */
static void forget_old(void)
{
    size_t n = 0;

    for (struct job *j = jobs, *next; j; j = next) {
        next = j->next;
        if (j->state != JOB_RUNNING && ++n > LIMIT_JOBS_KEPT)
            unlink_job(j);
    }
}

static void maybe_over(struct job *j)
{
    struct machinery *m = j->machinery;

    if (!m->over || m->fd[OUT] >= 0 || m->fd[ERR] >= 0)
        return;
    j->machinery = NULL;
    j->ended_us = wall_us();
    /* 0: fine; 1: it ran to its end, and what it looked at failed: that is a result, too */
    j->state = j->exit_code == 0 || (j->exit_code == 1 && j->out.n && !m->ask.on_output) ? JOB_DONE : JOB_FAILED;
    log_info("job is over", "id=%s kind=%s exit=%d", j->id, j->kind, j->exit_code);
    if (m->ask.on_end)
        m->ask.on_end(m->ask.arg, j);
    loop_later(j->node->loop, free_machinery, m);
    forget_old();
}

static void on_exit_of(void *arg, uint32_t events)
{
    struct job *j = arg;
    struct machinery *m = j->machinery;
    int status = 0;

    (void)events;
    if (waitpid(m->pid, &status, WNOHANG) != m->pid)
        return;
    loop_unwatch(m->end_watch);
    close(m->pidfd);
    m->over = true;
    j->exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (WIFSIGNALED(status) && !j->message[0])
        snprintf(j->message, sizeof j->message, "it was ended by signal %d", WTERMSIG(status));
    maybe_over(j);
}

/* "progress WHAT 3/10", or a complaint */
static void take_line(struct job *j, struct str line)
{
    static const char prefix[] = "sandglass: ";
    char text[sizeof j->message];
    long long done, total;

    snprintf(text, sizeof text, "%.*s", (int)(line.n < sizeof text ? line.n : sizeof text - 1), line.p);
    if (sscanf(text, "progress %*15s %lld/%lld", &done, &total) == 2) {
        j->done = done;
        j->total = total;
    } else if (strncmp(text, prefix, sizeof prefix - 1) == 0) {
        snprintf(j->message, sizeof j->message, "%s", text + sizeof prefix - 1);
    } else if (!j->message[0]) {
        memcpy(j->message, text, sizeof text);
    }
}

static void take_errors(struct job *j, struct str data)
{
    struct machinery *m = j->machinery;

    for (size_t i = 0; i < data.n; i++) {
        if (data.p[i] != '\n') {
            buf_char(&m->line, data.p[i]);
            continue;
        }
        take_line(j, buf_view(&m->line));
        buf_reset(&m->line);
    }
}

static void on_output(void *arg, uint32_t events)
{
    static char chunk[CHUNK];
    struct job *j = arg;
    struct machinery *m = j->machinery;

    (void)events;
    ssize_t n = read(m->fd[OUT], chunk, sizeof chunk);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        close_pipe(m, OUT);
        maybe_over(j);
        return;
    }
    struct str data = { chunk, (size_t)n };
    if (!m->ask.on_output) {
        buf_add(&j->out, data.p, data.n);
        return;
    }
    if (!m->ask.on_output(m->ask.arg, j, data) && j->machinery == m && m->watch[OUT]) {
        loop_unwatch(m->watch[OUT]); /* the pipe fills, the process waits */
        m->watch[OUT] = NULL;
        m->paused = true;
    }
}

void job_more(struct job *j)
{
    struct machinery *m = j->machinery;

    if (!m || !m->paused)
        return;
    m->paused = false;
    m->watch[OUT] = loop_watch(j->node->loop, m->fd[OUT], EPOLLIN, on_output, j);
}

static void on_errors(void *arg, uint32_t events)
{
    char chunk[4096];
    struct job *j = arg;
    struct machinery *m = j->machinery;

    (void)events;
    ssize_t n = read(m->fd[ERR], chunk, sizeof chunk);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n > 0) {
        take_errors(j, (struct str){ chunk, (size_t)n });
        return;
    }
    close_pipe(m, ERR);
    maybe_over(j);
}

/* --- starting --- */

static noreturn void become(const struct job_ask *ask, const struct node *n, int in, int out, int err, char *ticket,
                            pid_t parent)
{
    struct rlimit memory = { (rlim_t)LIMIT_JOB_MEMORY, (rlim_t)LIMIT_JOB_MEMORY };
    const char *argv[JOB_ARGS + 2] = { "sandglass" };
    sigset_t none;

    prctl(PR_SET_PDEATHSIG, SIGTERM); /* a replay still destroys its boxes */
    if (getppid() != parent)
        _exit(1);
    signal(SIGPIPE, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
#ifndef __SANITIZE_ADDRESS__
    (void)setrlimit(RLIMIT_AS, &memory);
#else
    (void)memory;
#endif
    errno = 0;
    (void)!nice(10);
    dup2(in, 0);
    dup2(out, 1);
    dup2(err, 2);
    (void)syscall(SYS_close_range, 3u, ~0u, 0u);
    setenv("SANDGLASS_URL", n->self_url, 1);
    setenv("SANDGLASS_INSECURE", "1", 1); /* it is our own address; the certificate has other names */
    setenv("SANDGLASS_PROGRESS", "1", 1);
    unsetenv("SANDGLASS_API_KEY");
    if (ticket)
        setenv("SANDGLASS_TICKET", ticket, 1);
    for (size_t i = 0; i < JOB_ARGS && ask->argv[i]; i++)
        argv[i + 1] = ask->argv[i];
    execv("/proc/self/exe", (char *const *)argv);
    _exit(127);
}

static size_t running(void)
{
    size_t n = 0;

    for (const struct job *j = jobs; j; j = j->next)
        n += j->state == JOB_RUNNING;
    return n;
}

static int input_fd(struct str input)
{
    int fd = input.n ? memfd_create("job", MFD_CLOEXEC) : open("/dev/null", O_RDONLY | O_CLOEXEC);

    if (fd < 0 || !input.n)
        return fd;
    for (size_t at = 0; at < input.n;) {
        ssize_t n = write(fd, input.p + at, input.n - at);
        if (n <= 0)
            break;
        at += (size_t)n;
    }
    (void)lseek(fd, 0, SEEK_SET);
    return fd;
}

static int spawn(struct job *j, const struct job_ask *ask, struct err *e)
{
    struct machinery *m = j->machinery;
    struct node *n = j->node;
    int out[2], err[2];
    AUTO(arena_done) struct arena a = { 0 };
    struct str ticket = n->job_ticket ? n->job_ticket(n->arg, ask->tenant->name, &a) : (struct str){ 0 };
    auto_close int in = input_fd(ask->input);

    char *word = ticket.n ? arena_z(&a, ticket) : NULL;
    if (in < 0 || pipe2(out, O_CLOEXEC) < 0)
        return err_sys(e, "pipe");
    if (pipe2(err, O_CLOEXEC) < 0) {
        close(out[0]);
        close(out[1]);
        return err_sys(e, "pipe");
    }
    pid_t parent = getpid();
    m->pid = fork();
    if (m->pid == 0)
        become(ask, n, in, out[1], err[1], word, parent);
    close(out[1]);
    close(err[1]);
    m->fd[OUT] = out[0];
    m->fd[ERR] = err[0];
    if (m->pid < 0)
        return err_sys(e, "start a process");
    (void)fcntl(out[0], F_SETFL, O_NONBLOCK);
    (void)fcntl(err[0], F_SETFL, O_NONBLOCK);
    m->pidfd = (int)syscall(SYS_pidfd_open, m->pid, 0);
    m->watch[OUT] = loop_watch(n->loop, m->fd[OUT], EPOLLIN, on_output, j);
    m->watch[ERR] = loop_watch(n->loop, m->fd[ERR], EPOLLIN, on_errors, j);
    m->end_watch = loop_watch(n->loop, m->pidfd, EPOLLIN, on_exit_of, j);
    return 0;
}

struct job *job_start(struct node *n, const struct job_ask *ask, struct err *e)
{
    if (running() >= LIMIT_JOBS) {
        err_set(e, ERR_BUSY, "LIMIT_JOBS (%d) jobs are running; try again", LIMIT_JOBS);
        return NULL;
    }
    struct job *j = calloc(1, sizeof *j);
    struct machinery *m = calloc(1, sizeof *m);
    if (!j || !m)
        abort();
    *m = (struct machinery){ .ask = *ask, .pidfd = -1, .fd = { -1, -1 } };
    *j = (struct job){ .node = n, .tenant = ask->tenant, .started_us = wall_us(), .machinery = m };
    memcpy(j->id, "j-", 2);
    random_hex(j->id + 2, 16);
    snprintf(j->kind, sizeof j->kind, "%s", ask->kind);
    buf_init(&j->out, LIMIT_JOB_OUTPUT);
    buf_init(&m->line, 4096);
    if (spawn(j, ask, e) < 0) {
        close_pipe(m, OUT);
        close_pipe(m, ERR);
        free_machinery(m);
        buf_done(&j->out);
        free(j);
        return NULL;
    }
    j->next = jobs;
    jobs = j;
    log_info("job started", "id=%s kind=%s pid=%d", j->id, j->kind, m->pid);
    return j;
}

void job_kill(struct job *j)
{
    struct machinery *m = j->machinery;

    if (m && !m->over)
        (void)syscall(SYS_pidfd_send_signal, m->pidfd, SIGTERM, NULL, 0);
}

void job_forget(struct job *j)
{
    struct machinery *m = j->machinery;

    if (!m)
        return;
    m->ask.on_output = NULL;
    m->ask.on_end = NULL;
    job_kill(j);
    close_pipe(m, OUT);
    maybe_over(j);
}

struct job *job_next(struct node *n, const struct tenant *t, const struct job *after)
{
    (void)n;
    for (struct job *j = after ? after->next : jobs; j; j = j->next)
        if (j->tenant == t)
            return j;
    return NULL;
}

struct job *job_find(struct node *n, const struct tenant *t, struct str id)
{
    for (struct job *j = job_next(n, t, NULL); j; j = job_next(n, t, j))
        if (str_is(id, j->id))
            return j;
    return NULL;
}

void job_print(const struct job *j, struct jw *w)
{
    static const char *const states[] = { "running", "done", "failed" };
    char t[32];

    jw_kz(w, "job", j->id);
    jw_kz(w, "kind", j->kind);
    jw_kz(w, "state", states[j->state]);
    utc_time(j->started_us, t);
    jw_kz(w, "started", t);
    if (j->ended_us) {
        utc_time(j->ended_us, t);
        jw_kz(w, "ended", t);
        jw_kint(w, "exit_code", j->exit_code);
    }
    jw_key(w, "progress");
    jw_obj(w);
    jw_kint(w, "done", j->done);
    jw_kint(w, "total", j->total);
    jw_obj_end(w);
    if (j->message[0])
        jw_kz(w, "message", j->message);
}

#include "init/app.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/loop.h"
#include "init/child.h"
#include "init/init.h"
#include "wire/boot.h"

#define CODE_SOCK    BOX_USER_RUN "/code-server.sock"
#define JUPYTER      "/usr/bin/jupyter-notebook"
#define JUPYTER_SOCK BOX_USER_RUN "/jupyter.sock"

#define STARTING ".starting" /* its socket's name until it answers as it should: before, nobody finds it */

enum { LOOK_MS = 30, ANSWER_MS = 2000, LOG_KEPT = 1500 };

static const char *const code_server_argv[] = { "node",
                                                BOX_CODE_SERVER,
                                                "--auth=none",
                                                "--socket=" CODE_SOCK STARTING,
                                                "--socket-mode=600",
                                                "--disable-telemetry",
                                                "--disable-update-check",
                                                "--disable-workspace-trust",
                                                "--disable-getting-started-override",
                                                "--log=error",
                                                NULL };
/* Its checks of Origin and of forged requests are the door's here, which alone reaches the socket. */
static const char *const jupyter_argv[] = { JUPYTER,
                                            "--sock=" JUPYTER_SOCK STARTING,
                                            "--sock-mode=0600",
                                            "--no-browser",
                                            "--NotebookApp.base_url=/jupyter/",
                                            "--NotebookApp.token=",
                                            "--NotebookApp.password=",
                                            "--NotebookApp.disable_check_xsrf=True",
                                            "--NotebookApp.allow_remote_access=True",
                                            "--NotebookApp.quit_button=False",
                                            "--KernelManager.transport=ipc",
                                            "--log-level=ERROR",
                                            NULL };
/* The same of JupyterLab, whose kernels are Debian's all the same. It asks nobody outside for news. */
static const char *const lab_argv[] = { BOX_JUPYTERLAB,
                                        "--ServerApp.sock=" JUPYTER_SOCK STARTING,
                                        "--ServerApp.sock_mode=0600",
                                        "--no-browser",
                                        "--ServerApp.base_url=/jupyter/",
                                        "--IdentityProvider.token=",
                                        "--ServerApp.disable_check_xsrf=True",
                                        "--ServerApp.allow_remote_access=True",
                                        "--KernelSpecManager.ensure_native_kernel=False",
                                        "--KernelManager.transport=ipc",
                                        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
                                        "--LabApp.extension_manager=readonly",
                                        "--log-level=ERROR",
                                        NULL };
/* Of those with one name the first that is installed. The last word of what is started is the directory that it begins in. */
static const struct app_program programs[] = {
    { "code-server", BOX_CODE_SERVER,
      "code-server is not installed: run 'make code-server' as root on the server's machine", CODE_SOCK,
      code_server_argv, "", "/healthz" },
    { "jupyter", BOX_JUPYTERLAB, "", JUPYTER_SOCK, lab_argv, "--ServerApp.root_dir=", "/jupyter/api" },
    { "jupyter", JUPYTER,
      "Jupyter's server is not installed: Debian's package jupyter-notebook has it, or run 'make jupyterlab' as root on the "
      "server's machine",
      JUPYTER_SOCK, jupyter_argv, "--notebook-dir=", "/jupyter/api" },
};

struct app {
    pid_t pid;
    int out; /* what it prints; read so that it never waits */
    char log[LOG_KEPT * 2];
    size_t log_n;
};

static size_t watch(struct hand *h, struct pollfd *fds, size_t max);
static void idle(struct hand *h);
const struct driver_kind app_kind = { .name = "app", .watch = watch, .idle = idle };

const struct app_program *app_find(struct str name)
{
    const struct app_program *found = NULL;

    for (size_t i = 0; i < ARRAY_LEN(programs); i++)
        if (str_is(name, programs[i].name) && (!found || access(found->file, R_OK) < 0))
            found = &programs[i];
    return found;
}

/* --- between calls --- */

static void read_log(struct app *a)
{
    char block[4096];
    ssize_t n;

    while (a->out >= 0 && (n = read(a->out, block, sizeof block)) != 0) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return;
        size_t take = (size_t)n < LOG_KEPT ? (size_t)n : LOG_KEPT;
        if (a->log_n + take > sizeof a->log) {
            memmove(a->log, a->log + a->log_n - LOG_KEPT, LOG_KEPT);
            a->log_n = LOG_KEPT;
        }
        memcpy(a->log + a->log_n, block + n - take, take);
        a->log_n += take;
    }
    if (a->out >= 0)
        close(TAKE_FD(a->out));
}

static size_t watch(struct hand *h, struct pollfd *fds, size_t max)
{
    struct app *a = h->self->state;

    if (!a || a->out < 0 || !max)
        return 0;
    fds[0] = (struct pollfd){ a->out, POLLIN, 0 };
    return 1;
}

static void idle(struct hand *h)
{
    if (h->self->state)
        read_log(h->self->state);
}

/* --- coming and going --- */

static int dial(const struct app_program *p, const char *suffix)
{
    struct sockaddr_un un = { .sun_family = AF_UNIX };
    auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    snprintf(un.sun_path, sizeof un.sun_path, "%s%s", p->socket, suffix);
    return fd >= 0 && connect(fd, (struct sockaddr *)&un, sizeof un) == 0 ? TAKE_FD(fd) : -1;
}

static bool answers(const struct app_program *p)
{
    auto_close int fd = dial(p, "");

    return fd >= 0;
}

/* Some listen before they know their own pages. */
static bool is_up(struct hand *h, const struct app_program *p)
{
    auto_close int fd = dial(p, STARTING);
    char ask[128], text[16] = "";
    int n = snprintf(ask, sizeof ask, "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", p->health);

    if (fd < 0 || send(fd, ask, (size_t)n, MSG_NOSIGNAL) != n)
        return false;
    struct pollfd ready = { fd, POLLIN, 0 };
    (void)driver_poll(h, &ready, 1, ANSWER_MS);
    return ready.revents && recv(fd, text, sizeof text - 1, 0) >= 12 && memcmp(text + 8, " 200", 4) == 0;
}

static const char *first_name(struct hand *h, const struct app_program *p)
{
    return arena_printf(h->arena, "%s" STARTING, p->socket);
}

static bool alive(struct hand *h, struct app *a)
{
    if (a->pid > 0 && waitpid(a->pid, NULL, WNOHANG) == a->pid) {
        a->pid = 0;
        driver_drives(h, 0);
    }
    return a->pid > 0;
}

static void end(struct hand *h, struct app *a)
{
    if (a->pid > 0) {
        kill(-a->pid, SIGKILL);
        kill(a->pid, SIGKILL);
        waitpid(a->pid, NULL, 0);
        driver_drives(h, 0);
    }
    a->pid = 0;
    if (a->out >= 0)
        close(TAKE_FD(a->out));
}

static void become(struct hand *h, const struct app_program *p, int out)
{
    const char *argv[32] = { 0 };
    const char *folder = init_workspace(h->init);
    struct pair runtime = { STR("JUPYTER_RUNTIME_DIR"), STR(BOX_USER_RUN "/jupyter") };
    size_t n = 0;

    while (p->argv[n]) {
        argv[n] = p->argv[n];
        n++;
    }
    argv[n] = arena_printf(h->arena, "%s%s", p->begins_in, folder);
    setsid();
    child_exec(&(struct child_opts){ .argv = argv,
                                     .env = child_env(h->arena, false, folder, &(struct pairs){ &runtime, 1 }),
                                     .fds = { -1, out, out },
                                     .cwd = folder });
}

static int spawn(struct hand *h, struct app *a, const struct app_program *p, struct err *e)
{
    int out[2];

    (void)unlink(p->socket);
    (void)unlink(first_name(h, p));
    if (pipe2(out, O_CLOEXEC) < 0)
        return err_sys(e, "make a pipe");
    a->pid = fork();
    if (a->pid == 0)
        become(h, p, out[1]);
    close(out[1]);
    a->out = out[0];
    a->log_n = 0;
    if (a->pid < 0)
        return err_sys(e, "start %s", p->name);
    (void)fcntl(a->out, F_SETFL, O_NONBLOCK);
    driver_drives(h, a->pid);
    return 0;
}

static int wait_for(struct hand *h, struct app *a, const struct app_program *p, struct err *e)
{
    while (!is_up(h, p)) {
        struct pollfd fd = { a->out, POLLIN, 0 };
        (void)driver_poll(h, &fd, 1, LOOK_MS);
        read_log(a);
        if (h->self->wish == WISH_CANCEL) {
            err_set(e, ERR_NONE, "cancelled");
            return -ECANCELED;
        }
        if (h->deadline_ms && now_ms() >= h->deadline_ms) {
            err_set(e, ERR_NONE, "%s did not answer in time", p->name);
            return -ETIMEDOUT;
        }
        if (!alive(h, a)) {
            size_t n = a->log_n < 160 ? a->log_n : 160;
            return err_set(e, ERR_SYSTEM, "%s ended: %.*s", p->name, (int)n, a->log + a->log_n - n);
        }
    }
    return rename(first_name(h, p), p->socket) < 0 ? err_sys(e, "name the socket of %s", p->name) : 0;
}

int app_start(struct hand *h, const struct app_program *p, bool *ret_started, pid_t *ret_pid, struct err *e)
{
    struct app *a = h->self->state;

    if (!a) {
        a = calloc(1, sizeof *a);
        if (!a)
            abort();
        a->out = -1;
        h->self->state = a;
    }
    *ret_started = false;
    if (alive(h, a) && answers(p)) {
        *ret_pid = a->pid;
        return 0;
    }
    if (access(p->file, R_OK) < 0)
        return err_set(e, ERR_NOT_FOUND, "%s", p->missing);
    end(h, a);
    int r = spawn(h, a, p, e);
    if (r >= 0)
        r = wait_for(h, a, p, e);
    if (r < 0) {
        end(h, a);
        return r;
    }
    *ret_started = true;
    *ret_pid = a->pid;
    return 0;
}

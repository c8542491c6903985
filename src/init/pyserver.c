#include "init/pyserver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/log.h"
#include "base/loop.h"
#include "init/child.h"
#include "init/init.h"
#include "init/script.h"

enum { SOON_MS = 5000, AGAIN_MS = 30000, BACKLOG = 64 };

static struct server {
    const char *what, *socket;
    pid_t pid; /* 0: down */
    int64_t begun_ms, not_before_ms;
} servers[] = {
    [PYSERVER_CONTEXT] = { "context", BOX_USER_RUN "/context.sock" },
    [PYSERVER_KERNEL] = { "kernel", BOX_USER_RUN "/kernel.sock" },
};

const char *pyserver_socket(const struct init *in, enum pyserver which)
{
    bool none = !in->boot.fork_python || (which == PYSERVER_CONTEXT && !in->boot.preload[0]);

    return none ? NULL : servers[which].socket;
}

void pyserver_modules(const struct init *in, struct arena *a, const char **argv, size_t max)
{
    char *list = arena_z(a, (struct str){ in->boot.preload, strnlen(in->boot.preload, sizeof in->boot.preload) });
    char *rest = NULL;
    size_t n = 0;

    for (char *m = strtok_r(list, ", ", &rest); m && n < max; m = strtok_r(NULL, ", ", &rest))
        argv[n++] = m;
    argv[n] = NULL;
}

/* One that fails at once will do so again. One that fails later had a reason, such as short memory; one that ends well
 * has found its modules changed. */
static void on_server_exit(void *arg, pid_t pid, int status)
{
    struct server *s = arg;

    (void)pid;
    s->pid = 0;
    if (status != 0 && now_ms() - s->begun_ms < SOON_MS)
        s->not_before_ms = now_ms() + AGAIN_MS;
}

static int listen_at(const char *path, struct err *e)
{
    struct sockaddr_un to = { .sun_family = AF_UNIX };
    auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    snprintf(to.sun_path, sizeof to.sun_path, "%s", path);
    (void)unlink(path);
    if (fd < 0 || bind(fd, (struct sockaddr *)&to, sizeof to) < 0 || chown(path, BOX_UID, BOX_GID) < 0 ||
        chmod(path, 0600) < 0 || listen(fd, BACKLOG) < 0)
        return err_sys(e, "listen at %s", path);
    return TAKE_FD(fd);
}

void pyserver_need(struct init *in, enum pyserver which)
{
    struct server *s = &servers[which];
    const char *argv[PYSERVER_MODULES + 5] = { "python3", SCRIPT_PYTHON, "serve", s->what };
    struct pair more[] = { { STR("PYDEVD_DISABLE_FILE_VALIDATION"), STR("1") },
                           { STR("PYTHONDONTWRITEBYTECODE"), STR("1") } };
    struct pairs env = { more, ARRAY_LEN(more) };
    AUTO(arena_done) struct arena a = { 0 };
    struct err e = { 0 };

    if (!pyserver_socket(in, which) || s->pid > 0 || now_ms() < s->not_before_ms || scripts_write(&e) < 0)
        return;
    pyserver_modules(in, &a, argv + 4, PYSERVER_MODULES);
    auto_close int fd = listen_at(s->socket, &e);
    if (fd < 0)
        return;
    s->begun_ms = now_ms();
    s->pid = child_start(in,
                         &(struct child_opts){ .argv = argv,
                                               .env = child_env(&a, false, BOX_HOME, &env),
                                               .fds = { fd, -1, -1 },
                                               .cwd = BOX_HOME,
                                               .session = true },
                         on_server_exit, s, &e);
    if (s->pid < 0)
        s->pid = 0;
}

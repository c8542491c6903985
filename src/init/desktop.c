#include "init/desktop.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/limits.h"
#include "base/loop.h"
#include "init/child.h"
#include "init/init.h"
#include "init/program.h"
#include "init/rfb.h"
#include "init/script.h"
#include "init/x11.h"
#include "wire/boot.h"

enum { KEY_SHIFT_LEFT = 0xffe1, KEY_SHIFT_RIGHT = 0xffe2 };
enum { LOOK_US = 5000, LOOKS = 12000, BREATH_US = 200000, MANAGER_MS = 5000, LEND_MS = 1000 };

/* --- the keeper --- */

static pid_t run(const char *const *argv)
{
    pid_t pid = fork();

    if (pid != 0)
        return pid;
    struct arena a = { 0 };
    int log = open(BOX_USER_RUN "/desktop.log", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    struct pair place = { STR("XDG_RUNTIME_DIR"), STR(BOX_USER_RUN) }; /* else they put sockets into the home */
    struct child_opts o = { .argv = argv,
                            .env = child_env(&a, false, BOX_HOME, &(struct pairs){ &place, 1 }),
                            .fds = { -1, log, log },
                            .cwd = BOX_HOME };
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    child_exec(&o);
}

static bool listens(const char *path)
{
    struct sockaddr_un un = { .sun_family = AF_UNIX };
    auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    strncpy(un.sun_path, path, sizeof un.sun_path - 1);
    return fd >= 0 && connect(fd, (struct sockaddr *)&un, sizeof un) == 0;
}

static pid_t run_screen(int64_t width, int64_t height)
{
    char size[48];

    snprintf(size, sizeof size, "%lldx%lld", (long long)width, (long long)height);
    /* What a former one, or one of the box that this is a fork of, left behind */
    (void)unlink("/tmp/.X0-lock");
    (void)unlink(DESKTOP_X11);
    (void)mkdir("/tmp/.X11-unix", 01777);
    /* clang-format off */
    const char *const argv[] = { "Xtigervnc",     DESKTOP_DISPLAY,   "-geometry", size,
                                 "-depth",        "24",              "-dpi",      "96",
                                 "-SecurityTypes", "None",           "-rfbport=-1", "-rfbunixpath=" DESKTOP_RFB,
                                 "-rfbunixmode=0600", "-AlwaysShared", "-AcceptSetDesktopSize", "-nolisten",
                                 "tcp",           "-desktop",        "sandglass", "-s",
                                 "0",             NULL };
    /* clang-format on */
    return run(argv);
}

static _Noreturn void keeper_main(struct init *in, int64_t width, int64_t height)
{
    static const char *const manager[] = { "jwm", "-f", SCRIPT_JWM, NULL };
    static const char *const bus[] = {
        "dbus-daemon", "--session", "--nofork", "--nopidfile", "--address=unix:path=" DESKTOP_BUS, NULL
    };
    static const char *const access[] = { "/usr/libexec/at-spi-bus-launcher", "--launch-immediately", "--a11y=1",
                                          NULL };

    (void)setsid();
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    (void)prctl(PR_SET_NAME, "desktop");
    (void)syscall(SYS_close_range, 3u, ~0u, 0u);
    child_limit(in);
    child_become_user(in);
    (void)unlink(DESKTOP_BUS);
    pid_t screen = run_screen(width, height), windows = 0;
    (void)run(bus);
    for (int i = 0; i < LOOKS && !listens(DESKTOP_X11) && waitpid(screen, NULL, WNOHANG) == 0; i++)
        usleep(LOOK_US);
    windows = run(manager);
    for (int i = 0; i < LOOKS / 100 && !listens(DESKTOP_BUS); i++)
        usleep(LOOK_US);
    (void)run(access);
    for (pid_t pid; (pid = waitpid(-1, NULL, 0)) > 0 || errno == EINTR;) {
        if (pid == screen)
            _exit(0);
        if (pid == windows) { /* an agent may well end it */
            usleep(BREATH_US);
            windows = run(manager);
        }
    }
    _exit(0);
}

static void on_keeper_exit(void *arg, pid_t pid, int status)
{
    struct init *in = arg;

    (void)status;
    if (in->desktop == pid)
        in->desktop = 0;
}

int desktop_up(struct init *in, int64_t width, int64_t height, struct err *e)
{
    if (in->desktop > 0)
        return 0;
    if (program_find("Xtigervnc", e) < 0 || program_find("jwm", e) < 0)
        return err_set(
            e, ERR_NOT_FOUND,
            "there is no desktop in this box: it needs Debian's packages tigervnc-standalone-server and jwm");
    int r = scripts_write(e);
    if (r < 0)
        return r;
    if (!width)
        width = in->boot.habits.screen_width ? in->boot.habits.screen_width : 1280;
    if (!height)
        height = in->boot.habits.screen_height ? in->boot.habits.screen_height : 800;
    (void)unlink(DESKTOP_RFB); /* of the former one: whoever connects from now on waits for the new one */
    pid_t pid = child_fork(in, on_keeper_exit, in, e);
    if (pid == 0)
        keeper_main(in, width, height);
    if (pid < 0)
        return pid;
    in->desktop = pid;
    return 0;
}

pid_t desktop_launch(struct init *in, const char *command, struct err *e)
{
    const char *const argv[] = { "bash", "-c", command, NULL };
    struct arena a = { 0 };
    pid_t pid = child_fork(in, NULL, NULL, e);

    if (pid != 0)
        return pid;
    (void)setsid();
    child_limit(in);
    child_become_user(in);
    for (int i = 0; i < LOOKS && !listens(DESKTOP_X11); i++)
        usleep(LOOK_US);
    child_exec(&(struct child_opts){ .argv = argv,
                                     .env = child_env(&a, false, init_workspace(in), NULL),
                                     .fds = { -1, -1, -1 },
                                     .cwd = init_workspace(in) });
}

/* --- the driver --- */

static size_t watch(struct hand *h, struct pollfd *fds, size_t max)
{
    struct desktop *d = h->self->state;

    if (!d || !d->rfb || !max || !rfb_alive(d->rfb))
        return 0;
    fds[0] = (struct pollfd){ rfb_fd(d->rfb), POLLIN, 0 };
    return 1;
}

static void idle(struct hand *h)
{
    struct desktop *d = h->self->state;

    if (d && d->rfb)
        (void)rfb_alive(d->rfb);
    if (d && d->recorder && waitpid(d->recorder, NULL, WNOHANG) == d->recorder) {
        d->lasted_ms = now_ms() - d->since_ms;
        d->recorder = 0;
    }
}

const struct driver_kind desktop_kind = { .name = "desktop", .watch = watch, .idle = idle };

/* A screen without a window manager is no desktop yet: nothing has the keyboard. Some seconds, not more: an agent may
 * have put something else in its place. */
static void await_manager(struct hand *h)
{
    struct err ignored;
    struct x11 *x = x11_open(DESKTOP_X11, &ignored);

    for (int64_t end = now_ms() + MANAGER_MS; x && !x11_managed(x) && now_ms() < end && h->self->wish == WISH_NONE;)
        (void)driver_poll(h, NULL, 0, LOOK_US / 1000);
    x11_close(x);
}

int desktop_wait(struct hand *h, struct err *e)
{
    while (!listens(DESKTOP_X11)) {
        if ((h->deadline_ms && now_ms() >= h->deadline_ms) || h->self->wish != WISH_NONE)
            return err_set(e, ERR_SYSTEM, "the desktop did not start");
        (void)driver_poll(h, NULL, 0, LOOK_US / 1000);
    }
    await_manager(h);
    return 0;
}

struct desktop *desktop_state(struct hand *h)
{
    struct desktop *d = h->self->state;

    if (!d) {
        d = calloc(1, sizeof *d);
        if (!d)
            abort();
        d->x = d->y = -1;
        h->self->state = d;
    }
    return d;
}

struct desktop *desktop_get(struct hand *h, struct err *e)
{
    struct desktop *d = desktop_state(h);

    if (d->rfb && !rfb_alive(d->rfb)) {
        rfb_close(d->rfb);
        d->rfb = NULL;
        d->buttons = 0;
        d->spare_n = d->next = 0;
        memset(d->held, 0, sizeof d->held);
        d->x = d->y = -1;
        d->restarted = true;
    }
    if (!d->rfb) {
        d->rfb = rfb_open(h, DESKTOP_RFB, e);
        if (d->rfb)
            await_manager(h);
    }
    return d->rfb ? d : NULL;
}

/* A program asks what a key makes when it hears that the keyboard has changed, not when the key was pressed. So a key is
 * lent again only after a while in which programs have taken what was typed with it. */
static int lend(struct hand *h, struct desktop *d, uint32_t keysym, struct err *e)
{
    if ((keysym >= 0x20 && keysym < 0x7f) || (keysym >= 0xfe00 && keysym <= 0xffff) || keysym >= 0x1008ff00)
        return 0;
    for (size_t i = 0; i < d->spare_n; i++)
        if (d->lent[i] == keysym)
            return 0;
    struct x11 *x = x11_open(DESKTOP_X11, e);
    int r = x ? 0 : -EIO;
    if (r == 0 && !d->spare_n) {
        memset(d->lent, 0, sizeof d->lent);
        r = x11_spare_keys(x, d->spare, ARRAY_LEN(d->spare), &d->spare_n, e);
    }
    if (r == 0 && !d->spare_n)
        r = err_set(e, ERR_SYSTEM, "the keyboard has no key to spare");
    if (r == 0 && d->next == d->spare_n) {
        d->next = 0;
        r = rfb_sync(h, d->rfb, e);
        if (r == 0)
            r = rfb_pause(h, d->rfb, now_ms() + LEND_MS, e);
    }
    if (r == 0)
        r = x11_bind(x, d->spare[d->next], keysym, e);
    if (r == 0)
        d->lent[d->next++] = keysym;
    x11_close(x);
    return r;
}

/* The server takes a keysym at its word: for an "a" it lets go of shift. */
static uint32_t shifted(const struct desktop *d, uint32_t sym)
{
    static const char plain[] = "`1234567890-=[]\\;',./", other[] = "~!@#$%^&*()_+{}|:\"<>?";
    bool shift = false;

    for (size_t i = 0; i < ARRAY_LEN(d->held); i++)
        shift |= d->held[i].key == KEY_SHIFT_LEFT || d->held[i].key == KEY_SHIFT_RIGHT;
    if (!shift || sym >= 0x7f || sym <= 0x20)
        return sym;
    if (sym >= 'a' && sym <= 'z')
        return sym - 'a' + 'A';
    const char *at = strchr(plain, (int)sym);
    return at ? (uint32_t)other[at - plain] : sym;
}

int desktop_key(struct hand *h, struct desktop *d, uint32_t keysym, bool down, struct err *e)
{
    uint32_t sent = shifted(d, keysym), looked_for = down ? 0 : keysym;
    int r = down ? lend(h, d, sent, e) : 0;

    d->gave_up = false;
    for (size_t i = 0; r == 0 && i < ARRAY_LEN(d->held); i++)
        if (d->held[i].key == looked_for) {
            if (!down)
                sent = d->held[i].sent;
            d->held[i].key = down ? keysym : 0;
            d->held[i].sent = sent;
            break;
        }
    return r < 0 ? r : rfb_key(h, d->rfb, sent, down, e);
}

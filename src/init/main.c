/* Pid 1 of a box. Supervise starts it as root of the box's user namespace, with the descriptors of wire/boot.h; it
 * answers serve's calls until nobody comes any more or it is told to end. When it exits, the kernel kills the rest. */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/log.h"
#include "base/loop.h"
#include "init/browser.h"
#include "init/child.h"
#include "init/context.h"
#include "init/desktop.h"
#include "init/hands.h"
#include "init/huge_code.h"
#include "init/init.h"
#include "init/kernel.h"
#include "init/link.h"
#include "init/rtnetlink.h"
#include "init/script.h"
#include "init/shell.h"
#include "init/sudo.h"
#include "isolate/child.h"
#include "isolate/spawner.h"

static int signal_fd;

static void on_signal(void *arg, uint32_t events)
{
    struct init *in = arg;
    struct signalfd_siginfo info;

    (void)events;
    while (read(signal_fd, &info, sizeof info) == sizeof info) {
        if (info.ssi_signo == SIGCHLD)
            child_reap(in);
        else if (info.ssi_pid ==
                 0) /* from outside: senders there have no number here. Root of the box may not end it */
            loop_stop(in->loop);
    }
}

static int catch_signals(struct init *in, struct err *e)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_SETMASK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGINT, SIG_DFL); /* what was ignored by who started us would stay so in every program of the box */
    signal(SIGQUIT, SIG_DFL);
    signal(SIGHUP, SIG_DFL);
    signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signal_fd < 0 || !loop_watch(in->loop, signal_fd, EPOLLIN, on_signal, in))
        return err_sys(e, "watch signals");
    return 0;
}

void init_as_user(struct init *in)
{
    if (in->as_user)
        return;
    in->as_user = true;
    setfsgid(BOX_GID);
    setfsuid(BOX_UID);
}

void init_as_root(struct init *in)
{
    if (!in->as_user)
        return;
    in->as_user = false;
    setfsuid(0);
    setfsgid(0);
}

int init_check_dir(struct init *in, const char *dir)
{
    char inside[LIMIT_PATH + 3];
    struct stat st;

    if (snprintf(inside, sizeof inside, "%s/.", dir) >= (int)sizeof inside)
        return -ENAMETOOLONG;
    init_as_user(in);
    int r = stat(inside, &st) < 0 ? -errno : 0;
    init_as_root(in);
    return r;
}

int init_check_file(struct init *in, const char *path)
{
    struct stat st;

    init_as_user(in);
    int r = stat(path, &st) < 0 ? -errno : S_ISDIR(st.st_mode) ? -EISDIR : 0;
    if (r == 0 && S_ISREG(st.st_mode)) {
        auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        r = fd < 0 ? -errno : 0;
    }
    init_as_root(in);
    return r;
}

static void before_callback(void *arg)
{
    init_as_root(arg);
}

static int read_boot(struct boot *boot, struct err *e)
{
    ssize_t n = read(BOOT_FD_CONFIG, boot, sizeof *boot);

    close(BOOT_FD_CONFIG);
    if (n != (ssize_t)sizeof *boot)
        return err_set(e, ERR_INVALID, "boot configuration has %zd bytes, not %zu", n, sizeof *boot);
    if (boot->version != BOOT_VERSION)
        return err_set(e, ERR_INVALID, "boot configuration of version %u, not %d", boot->version, BOOT_VERSION);
    return 0;
}

static void say_ready(void)
{
    (void)!write(BOOT_FD_READY, "R", 1);
    close(BOOT_FD_READY);
}

static void on_warm(void *arg, const struct shell_report *r)
{
    (void)arg, (void)r;
    say_ready();
}

/* Ready is said either way: a box whose image has no bash can still do file work. */
static void warm_up(struct init *in)
{
    if (in->boot.warm_shell || in->boot.warm_context || in->boot.warm_kernel || in->boot.warm_browser)
        child_settle();
    if (in->boot.warm_kernel)
        kernel_ahead(in);

    struct err e;
    struct shell_command noop = { .text = STR(":") };
    struct shell_watch w = { .cb = on_warm };
    struct shell *s = in->boot.warm_shell ? shell_get(in, STR(""), NULL) : NULL;

    if (in->boot.warm_browser && scripts_write(&e) >= 0 &&
        (!in->boot.habits.browser_headed || desktop_up(in, 0, 0, &e) >= 0))
        driver_warm(in, &(struct driver_ask){ .kind = &browser_kind, .name = STR("browser"), .label = STR("browser") });
    if (in->boot.warm_context && scripts_write(&e) >= 0)
        driver_spare(in, &context_kind);
    if (!s || shell_run(s, &noop, &w, NULL) < 0)
        say_ready();
    child_settle();
    if (in->boot.warm_hand)
        hands_warm(in);
}

/* Made before anything of an agent runs, so nobody changes the path meanwhile. */
static void make_workspace(struct init *in)
{
    char *path = in->boot.habits.workspace;
    struct stat st;

    for (char *p = path[0] ? strchr(path + 1, '/') : NULL;; p = strchr(p + 1, '/')) {
        if (p)
            *p = 0;
        if (path[0] && mkdir(path, 0755) == 0)
            (void)!chown(path, BOX_UID, BOX_GID);
        if (!p)
            break;
        *p = '/';
    }
    if (path[0] && (stat(path, &st) < 0 || !S_ISDIR(st.st_mode))) {
        log_warn("no workspace", "path=%s errno=%d, tools begin in %s", path, errno, BOX_HOME);
        path[0] = 0;
    }
}

static int init_run(struct init *in, struct err *e)
{
    int r;

    child_profile(&in->boot);
    make_workspace(in);
    in->loop = loop_new();
    if (!in->loop)
        return err_sys(e, "make a loop");
    loop_before(in->loop, before_callback, in);
    if (mkdir(BOX_RUN_DIR, 0755) < 0 && errno != EEXIST)
        return err_sys(e, "make %s", BOX_RUN_DIR);
    r = catch_signals(in, e);
    if (r < 0)
        return r;
    (void)fcntl(BOOT_FD_LISTEN, F_SETFL, O_NONBLOCK);
    (void)fcntl(BOOT_FD_LISTEN, F_SETFD, FD_CLOEXEC);
    (void)fcntl(BOOT_FD_READY, F_SETFD, FD_CLOEXEC);
    r = link_open(in, BOOT_FD_LISTEN, e);
    if (r < 0)
        return r;
    rtnetlink_open(in);
    hands_init(in);
    warm_up(in);
    r = in->boot.sudo ? sudo_listen(in, e) : 0; /* nobody has called yet */
    return r < 0 ? r : loop_run(in->loop);
}

int main(int argc, char **argv)
{
    const char *slash = argc > 0 ? strrchr(argv[0], '/') : NULL;
    struct init in = { 0 };
    struct err e = { 0 };

    if (argc > 0 && strcmp(slash ? slash + 1 : argv[0], "sudo") == 0)
        return sudo_main(argc, argv);
    log_role("init");
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    umask(022);
    mallopt(M_MMAP_THRESHOLD, 64 * 1024); /* a big reply goes back to the kernel as soon as it is freed */
    mallopt(M_TRIM_THRESHOLD, 64 * 1024);
    int r = 0;
    const char *spawner = getenv(SPAWNER_VARIABLE);
    if (spawner) {
        huge_code();
        spawner_serve(atoi(spawner), &in.boot);
    } else
        r = read_boot(&in.boot, &e);
    if (r >= 0)
        r = init_run(&in, &e);
    if (r < 0)
        log_error("init ends", "error=\"%s\"", e.msg);
    return r < 0;
}

/* The sudo of a box: asks init to run a program as root of the box. The real sudo's everyday options are understood;
 * there are no passwords and no policy, because a box's root is only root of its box. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "init/sudo.h"
#include "init/sudo_wire.h"

struct wish {
    bool as_user, all_env, shell, login, nothing;
    char **set; /* VAR=value before the program */
    int set_n;
    char **argv;
    int argc;
};

static int usage(const char *why)
{
    fprintf(stderr, "sudo: %s\nusage: sudo [-EHnSikvs] [-u user] [VAR=value] [command [arguments]]\n", why);
    return 1;
}

static int set_user(struct wish *w, const char *name)
{
    if (!name)
        return usage("option -u needs a user");
    w->as_user = !strcmp(name, "gem") || !strcmp(name, "1000") || !strcmp(name, "#1000");
    if (!w->as_user && strcmp(name, "root") && strcmp(name, "0") && strcmp(name, "#0"))
        return usage("this box knows the users root and gem only");
    return 0;
}

static int long_option(struct wish *w, const char *o)
{
    if (!strcmp(o, "--preserve-env") || !strncmp(o, "--preserve-env=", 15))
        w->all_env = true;
    else if (!strcmp(o, "--login"))
        w->login = true;
    else if (!strcmp(o, "--shell"))
        w->shell = true;
    else if (!strcmp(o, "--validate") || !strcmp(o, "--reset-timestamp") || !strcmp(o, "--remove-timestamp"))
        w->nothing = true;
    else if (!strncmp(o, "--user=", 7))
        return set_user(w, o + 7);
    else if (strcmp(o, "--non-interactive") && strcmp(o, "--set-home") && strcmp(o, "--stdin"))
        return usage("unknown option");
    return 0;
}

/* One word of short options; *at may move to the argument of -u. */
static int short_options(struct wish *w, int argc, char **argv, int *at)
{
    for (const char *o = argv[*at] + 1; *o; o++) {
        const char *value;
        switch (*o) {
        case 'E': w->all_env = true; break;
        case 'i': w->login = true; break;
        case 's': w->shell = true; break;
        case 'v':
        case 'k':
        case 'K': w->nothing = true; break;
        case 'n':
        case 'H':
        case 'S':
        case 'A':
        case 'b': break;
        case 'u':
        case 'g':
        case 'p':
        case 'C':
            value = o[1] ? o + 1 : *at + 1 < argc ? argv[++*at] : NULL;
            return *o == 'u' ? set_user(w, value) : value ? 0 : usage("option needs a value");
        default: return usage("unknown option");
        }
    }
    return 0;
}

static int read_options(struct wish *w, int argc, char **argv)
{
    int at = 1;

    for (; at < argc && argv[at][0] == '-' && argv[at][1]; at++) {
        if (!strcmp(argv[at], "--")) {
            at++;
            break;
        }
        int r = argv[at][1] == '-' ? long_option(w, argv[at]) : short_options(w, argc, argv, &at);
        if (r)
            return r;
    }
    w->set = argv + at;
    while (at < argc && strchr(argv[at], '=') && argv[at][0] != '=' && argv[at][0] != '/') {
        at++;
        w->set_n++;
    }
    w->argv = argv + at;
    w->argc = argc - at;
    return 0;
}

static bool wanted_env(const char *entry)
{
    static const char *const names[] = { "TERM=",       "LANG=",        "LC_",          "DISPLAY=",
                                         "COLORTERM=",  "http_proxy=",  "https_proxy=", "no_proxy=",
                                         "HTTP_PROXY=", "HTTPS_PROXY=", "NO_PROXY=",    "DEBIAN_FRONTEND=" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (!strncmp(entry, names[i], strlen(names[i])))
            return true;
    return false;
}

static uint32_t add_env(const struct wish *w, struct buf *b)
{
    uint32_t n = 2;

    buf_add(b, "SUDO_USER=gem", sizeof "SUDO_USER=gem");
    buf_add(b, "SUDO_UID=1000", sizeof "SUDO_UID=1000");
    for (char **e = environ; *e; e++)
        if (strchr(*e, '=') && (w->all_env || wanted_env(*e))) {
            buf_add(b, *e, strlen(*e) + 1);
            n++;
        }
    for (int i = 0; i < w->set_n; i++, n++)
        buf_add(b, w->set[i], strlen(w->set[i]) + 1);
    return n;
}

/* -s and -i run a shell; with words, the shell runs these. */
static uint32_t add_argv(const struct wish *w, struct buf *b)
{
    uint32_t n = 0;

    if (w->shell || w->login) {
        buf_add(b, "bash", 5);
        n++;
        if (w->login) {
            buf_add(b, "-l", 3);
            n++;
        }
        if (w->argc) {
            buf_add(b, "-c", 3);
            for (int i = 0; i < w->argc; i++) {
                buf_z(b, i ? " " : "");
                buf_z(b, w->argv[i]);
            }
            buf_char(b, 0);
            n += 2;
        }
        return n;
    }
    for (; n < (uint32_t)w->argc; n++)
        buf_add(b, w->argv[n], strlen(w->argv[n]) + 1);
    return n;
}

static int send_request(int fd, const struct wish *w)
{
    struct buf b;
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(4 * sizeof(int))];
    } control = { 0 };
    struct sudo_request req = { .as_user = w->as_user };
    int fds[4] = { 0, 1, 2, open(w->login ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC) };

    for (int i = 0; i < 3; i++)
        if (fcntl(i, F_GETFD) < 0)
            (void)!open("/dev/null", O_RDWR); /* takes the lowest free number, which is i */
    mode_t mask = umask(022);
    umask(mask);
    buf_init(&b, SUDO_REQUEST_MAX);
    buf_add(&b, &req, sizeof req);
    req.umask = mask;
    req.argc = add_argv(w, &b);
    req.envc = add_env(w, &b);
    if (b.full) {
        errno = E2BIG;
        return -1;
    }
    memcpy(b.p, &req, sizeof req);

    struct iovec iov = { b.p, b.n };
    struct msghdr msg = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control
    };
    struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof fds);
    memcpy(CMSG_DATA(c), fds, sizeof fds);
    return sendmsg(fd, &msg, MSG_NOSIGNAL) < 0 ? -1 : 0;
}

/* Ends as the program ended. */
static int end_as(int status)
{
    if (!WIFSIGNALED(status))
        return WEXITSTATUS(status);
    sigset_t none;
    sigemptyset(&none);
    signal(WTERMSIG(status), SIG_DFL);
    sigprocmask(SIG_SETMASK, &none, NULL);
    raise(WTERMSIG(status));
    return 128 + WTERMSIG(status);
}

static int wait_for_end(int fd, int signals)
{
    struct pollfd p[2] = { { .fd = fd, .events = POLLIN }, { .fd = signals, .events = POLLIN } };
    struct signalfd_siginfo info;
    int status;

    for (;;) {
        if (poll(p, 2, -1) < 0 && errno != EINTR)
            return 1;
        if (p[1].revents && read(signals, &info, sizeof info) == sizeof info) {
            unsigned char sig = (unsigned char)info.ssi_signo;
            (void)send(fd, &sig, 1, MSG_NOSIGNAL);
        }
        if (p[0].revents) {
            if (recv(fd, &status, sizeof status, 0) == sizeof status)
                return end_as(status);
            fprintf(stderr, "sudo: the program could not be started\n");
            return 1;
        }
    }
}

int sudo_main(int argc, char **argv)
{
    struct sockaddr_un to = { .sun_family = AF_UNIX, .sun_path = SUDO_SOCKET };
    struct wish w = { 0 };
    sigset_t pass;

    int r = read_options(&w, argc, argv);
    if (r)
        return r;
    if (w.argc == 0 && !w.shell && !w.login)
        return w.nothing ? 0 : usage("no command");
    sigemptyset(&pass);
    sigaddset(&pass, SIGINT);
    sigaddset(&pass, SIGTERM);
    sigaddset(&pass, SIGHUP);
    sigaddset(&pass, SIGQUIT);
    sigprocmask(SIG_BLOCK, &pass, NULL);
    int signals = signalfd(-1, &pass, SFD_CLOEXEC | SFD_NONBLOCK);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to) < 0 || send_request(fd, &w) < 0) {
        fprintf(stderr, "sudo: ask init: %s\n", strerror(errno));
        return 1;
    }
    return wait_for_end(fd, signals);
}

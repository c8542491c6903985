/* The first process of the server and the only one that must not die: it starts the roles, starts them again when
 * they end, and holds the listening socket, so that a client never meets a closed port while serve restarts. For
 * supervise it keeps descriptors that nobody could open again (fdstore.h).
 * Boxes are nobody's children but its own: when supervise dies, their inits are handed to this subreaper. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/loop.h"
#include "access/access.h"
#include "daemon/config.h"
#include "daemon/daemon.h"
#include "daemon/fdstore.h"
#include "daemon/serve.h"
#include "daemon/role.h"

enum { ROLES = 3, QUICK_MS = 2000, BACKOFF_MAX_MS = 2000, FAILURES_MAX = 10, LISTEN_TRIES = 50 };

enum { EXIT_GAVE_UP = 1, EXIT_SETTING = 2 }; /* what the command line calls failed and wrong usage */

struct role {
    const char *name;
    pid_t pid; /* 0: not running */
    int64_t started_ms, restart_ms;
    int64_t backoff_ms;
    int quick_failures;
    bool ever_lived; /* it ran long enough to count as started */
};

/* Stopped in this order: no new calls, no new boxes, then the rest of the log is synced. */
static struct role roles[ROLES] = { { .name = "serve" }, { .name = "supervise" }, { .name = "recorder" } };

static struct fdstore store;

/* A socket file that only its owner can use. One that nobody listens on any more is replaced. */
static int open_unix(const char *path, struct err *e)
{
    struct sockaddr_un a = { .sun_family = AF_UNIX };

    if (strlen(path) >= sizeof a.sun_path)
        return err_set(e, ERR_LIMIT, "listen: the path '%s' is longer than %zu bytes", path, sizeof a.sun_path - 1);
    strcpy(a.sun_path, path);
    auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return err_sys(e, "listen: cannot make a socket");
    if (connect(fd, (struct sockaddr *)&a, sizeof a) == 0)
        return err_set(e, ERR_EXISTS, "listen: a server listens on %s already", path);
    if (errno == ECONNREFUSED)
        (void)unlink(path);
    mode_t before = umask(0177);
    bool ok = bind(fd, (struct sockaddr *)&a, sizeof a) == 0 && listen(fd, 1024) == 0;
    umask(before);
    if (!ok)
        return err_sys(e, "listen: cannot listen on %s", path);
    return TAKE_FD(fd);
}

static int open_listen(const char *text, struct err *e)
{
    if (strncmp(text, "unix:", 5) == 0)
        return open_unix(text + 5, e);
    char host[256];
    const char *colon = strrchr(text, ':');
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV }, *found;

    if (!colon || (size_t)(colon - text) >= sizeof host)
        return err_set(e, ERR_INVALID, "listen: '%s' is not HOST:PORT", text);
    size_t n = (size_t)(colon - text);
    const char *from = text;
    if (n > 1 && text[0] == '[' && text[n - 1] == ']') {
        from++;
        n -= 2;
    }
    memcpy(host, from, n);
    host[n] = 0;
    int r = getaddrinfo(host[0] ? host : NULL, colon + 1, &hints, &found);
    if (r != 0)
        return err_set(e, ERR_INVALID, "listen: '%s': %s", text, gai_strerror(r));
    auto_close int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int one = 1;
    if (fd >= 0)
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    /* The roles of a guard that was killed a moment ago may still be dying with the port in their hands. */
    bool ok = false;
    for (int tries = 0; fd >= 0 && !ok && tries < LISTEN_TRIES; tries++) {
        if (tries)
            nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
        ok = bind(fd, found->ai_addr, found->ai_addrlen) == 0 && listen(fd, 1024) == 0;
        if (!ok && errno != EADDRINUSE)
            break;
    }
    freeaddrinfo(found);
    if (!ok)
        return err_sys(e, "listen: cannot listen on %s", text);
    return TAKE_FD(fd);
}

static int make_home(const struct config *c, struct err *e)
{
    static const struct {
        const char *name;
        mode_t mode;
        bool served; /* belongs to the user of serve */
    } dirs[] = { { "", 0755, false },        { "/log", 0700, true },     { "/blobs", 0700, true },
                 { "/run", 0755, true },     { "/images", 0755, false }, { "/layers", 0700, false },
                 { "/objects", 0700, false } };
    char path[512];
    uid_t uid;
    gid_t gid;

    int r = serve_ids(c, &uid, &gid, e);
    if (r < 0)
        return r;
    if (strlen(c->home) > 60) /* unix socket paths have 107 bytes */
        return err_set(e, ERR_LIMIT, "home: '%s' is longer than 60 bytes", c->home);
    for (char *p = strchr(c->home + 1, '/'); p; p = strchr(p + 1, '/')) {
        *p = 0;
        (void)mkdir(c->home, 0755);
        *p = '/';
    }
    for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
        snprintf(path, sizeof path, "%s%s", c->home, dirs[i].name);
        if (mkdir(path, dirs[i].mode) < 0 && errno != EEXIST)
            return err_sys(e, "home: make %s", path);
        if (dirs[i].served && getuid() == 0 && lchown(path, uid, gid) < 0) /* serve's user could put a link there */
            return err_sys(e, "home: chown %s", path);
    }
    /* the index lives beside the directories and belongs to recorder */
    snprintf(path, sizeof path, "%s", c->home);
    if (getuid() == 0 && chown(path, uid, gid) < 0)
        return err_sys(e, "home: chown %s", path);
    return 0;
}

/* One server per home: another one's supervise would take over its boxes. The lock is on a directory that nobody else can
 * open, and free at once when guard is gone. One that is just ending is waited for, as its port is. */
static int lock_home(const char *home, struct err *e)
{
    char path[512];

    snprintf(path, sizeof path, "%s/layers", home);
    auto_close int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return err_sys(e, "home: open %s", path);
    for (int tries = 0; flock(fd, LOCK_EX | LOCK_NB) < 0; tries++) {
        if (errno != EWOULDBLOCK)
            return err_sys(e, "home: lock %s", path);
        if (tries == LISTEN_TRIES)
            return err_set(
                e, ERR_BUSY,
                "home: another server runs on '%s'; end it, or give this one a directory of its own (--home DIR, "
                "SANDGLASS_HOME)",
                home);
        nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
    }
    return TAKE_FD(fd);
}

/* The one descriptor that a role gets, at the number where it looks for it. The others close themselves. */
static void pass(int fd, int as)
{
    if (fd == as)
        fcntl(fd, F_SETFD, 0);
    else
        dup2(fd, as);
}

static void start_role(struct role *r, const struct config *c, int listen_fd)
{
    struct err e;
    char self[4096], parent[16];
    const char *head[] = { "sandglass", "role", r->name, parent, NULL };

    snprintf(parent, sizeof parent, "%d", (int)getpid());
    char **argv = config_argv(c, head);
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n < 0)
        n = 0;
    self[n] = 0;
    bool supervise = strcmp(r->name, "supervise") == 0;
    auto_close int store_fd = supervise ? fdstore_renew(&store, &e) : -1;
    if (supervise && store_fd < 0)
        log_warn("no descriptors are kept", "error=\"%s\", snapshots fail after a restart", e.msg);
    pid_t pid = fork();
    if (pid == 0) {
        sigset_t none;
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        if (strcmp(r->name, "serve") == 0)
            pass(listen_fd, GUARD_LISTEN_FD);
        if (store_fd >= 0)
            pass(store_fd, GUARD_STORE_FD);
        execv(self, argv);
        log_error("cannot start a role", "role=%s program='%s' errno=%d", r->name, self, errno);
        _exit(127);
    }
    config_argv_free(argv);
    if (pid < 0) {
        log_error("cannot start a role", "role=%s errno=%d, trying again", r->name, errno);
        r->restart_ms = now_ms() + 100;
        return;
    }
    r->pid = pid;
    r->started_ms = now_ms();
    r->restart_ms = 0;
}

static bool shutdown_asked, setting_is_wrong;

/* false: it never worked, and keeps failing at once or knows why it will: give up with its message on the screen. */
static bool role_ended(struct role *r, int status)
{
    bool quick = now_ms() - r->started_ms < QUICK_MS;

    r->pid = 0;
    if (!quick) {
        r->ever_lived = true;
        r->backoff_ms = 0;
        r->quick_failures = 0;
    }
    if (!r->ever_lived && WIFEXITED(status) && WEXITSTATUS(status) == SERVE_EXIT_SETTING) {
        setting_is_wrong = true;
        return false;
    }
    log_warn("role ended", "role=%s %s=%d, starting it again", r->name, WIFSIGNALED(status) ? "signal" : "status",
             WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    if (quick && WIFEXITED(status) && ++r->quick_failures >= (r->ever_lived ? 1000 : FAILURES_MAX))
        return false;
    /* A killed role comes back at once; one that exits by itself is given time. */
    r->restart_ms = now_ms() + (WIFSIGNALED(status) ? 0 : r->backoff_ms);
    r->backoff_ms = r->backoff_ms ? r->backoff_ms * 2 : 50;
    if (r->backoff_ms > BACKOFF_MAX_MS)
        r->backoff_ms = BACKOFF_MAX_MS;
    return true;
}

static bool reap(void)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        for (int i = 0; i < ROLES; i++) {
            if (roles[i].pid != pid)
                continue;
            if (i == 0 && WIFEXITED(status) && WEXITSTATUS(status) == SERVE_EXIT_SHUTDOWN) {
                roles[i].pid = 0;
                shutdown_asked = true;
                return false;
            }
            if (!role_ended(&roles[i], status))
                return false;
        }
    return true;
}

static void stop_roles(const struct config *c)
{
    for (int i = 0; i < ROLES; i++) {
        int64_t until = now_ms() + c->shutdown_grace_ms + 2000 + (c->shutdown_kill ? SERVE_KILL_MS : 0);
        if (!roles[i].pid)
            continue;
        kill(roles[i].pid, SIGTERM); /* our own child, not yet reaped: the number is still its own */
        while (waitpid(roles[i].pid, NULL, WNOHANG) == 0) {
            if (now_ms() > until)
                kill(roles[i].pid, SIGKILL);
            fdstore_turn(&store); /* supervise waits for its descriptors before it hears that it should end */
            nanosleep(&(struct timespec){ .tv_nsec = 5000000 }, NULL);
        }
    }
}

static int watch(const struct config *c, int listen_fd, int signals)
{
    for (;;) {
        int64_t next = 3600000, now = now_ms();
        for (int i = 0; i < ROLES; i++) {
            struct role *r = &roles[i];
            if (!r->pid && r->restart_ms <= now)
                start_role(r, c, listen_fd);
            if (!r->pid && r->restart_ms - now < next)
                next = r->restart_ms - now > 1 ? r->restart_ms - now : 1;
        }
        struct pollfd p[] = { { signals, POLLIN, 0 }, { store.socket, fdstore_events(&store), 0 } };
        (void)poll(p, ARRAY_LEN(p), (int)next);
        if (p[1].revents)
            fdstore_turn(&store);
        struct signalfd_siginfo si = { 0 };
        if (read(signals, &si, sizeof si) == sizeof si && (si.ssi_signo == SIGTERM || si.ssi_signo == SIGINT))
            return 0;
        if (si.ssi_signo == SIGHUP && roles[0].pid)
            kill(roles[0].pid, SIGHUP); /* serve reads its files again */
        if (!reap()) {
            if (shutdown_asked)
                return 0;
            if (setting_is_wrong)
                return EXIT_SETTING;
            log_error("giving up", "a role cannot start; see its message above");
            return EXIT_GAVE_UP;
        }
    }
}

/* Room for what is kept, and for supervise, which has three for each box. */
static void raise_files(void)
{
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) < 0)
        return;
    files.rlim_cur = files.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &files);
}

/* With the port that the kernel chose, if the setting has 0. */
static void print_url(const struct config *c, int listen_fd, char *out, size_t size)
{
    struct sockaddr_storage a;
    socklen_t n = sizeof a;
    char host[INET6_ADDRSTRLEN], port[8];

    if (strncmp(c->listen, "unix:", 5) == 0 || getsockname(listen_fd, (struct sockaddr *)&a, &n) < 0 ||
        getnameinfo((struct sockaddr *)&a, n, host, sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV) !=
            0) {
        snprintf(out, size, "%s", c->listen);
        return;
    }
    bool six = a.ss_family == AF_INET6;
    snprintf(out, size, "%s://%s%s%s:%s", c->tls_cert[0] ? "https" : "http", six ? "[" : "", host, six ? "]" : "",
             port);
}

static void print_start(const struct config *c, const char *url)
{
    AUTO(buf_done) struct buf b = { .cap = 64 * KiB };
    struct jw w = { .out = &b };

    jw_obj(&w);
    jw_kz(&w, "url", url);
    jw_kz(&w, "home", c->home);
    jw_kint(&w, "pid", getpid());
    jw_obj_end(&w);
    buf_char(&b, '\n');
    (void)!write(STDOUT_FILENO, b.p, b.n);
}

int guard_main(const struct config *c, bool json)
{
    struct err e;
    sigset_t set;
    char url[512];

    log_max = c->log_level;
    log_role("guard");
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGHUP);
    sigprocmask(SIG_BLOCK, &set, NULL);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    raise_files();
    fdstore_init(&store);
    auto_close int signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    struct access_opts access = serve_access(c);
    if (access_refuse_start(&access, c->listen, &e) < 0) {
        fprintf(stderr, "sandglass serve: %s\n", e.msg);
        return e.code == ERR_DENIED ? 1 : 2; /* a key that is none is a wrong setting, as others are */
    }
    auto_close int listen_fd = open_listen(c->listen, &e);
    if (signals < 0)
        err_sys(&e, "signalfd");
    auto_close int lock = -1;
    if (signals < 0 || listen_fd < 0 || make_home(c, &e) < 0 || (lock = lock_home(c->home, &e)) < 0) {
        fprintf(stderr, "sandglass serve: %s\n", e.msg);
        return 1;
    }
    print_url(c, listen_fd, url, sizeof url);
    log_info("listening", "url=%s home=%s", url, c->home);
    if (json)
        print_start(c, url);
    int r = watch(c, listen_fd, signals);
    close(TAKE_FD(listen_fd)); /* serve closes its own: from then on clients hear at once that nobody is here */
    stop_roles(c);
    return r;
}

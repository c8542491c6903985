/* The proof: a supervise of our own makes real boxes in a home and control groups of its own, beside whatever server
 * runs here, and takes them away again. What it cannot do, no server here can. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "base/auto.h"
#include "base/loop.h"
#include "daemon/config.h"
#include "daemon/doctor.h"
#include "daemon/role.h"
#include "isolate/cgroup.h"

enum { START_MS = 15000, ANSWER_MS = 15000, STOP_MS = 8000 };

struct trial {
    struct config config; /* the caller's, but for home, group and pool */
    const char *beside;   /* the server's own home */
    char home[64], group[80], log[80];
    pid_t pid;
    int fd;
    uint64_t seq;
    on_doctor_row *report;
    void *arg;
};

static const char cgroup_fix[] = "boot with systemd.unified_cgroup_hierarchy=1, or mount the controller's hierarchy";

static void row(const struct trial *t, const char *name, const char *detail, const char *off, const char *fix, bool ok)
{
    t->report(t->arg, &(struct doctor_row){ .group = "boxes",
                                            .name = name,
                                            .ok = ok,
                                            .detail = detail,
                                            .off = off,
                                            .fix = fix,
                                            .needed = strcmp(name, "make a box") == 0 });
}

/* ---- a supervise of our own ---- */

static int make_home(struct trial *t, struct err *e)
{
    static const char *const dirs[] = { "", "/log", "/blobs", "/run", "/images" };
    char path[80];
    uid_t uid;
    gid_t gid;

    /* In the server's own home, if there is one yet: in a container /tmp may not bear what that one bears. */
    bool beside = strlen(t->beside) <= 40 && access(t->beside, W_OK) == 0;
    snprintf(t->home, sizeof t->home, "%.40s/doctor.XXXXXX", beside ? t->beside : "/tmp");
    if (!mkdtemp(t->home))
        return err_sys(e, "make %s", t->home);
    int r = serve_ids(&t->config, &uid, &gid, e);
    for (size_t i = 0; r >= 0 && i < ARRAY_LEN(dirs); i++) {
        snprintf(path, sizeof path, "%s%s", t->home, dirs[i]);
        if ((i && mkdir(path, 0755) < 0) || chmod(path, 0755) < 0 || chown(path, uid, gid) < 0)
            r = err_sys(e, "prepare %s", path);
    }
    snprintf(t->log, sizeof t->log, "%s/log/doctor", t->home);
    return r;
}

static int start(struct trial *t, struct err *e)
{
    char parent[16];
    const char *const head[] = { "sandglass", "role", "supervise", parent, NULL };
    posix_spawn_file_actions_t actions;
    char self[4096] = { 0 };

    if (readlink("/proc/self/exe", self, sizeof self - 1) < 0)
        return err_sys(e, "/proc/self/exe");
    snprintf(parent, sizeof parent, "%d", (int)getpid());
    char **argv = config_argv(&t->config, head);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, t->log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    posix_spawn_file_actions_adddup2(&actions, 1, 2);
    errno = posix_spawn(&t->pid, self, &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    config_argv_free(argv);
    if (errno) {
        t->pid = 0;
        return err_sys(e, "start supervise");
    }
    return 0;
}

/* What it complained of last, which is more than "it ended". */
static void last_words(const struct trial *t, char *text, size_t size)
{
    char log[4096];
    auto_close int fd = open(t->log, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, log, sizeof log - 1);

    log[n > 0 ? n : 0] = '\0';
    char *error = strstr(log, "error=\"");
    if (error)
        error[7 + strcspn(error + 7, "\"\n")] = '\0';
    snprintf(text, size, "%.180s", error ? error + 7 : "supervise ended without a word");
}

static int dial(struct trial *t, struct err *e)
{
    struct sockaddr_un un = { .sun_family = AF_UNIX };
    char words[200];

    snprintf(un.sun_path, sizeof un.sun_path, "%s/run/supervise.sock", t->home);
    for (int64_t end = now_ms() + START_MS; now_ms() < end; usleep(10000)) {
        auto_close int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        if (fd >= 0 && connect(fd, (struct sockaddr *)&un, sizeof un) == 0) {
            t->fd = TAKE_FD(fd);
            return 0;
        }
        if (waitpid(t->pid, NULL, WNOHANG) == t->pid) {
            t->pid = 0;
            last_words(t, words, sizeof words);
            return err_set(e, ERR_SYSTEM, "%s", words);
        }
    }
    return err_set(e, ERR_BUSY, "supervise was not ready within %d s", START_MS / 1000);
}

static int ask(struct trial *t, enum seat_verb verb, const char *id, const struct box_spec *spec,
               struct seat_reply *ret, struct err *e)
{
    struct seat_request q = { .version = SEAT_VERSION, .verb = verb, .seq = ++t->seq };
    struct pollfd p = { .fd = t->fd, .events = POLLIN };

    snprintf(q.id, sizeof q.id, "%s", id);
    if (spec)
        q.spec = *spec;
    if (send(t->fd, &q, spec ? sizeof q : offsetof(struct seat_request, spec), MSG_NOSIGNAL) < 0)
        return err_sys(e, "ask supervise");
    for (int64_t end = now_ms() + ANSWER_MS; now_ms() < end;) {
        if (poll(&p, 1, 100) <= 0)
            continue;
        /* without room for control data, the kernel drops the gauges that come along */
        ssize_t n = recv(t->fd, ret, sizeof *ret, 0);
        if (n != (ssize_t)sizeof *ret)
            return err_set(e, ERR_SYSTEM, "supervise ended during the request");
        if (ret->seq != t->seq)
            continue;
        if (ret->result < 0)
            *e = ret->err;
        return ret->result;
    }
    return err_set(e, ERR_BUSY, "no answer within %d s", ANSWER_MS / 1000);
}

static void remove_groups(const struct trial *t)
{
    struct cgroup_mount mounts[CGROUP_TREES];
    static char info[65536];
    char path[400];
    size_t n = 0;
    auto_close int fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);

    for (ssize_t got; fd >= 0 && n < sizeof info - 1 && (got = read(fd, info + n, sizeof info - 1 - n)) > 0;)
        n += (size_t)got;
    info[n] = '\0';
    int count = cgroup_parse_mounts(info, mounts, CGROUP_TREES);
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof path, "%.255s/%.79s", mounts[i].path, t->group);
        (void)rmdir(path);
    }
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    (void)remove(path);
    return 0;
}

static void stop(struct trial *t)
{
    if (t->fd >= 0)
        close(t->fd);
    if (t->pid > 0) {
        (void)kill(t->pid, SIGTERM);
        int64_t end = now_ms() + STOP_MS;
        while (waitpid(t->pid, NULL, WNOHANG) == 0) {
            if (now_ms() > end)
                (void)kill(t->pid, SIGKILL);
            usleep(10000);
        }
    }
    remove_groups(t);
    if (t->home[0])
        (void)nftw(t->home, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

/* ---- what it is asked ---- */

static struct box_spec small_box(const struct config *c)
{
    struct box_spec s = { .image = "host",
                          .memory_bytes = 128 * MiB,
                          .disk_bytes = 16 * MiB,
                          .shm_bytes = 1 * MiB,
                          .cpu_milli = 1000,
                          .pids = 64,
                          .open_files = 256,
                          .sudo = c->box_sudo,
                          .allow_unenforced = true, /* to learn which */
                          .cold = true };
    return s;
}

static void report_limits(const struct trial *t, unsigned unenforced)
{
    static const struct {
        unsigned bit;
        const char *name, *off;
    } limits[] = {
        { BOX_CAN_MEMORY, "limit of memory", "box.memory; boxes are refused unless box.allow_unenforced is set" },
        { BOX_CAN_CPU, "limit of cpu", "box.cpu; boxes are refused unless box.allow_unenforced is set" },
        { BOX_CAN_PIDS, "limit of processes", "box.pids; boxes are refused unless box.allow_unenforced is set" },
        { BOX_CAN_DISK, "limit of disk", "box.disk; boxes are refused unless box.allow_unenforced is set" },
    };

    for (size_t i = 0; i < ARRAY_LEN(limits); i++) {
        bool ok = !(unenforced & limits[i].bit);
        row(t, limits[i].name, ok ? "set on a box" : "no control group took it", limits[i].off, cgroup_fix, ok);
    }
}

static void try_pause(struct trial *t, const char *id)
{
    struct seat_reply reply;
    struct err e = { 0 };
    int r = ask(t, SEAT_FREEZE, id, NULL, &reply, &e);

    if (r >= 0)
        r = ask(t, SEAT_THAW, id, NULL, &reply, &e);
    row(t, "pause and resume", r < 0 ? e.msg : "froze and thawed a box", "pause", cgroup_fix, r >= 0);
}

static int count_links(void)
{
    struct if_nameindex *list = if_nameindex();
    int n = 0;

    while (list && list[n].if_index)
        n++;
    if_freenameindex(list);
    return n;
}

/* A box with a way out has a link whose other end is among the host's own. */
static void try_network(struct trial *t)
{
    struct box_spec spec = small_box(&t->config);
    struct seat_reply reply;
    struct err e = { 0 };
    int before = count_links();

    spec.network = BOX_NETWORK_FULL;
    int r = ask(t, SEAT_CREATE, "", &spec, &reply, &e);
    bool made = r >= 0;
    if (made && count_links() <= before)
        r = err_set(&e, ERR_SYSTEM, "the box was made, but without a link to the host");
    if (made)
        (void)ask(t, SEAT_DESTROY, reply.id, NULL, &reply, &(struct err){ 0 });
    row(t, "network: full", r < 0 ? e.msg : "made a box with a link to the host", "boxes with network: full",
        "apt-get install nftables iproute2; modprobe -a veth nf_tables", r >= 0);
}

static bool try_boxes(struct trial *t, struct err *e)
{
    struct box_spec spec = small_box(&t->config);
    struct seat_reply made, gone;
    char detail[96];

    if (make_home(t, e) < 0 || start(t, e) < 0 || dial(t, e) < 0 || ask(t, SEAT_CREATE, "", &spec, &made, e) < 0)
        return false;
    snprintf(detail, sizeof detail, "made %s in %.1f ms", made.id, (double)made.setup_us / 1000);
    row(t, "make a box", detail, "", "", true);
    report_limits(t, made.unenforced);
    try_pause(t, made.id);
    int r = ask(t, SEAT_DESTROY, made.id, NULL, &gone, e);
    row(t, "destroy a box", r < 0 ? e->msg : "nothing is left of it", "destroying", "", r >= 0);
    try_network(t);
    return made.unenforced == 0 || t->config.box_allow_unenforced;
}

bool doctor_box(const struct config *c, on_doctor_row *report, void *arg)
{
    struct trial t = { .config = *c, .beside = c->home, .fd = -1, .report = report, .arg = arg };
    struct err e = { 0 };

    snprintf(t.group, sizeof t.group, "sandglass-doctor-%d", (int)getpid());
    t.config.home = t.home;
    t.config.cgroup_name = t.group;
    t.config.pool_size = 0;
    t.config.log_level = LOG_WARN;
    bool fine = try_boxes(&t, &e);
    if (!fine && e.code != ERR_NONE)
        row(&t, "make a box", e.msg, "everything that runs in boxes",
            getuid() == 0 ? "" : "run it as root: sudo sandglass doctor", false);
    stop(&t);
    return fine;
}

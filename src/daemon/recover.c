/* What a new life of supervise needs to know of the old one: run/box/<id>.state, one small file per box.
 * Boxes that were handed out are adopted; all else is taken away: parked and half-made ones, cgroups and sockets
 * without a state file, state files without a process. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/log.h"
#include "daemon/fdstore.h"
#include "daemon/seats.h"
#include "image/tree.h"

enum { STATE_MAGIC = 0x53474232 /* "SGB2" */ };

struct state_file {
    uint32_t magic, size;
    char id[BOX_ID_MAX];
    int32_t slot, pid;
    int64_t starttime;
    uint32_t address;
    bool handed_out, paused;
    struct scratch_note { /* its writable layer is found by this when the descriptor is lost */
        uint64_t dev;
        uint32_t type, bytes;
        unsigned char handle[32];
    } scratch;
    uint32_t sealed_count;
    char sealed[LIMIT_LAYERS][LAYER_ID_MAX];
    uint8_t sizes[LIMIT_LAYERS];
    bool sealed_is_all;
    char root[STATE_ROOT_MAX];
    struct box_spec spec;
};

static void file_name(char *out, size_t size, const char *id, const char *ext)
{
    snprintf(out, size, "%.31s.%s", id, ext);
}

int64_t state_starttime(pid_t pid)
{
    char path[32], text[1024];
    int64_t v = -1;

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    if (cgroup_read(AT_FDCWD, path, text, sizeof text) <= 0)
        return -1;
    char *p = strrchr(text, ')'); /* the name before it may contain anything */
    for (int field = 2; p && field < 22; field++)
        p = strchr(p + 1, ' ');
    if (p)
        v = strtoll(p + 1, NULL, 10);
    return v;
}

struct handle_room {
    struct file_handle h;
    char room[MAX_HANDLE_SZ];
};

static void find_note(const struct seat *x, struct scratch_note *ret)
{
    struct handle_room h = { .h.handle_bytes = sizeof ret->handle };
    struct stat st;
    int mount;

    if (x->proc.scratch < 0 || fstat(x->proc.scratch, &st) < 0 ||
        name_to_handle_at(x->proc.scratch, "", &h.h, &mount, AT_EMPTY_PATH) < 0)
        return;
    *ret = (struct scratch_note){ .dev = st.st_dev, .type = (uint32_t)h.h.handle_type, .bytes = h.h.handle_bytes };
    memcpy(ret->handle, h.h.f_handle, h.h.handle_bytes);
}

/* Guard had the descriptor and is gone. The box's /dev is a part of the same file system, mapped the same way, and any
 * mount of it will do to open a handle. If that is not what its init has there, it is not opened. */
static int reopen_scratch(const struct state_file *f)
{
    struct handle_room h = { .h = { .handle_bytes = f->scratch.bytes, .handle_type = (int)f->scratch.type } };
    char path[64];
    struct stat st;

    if (!f->scratch.bytes || f->scratch.bytes > sizeof f->scratch.handle)
        return -1;
    snprintf(path, sizeof path, "/proc/%d/root", (int)f->pid);
    auto_close int root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    auto_close int dev = root < 0 ? -1 : openat(root, "dev", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dev < 0 || fstat(dev, &st) < 0 || st.st_dev != f->scratch.dev)
        return -1;
    memcpy(h.h.f_handle, f->scratch.handle, f->scratch.bytes);
    return open_by_handle_at(dev, &h.h, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* Renamed into place: a kill leaves the old one or the new one. No sync: after a reboot it is worth nothing anyway. */
int state_save(const struct seat *x, struct err *e)
{
    char name[64], part[64];
    struct state_file f = { .magic = STATE_MAGIC,
                            .size = sizeof f,
                            .slot = x->slot,
                            .pid = x->proc.pid,
                            .starttime = x->starttime,
                            .address = x->address,
                            .handed_out = !x->for_pool || x->state == SEAT_OUT,
                            .paused = x->paused,
                            .sealed_count = x->sealed_count,
                            .spec = x->spec };

    memcpy(f.id, x->id, sizeof f.id);
    memcpy(f.sealed, x->sealed, sizeof f.sealed);
    memcpy(f.sizes, x->sizes, sizeof f.sizes);
    f.sealed_is_all = x->sealed_is_all;
    find_note(x, &f.scratch);
    memcpy(f.root, x->root, sizeof f.root);
    file_name(name, sizeof name, x->id, "state");
    file_name(part, sizeof part, x->id, "state.part");
    (void)unlinkat(x->all->box_dir, part, 0); /* the directory is serve's: nothing that lies there is written to */
    auto_close int fd = openat(x->all->box_dir, part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, &f, sizeof f) != sizeof f || renameat(x->all->box_dir, part, x->all->box_dir, name) < 0)
        return err_sys(e, "write %s", name);
    return 0;
}

/* One byte of an existing file: cheaper than a new one, and as atomic. */
int state_hand_out(const struct seat *x, struct err *e)
{
    char name[64];
    bool yes = true;

    file_name(name, sizeof name, x->id, "state");
    auto_close int fd = openat(x->all->box_dir, name, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || pwrite(fd, &yes, sizeof yes, offsetof(struct state_file, handed_out)) != sizeof yes)
        return err_sys(e, "write %s", name);
    return 0;
}

void state_note_scratch(const struct seat *x)
{
    struct scratch_note note = { 0 };
    char name[64];

    find_note(x, &note);
    file_name(name, sizeof name, x->id, "state");
    auto_close int fd = openat(x->all->box_dir, name, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || pwrite(fd, &note, sizeof note, offsetof(struct state_file, scratch)) != sizeof note)
        log_debug("place of a box's files not noted", "id=%s", x->id);
}

void state_remove(const struct seats *s, const char *id)
{
    static const char *const ext[] = { "state", "state.part", "sock" };
    char name[64];

    for (size_t i = 0; i < ARRAY_LEN(ext); i++) {
        file_name(name, sizeof name, id, ext[i]);
        (void)unlinkat(s->box_dir, name, 0);
    }
}

static bool read_state(const struct seats *s, const char *name, struct state_file *f)
{
    struct stat st;
    auto_close int fd = openat(s->box_dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

    /* the directory is serve's: a file of its own is not believed */
    return fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
           read(fd, f, sizeof *f) == sizeof *f && f->magic == STATE_MAGIC && f->size == sizeof *f &&
           memchr(f->id, 0, sizeof f->id) && f->sealed_count <= LIMIT_LAYERS &&
           strncmp(name, f->id, strlen(f->id)) == 0;
}

/* The descriptor first, then the check: from then on the pid cannot come to mean another process. */
static int open_process(const struct state_file *f)
{
    auto_close int fd = (int)syscall(SYS_pidfd_open, f->pid, 0);
    if (fd < 0 || state_starttime(f->pid) != f->starttime)
        return -1;
    return TAKE_FD(fd);
}

/* It may have been under the hands of a snapshot. Not only if it is frozen: it may be about to. */
static void wake(const struct seat *x)
{
    struct err e;

    if (!x->paused && cgroup_freeze(&x->all->groups, x->id, false, &e) < 0)
        log_debug("box not thawed", "id=%s error=\"%s\"", x->id, e.msg);
}

static void recover_state(struct seats *s, const struct state_file *f)
{
    struct seat *x = seats_add(s, f->id);

    x->spec = f->spec;
    x->adopted = true;
    x->slot = idmap_claim(&s->ids, f->slot) ? f->slot : -1;
    x->starttime = f->starttime;
    x->address = f->address;
    x->paused = f->paused;
    x->sealed_count = f->sealed_count;
    memcpy(x->sealed, f->sealed, sizeof x->sealed);
    memcpy(x->sizes, f->sizes, sizeof x->sizes);
    x->sealed_is_all = f->sealed_is_all;
    memcpy(x->root, f->sealed_count ? f->root : f->spec.parent_root, sizeof x->root);
    x->proc.pidfd = open_process(f);
    x->proc.pid = x->proc.pidfd >= 0 ? f->pid : 0;
    seat_set_state(x, SEAT_OUT);
    bool adopt = x->proc.pidfd >= 0 && x->slot >= 0 && f->handed_out;
    log_info(adopt ? "box adopted" : "box reaped", "id=%s pid=%d slot=%d%s%s%s", x->id, (int)f->pid, (int)f->slot,
             x->proc.pidfd < 0 ? ", it ended" : "", x->slot < 0 ? ", its ids belong to another" : "",
             f->handed_out ? "" : ", it was nobody's");
    if (!adopt) {
        seat_end(x, NULL);
        return;
    }
    seat_watch(x);
    wake(x);
    x->lost_scratch = reopen_scratch(f);
}

static void reap_unknown(void *arg, const char *id)
{
    struct seats *s = arg;

    if (strlen(id) >= BOX_ID_MAX || strncmp(id, "b-", 2) != 0 || seats_find(s, id))
        return;
    log_info("cgroup without a box reaped", "id=%s", id);
    struct seat *x = seats_add(s, id);
    seat_set_state(x, SEAT_OUT);
    cgroup_kill(&s->groups, id);
    seat_end(x, NULL);
}

static void each_file(struct seats *s, void (*f)(struct seats *s, const char *name))
{
    int fd = openat(s->box_dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);

    for (struct dirent *x; d && (x = readdir(d));)
        if (x->d_name[0] != '.')
            f(s, x->d_name);
    if (d)
        closedir(d);
}

static void on_state_file(struct seats *s, const char *name)
{
    struct state_file f;
    const char *dot = strrchr(name, '.');

    if (dot && strcmp(dot, ".state") == 0 && read_state(s, name, &f))
        recover_state(s, &f);
}

static void on_stray_file(struct seats *s, const char *name)
{
    char id[BOX_ID_MAX];
    const char *dot = strrchr(name, '.');

    if (!dot || (size_t)(dot - name) >= sizeof id)
        return;
    snprintf(id, sizeof id, "%.*s", (int)(dot - name), name);
    if (!seats_find(s, id))
        (void)unlinkat(s->box_dir, name, 0);
}

/* What boxes write is in file systems that only they have mounted: without these descriptors it cannot be reached. */
static void take_kept(struct seats *s)
{
    auto_free struct kept_fd *kept = NULL;
    size_t n;
    struct err e;

    if (fdstore_give(s->opts->store, &kept, &n, &e) < 0)
        log_warn("descriptors missing", "error=\"%s\", no snapshots of some boxes", e.msg);
    for (size_t i = 0; i < n; i++) {
        struct seat *x = seats_find(s, kept[i].id);
        if (x && x->state == SEAT_OUT && x->proc.scratch < 0 && kept[i].fd >= 0) {
            x->proc.scratch = kept[i].fd;
            x->kept = true;
            continue;
        }
        if (kept[i].fd >= 0)
            close(kept[i].fd);
        fdstore_drop(s->opts->store, kept[i].id);
    }
    for (int b = 0; b < SEAT_BUCKETS; b++)
        for (struct seat *x = s->buckets[b]; x; x = x->next) {
            if (x->proc.scratch < 0 && x->lost_scratch >= 0) {
                x->proc.scratch = TAKE_FD(x->lost_scratch);
                seat_keep(x);
            }
            if (x->lost_scratch >= 0)
                close(TAKE_FD(x->lost_scratch));
        }
}

/* Layers whose worker died with the last life; one that is still at work has it locked. */
static void remove_half_layers(const struct seats *s)
{
    DIR *d = opendir(s->layers);

    for (struct dirent *x; d && (x = readdir(d));) {
        const char *dot = strrchr(x->d_name, '.');
        if (!dot || strcmp(dot, ".tmp") != 0)
            continue;
        auto_close int fd = openat(dirfd(d), x->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
            continue;
        log_info("half a layer removed", "name=%s", x->d_name);
        tree_remove(dirfd(d), x->d_name);
    }
    if (d)
        closedir(d);
}

void seats_recover(struct seats *s)
{
    s->recovering =
        true; /* the end of a dead box would else begin a new one, with ids of a living one yet to be read */
    each_file(s, on_state_file);
    s->recovering = false;
    take_kept(s);
    remove_half_layers(s);
    cgroup_each(&s->groups, reap_unknown, s);
    each_file(s, on_stray_file);
}

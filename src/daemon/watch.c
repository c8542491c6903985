#include "daemon/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/fanotify.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/log.h"
#include "base/loop.h"
#include "isolate/mountfd.h"

enum { REST_MS = 20 };
#define NAME_EVENTS (FAN_CREATE | FAN_DELETE | FAN_MOVED_FROM | FAN_MOVED_TO)
#define EVENTS      (FAN_CLOSE_WRITE | FAN_ATTRIB | NAME_EVENTS | FAN_ONDIR)

/* --- what happened to one box --- */

static int by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void squeeze(struct watched *x)
{
    size_t n = 0;

    if (!x->n)
        return;
    qsort(x->inodes, x->n, sizeof *x->inodes, by_number);
    for (size_t i = 0; i < x->n; i++)
        if (i == 0 || x->inodes[i] != x->inodes[i - 1])
            x->inodes[n++] = x->inodes[i];
    x->n = n;
}

static void forget(struct watched *x)
{
    free(x->inodes);
    x->inodes = NULL;
    x->n = x->size = 0;
}

static void lose(struct watched *x)
{
    forget(x);
    x->lost = true;
}

static void note(struct watched *x, uint64_t inode)
{
    if (x->lost || (x->n && x->inodes[x->n - 1] == inode))
        return;
    if (x->n == WATCH_INODES_MAX) {
        squeeze(x);
        if (x->n > WATCH_INODES_MAX / 2) {
            lose(x);
            return;
        }
    }
    if (x->n == x->size) {
        x->size = x->size ? 2 * x->size : 64;
        x->inodes = realloc(x->inodes, x->size * sizeof *x->inodes);
        if (!x->inodes)
            abort();
    }
    x->inodes[x->n++] = inode;
}

/* --- events --- */

/* tmpfs makes handles of its own: generation, then the inode's number. */
static bool inode_of(const struct file_handle *h, uint64_t *ret)
{
    if (h->handle_bytes != 12)
        return false;
    memcpy(ret, h->f_handle + 4, sizeof *ret);
    return true;
}

static void take_event(struct watch *w, const struct fanotify_event_metadata *m, const char *at)
{
    const char *end = at + m->event_len;
    struct watched *x;

    if (m->mask & FAN_Q_OVERFLOW) {
        for (size_t i = 0; (x = map_next(&w->boxes, &i));)
            lose(x);
        return;
    }
    const struct fanotify_event_info_fid *self = NULL, *dir = NULL;
    for (const char *p = at + m->metadata_len; p < end;) {
        const struct fanotify_event_info_fid *i = (const struct fanotify_event_info_fid *)p;
        if (i->hdr.info_type == FAN_EVENT_INFO_TYPE_FID)
            self = i;
        else
            dir = i;
        p += i->hdr.len;
    }
    const struct fanotify_event_info_fid *any = self ? self : dir;
    x = any ? map_get(&w->boxes, (struct str){ (const char *)&any->fsid, sizeof any->fsid }) : NULL;
    if (!x)
        return;
    uint64_t inode;
    bool names = m->mask & NAME_EVENTS;
    if (self && inode_of((const struct file_handle *)self->handle, &inode))
        note(x, inode);
    else if (self)
        lose(x);
    if (dir && (names || !self)) {
        if (inode_of((const struct file_handle *)dir->handle, &inode))
            note(x, inode);
        else
            lose(x);
    }
}

static void drain(struct watch *w)
{
    static char room[64 * 1024] __attribute__((aligned(8)));
    struct fanotify_event_metadata m; /* copied: in the stream they lie at multiples of four */
    ssize_t n;

    while (w->fan >= 0 && (n = read(w->fan, room, sizeof room)) > 0)
        for (const char *p = room; room + n - p >= (ssize_t)sizeof m; p += m.event_len) {
            memcpy(&m, p, sizeof m);
            if (m.event_len < sizeof m || m.event_len > room + n - p)
                break;
            take_event(w, &m, p);
        }
}

static void on_events(void *arg, uint32_t events)
{
    struct watch *w = arg;

    (void)events;
    drain(w);
    loop_change(w->on, 0);
    loop_timer_set(w->rest, REST_MS);
}

static void on_rested(void *arg)
{
    struct watch *w = arg;
    loop_change(w->on, EPOLLIN);
}

/* --- is it true? --- */

static bool mark(struct watch *w, struct watched *x, int dir)
{
    struct statfs fs;

    if (fstatfs(dir, &fs) < 0 || fanotify_mark(w->fan, FAN_MARK_ADD | FAN_MARK_FILESYSTEM, EVENTS, dir, NULL) < 0)
        return false;
    memcpy(&x->fsid, &fs.f_fsid, sizeof x->fsid);
    map_put(&w->boxes, (struct str){ (const char *)&x->fsid, sizeof x->fsid }, x);
    x->marked = true;
    return true;
}

static bool has(struct watch *w, struct watched *x, uint64_t inode)
{
    struct watched got;

    watch_take(w, x, &got);
    bool found = got.n && bsearch(&inode, got.inodes, got.n, sizeof inode, by_number) != NULL;
    free(got.inodes);
    return found;
}

/* The name of a mapped file, as /proc tells it: overlay's, not that of the file below. */
static bool is_mapped_as(const void *p, size_t size, const char *want)
{
    char path[64], name[64] = "";

    snprintf(path, sizeof path, "/proc/self/map_files/%lx-%lx", (unsigned long)p, (unsigned long)p + size);
    return readlink(path, name, sizeof name - 1) > 0 && strcmp(name, want) == 0;
}

/* A file of an overlay is mapped and closed; the mapping is written to and goes. The event must come then, not before.
 */
static bool tells_mappings(struct watch *w, struct watched *x, int overlay, int upper)
{
    const size_t size = 4096;
    struct stat st;
    auto_close int fd = openat(overlay, "f", O_RDWR | O_CREAT | O_CLOEXEC, 0600);

    if (fd < 0 || ftruncate(fd, (off_t)size) < 0 || fstatat(upper, "f", &st, AT_SYMLINK_NOFOLLOW) < 0)
        return false;
    char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED)
        return false;
    (void)has(w, x, st.st_ino);
    close(TAKE_FD(fd));
    bool early = has(w, x, st.st_ino), named = is_mapped_as(p, size, "/f");
    *p = 'x';
    (void)munmap(p, size);
    return !early && named && has(w, x, st.st_ino);
}

static bool try_out(struct watch *w)
{
    static const char *const opts[] = { "size=1m", "mode=0700", NULL };
    static const char *const dirs[] = { "low", "up", "work" };
    struct watched x = { 0 };
    struct err e;
    int fds[3] = { -1, -1, -1 };
    auto_close int fs = mountfd_new("tmpfs", opts, 0, &e);

    for (int i = 0; fs >= 0 && i < 3; i++)
        if (mkdirat(fs, dirs[i], 0700) == 0)
            fds[i] = openat(fs, dirs[i], O_PATH | O_DIRECTORY | O_CLOEXEC);
    auto_close int low = fds[0], up = fds[1], work = fds[2];
    const struct overlay_opts o = { .lower = &low, .lower_count = 1, .upper = up, .work = work };
    auto_close int overlay = work < 0 ? -1 : mountfd_overlay(&o, &e);
    auto_close int top = overlay < 0 ? -1 : openat(fs, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (top < 0 || !mark(w, &x, top))
        return false;
    bool good = tells_mappings(w, &x, overlay, up);
    watch_end(w, &x);
    return good;
}

/* --- the watcher --- */

void watch_open(struct watch *w, struct loop *l)
{
    *w = (struct watch){ .loop = l };
    w->fan = fanotify_init(FAN_CLASS_NOTIF | FAN_REPORT_DFID_NAME | FAN_REPORT_FID | FAN_NONBLOCK | FAN_CLOEXEC |
                               FAN_UNLIMITED_MARKS,
                           O_RDONLY | O_CLOEXEC);
    if (w->fan < 0 || !try_out(w)) {
        log_info("changes of files are not watched", "why='%s', snapshots compare all that a box wrote",
                 w->fan < 0 ? strerror(errno) : "this kernel does not tell of mappings");
        watch_close(w);
        return;
    }
    w->on = loop_watch(l, w->fan, EPOLLIN, on_events, w);
    w->rest = loop_timer_new(l, on_rested, w);
}

void watch_close(struct watch *w)
{
    loop_unwatch(w->on);
    loop_timer_free(w->rest);
    if (w->fan >= 0)
        close(w->fan);
    map_done(&w->boxes);
    *w = (struct watch){ .fan = -1 };
}

void watch_begin(struct watch *w, struct watched *x, int scratch)
{
    if (x->marked)
        return;
    lose(x);
    if (w->fan >= 0 && !mark(w, x, scratch))
        log_debug("box not watched", "error='%s', its snapshots compare everything", strerror(errno));
}

void watch_lose(struct watched *x)
{
    lose(x);
}

void watch_take(struct watch *w, struct watched *x, struct watched *ret)
{
    drain(w);
    squeeze(x);
    *ret = *x;
    x->inodes = NULL;
    x->n = x->size = 0;
    x->lost = !x->marked;
}

void watch_end(struct watch *w, struct watched *x)
{
    if (x->marked)
        (void)map_del(&w->boxes, (struct str){ (const char *)&x->fsid, sizeof x->fsid });
    forget(x);
    *x = (struct watched){ 0 };
}

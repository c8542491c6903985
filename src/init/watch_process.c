#include "init/watch_process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/limits.h"
#include "base/loop.h"

enum { PENDING_MAX = 1024, MOVES_MS = 50 };

#define EVENTS                                                                                                         \
    (IN_CREATE | IN_CLOSE_WRITE | IN_MODIFY | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_ATTRIB | IN_DELETE_SELF |   \
     IN_MOVE_SELF | IN_EXCL_UNLINK)

struct watched {
    int wd;
    char *path; /* of a directory; of a single file: itself */
};

struct pending { /* a write that may be followed by another */
    char *path;
    int64_t due_ms;
};

struct process {
    const struct watch_opts *o;
    int in, out;
    bool single; /* path is a file */
    struct watched *v;
    size_t n, size;
    struct pending pending[PENDING_MAX];
    size_t pending_n;
    char *moved; /* the first half of a rename */
    uint32_t cookie;
    bool moved_dir;
    int64_t moved_due_ms;
    bool full; /* too many directories */
};

static void tell(struct process *p, uint8_t kind, const char *path, const char *old, bool is_dir)
{
    struct watch_record r = { .kind = kind, .is_dir = is_dir };
    char text[sizeof r + 2 * PATH_MAX];
    struct stat st;

    if (kind < WATCH_TYPES && lstat(path, &st) == 0) {
        r.mtime_us = (int64_t)st.st_mtim.tv_sec * 1000000 + st.st_mtim.tv_nsec / 1000;
        r.size = st.st_size;
        r.inode = st.st_ino;
        r.is_dir = S_ISDIR(st.st_mode);
    }
    size_t a = strnlen(path, PATH_MAX - 1), b = old ? strnlen(old, PATH_MAX - 1) : 0;
    r.path_n = (uint16_t)a;
    r.old_n = (uint16_t)b;
    memcpy(text, &r, sizeof r);
    memcpy(text + sizeof r, path, a);
    if (b)
        memcpy(text + sizeof r + a, old, b);
    for (size_t at = 0, n = sizeof r + a + b; at < n;) {
        ssize_t w = write(p->out, text + at, n - at);
        if (w < 0 && errno == EINTR)
            continue;
        if (w <= 0)
            _exit(0); /* nobody reads any more */
        at += (size_t)w;
    }
}

static bool fits(struct strs patterns, const char *below)
{
    for (size_t i = 0; i < patterns.n; i++) {
        char pattern[512], parts[PATH_MAX], *save = NULL;
        snprintf(pattern, sizeof pattern, "%.*s", STR_ARG(patterns.v[i]));
        if (fnmatch(pattern, below, 0) == 0)
            return true;
        snprintf(parts, sizeof parts, "%s", below);
        for (char *part = strtok_r(parts, "/", &save); part; part = strtok_r(NULL, "/", &save))
            if (fnmatch(pattern, part, 0) == 0)
                return true;
    }
    return false;
}

static const char *below(const struct process *p, const char *path)
{
    size_t n = strlen(p->o->path);

    return strncmp(path, p->o->path, n) == 0 && path[n] == '/' ? path + n + 1 : path;
}

static bool wanted(const struct process *p, const char *path, bool is_dir)
{
    const char *rest = below(p, path);

    return !fits(p->o->exclude, rest) && (!p->o->include.n || is_dir || fits(p->o->include, rest));
}

static struct watched *watched_of(struct process *p, int wd)
{
    for (size_t i = 0; i < p->n; i++)
        if (p->v[i].wd == wd)
            return &p->v[i];
    return NULL;
}

static bool add(struct process *p, const char *path)
{
    int wd = p->n >= LIMIT_WATCH_DIRS ? -1 : inotify_add_watch(p->in, path, EVENTS);

    if (wd < 0) {
        p->full = p->full || p->n >= LIMIT_WATCH_DIRS || errno == ENOSPC;
        return false;
    }
    struct watched *old = watched_of(p, wd);
    if (old) {
        free(old->path);
        old->path = strdup(path);
        return true;
    }
    if (p->n == p->size) {
        p->size = p->size ? 2 * p->size : 64;
        p->v = realloc(p->v, p->size * sizeof *p->v);
        if (!p->v)
            _exit(1);
    }
    p->v[p->n++] = (struct watched){ wd, strdup(path) };
    return true;
}

/* fresh: the directory appeared while we watched, so what is in it is news. */
static void add_tree(struct process *p, const char *path, int depth, bool fresh)
{
    if (!add(p, path) || depth >= LIMIT_TREE_DEPTH || (!p->o->recursive && depth > 0))
        return;
    DIR *d = opendir(path);
    for (struct dirent *ent; d && (ent = readdir(d));) {
        char child[PATH_MAX];
        struct stat st;
        if (!strcmp(ent->d_name, ".") || !strcmp(ent->d_name, ".."))
            continue;
        if ((size_t)snprintf(child, sizeof child, "%s/%s", strcmp(path, "/") ? path : "", ent->d_name) >= sizeof child)
            continue;
        bool is_dir = fstatat(dirfd(d), ent->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
        if (!wanted(p, child, is_dir))
            continue;
        if (fresh)
            tell(p, WATCH_CREATE, child, NULL, is_dir);
        if (is_dir && p->o->recursive)
            add_tree(p, child, depth + 1, fresh);
    }
    if (d)
        closedir(d);
}

/* What was moved went where we do not see it. What happens there is not told under the old name. */
static void moved_away(struct process *p)
{
    auto_free char *path = TAKE_PTR(p->moved);
    size_t n = strlen(path);

    tell(p, WATCH_REMOVE, path, NULL, p->moved_dir);
    for (size_t i = 0; i < p->n;) {
        struct watched *w = &p->v[i];
        if (strncmp(w->path, path, n) != 0 || (w->path[n] && w->path[n] != '/')) {
            i++;
            continue;
        }
        (void)inotify_rm_watch(p->in, w->wd);
        free(w->path);
        *w = p->v[--p->n];
    }
}

static void flush(struct process *p, bool everything)
{
    int64_t now = now_ms();
    size_t kept = 0;

    for (size_t i = 0; i < p->pending_n; i++) {
        if (!everything && p->pending[i].due_ms > now) {
            p->pending[kept++] = p->pending[i];
            continue;
        }
        tell(p, WATCH_WRITE, p->pending[i].path, NULL, false);
        free(p->pending[i].path);
    }
    p->pending_n = kept;
    if (p->moved && (everything || p->moved_due_ms <= now))
        moved_away(p);
}

static void written(struct process *p, const char *path)
{
    for (size_t i = 0; i < p->pending_n; i++)
        if (strcmp(p->pending[i].path, path) == 0) {
            p->pending[i].due_ms = now_ms() + p->o->debounce_ms;
            return;
        }
    if (p->pending_n == PENDING_MAX)
        flush(p, true);
    p->pending[p->pending_n++] = (struct pending){ strdup(path), now_ms() + p->o->debounce_ms };
}

static void drop_pending(struct process *p, const char *path)
{
    for (size_t i = 0; i < p->pending_n; i++)
        if (strcmp(p->pending[i].path, path) == 0) {
            tell(p, WATCH_WRITE, path, NULL, false); /* in its place in the order */
            free(p->pending[i].path);
            p->pending[i] = p->pending[--p->pending_n];
            return;
        }
}

static void moved_to(struct process *p, const struct inotify_event *ev, const char *path, bool is_dir)
{
    if (p->moved && p->cookie == ev->cookie) {
        tell(p, WATCH_RENAME, path, p->moved, is_dir);
        free(TAKE_PTR(p->moved));
    } else {
        if (p->moved)
            moved_away(p); /* before it may come back by the same name */
        tell(p, WATCH_CREATE, path, NULL, is_dir);
    }
    if (is_dir && p->o->recursive)
        add_tree(p, path, 1, false);
}

static void on_event(struct process *p, const struct inotify_event *ev)
{
    struct watched *w = watched_of(p, ev->wd);
    bool is_dir = ev->mask & IN_ISDIR;
    char path[PATH_MAX];

    if (ev->mask & IN_Q_OVERFLOW)
        tell(p, 'O', "", NULL, false);
    if (!w)
        return;
    if (ev->mask & IN_IGNORED) {
        free(w->path);
        *w = p->v[--p->n];
        return;
    }
    if (ev->len)
        snprintf(path, sizeof path, "%s/%s", strcmp(w->path, "/") ? w->path : "", ev->name);
    else
        snprintf(path, sizeof path, "%s", w->path);
    if (!ev->len && !p->single && !(ev->mask & (IN_DELETE_SELF | IN_MOVE_SELF)))
        return; /* the directory itself; its parent's watch tells it */
    if (!ev->len && !p->single && strcmp(w->path, p->o->path) != 0)
        return;
    if (p->moved && !(ev->mask & IN_MOVED_TO && ev->cookie == p->cookie))
        flush(p, false);
    if (!wanted(p, path, is_dir) && !(ev->mask & IN_MOVED_TO))
        return;
    if (ev->mask & (IN_MODIFY | IN_CLOSE_WRITE)) {
        written(p, path);
        return;
    }
    drop_pending(p, path);
    if (ev->mask & IN_CREATE) {
        tell(p, WATCH_CREATE, path, NULL, is_dir);
        if (is_dir && p->o->recursive)
            add_tree(p, path, 1, true);
    } else if (ev->mask & (IN_DELETE | IN_DELETE_SELF | IN_MOVE_SELF)) {
        tell(p, WATCH_REMOVE, path, NULL, is_dir);
    } else if (ev->mask & IN_MOVED_FROM) {
        if (p->moved)
            flush(p, true);
        p->moved = strdup(path);
        p->cookie = ev->cookie;
        p->moved_dir = is_dir;
        p->moved_due_ms = now_ms() + MOVES_MS;
    } else if (ev->mask & IN_MOVED_TO) {
        if (wanted(p, path, is_dir))
            moved_to(p, ev, path, is_dir);
    } else if (ev->mask & IN_ATTRIB) {
        tell(p, WATCH_CHMOD, path, NULL, is_dir);
    }
}

static int until_next(const struct process *p)
{
    int64_t now = now_ms(), next = p->moved ? p->moved_due_ms : INT64_MAX;

    for (size_t i = 0; i < p->pending_n; i++)
        next = p->pending[i].due_ms < next ? p->pending[i].due_ms : next;
    return next == INT64_MAX ? -1 : next <= now ? 0 : (int)(next - now);
}

_Noreturn void watch_process(const struct watch_opts *o, int out)
{
    static struct process p;
    struct stat st;

    p = (struct process){ .o = o, .out = out, .in = inotify_init1(IN_CLOEXEC | IN_NONBLOCK) };
    if (p.in < 0) {
        tell(&p, errno == EMFILE ? 'B' : 'E', strerror(errno), NULL, false);
        _exit(1);
    }
    p.single = stat(o->path, &st) == 0 && !S_ISDIR(st.st_mode);
    if (p.single)
        (void)add(&p, o->path);
    else
        add_tree(&p, o->path, 0, false);
    if (!p.n) {
        tell(&p, p.full ? 'B' : 'E', p.full ? "too many watched directories" : strerror(errno), NULL, false);
        _exit(1);
    }
    tell(&p, 'R', p.full ? "only some directories are watched: too many" : "", NULL, false);
    for (;;) {
        _Alignas(struct inotify_event) char text[65536];
        struct pollfd fds[2] = { { .fd = p.in, .events = POLLIN }, { .fd = out } }; /* out: only its end */
        (void)poll(fds, 2, until_next(&p));
        if (fds[1].revents & (POLLERR | POLLHUP))
            _exit(0);
        ssize_t n = read(p.in, text, sizeof text);
        for (char *at = text; n > 0 && at < text + n;) {
            const struct inotify_event *ev = (const void *)at;
            on_event(&p, ev);
            at += sizeof *ev + ev->len;
        }
        flush(&p, false);
    }
}

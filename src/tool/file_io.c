/* Opening, writing, listing: what every file tool is made of. Runs in a hand, in the box (file_internal.h). */
#include "tool/file_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/field.h"
#include "base/limits.h"
#include "init/hand.h"

/* --- paths --- */

/* ".." stays: behind a symlink it is not what the text suggests. */
static void tidy(char *path)
{
    char *to = path;

    for (char *p = path; *p;) {
        if (p[0] == '/' && p[1] == '/') {
            p++;
        } else if (p[0] == '/' && p[1] == '.' && p[2] == '/') {
            p += 2;
        } else if (p[0] == '/' && p[1] == '.' && p[2] == 0) {
            p += 2;
            if (to == path)
                *to++ = '/';
        } else {
            *to++ = *p++;
        }
    }
    *to = 0;
}

int file_absolute(struct arena *a, struct str cwd, struct str path, char **ret, struct err *e)
{
    char *z;

    if (path.n == 0)
        return err_set(e, ERR_INVALID, "path is empty");
    if (memchr(path.p, 0, path.n))
        return err_set(e, ERR_INVALID, "path contains a NUL byte");
    if (path.p[0] == '/')
        z = arena_z(a, path);
    else if (str_is(path, "~") || (path.n > 1 && path.p[0] == '~' && path.p[1] == '/'))
        z = arena_printf(a, "%.*s%.*s", STR_ARG(cwd), (int)path.n - 1, path.p + 1);
    else
        z = arena_printf(a, "%.*s/%.*s", STR_ARG(cwd), STR_ARG(path));
    tidy(z);
    *ret = z;
    return 0;
}

#ifdef IN_BOX

int file_path(struct hand *h, struct str path, char **ret, struct err *e)
{
    return file_absolute(h->arena, h->cwd, path, ret, e);
}

bool file_is_name(struct str s)
{
    return s.n && !memchr(s.p, '/', s.n) && !memchr(s.p, 0, s.n) && !str_is(s, ".") && !str_is(s, "..");
}

void file_trim(char *path)
{
    for (size_t n = strlen(path); n > 1 && path[n - 1] == '/';)
        path[--n] = 0;
}

int file_mode(struct hand *h, struct str text, unsigned *ret, struct err *e)
{
    char *end;
    const char *z = arena_z(h->arena, text);
    unsigned long v = strtoul(z, &end, 8);

    if (!text.n || strspn(z, "01234567") != text.n || *end || v > 07777)
        return err_set(e, ERR_INVALID, "mode: '%.*s' is not octal permissions such as 644", STR_ARG(text));
    *ret = (unsigned)v;
    return 0;
}

int file_fail(struct err *e, const char *verb, const char *path)
{
    int sys = errno;

    if (sys != ENOENT)
        return err_sys(e, "%s %s", verb, path);
    err_set(e, ERR_NOT_FOUND, "%s %s: No such file or directory", verb, path);
    if (e)
        e->sys = sys;
    return -sys;
}

/* --- whole files --- */

/* O_NONBLOCK: a fifo must not hold the call until somebody opens its other end. */
int file_open(const char *path, int flags, struct stat *st, struct err *e)
{
    const char *verb = (flags & O_ACCMODE) == O_RDONLY ? "read" : "write";
    auto_close int fd = open(path, flags | O_NONBLOCK | O_CLOEXEC | O_NOCTTY, 0666);

    if (fd < 0 && (errno == ENXIO || errno == ENODEV))
        return err_set(e, ERR_INVALID, "%s %s: not a regular file", verb, path);
    if (fd < 0)
        return file_fail(e, verb, path);
    if (fstat(fd, st) < 0)
        return err_sys(e, "stat %s", path);
    if (S_ISDIR(st->st_mode)) {
        errno = EISDIR;
        return err_sys(e, "%s %s", verb, path);
    }
    if (!S_ISREG(st->st_mode))
        return err_set(e, ERR_INVALID, "%s %s: not a regular file", verb, path);
    return TAKE_FD(fd);
}

static int too_large(const char *path, int64_t size, struct err *e)
{
    return err_set(e, ERR_LIMIT, "read %s: its %lld bytes exceed LIMIT_FILE_IO (%ld); ask for some of its lines", path,
                   (long long)size, LIMIT_FILE_IO);
}

/* Sizes of /proc files are 0 although there is content, so the end is where read() says it is; unless the file has just
 * as many bytes as it said (guess), or it would be asked twice. */
static int slurp(int fd, const char *path, size_t guess, struct arena *a, struct str *ret, struct err *e)
{
    size_t size = guess ? guess + 1 : 4096;
    size_t n = 0;
    char *p = arena_alloc(a, size);

    for (;;) {
        if (n == size) {
            char *bigger = arena_alloc(a, size * 2);
            memcpy(bigger, p, n);
            p = bigger;
            size *= 2;
        }
        ssize_t r = read(fd, p + n, size - n);
        if (r < 0 && errno == EINTR)
            continue;
        if (r < 0)
            return err_sys(e, "read %s", path);
        if (r == 0)
            break;
        n += (size_t)r;
        if (n > LIMIT_FILE_IO)
            return too_large(path, (int64_t)n, e);
        if (n == guess)
            break;
    }
    *ret = (struct str){ p, n };
    return 0;
}

int file_read_all(struct hand *h, const char *path, struct str *ret, struct stat *st, struct err *e)
{
    auto_close int fd = file_open(path, O_RDONLY, st, e);

    if (fd < 0)
        return fd;
    if (st->st_size > LIMIT_FILE_IO)
        return too_large(path, st->st_size, e);
    /* A file of /proc says 0 and may take its time. */
    if (h->quick && (st->st_size == 0 || st->st_size > FILE_QUICK_BYTES))
        return -EAGAIN;
    return slurp(fd, path, (size_t)st->st_size, h->arena, ret, e);
}

int file_write_all(int fd, const char *path, struct str s, struct err *e)
{
    while (s.n) {
        ssize_t n = write(fd, s.p, s.n);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_sys(e, "write %s", path);
        s.p += n;
        s.n -= (size_t)n;
    }
    return 0;
}

/* In place, as a shell's > does, so that mode, owner, hard links and watchers stay as they are; but the room is asked
 * for first: a full disk must not cost the old content. */
int file_store(int fd, const char *path, struct str s, struct err *e)
{
    struct stat st;

    if (fstat(fd, &st) < 0)
        return err_sys(e, "stat %s", path);
    if ((off_t)s.n > st.st_size && fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, (off_t)s.n) < 0 &&
        (errno == ENOSPC || errno == EDQUOT || errno == EFBIG))
        return err_sys(e, "write %s", path);
    if (lseek(fd, 0, SEEK_SET) < 0)
        return err_sys(e, "write %s", path);
    int r = file_write_all(fd, path, s, e);
    if (r < 0)
        return r;
    if (st.st_size > (off_t)s.n && ftruncate(fd, (off_t)s.n) < 0)
        return err_sys(e, "truncate %s", path);
    return 0;
}

int file_make_parents(char *path, struct err *e)
{
    for (char *p = strchr(path + 1, '/'); p; p = strchr(p + 1, '/')) {
        *p = 0;
        bool failed = mkdir(path, 0777) < 0 && errno != EEXIST && errno != EISDIR;
        int r = failed ? err_sys(e, "make directory %s", path) : 0;
        *p = '/';
        if (r < 0)
            return r;
    }
    return 0;
}

int file_create(char *path, int flags, bool mkdirs, struct stat *st, struct err *e)
{
    int fd = file_open(path, O_WRONLY | O_CREAT | flags, st, e);

    if (fd != -ENOENT || !mkdirs)
        return fd;
    int r = file_make_parents(path, e);
    return r < 0 ? r : file_open(path, O_WRONLY | O_CREAT | flags, st, e);
}

/* --- write --- */

int file_write_run(struct hand *h, const void *params, void *result, struct err *e)
{
    const struct file_write_params *p = params;
    struct file_write_result *r = result;
    struct str bytes = p->data.p ? p->data : p->content;
    unsigned mode = 0;
    struct stat st;
    char *path = NULL;

    if (p->data.p && p->content.p)
        return err_set(e, ERR_INVALID, "give either content or data, not both");
    if (!bytes.p)
        return err_set(e, ERR_MISSING, "content is missing");
    int n = p->mode.n ? file_mode(h, p->mode, &mode, e) : 0;
    if (n >= 0)
        n = file_path(h, p->path, &path, e);
    if (n < 0)
        return n;

    bool existed = stat(path, &st) == 0;
    if (p->sudo) {
        if (p->mode.n)
            return err_set(e, ERR_INVALID, "mode: not together with sudo");
        r->path = str_of(path);
        r->bytes = (int64_t)bytes.n;
        r->created = !existed;
        return h->quick ? -EAGAIN : file_sudo_write(h, path, bytes, p->append, p->mkdir, e);
    }
    auto_close int fd = file_create(path, p->append ? O_APPEND : 0, p->mkdir, &st, e);
    if (fd < 0)
        return fd;
    n = p->append ? file_write_all(fd, path, bytes, e) : file_store(fd, path, bytes, e);
    if (n < 0)
        return n;
    if (p->mode.n && fchmod(fd, mode) < 0)
        return err_sys(e, "change mode of %s", path);

    r->path = str_of(path);
    r->bytes = (int64_t)bytes.n;
    r->created = !existed;
    return 0;
}

/* --- list --- */

const char *file_type_name(mode_t mode)
{
    switch (mode & S_IFMT) {
    case S_IFREG: return "file";
    case S_IFDIR: return "directory";
    case S_IFLNK: return "symlink";
    case S_IFIFO: return "fifo";
    case S_IFSOCK: return "socket";
    }
    return "device";
}

static double seconds(struct timespec t)
{
    return (double)t.tv_sec + (double)(t.tv_nsec / 1000) / 1e6;
}

static struct str link_target(struct arena *a, int dir_fd, const char *name)
{
    char target[LIMIT_PATH];
    ssize_t n = readlinkat(dir_fd, name, target, sizeof target);

    return n > 0 ? arena_copy(a, (struct str){ target, (size_t)n }) : (struct str){ 0 };
}

static struct file_row *new_row(struct file_rows *rows)
{
    if (rows->n == rows->size) {
        size_t size = rows->size ? rows->size * 2 : 64;
        struct file_row *v = arena_alloc(rows->a, size * sizeof *v);
        if (rows->n)
            memcpy(v, rows->v, rows->n * sizeof *v);
        rows->v = v;
        rows->size = size;
    }
    return &rows->v[rows->n++];
}

void file_rows_add(struct file_rows *rows, int dir_fd, const char *dir, const char *name, const struct stat *st)
{
    struct file_row *row = new_row(rows);
    struct stat there;

    if (S_ISLNK(st->st_mode)) {
        row->target = link_target(rows->a, dir_fd, name);
        if (rows->follow && fstatat(dir_fd, name, &there, 0) == 0)
            st = &there;
    }
    row->path = str_of(arena_printf(rows->a, "%s/%s", strcmp(dir, "/") ? dir : "", name));
    row->name = (struct str){ row->path.p + row->path.n - strlen(name), strlen(name) };
    row->type = str_of(file_type_name(st->st_mode));
    row->mode = str_of(arena_printf(rows->a, "%04o", st->st_mode & 07777));
    row->size = st->st_size;
    row->mtime = seconds(st->st_mtim);
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct file_row *)a)->path.p, ((const struct file_row *)b)->path.p);
}

static int by_mtime(const void *a, const void *b)
{
    double x = ((const struct file_row *)a)->mtime, y = ((const struct file_row *)b)->mtime;

    return x != y ? (x < y ? 1 : -1) : by_path(a, b);
}

void file_rows_sort(struct file_rows *rows, bool by_time)
{
    if (rows->n)
        qsort(rows->v, rows->n, sizeof *rows->v, by_time ? by_mtime : by_path);
}

static int by_filename(const void *a, const void *b)
{
    int r = strcmp(((const struct file_row *)a)->name.p, ((const struct file_row *)b)->name.p);
    return r ? r : by_path(a, b);
}

static int by_size(const void *a, const void *b)
{
    int64_t x = ((const struct file_row *)a)->size, y = ((const struct file_row *)b)->size;
    return x != y ? (x < y ? -1 : 1) : by_path(a, b);
}

static int by_type(const void *a, const void *b)
{
    int r = strcmp(((const struct file_row *)a)->type.p, ((const struct file_row *)b)->type.p);
    return r ? r : by_path(a, b);
}

void file_rows_sort_by(struct file_rows *rows, struct str key, bool reverse)
{
    static const struct {
        const char *key;
        int (*compare)(const void *a, const void *b);
    } keys[] = { { "filename", by_filename }, { "size", by_size }, { "type", by_type }, { "mtime", by_mtime } };
    int (*compare)(const void *a, const void *b) = by_path;

    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        if (str_is(key, keys[i].key))
            compare = keys[i].compare;
    if (rows->n)
        qsort(rows->v, rows->n, sizeof *rows->v, compare);
    for (size_t i = 0, k = rows->n; reverse && i + 1 < k; i++) {
        struct file_row row = rows->v[i];
        rows->v[i] = rows->v[--k];
        rows->v[k] = row;
    }
}

static void walk(struct file_walk *w, struct file_rows *rows, int take_fd, const char *dir, int depth)
{
    DIR *d = fdopendir(take_fd);

    if (!d) {
        close(take_fd);
        return;
    }
    for (struct dirent *ent; !w->full && (ent = readdir(d));) {
        const char *name = ent->d_name;
        struct stat st;

        if (!strcmp(name, ".") || !strcmp(name, "..") || (name[0] == '.' && !w->hidden))
            continue;
        if (fstatat(dirfd(d), name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        if (!w->wanted || w->wanted(w->arg, name, &st)) {
            if ((int64_t)rows->n == w->max) {
                w->full = w->truncated = true;
                break;
            }
            file_rows_add(rows, dirfd(d), dir, name, &st);
        }
        if (!S_ISDIR(st.st_mode) || depth >= w->depth) {
            w->truncated = w->truncated || (S_ISDIR(st.st_mode) && depth >= LIMIT_TREE_DEPTH);
            continue;
        }
        int fd = openat(dirfd(d), name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd >= 0)
            walk(w, rows, fd, arena_printf(rows->a, "%s/%s", strcmp(dir, "/") ? dir : "", name), depth + 1);
    }
    closedir(d);
}

void file_walk(struct file_walk *w, struct file_rows *rows, int take_fd, const char *dir)
{
    walk(w, rows, take_fd, dir, 1);
}

static bool has_extension(const void *arg, const char *name, const struct stat *st)
{
    const struct strs *list = arg;
    size_t n = strlen(name);

    for (size_t i = 0; i < list->n && !S_ISDIR(st->st_mode); i++) {
        struct str end = list->v[i];
        while (end.n && (end.p[0] == '*' || end.p[0] == '.')) {
            end.p++;
            end.n--;
        }
        if (n > end.n && name[n - end.n - 1] == '.' && memcmp(name + n - end.n, end.p, end.n) == 0)
            return true;
    }
    return false;
}

int file_list_run(struct hand *h, const void *params, void *result, struct err *e)
{
    const struct file_list_params *p = params;
    struct file_list_result *r = result;
    struct file_walk w = { .hidden = p->hidden,
                           .depth = p->recursive ? (int)p->max_depth : 1,
                           .max = p->max_entries,
                           .wanted = p->extensions.n ? has_extension : NULL,
                           .arg = &p->extensions };
    struct file_rows rows = { .a = h->arena, .follow = p->follow };
    char *path = NULL;

    int n = file_path(h, p->path, &path, e);
    if (n < 0)
        return n;
    file_trim(path);
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return file_fail(e, "list", path);
    file_walk(&w, &rows, fd, path);
    file_rows_sort_by(&rows, p->sort, p->reverse);

    r->path = str_of(path);
    r->entries = (struct rows){ rows.v, rows.n };
    r->truncated = w.truncated;
    return 0;
}

/* --- stat --- */

int file_stat_run(struct hand *h, const void *params, void *result, struct err *e)
{
    const struct file_stat_params *p = params;
    struct file_stat_result *r = result;
    struct stat st, link;
    char *path = NULL;

    int n = file_path(h, p->path, &path, e);
    if (n < 0)
        return n;
    if ((p->follow ? stat(path, &st) : lstat(path, &st)) < 0)
        return file_fail(e, "stat", path);
    if (lstat(path, &link) == 0 && S_ISLNK(link.st_mode))
        r->target = link_target(h->arena, AT_FDCWD, path);
    r->path = str_of(path);
    r->type = str_of(file_type_name(st.st_mode));
    r->mode = str_of(arena_printf(h->arena, "%04o", st.st_mode & 07777));
    r->size = st.st_size;
    r->uid = st.st_uid;
    r->gid = st.st_gid;
    r->links = (int64_t)st.st_nlink;
    r->inode = (int64_t)st.st_ino;
    r->mtime = seconds(st.st_mtim);
    r->atime = seconds(st.st_atim);
    r->ctime = seconds(st.st_ctim);
    return 0;
}

/* What cannot be looked at for another reason than its absence is an error, not an answer. */
int file_exists_run(struct hand *h, const void *params, void *result, struct err *e)
{
    const struct file_exists_params *p = params;
    struct file_exists_result *r = result;
    struct stat st;
    char *path = NULL;

    int n = file_path(h, p->path, &path, e);
    if (n < 0)
        return n;
    r->path = str_of(path);
    r->exists = stat(path, &st) == 0;
    if (r->exists)
        r->type = str_of(file_type_name(st.st_mode));
    else if (errno != ENOENT && errno != ENOTDIR)
        return err_sys(e, "stat %s", path);
    return 0;
}

#endif

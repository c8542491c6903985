/* Reading a file: by a hand in the box or, of what the box itself wrote, by serve, without asking the box (file_read_look). */
#include "tool/file_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/field.h"
#include "base/limits.h"
#include "init/hand.h"
#include "tool/tool.h"

int64_t file_count_lines(struct str s)
{
    int64_t n = 0;

    for (const char *p = s.p, *end = s.p + s.n; p < end; n++) {
        const char *nl = memchr(p, '\n', (size_t)(end - p));
        p = nl ? nl + 1 : end;
    }
    return n;
}

struct str file_cut_lines(struct str s, int64_t first, int64_t last)
{
    const char *end = s.p + s.n;
    const char *from = end;
    const char *p = s.p;

    for (int64_t line = 1; p < end && line <= last; line++) {
        if (line == first)
            from = p;
        const char *nl = memchr(p, '\n', (size_t)(end - p));
        p = nl ? nl + 1 : end;
    }
    return from < p ? (struct str){ from, (size_t)(p - from) } : STR("");
}

static struct str base64_of(struct arena *a, struct str s)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *out = arena_alloc(a, (s.n + 2) / 3 * 4 + 1);
    char *o = out;

    for (size_t i = 0; i < s.n; i += 3) {
        const unsigned char *p = (const unsigned char *)s.p + i;
        unsigned left = (unsigned)(s.n - i);
        unsigned v = (unsigned)p[0] << 16 | (left > 1 ? (unsigned)p[1] << 8 : 0) | (left > 2 ? p[2] : 0u);
        *o++ = digits[v >> 18];
        *o++ = digits[v >> 12 & 63];
        *o++ = left > 1 ? digits[v >> 6 & 63] : '=';
        *o++ = left > 2 ? digits[v & 63] : '=';
    }
    return (struct str){ out, (size_t)(o - out) };
}

/* How it is told: as text, or as base64 if it is none. */
static int present(struct arena *a, const struct file_read_params *p, char *path, struct file_read_result *r,
                   struct err *e)
{
    r->path = str_of(path);
    bool text = !str_is(p->encoding, "base64") && utf8_ok(r->content);
    if (!text && str_is(p->encoding, "utf-8")) {
        err_set(e, ERR_INVALID, "read %s: not UTF-8 text; ask for encoding base64", path);
        e->sys = EILSEQ;
        return -EILSEQ;
    }
    r->encoding = text ? STR("utf-8") : STR("base64");
    if (!text)
        r->content = base64_of(a, r->content);
    return 0;
}

#ifdef IN_BOX

/* What is to be kept of a file that may be larger than memory. */
struct line_scan {
    struct buf kept;
    int64_t first, last, line; /* line: the one that the next byte belongs to */
    bool in_line;              /* it has begun */
};

static void scan_lines(struct line_scan *s, const char *p, size_t n)
{
    const char *end = p + n;

    while (p < end) {
        const char *nl = memchr(p, '\n', (size_t)(end - p));
        const char *next = nl ? nl + 1 : end;
        if (s->line >= s->first && s->line <= s->last)
            buf_add(&s->kept, p, (size_t)(next - p));
        s->in_line = !nl;
        s->line += nl ? 1 : 0;
        p = next;
    }
}

static int read_range(struct hand *h, int fd, const char *path, struct line_scan *s, struct file_read_result *r,
                      struct err *e)
{
    char *block = arena_alloc(h->arena, 64 * KiB);
    int64_t size = 0;

    for (;;) {
        ssize_t n = read(fd, block, 64 * KiB);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_sys(e, "read %s", path);
        if (n == 0)
            break;
        size += n;
        scan_lines(s, block, (size_t)n);
        if (s->kept.full)
            return err_set(e, ERR_LIMIT, "read %s: these lines exceed LIMIT_FILE_IO (%ld bytes)", path, LIMIT_FILE_IO);
        if (size > LIMIT_LINE_COUNT && s->line > s->last) { /* nobody wants to wait for the number of lines */
            r->lines = FIELD_ABSENT;
            r->truncated = true;
            return 0;
        }
    }
    r->size = size;
    r->lines = s->line - 1 + s->in_line;
    r->truncated = (int64_t)s->kept.n < size;
    return 0;
}

static int read_lines(struct hand *h, const struct file_read_params *p, const char *path, struct file_read_result *r,
                      struct err *e)
{
    struct line_scan s = {
        .first = p->start_line == FIELD_ABSENT ? 1 : p->start_line,
        .last = p->end_line == FIELD_ABSENT ? INT64_MAX : p->end_line,
        .line = 1,
    };
    struct stat st;
    auto_close int fd = file_open(path, O_RDONLY, &st, e);

    if (fd < 0)
        return fd;
    if (s.last < s.first)
        return err_set(e, ERR_INVALID, "end_line %lld is before start_line %lld", (long long)s.last,
                       (long long)s.first);
    r->size = st.st_size;
    buf_init(&s.kept, LIMIT_FILE_IO);
    int n = read_range(h, fd, path, &s, r, e);
    if (n >= 0)
        r->content = arena_copy(h->arena, buf_view(&s.kept));
    buf_done(&s.kept);
    return n;
}

int file_read_run(struct hand *h, const void *params, void *result, struct err *e)
{
    const struct file_read_params *p = params;
    struct file_read_result *r = result;
    struct stat st;
    char *path = NULL;

    int n = file_path(h, p->path, &path, e);
    if (n < 0)
        return n;
    if (p->sudo && h->quick)
        return -EAGAIN;
    if (p->sudo) {
        n = file_sudo_read(h, path, &r->content, e);
        r->size = (int64_t)r->content.n;
        r->lines = n < 0 ? 0 : file_count_lines(r->content);
        if (n >= 0 && (p->start_line != FIELD_ABSENT || p->end_line != FIELD_ABSENT))
            r->content = file_cut_lines(r->content, p->start_line == FIELD_ABSENT ? 1 : p->start_line,
                                        p->end_line == FIELD_ABSENT ? INT64_MAX : p->end_line);
    } else if (p->start_line != FIELD_ABSENT || p->end_line != FIELD_ABSENT) {
        if (h->quick)
            return -EAGAIN;
        n = read_lines(h, p, path, r, e);
    } else {
        n = file_read_all(h, path, &r->content, &st, e);
        r->size = (int64_t)r->content.n;
        r->lines = n < 0 ? 0 : file_count_lines(r->content);
    }
    return n < 0 ? n : present(h->arena, p, path, r, e);
}

#else

enum { LEVELS = 16, EVERYBODY_READS = S_IRUSR | S_IRGRP | S_IROTH, EVERYBODY_PASSES = S_IXUSR | S_IXGRP | S_IXOTH };

/* Where a path of the box lies in what it wrote, if it lies there. NULL: only the box can tell. */
static char *place(struct arena *a, const char *path)
{
    const char *tree = strncmp(path, "/usr/", 5) == 0 ? "usr" : strncmp(path, "/tmp/", 5) == 0 ? "tmp" : NULL;

    if (strstr(path, "/../") || strlen(path) >= PATH_MAX)
        return NULL;
    return tree ? arena_printf(a, "%s%s", tree, path + 4) : arena_printf(a, "root%s", path);
}

static int open_beneath(int dir, const char *name, int flags)
{
    struct open_how how = {
        .flags = (unsigned)(flags | O_NOFOLLOW | O_CLOEXEC),
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV | RESOLVE_CACHED,
    };
    return (int)syscall(SYS_openat2, dir, name, &how, sizeof how);
}

/* What everybody else may do, its owner or its group perhaps may not. */
static bool may(const struct tool_look *l, const struct stat *st, mode_t everybody)
{
    mode_t need = st->st_uid == l->user ? everybody & S_IRWXU : everybody;

    return (st->st_mode & need) == need;
}

/* dir and all above it, up to the top of its tree; but a box whose root its user may not pass runs nothing anyway. ".."
 * leads nowhere but up. */
static bool may_pass(const struct tool_look *l, int dir, const char *name)
{
    static const char up[] = "../../../../../../../../../../../../../../../..";
    size_t levels = strncmp(name, "root", 4) != 0;
    struct stat st;

    _Static_assert(sizeof up == 3 * LEVELS, "one for each");
    for (const char *p = name; (p = strchr(p, '/')); p++)
        levels++;
    if (levels > LEVELS)
        return false;
    for (size_t i = 0; i < levels; i++) {
        int r = i == 0 ? fstat(dir, &st) : fstatat(dir, up + sizeof up - 3 * i, &st, AT_SYMLINK_NOFOLLOW);
        if (r < 0 || !may(l, &st, EVERYBODY_PASSES))
            return false;
    }
    return true;
}

static bool may_read(const struct tool_look *l, int fd, const struct stat *st)
{
    return may(l, st, EVERYBODY_READS) &&
           (st->st_uid == l->user || fgetxattr(fd, "system.posix_acl_access", NULL, 0) < 0);
}

/* A regular file that was written by the box is what the box sees at that path, if no symbolic link is on the way: these
 * directories are the upper ones of its overlays, nothing was written to them before all mounts of the box were made,
 * and nobody in it can mount. The kernel does not follow links, ".." or mounts here and does not wait for anything; and
 * serve is nobody to the box, so that it sees only what strangers may read there. That the box's own user may, too, is
 * told by the modes. (But for an ACL that its root gave to a directory of root's: that is not looked for.) */
static int open_written(const struct tool_look *l, const char *path, struct stat *ret)
{
    char *name = place(l->arena, path);
    char *file = name ? strrchr(name, '/') : NULL;

    if (!file)
        return -1;
    *file++ = 0;
    auto_close int dir = open_beneath(l->files, name, O_PATH | O_DIRECTORY);
    if (dir < 0 || !may_pass(l, dir, name))
        return -1;
    auto_close int fd = open_beneath(dir, file, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, ret) < 0 || !S_ISREG(ret->st_mode) || !may_read(l, fd, ret))
        return -1;
    return TAKE_FD(fd);
}

int file_read_look(const struct tool_look *l, const void *params, void *result)
{
    const struct file_read_params *p = params;
    struct file_read_result *r = result;
    struct stat st;
    struct err e;
    char *path;

    bool whole = p->start_line == FIELD_ABSENT && p->end_line == FIELD_ABSENT;
    if (p->sudo || !whole || (!l->cwd.p && (!p->path.n || p->path.p[0] != '/')) ||
        file_absolute(l->arena, l->cwd, p->path, &path, &e) < 0)
        return -EAGAIN;
    auto_close int fd = open_written(l, path, &st);
    if (fd < 0 || st.st_size > FILE_QUICK_BYTES)
        return -EAGAIN;
    char *content = arena_alloc(l->arena, (size_t)st.st_size + 1);
    ssize_t n = read(fd, content, (size_t)st.st_size);
    if (n < 0)
        return -EAGAIN;
    r->content = (struct str){ content, (size_t)n };
    r->size = n;
    r->lines = file_count_lines(r->content);
    return present(l->arena, p, path, r, &e);
}

#endif

/* Files as byte streams. Runs in a hand, in the box. The other end of the stream is with whoever asked, at their speed.
 *
 * An upload goes into a file beside its target, which takes the target's name when all of it is there: who looks sees
 * the old content or the new, never half of it. The end of an upload is a shutdown of the sender's side with the socket
 * still open; a socket that is closed without one belongs to a sender who went away. */
#include "tool/file_stream.h"

#ifdef IN_BOX

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/limits.h"
#include "init/hand.h"
#include "wire/frame.h"

enum {
    WHOLE_MAX = 4 * 1024 * 1024, /* a file that must not change is read whole first, up to this size */
    LINKS_MAX = 40,              /* as many as the kernel follows */
};

void file_stream_init(struct file_stream *s, struct hand *h)
{
    *s = (struct file_stream){ .fd = h->stream, .room = arena_alloc(h->arena, FILE_STREAM_ROOM) };
    sha256_init(&s->sum);
}

struct str file_stream_sum(struct file_stream *s, struct arena *a)
{
    char text[65];

    sha256_hex(&s->sum, text);
    return arena_copy(a, str_of(text));
}

static int fill(struct file_stream *s, struct err *e)
{
    struct pollfd p = { .fd = s->fd };
    ssize_t n;

    do
        n = recv(s->fd, s->room, FILE_STREAM_ROOM, 0);
    while (n < 0 && errno == EINTR);
    if (n == 0 && poll(&p, 1, 0) >= 0 && !(p.revents & POLLHUP)) {
        s->at = s->n = 0;
        return 0;
    }
    if (n <= 0)
        return err_set(e, ERR_SYSTEM, "the sender went away after %lld bytes", (long long)s->bytes);
    s->at = 0;
    s->n = (size_t)n;
    s->bytes += n;
    sha256_add(&s->sum, s->room, (size_t)n);
    return 1;
}

int file_stream_take(struct file_stream *s, struct str *ret, struct err *e)
{
    int r = s->at < s->n ? 1 : fill(s, e);

    if (r < 0)
        return r;
    *ret = (struct str){ s->room + s->at, s->n - s->at };
    s->at = s->n;
    return 0;
}

ssize_t file_stream_read(struct file_stream *s, char *to, size_t n, struct err *e)
{
    int r = s->at < s->n ? 1 : fill(s, e);

    if (r <= 0)
        return r;
    size_t part = s->n - s->at < n ? s->n - s->at : n;
    memcpy(to, s->room + s->at, part);
    s->at += part;
    return (ssize_t)part;
}

static int send_all(struct file_stream *s, const char *p, size_t n, struct err *e)
{
    while (n) {
        ssize_t w = send(s->fd, p, n, MSG_NOSIGNAL);
        if (w < 0 && errno == EINTR)
            continue;
        if (w <= 0)
            return err_set(e, ERR_SYSTEM, "the receiver went away after %lld bytes", (long long)s->bytes);
        s->bytes += w;
        sha256_add(&s->sum, p, (size_t)w);
        p += w;
        n -= (size_t)w;
    }
    return 0;
}

int file_stream_flush(struct file_stream *s, struct err *e)
{
    size_t n = s->n;

    s->n = 0;
    return send_all(s, s->room, n, e);
}

int file_stream_write(struct file_stream *s, const void *p, size_t n, struct err *e)
{
    const char *from = p;

    while (n) {
        size_t part = FILE_STREAM_ROOM - s->n < n ? FILE_STREAM_ROOM - s->n : n;
        memcpy(s->room + s->n, from, part);
        s->n += part;
        from += part;
        n -= part;
        if (s->n == FILE_STREAM_ROOM) {
            int r = file_stream_flush(s, e);
            if (r < 0)
                return r;
        }
    }
    return 0;
}

/* --- upload --- */

static int receive(struct file_stream *s, int fd, const char *path, struct err *e)
{
    struct str data;

    for (;;) {
        int r = file_stream_take(s, &data, e);
        if (r < 0 || !data.n)
            return r;
        r = file_write_all(fd, path, data, e);
        if (r < 0)
            return r;
    }
}

static int upload_to(struct hand *h, const struct file_upload_params *p, char **ret, bool *ret_new, struct err *e)
{
    struct stat st;
    char *path = NULL;

    int r = file_path(h, p->path, &path, e);
    if (r < 0)
        return r;
    bool slash = path[strlen(path) - 1] == '/';
    *ret_new = stat(path, &st) < 0;
    if (slash || (!*ret_new && S_ISDIR(st.st_mode))) {
        if (!file_is_name(p->name))
            return err_set(e, ERR_INVALID, "path: %s is a directory, and there is no file name to use in it", path);
        file_trim(path);
        path = arena_printf(h->arena, "%s/%.*s", path, STR_ARG(p->name));
        *ret_new = stat(path, &st) < 0;
    }
    if (!*ret_new && !S_ISREG(st.st_mode))
        return err_set(e, ERR_INVALID, "write %s: not a regular file", path);
    if (p->mkdir) {
        r = file_make_parents(path, e);
        if (r < 0)
            return r;
    }
    *ret = path;
    return 0;
}

const char *file_follow(struct hand *h, const char *path)
{
    char to[LIMIT_PATH];

    for (int i = 0; i < LINKS_MAX; i++) {
        ssize_t n = readlink(path, to, sizeof to);
        if (n <= 0)
            return path;
        int dir = to[0] == '/' ? 0 : (int)(strrchr(path, '/') + 1 - path);
        path = arena_printf(h->arena, "%.*s%.*s", dir, path, (int)n, to);
    }
    errno = ELOOP;
    return NULL;
}

/* A new file has the default permissions, an old one keeps its own. */
static int finish_upload(int fd, const char *temporary, const char *path, unsigned mode, struct err *e)
{
    struct stat st;

    if (!mode && stat(path, &st) == 0)
        mode = st.st_mode & 07777;
    if (fchmod(fd, mode ? mode : 0644) < 0)
        return err_sys(e, "change mode of %s", path);
    if (rename(temporary, path) < 0)
        return err_sys(e, "write %s", path);
    return 0;
}

int file_upload_run(struct hand *h, const void *params, void *result, struct err *e)
{
    const struct file_upload_params *p = params;
    struct file_upload_result *r = result;
    struct file_stream s;
    unsigned mode = 0;
    char *path = NULL;
    bool created = false;

    int n = p->mode.n ? file_mode(h, p->mode, &mode, e) : 0;
    if (n >= 0)
        n = upload_to(h, p, &path, &created, e);
    if (n < 0)
        return n;
    const char *to = file_follow(h, path);
    if (!to)
        return file_fail(e, "write", path);
    char *temporary = arena_printf(h->arena, "%.*s.upload-XXXXXX", (int)(strrchr(to, '/') + 1 - to), to);
    auto_close int fd = mkostemp(temporary, O_CLOEXEC);
    if (fd < 0)
        return file_fail(e, "write", path);
    file_stream_init(&s, h);
    n = receive(&s, fd, path, e);
    if (n >= 0)
        n = finish_upload(fd, temporary, to, mode, e);
    if (n < 0) {
        (void)unlink(temporary);
        return n;
    }
    r->path = str_of(path);
    r->bytes = s.bytes;
    r->created = created;
    r->sha256 = file_stream_sum(&s, h->arena);
    return 0;
}

/* --- download --- */

static struct str etag_of(struct arena *a, const struct stat *st)
{
    return str_of(arena_printf(a, "%llx-%llx-%llx%09lx", (unsigned long long)st->st_ino,
                               (unsigned long long)st->st_size, (unsigned long long)st->st_mtim.tv_sec,
                               (unsigned long)st->st_mtim.tv_nsec));
}

static void choose_range(const struct file_download_params *p, struct wire_file *f)
{
    bool whole = p->offset == FIELD_ABSENT || (p->range_etag.n && !str_eq(p->range_etag, f->etag));
    int64_t from = whole ? 0 : p->offset < 0 ? f->size + p->offset : p->offset;

    f->offset = from < 0 ? 0 : from;
    f->unsatisfiable = !whole && f->offset >= f->size;
    f->length = f->unsatisfiable ? 0 : f->size - f->offset;
    if (!whole && p->length != FIELD_ABSENT && p->length < f->length)
        f->length = p->length;
    for (size_t i = 0; i < p->unless_etag.n; i++)
        f->unchanged |= str_eq(p->unless_etag.v[i], f->etag) || str_is(p->unless_etag.v[i], "*");
    f->part = !whole && !f->unsatisfiable && !f->unchanged;
}

static int changed(const char *path, struct err *e)
{
    return err_set(e, ERR_EXISTS, "download %s: the file changed meanwhile", path);
}

static bool same(int fd, const struct stat *before)
{
    struct stat now;

    return fstat(fd, &now) == 0 && now.st_size == before->st_size && now.st_mtim.tv_sec == before->st_mtim.tv_sec &&
           now.st_mtim.tv_nsec == before->st_mtim.tv_nsec;
}

static int say_head(struct file_stream *s, const struct wire_file *f, struct err *e)
{
    struct buf packed;
    uint32_t size;

    buf_init(&packed, WIRE_FILE_MAX);
    field_pack(wire_file_fields, f, &packed);
    size = (uint32_t)packed.n;
    int r = file_stream_write(s, &size, sizeof size, e);
    if (r >= 0)
        r = file_stream_write(s, packed.p, packed.n, e);
    if (r >= 0)
        r = file_stream_flush(s, e);
    buf_done(&packed);
    s->bytes = 0;
    sha256_init(&s->sum); /* of the content */
    return r;
}

static int send_range(struct file_stream *s, int fd, const char *path, const struct wire_file *f, struct err *e)
{
    int64_t at = f->offset, left = f->length;

    while (left > 0) {
        ssize_t n = pread(fd, s->room, left < FILE_STREAM_ROOM ? (size_t)left : FILE_STREAM_ROOM, at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_sys(e, "read %s", path);
        if (n == 0)
            return changed(path, e); /* it became shorter */
        s->n = (size_t)n;
        int r = file_stream_flush(s, e);
        if (r < 0)
            return r;
        at += n;
        left -= n;
    }
    return 0;
}

/* All of a small one, before anything is said about it. */
static int read_whole(struct hand *h, int fd, const struct wire_file *f, char **ret, const char *path, struct err *e)
{
    char *p = arena_alloc(h->arena, (size_t)f->length + 1);

    for (int64_t done = 0; done < f->length;) {
        ssize_t n = pread(fd, p + done, (size_t)(f->length - done), f->offset + done);
        if (n < 0)
            return err_sys(e, "read %s", path);
        if (n == 0)
            return changed(path, e);
        done += n;
    }
    *ret = p;
    return 0;
}

int file_download_run(struct hand *h, const void *params, void *result, struct err *e)
{
    const struct file_download_params *p = params;
    struct file_download_result *r = result;
    bool strict = str_is(p->on_change, "abort");
    struct file_stream s;
    struct stat st;
    struct str unsized = { 0 };
    char *path = NULL, *whole = NULL;

    int n = file_path(h, p->path, &path, e);
    if (n < 0)
        return n;
    auto_close int fd = file_open(path, O_RDONLY, &st, e);
    if (fd < 0)
        return fd;
    if (!st.st_size && (n = file_read_all(h, path, &unsized, &st, e)) < 0) /* files of /proc do not know their size */
        return n;
    struct wire_file f = { .size = unsized.p ? (int64_t)unsized.n : st.st_size,
                           .mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec,
                           .etag = etag_of(h->arena, &st),
                           .name = str_of(strrchr(path, '/') + 1) };
    choose_range(p, &f);
    bool send = !p->only_head && !f.unchanged && !f.unsatisfiable;
    if (send && unsized.n) {
        whole = (char *)unsized.p + f.offset;
    } else if (send && strict && f.length <= WHOLE_MAX) {
        n = read_whole(h, fd, &f, &whole, path, e);
        if (n >= 0 && !same(fd, &st))
            n = changed(path, e);
    }
    if (n < 0)
        return n;
    file_stream_init(&s, h);
    n = say_head(&s, &f, e);
    if (n >= 0 && send && whole)
        n = send_all(&s, whole, (size_t)f.length, e);
    else if (n >= 0 && send)
        n = send_range(&s, fd, path, &f, e);
    if (n >= 0 && send && strict && !whole && !same(fd, &st))
        n = changed(path, e);
    if (n < 0)
        return n;
    *r = (struct file_download_result){ .path = str_of(path), .size = f.size, .offset = f.offset, .bytes = s.bytes };
    r->sha256 = send ? file_stream_sum(&s, h->arena) : (struct str){ 0 };
    return 0;
}

#endif

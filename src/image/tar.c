#include "image/tar.h"

#include <errno.h>
#include <stdio.h>
#include <sys/xattr.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/json.h"

enum { BLOCK = 512, CHUNK = 128 * 1024, OLD_ID = 07777777, PAX_MAX = 1024 * 1024 };
#define OLD_SIZE 077777777777ULL

struct header {
    char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], sum[8], type, link[100], magic[6], version[2];
    char user[32], group[32], major[8], minor[8], prefix[155], pad[12];
};
_Static_assert(sizeof(struct header) == BLOCK, "a tar header is one block");

void tar_init(struct tar *t, int out)
{
    *t = (struct tar){ .out = out };
    buf_init(&t->pax, PAX_MAX);
}

void tar_done(struct tar *t)
{
    buf_done(&t->pax);
}

static int put(struct tar *t, const void *p, size_t n, struct err *e)
{
    const char *at = p;

    t->bytes += n;
    while (n > 0) {
        ssize_t done = write(t->out, at, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return err_sys(e, "write the tar stream");
        at += done;
        n -= (size_t)done;
    }
    return 0;
}

static int pad(struct tar *t, uint64_t size, struct err *e)
{
    static const char zeros[BLOCK];
    size_t rest = size % BLOCK;
    return rest ? put(t, zeros, BLOCK - rest, e) : 0;
}

/* "<length of all of this> <key>=<value>\n": the length counts its own digits. */
static void record(struct tar *t, const char *key, struct str value)
{
    size_t n = strlen(key) + value.n + 3, total = n + 1;

    for (int i = 0; i < 3; i++) {
        char digits[24];
        total = n + (size_t)snprintf(digits, sizeof digits, "%zu", total);
    }
    buf_printf(&t->pax, "%zu %s=", total, key);
    buf_str(&t->pax, value);
    buf_char(&t->pax, '\n');
}

static void record_number(struct tar *t, const char *key, uint64_t v)
{
    char digits[24];
    int n = snprintf(digits, sizeof digits, "%llu", (unsigned long long)v);
    record(t, key, (struct str){ digits, (size_t)n });
}

static void octal(char *to, size_t size, uint64_t v)
{
    to[--size] = 0;
    while (size-- > 0) {
        to[size] = (char)('0' + (v & 7));
        v >>= 3;
    }
}

static int put_header(struct tar *t, struct header *h, struct err *e)
{
    unsigned sum = 0;

    memcpy(h->magic, "ustar", 6);
    memcpy(h->version, "00", 2);
    memset(h->sum, ' ', sizeof h->sum);
    for (size_t i = 0; i < sizeof *h; i++)
        sum += ((const unsigned char *)h)[i];
    octal(h->sum, 7, sum);
    return put(t, h, sizeof *h, e);
}

static int put_pax(struct tar *t, struct err *e)
{
    struct header h = { .name = "././@PaxHeader", .type = 'x' };

    if (t->pax.full)
        return err_set(e, ERR_LIMIT, "attributes of one file are too large for a tar");
    if (t->pax.n == 0)
        return 0;
    octal(h.mode, sizeof h.mode, 0644);
    octal(h.size, sizeof h.size, t->pax.n);
    octal(h.mtime, sizeof h.mtime, 0);
    int r = put_header(t, &h, e);
    if (r >= 0)
        r = put(t, t->pax.p, t->pax.n, e);
    return r < 0 ? r : pad(t, t->pax.n, e);
}

static bool plain(struct str s, size_t room)
{
    for (size_t i = 0; i < s.n; i++)
        if ((unsigned char)s.p[i] >= 0x80)
            return false;
    return s.n < room;
}

static void record_xattrs(struct tar *t, int fd)
{
    char names[4096], key[300], value[8192];
    ssize_t n = fd < 0 ? 0 : flistxattr(fd, names, sizeof names);

    for (ssize_t at = 0; at < n; at += (ssize_t)strlen(names + at) + 1) {
        ssize_t size = strncmp(names + at, "user.", 5) == 0 ? fgetxattr(fd, names + at, value, sizeof value) : -1;
        if (size < 0)
            continue;
        snprintf(key, sizeof key, "SCHILY.xattr.%.255s", names + at);
        record(t, key, (struct str){ value, (size_t)size });
    }
}

static char letter(const struct tar_entry *x)
{
    if (x->hardlink)
        return '1';
    switch (x->node->type) {
    case NODE_FILE: return '0';
    case NODE_LINK: return '2';
    case NODE_CHAR: return '3';
    case NODE_BLOCK: return '4';
    case NODE_DIR: return '5';
    case NODE_FIFO: return '6';
    case NODE_SOCK:
    case NODE_WHITEOUT: break;
    }
    return 0;
}

static void fill_pax(struct tar *t, const struct tar_entry *x, struct str path, struct str link)
{
    const struct node *n = x->node;
    char time[40];

    buf_reset(&t->pax);
    if (!utf8_ok(path) || !utf8_ok(link))
        record(t, "hdrcharset", STR("BINARY"));
    if (!plain(path, sizeof((struct header *)0)->name))
        record(t, "path", path);
    if (!plain(link, sizeof((struct header *)0)->link))
        record(t, "linkpath", link);
    if (n->uid > OLD_ID)
        record_number(t, "uid", n->uid);
    if (n->gid > OLD_ID)
        record_number(t, "gid", n->gid);
    if (n->type == NODE_FILE && n->size > OLD_SIZE)
        record_number(t, "size", n->size);
    if (n->mtime_ns % 1000000000 != 0 || n->mtime_ns < 0) {
        int64_t s = n->mtime_ns / 1000000000, ns = n->mtime_ns % 1000000000;
        int len = snprintf(time, sizeof time, "%s%lld.%09lld", n->mtime_ns < 0 ? "-" : "", (long long)(s < 0 ? -s : s),
                           (long long)(ns < 0 ? -ns : ns));
        record(t, "mtime", (struct str){ time, (size_t)len });
    }
    if (!x->hardlink)
        record_xattrs(t, x->content);
}

static int put_content(struct tar *t, int fd, uint64_t size, struct err *e)
{
    auto_free char *chunk = calloc(1, CHUNK);

    if (!chunk)
        abort();
    for (uint64_t at = 0; at < size;) {
        size_t want = size - at < CHUNK ? (size_t)(size - at) : CHUNK;
        ssize_t n = pread(fd, chunk, want, (off_t)at);
        if (n < 0)
            return err_sys(e, "read a file of the state");
        if (n == 0)
            return err_set(e, ERR_SYSTEM, "a file of the state is shorter than it was");
        int r = put(t, chunk, (size_t)n, e);
        if (r < 0)
            return r;
        at += (uint64_t)n;
    }
    return pad(t, size, e);
}

int tar_add(struct tar *t, const struct tar_entry *x, struct err *e)
{
    const struct node *n = x->node;
    struct header h = { .type = letter(x) };
    struct str path = str_of(x->path), link = x->hardlink   ? str_of(x->hardlink)
                                              : x->target.p ? x->target
                                                            : (struct str){ "", 0 };
    uint64_t size = n->type == NODE_FILE && !x->hardlink ? n->size : 0;

    if (!h.type)
        return 0;
    fill_pax(t, x, path, link);
    int r = put_pax(t, e);
    if (r < 0)
        return r;
    memcpy(h.name, path.p, path.n < sizeof h.name ? path.n : sizeof h.name - 1);
    memcpy(h.link, link.p, link.n < sizeof h.link ? link.n : sizeof h.link - 1);
    octal(h.mode, sizeof h.mode, n->mode);
    octal(h.uid, sizeof h.uid, n->uid > OLD_ID ? 0 : n->uid);
    octal(h.gid, sizeof h.gid, n->gid > OLD_ID ? 0 : n->gid);
    octal(h.size, sizeof h.size, size > OLD_SIZE ? 0 : size);
    octal(h.mtime, sizeof h.mtime, n->mtime_ns < 0 ? 0 : (uint64_t)n->mtime_ns / 1000000000);
    octal(h.major, sizeof h.major, n->major);
    octal(h.minor, sizeof h.minor, n->minor);
    r = put_header(t, &h, e);
    return r < 0 || size == 0 ? r : put_content(t, x->content, size, e);
}

int tar_text(struct tar *t, const char *path, struct str text, struct err *e)
{
    const struct node n = { .type = NODE_FILE, .mode = 0644, .size = text.n };
    struct header h = { .type = '0' };

    snprintf(h.name, sizeof h.name, "%s", path);
    octal(h.mode, sizeof h.mode, n.mode);
    octal(h.uid, sizeof h.uid, 0);
    octal(h.gid, sizeof h.gid, 0);
    octal(h.size, sizeof h.size, n.size);
    octal(h.mtime, sizeof h.mtime, 0);
    int r = put_header(t, &h, e);
    if (r >= 0)
        r = put(t, text.p, text.n, e);
    return r < 0 ? r : pad(t, text.n, e);
}

int tar_end(struct tar *t, struct err *e)
{
    static const char zeros[2 * BLOCK];
    return put(t, zeros, sizeof zeros, e);
}

#include "image/layer_index.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/err.h"

static const char magic[8] = "sgindex2";

void index_begin(struct buf *b)
{
    buf_add(b, magic, sizeof magic);
}

static size_t record_size(size_t name_n)
{
    return (sizeof(struct index_rec) + name_n + 1 + 7) & ~(size_t)7;
}

uint64_t index_add(struct buf *b, const char *name, const struct node *n, uint64_t marks, unsigned flags)
{
    size_t len = strlen(name), size = record_size(len);
    uint64_t at = b->n;
    struct index_rec *r = b->full ? NULL : buf_room(b, size);

    if (!r)
        return at;
    memset(r, 0, size);
    *r = (struct index_rec){
        .span = size,
        .ino = n->ino,
        .size = n->size,
        .rdev = (uint64_t)n->major << 32 | n->minor,
        .birth_ns = n->birth_ns,
        .mtime_ns = n->mtime_ns,
        .ctime_ns = n->ctime_ns,
        .marks = marks,
        .type = n->type,
        .mode = n->mode,
        .uid = n->uid,
        .gid = n->gid,
        .flags = flags,
        .name_n = (uint32_t)len,
    };
    memcpy(r->name, name, len);
    buf_grew(b, size);
    return at;
}

void index_end(struct buf *b, uint64_t at)
{
    if (b->full)
        return;
    uint64_t span = b->n - at;
    memcpy(b->p + at + offsetof(struct index_rec, span), &span, sizeof span);
}

void index_copy(struct buf *b, const struct index_rec *r)
{
    buf_add(b, (const char *)r, r->span);
}

uint64_t index_marks(const struct node_marks *m)
{
    uint64_t h = 0;

    if (m->has_xattrs)
        memcpy(&h, m->xattrs.b, sizeof h);
    if (m->flags & NODE_REDIRECT) {
        struct sha s = sha_of(m->redirect);
        uint64_t v;
        memcpy(&v, s.b, sizeof v);
        h ^= v << 1 | 1;
    }
    return m->flags & NODE_OPAQUE ? ~h : h;
}

int layer_index_open(int layer, struct layer_index *ret, struct err *e)
{
    struct stat st;
    auto_close int fd = openat(layer, "index", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0)
        return errno == ENOENT ? -ENOENT : err_sys(e, "open a layer's index");
    if (fstat(fd, &st) < 0)
        return err_sys(e, "stat a layer's index");
    if (!S_ISREG(st.st_mode) || st.st_size < (off_t)sizeof magic || st.st_size > LIMIT_INDEX)
        return err_set(e, ERR_INVALID, "a layer's index is damaged");
    void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd, 0);
    if (p == MAP_FAILED)
        return err_sys(e, "map a layer's index");
    struct layer_index x = { p, (size_t)st.st_size };
    if (memcmp(x.p, magic, sizeof magic) != 0) {
        layer_index_close(&x);
        return err_set(e, ERR_INVALID, "a layer's index is damaged");
    }
    *ret = x;
    return 0;
}

void layer_index_close(struct layer_index *x)
{
    if (x->p)
        munmap((void *)x->p, x->n);
    *x = (struct layer_index){ 0 };
}

const struct index_rec *index_at(const struct layer_index *x, uint64_t at, uint64_t limit)
{
    if (limit > x->n)
        limit = x->n;
    if (at > limit || limit - at < sizeof(struct index_rec) || at % 8 != 0)
        return NULL;
    const struct index_rec *r = (const struct index_rec *)(x->p + at);
    size_t size = record_size(r->name_n);
    if (r->name_n > 255 || size > limit - at || r->span < size || r->span > limit - at)
        return NULL;
    return r;
}

uint64_t index_first(void)
{
    return sizeof magic;
}

uint64_t index_offset(const struct layer_index *x, const struct index_rec *r)
{
    return (uint64_t)((const char *)r - x->p);
}

uint64_t index_after(const struct layer_index *x, const struct index_rec *r)
{
    return index_offset(x, r) + r->span;
}

uint64_t index_inside(const struct layer_index *x, const struct index_rec *dir)
{
    return index_offset(x, dir) + record_size(dir->name_n);
}

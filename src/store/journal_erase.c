/* Erasing records in place. The order makes it safe: first every record is marked as erased (four bytes each), that is
 * synced, and only then are the bodies punched out. Whatever is interrupted, a reader sees the whole record or none. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/limits.h"
#include "store/journal.h"
#include "store/segment.h"

struct place {
    uint64_t start; /* of the segment */
    int fd;
};

static bool may_go(uint16_t type)
{
    return type == RECORD_INTENT || type == RECORD_RESULT || type == RECORD_STEP || type == RECORD_NOTE ||
           type == RECORD_ERASED;
}

/* The segment that holds it, opened once for positions in a row; one that is left is synced first. */
static int find(int dirfd, const uint64_t *starts, size_t n, uint64_t at, struct place *p, struct err *e)
{
    size_t i = 0;

    while (i + 1 < n && starts[i + 1] <= at)
        i++;
    if (n == 0 || starts[i] > at)
        return err_set(e, ERR_NOT_FOUND, "position %llu is older than the log", (unsigned long long)at);
    if (p->fd >= 0 && p->start == starts[i])
        return 0;
    if (p->fd >= 0 && fdatasync(p->fd) < 0)
        return err_sys(e, "sync the log");
    if (p->fd >= 0)
        close(p->fd);
    p->start = starts[i];
    p->fd = openat(dirfd, segment_name(starts[i]).z, O_RDWR | O_CLOEXEC);
    return p->fd < 0 ? err_sys(e, "open segment %s", segment_name(starts[i]).z) : 0;
}

/* 1: head is that of a record which may be erased. 0: there is another thing, which is left alone. */
static int read_head(const struct place *p, uint64_t at, struct journal_head *head, struct err *e)
{
    ssize_t got = pread(p->fd, head, sizeof *head, (off_t)(at - p->start));

    if (got < 0)
        return err_sys(e, "read the log at %llu", (unsigned long long)at);
    return got == (ssize_t)sizeof *head && record_head_ok(head, at) && may_go(head->type);
}

static int mark(const struct place *p, uint64_t at, struct err *e)
{
    struct journal_head head;

    int r = read_head(p, at, &head, e);
    if (r <= 0)
        return r;
    uint32_t crc = record_erased_crc(&head);
    if (crc != head.crc && pwrite(p->fd, &crc, sizeof crc, (off_t)(at - p->start) + 4) != (ssize_t)sizeof crc)
        return err_sys(e, "erase the record at %llu", (unsigned long long)at);
    return 0;
}

static int write_zeros(int fd, off_t from, uint64_t n, struct err *e)
{
    static const char zeros[64 * 1024];

    for (uint64_t done = 0; done < n;) {
        size_t piece = n - done < sizeof zeros ? n - done : sizeof zeros;
        ssize_t put = pwrite(fd, zeros, piece, from + (off_t)done);
        if (put <= 0)
            return err_sys(e, "erase a part of the log");
        done += (uint64_t)put;
    }
    return 0;
}

static int64_t punch(const struct place *p, uint64_t at, struct err *e)
{
    struct journal_head head;

    int r = read_head(p, at, &head, e);
    if (r <= 0 || head.crc != record_erased_crc(&head) || head.size == 0)
        return r < 0 ? r : 0;
    off_t from = (off_t)(at - p->start) + (off_t)sizeof head;
    if (fallocate(p->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, from, head.size) < 0) {
        r = errno == EOPNOTSUPP || errno == ENOSYS ? write_zeros(p->fd, from, head.size, e)
                                                   : err_sys(e, "erase the record at %llu", (unsigned long long)at);
        if (r < 0)
            return r;
    }
    return head.size;
}

static int64_t pass(int dirfd, const uint64_t *at, size_t n, bool marking, struct err *e)
{
    auto_free uint64_t *starts = NULL;
    struct place p = { .fd = -1 };
    size_t count = 0;
    int64_t bytes = 0, r = segment_list(dirfd, &starts, &count, e);

    for (size_t i = 0; i < n && r >= 0; i++) {
        r = find(dirfd, starts, count, at[i], &p, e);
        if (r >= 0)
            r = marking ? mark(&p, at[i], e) : punch(&p, at[i], e);
        if (r > 0)
            bytes += r;
    }
    if (r >= 0 && p.fd >= 0 && fdatasync(p.fd) < 0)
        r = err_sys(e, "sync the log");
    if (p.fd >= 0)
        close(p.fd);
    return r < 0 ? r : bytes;
}

int64_t journal_erase(const char *dir, const uint64_t *at, size_t n, struct err *e)
{
    auto_close int dirfd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (dirfd < 0)
        return err_sys(e, "open the log '%s'", dir);
    int64_t r = pass(dirfd, at, n, true, e);
    return r < 0 ? r : pass(dirfd, at, n, false, e);
}

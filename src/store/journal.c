/* The writer of the log. One process at a time (an flock on log/lock); records that were added together are written
 * together.
 *
 * Invariants:
 *   1. Everything in [start, end) is whole records; what a failed write left behind `end` is cut before the next one.
 *   2. Blocks up to `reserved` are allocated: a record that promises new work is written only if RESERVE bytes behind
 * it are allocated, too, which records that finish work may then use up. */
#include "store/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/limits.h"
#include "base/log.h"
#include "store/segment.h"

#define RESERVE (8 * MiB)

enum { BATCH = 256 * 1024 };

struct journal {
    char *dir;
    int dirfd, lock, fd;
    uint64_t start, end; /* end: with the batch, which is not written yet */
    char *batch;
    size_t batch_n;
    struct err lost;   /* code != ERR_NONE: a batch that somebody will ask about could not be written */
    uint64_t reserved; /* position; UINT64_MAX: this file system cannot reserve */
    uint64_t segment_bytes;
    bool torn;   /* bytes behind end could not be cut yet */
    pid_t owner; /* whose `end` is the end of the log; 0: not known yet */
};

static uint64_t reserve_bytes(const struct journal *j)
{
    return j->segment_bytes < RESERVE ? j->segment_bytes : (uint64_t)RESERVE;
}

/* Makes blocks for everything before `upto`, in steps. */
static int reserve(struct journal *j, uint64_t upto, struct err *e)
{
    while (j->reserved < upto) {
        uint64_t from = j->reserved - j->start;
        uint64_t more = reserve_bytes(j);

        if (upto - j->reserved > more)
            more = upto - j->reserved;
        if (fallocate(j->fd, FALLOC_FL_KEEP_SIZE, (off_t)from, (off_t)more) == 0) {
            j->reserved += more;
        } else if (errno == EOPNOTSUPP || errno == ENOSYS) {
            j->reserved = UINT64_MAX;
        } else if (errno != EINTR) {
            return err_sys(
                e,
                "reserve %llu bytes for the log '%s' (new calls are refused until there is room, the results "
                "of running ones are still recorded)",
                (unsigned long long)more, j->dir);
        }
    }
    return 0;
}

static int write_all(int fd, struct iovec *iov, int n, uint64_t at)
{
    while (n > 0) {
        ssize_t done = pwritev(fd, iov, n, (off_t)at);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return -errno;
        if (done == 0)
            return -EIO;
        at += (uint64_t)done;
        while (n > 0 && (size_t)done >= iov->iov_len) {
            done -= (ssize_t)iov->iov_len;
            iov++;
            n--;
        }
        if (n > 0) {
            iov->iov_base = (char *)iov->iov_base + done;
            iov->iov_len -= (size_t)done;
        }
    }
    return 0;
}

/* Back to the last whole record. ftruncate also frees what was reserved; it is reserved again at once, because at
 * this moment the freed blocks are the only ones that a full disk has. */
static int cut(struct journal *j, struct err *e)
{
    if (ftruncate(j->fd, (off_t)(j->end - j->start)) < 0)
        return err_sys(e, "cut the unfinished end of the log '%s' at position %llu", j->dir,
                       (unsigned long long)j->end);
    j->torn = false;
    if (j->reserved != UINT64_MAX) {
        j->reserved = j->end;
        (void)reserve(j, j->end + reserve_bytes(j), NULL);
    }
    return 0;
}

/* How much of the first n bytes of the batch is whole records. */
static size_t whole_records(const char *batch, size_t n)
{
    struct journal_head head;
    size_t end = 0;

    while (n - end >= sizeof head) {
        memcpy(&head, batch + end, sizeof head);
        if (record_room(head.size) > n - end)
            break;
        end += record_room(head.size);
    }
    return end;
}

/* After a failure, records that are whole stay: a reader may have seen them, and its position is behind them. */
static int write_batch(struct journal *j, struct err *e)
{
    size_t n = j->batch_n;
    uint64_t at = j->end - n;
    struct iovec iov = { j->batch, n };

    if (n == 0)
        return 0;
    j->batch_n = 0;
    int r = write_all(j->fd, &iov, 1, at - j->start);
    if (r >= 0)
        return 0;
    j->end = at + whole_records(j->batch, (size_t)((char *)iov.iov_base - j->batch));
    j->torn = true;
    (void)cut(j, NULL); /* if not now, then before the next record */
    errno = -r;
    return err_sys(e, "append %zu bytes to the log '%s'", n, j->dir);
}

/* Where nobody asks for the outcome, it is kept for who does. */
static void write_batch_now(struct journal *j)
{
    struct err e;

    if (write_batch(j, &e) < 0)
        j->lost = e;
}

int journal_flush(struct journal *j, struct err *e)
{
    int r = write_batch(j, e);

    if (j->lost.code != ERR_NONE) {
        *e = j->lost;
        r = -EIO;
    }
    j->lost.code = ERR_NONE;
    return r;
}

/* Begins the segment whose first byte has the position j->end. The old one stays in use if that fails. */
static int roll(struct journal *j, struct err *e)
{
    struct segment_name name = segment_name(j->end);
    struct iovec magic = { SEGMENT_MAGIC, SEGMENT_HEAD };

    int fd = openat(j->dirfd, name.z, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_sys(e, "make segment '%s/%s'", j->dir, name.z);

    struct journal next = *j;
    next.fd = fd;
    next.start = next.reserved = j->end;
    int r = reserve(&next, next.start + reserve_bytes(j), e);
    if (r >= 0) {
        r = write_all(fd, &magic, 1, 0);
        if (r < 0) {
            errno = -r;
            (void)err_sys(e, "write the head of segment '%s/%s'", j->dir, name.z);
        }
    }
    if (r < 0) {
        close(fd);
        (void)unlinkat(j->dirfd, name.z, 0); /* if it stays, O_TRUNC takes it next time */
        return r;
    }
    if (j->fd >= 0) {
        (void)ftruncate(j->fd, (off_t)(j->end - j->start)); /* gives back what it reserved and did not need */
        close(j->fd);
    }
    next.end = next.start + SEGMENT_HEAD;
    *j = next;
    return 0;
}

static int lock_dir(struct journal *j, struct err *e)
{
    if (mkdir(j->dir, 0700) < 0 && errno != EEXIST)
        return err_sys(e, "make the log's directory '%s'", j->dir);
    j->dirfd = open(j->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (j->dirfd < 0)
        return err_sys(e, "open the log's directory '%s'", j->dir);
    j->lock = openat(j->dirfd, "lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (j->lock < 0)
        return err_sys(e, "open '%s/lock'", j->dir);
    if (flock(j->lock, LOCK_EX | LOCK_NB) < 0)
        return errno == EWOULDBLOCK
                   ? err_set(e, ERR_BUSY, "another process writes to this log: '%s/lock' is locked", j->dir)
                   : err_sys(e, "lock '%s/lock'", j->dir);
    return 0;
}

/* Sets j->end by reading the whole last segment. */
static int find_end(struct journal *j, struct err *e)
{
    struct journal_reader *reader;
    struct journal_record record;

    int r = journal_reader_open(j->dir, j->start + SEGMENT_HEAD, &reader, e);
    if (r < 0)
        return r;
    while ((r = journal_next(reader, &record, e)) > 0)
        ;
    if (r >= 0)
        j->end = journal_reader_position(reader);
    journal_reader_close(reader);
    return r;
}

static int open_last(struct journal *j, uint64_t start, struct err *e)
{
    struct stat st;

    j->start = start;
    j->fd = openat(j->dirfd, segment_name(start).z, O_RDWR | O_CLOEXEC);
    if (j->fd < 0 || fstat(j->fd, &st) < 0)
        return err_sys(e, "open segment '%s/%s'", j->dir, segment_name(start).z);
    if (st.st_size < SEGMENT_HEAD) { /* its maker died between creating it and writing the head */
        close(j->fd);
        j->fd = -1;
        j->end = start;
        return roll(j, e);
    }
    int r = find_end(j, e);
    if (r < 0)
        return r;
    uint64_t size = (uint64_t)st.st_size;
    if (size > j->end - start) {
        log_warn("log: torn end cut", "position=%llu bytes=%llu", (unsigned long long)j->end,
                 (unsigned long long)(size - (j->end - start)));
        j->reserved = j->end;
        return cut(j, e);
    }
    j->reserved = j->end; /* the first append reserves; a full disk must not keep a server from starting */
    return 0;
}

int journal_open_sized(const char *dir, uint64_t segment_bytes, struct journal **ret, struct err *e)
{
    struct journal *j = calloc(1, sizeof *j);
    char *copy = strdup(dir);
    auto_free uint64_t *starts = NULL;
    size_t n = 0;

    if (!j || !copy)
        abort();
    *j = (struct journal){ .dir = copy, .dirfd = -1, .lock = -1, .fd = -1, .segment_bytes = segment_bytes };
    j->batch = malloc(BATCH);
    if (!j->batch)
        abort();

    int r = lock_dir(j, e);
    if (r >= 0)
        r = segment_list(j->dirfd, &starts, &n, e);
    if (r >= 0)
        r = n ? open_last(j, starts[n - 1], e) : roll(j, e);
    if (r < 0) {
        journal_close(j);
        return err_wrap(e, r, "open the log");
    }
    j->owner = getpid();
    *ret = j;
    return 0;
}

int journal_open(const char *dir, struct journal **ret, struct err *e)
{
    return journal_open_sized(dir, LIMIT_SEGMENT, ret, e);
}

void journal_close(struct journal *j)
{
    if (!j)
        return;
    if (j->fd >= 0) {
        /* Never after a failed open, nor in a forked copy: `end` is not the end of the log there. */
        if (j->owner == getpid()) {
            write_batch_now(j);
            (void)ftruncate(j->fd, (off_t)(j->end - j->start));
        }
        close(j->fd);
    }
    if (j->dirfd >= 0)
        close(j->dirfd);
    if (j->lock >= 0)
        close(j->lock);
    free(j->dir);
    free(j->batch);
    free(j);
}

uint64_t journal_end(struct journal *j)
{
    write_batch_now(j);
    return j->end;
}

/* Finds a place for a record of `room` bytes: here, or in a new segment. */
static int make_room(struct journal *j, enum record_type type, uint64_t room, struct err *e)
{
    bool finishes = type == RECORD_RESULT || type == RECORD_BOX_CLOSE || type == RECORD_SESSION_CLOSE;

    if (room > BATCH - j->batch_n || j->end + room > j->start + j->segment_bytes)
        write_batch_now(j);
    if (j->torn) {
        int r = cut(j, e);
        if (r < 0)
            return r;
    }
    if (j->end + room > j->start + j->segment_bytes && j->end > j->start + SEGMENT_HEAD) {
        int r = roll(j, e);
        if (r < 0 && !(finishes && j->end + room <= j->reserved)) /* else: a longer segment, but a kept result */
            return r;
    }
    if (j->end + room + reserve_bytes(j) <= j->reserved)
        return 0;
    int r = reserve(j, j->end + room + reserve_bytes(j), e);
    if (r < 0 && finishes)
        r = reserve(j, j->end + room, e);
    return r;
}

int journal_check(struct journal *j, struct err *e)
{
    enum { ORDINARY = 4096 }; /* most are smaller */

    return make_room(j, RECORD_INTENT, ORDINARY, e);
}

static void batch_put(struct journal *j, const void *data, size_t n)
{
    memcpy(j->batch + j->batch_n, data, n);
    j->batch_n += n;
    j->end += n;
}

static int write_alone(struct journal *j, struct iovec *iov, int n, uint64_t room, struct err *e)
{
    int r = write_all(j->fd, iov, n, j->end - j->start);
    if (r < 0) {
        j->torn = true;
        (void)cut(j, NULL);
        errno = -r;
        return err_sys(e, "append %llu bytes to the log '%s'", (unsigned long long)room, j->dir);
    }
    j->end += room;
    return 0;
}

int journal_add(struct journal *j, enum record_type type, const struct str *parts, size_t n, struct err *e)
{
    static const char zeros[8];
    struct iovec iov[JOURNAL_PARTS + 2];
    uint64_t body = 0;

    if (n > JOURNAL_PARTS)
        return err_set(e, ERR_LIMIT, "a record of %zu parts exceeds JOURNAL_PARTS (%d)", n, JOURNAL_PARTS);
    for (size_t i = 0; i < n; i++) {
        iov[i + 1] = (struct iovec){ (void *)parts[i].p, parts[i].n };
        body += parts[i].n;
    }
    if (body > LIMIT_RECORD)
        return err_set(e, ERR_LIMIT, "a record of %llu bytes exceeds LIMIT_RECORD (%ld)", (unsigned long long)body,
                       (long)LIMIT_RECORD);
    uint64_t room = record_room(body);
    int r = make_room(j, type, room, e);
    if (r < 0)
        return r;

    struct journal_head head = {
        .size = (uint32_t)body, .type = (uint16_t)type, .version = RECORD_VERSION, .position = j->end
    };
    head.crc = record_crc(&head, parts, n);
    iov[0] = (struct iovec){ &head, sizeof head };
    iov[n + 1] = (struct iovec){ (void *)zeros, room - sizeof head - body };
    if (room > BATCH)
        return write_alone(j, iov, (int)n + 2, room, e);
    for (size_t i = 0; i < n + 2; i++)
        if (iov[i].iov_len)
            batch_put(j, iov[i].iov_base, iov[i].iov_len);
    return 0;
}

int journal_append(struct journal *j, enum record_type type, const struct str *parts, size_t n, uint64_t *ret_end,
                   struct err *e)
{
    write_batch_now(j); /* so that a failure of the others is not taken for its own */
    int r = journal_add(j, type, parts, n, e);
    if (r < 0)
        return r;
    r = write_batch(j, e);
    if (r >= 0 && ret_end)
        *ret_end = j->end;
    return r;
}

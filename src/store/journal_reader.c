/* Reads the log, in order, possibly while the writer appends in another process.
 *
 * What cannot be read at the current position is one of three things, and the difference matters:
 *   - nothing or a part of a record, and no valid record after it: the end for now (the writer is at work, or it died
 *     there and the next one will cut it). Bytes read so far are forgotten, because they may be rewritten.
 *   - the segment is over: the next one carries this position as its name.
 *   - damage: a valid record or a newer segment follows. Records are written strictly in order, so by then this one
 *     was complete, here or in a segment of its own; one more look at both after the discovery rules out the race. */
#include "store/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/limits.h"
#include "store/segment.h"

enum { LOOK = 8 * 1024, CHUNK = 256 * 1024, KEEP = 4 * 1024 * 1024 };

struct journal_reader {
    char *dir;
    int dirfd;      /* -1: the directory did not exist yet */
    int fd;         /* -1: no segment found yet */
    uint64_t start; /* of the open segment */
    uint64_t at;    /* the next record */
    char *buf;
    size_t size, n;
    size_t chunk;                    /* how much was read last: more and more of it while records are read in a row */
    uint64_t buf_at;                 /* position of buf[0] */
    uint64_t looked_at, looked_size; /* this tail was found to be just unfinished: not searched again */
};

int journal_reader_open(const char *dir, uint64_t from, struct journal_reader **ret, struct err *e)
{
    struct journal_reader *r = calloc(1, sizeof *r);
    char *copy = strdup(dir);

    (void)e;
    if (!r || !copy)
        abort();
    *r = (struct journal_reader){ .dir = copy, .dirfd = -1, .fd = -1, .at = from };
    *ret = r;
    return 0;
}

void journal_reader_close(struct journal_reader *r)
{
    if (!r)
        return;
    if (r->fd >= 0)
        close(r->fd);
    if (r->dirfd >= 0)
        close(r->dirfd);
    free(r->buf);
    free(r->dir);
    free(r);
}

uint64_t journal_reader_position(const struct journal_reader *r)
{
    return r->at;
}

void journal_seek(struct journal_reader *r, uint64_t position)
{
    if (r->fd >= 0 && position >= r->at && r->n && position < r->buf_at + r->n) {
        r->at = position; /* further on in what is already in memory, so in the same segment */
        return;
    }
    if (r->fd >= 0)
        close(r->fd);
    r->fd = -1;
    r->n = 0;
    r->at = position;
    r->looked_size = 0;
}

/* 1: r->fd is the segment. 0: it is not there, or its head is not written yet. */
static int use_segment(struct journal_reader *r, uint64_t start, struct err *e)
{
    auto_close int fd = openat(r->dirfd, segment_name(start).z, O_RDONLY | O_CLOEXEC);
    char magic[SEGMENT_HEAD];

    if (fd < 0)
        return errno == ENOENT ? 0 : err_sys(e, "open segment '%s/%s'", r->dir, segment_name(start).z);
    ssize_t got = pread(fd, magic, sizeof magic, 0);
    if (got < 0)
        return err_sys(e, "read segment '%s/%s'", r->dir, segment_name(start).z);
    if (got < SEGMENT_HEAD)
        return 0;
    if (memcmp(magic, SEGMENT_MAGIC, SEGMENT_HEAD) != 0)
        return err_set(e, ERR_SYSTEM, "segment '%s/%s' does not begin with " SEGMENT_MAGIC, r->dir,
                       segment_name(start).z);

    if (r->fd >= 0)
        close(r->fd);
    r->fd = TAKE_FD(fd);
    r->start = start;
    r->n = 0;
    if (r->at < start + SEGMENT_HEAD)
        r->at = start + SEGMENT_HEAD;
    return 1;
}

static int find_segment(struct journal_reader *r, struct err *e)
{
    auto_free uint64_t *starts = NULL;
    size_t n;

    if (r->dirfd < 0) {
        r->dirfd = open(r->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (r->dirfd < 0)
            return errno == ENOENT ? 0 : err_sys(e, "open the log '%s'", r->dir);
    }
    int err = segment_list(r->dirfd, &starts, &n, e);
    if (err < 0)
        return err;
    if (n == 0)
        return 0;

    size_t i = 0;
    while (i + 1 < n && starts[i + 1] <= r->at)
        i++;
    if (starts[i] > r->at && r->at != 0)
        return err_set(e, ERR_NOT_FOUND, "position %llu of the log '%s' is older than its first segment (%llu)",
                       (unsigned long long)r->at, r->dir, (unsigned long long)starts[i]);
    return use_segment(r, starts[i], e);
}

/* 1: [position, position + need) is in memory. 0: the file ends before. */
static int fill(struct journal_reader *r, uint64_t position, size_t need, struct err *e)
{
    if (r->n && position >= r->buf_at && position - r->buf_at <= r->n && r->n - (position - r->buf_at) >= need)
        return 1;

    bool goes_on = position >= r->buf_at && position - r->buf_at <= r->n;
    r->chunk = !goes_on || r->chunk == 0 ? LOOK : r->chunk < CHUNK ? r->chunk * 2 : CHUNK;
    size_t want = need > r->chunk ? need : r->chunk;
    if (r->size < want || (r->size > KEEP && want <= KEEP)) {
        free(r->buf);
        r->n = 0;
        r->buf = malloc(want);
        r->size = r->buf ? want : 0;
        if (!r->buf)
            return err_set(e, ERR_LIMIT, "no memory for a record of %zu bytes", need);
    }
    r->buf_at = position;
    r->n = 0;
    while (r->n < want) {
        ssize_t got = pread(r->fd, r->buf + r->n, want - r->n, (off_t)(position - r->start + r->n));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return err_sys(e, "read the log '%s' at position %llu", r->dir, (unsigned long long)position);
        if (got == 0)
            break;
        r->n += (size_t)got;
    }
    return r->n >= need;
}

static bool all_zero(struct str s)
{
    return s.n == 0 || (s.p[0] == 0 && memcmp(s.p, s.p + 1, s.n - 1) == 0);
}

/* 1: *ret is a whole and right record. 0: there is none; nothing of it stays in memory. */
static int load(struct journal_reader *r, uint64_t position, struct journal_record *ret, struct err *e)
{
    struct journal_head head;

    int ok = fill(r, position, sizeof head, e);
    if (ok > 0) {
        memcpy(&head, r->buf + (position - r->buf_at), sizeof head);
        ok = record_head_ok(&head, position) ? fill(r, position, record_room(head.size), e) : 0;
    }
    if (ok > 0) {
        struct str body = { r->buf + (position - r->buf_at) + sizeof head, head.size };
        bool erased = head.crc == record_erased_crc(&head), rest = erased && !all_zero(body);
        if (erased)
            body = (struct str){ 0 };
        if (erased || record_crc(&head, &body, 1) == head.crc) {
            *ret = (struct journal_record){ .type = erased ? RECORD_ERASED : (enum record_type)head.type,
                                            .position = position,
                                            .end = position + record_room(head.size),
                                            .crc = head.crc,
                                            .body = body,
                                            .rest = rest };
            return 1;
        }
        ok = 0;
    }
    r->n = 0;
    return ok;
}

/* The position of the first valid record after the current one that cannot be read; 0: there is none. Bodies are
 * JSON, which has no NUL byte, so nothing that a client sent can look like a head. */
static int search(struct journal_reader *r, uint64_t *ret, struct err *e)
{
    auto_free char *window = malloc(CHUNK);
    struct journal_record record;
    uint64_t base = r->at + 8;

    if (!window)
        abort();
    *ret = 0;
    for (;;) {
        ssize_t got = pread(r->fd, window, CHUNK, (off_t)(base - r->start));
        if (got < 0)
            return err_sys(e, "read the log '%s' at position %llu", r->dir, (unsigned long long)base);
        if (got < (ssize_t)sizeof(struct journal_head))
            return 0;
        size_t last = (size_t)got - sizeof(struct journal_head);
        size_t o = 0;
        for (; o <= last; o += 8) {
            struct journal_head head;
            memcpy(&head, window + o, sizeof head);
            if (!record_head_ok(&head, base + o))
                continue;
            int found = load(r, base + o, &record, e);
            if (found < 0)
                return found;
            if (found > 0) {
                *ret = base + o;
                return 0;
            }
        }
        base += o;
    }
}

static int damaged(struct journal_reader *r, uint64_t next, const char *what, struct err *e)
{
    return err_set(e, ERR_SYSTEM,
                   "the log is damaged at position %llu (segment %s, offset %llu), but %s follows at %llu",
                   (unsigned long long)r->at, segment_name(r->start).z, (unsigned long long)(r->at - r->start), what,
                   (unsigned long long)next);
}

/* Nothing can be read at r->at. 1: it can now, 0: the end, 2: a next segment is open, < 0: damage. */
static int judge_end(struct journal_reader *r, struct journal_record *ret, struct err *e)
{
    struct stat st;

    int found = use_segment(r, r->at, e);
    if (found != 0)
        return found < 0 ? found : 2;
    if (fstat(r->fd, &st) < 0)
        return err_sys(e, "stat segment %s", segment_name(r->start).z);
    if (r->looked_at == r->at && r->looked_size == (uint64_t)st.st_size)
        return 0;

    auto_free uint64_t *starts = NULL;
    size_t n;
    found = segment_list(r->dirfd, &starts, &n, e);
    if (found < 0)
        return found;
    uint64_t follows = n && starts[n - 1] > r->start ? starts[n - 1] : 0;
    const char *what = "a newer segment";
    if (follows == r->at)
        return 0; /* just being made: its head is not written yet */
    if (!follows && (uint64_t)st.st_size > r->at - r->start) {
        what = "a valid record";
        found = search(r, &follows, e);
        if (found < 0)
            return found;
    }
    if (follows) {
        found = load(r, r->at, ret, e);
        if (found != 0)
            return found;
        found = use_segment(r, r->at, e); /* it and its successors may have come since it was looked for */
        if (found != 0)
            return found < 0 ? found : 2;
        return damaged(r, follows, what, e);
    }
    r->looked_at = r->at;
    r->looked_size = (uint64_t)st.st_size;
    return 0;
}

int journal_next(struct journal_reader *r, struct journal_record *ret, struct err *e)
{
    for (;;) {
        if (r->fd < 0) {
            int found = find_segment(r, e);
            if (found <= 0)
                return found;
        }
        int ok = load(r, r->at, ret, e);
        if (ok == 0)
            ok = judge_end(r, ret, e);
        if (ok == 2)
            continue;
        if (ok == 1)
            r->at = ret->end;
        return ok;
    }
}

/* Makes the log survive a power cut. Kept apart from the writer, because another process does it: fdatasync takes
 * the disk's time, and serve has none. */
#include "store/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "store/segment.h"

static struct {
    char *dir;
    int dirfd, fd;   /* fd: the newest segment that is known, -1 before the first sync */
    uint64_t start;  /* of it */
    uint64_t synced; /* everything before is on the disk */
    int failed;      /* errno of the first failure */
} mark = { .dirfd = -1, .fd = -1 };

static int fail(struct err *e, const char *what)
{
    mark.failed = errno ? errno : EIO;
    return err_sys(e, "%s of the log '%s'", what, mark.dir);
}

static void forget(const char *dir)
{
    if (mark.fd >= 0)
        close(mark.fd);
    if (mark.dirfd >= 0)
        close(mark.dirfd);
    free(mark.dir);
    mark.dir = strdup(dir);
    if (!mark.dir)
        abort();
    mark.dirfd = mark.fd = -1;
    mark.start = mark.synced = 0;
    mark.failed = 0;
}

/* One without is not part of the log yet: on a full disk its maker takes it away again and goes on in the old one. */
static bool has_head(int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 && st.st_size >= SEGMENT_HEAD;
}

/* The first time in a process nothing is known about older segments, so all are synced; clean ones cost little. */
static int begin(struct err *e)
{
    auto_free uint64_t *starts = NULL;
    auto_close int newest = -1;
    size_t n;

    if (mark.dirfd < 0)
        mark.dirfd = open(mark.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (mark.dirfd < 0)
        return errno == ENOENT ? 0 : err_sys(e, "open the log's directory '%s'", mark.dir);
    int r = segment_list(mark.dirfd, &starts, &n, e);
    if (r < 0)
        return r;
    for (size_t i = 0; i < n; i++) {
        auto_close int fd = openat(mark.dirfd, segment_name(starts[i]).z, O_RDONLY | O_CLOEXEC);
        if (fd < 0 && errno == ENOENT)
            continue; /* its maker gave it up */
        if (fd < 0)
            return err_sys(e, "open segment '%s/%s'", mark.dir, segment_name(starts[i]).z);
        if (fdatasync(fd) < 0)
            return fail(e, "fdatasync");
        if (!has_head(fd))
            continue;
        if (newest >= 0)
            close(newest);
        newest = TAKE_FD(fd);
        mark.start = starts[i];
    }
    if (fsync(mark.dirfd) < 0)
        return fail(e, "fsync of the directory");
    mark.fd = TAKE_FD(newest);
    return 0;
}

int journal_sync(const char *dir, uint64_t upto, struct err *e)
{
    if (!mark.dir || strcmp(mark.dir, dir) != 0)
        forget(dir);
    if (mark.failed) {
        errno = mark.failed;
        return err_sys(e, "an earlier sync of the log '%s' failed; what it covered may be lost", dir);
    }
    if (upto <= mark.synced)
        return 0;
    if (mark.fd < 0) {
        int r = begin(e);
        if (r < 0 || mark.fd < 0)
            return r;
    }
    for (;;) {
        struct stat st;
        if (fstat(mark.fd, &st) < 0)
            return err_sys(e, "stat the newest segment of the log '%s'", dir);
        /* A segment that has a successor is final, so looking for that first makes this fdatasync its last. */
        uint64_t next = mark.start + (uint64_t)st.st_size;
        int fd = st.st_size > 0 ? openat(mark.dirfd, segment_name(next).z, O_RDONLY | O_CLOEXEC) : -1;
        if (fd >= 0 && !has_head(fd)) {
            close(fd);
            fd = -1;
        }
        if (fdatasync(mark.fd) < 0) {
            int r = fail(e, "fdatasync");
            if (fd >= 0)
                close(fd);
            return r;
        }
        if (fd < 0)
            break;
        close(mark.fd);
        mark.fd = fd;
        mark.start = next;
        if (fsync(mark.dirfd) < 0)
            return fail(e, "fsync of the directory");
    }
    /* With "all" the end may be half a record that the next writer cuts and writes anew: only the segment counts. */
    mark.synced = upto != UINT64_MAX ? upto : mark.start > mark.synced ? mark.start : mark.synced;
    return 0;
}

/* A log that was damaged: by arbitrary bytes (first byte even), or a right one of which some bytes were changed or
 * cut off (odd). The reader must end, never invent a record, and lose nothing before the first changed byte; the writer
 * must either refuse with a position or cut, and then append what can be read again. */
/* needs: src/store/journal.c src/store/journal_reader.c src/store/segment.c src/store/crc32c.c */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/log.h"
#include "store/journal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static char dir[] = "/tmp/sandglass-fuzz-XXXXXX";
static char path[64];
enum { RECORDS = 4 };

static void check(bool ok)
{
    if (!ok)
        abort();
}

static void clean_up(void)
{
    char lock[64];
    snprintf(lock, sizeof lock, "%s/lock", dir);
    unlink(path);
    unlink(lock);
    rmdir(dir);
}

static void begin(void)
{
    if (path[0])
        return;
    check(mkdtemp(dir) != NULL);
    snprintf(path, sizeof path, "%s/00000000000000000000.seg", dir);
    log_max = LOG_ERROR;
    atexit(clean_up);
}

/* How many records come out before the end or an error. Bodies of ours are all alike. */
static size_t read_all(bool ours, int *ret_last)
{
    struct journal_reader *r;
    struct journal_record record;
    struct err e = { 0 };
    size_t count = 0;
    uint64_t at = 8;

    check(journal_reader_open(dir, 0, &r, &e) == 0);
    while ((*ret_last = journal_next(r, &record, &e)) > 0) {
        check(record.position == at && record.end > at && record.end % 8 == 0);
        check(!ours || str_is(record.body, "{\"a\":\"body\"}"));
        at = record.end;
        count++;
    }
    check(*ret_last == 0 || e.msg[0]);
    journal_reader_close(r);
    return count;
}

static uint64_t write_ours(uint64_t *ret_ends)
{
    struct journal *j;
    struct err e = { 0 };
    struct str body = STR("{\"a\":\"body\"}");

    unlink(path);
    check(journal_open_sized(dir, 64 * KiB, &j, &e) == 0);
    for (int i = 0; i < RECORDS; i++)
        check(journal_append(j, RECORD_STEP, &body, 1, &ret_ends[i], &e) == 0);
    journal_close(j);
    return ret_ends[RECORDS - 1];
}

/* Applies (offset, value) pairs, then perhaps cuts. Returns the offset of the first byte that differs. */
static uint64_t spoil(const uint8_t *data, size_t n, uint64_t size)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    uint64_t first = size;

    check(fd >= 0);
    for (; n >= 2; data += 2, n -= 2) {
        uint64_t at = data[0] % size;
        char was;
        check(pread(fd, &was, 1, (off_t)at) == 1);
        check(pwrite(fd, data + 1, 1, (off_t)at) == 1);
        if (was != (char)data[1] && at < first)
            first = at;
    }
    if (n == 1) {
        check(ftruncate(fd, (off_t)(data[0] % (size + 1))) == 0);
        if (data[0] % (size + 1) < first)
            first = data[0] % (size + 1);
    }
    close(fd);
    return first;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    uint64_t ends[RECORDS];
    size_t safe = 0;
    bool ours = n && data[0] % 2;
    int last;

    begin();
    if (n == 0)
        return 0;
    if (ours) {
        uint64_t first = spoil(data + 1, n - 1, write_ours(ends));
        while (safe < RECORDS && ends[safe] <= first && first >= 8)
            safe++;
    } else {
        int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        check(fd >= 0 && pwrite(fd, "SGLOG001", 8, 0) == 8 && pwrite(fd, data + 1, n - 1, 8) == (ssize_t)(n - 1));
        close(fd);
    }
    size_t count = read_all(ours, &last);
    check(count >= safe);

    struct journal *j;
    struct err e = { 0 };
    int r = journal_open_sized(dir, 64 * KiB, &j, &e);
    check(last >= 0 || r < 0); /* damage is never cut away */
    if (r >= 0) {
        struct str body = STR("{\"a\":\"body\"}");
        check(journal_append(j, RECORD_STEP, &body, 1, NULL, &e) == 0);
        journal_close(j);
        check(read_all(ours, &last) == count + 1 && last == 0);
    } else {
        check(e.msg[0] != 0);
    }
    return 0;
}

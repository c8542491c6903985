/* The log: nothing that was promised is lost, nothing that is damaged is passed over. */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/limits.h"
#include "base/log.h"
#include "store/crc32c.h"
#include "store/journal.h"

static char *temp_dir(void)
{
    char template[] = "/tmp/sandglass-journal-XXXXXX";
    char *dir = mkdtemp(template);
    if (!dir)
        abort();
    return strdup(dir);
}

static void remove_dir(char *dir)
{
    char command[256];
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    if (system(command) != 0)
        abort();
    free(dir);
}

static struct journal *open_writer(const char *dir, uint64_t segment)
{
    struct journal *j = NULL;
    struct err e = { 0 };
    if (journal_open_sized(dir, segment, &j, &e) < 0) {
        printf("journal_open: %s\n", e.msg);
        test_failures++;
    }
    return j;
}

static uint64_t append(struct journal *j, const char *text)
{
    struct str parts[] = { STR("{\"n\":\""), str_of(text), STR("\"}") };
    struct err e = { 0 };
    uint64_t end = 0;
    if (journal_append(j, RECORD_STEP, parts, 3, &end, &e) < 0) {
        printf("journal_append: %s\n", e.msg);
        test_failures++;
    }
    return end;
}

/* How many records can be read; *last_r is what ended it, *e its story. */
static int count_records(const char *dir, int *last_r, struct err *e)
{
    struct journal_reader *r;
    struct journal_record record;
    int n = 0;

    EXPECT_INT(journal_reader_open(dir, 0, &r, e), 0);
    while ((*last_r = journal_next(r, &record, e)) > 0)
        n++;
    journal_reader_close(r);
    return n;
}

static char *segment_path(const char *dir, const char *name)
{
    char *path;
    if (asprintf(&path, "%s/%s", dir, name) < 0)
        abort();
    return path;
}

static void flip(const char *path, off_t at)
{
    auto_close int fd = open(path, O_RDWR | O_CLOEXEC);
    char c;
    EXPECT_INT(pread(fd, &c, 1, at), 1);
    c ^= 0x10;
    EXPECT_INT(pwrite(fd, &c, 1, at), 1);
}

static off_t size_of(const char *path)
{
    struct stat st;
    return stat(path, &st) < 0 ? -1 : st.st_size;
}

TEST(crc32c)
{
    EXPECT_INT(crc32c(0, "123456789", 9), 0xE3069283);
    EXPECT_INT(crc32c_table(0, "123456789", 9), 0xE3069283);
    EXPECT_INT(crc32c(crc32c(0, "1234", 4), "56789", 5), 0xE3069283);
}

TEST(journal_round_trip)
{
    char *dir = temp_dir();
    struct journal *j = open_writer(dir, LIMIT_SEGMENT);
    struct journal_reader *r;
    struct journal_record record;
    struct err e = { 0 };

    EXPECT_INT(journal_end(j), 8);
    uint64_t first = append(j, "one");
    uint64_t second = append(j, "a longer one");
    EXPECT_INT(journal_reader_open(dir, 0, &r, &e), 0);
    EXPECT_INT(journal_next(r, &record, &e), 1);
    EXPECT_STR(record.body, "{\"n\":\"one\"}");
    EXPECT_INT(record.position, 8);
    EXPECT_INT(record.end, first);
    EXPECT_INT(record.type, RECORD_STEP);
    EXPECT_INT(journal_next(r, &record, &e), 1);
    EXPECT_STR(record.body, "{\"n\":\"a longer one\"}");
    EXPECT_INT(record.end, second);
    EXPECT_INT(journal_next(r, &record, &e), 0);
    append(j, "three"); /* the reader sees what comes later */
    EXPECT_INT(journal_next(r, &record, &e), 1);
    EXPECT_STR(record.body, "{\"n\":\"three\"}");
    journal_seek(r, first);
    EXPECT_INT(journal_next(r, &record, &e), 1);
    EXPECT_STR(record.body, "{\"n\":\"a longer one\"}");
    EXPECT_INT(journal_sync(dir, journal_end(j), &e), 0);
    EXPECT_INT(journal_sync(dir, UINT64_MAX, &e), 0);

    auto_free char *path = segment_path(dir, "00000000000000000000.seg");
    struct stat st;
    EXPECT_INT(stat(path, &st), 0);
    EXPECT_INT(st.st_mode & 0777, 0600);
    journal_reader_close(r);
    journal_close(j);
    remove_dir(dir);
}

TEST(journal_reader_without_a_log)
{
    char *dir = temp_dir();
    auto_free char *sub = segment_path(dir, "log");
    struct journal_reader *r;
    struct journal_record record;
    struct err e = { 0 };

    EXPECT_INT(journal_reader_open(sub, 0, &r, &e), 0);
    EXPECT_INT(journal_next(r, &record, &e), 0);
    struct journal *j = open_writer(sub, LIMIT_SEGMENT);
    EXPECT_INT(journal_next(r, &record, &e), 0);
    append(j, "x");
    EXPECT_INT(journal_next(r, &record, &e), 1);
    journal_close(j);
    journal_reader_close(r);
    remove_dir(dir);
}

/* Cut the last record at each of its bytes; the next writer must keep the two before it and go on. */
TEST(journal_torn_tail)
{
    enum log_level before = log_max;
    log_max = LOG_ERROR;
    char *dir = temp_dir();
    auto_free char *path = segment_path(dir, "00000000000000000000.seg");
    struct journal *j = open_writer(dir, LIMIT_SEGMENT);
    append(j, "first");
    uint64_t keep = append(j, "second");
    uint64_t end = append(j, "the third, which will be torn");
    journal_close(j);

    for (uint64_t cut = keep; cut < end; cut++) {
        struct err e = { 0 };
        int last;
        EXPECT_INT(truncate(path, (off_t)cut), 0);
        EXPECT_INT(count_records(dir, &last, &e), 2);
        EXPECT_INT(last, 0);
        j = open_writer(dir, LIMIT_SEGMENT);
        EXPECT_INT(journal_end(j), keep);
        EXPECT_INT(size_of(path), keep);
        EXPECT_INT(append(j, "the third, which will be torn"), end);
        journal_close(j);
        EXPECT_INT(count_records(dir, &last, &e), 3);
    }
    /* The same with the size kept and zeros or rubbish in place of the lost bytes, as after a power cut. */
    for (uint64_t cut = keep; cut < end - 8; cut++) {
        struct err e = { 0 };
        int last;
        EXPECT_INT(truncate(path, (off_t)cut), 0);
        EXPECT_INT(truncate(path, (off_t)end + 4096), 0);
        EXPECT_INT(count_records(dir, &last, &e), 2);
        EXPECT_INT(last, 0);
        j = open_writer(dir, LIMIT_SEGMENT);
        EXPECT_INT(journal_end(j), keep);
        EXPECT_INT(append(j, "the third, which will be torn"), end);
        journal_close(j);
    }
    remove_dir(dir);
    log_max = before;
}

/* Each single byte of a middle record, head included, is guarded. */
TEST(journal_damage_in_the_middle)
{
    char *dir = temp_dir();
    auto_free char *path = segment_path(dir, "00000000000000000000.seg");
    struct journal *j = open_writer(dir, LIMIT_SEGMENT);
    uint64_t from = append(j, "first");
    uint64_t to = append(j, "second");
    append(j, "third");
    journal_close(j);
    char want[64];
    snprintf(want, sizeof want, "position %llu ", (unsigned long long)from);

    for (uint64_t at = from; at < to - 7; at++) {
        struct err e = { 0 };
        int last;
        flip(path, (off_t)at);
        EXPECT_INT(count_records(dir, &last, &e), 1);
        EXPECT_INT(last < 0, 1);
        EXPECT_TRUE(strstr(e.msg, want));
        EXPECT_INT(journal_open_sized(dir, LIMIT_SEGMENT, &j, &e) < 0, 1); /* the writer refuses rather than cuts */
        EXPECT_TRUE(strstr(e.msg, want));
        flip(path, (off_t)at);
    }
    remove_dir(dir);
}

TEST(journal_two_writers)
{
    char *dir = temp_dir();
    struct journal *j = open_writer(dir, LIMIT_SEGMENT), *other = NULL;
    struct err e = { 0 };

    EXPECT_INT(journal_open(dir, &other, &e) < 0, 1);
    EXPECT_INT(e.code, ERR_BUSY);
    EXPECT_TRUE(strstr(e.msg, "/lock"));
    journal_close(j);
    EXPECT_INT(journal_open(dir, &other, &e), 0);
    journal_close(other);
    remove_dir(dir);
}

TEST(journal_segments)
{
    char *dir = temp_dir();
    struct journal *j = open_writer(dir, 4096);
    struct err e = { 0 };
    int last;

    for (int i = 0; i < 500; i++)
        append(j, "a record of some length, so that a segment of four KiB holds about forty of it");
    uint64_t end = journal_end(j);
    EXPECT_INT(count_records(dir, &last, &e), 500);
    EXPECT_INT(last, 0);
    EXPECT_INT(journal_sync(dir, end, &e), 0);
    journal_close(j);
    j = open_writer(dir, 4096);
    EXPECT_INT(journal_end(j), end);
    char *big = calloc(1, 20001);
    memset(big, 'x', 20000);
    append(j, big); /* larger than a segment: it gets one for itself */
    append(j, "after");
    free(big);
    EXPECT_INT(count_records(dir, &last, &e), 502);
    EXPECT_INT(journal_sync(dir, journal_end(j), &e), 0);
    journal_close(j);

    /* A segment that lost its end, with newer ones behind it, is damage. */
    auto_free char *path = segment_path(dir, "00000000000000000000.seg");
    EXPECT_INT(truncate(path, size_of(path) - 8), 0);
    EXPECT_INT(count_records(dir, &last, &e) < 502, 1);
    EXPECT_INT(last < 0, 1);
    EXPECT_TRUE(strstr(e.msg, "newer segment"));
    remove_dir(dir);
}

TEST(journal_segment_without_head)
{
    char *dir = temp_dir();
    struct journal *j = open_writer(dir, 4096);
    struct err e = { 0 };
    int last;

    append(j, "one");
    uint64_t end = journal_end(j);
    journal_close(j);
    char name[64];
    snprintf(name, sizeof name, "%020llu.seg", (unsigned long long)end);
    auto_free char *path = segment_path(dir, name);
    close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600)); /* its maker died before it wrote the head */
    EXPECT_INT(count_records(dir, &last, &e), 1);
    EXPECT_INT(last, 0);
    j = open_writer(dir, 4096);
    append(j, "two");
    EXPECT_INT(count_records(dir, &last, &e), 2);
    journal_close(j);
    remove_dir(dir);
}

/* A write that fails half-way leaves the log as it was. RLIMIT_FSIZE gives a short write, then EFBIG. */
TEST(journal_failed_write)
{
    char *dir = temp_dir();
    struct err e = { 0 };
    int last, status = 0;

    pid_t pid = fork();
    if (pid == 0) {
        struct journal *j = open_writer(dir, LIMIT_SEGMENT);
        char *big = calloc(1, 100000);
        struct str part = { big, 99999 };
        memset(big, 'x', 99999);
        append(j, "one");
        uint64_t end = journal_end(j);
        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &(struct rlimit){ 70000, 70000 });
        int r = journal_append(j, RECORD_STEP, &part, 1, NULL, &e);
        bool ok = r < 0 && journal_end(j) == end && e.code == ERR_SYSTEM;
        r = journal_append(j, RECORD_STEP, &(struct str){ "{}", 2 }, 1, NULL, &e);
        _exit(ok && r == 0 ? 0 : 1);
    }
    EXPECT_INT(waitpid(pid, &status, 0), pid);
    EXPECT_INT(status, 0);
    EXPECT_INT(count_records(dir, &last, &e), 2);
    EXPECT_INT(last, 0);
    remove_dir(dir);
}

/* Added records are one write, whatever asks for it, and their failure is told to who flushes, not to others. */
TEST(journal_records_that_are_added_together)
{
    char *dir = temp_dir();
    struct err e = { 0 };
    struct str part = STR("{}");
    int last;

    struct journal *j = open_writer(dir, 4096);
    for (int i = 0; i < 3; i++)
        EXPECT_INT(journal_add(j, RECORD_INTENT, &part, 1, &e), 0);
    EXPECT_INT(count_records(dir, &last, &e), 0);
    EXPECT_INT(journal_flush(j, &e), 0);
    EXPECT_INT(count_records(dir, &last, &e), 3);
    EXPECT_INT(journal_add(j, RECORD_RESULT, &part, 1, &e), 0);
    append(j, "behind them");
    EXPECT_INT(count_records(dir, &last, &e), 5);
    EXPECT_INT(journal_add(j, RECORD_RESULT, &part, 1, &e), 0);
    uint64_t end = journal_end(j);
    EXPECT_INT(count_records(dir, &last, &e), 6);
    for (int i = 0; i < 500; i++) /* over several segments */
        EXPECT_INT(journal_add(j, RECORD_STEP, &part, 1, &e), 0);
    EXPECT_INT(journal_flush(j, &e), 0);
    EXPECT_TRUE(journal_end(j) > end);
    EXPECT_INT(journal_add(j, RECORD_STEP, &part, 1, &e), 0);
    journal_close(j);
    EXPECT_INT(count_records(dir, &last, &e), 507);
    EXPECT_INT(last, 0);
    remove_dir(dir);
}

TEST(journal_batch_that_fails)
{
    char *dir = temp_dir();
    struct err e = { 0 };
    int last, status = 0;

    pid_t pid = fork();
    if (pid == 0) {
        struct journal *j = open_writer(dir, LIMIT_SEGMENT);
        char *big = calloc(1, 100000);
        struct str part = { big, 99999 };
        memset(big, 'x', 99999);
        append(j, "one");
        uint64_t end = journal_end(j);
        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &(struct rlimit){ 70000, 70000 });
        bool ok = journal_add(j, RECORD_STEP, &part, 1, &e) == 0 && journal_end(j) == end; /* not told here ... */
        append(j, "two");
        ok = ok && journal_flush(j, &e) < 0 && e.code == ERR_SYSTEM; /* ... but here */
        ok = ok && journal_flush(j, &e) == 0;
        _exit(ok ? 0 : 1);
    }
    EXPECT_INT(waitpid(pid, &status, 0), pid);
    EXPECT_INT(status, 0);
    EXPECT_INT(count_records(dir, &last, &e), 2);
    EXPECT_INT(last, 0);
    remove_dir(dir);
}

/* Of a batch that fails half-way, what a reader may have read stays where it was. */
TEST(journal_batch_that_fails_half_way)
{
    char *dir = temp_dir();
    struct err e = { 0 };
    int last, status = 0;

    pid_t pid = fork();
    if (pid == 0) {
        struct journal *j = open_writer(dir, LIMIT_SEGMENT);
        char big[1000];
        struct str part = { big, sizeof big };
        struct rlimit limit;
        bool ok = true;
        memset(big, 'x', sizeof big);
        signal(SIGXFSZ, SIG_IGN);
        getrlimit(RLIMIT_FSIZE, &limit);
        for (int i = 0; i < 5; i++)
            ok = ok && journal_add(j, RECORD_STEP, &part, 1, &e) == 0;
        setrlimit(RLIMIT_FSIZE, &(struct rlimit){ 8 + 3 * 1024 + 500, limit.rlim_max });
        ok = ok && journal_flush(j, &e) < 0 && e.code == ERR_SYSTEM;
        ok = ok && journal_end(j) == 8 + 3 * 1024;
        setrlimit(RLIMIT_FSIZE, &limit);
        append(j, "after");
        _exit(ok ? 0 : 1);
    }
    EXPECT_INT(waitpid(pid, &status, 0), pid);
    EXPECT_INT(status, 0);
    EXPECT_INT(count_records(dir, &last, &e), 4);
    EXPECT_INT(last, 0);
    remove_dir(dir);
}

static bool has_open(const char *path)
{
    struct stat want, st;

    EXPECT_INT(stat(path, &want), 0);
    for (int fd = 0; fd < 256; fd++)
        if (fstat(fd, &st) == 0 && st.st_ino == want.st_ino && st.st_dev == want.st_dev)
            return true;
    return false;
}

/* A segment that is given up before it has a head is not taken for the newest one. */
TEST(journal_sync_beside_a_segment_that_is_given_up)
{
    char *dir = temp_dir();
    struct journal *j = open_writer(dir, 4096);
    struct err e = { 0 };

    uint64_t end = append(j, "one");
    EXPECT_INT(journal_sync(dir, end, &e), 0);
    char name[64];
    snprintf(name, sizeof name, "%020llu.seg", (unsigned long long)end);
    auto_free char *path = segment_path(dir, name);
    close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    EXPECT_INT(journal_sync(dir, UINT64_MAX, &e), 0);
    EXPECT_INT(has_open(path), 0);
    EXPECT_INT(unlink(path), 0);
    end = append(j, "two");
    EXPECT_INT(journal_sync(dir, end, &e), 0);
    journal_close(j);
    remove_dir(dir);
}

/* The reader in this process, the writer in another that is killed at some moment. */
static void read_beside_writer(uint64_t segment, long records)
{
    char *dir = temp_dir();
    struct journal_reader *r;
    struct journal_record record;
    struct err e = { 0 };
    long n = 0;
    int status;

    pid_t pid = fork();
    if (pid == 0) {
        struct journal *j = open_writer(dir, segment);
        for (long i = 0; i < records; i++) {
            char body[4000];
            int len = snprintf(body, sizeof body, "%ld ", i);
            memset(body + len, 'y', (size_t)(i * 37 % 3000));
            struct str part = { body, (size_t)len + (size_t)(i * 37 % 3000) };
            if (journal_append(j, RECORD_STEP, &part, 1, NULL, &e) < 0)
                _exit(1);
        }
        kill(getpid(), SIGKILL);
    }
    EXPECT_INT(journal_reader_open(dir, 0, &r, &e), 0);
    for (bool over = false;;) {
        int got = journal_next(r, &record, &e);
        if (got < 0) {
            printf("%s\n", e.msg);
            test_failures++;
            kill(pid, SIGKILL);
            waitpid(pid, &status, 0);
            break;
        }
        if (got == 0 && over)
            break;
        if (got == 0)
            over = waitpid(pid, &status, WNOHANG) == pid;
        else if (strtol(record.body.p, NULL, 10) == n)
            n++;
    }
    EXPECT_INT(n, records);
    journal_reader_close(r);
    struct journal *j = open_writer(dir, LIMIT_SEGMENT); /* the lock died with its holder */
    journal_close(j);
    remove_dir(dir);
}

TEST(journal_reader_beside_writer)
{
    read_beside_writer(256 * 1024, 20000);
}

/* Each record has a segment for itself: while the reader looks for the next one, several may come. */
TEST(journal_reader_beside_writer_that_begins_segment_after_segment)
{
    read_beside_writer(64, 3000);
}

/* Numbers on, from where the log ends, some at a time, until it is killed. */
static void number_on(const char *dir)
{
    struct journal *j = open_writer(dir, 2048);
    struct err e = { 0 };
    int last;

    for (int n = count_records(dir, &last, &e);; n += 7) {
        for (int i = 0; i < 7; i++) {
            char body[600];
            int len = snprintf(body, sizeof body, "%-*d", 10 + (n + i) * 37 % 500, n + i);
            if (journal_add(j, RECORD_STEP, &(struct str){ body, (size_t)len }, 1, &e) < 0)
                _exit(1);
        }
        if (journal_flush(j, &e) < 0)
            _exit(1);
    }
}

/* Writers die anywhere, also between two segments; one reader goes on over all of them and misses nothing. */
TEST(journal_writers_killed_beside_a_reader)
{
    enum log_level before = log_max;
    log_max = LOG_ERROR;
    char *dir = temp_dir();
    struct journal_reader *r;
    struct journal_record record;
    struct err e = { 0 };
    int n = 0, last, got = 0;

    EXPECT_INT(journal_reader_open(dir, 0, &r, &e), 0);
    for (int round = 0; round < 20 && got >= 0; round++) {
        pid_t pid = fork();
        if (pid == 0)
            number_on(dir);
        for (int until = n + 1 + round * 13 % 40; n < until && got >= 0;) {
            got = journal_next(r, &record, &e);
            if (got > 0 && strtol(record.body.p, NULL, 10) != n++)
                got = -EILSEQ;
            siginfo_t ended = { 0 };
            if (got == 0 && waitid(P_PID, (id_t)pid, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid)
                got = -ECHILD; /* by itself */
        }
        kill(pid, SIGKILL);
        EXPECT_INT(waitpid(pid, NULL, 0), pid);
    }
    while (got >= 0 && (got = journal_next(r, &record, &e)) > 0)
        EXPECT_INT(strtol(record.body.p, NULL, 10), n++);
    if (got < 0)
        printf("after %d records: %d %s\n", n, got, e.msg);
    EXPECT_INT(got, 0);
    EXPECT_INT(count_records(dir, &last, &e), n);
    EXPECT_INT(last, 0);
    journal_reader_close(r);
    remove_dir(dir);
    log_max = before;
}

/* What is in the segment files, as text. */
static bool log_has(const char *dir, const char *text)
{
    char command[300];
    snprintf(command, sizeof command, "cat '%s'/*.seg | grep -q -a '%s'", dir, text);
    return system(command) == 0;
}

TEST(journal_erases_records_in_place_and_leaves_the_others)
{
    char *dir = temp_dir();
    struct journal *j = open_writer(dir, 4096);
    struct err e = { 0 };
    uint64_t at[40], end = 8, victims[3];
    char text[600];

    for (int i = 0; i < 40; i++) { /* over several segments */
        memset(text, 'a' + i % 26, sizeof text);
        snprintf(text, sizeof text, "record%02d", i);
        text[8] = 'x';
        text[sizeof text - 1] = 0;
        at[i] = end;
        end = append(j, text);
    }
    struct journal_reader *r = NULL;
    struct journal_record record;
    EXPECT_INT(journal_reader_open(dir, 0, &r, &e), 0);
    for (int i = 0; i < 40; i++) { /* positions as a reader tells them: a segment begins with its head */
        EXPECT_INT(journal_next(r, &record, &e), 1);
        at[i] = record.position;
    }
    journal_reader_close(r);
    victims[0] = at[3], victims[1] = at[20], victims[2] = at[39];
    for (int round = 0; round < 2; round++) { /* done again it changes nothing */
        EXPECT_TRUE(journal_erase(dir, victims, 3, &e) > 1500);
        EXPECT_INT(journal_reader_open(dir, 0, &r, &e), 0);
        for (int i = 0; i < 40; i++) {
            EXPECT_INT(journal_next(r, &record, &e), 1);
            bool gone = i == 3 || i == 20 || i == 39;
            EXPECT_INT(record.type, gone ? RECORD_ERASED : RECORD_STEP);
            EXPECT_INT((int)record.position, (int)at[i]);
            EXPECT_TRUE(gone ? record.body.n == 0 : record.body.n > 500);
        }
        EXPECT_INT(journal_next(r, &record, &e), 0);
        journal_reader_close(r);
    }
    EXPECT_TRUE(!log_has(dir, "record20"));
    EXPECT_TRUE(log_has(dir, "record21"));
    append(j, "after"); /* the writer did not notice */
    journal_close(j);
    j = open_writer(dir, 4096); /* nor does the next one, though the last record but one was erased */
    append(j, "later");
    journal_close(j);
    EXPECT_INT(journal_reader_open(dir, 0, &r, &e), 0);
    int n = 0;
    while (journal_next(r, &record, &e) == 1)
        n++;
    EXPECT_INT(n, 42);
    journal_reader_close(r);
    remove_dir(dir);
}

TEST(journal_reads_an_erased_record_whatever_a_crash_left_of_its_body)
{
    char *dir = temp_dir();
    struct journal *j = open_writer(dir, 1 << 20);
    struct err e = { 0 };
    uint64_t first = 8, second = append(j, "one");
    struct journal_reader *r = NULL;
    struct journal_record record;
    char path[300], keep[4];

    append(j, "two");
    snprintf(path, sizeof path, "%s/00000000000000000000.seg", dir);
    EXPECT_TRUE(journal_erase(dir, &first, 1, &e) > 0);
    auto_close int fd = open(path, O_RDWR);
    EXPECT_INT(pread(fd, keep, 4, 8 + 24), 4);
    EXPECT_INT(pwrite(fd, "half", 4, 8 + 24), 4); /* marked, but not punched out */
    EXPECT_INT(journal_reader_open(dir, 0, &r, &e), 0);
    EXPECT_INT(journal_next(r, &record, &e), 1);
    EXPECT_INT(record.type, RECORD_ERASED);
    EXPECT_INT(journal_next(r, &record, &e), 1);
    EXPECT_INT(record.type, RECORD_STEP);
    journal_reader_close(r);
    uint64_t nonsense = second + 8; /* no record: left alone */
    EXPECT_INT((int)journal_erase(dir, &nonsense, 1, &e), 0);
    journal_close(j);
    remove_dir(dir);
}

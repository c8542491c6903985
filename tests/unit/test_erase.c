/* Forgetting, killed at every point: the process that erases is traced and gets SIGKILL before its first call that
 * changes a file, then before its second, and so on until it comes through. Whatever it left, nothing else is lost, and
 * the next one erases the rest, also if the index is lost with it. */
#include "test.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/limits.h"
#include "base/log.h"
#include "store/blob.h"
#include "store/index.h"
#include "store/journal.h"

enum { STEPS = 2, POINTS_MAX = 2000 };

static void shell(const char *begin, const char *path, const char *end)
{
    char command[512];

    snprintf(command, sizeof command, "%s '%s'%s", begin, path, end);
    if (system(command) != 0)
        abort();
}

static bool home_has(const char *home, const char *text)
{
    char command[300];

    snprintf(command, sizeof command, "grep -rqa '%s' '%s'", text, home);
    return system(command) == 0;
}

static struct blob_name put_blob(const char *home, const char *text)
{
    auto_close int fd = memfd_create("blob", MFD_CLOEXEC);
    struct blob_name name = { 0 };
    struct err e = { 0 };
    uint64_t bytes;

    EXPECT_INT(write(fd, text, strlen(text)), (int)strlen(text));
    EXPECT_INT(blob_put(home, fd, false, &name, &bytes, &e), 0);
    return name;
}

static void add(struct journal *j, enum record_type type, const char *json)
{
    struct str part = str_of(json);
    struct err e = { 0 };

    EXPECT_INT(journal_append(j, type, &part, 1, NULL, &e), 0);
}

/* Steps with intent and result, one of one record, and a note; all have the marker. Their outputs are blobs, one of
 * which both trajectories have. */
static void add_trajectory(struct journal *j, const char *home, const char *id, int64_t first_call)
{
    char text[1200], padding[400];
    struct blob_name shared = put_blob(home, "shared output");

    memset(padding, 'p', sizeof padding);
    padding[sizeof padding - 1] = 0;
    for (int i = 0; i < STEPS; i++) {
        snprintf(text, sizeof text, "output-%s-%d", id, i);
        struct blob_name own = put_blob(home, text);
        long long call = first_call + i;
        snprintf(text, sizeof text,
                 "{\"call\":%lld,\"trajectory\":\"t-%s\",\"step\":%d,\"time\":%lld,\"worker\":\"w\",\"surface\":\"own\","
                 "\"tool\":\"bash:run\",\"resource\":\"bash\",\"params\":{\"command\":\"said-%s-%d %s\"}}",
                 call, id, i + 1, call, id, i, padding);
        add(j, RECORD_INTENT, text);
        snprintf(text, sizeof text,
                 "{\"call\":%lld,\"trajectory\":\"t-%s\",\"time\":%lld,\"outcome\":\"ok\",\"code\":0,\"message\":\"\","
                 "\"data\":{\"stdout\":\"said-%s-%d\"},\"blobs\":{\"stdout\":{\"hash\":\"%s\"},\"stderr\":{\"hash\":\"%s\"}}}",
                 call, id, call, id, i, own.z, shared.z);
        add(j, RECORD_RESULT, text);
    }
    snprintf(text, sizeof text,
             "{\"call\":%lld,\"trajectory\":\"t-%s\",\"step\":%d,\"time\":9,\"worker\":\"w\",\"surface\":\"own\",\"tool\":"
             "\"rag:search\",\"resource\":\"rag\",\"params\":{\"q\":\"said-%s\"},\"outcome\":\"ok\",\"code\":0}",
             (long long)first_call + STEPS, id, STEPS + 1, id);
    add(j, RECORD_STEP, text);
    snprintf(text, sizeof text, "{\"trajectory\":\"t-%s\",\"step\":1,\"time\":9,\"set\":{\"note\":\"said-%s\"}}", id, id);
    add(j, RECORD_NOTE, text);
}

static void make_home(const char *home)
{
    struct journal *j = NULL;
    struct err e = { 0 };
    char log[200];

    snprintf(log, sizeof log, "%s/log", home);
    EXPECT_INT(journal_open_sized(log, 4096, &j, &e), 0); /* over several segments */
    add_trajectory(j, home, "new", 100);
    add_trajectory(j, home, "old", 200);
    add(j, RECORD_NOTE, "{\"trajectory\":\"t-old\",\"step\":0,\"time\":10,\"set\":{\"dropped\":true}}");
    journal_close(j);
}

/* As recorder does it. */
static int read_and_tidy(const char *home, struct index **ret)
{
    struct err e = { 0 };

    int r = index_open(home, ret, &e);
    while (r >= 0 && (r = index_ingest(*ret, &e)) > 0)
        ;
    while (r >= 0 && !index_is_tidy(*ret))
        r = index_tidy(*ret, 0, &e);
    if (r < 0)
        printf("read_and_tidy: %s\n", e.msg);
    return r;
}

static bool changes_files(uint64_t call)
{
    switch (call) {
    case SYS_write:
    case SYS_pwrite64:
    case SYS_writev:
    case SYS_fallocate:
    case SYS_ftruncate:
    case SYS_fdatasync:
    case SYS_fsync:
    case SYS_unlinkat:
    case SYS_renameat:
    case SYS_renameat2:
#ifdef SYS_unlink
    case SYS_unlink:
    case SYS_rename:
#endif
        return true;
    default: return false;
    }
}

/* True: it came through before its n-th change. */
static bool kill_at(const char *home, int n)
{
    struct __ptrace_syscall_info info;
    int status = 0;

    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        struct index *x = NULL;
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0)
            _exit(3);
        raise(SIGSTOP);
        _exit(read_and_tidy(home, &x) < 0);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status))
        abort();
    (void)ptrace(PTRACE_SETOPTIONS, pid, NULL, (void *)(PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL));
    while (ptrace(PTRACE_SYSCALL, pid, NULL, NULL) == 0 && waitpid(pid, &status, 0) == pid && WIFSTOPPED(status)) {
        if (WSTOPSIG(status) != (SIGTRAP | 0x80) ||
            ptrace(PTRACE_GET_SYSCALL_INFO, pid, (void *)sizeof info, &info) <= 0 ||
            info.op != PTRACE_SYSCALL_INFO_ENTRY || !changes_files(info.entry.nr))
            continue;
        if (--n == 0) {
            kill(pid, SIGKILL);
            waitpid(pid, &status, 0);
            return false;
        }
    }
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    return true;
}

/* All records are there, those of t-new as they were; of the others each is whole or erased. */
static void check_log(const char *home)
{
    struct journal_reader *r = NULL;
    struct journal_record record;
    struct err e = { 0 };
    char log[200];
    int n = 0, kept = 0, r1;

    snprintf(log, sizeof log, "%s/log", home);
    EXPECT_INT(journal_reader_open(log, 0, &r, &e), 0);
    while ((r1 = journal_next(r, &record, &e)) == 1) {
        bool is_new = record.body.n && memmem(record.body.p, record.body.n, "t-new", 5);
        n++;
        kept += is_new;
        EXPECT_TRUE(record.body.n > 0 || record.type == RECORD_ERASED);
    }
    EXPECT_INT(r1, 0);
    EXPECT_INT(n, 2 * (2 * STEPS + 2) + 1);
    EXPECT_INT(kept, 2 * STEPS + 2);
    journal_reader_close(r);
}

static void check_all_erased(const char *home, int point, const char *steps_before)
{
    struct index *x = NULL;
    struct buf out;
    struct err e = { 0 };

    EXPECT_INT(read_and_tidy(home, &x), 0);
    if (home_has(home, "said-old") || home_has(home, "output-old")) {
        printf("killed before change %d: something of t-old is left\n", point);
        test_failures++;
    }
    EXPECT_TRUE(home_has(home, "output-new-1") && home_has(home, "shared output"));
    buf_init(&out, LIMIT_FRAME);
    struct query all = { .op = STR("steps"), .id = STR("t-new"), .limit = 100 };
    EXPECT_INT(index_query(x, &all, &out, &e), 0);
    EXPECT_STR(buf_view(&out), steps_before);
    buf_reset(&out);
    struct query gone = { .op = STR("steps"), .id = STR("t-old"), .limit = 100 };
    EXPECT_TRUE(index_query(x, &gone, &out, &e) < 0 || !memmem(out.p, out.n, "call\":2", 7));
    buf_reset(&out);
    struct query open = { .op = STR("open") };
    EXPECT_INT(index_query(x, &open, &out, &e), 0);
    EXPECT_TRUE(!memmem(out.p, out.n, "\"call\":20", 9)); /* a half-erased step is no call that still runs */
    buf_done(&out);
    index_close(x);
}

static char *steps_of_new(const char *home)
{
    struct index *x = NULL;
    struct buf out;
    struct err e = { 0 };
    struct query all = { .op = STR("steps"), .id = STR("t-new"), .limit = 100 };

    EXPECT_INT(index_open(home, &x, &e), 0);
    while (index_ingest(x, &e) > 0)
        ;
    buf_init(&out, LIMIT_FRAME);
    EXPECT_INT(index_query(x, &all, &out, &e), 0);
    char *text = strndup(out.p, out.n);
    buf_done(&out);
    index_close(x);
    return text;
}

static void loop_over_points(bool index_lost)
{
    char master[] = "/dev/shm/sandglass-erase-XXXXXX", home[64]; /* in memory: it is synced a lot */
    enum log_level log_before = log_max;
    int point = 1;

    log_max = LOG_ERROR;
    if (!mkdtemp(master))
        abort();
    snprintf(home, sizeof home, "%s.copy", master);
    make_home(master);
    auto_free char *before = steps_of_new(master); /* and the index is made: what is traced is the erasing */
    EXPECT_TRUE(strstr(before, "said-new-1") != NULL);
    for (bool through = false; !through && point < POINTS_MAX; point++) {
        shell("rm -rf", home, "");
        char target[80];
        snprintf(target, sizeof target, " '%s'", home);
        shell("cp -a", master, target);
        through = kill_at(home, point);
        check_log(home);
        if (index_lost)
            shell("rm -f", home, "/index.sqlite*");
        check_all_erased(home, point, before);
    }
    EXPECT_TRUE(point > 20 && point < POINTS_MAX);
    log_max = log_before;
    shell("rm -rf", master, "*");
}

TEST(forgetting_is_whole_whichever_change_its_process_is_killed_before)
{
    loop_over_points(false);
}

TEST(forgetting_is_whole_also_if_the_index_is_lost_with_the_process)
{
    loop_over_points(true);
}

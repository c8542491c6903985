/* The index and the role that keeps it: every query, the rebuild, and recorders that die. */
#include "test.h"

#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/loop.h"
#include "daemon/recorder.h"
#include "store/index.h"
#include "store/journal.h"
#include "store/recorder_client.h"

struct fixture {
    char home[64], log[80];
    struct journal *j;
    struct index *x;
    struct buf out; /* of the last query */
    struct err e;
};

static void setup(struct fixture *f)
{
    *f = (struct fixture){ .home = "/tmp/sandglass-index-XXXXXX" };
    if (!mkdtemp(f->home))
        abort();
    snprintf(f->log, sizeof f->log, "%s/log", f->home);
    EXPECT_INT(journal_open(f->log, &f->j, &f->e), 0);
    buf_init(&f->out, LIMIT_FRAME);
}

static void teardown(struct fixture *f)
{
    char command[256];

    index_close(f->x);
    journal_close(f->j);
    buf_done(&f->out);
    snprintf(command, sizeof command, "rm -rf '%s'", f->home);
    if (system(command) != 0)
        abort();
}

static void add(struct fixture *f, enum record_type type, const char *json)
{
    struct str part = str_of(json);
    EXPECT_INT(journal_append(f->j, type, &part, 1, NULL, &f->e), 0);
}

static void ingest(struct fixture *f)
{
    int r = 1;
    if (!f->x)
        EXPECT_INT(index_open(f->home, &f->x, &f->e), 0);
    while (r > 0)
        r = index_ingest(f->x, &f->e);
    EXPECT_INT(r, 0);
}

static const char *ask(struct fixture *f, struct query q)
{
    buf_reset(&f->out);
    f->e = (struct err){ 0 };
    if (index_query(f->x, &q, &f->out, &f->e) < 0)
        return f->e.msg;
    buf_char(&f->out, '\0');
    return f->out.p;
}

#define EXPECT_HAS(text, part)                                                                                         \
    do {                                                                                                               \
        const char *text_ = (text);                                                                                    \
        if (!strstr(text_, part)) {                                                                                    \
            test_failures++;                                                                                           \
            printf("%s:%d: \"%.2000s\" lacks \"%s\"\n", __FILE__, __LINE__, text_, part);                              \
        }                                                                                                              \
    } while (0)

static void add_step(struct fixture *f, int64_t call, const char *trajectory, int64_t step, const char *outcome)
{
    char json[1024];
    snprintf(
        json, sizeof json,
        "{\"call\":%lld,\"trajectory\":\"%s\",\"step\":%lld,\"time\":%lld,\"worker\":\"w-%s\",\"surface\":"
        "\"agentflow\","
        "\"tool\":\"rag:search\",\"resource\":\"rag\",\"session\":null,\"box\":null,\"temporary\":false,\"key\":\"k%"
        "lld\","
        "\"key_hash\":\"h\",\"trace\":\"\",\"params\":{\"query\":  \"q %lld\"},\"outcome\":\"%s\",\"retry_safe\":false,"
        "\"trainable\":true,\"code\":0,\"message\":\"\",\"data\":{\"hits\":[1, 2.50]},\"queued_us\":1,\"run_us\":20,"
        "\"total_us\":21,\"cpu_us\":0,\"peak_bytes\":0,\"dropped_bytes\":0,\"blobs\":{}}",
        (long long)call, trajectory, (long long)step, 1700000000000000ll + call, trajectory, (long long)call,
        (long long)call, outcome);
    add(f, RECORD_STEP, json);
}

/* One worker with a box, a shell session, one finished and one open call. */
static void add_story(struct fixture *f)
{
    add(f, RECORD_START, "{\"time\":1,\"version\":\"x\",\"node\":\"n\"}");
    add(f, RECORD_BOX_OPEN,
        "{\"box\":\"b1\",\"time\":5,\"image\":\"host\",\"labels\":{\"a\":\"b\"},\"spec\":{\"cpu\": 1},"
        "\"temporary\":false,\"ttl_ms\":1000,\"warm\":true,\"unenforced\":[]}");
    add(f, RECORD_BOX_OPEN, "{\"box\":\"b2\",\"time\":6,\"image\":\"host\"}");
    add(f, RECORD_BOX_CLOSE, "{\"box\":\"b2\",\"time\":7,\"reason\":\"ttl\"}");
    add(f, RECORD_SESSION_OPEN,
        "{\"session\":\"s1\",\"time\":8,\"name\":\"sh\",\"worker\":\"wa\",\"resource\":\"vm\","
        "\"box\":\"b1\",\"config\":{},\"ttl_ms\":0,\"temporary\":false}");
    add(f, RECORD_SESSION_OPEN, "{\"session\":\"s2\",\"time\":9,\"worker\":\"wb\",\"resource\":\"vm\",\"box\":\"b2\"}");
    add(f, RECORD_SESSION_CLOSE, "{\"session\":\"s2\",\"time\":10,\"reason\":\"destroyed\"}");
    add(f, RECORD_INTENT,
        "{\"call\":1,\"trajectory\":\"t-a\",\"step\":1,\"time\":1700000000123456,\"worker\":\"wa\","
        "\"surface\":\"aio\",\"tool\":\"bash:run\",\"resource\":\"vm\",\"session\":\"s1\",\"box\":\"b1\","
        "\"temporary\":false,\"key\":\"key one\",\"key_hash\":\"abc\",\"trace\":\"tr\","
        "\"params\":{\"command\" : \"echo \\u00e9\"}}");
    add(f, RECORD_RESULT,
        "{\"call\":1,\"trajectory\":\"t-a\",\"step\":1,\"time\":1700000000223456,\"outcome\":\"task_error\","
        "\"retry_safe\":false,\"trainable\":true,\"code\":\"exit\",\"message\":\"exit 3\","
        "\"data\":{\"exit\":3,\"out\" :\"\\u00e9\"},\"queued_us\":5,\"run_us\":6,\"total_us\":11,"
        "\"cpu_us\":4,\"peak_bytes\":1000,\"pids_peak\":7,\"disk_used_bytes\":0,\"dropped_bytes\":2,"
        "\"blobs\":{\"stdout\":{\"hash\":\"sha256:00\",\"bytes\":9}}}");
    add(f, RECORD_INTENT,
        "{\"call\":2,\"trajectory\":\"t-a\",\"step\":2,\"time\":1700000001000000,\"worker\":\"wa\","
        "\"tool\":\"bash:run\",\"resource\":\"vm\",\"session\":\"s1\",\"box\":\"b1\",\"temporary\":true,"
        "\"key\":\"k2\",\"key_hash\":\"def\",\"params\":{\"command\":\"sleep 9\"}}");
    for (int i = 0; i < 5; i++)
        add_step(f, 10 + i, "t-b", i + 1, i == 3 ? "invalid_request" : "ok");
}

TEST(index_queries)
{
    struct fixture f;
    setup(&f);
    add_story(&f);
    ingest(&f);
    EXPECT_INT(index_position(f.x), journal_end(f.j));

    const char *open = ask(&f, (struct query){ .op = STR("open") });
    EXPECT_HAS(open,
               "\"trajectories\":[{\"id\":\"t-a\",\"worker\":\"wa\",\"steps\":2,\"last_step\":2,\"tenant\":\"default\","
               "\"ended\":false}]");
    EXPECT_HAS(open,
               "\"boxes\":[{\"opened_us\":5,\"box\":\"b1\",\"time\":5,\"image\":\"host\",\"labels\":{\"a\":\"b\"},"
               "\"spec\":{\"cpu\": 1}");
    EXPECT_HAS(open, "\"sessions\":[{\"opened_us\":8,\"session\":\"s1\"");
    EXPECT_HAS(open, "\"steps\":[{\"call\":2,\"trajectory\":\"t-a\",\"step\":2,\"time\":1700000001000000");
    EXPECT_HAS(open, "\"key_hash\":\"def\",\"trace\":null,\"request\":null,\"params\":{\"command\":\"sleep 9\"}}]");
    EXPECT_HAS(open, "\"max_call\":14}");

    const char *one = ask(&f, (struct query){ .op = STR("trajectory"), .id = STR("t-a") });
    EXPECT_HAS(one, "\"opened\":\"2023-11-14T22:13:20.123456Z\"");
    EXPECT_HAS(one, "\"steps\":2,\"last_step\":2,\"outcomes\":{\"task_error\":1},\"annotations\":null,\"trainable\":"
                    "true,\"forked_from\":null,\"boxes\":[\"b1\"],"
                    "\"tools\":{\"bash:run\":2}}");
    EXPECT_HAS(ask(&f, (struct query){ .op = STR("trajectory"), .id = STR("none") }), "no trajectory 'none'");
    EXPECT_INT(f.e.code, ERR_NOT_FOUND);

    const char *list = ask(&f, (struct query){ .op = STR("trajectories"), .limit = 1 });
    EXPECT_HAS(list, "{\"trajectories\":[{\"id\":\"t-b\"");
    EXPECT_HAS(list, "\"next\":2}");
    list = ask(&f, (struct query){ .op = STR("trajectories"), .after = 2 });
    EXPECT_HAS(list, "{\"trajectories\":[{\"id\":\"t-a\"");
    EXPECT_HAS(list, "\"next\":null}");
    EXPECT_HAS(ask(&f, (struct query){ .op = STR("trajectories"), .worker = STR("wa") }), "[{\"id\":\"t-a\"");
    EXPECT_HAS(ask(&f, (struct query){ .op = STR("trajectories"), .worker = STR("wz") }),
               "{\"trajectories\":[],\"next\":null}");
    EXPECT_HAS(ask(&f, (struct query){ .op = STR("trajectories"), .outcome = STR("invalid_request") }),
               "[{\"id\":\"t-b\"");
    EXPECT_HAS(ask(&f, (struct query){ .op = STR("trajectories"), .outcome = STR("bad") }), "outcome 'bad'");

    EXPECT_HAS(ask(&f, (struct query){ .op = STR("trajectory_of"), .worker = STR("wa") }),
               "{\"found\":true,\"id\":\"t-a\",\"steps\":2,\"last_step\":2}");
    EXPECT_HAS(ask(&f, (struct query){ .op = STR("trajectory_of"), .worker = STR("no") }), "{\"found\":false}");
    EXPECT_HAS(ask(&f, (struct query){ .op = STR("nonsense") }), "no query 'nonsense'");
    teardown(&f);
}

TEST(index_steps)
{
    struct fixture f;
    setup(&f);
    add_story(&f);
    ingest(&f);

    const char *row = ask(&f, (struct query){ .op = STR("step"), .id = STR("t-a"), .step = 1 });
    EXPECT_HAS(row, "{\"call\":1,\"trajectory\":\"t-a\",\"step\":1,\"time\":\"2023-11-14T22:13:20.123456Z\","
                    "\"time_us\":1700000000123456,\"action\":\"bash:run\",\"worker\":\"wa\",\"surface\":\"aio\"");
    EXPECT_HAS(row, "\"key\":\"key one\",\"trace\":\"tr\",\"request\":null,\"params\":{\"command\" : \"echo "
                    "\\u00e9\"},\"state\":\"done\"");
    EXPECT_HAS(row, "\"code\":\"exit\",\"message\":\"exit 3\",\"observation\":{\"exit\":3,\"out\" :\"\\u00e9\"}");
    EXPECT_HAS(
        row,
        "\"peak_bytes\":1000,\"pids_peak\":7,\"disk_used_bytes\":0,\"dropped_bytes\":2,\"blobs\":{\"stdout\":{\"hash\":\"sha256:00\",\"bytes\":9}},"
        "\"state_id\":null,\"state_root\":null}");
    EXPECT_HAS(ask(&f, (struct query){ .op = STR("step"), .call = 2 }),
               "\"state\":\"open\",\"outcome\":null,\"retry_safe\":null");
    EXPECT_HAS(ask(&f, (struct query){ .op = STR("step"), .call = 99 }), "no step with call 99");
    EXPECT_HAS(ask(&f, (struct query){ .op = STR("step"), .id = STR("t-a"), .step = 9 }), "no step 9");
    EXPECT_HAS(ask(&f, (struct query){ .op = STR("key"), .key = STR("key one") }), "\"key_hash\":\"abc\"");
    EXPECT_HAS(ask(&f, (struct query){ .op = STR("key"), .key = STR("other") }), "{\"found\":false}");

    const char *list = ask(&f, (struct query){ .op = STR("steps"), .id = STR("t-b"), .limit = 2 });
    EXPECT_HAS(list, "{\"trajectory\":\"t-b\",\"steps\":[{\"call\":10,");
    EXPECT_HAS(list, "\"params\":{\"query\":  \"q 10\"}");
    EXPECT_HAS(list, "\"observation\":{\"hits\":[1, 2.50]}");
    EXPECT_HAS(list,
               "\"peak_bytes\":0,\"pids_peak\":null,\"disk_used_bytes\":null,\"dropped_bytes\":0"); /* an old log */
    EXPECT_HAS(list, "],\"next\":2}");
    list = ask(&f, (struct query){ .op = STR("steps"), .id = STR("t-b"), .after = 2, .limit = 3 });
    EXPECT_HAS(list, "\"steps\":[{\"call\":12,");
    EXPECT_HAS(list, "\"next\":null}");
    list = ask(&f, (struct query){ .op = STR("steps"), .id = STR("t-b"), .outcome = STR("invalid_request") });
    EXPECT_HAS(list, "\"steps\":[{\"call\":13,");
    EXPECT_TRUE(!strstr(list, "\"call\":12"));
    EXPECT_HAS(ask(&f, (struct query){ .op = STR("steps"), .id = STR("t-b"), .tool = STR("no") }), "\"steps\":[]");
    EXPECT_HAS(ask(&f, (struct query){ .op = STR("steps"), .id = STR("t-b"), .box = STR("no") }), "\"steps\":[]");
    EXPECT_HAS(ask(&f, (struct query){ .op = STR("steps"), .id = STR("t-a"), .session = STR("s1"), .limit = 1 }),
               "\"next\":1}");
    EXPECT_HAS(ask(&f, (struct query){ .op = STR("steps"), .id = STR("none") }), "no trajectory");
    teardown(&f);
}

/* Texts above 16 KiB are read from the log, byte for byte; an answer stops near 32 MiB and says where to go on. */
TEST(index_large_texts)
{
    struct fixture f;
    setup(&f);
    size_t n = 3 * MiB;
    char *big = malloc(n + 1);
    memset(big, 'z', n);
    big[n] = 0;
    for (int i = 1; i <= 14; i++) {
        char head[200];
        int len =
            snprintf(head, sizeof head,
                     "{\"call\":%d,\"trajectory\":\"t\",\"step\":%d,\"time\":1,\"outcome\":\"ok\",\"data\":[ \"", i, i);
        struct str parts[] = {
            { head, (size_t)len }, { big, n }, STR("\" ],\"params\":{\"a\" :\""), { big, 20000 }, STR("\"}}")
        };
        EXPECT_INT(journal_append(f.j, RECORD_STEP, parts, 5, NULL, &f.e), 0);
    }
    ingest(&f);
    const char *row = ask(&f, (struct query){ .op = STR("step"), .call = 3 });
    EXPECT_HAS(row, "\"params\":{\"a\" :\"zzz");
    EXPECT_HAS(row, "\"observation\":[ \"zzz");
    EXPECT_TRUE(f.out.n > n + 20000 && f.out.n < n + 22000);
    const char *list = ask(&f, (struct query){ .op = STR("steps"), .id = STR("t") });
    EXPECT_HAS(list + f.out.n - 20, "],\"next\":11}");
    list = ask(&f, (struct query){ .op = STR("steps"), .id = STR("t"), .after = 11 });
    EXPECT_HAS(list + f.out.n - 20, "],\"next\":null}");
    struct stat st;
    char path[100];
    snprintf(path, sizeof path, "%s/index.sqlite-wal", f.home);
    EXPECT_TRUE(stat(path, &st) == 0 && st.st_size < 1024 * 1024);
    free(big);
    teardown(&f);
}

/* Of a batch that failed half-way intents may have stayed in the log; their calls were refused and say so in a step. */
TEST(index_step_that_ends_an_intent)
{
    static const char intent[] = "{\"call\":%d,\"trajectory\":\"t\",\"step\":%d,\"time\":1700000000000000,"
                                 "\"worker\":\"w\",\"tool\":\"bash:run\",\"params\":{}}";
    struct fixture f;
    char json[256];

    setup(&f);
    for (int i = 1; i <= 2; i++) {
        snprintf(json, sizeof json, intent, i, i);
        add(&f, RECORD_INTENT, json);
        if (i == 1) /* the other one's step comes in the same slice */
            ingest(&f);
    }
    add_step(&f, 1, "t", 1, "infra_error");
    add_step(&f, 2, "t", 2, "infra_error");
    ingest(&f);
    EXPECT_HAS(ask(&f, (struct query){ .op = STR("trajectory"), .id = STR("t") }),
               "\"steps\":2,\"last_step\":2,\"outcomes\":{\"infra_error\":2}");
    EXPECT_INT(index_counts(f.x).duplicates, 0);
    EXPECT_INT(index_counts(f.x).orphans, 0);
    teardown(&f);
}

TEST(index_ignores_nonsense)
{
    enum log_level before = log_max;
    log_max = LOG_ERROR;
    struct fixture f;
    setup(&f);
    add_step(&f, 1, "t", 1, "ok");
    add_step(&f, 1, "t", 1, "timeout");                          /* the same call again */
    add(&f, RECORD_RESULT, "{\"call\":7,\"trajectory\":\"u\"}"); /* no intent */
    add(&f, RECORD_STEP, "no json");
    add(&f, RECORD_STEP, "[1]");
    add(&f, (enum record_type)77, "{}"); /* of a newer program */
    add_step(&f, 2, "t", 2, "ok");
    ingest(&f);
    struct index_counts c = index_counts(f.x);
    EXPECT_INT(c.duplicates, 1);
    EXPECT_INT(c.orphans, 1);
    EXPECT_INT(c.unreadable, 3);
    EXPECT_HAS(ask(&f, (struct query){ .op = STR("trajectory"), .id = STR("t") }),
               "\"steps\":2,\"last_step\":2,\"outcomes\":{\"ok\":2}");
    EXPECT_HAS(ask(&f, (struct query){ .op = STR("trajectory"), .id = STR("u") }), "no trajectory");
    teardown(&f);
    log_max = before;
}

/* Every row of every table, as text. */
static void dump(struct fixture *f, struct buf *out)
{
    static const char *const tables[] = {
        "SELECT position,last_at,last_crc,duplicates,orphans,unreadable FROM meta",
        "SELECT * FROM trajectories ORDER BY n",
        "SELECT * FROM steps ORDER BY call",
        "SELECT * FROM boxes ORDER BY box",
        "SELECT * FROM sessions ORDER BY session",
    };
    char path[100];
    sqlite3 *db;

    snprintf(path, sizeof path, "%s/index.sqlite", f->home);
    EXPECT_INT(sqlite3_open(path, &db), SQLITE_OK);
    for (size_t t = 0; t < ARRAY_LEN(tables); t++) {
        sqlite3_stmt *s;
        EXPECT_INT(sqlite3_prepare_v2(db, tables[t], -1, &s, NULL), SQLITE_OK);
        while (sqlite3_step(s) == SQLITE_ROW)
            for (int i = 0; i < sqlite3_column_count(s); i++)
                buf_printf(out, "%s|",
                           sqlite3_column_type(s, i) == SQLITE_NULL ? "-" : (const char *)sqlite3_column_text(s, i));
        sqlite3_finalize(s);
    }
    sqlite3_close(db);
}

static void expect_same_after_rebuild(struct fixture *f)
{
    AUTO(buf_done) struct buf live, again;
    char command[160];

    buf_init(&live, 256 * MiB);
    buf_init(&again, 256 * MiB);
    dump(f, &live);
    index_close(f->x);
    f->x = NULL;
    snprintf(command, sizeof command, "rm -f '%s'/index.sqlite*", f->home);
    EXPECT_INT(system(command), 0);
    ingest(f);
    dump(f, &again);
    EXPECT_TRUE(live.n > 1000);
    EXPECT_TRUE(str_eq(buf_view(&live), buf_view(&again)));
}

TEST(index_rebuild_equals_live)
{
    struct fixture f;
    setup(&f);
    add_story(&f);
    for (int64_t i = 1; i <= 20000; i++) {
        char trajectory[32];
        snprintf(trajectory, sizeof trajectory, "t%lld", (long long)(i % 50));
        add_step(&f, 100 + i, trajectory, i / 50, i % 7 ? "ok" : "timeout");
        if (i % 1500 == 0)
            ingest(&f); /* other slices than the rebuild will have */
    }
    int64_t from = now_us();
    ingest(&f);
    EXPECT_HAS(ask(&f, (struct query){ .op = STR("trajectory"), .id = STR("t7") }), "\"steps\":400");
    expect_same_after_rebuild(&f);
    if (getenv("VERBOSE"))
        printf("20000 steps rebuilt in %lld ms\n", (long long)(now_us() - from) / 1000);
    teardown(&f);
}

/* A file that is not ours, of another version, or from a longer log: thrown away. */
TEST(index_unusable_file)
{
    enum log_level before = log_max;
    log_max = LOG_ERROR;
    struct fixture f;
    char path[100], other[120], command[256];
    setup(&f);
    add_story(&f);
    snprintf(path, sizeof path, "%s/index.sqlite", f.home);
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    EXPECT_INT(write(fd, "this is no database, but it is long enough to be read as one......................", 80), 80);
    close(fd);
    ingest(&f);
    EXPECT_HAS(ask(&f, (struct query){ .op = STR("step"), .call = 1 }), "\"call\":1,");
    index_close(f.x);
    f.x = NULL;

    sqlite3 *db;
    EXPECT_INT(sqlite3_open(path, &db), SQLITE_OK);
    EXPECT_INT(sqlite3_exec(db, "DELETE FROM steps; PRAGMA user_version=999", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    ingest(&f);
    EXPECT_HAS(ask(&f, (struct query){ .op = STR("step"), .call = 1 }), "\"call\":1,");
    index_close(f.x);
    f.x = NULL;

    /* The log loses its end and grows again past the index's position, with another record in the same place. */
    journal_close(f.j);
    snprintf(other, sizeof other, "%s/log/00000000000000000000.seg", f.home);
    struct stat st;
    EXPECT_INT(stat(other, &st), 0);
    snprintf(command, sizeof command, "rm -rf '%s'", f.log);
    EXPECT_INT(system(command), 0);
    EXPECT_INT(journal_open(f.log, &f.j, &f.e), 0);
    while (journal_end(f.j) <= (uint64_t)st.st_size)
        add_step(&f, 500 + (int64_t)journal_end(f.j), "t-new", 1, "ok");
    ingest(&f);
    EXPECT_HAS(ask(&f, (struct query){ .op = STR("step"), .call = 1 }), "no step");
    teardown(&f);
    log_max = before;
}

static pid_t start_recorder(struct fixture *f, int64_t sync_ms)
{
    pid_t pid = fork();
    if (pid == 0) {
        log_max = LOG_ERROR;
        struct recorder_opts o = { .home = f->home, .sync_ms = sync_ms, .uid = (uid_t)-1, .gid = (gid_t)-1 };
        exit(recorder_main(&o)); /* the inherited journal stays as it is: closing would cut the log at an old end */
    }
    return pid;
}

static int end_child(pid_t pid, int sig)
{
    int status = -1;
    kill(pid, sig);
    waitpid(pid, &status, 0);
    return status;
}

TEST(recorder_ask_wait)
{
    struct fixture f;
    AUTO(arena_done) struct arena a = { 0 };
    struct answer got = { 0 };
    setup(&f);
    add_story(&f);
    pid_t pid = start_recorder(&f, 20);
    struct query q = { .op = STR("open"), .upto = (int64_t)journal_end(f.j) };
    EXPECT_INT(recorder_ask_wait(f.home, &q, &a, &got, &f.e), 0);
    EXPECT_INT(got.error, 0);
    EXPECT_HAS(arena_z(&a, got.json), "\"max_call\":14}");
    q = (struct query){ .op = STR("trajectory"), .id = STR("none") };
    EXPECT_INT(recorder_ask_wait(f.home, &q, &a, &got, &f.e), 0);
    EXPECT_INT(got.error, ERR_NOT_FOUND);
    q = (struct query){ .op = STR("sync"), .upto = (int64_t)journal_end(f.j) };
    EXPECT_INT(recorder_ask_wait(f.home, &q, &a, &got, &f.e), 0);
    EXPECT_INT(got.error, 0);
    q = (struct query){ .op = STR("blob") }; /* without its memfd */
    EXPECT_INT(recorder_ask_wait(f.home, &q, &a, &got, &f.e), 0);
    EXPECT_INT(got.error, ERR_INVALID);
    EXPECT_INT(end_child(pid, SIGTERM), 0);
    teardown(&f);
}

/* A parent that appends and asks, while its recorder is killed again and again. */
struct storm {
    struct fixture *f;
    struct loop *loop;
    struct recorder_client *client;
    struct loop_timer *beat;
    pid_t recorder;
    int64_t calls, asked, answered, wrong, kills, next_kill_ms, give_up_ms;
};
enum { STORM_CALLS = 3000, STORM_KILLS = 12 };

static void on_storm_step(void *arg, const struct answer *a)
{
    struct storm *s = arg;
    s->answered++;
    s->wrong += a->error != 0;
}

static void on_storm_blob(void *arg, const struct answer *a)
{
    struct storm *s = arg;
    s->answered++;
    s->wrong += a->error != 0 || !memmem(a->json.p, a->json.n, "\"bytes\":5000}", 13);
}

static void on_beat(void *arg)
{
    struct storm *s = arg;
    static char content[5000];

    for (int i = 0; i < 10 && s->calls < STORM_CALLS; i++) {
        s->calls++;
        add_step(s->f, s->calls, "t-storm", s->calls, "ok");
        struct query q = { .op = STR("step"), .call = s->calls, .upto = (int64_t)journal_end(s->f->j) };
        if (i % 5 == 0)
            q = (struct query){ .op = STR("sync"), .upto = (int64_t)journal_end(s->f->j) };
        recorder_ask(s->client, &q, -1, on_storm_step, s);
        s->asked++;
    }
    if (s->calls < STORM_CALLS && s->calls % 100 == 0) {
        int fd = memfd_create("blob", MFD_CLOEXEC);
        snprintf(content, sizeof content, "%lld", (long long)s->calls);
        EXPECT_INT(write(fd, content, sizeof content), (long)sizeof content);
        recorder_ask(s->client, &(struct query){ .op = STR("blob") }, fd, on_storm_blob, s);
        s->asked++;
    }
    if (now_ms() >= s->next_kill_ms && s->kills < STORM_KILLS) {
        EXPECT_INT(WTERMSIG(end_child(s->recorder, SIGKILL)), SIGKILL);
        s->recorder = start_recorder(s->f, s->kills % 2 ? 10 : 0);
        s->kills++;
        recorder_ask(s->client, &(struct query){ .op = STR("sync") }, -1, on_storm_step,
                     s); /* so that the last is up */
        s->asked++;
        s->next_kill_ms = now_ms() + 20 + s->kills * 7 % 60;
    }
    if ((s->calls == STORM_CALLS && s->kills == STORM_KILLS && s->answered == s->asked) || now_ms() > s->give_up_ms)
        loop_stop(s->loop);
    else
        loop_timer_set(s->beat, 1);
}

TEST(recorder_killed_in_a_loop)
{
    struct fixture f;
    setup(&f);
    struct storm s = { .f = &f, .loop = loop_new(), .next_kill_ms = now_ms() + 50, .give_up_ms = now_ms() + 60000 };
    s.recorder = start_recorder(&f, 0);
    s.client = recorder_client_new(s.loop, f.home);
    s.beat = loop_timer_new(s.loop, on_beat, &s);
    loop_timer_set(s.beat, 0);
    loop_run(s.loop);
    EXPECT_INT(s.answered, s.asked);
    EXPECT_INT(s.wrong, 0);
    EXPECT_INT(recorder_client_pending(s.client), 0);
    recorder_client_free(s.client);
    loop_timer_free(s.beat);
    loop_free(s.loop);
    EXPECT_INT(end_child(s.recorder, SIGTERM), 0);

    ingest(&f); /* opens what the last recorder left */
    EXPECT_INT(index_position(f.x), journal_end(f.j));
    EXPECT_INT(index_counts(f.x).duplicates, 0);
    char want[100];
    snprintf(want, sizeof want, "\"steps\":%d,\"last_step\":%d,\"outcomes\":{\"ok\":%d}", STORM_CALLS, STORM_CALLS,
             STORM_CALLS);
    EXPECT_HAS(ask(&f, (struct query){ .op = STR("trajectory"), .id = STR("t-storm") }), want);
    expect_same_after_rebuild(&f);
    teardown(&f);
}

TEST(index_notes)
{
    struct fixture f;
    setup(&f);
    add_story(&f);
    add(&f, RECORD_NOTE,
        "{\"trajectory\":\"t-a\",\"step\":0,\"time\":9,\"set\":{\"tags\":[\"x\"],\"reward\":0.5,\"metadata\":{\"a\":1}}"
        "}");
    add(&f, RECORD_NOTE,
        "{\"trajectory\":\"t-a\",\"step\":0,\"time\":9,\"set\":{\"reward\":1,\"metadata\":{\"b\":2}}}");
    add(&f, RECORD_NOTE, "{\"trajectory\":\"t-a\",\"step\":1,\"time\":9,\"set\":{\"note\":\"here\"}}");
    add(&f, RECORD_NOTE, "{\"trajectory\":\"t-a\",\"step\":1,\"time\":9,\"set\":7}"); /* no sense, no harm */
    ingest(&f);
    EXPECT_HAS(ask(&f, (struct query){ .op = STR("trajectory"), .id = STR("t-a") }),
               "\"annotations\":{\"tags\":[\"x\"],\"reward\":1,\"metadata\":{\"a\":1,\"b\":2}}");
    EXPECT_HAS(ask(&f, (struct query){ .op = STR("step"), .id = STR("t-a"), .step = 1 }),
               "\"annotations\":{\"note\":\"here\"}");
    EXPECT_HAS(ask(&f, (struct query){ .op = STR("trajectories"), .tag = STR("x") }), "\"id\":\"t-a\"");
    EXPECT_HAS(ask(&f, (struct query){ .op = STR("trajectories"), .tag = STR("y") }), "\"trajectories\":[]");
    EXPECT_HAS(ask(&f, (struct query){ .op = STR("trajectories"), .min_reward = STR("1.5") }), "\"trajectories\":[]");
    EXPECT_HAS(ask(&f, (struct query){ .op = STR("trajectories"), .min_reward = STR("0.9") }), "\"id\":\"t-a\"");
    teardown(&f);
}

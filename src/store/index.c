#include "store/index_private.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/log.h"
#include "base/loop.h"

enum { SCHEMA = 12 }; /* any change of the tables or of their meaning: + 1, and every index is made anew */

_Static_assert(OUTCOME_COUNT == 11, "a column o<n> for each outcome, in the schema and in index_apply.c");

/* synchronous=OFF: after a power cut the file may be nonsense, which the boot id in meta tells (see doubtful()). */
static const char schema[] =
    "CREATE TABLE meta(one INTEGER PRIMARY KEY CHECK(one=1), position INT, last_at INT, last_crc INT, boot TEXT,"
    " duplicates INT, orphans INT, unreadable INT);"
    "INSERT INTO meta VALUES(1,0,0,0,'',0,0,0);"
    "CREATE TABLE trajectories(n INTEGER PRIMARY KEY, id TEXT NOT NULL, worker TEXT, opened_us INT, last_us INT,"
    " steps INT DEFAULT 0, ok_steps INT DEFAULT 0, untrainable INT DEFAULT 0, last_step INT DEFAULT 0,"
    " o0 INT DEFAULT 0, o1 INT DEFAULT 0, o2 INT DEFAULT 0, o3 INT DEFAULT 0, o4 INT DEFAULT 0, o5 INT DEFAULT 0,"
    " o6 INT DEFAULT 0, o7 INT DEFAULT 0, o8 INT DEFAULT 0, o9 INT DEFAULT 0, o10 INT DEFAULT 0,"
    " tenant TEXT NOT NULL, UNIQUE(id, tenant));"
    "CREATE INDEX trajectories_worker ON trajectories(worker);"
    "CREATE INDEX trajectories_last ON trajectories(last_us);"
    "CREATE TABLE steps(call INTEGER PRIMARY KEY, trajectory INT, step INT, started_us INT, ended_us INT, worker TEXT,"
    " surface TEXT, tool TEXT, resource TEXT, session TEXT, box TEXT, temporary INT, key TEXT, key_hash TEXT, trace "
    "TEXT,"
    " state INT /* 0: open, 1: done */, outcome TEXT, retry_safe INT, trainable INT, code TEXT, message TEXT,"
    " queued_us INT, run_us INT, total_us INT, cpu_us INT, peak_bytes INT, pids_peak INT, disk_used_bytes INT,"
    " dropped_bytes INT, blobs TEXT, state_id TEXT,"
    " intent_at INT, params_bytes INT, params TEXT, result_at INT, data_bytes INT, data TEXT, request TEXT, extra TEXT);"
    "CREATE TABLE notes(trajectory INT, step INT /* 0: the whole */, doc TEXT, PRIMARY KEY(trajectory, step)) WITHOUT "
    "ROWID;"
    "CREATE INDEX steps_trajectory ON steps(trajectory, step);"
    "CREATE INDEX steps_key ON steps(key) WHERE key IS NOT NULL;"
    "CREATE INDEX steps_open ON steps(call) WHERE state=0;"
    /* state: the newest one of its files, or the one that it was made from or put back into since */
    "CREATE TABLE boxes(box TEXT PRIMARY KEY, opened_us INT, closed_us INT, reason TEXT, body TEXT, state TEXT)"
    " WITHOUT ROWID;"
    "CREATE INDEX boxes_open ON boxes(opened_us) WHERE closed_us IS NULL;"
    "CREATE TABLE sessions(session TEXT PRIMARY KEY, worker TEXT, resource TEXT, box TEXT, opened_us INT, closed_us "
    "INT,"
    " reason TEXT, body TEXT) WITHOUT ROWID;"
    "CREATE INDEX sessions_open ON sessions(opened_us) WHERE closed_us IS NULL;"
    "CREATE TABLE states(n INTEGER PRIMARY KEY, state TEXT NOT NULL UNIQUE, box TEXT, name TEXT, trajectory TEXT,"
    " step INT, root TEXT, mark TEXT, body TEXT, tenant TEXT NOT NULL);"
    "CREATE INDEX states_box ON states(box);"
    "CREATE INDEX states_name ON states(name) WHERE name IS NOT NULL;"
    "CREATE INDEX states_pending ON states(n) WHERE root IS NULL AND mark IS NULL;"
    /* which state a box was in after a step of a trajectory: taken then, or put back then ('': the bare image) */
    "CREATE TABLE moments(n INTEGER PRIMARY KEY, trajectory TEXT, step INT, state TEXT, tenant TEXT NOT NULL, box TEXT);"
    "CREATE INDEX moments_step ON moments(trajectory, step);"
    /* where in the log a worker's last episode ended: what it did before is not where it goes on */
    "CREATE TABLE ends(worker TEXT, tenant TEXT, at INT, PRIMARY KEY(worker, tenant)) WITHOUT ROWID;"
    /* of forgotten trajectories: records to be erased, and blobs that perhaps nobody names any more */
    "CREATE TABLE erase(at INTEGER PRIMARY KEY);"
    "CREATE TABLE loose(hash TEXT PRIMARY KEY) WITHOUT ROWID;"
    "CREATE TABLE note_at(trajectory INT, at INT, PRIMARY KEY(trajectory, at)) WITHOUT ROWID;"
    "CREATE INDEX steps_blobs ON steps(call) WHERE blobs IS NOT NULL;"
    "CREATE TABLE bad_layers(layer TEXT PRIMARY KEY) WITHOUT ROWID;";

int index_sql_err(struct index *x, struct err *e, const char *what)
{
    switch (sqlite3_errcode(x->db) & 0xff) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB: errno = EUCLEAN; break; /* the caller throws the file away */
    case SQLITE_FULL: errno = ENOSPC; break;
    default: errno = EIO;
    }
    int sys = errno;
    (void)err_set(e, ERR_SYSTEM, "index: %s: %s", what, sqlite3_errmsg(x->db));
    if (e)
        e->sys = sys;
    return -sys;
}

static const char *const own_sql[] = {
    [S_BEGIN] = "BEGIN IMMEDIATE",
    [S_COMMIT] = "COMMIT",
    [S_ROLLBACK] = "ROLLBACK",
    [S_META_SET] = "UPDATE meta SET position=?1,last_at=?2,last_crc=?3,duplicates=?4,orphans=?5,unreadable=?6",
};
extern const char *const index_apply_sql[STMT_COUNT], *const index_query_sql[STMT_COUNT];

sqlite3_stmt *index_stmt(struct index *x, enum index_stmt which, struct err *e)
{
    if (!x->stmts[which]) {
        const char *sql = which <= S_META_SET      ? own_sql[which]
                          : index_apply_sql[which] ? index_apply_sql[which]
                                                   : index_query_sql[which];
        if (sqlite3_prepare_v3(x->db, sql, -1, SQLITE_PREPARE_PERSISTENT, &x->stmts[which], NULL) != SQLITE_OK) {
            (void)index_sql_err(x, e, sql);
            return NULL;
        }
    }
    return x->stmts[which];
}

int index_run(struct index *x, sqlite3_stmt *s, struct err *e)
{
    int r = sqlite3_step(s) == SQLITE_DONE ? 0 : index_sql_err(x, e, sqlite3_sql(s));
    sqlite3_reset(s);
    return r;
}

static int run_named(struct index *x, enum index_stmt which, struct err *e)
{
    sqlite3_stmt *s = index_stmt(x, which, e);
    return s ? index_run(x, s, e) : -EIO;
}

void bind_str(sqlite3_stmt *s, int at, struct str v)
{
    if (v.n)
        sqlite3_bind_text(s, at, v.p, (int)v.n, SQLITE_STATIC);
    else
        sqlite3_bind_null(s, at);
}

struct str index_tenant(struct str name)
{
    return name.n ? name : STR("default");
}

struct str column_str(sqlite3_stmt *s, int at)
{
    const char *p = (const char *)sqlite3_column_text(s, at);
    return (struct str){ p, p ? (size_t)sqlite3_column_bytes(s, at) : 0 };
}

static void boot_id(char out[64])
{
    auto_close int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, out, 63);

    out[n > 0 ? n : 0] = '\0';
    out[strcspn(out, "\n")] = '\0';
}

static void close_db(struct index *x)
{
    for (size_t i = 0; i < STMT_COUNT; i++)
        sqlite3_finalize(x->stmts[i]);
    memset(x->stmts, 0, sizeof x->stmts);
    sqlite3_close(x->db);
    x->db = NULL;
}

static int exec(struct index *x, const char *sql, struct err *e)
{
    return sqlite3_exec(x->db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : index_sql_err(x, e, sql);
}

/* 1: meta was read. 0: this file is of another version, of another boot, or cannot be read: not to be used. */
static int read_meta(struct index *x)
{
    sqlite3_stmt *s = NULL;
    char boot[64];
    int ok = 0;

    if (sqlite3_prepare_v2(x->db,
                           "SELECT position,last_at,last_crc,boot,duplicates,orphans,unreadable,"
                           "(SELECT user_version FROM pragma_user_version) FROM meta",
                           -1, &s, NULL) == SQLITE_OK &&
        sqlite3_step(s) == SQLITE_ROW) {
        boot_id(boot);
        ok = sqlite3_column_int(s, 7) == SCHEMA && str_is(column_str(s, 3), boot);
        x->position = (uint64_t)sqlite3_column_int64(s, 0);
        x->last_at = (uint64_t)sqlite3_column_int64(s, 1);
        x->last_crc = (uint32_t)sqlite3_column_int64(s, 2);
        x->counts =
            (struct index_counts){ sqlite3_column_int64(s, 4), sqlite3_column_int64(s, 5), sqlite3_column_int64(s, 6) };
    }
    sqlite3_finalize(s);
    return ok;
}

/* Is the last record that this index took in still where it was? After a power cut the log may have lost more than
 * the index, and then have grown again. */
static bool belongs_to_log(struct index *x)
{
    struct journal_record r;

    if (x->position == 0)
        return true;
    journal_seek(x->fetch, x->last_at);
    return journal_next(x->fetch, &r, NULL) == 1 && r.position == x->last_at && r.crc == x->last_crc &&
           r.end == x->position;
}

static int open_db(struct index *x, struct err *e)
{
    /* No threads here: its locks, and its counting of memory under them, are a tenth of an insert. Refused where it
     * runs already, which is fine. */
    (void)sqlite3_config(SQLITE_CONFIG_SINGLETHREAD);
    (void)sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
    if (sqlite3_open_v2(x->path, &x->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL) !=
        SQLITE_OK)
        return index_sql_err(x, e, "open");
    sqlite3_busy_timeout(x->db, 5000);
    return exec(x,
                "PRAGMA journal_mode=WAL; PRAGMA synchronous=OFF; PRAGMA cache_size=-65536;"
                "PRAGMA wal_autocheckpoint=4000; PRAGMA temp_store=MEMORY; PRAGMA secure_delete=ON;",
                e);
}

static void throw_away(struct index *x)
{
    static const char *const ends[] = { "", "-wal", "-shm" };
    char path[4200];

    close_db(x);
    for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
        snprintf(path, sizeof path, "%s%s", x->path, ends[i]);
        (void)unlink(path);
    }
    x->position = x->last_at = x->last_crc = 0;
    x->counts = (struct index_counts){ 0 };
}

/* An empty index; journal positions from 0 on will be read. */
static int start_anew(struct index *x, struct err *e)
{
    char sql[160], boot[64];

    throw_away(x);
    int r = open_db(x, e);
    if (r < 0)
        return r;
    boot_id(boot);
    snprintf(sql, sizeof sql, "UPDATE meta SET boot='%s'; PRAGMA user_version=%d; COMMIT;", boot, SCHEMA);
    r = exec(x, "BEGIN", e);
    if (r >= 0)
        r = exec(x, schema, e);
    if (r >= 0)
        r = index_doubt_blobs(x, e);
    if (r >= 0)
        r = exec(x, sql, e);
    return r;
}

int index_open(const char *home, struct index **ret, struct err *e)
{
    struct index *x = calloc(1, sizeof *x);

    if (!x || asprintf(&x->path, "%s/index.sqlite", home) < 0 || asprintf(&x->log_dir, "%s/log", home) < 0)
        abort();
    int r = journal_reader_open(x->log_dir, 0, &x->fetch, e);
    if (r >= 0) {
        bool old = access(x->path, F_OK) == 0;
        if (!old || open_db(x, NULL) < 0 || !read_meta(x) || !belongs_to_log(x)) {
            if (old)
                log_warn("index not usable", "path=%s, reading the log again from its start", x->path);
            r = start_anew(x, e);
        }
    }
    if (r >= 0)
        r = journal_reader_open(x->log_dir, x->position, &x->tail, e);
    if (r < 0) {
        index_close(x);
        return r;
    }
    x->tidy = true; /* a former one may have left something */
    *ret = x;
    return 0;
}

void index_close(struct index *x)
{
    if (!x)
        return;
    close_db(x);
    journal_reader_close(x->tail);
    journal_reader_close(x->fetch);
    arena_done(&x->slice);
    arena_done(&x->record);
    map_done(&x->growths);
    free(x->path);
    free(x->log_dir);
    free(x);
}

uint64_t index_position(const struct index *x)
{
    return x->position;
}

struct index_counts index_counts(const struct index *x)
{
    return x->counts;
}

static int commit(struct index *x, const struct journal_record *last, struct err *e)
{
    int r = index_apply_begun(x, e);
    if (r >= 0)
        r = index_apply_growths(x, e);
    if (r < 0)
        return r;
    sqlite3_stmt *s = index_stmt(x, S_META_SET, e);
    if (!s)
        return -EIO;
    sqlite3_bind_int64(s, 1, (int64_t)last->end);
    sqlite3_bind_int64(s, 2, (int64_t)last->position);
    sqlite3_bind_int64(s, 3, last->crc);
    sqlite3_bind_int64(s, 4, x->counts.duplicates);
    sqlite3_bind_int64(s, 5, x->counts.orphans);
    sqlite3_bind_int64(s, 6, x->counts.unreadable);
    r = index_run(x, s, e);
    if (r >= 0)
        r = run_named(x, S_COMMIT, e);
    if (r < 0)
        return r;
    x->position = last->end;
    x->last_at = last->position;
    x->last_crc = last->crc;
    return 0;
}

struct slice {
    struct journal_record last; /* end 0: there was none */
    bool log_failed;            /* the log's fault, not SQLite's: what was read before is good */
};

/* Reads and applies. Returns as journal_next does, or an error of SQLite. */
static int take_slice(struct index *x, struct slice *slice, struct err *e)
{
    int64_t until = now_us() + INDEX_SLICE_US;

    for (int n = 0; n < INDEX_SLICE; n++) {
        struct journal_record record;
        int r = journal_next(x->tail, &record, e);
        slice->log_failed = r < 0;
        if (r <= 0)
            return r;
        if (slice->last.end == 0)
            r = run_named(x, S_BEGIN, e);
        if (r >= 0)
            r = index_apply(x, &record, e);
        if (r < 0)
            return r;
        slice->last = record;
        if (n % 16 != 15)
            continue;
        if (now_us() > until)
            break;
        (void)sched_yield(); /* whoever answers a caller goes first */
    }
    return 1;
}

/* Undoes the slice that failed; a damaged file is replaced by an empty one. */
static int recover(struct index *x, int r, struct err *e)
{
    if (sqlite3_get_autocommit(x->db) == 0)
        (void)run_named(x, S_ROLLBACK, NULL);
    if (r == -EUCLEAN) {
        log_error("index damaged", "%s, reading the log again from its start", e->msg);
        r = start_anew(x, e);
        r = r < 0 ? r : 1;
    }
    journal_seek(x->tail, x->position);
    return r;
}

int index_ingest(struct index *x, struct err *e)
{
    struct index_counts counts = x->counts;
    struct slice slice = { 0 };
    struct err why;

    int r = take_slice(x, &slice, e);
    bool failed = r < 0 && !slice.log_failed;
    if (slice.last.end && !failed) {
        int committed = commit(x, &slice.last, &why);
        if (committed < 0) {
            *e = why;
            r = committed;
            failed = true;
        }
    }
    map_done(&x->growths); /* their keys are in the arena */
    map_done(&x->begun);
    arena_reset(&x->slice);
    if (!failed)
        return r;
    x->counts = counts;
    return recover(x, r, e);
}

/* What is left of trajectories that were forgotten: their records in the log, and their blobs. The index knows where
 * these are. When it is made anew it finds again what was not erased yet: records of which something is left, results
 * without their intent, and blobs that nobody names (all of them are doubted); so nothing here needs to be remembered. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/log.h"
#include "store/blob.h"
#include "store/index_private.h"

enum { BATCH = 256 };

static int run_named(struct index *x, enum index_stmt which, struct err *e)
{
    sqlite3_stmt *s = index_stmt(x, which, e);

    return s ? index_run(x, s, e) : -EIO;
}

/* 1: some were. The log must say durably that they were forgotten before they go. */
static int erase_records(struct index *x, struct err *e)
{
    sqlite3_stmt *s = index_stmt(x, S_ERASE_NEXT, e), *done = index_stmt(x, S_ERASE_DONE, e);
    uint64_t at[BATCH];
    size_t n = 0;

    if (!s || !done)
        return -EIO;
    sqlite3_bind_int(s, 1, BATCH);
    while (n < BATCH && sqlite3_step(s) == SQLITE_ROW)
        at[n++] = (uint64_t)sqlite3_column_int64(s, 0);
    sqlite3_reset(s);
    if (n == 0)
        return 0;
    int r = journal_sync(x->log_dir, UINT64_MAX, e);
    if (r < 0)
        return r;
    int64_t bytes = journal_erase(x->log_dir, at, n, e);
    if (bytes < 0)
        return (int)bytes;
    journal_seek(x->fetch, 0); /* it may have one of them in memory */
    sqlite3_bind_int64(done, 1, (int64_t)at[n - 1]);
    r = index_run(x, done, e);
    if (r >= 0)
        log_info("records erased", "records=%zu bytes=%lld", n, (long long)bytes);
    return r < 0 ? r : 1;
}

static int doubt(void *arg, struct str name, struct err *e)
{
    struct index *x = arg;
    sqlite3_stmt *s = index_stmt(x, S_LOOSE_ADD, e);

    if (!s)
        return -EIO;
    bind_str(s, 1, name);
    return index_run(x, s, e);
}

static void home_of(const struct index *x, char out[4200])
{
    snprintf(out, 4200, "%.*s", (int)(strlen(x->log_dir) - strlen("/log")), x->log_dir);
}

int index_doubt_blobs(struct index *x, struct err *e)
{
    char home[4200];

    home_of(x, home);
    return blob_each(home, doubt, x, e);
}

/* 1: some were removed; 0: none, or they are too young. */
static int remove_blobs(struct index *x, int64_t grace_ms, bool *ret_young, struct err *e)
{
    sqlite3_stmt *s = index_stmt(x, S_LOOSE_NEXT, e), *done = index_stmt(x, S_LOOSE_DONE, e);
    char(*names)[80] = calloc(BATCH, sizeof *names);
    size_t n = 0, gone = 0;
    char home[4200];

    if (!names)
        abort();
    int r = s && done ? run_named(x, S_LOOSE_USED, e) : -EIO;
    home_of(x, home);
    if (r >= 0) {
        sqlite3_bind_int(s, 1, BATCH);
        while (n < BATCH && sqlite3_step(s) == SQLITE_ROW)
            snprintf(names[n++], sizeof *names, "%.*s", STR_ARG(column_str(s, 0)));
        sqlite3_reset(s);
    }
    for (size_t i = 0; i < n && r >= 0; i++) {
        int removed = blob_remove(home, str_of(names[i]), grace_ms, e);
        *ret_young |= removed == -EAGAIN;
        if (removed == -EAGAIN)
            continue;
        bind_str(done, 1, str_of(names[i]));
        r = index_run(x, done, e);
        gone += removed >= 0;
    }
    free(names);
    if (gone)
        log_info("blobs removed", "blobs=%zu", gone);
    return r < 0 ? r : gone > 0;
}

int index_tidy(struct index *x, int64_t grace_ms, struct err *e)
{
    bool young = false;

    int r = erase_records(x, e);
    if (r == 0)
        r = remove_blobs(x, grace_ms, &young, e);
    if (r != 0)
        return r;
    x->tidy = young;
    (void)sqlite3_exec(x->db, "PRAGMA wal_checkpoint(TRUNCATE)", NULL, NULL, NULL); /* it has what was deleted, too */
    return 0;
}

bool index_is_tidy(const struct index *x)
{
    return !x->tidy;
}

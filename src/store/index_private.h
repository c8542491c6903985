/* Shared by the files index*.c only. */
#pragma once

#include <sqlite3.h>

#include "base/arena.h"
#include "base/json.h"
#include "base/map.h"
#include "store/index.h"
#include "store/journal.h"
#include "wire/outcome.h"

/* Texts above this stay in the log alone; the row holds the position of their record. */
/* A longer text of a step stands in the log only, where it is read from when somebody asks: most are never asked for. */
enum { INDEX_INLINE = 512 };

enum index_stmt {
    /* index.c */
    S_BEGIN,
    S_COMMIT,
    S_ROLLBACK,
    S_META_SET,
    /* index_apply.c */
    S_TRAJECTORY_FIND,
    S_TRAJECTORY_ADD,
    S_TRAJECTORY_GROW,
    S_STEP_ADD,
    S_STEP_END,
    S_BOX_OPEN,
    S_BOX_CLOSE,
    S_SESSION_OPEN,
    S_SESSION_CLOSE,
    S_STATE_ADD,
    S_BOX_STATE,
    S_NOTE,
    S_STEP_EXTRA,
    S_NOTE_AT,
    S_DROP_ERASE, /* from here to S_DROP_TRAJECTORY: what is done when a trajectory is forgotten, in this order */
    S_DROP_ERASE_NOTES,
    S_DROP_LOOSE,
    S_DROP_NOTE_AT,
    S_DROP_STEPS,
    S_DROP_NOTES,
    S_DROP_END,
    S_DROP_TRAJECTORY,
    S_STATE_ROOT,
    S_STATE_MARK,
    S_STATE_LOOSE,
    S_ERASE_ADD,
    S_ERASE_ORPHAN,
    S_ERASE_NEXT, /* index_erase.c */
    S_ERASE_DONE,
    S_LOOSE_ADD,
    S_LOOSE_USED,
    S_LOOSE_NEXT,
    S_LOOSE_DONE,
    S_BAD_LAYERS,
    S_MOMENT_ADD,
    S_REWIND,
    S_EPISODE_END,
    /* index_query.c */
    Q_OPEN_TRAJECTORIES,
    Q_OPEN_BOXES,
    Q_OPEN_SESSIONS,
    Q_OPEN_STEPS,
    Q_MAX_CALL,
    Q_TENANTS,
    Q_TRAJECTORIES,
    Q_TRAJECTORIES_OF,
    Q_TRAJECTORY,
    Q_TRAJECTORY_BOXES,
    Q_TRAJECTORY_TOOLS,
    Q_TRAJECTORY_OF,
    Q_WHOSE,
    Q_STEPS,
    Q_STEP,
    Q_CALL,
    Q_KEY,
    Q_STATE,
    Q_STATE_STEP,
    Q_STEP_BOX,
    Q_STATE_CALL,
    Q_STATES,
    Q_LIVE_STATES,
    Q_PENDING_STATES,
    Q_OLD_STATES,
    Q_BOX,
    Q_TRAJECTORY_FORK,
    STMT_COUNT
};

/* What one slice adds to one trajectory; written once, when the slice is committed. */
struct growth {
    struct str id; /* "tenant NUL trajectory" */
    int64_t n;     /* its row */
    int64_t steps, ok_steps, untrainable, last_step, last_us;
    int64_t outcomes[OUTCOME_COUNT];
};

struct index {
    char *path, *log_dir;
    sqlite3 *db;
    sqlite3_stmt *stmts[STMT_COUNT];
    struct journal_reader *tail;  /* reads ahead */
    struct journal_reader *fetch; /* reads single records again, for texts that are not inline */
    uint64_t position;            /* as in the last commit */
    uint64_t last_at;             /* the last record that was taken in, and its checksum: */
    uint32_t last_crc;            /* tells whether this index belongs to this log */
    struct index_counts counts;
    struct arena slice; /* lives for one slice */
    struct arena record;
    struct map growths; /* by id */
    struct map begun;   /* by call: intents of this slice whose result has not come */
    bool tidy;          /* there is, or may be, something to erase */
    bool erased;        /* the log has erased records */
};

sqlite3_stmt *index_stmt(struct index *x, enum index_stmt which, struct err *e); /* prepared on first use */
int index_sql_err(struct index *x, struct err *e, const char *what);
int index_run(struct index *x, sqlite3_stmt *s, struct err *e); /* a statement without rows: steps, resets */
struct str index_tenant(struct str name);                       /* absent: the default one */
void bind_str(sqlite3_stmt *s, int at, struct str v);           /* absent and empty: NULL */
struct str column_str(sqlite3_stmt *s, int at);                 /* NULL: p NULL */

int index_doubt_blobs(struct index *x, struct err *e); /* of an index made anew: any of them may be left over */
int index_apply(struct index *x, const struct journal_record *r, struct err *e);
int index_apply_begun(struct index *x, struct err *e);
int index_apply_growths(struct index *x, struct err *e); /* after index_apply_begun */

/* One step as a JSON object; the statement selected INDEX_ROW_COLUMNS. */
#define INDEX_ROW_COLUMNS                                                                                                                                                                                            \
    "SELECT s.call,t.id,s.step,s.started_us,s.ended_us,s.worker,s.surface,s.tool,s.resource,s.session,s.box,"                                                                                                        \
    "s.temporary,s.key,s.key_hash,s.trace,s.state,s.outcome,s.retry_safe,s.trainable,s.code,s.message,s.queued_us,"                                                                                                  \
    "s.run_us,s.total_us,s.cpu_us,s.peak_bytes,s.pids_peak,s.disk_used_bytes,s.dropped_bytes,s.blobs,s.params,s.intent_at,s.data,s.result_at,"                                                                       \
    "s.params_bytes,s.data_bytes,t.tenant,s.state_id,(SELECT root FROM states r WHERE r.state=s.state_id),s.request,s.extra,(SELECT doc FROM notes q WHERE q.trajectory=s.trajectory AND q.step=s.step) FROM steps " \
    "s LEFT "                                                                                                                                                                                                        \
    "JOIN trajectories t ON t.n=s.trajectory "
enum index_row_form { ROW_STEP, ROW_WITH_HASH, ROW_OPEN };
void index_row(struct index *x, sqlite3_stmt *s, enum index_row_form form, size_t text_max, struct jw *w);
void jw_time(struct jw *w, const char *name, int64_t us); /* ISO 8601, UTC */

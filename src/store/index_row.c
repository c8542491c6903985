/* One recorded step as a JSON object. params and data are the bytes that stand in the log: from the row, or, if they
 * are large, from the log itself. */
#include "store/index_private.h"

#include <stdio.h>
#include <time.h>

#include "base/log.h"

enum column {
    C_CALL,
    C_TRAJECTORY,
    C_STEP,
    C_STARTED,
    C_ENDED,
    C_WORKER,
    C_SURFACE,
    C_TOOL,
    C_RESOURCE,
    C_SESSION,
    C_BOX,
    C_TEMPORARY,
    C_KEY,
    C_KEY_HASH,
    C_TRACE,
    C_STATE,
    C_OUTCOME,
    C_RETRY_SAFE,
    C_TRAINABLE,
    C_CODE,
    C_MESSAGE,
    C_QUEUED,
    C_RUN,
    C_TOTAL,
    C_CPU,
    C_PEAK,
    C_PIDS,
    C_DISK,
    C_DROPPED,
    C_BLOBS,
    C_PARAMS,
    C_INTENT_AT,
    C_DATA,
    C_RESULT_AT,
    C_PARAMS_BYTES,
    C_DATA_BYTES,
    C_TENANT,
    C_STATE_ID,
    C_STATE_ROOT,
    C_REQUEST,
    C_EXTRA,
    C_NOTES
};

void jw_time(struct jw *w, const char *name, int64_t us)
{
    time_t seconds = us / 1000000;
    struct tm tm;
    char text[64];

    gmtime_r(&seconds, &tm);
    size_t n = strftime(text, sizeof text, "%FT%T", &tm);
    snprintf(text + n, sizeof text - n, ".%06lldZ", (long long)(us % 1000000));
    jw_kz(w, name, text);
}

static void column_out(struct jw *w, const char *name, sqlite3_stmt *s, int at)
{
    jw_kstr(w, name, column_str(s, at));
}

static void raw_out(struct jw *w, const char *name, struct str json)
{
    jw_kraw(w, name, json.n ? json : STR("null"));
}

/* The member `name` of the record at `position`, in x->record's memory and the fetch reader's. */
static struct str fetch(struct index *x, uint64_t position, const char *name)
{
    struct journal_record r;
    struct json *body;
    struct err e = { 0 };

    journal_seek(x->fetch, position);
    int ok = journal_next(x->fetch, &r, &e);
    arena_reset(&x->record);
    if (ok != 1 || json_parse(&x->record, r.body, &body, &e) < 0) {
        log_warn("index: record not readable", "position=%llu why=%s, answered without %s",
                 (unsigned long long)position, e.msg, name);
        return (struct str){ 0 };
    }
    const struct json *v = json_get(body, name);
    return v ? v->raw : (struct str){ 0 };
}

/* A text that would burst the frame, or that cannot be read, is null, and "<name>_omitted" says its size. */
static void text_out(struct index *x, struct jw *w, const char *key, struct str inline_text, int64_t bytes,
                     uint64_t position, size_t text_max)
{
    struct str text = inline_text;
    bool in_log = bytes > INDEX_INLINE;

    if (in_log && (size_t)bytes <= text_max)
        text = fetch(x, position, key[0] == 'o' ? "data" : key);
    raw_out(w, key, text);
    if (in_log && !text.n) {
        char omitted[32];
        snprintf(omitted, sizeof omitted, "%s_omitted", key);
        jw_kint(w, omitted, bytes);
    }
}

static void result_out(struct index *x, sqlite3_stmt *s, size_t text_max, struct jw *w)
{
    static const struct {
        const char *name;
        int at;
    } uses[] = { { "queued_us", C_QUEUED },     { "run_us", C_RUN },           { "total_us", C_TOTAL },
                 { "cpu_us", C_CPU },           { "peak_bytes", C_PEAK },      { "pids_peak", C_PIDS },
                 { "disk_used_bytes", C_DISK }, { "dropped_bytes", C_DROPPED } };
    bool done = sqlite3_column_int(s, C_STATE) == 1;

    jw_kz(w, "state", done ? "done" : "open");
    column_out(w, "outcome", s, C_OUTCOME);
    if (done) {
        jw_kbool(w, "retry_safe", sqlite3_column_int(s, C_RETRY_SAFE));
        jw_kbool(w, "trainable", sqlite3_column_int(s, C_TRAINABLE));
    } else {
        raw_out(w, "retry_safe", (struct str){ 0 });
        raw_out(w, "trainable", (struct str){ 0 });
    }
    raw_out(w, "code", column_str(s, C_CODE));
    column_out(w, "message", s, C_MESSAGE);
    text_out(x, w, "observation", column_str(s, C_DATA), sqlite3_column_int64(s, C_DATA_BYTES),
             (uint64_t)sqlite3_column_int64(s, C_RESULT_AT), text_max);
    for (size_t i = 0; i < sizeof uses / sizeof uses[0]; i++)
        if (done && sqlite3_column_type(s, uses[i].at) != SQLITE_NULL)
            jw_kint(w, uses[i].name, sqlite3_column_int64(s, uses[i].at));
        else
            raw_out(w, uses[i].name, (struct str){ 0 });
    raw_out(w, "blobs", column_str(s, C_BLOBS));
    column_out(w, "state_id", s, C_STATE_ID);
    column_out(w, "state_root", s, C_STATE_ROOT);
    if (column_str(s, C_EXTRA).n)
        raw_out(w, "extra", column_str(s, C_EXTRA));
    if (column_str(s, C_NOTES).n)
        raw_out(w, "annotations", column_str(s, C_NOTES));
}

void index_row(struct index *x, sqlite3_stmt *s, enum index_row_form form, size_t text_max, struct jw *w)
{
    size_t from = w->out->n;

    jw_obj(w);
    jw_kint(w, "call", sqlite3_column_int64(s, C_CALL));
    column_out(w, "trajectory", s, C_TRAJECTORY);
    jw_kint(w, "step", sqlite3_column_int64(s, C_STEP));
    if (form == ROW_OPEN) {
        jw_kint(w, "time", sqlite3_column_int64(s, C_STARTED));
        column_out(w, "tenant", s, C_TENANT);
    } else {
        jw_time(w, "time", sqlite3_column_int64(s, C_STARTED));
        jw_kint(w, "time_us", sqlite3_column_int64(s, C_STARTED));
        column_out(w, "action", s, C_TOOL);
    }
    column_out(w, "worker", s, C_WORKER);
    column_out(w, "surface", s, C_SURFACE);
    column_out(w, "tool", s, C_TOOL);
    column_out(w, "resource", s, C_RESOURCE);
    column_out(w, "session", s, C_SESSION);
    column_out(w, "box", s, C_BOX);
    jw_kbool(w, "temporary", sqlite3_column_int(s, C_TEMPORARY));
    column_out(w, "key", s, C_KEY);
    if (form != ROW_STEP)
        column_out(w, "key_hash", s, C_KEY_HASH);
    column_out(w, "trace", s, C_TRACE);
    column_out(w, "request", s, C_REQUEST);
    text_out(x, w, "params", column_str(s, C_PARAMS), sqlite3_column_int64(s, C_PARAMS_BYTES),
             (uint64_t)sqlite3_column_int64(s, C_INTENT_AT), text_max);
    if (form != ROW_OPEN) {
        size_t used = w->out->n - from;
        result_out(x, s, text_max > used ? text_max - used : 0, w);
    }
    jw_obj_end(w);
}

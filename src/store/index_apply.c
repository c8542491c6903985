/* Turns records of the log into rows. A record that makes no sense is counted and skipped: the index must never stop
 * the recorder. Only SQLite's own failures are errors here. */
#include "store/index_private.h"

#include <errno.h>

#include "base/auto.h"
#include "base/log.h"

extern const char *const index_apply_sql[STMT_COUNT];
const char *const index_apply_sql[STMT_COUNT] = {
    [S_TRAJECTORY_FIND] = "SELECT n FROM trajectories WHERE id=?1 AND tenant=?2",
    [S_TRAJECTORY_ADD] = "INSERT INTO trajectories(id,worker,opened_us,last_us,tenant) VALUES(?1,?2,?3,?3,?4)",
    [S_TRAJECTORY_GROW] =
        "UPDATE trajectories SET steps=steps+?2,ok_steps=ok_steps+?3,untrainable=untrainable+?4,"
        "last_step=max(last_step,?5),last_us=max(last_us,?6),o0=o0+?7,o1=o1+?8,o2=o2+?9,o3=o3+?10,o4=o4+?11,o5=o5+?12,"
        "o6=o6+?13,o7=o7+?14,o8=o8+?15,o9=o9+?16,o10=o10+?17 WHERE n=?1",
    [S_STEP_ADD] =
        "INSERT OR IGNORE INTO "
        "steps(call,trajectory,step,started_us,worker,surface,tool,resource,session,box,temporary,"
        "key,key_hash,trace,intent_at,params_bytes,params,state,ended_us,outcome,retry_safe,trainable,code,message,"
        "queued_us,run_us,total_us,cpu_us,peak_bytes,dropped_bytes,blobs,result_at,data_bytes,data,state_id,request,"
        "pids_peak,disk_used_bytes) "
        "VALUES(?1,?20,?21,"
        "?22,?23,?24,?25,?26,?27,?28,?29,?30,?31,?32,?33,?34,?35,?36,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,"
        "?16,?17,?18,?37,?38,?39)",
    [S_STEP_END] =
        "UPDATE steps SET state=1,ended_us=?2,outcome=?3,retry_safe=?4,trainable=?5,code=?6,message=?7,"
        "queued_us=?8,run_us=?9,total_us=?10,cpu_us=?11,peak_bytes=?12,dropped_bytes=?13,blobs=?14,"
        "result_at=?15,data_bytes=?16,data=?17,state_id=?18,pids_peak=?38,disk_used_bytes=?39 WHERE call=?1 AND state=0",
    [S_BOX_OPEN] = "INSERT INTO boxes(box,opened_us,body,state) VALUES(?1,?2,?3,?4) ON CONFLICT(box) DO UPDATE SET"
                   " body=?3,state=?4",
    [S_BOX_CLOSE] = "UPDATE boxes SET closed_us=?2,reason=?3 WHERE box=?1 AND closed_us IS NULL",
    [S_SESSION_OPEN] =
        "INSERT OR IGNORE INTO sessions(session,opened_us,body,worker,resource,box) VALUES(?1,?2,?3,?4,?5,?6)",
    [S_STATE_ADD] =
        "INSERT OR IGNORE INTO states(state,box,name,trajectory,step,root,body,tenant) VALUES(?1,?2,?3,?4,?5,?6,?7,?8)",
    [S_BOX_STATE] = "UPDATE boxes SET state=?2 WHERE box=?1",
    /* a merge patch: null takes away. Whatever stands in the log, the index must not stop at it. */
    [S_NOTE] = "INSERT INTO notes SELECT ?1,?2,json_patch('{}',?3) WHERE json_valid(?3) ON CONFLICT(trajectory,step)"
               " DO UPDATE SET doc=json_patch(doc,?3)",
    [S_NOTE_AT] = "INSERT OR IGNORE INTO note_at VALUES(?1,?2)",
    [S_DROP_ERASE] = "INSERT OR IGNORE INTO erase SELECT intent_at FROM steps WHERE trajectory=?1 AND state=1 AND"
                     " intent_at IS NOT NULL UNION SELECT result_at FROM steps WHERE trajectory=?1 AND state=1 AND"
                     " result_at IS NOT NULL",
    [S_DROP_ERASE_NOTES] = "INSERT OR IGNORE INTO erase SELECT at FROM note_at WHERE trajectory=?1",
    [S_DROP_LOOSE] = "INSERT OR IGNORE INTO loose SELECT j.value FROM steps s,json_tree(s.blobs) j WHERE"
                     " s.trajectory=?1 AND s.state=1 AND s.blobs IS NOT NULL AND j.key='hash'",
    [S_DROP_NOTE_AT] = "DELETE FROM note_at WHERE trajectory=?1",
    [S_STATE_LOOSE] = "INSERT OR IGNORE INTO loose SELECT json_extract(body,'$.carried.blob') FROM states WHERE"
                      " state=?1 AND json_extract(body,'$.carried.blob') IS NOT NULL",
    [S_DROP_STEPS] = "DELETE FROM steps WHERE trajectory=?1 AND state=1",
    [S_DROP_NOTES] = "DELETE FROM notes WHERE trajectory=?1",
    [S_DROP_END] = "DELETE FROM ends WHERE (worker,tenant)=(SELECT worker,tenant FROM trajectories WHERE n=?1) AND NOT"
                   " EXISTS(SELECT 1 FROM trajectories t WHERE t.worker=ends.worker AND t.tenant=ends.tenant AND"
                   " t.n<>?1)",
    [S_DROP_TRAJECTORY] = "DELETE FROM trajectories WHERE n=?1",
    [S_ERASE_ADD] = "INSERT OR IGNORE INTO erase VALUES(?1)",
    [S_ERASE_ORPHAN] = "INSERT OR IGNORE INTO erase SELECT ?1 WHERE NOT EXISTS(SELECT 1 FROM steps WHERE call=?2)",
    [S_ERASE_NEXT] = "SELECT at FROM erase ORDER BY at LIMIT ?1",
    [S_ERASE_DONE] = "DELETE FROM erase WHERE at<=?1",
    /* named by a step, by a state that is there, or by a box that is yet to be given its variables */
    [S_LOOSE_USED] =
        "DELETE FROM loose WHERE hash IN (SELECT j.value FROM steps s,json_tree(s.blobs) j WHERE s.blobs IS"
        " NOT NULL AND j.key='hash') OR hash IN (SELECT json_extract(body,'$.carried.blob') FROM states"
        " WHERE mark IS NOT 'dropped') OR hash IN (SELECT json_extract(body,'$.carried.blob') FROM boxes"
        " WHERE closed_us IS NULL)",
    [S_LOOSE_ADD] = "INSERT OR IGNORE INTO loose VALUES(?1)",
    [S_LOOSE_NEXT] = "SELECT hash FROM loose LIMIT ?1",
    [S_LOOSE_DONE] = "DELETE FROM loose WHERE hash=?1",
    [S_STEP_EXTRA] = "UPDATE steps SET extra=?2 WHERE call=?1",
    [S_STATE_ROOT] = "UPDATE states SET root=?2 WHERE state=?1",
    [S_STATE_MARK] = "UPDATE states SET mark=?2 WHERE state=?1",
    [S_BAD_LAYERS] = "INSERT OR IGNORE INTO bad_layers SELECT j.value FROM states s,json_each(s.body,'$.layers') j"
                     " WHERE s.state=?1",
    [S_MOMENT_ADD] = "INSERT INTO moments(trajectory,step,state,tenant,box) VALUES(?1,?2,?3,?4,?5)",
    [S_REWIND] =
        "INSERT INTO moments(trajectory,step,state,tenant,box) SELECT t.id,s.step,?2,t.tenant,s.box FROM steps s JOIN"
        " trajectories t ON t.n=s.trajectory WHERE s.call=?1 AND s.tool IN('box:restore','box:reset') AND"
        " s.outcome='ok'",
    [S_EPISODE_END] = "INSERT OR REPLACE INTO ends(worker,tenant,at) VALUES(?1,?2,?3)",
    [S_SESSION_CLOSE] = "UPDATE sessions SET closed_us=?2,reason=?3 WHERE session=?1 AND closed_us IS NULL",
};

struct row {
    int64_t call, step, time, queued_us, run_us, total_us, cpu_us, peak_bytes, dropped_bytes;
    int64_t pids_peak, disk_used_bytes; /* -1: not known */
    bool temporary, retry_safe, trainable;
    struct str trajectory, tenant, worker, surface, tool, resource, session, box, key, key_hash, trace, request,
        outcome, message, reason, state;
    struct str params, data, code, blobs; /* JSON, verbatim */
};

enum kind { K_INT, K_BOOL, K_STR, K_RAW };
#define MEMBER(kind, name)                                                                                             \
    {                                                                                                                  \
#name, sizeof #name - 1, kind, __builtin_offsetof(struct row, name)                                            \
    }
static const struct member {
    const char *name;
    size_t n;
    enum kind kind;
    size_t offset;
} members[] = {
    MEMBER(K_INT, call),          MEMBER(K_STR, trajectory), MEMBER(K_INT, step),
    MEMBER(K_INT, time),          MEMBER(K_STR, tenant),     MEMBER(K_STR, worker),
    MEMBER(K_STR, surface),       MEMBER(K_STR, tool),       MEMBER(K_STR, resource),
    MEMBER(K_STR, session),       MEMBER(K_STR, box),        MEMBER(K_BOOL, temporary),
    MEMBER(K_STR, key),           MEMBER(K_STR, key_hash),   MEMBER(K_STR, trace),
    MEMBER(K_RAW, params),        MEMBER(K_STR, outcome),    MEMBER(K_BOOL, retry_safe),
    MEMBER(K_BOOL, trainable),    MEMBER(K_RAW, code),       MEMBER(K_STR, message),
    MEMBER(K_RAW, data),          MEMBER(K_INT, queued_us),  MEMBER(K_INT, run_us),
    MEMBER(K_INT, total_us),      MEMBER(K_INT, cpu_us),     MEMBER(K_INT, peak_bytes),
    MEMBER(K_INT, dropped_bytes), MEMBER(K_INT, pids_peak),  MEMBER(K_INT, disk_used_bytes),
    MEMBER(K_RAW, blobs),         MEMBER(K_STR, reason),     MEMBER(K_STR, state),
    MEMBER(K_STR, request),
};

/* A value of the wrong type counts as absent: the log is never refused for its taste. */
static void set_member(struct row *row, const struct member *m, const struct json *v)
{
    void *to = (char *)row + m->offset;

    switch (m->kind) {
    case K_INT:
        if (v->type == JSON_NUM && v->is_int)
            *(int64_t *)to = v->i;
        break;
    case K_BOOL: *(bool *)to = v->type == JSON_BOOL && v->b; break;
    case K_STR:
        if (v->type == JSON_STR)
            *(struct str *)to = v->s;
        break;
    case K_RAW:
        if (v->type != JSON_NULL)
            *(struct str *)to = v->raw;
        break;
    }
}

static void read_row(const struct json *body, struct row *row)
{
    size_t at = 0; /* members come in the table's order, mostly, so the search begins behind the last hit */

    for (const struct json *v = body->first; v; v = v->next)
        for (size_t i = 0; i < ARRAY_LEN(members); i++, at++) {
            const struct member *m = &members[at % ARRAY_LEN(members)];
            if (m->n == v->name.n && memcmp(m->name, v->name.p, m->n) == 0) {
                set_member(row, m, v);
                at++;
                break;
            }
        }
}

static struct str growth_key(struct index *x, struct str tenant, struct str trajectory)
{
    char *key = arena_alloc(&x->slice, tenant.n + 1 + trajectory.n);

    memcpy(key, tenant.p, tenant.n);
    key[tenant.n] = 0;
    memcpy(key + tenant.n + 1, trajectory.p, trajectory.n);
    return (struct str){ key, tenant.n + 1 + trajectory.n };
}

/* The trajectory's growth in this slice; makes its row at first sight. NULL with *r >= 0: the record names none. */
static struct growth *find_growth(struct index *x, const struct row *row, int *r, struct err *e)
{
    *r = 0;
    if (!row->trajectory.n)
        return NULL;
    struct str tenant = index_tenant(row->tenant), key = growth_key(x, tenant, row->trajectory);
    struct growth *g = map_get(&x->growths, key);
    if (g)
        return g;

    sqlite3_stmt *find = index_stmt(x, S_TRAJECTORY_FIND, e);
    sqlite3_stmt *add = index_stmt(x, S_TRAJECTORY_ADD, e);
    *r = -EIO;
    if (!find || !add)
        return NULL;
    bind_str(find, 1, row->trajectory);
    bind_str(find, 2, tenant);
    int64_t n = sqlite3_step(find) == SQLITE_ROW ? sqlite3_column_int64(find, 0) : 0;
    sqlite3_reset(find);
    *r = 0;
    if (!n) {
        bind_str(add, 1, row->trajectory);
        bind_str(add, 2, row->worker);
        sqlite3_bind_int64(add, 3, row->time);
        bind_str(add, 4, tenant);
        *r = index_run(x, add, e);
        n = sqlite3_last_insert_rowid(x->db);
    }
    if (*r < 0)
        return NULL;
    g = arena_alloc(&x->slice, sizeof *g);
    *g = (struct growth){ .id = key, .n = n };
    map_put(&x->growths, g->id, g);
    return g;
}

int index_apply_growths(struct index *x, struct err *e)
{
    sqlite3_stmt *s = index_stmt(x, S_TRAJECTORY_GROW, e);
    struct growth *g;

    if (!s)
        return -EIO;
    for (size_t i = 0; (g = map_next(&x->growths, &i));) {
        const int64_t values[] = { g->n, g->steps, g->ok_steps, g->untrainable, g->last_step, g->last_us };
        for (size_t k = 0; k < ARRAY_LEN(values); k++)
            sqlite3_bind_int64(s, (int)k + 1, values[k]);
        for (size_t k = 0; k < OUTCOME_COUNT; k++)
            sqlite3_bind_int64(s, (int)(k + 1 + ARRAY_LEN(values)), g->outcomes[k]);
        int r = index_run(x, s, e);
        if (r < 0)
            return r;
    }
    return 0;
}

static void bind_text(sqlite3_stmt *s, int at, struct str json)
{
    sqlite3_bind_int64(s, at, (int64_t)json.n);
    bind_str(s, at + 1, json.n <= INDEX_INLINE ? json : (struct str){ 0 });
}

/* Absent: NULL */
static void bind_known(sqlite3_stmt *s, int at, int64_t v)
{
    if (v >= 0)
        sqlite3_bind_int64(s, at, v);
    else
        sqlite3_bind_null(s, at);
}

/* Parameters 2 to 18, 38 and 39 are the same in S_STEP_ADD and S_STEP_END. */
static void bind_end(sqlite3_stmt *s, const struct row *row, int64_t ended_us, uint64_t at)
{
    const int64_t uses[] = { row->queued_us, row->run_us,     row->total_us,
                             row->cpu_us,    row->peak_bytes, row->dropped_bytes };

    sqlite3_bind_int64(s, 2, ended_us);
    bind_str(s, 3, row->outcome);
    sqlite3_bind_int(s, 4, row->retry_safe);
    sqlite3_bind_int(s, 5, row->trainable);
    bind_str(s, 6, row->code);
    bind_str(s, 7, row->message);
    for (size_t i = 0; i < ARRAY_LEN(uses); i++)
        sqlite3_bind_int64(s, 8 + (int)i, uses[i]);
    bind_str(s, 14, row->blobs);
    sqlite3_bind_int64(s, 15, (int64_t)at);
    bind_text(s, 16, row->data);
    bind_str(s, 18, row->state);
    bind_known(s, 38, row->pids_peak);
    bind_known(s, 39, row->disk_used_bytes);
}

static void count_end(struct growth *g, const struct row *row, int64_t ended_us)
{
    int o = outcome_find(row->outcome.p ? row->outcome.p : "", row->outcome.n);

    if (o >= 0)
        g->outcomes[o]++;
    g->ok_steps += o == OUTCOME_OK;
    g->untrainable += !row->trainable;
    if (ended_us > g->last_us)
        g->last_us = ended_us;
}

struct ended { /* absent (at 0): the step is still open */
    int64_t us;
    uint64_t at;
};

/* 1: it was open. */
static int end_step(struct index *x, const struct row *row, struct ended ended, struct err *e)
{
    sqlite3_stmt *s = index_stmt(x, S_STEP_END, e);

    if (!s)
        return -EIO;
    bind_end(s, row, ended.us, ended.at);
    sqlite3_bind_int64(s, 1, row->call);
    int err = index_run(x, s, e);
    if (err < 0)
        return err;
    if (sqlite3_changes(x->db) == 0)
        return 0;
    struct growth *g = find_growth(x, row, &err, e);
    if (g)
        count_end(g, row, ended.us);
    return err < 0 ? err : 1;
}

static int insert_step(struct index *x, const struct row *row, uint64_t at, struct ended ended, struct err *e)
{
    int err;

    struct growth *g = find_growth(x, row, &err, e);
    sqlite3_stmt *s = err < 0 ? NULL : index_stmt(x, S_STEP_ADD, e);
    if (!s)
        return err < 0 ? err : -EIO;

    const struct str texts[] = { row->worker, row->surface, row->tool, row->resource, row->session, row->box };
    if (ended.at)
        bind_end(s, row, ended.us, ended.at);
    else
        sqlite3_clear_bindings(s);
    sqlite3_bind_int64(s, 1, row->call);
    sqlite3_bind_int64(s, 20, g ? g->n : 0);
    sqlite3_bind_int64(s, 21, row->step);
    sqlite3_bind_int64(s, 22, row->time);
    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        bind_str(s, 23 + (int)i, texts[i]);
    sqlite3_bind_int(s, 29, row->temporary);
    bind_str(s, 30, row->key);
    bind_str(s, 31, row->key_hash);
    bind_str(s, 32, row->trace);
    sqlite3_bind_int64(s, 33, (int64_t)at);
    bind_text(s, 34, row->params);
    sqlite3_bind_int(s, 36, ended.at != 0);
    bind_str(s, 37, row->request);
    err = index_run(x, s, e);
    if (err < 0)
        return err;
    if (sqlite3_changes(x->db) == 0) {
        err = ended.at ? end_step(x, row, ended, e) : 0;
        if (err != 0)
            return err < 0 ? err : 0;
        x->counts.duplicates++;
        log_warn("index: call twice in the log", "call=%lld position=%llu, ignored", (long long)row->call,
                 (unsigned long long)at);
        return 0;
    }
    if (g) {
        g->steps++;
        g->last_step = row->step > g->last_step ? row->step : g->last_step;
        g->last_us = row->time > g->last_us ? row->time : g->last_us;
        if (ended.at)
            count_end(g, row, ended.us);
    }
    return 0;
}

/* Most steps begin and end within one slice: their intent waits here for its result, and one row is written, once. */
struct begun {
    struct row row; /* strings are in the slice's arena */
    uint64_t at;
};

static struct str call_key(const int64_t *call)
{
    return (struct str){ (const char *)call, sizeof *call };
}

static int apply_intent(struct index *x, const struct journal_record *r, const struct row *row, struct err *e)
{
    struct begun *b = map_get(&x->begun, call_key(&row->call));

    if (b) /* the second one is told apart by the table */
        return insert_step(x, row, r->position, (struct ended){ 0 }, e);
    b = arena_alloc(&x->slice, sizeof *b);
    *b = (struct begun){ .row = *row, .at = r->position };
    for (size_t i = 0; i < ARRAY_LEN(members); i++)
        if (members[i].kind == K_STR || members[i].kind == K_RAW) {
            struct str *text = (struct str *)((char *)&b->row + members[i].offset);
            *text = text == &b->row.params && text->n > INDEX_INLINE ? (struct str){ "", text->n }
                                                                     /* only its length counts */
                                                                     : arena_copy(&x->slice, *text);
        }
    map_put(&x->begun, call_key(&b->row.call), b);
    return 0;
}

int index_apply_begun(struct index *x, struct err *e)
{
    struct begun *b;

    for (size_t i = 0; (b = map_next(&x->begun, &i));) {
        int r = insert_step(x, &b->row, b->at, (struct ended){ 0 }, e);
        if (r < 0)
            return r;
    }
    return 0;
}

/* The intent's members, with the result's. */
static int insert_whole(struct index *x, const struct journal_record *r, struct begun *b, const struct row *row,
                        struct err *e)
{
    struct row whole = b->row;

    whole.outcome = row->outcome;
    whole.retry_safe = row->retry_safe;
    whole.trainable = row->trainable;
    whole.code = row->code;
    whole.message = row->message;
    whole.data = row->data;
    whole.queued_us = row->queued_us;
    whole.run_us = row->run_us;
    whole.total_us = row->total_us;
    whole.cpu_us = row->cpu_us;
    whole.peak_bytes = row->peak_bytes;
    whole.pids_peak = row->pids_peak;
    whole.disk_used_bytes = row->disk_used_bytes;
    whole.dropped_bytes = row->dropped_bytes;
    whole.blobs = row->blobs;
    whole.state = row->state;
    map_del(&x->begun, call_key(&row->call));
    return insert_step(x, &whole, b->at, (struct ended){ row->time, r->position }, e);
}

/* --- a log whose eraser was killed, read by an index that is made anew --- */

static int erase_later(struct index *x, uint64_t at, enum index_stmt which, int64_t call, struct err *e)
{
    sqlite3_stmt *s = index_stmt(x, which, e);

    if (!s)
        return -EIO;
    sqlite3_bind_int64(s, 1, (int64_t)at);
    if (which == S_ERASE_ORPHAN)
        sqlite3_bind_int64(s, 2, call);
    x->tidy = true;
    return index_run(x, s, e);
}

static int apply_erased(struct index *x, const struct journal_record *r, struct err *e)
{
    x->erased = true;
    return r->rest ? erase_later(x, r->position, S_ERASE_ADD, 0, e) : 0;
}

static int apply_result(struct index *x, const struct journal_record *r, const struct row *row, struct err *e)
{
    struct begun *b = map_get(&x->begun, call_key(&row->call));

    if (b)
        return insert_whole(x, r, b, row, e);
    int err = end_step(x, row, (struct ended){ row->time, r->position }, e);
    if (err != 0)
        return err < 0 ? err : 0;
    x->counts.orphans++;
    /* Records go in the order of the log: if its intent was erased, so must it be. */
    return x->erased ? erase_later(x, r->position, S_ERASE_ORPHAN, row->call, e) : 0;
}

/* A step that has an intent, too, ends it: the intent was of a batch that failed half-way (journal_flush), so its call
 * was refused. */
static int apply_step(struct index *x, const struct journal_record *r, const struct row *row, struct err *e)
{
    struct begun *b = map_get(&x->begun, call_key(&row->call));
    struct row ended = *row;

    ended.time += row->total_us;
    if (b)
        return insert_whole(x, r, b, &ended, e);
    return insert_step(x, row, r->position, (struct ended){ ended.time, r->position }, e);
}

/* Boxes and sessions: opened with their record as it is, closed with a reason. */
static int apply_life(struct index *x, enum index_stmt which, struct str id, const struct row *row, struct str body,
                      struct err *e)
{
    sqlite3_stmt *s = index_stmt(x, which, e);

    if (!s)
        return -EIO;
    bind_str(s, 1, id.n ? id : STR("?"));
    sqlite3_bind_int64(s, 2, row->time);
    if (which == S_BOX_OPEN || which == S_SESSION_OPEN)
        bind_str(s, 3, body);
    else
        bind_str(s, 3, row->reason);
    if (which == S_BOX_OPEN)
        bind_str(s, 4, row->state);
    if (which == S_SESSION_OPEN) {
        bind_str(s, 4, row->worker);
        bind_str(s, 5, row->resource);
        bind_str(s, 6, row->box);
    }
    return index_run(x, s, e);
}

static int apply_episode_end(struct index *x, const struct row *row, uint64_t at, struct err *e)
{
    sqlite3_stmt *s = index_stmt(x, S_EPISODE_END, e);

    if (!s)
        return -EIO;
    bind_str(s, 1, row->worker);
    bind_str(s, 2, index_tenant(row->tenant));
    sqlite3_bind_int64(s, 3, (int64_t)at);
    return index_run(x, s, e);
}

/* body: the record of a state. */
static int add_moment(struct index *x, const struct json *body, struct err *e)
{
    sqlite3_stmt *s = index_stmt(x, S_MOMENT_ADD, e);

    if (!s)
        return -EIO;
    bind_str(s, 1, json_get_str(body, "trajectory"));
    sqlite3_bind_int64(s, 2, json_get_int(body, "step", 0));
    bind_str(s, 3, json_get_str(body, "state"));
    bind_str(s, 4, index_tenant(json_get_str(body, "tenant")));
    bind_str(s, 5, json_get_str(body, "box"));
    return index_run(x, s, e);
}

/* A step that put its box back into another state. Its row is there; whether it is one, its tool tells. */
static int apply_rewind(struct index *x, const struct row *row, struct err *e)
{
    static const char key[] = "\"restored\"";
    struct json *data;
    struct err why;

    if (!row->data.n || !memmem(row->data.p, row->data.n, key, sizeof key - 1) ||
        json_parse(&x->record, row->data, &data, &why) < 0)
        return 0;
    const struct json *restored = json_get(data, "restored");
    sqlite3_stmt *s = restored ? index_stmt(x, S_REWIND, e) : NULL;
    if (!restored)
        return 0;
    if (!s)
        return -EIO;
    sqlite3_bind_int64(s, 1, row->call);
    bind_str(s, 2, restored->type == JSON_STR && restored->s.n ? restored->s : STR(""));
    return index_run(x, s, e);
}

static int apply_state(struct index *x, const struct json *body, struct str text, struct err *e)
{
    sqlite3_stmt *s = index_stmt(x, S_STATE_ADD, e);

    if (!s)
        return -EIO;
    bind_str(s, 1, json_get_str(body, "state"));
    bind_str(s, 2, json_get_str(body, "box"));
    bind_str(s, 3, json_get_str(body, "name"));
    bind_str(s, 4, json_get_str(body, "trajectory"));
    sqlite3_bind_int64(s, 5, json_get_int(body, "step", 0));
    bind_str(s, 6, json_get_str(body, "root"));
    bind_str(s, 7, text);
    bind_str(s, 8, index_tenant(json_get_str(body, "tenant")));
    int r = index_run(x, s, e);
    s = r < 0 ? NULL : index_stmt(x, S_BOX_STATE, e);
    if (!s)
        return r < 0 ? r : -EIO;
    bind_str(s, 1, json_get_str(body, "box"));
    bind_str(s, 2, json_get_str(body, "state"));
    r = index_run(x, s, e);
    return r < 0 || !json_get_str(body, "trajectory").n ? r : add_moment(x, body, e);
}

/* Forgotten. Its name may be used again, and begins with step 1. */
static int drop(struct index *x, struct growth *g, struct err *e)
{
    int r = 0;

    x->tidy = true;
    for (enum index_stmt which = S_DROP_ERASE; which <= S_DROP_TRAJECTORY && r >= 0; which++) {
        sqlite3_stmt *s = index_stmt(x, which, e);
        if (!s)
            return -EIO;
        sqlite3_bind_int64(s, 1, g->n);
        r = index_run(x, s, e);
    }
    map_del(&x->growths, g->id);
    return r;
}

/* What somebody said about a trajectory or a step, after the fact. */
static int apply_note(struct index *x, const struct json *body, const struct row *row, uint64_t at, struct err *e)
{
    const struct json *patch = json_get(body, "set");
    sqlite3_stmt *s = index_stmt(x, S_NOTE, e), *place = index_stmt(x, S_NOTE_AT, e);
    int r;

    struct growth *g = find_growth(x, row, &r, e);
    if (!s || !place || r < 0)
        return r < 0 ? r : -EIO;
    if (!g || !patch || patch->type != JSON_OBJ)
        return 0;
    if (row->step == 0 && json_get_bool(patch, "dropped", false))
        return drop(x, g, e);
    sqlite3_bind_int64(place, 1, g->n);
    sqlite3_bind_int64(place, 2, (int64_t)at);
    r = index_run(x, place, e);
    if (r < 0)
        return r;
    sqlite3_bind_int64(s, 1, g->n);
    sqlite3_bind_int64(s, 2, row->step);
    bind_str(s, 3, patch->raw);
    return index_run(x, s, e);
}

/* An imported step has members that ours do not have. */
static int apply_extra(struct index *x, const struct json *body, const struct row *row, struct err *e)
{
    const struct json *extra = json_get(body, "extra");
    sqlite3_stmt *s = extra && extra->type == JSON_OBJ ? index_stmt(x, S_STEP_EXTRA, e) : NULL;

    if (!extra || extra->type != JSON_OBJ)
        return 0;
    if (!s)
        return -EIO;
    sqlite3_bind_int64(s, 1, row->call);
    bind_str(s, 2, extra->raw);
    return index_run(x, s, e);
}

static int apply_state_root(struct index *x, const struct json *body, struct err *e)
{
    sqlite3_stmt *s = index_stmt(x, S_STATE_ROOT, e);

    if (!s)
        return -EIO;
    bind_str(s, 1, json_get_str(body, "state"));
    bind_str(s, 2, json_get_str(body, "root"));
    return index_run(x, s, e);
}

static int apply_state_mark(struct index *x, const struct json *body, struct err *e)
{
    struct str state = json_get_str(body, "state"), mark = json_get_str(body, "mark");
    sqlite3_stmt *s = index_stmt(x, S_STATE_MARK, e), *bad = index_stmt(x, S_BAD_LAYERS, e);

    if (!s || !bad)
        return -EIO;
    bind_str(s, 1, state);
    bind_str(s, 2, mark);
    int r = index_run(x, s, e);
    if (r >= 0 && str_is(mark, "dropped")) {
        sqlite3_stmt *loose = index_stmt(x, S_STATE_LOOSE, e);
        if (!loose)
            return -EIO;
        bind_str(loose, 1, state);
        x->tidy = true;
        return index_run(x, loose, e);
    }
    if (r < 0 || !str_is(mark, "quarantined"))
        return r;
    bind_str(bad, 1, state);
    return index_run(x, bad, e);
}

int index_apply(struct index *x, const struct journal_record *r, struct err *e)
{
    struct row row = { .pids_peak = -1, .disk_used_bytes = -1 };
    struct json *body;
    struct err why;

    if (r->type == RECORD_START)
        return 0;
    if (r->type == RECORD_ERASED)
        return apply_erased(x, r, e);
    arena_reset(&x->record);
    /* Of calls, which are many, only the outermost members are of interest. */
    bool of_call = r->type == RECORD_INTENT || r->type == RECORD_RESULT || r->type == RECORD_STEP;
    int parsed =
        of_call ? json_outline(&x->record, r->body, &body, &why) : json_parse(&x->record, r->body, &body, &why);
    if (parsed < 0 || body->type != JSON_OBJ) {
        x->counts.unreadable++;
        log_warn("index: unreadable record", "position=%llu, skipped", (unsigned long long)r->position);
        return 0;
    }
    read_row(body, &row);
    switch (r->type) {
    case RECORD_BOX_OPEN: return apply_life(x, S_BOX_OPEN, row.box, &row, r->body, e);
    case RECORD_BOX_CLOSE: return apply_life(x, S_BOX_CLOSE, row.box, &row, r->body, e);
    case RECORD_SESSION_OPEN: return apply_life(x, S_SESSION_OPEN, row.session, &row, r->body, e);
    case RECORD_SESSION_CLOSE: return apply_life(x, S_SESSION_CLOSE, row.session, &row, r->body, e);
    case RECORD_INTENT: return apply_intent(x, r, &row, e);
    case RECORD_STEP: {
        int n = apply_step(x, r, &row, e);
        if (n >= 0)
            n = apply_extra(x, body, &row, e);
        return n < 0 ? n : apply_rewind(x, &row, e);
    }
    case RECORD_NOTE: return apply_note(x, body, &row, r->position, e);
    case RECORD_RESULT: {
        int n = apply_result(x, r, &row, e);
        return n < 0 ? n : apply_rewind(x, &row, e);
    }
    case RECORD_EPISODE_END: return apply_episode_end(x, &row, r->position, e);
    case RECORD_STATE: return apply_state(x, body, r->body, e);
    case RECORD_STATE_ROOT: return apply_state_root(x, body, e);
    case RECORD_STATE_MARK: return apply_state_mark(x, body, e);
    case RECORD_START:
    case RECORD_ERASED: break;
    }
    x->counts.unreadable++; /* of a newer program */
    return 0;
}

/* Answers questions about what was recorded, as ready JSON. */
#include "store/index_private.h"

#include <errno.h>
#include <stdio.h>

#include "base/limits.h"
#include "base/loop.h"

enum { ROWS_DEFAULT = 100, ROWS_MAX = 1000, OPEN_TRAJECTORIES_MAX = 100000 };
#define ANSWER_SOFT (32 * MiB)               /* no further row is begun above this */
#define ANSWER_HARD (LIMIT_FRAME - 64 * KiB) /* what a frame can carry */
#define HOUR_US     3600000000ll

#define TRAJECTORY_COLUMNS                                                                                             \
    "SELECT n,id,worker,opened_us,last_us,steps,last_step,untrainable,o0,o1,o2,o3,o4,o5,o6,o7,o8,o9,o10,"              \
    "(SELECT doc FROM notes q WHERE q.trajectory=n AND q.step=0) AS doc FROM trajectories "
enum {
    T_N,
    T_ID,
    T_WORKER,
    T_OPENED,
    T_LAST,
    T_STEPS,
    T_LAST_STEP,
    T_UNTRAINABLE,
    T_OUTCOMES,
    T_NOTES = T_OUTCOMES + OUTCOME_COUNT
};
#define CHOSEN                                                                                                          \
    "(?6 IS NULL OR EXISTS(SELECT 1 FROM json_each(doc,'$.tags') j WHERE j.value=?6)) AND"                              \
    " (?7 IS NULL OR json_extract(doc,'$.reward')>=CAST(?7 AS REAL)) AND"                                               \
    " (?8 IS NULL OR json_extract(doc,'$.reward')<=CAST(?8 AS REAL)) AND"                                               \
    " (?9=0 OR last_us>=?9) AND (?10=0 OR opened_us<?10) AND"                                                           \
    " (?11 IS NULL AND ?12 IS NULL OR EXISTS(SELECT 1 FROM steps s WHERE s.trajectory=n AND (?11 IS NULL OR s.box=?11)" \
    " AND (?12 IS NULL OR s.tool=?12))) AND "
#define WITH_OUTCOME                                                                                                   \
    "(?3<0 OR CASE ?3 WHEN 0 THEN o0 WHEN 1 THEN o1 WHEN 2 THEN o2 WHEN 3 THEN o3 WHEN 4 THEN o4 WHEN 5 THEN o5"       \
    " WHEN 6 THEN o6 WHEN 7 THEN o7 WHEN 8 THEN o8 WHEN 9 THEN o9 ELSE o10 END>0) ORDER BY n DESC LIMIT ?4"

#define STATE_COLUMNS                                                                                                  \
    "SELECT s.body,s.root,s.n,s.mark,EXISTS(SELECT 1 FROM bad_layers) AND EXISTS(SELECT 1 FROM bad_layers b,"          \
    "json_each(s.body,'$.layers') j WHERE j.value=b.layer) "

extern const char *const index_query_sql[STMT_COUNT];
const char *const index_query_sql[STMT_COUNT] = {
    /* The last one used of each worker that holds a session; those with a step under way; those of the last hour. In
     * the order of their last use: a reader that keeps one per worker ends with the one where the worker was. */
    [Q_OPEN_TRAJECTORIES] =
        "SELECT id,worker,steps,last_step,tenant,EXISTS(SELECT 1 FROM ends e WHERE e.worker=o.worker AND"
        " e.tenant=o.tenant AND e.at>(SELECT intent_at FROM steps s WHERE s.trajectory=o.n ORDER BY step DESC LIMIT 1))"
        " FROM (SELECT * FROM trajectories WHERE n IN ("
        "SELECT (SELECT n FROM trajectories t WHERE t.worker=s.worker"
        " AND t.tenant=ifnull(json_extract(s.body,'$.tenant'),'default') ORDER BY last_us DESC,n DESC LIMIT 1)"
        " FROM sessions s WHERE s.closed_us IS NULL"
        " UNION SELECT trajectory FROM steps WHERE state=0"
        " UNION SELECT n FROM (SELECT n FROM trajectories WHERE last_us>=?1 ORDER BY last_us DESC LIMIT ?2)"
        ") ORDER BY last_us DESC LIMIT ?2) o ORDER BY last_us,n",
    [Q_OPEN_BOXES] = "SELECT b.body,b.opened_us,s.state,s.root FROM boxes b LEFT JOIN states s ON s.state=b.state WHERE"
                     " b.closed_us IS NULL ORDER BY b.opened_us,b.box",
    [Q_OPEN_SESSIONS] = "SELECT body,opened_us FROM sessions WHERE closed_us IS NULL ORDER BY opened_us,session",
    [Q_OPEN_STEPS] = INDEX_ROW_COLUMNS "WHERE s.state=0 ORDER BY s.call",
    [Q_TENANTS] = "SELECT tenant,count(*) FROM trajectories GROUP BY tenant",
    [Q_MAX_CALL] = "SELECT max(call) FROM steps",
    [Q_TRAJECTORIES] = TRAJECTORY_COLUMNS "WHERE n<?1 AND ?2 IS NULL AND tenant=?5 AND " CHOSEN WITH_OUTCOME,
    [Q_TRAJECTORIES_OF] = TRAJECTORY_COLUMNS "WHERE n<?1 AND worker=?2 AND tenant=?5 AND " CHOSEN WITH_OUTCOME,
    [Q_TRAJECTORY] = TRAJECTORY_COLUMNS "WHERE id=?1 AND tenant=?2 AND (?3 IS NULL OR worker=?3)",
    [Q_TRAJECTORY_BOXES] =
        "SELECT box,min(step) FROM steps WHERE trajectory=?1 AND box IS NOT NULL GROUP BY box ORDER BY 2",
    [Q_TRAJECTORY_TOOLS] =
        "SELECT tool,count(*) FROM steps WHERE trajectory=?1 AND tool IS NOT NULL GROUP BY tool ORDER BY tool",
    [Q_TRAJECTORY_OF] =
        "SELECT id,steps,last_step FROM trajectories WHERE worker=?1 AND tenant=?2 ORDER BY n DESC LIMIT 1",
    [Q_WHOSE] = "SELECT id,last_step FROM trajectories WHERE (id=?1 OR worker=?1) AND tenant=?2 ORDER BY id=?1 DESC,"
                "n DESC LIMIT 1",
    [Q_STEPS] = INDEX_ROW_COLUMNS
    "WHERE s.trajectory=(SELECT n FROM trajectories WHERE id=?1 AND tenant=?8) AND s.step>?2 AND (?3 IS NULL OR s.tool=?3)"
    " AND (?4 IS NULL OR s.outcome=?4) AND (?5 IS NULL OR s.box=?5) AND (?6 IS NULL OR s.session=?6)"
    " ORDER BY s.step LIMIT ?7",
    [Q_STEP] =
        INDEX_ROW_COLUMNS "WHERE s.trajectory=(SELECT n FROM trajectories WHERE id=?1 AND tenant=?3) AND s.step=?2",
    [Q_CALL] = INDEX_ROW_COLUMNS "WHERE s.call=?1 AND t.tenant=?3",
    [Q_STATE] = STATE_COLUMNS "FROM states s WHERE (state=?1 OR name=?1) AND tenant=?3 AND mark IS NOT 'dropped'"
                              " ORDER BY state=?1 DESC,n DESC LIMIT 1",
    /* the files after a step are those of the last state of its box that was taken, or returned to, up to it */
    [Q_STATE_STEP] =
        STATE_COLUMNS ",s.mark IS 'dropped' FROM (SELECT state FROM moments WHERE trajectory=?1 AND"
                      " tenant=?3 AND step<=?2 AND (?4 IS NULL OR box=?4) ORDER BY step DESC,n DESC LIMIT 1)"
                      " m LEFT JOIN states s USING(state)",
    [Q_STEP_BOX] = "SELECT s.box FROM steps s WHERE s.trajectory=(SELECT n FROM trajectories WHERE id=?1 AND tenant=?3)"
                   " AND s.step<=?2 AND s.box IS NOT NULL AND s.temporary IS NOT 1 ORDER BY s.step DESC LIMIT 1",
    [Q_STATE_CALL] =
        STATE_COLUMNS ",s.mark IS 'dropped' FROM moments m JOIN states s USING(state) WHERE m.trajectory=?1"
                      " AND m.step=?2 AND m.tenant=?3 AND json_extract(s.body,'$.call')=?4 LIMIT 1",
    [Q_STATES] = STATE_COLUMNS "FROM states s WHERE n<?1 AND tenant=?5 AND (?2 IS NULL OR box=?2) AND"
                               " (?3 IS NULL OR trajectory=?3) AND mark IS NOT 'dropped' ORDER BY n DESC LIMIT ?4",
    /* where its first box comes from, if that was forked from a state */
    [Q_TRAJECTORY_FORK] =
        "SELECT st.state,ifnull(json_extract(b.body,'$.forked_at.trajectory'),st.trajectory),"
        "ifnull(json_extract(b.body,'$.forked_at.step'),st.step) FROM boxes b JOIN states st ON"
        " st.state=json_extract(b.body,'$.began_with') WHERE b.box=(SELECT s.box FROM steps s WHERE s.trajectory=?1 AND"
        " s.box IS NOT NULL ORDER BY s.step LIMIT 1)",
    /* of all tenants: what garbage collection must not touch, what has no root yet, what may go first */
    [Q_LIVE_STATES] = "SELECT n,root,json_extract(body,'$.layers') FROM states WHERE n>?1 AND mark IS NOT 'dropped'"
                      " ORDER BY n LIMIT ?2",
    [Q_PENDING_STATES] = STATE_COLUMNS "FROM states s WHERE n>?1 AND root IS NULL AND mark IS NULL ORDER BY n LIMIT ?2",
    [Q_OLD_STATES] =
        "SELECT s.n,s.state,json_extract(s.body,'$.bytes') FROM states s LEFT JOIN boxes b ON b.box=s.box"
        " WHERE s.n>?1 AND s.mark IS NULL AND s.name IS NULL AND (b.box IS NULL OR b.closed_us IS NOT NULL)"
        " ORDER BY b.closed_us,s.n DESC LIMIT ?2",
    [Q_BOX] = "SELECT body,opened_us FROM boxes WHERE box=?1 AND ifnull(json_extract(body,'$.tenant'),'default')=?2",
    [Q_KEY] = INDEX_ROW_COLUMNS "WHERE s.key=?1 AND t.tenant=?2 ORDER BY s.call DESC LIMIT 1",
};

struct ask {
    struct index *x;
    const struct query *q;
    struct jw w;
    struct err *e;
};

static int64_t rows_wanted(const struct query *q)
{
    return q->limit <= 0 ? ROWS_DEFAULT : q->limit > ROWS_MAX ? ROWS_MAX : q->limit;
}

/* 1: a row, 0: no more, < 0. The last call of a series ends with sqlite3_reset(). */
static int next_row(struct ask *a, sqlite3_stmt *s)
{
    int r = sqlite3_step(s);
    return r == SQLITE_ROW ? 1 : r == SQLITE_DONE ? 0 : index_sql_err(a->x, a->e, sqlite3_sql(s));
}

static sqlite3_stmt *statement(struct ask *a, enum index_stmt which)
{
    sqlite3_stmt *s = index_stmt(a->x, which, a->e);
    if (s)
        sqlite3_clear_bindings(s);
    return s;
}

/* A box or a session as its record says, plus when it was opened. */
static bool body_members(struct ask *a, sqlite3_stmt *s)
{
    struct json *body;
    struct err why;

    arena_reset(&a->x->record);
    if (json_parse(&a->x->record, column_str(s, 0), &body, &why) < 0)
        return false;
    jw_obj(&a->w);
    jw_kint(&a->w, "opened_us", sqlite3_column_int64(s, 1));
    for (const struct json *v = body->first; v; v = v->next) {
        jw_key_str(&a->w, v->name);
        jw_raw(&a->w, v->raw);
    }
    return true;
}

static void body_out(struct ask *a, sqlite3_stmt *s)
{
    if (body_members(a, s))
        jw_obj_end(&a->w);
}

static void open_box(struct ask *a, sqlite3_stmt *s)
{
    if (!body_members(a, s))
        return;
    jw_kstr(&a->w, "state_now", column_str(s, 2));
    jw_kstr(&a->w, "root_now", column_str(s, 3));
    jw_obj_end(&a->w);
}

static void trajectory_line(struct ask *a, sqlite3_stmt *s)
{
    jw_obj(&a->w);
    jw_kstr(&a->w, "id", column_str(s, 0));
    jw_kstr(&a->w, "worker", column_str(s, 1));
    jw_kint(&a->w, "steps", sqlite3_column_int64(s, 2));
    jw_kint(&a->w, "last_step", sqlite3_column_int64(s, 3));
    jw_kstr(&a->w, "tenant", column_str(s, 4));
    jw_kbool(&a->w, "ended", sqlite3_column_int(s, 5));
    jw_obj_end(&a->w);
}

static void tenant_line(struct ask *a, sqlite3_stmt *s)
{
    jw_obj(&a->w);
    jw_kstr(&a->w, "tenant", column_str(s, 0));
    jw_kint(&a->w, "trajectories", sqlite3_column_int64(s, 1));
    jw_obj_end(&a->w);
}

static void open_step(struct ask *a, sqlite3_stmt *s)
{
    size_t used = a->w.out->n;
    index_row(a->x, s, ROW_OPEN, used < (size_t)ANSWER_SOFT ? (size_t)ANSWER_SOFT - used : 0, &a->w);
}

static int list_out(struct ask *a, const char *name, enum index_stmt which, void (*each)(struct ask *, sqlite3_stmt *))
{
    sqlite3_stmt *s = statement(a, which);
    int r;

    if (!s)
        return -EIO;
    if (which == Q_OPEN_TRAJECTORIES) {
        sqlite3_bind_int64(s, 1, wall_us() - HOUR_US);
        sqlite3_bind_int64(s, 2, OPEN_TRAJECTORIES_MAX);
    }
    jw_key(&a->w, name);
    jw_arr(&a->w);
    while ((r = next_row(a, s)) > 0)
        each(a, s);
    jw_arr_end(&a->w);
    sqlite3_reset(s);
    return r;
}

static int answer_position(struct ask *a)
{
    jw_obj(&a->w);
    jw_kint(&a->w, "position", (int64_t)a->x->position);
    jw_obj_end(&a->w);
    return 0;
}

static int answer_open(struct ask *a)
{
    jw_obj(&a->w);
    jw_kint(&a->w, "position", (int64_t)a->x->position);
    int r = list_out(a, "trajectories", Q_OPEN_TRAJECTORIES, trajectory_line);
    if (r >= 0)
        r = list_out(a, "boxes", Q_OPEN_BOXES, open_box);
    if (r >= 0)
        r = list_out(a, "sessions", Q_OPEN_SESSIONS, body_out);
    if (r >= 0)
        r = list_out(a, "steps", Q_OPEN_STEPS, open_step);
    if (r >= 0)
        r = list_out(a, "tenants", Q_TENANTS, tenant_line);
    sqlite3_stmt *s = r < 0 ? NULL : statement(a, Q_MAX_CALL);
    if (!s)
        return r < 0 ? r : -EIO;
    r = next_row(a, s);
    jw_kint(&a->w, "max_call", r > 0 ? sqlite3_column_int64(s, 0) : 0);
    sqlite3_reset(s);
    jw_obj_end(&a->w);
    return r < 0 ? r : 0;
}

static void trajectory_members(struct ask *a, sqlite3_stmt *s)
{
    jw_kstr(&a->w, "id", column_str(s, T_ID));
    jw_kstr(&a->w, "worker", column_str(s, T_WORKER));
    jw_time(&a->w, "opened", sqlite3_column_int64(s, T_OPENED));
    jw_time(&a->w, "last", sqlite3_column_int64(s, T_LAST));
    jw_kint(&a->w, "steps", sqlite3_column_int64(s, T_STEPS));
    jw_kint(&a->w, "last_step", sqlite3_column_int64(s, T_LAST_STEP));
    jw_key(&a->w, "outcomes");
    jw_obj(&a->w);
    for (int o = 0; o < OUTCOME_COUNT; o++) {
        int64_t n = sqlite3_column_int64(s, T_OUTCOMES + o);
        if (n)
            jw_kint(&a->w, outcome_name((enum outcome)o), n);
    }
    jw_obj_end(&a->w);
    jw_kraw(&a->w, "annotations", column_str(s, T_NOTES).n ? column_str(s, T_NOTES) : STR("null"));
}

static void next_out(struct jw *w, bool more, int64_t cursor)
{
    jw_key(w, "next");
    if (more)
        jw_int(w, cursor);
    else
        jw_null(w);
}

static int answer_trajectories(struct ask *a)
{
    const struct query *q = a->q;
    int64_t limit = rows_wanted(q), n = 0, cursor = 0;
    int outcome = q->outcome.n ? outcome_find(q->outcome.p, q->outcome.n) : -1;
    int r;

    if (q->outcome.n && outcome < 0)
        return err_set(a->e, ERR_INVALID, "outcome '%.*s' does not exist", STR_ARG(q->outcome));
    sqlite3_stmt *s = statement(a, q->worker.n ? Q_TRAJECTORIES_OF : Q_TRAJECTORIES);
    if (!s)
        return -EIO;
    sqlite3_bind_int64(s, 1, q->after > 0 ? q->after : INT64_MAX);
    bind_str(s, 2, q->worker);
    sqlite3_bind_int(s, 3, outcome);
    sqlite3_bind_int64(s, 4, limit + 1);
    bind_str(s, 5, index_tenant(q->tenant));
    bind_str(s, 6, q->tag);
    bind_str(s, 7, q->min_reward);
    bind_str(s, 8, q->max_reward);
    sqlite3_bind_int64(s, 9, q->since_us);
    sqlite3_bind_int64(s, 10, q->until_us);
    bind_str(s, 11, q->box);
    bind_str(s, 12, q->tool);
    jw_obj(&a->w);
    jw_key(&a->w, "trajectories");
    jw_arr(&a->w);
    while ((r = next_row(a, s)) > 0 && n < limit) {
        jw_obj(&a->w);
        trajectory_members(a, s);
        jw_obj_end(&a->w);
        cursor = sqlite3_column_int64(s, T_N);
        n++;
    }
    sqlite3_reset(s);
    jw_arr_end(&a->w);
    next_out(&a->w, r > 0, cursor);
    jw_obj_end(&a->w);
    return r < 0 ? r : 0;
}

static int not_found(struct ask *a)
{
    return err_set(a->e, ERR_NOT_FOUND, "no trajectory '%.*s'", (int)(a->q->id.n > 100 ? 100 : a->q->id.n),
                   a->q->id.p ? a->q->id.p : "");
}

/* worker: if given, the trajectory must be that worker's. */
static void bind_trajectory(sqlite3_stmt *s, const struct query *q)
{
    bind_str(s, 1, q->id);
    bind_str(s, 2, index_tenant(q->tenant));
    bind_str(s, 3, q->worker);
}

static int fork_out(struct ask *a, int64_t n)
{
    sqlite3_stmt *s = statement(a, Q_TRAJECTORY_FORK);

    if (!s)
        return -EIO;
    sqlite3_bind_int64(s, 1, n);
    int r = next_row(a, s);
    jw_key(&a->w, "forked_from");
    if (r > 0) {
        jw_obj(&a->w);
        jw_kstr(&a->w, "state", column_str(s, 0));
        jw_kstr(&a->w, "trajectory", column_str(s, 1));
        jw_kint(&a->w, "step", sqlite3_column_int64(s, 2));
        jw_obj_end(&a->w);
    } else {
        jw_null(&a->w);
    }
    sqlite3_reset(s);
    return r < 0 ? r : 0;
}

static int answer_trajectory(struct ask *a)
{
    sqlite3_stmt *s = statement(a, Q_TRAJECTORY);
    sqlite3_stmt *boxes = statement(a, Q_TRAJECTORY_BOXES);
    sqlite3_stmt *tools = statement(a, Q_TRAJECTORY_TOOLS);
    int r;

    if (!s || !boxes || !tools)
        return -EIO;
    bind_trajectory(s, a->q);
    r = next_row(a, s);
    if (r <= 0) {
        sqlite3_reset(s);
        return r < 0 ? r : not_found(a);
    }
    jw_obj(&a->w);
    trajectory_members(a, s);
    jw_kbool(&a->w, "trainable", sqlite3_column_int64(s, T_STEPS) > 0 && sqlite3_column_int64(s, T_UNTRAINABLE) == 0);
    sqlite3_bind_int64(boxes, 1, sqlite3_column_int64(s, T_N));
    sqlite3_bind_int64(tools, 1, sqlite3_column_int64(s, T_N));
    r = fork_out(a, sqlite3_column_int64(s, T_N));
    sqlite3_reset(s);
    if (r < 0)
        return r;
    jw_key(&a->w, "boxes");
    jw_arr(&a->w);
    while ((r = next_row(a, boxes)) > 0)
        jw_str(&a->w, column_str(boxes, 0));
    jw_arr_end(&a->w);
    sqlite3_reset(boxes);
    jw_key(&a->w, "tools");
    jw_obj(&a->w);
    while (r >= 0 && (r = next_row(a, tools)) > 0) {
        jw_key_str(&a->w, column_str(tools, 0));
        jw_int(&a->w, sqlite3_column_int64(tools, 1));
    }
    jw_obj_end(&a->w);
    sqlite3_reset(tools);
    jw_obj_end(&a->w);
    return r;
}

static bool is_known(struct ask *a)
{
    sqlite3_stmt *s = statement(a, Q_TRAJECTORY);
    if (!s)
        return false;
    bind_trajectory(s, a->q);
    bool known = sqlite3_step(s) == SQLITE_ROW;
    sqlite3_reset(s);
    return known;
}

static int answer_steps(struct ask *a)
{
    const struct query *q = a->q;
    int64_t limit = rows_wanted(q), n = 0, cursor = 0;
    int r;

    if (!is_known(a))
        return not_found(a);
    sqlite3_stmt *s = statement(a, Q_STEPS);
    if (!s)
        return -EIO;
    bind_str(s, 1, q->id);
    sqlite3_bind_int64(s, 2, q->after);
    bind_str(s, 3, q->tool);
    bind_str(s, 4, q->outcome);
    bind_str(s, 5, q->box);
    bind_str(s, 6, q->session);
    sqlite3_bind_int64(s, 7, limit + 1);
    bind_str(s, 8, index_tenant(q->tenant));
    jw_obj(&a->w);
    jw_kstr(&a->w, "trajectory", q->id);
    jw_key(&a->w, "steps");
    jw_arr(&a->w);
    while ((r = next_row(a, s)) > 0 && n < limit && a->w.out->n < (size_t)ANSWER_SOFT) {
        /* params and observation may both be large: the budget is for what is left of the frame, not for each row */
        index_row(a->x, s, ROW_STEP, (size_t)ANSWER_HARD - a->w.out->n, &a->w);
        cursor = sqlite3_column_int64(s, 2);
        n++;
    }
    sqlite3_reset(s);
    jw_arr_end(&a->w);
    next_out(&a->w, r > 0, cursor);
    jw_obj_end(&a->w);
    return r < 0 ? r : 0;
}

/* One row, or what `missing` says. */
static int one_row(struct ask *a, sqlite3_stmt *s, enum index_row_form form, int (*missing)(struct ask *))
{
    int r = next_row(a, s);
    if (r > 0)
        index_row(a->x, s, form, ANSWER_HARD, &a->w);
    sqlite3_reset(s);
    return r < 0 ? r : r > 0 ? 0 : missing(a);
}

static int no_step(struct ask *a)
{
    return a->q->call > 0 ? err_set(a->e, ERR_NOT_FOUND, "no step with call %lld", (long long)a->q->call)
                          : err_set(a->e, ERR_NOT_FOUND, "no step %lld in trajectory '%.*s'", (long long)a->q->step,
                                    (int)(a->q->id.n > 100 ? 100 : a->q->id.n), a->q->id.p ? a->q->id.p : "");
}

static int found_false(struct ask *a)
{
    jw_raw(&a->w, STR("{\"found\":false}"));
    return 0;
}

static int answer_step(struct ask *a)
{
    sqlite3_stmt *s = statement(a, a->q->call > 0 ? Q_CALL : Q_STEP);

    if (!s)
        return -EIO;
    if (a->q->call > 0) {
        sqlite3_bind_int64(s, 1, a->q->call);
    } else {
        bind_str(s, 1, a->q->id);
        sqlite3_bind_int64(s, 2, a->q->step);
    }
    bind_str(s, 3, index_tenant(a->q->tenant));
    return one_row(a, s, ROW_STEP, no_step);
}

static int answer_key(struct ask *a)
{
    sqlite3_stmt *s = statement(a, Q_KEY);

    if (!s)
        return -EIO;
    bind_str(s, 1, a->q->key);
    bind_str(s, 2, index_tenant(a->q->tenant));
    return one_row(a, s, ROW_WITH_HASH, found_false);
}

/* A state as its record says, with the root that may have followed. */
struct moment { /* a step of a trajectory */
    char trajectory[LIMIT_TRAJECTORY_ID + 1];
    int64_t step; /* 0: none */
};

static void state_out(struct ask *a, sqlite3_stmt *s, bool listed, const struct moment *at)
{
    struct json *body;
    struct err why;

    arena_reset(&a->x->record);
    if (json_parse(&a->x->record, column_str(s, 0), &body, &why) < 0)
        return;
    const struct json *shell = json_get(body, "shell"), *carried = json_get(body, "carried");
    jw_obj(&a->w);
    if (listed) { /* of the shell only that; it is long, and may hold what a list should not show */
        bool more = (shell && shell->type == JSON_STR) || json_get_str(carried, "blob").n;
        jw_kz(&a->w, "fidelity", more ? "fs+session" : "fs");
    }
    for (const struct json *v = body->first; v; v = v->next) {
        if (listed && (str_is(v->name, "spec") || str_is(v->name, "origin") || str_is(v->name, "shell") ||
                       str_is(v->name, "carried")))
            continue;
        jw_key_str(&a->w, v->name);
        if (str_is(v->name, "root"))
            jw_str(&a->w, column_str(s, 1));
        else
            jw_raw(&a->w, v->raw);
    }
    if (column_str(s, 3).n)
        jw_kstr(&a->w, "mark", column_str(s, 3));
    if (listed && str_is(column_str(s, 3), "quarantined"))
        jw_kbool(&a->w, "quarantined", true);
    if (sqlite3_column_int(s, 4))
        jw_kbool(&a->w, "suspect", true);
    if (at && at->step) {
        jw_key(&a->w, "at");
        jw_obj(&a->w);
        jw_kz(&a->w, "trajectory", at->trajectory);
        jw_kint(&a->w, "step", at->step);
        jw_obj_end(&a->w);
    }
    jw_obj_end(&a->w);
}

/* Whose step is meant: that of a trajectory, or of the newest one of a worker or box. */
static int find_moment(struct ask *a, struct str whose, int64_t step, struct moment *ret)
{
    sqlite3_stmt *s = statement(a, Q_WHOSE);

    if (!s)
        return -EIO;
    bind_str(s, 1, whose);
    bind_str(s, 2, index_tenant(a->q->tenant));
    int r = next_row(a, s);
    struct str id = r > 0 ? column_str(s, 0) : whose;
    int64_t last = r > 0 ? sqlite3_column_int64(s, 1) : INT64_MAX;
    snprintf(ret->trajectory, sizeof ret->trajectory, "%.*s", STR_ARG(id));
    ret->step = step;
    sqlite3_reset(s);
    if (step > last)
        return err_set(a->e, ERR_NOT_FOUND, "step: trajectory %s has %lld steps, no step %lld", ret->trajectory,
                       (long long)last, (long long)step);
    return r;
}

/* "t-1@5" */
static int read_moment(struct ask *a, struct str name, struct moment *ret)
{
    const char *sign = name.n ? memrchr(name.p, '@', name.n) : NULL;
    size_t digits = sign ? (size_t)(name.p + name.n - sign) - 1 : 0;
    int64_t step = 0;

    if (!sign || sign == name.p || digits == 0 || digits > 15)
        return 0;
    for (const char *p = sign + 1; p < name.p + name.n; p++) {
        if (*p < '0' || *p > '9')
            return 0;
        step = step * 10 + (*p - '0');
    }
    return step ? find_moment(a, (struct str){ name.p, (size_t)(sign - name.p) }, step, ret) : 0;
}

/* The statement for a moment, ready to step. */
static sqlite3_stmt *about_moment(struct ask *a, enum index_stmt which, const struct moment *at)
{
    sqlite3_stmt *s = statement(a, which);

    if (s) {
        bind_str(s, 1, str_of(at->trajectory));
        sqlite3_bind_int64(s, 2, at->step);
        bind_str(s, 3, index_tenant(a->q->tenant));
    }
    return s;
}

/* Which box's files are meant: those of the box that was named, if it has any by then; else where the step was. */
static int box_of_moment(struct ask *a, const struct moment *at, char *out, size_t size)
{
    sqlite3_stmt *s = a->q->box.n ? about_moment(a, Q_STATE_STEP, at) : NULL;

    *out = 0;
    if (s) {
        bind_str(s, 4, a->q->box);
        int r = next_row(a, s);
        sqlite3_reset(s);
        if (r > 0)
            snprintf(out, size, "%.*s", STR_ARG(a->q->box));
        if (r != 0)
            return r;
    }
    s = about_moment(a, Q_STEP_BOX, at);
    if (!s)
        return -EIO;
    int r = next_row(a, s);
    struct str box = r > 0 ? column_str(s, 0) : (struct str){ 0 };
    snprintf(out, size, "%.*s", STR_ARG(box));
    sqlite3_reset(s);
    return r;
}

static int state_by_step(struct ask *a, const struct moment *at)
{
    const struct query *q = a->q;
    char box[64] = "";
    int r = q->call ? 0 : box_of_moment(a, at, box, sizeof box);
    sqlite3_stmt *s = r < 0 ? NULL : about_moment(a, q->call ? Q_STATE_CALL : Q_STATE_STEP, at);

    if (!s)
        return r < 0 ? r : -EIO;
    if (q->call)
        sqlite3_bind_int64(s, 4, q->call);
    else
        bind_str(s, 4, box[0] ? str_of(box) : (struct str){ 0 });
    r = next_row(a, s);
    bool image = r > 0 && !column_str(s, 0).n, gone = r > 0 && sqlite3_column_int(s, 5);
    if (r > 0 && !image && !gone)
        state_out(a, s, false, at);
    sqlite3_reset(s);
    if (image || gone)
        return err_set(a->e, ERR_NOT_FOUND, "step %lld: %s", (long long)at->step,
                       gone ? "its state was removed" : "the box was reset to its image, and no state was taken since");
    if (r == 0)
        return err_set(a->e, ERR_NOT_FOUND, "no state was taken up to step %lld of trajectory '%s'",
                       (long long)at->step, at->trajectory);
    return r < 0 ? r : 0;
}

static int answer_state(struct ask *a)
{
    const struct query *q = a->q;
    struct moment at = { 0 };
    int r;

    if (!q->state.n) {
        r = find_moment(a, q->id, q->step, &at);
        return r < 0 ? r : state_by_step(a, &at);
    }
    sqlite3_stmt *s = statement(a, Q_STATE);
    if (!s)
        return -EIO;
    bind_str(s, 1, q->state);
    bind_str(s, 3, index_tenant(q->tenant));
    r = next_row(a, s);
    if (r > 0)
        state_out(a, s, false, NULL);
    sqlite3_reset(s);
    if (r != 0)
        return r < 0 ? r : 0;
    r = read_moment(a, q->state, &at);
    if (r > 0)
        return state_by_step(a, &at);
    return r < 0
               ? r
               : err_set(a->e, ERR_NOT_FOUND, "no state '%.*s'", (int)(q->state.n > 80 ? 80 : q->state.n), q->state.p);
}

static int answer_states(struct ask *a)
{
    int64_t limit = rows_wanted(a->q), n = 0, cursor = 0;
    sqlite3_stmt *s = statement(a, Q_STATES);
    int r;

    if (!s)
        return -EIO;
    sqlite3_bind_int64(s, 1, a->q->after > 0 ? a->q->after : INT64_MAX);
    bind_str(s, 2, a->q->box);
    bind_str(s, 3, a->q->id);
    sqlite3_bind_int64(s, 4, limit + 1);
    bind_str(s, 5, index_tenant(a->q->tenant));
    jw_obj(&a->w);
    jw_key(&a->w, "states");
    jw_arr(&a->w);
    while ((r = next_row(a, s)) > 0 && n < limit && a->w.out->n < (size_t)ANSWER_SOFT) {
        state_out(a, s, true, NULL);
        cursor = sqlite3_column_int64(s, 2);
        n++;
    }
    sqlite3_reset(s);
    jw_arr_end(&a->w);
    next_out(&a->w, r > 0, cursor);
    jw_obj_end(&a->w);
    return r < 0 ? r : 0;
}

static int answer_box(struct ask *a)
{
    sqlite3_stmt *s = statement(a, Q_BOX);

    if (!s)
        return -EIO;
    bind_str(s, 1, a->q->box);
    bind_str(s, 2, index_tenant(a->q->tenant));
    int r = next_row(a, s);
    if (r > 0)
        body_out(a, s);
    sqlite3_reset(s);
    if (r == 0)
        return err_set(a->e, ERR_NOT_FOUND, "no box '%.*s' in the log", (int)(a->q->box.n > 40 ? 40 : a->q->box.n),
                       a->q->box.p ? a->q->box.p : "");
    return r < 0 ? r : 0;
}

/* Rows of all tenants in the order in which they were recorded, for serve itself. */
static int state_rows(struct ask *a, enum index_stmt which, void (*row)(struct ask *a, sqlite3_stmt *s), int n_column)
{
    int64_t limit = rows_wanted(a->q), n = 0, cursor = 0;
    sqlite3_stmt *s = statement(a, which);
    int r;

    if (!s)
        return -EIO;
    sqlite3_bind_int64(s, 1, a->q->after);
    sqlite3_bind_int64(s, 2, limit + 1);
    jw_obj(&a->w);
    jw_key(&a->w, "rows");
    jw_arr(&a->w);
    while ((r = next_row(a, s)) > 0 && n < limit && a->w.out->n < (size_t)ANSWER_SOFT) {
        cursor = sqlite3_column_int64(s, n_column);
        row(a, s);
        n++;
    }
    sqlite3_reset(s);
    jw_arr_end(&a->w);
    next_out(&a->w, r > 0, cursor);
    jw_kint(&a->w, "last", cursor);
    jw_obj_end(&a->w);
    return r < 0 ? r : 0;
}

static void live_row(struct ask *a, sqlite3_stmt *s)
{
    jw_obj(&a->w);
    jw_kstr(&a->w, "root", column_str(s, 1));
    if (column_str(s, 2).n)
        jw_kraw(&a->w, "layers", column_str(s, 2));
    jw_obj_end(&a->w);
}

static int answer_live_states(struct ask *a)
{
    return state_rows(a, Q_LIVE_STATES, live_row, 0);
}

static void pending_row(struct ask *a, sqlite3_stmt *s)
{
    state_out(a, s, false, NULL);
}

static int answer_pending_states(struct ask *a)
{
    return state_rows(a, Q_PENDING_STATES, pending_row, 2);
}

static void old_row(struct ask *a, sqlite3_stmt *s)
{
    jw_obj(&a->w);
    jw_kstr(&a->w, "state", column_str(s, 1));
    jw_kint(&a->w, "bytes", sqlite3_column_int64(s, 2));
    jw_obj_end(&a->w);
}

static int answer_old_states(struct ask *a)
{
    return state_rows(a, Q_OLD_STATES, old_row, 0);
}

static int answer_trajectory_of(struct ask *a)
{
    sqlite3_stmt *s = statement(a, Q_TRAJECTORY_OF);

    if (!s)
        return -EIO;
    bind_str(s, 1, a->q->worker);
    bind_str(s, 2, index_tenant(a->q->tenant));
    int r = next_row(a, s);
    if (r > 0) {
        jw_obj(&a->w);
        jw_kbool(&a->w, "found", true);
        jw_kstr(&a->w, "id", column_str(s, 0));
        jw_kint(&a->w, "steps", sqlite3_column_int64(s, 1));
        jw_kint(&a->w, "last_step", sqlite3_column_int64(s, 2));
        jw_obj_end(&a->w);
    }
    sqlite3_reset(s);
    return r < 0 ? r : r > 0 ? 0 : found_false(a);
}

int index_query(struct index *x, const struct query *q, struct buf *out, struct err *e)
{
    static const struct {
        const char *op;
        int (*answer)(struct ask *a);
    } ops[] = {
        { "open", answer_open },
        { "position", answer_position },
        { "trajectories", answer_trajectories },
        { "trajectory", answer_trajectory },
        { "steps", answer_steps },
        { "step", answer_step },
        { "key", answer_key },
        { "trajectory_of", answer_trajectory_of },
        { "state", answer_state },
        { "states", answer_states },
        { "live_states", answer_live_states },
        { "pending_states", answer_pending_states },
        { "old_states", answer_old_states },
        { "box", answer_box },
    };
    struct ask a = { .x = x, .q = q, .w = { .out = out }, .e = e };

    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++)
        if (str_is(q->op, ops[i].op)) {
            int r = ops[i].answer(&a);
            if (r >= 0 && out->full)
                return err_set(e, ERR_LIMIT, "the answer to '%s' exceeds %zu bytes", ops[i].op, out->cap);
            return r;
        }
    return err_set(e, ERR_INVALID, "recorder knows no query '%.*s'", (int)(q->op.n > 40 ? 40 : q->op.n),
                   q->op.p ? q->op.p : "");
}

/* Watching files. The machinery is init/watches.h; here are the parameters and results. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/auto.h"
#include "base/limits.h"
#include "tool/tool.h"

struct create_params {
    struct str path;
    bool recursive;
    struct strs exclude, include_patterns;
    int64_t debounce;
};
static const struct field create_fields[] = {
    FIELD(STR, struct create_params, path, "file or directory; absolute", .required = true, .max = LIMIT_PATH,
          .path = true),
    FIELD(BOOL, struct create_params, recursive, "also directories below it", .def = true),
    FIELD(STRS, struct create_params, exclude,
          "patterns of names to leave out; default: .git, node_modules and their kin", .max = 100),
    FIELD(INT, struct create_params, debounce, "milliseconds in which writes to one file are one event", .def = 300,
          .min = 50, .max = 5000),
    FIELD(STRS, struct create_params, include_patterns, "only files that match; default: all", .max = 100,
          .path = true),
    { 0 },
};
struct watch_row {
    struct str watcher_id, path, warning;
    bool recursive, reused, lost;
    int64_t initial_cursor, subscribers;
    double created_at;
};
static const struct field watch_row_fields[] = {
    FIELD(STR, struct watch_row, watcher_id, "its name"),
    FIELD(STR, struct watch_row, path, "what it watches", .path = true),
    FIELD(BOOL, struct watch_row, recursive, "also below it"),
    FIELD(BOOL, struct watch_row, reused, "it was there before, for the same options"),
    FIELD(BOOL, struct watch_row, lost, "its process ended; no events will come"),
    FIELD(INT, struct watch_row, initial_cursor, "poll from here for what happens from now on"),
    FIELD(INT, struct watch_row, subscribers, "who would have to stop it"),
    FIELD(NUM, struct watch_row, created_at, "seconds since 1970"),
    FIELD(STR, struct watch_row, warning, "what it cannot watch"),
    { 0 },
};

struct none_params {
    bool unused;
};
static const struct field none_fields[] = { { 0 } };
struct list_result {
    struct rows watchers;
    int64_t count;
};
static const struct field list_fields[] = {
    FIELD(ROWS, struct list_result, watchers, "newest first", .always = true, .rows = watch_row_fields,
          .row_size = sizeof(struct watch_row)),
    FIELD(INT, struct list_result, count, "how many"),
    { 0 },
};

struct event_row {
    int64_t seq, size, inode;
    struct str type, path, relative_path, old_path;
    bool is_dir;
    double timestamp, mtime;
};
static const struct field event_fields[] = {
    FIELD(INT, struct event_row, seq, "number of the event"),
    FIELD(STR, struct event_row, type, "create, write, remove, rename or chmod"),
    FIELD(STR, struct event_row, path, "absolute path", .path = true),
    FIELD(STR, struct event_row, relative_path, "below what is watched", .always = true, .path = true),
    FIELD(STR, struct event_row, old_path, "rename: from here", .nullable = true, .path = true),
    FIELD(BOOL, struct event_row, is_dir, "a directory"),
    FIELD(NUM, struct event_row, timestamp, "seconds since 1970"),
    FIELD(NUM, struct event_row, mtime, "of the file, if it is there"),
    FIELD(INT, struct event_row, size, "of the file, if it is there"),
    FIELD(INT, struct event_row, inode, "of the file, if it is there"),
    { 0 },
};
struct poll_params {
    struct str watcher_id;
    int64_t cursor, limit, timeout;
};
static const struct field poll_fields[] = {
    FIELD(STR, struct poll_params, watcher_id, "the watcher", .required = true, .max = 32),
    FIELD(INT, struct poll_params, cursor, "events behind this one", .min = 0, .max = 1e15),
    FIELD(INT, struct poll_params, limit, "at most so many", .def = 100, .min = 1, .max = 1000),
    FIELD(INT, struct poll_params, timeout, "seconds to wait for one", .min = 0, .max = 60),
    { 0 },
};
struct poll_result {
    struct str watcher_id;
    struct rows events;
    int64_t cursor;
    bool overflow;
};
static const struct field poll_result_fields[] = {
    FIELD(STR, struct poll_result, watcher_id, "the watcher"),
    FIELD(ROWS, struct poll_result, events, "in order", .always = true, .rows = event_fields,
          .row_size = sizeof(struct event_row)),
    FIELD(INT, struct poll_result, cursor, "for the next poll"),
    FIELD(BOOL, struct poll_result, overflow, "events between are gone: there were too many"),
    { 0 },
};

struct await_params {
    struct str path;
    int64_t timeout;
    struct strs event_types;
};
static const struct field await_fields[] = {
    FIELD(STR, struct await_params, path, "exactly this one; absolute", .required = true, .max = LIMIT_PATH,
          .path = true),
    FIELD(INT, struct await_params, timeout, "seconds", .def = 30, .min = 1, .max = 300),
    FIELD(STRS, struct await_params, event_types, "which events; default: all", .max = 5,
          .choices = "create|write|remove|rename|chmod"),
    { 0 },
};
struct await_result {
    bool timed_out;
    struct rows events;
};
static const struct field await_result_fields[] = {
    FIELD(BOOL, struct await_result, timed_out, "nothing happened"),
    FIELD(ROWS, struct await_result, events, "the one event", .always = true, .rows = event_fields,
          .row_size = sizeof(struct event_row)),
    { 0 },
};
struct stop_params {
    struct str watcher_id;
};
static const struct field stop_fields[] = {
    FIELD(STR, struct stop_params, watcher_id, "the watcher", .required = true, .max = 32),
    { 0 },
};

#ifdef IN_BOX

#include "init/init.h"
#include "init/task.h"
#include "init/watches.h"

static void fail(struct task *t, const struct err *e)
{
    task_fail(t, e->code == ERR_BUSY ? OUTCOME_INFRA_ERROR : outcome_of_err(e), e);
}

static struct watcher *find(struct task *t, struct str id)
{
    struct watcher *w = watch_find(t->init, id);
    struct err e;

    if (!w) {
        err_set(&e, ERR_NOT_FOUND, "Watcher not found: %.*s", STR_ARG(id));
        fail(t, &e);
    }
    return w;
}

static struct watch_row row_of(struct arena *a, const struct watcher *w)
{
    struct watch_state s = watch_describe(w);

    return (struct watch_row){ .watcher_id = arena_copy(a, str_of(s.id)),
                               .path = arena_copy(a, str_of(s.path)),
                               .recursive = s.recursive,
                               .lost = s.lost,
                               .initial_cursor = s.last_seq,
                               .subscribers = s.users,
                               .created_at = (double)s.created_us / 1e6,
                               .warning = s.trouble ? arena_copy(a, str_of(s.trouble)) : (struct str){ 0 } };
}

static struct event_row event_of(struct arena *a, const struct watcher *w, const struct watch_event *e)
{
    struct watch_state s = watch_describe(w);
    size_t n = strlen(s.path);
    const char *below = strncmp(e->path, s.path, n) == 0 && e->path[n] == '/' ? e->path + n + 1 : "";

    return (struct event_row){ .seq = e->seq,
                               .type = str_of(watch_type_names[e->type]),
                               .path = arena_copy(a, str_of(e->path)),
                               .relative_path = arena_copy(a, str_of(below)),
                               .old_path = e->old_path ? arena_copy(a, str_of(e->old_path)) : (struct str){ 0 },
                               .is_dir = e->is_dir,
                               .timestamp = (double)e->time_us / 1e6,
                               .mtime = (double)e->mtime_us / 1e6,
                               .size = e->size,
                               .inode = (int64_t)(e->inode & INT64_MAX) };
}

static void fail_lost(struct task *t, struct watcher *w)
{
    struct watch_state s = watch_describe(w);
    bool denied = s.trouble && strcmp(s.trouble, strerror(EACCES)) == 0;
    struct err e;

    err_set(&e,
            s.busy   ? ERR_BUSY
            : denied ? ERR_DENIED
                     : ERR_NOT_FOUND,
            "watch %s: %s", s.path, s.trouble ? s.trouble : "it could not be watched");
    fail(t, &e);
    watch_close(w);
}

struct creating {
    struct watcher *w;
    bool reused;
};

static void on_created(void *arg, struct watcher *w)
{
    struct task *t = arg;
    struct creating *c = t->state;
    struct watch_state s = watch_describe(w);

    if (s.lost && !s.last_seq) {
        fail_lost(t, w);
        return;
    }
    struct watch_row row = row_of(&t->arena, w);
    row.reused = c->reused;
    task_finish(t, OUTCOME_OK, NULL, &row, 0, NULL);
}

static void on_cancel(struct task *t)
{
    struct err e;

    watch_unwait(t->init, t);
    err_set(&e, ERR_NONE, "cancelled");
    task_fail(t, OUTCOME_KILLED, &e);
}

static void on_cancel_create(struct task *t)
{
    struct watcher *w = ((struct creating *)t->state)->w;

    on_cancel(t);
    watch_close(w); /* nobody knows its name */
}

static char *path_of(struct task *t, struct str path, struct err *e)
{
    if (!path.n || memchr(path.p, 0, path.n)) {
        err_set(e, ERR_INVALID, "path is empty or contains a NUL byte");
        return NULL;
    }
    char *z = path.p[0] == '/' ? arena_z(&t->arena, path)
                               : arena_printf(&t->arena, "%s/%.*s", init_workspace(t->init), STR_ARG(path));
    for (size_t n = strlen(z); n > 1 && z[n - 1] == '/';)
        z[--n] = 0;
    return z;
}

static void create_begin(struct task *t, const void *params)
{
    static struct str usual[] = { { ".git", 4 },      { "node_modules", 12 }, { "__pycache__", 11 },
                                  { ".venv", 5 },     { "*.pyc", 5 },         { "*.pyo", 5 },
                                  { ".DS_Store", 9 }, { "*.swp", 5 },         { "*.swo", 5 } };
    const struct create_params *p = params;
    struct creating *c = arena_alloc(&t->arena, sizeof *c);
    struct err e = { 0 };
    char *path = path_of(t, p->path, &e);
    struct watch_opts o = { .path = path,
                            .recursive = p->recursive,
                            .debounce_ms = p->debounce,
                            .exclude = p->exclude.v ? p->exclude : (struct strs){ usual, ARRAY_LEN(usual) },
                            .include = p->include_patterns };

    c->w = path ? watch_open(t->init, &o, &c->reused, &e) : NULL;
    if (!c->w) {
        fail(t, &e);
        return;
    }
    t->state = c;
    if (c->reused) {
        on_created(t, c->w);
        return;
    }
    t->cancel = on_cancel_create;
    watch_wait(c->w, -1, 20000, on_created, t);
}

static void list_begin(struct task *t, const void *params)
{
    struct list_result out = { 0 };
    size_t n = 0;

    (void)params;
    for (struct watcher *w = NULL; (w = watch_next(t->init, w));)
        n++;
    struct watch_row *rows = arena_alloc(&t->arena, (n + 1) * sizeof *rows);
    for (struct watcher *w = NULL; (w = watch_next(t->init, w));)
        rows[out.watchers.n++] = row_of(&t->arena, w);
    out.watchers.v = rows;
    out.count = (int64_t)n;
    task_finish(t, OUTCOME_OK, NULL, &out, 0, NULL);
}

static void finish_poll(void *arg, struct watcher *w)
{
    struct task *t = arg;
    const struct poll_params *p = t->state;
    struct watch_state s = watch_describe(w);
    struct poll_result out = { .watcher_id = p->watcher_id, .cursor = p->cursor };
    struct event_row *rows = arena_alloc(&t->arena, (size_t)p->limit * sizeof *rows);
    const struct watch_event *e;

    out.overflow = p->cursor + 1 < s.first_seq;
    while (out.events.n < (size_t)p->limit && (e = watch_event(w, out.cursor))) {
        rows[out.events.n++] = event_of(&t->arena, w, e);
        out.cursor = e->seq;
    }
    if (!out.events.n && out.overflow)
        out.cursor = s.last_seq;
    out.events.v = rows;
    task_finish(t, OUTCOME_OK, NULL, &out, 0, NULL);
}

static void poll_begin(struct task *t, const void *params)
{
    const struct poll_params *p = params;
    struct watcher *w = find(t, p->watcher_id);

    if (!w)
        return;
    t->state = (void *)params;
    if (p->timeout == 0 || watch_event(w, p->cursor) || watch_describe(w).lost) {
        finish_poll(t, w);
        return;
    }
    t->cancel = on_cancel;
    watch_wait(w, p->cursor, p->timeout * 1000, finish_poll, t);
}

/* --- waiting for one event --- */

struct awaiting {
    const struct await_params *p;
    const char *path;
    char *dir;         /* room for one above it */
    struct watcher *w; /* nullable */
    bool was_there;
    int64_t seen, until_ms;
    struct timespec begun; /* by the clock of files */
};

static bool is_wanted(const struct awaiting *a, enum watch_type type)
{
    for (size_t i = 0; i < a->p->event_types.n; i++)
        if (str_is(a->p->event_types.v[i], watch_type_names[type]))
            return true;
    return a->p->event_types.n == 0;
}

static void finish_await(struct task *t, const struct event_row *row)
{
    struct watcher *w = ((struct awaiting *)t->state)->w;
    struct await_result out = { .timed_out = !row, .events = { (void *)row, row ? 1 : 0 } };

    task_finish(t, OUTCOME_OK, NULL, &out, 0, NULL);
    if (w)
        watch_close(w);
}

static void on_cancel_await(struct task *t)
{
    struct watcher *w = ((struct awaiting *)t->state)->w;

    on_cancel(t);
    if (w)
        watch_close(w);
}

static void await_more(struct task *t, bool dir_gone);

/* The directory of the path, or the nearest one above it that is there already. */
static void find_dir(struct awaiting *a)
{
    struct stat st;

    memcpy(a->dir, a->path, strlen(a->path) + 1);
    do {
        char *slash = strrchr(a->dir, '/');
        slash[slash == a->dir] = 0;
    } while (a->dir[1] && (stat(a->dir, &st) < 0 || !S_ISDIR(st.st_mode)));
}

static void finish_unseen(struct task *t, enum watch_type type, const struct stat *st)
{
    const struct awaiting *a = t->state;
    struct event_row row = { .type = str_of(watch_type_names[type]),
                             .path = str_of(a->path),
                             .relative_path = STR(""),
                             .is_dir = S_ISDIR(st->st_mode),
                             .timestamp = (double)wall_us() / 1e6,
                             .mtime = (double)st->st_mtim.tv_sec,
                             .size = st->st_size,
                             .inode = (int64_t)st->st_ino };
    finish_await(t, &row);
}

/* What was made, written or removed while nothing was watched, or something above it, has no event. */
static bool finish_if_changed(struct task *t)
{
    struct awaiting *a = t->state;
    struct stat st = { 0 };
    bool there = lstat(a->path, &st) == 0, was = a->was_there;

    a->was_there = there;
    if (there == was)
        return false;
    bool written = st.st_mtim.tv_sec > a->begun.tv_sec ||
                   (st.st_mtim.tv_sec == a->begun.tv_sec && st.st_mtim.tv_nsec >= a->begun.tv_nsec);
    if (there && is_wanted(a, WATCH_CREATE))
        finish_unseen(t, WATCH_CREATE, &st);
    else if (there && is_wanted(a, WATCH_WRITE) && S_ISREG(st.st_mode) && written)
        finish_unseen(t, WATCH_WRITE, &st);
    else if (!there && is_wanted(a, WATCH_REMOVE))
        finish_unseen(t, WATCH_REMOVE, &st);
    else
        return false;
    return true;
}

static void on_awaited(void *arg, struct watcher *w);

/* It is watched from now on, or its directory was gone again before it was. */
static void on_watching(void *arg, struct watcher *w)
{
    struct task *t = arg;
    struct watch_state s = watch_describe(w);
    bool gone = s.trouble && (strcmp(s.trouble, strerror(ENOENT)) == 0 || strcmp(s.trouble, strerror(ENOTDIR)) == 0);

    if (s.lost && !gone)
        fail_lost(t, w);
    else if (!finish_if_changed(t))
        on_awaited(t, w); /* events may have come with the news that it is watched */
}

static void watch_dir(struct task *t)
{
    struct awaiting *a = t->state;
    struct watch_opts o = { .path = a->dir, .debounce_ms = 50, .hidden = true };
    struct err e = { 0 };
    bool reused;

    a->seen = 0;
    a->w = watch_open(t->init, &o, &reused, &e);
    if (!a->w)
        fail(t, &e);
    else
        watch_wait(a->w, -1, 20000, on_watching, t);
}

static void on_awaited(void *arg, struct watcher *w)
{
    struct task *t = arg;
    struct awaiting *a = t->state;
    const struct watch_event *e;
    bool dir_gone = false;

    while ((e = watch_event(w, a->seen))) {
        a->seen = e->seq;
        dir_gone = dir_gone || (e->type == WATCH_REMOVE && strcmp(e->path, a->dir) == 0);
        bool here = strcmp(e->path, a->path) == 0 || (e->old_path && strcmp(e->old_path, a->path) == 0);
        if (here && is_wanted(a, e->type)) {
            struct event_row row = event_of(&t->arena, w, e);
            finish_await(t, &row);
            return;
        }
        if (here)
            a->was_there = e->type != WATCH_REMOVE;
    }
    await_more(t, dir_gone);
}

static void await_more(struct task *t, bool dir_gone)
{
    struct awaiting *a = t->state;
    struct watch_state s = watch_describe(a->w);
    int64_t left = a->until_ms - now_ms();

    find_dir(a);
    if (left <= 0) {
        finish_await(t, NULL);
    } else if (dir_gone || s.lost || strcmp(a->dir, s.path) != 0) {
        watch_close(a->w);
        watch_dir(t);
    } else {
        watch_wait(a->w, a->seen, left, on_awaited, t);
    }
}

static void await_begin(struct task *t, const void *params)
{
    const struct await_params *p = params;
    struct awaiting *a = arena_alloc(&t->arena, sizeof *a);
    struct err e = { 0 };
    struct stat st;

    *a = (struct awaiting){ .p = p, .path = path_of(t, p->path, &e), .until_ms = now_ms() + p->timeout * 1000 };
    if (!a->path) {
        fail(t, &e);
        return;
    }
    t->state = a;
    (void)clock_gettime(CLOCK_REALTIME_COARSE, &a->begun);
    a->was_there = lstat(a->path, &st) == 0;
    if (p->event_types.n && a->was_there && is_wanted(a, WATCH_CREATE)) {
        finish_unseen(t, WATCH_CREATE, &st); /* whoever waits for nothing but a change does not say create */
        return;
    }
    t->cancel = on_cancel_await;
    a->dir = arena_alloc(&t->arena, strlen(a->path) + 1);
    find_dir(a);
    watch_dir(t);
}

static void stop_begin(struct task *t, const void *params)
{
    const struct stop_params *p = params;
    struct watcher *w = find(t, p->watcher_id);

    if (!w)
        return;
    struct watch_row row = row_of(&t->arena, w);
    row.subscribers--;
    watch_close(w);
    task_finish(t, OUTCOME_OK, NULL, &row, 0, NULL);
}

#endif

enum { WATCHES = TOOL_NEEDS_BOX | TOOL_PARALLEL, LOOK = WATCHES | TOOL_READ_ONLY | TOOL_IDEMPOTENT };

#define ROW(verb, params_, params_type, result_, result_type)                                                          \
    .params = params_, .params_size = sizeof(struct params_type), .result = result_,                                   \
    .result_size = sizeof(struct result_type), .begin = BOX_CODE(verb##_begin)

static const struct tool watch_tools[] = {
    { .name = "watch:create",
      .title = "Watch files",
      .help = "Begins to note what happens to a file or below a directory.",
      .flags = WATCHES,
      ROW(create, create_fields, create_params, watch_row_fields, watch_row) },
    { .name = "watch:watchers",
      .title = "List watchers",
      .help = "All that there are.",
      .flags = LOOK,
      ROW(list, none_fields, none_params, list_fields, list_result) },
    { .name = "watch:poll",
      .title = "What happened",
      .help = "Events of a watcher behind a cursor.",
      .flags = LOOK,
      ROW(poll, poll_fields, poll_params, poll_result_fields, poll_result) },
    { .name = "watch:await",
      .title = "Wait for a file",
      .help = "Waits until something happens to one path.",
      .flags = LOOK,
      ROW(await, await_fields, await_params, await_result_fields, await_result) },
    { .name = "watch:stop",
      .title = "Stop watching",
      .help = "Ends a watcher, unless others use it too.",
      .flags = WATCHES,
      ROW(stop, stop_fields, stop_params, watch_row_fields, watch_row) },
};

const struct backend backend_watch = {
    .name = "watch",
    .help = "Watching files.",
    .kind = KIND_SESSION,
    .tools = watch_tools,
    .tool_count = ARRAY_LEN(watch_tools),
    .full_names = true,
};

/* What the interpreters of a box take along when a state is made of it: the variables of Python contexts and kernels.
 * The tools are serve's own. carry:out is asked before a snapshot: every interpreter that is idle writes its variables
 * to a file (script/carry.py), and init makes one piece of them all, which serve stores beside the state. carry:in gets
 * it in a box that is made from the state: the interpreters are there by name, and read their file when they are first
 * used. So a fork costs nothing until it runs code, and no process of the host reads what is in it. */
#include "tool/carry.h"

#include "base/auto.h"
#include "base/limits.h"
#include "tool/tool.h"

struct out_params {
    bool none;
};
static const struct field out_fields[] = { { 0 } };

struct session_row {
    struct str session, kind, language, reason;
    bool carried;
    int64_t bytes;
    struct strs lost;
};
static const struct field session_row_fields[] = {
    FIELD(STR, struct session_row, session, "its name"),
    FIELD(STR, struct session_row, kind, "code: a context; jupyter: a kernel"),
    FIELD(STR, struct session_row, language, "what it runs"),
    FIELD(BOOL, struct session_row, carried, "its variables are in the state"),
    FIELD(STR, struct session_row, reason, "why not"),
    FIELD(INT, struct session_row, bytes, "what they take"),
    FIELD(STRS, struct session_row, lost, "variables that could not be taken along, with the reason"),
    { 0 },
};
struct out_result {
    struct rows sessions;
};
static const struct field out_result_fields[] = {
    FIELD(ROWS, struct out_result, sessions, "interpreters", .rows = session_row_fields,
          .row_size = sizeof(struct session_row)),
    { 0 },
};

static const struct field in_fields[] = {
    FIELD(BYTES, struct carry_in_params, pieces, "what carry:out gave", .required = true, .max = LIMIT_FRAME),
    { 0 },
};
struct in_result {
    int64_t count;
};
static const struct field in_result_fields[] = {
    FIELD(INT, struct in_result, count, "interpreters that are there now"),
    { 0 },
};

static const struct field one_fields[] = {
    FIELD(STR, struct carry_one_params, path, "file or socket", .required = true, .max = LIMIT_PATH),
    { 0 },
};
struct one_result {
    struct strs lost;
};
static const struct field one_result_fields[] = {
    FIELD(STRS, struct one_result, lost, "what was left out"),
    { 0 },
};

#ifdef IN_BOX

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "init/context.h"
#include "init/init.h"
#include "init/kernel.h"
#include "init/script.h"
#include "init/shell.h"
#include "init/task.h"
#include "wire/boot.h"

#define SHELL_PREFIX "code:" /* shells that are contexts of the language bash: code_session.c */

/* What is stored: one per interpreter whose variables go along. */
struct piece {
    struct str kind, name, label, note, data;
    int64_t idle_ms;
};
static const struct field piece_fields[] = {
    FIELD(STR, struct piece, kind, ""),
    FIELD(STR, struct piece, name, ""),
    FIELD(STR, struct piece, label, ""),
    FIELD(STR, struct piece, note, ""),
    FIELD(BYTES, struct piece, data, ""),
    FIELD(INT, struct piece, idle_ms, ""),
    { 0 },
};
struct pieces {
    struct rows all;
};
static const struct field pieces_fields[] = {
    FIELD(ROWS, struct pieces, all, "", .rows = piece_fields, .row_size = sizeof(struct piece)),
    { 0 },
};

static const struct driver_kind *const kinds[] = { &context_kind, &jupyter_kind };

/* --- out --- */

struct gathering;
struct source {
    struct gathering *g;
    struct piece piece;
    struct session_row row;
    char path[64];
};
struct gathering {
    struct task *task; /* serve's; all this is in its arena */
    struct source *sources[LIMIT_DRIVERS_PER_BOX + LIMIT_SHELLS_PER_BOX];
    size_t n, waiting;
};

static void make_path(char out[64])
{
    static unsigned last;

    snprintf(out, 64, BOX_USER_RUN "/carry.%u", ++last);
}

/* The file is the box's: it is read with its user's rights, up to what there is room for, and may be anything. */
static void read_source(struct source *s, int64_t *room)
{
    struct stat st;

    init_as_user(s->g->task->init);
    auto_close int fd = open(s->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    s->row.carried = false;
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        s->row.reason = STR("its file cannot be read");
    } else if (st.st_size > *room) {
        s->row.reason =
            str_of(arena_printf(&s->g->task->arena, "no room: LIMIT_CARRY_BOX is %ld bytes", LIMIT_CARRY_BOX));
    } else {
        char *data = arena_alloc(&s->g->task->arena, (size_t)st.st_size + 1);
        ssize_t n = read(fd, data, (size_t)st.st_size);
        if (n > 0) {
            *room -= n;
            s->piece.data = (struct str){ data, (size_t)n };
            s->row.bytes = n;
            s->row.carried = true;
        }
    }
    init_as_root(s->g->task->init);
}

static int pack(struct gathering *g)
{
    struct piece *v = arena_alloc(&g->task->arena, (g->n + 1) * sizeof *v);
    struct pieces all = { .all = { v, 0 } };
    AUTO(buf_done) struct buf b = { .cap = LIMIT_FRAME };

    for (size_t i = 0; i < g->n; i++)
        if (g->sources[i]->row.carried)
            v[all.all.n++] = g->sources[i]->piece;
    if (!all.all.n)
        return -1;
    field_pack(pieces_fields, &all, &b);
    auto_close int fd = memfd_create("carry", MFD_CLOEXEC);
    for (size_t at = 0; fd >= 0 && at < b.n;) {
        ssize_t n = write(fd, b.p + at, b.n - at);
        if (n <= 0)
            return -1;
        at += (size_t)n;
    }
    return TAKE_FD(fd);
}

static void finish(struct gathering *g)
{
    struct session_row *rows = arena_alloc(&g->task->arena, (g->n + 1) * sizeof *rows);
    struct out_result r = { .sessions = { rows, 0 } };
    int64_t room = LIMIT_CARRY_BOX;

    for (size_t i = 0; i < g->n; i++) {
        struct source *s = g->sources[i];
        if (s->row.carried)
            read_source(s, &room);
        if (s->path[0])
            (void)unlink(s->path);
    }
    int fds[2] = { pack(g), -1 };
    for (size_t i = 0; i < g->n; i++) {
        if (fds[0] < 0)
            g->sources[i]->row.carried = false;
        rows[r.sessions.n++] = g->sources[i]->row;
    }
    task_finish(g->task, OUTCOME_OK, NULL, &r, 0, fds);
}

static void on_saved(struct task *t)
{
    struct source *s = t->arg;
    struct arena *a = &s->g->task->arena;
    struct one_result r = { 0 };
    struct err e;

    if (task_read_reply(t, a, &r, &e) < 0)
        s->row.reason = str_of(arena_printf(a, "%s", e.msg));
    else
        s->row.carried = true;
    s->row.lost = r.lost;
    if (--s->g->waiting == 0)
        finish(s->g);
}

static struct source *source_new(struct gathering *g)
{
    struct source *s = arena_alloc(&g->task->arena, sizeof *s);

    *s = (struct source){ .g = g };
    g->sources[g->n++] = s;
    return s;
}

/* A name in a piece outlives the driver whose it is. */
static struct str keep(struct gathering *g, const char *z)
{
    return arena_copy(&g->task->arena, str_of(z));
}

static void look_at(struct gathering *g, const struct driver_info *i)
{
    struct source *s = source_new(g);
    struct str note = keep(g, i->note);
    const char *space = memchr(note.p, ' ', note.n);

    s->piece = (struct piece){
        str_of(i->kind->name), keep(g, i->name), keep(g, i->label), note, { 0 }, i->idle_ms,
    };
    s->row = (struct session_row){ .session = s->piece.label, .kind = s->piece.kind };
    s->row.language = i->kind == &context_kind && space ? (struct str){ note.p, (size_t)(space - note.p) } : note;
    if (i->busy) {
        s->row.reason = STR("it is running code");
        return;
    }
    make_path(s->path);
    if (i->seed) { /* not used in this box yet: what it was to begin with */
        s->row.carried = link(i->seed, s->path) == 0;
        return;
    }
    struct carry_one_params p = { str_of(s->path) };
    struct task *t = task_own(g->task->init, tool_find(str_of(i->kind->carry_with), NULL), &p, on_saved, s);
    t->call.timeout_ms = LIMIT_CARRY_MS;
    g->waiting++;
    driver_submit(t, &(struct driver_ask){ .kind = i->kind, .name = s->piece.name, .must_exist = true });
}

static void out_begin(struct task *t, const void *params)
{
    struct gathering *g = arena_alloc(&t->arena, sizeof *g);

    (void)params;
    *g = (struct gathering){ .task = t, .waiting = 1 };
    for (struct driver *d = NULL; (d = driver_next(t->init, NULL, d));) {
        struct driver_info i = driver_describe(d);
        if (i.kind->carry_with && !i.once && (i.up || i.seed))
            look_at(g, &i);
    }
    for (struct shell *s = NULL; (s = shell_next(t->init, s));) {
        const char *name = shell_describe(s).name;
        if (!name || strncmp(name, SHELL_PREFIX, sizeof SHELL_PREFIX - 1) != 0)
            continue;
        source_new(g)->row = (struct session_row){ .session = keep(g, name + sizeof SHELL_PREFIX - 1),
                                                   .kind = STR("code"),
                                                   .language = STR("bash"),
                                                   .reason = STR("a context of bash begins anew") };
    }
    if (--g->waiting == 0)
        finish(g);
}

/* --- in --- */

static bool put_piece(struct init *in, const struct piece *p)
{
    struct driver_ask ask = {
        .name = p->name, .label = p->label, .note = p->note, .idle_ms = p->idle_ms > 0 ? p->idle_ms : 0
    };
    char path[64];

    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        if (str_is(p->kind, kinds[i]->name))
            ask.kind = kinds[i];
    if (!ask.kind || (ask.kind == &context_kind && !memchr(p->note.p, ' ', p->note.n)) ||
        driver_find(in, ask.kind, p->name))
        return false;
    make_path(path);
    ask.seed = path;
    auto_close int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    bool ok = fd >= 0 && write(fd, p->data.p, p->data.n) == (ssize_t)p->data.n && fchown(fd, BOX_UID, BOX_GID) == 0;
    ok = ok && driver_put(in, &ask);
    if (!ok)
        (void)unlink(path);
    return ok;
}

static void in_begin(struct task *t, const void *params)
{
    const struct carry_in_params *p = params;
    static bool given; /* once in the life of a seat: what was ended since stays ended */
    struct pieces all;
    struct in_result r = { 0 };
    struct err e;

    if (scripts_write(&e) < 0 || field_unpack(pieces_fields, p->pieces, &t->arena, &all, sizeof all, &e) < 0) {
        task_fail(t, OUTCOME_INFRA_ERROR, &e);
        return;
    }
    for (size_t i = given ? 0 : all.all.n; i-- > 0;) /* the newest driver is first in their list */
        r.count += put_piece(t->init, (const struct piece *)all.all.v + i);
    given = true;
    task_finish(t, OUTCOME_OK, NULL, &r, 0, NULL);
}

/* --- in the drivers --- */

static int put_context(struct hand *h, const char *op, const struct carry_one_params *p, struct one_result *r,
                       struct err *e)
{
    struct context_end end;

    int n = context_put(h, op, p->path, &end, e);
    if (n < 0)
        return n;
    if (end.status != CONTEXT_OK)
        return err_set(e, ERR_SYSTEM, "%.*s: %.*s", STR_ARG(end.ename.n ? end.ename : STR("it did not answer in time")),
                       STR_ARG(end.evalue));
    r->lost = end.lost;
    return 0;
}

static int context_tool_run(struct hand *h, const void *params, void *result, struct err *e)
{
    return put_context(h, "save", params, result, e);
}

static int branch_tool_run(struct hand *h, const void *params, void *result, struct err *e)
{
    return put_context(h, "branch", params, result, e);
}

static int kernel_tool_run(struct hand *h, const void *params, void *result, struct err *e)
{
    const struct carry_one_params *p = params;
    struct one_result *r = result;

    if (kernel_asking(h))
        return err_set(e, ERR_BUSY, "a cell waits for input");
    if (!kernel_is_up(h))
        return err_set(e, ERR_NOT_FOUND, "its kernel is not running");
    return kernel_carry(h, h->self->state, "save", arena_z(h->arena, p->path), h->arena, &r->lost, e);
}

#endif

enum { OURS = TOOL_NEEDS_BOX | TOOL_HIDDEN | TOOL_PARALLEL };

static const struct tool tools[] = {
    { .name = "carry:out",
      .title = "Save the variables of all interpreters",
      .help = "Asked before a state is taken.",
      .flags = OURS,
      .params = out_fields,
      .params_size = sizeof(struct out_params),
      .result = out_result_fields,
      .result_size = sizeof(struct out_result),
      .begin = BOX_CODE(out_begin) },
    { .name = "carry:in",
      .title = "Give interpreters their variables back",
      .help = "In a box that was made from a state.",
      .flags = OURS,
      .params = in_fields,
      .params_size = sizeof(struct carry_in_params),
      .result = in_result_fields,
      .result_size = sizeof(struct in_result),
      .begin = BOX_CODE(in_begin) },
    { .name = "carry:context",
      .title = "Save the variables of a context",
      .help = "Run by carry:out.",
      .flags = OURS,
      .params = one_fields,
      .params_size = sizeof(struct carry_one_params),
      .result = one_result_fields,
      .result_size = sizeof(struct one_result),
      .run_hand = BOX_CODE(context_tool_run) },
    { .name = "carry:branch",
      .title = "Fork the process of a context",
      .help = "Run by code:fork.",
      .flags = OURS,
      .params = one_fields,
      .params_size = sizeof(struct carry_one_params),
      .result = one_result_fields,
      .result_size = sizeof(struct one_result),
      .run_hand = BOX_CODE(branch_tool_run) },
    { .name = "carry:kernel",
      .title = "Save the variables of a kernel",
      .help = "Run by carry:out.",
      .flags = OURS,
      .params = one_fields,
      .params_size = sizeof(struct carry_one_params),
      .result = one_result_fields,
      .result_size = sizeof(struct one_result),
      .run_hand = BOX_CODE(kernel_tool_run) },
};

const struct backend backend_carry = { .name = "carry",
                                       .help = "Variables of interpreters through states and forks.",
                                       .kind = KIND_SESSION,
                                       .tools = tools,
                                       .tool_count = ARRAY_LEN(tools),
                                       .full_names = true,
                                       .hidden = true };

/* Servers with pages for people: started in the box when somebody first asks for /code-server/ or /jupyter, or by these
 * tools. They see the files that every other tool of the box sees. */
#include "tool/tool.h"

#include <errno.h>
#include <stdio.h>

#include "base/limits.h"
#ifdef IN_BOX
#include "base/loop.h"
#include "init/app.h"
#include "init/task.h"
#endif

struct params {
    struct str name;
    double timeout;
};
#define P    struct params
#define NAME FIELD(STR, P, name, "which", .required = true, .choices = "code-server|jupyter")

static const struct field start_fields[] = {
    NAME,
    FIELD(NUM, P, timeout, "seconds", .def_num = 120, .min = 1, .max = 3600),
    { 0 },
};
static const struct field stop_fields[] = { NAME, { 0 } };

struct result {
    struct str path;
    int64_t pid;
    bool started, stopped;
};
#define R struct result
static const struct field start_result[] = { FIELD(STR, R, path, "where its pages are, behind the box's address"),
                                             FIELD(INT, R, pid, "its process in the box"),
                                             FIELD(BOOL, R, started, "it did not run before"),
                                             { 0 } };
static const struct field stop_result[] = { FIELD(BOOL, R, stopped, "it ran before"), { 0 } };

#ifdef IN_BOX
static struct driver_ask ask_of(struct task *t, struct str name)
{
    return (struct driver_ask){ .kind = &app_kind,
                                .name = str_of(arena_printf(&t->arena, "app %.*s", STR_ARG(name))),
                                .label = name };
}

static void begin_start(struct task *t, const void *params)
{
    struct driver_ask ask = ask_of(t, ((const struct params *)params)->name);
    struct err e;

    if (scripts_write(&e) < 0) {
        task_fail(t, OUTCOME_INFRA_ERROR, &e);
        return;
    }
    driver_submit(t, &ask);
}

static int run_start(struct hand *h, const void *params, void *result, struct err *e)
{
    const struct params *p = params;
    struct result *r = result;
    int64_t until = now_ms() + (int64_t)(p->timeout * 1000);
    pid_t pid = 0;

    h->deadline_ms = h->deadline_ms && h->deadline_ms < until ? h->deadline_ms : until;
    int n = app_start(h, app_find(p->name), &r->started, &pid, e);
    if (n == -ETIMEDOUT || n == -ECANCELED) {
        h->outcome = n == -ETIMEDOUT ? OUTCOME_TIMEOUT : OUTCOME_KILLED;
        h->message = str_of(arena_printf(h->arena, "%s", e->msg));
        return 0;
    }
    if (n < 0)
        return n;
    r->path = str_of(arena_printf(h->arena, "/%.*s/", STR_ARG(p->name)));
    r->pid = pid;
    return 0;
}

static void begin_stop(struct task *t, const void *params)
{
    struct driver_ask ask = ask_of(t, ((const struct params *)params)->name);
    struct driver *d = driver_find(t->init, &app_kind, ask.name);
    struct result r = { .stopped = d != NULL };

    if (d)
        driver_end(d);
    task_finish(t, OUTCOME_OK, NULL, &r, 0, NULL);
}
#endif

static const struct tool tools[] = {
    { .name = "app:start",
      .title = "Start an application for people",
      .help = "Starts VS Code (code-server) or Jupyter in the box, if it does not run, and waits until it answers.",
      .flags = TOOL_NEEDS_BOX | TOOL_IDEMPOTENT | TOOL_PARALLEL,
      .params = start_fields,
      .params_size = sizeof(struct params),
      .result = start_result,
      .result_size = sizeof(struct result),
      .begin = BOX_CODE(begin_start),
      .run_hand = BOX_CODE(run_start) },
    { .name = "app:stop",
      .title = "Stop an application",
      .help = "Ends it with all that it started.",
      .flags = TOOL_NEEDS_BOX | TOOL_IDEMPOTENT,
      .params = stop_fields,
      .params_size = sizeof(struct params),
      .result = stop_result,
      .result_size = sizeof(struct result),
      .begin = BOX_CODE(begin_stop) },
};

const struct backend backend_app = {
    .name = "app",
    .help = "Applications for people in the box: VS Code, Jupyter.",
    .kind = KIND_SESSION,
    .tools = tools,
    .tool_count = sizeof tools / sizeof *tools,
    .full_names = true,
};

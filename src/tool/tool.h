/* A tool is declared once: one row gives the HTTP calls, validation and its error text, the schema, the MCP
 * tool, the CLI, the recorded step and the replay. Surfaces only translate names and envelopes.
 *
 * A backend is one file in src/tool/. Files whose tools run in a box are compiled twice: for sandglass (the
 * rows) and, with IN_BOX defined, for init (the rows and the code). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/field.h"

enum backend_kind {
    KIND_SESSION,   /* own state in a box */
    KIND_SHARED,    /* warmed once, no box */
    KIND_HYBRID,    /* warm shared part and private state in a box */
    KIND_STATELESS, /* neither */
};

enum {
    TOOL_READ_ONLY = 1,   /* changes nothing in the box */
    TOOL_PROGRAM = 32768, /* TOOL_READ_ONLY: programs of the box work for it, so what they used is asked for */
    TOOL_NEEDS_BOX = 2,   /* runs in init; else in serve, where it must not block */
    TOOL_IDEMPOTENT = 4,  /* the same call twice has the effect of one */
    TOOL_PARALLEL = 8,    /* need not wait for earlier calls of its session */
    TOOL_HIDDEN = 16,
    TOOL_ON_BOX = 512, /* about the worker's box as a whole: serve works on it, without a session (tool/box.h) */
    TOOL_QUICK = 32, /* its run_hand() may first be tried in init itself, where it must not take long: see hand.quick */
    TOOL_REMOTE = 1024, /* lives in another process: session/remote.h */
    TOOL_ON_LOG = 4096, /* about what was recorded: serve has it done, without a session (tool/log.h) */
    TOOL_MCP = 2048,    /* TOOL_REMOTE: its results are those of an MCP tool */
    TOOL_PERSON =
        16384,          /* what a person says who looks on: no call of an agent. Only for requests that are marked so */
    TOOL_STRICT = 8192, /* if the task fails, so does the call, for AgentFlow: its code is 5000 though there is data */
    TOOL_STREAM = 64,   /* has a byte stream beside its parameters and result: hand.stream; only for who can carry it */
};

struct hand; /* the process in the box that does straight-line work: init/hand.h */
struct task; /* a call that init's own loop works on: init/task.h */

struct tool_env { /* what a tool that runs in serve is given */
    struct arena *arena;
    struct str worker, session_id;
    void *session_state; /* KIND_HYBRID: what the backend's open() made */
};

struct tool_look { /* what serve may see of a box without asking it */
    struct arena *arena;
    int files;      /* directory of all that the box wrote: root/, usr/ and tmp/, as its layers have them */
    uid_t user;     /* as whom its tools run */
    struct str cwd; /* where relative paths begin; absent: not known */
};

struct tool {
    const char *name;  /* "bash:run" */
    const char *title; /* a few words */
    const char *help;  /* a sentence or two for the agent that chooses it */
    unsigned flags;
    const struct field *params, *result;
    size_t params_size, result_size;
    const char *params_schema, *result_schema; /* TOOL_REMOTE: JSON Schemas, instead of the tables */

    /* Exactly one of these is set in the program that runs the tool (none for TOOL_ON_BOX); but a begin() that gives the
     * call to a driver (init/driver.h) needs run_hand() too, which then runs there. On failure run() fills e:
     * ERR_SYSTEM and ERR_NOT_FOUND become task_error, ERR_INVALID and its kin invalid_request. */
    int (*run)(struct tool_env *env, const void *params, void *result, struct err *e); /* in serve */
    int (*run_hand)(struct hand *h, const void *params, void *result, struct err *e);  /* in the box; may block */
    void (*begin)(struct task *t, const void *params); /* in the box, in init's loop; ends with task_finish() */

    /* Nullable, TOOL_READ_ONLY: the same answer, found by serve itself; must not wait for anything. < 0: not to be found
     * that way, whatever the reason: the box is asked. */
    int (*look)(const struct tool_look *l, const void *params, void *result);
};

struct backend {
    const char *name; /* "bash": the resource type of its tools */
    const char *help;
    enum backend_kind kind;
    const struct tool *tools;
    size_t tool_count;
    /* Short names are for the backends that AgentFlow's documentation knows, and file, first: what others call their tools
     * must not make those ambiguous. These are looked at only if none of those has the name. */
    bool full_names;
    bool hidden;                /* listed only if the configuration asks for the test backends */
    int (*warm)(struct err *e); /* nullable. SHARED, HYBRID: once, before the first call; must not block long */
    int (*open)(struct arena *a, const struct json *config, void **ret_state,
                struct err *e); /* nullable; HYBRID, serve */
    /* Nullable: what an explicit session's config asks for. Returns the parameters of the tool `prepare_with`, which
     * runs once before the session is up and is no step; NULL with e.code ERR_NONE: nothing to do. */
    void *(*prepare)(struct arena *a, const struct json *config, struct err *e);
    const char *prepare_with;
    /* Nullable: run by prepare_with, prints a script which, run in a fresh session, makes it like this one. */
    const char *save_script;
    const char *begin_with; /* with save_script: the tool that runs such a script, once in the life of a seat */
    bool interprets;       /* its tools may keep interpreters in the box: states carry their variables (tool/carry.c) */
    struct remote *remote; /* NULL: it is ours */
    const char *engine;    /* nullable: what stands behind it, if that can differ; told in meta */
};

#ifdef IN_BOX
#define BOX_CODE(fn)   (fn)
#define SERVE_CODE(fn) NULL
#else
#define BOX_CODE(fn)   NULL
#define SERVE_CODE(fn) (fn)
#endif

/* It changes nothing and starts nothing: to ask the kernel what it used would take as long as it does. */
static inline bool tool_only_looks(const struct tool *t)
{
    return (t->flags & (TOOL_READ_ONLY | TOOL_PROGRAM)) == TOOL_READ_ONLY;
}

extern const struct backend *const *backends; /* NULL-terminated; src/tool/table.c */
void backend_drop(const char *name);          /* as if it had never been there */
void backend_put(const struct backend *b);    /* a remote one comes; it replaces the one of its name. Kept for good */
void tool_print_params(const struct tool *t, const char *key, struct jw *w); /* "key": its JSON Schema */
void tool_print_result(const struct tool *t, const char *key, struct jw *w);

const struct backend *backend_find(struct str name);
const struct tool *tool_find(struct str full_name, const struct backend **ret_backend); /* exact */
/* As AgentFlow resolves: "p:x", "p.x", "p_x", "p-x", or a simple name that only one backend has. Without
 * hidden_too, hidden backends are as if they were not there. candidates (nullable): of an ambiguous name, as JSON. */
struct tool_choice {
    const struct tool *tool;
    const struct backend *backend;
};
int tool_resolve(struct str action, bool hidden_too, struct tool_choice *ret, struct buf *candidates, struct err *e);

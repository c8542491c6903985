/* The whole of pid 1: what its parts share. One per process. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/limits.h"
#include "wire/boot.h"

struct loop;
struct loop_timer;
struct link;
struct task;
struct hands;
struct shell;
struct job;
struct sudo;
struct terminal;
struct run_session;
struct hook;
struct watcher;
struct child;
struct dial;
struct driver;
struct spare;
struct handover;

struct init {
    struct loop *loop;
    struct boot boot;
    bool as_user;         /* its rights over files are the user's at present: init_as_root */
    struct link *link;    /* the conversation with serve: link.h */
    struct task *tasks;   /* calls that run or whose result nobody has acknowledged: task.h */
    struct hands *hands;  /* hands.h */
    struct shell *shells; /* shell.h */
    struct job *jobs;     /* job.h; newest first */
    uint64_t last_job;
    struct terminal *terminals;       /* terminal.h */
    struct run_session *run_sessions; /* runs.h */
    struct hook *hooks;               /* hooks.h */
    struct watcher *watchers;         /* watches.h */
    uint64_t last_watcher;
    struct sudo *sudos;     /* sudo.h: programs that run for a sudo client */
    struct dial *dials;     /* dial.h: connections that are being made */
    struct child *children; /* child.h: those that somebody waits for */
    struct driver *drivers; /* driver.h; newest first */
    struct spare *spares;   /* driver.h: those that wait for a name, one of a kind; not in drivers */
    struct loop_timer *driver_sweep;
    pid_t desktop;              /* desktop.h: the keeper of the screen; 0: none */
    struct handover *handovers; /* tool/desktop_handover.c: calls that wait for a person */
    struct {
        bool known, sandboxed;
        char why[LIMIT_WIRE_WHY];
    } about;    /* FRAME_ABOUT, as the browser's driver says */
    int headed; /* the browser has a window on it: 1, or not: -1; 0: as configured */
};

/* A look at a file is taken with the box's user's rights over files (a non-zero fsuid also takes the capabilities that
 * would override them). They stay until somebody needs others, since calls that only look come in a row: what is not
 * such a call begins with init_as_root, by the loop or by the link. */
void init_as_user(struct init *in);
void init_as_root(struct init *in);
int init_check_dir(struct init *in, const char *dir);   /* can the user go there? else a negative errno */
int init_check_file(struct init *in, const char *path); /* can the user read it? else a negative errno */

static inline const char *init_workspace(const struct init *in)
{
    return in->boot.habits.workspace[0] ? in->boot.habits.workspace : BOX_HOME;
}

/* Processes that init starts and is told the end of. What is reaped without being listed here was an orphan. */
#pragma once

#include <sched.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/err.h"

struct init;

typedef void on_exit_of(void *arg, pid_t pid, int status); /* status as from waitpid() */

struct child_opts {
    const char *file;        /* nullable: the program itself, tried before any look-up */
    const char *const *argv; /* argv[0] is looked up in BOX_PATH if it has no slash */
    char *const *env;
    int fds[3];      /* become 0, 1, 2; -1: /dev/null. Borrowed */
    const char *cwd; /* if it cannot be entered: / */
    int cwd_fd;      /* used instead of cwd if > 0 */
    bool root;       /* stays uid 0 with init's capabilities */
    bool subreaper;  /* its descendants stay below it when their parents die; it must reap them */
    bool session;    /* a session of its own, else a process group of its own */
    bool tty;        /* and fds[0] is its controlling terminal */
    mode_t umask;
};

/* Returns the pid, or a negative errno. A program that cannot be executed exits with 126 or 127. */
pid_t child_start(struct init *in, const struct child_opts *o, on_exit_of *cb, void *arg, struct err *e);
/* Forks without exec. In the child (0) signals are as in a fresh program and init's descriptors are still open. */
pid_t child_fork(struct init *in, on_exit_of *cb, void *arg, struct err *e);
/* Becomes the box's user for good: no capability, no way back. Exits if that fails. */
void child_become_user(const struct init *in);
void child_limit(const struct init *in); /* oom score, core size, open files; before child_become_user */
/* In a child: arranges descriptors, enters the directory, executes. Does not return. */
_Noreturn void child_exec(const struct child_opts *o);

/* Between hold and release what is forked begins on this processor: its parent is about to wait, and the kernel would
 * queue it behind whoever runs on another one. The child inherits that, so it releases, too. */
struct child_place {
    cpu_set_t processors; /* all that we may use */
    bool held;
};
void child_hold(struct child_place *p);
void child_release(const struct child_place *p);

void child_forget(struct init *in, pid_t pid); /* nobody waits for it any more; it is still reaped */
void child_reap(struct init *in);              /* after SIGCHLD */

/* The environment of the box's user, with `more` (NAME=value) last; in a. */
struct boot;
/* Once, at start: what the box's profile adds to every environment. */
void child_profile(const struct boot *b);
bool child_given(const struct pairs *env); /* variables of every program from now on; false: they were that before */
char **child_env(struct arena *a, bool root, const char *cwd, const struct pairs *more);

/* One persistent bash. It reads short lines from a pipe; a command's text is in a file that it sources, with stdin,
 * stdout and stderr redirected to named pipes, and a second line reports the exit status through a fourth. So the end
 * of a command is what bash says, never the end of its output.
 *
 *   DOWN --run--> RUNNING --status--> IDLE --run--> RUNNING
 *   RUNNING --blocked on stdin--> WAITING --input--> RUNNING      WAITING --status--> IDLE
 *   RUNNING, WAITING --timeout, kill--> ENDING --status--> IDLE   ENDING --500 ms--> bash killed --> DOWN
 *   RUNNING --bash asks for the next line, and told no status--> ENDING --bash killed--> DOWN
 *   any --bash exits--> DOWN
 */
#pragma once

#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"

struct init;
struct shell;
struct stream;

enum shell_end {
    SHELL_DONE,    /* the command ended, or the shell did */
    SHELL_WAITING, /* it reads from stdin; it is still there */
    SHELL_RUNNING, /* let_run, and the time is over */
    SHELL_TIMEOUT,
    SHELL_KILLED, /* by shell_kill */
    SHELL_BROKEN, /* bash could not be started */
    SHELL_RUINED, /* nor can it any more, though it could: the box has changed it, or what it needs */
    SHELL_LOST,   /* bash cannot run commands any more, or not say how they end: a new one will */
};

struct shell_report {
    enum shell_end end;
    int exit_code;
    bool interrupted; /* somebody called shell_interrupt */
    bool exited, restarted;
    const char *cwd;
    struct stream *out, *err, *background;
    uint64_t number;
};
typedef void on_report(void *arg, const struct shell_report *r); /* once per run or input */

struct shell_watch {    /* what a call wants of its command */
    int64_t timeout_ms; /* 0: none */
    bool let_run;       /* at the timeout report SHELL_RUNNING instead of ending the command */
    int64_t head_bytes, tail_bytes, kept_bytes;
    on_report *cb;
    void *arg;
};

struct shell_command {
    struct str text;
    struct str stdin_text; /* p NULL: stdin stays open and empty */
    struct str cwd;        /* p NULL: the shell's own */
    struct pairs env;
};

struct shell *shell_find(struct init *in, struct str name); /* NULL: no such shell */
struct shell *shell_get(struct init *in, struct str name, struct err *e);
/* Ends bash and all that it started; its name is free at once. */
void shell_close(struct init *in, struct str name);

/* A command that may be given now: 0. Else -EAGAIN and a message that says what is going on. */
int shell_check_free(const struct shell *s, struct err *e);
int shell_run(struct shell *s, const struct shell_command *c, const struct shell_watch *w, struct err *e);
/* Feeds a command that is under way and watches it again. */
int shell_input(struct shell *s, struct str data, bool eof, const struct shell_watch *w, struct err *e);
/* Of the output in that report, so many bytes at the ends were not passed on: the next report begins with them. Does
 * nothing a second time, nor if there was another report since. */
void shell_put_back(struct shell *s, uint64_t report, int64_t out, int64_t err);
/* As ^C would. 1: the call that watches the command will report its end; 0: nobody did, so w watches it now. */
int shell_interrupt(struct shell *s, const struct shell_watch *w, struct err *e);
int shell_kill(struct shell *s, const struct shell_watch *w, struct err *e); /* the command's tree; the same */

struct shell_info {
    const char *name, *state, *command, *cwd;
    int64_t pid;
};
struct shell_info shell_describe(const struct shell *s);
struct shell *shell_next(struct init *in, struct shell *s); /* NULL: the first; without closed ones */

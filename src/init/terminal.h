/* A terminal: bash on a pseudo terminal, by name. There are two ways in. A call gives it a command that has a
 * beginning, an end and a status (what the AIO surface calls a shell session); a person types, and sees everything.
 *
 * Bash is interactive. Before each prompt it looks whether a command waits for it in a file, sources it, and says so in
 * the stream itself, by an escape sequence that carries a number only we know; these never reach a reader. So output
 * and status are in order, programs have a real terminal, and what was typed and what was called share one shell.
 *
 *   DOWN --run--> STARTING --prompt--> IDLE --run--> BUSY --done, or a prompt--> IDLE
 *   BUSY --kill, hard timeout--> ENDING --prompt--> IDLE      any --bash exits--> DOWN
 *
 * Commands wait for each other. A terminal whose bash exited starts another with its next command. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/err.h"
#include "init/stream.h"

struct init;
struct terminal;

struct terminal_opts {
    struct str name; /* empty: a new one */
    const char *cwd; /* NULL: the box's home */
    int cols, rows;  /* 0: the default */
};
struct terminal *terminal_find(struct init *in, struct str name);
/* The one of that name, or a new one. One that was made without a name may be given up when there are too many. */
struct terminal *terminal_open(struct init *in, const struct terminal_opts *o, struct err *e);
void terminal_close(struct terminal *t); /* ends bash and all below it; commands end as terminated */
void terminal_warm(struct init *in);     /* one is started ahead, for the next who names none */
struct terminal *terminal_next(struct init *in, struct terminal *t); /* NULL: the first */

/* --- commands --- */

enum command_status { COMMAND_WAITING, COMMAND_RUNNING, COMMAND_COMPLETED, COMMAND_TERMINATED, COMMAND_HARD_TIMEOUT };

struct command { /* read only, except for who implements it */
    struct command *next;
    struct terminal *terminal;
    unsigned seq;
    char *text, *prompt;
    enum command_status status;
    int exit_code;
    bool shell_exited; /* it ended the shell; the next command has a fresh one */
    bool silent;       /* somebody stopped waiting because it said nothing; until it says something */
    struct stream out; /* without carriage returns before newlines */
    int64_t begun_us, last_output_us;
    struct command_wait *waits;
    char *script; /* until it begins */
    int64_t hard_ms;
};

struct command_ask {
    struct str text;
    const char *cwd;  /* NULL: where the shell is; it stays there afterwards */
    bool logical;     /* keep symbolic links of cwd in the shell's idea of where it is */
    struct pairs env; /* for this command only */
    int64_t hard_ms;  /* ended after so long; 0: never */
};
/* Begins at once or after those before it. A command that was found silent by whoever waited for it, and still is, is
 * ended first: it must not block the shell for ever. */
struct command *terminal_run(struct terminal *t, const struct command_ask *ask, struct err *e);
struct command *
terminal_last(const struct terminal *t); /* the one at work or next to begin, else the newest; NULL: none */
struct command *terminal_first(const struct terminal *t); /* the oldest that is kept, then ->next */
bool terminal_busy(const struct terminal *t);

enum command_news { NEWS_END, NEWS_TIME, NEWS_QUIET, NEWS_OUTPUT };
typedef void on_command(void *arg, struct command *c, enum command_news why); /* once */
struct command_wait_opts {
    int64_t ms;       /* < 0: no limit */
    int64_t quiet_ms; /* without output since it began or since the last; 0: no limit */
    bool output;      /* any output is enough */
    on_command *cb;
    void *arg;
};
void command_wait(struct command *c, const struct command_wait_opts *o); /* never calls back before it returns */
void command_unwait(struct init *in, void *arg);
void command_kill(struct command *c); /* ends it and its children; its wait says when */

/* --- the keyboard and the screen --- */

int terminal_type(struct terminal *t, struct str bytes, struct err *e);
int terminal_type_end(struct terminal *t, struct err *e); /* control-D, so that whoever reads finds the end */
bool terminal_at_prompt(const struct terminal *t);        /* bash itself is in front, not a program */
void terminal_resize(struct terminal *t, int cols, int rows);
/* What was written, by its place in the whole; the oldest may be gone: then *offset moves. */
struct str terminal_read(const struct terminal *t, int64_t *offset, size_t max, struct arena *a);
struct terminal_listener { /* embedded in who listens; called for output and, with n 0, when the terminal is closed */
    struct terminal_listener *next;
    void (*on_bytes)(struct terminal_listener *l, const char *p, size_t n);
};
void terminal_listen(struct terminal *t, struct terminal_listener *l);
void terminal_unlisten(struct terminal *t, struct terminal_listener *l);

struct terminal_info {
    const char *name, *cwd;
    bool up, busy, named;
    pid_t pid;
    int64_t created_us, last_us; /* wall */
    int64_t total;               /* bytes of output so far */
    int64_t no_change_ms;
    int cols, rows;
};
struct terminal_info terminal_describe(const struct terminal *t);
void terminal_keep(struct terminal *t); /* its user counts on it: it is never given up for another */
void terminal_set_no_change(struct terminal *t, int64_t ms);

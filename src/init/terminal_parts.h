/* What terminal.c (bash and its pseudo terminal) and terminal_command.c (commands and who waits for them) share. */
#pragma once

#include "base/buf.h"
#include "base/loop.h"
#include "init/proc.h"
#include "init/terminal.h"

enum terminal_state { TERMINAL_DOWN, TERMINAL_STARTING, TERMINAL_IDLE, TERMINAL_BUSY, TERMINAL_ENDING };

struct terminal {
    struct init *init;
    struct terminal *next;
    char *name;
    bool named; /* by the client, who counts on it */
    char dir[32];
    char nonce[17];
    enum terminal_state state;
    pid_t pid;
    int pty;
    struct loop_fd *watch;
    char *cwd, *first_cwd;
    int cols, rows;
    bool typed; /* since the last prompt somebody used the keyboard */
    bool closing;
    bool spare;       /* waits, already started, for whoever names none */
    struct buf input; /* typed, not taken by the pseudo terminal yet */
    struct buf early; /* typed for a command that has not begun */
    bool open_line;   /* the last key was not Enter */
    bool full;        /* it takes no more: the loop watches for room */

    char *ring; /* the last LIMIT_TERMINAL_KEPT bytes of output */
    int64_t total;
    struct buf held; /* the beginning of what may be a mark */
    struct terminal_listener *listeners;

    struct command *commands; /* oldest first */
    struct command *current;  /* begun or about to; NULL: none */
    size_t kept;
    unsigned seq;
    bool cr; /* the last byte of output was a carriage return that was held back */
    struct loop_timer *hard, *ending;
    int64_t ending_since_ms;
    char *before; /* bash's children when the command began */
    uint64_t before_tick;
    struct procs doomed;
    enum command_status why;
    int64_t created_us, last_us, no_change_ms;
};

int terminal_start(struct terminal *t, struct err *e);
void terminal_press(struct terminal *t, const char *keys);
void terminal_type_early(struct terminal *t); /* what was typed for a command that has begun now */

void commands_init(struct terminal *t);
void commands_done(struct terminal *t);
void commands_next(struct terminal *t); /* begins the next one, if the shell is free */
void commands_output(struct terminal *t, const char *p, size_t n);
void commands_mark(struct terminal *t, char kind, char *text); /* 'B'egun, 'D'one, 'I'dle */
void commands_shell_gone(struct terminal *t, int exit_code);

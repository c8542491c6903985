/* What init says to bash: lines for its stdin, and the files that these lines name, all in the shell's directory; and
 * what bash answers. */
#pragma once

#include "base/buf.h"
#include "base/err.h"

struct shell_command;

int line_put_command(int fd, struct str text, struct err *e); /* into the file "cmd", which stays open */
/* The line that runs the file "cmd" with its three streams at the pipes "in", "out" and "err" (or stdin from a file).
 * last_exit is what $? is to be at its beginning. */
int line_add_command(struct buf *b, const char *dir, const struct shell_command *c, int last_exit, struct err *e);

struct line_status {
    unsigned number;
    const char *back_to; /* a directory; NULL: stays */
    bool builtins;       /* tell which ones are disabled, in lines in front of the directory */
    bool failed;         /* the status is 1; else $? */
};
/* The line that goes back to a directory and reports number, status and directory to the pipe "st". */
void line_add_status(struct buf *b, const char *dir, const struct line_status *l);

struct line_report {
    unsigned number;
    int status;
    bool crippled;   /* builtins are disabled that we need */
    const char *cwd; /* borrowed from the record */
};
/* What such a line said, without the NUL at its end. False: that was something else. */
bool line_read_status(const char *record, struct line_report *ret);

/* Text without what may differ between two runs of the same thing: times, process ids, temporary names ...
 *
 * Rules have names, are applied line by line in their order, and can be switched; users add regular expressions. A
 * difference that the rules remove is benign, and the report says which rules it were. */
#pragma once

#include <regex.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"

enum { CANON_PATTERNS = 8, CANON_IGNORES = 64 };

enum canon_when {
    WHEN_ALWAYS,
    WHEN_GIT, /* without asking ok(), if the command calls git; else only if ok() says so */
    WHEN_PID, /* only if the command asks for process ids */
};

struct canon_rule {
    const char *name, *about;
    bool on;                                         /* unless switched */
    const char *patterns[CANON_PATTERNS];            /* POSIX extended */
    const char *to;                                  /* what a match becomes */
    bool (*ok)(struct str match);                    /* nullable: is it really one? */
    void (*line)(struct arena *a, struct str *line); /* instead of patterns */
    enum canon_when when;
    bool files; /* of states; done by the comparison */
    bool sorts; /* the order of all lines is not looked at; done by the comparison */
};
extern const struct canon_rule canon_rules[]; /* the last has no name */
enum { CANON_RULES_MAX = 31 };                /* as bits; the next one stands for the user's own */
#define CANON_USER (1u << CANON_RULES_MAX)

struct canon;
struct canon *canon_new(void);
void canon_free(struct canon *c);                                            /* accepts NULL */
int canon_switch(struct canon *c, const char *name, bool on, struct err *e); /* ERR_NOT_FOUND lists the names */
/* What was run: the output of a command that calls git has commits where others have numbers, and so on. */
void canon_hint(struct canon *c, struct str args);
int canon_ignore(struct canon *c, const char *regex, struct err *e);
unsigned canon_bit(const char *name);
bool canon_is_on(const struct canon *c, const char *name);
/* Only the rules that remove times, whatever is switched: to tell whether a difference is one of the clock. */
struct str canon_times(const struct canon *c, struct arena *a, struct str line);

/* One line, without its newline. *rules gets the bits of those that changed it. *ret_gone: the user's expressions
 * matched all of it, so the line is not there at all. */
struct str canon_line(const struct canon *c, struct arena *a, struct str line, unsigned *rules, bool *ret_gone);
void canon_names(unsigned rules, struct buf *out); /* "time, pid" */

/* What the commands share: their table, options, exit codes, and the conversation with the server. */
#pragma once

#include <stdio.h>

#include "base/json.h"

enum exit_code { /* docs/cli.md */
                 EXIT_FINE = 0,
                 EXIT_FAILED = 1, /* what was asked for ran, and failed */
                 EXIT_USAGE = 2,
                 EXIT_UNREACHABLE = 3, /* no server there */
                 EXIT_REFUSED = 4,     /* the server said no */
                 EXIT_NOT_FOUND = 5,
                 EXIT_TIMEOUT = 6,
                 EXIT_EXEC_TIMEOUT = 124, /* exec only, as timeout(1) and ssh-like programs do */
                 EXIT_EXEC_OWN = 125,     /* exec only: not the command failed, but what should have run it */
};

struct command {
    const char *name, *words;                                     /* "exec", "BOX [--] COMMAND..." */
    const char *about;                                            /* a line */
    const char *more;                                             /* nullable: paragraphs for --help */
    const char *examples;                                         /* lines */
    const char *codes;                                            /* nullable: exit codes, if not those of most */
    int (*run)(const struct command *cmd, int argc, char **argv); /* returns the exit code */
    bool hidden;
    bool remote; /* talks to a server, so it has --url */
};

extern const struct command command_serve, command_doctor, command_tools, command_create, command_exec, command_list,
    command_show, command_destroy, command_pause, command_resume, command_log, command_top, command_version,
    command_replay, command_export, command_import, command_annotate, command_prune, command_snapshot, command_restore,
    command_reset, command_fork, command_states, command_gc, command_diff, command_checkout, command_role,
    command_config, command_mcp, command_knowlyr, command_key, command_routes;

extern const char *cli_program; /* by what name we were called, for messages */

/* ---- options ---- */

enum option_type { OPTION_FLAG, OPTION_TEXT, OPTION_LIST };
enum { OPTION_LIST_MAX = 64 };

struct option_list {
    const char *v[OPTION_LIST_MAX];
    size_t n;
};
struct option {
    const char *name; /* "timeout": --timeout */
    char letter;      /* 0: none */
    enum option_type type;
    void *to; /* bool *, const char **, struct option_list * */
    const char *arg, *help;
};
struct words { /* what is left of the command line */
    char **v;
    int n;
    int dashed; /* how many of them stand before "--"; -1: there was none */
    bool json;
    const char *url;
};
enum { OPTIONS_OK = -1 };

/* OPTIONS_OK, or the exit code with which to end: after --help, or after a message about wrong usage.
 * Options end at "--", and behind the stop_after-th word if that is not 0. argv is reordered. */
int options_parse(const struct command *cmd, const struct option *rows, int stop_after, int argc, char **argv,
                  struct words *ret);
int usage_error(const struct command *cmd, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void complain(const char *fmt, ...) __attribute__((format(printf, 1, 2))); /* "sandglass: ..." on stderr */

/* ---- the server ---- */

struct api {
    const char *url;
    bool json;      /* answers and errors go out as they came */
    int timeout_ms; /* of one answer; 0: none */
    struct arena arena;
    struct buf text; /* the last answer */
};
void api_init(struct api *a, const struct words *w);
void api_done(struct api *a);

/* 0 with the parsed answer, valid until the next call (ret may be NULL); else an exit code, the message being out
 * already. body: JSON text or absent. */
int api_call(struct api *a, const char *method, const char *path, struct str body, const struct json **ret);
int api_get(struct api *a, const char *path, const struct json **ret);
/* As api_get, but a 404 is no message: *ret becomes NULL. */
int api_try(struct api *a, const char *path, const struct json **ret);
char *api_path(struct api *a, const char *before, const char *id, const char *after); /* id escaped; in the arena */
/* The message and exit code of an answer that is no 2xx, whose body was not read yet. */
struct client;
int api_refused(struct api *a, struct client *c);
void api_print(const struct api *a); /* the last answer, a line on stdout */
void print_line(struct str json);    /* any JSON, alike: its line breaks can only be white space */

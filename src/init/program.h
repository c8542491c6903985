/* A program that a hand runs for one call: its output is bounded, and nothing of it outlives the call. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"

struct hand;

typedef bool on_output(void *arg, const char *p, size_t n); /* false: enough, end the program */

struct program_opts {
    const char *const *argv; /* argv[0] without a slash is looked up in BOX_PATH */
    const char *cwd;
    const struct pairs *env;   /* more variables; NULL: none */
    struct str input;          /* what it reads; p NULL: nothing */
    int socket;                /* > 0: its stdin and stdout, instead of input and out */
    int64_t deadline_ms;       /* monotonic; its whole tree is killed then. 0: none */
    size_t head_max, tail_max; /* how much of each stream is returned */
    int64_t memory_bytes;      /* of data that each of its processes may have; 0: no limit */
    double cpu_s;              /* of processor time of each; 0: no limit */
    on_output *on_stdout;      /* nullable: is given stdout instead */
    void *arg;
};

struct program_end {
    struct str out, err; /* in the hand's arena; a line says how much is missing */
    int64_t out_bytes, err_bytes, dropped_bytes;
    int exit_code; /* 128 + sig if a signal ended it */
    int sig;
    bool timed_out, stopped; /* stopped: on_stdout had enough */
    int64_t run_us, cpu_us, peak_bytes;
};

/* ERR_NOT_FOUND: there is no such program in the box. A program that fails is no error here. */
int program_run(struct hand *h, const struct program_opts *o, struct program_end *ret, struct err *e);

int program_find(const char *name, struct err *e); /* ERR_NOT_FOUND: there is none in BOX_PATH */

/* A program that could not write because the disk is full says so; then look whether it is. */
bool program_disk_full(struct str said);
/* Bytes in use on the disk of the box, or at_least if that is more. FIELD_ABSENT, the least of all: not known. */
int64_t program_disk_used(int64_t at_least);

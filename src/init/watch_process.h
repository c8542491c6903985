/* The process behind a watcher: watch_process.c. It writes records to a pipe and never returns. */
#pragma once

#include "init/watches.h"

struct watch_record { /* then path_n bytes of path, old_n bytes of the old path */
    uint8_t kind;     /* enum watch_type; 'R'eady, 'O'verflow, 'E'rror, 'B'usy: path is the text */
    uint8_t is_dir;
    uint16_t path_n, old_n;
    int64_t mtime_us, size;
    uint64_t inode;
};

_Noreturn void watch_process(const struct watch_opts *o, int out);

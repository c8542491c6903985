/* Watching files: each watcher is a process of the box's user with an inotify descriptor, which may block and may
 * crash; init keeps what it tells, numbered, until somebody asks. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"

struct init;
struct watcher;

enum watch_type { WATCH_CREATE, WATCH_WRITE, WATCH_REMOVE, WATCH_RENAME, WATCH_CHMOD, WATCH_TYPES };
extern const char *const watch_type_names[WATCH_TYPES];

struct watch_opts {
    const char *path; /* absolute */
    bool recursive;
    int64_t debounce_ms; /* writes to one file in so short a time are one */
    struct strs exclude, include;
    bool hidden; /* for one call; not listed, not shared */
};

struct watch_event {
    int64_t seq, time_us, mtime_us, size;
    uint64_t inode;
    enum watch_type type;
    bool is_dir;
    char *path, *old_path; /* old_path: nullable */
};

struct watch_state {
    const char *id, *path;
    bool recursive, lost, busy;              /* lost: its process ended; busy: since the kernel gives no more */
    int64_t created_us, last_seq, first_seq; /* first_seq: the oldest event that is kept */
    unsigned users;
    const char *trouble; /* nullable: what it could not watch */
};

/* One with the same options is shared: *ret_reused. */
struct watcher *watch_open(struct init *in, const struct watch_opts *o, bool *ret_reused, struct err *e);
struct watcher *watch_find(struct init *in, struct str id);
struct watcher *watch_next(struct init *in, struct watcher *w); /* NULL: the first */
void watch_close(struct watcher *w);                            /* one user less; the last one ends it */
struct watch_state watch_describe(const struct watcher *w);
const struct watch_event *watch_event(const struct watcher *w, int64_t after); /* the first one behind it; NULL: none */

/* cb is called once: there is an event behind `after`, or the time is over, or the watcher ended. */
typedef void on_watch(void *arg, struct watcher *w);
void watch_wait(struct watcher *w, int64_t after, int64_t ms, on_watch *cb, void *arg);
void watch_unwait(struct init *in, void *arg);

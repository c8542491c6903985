/* Reading /proc: which processes are below which, what they are waiting for; and killing whole trees. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct init;

struct proc {
    pid_t pid, ppid;
    uint64_t start; /* clock ticks since boot; with pid it names a process for good */
    char state;
    bool inside; /* of the tree that was asked for */
};

struct procs {
    struct proc *v; /* sorted by pid */
    size_t n;
};

/* A tree: root's descendants, but not those below a child that was there before. Root itself is not in it. */
struct tree {
    pid_t root;
    const char *before;       /* pids of root's earlier children, as proc_children() wrote them; NULL: none */
    uint64_t before_tick;     /* when that was */
    const struct procs *also; /* an earlier scan: who was inside then, still is, with its children; NULL: none */
};

int procs_scan(struct init *in, const struct tree *t, struct procs *ret); /* marks what is inside t */
void procs_done(struct procs *p);

int64_t
procs_memory(void); /* bytes that all processes of the box have for themselves; what forks share counts for each */
uint64_t proc_tick(void); /* now, in the unit of proc.start */
/* The children of a process with one thread, as "12 34 "; the caller frees. NULL: none, or gone. */
char *proc_children(pid_t pid);
char *proc_cwd(pid_t pid); /* the caller frees; NULL: gone */

int64_t proc_files_max(pid_t pid); /* RLIMIT_NOFILE; that of another user is not for prlimit() to tell. -1: not known */

/* Signals exactly that process, never one that took its pid. */
void proc_signal(const struct proc *p, int sig);
size_t procs_signal(const struct procs *p, int sig);                /* those inside */
size_t tree_signal(struct init *in, const struct tree *t, int sig); /* how many were there */
/* Stops every process of the tree, then kills all. False: some were still there after many rounds. */
bool tree_kill(struct init *in, const struct tree *t);

/* Is this process, which has one thread, blocked reading the pipe that ino names? */
bool proc_reads(pid_t pid, dev_t dev, ino_t ino);
/* Is somebody of the tree, or root, blocked reading the fifo that ino names, and nobody else at work? */
bool tree_reads(struct init *in, const struct tree *t, dev_t dev, ino_t ino);

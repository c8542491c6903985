/* A program that a driver keeps: a Jupyter kernel, an interpreter. It is a child of the driver, or of a fork server. */
#pragma once

#include <sys/types.h>

#include "init/hand.h"
#include "init/pyserver.h"

struct peer {
    pid_t pid;         /* 0: there is none */
    int pidfd;         /* readable when it has ended */
    int server;        /* to the fork server that is its parent; -1: it is our child */
    int ctl, out, err; /* our ends; ctl is its descriptor 3. -1: none */
    int status;        /* once it has ended, as from waitpid(); -1: not known */
    char tail[2048];   /* of what it wrote to err, if peer_drain() read it */
    size_t tail_n;
};

struct peer_ask {
    const char *const *argv; /* without a server, or if the server does not answer; argv[0] is looked up in BOX_PATH */
    const char *cwd;
    const struct pairs *env;
    bool control;                /* it gets descriptor 3 */
    const char *server;          /* socket of a fork server; NULL: none */
    bool only_server;            /* it must come from there: there is no other way to have it */
    const char *connection_file; /* for a kernel; NULL: a context */
};

int peer_start(struct hand *h, struct peer *p, const struct peer_ask *ask, struct err *e);
bool peer_ended(struct peer *p);                              /* looks; then p->status is set and pid still names it */
bool peer_wait(const struct peer *p, int ms);                 /* until it has ended */
void peer_signal(const struct peer *p, int sig);              /* the whole group */
void peer_end(struct hand *h, struct peer *p);                /* kills it with all that it started, closes everything */
void peer_drain(struct peer *p);                              /* reads out and err, keeps the end of err */
struct str peer_story(const struct peer *p, struct arena *a); /* "ended by SIGKILL", "exit status 3: last line" */
